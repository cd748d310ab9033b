# SPDX-License-Identifier: Apache-2.0
"""Simulated devices on ports: a program of its own, whose ports the shipped drivers open like real ones."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from robot_files import robot_file

from continuum_robot.app import simulate_devices
from continuum_robot.app.command_line import main
from continuum_robot.app.devices import Findings, examine
from continuum_robot.app.simulate_devices import write_robot_file
from continuum_robot.drivers import backends
from continuum_robot.drivers.serial_port import PortInUseError
from continuum_robot.drivers.survey import FOUND, MISSING, UNEXPECTED
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.truth import true_robot
from continuum_robot.simulation.wire.device_ports import DevicePorts, robot_on_ports
from continuum_robot.simulation.wire.hardware import SimulatedHardware, wired

ROBOT = "opencr_five_tendon"
TWO_KINDS = Path(__file__).parents[3] / "examples" / "dynamixel_and_feetech.yaml"
SERVOS = "three_segment_servo"
START_S = 120.0


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    folder = tmp_path / "desk"
    command = [
        sys.executable,
        "-m",
        "continuum_robot.app.command_line",
        "simulate-devices",
        getattr(request, "param", ROBOT),
        "--folder",
        str(folder),
    ]
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        end_s = time.monotonic() + START_S
        while b"Ctrl-C switches them off" not in (tmp_path / "log.txt").read_bytes():
            assert process.poll() is None, (tmp_path / "log.txt").read_text()
            assert time.monotonic() < end_s
            time.sleep(0.1)
        yield folder, process
    finally:
        process.kill()
        process.wait()


def motors_section(robot: Robot) -> dict[str, object]:
    """Wiring without the names of channels and ports."""
    hardware = wired(robot).hardware
    assert hardware is not None
    section = dataclasses.asdict(hardware.tendon_actuators)
    for motor in section["motors"]:
        motor["channel"] = section["channels"].index(motor["channel"])
    return {key: value for key, value in section.items() if key not in ("channels", "interface")}


@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment", "vanderbilt_segment"])
def test_the_robot_file_says_the_same_but_for_the_ports(name: str, tmp_path: Path) -> None:
    robot = load_robot(name)
    written = load_robot(str(write_robot_file(robot, tmp_path)))
    assert written.changed(hardware=None) == robot.changed(hardware=None)
    assert motors_section(written) == motors_section(robot)
    assert written.hardware is not None
    before = wired(robot).hardware
    assert before is not None
    assert written.hardware.serial_number == before.serial_number
    encoders = written.hardware.string_encoders
    if before.string_encoders is None:
        assert encoders is None
    else:
        assert encoders == dataclasses.replace(before.string_encoders, port=str(tmp_path / "strings"))


def test_every_board_stands_where_the_robot_file_says(tmp_path: Path) -> None:
    channels = ["no_motor_hangs_here", "can0", "can1", "can2"]
    robot = load_robot(robot_file(tmp_path, {"hardware.tendon_actuators.channels": channels}, ROBOT))
    section = robot_on_ports(robot, tmp_path)["hardware"]
    hardware = SimulatedHardware(robot)
    with DevicePorts(hardware, tmp_path, 0.01) as desk:
        assert desk.running
        ports = [adapter.port for adapter in desk.adapters]
        assert ports == list(dict.fromkeys(motor["channel"] for motor in section["tendon_actuators"]["motors"]))
        assert all(Path(port).exists() for port in ports)
    assert not desk.running
    assert not any(Path(port).exists() for port in ports)


def test_every_section_of_motors_stands_on_a_port_of_its_own_and_is_found_there(tmp_path: Path) -> None:
    robot = load_robot(str(TWO_KINDS))
    written = load_robot(str(write_robot_file(robot, tmp_path)))
    assert written.hardware is not None
    places = [("servos", number) for number in range(1, 7)] + [("servos2", number) for number in range(1, 4)]
    expected = {(f"servo {number}", str(tmp_path / port)): FOUND for port, number in places}
    with DevicePorts(SimulatedHardware(robot, folder=tmp_path), tmp_path, 0.01) as ports:

        def until(found: dict[tuple[str, str], str]) -> None:
            """A busy machine may lose answers of servos that share its interpreter."""
            end_s = time.monotonic() + START_S
            while (seen := _states(examine(written, written.hardware))) != found:
                assert time.monotonic() < end_s, seen
                assert set(seen) == set(found)

        until(expected)
        ports.hardware.inject("servo.silent", 7)
        until(expected | {("servo 2", str(tmp_path / "servos2")): MISSING})
        with pytest.raises(DeviceError, match="devices stand there already"):
            write_robot_file(robot, tmp_path)
        ports.hardware.lines["servos2"].pty.path.unlink()
        gone = {place: FOUND for place in expected if not place[1].endswith("2")}
        until(gone | {("servos", str(tmp_path / "servos2")): MISSING})


def _states(findings: Findings) -> dict[tuple[str, str], str]:
    return {(one.device, one.place): one.state for one in findings.devices if one.state != UNEXPECTED}


def test_the_drivers_find_the_devices_and_ctrl_c_takes_them_away(
    desk: tuple[Path, subprocess.Popen[bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, process = desk
    robot = load_robot(str(folder / "robot.yaml"))
    assert main(["devices", str(folder / "robot.yaml")]) == 0
    assert "missing" not in capsys.readouterr().out
    strings = backends.string_encoders(robot)
    strings.open()
    try:
        end_s = time.monotonic() + 10.0
        while not np.isfinite(strings.read(time.monotonic()).extension_m).all() and time.monotonic() < end_s:
            time.sleep(0.01)
    finally:
        strings.close()
    assert main(["simulate-devices", ROBOT, "--folder", str(folder)]) == 1
    assert "devices stand there already" in capsys.readouterr().err
    process.send_signal(signal.SIGINT)
    assert process.wait(300.0) == 130
    assert [path.name for path in folder.iterdir()] == ["robot.yaml"]


@pytest.mark.parametrize("desk", [SERVOS], indirect=True)
def test_servos_are_found_by_another_program_and_by_one_at_a_time(
    desk: tuple[Path, subprocess.Popen[bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, process = desk
    robot = load_robot(str(folder / "robot.yaml"))
    assert robot.hardware is not None
    assert main(["devices", str(folder / "robot.yaml")]) == 0
    assert "missing" not in capsys.readouterr().out
    actuators = backends.tendon_actuators(robot)
    actuators.open()
    try:
        actuators.enable()
        assert np.isfinite(actuators.read(time.monotonic()).displacement_m).all()
        with pytest.raises(PortInUseError):
            backends.tendon_actuators(robot).open()
    finally:
        actuators.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(300.0) == 130
    assert [path.name for path in folder.iterdir()] == ["robot.yaml"]


def test_the_true_robot_of_the_file_is_what_the_devices_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = robot_file(tmp_path, {"simulation.truth": SERVOS}, SERVOS)
    moved: list[Robot] = []

    def switched_on(robot: Robot, **_given: object) -> SimulatedHardware:
        moved.append(robot)
        raise DeviceError("devices", "are enough for this test", "Go on.")

    monkeypatch.setattr(simulate_devices, "switched_on", switched_on)
    with pytest.raises(DeviceError, match="are enough"):
        simulate_devices.run_simulate_devices(str(file), tmp_path / "desk")
    believed = load_robot(str(file))
    assert moved[0].segments == true_robot(believed).segments != believed.segments
    assert load_robot(str(tmp_path / "desk" / "robot.yaml")).segments == believed.segments


@pytest.mark.parametrize(
    ("robot", "out", "words"),
    [
        ("rolling_five_link", "desk", "a rod"),
        (str(Path(__file__).parents[2] / "robots/bare_rod.yaml"), "desk", "actuators"),
        (ROBOT, "file/desk", "--folder"),
        ("no_such_robot", "desk", "opencr_five_tendon"),
    ],
)
def test_what_cannot_be_is_refused(
    robot: str,
    out: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["simulate-devices", robot, "--folder", str(tmp_path / out)]) == 2
    assert words in capsys.readouterr().err
