# SPDX-License-Identifier: Apache-2.0
"""From where on the readings of tendons are implausible, as follows from the robot file; derived in docs/safety.md."""

from __future__ import annotations

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
    """Thresholds of the watch over readings and currents.

    Attributes
    ----------
    tendon_m_per_n : stretch of a tendon for its tension, m/N
    inconsistency_m : largest root mean square by which the displacements of a segment may miss the manifold, m
    frozen_motion_m : how far the others say that a tendon moved which stands, beyond what stretches; (N,), m
    frozen_force_n : change of the commanded generalised force that must move some tendon, (2m,), N
    frozen_begin_s : how long a tendon that must move may take to begin to, s
    current_mismatch_a : largest difference of commanded and measured current, A
    """

    tendon_m_per_n: float
    inconsistency_m: float
    frozen_motion_m: Vector
    frozen_force_n: Vector
    frozen_begin_s: float
    current_mismatch_a: float

    @property
    def sentence(self) -> str:
        """For people."""
        frozen_mm = f"{1e3 * float(self.frozen_motion_m.max()):.3g} mm"
        return (
            f"Faults from: a tendon that reads the same while the others say that it moved {frozen_mm}; none that moves"
            f" for {float(self.frozen_force_n.min()):.3g} N; displacements {1e3 * self.inconsistency_m:.3g} mm off"
            f" their manifold; currents {self.current_mismatch_a:.3g} A from the commanded"
        )


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
    """Thresholds of the watch over servos that hold displacements.

    Attributes
    ----------
    lag_m : largest distance between a commanded and a measured displacement, m
    highest_n : greatest load of a tendon as its motor measures it slowly, with its dry friction and inertia, N
    lowest_n : load below which a tendon is slack all the same, with that friction against it, N; -inf: none is
    viscous_ns_per_m : by how much both move apart with the speed, N.s/m
    frozen_motion_m : how far a command may move while a reading repeats bit by bit, m
    frozen_begin_s : for how long, s
    goals_hz : goals a second that are enough for a servo, which holds its place by itself
    """

    lag_m: float
    highest_n: float
    lowest_n: float
    viscous_ns_per_m: float
    frozen_motion_m: float
    frozen_begin_s: float
    goals_hz: float

    @property
    def sentence(self) -> str:
        """For people."""
        slack = f" below {self.lowest_n:.3g} N, or" if math.isfinite(self.lowest_n) else ""
        return (
            f"Faults from: a servo {1e3 * self.lag_m:.3g} mm from its command; a load{slack} above"
            f" {self.highest_n:.3g} N; a reading that repeats while its command moves {1e3 * self.frozen_motion_m:.3g}"
            " mm"
        )


def thresholds_of(robot: Robot, period_s: float = 0.001) -> ReadingThresholds | ServoThresholds:
    """The thresholds of either kind of robot. Raises as :func:`reading_thresholds`.

    Parameters
    ----------
    robot : with limits
    period_s : of the driver's cycle, s
    """
    return servo_thresholds(robot, period_s) if robot.takes_displacements else reading_thresholds(robot, period_s)


def servo_thresholds(robot: Robot, period_s: float) -> ServoThresholds:
    """The thresholds of a robot whose actuators take displacements: those that its file states, else derived.

    Parameters
    ----------
    robot : that takes displacements
    period_s : of the driver's cycle, s

    Raises
    ------
    ParameterError : a robot without such limits
    """
    limits, actuators = robot.displacement_limits, robot.actuators
    if actuators is None or actuators.servo is None:
        raise ParameterError("robot.actuators", None, f"servos in the file of robot {robot.name!r}")
    # A proportional loop, critically damped, is 2 v / w behind, and by the load over its stiffness m w^2; it hears a
    # command in the next cycle and is read in the one after that.
    rad_per_s, mass_kg = 2 * math.pi * actuators.servo.bandwidth_hz, actuators.reflected_mass_kg
    delay_s, stiffness_n_per_m = 2 / rad_per_s + _BUS_PERIODS * period_s, mass_kg * rad_per_s**2
    friction_n, steps_m = actuators.coulomb_n, _SERVO_STEPS * actuators.meter_per_count
    behind_m = limits.speed_m_per_s * delay_s + (limits.maximum_n + friction_n) / stiffness_n_per_m + steps_m
    sticks_m = _TURN * _BREAKAWAY * friction_n / stiffness_n_per_m + steps_m
    return ServoThresholds(
        lag_m=limits.lag_m or _SERVO_MARGIN * behind_m,
        highest_n=limits.maximum_n + friction_n + mass_kg * limits.acceleration_m_per_s2,
        lowest_n=limits.slack_n - friction_n if limits.slack_n else -math.inf,
        viscous_ns_per_m=actuators.viscous_ns_per_m,
        frozen_motion_m=limits.frozen_motion_m or max(sticks_m, _LEAST_MOTION_M),
        frozen_begin_s=limits.frozen_begin_s or max(_LEAST_BEGIN_S, 2 * delay_s),
        goals_hz=_GOALS_PER_PERIOD * actuators.servo.bandwidth_hz,
    )


def reading_thresholds(robot: Robot, period_s: float = 0.001) -> ReadingThresholds:
    """The thresholds of a robot: those that its ``limits`` state, else as they follow from the rest of its file.

    Parameters
    ----------
    robot : that takes tensions
    period_s : of the driver's cycle, s

    Raises
    ------
    ParameterError : a robot without limits of tensions
    """
    limits, actuators = robot.tension_limits, robot.tendon_actuators
    tendon_m_per_n = 1 / float(robot.tendon_stiffnesses_n_per_m.min())
    step_m = friction_n = mass_kg = largest_a = 0.0
    if actuators is not None:
        step_m, friction_n = actuators.meter_per_count, actuators.coulomb_n
        mass_kg, largest_a = actuators.reflected_mass_kg, actuators.maximum_current_a
    stretch_m = tendon_m_per_n * (limits.maximum_n + friction_n)
    # A motor that turns round keeps its tendon's tension until that changed by twice its friction.
    sticks_m = tendon_m_per_n * _TURN * (friction_n + (0.0 if actuators is None else actuators.cogging_n))
    motion_m = np.abs(_leave_one_out(robot)).sum(axis=1) * (step_m + sticks_m)
    lever = np.abs(tendon_manifold(robot).displacement_matrix).sum(axis=0)
    force_n = np.maximum(lever * _TURN * _BREAKAWAY * friction_n, _LEAST_FORCE_N)
    if limits.frozen_force_n:
        force_n = np.full(lever.shape, limits.frozen_force_n)
    # Half of that force is left to bring the motor over one count.
    pull_n = 0.5 * float(np.min(force_n / np.maximum(lever, 1e-9)))
    begin_s = math.sqrt(2 * mass_kg * step_m / pull_n)
    sections = (None,) if robot.hardware is None else robot.hardware.motor_sections.values()
    current_a = max(
        getattr(one, "current_error_fraction", _CURRENT_FRACTION) * largest_a
        + _CURRENT_COUNTS * getattr(one, "current_unit_a", 0.0)
        for one in sections
    )
    return ReadingThresholds(
        tendon_m_per_n=tendon_m_per_n,
        inconsistency_m=limits.inconsistency_m or max(_LEAST_INCONSISTENCY_M, stretch_m),
        frozen_motion_m=(
            np.full(robot.tendon_count, limits.frozen_motion_m)
            if limits.frozen_motion_m
            else np.maximum(motion_m, _LEAST_MOTION_M)
        ),
        frozen_force_n=force_n,
        frozen_begin_s=limits.frozen_begin_s or max(_LEAST_BEGIN_S, begin_s, _BEGIN_PERIODS * period_s),
        current_mismatch_a=limits.current_mismatch_a or current_a,
    )
