# SPDX-License-Identifier: Apache-2.0
"""What the demo, ``up``, the bench and the launch files share: checks before a start, and nodes as processes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rich.console import Console

from continuum_robot.app.output import say
from continuum_robot.app.running.simulation_level import (
    AUTO,
    DYNAMICS,
    LOCKSTEP,
    MUJOCO,
    REAL,
    choose_clock,
    choose_level,
)
from continuum_robot.drivers import backends
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.spinning import BRING_DOWN_S
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.simulation.mujoco.world import load_world
from continuum_robot.simulation.truth import NO_TRUTH, shipped_truths, true_robot, truth_file

SUPERVISOR = "supervisor"
STOP_S = 2 * BRING_DOWN_S
"""For all but the ramp that a program does before it ends, on a busy machine too."""


def load_for_stack(options: StackOptions) -> Robot:
    """The robot of a stack with what its tip carries, checked for what the stack needs."""
    robot = load_robot(options.robot)
    if options.payload_kg >= 0:
        robot = robot.carrying(options.payload_kg)
    needed = ["actuators", "limits", *(["control"] if options.controller != "none" else [])]
    missing = [section for section in needed if getattr(robot, section) is None]
    if missing:
        raise ParameterError(
            "robot", robot.file_name or robot.name, f"a robot file with the sections {', '.join(missing)}"
        )
    if not options.simulated:
        backends.hardware_of(robot)
    return robot


def tell_truth(options: StackOptions, robot: Robot, console: Console) -> str:
    """Say which robot is simulated, the robot file's or another one."""
    if not options.simulated:
        return NO_TRUTH
    file = truth_file(robot, options.truth) if true_robot(robot, options.truth) is not robot else NO_TRUTH
    line = f"simulated is {file}, which driver and controller do not know"
    if file == NO_TRUTH:
        shipped = robot.name in shipped_truths()
        other = f"; --truth {robot.name}: one with errors of the size of a real robot's" if shipped else ""
        line = f"simulated is the robot file itself{other}"
    say(console, line)
    return file


def with_simulation_level(options: StackOptions, robot: Robot) -> tuple[StackOptions, str, str]:
    """The same stack with a level and a clock that its nodes know in place of auto, and its devices in words.

    Where this machine is too slow for real time a sentence about it comes third, else an empty one.
    """
    if options.simulated:
        name, world = with_world(options.simulation_level, options.world)
        options = dataclasses.replace(options, simulation_level=name, world=world)
        level = choose_level(options.simulation_level, robot, real_time=options.clock != LOCKSTEP, world=world)
        clock, sentence = choose_clock(options.clock, level)
        return (
            dataclasses.replace(options, simulation_level=level.name, clock=clock),
            f"simulated: {level.reason}",
            sentence,
        )
    # The level is about simulated hardware only; the nodes take one all the same.
    name = DYNAMICS if options.simulation_level == AUTO else options.simulation_level
    return dataclasses.replace(options, simulation_level=name, clock=REAL), "hardware", ""


def with_world(simulation_level: str, world: str) -> tuple[str, str]:
    """Level and world file of a simulated stack, the file by its whole path and checked."""
    if not world:
        return simulation_level, world
    if simulation_level not in (AUTO, MUJOCO):
        raise ParameterError("world", world, f"no world at level {simulation_level}: obstacles need {MUJOCO}")
    file = Path(world)
    if not file.is_file() and file.name == world:
        file = shipped_file(f"worlds/{file.name if file.suffix else file.name + '.yaml'}")
    load_world(file)
    return MUJOCO, str(file.resolve())


def stop_grace_s(robot: Robot) -> float:
    """How long a program of the stack may take from a signal to its end: the ramp to the safe tension has to
    fit in, s.
    """
    ramp_s = 0.0 if robot.limits is None else robot.limits.longest_ramp_s
    return STOP_S + ramp_s


def absolute_robot(options: StackOptions) -> StackOptions:
    """The same stack with its robot's file by its whole path: a process may be started in another folder."""
    return dataclasses.replace(options, robot=str(find_robot_file(options.robot).resolve()))


def node_parameters(options: StackOptions) -> dict[str, dict[str, object]]:
    """ROS parameters of every node when each is a process, the supervisor last."""
    options = absolute_robot(options)
    parameters = {node: options.parameters_of(node) for node in (*options.node_names, SUPERVISOR)}
    parameters[SUPERVISOR]["exit_on_failed_start"] = True
    return parameters
