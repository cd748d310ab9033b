# SPDX-License-Identifier: Apache-2.0
"""The options of ``continuum-robot up`` and ``demo``: those of every stack, of the page, and their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from continuum_robot.app.view.options import PAGE, PageFields
from continuum_robot.nodes.stack.option_list import DEMO, UP, StackFields, faces, option

RECORDING = "Recording"
RUNS = Path("runs")
RESPAWNS = 5
"""How often a process that ends by itself is started again, unless asked otherwise."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(StackFields, PageFields):
    """What both commands offer beside those of every stack."""

    folder: Path = option(
        "Folder of recordings and reports, each in a folder named by the date",
        default=RUNS,
        group=RECORDING,
        metavar="DIR",
        at=f"{UP} {DEMO}",
    )
    view: bool = option(
        "Also show the robot on a page in the browser, at 127.0.0.1 only", default=True, group=PAGE, at=f"{UP} {DEMO}"
    )


@dataclass(frozen=True, kw_only=True)
class UpOptions(RunOptions):
    """Of ``up``; without ``start`` a simulated robot starts its trajectory, and a robot on its bus holds."""

    processes: bool = option(
        "Driver and controller, simulator, estimators and recorder each in a process of their own, or all in this one",
        default=True,
        flags=("--processes/--composed",),
        at=UP,
    )
    start: bool | None = option(
        "Play the trajectory once the stack is up, or hold until a motion is started. Without either a simulated robot "
        "starts, and a robot on its bus holds",
        default=None,
        flags=("--start/--hold",),
        at=UP,
    )
    record: bool = option("Record all topics", default=False, group=RECORDING, at=UP)
    respawn: int = option(
        "How often a process that ends by itself is started again; a reset then brings the stack up",
        default=RESPAWNS,
        ge=0,
        le=9999,
        at=UP,
    )


@dataclass(frozen=True, kw_only=True)
class DemoOptions(RunOptions):
    """Of ``demo``."""

    duration_s: float = option(
        "How long to track the trajectory, s",
        default=30.0,
        ge=1.0,
        le=86400.0,
        metavar="S",
        at=faces(DEMO, name="duration"),
    )
    touched_by: str | None = option(
        "Obstacles push on the robot meanwhile: those of FILE, or those shipped for the robot. The report then lists "
        "what was detected",
        default=None,
        metavar="[FILE]",
        at=faces(DEMO, name="contact"),
    )
