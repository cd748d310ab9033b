# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM114
"""The controller of muhmann's fig. 4: PID on the Clarke manifold, tendon tensions out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import cython
import numpy as np
from cython.cimports.libc.math import isfinite
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.controller import ClarkeOutput
from continuum_robot.control.cycle_controller import CycleController
from continuum_robot.control.friction_force import FrictionForce
from continuum_robot.control.pid import Pid
from continuum_robot.control.pid_parameters import PidParameters, PidTerms
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.payload import Payload
from continuum_robot.stepped.buffers import UNKNOWN, indices, stepped, vector
from continuum_robot.stepped.products import multiply_transposed

Vector = NDArray[np.float64]
RodFeedforward = Callable[[Vector], tuple[Vector, Vector]]


@cython.cclass
class ClarkeController(CycleController):
    """PID on the Clarke coordinates of all segments of a robot.

    Displacements go onto the manifold by muhmann (2), each coordinate has a PID with the gains of its segment, the
    rod's elastic force and gravity at the reference, and the friction along it, are fed forward with a gain each, and
    the generalised forces become tensions by (26) and the strategy of the settings. Limits on tensions are the
    driver's, not applied here; u_clamp_min and u_clamp_max are, and ``terms.saturated`` reports them.

    Parameters
    ----------
    robot : with ``control`` settings
    rod_feedforward : Clarke coordinates (2m,), m, to the generalised forces (elastic (2m,), gravity (2m,)), N, that
        hold the rod there: the left side of muhmann (25), K_M q and g_M. Needed where a feed-forward gain of the
        settings is not 0. Of a :class:`HoldingForce` it takes a copy

    Attributes
    ----------
    needs_python : whether the feed-forward is a Python function, so that only the interpreted form can call it
    pid : with the terms of the last step

    Raises
    ------
    ParameterError : a robot without control settings, a feed-forward gain without ``rod_feedforward``, or one in Python
        for the compiled form
    """

    pid: Pid
    holding: HoldingForce
    friction: FrictionForce
    feeds_forward: cython.bint
    feeds_friction: cython.bint
    stiffness_gain: cython.double
    gravity_gain: cython.double
    friction_gain: cython.double
    feedforward: cython.double[::1]
    start_force: cython.double[::1]
    realised_force: cython.double[::1]
    nothing: cython.double[::1]
    zero: cython.double[::1]
    _rod_feedforward: object

    def __init__(self, robot: Robot, rod_feedforward: RodFeedforward | None = None) -> None:
        super().__init__(robot)
        self._rod_feedforward = rod_feedforward
        self.holding = None  # type: ignore[assignment]
        if rod_feedforward is not None:
            self.needs_python = not getattr(rod_feedforward, "native", False)
            if cython.compiled and self.needs_python:
                raise ParameterError(
                    "rod_feedforward", rod_feedforward, "machine code: compiled control calls no Python function"
                )
            if hasattr(rod_feedforward, "parts"):
                stiffness, shape, rod = rod_feedforward.parts
                own = copy.deepcopy(rod)  # another controller may be asked for another payload
                self.holding, self.payload = HoldingForce(stiffness, shape, own), Payload(own)
        self.friction = None  # type: ignore[assignment]
        if robot.traits.kind == ROD:
            self.friction = FrictionForce(robot)
        settings = robot.control_settings
        self._check(settings)
        coordinates = self.coordinate_count
        self.feedforward, self.start_force = vector(coordinates), vector(coordinates)
        self.realised_force = vector(coordinates)
        self.nothing, self.zero = vector([math.nan] * coordinates), vector(coordinates)
        self.pid = Pid(PidParameters.from_gains(settings.gains, self._per_entry))
        self._take_settings(settings)

    def _check(self, settings: ControlSettings) -> None:
        CycleController._check(self, settings)
        gains = settings.feedforward_stiffness + settings.feedforward_gravity
        if gains > 0 and self._rod_feedforward is None:
            raise ParameterError("rod_feedforward", None, "the rod's feed-forward, since a gain of it is set")
        if settings.feedforward_friction > 0 and self.friction is None:
            raise ParameterError(
                "control.feedforward_friction", settings.feedforward_friction, "0: a mechanism has no model of friction"
            )

    def _take_settings(self, settings: ControlSettings) -> None:
        parameters = PidParameters.from_gains(settings.gains, self._per_entry)
        CycleController._take_settings(self, settings)
        self.pid.set_parameters(parameters)
        self.stiffness_gain = float(settings.feedforward_stiffness)
        self.gravity_gain = float(settings.feedforward_gravity)
        self.feeds_forward = self._rod_feedforward is not None and (self.stiffness_gain + self.gravity_gain) > 0
        self.friction_gain = float(settings.feedforward_friction)
        self.feeds_friction = self.friction_gain > 0
        for k in range(self.coordinate_count):
            self.feedforward[k] = 0.0

    def reset(
        self,
        displacement: ArrayLike,
        tension: ArrayLike | None = None,
        *,
        velocity: ArrayLike | None = None,
        reference: ClarkeReference | None = None,
    ) -> None:
        """Restart without a jump: the first update with the same inputs asks for the force of the given tensions.

        What the tensions have in common in a segment bends nothing and is not reproduced: the strategy and its
        pretension decide on it.

        Parameters
        ----------
        displacement : measured, shape (N,), m
        tension : measured or commanded now, shape (N,), N; None: start from the feed-forward alone
        velocity : measured, shape (N,), m/s; None: at rest
        reference : that the first update will get; None: the measured coordinates, at rest

        Raises
        ------
        ParameterError : a value that is not finite, or an array of the wrong shape
        """
        nothing = np.full(self.tendon_count, np.nan)
        measured = self._finite("displacement", displacement)
        rate = np.zeros(self.tendon_count) if velocity is None else self._finite("velocity", velocity)
        pulled = nothing if tension is None else self._finite("tension", tension)
        self.observe(vector(measured), vector(rate))
        if reference is None:
            self.begin(vector(pulled), self.clarke, self.zero, self.zero)
        else:
            self.begin(vector(pulled), vector(reference.position), vector(reference.velocity), self.zero)

    def _finite(self, name: str, value: ArrayLike) -> Vector:
        array = np.asarray(value, dtype=float)
        if array.shape != (self.tendon_count,) or not np.all(np.isfinite(array)):
            raise ParameterError(name, array, f"{self.tendon_count} finite values, one a tendon")
        return array

    def update(
        self, displacement: Vector, velocity: Vector | None, reference: ClarkeReference, dt: float
    ) -> ClarkeOutput:
        """One cycle.

        Parameters
        ----------
        displacement : measured, shape (N,), m
        velocity : measured, shape (N,), m/s; None where nothing measures it: the displacements are differentiated
        reference : of the Clarke coordinates
        dt : time since the previous update, s; 0 gives the previous force again

        Returns
        -------
        tensions and all that led to them. An input that is not finite gives NaN tensions and leaves the state alone

        Raises
        ------
        ParameterError : dt negative or not finite, or an array of the wrong shape
        """
        if len(displacement) != self.tendon_count:
            raise ParameterError("displacement", displacement, f"{self.tendon_count} values, one a tendon")
        if velocity is not None and len(velocity) != self.tendon_count:
            raise ParameterError("velocity", velocity, f"{self.tendon_count} values, one a tendon")
        if not len(reference.position) == len(reference.velocity) == self.coordinate_count:
            raise ParameterError("reference", reference, f"{self.coordinate_count} values, one a coordinate")
        if not (0 <= dt < math.inf):
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        self.observe(vector(displacement), vector(displacement if velocity is None else velocity))
        position, rate = vector(reference.position), vector(reference.velocity)
        self.step(position, rate, self.nothing, self.nothing, velocity is not None, dt)
        return self.output()

    def terms(self) -> PidTerms:
        """Of the PID in the last step, as arrays of their own."""
        return self.pid.terms()

    @stepped
    def begin(
        self,
        tension: cython.double[::1],
        position: cython.double[::1],
        velocity: cython.double[::1],
        acceleration: cython.double[::1],  # noqa: ARG002
    ) -> cython.void:
        """As of the base class: ``tension`` in N, ``position``, ``velocity`` and ``acceleration`` in m, m/s, m/s^2."""
        # muhmann (27)
        multiply_transposed(
            self.displacement_matrix, tension, self.tendon_count, self.coordinate_count, self.start_force
        )
        if self.feeds_friction:
            self.friction.rest(position)
        self.feed_forward(position, velocity)
        self.pid.begin(self.start_force, position, self.clarke, self.clarke_rate, self.feedforward, velocity)

    @stepped
    def step(
        self,
        position: cython.double[::1],
        velocity: cython.double[::1],
        acceleration: cython.double[::1],  # noqa: ARG002
        measured_tension: cython.double[::1],  # noqa: ARG002
        rate_measured: cython.bint,
        dt: cython.double,
    ) -> cython.bint:
        """As of the base class: ``position`` (m), ``velocity`` (m/s), ``rate_measured`` and ``dt`` (s) count;
        ``acceleration`` and ``measured_tension`` do not.
        """
        k: cython.int
        known: cython.double = 0.0
        for k in indices(self.coordinate_count):
            if not rate_measured:
                self.clarke_rate[k] = UNKNOWN
            else:
                known += self.clarke_rate[k]
            known += self.clarke[k] + position[k] + velocity[k]
        if not isfinite(known):
            # One unknown tendon leaves the force of every segment under it unknown: none gets a tension.
            self.pid.step(self.nothing, self.nothing, self.nothing, False, self.zero, self.zero, dt)
            self.rest()
            return False
        self.feed_forward(position, velocity)
        self.pid.step(position, self.clarke, self.clarke_rate, rate_measured, self.feedforward, velocity, dt)
        return self.pull(self.pid.output, dt)

    @stepped
    def realise(self, tension: cython.double[::1]) -> cython.void:
        """As of the base class: the integral gets the force of the ``tension``, N."""
        multiply_transposed(
            self.displacement_matrix, tension, self.tendon_count, self.coordinate_count, self.realised_force
        )
        self.pid.realise(self.realised_force)

    @stepped
    def feed_forward(self, position: cython.double[::1], velocity: cython.double[::1]) -> cython.void:
        """Fraction of the force that holds the robot at a ``position`` of the reference, m, and of the friction at its
        ``velocity``, m/s.
        """
        k: cython.int
        if self.feeds_forward:
            self.hold(position)
        if self.feeds_friction:
            self.friction.step(position, velocity)
            for k in indices(self.coordinate_count):
                resisting: cython.double = self.friction_gain * self.friction.force[k]
                self.feedforward[k] = resisting + (self.feedforward[k] if self.feeds_forward else 0.0)

    @stepped
    def hold(self, position: cython.double[::1]) -> cython.void:
        """Fraction of the force that holds the robot at a ``position`` of the Clarke coordinates, m."""
        k: cython.int
        if cython.compiled:
            self.holding.step(position)
        elif self.holding is not None:
            self.holding.step(position)
        else:
            self.hold_by_python(position)
            return
        for k in indices(self.coordinate_count):  # K_M q and g_M of muhmann (25)
            self.feedforward[k] = (
                self.stiffness_gain * self.holding.elastic[k] + self.gravity_gain * self.holding.gravity[k]
            )

    def hold_by_python(self, position: Vector) -> None:
        """:meth:`hold` by a Python function, at a position, shape (2m,), m."""
        elastic, gravity = self._rod_feedforward(np.array(position))  # type: ignore[operator]
        self.feedforward[:] = (self.stiffness_gain * elastic + self.gravity_gain * gravity).tolist()
