# SPDX-License-Identifier: Apache-2.0
"""A simulator and drivers that meet on its sockets, in lock-step: connecting, leaving, coming back, faults."""

from __future__ import annotations

import contextlib
import socket

import numpy as np
import pytest

from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.simulated_link.actuators import SimulatedLinkActuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bodies.mechanisms import linked_count, linked_tip
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, link_path
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.simulator import Simulator

ROBOT = load_robot("opencr_five_tendon")
N = ROBOT.tendon_count
MS = 1_000_000


class Bench:
    """A simulator in lock-step and the time of everybody."""

    def __init__(self, level, namespace, robot=ROBOT):
        self.robot, self.namespace, self.now_ns = robot, namespace, 0
        self.simulator = Simulator(robot, level, namespace=namespace)
        self.simulator.open()
        self.simulator.advance_to(0)

    @property
    def now_s(self):
        return self.now_ns * 1e-9

    def pass_time(self, duration_s=1e-3):
        self.now_ns += round(duration_s * 1e9)
        self.simulator.advance_to(self.now_ns)

    def driver(self, **options):
        wires = SimulatedWires(self.namespace, self.robot.name, wait_s=0.0, on_connect=self.simulator.accept)
        if self.simulator.hardware is not None:
            clock = {"clock": lambda: self.now_s, "sleep": self.pass_time}
            robot = wired(self.robot)
            return OdriTendonActuators(
                robot, robot.hardware.tendon_actuators, socket_factory=wires.open_channel, simulated=True, **clock
            )
        return SimulatedLinkActuators(N, wires.open_link, **options)

    def cycle(self, driver, tension=None):
        self.pass_time()
        reading = driver.read(self.now_s)
        if tension is not None:
            driver.write(np.full(N, tension), self.now_s)
        return reading

    def close(self):
        self.simulator.close()


@pytest.fixture
def make(tmp_path):
    made = []

    def bench(level, **options):
        made.append(Bench(level, tmp_path.name, **options))
        return made[-1]

    yield bench
    for one in made:
        one.close()


@pytest.mark.parametrize("level", ["dynamics", "wire"])
def test_the_robot_moves_and_a_driver_that_leaves_leaves_it_to_its_timeout(make, level):
    bench = make(level)
    driver = bench.driver()
    driver.open()
    driver.enable()
    for _ in range(100):
        reading = bench.cycle(driver, 3.0)
    np.testing.assert_allclose(reading.tension_n, 3.0, atol=0.5)
    assert reading.stamp_s == pytest.approx(bench.now_s, abs=2e-3)
    assert driver.simulated
    # Killed, not closed: nothing is reported.
    for wire in [channel.line.end for channel in driver.channels] if level == "wire" else [driver._wire]:
        wire.shutdown(socket.SHUT_RDWR)
    bench.pass_time(1.0)
    again = bench.driver()
    again.open()
    assert again.read(bench.now_s).tension_n == pytest.approx(np.zeros(N), abs=0.2)
    again.enable()
    for _ in range(100):
        reading = bench.cycle(again, 2.0)
    np.testing.assert_allclose(reading.tension_n, 2.0, atol=0.5)
    again.close()


def test_the_link_is_the_simulated_device_to_the_last_bit(make):
    """The same commands at the same times, over the sockets and without."""
    bench = make("dynamics")
    direct = SimulatedTendonActuators(ROBOT, receive_timeout_s=0.1)
    driver = bench.driver(receive_timeout_s=0.1)
    driver.open()
    direct.open()
    direct.read(0.0)
    for actuators in (driver, direct):
        actuators.enable()
    rng = np.random.default_rng(2)
    for step in range(300):
        if step == 100:
            bench.simulator.inject("encoder_jump", 1, 0.01)
            direct.inject("encoder_jump", 1, 0.01)
        if step == 150:
            bench.simulator.inject("device_fault", 2, 0.0, 0.02)
            direct.inject("device_fault", 2, 0.0, 0.02)
        if step == 200:
            driver.clear_faults()
            direct.clear_faults()
        bench.pass_time()
        mine, theirs = driver.read(bench.now_s), direct.read(bench.now_s)
        for name in ("displacement_m", "velocity_m_per_s", "tension_n", "current_a", "temperature_c", "age_s"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        assert mine.stamp_s == theirs.stamp_s
        assert mine.device_faults == theirs.device_faults
        assert bool(mine.device_faults) == (150 <= step < 200)
        if not 220 <= step < 290:  # a pause that is longer than the receive timeout, less the pause of the clearing
            tension = rng.uniform(0.5, 5.0, N)
            driver.write(tension, bench.now_s)
            direct.write(tension, bench.now_s)


def test_nothing_is_skipped_however_far_the_time_is_advanced(make):
    bench = make("dynamics")
    bench.pass_time(0.7305)
    report = bench.simulator.report()
    assert report.skipped_s == 0.0
    assert report.simulated_s == pytest.approx(0.7305)
    bench.simulator.advance_to(5)  # is over
    assert bench.simulator.now_s == pytest.approx(0.7305)


def test_a_simulator_that_is_started_later_begins_at_the_time_of_the_others(tmp_path):
    """After a reset of the stack the whole run before was simulated once more."""
    simulator = Simulator(ROBOT, "dynamics", namespace=tmp_path.name)
    simulator.open()
    with contextlib.closing(simulator):
        simulator.advance_to(round(3600e9))
        assert simulator.report().simulated_s == 0.0
        simulator.advance_to(round(3600e9) + 5 * MS)
        assert simulator.report().simulated_s == pytest.approx(0.005)


def test_a_second_simulator_of_the_same_robot_is_refused_and_disturbs_nobody(make):
    bench = make("dynamics")
    driver = bench.driver()
    driver.open()
    second = Simulator(ROBOT, "dynamics", namespace=bench.namespace)
    with pytest.raises(DeviceError, match="already simulates this robot"):
        second.open()
    bench.cycle(driver)
    Simulator(ROBOT, "dynamics", namespace=bench.namespace + "_other").close()


def test_a_second_simulator_leaves_the_ports_of_servos_in_place(tmp_path):
    robot = load_robot("three_segment_servo")
    first, second = (Simulator(robot, "wire", namespace=tmp_path.name) for _ in range(2))
    first.open()
    try:
        ports = {file.name for file in first.folder.iterdir()}
        with pytest.raises(DeviceError):
            second.open()
        second.close()
        assert {file.name for file in first.folder.iterdir()} == ports >= {"servos"}
    finally:
        first.close()
    assert not first.folder.exists()


def test_a_driver_finds_a_simulator_that_was_started_again(tmp_path):
    first = Bench("dynamics", tmp_path.name)
    driver = first.driver()
    driver.open()
    first.close()
    assert not first.simulator.folder.exists()
    with pytest.raises(DeviceError, match="simulator ended"):
        driver.read(0.0)
    with pytest.raises(DeviceError):
        driver.read(0.1)  # not looked for yet
    with pytest.raises(DeviceError, match="not there"):
        driver.read(1.0)
    with pytest.raises(DeviceError):
        driver.write(np.zeros(N), 1.0)
    second = Bench("dynamics", tmp_path.name)
    driver.read(2.0)
    assert np.isfinite(second.cycle(driver).displacement_m).all()
    second.close()
    driver.close()


def test_the_boards_come_back_with_their_simulator(tmp_path):
    first = Bench("wire", tmp_path.name)
    driver = first.driver()
    driver.open()
    first.close()
    for step in range(20):
        driver.read(first.now_s + 1e-3 * step)
    assert all(channel.port.failed for channel in driver.channels)
    second = Bench("wire", tmp_path.name)
    first.simulator = second.simulator  # whose time the driver has
    first.pass_time(1.0)
    for _ in range(3):
        first.cycle(driver)
    assert not any(channel.port.failed for channel in driver.channels)
    driver.close()
    second.close()


def test_a_newer_driver_takes_over_and_the_older_one_is_told(make):
    bench = make("dynamics")
    older, newer = bench.driver(), bench.driver()
    older.open()
    older.enable()
    newer.open()
    with pytest.raises(DeviceError, match="another driver"):
        bench.cycle(older)
    newer.enable()
    for _ in range(50):
        reading = bench.cycle(newer, 1.0)
    np.testing.assert_allclose(reading.tension_n, 1.0, atol=1e-9)


def test_a_driver_of_another_robot_is_refused(make):
    bench = make("dynamics")
    wires = SimulatedWires(bench.namespace, ROBOT.name, wait_s=0.0, on_connect=bench.simulator.accept)
    with pytest.raises(DeviceError, match="5 tendons instead of 4"):
        SimulatedLinkActuators(4, wires.open_link).open()
    with pytest.raises(DeviceError, match="not there"):
        wires.open_channel("can0")
    driver = bench.driver()
    with pytest.raises(DeviceError, match="not open"):
        driver.read(0.0)
    driver.open()
    with pytest.raises(ParameterError, match="5 finite"):
        driver.write(np.zeros(4), 0.0)
    with pytest.raises(ParameterError, match="finite"):
        driver.write(np.full(N, np.nan), 0.0)


def test_bytes_that_nobody_knows_are_counted(make):
    bench = make("dynamics")
    driver = bench.driver()
    driver.open()
    driver._wire.send(b"what?")
    bench.cycle(driver)
    assert bench.simulator._link.bad_datagrams == 1


def test_strings_are_published_for_other_processes(make):
    bench = make("dynamics")
    reader = PlantLinkReader(link_path(bench.namespace, ROBOT.name))
    bench.pass_time()
    sample = reader.read()
    assert sample.time_s == bench.now_s
    bench.simulator.link_on_demand()
    bench.pass_time()
    worked_out = bench.simulator.plant.linked
    sample = reader.read()
    assert sample.time_s == bench.now_s
    np.testing.assert_array_equal(sample.extension_m, worked_out)
    assert sample.extension_m.shape == (linked_count(ROBOT),)
    tip = linked_tip(ROBOT, sample.extension_m)
    np.testing.assert_allclose(tip[:3, 3], [0.0, 0.0, ROBOT.length_m], atol=1e-3)
    reader.close()


def test_levels_and_contacts_that_cannot_be():
    with pytest.raises(ParameterError, match="level"):
        Simulator(ROBOT, "magic")
    with pytest.raises(DeviceError, match="no plant"):
        Simulator(ROBOT, "dynamics").plant  # noqa: B018
    with pytest.raises(DeviceError, match="not open"):
        Simulator(ROBOT, "dynamics").step(0.0)
