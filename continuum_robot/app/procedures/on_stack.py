# SPDX-License-Identifier: Apache-2.0
"""``controller``, ``learn-floor`` and ``weigh``: what is asked of a running stack, with progress."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from continuum_robot.action import LearnFloor
from continuum_robot.app.client.robot import Robot
from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.output import say, write_json
from continuum_robot.errors import ParameterError
from continuum_robot.identification.weighing import Turn, WeighingModel, weigh
from continuum_robot.identification.weighing_motion import WeighingMotion
from continuum_robot.srv import SwitchController


def run_controller(name: str, namespace: str) -> int:
    """Switch where a name is given, and say which controller commands then."""
    with contextlib.closing(StackLink(namespace, "controller_command")) as link:
        if name:
            link.switch_controller(name)
        answer = link.call(SwitchController, "switch_controller")
    say(Console(), f"{answer.active or 'none'} commands the tendons; available: {', '.join(answer.available)}")
    return 0


def run_learn_floor(duration_s: float, namespace: str, *, only_if_missing: bool) -> int:
    """Let the contact monitor learn from free motion, and say what it learnt."""
    console = Console()
    link = StackLink(namespace, "learn_floor_command")
    with contextlib.closing(link), Progress(console=console, transient=True) as bar:
        task = bar.add_task("free motion", total=1.0)

        def tell(feedback: LearnFloor.Feedback) -> None:
            words = f"{feedback.state or 'waiting'}, {feedback.ratio:.2f} of the threshold"
            bar.update(task, completed=feedback.progress, description=words)

        result = link.learn_floor(duration_s, only_if_missing=only_if_missing, on_feedback=tell)
    say(console, result.message)
    return 0


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
    say(
        console,
        f"payload {1e3 * found.payload_kg:.3g} g, standard deviation {1e3 * found.deviation_kg:.2g} g; the rod is "
        f"{found.stiffness_ratio:.3g} times as stiff as in its file. In the robot file:\n\n"
        f"payload_kg: {found.payload_kg:.4g}\n\nor for one run: up --payload-kg {found.payload_kg:.4g}\n",
    )
    write_json(json_file, dataclasses.asdict(found))
    return 0


def _turn(robot: Robot, motion: WeighingMotion, what: str, console: Console) -> Turn:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"turns {what}", total=motion.duration_s)
        return robot.turn_to_weigh(motion, lambda time_s: bar.update(task, completed=time_s))
