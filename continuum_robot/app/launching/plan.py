# SPDX-License-Identifier: Apache-2.0
"""From the arguments of a launch file to the programs to start, without launch itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.app.launching.arguments import LaunchOptions
from continuum_robot.app.running.simulation_level import LOCKSTEP
from continuum_robot.app.running.stack import (
    SUPERVISOR,
    load_for_stack,
    node_parameters,
    stop_grace_s,
    with_simulation_level,
)
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.stack.option_list import LAUNCH, NODE, from_texts, named
from continuum_robot.nodes.stack.options import CONTROL_LOOP, IN_CYCLE, MANAGED_NODES, StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import find_robot_file

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
