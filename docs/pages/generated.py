# SPDX-License-Identifier: Apache-2.0
"""All pages that are made from the code without a node, with where they stand below docs/."""

from __future__ import annotations

from pathlib import Path

from faults import page as faults_page

from pages import commands, fault_pages, interfaces, mujoco_page, paper_results, papers, trust_page
from pages import robot_file as robot_file_page
from pages.citations import PAPERS


def pages_of_code(root: Path) -> dict[str, str]:
    """Pages by their path below docs/; that of the parameters comes from the nodes, see parameters.py.

    Parameters
    ----------
    root : folder of the repository
    """
    docs = root / "docs"
    mujoco = (docs / "how-to" / "mujoco.md").read_text(encoding="utf-8")
    found = {
        "reference/robot_file.md": robot_file_page.page(),
        "reference/faults.md": faults_page.page(),
        "reference/messages.md": interfaces.page(root),
        "reference/command_line.md": commands.page(),
        "how-to/mujoco.md": mujoco_page.page(mujoco, docs / "numbers"),
        "trust.md": trust_page.page((docs / "trust.md").read_text(encoding="utf-8")),
        **fault_pages.pages(),
    }
    numbers = docs / "papers" / "numbers"
    found["papers/index.md"] = paper_results.overview(numbers)
    for paper in PAPERS:
        path = f"papers/{paper}.md"
        found[path] = papers.page((docs / path).read_text(encoding="utf-8"), paper, numbers, docs / "images")
    return found
