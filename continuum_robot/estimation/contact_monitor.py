# SPDX-License-Identifier: Apache-2.0
"""The contact monitor: from the shape and the tensions to contact or collision, its wrench and its place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.compiled_algebra import CompiledAlgebra
from continuum_robot.estimation.contact_location import ContactLocator, LocationEstimate, LocationSettings
from continuum_robot.estimation.disturbance_observer import DisturbanceObserver, StateTerms
from continuum_robot.estimation.error_budget import SHARES, Budget, Budgets, PlainBudgets
from continuum_robot.estimation.joint_force_deviation import BackwardGaussian, JointForceDeviation
from continuum_robot.estimation.momentum_observer import MomentumObserver
from continuum_robot.estimation.shape import sensor_accuracy
from continuum_robot.estimation.thresholds import FreeMotion, NoiseFloor, ResidualSensitivity
from continuum_robot.estimation.wrench import CONTACT_TYPES, WrenchEstimate, WrenchEstimator
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity, quantity_of
from continuum_robot.rod.capstans import drives, torque_from_tension
from continuum_robot.rod.contact_functions import ContactFunctions, ContactTerms, FrictionTerms
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.tendon_friction import TendonFriction

Vector = NDArray[np.float64]

METHODS = ("gmo", "jfd", "best")
CLEAR, CONTACT, COLLISION, BLIND, TARING = "clear", "contact", "collision", "blind", "taring"
SETTLING = "settling"
STATES = (CLEAR, CONTACT, COLLISION, BLIND, TARING, SETTLING)
_QUADRATURE_NODES = 3  # of the backbone's own mass, which is a small part of a robot with disks
_MOTION_FILTER_S = 0.05
_FROZEN_FACTOR = 10.0
_USUAL_STEP_S = 0.01
_WALK_SHARE = 0.15
_COLLISION_SHARES = (0.25, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Settings of the contact monitor; all may be changed while it runs."""

    method: str = quantity(
        "gmo: momentum observer; jfd: joint-force deviation; best: Kalman disturbance observer",
        default="gmo",
        choices=METHODS,
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
        "change of contact forces that best expects within a second", "N/s^0.5", default=30.0, gt=0, le=1e5, live=True
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
    stiffness_error_share: float = quantity(
        "error of the bending stiffness: a calibration finds it to 2 %, temperature and wear add to that",
        default=0.03,
        ge=0,
        le=1,
        live=True,
    )
    friction_error_share: float = quantity(
        "error of the friction of the tendons in the disks: a calibration finds the coefficients to 10 %, and the "
        "pretension, which it is proportional to, drifts by a fifth",
        default=0.3,
        ge=0,
        le=1,
        live=True,
    )
    motor_friction_share: float = quantity(
        "share of the motors' dry friction and cogging that a threshold lies above, where tensions are the motors'",
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
        "force at a known or found place that is a collision, at rest", "N", default=50.0, gt=0, le=1e5, live=True
    )
    collision_force_accelerating_n: float = quantity(
        "force at a known or found place that is a collision, accelerating", "N", default=60.0, gt=0, le=1e5, live=True
    )
    hysteresis: float = quantity(
        "share of a threshold below which it is left again", default=0.7, gt=0, le=1, live=True
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
        "time for which a residual above the threshold is held back while a sensor stands still, until it is blind",
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
                if value not in allowed.choices:
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


def default_settings(robot: Robot) -> MonitorSettings:
    """Settings that follow from a robot's description; the others are those of the class.

    - ``coefficient_error_per_m``: what the systematic errors of strings and tendons make of a coefficient, the largest
      of all coefficients; 0.041 1/m for vanderbilt_segment.
    - ``rate_noise_per_m_s``: standard deviation of the rates of the shape's Kalman filter at 100 Hz, the largest;
      used only where a shape comes without its own covariance.
    - forces, as shares of what the tendons balance at the tip in the weakest direction, F = min over phi of
      sum of r max(cos(psi_j - phi), 0) (maximum - minimum) / length, the least of all segments (194 N for
      vanderbilt_segment, 1.1 N for opencr_five_tendon): ``force_walk_n_per_sqrt_s`` 0.15 F, so that a contact that
      grows to a seventh of F within a second is followed; collisions 0.25 F at rest, 0.3 F accelerating.

    Parameters
    ----------
    robot : without ``limits`` the forces are those of the class
    """
    sensors = sensor_accuracy(robot)
    values: dict[str, float] = {
        "coefficient_error_per_m": float(np.ceil(1e3 * sensors.coefficient_error_per_m.max()) / 1e3),
        "rate_noise_per_m_s": float(np.ceil(1e3 * sensors.rate_noise_per_m_s.max()) / 1e3),
    }
    force_n = balanced_tip_force_n(robot)
    if math.isfinite(force_n):
        values |= {
            "force_walk_n_per_sqrt_s": _two_digits(_WALK_SHARE * force_n),
            "collision_force_steady_n": _two_digits(_COLLISION_SHARES[0] * force_n),
            "collision_force_accelerating_n": _two_digits(_COLLISION_SHARES[1] * force_n),
        }
    return MonitorSettings(**values)


def default_location(robot: Robot) -> LocationSettings:
    """Settings of the location with forces expected up to a quarter of what the tendons balance at the tip."""
    force_n = balanced_tip_force_n(robot)
    if not math.isfinite(force_n):
        return LocationSettings()
    return LocationSettings(plausible_force_n=_two_digits(_COLLISION_SHARES[0] * force_n))


def balanced_tip_force_n(robot: Robot) -> float:
    """Force across the tip that the tendons balance in their weakest direction, the least of all segments, N.

    NaN for a robot without limits.
    """
    if robot.limits is None:
        return math.nan
    span_n = robot.limits.maximum_n - robot.limits.minimum_n
    directions = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    found = []
    for segment in robot.segments:
        tendons = segment.tendons
        angles = tendons.angle_offset_rad + 2 * np.pi * np.arange(tendons.count) / tendons.count
        lever_m = tendons.pitch_radius_m * np.maximum(np.cos(angles - directions[:, None]), 0).sum(axis=1).min()
        found.append(lever_m * span_n / segment.length_m)
    return float(min(found))


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


@dataclass(frozen=True, slots=True)
class ContactEstimate:
    """What the monitor says after an update.

    Attributes
    ----------
    state : "clear", "contact", "collision", "blind", "taring", or "settling": the residual is above its threshold, but
        made by a reading that stands still; contact or broken sensor is open
    reason : why it is blind or settling; empty otherwise
    accelerating : whether the thresholds are those of acceleration
    residual : generalised force of contacts after the tare, (n,), N.m^2; NaN while blind
    residual_covariance : covariance of ``residual`` with the errors of the model, (n, n)
    contact_threshold, collision_threshold : of each channel's absolute value, (n,), N.m^2
    ratio : largest residual over its contact threshold, or with "best" after learning from free motion the size of all
        residuals together over the largest there; NaN while blind
    wrench : at ``wrench_arc_length_m``, in the backbone's frame there
    wrench_arc_length_m : known, found, or else the tip, m
    wrench_place_assumed : whether it is the tip for want of anything better: the wrench is equivalent, not true
    location : of the contact; None while it is blind
    """

    state: str
    reason: str
    accelerating: bool
    residual: Vector
    residual_covariance: Vector
    contact_threshold: Vector
    collision_threshold: Vector
    ratio: float
    wrench: WrenchEstimate
    wrench_arc_length_m: float
    wrench_place_assumed: bool
    location: LocationEstimate | None

    @property
    def in_contact(self) -> bool:
        """Whether a contact or a collision is reported."""
        return self.state in (CONTACT, COLLISION)


@dataclass(slots=True)
class _Level:
    """A threshold with hysteresis and delay in time."""

    raised: bool = False
    since_s: float = 0.0

    def update(self, above: bool, below: bool, dt: float, settings: MonitorSettings) -> bool:
        changing = below if self.raised else above
        self.since_s = self.since_s + dt if changing else 0.0
        if changing and self.since_s >= (settings.clear_after_s if self.raised else settings.raise_after_s) - 1e-9:
            self.raised, self.since_s = not self.raised, 0.0
        return self.raised


@dataclass(frozen=True, slots=True)
class _Motors:
    """Motors between the measured tensions and the rod: n coefficients, N tendons.

    Attributes
    ----------
    mass : of the rotors in the coefficients, (n, n); zero where capstans carry the inertia already
    damping : their viscous friction, (n, n)
    covariance : of what dry friction and cogging make, each motor on its own, (n, n)
    largest : of each channel, were all motors against it, (n,), N.m^2
    """

    mass: Vector
    damping: Vector
    covariance: Vector
    largest: Vector

    @classmethod
    def of(cls, robot: Robot, tendon_matrix: Vector) -> _Motors | None:
        """Of a robot's file; None without actuators."""
        actuators = robot.actuators
        if actuators is None:
            return None
        turns_per_m = actuators.gear_ratio / actuators.spool_radius_m
        both = tendon_matrix.T @ tendon_matrix
        mass = np.zeros_like(both) if drives(robot) else actuators.reflected_mass_kg * both
        dry_n, cogging_n = actuators.coulomb_friction_nm * turns_per_m, actuators.cogging_amplitude_nm * turns_per_m
        return cls(
            mass,
            actuators.viscous_friction_nms * turns_per_m**2 * both,
            (dry_n**2 + cogging_n**2 / 2) * both,
            (dry_n + cogging_n) * np.abs(tendon_matrix).sum(axis=0),
        )

    def moving_with(self, terms: ContactTerms, rate: Vector) -> ContactTerms:
        """The rod's terms with the motors'."""
        return dataclasses.replace(
            terms,
            momentum=terms.momentum + self.mass @ rate,
            mass=terms.mass + self.mass,
            known_force=terms.known_force - self.damping @ rate,
            force_by_rate=terms.force_by_rate - self.damping,
        )

    def widened(self, errors: Budget, share: float) -> Budget:
        """An error budget with a share of dry friction and cogging."""
        if share == 0 or not self.largest.any():
            return errors
        covariance = errors.covariance + share**2 * self.covariance
        information: Vector = np.asarray(np.linalg.inv(covariance), dtype=float)
        return Budget(errors.bound + share * self.largest, covariance, information)


@dataclass(frozen=True, slots=True)
class _Cycle:
    """What one update was given; ``load`` is that of the tendons and of everything else that is known."""

    c: Vector
    rate: Vector
    noise: Vector
    rate_noise: Vector
    tendons: Vector
    load: Vector
    torque: Vector
    c_acceleration: ArrayLike | None
    dt: float


@dataclass(frozen=True, slots=True)
class _Observation:
    """Residual before the tare, its errors, the bound of each channel with what was learnt, the model."""

    residual: Vector
    errors: Budget
    bound: Vector
    terms: ContactTerms


class ContactMonitor:
    """Detects contacts of a robot, estimates their wrench and arc length. Not for use by two threads at once.

    Parameters
    ----------
    robot : of any basis; with a constant basis there is detection but no place within a segment
    settings : see :class:`MonitorSettings`
    location : how the place is found
    functions : the terms of a rod model; None: those of the robot's, quick rather than exact to the last digit
    friction : of the tendons; None: that of the robot's capstans, if it has some
    plain : leave the algebra to NumPy even where the model is machine code: several times slower, and the same numbers
    motors : tensions are what the motors' currents say, as a driver reads them: the rotors' inertia and viscous
        friction belong to the model, dry friction and cogging, whose sign and phase nobody knows at rest, to the
        threshold. Without, tensions are those of the tendons
    compile, progress : as in :func:`~continuum_robot.rod.code_generation.compile_functions`

    Raises
    ------
    ParameterError : a gain that is not positive or not of the robot's size, a place off the robot, a contact type that
        leaves nothing to estimate
    """

    def __init__(
        self,
        robot: Robot,
        settings: MonitorSettings | None = None,
        location: LocationSettings | None = None,
        *,
        functions: ContactFunctions | None = None,
        friction: TendonFriction | None = None,
        motors: bool = False,
        plain: bool = False,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.robot = robot
        if functions is None:
            model = RodModel(robot, quadrature_nodes=_QUADRATURE_NODES)
            functions = ContactFunctions(model, compile=compile, progress=progress)
        self.functions, model = functions, functions.model
        self.size = model.size
        self._tendon_matrix = model.tendon_matrix
        self._stiffness = np.asarray(model.stiffness)
        self._softness = np.linalg.inv(self._stiffness)
        self._plane = np.arange(self.size) % 2
        self._torque_from_tension = torque_from_tension(robot)
        friction = friction or TendonFriction(robot, compile=compile, progress=progress)
        self._capstan_jacobian = friction.jacobian
        self._capstan_inverse = np.linalg.pinv(friction.jacobian)
        self._friction = (
            FrictionTerms(friction, compile=compile, progress=progress) if np.any(friction.coefficients > 0) else None
        )
        self._motors = _Motors.of(robot, self._tendon_matrix) if motors else None
        self._location_settings = location or default_location(robot)
        self._algebra: CompiledAlgebra | None = None
        if functions.compiled and not plain:
            places = ContactLocator(functions, np.eye(6)[:, :2], self._location_settings)
            algebra = CompiledAlgebra(
                self._stiffness,
                places.places_m,
                places.cells_m,
                places.segment,
                robot.name,
                compile=compile,
                progress=progress,
            )
            self._algebra = algebra if algebra.compiled else None
        self._budgets: Budgets = PlainBudgets(self._stiffness) if self._algebra is None else self._algebra
        self._tare: Vector = np.zeros(self.size)
        self._blind = ""
        self._contact, self._collision = _Level(), _Level()
        self._floor: NoiseFloor | None = None
        self._free_motion: FreeMotion | None = None
        self._learning = False
        self._tare_left_s = 0.0
        self._settings = settings or default_settings(robot)
        self._take_shares()
        self._apply(self._settings)
        self.reset()

    # --- settings and states

    @property
    def settings(self) -> MonitorSettings:
        """In use; change them by :meth:`with_settings`."""
        return self._settings

    def _take_shares(self) -> None:
        """What of the settings every cycle needs as arrays."""
        self._shares: Vector = np.array([getattr(self._settings, name) for name in SHARES])
        self._rate_noise: Vector = np.eye(self.size) * self._settings.rate_noise_per_m_s**2

    def with_settings(self, settings: MonitorSettings) -> None:
        """Take other settings before the next update; all or nothing. The tare is kept unless the method changes.

        Raises
        ------
        ParameterError : settings that do not suit the robot; the old ones stay
        """
        if settings == self.settings:
            return
        old = self.settings
        method_changed = settings.method != old.method
        if not method_changed and dataclasses.replace(settings, gain_per_s=old.gain_per_s) == old:
            self._observer.with_gain(self._gain(settings))
            self._sensitivity.gain = self._observer.gain[:, None]
            self._settings = settings
            return
        rebuilt = any(
            getattr(settings, name) != getattr(old, name)
            for name in (
                "method",
                "gain_per_s",
                "reset_cycles",
                "smoothing_points",
                "force_walk_n_per_sqrt_s",
                "contact_type",
                "known_arc_length_m",
            )
        )
        if rebuilt:
            self._apply(settings)
            blind, level_contact, level_collision = self._blind, self._contact, self._collision
            self._reset_observers()
            self._blind, self._contact, self._collision = blind, level_contact, level_collision
        self._settings = settings
        self._take_shares()
        if method_changed:
            self._tare = np.zeros(self.size)
            self._floor, self._free_motion, self._learning = None, None, False

    def _gain(self, settings: MonitorSettings) -> Vector:
        gain = settings.gain_per_s
        return np.full(self.size, gain[0]) if len(gain) == 1 else np.array(gain)

    def _apply(self, settings: MonitorSettings) -> None:
        if settings.known_arc_length_m > self.robot.length_m:
            raise ParameterError(
                "known_arc_length_m",
                settings.known_arc_length_m,
                f"at most the robot's length {self.robot.length_m:g} m",
            )
        observer = MomentumObserver(self._gain(settings), settings.reset_cycles, self.size)
        wrench = WrenchEstimator(settings.contact_type)
        disturbance = DisturbanceObserver(self.size, wrench.directions, settings.force_walk_n_per_sqrt_s, self._algebra)
        locator = ContactLocator(self.functions, wrench.directions, self._location_settings, self._algebra)
        deviation = JointForceDeviation(settings.smoothing_points)
        smoother = BackwardGaussian(settings.smoothing_points)
        sensitivity = ResidualSensitivity(observer.gain)
        self._observer, self._wrench, self._disturbance = observer, wrench, disturbance
        self.locator, self._deviation, self._smoother, self._sensitivity = locator, deviation, smoother, sensitivity

    def reset(self) -> None:
        """Begin anew after a blindness or a pause: the observers start at zero; the tare stays."""
        self._blind = ""
        self._contact, self._collision = _Level(), _Level()
        self._tare_left_s = self._held_s = 0.0
        self._reset_observers()

    def bridge(self, gap_s: float) -> None:
        """Go on after a time without shapes, s, of which nothing is known; the next update has dt = 0.

        Momentum observer and joint-force deviation start anew; "best" keeps its force, less certain by that time.
        Blindness, tare and reported states stay.

        Parameters
        ----------
        gap_s : length of that time, s
        """
        disturbance = self._disturbance
        for part in (self._observer, self.locator, self._deviation, self._smoother, self._sensitivity):
            part.reset()
        disturbance.bridge(gap_s)
        self._forget_motion()

    def _reset_observers(self) -> None:
        for part in (
            self._observer,
            self._disturbance,
            self.locator,
            self._deviation,
            self._smoother,
            self._sensitivity,
        ):
            part.reset()
        self._forget_motion()

    def _forget_motion(self) -> None:
        self._last_c: Vector | None = None
        self._last_rate: Vector | None = None
        self._last_momentum: Vector | None = None
        self._last_raw: Vector | None = None
        self._lag: Vector = np.zeros(self.size)
        self._motion: Vector = np.zeros(self.size)
        self._frozen_s = 0.0
        self._frozen_load: Vector = np.zeros(self.size)

    def tare(self) -> None:
        """Take the mean residual of the coming ``tare_s`` as that of free motion; nothing may touch the robot."""
        self._tare_left_s = self.settings.tare_s
        self._tare_sum: Vector = np.zeros(self.size)
        self._tare_count = 0

    def clear_tare(self) -> None:
        """Forget the tare."""
        self._tare = np.zeros(self.size)

    @property
    def tare_residual(self) -> Vector:
        """What a tare took, (n,), N.m^2."""
        return self._tare.copy()

    def learn_floor(self, learning: bool, margin: float = 1.2) -> None:
        """Begin (True) to learn from free motion, or end it (False) and use what was learnt.

        The thresholds are raised above every residual that is seen. With "best", contacts are then told from motion by
        all channels together, and what the residual did in motion weighs the wrench and the place, instead of the
        errors that the settings assume. What of it are constant shares of the model's forces, of its stiffness in each
        plane, its masses and its friction, is taken off. Both are kept until the method changes.

        Parameters
        ----------
        learning : begin or end
        margin : factor on the largest that is seen, from the first beginning on
        """
        if learning and self._floor is None:
            directions = self._capstan_jacobian if self._friction is not None else None
            self._floor = NoiseFloor(self.size, margin, directions)
        self._learning = learning
        self._free_motion = None
        if self._floor is not None and not learning and self._settings.method == "best":
            settings = self._settings
            sigma = [settings.stiffness_error_share] * 3
            if self._friction is not None:
                sigma += [settings.friction_error_share] * len(self._capstan_jacobian)
            self._free_motion = self._floor.free_motion(sigma)

    # --- one cycle

    def update(
        self,
        c: ArrayLike,
        c_rate: ArrayLike,
        c_covariance: ArrayLike,
        dt: float,
        *,
        tension: ArrayLike | None = None,
        capstan_torque: ArrayLike | None = None,
        c_acceleration: ArrayLike | None = None,
        c_rate_covariance: ArrayLike | None = None,
        other_force: ArrayLike | None = None,
        fault: str = "",
        suspects: Sequence[str] = (),
    ) -> ContactEstimate:
        """One cycle.

        Parameters
        ----------
        c : coefficients, (n,), 1/m
        c_rate : their rates, (n,), 1/(m.s); "best" does not use them
        c_covariance : covariance of the noise of c, (n, n)
        dt : time since the previous update, s
        tension : of every tendon, (N,), N
        capstan_torque : instead of ``tension``, of every capstan, (k,), N.m
        c_acceleration : (n,), for "jfd"; None: difference of the rates
        c_rate_covariance : of the noise of the rates from sample to sample, (n, n); None: that of the settings
        other_force : known generalised force of anything else, e.g. of a distal segment, johnston (74), (n,), N.m^2
        fault : what the shape estimator reports as broken; not empty: blind
        suspects : sensors whose readings may be frozen: no contact is raised while there are some, and after
            ``suspect_s`` with a residual above the threshold it is blind

        Returns
        -------
        the estimate; once an input was unusable its state is "blind" until :meth:`reset`

        Raises
        ------
        ParameterError : neither or both of tension and torque, wrong shapes, a negative step
        """
        if (tension is None) == (capstan_torque is None):
            raise ParameterError("tension, capstan_torque", (tension, capstan_torque), "one of the two")
        if dt < 0:
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        shape = np.asarray(c, dtype=float)
        rate = np.zeros(self.size) if self.settings.method == "best" else np.asarray(c_rate, dtype=float)
        noise = np.asarray(c_covariance, dtype=float)
        extra = np.zeros(self.size) if other_force is None else np.asarray(other_force, dtype=float)
        if shape.shape != (self.size,) or rate.shape != (self.size,) or noise.shape != (self.size, self.size):
            raise ParameterError(
                "c, c_rate, c_covariance",
                (shape.shape, rate.shape, noise.shape),
                f"shapes ({self.size},), ({self.size},), ({self.size}, {self.size})",
            )
        if tension is not None:
            forces = np.asarray(tension, dtype=float)
            load = self._tendon_matrix.T @ forces
            torque = self._torque_from_tension @ forces
        else:
            torque = np.asarray(capstan_torque, dtype=float)
            load = self._capstan_jacobian.T @ torque
        rate_noise = self._rate_noise
        if c_rate_covariance is not None:
            rate_noise = np.asarray(c_rate_covariance, dtype=float)
            if rate_noise.shape != noise.shape:
                raise ParameterError("c_rate_covariance", rate_noise.shape, f"shape {noise.shape}")
        cycle = _Cycle(shape, rate, noise, rate_noise, load, load + extra, torque, c_acceleration, dt)
        self._check(cycle, fault)
        if self._blind:
            return self._blind_estimate()
        seen = self._observe(cycle)
        if self._blind:
            return self._blind_estimate()
        return self._judge(seen, dt, suspects)

    def _check(self, cycle: _Cycle, fault: str) -> None:
        """Latch what makes the monitor blind."""
        if self._blind:
            return
        c, noise, tendons, dt = cycle.c, cycle.noise, cycle.tendons, cycle.dt
        unknown: list[str] = []
        given = (c, cycle.rate, noise, cycle.rate_noise, cycle.load)
        if not math.isfinite(sum(np.vdot(values, values) for values in given) + dt):
            named = (
                ("coefficients", c),
                ("coefficient rates", cycle.rate),
                ("covariance of the coefficients", noise),
                ("covariance of the rates", cycle.rate_noise),
                ("tensions or other forces", cycle.load),
                ("time step", np.array(dt)),
            )
            unknown = [name for name, values in named if not np.all(np.isfinite(values))]
        if fault:
            self._blind = fault
        elif unknown:
            self._blind = f"{', '.join(unknown)}: not a number"
        elif self._last_c is not None:
            change = np.abs(c - self._last_c)
            largest = float(change.max())
            # A cycle that took longer shows more motion.
            allowed = self.settings.jump_per_m * max(1.0, dt / _USUAL_STEP_S)
            if largest > allowed and largest > allowed + 10 * math.sqrt(noise.max()):
                self._blind = f"coefficient {int(np.argmax(change))} jumped by {largest:.3g} 1/m within a cycle"
            elif largest > 0:
                self._frozen_s, self._frozen_load = 0.0, tendons
            else:
                self._frozen_s += dt
                expected = np.abs(self._softness @ (tendons - self._frozen_load)).max()
                least = _FROZEN_FACTOR * max(self.settings.coefficient_error_per_m, math.sqrt(float(noise.max())), 1e-3)
                if self._frozen_s > self.settings.frozen_s and expected > least:
                    self._blind = f"coefficients frozen for {self._frozen_s:.2g} s while the tensions changed"
        else:
            self._frozen_load = tendons
        self._last_c = c

    def _evaluate(self, c: Vector, rate: Vector, load: Vector, torque: Vector) -> StateTerms:
        terms = self.functions(c, rate)
        if self._motors is not None:
            terms = self._motors.moving_with(terms, rate)
        if self._friction is None:
            self._friction_force = None
            return StateTerms(terms, load)
        friction, by_c, by_rate = self._friction(c, rate, torque)
        self._friction_force = friction
        return StateTerms(terms, load - friction, -by_c, -by_rate)

    def _observe(self, cycle: _Cycle) -> _Observation:
        """The residual with what is known of its errors."""
        c, rate, noise, load, torque, dt = cycle.c, cycle.rate, cycle.noise, cycle.load, cycle.torque, cycle.dt
        settings, n = self.settings, self.size
        if settings.method == "best":
            raw = self._disturbance.update(c, noise, lambda x, v: self._evaluate(x, v, load, torque), dt)
            self._blind = self._disturbance.blind_reason
            state = self._disturbance.model
            c = self._disturbance.coefficients
        else:
            state = self._evaluate(c, rate, load, torque)
        terms, friction = state.terms, self._friction_force
        by_c, by_rate = terms.force_by_c, terms.force_by_rate
        if state.force_by_c is not None and state.force_by_rate is not None:
            by_c, by_rate = by_c + state.force_by_c, by_rate + state.force_by_rate
        shares, noises = self._shares, (noise, cycle.rate_noise)
        if settings.method == "best":
            errors = self._budgets.best_budget(
                shares,
                c,
                spread=self._disturbance.covariance,
                by_c=by_c,
                rod_by_rate=terms.force_by_rate,
                friction=friction,
            )
        elif settings.method == "gmo":
            raw = self._observer.update(terms.momentum, terms.known_force + state.force, dt)
            self._blind = self._observer.blind_reason
            raw = self._smoother.update(raw) if settings.smoothing_points > 1 and not self._blind else raw
            if self._last_raw is not None and dt > 0:
                share = dt / (_MOTION_FILTER_S + dt)
                change = (raw - self._last_raw) / dt / self._observer.gain  # johnston (54): what r is late by
                self._lag = self._lag + share * (change - self._lag)
            self._last_raw = raw
            by_state = (
                np.concatenate([terms.momentum_by_c, terms.mass], axis=1),
                np.concatenate([by_c, by_rate], axis=1),
            )
            errors = self._budgets.gmo_budget(
                shares,
                c,
                lag=self._lag,
                sensitivity=self._sensitivity,
                dt=dt if dt > 0 else _USUAL_STEP_S,  # noise from sample to sample has no size without a time
                by_state=by_state,
                noise=noises,
                friction=friction,
            )
        else:
            acceleration_noise = settings.acceleration_noise_per_m_s2
            if cycle.c_acceleration is not None:
                acceleration = np.asarray(cycle.c_acceleration, dtype=float)
            elif self._last_rate is None or dt == 0:
                acceleration = np.zeros(n)
            else:
                acceleration = (rate - self._last_rate) / dt
                differenced = math.sqrt(2 * float(cycle.rate_noise.diagonal().max())) / dt
                acceleration_noise = math.hypot(acceleration_noise, differenced)
            self._last_rate = rate
            raw = self._deviation.update(terms, rate, acceleration, state.force)
            self._blind = self._deviation.blind_reason
            errors = self._budgets.jfd_budget(
                shares,
                c,
                by_c=by_c,
                by_rate=by_rate,
                mass=terms.mass,
                noise=noises,
                acceleration_noise=acceleration_noise,
                friction=friction,
            )
        if self._motors is not None:
            errors = self._motors.widened(errors, settings.motor_friction_share)
        bound = errors.bound
        if self._floor is not None and self._free_motion is None:
            if self._learning:
                best = settings.method == "best"
                self._floor.learn(raw - self._tare, self._uncertain_forces(c, state) if best else None)
            bound = np.maximum(bound, self._floor.bound)
        if self._free_motion is not None:
            raw = raw - self._free_motion.shares @ self._uncertain_forces(c, state)
            bound = np.maximum(bound, self._free_motion.bound)
            covariance = self._free_motion.covariance + self._disturbance.covariance
            errors = Budget(errors.bound, covariance, np.asarray(np.linalg.inv(covariance)))
        return _Observation(raw, errors, bound, terms)

    def _uncertain_forces(self, c: Vector, state: StateTerms) -> Vector:
        """Forces that errors of parameters scale, (m, n): elastic by plane, of the masses, friction by capstan."""
        elastic = self._stiffness @ c
        rows = [np.where(self._plane == plane, elastic, 0.0) for plane in range(2)]
        rows.append(state.terms.known_force + elastic)  # gravity, and little of inertia and damping
        if self._friction_force is not None:
            lost = self._friction_force @ self._capstan_inverse
            rows += list(lost[:, None] * self._capstan_jacobian)
        return np.array(rows)

    def _judge(self, seen: _Observation, dt: float, suspects: Sequence[str]) -> ContactEstimate:
        """State, place and wrench."""
        raw, bound, momentum = seen.residual, seen.bound, seen.terms.momentum
        covariance, information = seen.errors.covariance, seen.errors.information
        settings = self.settings
        if self._last_momentum is not None and dt > 0:
            share = dt / (_MOTION_FILTER_S + dt)
            self._motion = self._motion + share * ((momentum - self._last_momentum) / dt - self._motion)
        self._last_momentum = momentum
        accelerating = bool((np.abs(self._motion) > bound).any())
        motion = "accelerating" if accelerating else "steady"
        residual = raw - self._tare
        location = self.locator.update(seen.terms.jacobians, residual, covariance, dt, information=information)
        known = settings.known_arc_length_m >= 0
        assumed = not known and not location.observable
        place_m = settings.known_arc_length_m if known else self.robot.length_m if assumed else location.arc_length_m
        wrench = self._wrench.estimate(
            residual, self.locator.jacobian_at(seen.terms.jacobians, place_m), covariance, information=information
        )
        force_n = math.sqrt(float(wrench.wrench[:3] @ wrench.wrench[:3]))
        contact_factor = getattr(settings, f"contact_factor_{motion}")
        collision_factor = getattr(settings, f"collision_factor_{motion}")
        contact_threshold, collision_threshold = bound * contact_factor, bound * collision_factor
        if self._free_motion is None:
            ratio = float((np.abs(residual) / contact_threshold).max())
        else:
            evidence = float(residual @ self._free_motion.information @ residual)
            ratio = math.sqrt(evidence / self._free_motion.evidence) / contact_factor
        collision_ratio = ratio * contact_factor / collision_factor
        if self._tare_left_s > 0:
            running = dataclasses.replace(
                self._nothing(TARING, ""),
                accelerating=accelerating,
                residual=residual,
                residual_covariance=covariance,
                contact_threshold=contact_threshold,
                collision_threshold=collision_threshold,
            )
            self._take_tare(raw, dt)
            return running
        least_n = getattr(settings, f"contact_force_{motion}_n")
        most_n = getattr(settings, f"collision_force_{motion}_n")
        hit = force_n > most_n and not assumed and ratio > 1
        soft = settings.hysteresis
        held = bool(suspects) and ratio > 1 and not self._contact.raised and not self._collision.raised
        self._held_s = self._held_s + dt if held else 0.0
        named = ", ".join(suspects)
        if self._held_s > settings.suspect_s:
            self._blind = (
                f"{named} frozen, or a contact that leaves it unmoved: {self._held_s:.2g} s above the threshold"
            )
            return self._blind_estimate()
        touched = self._contact.update(
            ratio > 1 and force_n >= least_n and not held, ratio < soft or force_n < soft * least_n, dt, settings
        )
        collided = self._collision.update(
            (collision_ratio > 1 or hit) and not held,
            collision_ratio < soft and not (force_n > soft * most_n and not assumed),
            dt,
            settings,
        )
        state = COLLISION if collided else CONTACT if touched else SETTLING if held else CLEAR
        return ContactEstimate(
            state,
            f"{named} stands still while others move: frozen, or a contact" if held else "",
            accelerating,
            residual,
            covariance,
            contact_threshold,
            collision_threshold,
            ratio,
            wrench,
            place_m,
            assumed,
            location,
        )

    def _take_tare(self, raw: Vector, dt: float) -> None:
        """One cycle of a running tare."""
        self._tare_sum = self._tare_sum + raw
        self._tare_count += 1
        self._tare_left_s -= dt
        if self._tare_left_s <= 1e-9:
            self._tare, self._tare_left_s = self._tare_sum / self._tare_count, 0.0
            self._contact, self._collision = _Level(), _Level()
            self.locator.reset()

    def _blind_estimate(self) -> ContactEstimate:
        self._tare_left_s = 0.0
        return self._nothing(BLIND, self._blind)

    def _nothing(self, state: str, reason: str) -> ContactEstimate:
        n = self.size
        unknown, matrix = np.full(n, np.nan), np.full((n, n), np.nan)
        wrench = self._wrench.estimate(unknown, np.zeros((6, n)))
        return ContactEstimate(
            state, reason, False, unknown, matrix, unknown, unknown, math.nan, wrench, math.nan, True, None
        )
