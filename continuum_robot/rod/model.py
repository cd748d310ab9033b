# SPDX-License-Identifier: Apache-2.0
"""The symbolic model of a robot: CasADi functions of its strain coefficients c (1/m) and their rates."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.shared import code_in, function_of, sparse
from continuum_robot.rod.friction.capstans import actuator_mass_matrix
from continuum_robot.rod.inertia import (
    PARTS,
    TENDONS,
    Parts,
    damping_matrix,
    sliding_mass,
    stiffness_matrix,
)
from continuum_robot.rod.lagrangian import Terms, inertial_terms
from continuum_robot.rod.moving_chain import expressions_of
from continuum_robot.rod.moving_frame import frame_at, moving_frame_at
from continuum_robot.rod.path_lengths import PathLengths
from continuum_robot.rod.strain.kinematics import stretches
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

Vector = NDArray[np.float64]


class RodModel:
    """Symbolic kinematics, energies and equations of motion of a robot.

    M(c) c'' + C(c, c') c' + g(c) + K c + D c' = G(c)^T tension + generalised force, muhmann (22)-(25) in the strain
    coefficients, whichever strains the rod has; G = dq/dc is constant where it only bends and all tendons are parallel
    to it. Every attribute that is a ``casadi.Function`` takes column vectors in SI units:
    c (1/m), c_rate (1/(m.s)), c_acceleration (1/(m.s^2)), generalised force (N.m^2, work per 1/m).

    Parameters
    ----------
    robot : the robot
    rotational_energy : rotation of cross-sections and disks, second terms of (10), (11), (14), johnston (13), (18)
    tendon_inertia : mass of the tendons (11), (12), (17)
    actuator_inertia : inertia of capstans, a constant mass, johnston (22)-(24); without effect on a robot without any
    backbone_inertia : mass of the backbone (10), (16)
    disk_inertia : mass of the disks (14), (18)
    quadrature_nodes : Gauss-Legendre nodes a segment for distributed mass; None chooses by the basis

    Raises
    ------
    ParameterError : a mechanism, which is no rod
    """

    def __init__(
        self,
        robot: Robot,
        *,
        rotational_energy: bool | None = None,
        tendon_inertia: bool = False,
        actuator_inertia: bool = True,
        backbone_inertia: bool = True,
        disk_inertia: bool = True,
        quadrature_nodes: int | None = None,
    ) -> None:
        if robot.traits.without_statics:
            raise ParameterError("robot", robot.name, "a robot with segments: a mechanism is no rod")
        for one in robot.segments:
            if one.backbone.taper or any(one.backbone.rest_curvature_per_m):
                raise ParameterError("backbone", one.name, "straight and uniform here: rod.Rod has all others")
        self.robot = robot
        self.parts = Parts(rotational_energy is not False, tendon_inertia, backbone_inertia, disk_inertia)
        self.size = robot.coefficient_count
        self.stiffness = stiffness_matrix(robot)
        self.damping = damping_matrix(robot)
        self.axial_mass = sliding_mass(robot, self.tendon_matrix) if tendon_inertia else np.zeros((self.size, self.size))
        self.actuator_mass = actuator_mass_matrix(robot) if actuator_inertia else np.zeros((self.size, self.size))
        self.quadrature_nodes = quadrature_nodes
        self._kind: Any = expressions_of(robot)
        self._c: Any = self._kind.sym("c", self.size)
        self._rate: Any = self._kind.sym("c_rate", self.size)
        self._second: Any = self._kind.sym("c_acceleration", self.size)
        self._force: Any = self._kind.sym("generalized_force", self.size)

    @cached_property
    def tendon_matrix(self) -> Vector:
        """dq/dc of parallel tendons on a rod that only bends, (N, n), m per (1/m); raises ParameterError for others."""
        return tendon_matrix(self.robot)

    @cached_property
    def string_matrix(self) -> Vector:
        """The same of the strings' extensions, (strings, n)."""
        return string_matrix(self.robot)

    # --- terms of the equations of motion

    @cached_property
    def _terms(self) -> Terms:
        return inertial_terms(self.robot, self.parts, self._c, self._rate, self.quadrature_nodes)

    @cached_property
    def _still(self) -> Terms:
        """Of c alone: calls of shared code depend on all that they are given."""
        rate = self._kind(self.size, 1)
        return inertial_terms(self.robot, self.parts, self._c, rate, self.quadrature_nodes)

    @property
    def _constant_mass(self) -> Any:
        return self.axial_mass + self.actuator_mass

    @cached_property
    def _mass(self) -> Any:
        return self._whole_mass(self._terms)

    def _whole_mass(self, terms: Terms) -> Any:
        return ca.tril2symm(ca.tril(terms.mass + sparse(self._constant_mass)))  # symmetric to the last bit

    @cached_property
    def _load(self) -> Any:
        """Everything on the left of the equations of motion but M c''."""
        return self._terms.bias + sparse(self.stiffness) @ self._c + sparse(self.damping) @ self._rate

    @cached_property
    def _kinetic(self) -> Any:
        sliding = ca.dot(self._rate, sparse(self._constant_mass) @ self._rate) / 2  # muhmann (12), johnston (23)
        return sum(self._terms.translational.values()) + sum(self._terms.rotational.values()) + sliding  # muhmann (9)

    @cached_property
    def _potential(self) -> Any:
        elastic = ca.dot(self._c, sparse(self.stiffness) @ self._c) / 2
        return sum(self._still.height.values()) + elastic  # muhmann (15)

    @cached_property
    def acceleration(self) -> ca.Function:
        """(c, c_rate, generalized_force) -> c_acceleration; the force includes the tendons' G^T tension."""
        solve = code_in(self._kind)
        (value,) = solve("solve_symmetric", _solution, self._mass, self._force - self._load)  # muhmann (25)
        return function_of(
            "acceleration",
            [self._c, self._rate, self._force],
            [value],
            ["c", "c_rate", "generalized_force"],
            ["c_acceleration"],
        )

    @cached_property
    def forward_dynamics(self) -> ca.Function:
        """(c, c_rate, tension, generalized_force) -> c_acceleration."""
        c, rate = ca.MX.sym("c", self.size), ca.MX.sym("c_rate", self.size)
        tension = ca.MX.sym("tension", self.robot.tendon_count)
        force = ca.MX.sym("generalized_force", self.size)
        pulled: Any
        if self._paths.linear:
            pulled = ca.MX(ca.DM(self.tendon_matrix.T)) @ tension
        else:
            pulled = self.displacement_jacobian(c).T @ tension
        total = pulled + force  # muhmann (27), summed over segments by (13)
        return ca.Function(
            "forward_dynamics",
            [c, rate, tension, force],
            [self.acceleration(c, rate, total)],
            ["c", "c_rate", "tension", "generalized_force"],
            ["c_acceleration"],
        )

    @cached_property
    def inverse_dynamics(self) -> ca.Function:
        """(c, c_rate, c_acceleration) -> generalised force that makes it so, the tendons' included."""
        return function_of(
            "inverse_dynamics",
            [self._c, self._rate, self._second],
            [self._mass @ self._second + self._load],
            ["c", "c_rate", "c_acceleration"],
            ["generalized_force"],
        )

    @cached_property
    def inertial_dynamics(self) -> ca.Function:
        """(c, c_rate, c_acceleration) -> force of inertia and weight alone."""
        return function_of(
            "inertial_dynamics",
            [self._c, self._rate, self._second],
            [ca.densify(self._mass @ self._second + self._terms.bias)],
            ["c", "c_rate", "c_acceleration"],
            ["inertial_force"],
        )

    @cached_property
    def mass_matrix(self) -> ca.Function:
        """Of c: M, shape (n, n)."""
        mass = self._whole_mass(self._still)
        return function_of("mass_matrix", [self._c], [ca.densify(mass)], ["c"], ["mass"])

    @cached_property
    def coriolis_matrix(self) -> ca.Function:
        """(c, c_rate) -> C in Christoffel symbols of the first kind, so that M' - 2 C is skew; shape (n, n)."""
        mass = self._whole_mass(self._still)
        rate_of_mass = ca.jtimes(ca.densify(mass), self._c, self._rate)
        transport = ca.jacobian(mass @ self._rate, self._c)
        value = (rate_of_mass + transport - transport.T) / 2
        return function_of("coriolis_matrix", [self._c, self._rate], [ca.densify(value)], ["c", "c_rate"], ["coriolis"])

    @cached_property
    def coriolis_force(self) -> ca.Function:
        """(c, c_rate) -> C(c, c_rate) c_rate, shape (n,)."""
        weightless = inertial_terms(
            self.robot, self.parts, self._c, self._rate, self.quadrature_nodes, weight=False
        ).bias
        return function_of(
            "coriolis_force", [self._c, self._rate], [ca.densify(weightless)], ["c", "c_rate"], ["force"]
        )

    @cached_property
    def gravity_force(self) -> ca.Function:
        """Of c: g, the gradient of the potential energy in gravity, shape (n,)."""
        return function_of("gravity_force", [self._c], [ca.densify(self._still.bias)], ["c"], ["force"])

    @cached_property
    def momentum(self) -> ca.Function:
        """(c, c_rate) -> p = dL/dc_rate, shape (n,)."""
        return function_of("momentum", [self._c, self._rate], [self._mass @ self._rate], ["c", "c_rate"], ["momentum"])

    @cached_property
    def momentum_balance(self) -> ca.Function:
        """(c, c_rate) -> (p, p' less the generalised force on the coefficients): what a momentum observer needs.

        p' = M' c_rate + M c'' with M c'' from the equations of motion, muhmann (25); it is dL/dc - D c_rate of johnston
        (43), (44).
        """
        momentum = self._mass @ self._rate
        balance = ca.jtimes(momentum, self._c, self._rate) - self._load
        return function_of(
            "momentum_balance", [self._c, self._rate], [momentum, balance], ["c", "c_rate"], ["momentum", "balance"]
        )

    # --- energies

    @cached_property
    def lagrangian(self) -> ca.Function:
        """(c, c_rate) -> L = T - V, J."""
        return function_of(
            "lagrangian", [self._c, self._rate], [self._kinetic - self._potential], ["c", "c_rate"], ["L"]
        )

    @cached_property
    def lagrangian_gradient(self) -> ca.Function:
        """(c, c_rate) -> dL/dc, shape (n,): with the momentum all that a momentum observer needs."""
        value = ca.gradient(self._kinetic - self._potential, self._c)
        return function_of(
            "lagrangian_gradient", [self._c, self._rate], [ca.densify(value)], ["c", "c_rate"], ["gradient"]
        )

    @cached_property
    def potential(self) -> ca.Function:
        """Of c: (V, its gradient (n,), its Hessian (n, n)): gravity and elastic energy."""
        hessian, gradient = ca.hessian(self._potential, self._c)
        # Common subexpressions are less than a hundredth of the instructions here, and took most of the plant's start.
        return ca.Function(
            "potential",
            [self._c],
            [self._potential, ca.densify(gradient), ca.densify(hessian)],
            ["c"],
            ["V", "gradient", "hessian"],
        )

    @cached_property
    def energies(self) -> ca.Function:
        """(c, c_rate) -> (translational, rotational, gravity of each part in order of PARTS; axial; elastic), J."""
        terms, zero = self._terms, self._kind(0)
        outputs = [
            ca.vertcat(*(group.get(part, zero) for part in PARTS))
            for group in (terms.translational, terms.rotational, terms.height)
        ]
        axial = ca.dot(self._rate, sparse(self.axial_mass) @ self._rate) / 2  # muhmann (12)
        elastic = ca.dot(self._c, sparse(self.stiffness) @ self._c) / 2  # muhmann (19)
        return function_of(
            "energies",
            [self._c, self._rate],
            [*(ca.densify(output) for output in outputs), ca.densify(axial), ca.densify(elastic)],
            ["c", "c_rate"],
            ["translational", "rotational", "gravity", f"axial_of_{TENDONS}", "elastic"],
        )

    # --- kinematics

    @cached_property
    def pose(self) -> ca.Function:
        """(c, s) -> homogeneous matrix of the backbone's frame at arc length s (m) in the base frame, (4, 4)."""
        c, s = ca.SX.sym("c", self.size), ca.SX.sym("s")
        rotation, position = frame_at(self.robot, c, s)
        matrix = ca.vertcat(ca.horzcat(rotation, position), ca.horzcat(0, 0, 0, 1))
        return function_of("pose", [c, s], [ca.densify(matrix)], ["c", "s"], ["pose"])

    @cached_property
    def body_jacobian(self) -> ca.Function:
        """(c, s) -> Jacobian of the twist (linear, angular) of the frame at s in its own axes, (6, n)."""
        c, s = ca.SX.sym("c", self.size), ca.SX.sym("s")
        turning, moving = ca.vertsplit(moving_frame_at(self.robot, c, s).jacobian, 3)
        value = ca.densify(ca.vertcat(moving, turning))
        return function_of("body_jacobian", [c, s], [value], ["c", "s"], ["jacobian"])

    @cached_property
    def _paths(self) -> PathLengths:
        return PathLengths(stretches(self.robot), self.robot.tendon_paths)

    def _displaced(self) -> tuple[Any, Any]:
        """Coefficients, and the displacements of the tendons, expression (N,)."""
        c = ca.SX.sym("c", self.size)
        return c, ca.DM(self._paths.rest_m) - self._paths.expression(c)

    @cached_property
    def displacement(self) -> ca.Function:
        """Of c: q, displacement of every tendon, pulled in positive, m."""
        c, displaced = self._displaced()
        return function_of("displacement", [c], [displaced], ["c"], ["q"])

    @cached_property
    def displacement_jacobian(self) -> ca.Function:
        """Of c: dq/dc, shape (tendons, n), m per (1/m)."""
        c, displaced = self._displaced()
        value = ca.densify(ca.jacobian(displaced, c))
        return function_of("displacement_jacobian", [c], [value], ["c"], ["jacobian"])


def _solution(matrix: Any, right: Any) -> tuple[Any]:
    return (solve_symmetric(matrix, right),)


def solve_symmetric(matrix: Any, right: Any) -> Any:
    """Solution x of a symmetric positive definite system in expressions, by the factors L D L^T.

    Parameters
    ----------
    matrix : (n, n) expression; its lower triangle is read
    right : (n,) expression

    Returns
    -------
    (n,) expression
    """
    size = matrix.shape[0]
    lower = ca.SX.eye(size)
    pivots: list[Any] = []
    for j in range(size):
        pivot = matrix[j, j] - sum((lower[j, k] ** 2 * pivots[k] for k in range(j)), ca.SX(0))
        for i in range(j + 1, size):
            entry = matrix[i, j] - sum((lower[i, k] * lower[j, k] * pivots[k] for k in range(j)), ca.SX(0))
            lower[i, j] = entry / pivot
        pivots.append(pivot)
    solution = [ca.SX(0)] * size
    for i in range(size):
        solution[i] = right[i] - sum((lower[i, k] * solution[k] for k in range(i)), ca.SX(0))
    for i in reversed(range(size)):
        solution[i] = solution[i] / pivots[i] - sum((lower[k, i] * solution[k] for k in range(i + 1, size)), ca.SX(0))
    return ca.vertcat(*solution)
