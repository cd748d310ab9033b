# SPDX-License-Identifier: Apache-2.0
"""What drivers/protocols.py promises, asked of every backend: simulated, CAN boards on two wires, servos."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pytest
from emulated_servos import SERVOS, ServoStand, driver_of, dynamixels
from odri_stand import OdriStand, five_tendons
from test_cia402 import emulated as emulated_drives
from test_cia402 import section as cia402_section
from test_cia402 import stand_of as drive_stand

from continuum_robot.drivers.cia402.device import Cia402Actuators
from continuum_robot.drivers.joined_actuators import JoinedActuators
from continuum_robot.drivers.protocols import CountsFromPowerOn, TendonActuators, TendonReading
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.simulation import faults
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators

CYCLE_S = 0.002
LONGEST_S = 60.0


class Backend(Protocol):
    """A device with its surroundings; times are virtual where they can be."""

    actuators: TendonActuators

    def now(self) -> float: ...

    def wait(self, duration_s: float) -> None: ...

    def fail(self) -> None:
        """Something breaks that the device reports."""

    def heal(self) -> None: ...

    def close(self) -> None: ...


class Simulated:
    def __init__(self) -> None:
        self._now_s = 5.0
        self.actuators = SimulatedTendonActuators(five_tendons())

    def now(self) -> float:
        return self._now_s

    def wait(self, duration_s: float) -> None:
        self._now_s += duration_s

    def fail(self) -> None:
        self.actuators.inject(faults.DEVICE_FAULT, 1)

    def heal(self) -> None:
        self.actuators.inject("")

    def close(self) -> None:
        self.actuators.close()


class Boards:
    def __init__(self, interface: str) -> None:
        self._stand = OdriStand(interface)
        self.actuators = self._stand.actuators

    def now(self) -> float:
        return self._stand.now_s

    def wait(self, duration_s: float) -> None:
        self._stand.sleep(duration_s)

    def fail(self) -> None:
        self._stand.boards[1].inject("silent")

    def heal(self) -> None:
        self._stand.boards[1].inject("")

    def close(self) -> None:
        self._stand.close()


class Servos:
    def __init__(self, stand: Callable[[], ServoStand] = ServoStand) -> None:
        self._stand = stand()
        self.actuators = self._stand.actuators

    def now(self) -> float:
        return time.monotonic()

    def wait(self, duration_s: float) -> None:
        time.sleep(duration_s)

    def fail(self) -> None:
        self._stand.line.inject("silent", 2)

    def heal(self) -> None:
        self._stand.line.inject("", 2)

    def close(self) -> None:
        self._stand.close()


class Joined:
    """Servos of one kind on tendons 1 to 3, drives of another on the others, each kind on a port of its own."""

    def __init__(self) -> None:
        robot, motors = five_tendons(), cia402_section("none").motors
        self._servos = ServoStand(driver=lambda port: driver_of(robot, dynamixels(port, SERVOS[:3])))
        self._drives = ServoStand(
            emulated_drives,
            lambda port: Cia402Actuators(
                robot, dataclasses.replace(cia402_section(port), motors=motors[3:]), answer_margin_s=0.5, simulated=True
            ),
        )
        self.actuators = JoinedActuators([self._servos.actuators, self._drives.actuators], [(1, 2, 3), (4, 5)])

    def now(self) -> float:
        return time.monotonic()

    def wait(self, duration_s: float) -> None:
        time.sleep(duration_s)

    def fail(self) -> None:
        self._drives.line.inject("silent", 11)

    def heal(self) -> None:
        self._drives.line.inject("", 11)

    def close(self) -> None:
        self.actuators.close()
        self._servos.close()
        self._drives.close()


BACKENDS: dict[str, Callable[[], Any]] = {
    "simulated": Simulated,
    "boards on sockets": lambda: Boards("sockets"),
    "boards on a virtual bus": lambda: Boards("virtual"),
    "boards behind slcan on a pty": lambda: Boards("slcan"),
    "servos on a pty": Servos,
    "CiA 402 drives behind slcan on a pty": lambda: Servos(lambda: drive_stand(five_tendons(), 0.0)),
    "servos and drives": Joined,
}


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = BACKENDS[request.param]()
    yield made
    made.close()


def run_until(
    backend: Backend, happened: Callable[[TendonReading], bool], tension: float | None = None
) -> TendonReading:
    """Cycles until something happened, which must be in time; the reading that shows it."""
    end_s = backend.now() + LONGEST_S
    while backend.now() < end_s:
        backend.wait(CYCLE_S)
        reading = backend.actuators.read(backend.now())
        if happened(reading):
            return reading
        if tension is not None:
            backend.actuators.write(np.full(5, tension), backend.now())
    raise AssertionError(f"it did not happen in {LONGEST_S} s; the last reading was {reading}")


def test_it_is_what_the_protocol_says(backend: Backend) -> None:
    assert isinstance(backend.actuators, TendonActuators)
    assert backend.actuators.tendon_count == 5
    assert backend.actuators.simulated


def test_before_open_reading_writing_and_enabling_are_refused_and_ending_is_not(backend: Backend) -> None:
    for call in (
        backend.actuators.enable,
        lambda: backend.actuators.read(backend.now()),
        lambda: backend.actuators.write(np.ones(5), backend.now()),
    ):
        with pytest.raises(DeviceError, match="not open"):
            call()
    backend.actuators.disable()
    backend.actuators.clear_faults()
    backend.actuators.close()


def test_readings_are_whole_and_fresh_and_their_own(backend: Backend) -> None:
    backend.actuators.open()
    first = run_until(backend, lambda reading: bool(np.isfinite(reading.displacement_m).all()))
    for name in ("displacement_m", "velocity_m_per_s", "tension_n", "current_a", "temperature_c", "age_s"):
        values = getattr(first, name)
        assert values.shape == (5,)
        assert values.dtype == np.float64
        values[:] = 7.0
    second = run_until(backend, lambda reading: reading.stamp_s > first.stamp_s)
    assert (np.abs(second.displacement_m) < 0.01).all(), "nobody keeps the arrays of a reading"
    assert second.stamp_s <= backend.now()
    assert (second.age_s >= 0).all()
    assert second.device_faults == ()


def test_torque_is_off_before_enable_and_on_with_the_first_command(backend: Backend) -> None:
    backend.actuators.open()
    for _ in range(20):
        backend.wait(CYCLE_S)
        reading = backend.actuators.read(backend.now())
        backend.actuators.write(np.full(5, 5.0), backend.now())
        assert np.nan_to_num(np.abs(reading.tension_n)).max() < 0.1
    backend.actuators.enable()
    reading = run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    np.testing.assert_allclose(reading.tension_n, 5.0, atol=0.6)
    assert (reading.displacement_m > -1e-4).all()


def test_enabling_twice_changes_nothing(backend: Backend) -> None:
    backend.actuators.open()
    backend.actuators.open()
    backend.actuators.enable()
    run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    backend.actuators.enable()
    reading = run_until(backend, lambda _reading: True, tension=5.0)
    assert (reading.tension_n > 4.0).all()


def test_disable_takes_the_torque_off_and_later_commands_do_not_bring_it_back(backend: Backend) -> None:
    backend.actuators.open()
    backend.actuators.enable()
    run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    backend.actuators.disable()
    backend.actuators.disable()
    run_until(backend, lambda reading: bool((np.abs(reading.tension_n) < 0.2).all()))
    for _ in range(10):
        backend.actuators.write(np.full(5, 5.0), backend.now())
        backend.wait(CYCLE_S)
        assert np.abs(backend.actuators.read(backend.now()).tension_n).max() < 0.2


@pytest.mark.parametrize("tension", [np.ones(4), np.ones((5, 1)), np.array([1, 2, np.nan, 4, 5]), np.full(5, -np.inf)])
def test_what_is_no_tension_for_each_tendon_is_refused(backend: Backend, tension: Any) -> None:
    backend.actuators.open()
    with pytest.raises(ParameterError, match="5 finite"):
        backend.actuators.write(tension, backend.now())


def test_without_commands_a_device_lets_go_by_itself(backend: Backend) -> None:
    backend.actuators.open()
    backend.actuators.enable()
    run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    run_until(backend, lambda reading: bool((np.abs(reading.tension_n) < 0.2).all()))


def test_faults_are_named_latch_and_clear_when_their_cause_is_gone(backend: Backend) -> None:
    backend.actuators.open()
    backend.actuators.enable()
    run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    backend.fail()
    reading = run_until(backend, lambda reading: bool(reading.device_faults), tension=5.0)
    assert all(isinstance(text, str) and text for text in reading.device_faults)
    backend.actuators.disable()
    backend.heal()
    run_until(backend, lambda reading: bool(reading.age_s.max() < 0.01))
    assert backend.actuators.read(backend.now()).device_faults, "it latched"
    backend.actuators.clear_faults()
    assert backend.actuators.read(backend.now()).device_faults == ()
    backend.actuators.enable()
    run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
    assert backend.actuators.read(backend.now()).device_faults == ()


def test_it_can_be_closed_twice_and_opened_again(backend: Backend) -> None:
    for _ in range(2):
        backend.actuators.open()
        backend.actuators.enable()
        run_until(backend, lambda reading: bool((reading.tension_n > 4.0).all()), tension=5.0)
        backend.actuators.close()
        backend.actuators.close()
        with pytest.raises(DeviceError, match="not open"):
            backend.actuators.read(backend.now())


def test_real_devices_know_whether_they_lost_their_zero(backend: Backend) -> None:
    if isinstance(backend, Simulated):
        assert not isinstance(backend.actuators, CountsFromPowerOn)
        return
    assert isinstance(backend.actuators, CountsFromPowerOn)
    backend.actuators.open()
    assert not backend.actuators.aligned
    assert not backend.actuators.zero_lost.any()
    assert all(backend.actuators.counters().values())
    backend.actuators.enable()
    backend.actuators.close()
    backend.actuators.open()
    assert backend.actuators.aligned
