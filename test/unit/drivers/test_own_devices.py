# SPDX-License-Identifier: Apache-2.0
"""The doors for motors and sensors: a kind that another package adds is read and refused like one of this package."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robot_files import robot_file

from continuum_robot.app.running.stack import AUTO, DYNAMICS, WIRE, choose_level
from continuum_robot.drivers import backends
from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.protocols import StringReading, TendonActuators
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.robot import doors
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.link_strings import LinkedStringBoard

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "own_motor"
ROBOT = FOLDER / "five_winches.yaml"
TURNS_PER_A = 0.5
LONGEST_S = 10.0


class Entry:
    """Of an installed distribution."""

    name, value = "winch_serial", "own_motor:WinchActuators"

    def __init__(self, load: Any) -> None:
        self.load = load


@pytest.fixture
def own_motor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("own_motor")
    entry = Entry(lambda: module.WinchActuators)
    monkeypatch.setattr(doors, "entry_points", lambda *, group: [entry] if group == doors.TENDON_ACTUATORS else [])
    yield module
    del sys.modules["own_motor"]


class Board:
    """The winches' board on a pseudo-terminal: springs that the currents wind up."""

    def __init__(self) -> None:
        self.pty = Pty()
        self.current = np.zeros(5)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        received = b""
        while not self._stop.wait(0.002):
            *lines, received = (received + self.pty.receive()).split(b"\n")
            for line in lines:
                letter, *words = line.decode().split()
                if letter == "off":
                    self.current = np.zeros(5)
                elif letter == "I":
                    self.current = np.array(words, dtype=float)
                numbers = " ".join(f"{value:.5f}" for value in [*(TURNS_PER_A * self.current), *self.current])
                self.pty.send(f"S {numbers}\n".encode())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.pty.close()


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board()
    yield board
    board.close()


def written(tmp_path: Path, old: str, new: str) -> str:
    text = ROBOT.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "robot.yaml").write_text(text.replace(old, new), encoding="utf-8")
    return str(tmp_path / "robot.yaml")


def test_its_driver_pulls_the_tendons(own_motor: Any, board: Board, tmp_path: Path) -> None:
    robot = load_robot(written(tmp_path, "/dev/continuum_robot_winches", str(board.pty.path)))
    driver = backends.tendon_actuators(robot)
    assert isinstance(driver, own_motor.WinchActuators)
    assert isinstance(driver, TendonActuators)
    driver.open()
    try:
        driver.enable()
        tension_n = np.array([3.0, 4.0, 5.0, 6.0, 7.0])
        end_s = time.monotonic() + LONGEST_S
        while True:
            driver.write(tension_n, time.monotonic())
            reading = driver.read(time.monotonic())
            if np.allclose(reading.tension_n, tension_n, atol=0.02):
                break
            assert time.monotonic() < end_s, reading
            time.sleep(0.01)
        assert board.current[2] < 0 < board.current[1]  # winch 3 turns the other way round
        assert np.all(reading.displacement_m > 0)
    finally:
        driver.close()
    end_s = time.monotonic() + LONGEST_S
    while board.current.any() and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not board.current.any()


def test_a_port_that_is_not_there_is_named(own_motor: Any) -> None:
    with pytest.raises(DeviceError, match="winches at /dev/continuum_robot_winches"):
        backends.tendon_actuators(load_robot(str(ROBOT))).open()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("maximum_current_a: 0.9\n    rec", "maximum_curent_a: 0.9\n    rec", "did you mean 'maximum_current_a'"),
        (
            "receive_timeout_ms: 120",
            "receive_timeout_ms: 5",
            r"robot.yaml:71.*timeout_ms: 5 -- expected a number",
        ),
        ("{tendon: 2}", "{tendon: 6}", r"motors\[1\].tendon"),
        ("{tendon: 3, polarity: -1}", "{tendon: 3, polarity: 0}", "polarity"),
        ("kind: winch_serial", "kind: winches", "one of cia402, dynamixel, .*odri_can, winch_serial"),
    ],
)
def test_mistakes_in_its_section_are_reported_like_any_other(
    own_motor: Any, tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(RobotFileError, match=words):
        load_robot(written(tmp_path, old, new))


def test_without_the_package_the_known_kinds_are_named() -> None:
    with pytest.raises(RobotFileError, match="kind: 'winch_serial' -- expected one of cia402, dynamixel"):
        load_robot(str(ROBOT))


def test_a_package_that_does_not_work_is_named(own_motor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise ImportError("no module named usb")

    monkeypatch.setattr(doors, "entry_points", lambda **_: [Entry(gone)])
    with pytest.raises(ParameterError, match=r"own_motor:WinchActuators: no module named usb"):
        load_robot(str(ROBOT))
    monkeypatch.setattr(doors, "entry_points", lambda **_: [Entry(lambda: object)])
    with pytest.raises(RobotFileError, match="a dataclass, or a class with one as settings"):
        load_robot(str(ROBOT))
    lacking = type("Lacking", (), {"settings": own_motor.Winches, "__init__": lambda *_: None})
    monkeypatch.setattr(doors, "entry_points", lambda **_: [Entry(lambda: lacking)])
    with pytest.raises(ParameterError, match="lacks methods"):
        backends.tendon_actuators(load_robot(str(ROBOT)))


def test_it_is_simulated_without_its_bytes(own_motor: Any) -> None:
    robot = load_robot(str(ROBOT))
    level = choose_level(AUTO, robot, real_time=False)
    assert level.name == DYNAMICS
    assert "winch_serial" in level.reason
    with pytest.raises(ParameterError, match="winch_serial"):
        choose_level(WIRE, robot)


# --- sensors, by the same door


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnString:
    string: str = quantity("name of the string", filled=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEncodersSection:
    kind: str = quantity("laser", choices=("laser",))
    strings: tuple[OwnString, ...] = quantity("every string")


class OwnEncoders:
    settings = OwnEncodersSection
    simulated = False

    def __init__(self, robot: Robot, settings: OwnEncodersSection) -> None:
        self.string_count, self.given = len(robot.strings), settings

    def open(self) -> None: ...

    def read(self, now_s: float) -> StringReading:
        return StringReading(now_s, np.full(self.string_count, 0.003), np.zeros(self.string_count))

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnForceSection:
    kind: str = quantity("scale", choices=("scale",))
    range_n: float = quantity("largest force", "N", gt=0, le=100)


class OwnForce:
    settings = OwnForceSection

    def __init__(self, robot: Robot, settings: OwnForceSection) -> None:
        raise DeviceError("scale", f"{settings.range_n:g} N", robot.name)


@pytest.fixture
def own_sensors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    entries = {doors.STRING_ENCODERS: Entry(lambda: OwnEncoders), doors.FORCE_SENSORS: Entry(lambda: OwnForce)}
    entries[doors.STRING_ENCODERS].name, entries[doors.FORCE_SENSORS].name = "laser", "scale"
    monkeypatch.setattr(doors, "entry_points", lambda *, group: [entries[group]] if group in entries else [])
    strings = [{"string": name} for name in ("string_x", "string_y")]
    sensors = {
        "hardware.string_encoders": {"kind": "laser", "strings": strings},
        "hardware.force_sensor": {"kind": "scale", "range_n": 20.0},
    }
    return robot_file(tmp_path, sensors)


def test_sensors_of_other_packages_are_read(own_sensors: str) -> None:
    robot = load_robot(own_sensors)
    encoders = backends.string_encoders(robot)
    assert isinstance(encoders, OwnEncoders)
    assert encoders.given.strings[1].string == "string_y"
    np.testing.assert_array_equal(encoders.read(1.0).extension_m, 0.003)
    with pytest.raises(DeviceError, match="20 N"):
        backends.force_sensor(robot)


def test_their_sections_are_checked(own_sensors: str) -> None:
    text = Path(own_sensors).read_text(encoding="utf-8")
    for old, new, words in (
        ("range_n: 20.0", "range_n: 2000.0", r"force_sensor.range_n: 2000.0 -- expected a number in"),
        ("string: string_y", "string: string_z", r"strings\[1\].string"),
        ("kind: laser", "kind: lasers", "one of string_encoder_serial, laser"),
    ):
        Path(own_sensors).write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(RobotFileError, match=words):
            load_robot(own_sensors)


def test_they_are_simulated_without_their_bytes(own_sensors: str) -> None:
    robot = load_robot(own_sensors)
    hardware = SimulatedHardware(robot, strings=True, force=True)
    hardware.open()
    try:
        assert hardware.string_board is None
        assert hardware.rokubi is not None
    finally:
        hardware.close()
    assert not LinkedStringBoard.can_read(robot)
