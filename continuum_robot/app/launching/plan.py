# SPDX-License-Identifier: Apache-2.0
"""From the arguments of a launch file to the programs to start, without launch itself."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.app.running.options import RESPAWNS
from continuum_robot.app.running.processes import RESPAWN_DELAY_S
from continuum_robot.app.running.stack import (
    LOCKSTEP,
    SUPERVISOR,
    load_for_stack,
    node_parameters,
    stop_grace_s,
    with_simulation_level,
)
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.stack.option_list import (
    LAUNCH,
    NODE,
    Offered,
    StackFields,
    faces,
    from_texts,
    named,
    offered,
    option,
)
from continuum_robot.nodes.stack.options import CONTROL_LOOP, IN_CYCLE, MANAGED_NODES, StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import find_robot_file

BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class LaunchArgument:
    """An argument of a launch file, as ``--show-args`` prints it."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(StackFields):
    """Of ``sim.launch.py`` and ``hardware.launch.py``."""

    use_mock_hardware: str = option(
        "The same as use_fake_hardware, for those who know it by this name; it wins if both are given",
        default="",
        choices=("", *BOOLEAN),
        at=LAUNCH,
    )
    use_sim_time: bool = option("true: the same as clock:=lockstep", default=False, at=LAUNCH)
    rviz: bool = option("Also start rviz2", default=False, at=LAUNCH)
    record: bool = option("Record all topics of the robot (MCAP)", default=False, at=LAUNCH)
    record_to: str = option(
        "Where record:=true makes a folder named by the date",
        default="runs",
        at=faces(LAUNCH, name="record_directory"),
    )
    can_interface: str = option(
        "python-can interface of the motor boards instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    serial_port: str = option(
        "Serial port of the string-encoder board instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    force_port: str = option(
        "Serial port of the force-torque sensor instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    respawn: int = option(
        "How often a program of a node that ends by itself is started again, each time after "
        f"{RESPAWN_DELAY_S:g} s; the supervisor configures it, and a reset (service manage_stack) brings the stack "
        "up again. 0: never; composed:=true: never",
        default=RESPAWNS,
        ge=0,
        le=9999,
        at=LAUNCH,
    )
    log_level: str = option(
        "Least severity of log messages",
        default="info",
        choices=("debug", "info", "warn", "error", "fatal"),
        at=LAUNCH,
    )
    composed: bool = option(
        "All nodes in one process: lower latency and a third of the processor time. false: each node a process",
        default=False,
        at=LAUNCH,
    )


def stack_arguments(simulated: bool) -> list[LaunchArgument]:
    """Arguments of ``sim.launch.py`` and ``hardware.launch.py``."""
    return [_argument(one, simulated) for one in offered(LaunchOptions, LAUNCH)]


def _argument(one: Offered, simulated: bool) -> LaunchArgument:
    default, text = simulated if one.field == "simulated" else one.default, one.rules.doc
    if one.field == "robot":
        text += ": " + ", ".join(shipped_robots())
    if one.kind is bool:
        return LaunchArgument(one.name, str(default).lower(), text, BOOLEAN)
    return LaunchArgument(one.name, str(default), text, one.rules.choices)


def rviz_arguments() -> list[LaunchArgument]:
    """Arguments of ``rviz.launch.py``."""
    return [
        LaunchArgument(
            "robot",
            default="opencr_five_tendon",
            description="Robot file (YAML), or the name of a shipped one; the view takes its size from it: "
            + ", ".join(shipped_robots()),
        ),
        LaunchArgument("namespace", default="", description="ROS namespace of the robot"),
        LaunchArgument("prefix", default="", description="What stands in front of the robot's tf frames"),
        LaunchArgument(
            "rviz_config",
            default="",
            description="Configuration file of rviz2; empty: the shipped one, scaled to the robot",
        ),
    ]


def misspelt(given: Iterable[str], arguments: Iterable[LaunchArgument]) -> list[str]:
    """A sentence for every argument that is unknown and looks like a known one.

    launch ignores unknown arguments in silence; those of a launch file that includes this one are none of ours.
    """
    names = [argument.name for argument in arguments]
    near = {name: difflib.get_close_matches(name, names, 1, 0.8) for name in given if name not in names}
    return [
        f"[WARN] launch argument {name}:= is unknown and ignored; meant {matches[0]}:= ?"
        for name, matches in near.items()
        if matches
    ]


# The shipped configuration is that of a robot of this length.
REFERENCE_LENGTH_M = 0.2
_DISPLAY_LENGTHS = {
    "rviz_default_plugins/Grid": ("Cell Size",),
    "rviz_default_plugins/Path": ("Line Width", "Radius", "Head Diameter", "Head Length", "Shaft Diameter"),
    "rviz_default_plugins/TF": ("Marker Scale",),
}


@dataclass(frozen=True)
class Program:
    """A program of the package and what it is started with."""

    executable: str
    node: str | None
    parameters: Mapping[str, object]
    nodes: tuple[str, ...]
    grace_s: float
    respawns: int = 0


def programs_of_stack(given: Mapping[str, str]) -> list[Program]:
    """What ``sim.launch.py`` and ``hardware.launch.py`` start; without the last nobody brings the others
    down in order.
    """
    wanted = LaunchOptions(**from_texts(LaunchOptions, LAUNCH, given))
    options = _options(wanted)
    robot = load_for_stack(options)
    options, *_ = with_simulation_level(options, robot)
    grace_s = stop_grace_s(robot)
    if wanted.params_file:
        ParamsFile(wanted.params_file).check_sections((*MANAGED_NODES, SUPERVISOR))
    if wanted.composed or options.clock == LOCKSTEP:
        names = (*options.node_names, SUPERVISOR)
        return [Program("composition", None, _composed_parameters(options, wanted), names, grace_s)]
    return _programs(options, grace_s, wanted.respawn)


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


def _options(given: LaunchOptions) -> StackOptions:
    return StackOptions.of(
        given,
        simulated=given.use_mock_hardware == "true" if given.use_mock_hardware else given.simulated,
        truth=os.path.abspath(given.truth) if os.path.isfile(given.truth) else given.truth,
        record_directory=os.path.abspath(given.record_to) if given.record else None,
        clock=LOCKSTEP if given.use_sim_time else given.clock,
        params_file=os.path.abspath(given.params_file) if given.params_file else "",
        parameters={
            "tendon_driver": {"can_interface": given.can_interface},
            "string_encoder": {"serial_port": given.serial_port},
            "force_sensor": {"serial_port": given.force_port},
        },
    )


def _composed_parameters(options: StackOptions, given: LaunchOptions) -> dict[str, object]:
    return named(options, NODE) | {
        "robot": os.path.abspath(find_robot_file(options.robot)),
        "record": options.record_directory is not None,
        "directory": str(options.record_directory or ""),
        "params_file": options.params_file,
        "can_interface": given.can_interface,
        "serial_port": given.serial_port,
        "force_port": given.force_port,
    }


def scaled_configuration(configuration: dict[str, Any], length_m: float) -> dict[str, Any]:
    """A configuration whose view and line widths fit a robot."""
    factor = length_m / REFERENCE_LENGTH_M
    try:
        manager = configuration["Visualization Manager"]
        for display in manager["Displays"]:
            for name in _DISPLAY_LENGTHS.get(display["Class"], ()):
                if name in display:
                    display[name] *= factor
        view = manager["Views"]["Current"]
        for name in ("Distance", "Near Clip Distance", "Focal Shape Size"):
            view[name] *= factor
        for axis in "XYZ":
            view["Focal Point"][axis] *= factor
    except (KeyError, TypeError) as error:
        raise ParameterError(
            "rviz configuration", str(error), "an rviz configuration with displays and a view"
        ) from None
    return configuration


def write_scaled(configuration: Path, robot: Robot) -> Path:
    """A file of :func:`scaled_configuration` for a robot."""
    scaled = scaled_configuration(yaml.safe_load(configuration.read_text(encoding="utf-8")), robot.length_m)
    file = Path(tempfile.mkdtemp(prefix="continuum_robot_rviz_")) / configuration.name
    file.write_text(yaml.safe_dump(scaled, sort_keys=False), encoding="utf-8")
    return file
