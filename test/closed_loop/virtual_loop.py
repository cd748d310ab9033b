# SPDX-License-Identifier: Apache-2.0
"""The stack without ROS in virtual time: devices, safety and controller, in the order in which the driver runs them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import make_reference
from continuum_robot.drivers.safety_settings import SafetySettings
from continuum_robot.drivers.tendon_safety import TendonSafety
from continuum_robot.rod.feedforward import clarke_feedforward
from continuum_robot.simulation.tendon_actuators import SimulatedTendonActuators

PERIOD_S = 1e-3


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


class VirtualLoop:
    """One cycle: read, check, write; the controller answers the reading, its command arrives in the next cycle."""

    def __init__(self, robot, *, plant=None, level="dynamics", safety_settings=None, seed=None, hardware=None):
        """``hardware``: a SimulatedHardware, behind whose wires the plant then is."""
        rng = None if seed is None else np.random.default_rng(seed)
        self.robot = robot
        self.now_s = 0.0
        self.level = "dynamics" if hardware is not None else level
        self.hardware = hardware
        if hardware is None:
            self.actuators = self.body = SimulatedTendonActuators(robot, plant, rng, level)
        else:
            hardware.open()
            self.actuators = hardware.tendon_actuators(clock=lambda: self.now_s, sleep=self._sleep)
            self.body = hardware
        self.actuators.open()
        self.safety = TendonSafety(robot, safety_settings or SafetySettings())
        self.controller = ClarkeController(robot, clarke_feedforward(robot))
        self.reference = make_reference(robot.reference, robot.coordinate_count)
        self.reference_start_s = 0.0
        self.cycle = 0
        self.controller_alive = False
        self.command = None
        self.reading = self.actuators.read(self.now_s)
        self.output = None
        self.fault_log = []

    def _sleep(self, duration_s):
        self.now_s += duration_s

    def activate(self):
        """As the driver node: torque without current, safety, then the controller, from the measurement."""
        self.actuators.enable()
        self.cycle = round(self.now_s / PERIOD_S) + 1
        self.now_s = self.cycle * PERIOD_S
        self.reading = self.actuators.read(self.now_s)
        self.safety.activate(self.reading, self.now_s)
        self.command = None
        self.controller.reset(self.reading.displacement_m, self.safety.tension, velocity=self.reading.velocity_m_per_s)
        self.controller_alive = True

    def run(self, duration_s, on_cycle=None):
        record = Record()
        for _ in range(round(duration_s / PERIOD_S)):
            self.cycle += 1
            self.now_s = self.cycle * PERIOD_S
            if on_cycle is not None:
                on_cycle(self)
            self.step(record)
        return record.arrays()

    def step(self, record):
        now_s = self.now_s
        self.reading = self.actuators.read(now_s)
        command, age_s, sequence = (
            (None, 0.0, None) if self.command is None else (self.command[0], now_s - self.command[1], self.command[2])
        )
        self.output = self.safety.update(self.reading, command, age_s, now_s, PERIOD_S, command_sequence=sequence)
        self.fault_log += [(now_s, name) for name in self.output.new_faults]
        if self.output.write:
            self.actuators.write(self.output.tension, now_s)
        wanted = self.reference.at(now_s - self.reference_start_s)
        if self.controller_alive:
            answer = self.controller.update(
                self.reading.displacement_m, self.reading.velocity_m_per_s, wanted, PERIOD_S
            )
            if np.isfinite(answer.tension).all():
                self.command = (answer.tension, now_s, self.cycle)
        record.time_s.append(now_s)
        record.clarke.append(self.controller.manifold.clarke(self.reading.displacement_m))
        record.reference.append(wanted.position)
        record.command.append(self.output.tension)
        record.tension.append(self.body.plant.tension if self.level == "dynamics" else self.reading.tension_n)
        record.state.append(self.output.state)


def rmse(record, after_s=2.0):
    """Root mean square tracking error of each Clarke coordinate, m."""
    kept = record["time_s"] > after_s
    return np.sqrt(np.mean((record["clarke"][kept] - record["reference"][kept]) ** 2, axis=0))
