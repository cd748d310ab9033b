# SPDX-License-Identifier: Apache-2.0
"""The driver's one cycle, interpreted, step by step: its order, what it answers, and what fails around it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety import tendon_faults
from continuum_robot.drivers.safety.tendon_safety import ACTIVE, SAFE, TendonSafety
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import StopPolicy
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.runtime.cycle.row import CycleRow

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits
N = ROBOT.tendon_count
MANIFOLD = clarke_manifold(ROBOT)
DT = 1e-3
ROW = CycleRow(N, ROBOT.coordinate_count)


class Device:
    """Actuators that are asked, and that hold the tensions written last."""

    def __init__(self, events):
        self.events, self.written = events, []
        self.read_fails = self.write_fails = False
        self.clarke, self.age_s, self.reads = np.zeros(2), np.zeros(N), 0
        self.held = np.full(N, 2.0)

    def read_into(self, reading, now_s):
        self.events.append("read")
        if self.read_fails:
            return False
        self.reads += 1
        # An encoder that flickers by a count, as of a robot that is alive.
        displacement = MANIFOLD.displacement(self.clarke + np.array([1e-6 * (self.reads % 2), 0]))
        zeros = np.zeros(N)
        current = self.held / ROBOT.newton_per_ampere
        reading.set(TendonReading(now_s, displacement, zeros, self.held, current, zeros + 30, self.age_s, ()))
        return True

    def write_commands(self, tension, now_s):
        self.events.append("write")
        self.written.append(list(tension))
        self.held = np.array(tension)
        return not self.write_fails

    def switch_off(self):
        self.events.append("off")
        return True


class Echo:
    """A controller whose answer shows which reading it saw."""

    def __init__(self, events):
        self.events, self.seen = events, []
        self.command = [2.0] * N
        self.clarke = self.clarke_rate = self.generalized_force = [0.0] * ROBOT.coordinate_count

    @staticmethod
    def of(displacement_m):
        return [2.0 + 1e3 * abs(float(value)) for value in displacement_m]

    def answer(self, reading, commanded, following, now_s, number):
        self.events.append("control")
        self.seen.append((bool(reading.valid), list(commanded), following, now_s, number))
        self.command = self.of(reading.displacement_m)
        return following and math.isfinite(sum(self.command))


class Watched(TendonSafety):
    """Reports when it is stepped."""

    events: list

    def step(self, *arguments):
        self.events.append("check")
        super().step(*arguments)


class Desk:
    """A cycle, its device, and the time."""

    def __init__(self, controller=None, *, active=True):
        self.events, self.now_s = [], 10.0
        self.device, self.safety = Device(self.events), Watched(ROBOT)
        self.safety.events = self.events
        self.controller = Echo(self.events) if controller == "echo" else controller
        self.cycle = DriverCycle(self.device, self.safety, N, ROBOT.coordinate_count, self.controller)
        self.step()
        if active:
            self.safety.activate(self.cycle.newest_reading(), self.now_s)
            self.cycle.power(on=True)
            self.cycle.control_now(on=True)
        self.events.clear()

    def step(self, count=1):
        for _ in range(count):
            self.now_s += DT
            self.cycle.step_once(self.now_s, DT)

    def row(self, back=1):
        log = self.cycle.rows()
        return log.row(log.count - back)


def test_each_cycle_reads_controls_checks_and_writes_in_this_order():
    desk = Desk("echo")
    desk.step(3)
    assert desk.events == ["read", "control", "check", "write"] * 3


def test_the_command_that_is_written_answers_the_state_just_read():
    desk = Desk("echo")
    for clarke in ([1e-4, 0], [3e-4, -2e-4], [0, 0]):
        desk.device.clarke = np.array(clarke)
        desk.step()
        seen = desk.cycle.newest_reading().displacement_m
        assert desk.device.written[-1] == Echo.of(seen)
        row = desk.row()
        assert row[ROW.desired] == Echo.of(seen)
        assert row[ROW.displacement] == list(seen)
        assert row[ROW.answered]
        assert row[ROW.written]
    # What a row holds as commanded was on the tendons when they were read.
    assert desk.row()[ROW.commanded] == desk.device.written[-2]
    assert desk.row()[ROW.number] == desk.cycle.cycles
    valid, commanded, following, now_s, number = desk.controller.seen[-1]
    assert (valid, following, now_s, number) == (True, True, desk.now_s, desk.cycle.cycles)
    assert commanded == desk.device.written[-2]


def test_a_controller_acts_only_where_it_is_told_to_and_the_driver_is_powered_and_active():
    desk = Desk("echo", active=False)
    desk.cycle.control_now(on=True)
    desk.step()
    assert not desk.controller.seen[-1][2]
    desk.safety.activate(desk.cycle.newest_reading(), desk.now_s)
    desk.step()
    assert not desk.controller.seen[-1][2], "not powered"
    desk.cycle.power(on=True)
    desk.step()
    assert desk.controller.seen[-1][2]
    desk.cycle.control_now(on=False)
    desk.step()
    assert not desk.controller.seen[-1][2]
    assert all(math.isnan(value) for value in desk.controller.seen[-1][1])
    desk.cycle.attach(None)
    desk.events.clear()
    desk.step()
    assert "control" not in desk.events


def test_a_reading_that_fails_ends_no_cycle_and_grows_old():
    desk = Desk("echo")
    desk.step(5)
    desk.device.read_fails = True
    desk.step()
    assert desk.cycle.newest_reading() is None
    assert desk.cycle.failures == (1, 0)
    row = desk.row()
    assert not row[ROW.valid]
    assert all(math.isnan(value) for value in row[ROW.displacement])
    assert row[ROW.age] == pytest.approx([DT] * N)
    assert not row[ROW.answered]
    desk.step(round(LIMITS.reading_timeout_s / DT) + 1)
    assert desk.safety.state == SAFE
    assert desk.safety.faults[0] == tendon_faults.READING_TIMEOUT
    written = len(desk.device.written)
    desk.step()
    assert len(desk.device.written) == written + 1, "the ramp is written invalid"
    desk.device.read_fails = False
    desk.step()
    assert desk.cycle.newest_reading() is not None


def test_a_writing_that_fails_ends_no_cycle_and_is_tried_again():
    desk = Desk("echo")
    desk.device.write_fails = True
    desk.step(3)
    assert desk.cycle.failures == (0, 3)
    assert desk.safety.state == ACTIVE
    desk.device.write_fails = False
    desk.step()
    assert desk.cycle.failures == (0, 3)
    assert len(desk.device.written) == 4


def test_an_age_that_is_unknown_is_stale():
    control = ControllerCycle(
        ClarkeController(ROBOT, clarke_feedforward(ROBOT)), ReferenceInput(2), ROBOT.control.state_timeout_s, DT
    )
    desk = Desk(control)
    desk.step(20)
    assert control.answered == 20
    desk.device.age_s[2] = math.nan
    desk.step()
    assert (control.answered, control.stale) == (20, 1)
    assert not desk.row()[ROW.answered]
    assert tendon_faults.READING_TIMEOUT in desk.safety.faults


def test_slack_is_taken_up_while_nothing_else_is_written():
    desk = Desk(active=False)
    desk.step()
    assert desk.device.written == []
    desk.cycle.take_up([1.0, 1.5, 2.0, 2.5, 3.0])
    desk.step(2)
    assert desk.device.written == [[1.0, 1.5, 2.0, 2.5, 3.0]] * 2
    assert desk.row()[ROW.commanded] == [1.0, 1.5, 2.0, 2.5, 3.0]
    desk.safety.activate(desk.cycle.newest_reading(), desk.now_s)
    desk.cycle.power(on=True)
    desk.step()
    assert desk.device.written[-1] == desk.safety.commanded.tolist(), "the safety logic goes first"
    desk.cycle.power(on=False)
    desk.step()
    assert len(desk.device.written) == 3
    assert all(math.isnan(value) for value in desk.row()[ROW.commanded])


def braking(desk):
    stop = StopPolicy(operator="brake")
    actuators = dataclasses.replace(ROBOT.actuators, brake_holds_n=2 * LIMITS.maximum_n)
    desk.safety = Watched(dataclasses.replace(ROBOT, stop=stop, actuators=actuators))
    desk.safety.events = desk.events
    desk.cycle = DriverCycle(desk.device, desk.safety, N, ROBOT.coordinate_count, desk.controller)


def test_a_brake_closes_in_the_cycle_that_obeys_the_e_stop_and_nothing_is_written_any_more():
    desk = Desk("echo", active=False)
    braking(desk)
    desk.step()
    desk.safety.activate(desk.cycle.newest_reading(), desk.now_s)
    desk.cycle.power(on=True)
    desk.cycle.control_now(on=True)
    desk.step(3)
    desk.events.clear()
    desk.safety.ask_estop("button")
    desk.step(3)
    assert desk.events == ["read", "control", "check", "off", "read", "control", "check", "read", "control", "check"]
    assert not desk.cycle.powered
    assert desk.safety.faults == (tendon_faults.ESTOP,)
    assert desk.safety.stop_action == "brake"
    assert [bool(desk.row(back)[ROW.changed]) for back in (3, 2, 1)] == [True, False, False]
    assert not desk.row(3)[ROW.written]
    assert all(math.isnan(value) for value in desk.row(2)[ROW.commanded])


def test_an_e_stop_ends_the_taking_up_of_slack_in_the_same_cycle():
    desk = Desk(active=False)
    desk.cycle.take_up([1.0] * N)
    desk.step()
    desk.events.clear()
    desk.safety.ask_estop("button")
    desk.step(2)
    assert desk.events == ["read", "check", "off", "read", "check"]
    assert desk.safety.state == SAFE


def test_a_procedure_answers_the_reading_of_its_cycle():
    desk = Desk()
    seen = []

    def commander(reading, elapsed_s):
        seen.append((reading, elapsed_s))
        return None if reading is None else Echo.of(reading.displacement_m)

    desk.device.clarke = np.array([2e-4, 0])
    desk.now_s += DT
    desk.cycle.step_for(commander, desk.now_s, DT)
    reading, elapsed_s = seen[-1]
    assert (reading.stamp_s, elapsed_s) == (desk.now_s, DT)
    assert desk.device.written[-1] == Echo.of(reading.displacement_m)
    desk.device.read_fails = True
    desk.now_s += DT
    desk.cycle.step_for(commander, desk.now_s, DT)
    assert seen[-1][0] is None
    assert not desk.row()[ROW.written]
    desk.device.read_fails = False
    desk.now_s += DT
    desk.cycle.step_for(lambda *_: [1.0] * (N - 1), desk.now_s, DT)
    assert tendon_faults.COMMAND_WRONG_SIZE in desk.safety.faults


def test_displacements_count_from_the_zero():
    desk = Desk("echo")
    raw = np.array([0.004, 0.0, 0.01, 0.002, 0.006])
    desk.cycle.set_zero(raw.tolist())
    assert desk.cycle.zero == raw.tolist()
    desk.step()
    np.testing.assert_allclose(desk.cycle.newest_reading().displacement_m, -raw, atol=2e-6)
    assert desk.row()[ROW.desired] == Echo.of(desk.cycle.newest_reading().displacement_m)
    with pytest.raises(ParameterError, match="5 values"):
        desk.cycle.set_zero([0.0] * 4)


def test_the_newest_command_of_another_program_is_heard_in_the_next_cycle():
    desk = Desk()
    desk.cycle.command([3.0] * N, desk.now_s, 1)
    desk.cycle.command([2.5] * N, desk.now_s, 2)
    desk.step()
    assert desk.device.written[-1] == [2.5] * N
    assert desk.row()[ROW.desired] == [2.5] * N
    written = len(desk.device.written)
    desk.step()
    assert len(desk.device.written) == written, "an old command is never written again"
    desk.cycle.command([2.6] * N, desk.now_s, 2)
    desk.step()
    assert len(desk.device.written) == written, "nor one that is no newer than the one before"
    desk.step(round(LIMITS.command_timeout_s / DT) + 1)
    assert desk.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)


def test_a_command_that_was_old_when_it_came_is_not_written_and_is_no_sign_of_life():
    desk = Desk()
    desk.cycle.command([2.5] * N, desk.now_s, 1)
    desk.step()
    written = len(desk.device.written)
    for number in range(2, 2 + round(LIMITS.command_timeout_s / DT) + 1):
        desk.cycle.command([2.6] * N, desk.now_s - 2 * LIMITS.command_timeout_s, number)
        desk.step()
        if desk.safety.state == ACTIVE:
            assert len(desk.device.written) == written
    assert desk.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)


@pytest.mark.parametrize("count", [0, N - 1, N + 3])
def test_a_command_of_another_size_is_a_fault_and_writes_nothing_of_it(count):
    desk = Desk()
    desk.cycle.command([7.0] * count, desk.now_s, 1)
    desk.step()
    assert desk.safety.faults == (tendon_faults.COMMAND_WRONG_SIZE,)
    assert max(desk.device.written[-1]) <= 2.0


def test_commands_of_before_are_forgotten_with_the_power():
    desk = Desk()
    desk.cycle.command([2.5] * N, desk.now_s, 1)
    desk.cycle.power(on=False)
    desk.cycle.power(on=True)
    desk.step()
    assert desk.device.written[-1] == [2.0] * N
    assert desk.row()[ROW.desired] != [2.5] * N


def closed_loop():
    return ControllerCycle(
        ClarkeController(ROBOT, clarke_feedforward(ROBOT)), ReferenceInput(2), ROBOT.control.state_timeout_s, DT
    )


def test_holding_writes_the_same_tensions_in_every_cycle_whatever_the_robot_does():
    desk = Desk("echo")
    desk.device.clarke = np.array([3e-4, -2e-4])
    desk.step(5)
    before = desk.device.written[-1]
    desk.cycle.hold_now(on=True, now_s=desk.now_s)
    written = len(desk.device.written)
    for step in range(round(3 * LIMITS.command_timeout_s / DT)):
        desk.device.clarke = np.array([3e-4, -2e-4]) * math.cos(0.05 * step)
        desk.step()
    assert desk.device.written[written:] == [before] * round(3 * LIMITS.command_timeout_s / DT)
    assert desk.safety.faults == ()
    assert not desk.controller.seen[-1][2], "the controller follows although it does not command"
    assert not desk.row()[ROW.answered]


@pytest.mark.parametrize("back_m", [(0.0, 0.0), (1e-3, 5e-4)])
def test_switching_to_holding_and_back_makes_no_jump_of_the_tensions(back_m):
    control = closed_loop()
    desk = Desk(control)
    desk.device.clarke = np.array([5e-4, 0.0])
    desk.step(200)
    for switch in range(6):
        before = desk.safety.commanded
        desk.cycle.hold_now(on=switch % 2 == 0, now_s=desk.now_s)
        if switch % 2:  # meanwhile the robot was moved by hand: the controller starts where it stands now
            desk.device.clarke = desk.device.clarke + np.array(back_m)
            desk.now_s += 1.0
        desk.step()
        np.testing.assert_allclose(desk.device.written[-1], before, atol=0.05)
        desk.step(40)
    assert control.restarts == 4
    assert desk.safety.faults == ()


def test_holding_begins_with_the_tensions_of_each_activation():
    desk = Desk("echo", active=False)
    desk.cycle.hold_now(on=True, now_s=desk.now_s)
    for held_n in (2.0, 3.5):
        desk.device.held = np.full(N, held_n)
        desk.step()
        desk.safety.activate(desk.cycle.newest_reading(), desk.now_s)
        desk.cycle.power(on=True)
        desk.step(20)
        np.testing.assert_allclose(desk.device.written[-1], held_n)
        desk.safety.torque_off()
        desk.cycle.power(on=False)


def test_commands_of_another_program_are_not_heard_while_the_cycle_holds():
    desk = Desk()
    desk.cycle.command([2.5] * N, desk.now_s, 1)
    desk.step()
    desk.cycle.hold_now(on=True, now_s=desk.now_s)
    for number in range(2, 30):
        desk.cycle.command([4.0] * N, desk.now_s, number)
        desk.step()
    assert desk.device.written[-1] == [2.5] * N
    desk.cycle.hold_now(on=False, now_s=desk.now_s)
    desk.step(50)
    assert desk.device.written[-1] == [2.5] * N, "the driver holds until the first new command"
    desk.cycle.command([2.6] * N, desk.now_s, 200)
    desk.step()
    assert desk.device.written[-1] == [2.6] * N


def test_nobody_who_commands_after_a_switch_is_a_silent_controller():
    desk = Desk()
    desk.cycle.command([2.5] * N, desk.now_s, 1)
    desk.step()
    desk.cycle.hold_now(on=True, now_s=desk.now_s)
    desk.step(10)
    desk.cycle.hold_now(on=False, now_s=desk.now_s)
    desk.step(round((LIMITS.command_timeout_s + desk.safety.settings.activation_grace_s) / DT) + 2)
    assert desk.safety.faults == (tendon_faults.COMMAND_TIMEOUT,)


def test_missed_deadlines_and_latencies_reach_the_safety_logic():
    desk = Desk("echo")
    for _ in range(300):
        desk.now_s += 4 * DT
        desk.cycle.step_once(desk.now_s, 4 * DT, 3)
        assert desk.cycle.wrote(desk.now_s + 5e-4) == bool(desk.row()[ROW.written])
    assert desk.row()[ROW.missed] == 3
    assert desk.safety.worst_latency_s == pytest.approx(5e-4)
    assert desk.safety.missed_fraction == pytest.approx(0.75)
    assert desk.safety.faults == (tendon_faults.LOOP_TOO_SLOW,)


def test_what_is_written_before_the_first_command_answers_nobody():
    """Commands from before the activation are old when the driver holds, and its loop is not slow for that."""
    desk = Desk()
    desk.cycle.command([2.5] * N, desk.now_s - 0.05, 7)
    for _ in range(50):
        desk.step()
        assert desk.cycle.wrote(desk.now_s + 5e-4)
    assert desk.safety.faults == ()
    assert math.isnan(desk.safety.worst_latency_s)
    desk.cycle.command([2.5] * N, desk.now_s, 8)
    desk.step()
    assert desk.cycle.wrote(desk.now_s + 5e-4)
    desk.step()
    assert desk.safety.worst_latency_s == pytest.approx(DT + 5e-4)


def test_the_log_keeps_the_newest_rows():
    desk = Desk("echo")
    log = desk.cycle.rows()
    desk.step(600)
    assert log.count == 601
    assert log.row(log.count) is None
    assert log.row(0) is None
    assert log.row(log.count - 1)[ROW.number] == desk.cycle.cycles
    assert log.row(log.count - 511)[ROW.number] == desk.cycle.cycles - 510
    assert len(log.row(log.count - 1)) == ROW.width
