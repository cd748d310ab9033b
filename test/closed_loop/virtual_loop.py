# SPDX-License-Identifier: Apache-2.0
"""The virtual stack that follows the reference of a robot's file, and what a run of it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from continuum_robot.control.references import make_reference
from continuum_robot.testing import VirtualStack


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


class VirtualLoop(VirtualStack):
    """A robot that follows its file's reference and records what it does."""

    def __init__(self, robot, *, plant=None, safety_settings=None, seed=None, hardware=None):
        """``hardware``: a SimulatedHardware, behind whose wires the plant then is."""
        self._record = None
        self.reference = make_reference(robot.reference, robot.coordinate_count)
        self.reference_start_s = 0.0
        seed = robot.simulation.seed if seed is None else seed
        super().__init__(robot, plant, hardware=hardware, safety_settings=safety_settings, seed=seed)
        self.driver, self.body = self.loop, hardware or self.actuators
        self._mechanism = hardware is None and robot.traits.without_boards

    @property
    def cycle(self):
        return self.driver.cycle.cycles

    @property
    def desired(self):
        return self.reference.at(self.now_s - self.reference_start_s)

    def activate(self, taut_n=None, taut_s=0.05):
        """As the driver: torque without current, ``taut_n`` on all tendons for ``taut_s``, safety, the controller."""
        self.driver.switch_on()
        if taut_n is not None:
            self.driver.cycle.take_up([taut_n] * self.robot.tendon_count)
            super().run(taut_s)
        self.driver.obey()
        self.attend(on=True)

    def attend(self, *, on):
        """Whether the controller lives."""
        self.driver.cycle.control_now(on=on)

    def run(self, duration_s, on_cycle=None):
        self._record, self.on_cycle = Record(), on_cycle
        self.follow(lambda _time_s: self.desired)
        super().run(duration_s)
        record, self._record, self.on_cycle = self._record, None, None
        return record.arrays()

    def wait(self, condition, timeout_s, on_cycle=None):
        self.on_cycle = on_cycle
        happened = self.run_until(condition, timeout_s)
        self.on_cycle = None
        return happened

    def on_row(self, row):
        super().on_row(row)
        record = self._record
        if record is None:
            return
        displacement = np.array(row[self.driver.row.displacement])
        record.time_s.append(self.now_s)
        record.clarke.append(self.controller.manifold.clarke(displacement))
        record.reference.append(self.desired.position)
        record.command.append(self.safety.commanded)
        record.tension.append(np.array(row[self.driver.row.tension]) if self._mechanism else self.body.plant.tension)
        record.state.append(self.safety.state)


def rmse(record, after_s=2.0):
    """Root mean square tracking error of each Clarke coordinate, m."""
    kept = record["time_s"] > after_s
    return np.sqrt(np.mean((record["clarke"][kept] - record["reference"][kept]) ** 2, axis=0))
