# SPDX-License-Identifier: Apache-2.0
"""Settings of the contact monitor, and those that follow from a robot's description.

Channels of the residual are all coefficients of a rod, or the modes that its sensors see. The least tip force that the
tendons balance is that of a cantilever under its tendons' moments, derived here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.location import LocationSettings
from continuum_robot.estimation.contact.wrench import CONTACT_TYPES
from continuum_robot.estimation.seen_modes import SeenModes, force_balanced_at_tip_n, seen_modes
from continuum_robot.estimation.shape import sensor_accuracy
from continuum_robot.estimation.shape_estimate import ShapeSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS
from continuum_robot.robot.schema import quantity, quantity_of
from continuum_robot.robot.traits import LENGTHS, STATICS

KALMAN = "kalman_disturbance_observer"
METHODS = ("gmo", "jfd", KALMAN)
_WALK_FRACTION = 0.15
_COLLISION_FRACTIONS = (0.25, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Settings of the contact monitor; all may be changed while it runs."""

    method: str = quantity(
        "gmo: momentum observer; jfd: joint-force deviation; kalman_disturbance_observer: force from a Kalman filter; "
        "or an observer of another package, by its name",
        default="gmo",
        choices=METHODS,
        door=CONTACT_OBSERVERS,
        live=True,
    )
    gain_per_s: tuple[float, ...] = quantity(
        "K_o of the momentum observer, one for all coefficients or one each",
        "1/s",
        default=(25.0,),
        gt=0,
        le=1e4,
        live=True,
    )
    reset_cycles: int = quantity("n_w: cycles between resets, 0 for never", default=1000, ge=0, le=10**9, live=True)
    smoothing_points: int = quantity(
        "points of the backward Gaussian on the residual of gmo and jfd", default=1, ge=1, le=1000, live=True
    )
    force_walk_n_per_sqrt_s: float = quantity(
        "change of contact forces that the Kalman disturbance observer expects within a second",
        "N/s^0.5",
        default=30.0,
        gt=0,
        le=1e5,
        live=True,
    )
    contact_type: str = quantity(
        "what a contact can transmit", default="point", choices=tuple(CONTACT_TYPES), live=True
    )
    known_arc_length_m: float = quantity(
        "arc length of the contact where it is known, for the wrench; negative: it is looked for, and the tip is "
        "assumed where it is not observable",
        "m",
        default=-1.0,
        ge=-1,
        le=100,
        live=True,
    )
    coefficient_error_per_m: float = quantity(
        "constant error of the coefficients", "1/m", default=0.02, ge=0, le=100, live=True
    )
    rate_error_per_m_s: float = quantity(
        "constant error of the coefficients' rates", "1/(m.s)", default=0.0, ge=0, le=100, live=True
    )
    rate_noise_per_m_s: float = quantity(
        "standard deviation of the rates' noise from sample to sample", "1/(m.s)", default=0.05, ge=0, le=1e4, live=True
    )
    acceleration_noise_per_m_s2: float = quantity(
        "standard deviation of the accelerations' noise, for jfd; that of the rates' difference adds to it",
        "1/(m.s^2)",
        default=5.0,
        ge=0,
        le=1e6,
        live=True,
    )
    stiffness_error_fraction: float = quantity(
        "error of the bending stiffness: a calibration finds it to 2 %, temperature and wear add to that",
        default=0.03,
        ge=0,
        le=1,
        live=True,
    )
    friction_error_fraction: float = quantity(
        "error of the friction of the tendons in the disks: a calibration finds the coefficients to 10 %, and the "
        "pretension, which it is proportional to, drifts by a fifth; and of what resists by the past of the motion",
        default=0.3,
        ge=0,
        le=1,
        live=True,
    )
    motor_friction_fraction: float = quantity(
        "fraction of the motors' dry friction and cogging that a threshold lies above, where tensions are the motors'",
        default=1.0,
        ge=0,
        le=10,
        live=True,
    )
    sigma: float = quantity(
        "standard deviations of noise that a threshold lies above it", default=4.0, gt=0, le=20, live=True
    )
    contact_factor_steady: float = quantity(
        "contact threshold over the bound, at rest", default=1.0, gt=0, le=1e3, live=True
    )
    contact_factor_accelerating: float = quantity(
        "contact threshold over the bound, accelerating", default=1.5, gt=0, le=1e3, live=True
    )
    collision_factor_steady: float = quantity(
        "collision threshold over the bound, at rest", default=6.0, gt=0, le=1e3, live=True
    )
    collision_factor_accelerating: float = quantity(
        "collision threshold over the bound, accelerating", default=9.0, gt=0, le=1e3, live=True
    )
    contact_force_steady_n: float = quantity(
        "least force that counts as contact, at rest", "N", default=0.0, ge=0, le=1e5, live=True
    )
    contact_force_accelerating_n: float = quantity(
        "least force that counts as contact, accelerating", "N", default=0.0, ge=0, le=1e5, live=True
    )
    collision_force_steady_n: float = quantity(
        "force at a known or found location that is a collision, at rest", "N", default=50.0, gt=0, le=1e5, live=True
    )
    collision_force_accelerating_n: float = quantity(
        "force at a known or found location that is a collision, accelerating",
        "N",
        default=60.0,
        gt=0,
        le=1e5,
        live=True,
    )
    hysteresis: float = quantity(
        "fraction of a threshold below which it is left again", default=0.7, gt=0, le=1, live=True
    )
    raise_after_s: float = quantity(
        "time above a threshold until it is reported", "s", default=0.01, ge=0, le=10, live=True
    )
    clear_after_s: float = quantity("time below it until that is reported", "s", default=0.1, ge=0, le=60, live=True)
    tare_s: float = quantity("time over which a tare averages", "s", default=0.5, gt=0, le=60, live=True)
    jump_per_m: float = quantity(
        "change of a coefficient within a cycle beyond its noise that no motion makes: a string snapped",
        "1/m",
        default=1.0,
        gt=0,
        le=1e3,
        live=True,
    )
    frozen_s: float = quantity(
        "time without any change of the coefficients, while the tensions should have moved them, until they count as "
        "frozen",
        "s",
        default=0.2,
        gt=0,
        le=60,
        live=True,
    )
    suspect_s: float = quantity(
        "time for which a residual above the threshold is held back while a sensor stands still, until it is invalid",
        "s",
        default=1.0,
        gt=0,
        le=60,
        live=True,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            allowed, value = quantity_of(field), getattr(self, field.name)
            if isinstance(value, str):
                if not allowed.allows(value):
                    raise ParameterError(field.name, value, allowed.expected())
                continue
            values = value if isinstance(value, tuple) else (value,)
            if not values or not all(allowed.admits(one) for one in values):
                raise ParameterError(field.name, value, allowed.expected())
        for motion in ("steady", "accelerating"):
            for what, unit in (("factor", ""), ("force", "_n")):
                low = getattr(self, f"contact_{what}_{motion}{unit}")
                high = getattr(self, f"collision_{what}_{motion}{unit}")
                if low > high:
                    raise ParameterError(
                        f"contact_{what}_{motion}{unit}", low, f"at most collision_{what}_{motion}{unit} = {high:g}"
                    )


@dataclass(frozen=True, slots=True)
class ForceLimits:
    """Thresholds of one kind of motion."""

    contact_factor: float
    collision_factor: float
    contact_force_n: float
    collision_force_n: float

    @classmethod
    def of(cls, settings: MonitorSettings, motion: str) -> ForceLimits:
        """Those of the settings."""
        return cls(
            getattr(settings, f"contact_factor_{motion}"),
            getattr(settings, f"collision_factor_{motion}"),
            getattr(settings, f"contact_force_{motion}_n"),
            getattr(settings, f"collision_force_{motion}_n"),
        )


def default_settings(robot: Robot) -> MonitorSettings:
    """Settings that follow from a robot's description; the others are those of the class.

    - ``coefficient_error_per_m``: what the systematic errors of strings and tendons make of a coefficient, the largest
      of all coefficients; 0.041 1/m for vanderbilt_segment.
    - ``rate_noise_per_m_s``: standard deviation of the rates of the shape's Kalman filter at 100 Hz, the largest;
      used only where a shape comes without its own covariance.
    - forces, as fractions of what the tendons balance at the tip in the weakest direction, F = min over phi of
      sum of r max(cos(psi_j - phi), 0) (maximum - minimum) / length, the least of all segments (194 N for
      vanderbilt_segment, 1.1 N for opencr_five_tendon; see :class:`.channels.ContactChannels`):
      ``force_walk_n_per_sqrt_s`` 0.15 F, so that a contact that grows to a seventh of F within a second is followed;
      collisions 0.25 F at rest, 0.3 F accelerating.

    Of a robot of which only modes are seen (:mod:`..seen_modes`) coefficients are those: their constant error is 1 by
    their definition, and a jump that no motion makes is what 20 rad/s of a segment make of a mode in 10 ms.
    """
    channels = contact_channels(robot)
    values: dict[str, Any] = {**channels.accuracy}
    force_n = channels.balanced_tip_force_n
    if math.isfinite(force_n):
        values |= {
            "force_walk_n_per_sqrt_s": _two_digits(_WALK_FRACTION * force_n),
            "collision_force_steady_n": _two_digits(_COLLISION_FRACTIONS[0] * force_n),
            "collision_force_accelerating_n": _two_digits(_COLLISION_FRACTIONS[1] * force_n),
        }
    return MonitorSettings(**values)


def default_location(robot: Robot) -> LocationSettings:
    """Settings of the location with forces expected up to a quarter of what the tendons balance at the tip."""
    force_n = contact_channels(robot).balanced_tip_force_n
    if not math.isfinite(force_n):
        return LocationSettings()
    return LocationSettings(plausible_force_n=_two_digits(_COLLISION_FRACTIONS[0] * force_n))


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


_PERIOD_S = 0.01
_FASTEST_RAD_PER_S = 20.0


class ContactChannels(Protocol):
    """Channels of the residual of a robot; each value is computed when it is asked for."""

    @property
    def count(self) -> int:
        """Number of channels."""

    @property
    def modes(self) -> SeenModes | None:
        """What they are, None where they are the coefficients."""

    @property
    def accuracy(self) -> dict[str, float]:
        """What the sensors leave unknown of them, settings of the contact monitor by name, 1/m or 1/(m.s)."""

    @property
    def balanced_tip_force_n(self) -> float:
        """Force across the tip that the tendons balance in their weakest direction, the least of all segments, N.

        Of tendons on other paths than parallel ones that which they balance at the tip itself; NaN without limits.
        """


def contact_channels(robot: Robot) -> ContactChannels:
    """The channels of a robot: coefficients, where its sensors' readings are linear in them, else modes."""
    return _CHANNELS[robot.traits.shape_from](robot)


@dataclass(frozen=True)
class _ModeChannels:
    robot: Robot

    @property
    def modes(self) -> SeenModes:
        return seen_modes(self.robot)

    @property
    def count(self) -> int:
        return self.modes.count

    @property
    def accuracy(self) -> dict[str, float]:
        modes = self.modes
        per_rad = modes.jerk_density / ShapeSettings().bending_jerk_rad
        return {
            "coefficient_error_per_m": 1.0,
            "rate_noise_per_m_s": float(np.ceil(modes.motion_filter(_PERIOD_S).steady_rate_sigma(_PERIOD_S).max())),
            "jump_per_m": float(np.ceil(_FASTEST_RAD_PER_S * _PERIOD_S * per_rad.max())),
        }

    @property
    def balanced_tip_force_n(self) -> float:
        return math.nan if self.robot.limits is None else force_balanced_at_tip_n(self.robot)


@dataclass(frozen=True)
class _CoefficientChannels:
    robot: Robot

    @property
    def modes(self) -> None:
        return None

    @property
    def count(self) -> int:
        return self.robot.coefficient_count

    @property
    def accuracy(self) -> dict[str, float]:
        sensors = sensor_accuracy(self.robot)
        return {
            "coefficient_error_per_m": float(np.ceil(1e3 * sensors.coefficient_error_per_m.max()) / 1e3),
            "rate_noise_per_m_s": float(np.ceil(1e3 * sensors.rate_noise_per_m_s.max()) / 1e3),
        }

    @property
    def balanced_tip_force_n(self) -> float:
        limits = self.robot.limits
        if limits is None:
            return math.nan
        directions = np.linspace(0, 2 * np.pi, 360, endpoint=False)
        found = []
        most_n, least_n = (limits.each(key, self.robot.tendon_count) for key in ("maximum_n", "least_n"))
        for segment, rows in zip(self.robot.segments, self.robot.tendon_slices, strict=True):
            tendons = segment.tendons
            along = np.maximum(np.cos(tendons.angles_rad - directions[:, None]), 0)
            moment_nm = tendons.pitch_radius_m * (along @ (most_n - least_n)[rows]).min()
            found.append(moment_nm / segment.length_m)
        return float(min(found))


_CHANNELS: dict[str, Callable[[Robot], ContactChannels]] = {LENGTHS: _CoefficientChannels, STATICS: _ModeChannels}
