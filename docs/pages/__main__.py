# SPDX-License-Identifier: Apache-2.0
"""``make pages``: writes every page of docs/ that is made from the code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pages import parameters
from pages.generated import pages_of_code

ROOT = Path(__file__).resolve().parents[2]
OWN_DOMAIN = "97"
"""Of DDS: nodes are started, which a running stack would take for another one."""


def main() -> None:
    """Write what has changed, and name it."""
    os.environ.setdefault("ROS_DOMAIN_ID", OWN_DOMAIN)
    docs = ROOT / "docs"
    for path, text in {**pages_of_code(ROOT), "reference/parameters.md": parameters.page()}.items():
        file = docs / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"docs/{path}\n")


if __name__ == "__main__":
    main()
