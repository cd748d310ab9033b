# SPDX-License-Identifier: Apache-2.0
"""The shipped loop without ROS in virtual time: devices, the driver's cycle with the controller in it, and its log."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from continuum_robot.control.references import make_reference
from continuum_robot.models.making import robot_model
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop, make_safety
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.foreign_controller import controller_of
from continuum_robot.runtime.cycle.forms import interpreted_form
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators


@dataclass
class Record:
    """What a run leaves, a row a cycle."""

    time_s: list = field(default_factory=list)
    clarke: list = field(default_factory=list)
    reference: list = field(default_factory=list)
    command: list = field(default_factory=list)
    tension: list = field(default_factory=list)
    state: list = field(default_factory=list)

    def arrays(self):
        return {name: np.array(getattr(self, name)) for name in self.__dataclass_fields__}


class VirtualLoop(QuietWatcher):
    """A robot under control; cycles run in :meth:`run`, and while something is waited for."""

    def __init__(self, robot, *, plant=None, safety_settings=None, seed=None, hardware=None):
        """``hardware``: a SimulatedHardware, behind whose wires the plant then is."""
        rng = None if seed is None else np.random.default_rng(seed)
        self.robot, self.hardware = robot, hardware
        self._mechanism = hardware is None and robot.traits.without_boards
        self.period_s = 1 / robot.actuators.cycle_hz
        self.pace = VirtualPace(self.period_s, 0.0, self._on_step)
        self.reference = make_reference(robot.reference, robot.coordinate_count)
        self.reference_start_s = 0.0
        self.fault_log = []
        self._input = ReferenceInput(robot.coordinate_count, blend_s=0.0)
        self._record = self._on_cycle = None
        if hardware is None:
            self.actuators = self.body = SimulatedTendonActuators(robot, plant, rng)
        else:
            hardware.open()
            self.actuators = hardware.tendon_actuators(clock=self.pace.now_s, sleep=self.pace.pass_time)
            self.body = hardware
            hardware.step(0.0)
        self.actuators.open()
        if hardware is None:
            self.actuators.read(0.0)  # its time begins
        form = interpreted_form("virtual time")
        self.safety = make_safety(robot, form, safety_settings, period_s=self.period_s)
        self.driver = make_loop(robot, self.actuators, self, self.pace, safety=self.safety)
        self.controller = controller_of(robot, form.parts, robot_model(robot).feedforward)
        timeout_s = robot.control.state_timeout_s
        self.driver.cycle.attach(ControllerCycle(self.controller, self._input, timeout_s, self.period_s))
        self.driver.start()
        self.pace.run_one()

    @property
    def now_s(self):
        return self.pace.now_s()

    @property
    def cycle(self):
        return self.driver.cycle.cycles

    @property
    def reading(self):
        return self.driver.reading

    def _on_step(self, now_s):
        if self.hardware is not None:
            self.hardware.step(now_s)
        if self._record is not None:
            self._input.receive(self.desired, now_s)

    @property
    def desired(self):
        return self.reference.at(self.now_s - self.reference_start_s)

    def activate(self, taut_n=None, taut_s=0.05):
        """As the driver: torque without current, ``taut_n`` on all tendons for ``taut_s``, safety, the controller."""
        self.driver.switch_on()
        if taut_n is not None:
            self.driver.cycle.take_up([taut_n] * self.robot.tendon_count)
            self.pace.run(taut_s)
        self.driver.obey()
        self.control(on=True)

    def control(self, *, on):
        """Whether the controller lives."""
        self.driver.cycle.control_now(on=on)

    def run(self, duration_s, on_cycle=None):
        self._record, self._on_cycle = Record(), on_cycle
        self.pace.run(duration_s)
        record, self._record, self._on_cycle = self._record, None, None
        return record.arrays()

    def wait(self, condition, timeout_s, on_cycle=None):
        self._on_cycle = on_cycle
        happened = self.pace.wait(condition, timeout_s)
        self._on_cycle = None
        return happened

    def on_change(self, new_faults):
        self.fault_log += [(self.now_s, name) for name in new_faults]

    def on_row(self, row):
        record = self._record
        if self._on_cycle is not None:
            self._on_cycle(self)
        if record is None:
            return
        displacement = np.array(row[self.driver.row.displacement])
        record.time_s.append(self.now_s)
        record.clarke.append(self.controller.manifold.clarke(displacement))
        record.reference.append(self.desired.position)
        record.command.append(self.safety.commanded)
        record.tension.append(np.array(row[self.driver.row.tension]) if self._mechanism else self.body.plant.tension)
        record.state.append(self.safety.state)

    def close(self):
        self.driver.stop()
        self.driver.close()
        if self.hardware is not None:
            self.hardware.close()


def rmse(record, after_s=2.0):
    """Root mean square tracking error of each Clarke coordinate, m."""
    kept = record["time_s"] > after_s
    return np.sqrt(np.mean((record["clarke"][kept] - record["reference"][kept]) ** 2, axis=0))
