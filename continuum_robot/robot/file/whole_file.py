# SPDX-License-Identifier: Apache-2.0
"""Writing a file in one step."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader never sees half of it, and an old one stays where that fails.

    Parameters
    ----------
    path : made with its folders, or replaced
    text : written as UTF-8

    Raises
    ------
    OSError : it cannot be written; nothing is left behind
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
