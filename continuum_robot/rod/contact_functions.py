# SPDX-License-Identifier: Apache-2.0
"""Everything that a contact observer needs of the model in one compiled call.

Momentum, the gradient of the Lagrangian, their exact derivatives with respect to c and c_rate, and the body Jacobians
along the backbone, from one march from the base to the tip.

With twists (linear, angular) about the base origin in base axes: the unit curvatures of the cross-section at s turn
what lies beyond about the axes e(s) = (p x R e_i, R e_i), so the Jacobian is J_a(s) = integral of phi_a e over [0, s],
and its derivatives are again integrals along the backbone:

    V = J c'              Y_b = dV/dc_b - ad(J_b) V = - integral of phi_b ad(e) V
    h_i = G_i V(s_i)      H(s) = sum of h_i over the masses beyond s                 z = ad(e)^T H
    dT/dc'_a = sum J_a . h_i                              dT/dc_b = - integral of phi_b z . V
    d2T/dc'_a dc'_b = sum J_a . G_i J_b
    d2T/dc'_a dc_b = sum J_a . G_i Y_b - integral of phi_b z . J_a
    d2T/dc_b dc_d = sum Y_b . G_i Y_d - integral of (phi_b z . Y_d + phi_d z . Y_b)

Y_b is the derivative of the body twist, carried to the base axes. Gravity goes the same way with the wrench W(s) of all
weights beyond s. That is the Hessian of the Lagrangian at a third of the cost of the gradient by automatic
differentiation; the tests hold one against the other. Integrals are by Gauss-Legendre collocation between the masses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis_families.chebyshev import shifted_chebyshev
from continuum_robot.rod.code_generation import FastFunction, compile_functions
from continuum_robot.rod.frames import step_functions
from continuum_robot.rod.inertia import Station, stations
from continuum_robot.rod.kinematics import hat
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.tendon_friction import TendonFriction
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]

_INTERPOLATION_DEGREE = 9


@dataclass(frozen=True, slots=True)
class ContactTerms:
    """Terms of the model at one state.

    Attributes
    ----------
    momentum : p = dL/dc_rate, johnston (43), shape (n,), N.m^2.s
    known_force : dL/dc - D c_rate: what changes the momentum without tendons, friction and contact, shape (n,), N.m^2
    mass : dp/dc_rate = M, shape (n, n), kg.m^4
    momentum_by_c : dp/dc, shape (n, n)
    force_by_c : d(known_force)/dc, shape (n, n)
    force_by_rate : derivative of known_force by c_rate, (dp/dc)^T - D, shape (n, n)
    jacobians : body Jacobians (linear, angular) at ``ContactFunctions.nodes_m``, shape (k, 6, n)
    """

    momentum: Vector
    known_force: Vector
    mass: Vector
    momentum_by_c: Vector
    force_by_c: Vector
    force_by_rate: Vector
    jacobians: Vector


class ContactFunctions:
    """The compiled terms of a robot. Not for use by two threads at once.

    Parameters
    ----------
    model : the rod model; its choice of inertias is kept
    collocation_nodes : Gauss-Legendre nodes between two masses: with 2 the forces of a segment that bends by a right
        angle agree with those of ``model`` to about 1e-5, with 4 to better than 1e-6
    compile : "auto", "always" or "never", see :func:`~continuum_robot.rod.code_generation.compile_functions`
    progress : receives a line where something has to be compiled

    Attributes
    ----------
    nodes_m : arc lengths of the Jacobians, from the base, increasing, the first 0, shape (k,), m

    Raises
    ------
    ParameterError : a number of nodes that is not 1 to 8
    """

    def __init__(
        self,
        model: RodModel,
        *,
        collocation_nodes: int = 2,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if not 1 <= collocation_nodes <= 8:
            raise ParameterError("collocation_nodes", collocation_nodes, "1 to 8")
        self.model = model
        self.size = model.size
        function, places_m = _contact_terms(model, collocation_nodes)
        self.nodes_m: Vector = np.concatenate([[0.0], places_m])
        self._function: FastFunction = compile_functions(
            [function], f"the contact model of {model.robot.name}", compile=compile, progress=progress
        )[function.name()]
        self._damping = np.asarray(model.damping)

    @property
    def compiled(self) -> bool:
        """Whether the terms are machine code."""
        return self._function.compiled

    @property
    def instructions(self) -> int:
        """Number of elementary operations of a call."""
        return self._function.instructions

    def __call__(self, c: ArrayLike, c_rate: ArrayLike) -> ContactTerms:
        """Terms at the state c (n,), c_rate (n,)."""
        *terms, jacobians = self._function.evaluate(c, c_rate)
        momentum, force, mass, momentum_by_c, force_by_c = (term.copy() for term in terms)
        stacked = np.empty((6 * self.nodes_m.size, self.size))
        stacked[:6], stacked[6:] = 0.0, jacobians
        return ContactTerms(
            momentum,
            force,
            mass,
            momentum_by_c,
            force_by_c,
            momentum_by_c.T - self._damping,
            stacked.reshape(-1, 6, self.size),
        )

    def interpolation(self, s_m: ArrayLike) -> Vector:
        """Matrix E that takes values at the nodes to arc lengths, shape (places, k).

        ``tensordot(E, jacobians, 1)`` are the body Jacobians at ``s_m`` (m, in [0, length]): by segment, the polynomial
        of degree 9 through (or closest to) the nodes in it, which a Jacobian on a segment is to 1e-6 up to a bending
        of a right angle.

        Raises
        ------
        ParameterError : an arc length off the robot
        """
        robot = self.model.robot
        places = np.atleast_1d(np.asarray(s_m, dtype=float))
        if not np.all((places >= 0) & (places <= robot.length_m * (1 + 1e-9))):
            raise ParameterError("s_m", s_m, f"arc lengths in [0, {robot.length_m:g}] m")
        matrix = np.zeros((places.size, self.nodes_m.size))
        for start_m, segment in zip(robot.segment_starts_m, robot.segments, strict=True):
            end_m = start_m + segment.length_m
            inside = (places >= start_m) & (places <= end_m + 1e-9)
            nodes = np.flatnonzero((self.nodes_m >= start_m - 1e-12) & (self.nodes_m <= end_m + 1e-12))
            degree = min(_INTERPOLATION_DEGREE, nodes.size - 1)
            vandermonde = _chebyshev((self.nodes_m[nodes] - start_m) / segment.length_m, degree)
            rows = _chebyshev((places[inside] - start_m) / segment.length_m, degree) @ np.linalg.pinv(vandermonde)
            block = np.zeros((rows.shape[0], self.nodes_m.size))
            block[:, nodes] = rows
            matrix[inside] = block
        return matrix


def _chebyshev(ratio: Vector, degree: int) -> Vector:
    return np.asarray(np.polynomial.chebyshev.chebvander(2 * ratio - 1, degree), dtype=float)


def _collocation(count: int) -> tuple[Vector, Vector, Vector]:
    """Nodes on [0, 1], weights, and integrals from 0 to each node (row) of the polynomial through the nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = (nodes + 1) / 2, weights / 2
    powers = np.arange(count)
    inverse = np.linalg.inv(np.vander(nodes, count, increasing=True))
    return nodes, weights, (nodes[:, None] ** (powers + 1) / (powers + 1)) @ inverse


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the integrals: weight times each coefficient's function, axes e_x, e_y, and J, V, Y there."""

    interval: int
    place: slice
    factors: Vector  # (coefficients of the segment / 2,)
    axes: Any  # (6, 2)
    jacobian: Any  # (6, n)


@dataclass(frozen=True, slots=True)
class _Mass:
    """A body in base axes: mass at a centre (3,), inertia about it (3, 3) or None, the interval that ends there."""

    interval: int
    mass_kg: float
    center: Any
    inertia: Any

    def at_center(self, twists: Any) -> Any:
        """Velocities of the centre of mass for twists about the origin, (6, k) to (3, k)."""
        return twists[:3, :] - ca.mtimes(hat(self.center), twists[3:, :])


def _contact_terms(model: RodModel, count: int) -> tuple[ca.Function, Vector]:
    """(c, c_rate) -> the terms, and the arc lengths of the Jacobians after the base."""
    n = model.size
    c, rate = ca.SX.sym("c", n), ca.SX.sym("c_rate", n)
    nodes, masses, ends, body_jacobians, places_m = _march(model, c, count)
    gravity = ca.DM(model.robot.gravity_m_per_s2)
    constant = ca.sparsify(ca.DM(model.axial_mass + model.actuator_mass))

    momenta, weights = [ca.SX.zeros(6) for _ in ends], [ca.SX.zeros(6) for _ in ends]
    for mass in masses:
        twist = ca.mtimes(ends[mass.interval], rate)
        impulse = mass.mass_kg * mass.at_center(twist)
        weight: Any = mass.mass_kg * gravity
        turning = ca.cross(mass.center, impulse)
        if mass.inertia is not None:
            turning += ca.mtimes(mass.inertia, twist[3:])
        momenta[mass.interval] += ca.vertcat(impulse, turning)
        weights[mass.interval] += ca.vertcat(weight, ca.cross(mass.center, weight))
    beyond_momentum, beyond_weight = _beyond(momenta), _beyond(weights)

    # Y at the nodes and masses: the same quadrature as J's, of - phi ad(e) V.
    brackets = [_ad_columns(node.axes, ca.mtimes(node.jacobian, rate)) for node in nodes]
    steps, offsets = _accumulated(model, nodes, brackets, count)
    gradient, by_rate = ca.SX.zeros(n), ca.SX.zeros(n, n)
    curvature, half = ca.SX.zeros(n, n), ca.SX.zeros(n, n)
    for node, Y in zip(nodes, offsets, strict=True):
        z = _ad_transposed(node.axes, beyond_momentum[node.interval])  # (2, 6)
        y = _ad_transposed(node.axes, beyond_weight[node.interval])
        lift = ca.mtimes(node.axes.T, beyond_weight[node.interval])
        z_J, z_Y, y_J = ca.mtimes(z, node.jacobian), ca.mtimes(z, Y), ca.mtimes(y, node.jacobian)
        z_V = ca.mtimes(z_J, rate)
        for order, factor in enumerate(node.factors):
            rows = slice(node.place.start + 2 * order, node.place.start + 2 * order + 2)
            share = float(factor)
            gradient[rows] += share * (lift - z_V)
            by_rate[rows, :] -= share * z_J
            half[rows, :] -= share * (z_Y + y_J / 2)
    mass_matrix, transport = ca.SX.zeros(n, n), ca.SX.zeros(n, n)
    for mass in masses:
        J, Y = ends[mass.interval], steps[mass.interval]
        moved, drifted = mass.at_center(J), mass.at_center(Y)
        mass_matrix += mass.mass_kg * ca.mtimes(moved.T, moved)
        transport += mass.mass_kg * ca.mtimes(moved.T, drifted)
        curvature += mass.mass_kg * ca.mtimes(drifted.T, drifted)
        half -= mass.mass_kg / 2 * ca.mtimes(ca.mtimes(J[3:, :].T, hat(gravity)), moved)
        if mass.inertia is not None:
            mass_matrix += ca.mtimes(J[3:, :].T, ca.mtimes(mass.inertia, J[3:, :]))
            turned = ca.mtimes(mass.inertia, Y[3:, :])
            transport += ca.mtimes(J[3:, :].T, turned)
            curvature += ca.mtimes(Y[3:, :].T, turned)
    momentum = ca.mtimes(mass_matrix + constant, rate)  # johnston (43)
    momentum_by_c = transport + by_rate.T
    stiffness, damping = ca.sparsify(ca.DM(model.stiffness)), ca.sparsify(ca.DM(model.damping))
    force = gradient - stiffness @ c - damping @ rate
    outputs = [
        momentum,
        force,
        ca.tril2symm(ca.tril(mass_matrix)) + constant,
        momentum_by_c,
        ca.tril2symm(ca.tril(curvature + half + half.T)) - stiffness,
        ca.vertcat(*body_jacobians),
    ]
    names = ["momentum", "known_force", "mass", "momentum_by_c", "force_by_c", "jacobians"]
    function = ca.Function(
        "contact_terms", [c, rate], [ca.densify(value) for value in outputs], ["c", "c_rate"], names, {"cse": True}
    )
    return function, np.array(places_m)


def _march(model: RodModel, c: Any, count: int) -> tuple[list[_Node], list[_Mass], list[Any], list[Any], list[float]]:
    """Nodes and masses from the base to the tip; after each interval J, the body Jacobian and the arc length."""
    robot, n = model.robot, model.size
    ratios, shares, inner = _collocation(count)
    nodes: list[_Node] = []
    masses: list[_Mass] = []
    ends: list[Any] = []
    body_jacobians: list[Any] = []
    places_m: list[float] = []
    rotation, position, jacobian = ca.SX.eye(3), ca.SX.zeros(3), ca.SX(6, n)
    for index, place in enumerate(coefficient_slices(robot)):
        segment, base_m = robot.segments[index], float(robot.segment_starts_m[index])
        frame, own = step_functions(segment).frame, c[place]
        start_m = 0.0
        for group in _grouped(stations(robot, index, model.parts, model.quadrature_nodes)):
            length_m = group[0].s_m - start_m
            axes: list[Any] = []
            functions: list[Vector] = []
            at_m = start_m
            for target_m in [*(start_m + ratios * length_m), group[0].s_m]:
                turn, move = frame(own, at_m, float(target_m) - at_m)
                position = position + rotation @ move
                rotation = rotation @ turn
                at_m = float(target_m)
                if len(axes) < len(ratios):
                    pair = rotation[:, :2]
                    axes.append(ca.vertcat(hat(position) @ pair, pair))
                    values = shifted_chebyshev(at_m / segment.length_m, segment.basis.order)
                    functions.append(np.array([float(value) for value in values]))
            for k in range(len(ratios)):
                here = ca.SX(jacobian)
                for share, axis, function in zip(inner[k], axes, functions, strict=True):
                    _add(here, place, length_m * share * function, axis)
                nodes.append(_Node(len(ends), place, length_m * shares[k] * functions[k], axes[k], here))
            jacobian = ca.SX(jacobian)
            for share, axis, function in zip(shares, axes, functions, strict=True):
                _add(jacobian, place, length_m * share * function, axis)
            masses += _bodies(group, len(ends), rotation, position)
            ends.append(jacobian)
            linear = jacobian[:3, :] - hat(position) @ jacobian[3:, :]
            body_jacobians.append(ca.vertcat(rotation.T @ linear, rotation.T @ jacobian[3:, :]))
            start_m = group[0].s_m
            places_m.append(base_m + start_m)
    return nodes, masses, ends, body_jacobians, places_m


def _grouped(found: list[Station]) -> list[list[Station]]:
    """Stations by place."""
    groups: dict[float, list[Station]] = {}
    for station in found:
        groups.setdefault(station.s_m, []).append(station)
    return list(groups.values())


def _add(matrix: Any, place: slice, factors: Vector, axes: Any) -> None:
    """Add the columns factor_k axes to the segment's coefficients."""
    for order, factor in enumerate(factors):
        matrix[:, place.start + 2 * order : place.start + 2 * order + 2] += float(factor) * axes


def _bodies(group: list[Station], interval: int, rotation: Any, position: Any) -> list[_Mass]:
    """The masses of the stations at one place."""
    found = []
    for station in group:
        if station.total_mass_kg == 0 and not station.turning:
            continue
        center, inertia = position, None
        if station.center_of_mass_m is not None:
            center = position + rotation @ ca.DM(station.center_of_mass_m)
        across, along = station.total_inertia_kg_m2
        if across > 0 or along > 0:
            axis = rotation[:, 2]
            inertia = across * ca.SX.eye(3) + (along - across) * (axis @ axis.T)
        if station.tensor_kg_m2 is not None:
            tensor = rotation @ ca.DM(station.tensor_kg_m2) @ rotation.T
            inertia = tensor if inertia is None else inertia + tensor
        found.append(_Mass(interval, station.total_mass_kg, center, inertia))
    return found


def _beyond(values: list[Any]) -> list[Any]:
    """For each interval the sum over the masses at its end and beyond."""
    sums: list[Any] = []
    total = ca.SX.zeros(6)
    for value in reversed(values):
        total = total + value
        sums.append(total)
    return sums[::-1]


def _accumulated(model: RodModel, nodes: list[_Node], integrands: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    """Integrals of - phi_b integrand (6, 2) along the backbone, shape (6, n): at the masses, and at the nodes."""
    _, shares, inner = _collocation(count)
    total = ca.SX(6, model.size)
    at_masses, at_nodes = [], []
    for first in range(0, len(nodes), count):
        group, values = nodes[first : first + count], integrands[first : first + count]
        for k in range(count):
            here = ca.SX(total)
            for share, own, node, value in zip(inner[k], shares, group, values, strict=True):
                _add(here, node.place, -share / own * node.factors, value)
            at_nodes.append(here)
        total = ca.SX(total)
        for node, value in zip(group, values, strict=True):
            _add(total, node.place, -node.factors, value)
        at_masses.append(total)
    return at_masses, at_nodes


def _ad_columns(axes: Any, twist: Any) -> Any:
    """Brackets ad(e) V of both axes with a twist, shape (6, 2)."""
    columns = []
    for k in range(2):
        v, w = axes[:3, k], axes[3:, k]
        columns.append(ca.vertcat(ca.cross(w, twist[:3]) + ca.cross(v, twist[3:]), ca.cross(w, twist[3:])))
    return ca.horzcat(*columns)


def _ad_transposed(axes: Any, wrench: Any) -> Any:
    """Rows (ad(e)^T H)^T of both axes, shape (2, 6)."""
    rows = []
    for k in range(2):
        v, w = axes[:3, k], axes[3:, k]
        rows.append(ca.horzcat(ca.cross(wrench[:3], w).T, (ca.cross(wrench[:3], v) + ca.cross(wrench[3:], w)).T))
    return ca.vertcat(*rows)


class FrictionTerms:
    """Friction of capstan-driven tendons as a generalised force, with exact derivatives; one compiled call.

    Parameters
    ----------
    friction : of the robot; its coefficients are kept
    compile, progress : as in :class:`ContactFunctions`
    """

    def __init__(
        self, friction: TendonFriction, *, compile: str = "auto", progress: Callable[[str], None] | None = None
    ) -> None:
        n, k = friction.robot.coefficient_count, friction.capstan_count
        c, rate, torque = ca.SX.sym("c", n), ca.SX.sym("c_rate", n), ca.SX.sym("capstan_torque", k)
        lost = friction.symbolic(c, rate, torque, ca.DM(friction.coefficients))
        force = ca.mtimes(ca.SX(ca.sparsify(ca.DM(friction.jacobian))).T, lost)  # johnston (38)
        outputs = [force, ca.jacobian(force, c), ca.jacobian(force, rate)]
        function = ca.Function(
            "friction_terms", [c, rate, torque], [ca.densify(value) for value in outputs], {"cse": True}
        )
        self._function = compile_functions(
            [function], f"the tendon friction of {friction.robot.name}", compile=compile, progress=progress
        )["friction_terms"]

    def __call__(self, c: ArrayLike, c_rate: ArrayLike, capstan_torque: ArrayLike) -> tuple[Vector, Vector, Vector]:
        """kappa_fric of johnston (38), (n,), its derivatives by c and by c_rate, (n, n)."""
        force, by_c, by_rate = self._function(c, c_rate, capstan_torque)
        return force, by_c, by_rate
