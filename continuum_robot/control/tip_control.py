# SPDX-License-Identifier: Apache-2.0
"""The tip brought to a wanted place and kept there: a limited motion, and an integral of the estimated tip's error.

Derived here: the error is integrated in the directions in which the tendons move the tip, by its Jacobian's inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import LimitedMotion, motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.control.tip_inverse import TipInverse, TipKinematics, TipSolution, finite
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_TOLERANCE_SHARE = 0.005
_LEAST_SINGULAR_SHARE = 0.02  # below it the tip hardly follows the tendons: noise, not error, would be integrated
_NEAR_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TipSettings:
    """How the tip is brought to its target.

    Attributes
    ----------
    limit_share : share of each limit that is used; the rest is left to the controller
    reachable_m : distance within which a target counts as reached by the model, m
    integral_per_s : rate at which the error of the estimated tip is taken away, 1/s
    integral_share : largest correction, share of the largest displacement
    tolerance_m : error of the estimated tip within which it has arrived, m; 0: half a percent of the robot's length
    settle_s : time over which the error is averaged for that, s
    """

    limit_share: float = 0.95
    reachable_m: float = 1e-4
    integral_per_s: float = 2.0
    integral_share: float = 0.25
    tolerance_m: float = 0.0
    settle_s: float = 0.2


@dataclass(frozen=True, slots=True)
class TipOutput:
    """One cycle of the tip control.

    Attributes
    ----------
    reference : of the Clarke coordinates
    error_m : from goal to estimated tip, averaged where the reference stands; NaN where the tip is unknown
    off_m : the part of it that no tendon moves the tip along, NaN where the tip is unknown
    moving : whether the reference is still on its way
    arrived : whether the tip is at the goal, but for what no tendon can move it along
    limited : whether the correction of the error is at a limit
    """

    reference: ClarkeReference
    error_m: float
    off_m: float
    moving: bool
    arrived: bool
    limited: bool


class TipControl:
    """Clarke references that bring the tip to a target, and keep it there against what the model does not know.

    The reference moves straight in the Clarke coordinates, within speed and acceleration of
    :func:`~continuum_robot.control.motion.motion_limits`. The error of the estimated tip is integrated into a
    correction in the directions in which the tendons move the tip; it stops at the limits.

    Parameters
    ----------
    robot : a rod with limits; without ``control`` tensions are predicted by shifting onto the least tension
    settings : how
    compile, progress : see :func:`~continuum_robot.rod.code_generation.compile_functions`

    Raises
    ------
    ParameterError : a mechanism, or a robot without limits
    """

    def __init__(
        self,
        robot: Robot,
        settings: TipSettings | None = None,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or TipSettings()
        self.kinematics = TipKinematics(robot)
        limits = motion_limits(robot)
        self._limits = TendonUse(robot, self.settings.limit_share, compile, progress)
        self._inverse = TipInverse(robot, self.kinematics, self._limits, self.settings.reachable_m)
        self._length_m = robot.length_m
        self.tolerance_m = self.settings.tolerance_m or _TOLERANCE_SHARE * robot.length_m
        self._largest_m = self._limits.displacement_m * self.settings.integral_share
        self._motion = LimitedMotion(limits, np.zeros(robot.coordinate_count))
        self._correction = np.zeros(robot.coordinate_count)
        self._solution: TipSolution | None = None
        self._mean_error: Vector | None = None

    @property
    def motion(self) -> LimitedMotion:
        """Motion of the reference, without the correction."""
        return self._motion

    @property
    def solution(self) -> TipSolution | None:
        """Of the newest target, None before the first."""
        return self._solution

    def tension(self, clarke: ArrayLike) -> Vector:
        """Tensions that hold the robot at Clarke coordinates (2m,), m, by the model, shape (N,), N."""
        return self._limits.tension(np.asarray(clarke, dtype=float))

    def use_of_limits(self, clarke: ArrayLike) -> dict[str, float]:
        """Largest share of each kind of limit that Clarke coordinates (2m,), m, need; 1 is the limit itself."""
        used = self._limits.use(np.asarray(clarke, dtype=float)) * self.settings.limit_share
        return {name: float(used[rows].max()) for name, rows in self._limits.rows.items()}

    def solve(self, target: ArrayLike, start: ArrayLike | None = None, *, search: bool = True) -> TipSolution:
        """The coordinates for a target; arguments, result and errors as of :meth:`.TipInverse.solve`."""
        return self._inverse.solve(target, start, search=search)

    def reset(self, clarke: ArrayLike, velocity: ArrayLike | None = None) -> None:
        """Start at Clarke coordinates (2m,), m, with ``velocity``, shape (2m,), m/s; no target, no correction."""
        self._motion.reset(clarke, velocity)
        self._correction[:] = 0.0
        self._solution = self._mean_error = None

    def set_target(self, target: ArrayLike) -> TipSolution:
        """Go to a target from now on.

        Parameters
        ----------
        target : shape (3,), base frame, m

        Returns
        -------
        where the tip will go; on a target close to the one before, the solution close to the one before

        Raises
        ------
        ParameterError : a target that is not finite; the one before stays
        """
        before, place = self._solution, finite("target", target, 3)
        start = before.clarke if before is not None else self._motion.reference.position
        solution = self.solve(place, start, search=before is None or not self.near(before.target, place))
        self.adopt(solution)
        return solution

    def near(self, before: Vector, target: Vector) -> bool:
        """Whether a target is so close to the one before, shape (3,) both, that no other way there is looked for.

        Parameters
        ----------
        before, target : places of the tip, base frame, shape (3,), m
        """
        return float(np.linalg.norm(target - before)) < _NEAR_SHARE * self._length_m

    def adopt(self, solution: TipSolution) -> None:
        """Go to the goal of a solution of :meth:`solve` from now on, wherever it was found."""
        self._solution, self._mean_error = solution, None

    def keep(self, solution: TipSolution, clarke: ArrayLike) -> None:
        """Keep the tip where it is from now on, at rest and without a step of the reference.

        What the model does not know of the tip's place is in the correction from the first cycle on.

        Parameters
        ----------
        solution : of :meth:`solve`, for the measured place of the tip
        clarke : of the reference, shape (2m,), m
        """
        self._motion.reset(solution.clarke)
        self._correction[:] = np.asarray(clarke, dtype=float) - solution.clarke
        self.adopt(solution)

    def update(self, tip: ArrayLike | None, clarke: ArrayLike | None, dt: float) -> TipOutput:
        """One cycle.

        Parameters
        ----------
        tip : estimated position, shape (3,), base frame, m; None or NaN where it is unknown: then nothing is corrected
        clarke : measured coordinates at that moment, shape (2m,), m; None or NaN: those of the reference
        dt : time since the last cycle, s, positive

        Returns
        -------
        the reference, and how far the tip is

        Raises
        ------
        ParameterError : no target was set, or a dt that is not positive
        """
        solution = self._solution
        if solution is None:
            raise ParameterError("target", None, "set_target() before update()")
        motion = self._motion.towards(solution.clarke, dt)
        known = tip is not None and bool(np.all(np.isfinite(np.asarray(tip, dtype=float))))
        moving = bool(np.any(motion.position != solution.clarke))
        error_m = off_m = math.nan
        rate, limited, arrived = np.zeros_like(motion.position), False, False
        if known:
            estimated = np.asarray(tip, dtype=float)
            place, jacobian = self.kinematics.place(motion.position)
            inverse = np.linalg.pinv(jacobian, rcond=_LEAST_SINGULAR_SHARE)
            lag = self._lag(motion.position + self._correction, clarke)
            rate, limited = self._correct(motion.position, inverse @ (place - estimated - lag), dt)
            error = self._averaged(solution.goal - estimated, moving, dt)
            off = error - jacobian @ (inverse @ error)
            error_m, off_m = float(np.linalg.norm(error)), float(np.linalg.norm(off))
            arrived = not moving and float(np.linalg.norm(error - off)) <= self.tolerance_m
        else:
            self._mean_error = None
        reference = ClarkeReference(motion.position + self._correction, motion.velocity + rate, motion.acceleration)
        return TipOutput(reference, error_m, off_m, moving, arrived, limited)

    def _lag(self, wanted: Vector, clarke: ArrayLike | None) -> Vector:
        """Way of the tip, shape (3,), m, that the controller still has to go by the model.

        That is its own integral's business: with friction, two integrals that wait for the same motion would hunt.
        """
        measured = wanted if clarke is None else np.asarray(clarke, dtype=float)
        if not np.all(np.isfinite(measured)):
            return np.zeros(3)
        return self.kinematics.place(wanted)[0] - self.kinematics.place(measured)[0]

    def _averaged(self, error: Vector, moving: bool, dt: float) -> Vector:
        """The error, shape (3,), m, averaged over the time to settle while the reference stands."""
        if moving or self._mean_error is None:
            self._mean_error = error
        else:
            self._mean_error = self._mean_error + min(1.0, dt / self.settings.settle_s) * (error - self._mean_error)
        return self._mean_error

    def _correct(self, position: Vector, missing: Vector, dt: float) -> tuple[Vector, bool]:
        """Integrate the missing way (2m,), m, into the correction; its rate, m/s, and whether a limit stopped it."""
        step = self.settings.integral_per_s * missing * dt
        longest = self._motion.limits.speed_m_per_s * dt
        step *= min(1.0, longest / max(float(np.linalg.norm(step)), math.ulp(0.0)))
        wanted = self._correction + step
        limited = bool(np.linalg.norm(wanted) > self._largest_m) or self._limits.exceeded(position + wanted)
        if limited and np.linalg.norm(wanted) >= np.linalg.norm(self._correction):
            return np.zeros_like(step), True
        self._correction = wanted
        return step / dt, limited
