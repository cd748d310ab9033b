# SPDX-License-Identifier: Apache-2.0
"""What lies between a simulated robot's motors, as its driver counts and believes them, and its tendons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class Wiring:
    """Motors in the driver's order and sense, tendons in the robot's. All vectors are (N,), of motors that tendons
    share as :meth:`.Coupling.each_tendons` has them.

    Motor i pulls what motor ``motor[i]`` should, one tendon or all that it moves. Where its driver sees 1 m wound, it
    has wound ``ratio[i]``, which is negative for a wrong polarity. The torque that gives a believed force of 1 N gives
    1 / ``ratio[i]``.
    """

    def __init__(self, robot: Robot, coupling: Coupling | None) -> None:
        errors, count = robot.simulation.wiring_errors, robot.motor_count
        ones, zeros = np.ones(count), np.zeros(count)
        self._coupling = coupling
        self._motor = np.array(errors.pulls_tendon or range(1, count + 1)) - 1
        self._ratio = np.array(errors.polarity or ones) * np.array(errors.spool_ratio or ones)
        self.slack_m = np.array(errors.slack_m or np.zeros(robot.tendon_count))
        self._gain, self._offset_a = np.array(errors.current_gain or ones), np.array(errors.current_offset_a or zeros)
        found = robot.displaced_tendons
        if found is not None and robot.takes_displacements:
            if coupling is not None and coupling.moves.sum() > count:
                expected = "none: its zeros and gains are of motors that pull one tendon each"
                raise ParameterError("displaced_tendons", "a fit of held tendons", expected)
            self._ratio = self._ratio * np.array(found.gain)[self._motor]
            self.slack_m = self.slack_m - np.array(found.zero_m)
        unchanged = self._motor == np.arange(count)
        exact = (self._ratio == 1) & (self._gain == 1) & (self._offset_a == 0)
        self.right = bool((unchanged & exact).all() and not self.slack_m.any())

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What makes it up, of motors that pull one tendon each, for code that does what the methods do."""
        parts = {"ratio": self._ratio, "gain": self._gain, "zero_a": self._offset_a, "slack_m": self.slack_m}
        return {"motor": self._motor, **{name: np.array(values, float) for name, values in parts.items()}}

    def to_tendons(self, least: Vector) -> Vector:
        """What stands for each motor, the least of its tendons' values, for the tendons that it really pulls."""
        coupling = self._coupling
        if coupling is None:
            return self._ordered(least)
        return np.asarray(self._ordered(coupling.each_motors_least(least))[coupling.motor])

    def pulled(self, displacement: Vector, here: Vector) -> Vector:
        """Displacements of the tendons at those that the driver commands, m; NaN where the torque is off."""
        coupling = self._coupling
        if coupling is None:
            return self._ordered(self._ratio * displacement)
        return coupling.tendons(self._ordered(self._ratio * coupling.goals(displacement, here)))

    def seen(self, displacement: Vector) -> Vector:
        """What the motors show at displacements of the tendons, (N,), m."""
        coupling = self._coupling
        if coupling is None:
            return self._shown(displacement)
        return coupling.tendons(self._shown(coupling.inverse @ (displacement - coupling.offset_m)))

    def seen_rate(self, rate: Vector) -> Vector:
        """What they show of the displacements' rates, (N,), m/s."""
        coupling = self._coupling
        return self._shown(rate) if coupling is None else coupling.moved(self._shown(coupling.inverse @ rate))

    def driven(self, current_a: Vector) -> Vector:
        """Currents that drive the tendons where the motors' loops measure these, A of a motor as believed."""
        coupling = self._coupling
        own = current_a if coupling is None else coupling.each_motors(current_a)
        true_a = self._ordered((own - self._offset_a) / self._gain / self._ratio)
        return true_a if coupling is None else coupling.each_tendons(true_a)

    def measured(self, current_a: Vector) -> Vector:
        """What the motors measure of currents that drive the tendons, A."""
        coupling = self._coupling
        own = current_a if coupling is None else coupling.each_motors(current_a)
        measured_a = self._gain * (self._ratio * own[self._motor]) + self._offset_a
        return np.asarray(measured_a if coupling is None else coupling.each_tendons(measured_a))

    def _ordered(self, motors: Vector) -> Vector:
        """Values of the motors by what they really pull."""
        found = np.empty_like(motors)
        found[self._motor] = motors
        return found

    def _shown(self, wound: Vector) -> Vector:
        return np.asarray(wound[self._motor] / self._ratio)
