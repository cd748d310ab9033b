# SPDX-License-Identifier: Apache-2.0
"""The options of ``continuum-robot view``, and those of the page that ``up`` and ``demo`` have too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from continuum_robot.nodes.stack.option_list import DEMO, UP, VIEW, option

PAGE = "Page in the browser"


@dataclass(frozen=True, kw_only=True)
class PageFields:
    """Who may do what on the page."""

    view_only: bool = option(
        "The page shows the robot and takes no orders from any browser",
        default=False,
        flags=("--view-only",),
        group=PAGE,
        at=f"{UP} {DEMO} {VIEW}",
    )
    allow_origin: list[str] | None = option(
        "A further address under which browsers reach the page, of a tunnel or a proxy, such as "
        "http://127.0.0.1:9000 or https://robot.example; may be given several times. The token is needed all the same",
        default=None,
        group=PAGE,
        metavar="ORIGIN",
        at=f"{UP} {DEMO} {VIEW}",
    )


@dataclass(frozen=True, kw_only=True)
class ViewOptions(PageFields):
    """Of ``view``."""

    robot_or_runs: list[str] | None = option(
        "Of a running robot its file, or the name of a shipped one; without: what the running stack reports. Or "
        "recordings: folders of runs, of recordings, or .mcap files; several are shown side by side on one time",
        default=None,
        at=VIEW,
    )
    robot: str = option(
        "Robot file of recordings, in place of the recorded one", default="", metavar="FILE", at=VIEW
    )
    namespace: str = option("ROS namespace of the stack", default="", metavar="NS", at=VIEW)
    port: int = option(
        "Port of the page; 0: 8080, or the next that is free", default=0, ge=0, le=65535, metavar="N", at=VIEW
    )
    folder: Path = option("Where recordings go that the page begins", default=Path("runs"), metavar="DIR", at=VIEW)
