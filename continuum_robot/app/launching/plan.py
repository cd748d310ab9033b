# SPDX-License-Identifier: Apache-2.0
"""From the arguments of a launch file to the programs to start, without launch itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from continuum_robot.app.running.stack import (
    SUPERVISOR,
    load_for_stack,
    node_parameters,
    stop_grace_s,
    with_simulation_level,
)
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.stack.options import CONTROL_LOOP, IN_CYCLE, MANAGED_NODES, StackOptions
from continuum_robot.robot.loading import find_robot_file


@dataclass(frozen=True)
class Program:
    """A program of the package and what it is started with.

    Attributes
    ----------
    executable : its name in the package
    node : name of its node; None: it makes several, and names them itself
    parameters : ROS parameters
    nodes : names of all its nodes
    grace_s : how long it may take from one signal to its end before the next one comes, s
    respawns : how often it is started again where it ends by itself
    """

    executable: str
    node: str | None
    parameters: Mapping[str, object]
    nodes: tuple[str, ...]
    grace_s: float
    respawns: int = 0


def programs_of_stack(given: Mapping[str, str]) -> list[Program]:
    """What ``sim.launch.py`` and ``hardware.launch.py`` start; without the last nobody brings the others down in order.

    Parameters
    ----------
    given : value by the argument's name, all of :func:`continuum_robot.app.launching.arguments.stack_arguments`

    Raises
    ------
    RobotFileError : the robot file cannot be used, or lacks the hardware that it is asked for
    ParameterError : a value that does not fit the robot, or a file that is not there
    """
    options = _options(given)
    robot = load_for_stack(options)
    options, *_ = with_simulation_level(options, robot)
    grace_s = stop_grace_s(robot)
    if given["params_file"]:
        ParamsFile(given["params_file"]).check_sections((*MANAGED_NODES, SUPERVISOR))
    if given["composed"] == "true":
        names = (*options.node_names, SUPERVISOR)
        return [Program("composition", None, _composed_parameters(options, given), names, grace_s)]
    return _programs(options, grace_s, _respawns(given))


def _respawns(given: Mapping[str, str]) -> int:
    text = given["respawn"]
    if not text.isdecimal() or len(text) > 4:
        raise ParameterError("respawn", text, "a whole number from 0 to 9999")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(name, text, "a number") from None


def _programs(options: StackOptions, grace_s: float, respawns: int) -> list[Program]:
    """A program a node; driver and controller share one where the controller is in the driver's cycle.

    The supervisor is never started again: with it the whole launch ends.
    """
    parameters, programs = node_parameters(options), []
    together = [name for name in options.groups().get(CONTROL_LOOP, ()) if options.controller in IN_CYCLE]
    for name, own in parameters.items():
        if len(together) < 2 or name not in together:
            again = 0 if name == SUPERVISOR else respawns
            programs.append(Program(name, name, own, (name,), grace_s, again))
        elif name == together[0]:
            union: dict[str, object] = {}
            for node in together:
                union |= parameters[node]
            programs.append(Program(CONTROL_LOOP, None, union, tuple(together), grace_s, respawns))
    return programs


def _options(given: Mapping[str, str]) -> StackOptions:
    return StackOptions(
        robot=given["robot"],
        simulated=(given["use_mock_hardware"] or given["use_fake_hardware"]) == "true",
        simulation_level=given["simulation_level"],
        world=given["world"],
        truth=os.path.abspath(given["truth"]) if os.path.isfile(given["truth"]) else given["truth"],
        force_sensor=given["force_sensor"] == "true",
        tracker=given["tracker"] == "true",
        predictive=given["predictive"] == "true",
        reaction=given["reaction"],
        payload_kg=_number("payload_kg", given["payload_kg"]),
        namespace=given["namespace"],
        prefix=given["prefix"],
        record_directory=os.path.abspath(given["record_directory"]) if given["record"] == "true" else None,
        controller=given["controller"],
        clock="lockstep" if given["use_sim_time"] == "true" else given["clock"],
        autostart=given["activate"] == "true",
        start_motion=given["start_motion"] == "true",
        contact=given["contact"] == "true",
        params_file=os.path.abspath(given["params_file"]) if given["params_file"] else "",
        parameters={
            "tendon_driver": {"can_interface": given["can_interface"]},
            "string_encoder": {"serial_port": given["serial_port"]},
            "force_sensor": {"serial_port": given["force_port"]},
        },
    )


def _composed_parameters(options: StackOptions, given: Mapping[str, str]) -> dict[str, object]:
    return {
        "robot": os.path.abspath(find_robot_file(options.robot)),
        "use_fake_hardware": options.simulated,
        "simulation_level": options.simulation_level,
        "world": options.world,
        "truth": options.truth,
        "prefix": options.prefix,
        "record": options.record_directory is not None,
        "directory": str(options.record_directory or ""),
        "controller": options.controller,
        "clock": options.clock,
        "contact": options.contact,
        "force_sensor": options.force_sensor,
        "tracker": options.tracker,
        "predictive": options.predictive,
        "reaction": options.reaction,
        "payload_kg": options.payload_kg,
        "can_interface": given["can_interface"],
        "serial_port": given["serial_port"],
        "force_port": given["force_port"],
        "autostart": options.autostart,
        "start_motion": options.start_motion,
        "params_file": options.params_file,
    }
