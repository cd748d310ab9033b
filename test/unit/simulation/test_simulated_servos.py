# SPDX-License-Identifier: Apache-2.0
"""A robot with Dynamixel servos, simulated to the byte, against the shipped driver."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from continuum_robot.drivers import backends, servo_bus
from continuum_robot.drivers.dynamixel.device import DynamixelActuators
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Hardware
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import read
from continuum_robot.simulation.wire.device_ports import DevicePorts, robot_on_ports
from continuum_robot.simulation.wire.hardware import SimulatedHardware, catalog

ROBOT = Path(__file__).resolve().parents[3] / "examples" / "five_servos.yaml"
CYCLE_S = 0.001
TENSION_N = np.array([3.0, 5.0, 4.0, 2.0, 3.0])


class Bench:
    """The robot and its driver in virtual time."""

    def __init__(self, robot: Robot | str = str(ROBOT)) -> None:
        self.now_s = 0.0
        self.hardware = SimulatedHardware(load_robot(robot) if isinstance(robot, str) else robot)
        self.hardware.open()
        self.driver: Any = self.hardware.tendon_actuators(clock=lambda: self.now_s)
        self.driver.open()

    def run(self, duration_s: float, tension_n: np.ndarray = TENSION_N) -> Any:
        """Pull; gives the last reading."""
        for _ in range(round(duration_s / CYCLE_S)):
            self.now_s += CYCLE_S
            reading = self.driver.read(self.now_s)
            self.driver.write(tension_n, self.now_s)
        return reading

    def close(self) -> None:
        self.driver.close()
        self.hardware.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def test_the_driver_of_real_servos_pulls_the_tendons(bench: Bench) -> None:
    assert isinstance(bench.driver, DynamixelActuators)
    assert not bench.hardware.boards
    before = bench.run(0.05)
    bench.driver.enable()
    reading = bench.run(2.0)
    assert reading.device_faults == ()
    plant = bench.hardware.plant
    # A count of current is 1 mA; servo 3 turns the other way round.
    count_n = 0.001 * load_robot(str(ROBOT)).newton_per_ampere.max()
    np.testing.assert_allclose(reading.tension_n, TENSION_N, atol=2 * count_n)
    np.testing.assert_allclose(plant.tension, TENSION_N, atol=0.9)  # dry friction takes 0.5 N
    np.testing.assert_allclose(reading.displacement_m - before.displacement_m, plant.displacement, atol=2e-4)
    assert plant.rod_displacement[1] > 1e-3  # towards the tendon that pulls hardest


def test_runs_are_the_same_to_the_last_bit() -> None:
    readings = []
    for _ in range(2):
        bench = Bench()
        bench.driver.enable()
        reading = bench.run(0.3)
        readings.append(np.concatenate([reading.displacement_m, reading.velocity_m_per_s, reading.current_a]))
        bench.close()
    np.testing.assert_array_equal(*readings)


def test_a_machine_that_stalls_at_every_step_loses_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled_s = itertools.count(0.0, 10.0)
    monkeypatch.setattr(servo_bus, "time", SimpleNamespace(monotonic=lambda: next(stalled_s), sleep=lambda _s: None))
    bench = Bench()
    try:
        bench.driver.enable()
        assert bench.run(0.3).device_faults == ()
        assert bench.driver.bus.failures == 0
    finally:
        bench.close()


def test_a_servo_that_gets_too_hot_is_reported_and_lets_go(bench: Bench) -> None:
    bench.driver.enable()
    bench.run(0.1)
    bench.hardware.inject("servo.overheating", 2)
    faults = bench.run(0.3).device_faults
    assert any("servo 3: hardware_error overheating" in fault for fault in faults)
    assert bench.hardware.servos is not None
    assert bench.hardware.servos.servos.torque_enabled == [True, True, False, True, True]
    bench.hardware.inject("")
    bench.driver.clear_faults()
    bench.now_s += 0.5  # it starts again, and answers nothing meanwhile
    bench.hardware.step(bench.now_s)
    bench.run(0.2)
    bench.driver.enable()
    assert bench.run(0.2).device_faults == ()


def test_faults_of_servos_are_those_of_a_robot_with_servos(bench: Bench) -> None:
    assert "servo.silent" in catalog()
    with pytest.raises(DeviceError, match="servos"):
        SimulatedHardware(load_robot("opencr_five_tendon")).inject("servo.silent")
    with pytest.raises(ParameterError, match="until they are ended"):
        bench.hardware.inject("servo.silent", 1, duration_s=1.0)


def test_on_a_desk_they_stand_where_the_robot_file_says(tmp_path: Path) -> None:
    robot = load_robot(str(ROBOT))
    section = robot_on_ports(robot, tmp_path)["hardware"]["tendon_actuators"]
    assert section["port"] == str(tmp_path / "servos")
    with DevicePorts(SimulatedHardware(robot, folder=tmp_path), tmp_path, 0.005) as desk:
        assert desk.running
        driver = DynamixelActuators(
            robot, robot.hardware.tendon_actuators, find_port=lambda: section["port"], answer_margin_s=0.5
        )
        driver.open()
        try:
            assert np.isfinite(driver.read(driver.clock()).displacement_m).all()
        finally:
            driver.close()
    assert not Path(section["port"]).exists()


@pytest.fixture
def held() -> Iterator[Bench]:
    bench = Bench("three_segment_servo")
    yield bench
    bench.close()


def test_servos_that_hold_displacements_move_the_robot_without_a_jump_at_the_start(held: Bench) -> None:
    assert held.hardware.servos is not None
    emulated = held.hardware.servos.servos
    assert isinstance(emulated, EmulatedDynamixels)
    assert emulated.model.name == "XL430-W250"
    plant = held.hardware.plant
    start = held.driver.read(0.0).displacement_m
    held.driver.enable()
    spooled = plant.displacement.copy()
    for _ in range(50):
        held.now_s += CYCLE_S
        held.driver.read(held.now_s)
    np.testing.assert_allclose(plant.displacement, spooled, atol=2e-5)
    goal = start + np.array([3, -1, -2, 2, 0, -2, 1, 1, -2]) * 1e-3
    reading = held.run(1.5, goal)
    assert reading.device_faults == ()
    # A servo without an integral stays behind by what its load needs.
    np.testing.assert_allclose(reading.displacement_m, goal, atol=6e-4)
    np.testing.assert_allclose(reading.displacement_m - start, plant.displacement - spooled, atol=2e-5)
    assert plant.rod_displacement[0] > 1e-3
    assert np.abs(reading.tension_n).max() > 1.0
    assert np.isnan(reading.current_a).all()


def test_displaced_runs_are_the_same_to_the_last_bit() -> None:
    readings = []
    for _ in range(2):
        bench = Bench("three_segment_servo")
        bench.driver.enable()
        reading = bench.run(0.2, bench.driver.read(bench.now_s).displacement_m + 1e-3)
        readings.append(np.concatenate([reading.displacement_m, reading.velocity_m_per_s, reading.tension_n]))
        bench.close()
    np.testing.assert_array_equal(*readings)


def test_motor_boards_are_refused_where_the_actuators_take_displacements() -> None:
    robot = load_robot("three_segment_servo")
    with pytest.raises(ParameterError, match=r"actuators.command"):
        backends._checked(robot, SimpleNamespace(kind="odri_can"), SimpleNamespace())


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "feetech"},
        {"kind": "moteus"},
        {"kind": "cia402"},
        {"kind": "dynamixel", "protocol": 1},
        {"kind": "dynamixel", "mode": "position"},
    ],
)
def test_servos_of_every_kind_start_in_the_middle_of_their_turn_and_follow(section: dict[str, Any]) -> None:
    robot = load_robot("three_segment_servo")
    counts = {"counts_per_turn": 4096} if section["kind"] == "cia402" else {}
    motors = [{"id": tendon, "tendon": tendon, **counts} for tendon in range(1, 10)]
    actuators = {"port": "none", "motors": motors, "receive_timeout_ms": 320, **section}
    hardware = read(Hardware, {"serial_number": "s", "tendon_actuators": actuators})
    bench = Bench(robot.changed(hardware=hardware))
    try:
        start = bench.driver.read(0.0).displacement_m
        np.testing.assert_allclose(start, 0.0, atol=1e-4)
        bench.driver.enable()
        goal = start + np.array([3, -1, -2, 2, 0, -2, 1, 1, -2]) * 1e-3
        reading = bench.run(1.5, goal)
        assert reading.device_faults == ()
        np.testing.assert_allclose(reading.displacement_m, goal, atol=7e-4)
    finally:
        bench.close()
