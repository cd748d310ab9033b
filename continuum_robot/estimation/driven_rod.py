# SPDX-License-Identifier: Apache-2.0
"""The rod with what drives it: the known forces at a state, of rod, tendons, friction and motors, johnston (42)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.disturbance_observer import StateTerms
from continuum_robot.estimation.error_budget import Budget
from continuum_robot.robot.description import Robot
from continuum_robot.rod.capstans import drives, torque_from_tension
from continuum_robot.rod.contact_functions import ContactFunctions, ContactTerms, FrictionTerms
from continuum_robot.rod.tendon_friction import TendonFriction

Vector = NDArray[np.float64]


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


class DrivenRod:
    """A rod model with tendons, capstans and motors: n coefficients, N tendons, k capstans.

    Parameters
    ----------
    robot : of the file
    functions : the terms of the rod
    friction : of the tendons; None: that of the robot's capstans, if it has some
    motors : tensions are those of the motors, whose inertia and friction belong to the model
    compile, progress : as in :func:`~continuum_robot.rod.code_generation.compile_functions`

    Attributes
    ----------
    stiffness : of the coefficients, (n, n)
    capstan_jacobian : of the capstans' angles, (k, n)
    rubs : whether the tendons have friction
    """

    def __init__(
        self,
        robot: Robot,
        functions: ContactFunctions,
        friction: TendonFriction | None,
        *,
        motors: bool,
        compile: str,
        progress: Callable[[str], None] | None,
    ) -> None:
        self._functions = functions
        self._tendon_matrix = functions.model.tendon_matrix
        self.stiffness: Vector = np.asarray(functions.model.stiffness)
        self._plane = np.arange(len(self.stiffness)) % 2
        self._torque_from_tension = torque_from_tension(robot)
        friction = friction or TendonFriction(robot, compile=compile, progress=progress)
        self.capstan_jacobian = friction.jacobian
        self._capstan_inverse = np.linalg.pinv(friction.jacobian)
        self.rubs = bool(np.any(friction.coefficients > 0))
        self._friction = FrictionTerms(friction, compile=compile, progress=progress) if self.rubs else None
        self._motors = _Motors.of(robot, self._tendon_matrix) if motors else None

    def driven(self, tension: ArrayLike | None, capstan_torque: ArrayLike | None) -> tuple[Vector, Vector]:
        """Generalised force of the drives, (n,), N.m^2, and torques of the capstans, (k,), N.m.

        Parameters
        ----------
        tension : of every tendon, (N,), N; None: ``capstan_torque`` is known instead
        capstan_torque : of every capstan, (k,), N.m
        """
        if tension is not None:
            forces = np.asarray(tension, dtype=float)
            return self._tendon_matrix.T @ forces, self._torque_from_tension @ forces
        torque = np.asarray(capstan_torque, dtype=float)
        return self.capstan_jacobian.T @ torque, torque

    def evaluate(self, c: Vector, rate: Vector, load: Vector, torque: Vector) -> StateTerms:
        """The model at a state.

        Parameters
        ----------
        c, rate : coefficients and their rates, (n,), 1/m and 1/(m.s)
        load : generalised force of drives and of everything else that is known, (n,), N.m^2
        torque : of every capstan, (k,), N.m
        """
        terms = self._functions(c, rate)
        if self._motors is not None:
            terms = self._motors.moving_with(terms, rate)
        if self._friction is None:
            return StateTerms(terms, load)
        friction, by_c, by_rate = self._friction(c, rate, torque)
        return StateTerms(terms, load - friction, -by_c, -by_rate, friction)

    def uncertain_forces(self, c: Vector, state: StateTerms) -> Vector:
        """Forces that errors of parameters scale, (m, n): elastic by plane, of the masses, friction by capstan.

        Parameters
        ----------
        c : coefficients, (n,), 1/m
        state : the model there
        """
        elastic = self.stiffness @ c
        rows = [np.where(self._plane == plane, elastic, 0.0) for plane in range(2)]
        rows.append(state.terms.known_force + elastic)  # gravity, and little of inertia and damping
        if state.friction is not None:
            lost = state.friction @ self._capstan_inverse
            rows += list(lost[:, None] * self.capstan_jacobian)
        return np.array(rows)

    def uncertain_shares(self, stiffness_share: float, friction_share: float) -> list[float]:
        """Standard deviations of the shares by which :meth:`uncertain_forces` are off, m of them.

        Parameters
        ----------
        stiffness_share, friction_share : of stiffness and masses, and of friction
        """
        return [stiffness_share] * 3 + ([friction_share] * len(self.capstan_jacobian) if self.rubs else [])

    def widened(self, errors: Budget, share: float) -> Budget:
        """An error budget with a share of the motors' dry friction and cogging.

        Parameters
        ----------
        errors : without them
        share : of what they are
        """
        return errors if self._motors is None else self._motors.widened(errors, share)
