# SPDX-License-Identifier: Apache-2.0
"""When readings of tendons are implausible, from the robot file; derived in docs/reference/safety.md."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

# What no file states: routing and pulleys that are not quite as described.
_LEAST_MOTION_M = 3e-4
_LEAST_FORCE_N = 2.0
_LEAST_BEGIN_S = 0.02
_LEAST_INCONSISTENCY_M = 0.002
# Dry friction breaks away at up to twice of what it is in motion, and turns with the direction.
_BREAKAWAY = 2.0
_TURN = 2.0
# On a slow bus the readings that tell it are few.
_BEGIN_PERIODS = 4.0
_CURRENT_COUNTS = 2.0
_CURRENT_FRACTION = 0.05
# Servos: dead band and dry friction of a position loop are on no data sheet.
_SERVO_MARGIN = 1.5
_SERVO_STEPS = 2.0
_BUS_PERIODS = 2.0
# Goals that come more often than this in a period of its bandwidth a servo's loop makes a smooth motion of.
_GOALS_PER_PERIOD = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingThresholds:
    """Thresholds of the watch over readings and currents."""

    tendon_m_per_n: float
    inconsistency_m: float
    frozen_motion_m: Vector
    frozen_force_n: Vector
    frozen_begin_s: float
    current_mismatch_a: Vector

    @property
    def sentence(self) -> str:
        """For people."""
        frozen_mm = f"{1e3 * float(self.frozen_motion_m.max()):.3g} mm"
        return (
            f"Faults from: a tendon that reads the same while the others say that it moved {frozen_mm}; none that moves"
            f" for {float(self.frozen_force_n.min()):.3g} N; displacements {1e3 * self.inconsistency_m:.3g} mm off"
            f" their manifold; currents {spread(self.current_mismatch_a)} A from the commanded"
        )


def spread(values: Vector, digits: int = 3) -> str:
    """Values of tendons for people: one number where all have the same, else the least and the greatest."""
    least, most = (f"{float(value):.{digits}g}" for value in (values.min(), values.max()))
    return least if least == most else f"{least} to {most}"


def _stated(value: Vector, derived: Vector) -> Vector:
    """What the file states of every tendon, or what is derived where it has 0."""
    return np.where(value > 0, value, derived)


def _leave_one_out(robot: Robot) -> Vector:
    """By how much a tendon is predicted to move for what the others read, and for how far it is from that, (N, N).

    Row j gives by how far reading j lies from the least-squares prediction of all others; 0 where these say nothing.
    """
    manifold = tendon_manifold(robot)
    missed = np.eye(manifold.tendon_count) - manifold.displacement_matrix @ manifold.clarke_matrix
    missed[np.abs(missed) < 1e-12] = 0.0
    own = np.diag(missed)
    return np.asarray(np.where(own > 0, 1 / np.where(own > 0, own, 1.0), 0.0)[:, None] * missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoThresholds:
    """Thresholds of the watch over servos that hold displacements."""

    lag_m: Vector
    highest_n: Vector
    lowest_n: Vector
    viscous_ns_per_m: Vector
    frozen_motion_m: Vector
    frozen_begin_s: float
    goals_hz: float

    @property
    def sentence(self) -> str:
        """For people."""
        known_n = self.lowest_n[np.isfinite(self.lowest_n)]
        slack = f" below {spread(known_n)} N, or" if known_n.size else ""
        return (
            f"Faults from: a servo {spread(1e3 * self.lag_m)} mm from its command; a load{slack} above"
            f" {spread(self.highest_n)} N; a reading that repeats while its command moves"
            f" {spread(1e3 * self.frozen_motion_m)} mm"
        )


def thresholds_of(robot: Robot, period_s: float = 0.001) -> ReadingThresholds | ServoThresholds:
    """The thresholds of either kind of robot. Raises as :func:`reading_thresholds`."""
    return servo_thresholds(robot, period_s) if robot.takes_displacements else reading_thresholds(robot, period_s)


def servo_thresholds(robot: Robot, period_s: float) -> ServoThresholds:
    """The thresholds of a robot whose actuators take displacements: those that its file states, else derived."""
    limits, actuators = robot.displacement_limits, robot.actuators
    if actuators is None or actuators.servo is None:
        raise ParameterError("robot.actuators", None, f"servos in the file of robot {robot.name!r}")
    limit, motor = (functools.partial(one.each, count=robot.tendon_count) for one in (limits, actuators))
    # A proportional loop, critically damped, is 2 v / w behind, and by the load over its stiffness m w^2; it hears a
    # command in the next cycle and is read in the one after that.
    rad_per_s, mass_kg = motor("bandwidth_rad_per_s"), motor("reflected_mass_kg")
    delay_s, stiffness_n_per_m = 2 / rad_per_s + _BUS_PERIODS * period_s, mass_kg * rad_per_s**2
    friction_n, steps_m = motor("coulomb_n"), _SERVO_STEPS * motor("meter_per_count")
    behind_m = limit("speed_m_per_s") * delay_s + (limit("maximum_n") + friction_n) / stiffness_n_per_m + steps_m
    sticks_m = _TURN * _BREAKAWAY * friction_n / stiffness_n_per_m + steps_m
    slack_n = limit("slack_n")
    return ServoThresholds(
        lag_m=_stated(limit("lag_m"), _SERVO_MARGIN * behind_m),
        highest_n=limit("maximum_n") + friction_n + mass_kg * limit("acceleration_m_per_s2"),
        lowest_n=np.where(slack_n > 0, slack_n - friction_n, -np.inf),
        viscous_ns_per_m=motor("viscous_ns_per_m"),
        frozen_motion_m=_stated(limit("frozen_motion_m"), np.maximum(sticks_m, _LEAST_MOTION_M)),
        frozen_begin_s=limits.frozen_begin_s or max(_LEAST_BEGIN_S, 2 * float(delay_s.max())),
        goals_hz=_GOALS_PER_PERIOD * float(rad_per_s.max()) / (2 * math.pi),
    )


def reading_thresholds(robot: Robot, period_s: float = 0.001) -> ReadingThresholds:
    """The thresholds of a robot: those that its ``limits`` state, else as they follow from the rest of its file."""
    limits, actuators, count = robot.tension_limits, robot.tendon_actuators, robot.tendon_count
    tendon_m_per_n = 1 / float(robot.tendon_stiffnesses_n_per_m.min())
    keys = "meter_per_count", "coulomb_n", "cogging_n", "reflected_mass_kg", "maximum_current_a"
    step_m, friction_n, cogging_n, mass_kg, largest_a = (
        np.zeros(count) if actuators is None else actuators.each(key, count) for key in keys
    )
    stretch_m = tendon_m_per_n * float((limits.each("maximum_n", count) + friction_n).max())
    # A motor that turns round keeps its tendon's tension until that changed by twice its friction.
    sticks_m = tendon_m_per_n * _TURN * (friction_n + cogging_n)
    motion_m = np.abs(_leave_one_out(robot)) @ (step_m + sticks_m)
    pulls = np.abs(tendon_manifold(robot).displacement_matrix)
    force_n = np.maximum(_TURN * _BREAKAWAY * (friction_n @ pulls), _LEAST_FORCE_N)
    if limits.frozen_force_n:
        force_n = np.full(force_n.shape, limits.frozen_force_n)
    # Half of that force is left to bring the motor over one count.
    pull_n = 0.5 * float(np.min(force_n / np.maximum(pulls.sum(axis=0), 1e-9)))
    begin_s = math.sqrt(2 * float((mass_kg * step_m).max()) / pull_n)
    sections = (None,) if robot.hardware is None else robot.hardware.motor_sections.values()
    fraction = max(getattr(one, "current_error_fraction", _CURRENT_FRACTION) for one in sections)
    current_a = fraction * largest_a + _CURRENT_COUNTS * max(getattr(one, "current_unit_a", 0.0) for one in sections)
    return ReadingThresholds(
        tendon_m_per_n=tendon_m_per_n,
        inconsistency_m=limits.inconsistency_m or max(_LEAST_INCONSISTENCY_M, stretch_m),
        frozen_motion_m=_stated(limits.each("frozen_motion_m", count), np.maximum(motion_m, _LEAST_MOTION_M)),
        frozen_force_n=force_n,
        frozen_begin_s=limits.frozen_begin_s or max(_LEAST_BEGIN_S, begin_s, _BEGIN_PERIODS * period_s),
        current_mismatch_a=_stated(limits.each("current_mismatch_a", count), current_a),
    )
