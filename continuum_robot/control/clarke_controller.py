# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM114
"""The controller of muhmann's fig. 4: PID on the Clarke manifold, tendon tensions out."""

from __future__ import annotations

import math
from collections.abc import Callable

import cython
import numpy as np
from cython.cimports.libc.math import isfinite
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.controller import ClarkeOutput, checked_pretension
from continuum_robot.control.pid import Pid
from continuum_robot.control.pid_parameters import PidParameters
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_forces import TendonForces
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import HoldingForce
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, matrix, stepped, vector

Vector = NDArray[np.float64]
RodFeedforward = Callable[[Vector], tuple[Vector, Vector]]


@cython.cclass
class ClarkeController:
    """PID on the Clarke coordinates of all segments of a robot.

    Displacements go onto the manifold by muhmann (2), each coordinate has a PID with the gains of its segment, the
    rod's elastic force and gravity at the reference are fed forward with a gain each, and the generalised forces become
    tensions by (26) and the strategy of the settings. Limits on tensions are the driver's, not applied here;
    u_clamp_min and u_clamp_max are, and ``terms.saturated`` reports them.

    Parameters
    ----------
    robot : with ``control`` settings
    rod_feedforward : Clarke coordinates (2m,), m, to the generalised forces (elastic (2m,), gravity (2m,)), N, that
        hold the rod there: the left side of muhmann (25), K_M q and g_M. Needed where a feed-forward gain of the
        settings is not 0. A :class:`HoldingForce` gets buffers of its own

    Attributes
    ----------
    manifold : of the robot's tendons
    settings : in use
    needs_python : whether the feed-forward is a Python function, so that only the interpreted form can call it
    clarke, clarke_rate : measured coordinates and their rates in the last step, m, m/s
    force : desired generalised force, N; NaN where the last state got no answer
    tension : desired tensions, N; NaN as there
    pid : with the terms of the last step

    Raises
    ------
    ParameterError : a robot without control settings, a feed-forward gain without ``rod_feedforward``, or one in Python
        for the compiled form
    """

    manifold = cython.declare(object, visibility="readonly")
    settings = cython.declare(object, visibility="readonly")
    needs_python = cython.declare(cython.bint, visibility="readonly")
    tendon_count: cython.int
    coordinate_count: cython.int
    clarke = cython.declare(cython.double[::1], visibility="readonly")
    clarke_rate = cython.declare(cython.double[::1], visibility="readonly")
    force = cython.declare(cython.double[::1], visibility="readonly")
    tension = cython.declare(cython.double[::1], visibility="readonly")
    pid: Pid
    forces: TendonForces
    holding: HoldingForce
    feeds_forward: cython.bint
    asked_pretension_n: cython.double
    pretension_rate_n_per_s: cython.double
    stiffness_gain: cython.double
    gravity_gain: cython.double
    clarke_matrix: cython.double[::1]
    displacement_matrix: cython.double[::1]
    feedforward: cython.double[::1]
    start_force: cython.double[::1]
    nothing: cython.double[::1]
    zero: cython.double[::1]
    _robot: object
    _rod_feedforward: object
    _per_entry: cython.int

    def __init__(self, robot: Robot, rod_feedforward: RodFeedforward | None = None) -> None:
        if robot.control is None:
            raise ParameterError("robot.control", None, f"control settings in the file of robot {robot.name!r}")
        self._robot, self._rod_feedforward = robot, rod_feedforward
        self._per_entry = robot.coordinate_count // len(robot.part_names)
        self.manifold = manifold = controlled_manifold(robot)
        self.holding = None  # type: ignore[assignment]
        self.needs_python = False
        if rod_feedforward is not None:
            self.needs_python = not getattr(rod_feedforward, "native", False)
            if cython.compiled and self.needs_python:
                raise ParameterError(
                    "rod_feedforward", rod_feedforward, "machine code: compiled control calls no Python function"
                )
            if hasattr(rod_feedforward, "parts"):
                self.holding = HoldingForce(*rod_feedforward.parts)
        self._check(robot.control)
        tendons, coordinates = manifold.tendon_count, manifold.coordinate_count
        self.tendon_count, self.coordinate_count = tendons, coordinates
        self.clarke_matrix = matrix(manifold.clarke_matrix.tolist())
        self.displacement_matrix = matrix(manifold.displacement_matrix.tolist())
        self.clarke, self.clarke_rate = vector([math.nan] * coordinates), vector([math.nan] * coordinates)
        self.feedforward, self.start_force = vector(coordinates), vector(coordinates)
        self.nothing, self.zero = vector([math.nan] * coordinates), vector(coordinates)
        self.force, self.tension = vector([math.nan] * coordinates), vector([math.nan] * tendons)
        self.pid = Pid(PidParameters.from_gains(robot.control.gains, self._per_entry))
        self.forces = TendonForces(manifold)
        self.settings = None
        self._take_settings(robot.control)

    def with_settings(self, settings: ControlSettings) -> ClarkeController:
        """The same controller in the same state with other settings.

        Parameters
        ----------
        settings : with one entry of gains a segment

        Returns
        -------
        a new controller; this one is left as it is

        Raises
        ------
        ParameterError : settings that do not fit the robot
        """
        other = ClarkeController(self._robot, self._rod_feedforward)  # type: ignore[arg-type]
        other.set_settings(self.settings)
        other.pid.copy_state(self.pid)
        other.forces.set(self.settings.tendon_forces, self.forces.pretension_n)
        other.asked_pretension_n = self.asked_pretension_n
        other.set_settings(settings)
        return other

    def set_settings(self, settings: ControlSettings) -> None:
        """Go on in the same state with other settings, between two cycles.

        Parameters
        ----------
        settings : with one entry of gains a segment

        Raises
        ------
        ParameterError : settings that do not fit the robot; the old ones stay
        """
        self._check(settings)
        self._take_settings(settings)

    def _take_settings(self, settings: ControlSettings) -> None:
        parameters = PidParameters.from_gains(settings.gains, self._per_entry)
        asked = settings.pretension_n
        if self.settings is not None and asked in (self.settings.pretension_n, self.asked_pretension_n):
            self.forces.set(settings.tendon_forces, self.forces.pretension_n)  # what was asked for since holds
        else:
            self.forces.set(settings.tendon_forces, settings.pretension_n)
            self.asked_pretension_n = float(settings.pretension_n)
        self.pretension_rate_n_per_s = float(settings.pretension_rate_n_per_s)
        self.pid.set_parameters(parameters)
        self.settings = settings
        self.stiffness_gain = float(settings.feedforward_stiffness)
        self.gravity_gain = float(settings.feedforward_gravity)
        self.feeds_forward = self._rod_feedforward is not None and (self.stiffness_gain + self.gravity_gain) > 0
        if not self.feeds_forward:
            for k in range(self.coordinate_count):
                self.feedforward[k] = 0.0

    def ask_pretension(self, pretension_n: float) -> None:
        """Go to another pretension at the settings' rate while the place is held. Between two cycles only.

        What it adds to the tensions lies in their null space: it forces no coordinate.

        Parameters
        ----------
        pretension_n : least tension that is left on every tendon, N

        Raises
        ------
        ParameterError : negative or not finite
        """
        self.asked_pretension_n = checked_pretension(pretension_n)

    @property
    def pretension(self) -> float:
        """Pretension now, N; on its way to what was asked for."""
        return float(self.forces.pretension_n)

    def _check(self, settings: ControlSettings) -> None:
        if len(settings.gains) != self.manifold.segment_count:
            raise ParameterError(
                "control.gains", len(settings.gains), f"{self.manifold.segment_count} entries, one a segment"
            )
        gains = settings.feedforward_stiffness + settings.feedforward_gravity
        if gains > 0 and self._rod_feedforward is None:
            raise ParameterError("rod_feedforward", None, "the rod's feed-forward, since a gain of it is set")

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
            self.begin(vector(pulled), self.clarke, vector(self.coordinate_count))
        else:
            self.begin(vector(pulled), vector(reference.position), vector(reference.velocity))

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
        self.step(vector(reference.position), vector(reference.velocity), velocity is not None, dt)
        return self.output()

    def output(self) -> ClarkeOutput:
        """What the last step computed, as arrays of its own."""
        return ClarkeOutput(
            np.array(self.tension),
            np.array(self.clarke),
            np.array(self.clarke_rate),
            np.array(self.force),
            self.pid.terms(),
        )

    @stepped
    def observe(self, displacement: cython.double[::1], velocity: cython.double[::1]) -> cython.bint:
        """Clarke coordinates and rates of a state, muhmann (2); False where one is not finite.

        ``displacement`` and ``velocity`` are those of the tendons, m and m/s.
        """
        j: cython.int
        k: cython.int
        known: cython.double = 0.0
        tendons: cython.int = self.tendon_count
        clarke_matrix: cython.double[::1] = self.clarke_matrix
        for k in indices(self.coordinate_count):
            row: cython.int = k * tendons
            place: cython.double = 0.0
            rate: cython.double = 0.0
            for j in indices(tendons):
                factor: cython.double = clarke_matrix[row + j]
                place += factor * displacement[j]
                rate += factor * velocity[j]
            self.clarke[k], self.clarke_rate[k] = place, rate
            known += place + rate
        return isfinite(known)

    @stepped
    def begin(
        self, tension: cython.double[::1], position: cython.double[::1], velocity: cython.double[::1]
    ) -> cython.void:
        """Restart as :meth:`reset` at the observed state, with the ``tension`` of all tendons, N (NaN: unknown).

        ``position`` and ``velocity`` are those of the reference, m and m/s.
        """
        j: cython.int
        k: cython.int
        for k in indices(self.coordinate_count):
            total: cython.double = 0.0
            for j in indices(self.tendon_count):
                total += tension[j] * self.displacement_matrix[j * self.coordinate_count + k]  # muhmann (27)
            self.start_force[k] = total
        self.feed_forward(position)
        self.pid.begin(self.start_force, position, self.clarke, self.clarke_rate, self.feedforward, velocity)

    @stepped
    def step(
        self,
        position: cython.double[::1],
        velocity: cython.double[::1],
        rate_measured: cython.bint,
        dt: cython.double,
    ) -> cython.bint:
        """Answer the observed state; False, and NaN tensions, where an input is not finite.

        ``position`` and ``velocity`` are those of the reference, m and m/s; ``rate_measured`` and ``dt`` (s) are as in
        :meth:`Pid.step`.
        """
        j: cython.int
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
        self.feed_forward(position)
        self.pid.step(position, self.clarke, self.clarke_rate, rate_measured, self.feedforward, velocity, dt)
        self.forces.approach(self.asked_pretension_n, self.pretension_rate_n_per_s * dt)
        self.forces.step(self.pid.output)
        copy_into(self.force, self.pid.output, self.coordinate_count)
        copy_into(self.tension, self.forces.tension, self.tendon_count)
        known = 0.0
        for j in indices(self.tendon_count):
            known += self.tension[j]
        return isfinite(known)

    @stepped
    def rest(self) -> cython.void:
        """Give no answer: NaN force and tensions; the state stays."""
        j: cython.int
        for j in indices(self.coordinate_count):
            self.force[j] = UNKNOWN
        for j in indices(self.tendon_count):
            self.tension[j] = UNKNOWN

    @stepped
    def feed_forward(self, position: cython.double[::1]) -> cython.void:
        """Fraction of the force that holds the robot at a ``position`` of the Clarke coordinates, m."""
        k: cython.int
        if not self.feeds_forward:
            return
        if cython.compiled:
            self.holding.step(position)
        elif self.holding is not None:
            self.holding.step(position)
        else:
            self.feed_forward_from_python(position)
            return
        for k in indices(self.coordinate_count):  # K_M q and g_M of muhmann (25)
            self.feedforward[k] = (
                self.stiffness_gain * self.holding.elastic[k] + self.gravity_gain * self.holding.gravity[k]
            )

    def feed_forward_from_python(self, position: Vector) -> None:
        """:meth:`feed_forward` by a Python function, at a position, shape (2m,), m."""
        elastic, gravity = self._rod_feedforward(np.array(position))  # type: ignore[operator]
        self.feedforward[:] = (self.stiffness_gain * elastic + self.gravity_gain * gravity).tolist()
