# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot devices``: which ports there are, which devices answer, what is missing and what is unexpected."""

from __future__ import annotations

import dataclasses
import os
import resource
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.drivers import backends
from continuum_robot.drivers.can_bus import bring_up_line
from continuum_robot.drivers.serial_port import permission_remedy, ports
from continuum_robot.drivers.survey import BUSY, FOUND, MISSING, UNEXPECTED, Finding
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Hardware, ports_of
from continuum_robot.robot.loading import load_robot

LIMITS = "hardware/limits.conf"

_CAN_LINK_TYPE = "280"
_NETWORK = Path("/sys/class/net")
_DEVICE_NAMES = Path("/dev")
_COLOURS = {FOUND: "green", MISSING: "red", BUSY: "yellow", UNEXPECTED: "yellow"}


@dataclass(frozen=True, slots=True)
class Port:
    """A serial port or a CAN interface of this computer."""

    kind: str
    name: str
    description: str
    problem: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found."""

    ports: tuple[Port, ...]
    devices: tuple[Finding, ...]
    realtime_priority: int

    @property
    def missing(self) -> tuple[Finding, ...]:
        """Devices of the robot file that are not there."""
        return tuple(device for device in self.devices if device.state == MISSING)


def run_devices(robot: str | None, json_file: Path | None, console: Console | None = None) -> int:
    """Find ports and devices and print them."""
    console = console or Console()
    hardware, loaded = None, None
    if robot is not None:
        loaded = load_robot(robot)
        hardware = backends.hardware_of(loaded)
    with console.status("listening ..."):
        findings = examine(loaded, hardware)
    _print(console, findings, robot)
    write_json(json_file, summary(findings, robot))
    return 1 if findings.missing else 0


def examine(robot: Robot | None = None, hardware: Hardware | None = None) -> Findings:
    """Look at the ports of this computer and, without switching anything on, at the devices of a robot."""
    found = (*serial_ports(), *can_interfaces())
    devices: list[Finding] = []
    if robot is not None and hardware is not None:
        with ThreadPoolExecutor(max_workers=8) as pool:
            found_by = pool.map(lambda section: backends.survey(robot, section), backends.SECTIONS)
            devices = [finding for findings in found_by for finding in findings]
        devices += _unexpected_ports(found, hardware)
    return Findings(found, tuple(devices), _realtime_priority())


def summary(findings: Findings, robot: str | None) -> dict[str, object]:
    """The findings as JSON takes them."""
    return {
        "robot": robot,
        "ports": [dataclasses.asdict(port) for port in findings.ports],
        "devices": [dataclasses.asdict(device) for device in findings.devices],
        "n_missing": len(findings.missing),
        "n_unexpected": sum(device.state == UNEXPECTED for device in findings.devices),
        "realtime_priority": findings.realtime_priority,
    }


def serial_ports() -> tuple[Port, ...]:
    """Serial ports of this computer with hardware behind them."""
    found = []
    links = _links_in(_DEVICE_NAMES)
    for port in ports():
        problem = ""
        if not os.access(port.device, os.R_OK | os.W_OK):
            problem = f"no permission. {permission_remedy(port.device)}"
        words = [port.description, f"serial number {port.serial_number}" if port.serial_number else ""]
        aliases = tuple(sorted(link for link, target in links.items() if target == port.device))
        found.append(Port("serial", port.device, ", ".join(filter(None, words)), problem, aliases))
    return tuple(found)


def can_interfaces(network: Path = _NETWORK) -> tuple[Port, ...]:
    """CAN interfaces of this computer."""
    found = []
    for interface in sorted(network.glob("*")):
        if _line_of(interface / "type") != _CAN_LINK_TYPE:
            continue
        is_up = bool(int(_line_of(interface / "flags") or "0", 16) & 1)
        problem = "" if is_up else f"down: {bring_up_line(interface.name)}"
        queue = _line_of(interface / "tx_queue_len")
        found.append(Port("can", interface.name, f"{'up' if is_up else 'down'}, transmit queue {queue}", problem))
    return tuple(found)


def _unexpected_ports(found: Iterable[Port], hardware: Hardware) -> list[Finding]:
    """Ports with something behind them that the robot file does not name."""
    desired = {_resolved(name) for name in _configured(hardware)}
    return [
        Finding(f"{port.kind} port", port.name, UNEXPECTED, f"{port.description}; the robot file does not name it")
        for port in found
        if not {_resolved(port.name), *map(_resolved, port.aliases)} & desired
    ]


def _configured(hardware: Hardware) -> list[str]:
    """Ports and channels of all sections."""
    sections = [getattr(hardware, section) for section in backends.SECTIONS]
    return [port for one in (*sections, *hardware.motor_sections.values()) for port in ports_of(one)]


def _resolved(name: str) -> str:
    return os.path.realpath(name) if name.startswith("/") else name


def _links_in(folder: Path) -> dict[str, str]:
    return {str(link): os.path.realpath(link) for link in folder.glob("continuum_robot_*") if link.is_symlink()}


def _line_of(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _realtime_priority() -> int:
    if os.geteuid() == 0:
        return 99
    soft, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    return 99 if soft == resource.RLIM_INFINITY else soft


def _print(console: Console, findings: Findings, robot: str | None) -> None:
    rows = [
        (
            "\n= ".join((port.name, *port.aliases)),
            port.description,
            Text(port.problem, "red") if port.problem else Text("yes", "green"),
        )
        for port in findings.ports
    ]
    if rows:
        print_table(console, "ports of this computer", ("port", "what", "usable"), rows)
    else:
        say(console, "No serial port and no CAN interface on this computer.")
    if robot is not None:
        found = [
            (device.device, device.place, Text(device.state, _COLOURS[device.state]), device.detail)
            for device in findings.devices
        ]
        print_table(console, f"devices of {robot}", ("device", "place", "state", ""), found)
    if not findings.realtime_priority:
        say(console, f"This user may not set a real-time priority: install {LIMITS} and log in again.")
    if findings.missing:
        console.print(f"[red]{len(findings.missing)} of the robot's devices are missing.[/]")
