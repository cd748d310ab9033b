# SPDX-License-Identifier: Apache-2.0
"""A computer that stands still for a moment makes no fault of servos, and what is really wrong is found in time.

Time is virtual: a stall is as long as it is said to be.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_servos import SERVOS, ServoMotor, driver_of, dynamixels, position_stand, positioned
from servo_stand import PERIOD_S, ServoLoop, Servos, servo_robot

from continuum_robot.drivers.dynamixel import protocol_2
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.drivers.dynamixel.models import model_named
from continuum_robot.drivers.polled import RECEIVE_TIMEOUT
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.drivers.servo_bus import ANSWER_MARGIN_S, SILENT_SERVO
from continuum_robot.identification.procedures.homing import LoadOnset
from continuum_robot.identification.procedures.procedure import ProcedureRun
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.faults import DROP_READINGS
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.testing import VirtualStack

POLL_S, BYTE_S = 0.005, 1e-5
READING_TIMEOUT_S = positioned().displacement_limits.reading_timeout_s
STALLS_S = (0.03, 0.1)


class Bus:
    """Servos and the shipped driver in this process, on a clock that bytes, waiting and stalls move.

    Attributes
    ----------
    servos_stall_s : until then no servo, and no adapter, takes or sends anything
    host_stalls_s : the host stands still for so long in its next question
    lost_s : until then the answers of ``lost`` servos are lost
    """

    def __init__(self) -> None:
        self.now_s = 1.0
        self.servos_stall_s, self.host_stalls_s, self.lost_s, self.lost = 0.0, 0.0, 0.0, (SERVOS[1], SERVOS[2])
        self.motors = {servo: ServoMotor(0.3) for servo in SERVOS}
        self.servos = EmulatedDynamixels(self.motors, model_named("XL430-W250"))
        self.servos.step(self.now_s)
        self._waiting = b""
        settings = dynamixels("bus", receive_timeout_ms=160)
        self.actuators = driver_of(
            positioned(), settings, clock=lambda: self.now_s, stepped=True, ask=self.ask, answer_margin_s=None
        )
        self.actuators.open()
        self.actuators.enable()
        self.place_m = self.actuators.read(self.now_s).displacement_m

    def ask(self, data: bytes) -> bytes:
        self.now_s += BYTE_S * len(data)
        asks = data[7] != protocol_2.SYNC_WRITE
        if asks:
            self.now_s, self.host_stalls_s = self.now_s + self.host_stalls_s, 0.0
        self._waiting += data
        answers = b""
        if self.now_s >= self.servos_stall_s:
            self._pass_time()
            lost = self.lost if self.now_s < self.lost_s else ()
            for servo in lost:
                self.servos.inject("silent", servo)
            answers, self._waiting = self.servos.take(self._waiting), b""
            for servo in lost:
                self.servos.inject("", servo)
        self.now_s += BYTE_S * len(answers) if answers or not asks else ANSWER_MARGIN_S
        return answers

    def _pass_time(self) -> None:
        for motor in self.motors.values():
            motor.advance(min(0.01, self.now_s - self.servos.now_s))
        self.servos.step(self.now_s)

    def run(self, duration_s: float) -> Any:
        """Cycles of a driver that holds; the newest reading."""
        end_s = self.now_s + duration_s
        while self.now_s < end_s:
            self.now_s += POLL_S
            reading = self.actuators.read(self.now_s)
            self.actuators.write(self.place_m, self.now_s)
        return reading


@pytest.mark.parametrize("stall_s", STALLS_S)
def test_a_stall_of_the_host_with_a_lost_answer_is_an_old_reading_and_no_silent_servo(stall_s: float) -> None:
    bus = Bus()
    bus.run(0.1)
    bus.now_s += POLL_S
    bus.host_stalls_s, bus.lost_s = stall_s, bus.now_s + stall_s + 0.03
    before_s = bus.now_s
    reading = bus.actuators.read(bus.now_s)
    assert reading.device_faults == ()
    measured_s = reading.stamp_s - reading.age_s
    assert (measured_s <= before_s).all()  # none is stamped with a time at which nobody measured
    assert bus.run(0.3).device_faults == ()


@pytest.mark.parametrize("stall_s", STALLS_S)
def test_a_stall_of_the_adapter_is_an_old_reading_and_no_silent_servo(stall_s: float) -> None:
    bus = Bus()
    bus.run(0.1)
    stalled_s = bus.now_s
    bus.servos_stall_s = stalled_s + stall_s
    while bus.now_s < bus.servos_stall_s:
        bus.now_s += POLL_S
        reading = bus.actuators.read(bus.now_s)
        assert reading.device_faults == ()
        answered = bus.now_s >= bus.servos_stall_s
        assert answered or (reading.stamp_s - reading.age_s <= stalled_s).all()
    reading = bus.run(0.3)
    assert reading.device_faults == ()
    assert bus.now_s - (reading.stamp_s - reading.age_s.max()) < 3 * POLL_S


@pytest.mark.parametrize("count", [1, 2, len(SERVOS)])
def test_servos_that_are_silent_are_found_before_their_readings_are_too_old(count: int) -> None:
    bus = Bus()
    bus.run(0.1)
    for servo in SERVOS[:count]:
        bus.servos.inject("silent", servo)
    begin_s = bus.now_s
    while not bus.actuators.read(bus.now_s).device_faults:
        bus.run(POLL_S)
    assert bus.now_s - begin_s <= READING_TIMEOUT_S
    bus.run(0.5)
    names = [fault.split(": ") for fault in bus.actuators.read(bus.now_s).device_faults]
    assert {name for _, name in names} == {SILENT_SERVO}
    found = {int(servo.rsplit(" ", 1)[1]) for servo, _ in names}
    assert found == set(SERVOS[:count])


def test_a_host_that_stood_still_longer_than_the_servos_watchdog_knows_that_they_take_no_goals() -> None:
    bus = Bus()
    bus.run(0.1)
    bus.host_stalls_s = 0.2
    bus.run(0.05)
    assert bus.servos.register(SERVOS[0], 98, 1) == 0xFF  # struck
    assert [fault.split(": ")[1] for fault in bus.run(0.05).device_faults] == [RECEIVE_TIMEOUT]
    bus.actuators.clear_faults()
    bus.actuators.enable()
    assert bus.run(0.1).device_faults == ()
    assert bus.servos.register(SERVOS[0], 98, 1) == 8


def test_the_threads_of_a_bus_are_as_urgent_as_the_loops_they_work_for() -> None:
    """Else a busy machine keeps a loop under SCHED_FIFO waiting for what an ordinary thread reads."""
    held: list[tuple[int, int]] = []

    def loop(work: Callable[[], object], worker: threading.Thread) -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))
        work()
        assert worker.native_id is not None
        held.append((os.sched_getscheduler(worker.native_id), os.sched_getparam(worker.native_id).sched_priority))

    stand = position_stand()
    try:
        stand.actuators.open()
        stand.line.serve()
        stand.pacer.stop()
        pairs = ((stand.read, stand.actuators._thread), (lambda: stand.line.step(1e9), stand.line._thread))
        for pair in pairs:
            thread = threading.Thread(target=loop, args=pair)
            thread.start()
            thread.join()
    finally:
        stand.close()
    if not held:
        pytest.skip("no real-time priority for this user")
    assert held == [(os.SCHED_FIFO, 7)] * 2


def test_a_late_reading_times_out_by_its_own_limit_though_the_controller_gives_no_answer() -> None:
    robot = load_robot("three_segment_servo")
    stand = VirtualStack(robot, Plant(robot), seed=0)
    try:
        stand.activate()
        stand.run(0.2)
        for late_s, faults in ((0.2, []), (1.0, ["reading_timeout"])):
            stand.inject(DROP_READINGS, -1, 0.0, late_s)
            stand.run(0.4)
            assert [name for _, name in stand.faults] == faults
    finally:
        stand.close()


# --- readings that repeat


class Untold(Servos):
    """Servos that hear nothing while the host stalls, and whose readings repeat until they do."""

    untold = False

    def write(self, displacement_m: Any, now_s: float) -> None:
        if not self.untold:
            super().write(displacement_m, now_s)


@pytest.mark.parametrize("stall_s", STALLS_S)
def test_a_command_that_moved_before_a_stall_makes_no_frozen_reading(stall_s: float) -> None:
    robot = servo_robot()
    servos = Untold(robot.tendon_count)
    stand = ServoLoop(robot, servos)
    stand.activate()
    speed = 0.9 * robot.displacement_limits.speed_m_per_s
    goal = stand.place_m

    def move(cycles: int) -> None:
        nonlocal goal
        for _ in range(cycles):
            goal = goal + speed * PERIOD_S
            stand.command(goal)

    move(10)
    servos.untold, servos.frozen[:] = True, True  # the bus is three cycles late
    move(3)
    stand.pace.pass_time(stall_s)
    move(1)
    servos.untold, servos.frozen[:] = False, False
    move(10)
    assert stand.safety.faults == ()


def test_readings_that_repeat_are_frozen_within_their_time_on_a_computer_that_stalls() -> None:
    stand = ServoLoop()
    stand.activate()
    stand.servos.frozen[0] = True
    goal, begin_s = stand.place_m, stand.pace.now_s()
    while not stand.safety.faults:
        goal = goal + 0.02 * PERIOD_S
        stand.command(goal)
        if round((stand.pace.now_s() - begin_s) / PERIOD_S) % 8 == 0:
            stand.pace.pass_time(0.03)
    assert stand.safety.faults == ("frozen_reading",)
    assert stand.pace.now_s() - begin_s < 0.4


# --- the emulator's own process


def servos_of(clock: Any) -> SimulatedHardware:
    robot = load_robot("three_segment_servo")
    assert robot.hardware is not None
    hardware = SimulatedHardware(robot.changed(simulation=dataclasses.replace(robot.simulation, truth="")), clock=clock)
    hardware.open()
    return hardware


@pytest.mark.parametrize("stall_s", [*STALLS_S, 0.4])
def test_servos_whose_steps_are_late_answer_what_is_and_keep_their_watchdogs(stall_s: float) -> None:
    now_s = 1.0
    hardware = servos_of(lambda: now_s)
    line = hardware.servos
    assert line is not None
    try:
        hardware.step(now_s)
        driver: Any = hardware.tendon_actuators(clock=lambda: now_s)
        driver.open()
        driver.enable()
        place = driver.read(now_s).displacement_m
        for goal in [place] * 10 + [place + 0.003] * 2:
            now_s += 0.005
            driver.write(goal, now_s)
            driver.read(now_s)
        asked: list[bytes] = []
        driver.bus.in_process = lambda data: asked.append(data) or b""
        now_s += 0.005
        driver.read(now_s)
        before = hardware.plant.displacement
        now_s += stall_s  # the process of the servos stands still; what the host sends meanwhile waits at the port
        port = SerialPort(line.port, 1_000_000, device="servos", setting="port")
        port.open()
        port.write(b"".join(asked))
        port.wait(10.0)
        assert port.read()
        port.close()
        assert (hardware.plant.displacement - before > 1e-4).all()
        watchdogs = {line.servos.register(number, 98, 1) for number in line.servos.servos}
        assert 0xFF not in watchdogs
        hardware.step(now_s + 0.5)  # nobody is there any more
        assert {line.servos.register(number, 98, 1) for number in line.servos.servos} == {0xFF}
    finally:
        hardware.close()
    assert np.isfinite(hardware.plant.displacement).all()


def test_a_procedure_that_is_stopped_by_a_device_says_which_and_why() -> None:
    stand = ServoLoop()
    run = ProcedureRun(LoadOnset(stand.robot), stand.safety)
    stand.loop.switch_on()
    stand.loop.begin_procedure(run)
    stand.run(0.1)
    stand.servos.faults = ("port servo 3: silent_servo",)
    stand.run(0.1)
    assert "port servo 3: silent_servo" in run.problem
