# SPDX-License-Identifier: Apache-2.0
"""The contact monitor: from the shape and the tensions to contact or collision, its wrench and its location."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.driven_rod import DrivenRod
from continuum_robot.estimation.contact.error_budget import FRACTIONS, Budget, BudgetAlgebra
from continuum_robot.estimation.contact.free_motion import Floor, FreeMotionLearning, ResidualTare
from continuum_robot.estimation.contact.location import ContactLocator, LocationSettings, PairEstimate, PairLocator
from continuum_robot.estimation.contact.observers import MomentumObserver
from continuum_robot.estimation.contact.own_observer import ContactObserver, CycleInput
from continuum_robot.estimation.contact.residual_methods import (
    MOTION_FILTER_S,
    MomentumResidual,
    ShapeCheck,
    residual_method,
)
from continuum_robot.estimation.contact.settings import (
    KALMAN,
    METHODS,
    ForceLimits,
    MonitorSettings,
    contact_channels,
    default_location,
    default_settings,
)
from continuum_robot.estimation.contact.states import INVALID, SETTLING, TARING, ContactEstimate, ContactStates
from continuum_robot.estimation.contact.wrench import WrenchEstimator
from continuum_robot.estimation.seen_modes import SeenModes
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS, made
from continuum_robot.rod.contact.functions import ContactFunctions, ContactTerms
from continuum_robot.rod.description import DRIVEN, WITH_CAPSTANS
from continuum_robot.rod.friction.capstan_friction import CapstanFriction

Vector = NDArray[np.float64]

_DIRECTIONS = 18  # of half a turn

# Settings that make new observers when they change.
OF_THE_OBSERVERS = (
    "method",
    "gain_per_s",
    "reset_cycles",
    "smoothing_points",
    "force_walk_n_per_sqrt_s",
    "contact_type",
    "known_arc_length_m",
)
PAIR_PERIOD_S = 0.05
"""How often two contacts are looked for, s."""

LOAD_ERROR = 0.05
"""Error of the model that a load makes, relative to the load, where two contacts are looked for."""


class ContactMonitor:
    """Detects contacts of a robot, estimates their wrench and arc length. Not for use by two threads at once.

    Residual and thresholds are those of the strain coefficients (n of them); where the rod does more than bend or its
    tendons take other paths, those of the modes that its sensors see, see :mod:`..seen_modes`.

    Parameters
    ----------
    robot : of any basis; with a constant basis there is detection but no location within a segment
    settings : see :class:`MonitorSettings`
    location : how the location is found
    functions : the terms of a rod, with the rotors' inertia where ``motors``; None: those of the robot's
    friction : of the tendons; None: that of the robot's capstans, if it has some
    motors : tensions are what the motors' currents say, as a driver reads them: the rotors' inertia and viscous
        friction belong to the model, dry friction and cogging, whose sign and phase nobody knows at rest, to the
        threshold. Without, tensions are those of the tendons
    observer_settings : gives another package's observer its settings, from its name and the defaults; None: these

    Attributes
    ----------
    size : number of channels of the residual
    coefficient_count : of the shapes that it takes
    tendon_count, length_m : of the robot
    modes : what the channels are, where they are not the coefficients

    Raises
    ------
    ParameterError : a gain that is not positive or not of the robot's size, a location off the robot, a contact type
        that leaves nothing to estimate
    """

    def __init__(
        self,
        robot: Robot,
        settings: MonitorSettings | None = None,
        location: LocationSettings | None = None,
        *,
        functions: ContactFunctions | None = None,
        friction: CapstanFriction | None = None,
        motors: bool = False,
        observer_settings: Callable[[str, Any], Any] | None = None,
    ) -> None:
        self.robot = robot
        self._observer_settings = observer_settings
        self.modes: SeenModes | None = None
        self._make(functions, friction, location, motors=motors)
        self._take(settings or default_settings(robot), rebuild=True)
        self.reset()

    def _make(
        self,
        functions: ContactFunctions | None,
        friction: CapstanFriction | None,
        location: LocationSettings | None,
        *,
        motors: bool,
    ) -> None:
        robot = self.robot
        rubs = robot.displaced_tendons is not None and any(robot.displaced_tendons.friction_fraction)
        if robot.displaced_tendons is not None and rubs and not robot.takes_displacements:
            expected = "0 of each tendon: the contact monitor would take friction of tendons in the robot for contact"
            raise ParameterError(
                "displaced_tendons.friction_fraction", robot.displaced_tendons.friction_fraction, expected
            )
        if functions is None:
            self.modes = contact_channels(robot).modes
            shapes = None if self.modes is None else self.modes.shapes
            functions = ContactFunctions(robot, shapes, parts=DRIVEN if motors else WITH_CAPSTANS)
        self.functions, self.size, self.coefficient_count = functions, functions.size, robot.coefficient_count
        self.tendon_count, self.length_m = robot.tendon_count, robot.length_m
        self._rod = DrivenRod(robot, functions, friction, modes=self.modes, motors=motors)
        self._location_settings = location or default_location(robot)
        self._budgets = BudgetAlgebra(self._rod.stiffness, self._rod.strain_count)
        self._check, self._states = ShapeCheck(self._rod.stiffness), ContactStates()
        self._jacobians: Vector | None = None
        self._tare, self._learning = ResidualTare(self.size), FreeMotionLearning(self._rod)

    # --- settings and states

    @property
    def settings(self) -> MonitorSettings:
        """In use; change them by :meth:`with_settings`."""
        return self._settings

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
            gain = MomentumObserver(np.array(settings.gain_per_s), size=self.size).gain
            if isinstance(self._method, MomentumResidual):
                self._method.with_gain(gain)
            self._settings = settings
            return
        rebuild = any(getattr(settings, name) != getattr(old, name) for name in OF_THE_OBSERVERS)
        self._take(settings, rebuild=rebuild)
        if rebuild:
            self._forget_motion()
        if method_changed:
            self._tare.clear()
            self._learning.forget()

    def set_payload(self, payload_kg: float) -> None:
        """Expect another payload, kg, from the next update on: new observers; tare and what was learnt are forgotten.

        The modes of a rod of which only modes are seen stay those with the payload that it was made with.

        Raises
        ------
        ParameterError : not a mass, or an observer of another package that refuses it; all stays as it was
        """
        before, self.robot = self.robot, self.robot.carrying(payload_kg)
        try:
            self.functions.rod.payload_kg = payload_kg
            self._take(self._settings, rebuild=True)
        except ParameterError:
            self.robot, self.functions.rod.payload_kg = before, before.payload_kg
            raise
        self._forget_motion()
        self._tare.clear()
        self._learning.forget()

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity, as a stage turns the robot: the observers, the tare and what was learnt stay.

        Parameters
        ----------
        gravity_m_per_s2 : in the base frame, (3,), m/s^2
        """
        self.functions.rod.gravity_m_per_s2 = gravity_m_per_s2

    def _take(self, settings: MonitorSettings, *, rebuild: bool) -> None:
        """Use settings, all or nothing; new observers where they need them."""
        if rebuild:
            if settings.known_arc_length_m > self.robot.length_m:
                raise ParameterError(
                    "known_arc_length_m",
                    settings.known_arc_length_m,
                    f"at most the robot's length {self.robot.length_m:g} m",
                )
            wrench = WrenchEstimator(settings.contact_type)
            method = residual_method(settings, self._rod, wrench.directions, self._budgets, self._own)
            self.locator = ContactLocator(self.functions, wrench.directions, self._location_settings)
            self._pairs = PairLocator(self.locator, wrench.directions)
            self._newest_pair: PairEstimate | None = None
            self._pair_age_s = 0.0
            self._method, self._wrench = method, wrench
        self._settings = settings
        self._fractions: Vector = np.array([getattr(settings, name) for name in FRACTIONS])
        self._rate_noise: Vector = np.eye(self.size) * settings.rate_noise_per_m_s**2
        self._limits = ForceLimits.of(settings, "steady"), ForceLimits.of(settings, "accelerating")

    def _own(self, name: str) -> ContactObserver:
        """The observer that another package offers under a name."""
        given = (self.robot, self.size)
        own: ContactObserver = made(
            CONTACT_OBSERVERS, name, "method", *given, known=METHODS, settings=self._observer_settings
        )
        return own

    def reset(self) -> None:
        """Restart after an invalid state or a pause: the observers start at zero; the tare stays."""
        self._invalid = ""
        self._states.reset()
        self._tare.left_s = 0.0
        self._method.reset()
        self.locator.reset()
        self._rod.forget_motion()
        self._forget_motion()

    def bridge(self, gap_s: float) -> None:
        """Go on after a time without shapes, s, of which nothing is known; the next update has dt = 0.

        Momentum observer and joint-force deviation restart; the Kalman disturbance observer keeps its force, less
        certain by that time. The invalid state, tare and reported states stay.

        Parameters
        ----------
        gap_s : length of that time, s
        """
        self._method.bridge(gap_s)
        self.locator.reset()
        self._forget_motion()

    def _forget_motion(self) -> None:
        self._check.reset()
        self._last_momentum: Vector | None = None
        self._motion: Vector = np.zeros(self.size)

    def tare(self) -> None:
        """Take the mean residual of the coming ``tare_s`` as that of free motion; nothing may touch the robot."""
        self._tare.begin(self.settings.tare_s)

    def clear_tare(self) -> None:
        """Forget the tare."""
        self._tare.clear()

    @property
    def tare_residual(self) -> Vector:
        """What a tare took, (n,), N.m^2."""
        return self._tare.residual.copy()

    def learn_floor(self, learning: bool, margin: float = 1.2) -> None:
        """Begin (True) to learn from free motion, or end it (False) and use what was learnt.

        The thresholds are raised above every residual that was seen, once learning has ended. With the method
        ``kalman_disturbance_observer``, all channels together then distinguish contacts from motion, and what the
        residual did in motion weighs the wrench and the location, instead of the errors that the settings assume.
        Constant fractions of the model's forces, of its stiffness in each plane, its masses and its friction, are
        subtracted. Both are kept until the method changes.

        Parameters
        ----------
        learning : begin or end
        margin : factor on the largest that is seen, from the first beginning on
        """
        if learning:
            self._learning.begin(margin)
        else:
            self._learning.end(self._settings)

    @property
    def floor(self) -> Floor | None:
        """What was learnt and is in use, None for nothing."""
        return self._learning.floor

    def use_floor(self, floor: Floor | None) -> None:
        """Use what this method learnt of this robot at another time; None: forget what was learnt.

        Raises
        ------
        ParameterError : a floor of another size
        """
        self._learning.use(floor)

    def least_tip_force_n(self, estimate: ContactEstimate) -> float:
        """Force across the backbone at the tip that is detected in every direction; NaN before the first update.

        Parameters
        ----------
        estimate : of the newest update: in its shape, over its thresholds
        """
        if self._jacobians is None or not np.isfinite(estimate.contact_threshold).all():
            return math.nan
        across = self.locator.jacobian_at(self._jacobians, self.robot.length_m)[:2]
        angles = np.linspace(0, np.pi, _DIRECTIONS, endpoint=False)
        forces = np.column_stack([np.cos(angles), np.sin(angles)]) @ across
        factor = self._limits[estimate.accelerating].contact_factor
        # A ratio is proportional to the force.
        least = min(self._learning.ratio(force, estimate.contact_threshold, factor) for force in forces)
        return 1 / least if least > 0 else math.inf

    def pair(self, estimate: ContactEstimate, several: bool, dt: float) -> PairEstimate | None:
        """Where two contacts would be in place of one; computed again every PAIR_PERIOD_S.

        Parameters
        ----------
        estimate : of the newest update
        several : whether one contact does not explain the residual; else there is no pair, and it is forgotten
        dt : time since the last call, s
        """
        if not several or self._jacobians is None or not math.isfinite(float(estimate.residual.sum())):
            self._pairs.reset()
            self._newest_pair = None
            return None
        self._pair_age_s += dt
        if self._newest_pair is None or self._pair_age_s >= PAIR_PERIOD_S:
            residual, stiffness = estimate.residual, self._rod.stiffness
            # What the model gets wrong under load no floor has learned: isotropic in elastic energy.
            energy = float(residual @ np.linalg.solve(stiffness, residual)) / residual.size
            covariance = estimate.residual_covariance + LOAD_ERROR**2 * energy * stiffness
            information: Vector = np.asarray(np.linalg.inv(covariance), dtype=float)
            self._newest_pair = self._pairs.update(self._jacobians, residual, information, self._pair_age_s)
            self._pair_age_s = 0.0
        return self._newest_pair

    # --- one cycle

    def update(
        self,
        c: ArrayLike,
        c_rate: ArrayLike,
        c_covariance: ArrayLike,
        dt: float,
        *,
        tension: ArrayLike | None = None,
        tension_deviation_n: Vector | None = None,
        capstan_torque: ArrayLike | None = None,
        c_acceleration: ArrayLike | None = None,
        c_rate_covariance: ArrayLike | None = None,
        other_force: ArrayLike | None = None,
        tendon_displacement: ArrayLike | None = None,
        fault: str = "",
        suspects: Sequence[str] = (),
    ) -> ContactEstimate:
        """One cycle.

        Parameters
        ----------
        c : coefficients, (n,), 1/m
        c_rate : their rates, (n,), 1/(m.s); the Kalman disturbance observer does not use them
        c_covariance : covariance of the noise of c, (n, n)
        dt : time since the previous update, s
        tension : of every tendon, (N,), N
        tension_deviation_n : their standard deviations, (N,), N; None: tensions are measured
        capstan_torque : instead of ``tension``, of every capstan, (k,), N.m
        c_acceleration : (n,), for "jfd"; None: difference of the rates
        c_rate_covariance : of the noise of the rates from sample to sample, (n, n); None: that of the settings
        other_force : known generalised force of anything else, e.g. of a distal segment, johnston (74), (n,), N.m^2
        tendon_displacement : of every tendon at its motor, (N,), m, for what resists by the past of the motion; None
            or NaN: as the shape says
        fault : what the shape estimator reports as broken; not empty: invalid
        suspects : sensors whose readings may be frozen: no contact is raised while there are some, and after
            ``suspect_s`` with a residual above the threshold it is invalid

        Returns
        -------
        the estimate; once an input was unusable its state is "invalid" until :meth:`reset`

        Raises
        ------
        ParameterError : neither or both of tension and torque, wrong shapes, a negative step
        """
        if (tension is None) == (capstan_torque is None):
            raise ParameterError("tension, capstan_torque", (tension, capstan_torque), "one of the two")
        if dt < 0:
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        shape = np.asarray(c, dtype=float)
        rod, count = self._rod, self._rod.coefficient_count
        rate = np.zeros(count) if self.settings.method == KALMAN else np.asarray(c_rate, dtype=float)
        noise = np.asarray(c_covariance, dtype=float)
        extra = np.zeros(count) if other_force is None else np.asarray(other_force, dtype=float)
        pulled = None if tendon_displacement is None else np.asarray(tendon_displacement, dtype=float)
        if shape.shape != (count,) or rate.shape != (count,) or noise.shape != (count, count):
            raise ParameterError(
                "c, c_rate, c_covariance",
                (shape.shape, rate.shape, noise.shape),
                f"shapes ({count},), ({count},), ({count}, {count})",
            )
        if pulled is not None and pulled.shape != (self.tendon_count,):
            raise ParameterError("tendon_displacement", pulled.shape, f"shape ({self.tendon_count},)")
        extra = extra - rod.resisting(shape, pulled)
        drives = rod.driven(shape, tension, capstan_torque)
        rate_noise = self._rate_noise
        if c_rate_covariance is not None:
            rate_noise = np.asarray(c_rate_covariance, dtype=float)
            if rate_noise.shape != noise.shape:
                raise ParameterError("c_rate_covariance", rate_noise.shape, f"shape {noise.shape}")
            rate_noise = rod.covariance(rate_noise)
        cycle = CycleInput(
            rod.coordinates(shape),
            rod.coordinates(rate),
            rod.covariance(noise),
            rate_noise,
            drives,
            rod.generalized(extra),
            None if c_acceleration is None else rod.coordinates(np.asarray(c_acceleration, dtype=float)),
            dt,
        )
        settings = self._settings
        self._invalid = self._invalid or fault or self._check.problem(cycle, settings)
        if self._invalid:
            return self._invalid_estimate()
        found = self._method.update(cycle, settings, self._fractions)
        widened = self._rod.widened(found.errors, settings.motor_friction_fraction, settings.friction_error_fraction)
        if tension_deviation_n is not None:
            widened = rod.with_tension_errors(widened, shape, tension_deviation_n, settings.sigma)
        raw, errors = self._learning.applied(found, widened, self._tare.residual)
        self._invalid = found.invalid_reason
        if self._invalid:
            return self._invalid_estimate()
        estimate = self._judge(raw, errors, found.model.terms, dt, suspects)
        return dataclasses.replace(estimate, named_values=found.named_values) if found.named_values else estimate

    def _judge(
        self, raw: Vector, errors: Budget, terms: ContactTerms, dt: float, suspects: Sequence[str]
    ) -> ContactEstimate:
        """State, location and wrench for a residual before the tare."""
        settings, bound = self._settings, errors.bound
        self._jacobians = terms.jacobians
        covariance, information = errors.covariance, errors.information
        if self._last_momentum is not None and dt > 0:
            fraction = dt / (MOTION_FILTER_S + dt)
            self._motion = self._motion + fraction * ((terms.momentum - self._last_momentum) / dt - self._motion)
        self._last_momentum = terms.momentum
        accelerating = bool((np.abs(self._motion) > bound).any())
        limits = self._limits[accelerating]
        residual = raw - self._tare.residual
        location = self.locator.update(terms.jacobians, residual, covariance, dt, information=information)
        known = settings.known_arc_length_m >= 0
        assumed = not known and not location.observable
        arc_length_m = (
            settings.known_arc_length_m if known else self.length_m if assumed else location.arc_length_m
        )
        wrench = self._wrench.estimate(
            residual, self.locator.jacobian_at(terms.jacobians, arc_length_m), covariance, information=information
        )
        contact_threshold, collision_threshold = bound * limits.contact_factor, bound * limits.collision_factor
        if self._tare.left_s > 0:
            if self._tare.take(raw, dt):
                self._states.lower()
                self.locator.reset()
            return dataclasses.replace(
                self._nothing(TARING, ""),
                accelerating=accelerating,
                residual=residual,
                residual_covariance=covariance,
                contact_threshold=contact_threshold,
                collision_threshold=collision_threshold,
            )
        force_n = math.sqrt(float(wrench.wrench[:3] @ wrench.wrench[:3]))
        ratio = self._learning.ratio(residual, contact_threshold, limits.contact_factor)
        state = self._states.update(
            ratio, force_n, dt, placed=not assumed, suspects=suspects, limits=limits, settings=settings
        )
        named = ", ".join(suspects)
        if state == INVALID:
            held_s = self._states.held_s
            self._invalid = f"{named} frozen, or a contact that leaves it unmoved: {held_s:.2g} s above the threshold"
            return self._invalid_estimate()
        return ContactEstimate(
            state,
            f"{named} stands still while others move: frozen, or a contact" if state == SETTLING else "",
            accelerating,
            residual,
            covariance,
            contact_threshold,
            collision_threshold,
            ratio,
            wrench,
            arc_length_m,
            assumed,
            location,
        )

    def _invalid_estimate(self) -> ContactEstimate:
        self._tare.left_s = 0.0
        return self._nothing(INVALID, self._invalid)

    def _nothing(self, state: str, reason: str) -> ContactEstimate:
        n = self.size
        unknown, matrix = np.full(n, np.nan), np.full((n, n), np.nan)
        wrench = self._wrench.estimate(unknown, np.zeros((6, n)))
        return ContactEstimate(
            state, reason, False, unknown, matrix, unknown, unknown, math.nan, wrench, math.nan, True, None
        )
