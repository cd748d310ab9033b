# SPDX-License-Identifier: Apache-2.0
"""The controller of servos that hold displacements: the rod's statics the other way round, and an integral.

A reference in Clarke coordinates (or tendon modes) becomes displacements by the equilibrium that has them: coefficients
c and a generalised force u with

    gradient of elastic energy, weight and payload at c = J(c)^T T(u),    C (lengths that the paths lost at c) = q_ref

where T(u) are the tensions of muhmann (26) and the strategy, none below the pretension. The servos then hold what the
paths are shorter by and what T stretches the tendons by: muhmann (4), (13) and T / k for parallel tendons. Force
shifting (28) becomes a common displacement, at which the same tensions hang on the tendons. Friction of the paths is
added along the reference by the model that a fit of recordings uses (:mod:`continuum_robot.rod.holding_force`). A servo
stays behind what it is told, by its load over the stiffness m w^2 of its position loop and by the time 2 / w of that
loop: so much it is told more, and earlier by the reference's velocity. What its reading still misses is integrated and
added to the command, because dry friction of the gear and delays of the bus are not in that model.

Where fewer modes are controlled than there are Clarke coordinates, the equilibrium has all of these as the reference's
modes make them: all other modes are held at zero.

Where tendons share motors (:class:`~continuum_robot.robot.coupling.Coupling`), these and the preload decide what the
tendons pull against each other, in place of the strategy: of all tensions with the same generalised force those whose
displacements the motors can make.

Two integrals correct what the model does not know, each where something measures it: the shape, or the tip, and the
loads (``control.pretension_by: load``). The second adds a common tension to the tendons of a segment, along the
direction of (28), until none has less than the pretension; it forces no coordinate.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.blending import quintic
from continuum_robot.control.controller import MeasuredTendons
from continuum_robot.control.cycle_controller import CycleController
from continuum_robot.control.pid_parameters import PidTerms
from continuum_robot.control.tendon_forces import TendonForces
from continuum_robot.control.tip.inverse import TipKinematics, steady_inverse
from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.control_settings import BY_LOAD, ControlSettings
from continuum_robot.robot.coupling import Coupling, coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.friction.maxwell_slip import moved_anchor, stop_force
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.payload import Payload
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, Held, Stops, at_rest, equilibrium
from continuum_robot.rod.tendons import held_manifold
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]

BLEND_S = 1.0
"""In which displacements go from where a start found them to those of the model, s."""
LARGEST_CORRECTION = 0.2
"""Bounds of both integrals: that of the shape by this fraction of ``limits.maximum_displacement_m``, that of a servo's
reading by this fraction of what the servo gives way by at ``limits.maximum_n``."""
TRIM_OVER_DELAY = 0.25
"""Rate of the integral of a servo's reading over 1 / delay of the loop: a sixth of pi / 2, which a pure delay bears."""
LATEST_SEEN_S = 0.5
"""Age up to which a measured shape or tip is integrated, s."""
LOADS_PER_S = 2.0
"""How fast the pretension follows the measured loads, 1/s."""
TIGHT = 0.25
"""Fraction of the pretension above which a measured load shows a tight tendon."""
_ITERATIONS = 12
_TOLERANCE = 1e-9  # of a step: rad, relative stretch
_LENGTH_TOLERANCE_M = 1e-10
_FORCE_TOLERANCE_N = 1e-6
_LARGEST_TURN_RAD = 0.5


class DisplacementController(CycleController):
    """Displacements that hold the reference, for the interpreted cycle at the servos' rate.

    Where the measured loads show that all tendons are tight, :attr:`clarke` are those of the measured displacements
    less the stretch under these loads; else those of the model's equilibrium that the measured displacements hold.
    """

    def __init__(self, robot: Robot) -> None:
        if not robot.takes_displacements or robot.traits.kind != ROD:
            raise ParameterError("robot", robot.name, "a rod with actuators.command: displacement")
        super().__init__(robot)
        self.needs_python = self.takes_displacements = True
        self.rod = Rod(robot)
        self.payload = Payload(self.rod)
        self.tendons = HeldTendons.of(robot)
        self._rubs = bool(self.tendons.friction_fraction.any())
        self._balance = Balance(self.rod)
        held, settings = held_manifold(robot), robot.control_settings
        self._C, self._held_C = np.array(self.manifold.clarke_matrix), np.array(held.clarke_matrix)
        self._into_held = self._held_C @ self.manifold.displacement_matrix
        if held.coordinate_count == self.coordinate_count:
            self._into_held = np.eye(self.coordinate_count)
        self.forces = TendonForces(held, settings.tendon_forces, settings.pretension_n)
        self._coupling = coupling_of(robot)
        self._balanced = None
        if self._coupling is not None and self._coupling.shares:
            self._balanced = _balancing(robot, self._coupling, np.array(self.manifold.displacement_matrix))
        self._give_m_per_n, self._behind_s = _of_servos(robot)
        limits, actuators = robot.limits, robot.actuators
        assert actuators is not None
        self._count_m = actuators.each("meter_per_count", robot.tendon_count)
        self._trim_per_s = TRIM_OVER_DELAY / (self._behind_s + 2 / actuators.cycle_hz)
        self._largest_trim_m, self._least_n = np.zeros(robot.tendon_count), np.zeros(robot.tendon_count)
        self._largest_n, self._largest_m = np.full(robot.tendon_count, math.inf), math.inf
        if limits is not None:
            self._largest_n, self._least_n = (limits.each(key, robot.tendon_count) for key in ("maximum_n", "least_n"))
            self._largest_trim_m = LARGEST_CORRECTION * self._give_m_per_n * self._largest_n
            self._largest_m = LARGEST_CORRECTION * limits.smallest("maximum_displacement_m", robot.tendon_count)
        count, size = self.tendon_count, self.coordinate_count
        self.coefficients, self._u = self._rest(), np.zeros(held.coordinate_count)
        self.tension, self.load, self._anchor = np.zeros(count), np.zeros(count), np.zeros(count)
        self._path = self._path_at(self.coefficients)
        self._held, self._held_anchor, self._held_load = self.coefficients.copy(), self._path.copy(), np.zeros(count)
        self._measured_n = np.full(count, np.nan)
        self._offset, self._blended_s = np.zeros(count), BLEND_S
        self._integral, self._short = np.zeros(size), np.zeros(size)
        self._position, self._error = np.full(size, np.nan), np.zeros(size)
        self._wanted: deque[tuple[float, Vector]] = deque(maxlen=512)
        self._reading, self._trim, self._cut = np.full(count, np.nan), np.zeros(count), np.zeros(count)
        self._told: deque[tuple[float, Vector]] = deque(maxlen=512)
        self._seen: tuple[float, Vector] | None = None
        self._seen_tip: tuple[float, Vector] | None = None
        self._kinematics = TipKinematics(robot) if robot.sees_tip else None
        self._common, self._common_n = np.array(self.manifold.shift_direction), np.zeros(count)
        self._stamp_s, self.unsolved, self._saturated = 0.0, 0, False
        self.set_settings(robot.control_settings)

    def _rest(self) -> Vector:
        return np.array(equilibrium(self.rod, balance=self._balance).c)

    def _path_at(self, c: Vector) -> Vector:
        return np.asarray(self.rod.displacement(c))

    def _check(self, settings: ControlSettings) -> None:
        """Whatever the robot's file may say fits."""

    # --- what is measured

    def take(self, reading: MeasuredTendons) -> None:
        """Hear of a reading before :meth:`observe`."""
        self._measured_n = np.array(reading.tension_n, dtype=float)
        self._stamp_s = float(reading.stamp_s)

    def see(self, clarke: Vector, stamp_s: float) -> None:
        """Hear of coordinates that sensors of the shape measured. From any thread."""
        self._seen = (stamp_s, np.array(clarke)) if np.isfinite(clarke).all() else None

    def see_tip(self, place: Vector, stamp_s: float) -> None:
        """Hear of the tip's place that a tracker measured. From any thread."""
        self._seen_tip = (stamp_s, np.array(place)) if np.isfinite(place).all() else None

    def observe(self, displacement: list[float], velocity: list[float]) -> bool:
        """Coordinates of the shape, and their rates; False where an input is not finite or holds no equilibrium."""
        reading = np.array(displacement)
        rate = self._C @ (self.tendons.gain * np.array(velocity))
        self.clarke[:], self.clarke_rate[:] = [math.nan] * self.coordinate_count, rate.tolist()
        self._reading = reading
        if not np.isfinite(reading).all():
            return False
        if (self._measured_n > np.maximum(self._least_n, TIGHT * self.forces.pretension_n)).all():
            path = self.tendons.path(reading, self._measured_n)
        else:
            try:
                path = self._held_path(self.tendons.spooled(reading))
            except ConvergenceError:
                return False
        self.clarke[:] = (self._C @ path).tolist()
        return bool(np.isfinite(rate).all())

    def _held_path(self, spooled: Vector) -> Vector:
        """What the paths are shorter by in the equilibrium with what is taken in, friction and its memory included."""
        held = Held(self.tendons.stiffness_n_per_m, spooled, self._stops(self._held_anchor, self._held_load))
        try:
            self._held = at_rest(self._balance, self._held, held).c
        except ConvergenceError:
            self._held = equilibrium(self.rod, stiffness=held.stiffness, spooled=spooled, balance=self._balance).c
        path = self._path_at(self._held)
        if held.stops is not None:
            self._held_anchor = moved_anchor(path, held.stops.anchor_m, held.stops.limit_n, held.stops.stiffness)
        self._held_load = self.tendons.stiffness_n_per_m * np.maximum(spooled - path, 0.0)
        return path

    def _stops(self, anchor: Vector, load: Vector) -> Stops | None:
        """Friction of the paths, its limits those of the load of the step before."""
        if not self._rubs:
            return None
        return Stops(self.tendons.sticking_n_per_m, anchor, self.tendons.friction_fraction * load)

    # --- what is commanded

    def begin(
        self, command: list[float], position: list[float], _velocity: list[float], _acceleration: list[float]
    ) -> None:
        """Start with the given displacements, ``command`` (m), at a ``position`` of the reference (m).

        The integral starts at 0, and what the model would command otherwise goes away within :data:`BLEND_S`.
        """
        self._integral[:], self._short[:], self._blended_s = 0.0, 0.0, 0.0
        self._trim[:], self._cut[:] = 0.0, 0.0
        self._wanted.clear()
        self._told.clear()
        self._seen = self._seen_tip = None
        self._common_n[:] = 0.0
        self._solve(np.array(position))
        self._anchor = self._path.copy()
        self.load = self.tension.copy()
        self._offset = np.array(command) - self._goal(self.tendons.reading(self._path, self.load))

    def step(
        self,
        position: list[float],
        velocity: list[float],
        _acceleration: list[float],
        _measured_tension: list[float],
        _rate_measured: bool,
        dt: float,
    ) -> bool:
        """Answer the observed state by displacements; False, and NaN, where the reference is not finite.

        ``position`` (m) and ``velocity`` (m/s) of the reference and ``dt``, s, since the state before count; the
        servos see to the rest.
        """
        self._position = np.array(position)
        if not np.isfinite(self._position).all() or not np.isfinite(self.clarke).all():
            self.rest()
            return False
        self.forces.approach(self.asked_pretension_n, self.pretension_rate_n_per_s * dt)
        self.payload.step(dt)
        self._wanted.append((self._stamp_s, self._position))
        self._integrate(dt)
        self._keep_taut(dt)
        ahead = self._behind_s * np.nan_to_num(np.array(velocity))
        self._saturated = not self._solve(self._position + ahead + self._integral)
        self.unsolved += self._saturated
        stops, self.load = self._stops(self._anchor, self.load), self.tension
        if stops is not None:
            at = (self._path, stops.anchor_m, stops.limit_n, stops.stiffness)
            self.load = np.maximum(self.tension + stop_force(*at).force, 0.0)
            self._anchor = moved_anchor(*at)
        held, left = self.tendons.reading(self._path, self.load), 0.0
        if self._blended_s < BLEND_S:
            left = (1.0 - quintic(self._blended_s / BLEND_S)) * self._offset
            self._blended_s += dt
        self._told.append((self._stamp_s + self._behind_s, held + left))
        self._reach(dt)
        command = self._goal(held) + self._trim + left
        self._short[:], self._cut[:] = 0.0, 0.0
        self.command[:], self.force[:] = command.tolist(), (self._u @ self._into_held).tolist()
        return True

    def _goal(self, held: Vector) -> Vector:
        """What the servos are told so that they are at ``held`` under the load, (N,), m."""
        coupling = self._coupling
        if coupling is None:
            return held + self._give_m_per_n * self.load
        given = coupling.moved(self._give_m_per_n[: coupling.matrix.shape[1]] * coupling.forces(self.load))
        return coupling.nearest(coupling.offset_m, held + given)  # but for rounding it is there

    def realise(self, command: list[float]) -> None:
        """The driver limited the last answer to this ``command`` of all tendons, m: the integral goes no further."""
        self._cut = np.array(command) - np.array(self.command)
        self._short = self._C @ (self.tendons.gain * self._cut)

    def _reach(self, dt: float) -> None:
        """Advance what the servos are told more, by the error of their readings, beyond what an encoder resolves."""
        told, stamp_s = self._told, self._stamp_s
        if not self._largest_trim_m.any() or len(told) < 2 or stamp_s < told[0][0]:
            return
        at = min(max(bisect_left(told, stamp_s, key=lambda one: one[0]), 1), len(told) - 1)
        (before_s, before), (after_s, after) = told[at - 1], told[at]
        way = (stamp_s - before_s) / (after_s - before_s) if after_s > before_s else 1.0
        error = before + way * (after - before) - self._reading
        error[(np.abs(error) < self._count_m) | (error * self._cut < 0)] = 0.0
        further = self._trim + self._trim_per_s * dt * error
        trim = np.clip(further, -self._largest_trim_m, self._largest_trim_m)
        self._trim = trim if self._coupling is None else self._coupling.nearest(np.zeros(len(trim)), trim)

    def _integrate(self, dt: float) -> None:
        """Advance the integral by the error of the newest shape or tip, against the reference of its time."""
        shape, rate = self._seen, self.settings.integral_per_s
        seen = shape or self._seen_tip
        if seen is None or not rate or self._stamp_s - seen[0] > LATEST_SEEN_S:
            return
        at = min(bisect_left(self._wanted, seen[0], key=lambda one: one[0]), len(self._wanted) - 1)
        wanted = self._wanted[at][1]
        if shape is not None:
            self._error = wanted - shape[1]
        elif self._kinematics is not None:
            place, jacobian = self._kinematics.place(wanted)
            # Of the integral, too, only what moves the tip: the rest would be left over from other places.
            moved = place - seen[1] + jacobian @ self._integral
            self._error = steady_inverse(jacobian) @ moved - self._integral
        further = rate * dt * self._error
        further[self._error * self._short < 0] = 0.0  # it is limited that way
        self._integral = np.clip(self._integral + further, -self._largest_m, self._largest_m)

    @property
    def problem(self) -> str:
        """What a setting asks for in vain, a sentence; empty: nothing."""
        if self.settings.pretension_by != BY_LOAD or np.isfinite(self._measured_n).all():
            return ""
        return f"control.pretension_by is {BY_LOAD}, and not all loads are measured: the model's have the pretension"

    def _keep_taut(self, dt: float) -> None:
        """Advance the common tension of each part, (N,), N, by what its least measured load lacks."""
        if self.settings.pretension_by != BY_LOAD or self._blended_s < BLEND_S:
            return
        if not np.isfinite(self._measured_n).all():
            return
        lacking = (self.pretension - self._measured_n) / self._common
        for rows in self.manifold.tendon_slices:
            self._common_n[rows] += LOADS_PER_S * dt * lacking[rows].max()
        self._common_n = np.clip(self._common_n, 0.0, self._largest_n)

    def _solve(self, clarke: Vector) -> bool:
        """Find shape and tensions with these coordinates by Newton's method, from the last ones; False: these stay.

        The strategy's slope is taken as that of the least tensions (26): what it adds forces no coordinate but for
        terms of second order, which the next iterations correct.
        """
        balance, C, rod = self._balance, self._held_C, self.rod
        asked = self._into_held @ clarke
        c, u, n = self.coefficients, self._u, self.rod.n
        matrix, path = np.zeros((n + len(u), n + len(u))), self._path
        for _ in range(_ITERATIONS):
            self.forces.step(vector(u))
            tension = np.array(self.forces.tension) + self._common_n * self._common
            if self._balanced is not None and self._coupling is not None:
                away = self.tendons.reading(self._path_at(c), tension) - self._coupling.offset_m
                tension = tension + self._balanced @ away
            state = balance.pulled(c, tension)
            path = rod.rest_m - state.length_m
            moved = -C @ state.gradient
            matrix[:n, :n], matrix[:n, n:], matrix[n:, :n] = state.own_hessian, -moved.T, moved
            if self._balanced is not None:  # modes that are not controlled are forced as far as they move
                by_path = state.gradient.T @ self._balanced
                matrix[:n, :n] -= by_path @ state.gradient
                matrix[:n, n:] += by_path @ (C / self.tendons.stiffness_n_per_m).T
            missed = asked - C @ path
            try:
                step = np.linalg.solve(matrix, np.concatenate([-balance.root @ state.force, missed]))
            except np.linalg.LinAlgError:
                return False
            size = float(np.abs(rod.scale * step[:n]).max())
            settled = np.abs(step[n:]).max() <= _FORCE_TOLERANCE_N and np.abs(missed).max() <= _LENGTH_TOLERANCE_M
            if size <= _TOLERANCE and settled:
                if tension.min() < 0:  # only where the motors decide: the preload is too low for this shape
                    return False
                self.coefficients, self._u, self._path, self.tension = c, u, path, tension
                return True
            if not math.isfinite(size):
                break
            step *= min(1.0, _LARGEST_TURN_RAD / max(size, _TOLERANCE))
            c, u = c + step[:n], u + step[n:]
        return False

    def terms(self) -> PidTerms:
        """Error and integral of the last step, m; what other laws have besides is NaN."""
        nothing = np.full(self.coordinate_count, np.nan)
        return PidTerms(
            self._position - np.array(self.clarke),
            nothing,
            self._integral.copy(),
            nothing,
            self._position,
            self._position + self._integral,
            np.full(self.coordinate_count, self._saturated),
        )


def _balancing(robot: Robot, coupling: Coupling, displacement_matrix: Vector) -> Vector:
    """Change of the tensions, without a force, that takes displacements into the range of T, (N, N), N/m."""
    missed = np.abs(coupling.missed @ displacement_matrix).max(axis=0) > 1e-9 * np.abs(displacement_matrix).max()
    if missed.any():
        names = ", ".join(str(index + 1) for index in np.flatnonzero(missed))
        expected = (
            f"motors that can follow all {missed.size} {robot.coordinates_name}: these cannot follow {names};"
            " control.modes says how many modes are controlled instead"
        )
        raise ParameterError("transmission.matrix", coupling.matrix.tolist(), expected)
    left, size, _ = np.linalg.svd(displacement_matrix)
    idle = left[:, len(size) :]  # tensions that force none of them
    stretch = coupling.missed @ (idle / robot.tendon_stiffnesses_n_per_m[:, None])
    motors = coupling.matrix.shape[1]
    if np.linalg.matrix_rank(stretch, 1e-6 * np.abs(stretch).max()) < robot.tendon_count - motors:
        expected = "motors whose tendons pull against each other wherever they share one"
        raise ParameterError("transmission.matrix", coupling.matrix.tolist(), expected)
    return np.asarray(-idle @ np.linalg.pinv(stretch, 1e-6) @ coupling.missed)


def _of_servos(robot: Robot) -> tuple[Vector, float]:
    """By what each servo gives way to a newton, (N,), m, and the time by which the slowest is behind, s."""
    actuators = robot.actuators
    if actuators is None or actuators.servo is None:
        raise ParameterError("robot.actuators.servo", None, "position loops, whose actuators take displacements")
    w, mass_kg = (actuators.each(key, robot.tendon_count) for key in ("bandwidth_rad_per_s", "reflected_mass_kg"))
    return 1 / (mass_kg * w**2), 2 / float(w.min())
