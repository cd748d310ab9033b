# SPDX-License-Identifier: Apache-2.0
"""What lies between a simulated robot's motors, as its driver counts and believes them, and its tendons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


class Wiring:
    """Motors in the driver's order and sense, tendons in the robot's. All vectors (N,).

    A motor i pulls the tendon ``tendon[i]``; where its driver sees a displacement of 1 m, the tendon has moved by
    ``ratio[i]``, which is negative for a wrong polarity. The torque that gives a believed tension of 1 N gives
    1 / ``ratio[i]``.

    Parameters
    ----------
    robot : that is simulated

    Attributes
    ----------
    right : whether all is as the driver believes
    slack_m : additional length of each tendon on the straight robot
    """

    def __init__(self, robot: Robot) -> None:
        errors, count = robot.simulation.wiring_errors, robot.tendon_count
        ones, zeros = np.ones(count), np.zeros(count)
        self._tendon = np.array(errors.pulls_tendon or range(1, count + 1)) - 1
        self._ratio = np.array(errors.polarity or ones) * np.array(errors.spool_ratio or ones)
        self.slack_m = np.array(errors.slack_m or zeros)
        self._gain, self._offset_a = np.array(errors.current_gain or ones), np.array(errors.current_offset_a or zeros)
        found = robot.displaced_tendons
        if found is not None and robot.takes_displacements:
            self._ratio = self._ratio * np.array(found.gain)[self._tendon]
            self.slack_m = self.slack_m - np.array(found.zero_m)
        unchanged = self._tendon == np.arange(count)
        exact = (self._ratio == 1) & (self._gain == 1) & (self._offset_a == 0) & (self.slack_m == 0)
        self.right = bool((unchanged & exact).all())

    def to_tendons(self, motors: Vector) -> Vector:
        """What stands for each motor, for its tendon."""
        found = np.empty_like(motors)
        found[self._tendon] = motors
        return found

    def pulled(self, displacement: Vector) -> Vector:
        """Displacements of the tendons at those of the motors, m, or of their rates."""
        return self.to_tendons(self._ratio * displacement)

    def seen(self, displacement: Vector) -> Vector:
        """Displacements of the motors at those of the tendons, m, or of their rates."""
        return np.asarray(displacement[self._tendon] / self._ratio)

    def driven(self, current_a: Vector) -> Vector:
        """Currents that drive the tendons where the motors' loops measure these, A of a motor as believed."""
        true_a = (current_a - self._offset_a) / self._gain
        return self.to_tendons(true_a / self._ratio)

    def measured(self, current_a: Vector) -> Vector:
        """What the motors measure of currents that drive the tendons, A."""
        return np.asarray(self._gain * (self._ratio * current_a[self._tendon]) + self._offset_a)
