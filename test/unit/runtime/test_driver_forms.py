# SPDX-License-Identifier: Apache-2.0
"""The whole cycle of the driver, interpreted and compiled, on simulated motor boards in virtual time: the same bits."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from board_peers import FreeMotor

from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.can_bus import frame_sockets
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.emulator import FAULTS, SimulatedOdriBoard
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import StopPolicy
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle
from continuum_robot.runtime.cycle.forms import Form, interpreted_form
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.wire.can_wire import FrameSocketWire
from continuum_robot.simulation.wire.hardware import wired

DT = 1e-3
# Three boards, and six.
SEEDS, SECONDS = 4, 1.2
ROBOTS = ("opencr_five_tendon", "two_segment")


@pytest.fixture(scope="module")
def compiled():
    try:
        return Form(compiled_cycle(), True, "for the test")
    except NotCompiledError as error:
        pytest.skip(str(error))


class HeldMotor(FreeMotor):
    """A motor on a stiff spring, as one whose tendon holds it."""

    def advance(self, duration_s):
        self.velocity_rev_per_s -= 5000.0 * self.position_rev * duration_s
        super().advance(duration_s)


class Boards(QuietWatcher):
    """Simulated boards with free motors, and the shipped loop on them."""

    def __init__(self, robot, form, seed):
        self.robot = robot = wired(robot)
        settings = robot.hardware.tendon_actuators
        rng = np.random.default_rng(seed)
        self.motors = {name: (HeldMotor(), HeldMotor()) for name in settings.channels}
        self.boards = {
            name: SimulatedOdriBoard(
                FrameSocketWire(), self.motors[name], aligned=True, start_rev=99.9, current_noise_a=0.02, rng=rng
            )
            for name in settings.channels
        }
        self.pace = VirtualPace(DT, 10.0, self._on_step)
        actuators = OdriTendonActuators(
            robot,
            robot.hardware.tendon_actuators,
            socket_factory=self._socket,
            clock=self.pace.now_s,
            sleep=self.pace.pass_time,
            simulated=True,
            form=form.parts if form.compiled else None,
        )
        actuators.open()
        self.rows, self.said = [], []
        self.loop = make_loop(robot, actuators, self, self.pace, form=form)
        parts = form.parts
        self.reference = parts.ReferenceInput(robot.coordinate_count, 0.05)
        controller = parts.ClarkeController(robot, clarke_feedforward(robot))
        self.control = parts.ControllerCycle(controller, self.reference, robot.control.state_timeout_s, DT)
        self.loop.cycle.attach(self.control)
        self.loop.start()

    def _socket(self, name):
        host, device = frame_sockets()
        self.boards[name].wire.close()
        self.boards[name].wire = FrameSocketWire(device)
        return host

    def _on_step(self, now_s):
        for board in self.boards.values():
            board.step(now_s)
        for motor in itertools.chain(*self.motors.values()):
            motor.advance(DT)

    def on_row(self, row):
        self.rows.append(np.nan_to_num(np.array(row), nan=1e300))

    def on_change(self, new_faults):
        self.said.append((self.pace.now_s(), self.loop.safety.state, *new_faults))

    def tried(self, function, *arguments):
        try:
            function(*arguments)
        except ContinuumRobotError as error:
            self.said.append(str(error))

    def activate(self):
        """As a user: open the devices again, home, reset, switch on."""
        self.loop.actuators.close()
        self.loop.actuators.clear_faults()
        self.tried(self.loop.actuators.open)
        self.pace.run(0.05)
        reading = self.loop.reading
        if reading is not None:
            self.loop.cycle.set_zero([*(self.loop.cycle.zero + reading.displacement_m)])
        self.pace.run(0.05)
        self.said.append(self.loop.call(self.loop.safety.reset))
        self.pace.run(0.005)
        self.tried(self.loop.switch_on)
        self.tried(self.loop.obey)
        self.loop.cycle.control_now(on=True)

    def power_off(self):
        self.loop.ramp_down(self.said.append)
        self.loop.power_off()

    def close(self):
        self.loop.stop()
        self.loop.close()
        for board in self.boards.values():
            board.wire.close()


def script(robot, seed, seconds):
    """What happens before each cycle, drawn once."""
    rng, holding, cogging = (np.random.default_rng(start + seed) for start in (0, 100, 200))
    names = sorted(wired(robot).hardware.tendon_actuators.channels)
    phase = rng.uniform(0, 6, robot.coordinate_count)
    calm_s = 0.3
    for k in range(round(seconds / DT)):
        todo = []
        time_s = k * DT
        if k == 0:
            todo.append(("restart",))
        elif time_s > calm_s:
            if rng.random() < 0.01:
                fault = str(rng.choice([*FAULTS, ""]))
                size = float(rng.uniform(-2, 5)) if fault == "position_jump" else float(rng.choice([0.0, 0.05, 0.9]))
                todo.append(("inject", str(rng.choice(names)), fault, size, float(rng.choice([0.005, 0.05, 0.3]))))
            if rng.random() < 0.003:
                todo.append(("stall", float(rng.choice([0.003, 0.03, 0.2]))))
            if rng.random() < 0.002:
                todo.append(("outside", bool(rng.random() < 0.5)))
            if rng.random() < 0.0002:
                todo.append(("estop",))
            if holding.random() < 0.005:
                todo.append(("hold", bool(holding.random() < 0.5)))
            if cogging.random() < 0.006:
                todo.append(("cogging", bool(cogging.random() < 0.7)))
        if k % 4 == 0:
            amplitude = 3e-4
            position = amplitude * np.sin(9 * time_s + phase)
            todo.append(("reference", ClarkeReference(position, 9 * amplitude * np.cos(9 * time_s + phase), 0 * phase)))
        tension = rng.choice([1.0, 1.0, 1.0, 9.0]) * rng.uniform(1.5, 3.0, robot.tendon_count)
        if rng.random() < 0.002:
            tension[0] = rng.choice([math.nan, math.inf, -3.0])
        size = robot.tendon_count - int(rng.random() < 0.001)
        todo.append(("command", tension[:size].tolist(), int(rng.random() > 0.05)))
        yield todo


def live(robot, form, seed, seconds):
    if seed % 2:  # the torque goes off in the cycle
        actuators = dataclasses.replace(robot.actuators, brake_holds_n=2 * robot.limits.maximum_n)
        robot = dataclasses.replace(robot, actuators=actuators, stop=StopPolicy(devices="brake", torque_off=True))
    stand = Boards(robot, form, seed)
    loop, outside = stand.loop, False
    count = robot.tendon_count
    table = np.random.default_rng(300 + seed).uniform(-0.3, 0.3, (count, 77))
    loop.feed_cogging_forward(table, np.linspace(8e-3, 11e-3, count) * (-1) ** np.arange(count))
    for todo in script(robot, seed, seconds):
        for what, *values in todo:
            if what == "restart":
                for board in stand.boards.values():
                    board.inject("")
                stand.power_off()
                stand.pace.run(1.2)  # a status comes once a second
                loop.cycle.attach(stand.control)
                outside = False
                stand.activate()
            elif what == "inject":
                name, *fault = values
                stand.boards[name].inject(*fault)
            elif what == "stall":
                stand.pace.pass_time(*values)
            elif what == "outside":
                outside = values[0]
                loop.cycle.attach(None if outside else stand.control)
                loop.cycle.control_now(on=not outside)
            elif what == "hold":
                loop.hold_tensions(on=values[0])
                stand.said.append((stand.pace.now_s(), "hold", values[0]))
            elif what == "cogging":
                loop.compensate_cogging(on=values[0])
                stand.said.append((stand.pace.now_s(), "cogging", *loop.cycle.cogging.forces()))
            elif what == "estop":
                loop.safety.estop("the test")
            elif what == "reference":
                stand.reference.receive(values[0], stand.pace.now_s())
            elif outside:
                tension, newer = values
                loop.cycle.command(tension, stand.pace.now_s(), loop.cycle.cycles * newer)
        stand.pace.run_one()
    stand.said.append(repr(loop.actuators.counters()))
    stand.close()
    return stand.rows, stand.said


# Six boards do what three do, and longer.
MORE = [pytest.param(ROBOTS[1], seed, marks=pytest.mark.long) for seed in range(1, SEEDS)]


@pytest.mark.parametrize(("name", "seed"), [*((ROBOTS[0], seed) for seed in range(SEEDS)), (ROBOTS[1], 0), *MORE])
def test_both_forms_give_the_same_bits(compiled, name, seed):
    robot = load_robot(name)
    slow, fast = (live(robot, form, seed, SECONDS) for form in (interpreted_form("for the test"), compiled))
    assert slow[1] == fast[1]
    assert len(slow[0]) == len(fast[0])
    for number, (one, other) in enumerate(zip(slow[0], fast[0], strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"cycle {number}")


def test_the_runs_have_readings_commands_answers_and_many_faults():
    faults, states, answered, missed, compensated = Counter(), Counter(), 0, 0, 0
    for seed in range(SEEDS):
        robot = load_robot(ROBOTS[0])
        stand = live(robot, interpreted_form("for the test"), seed, SECONDS)
        for entry in stand[1]:
            if isinstance(entry, tuple) and len(entry) > 1 and isinstance(entry[0], float):
                states[entry[1]] += 1
                if entry[1] == "cogging":
                    compensated += any(entry[2:])
                else:
                    faults.update(entry[2:])
        row = CycleRow(robot.tendon_count, robot.coordinate_count)
        answered += sum(bool(one[row.answered]) for one in stand[0])
        missed += sum(one[row.missed] for one in stand[0])
    assert states.keys() >= {"active", "safe"}
    assert len(faults) >= 2
    assert answered > 800
    assert missed > 0
    assert compensated > 2
