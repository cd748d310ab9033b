# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot simulate-devices``: simulated devices on ports, to rehearse what is done with real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from rich.console import Console
from rich.live import Live
from rich.text import Text

from continuum_robot.app.output import print_table, say
from continuum_robot.drivers.backends import hardware_of
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.whole_file import write_whole
from continuum_robot.robot.hardware import ports_of
from continuum_robot.robot.loading import load_robot, parse_robot
from continuum_robot.simulation.truth import true_robot, truth_file
from continuum_robot.simulation.wire.device_ports import DevicePorts, go_ahead_of_others, robot_on_ports
from continuum_robot.simulation.wire.hardware import SimulatedHardware, switched_on

ROBOT_FILE = "robot.yaml"
_LOOK_S = 0.5


def run_simulate_devices(robot: str, folder: Path, console: Console | None = None) -> int:
    """Put simulated devices on ports, write the robot file that names them, keep them until Ctrl-C."""
    console = console or Console()
    loaded = load_robot(robot)
    if loaded.traits.without_boards:
        raise ParameterError("robot", loaded.name, f"a rod: {loaded.traits.without_boards}")
    folder = folder.resolve()
    with StopRequest(last=True) as stop:
        file = write_robot_file(loaded, folder)
        with console.status(f"{loaded.name}: preparing the simulated robot ..."):
            hardware = switched_on(true_robot(loaded), force=_has_force(loaded), folder=folder)
        go_ahead_of_others()
        with DevicePorts(hardware, folder) as ports:
            print_table(console, f"simulated devices of {file}", ("device", "port"), _rows(ports))
            if truth := truth_file(loaded):
                say(console, f"They move the robot of {truth} (simulation.truth).\n")
            say(console, _NEXT.format(file=file))
            with Live(console=console, auto_refresh=False) as live:
                while ports.running and not stop.wait(_LOOK_S):
                    live.update(Text(words(hardware)), refresh=True)
    return 143 if stop.signal_name == "SIGTERM" else 130


def write_robot_file(robot: Robot, folder: Path) -> Path:
    """Copy a robot's file into the folder of the ports, with a section ``hardware`` that names them."""
    values = robot_on_ports(robot, folder)
    file, text = folder / ROBOT_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    sections = hardware_of(parse_robot(text, file)).motor_sections.values()
    used = next((port for one in sections for port in ports_of(one) if Path(port).exists()), None)
    if used is not None:
        raise DeviceError(
            str(folder), f"devices stand there already ({used})", "End them, or choose another folder with --folder"
        )
    try:
        write_whole(file, text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ParameterError("--folder", str(folder), f"a folder that may be written to ({reason})") from error
    return file


def words(hardware: SimulatedHardware) -> str:
    """How the simulated robot is, in a line."""
    boards = hardware.boards.values()
    motors = [
        enabled
        for board in boards
        for enabled, motor in zip(board.motor_enabled, board.motors, strict=True)
        if motor is not None
    ] + [enabled for line in hardware.lines.values() for enabled in line.servos.torque_enabled]
    errors = sorted({board.error.name for board in boards if board.error})
    tension, displacement_mm = hardware.plant.tension, 1e3 * hardware.plant.rod_displacement
    return (
        f"motors on: {sum(motors)} of {len(motors)}   tensions: {np.min(tension):.1f} to {np.max(tension):.1f} N   "
        f"tendons: {np.min(displacement_mm):.1f} to {np.max(displacement_mm):.1f} mm"
        + (f"   errors: {', '.join(errors)}" if errors else "")
    )


def _has_force(robot: Robot) -> bool:
    return robot.hardware is not None and robot.hardware.force_sensor is not None


def _rows(ports: DevicePorts) -> list[tuple[str, str]]:
    hardware = ports.hardware
    adapters = zip(hardware.boards, ports.adapters, strict=True)
    rows = [(f"motor board {channel}", str(adapter.port)) for channel, adapter in adapters]
    rows += [(line.servos.title, str(line.port)) for line in hardware.lines.values()]
    if hardware.string_board is not None:
        rows.append(("string-encoder board", str(hardware.string_board.port)))
    if hardware.rokubi is not None:
        rows.append(("Rokubi force sensor", str(hardware.rokubi.port)))
    return rows


_NEXT = """They stand as after their power-on: rotors not aligned, tendons slack, not homed. In another terminal:

    continuum-robot devices {file}
    continuum-robot check-tendons {file} --hardware
    continuum-robot home {file} --hardware
    continuum-robot up {file} --hardware
    ros2 launch continuum_robot hardware.launch.py robot:={file}

Ctrl-C switches them off.
"""
