# SPDX-License-Identifier: Apache-2.0
"""The rod with what drives it: the known forces at a state, of rod, tendons, friction and motors, johnston (42)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.error_budget import Budget
from continuum_robot.estimation.contact.observers import StateTerms
from continuum_robot.estimation.seen_modes import SeenModes
from continuum_robot.robot.description import Robot
from continuum_robot.rod.contact.functions import ContactFunctions, ContactTerms
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import tension_from_torque
from continuum_robot.rod.friction.resistance import Resistance

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Motors:
    """Motors between the measured tensions and the rod: n coefficients, N tendons."""

    damping: Vector
    covariance: Vector
    largest: Vector

    @classmethod
    def of(cls, robot: Robot, tendon_matrix: Vector) -> _Motors | None:
        """Of a robot's file; None without actuators."""
        actuators = robot.actuators
        if actuators is None:
            return None
        keys = "viscous_ns_per_m", "coulomb_n", "cogging_n"
        viscous, dry_n, cogging_n = (actuators.each(key, robot.tendon_count) for key in keys)
        if actuators.friction_travel_m:  # known from the motion: see rod/friction/resistance.py
            dry_n = np.zeros_like(dry_n)
        return cls(
            (viscous * tendon_matrix.T) @ tendon_matrix,
            ((dry_n**2 + cogging_n**2 / 2) * tendon_matrix.T) @ tendon_matrix,
            (dry_n + cogging_n) @ np.abs(tendon_matrix),
        )

    def moving_with(self, terms: ContactTerms, rate: Vector) -> ContactTerms:
        """The rod's terms with the motors' friction."""
        return ContactTerms(
            terms.momentum,
            terms.known_force - self.damping @ rate,
            terms.mass,
            terms.momentum_by_c,
            terms.force_by_c,
            terms.force_by_rate - self.damping,
            terms.jacobians,
        )

    def widened(self, errors: Budget, fraction: float) -> Budget:
        """An error budget with a fraction of dry friction and cogging."""
        if fraction == 0 or not self.largest.any():
            return errors
        return _with(errors, fraction * self.largest, fraction**2 * self.covariance)


def _with(errors: Budget, largest: Vector, covariance: Vector) -> Budget:
    """An error budget with another error, of which the largest is known (n,) and the covariance (n, n)."""
    whole = errors.covariance + covariance
    information: Vector = np.asarray(np.linalg.inv(whole), dtype=float)
    return Budget(errors.bound + largest, whole, information)


@dataclass(frozen=True, slots=True)
class Drives:
    """What the drives do in a cycle."""

    force: Vector
    wires: Vector
    tension: Vector | None = None
    shape: Vector | None = None


class DrivenRod:
    """A rod model with tendons, capstans and motors: n coordinates, N tendons, k capstans.

    The coordinates are the rod's coefficients, or those modes of it that its sensors see: what is not seen follows from
    the measured shape and the modes' own shapes.
    """

    def __init__(
        self,
        robot: Robot,
        functions: ContactFunctions,
        friction: CapstanFriction | None,
        *,
        modes: SeenModes | None = None,
        motors: bool,
    ) -> None:
        self._functions = functions
        self._modes, self.coefficient_count = modes, robot.coefficient_count
        self._tendon_matrix = functions.lever
        self.stiffness: Vector = functions.stiffness
        strains = np.array([row for segment in robot.segments for row in segment.basis.rows])
        whole = functions.rod.arrays.stiffness
        parts = np.array([np.where((strains == strain)[:, None], whole, 0.0) for strain in np.unique(strains)])
        self._elastic = parts if modes is None else modes.shapes.T @ parts
        self._friction = friction = friction or CapstanFriction(robot)
        self._of_torque = tension_from_torque(robot)
        self.capstan_jacobian: Vector = friction.jacobian if modes is None else friction.jacobian @ modes.shapes
        self._capstan_inverse = np.linalg.pinv(self.capstan_jacobian)
        self.rubs = bool(np.any(friction.coefficients > 0))
        self._motors = _Motors.of(robot, self._tendon_matrix) if motors else None
        self._resistance, self._rests = Resistance(robot, motors=motors), True
        self._resisting: Vector = np.zeros(self.coefficient_count)

    def driven(self, c: Vector, tension: ArrayLike | None, capstan_torque: ArrayLike | None) -> Drives:
        """What tensions or torques do at coefficients."""
        if tension is None:
            if not self._friction.capstan_count:
                raise ParameterError("capstan_torque", capstan_torque, "tensions: this robot has no capstans")
            torque = np.asarray(capstan_torque, dtype=float)
            pull, wires = self._of_torque @ torque, self._friction.wires_of_torque(torque)
        else:
            pull = np.asarray(tension, dtype=float)
            wires = self._friction.wires_of_tension(pull)
        if self._functions.linear:
            return Drives(self._tendon_matrix.T @ pull, wires, shape=None if self._modes is None else c)
        force = self._functions.rod.displacement_gradient(c).T @ pull
        return Drives(self.generalized(force), wires, pull, c)

    def coordinates(self, values: Vector) -> Vector:
        """Coordinates of coefficients, or rates of their rates; (coefficients, ...) to (n, ...)."""
        return values if self._modes is None else np.asarray(self._modes.coordinates @ values)

    def covariance(self, matrix: Vector) -> Vector:
        """Covariance of the coordinates, (n, n), for that of the coefficients, or of their rates."""
        return matrix if self._modes is None else np.asarray(self.coordinates(self.coordinates(matrix).T))

    def generalized(self, force: Vector) -> Vector:
        """Force on the coordinates, (n,), for one on the coefficients."""
        return force if self._modes is None else np.asarray(self._modes.shapes.T @ force)

    def evaluate(self, c: Vector, rate: Vector, drives: Drives, other: Vector) -> StateTerms:
        """The model at a state."""
        whole = None
        if self._modes is not None and drives.shape is not None:
            whole = drives.shape + self._modes.shapes @ (c - self.coordinates(drives.shape))
        shape = c if whole is None else whole
        terms = self._functions(shape, rate)
        if self._motors is not None:
            terms = self._motors.moving_with(terms, rate)
        if drives.tension is None:
            known = StateTerms(terms, drives.force + other, shape=whole)
        else:
            _, gradient, by_c = self._functions.rod.pulled(shape, drives.tension)
            pulling = self.generalized(-drives.tension @ gradient)
            softer = self._of_coordinates(by_c)
            known = StateTerms(terms, other + pulling, softer, np.zeros_like(softer), shape=whole)
        if not self.rubs:
            return known
        functions = self._functions
        c_rate = rate if self._modes is None else self._modes.shapes @ rate
        lost = self._friction.force(self._friction.kept(functions.newest, functions.rod), c_rate, drives.wires)
        friction, by_c, by_rate = self.generalized(lost[0]), *map(self._of_coordinates, lost[1:])
        return dataclasses.replace(
            known,
            force=known.force - friction,
            force_by_c=-by_c if known.force_by_c is None else known.force_by_c - by_c,
            force_by_rate=-by_rate if known.force_by_rate is None else known.force_by_rate - by_rate,
            friction=friction,
        )

    def _of_coordinates(self, matrix: Vector) -> Vector:
        return self.generalized(self.generalized(matrix).T).T

    @property
    def strain_count(self) -> int:
        """Kinds of strain that the rod has."""
        return len(self._elastic)

    def elastic(self, c: Vector, state: StateTerms) -> Vector:
        """Elastic forces on the coordinates by the strain that they come from, (strains, n)."""
        return np.asarray(self._elastic @ (c if state.shape is None else state.shape))

    def uncertain_forces(self, c: Vector, state: StateTerms) -> Vector:
        """Forces that errors of parameters scale, (m, n): elastic by strain, of the masses, friction by capstan, and
        what resists by the past of the motion.
        """
        elastic = self.elastic(c, state)
        # Gravity, and little of inertia and damping.
        rows = [*elastic, state.terms.known_force + elastic.sum(axis=0)]
        if state.friction is not None:
            lost = state.friction @ self._capstan_inverse
            rows += list(lost[:, None] * self.capstan_jacobian)
        if self._resistance.acts:
            rows.append(self.generalized(self._resisting))
        return np.array(rows)

    def uncertain_fractions(self, stiffness_fraction: float, friction_fraction: float) -> list[float]:
        """Standard deviations of the fractions by which :meth:`uncertain_forces` are off, m of them."""
        frictions = (len(self.capstan_jacobian) if self.rubs else 0) + self._resistance.acts
        return [stiffness_fraction] * (self.strain_count + 1) + [friction_fraction] * frictions

    def widened(self, errors: Budget, fraction: float, resistance_fraction: float) -> Budget:
        """An error budget with a fraction of the motors' dry friction and cogging, and what their past
        leaves unknown.
        """
        if self._motors is not None:
            errors = self._motors.widened(errors, fraction)
        if not self._resistance.acts:
            return errors
        rows = np.array([self.generalized(force) for force in self._resistance.uncertain(resistance_fraction)])
        return _with(errors, np.abs(rows).sum(axis=0), rows.T @ rows)

    def with_tension_errors(self, errors: Budget, c: Vector, deviation_n: Vector, sigma: float) -> Budget:
        """An error budget with what errors of the tensions make."""
        gradient = self._functions.rod.displacement_gradient(c)
        rows = np.array([self.generalized(row) for row in deviation_n[:, None] * gradient])
        covariance = rows.T @ rows
        return _with(errors, sigma * np.sqrt(np.diag(covariance)), covariance)

    def resisting(self, c: Vector, displacement_m: Vector | None) -> Vector:
        """What resists by the past of the motion, going on to a pose: dry friction of the motors, hysteresis."""
        resistance = self._resistance
        if not resistance.acts or not math.isfinite(float(c.sum())):
            return self._resisting
        pulled = displacement_m
        if pulled is None or not math.isfinite(float(pulled.sum())):
            pulled = resistance.displacement(c)
        if self._rests:
            resistance.reset(c, pulled)
            self._rests = False
        self._resisting = resistance.move(c, pulled)
        return self._resisting

    @property
    def past_unknown(self) -> bool:
        """Whether something resists by a past of the motion that is not known in all."""
        return self._resistance.acts and (self._rests or bool(self._resistance.uncertain(0.0).any()))

    def forget_motion(self) -> None:
        """The past of the motion is not known any more."""
        self._rests = True
