# SPDX-License-Identifier: Apache-2.0
"""The driver of the Rokubi against the simulated sensor, through a pty, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from continuum_robot.drivers.local_port import Pty
from continuum_robot.drivers.protocols import ForceReading, ForceSensor
from continuum_robot.drivers.rokubi_serial.device import RokubiForceSensor
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.rokubi_serial.settings import RokubiSerial
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.simulation.wire.ports import Pacer

SETTINGS = RokubiSerial(kind="rokubi_serial", port="/dev/none", baud_bps=460800, sinc=256, frame_id="flange")


class Bench:
    """Sensor and driver on one virtual clock."""

    def __init__(self, **options: Any) -> None:
        self.wrench = np.array([1.0, -2.0, 3.0, 0.125, 0.25, -0.5])
        self.now_s = 500.0
        self.sensor = SimulatedRokubi(lambda: self.wrench, **options)
        self.sensor.step(self.now_s)
        self.driver = RokubiForceSensor(SETTINGS, port=self.sensor.port, wait=False, clock=lambda: self.now_s)
        self.driver.open()

    def run(self, duration_s: float) -> ForceReading:
        for _ in range(max(1, round(duration_s * 1000))):
            self.now_s += 0.001
            self.sensor.step(self.now_s)
            reading = self.driver.read(self.now_s)
        return reading

    def run_until_measuring(self, limit_s: float = 6.0) -> ForceReading:
        end_s = self.now_s + limit_s
        while self.now_s < end_s:
            reading = self.run(0.005)
            if np.isfinite(reading.wrench).all():
                return reading
        raise AssertionError(f"no measurement within {limit_s} s: {reading}")

    def close(self) -> None:
        self.driver.close()
        self.sensor.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.run_until_measuring()
    yield made
    made.close()


def test_a_computer_that_stalls_before_it_reads_does_not_age_what_comes_after(bench: Bench) -> None:
    bench.run(0.5)
    begun_s = bench.now_s
    for _ in range(300):
        bench.now_s += 0.001
        bench.sensor.step(bench.now_s)
    bench.driver.read(begun_s)  # what it finds was sampled up to 0.3 s after the cycle began
    for _ in range(100):
        reading = bench.run(0.01)
        assert np.isfinite(reading.wrench).all()
        assert 0 <= reading.age_s < 0.01


@pytest.mark.parametrize(
    "options",
    [{"baud_bps": baud} for baud in (460800, 230400, 115200, 57600, 9600)] + [{"baud_holds_after": "restart"}],
    ids=lambda options: str(*options.values()),
)
def test_it_is_found_and_set_up_at_any_baud_rate(options: dict[str, Any]) -> None:
    bench = Bench(**options)
    first = bench.run(0.003)
    assert first.device_faults == ("sensor is being set up",)
    assert np.isnan(first.wrench).all()
    reading = bench.run_until_measuring()
    np.testing.assert_allclose(reading.wrench, bench.wrench, rtol=1e-7)
    bench.run(1.0)
    frames = bench.driver.statistics()["frames"]
    bench.run(1.0)
    # 51200/256 a second.
    assert bench.driver.statistics()["frames"] - frames == pytest.approx(200, abs=2)
    assert (bench.sensor.baud_bps == 460800) == ("baud_holds_after" not in options)
    bench.close()


@pytest.mark.parametrize("polls", [2, 3, 5, 20])
def test_a_sensor_that_takes_its_time_is_set_up(polls: int) -> None:
    """It looks at its line once in so many of the driver's polls: a baud rate must not change under a command."""
    bench = Bench()
    for poll_number in range(3000):
        bench.now_s += 0.001
        if poll_number % polls == 0:
            bench.sensor.step(bench.now_s)
        reading = bench.driver.read(bench.now_s)
        if np.isfinite(reading.wrench).all():
            break
    np.testing.assert_allclose(reading.wrench, bench.wrench, rtol=1e-7)
    assert bench.sensor.baud_bps == SETTINGS.baud_bps
    bench.close()


@pytest.mark.parametrize("options", [{}, {"baud_bps": 57600}, {"baud_holds_after": "restart"}], ids=str)
@pytest.mark.parametrize("begin", range(200, 210))
def test_a_sensor_that_stalls_while_it_is_set_up_is_asked_again(begin: int, options: dict[str, Any]) -> None:
    """As the simulated one does on a busy computer."""
    bench = Bench(**options)
    for tick in range(6000):
        bench.now_s += 0.001
        if not begin <= tick < begin + 250:
            bench.sensor.step(bench.now_s)
        reading = bench.driver.read(bench.now_s)
        if np.isfinite(reading.wrench).all():
            break
    np.testing.assert_allclose(reading.wrench, bench.wrench, rtol=1e-7)
    bench.close()


def test_it_is_what_the_nodes_ask_for(bench: Bench) -> None:
    assert isinstance(bench.driver, ForceSensor)
    assert bench.driver.frame_id == "flange"
    reading = bench.run(0.1)
    assert reading.temperature_c == pytest.approx(28.5)
    assert reading.device_faults == ()
    assert 0 <= reading.age_s < 0.006
    assert reading.stamp_s + reading.age_s == pytest.approx(bench.now_s)


@pytest.mark.parametrize("fault", ["flip", "delete", "truncate", "garbage", "silence", "babble"])
def test_a_damaged_frame_costs_that_frame(bench: Bench, fault: str) -> None:
    for _ in range(10):
        bench.sensor.inject(fault)
        reading = bench.run(0.03)
        np.testing.assert_allclose(reading.wrench, bench.wrench, rtol=1e-6)
    assert bench.driver.statistics()["sensor_restarts"] == 0


@pytest.mark.parametrize(
    ("fault", "text", "known"),
    [("overrange", "load beyond", True), ("invalid", "invalid measurement", False)],
)
def test_status_bits_reach_the_reading(bench: Bench, fault: str, text: str, known: bool) -> None:
    bench.sensor.inject(fault)
    reading = bench.run(0.02)
    assert text in reading.device_faults[0]
    assert bool(np.isfinite(reading.wrench).all()) is known
    bench.sensor.inject("")
    assert bench.run(0.02).device_faults == ()


def test_tare_takes_off_the_mean_and_readings_go_on_meanwhile(bench: Bench) -> None:
    bench.driver.start_tare(20)
    during = bench.run(0.05)
    assert bench.driver.taring
    np.testing.assert_allclose(during.wrench, bench.wrench, rtol=1e-7)
    bench.run(0.1)
    assert (bench.driver.taring, bench.driver.tare_problem) == (False, "")
    bench.wrench = bench.wrench + 1.0
    np.testing.assert_allclose(bench.run(0.02).wrench, 1.0, rtol=1e-6)


def test_a_tare_without_valid_measurements_changes_nothing(bench: Bench) -> None:
    bench.sensor.inject("invalid", duration_s=0.05)
    bench.driver.start_tare(100)
    bench.run(0.2)
    assert not bench.driver.taring
    assert "no valid measurement" in bench.driver.tare_problem
    np.testing.assert_allclose(bench.run(0.02).wrench, bench.wrench, rtol=1e-6)
    with pytest.raises(ParameterError):
        bench.driver.start_tare(0)


def test_unplugged_and_plugged_in_again(bench: Bench) -> None:
    bench.driver.start_tare(100)
    bench.sensor.inject("hang_up")
    with pytest.raises(DeviceError, match="is gone"):
        bench.run(0.01)
    assert "lost" in bench.driver.tare_problem
    with pytest.raises(DeviceError):
        bench.driver.start_tare()
    bench.sensor.plug_in()
    bench.now_s += 1.0
    np.testing.assert_allclose(bench.run_until_measuring().wrench, bench.wrench, rtol=1e-6)
    assert bench.driver.statistics()["reconnects"] == 1


@pytest.mark.parametrize("fault", ["reboot", "power_cycle"])
def test_a_sensor_that_started_again_is_set_up_again(bench: Bench, fault: str) -> None:
    bench.sensor.inject(fault)
    if fault == "power_cycle":
        with pytest.raises(DeviceError):
            bench.run(0.01)
        bench.now_s += 1.0
    else:
        bench.run(0.1)
    np.testing.assert_allclose(bench.run_until_measuring(8.0).wrench, bench.wrench, rtol=1e-6)
    assert bench.sensor.baud_bps == 460800


def test_silence_is_told_and_then_the_sensor_is_set_up_again(bench: Bench) -> None:
    bench.sensor.inject("silence", duration_s=0.5)
    reading = bench.run(0.2)
    assert np.isnan(reading.wrench).all()
    assert reading.device_faults == ("sensor silent for more than 0.05 s",)
    assert np.isfinite(bench.run(0.4).wrench).all()


def test_a_burst_after_a_stall_is_stamped_by_the_sensors_clock(bench: Bench) -> None:
    bench.run(1.0)
    bench.sensor.inject("stall", duration_s=0.3)
    bench.run(0.25)
    reading = bench.run(0.1)
    assert reading.age_s < 0.006


def test_nobody_answers() -> None:
    line = Pty()
    driver = RokubiForceSensor(SETTINGS, port=str(line.path), wait=False)
    driver.open()
    with pytest.raises(DeviceError, match="no answer at any of its baud rates"):
        poll(driver)
    line.close()


def poll(driver: RokubiForceSensor, line: Pty | None = None) -> None:
    rng = np.random.default_rng(2)
    for tick in range(2000):
        if line is not None:
            line.send(rng.bytes(10))
        driver.read(tick * 0.005)


def test_something_else_answers() -> None:
    line = Pty()
    driver = RokubiForceSensor(SETTINGS, port=str(line.path), wait=False)
    driver.open()
    with pytest.raises(DeviceError, match="bytes came, but no answer"):
        poll(driver, line)
    line.close()


def test_open_waits_until_it_measures() -> None:
    sensor = SimulatedRokubi(lambda: np.ones(6))
    pacer = Pacer(sensor.step)
    pacer.start()
    driver = RokubiForceSensor(SETTINGS, port=sensor.port)
    with pytest.raises(DeviceError, match="is not open"):
        driver.read(0.0)
    try:
        driver.open()
        driver.start_tare(2)
        assert driver.taring
        with pytest.raises(DeviceError, match="already open"):
            RokubiForceSensor(SETTINGS, port=sensor.port).open()
    finally:
        driver.close()
        pacer.stop()
        sensor.close()
    assert driver.tare_problem
