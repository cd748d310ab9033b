# SPDX-License-Identifier: Apache-2.0
"""The motors of one simulated robot as the devices' motors: currents to the plant, its positions to the encoders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import MotorsSection
from continuum_robot.simulation.plant import Plant

Vector = NDArray[np.float64]

LONGEST_CATCH_UP_S = 0.05


class PlantMotor:
    """A motor of :class:`PlantMotors`: a ``MotorPort`` of boards and of servos."""

    def __init__(self, largest_a: float) -> None:
        self.position_rev = self.velocity_rev_per_s = self.current_a = self.desired_a = 0.0
        self.goal_rev, self.torque_fraction, self._largest_a = math.nan, 1.0, largest_a
        self.held = False

    @property
    def load_fraction(self) -> float:
        """Current as a fraction of the largest."""
        return self.current_a / self._largest_a

    def drive(self, current_a: float, held: bool) -> None:
        """Give it a current (A) from now on."""
        self.desired_a, self.goal_rev, self.torque_fraction, self.held = current_a, math.nan, 1.0, held

    def follow(self, position_rev: float, torque_fraction: float, held: bool) -> None:
        """Have its loop hold a place (rev) from now on, with at most a fraction of its torque."""
        self.goal_rev, self.torque_fraction, self.held = position_rev, torque_fraction, held


class PlantMotors:
    """All motors of a robot, moved by its plant.

    The wiring gives polarity, gear ratio, spool radius and torque constant of each, as the driver believes them too.
    """

    def __init__(
        self,
        robot: Robot,
        settings: MotorsSection,
        plant: Plant,
        measured: Callable[[Vector], Vector] = np.asarray,
    ) -> None:
        if plant.motor is None or robot.actuators is None:
            raise ParameterError("plant", plant, 'a plant with actuation="motors"')
        entries = sorted(settings.motors, key=lambda entry: entry.number)
        polarity = np.array([entry.polarity for entry in entries], dtype=float)
        driven = [(entry, robot.actuators.of(entry.number)) for entry in entries]
        self._n_per_a = polarity * np.array([entry.newton_per_ampere(own) for entry, own in driven])
        self._rev_per_m = polarity / np.array([entry.meter_per_turn(own) for entry, own in driven])
        self._measured, self._plant_n_per_a = measured, plant.newton_per_ampere[: len(entries)]
        self._motors = [PlantMotor(own.maximum_current_a) for _, own in driven]
        self._largest_a = robot.actuators.each("maximum_current_a", robot.tendon_count)
        self.current_limit_a = np.full(robot.tendon_count, math.inf)
        self.plant, self._coupling = plant, coupling_of(robot)
        self.motor_of = np.arange(robot.tendon_count) if self._coupling is None else self._coupling.motor
        self.stuck = np.zeros(robot.tendon_count, dtype=bool)
        self.skipped_s = 0.0
        self._now_s: float | None = None
        self._show()

    def at(self, section: Any) -> dict[tuple[str, int], PlantMotor]:
        """The motors of a section of the wiring by their ``place``: channel, or "" on a servos' bus, and number."""
        return {entry.place: self._motors[entry.number - 1] for entry in section.motors}

    def advance(self, now_s: float) -> None:
        """Move the robot up to ``now_s`` (s), 50 ms at most, under the motors' currents."""
        if self._now_s is None:
            self._now_s = now_s
        duration_s = now_s - self._now_s
        if duration_s <= 0:
            return
        self._now_s = now_s
        if duration_s > LONGEST_CATCH_UP_S:
            self.skipped_s += duration_s - LONGEST_CATCH_UP_S
            duration_s = LONGEST_CATCH_UP_S
        held = np.array([motor.held for motor in self._motors])
        self.plant.motor_free = np.where(held[self.motor_of] | self.stuck, 0.0, 1.0)
        self.plant.advance(self._command(), duration_s)
        self._show()

    def _command(self) -> Vector:
        """Tensions of the currents, or the servos' goals as displacements."""
        coupling = self._coupling
        if not self.plant.has_servos:
            force = np.array([motor.desired_a for motor in self._motors]) * self._n_per_a
            if coupling is None:
                return force
            return np.asarray(coupling.inverse.T @ (force / coupling.radius_at(self.plant.displacement)))
        fraction = np.array([motor.torque_fraction for motor in self._motors])[self.motor_of]
        self.plant.current_limit_a = np.minimum(self.current_limit_a, fraction * self._largest_a)
        goal = np.array([motor.goal_rev for motor in self._motors]) / self._rev_per_m
        return goal if coupling is None else coupling.tendons(coupling.wound(goal))

    def _show(self) -> None:
        turned, speed, current = self.plant.displacement, self.plant.velocity, self.plant.current
        if self._coupling is not None:
            speed = self._coupling.inverse @ speed / self._coupling.radius_at(turned)
            turned = self._coupling.turned(self._coupling.motors(turned))
            current = self._coupling.each_motors(current)
        current = self._measured(current * self._plant_n_per_a / self._n_per_a)
        rows = turned * self._rev_per_m, speed * self._rev_per_m, current
        for motor, turns, speed, amperes in zip(self._motors, *(row.tolist() for row in rows), strict=True):
            motor.position_rev, motor.velocity_rev_per_s, motor.current_a = turns, speed, amperes
