# SPDX-License-Identifier: Apache-2.0
"""Resolved-rate control of a tip with two scales of motion: J_M for what is large, J_mu for what is small.

The drives of the secondary backbones hardly place the tip to a micrometre: one step of theirs moves it by that or more.
Insertion can, but along one curve of a few tens of micrometres. So the approach has three phases:

macro : the backbones move with J_M until what is left is lost in their steps and in the tip's noise. The insertion
    meanwhile goes where it can move the tip to either side. A straight segment has no J_M where lambda is not 0: there
    it begins as if it were bent a little towards the target.
trim : at rest, the tip is measured until its mean is known. Among the steps that the backbones can make, that is taken
    from which the curve of the insertion passes the target most closely.
micro : the backbones stand; the insertion moves with J_mu, within its stroke.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose, jacobians, macro_jacobian
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import STRAIGHT_RAD, ModulatedSegment
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

MACRO, TRIM, MICRO = "macro", "trim", "micro"
_DEPTHS = 41  # on the stroke, when curves are compared
_MOST_TRIMS = 3
_MARGIN_FRACTION = 0.05  # of the stroke, kept free at both ends when a trim is chosen
_ALONG_FRACTION = 0.05  # of the largest J_mu on the stroke: below, the insertion does not move the tip any more
_LEAST_SPEED = 1e-9  # of the tip, a metre a metre of insertion
_LEAST_BEND_RAD = 0.02


@dataclass(frozen=True, kw_only=True)
class MacroMicroParameters:
    """How the tip is approached.

    The insertion stays between its low and its high end. The tip's noise sets the macro phase's tolerance.
    """

    insertion_low_m: float = quantity("least insertion", "m", ge=0, le=10)
    insertion_high_m: float = quantity("deepest insertion", "m", ge=0, le=10)
    macro_resolution_m: float = quantity("least displacement that the backbones' drives make", "m", ge=0, le=1e-3)
    displacement_high_m: float = quantity(
        "largest displacement of a backbone either way", "m", default=1.0, gt=0, le=10
    )
    macro_tolerance_m: float = quantity(
        "the macro phase ends where no backbone has farther to go", "m", default=1e-6, gt=0, le=1e-2
    )
    macro_gain_per_s: float = quantity("rate of the tip for its error, macro", "1/s", default=3.0, gt=0, le=100)
    micro_gain_per_s: float = quantity("rate of the tip for its error, micro", "1/s", default=0.4, gt=0, le=100)
    macro_speed_m_per_s: float = quantity("fastest backbone", "m/s", default=0.002, gt=0, le=1)
    insertion_speed_m_per_s: float = quantity("fastest insertion", "m/s", default=0.005, gt=0, le=1)
    rest_samples: int = quantity("measurements at rest that are averaged before a trim", default=240, ge=1, le=100000)
    trim_steps: int = quantity("a trim's steps of each backbone either way, in resolutions", default=8, ge=1, le=12)
    trim_tolerance_m: float = quantity(
        "a trim is done once the curve of the insertion is expected to pass the target so closely",
        "m",
        default=4e-7,
        gt=0,
        le=1e-2,
    )
    release_m: float = quantity(
        "an error above which the backbones move again, of what they can take off", "m", default=3e-4, gt=0, le=1
    )

    def __post_init__(self) -> None:
        for name in (
            "displacement_high_m",
            "macro_tolerance_m",
            "macro_gain_per_s",
            "micro_gain_per_s",
            "macro_speed_m_per_s",
            "insertion_speed_m_per_s",
            "rest_samples",
            "trim_steps",
            "trim_tolerance_m",
            "release_m",
        ):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ParameterError(name, value, "a positive number")
        if not 0 <= self.insertion_low_m < self.insertion_high_m < np.inf:
            raise ParameterError(
                "insertion_low_m, insertion_high_m",
                (self.insertion_low_m, self.insertion_high_m),
                "0 or more, and the low one first",
            )
        if not self.macro_resolution_m >= 0:
            raise ParameterError("macro_resolution_m", self.macro_resolution_m, "0 m or more")


@dataclass(frozen=True)
class MacroMicroOutput:
    """What the drives shall do."""

    displacement_m: Array
    insertion_m: float
    phase: str
    error_m: Array
    at_limit: bool
    along_m: float = np.nan


class MacroMicroController:
    """Commands for backbones and insertion from the measured tip."""

    def __init__(self, segment: ModulatedSegment, moment_error: MomentError, parameters: MacroMicroParameters) -> None:
        if parameters.insertion_high_m > segment.length_m:
            raise ParameterError(
                "insertion_high_m", parameters.insertion_high_m, f"at most the length, {segment.length_m:g} m"
            )
        self._segment, self._error, self.parameters = segment, moment_error, parameters
        middle = (parameters.insertion_low_m + parameters.insertion_high_m) / 2
        self.reset(np.zeros(segment.count), middle)

    def reset(self, displacement_m: ArrayLike, insertion_m: float) -> None:
        """Begin from where the drives are."""
        self._displacement = np.array(displacement_m, dtype=float)
        self._insertion = float(insertion_m)
        self._begin(MACRO)
        self._target: Array | None = None

    def _begin(self, phase: str) -> None:
        self._phase = phase
        self._sum, self._samples = np.zeros(3), 0
        self._trims = 0

    def update(self, tip_m: ArrayLike, target_m: ArrayLike, dt: float) -> MacroMicroOutput:
        """One cycle."""
        tip, target = np.asarray(tip_m, dtype=float), np.asarray(target_m, dtype=float)
        if tip.shape != (3,):
            raise ParameterError("tip_m", tip.shape, "shape (3,)")
        if target.shape != (3,) or not np.isfinite(target).all():
            raise ParameterError("target_m", target_m, "three finite coordinates in m")
        if not dt > 0:
            raise ParameterError("dt", dt, "a positive time in s")
        error = target - tip
        if not np.isfinite(error).all():
            return self._output(error, False)
        if self._target is None or not np.array_equal(target, self._target):
            self._begin(MACRO)
            self._target = target.copy()
        J = self._macro_columns(target)
        if self._phase != MACRO and np.linalg.norm(J @ np.linalg.pinv(J) @ error) > self.parameters.release_m:
            self._begin(MACRO)
        limited, along_m = False, np.nan
        if self._phase == MACRO:
            limited = self._macro(J, error, dt)
        elif self._phase == TRIM:
            self._trim(tip, target)
        else:
            limited, along_m = self._micro(error, dt)
        return self._output(error, limited, along_m)

    def _macro_columns(self, target: Array) -> Array:
        """J_M of the tip's place by displacements, (3, n); that of a small bend towards the target where straight."""
        theta, delta = self._segment.configuration(self._displacement)
        if STRAIGHT_RAD - theta < _LEAST_BEND_RAD:
            theta, delta = np.array(STRAIGHT_RAD - _LEAST_BEND_RAD), -np.arctan2(target[1], target[0])
        found = jacobians(self._segment, theta, delta, self._insertion, self._error)
        # Pulled in is shorter: the displacement is -q of wang (56).
        return -macro_jacobian(self._segment, found)[:3]

    def _macro(self, J: Array, error: Array, dt: float) -> bool:
        """Backbones by J_M; the insertion to the middle of its stroke. Returns whether a backbone is at its limit."""
        own = self.parameters
        needed = np.linalg.pinv(J) @ error
        middle = (own.insertion_low_m + own.insertion_high_m) / 2
        largest = own.insertion_speed_m_per_s * dt
        away = middle - self._insertion
        self._insertion += float(np.clip(away, -largest, largest))
        if np.abs(needed).max() <= max(own.macro_tolerance_m, own.macro_resolution_m) and abs(away) <= largest:
            self._displacement = self._stepped(self._displacement)
            self._begin(TRIM)
            return False
        rate = own.macro_gain_per_s * needed
        fastest = np.abs(rate).max()
        if fastest > own.macro_speed_m_per_s:
            rate *= own.macro_speed_m_per_s / fastest
        desired = self._displacement + rate * dt
        # All by one factor: the bend keeps its plane.
        self._displacement = desired * min(1.0, own.displacement_high_m / max(np.abs(desired).max(), 1e-12))
        return bool(np.abs(desired).max() > own.displacement_high_m)

    def _trim(self, tip: Array, target: Array) -> None:
        """Measure at rest; then the step of the backbones after which the insertion passes the target."""
        own = self.parameters
        self._sum += tip
        self._samples += 1
        if self._samples < own.rest_samples:
            return
        mean = self._sum / self._samples
        steps = own.macro_resolution_m * np.array(
            list(itertools.product(range(-own.trim_steps, own.trim_steps + 1), repeat=self._segment.count))
        )
        if own.macro_resolution_m == 0:
            steps = steps[:1]
        # What all backbones are pulled alike only strains them.
        steps = steps[np.abs(steps.sum(axis=1)) <= self._segment.count / 2 * own.macro_resolution_m]
        bias = mean - self._tips(self._displacement[None], np.array([self._insertion]))[0, 0]
        margin = _MARGIN_FRACTION * (own.insertion_high_m - own.insertion_low_m)
        depths = np.linspace(own.insertion_low_m + margin, own.insertion_high_m - margin, _DEPTHS)
        tips = self._tips(self._displacement + steps, depths) + bias
        ahead = target - tips[:, :-1]
        way = np.diff(tips, axis=1)
        fraction = np.clip(np.sum(ahead * way, axis=-1) / np.maximum(np.sum(way * way, axis=-1), 1e-30), 0, 1)
        miss = np.linalg.norm(ahead - fraction[..., None] * way, axis=-1).min(axis=1)
        stays = miss[np.argmin(np.abs(steps).sum(axis=1))]
        if stays <= max(own.trim_tolerance_m, miss.min()) or self._trims == _MOST_TRIMS:
            self._begin(MICRO)
            return
        self._displacement = self._stepped(self._displacement + steps[int(np.argmin(miss))])
        self._sum, self._samples = np.zeros(3), 0
        self._trims += 1

    def _micro(self, error: Array, dt: float) -> tuple[bool, float]:
        """Insertion by J_mu. Returns whether it is at the end of what it can do, and the error along its curve, m."""
        own = self.parameters
        theta, delta = self._segment.configuration(self._displacement)
        column = jacobians(self._segment, theta, delta, self._insertion, self._error).micro[:3]
        depths = np.array([own.insertion_low_m, self._insertion, own.insertion_high_m])
        speeds = np.linalg.norm(jacobians(self._segment, theta, delta, depths, self._error).micro[:, :3], axis=1)
        along_m = float(column @ error / max(speeds[1], _LEAST_SPEED))
        if speeds[1] < max(_ALONG_FRACTION * speeds.max(), _LEAST_SPEED):
            return True, along_m
        rate = own.micro_gain_per_s * along_m / speeds[1]
        step = float(np.clip(rate, -own.insertion_speed_m_per_s, own.insertion_speed_m_per_s)) * dt
        desired = self._insertion + step
        self._insertion = float(np.clip(desired, own.insertion_low_m, own.insertion_high_m))
        return self._insertion != desired, along_m

    def _tips(self, displacement: Array, depths: Array) -> Array:
        """Modelled tips for displacements (k, n) and depths (d,), (k, d, 3)."""
        theta, delta = self._segment.configuration(displacement)
        state = modulated_equilibrium(self._segment, theta[:, None], delta[:, None], depths[None], self._error)
        return np.asarray(end_pose(state, self._segment)[..., :3, 3])

    def _stepped(self, displacement: Array) -> Array:
        """On the drives' steps, where they have such."""
        step = self.parameters.macro_resolution_m
        return np.round(displacement / step) * step if step > 0 else displacement

    def _output(self, error: Array, at_limit: bool, along_m: float = np.nan) -> MacroMicroOutput:
        return MacroMicroOutput(self._displacement.copy(), self._insertion, self._phase, error, at_limit, along_m)
