# SPDX-License-Identifier: Apache-2.0
"""The approach of a tip target by a segment with equilibrium modulation: whether it is in reach, and how far it is.

Derived here from the macro and micro motion of wang, see :mod:`continuum_robot.control.tip.macro_micro`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from continuum_robot.control.tendon_forces import distribute
from continuum_robot.control.tip.macro_micro import MacroMicroController, MacroMicroParameters
from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce, end_pose
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment, modulation_of
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

MOVING, REACHED, STOPPED, LOST = "moving", "reached", "stopped", "lost"
_TENSION_FRACTION = 0.9  # of the greatest tension, the rest is for what swinging adds
_AZIMUTHS = 24
_BEFORE_TURN = 0.9  # of the way to the turning point, where the tip still moves
_USUAL_BENDS_RAD = np.deg2rad([30.0, 60.0])
_FIRST_INSERTION_M = 0.001
_BENDS, _DEPTHS = 61, 9
_AT_BOUND_RAD = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproachSettings:
    """When a target is accepted, reached, and given up."""

    tolerance_m: float = quantity("distance at which the target is reached", "m", default=1e-6, gt=0, le=1e-2)
    reach_tolerance_m: float = quantity(
        "a target is refused where the model states that the tip stays farther away", "m", default=1e-3, gt=0, le=1
    )
    average_s: float = quantity(
        "time constant of the mean that is compared with the tolerance", "s", default=2.0, gt=0, le=600
    )
    settle_s: float = quantity(
        "the insertion has done what it can where it leaves less than half the tolerance for so long",
        "s",
        default=5.0,
        gt=0,
        le=600,
    )


@dataclass(frozen=True)
class Reach:
    """The place next to a target to which the tip comes, by the model."""

    displacement_m: Array
    insertion_m: float
    place_m: Array
    miss_m: float
    largest_bend: bool


@dataclass(frozen=True)
class Progress:
    """Where the tip stands."""

    coordinate_m: Array
    state: str
    phase: str
    distance_m: float
    limited: bool
    message: str


def approach_parameters(robot: Robot) -> MacroMicroParameters:
    """Parameters of the approach from a robot's file: its stroke before the tip turns back, its limits."""
    mechanism = modulation_of(robot)
    return MacroMicroParameters(
        insertion_low_m=min(_FIRST_INSERTION_M, mechanism.stroke_m / 2),
        insertion_high_m=useful_stroke_m(robot),
        macro_resolution_m=mechanism.macro_resolution_m,
        displacement_high_m=mechanism.pitch_radius_m * largest_bend_rad(robot),
    )


def useful_stroke_m(robot: Robot) -> float:
    """The insertion up to which the tip moves one way: a little before it turns back, m."""
    mechanism = modulation_of(robot)
    segment, error = make_segment(mechanism), make_moment_error(mechanism)
    # The tip turns earlier where the segment is straighter: the shortest way is good for all.
    turns = [turning_point(segment, float(theta), error) or segment.length_m for theta in _USUAL_BENDS_RAD]
    return min(_BEFORE_TURN * min(turns), mechanism.stroke_m)


def largest_bend_rad(robot: Robot) -> float:
    """The bend from straight that tensions, controller and displacements allow in every direction, rad."""
    if robot.limits is None or robot.control is None:
        raise ParameterError("robot", robot.name, "a robot file with limits and control")
    mechanism, limits, control = modulation_of(robot), robot.limits, robot.control
    manifold = clarke_manifold(robot)
    around = np.linspace(0, 2 * np.pi, _AZIMUTHS, endpoint=False)
    directions = np.stack([np.cos(around), np.sin(around), 0 * around], -1)
    tension_per_newton = max(
        float(distribute(control.tendon_forces, one, manifold)[: mechanism.backbone_count].max()) for one in directions
    )
    force = (
        _TENSION_FRACTION * limits.smallest("maximum_n", robot.tendon_count) - control.pretension_n
    ) / tension_per_newton
    gains = control.gains[0]
    force = min(force, gains.u_clamp_max, -gains.u_clamp_min)
    displacement = min(
        force / ModulationForce(robot).stiffness_n_per_m, limits.smallest("maximum_displacement_m", robot.tendon_count)
    )
    return float(min(displacement / mechanism.pitch_radius_m, np.pi))


class TipApproach:
    """From targets and measured tips to coordinates for the drives, and words."""

    def __init__(self, robot: Robot, parameters: MacroMicroParameters, settings: ApproachSettings) -> None:
        mechanism = modulation_of(robot)
        self.parameters, self.settings = parameters, settings
        self._segment, self._error = make_segment(mechanism), make_moment_error(mechanism)
        self._controller = MacroMicroController(self._segment, self._error, parameters)
        self._manifold = clarke_manifold(robot)
        self._count = mechanism.backbone_count
        self._target: Array | None = None
        self._mean: Array = np.full(3, np.nan)
        self._mean_along = self._micro_s = self._done_s = 0.0
        self._was_reached = False

    @property
    def target_m(self) -> Array | None:
        """The target, (3,), m; None where there is none."""
        return self._target

    def nearest(self, target_m: ArrayLike) -> Reach:
        """The place next to a target that the tip reaches, by the model."""
        target = _finite("tip_target", target_m)
        own, segment = self.parameters, self._segment
        delta = -np.arctan2(target[1], target[0])
        highest = own.displacement_high_m / segment.pitch_radius_m
        bends = np.linspace(0.0, highest, _BENDS)
        depths = np.linspace(own.insertion_low_m, own.insertion_high_m, _DEPTHS)

        def place(bend_rad: ArrayLike, depth_m: ArrayLike) -> Array:
            state = modulated_equilibrium(segment, np.pi / 2 - np.asarray(bend_rad), delta, depth_m, self._error)
            return np.asarray(end_pose(state, segment)[..., :3, 3])

        away = np.linalg.norm(place(bends[:, None], depths[None]) - target, axis=-1)
        i, j = np.unravel_index(int(np.argmin(away)), away.shape)
        found = least_squares(
            lambda x: 1e6 * (place(x[0], x[1]) - target),
            (np.clip(bends[i], *_inside(0.0, highest)), np.clip(depths[j], *_inside(depths[0], depths[-1]))),
            bounds=((0.0, depths[0]), (highest, depths[-1])),
            x_scale=(1.0, segment.length_m),
            xtol=1e-12,
        )
        bend, depth = found.x
        displacement = segment.backbone_displacement_m(np.pi / 2 - bend, delta)
        reached = place(bend, depth)
        largest = bool(bend > highest - _AT_BOUND_RAD)
        return Reach(displacement, float(depth), reached, float(np.linalg.norm(reached - target)), largest)

    def begin(self, target_m: ArrayLike, coordinate_m: ArrayLike) -> Reach:
        """Go to a target from where the drives are, or say why not."""
        reach = self.nearest(target_m)
        coordinate = _finite("coordinate_m", coordinate_m)
        if reach.miss_m > self.settings.reach_tolerance_m:
            why = "at the largest bend" if reach.largest_bend else "on its surface"
            x, y, z = 1e3 * np.asarray(target_m, dtype=float)
            nearest = ", ".join(f"{value:.3f}" for value in 1e3 * reach.place_m)
            raise ParameterError(
                "tip_target",
                f"({x:.3f}, {y:.3f}, {z:.3f}) mm",
                f"a place that the tip reaches; the next one, {why}, is {1e3 * reach.miss_m:.3f} mm away: "
                f"({nearest}) mm",
            )
        displacement = self._manifold.displacement(coordinate)[: self._count]
        self._controller.reset(displacement, float(np.clip(coordinate[2], 0.0, self.parameters.insertion_high_m)))
        self._target = np.array(target_m, dtype=float)
        self._restart_mean()
        return reach

    def end(self) -> None:
        """Forget the target."""
        self._target = None

    def update(self, tip_m: ArrayLike, dt: float) -> Progress:
        """One measured tip."""
        if self._target is None:
            raise ParameterError("tip_target", None, "a target to go to")
        output = self._controller.update(tip_m, self._target, dt)
        coordinate = np.append(
            self._manifold.clarke_matrix[:2, : self._count] @ output.displacement_m, output.insertion_m
        )
        if not np.isfinite(output.error_m).all():
            return Progress(coordinate, LOST, output.phase, np.nan, False, "the tip is not seen")
        micro = bool(np.isfinite(output.along_m))
        self._average(output.error_m, output.along_m, micro, dt)
        distance_m = float(np.linalg.norm(self._mean))
        state, message = MOVING, ""
        if micro and self._micro_s >= self.settings.average_s and distance_m <= self._tolerance_m():
            state = REACHED
        elif micro:
            state, message = self._micro_message(distance_m, output.at_limit)
        elif output.at_limit:
            message = "a backbone is at its largest displacement"
        self._was_reached = state == REACHED
        return Progress(coordinate, state, output.phase, distance_m, output.at_limit, message)

    def _tolerance_m(self) -> float:
        """Once reached, noise of the mean shall not take it back at once."""
        return self.settings.tolerance_m * (1.5 if self._was_reached else 1.0)

    def _micro_message(self, distance_m: float, at_limit: bool) -> tuple[str, str]:
        done = at_limit or abs(self._mean_along) < self.settings.tolerance_m / 2
        self._done_s = self._done_s if done else self._micro_s
        if self._micro_s - self._done_s < self.settings.settle_s:
            return MOVING, ""
        why = "is at the end of what it can do" if at_limit else "moves the tip along one curve only"
        return STOPPED, f"{1e6 * distance_m:.1f} um short: the insertion {why}"

    def _restart_mean(self) -> None:
        self._mean = np.full(3, np.nan)
        self._mean_along = self._micro_s = self._done_s = 0.0
        self._was_reached = False

    def _average(self, error_m: Array, along_m: float, micro: bool, dt: float) -> None:
        """Means of the micro phase, which may take its time; before it, the error as it is."""
        if not micro or self._micro_s == 0.0:
            self._mean, self._mean_along = error_m.copy(), along_m
            self._micro_s = self._done_s = dt if micro else 0.0
            return
        self._micro_s += dt
        # As the plain mean at first, so that the first measurement counts no more than the others.
        fraction = dt / min(self.settings.average_s, self._micro_s)
        self._mean = self._mean + min(fraction, 1.0) * (error_m - self._mean)
        self._mean_along += min(fraction, 1.0) * (along_m - self._mean_along)


def _inside(low: float, high: float) -> tuple[float, float]:
    """A start strictly between bounds, as the solver wants it."""
    return low + 1e-3 * (high - low), high - 1e-3 * (high - low)


def _finite(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, dtype=float)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise ParameterError(name, value, "three finite coordinates in m")
    return array
