# SPDX-License-Identifier: Apache-2.0
"""The search for devices, against simulated ones on ptys and on a machine with nothing attached."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from emulated_ndi import SimulatedNdiTracker
from rich.console import Console
from robot_files import robot_file

from continuum_robot.app import devices
from continuum_robot.app.command_line import main
from continuum_robot.app.devices import BUSY, FOUND, MISSING, UNEXPECTED, Findings, Port
from continuum_robot.drivers import can_bus
from continuum_robot.drivers.can_bus import bring_up_line
from continuum_robot.drivers.ndi_serial import device as ndi_tracker
from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.drivers.odri_can import channel as channels
from continuum_robot.drivers.odri_can import device as odri
from continuum_robot.drivers.odri_can import protocol
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.ports import Pacer


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> Iterator[Robot]:
    """A robot whose encoder board and force sensor are there, and of whose three motor boards one is."""
    robot = load_robot("opencr_five_tendon")
    assert robot.hardware is not None
    names = [string.name for string in robot.strings]
    board = SimulatedStringEncoderBoard(robot.hardware.string_encoders, names, lambda: np.zeros(2), serial_number=77)
    sensor = SimulatedRokubi(lambda: np.zeros(6))
    pacers = [Pacer(board.step), Pacer(sensor.step)]
    for pacer in pacers:
        pacer.start()
    hardware = dataclasses.replace(
        robot.hardware,
        string_encoders=dataclasses.replace(robot.hardware.string_encoders, port=board.port),
        force_sensor=dataclasses.replace(robot.hardware.force_sensor, port=sensor.port),
    )
    monkeypatch.setattr(channels, "can_socket", frames_on)
    monkeypatch.setattr(odri, "heard_on", functools.partial(odri.heard_on, duration_s=0.1))
    monkeypatch.setattr(devices, "ports", list)
    yield dataclasses.replace(robot, hardware=hardware)
    for pacer in pacers:
        pacer.stop()
    board.close()
    sensor.close()


def frames_on(channel: str) -> socket.socket:
    """A socket as of an interface: a board on can0, something else on can1, nothing on can2."""
    host, device = can_bus.frame_sockets()
    for identifier, data in {
        "can0": [(protocol.STATUS_ID, b"\0"), (protocol.POSITION_ID, bytes(8))],
        "can1": [(0x123, bytes(4))],
        "can2": [],
    }[channel]:
        device.send(can_bus.frame_bytes(identifier, data))
    _ENDS.append(device)
    return host


_ENDS: list[socket.socket] = []  # held open: a closed end is a hang-up


def states(findings: Findings) -> dict[tuple[str, str], str]:
    return {(device.device, device.place): device.state for device in findings.devices}


def test_each_device_is_found_missing_or_unexpected(attached: Robot) -> None:
    hardware = attached.hardware
    assert hardware is not None
    findings = devices.examine(attached, hardware)
    assert states(findings) == {
        ("motor board", "can0"): FOUND,
        ("motor board", "can1"): MISSING,
        ("motor board", "can2"): MISSING,
        ("string-encoder board", hardware.string_encoders.port): FOUND,
        ("Rokubi force sensor", hardware.force_sensor.port): FOUND,
    }
    details = {device.place: device.detail for device in findings.devices}
    assert "serial number 77, firmware 1.0.0" in details[hardware.string_encoders.port]
    assert "200 Hz" in details[hardware.force_sensor.port]
    assert "terminating resistors" in details["can2"]
    assert "frames of something else: 0x" in details["can1"]
    assert len(findings.missing) == 2


@pytest.mark.skipif(ndi_tracker.ndicapy is None, reason="ndicapi is not installed")
def test_a_tracker_is_found_and_its_port_expected(attached: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = SimulatedNdiTracker(lambda: np.eye(4))
    assert attached.hardware is not None
    tracker = NdiSerial(kind="ndi_serial", port=simulated.port)
    robot = dataclasses.replace(attached, hardware=dataclasses.replace(attached.hardware, tracker=tracker))
    monkeypatch.setattr(devices, "serial_ports", lambda: (Port("serial", simulated.port, "an adapter"),))
    try:
        found = states(devices.examine(robot, robot.hardware))
        assert found[("tracker of the tip", simulated.port)] == FOUND
        assert ("serial port", simulated.port) not in found
        simulated.faults.add("no_tool")
        findings = devices.examine(robot, robot.hardware)
        assert states(findings)[("tracker of the tip", simulated.port)] == MISSING
        assert "no tool is there" in findings.missing[-1].detail
    finally:
        simulated.close()


def test_a_port_in_use_is_not_missing(attached: Robot) -> None:
    hardware = attached.hardware
    assert hardware is not None
    holder = SerialPort(hardware.string_encoders.port, 115200, device="", setting="")
    holder.open()
    findings = devices.examine(attached, hardware)
    holder.close()
    assert states(findings)[("string-encoder board", hardware.string_encoders.port)] == BUSY


def test_ports_that_the_robot_file_does_not_name_are_unexpected(
    attached: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = attached.hardware
    assert hardware is not None
    port = hardware.string_encoders.port
    ports = (
        Port("serial", "/dev/ttyUSB7", "a lathe"),
        # The same port under the name that the kernel gave it.
        Port("serial", str(Path(port).resolve()), "Teensyduino", aliases=(port,)),
        Port("can", "can0", "up"),
        Port("can", "can9", "up"),
    )
    monkeypatch.setattr(devices, "serial_ports", lambda: ports[:2])
    monkeypatch.setattr(devices, "can_interfaces", lambda: ports[2:])
    found = states(devices.examine(attached, hardware))
    assert {place for (_, place), state in found.items() if state == UNEXPECTED} == {"/dev/ttyUSB7", "can9"}


def test_can_interfaces_are_those_of_the_kernel(tmp_path: Path) -> None:
    for name, kind, flags in (("can0", "280", "0x40081"), ("can1", "280", "0x40080"), ("eth0", "1", "0x1003")):
        folder = tmp_path / name
        folder.mkdir()
        for key, value in (("type", kind), ("flags", flags), ("tx_queue_len", "1000")):
            (folder / key).write_text(value + "\n")
    up, down = devices.can_interfaces(tmp_path)
    assert (up.name, up.problem) == ("can0", "")
    assert down.problem == f"down: {bring_up_line('can1')}"


def test_a_machine_with_nothing_attached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "devices.json"
    # Names that no machine has, so that the test touches nobody's devices.
    robot = robot_file(
        tmp_path,
        {
            "hardware.tendon_actuators": {"kind": "odri_can", "channels": ["none0", "none1", "none2"]},
            "hardware.string_encoders.port": "/dev/not_there_strings",
            "hardware.force_sensor.port": "/dev/not_there_force",
        },
    )
    assert main(["devices", robot, "--json", str(file)]) == 1
    written = json.loads(file.read_text())
    assert written["n_missing"] == 5
    assert all(device["detail"].endswith(".") for device in written["devices"] if device["state"] == MISSING)
    assert "missing" in capsys.readouterr().out
    assert main(["devices"]) == 0


def test_a_robot_without_hardware_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "two_segment"]) == 2
    assert "hardware section" in capsys.readouterr().err


def test_what_is_printed_names_every_device(attached: Robot) -> None:
    findings = devices.examine(attached, attached.hardware)
    text = io.StringIO()
    devices._print(Console(file=text, width=200), findings, "my_robot.yaml")
    for device in findings.devices:
        assert device.place in text.getvalue()
        assert device.state in text.getvalue()
