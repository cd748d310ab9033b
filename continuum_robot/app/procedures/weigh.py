# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot weigh``: a running stack weighs what its tip carries, with progress."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.output import write_json
from continuum_robot.errors import ParameterError
from continuum_robot.identification.weighing import Turn, WeighingModel, weigh
from continuum_robot.identification.weighing_motion import WeighingMotion


def run_weigh(
    radius_m: float, period_s: float, turns: int, bending_order: int, namespace: str, json_file: Path | None
) -> int:
    """Turn without payload, wait for a key, turn with it, and say what it weighs."""
    if not sys.stdin.isatty():
        raise ParameterError("weigh", "no terminal", "a terminal: it waits for a key until the payload is fixed")
    console = Console()
    with Robot.connect(namespace) as robot:
        WeighingModel(robot.description, bending_order)  # what it cannot weigh is reported before anything moves
        motion = robot.weighing_motion(radius_m or None, period_s=period_s, turns=turns)
        empty = _turn(robot, motion, "without payload", console)
        console.input("Fix the payload to the tip, then press Enter ")
        loaded = _turn(robot, motion, "with payload", console)
        found = weigh(robot.description, empty, loaded, bending_order)
    console.print(
        f"payload {1e3 * found.payload_kg:.3g} g, standard deviation {1e3 * found.deviation_kg:.2g} g; the rod is "
        f"{found.stiffness_ratio:.3g} times as stiff as in its file. In the robot file:\n\n"
        f"payload_kg: {found.payload_kg:.4g}\n\nor for one run: up --payload-kg {found.payload_kg:.4g}\n",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if json_file is not None:
        write_json(json_file, dataclasses.asdict(found))
    return 0


def _turn(robot: Robot, motion: WeighingMotion, what: str, console: Console) -> Turn:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"turns {what}", total=motion.duration_s)
        return robot.turn_to_weigh(motion, lambda time_s: bar.update(task, completed=time_s))
