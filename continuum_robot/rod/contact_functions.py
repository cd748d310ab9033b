# SPDX-License-Identifier: Apache-2.0
"""Everything that a contact observer needs of the model in one compiled call.

Momentum, the gradient of the Lagrangian, their exact derivatives with respect to c and c_rate, and the body Jacobians
along the backbone, from one march from the base to the tip.

With twists (linear, angular) about the base origin in base axes: a unit strain of the cross-section at s moves what
lies beyond along e(s), (p x R e_i, R e_i) for curvature and torsion, (R e_i, 0) for shear and extension, so the
Jacobian is J_a(s) = integral of phi_a e over [0, s], and its derivatives are again integrals along the backbone:

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.code_generation import FastFunction, compile_functions
from continuum_robot.rod.frames import step_functions
from continuum_robot.rod.inertia import Parts, Station, stations
from continuum_robot.rod.kinematics import hat
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.strain_dynamics import robot_damping
from continuum_robot.rod.strain_kinematics import hat as numeric_hat
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.tendon_friction import TendonFriction
from continuum_robot.rod.tendons import beyond_bending, coefficient_slices

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


class ContactModel(Protocol):
    """What the terms are made of: n coefficients.

    Attributes
    ----------
    robot : a rod
    size : n
    parts : what has inertia
    quadrature_nodes : for distributed mass, on a segment; None: chosen by the basis
    stiffness, damping, axial_mass, actuator_mass : constant matrices of the coefficients, (n, n)
    """

    robot: Robot
    size: int
    parts: Parts
    quadrature_nodes: int | None
    stiffness: Vector
    damping: Vector
    axial_mass: Vector
    actuator_mass: Vector


class GeneralModel:
    """A rod of any basis and routing; attributes as of :class:`ContactModel`.

    Parameters
    ----------
    robot : a rod without capstans
    quadrature_nodes : least number for distributed mass, on a segment

    Attributes
    ----------
    rod : its kinematics and tendons
    """

    def __init__(self, robot: Robot, quadrature_nodes: int | None = None) -> None:
        rod = StrainRod.from_robot(robot)
        self.robot, self.rod, self.size = robot, rod, rod.size
        self.parts = Parts(rotational_energy=True)  # nothing else resists torsion
        highest = max(segment.basis.highest_order for segment in robot.segments)
        self.quadrature_nodes: int | None = max(quadrature_nodes or 0, 2 + highest)
        self.stiffness, self.damping = rod.stiffness, robot_damping(robot, rod)
        self.axial_mass = self.actuator_mass = np.zeros((rod.size, rod.size))


def contact_model(robot: Robot, quadrature_nodes: int | None = None) -> RodModel | GeneralModel:
    """The model of a rod for a contact observer.

    Parameters
    ----------
    robot : a rod
    quadrature_nodes : for distributed mass, on a segment, more where the basis of a general rod needs them; None:
        chosen by the basis

    Raises
    ------
    ParameterError : a mechanism, which is no rod
    """
    if robot.segments and beyond_bending(robot):
        return GeneralModel(robot, quadrature_nodes)
    return RodModel(robot, quadrature_nodes=quadrature_nodes)


def lever(model: RodModel | GeneralModel) -> Vector:
    """Displacement of every tendon per coefficient, (N, n): at the straight rod where it hangs on the shape.

    Parameters
    ----------
    model : of a rod
    """
    if isinstance(model, GeneralModel):
        return model.rod.displacement_jacobian(np.zeros(model.size))
    return np.asarray(model.tendon_matrix)


class ContactFunctions:
    """The terms of a robot, compiled where it only bends. Not for use by two threads at once.

    Parameters
    ----------
    model : of the rod; its choice of inertias is kept
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
        model: RodModel | GeneralModel,
        *,
        collocation_nodes: int = 2,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if not 1 <= collocation_nodes <= 8:
            raise ParameterError("collocation_nodes", collocation_nodes, "1 to 8")
        self.model = model
        self.size = model.size
        self._intervals = _intervals(model, collocation_nodes)
        self.nodes_m: Vector = np.array([0.0, *(interval.end_m for interval in self._intervals)])
        self._damping = np.asarray(model.damping)
        self._function: FastFunction | None = None
        if isinstance(model, GeneralModel):
            self._numbers = _Terms(model, _Numbers, collocation_nodes)
            return
        function = _contact_terms(model, self._intervals, collocation_nodes)
        self._function = compile_functions(
            [function], f"the contact model of {model.robot.name}", compile=compile, progress=progress
        )[function.name()]

    @property
    def compiled(self) -> bool:
        """Whether the terms are machine code."""
        return self._function is not None and self._function.compiled

    @property
    def instructions(self) -> int:
        """Number of elementary operations of a call; 0 where the terms are not generated."""
        return 0 if self._function is None else self._function.instructions

    def __call__(self, c: ArrayLike, c_rate: ArrayLike) -> ContactTerms:
        """Terms at the state c (n,), c_rate (n,)."""
        *terms, jacobians = self._evaluated(c, c_rate)
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

    def _evaluated(self, c: ArrayLike, c_rate: ArrayLike) -> tuple[Vector, ...]:
        if self._function is not None:
            return self._function.evaluate(c, c_rate)
        model = self.model
        shape, rate = np.asarray(c, dtype=float), np.asarray(c_rate, dtype=float)
        if not isinstance(model, GeneralModel) or shape.shape != (self.size,) or rate.shape != (self.size,):
            raise ParameterError("c, c_rate", (shape.shape, rate.shape), f"shapes ({self.size},)")
        frames = _numeric_frames(model.rod, shape, self._intervals)
        return self._numbers.all(shape, rate, self._intervals, frames)

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
class _Interval:
    """A length of the backbone between two places with masses.

    Attributes
    ----------
    place : columns of its segment's coefficients
    start_m, length_m : from its segment's start
    nodes_m, end_m : nodes of the integrals, and its end, from the robot's base
    bases : B at the nodes, rows of the strains that the segment has, (r, k) each
    rows : which these are, (r,)
    bodies : what is at its end
    """

    segment: int
    place: slice
    start_m: float
    length_m: float
    nodes_m: Vector
    end_m: float
    bases: tuple[Vector, ...]
    rows: NDArray[np.intp]
    bodies: tuple[Station, ...]


def _intervals(model: ContactModel, count: int) -> list[_Interval]:
    """From the base to the tip, between masses, breaks of the basis and segments."""
    robot, ratios = model.robot, _collocation(count)[0]
    found = []
    for index, place in enumerate(coefficient_slices(robot)):
        segment, base_m = robot.segments[index], float(robot.segment_starts_m[index])
        rows = np.array(sorted(set(segment.basis.rows)))
        groups: dict[float, list[Station]] = {share * segment.length_m: [] for share in (*segment.basis.breaks, 1.0)}
        for station in stations(robot, index, model.parts, model.quadrature_nodes):
            if station.total_mass_kg > 0 or station.turning:
                groups.setdefault(min(station.s_m, segment.length_m), []).append(station)
        start_m = 0.0
        for end_m in sorted(groups):
            length_m = end_m - start_m
            nodes_m = start_m + ratios * length_m
            found.append(
                _Interval(
                    index,
                    place,
                    start_m,
                    length_m,
                    base_m + nodes_m,
                    base_m + end_m,
                    tuple(basis_matrix(segment.basis, float(at) / segment.length_m)[rows] for at in nodes_m),
                    rows,
                    tuple(groups[end_m]),
                )
            )
            start_m = end_m
    return found


Frame = tuple[Any, Any]


def _symbolic_frames(robot: Robot, c: Any, intervals: list[_Interval]) -> Iterator[list[Frame]]:
    """Rotation and position at the nodes and at the end of each interval, as expressions."""
    rotation, position = ca.SX.eye(3), ca.SX.zeros(3)
    for interval in intervals:
        frame, base_m = step_functions(robot.segments[interval.segment]).frame, interval.end_m - interval.length_m
        own, at_m, found = c[interval.place], interval.start_m, []
        for target_m in [*interval.nodes_m, interval.end_m]:
            end_m = interval.start_m + float(target_m) - base_m
            turn, move = frame(own, at_m, end_m - at_m)
            position, rotation, at_m = position + rotation @ move, rotation @ turn, end_m
            found.append((rotation, position))
        yield found


def _numeric_frames(rod: StrainRod, c: Vector, intervals: list[_Interval]) -> Iterator[list[Frame]]:
    """The same in numbers, of any rod."""
    chain = rod.chain([place for interval in intervals for place in (*interval.nodes_m, interval.end_m)])
    frames = chain.frames(c)
    for interval in intervals:
        at = chain.indices([*interval.nodes_m, interval.end_m])
        yield [(frames.rotation[k], frames.position[k]) for k in at]


class _Symbols:
    """What the formulas need of CasADi's expressions."""

    zeros = staticmethod(ca.SX)
    hat = staticmethod(hat)
    below = staticmethod(ca.vertcat)
    beside = staticmethod(ca.horzcat)

    @staticmethod
    def constant(matrix: Vector) -> Any:
        """A matrix of numbers, many of them zero."""
        return ca.sparsify(ca.DM(matrix))


class _Numbers:
    """The same of arrays."""

    hat = staticmethod(numeric_hat)
    constant = staticmethod(np.asarray)

    @staticmethod
    def zeros(*shape: int) -> Vector:
        """An array of zeros."""
        return np.zeros(shape)

    @staticmethod
    def below(*parts: Vector) -> Vector:
        """One below the other."""
        return np.concatenate(parts)

    @staticmethod
    def beside(*parts: Vector) -> Vector:
        """One beside the other."""
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the integrals: weight times B, axes of the unit strains in base axes (6, r), and J there."""

    interval: int
    place: slice
    weighted: Any  # (r, k)
    share: float
    axes: Any
    jacobian: Any  # (6, n)


@dataclass(frozen=True, slots=True)
class _Mass:
    """A body in base axes: mass at a centre (3,), inertia about it (3, 3) or None, the interval that ends there."""

    interval: int
    mass_kg: float
    center: Any
    turn: Any  # hat of the centre
    inertia: Any

    def at_center(self, twists: Any) -> Any:
        """Velocities of the centre of mass for twists about the origin, (6, k) to (3, k)."""
        return twists[:3, :] - self.turn @ twists[3:, :]


class _Terms:
    """The terms by the formulas of this module, of expressions or of numbers."""

    def __init__(self, model: ContactModel, kind: Any, count: int) -> None:
        self.model, self.kind = model, kind
        self.size = model.robot.coefficient_count
        self.shares, self.inner = _collocation(count)[1:]

    def march(
        self, intervals: list[_Interval], frames: Iterator[list[Frame]]
    ) -> tuple[list[_Node], list[_Mass], list[Any], list[Any]]:
        """Nodes and masses from the base to the tip; after each interval J and the body Jacobian."""
        kind, n = self.kind, self.size
        nodes: list[_Node] = []
        masses: list[_Mass] = []
        ends: list[Any] = []
        body_jacobians: list[Any] = []
        jacobian = kind.zeros(6, n)
        for at, (interval, places) in enumerate(zip(intervals, frames, strict=True)):
            axes = [self._axes(frame, interval.rows) for frame in places[:-1]]
            columns = [axis @ kind.constant(B) for axis, B in zip(axes, interval.bases, strict=True)]
            for k, axis in enumerate(axes):
                here = self._with(jacobian, interval, self.inner[k], columns)
                share = interval.length_m * float(self.shares[k])
                nodes.append(_Node(at, interval.place, kind.constant(share * interval.bases[k]), share, axis, here))
            jacobian = self._with(jacobian, interval, self.shares, columns)
            rotation, position = places[-1]
            masses += self._bodies(interval, at, rotation, position)
            ends.append(jacobian)
            linear = jacobian[:3, :] - kind.hat(position) @ jacobian[3:, :]
            body_jacobians.append(kind.below(rotation.T @ linear, rotation.T @ jacobian[3:, :]))
        return nodes, masses, ends, body_jacobians

    def _axes(self, frame: Frame, rows: NDArray[np.intp]) -> Any:
        """Twists (linear, angular) of what lies beyond, for unit strains in ``rows``, (6, r)."""
        rotation, position = frame
        turning, moving = [int(row) for row in rows if row < 3], [int(row) - 3 for row in rows if row >= 3]
        parts = []
        if turning:
            parts.append(self.kind.below(self.kind.hat(position) @ rotation[:, turning], rotation[:, turning]))
        if moving:
            parts.append(self.kind.below(rotation[:, moving], self.kind.zeros(3, len(moving))))
        return self.kind.beside(*parts)

    def _with(self, matrix: Any, interval: _Interval, shares: Vector, columns: list[Any]) -> Any:
        """A copy of ``matrix`` with the integral of ``columns`` added to the segment's coefficients."""
        found = ca.SX(matrix) if isinstance(matrix, ca.SX) else matrix.copy()
        for share, column in zip(shares, columns, strict=True):
            found[:, interval.place] += interval.length_m * float(share) * column
        return found

    def _bodies(self, interval: _Interval, at: int, rotation: Any, position: Any) -> list[_Mass]:
        """The masses at the end of an interval."""
        found = []
        for station in interval.bodies:
            center, inertia = position, None
            if station.center_of_mass_m is not None:
                center = position + rotation @ self.kind.constant(station.center_of_mass_m)
            across, along = station.total_inertia_kg_m2
            if across > 0 or along > 0:
                inertia = rotation @ self.kind.constant(np.diag([across, across, along])) @ rotation.T
            if station.tensor_kg_m2 is not None:
                tensor = rotation @ self.kind.constant(station.tensor_kg_m2) @ rotation.T
                inertia = tensor if inertia is None else inertia + tensor
            found.append(_Mass(at, station.total_mass_kg, center, self.kind.hat(center), inertia))
        return found

    def all(self, c: Any, rate: Any, intervals: list[_Interval], frames: Iterator[list[Frame]]) -> tuple[Any, ...]:
        """Momentum, known force, mass, derivatives of the first two by c, and the body Jacobians after the base."""
        kind, model, n = self.kind, self.model, self.size
        nodes, masses, ends, body_jacobians = self.march(intervals, frames)
        gravity = kind.constant(np.asarray(model.robot.gravity_m_per_s2, dtype=float))
        momenta: list[Any] = [None for _ in ends]
        weights: list[Any] = [None for _ in ends]
        for mass in masses:
            twist = ends[mass.interval] @ rate
            impulse = mass.mass_kg * (twist[:3] - mass.turn @ twist[3:])
            turning = mass.turn @ impulse
            if mass.inertia is not None:
                turning = turning + mass.inertia @ twist[3:]
            weight = mass.mass_kg * gravity
            for sums, value in (
                (momenta, kind.below(impulse, turning)),
                (weights, kind.below(weight, mass.turn @ weight)),
            ):
                before = sums[mass.interval]
                sums[mass.interval] = value if before is None else before + value
        nothing = kind.zeros(6, 1)[:, 0]
        beyond_momentum, beyond_weight = _beyond(momenta, nothing), _beyond(weights, nothing)

        # Y at the nodes and masses: the same quadrature as J's, of - ad(A B) V.
        brackets = [self._ad(node.axes, node.jacobian @ rate) for node in nodes]
        steps, offsets = self._accumulated(intervals, brackets)
        gradient, by_rate = kind.zeros(n, 1)[:, 0], kind.zeros(n, n)
        half, mass_matrix, transport, curvature = (kind.zeros(n, n) for _ in range(4))
        for node, Y in zip(nodes, offsets, strict=True):
            z = self._ad_transposed(node.axes, beyond_momentum[node.interval])  # (r, 6)
            y = self._ad_transposed(node.axes, beyond_weight[node.interval])
            lift = node.axes.T @ beyond_weight[node.interval]
            z_J, z_Y, y_J = z @ node.jacobian, z @ Y, y @ node.jacobian
            B = node.weighted.T
            gradient[node.place] += B @ (lift - z_J @ rate)
            by_rate[node.place, :] -= B @ z_J
            half[node.place, :] -= B @ (z_Y + y_J / 2)
        for mass in masses:
            J, Y = ends[mass.interval], steps[mass.interval]
            moved, drifted = mass.at_center(J), mass.at_center(Y)
            mass_matrix += mass.mass_kg * (moved.T @ moved)
            transport += mass.mass_kg * (moved.T @ drifted)
            curvature += mass.mass_kg * (drifted.T @ drifted)
            half -= mass.mass_kg / 2 * ((J[3:, :].T @ kind.hat(gravity)) @ moved)
            if mass.inertia is not None:
                mass_matrix += J[3:, :].T @ (mass.inertia @ J[3:, :])
                turned = mass.inertia @ Y[3:, :]
                transport += J[3:, :].T @ turned
                curvature += Y[3:, :].T @ turned
        constant = kind.constant(model.axial_mass + model.actuator_mass)
        stiffness, damping = kind.constant(model.stiffness), kind.constant(model.damping)
        momentum = (mass_matrix + constant) @ rate  # johnston (43)
        force = gradient - stiffness @ c - damping @ rate
        return (
            momentum,
            force,
            mass_matrix + constant,
            transport + by_rate.T,
            curvature + half + half.T - stiffness,
            kind.below(*body_jacobians),
        )

    def _accumulated(self, intervals: list[_Interval], integrands: list[Any]) -> tuple[list[Any], list[Any]]:
        """Integrals of - integrand B along the backbone, (6, n): at the ends of the intervals, and at the nodes."""
        total = self.kind.zeros(6, self.size)
        at_ends, at_nodes = [], []
        for at, interval in enumerate(intervals):
            first = at * len(self.shares)
            columns = [
                -(value @ self.kind.constant(B))
                for value, B in zip(integrands[first : first + len(self.shares)], interval.bases, strict=True)
            ]
            at_nodes += [self._with(total, interval, self.inner[k], columns) for k in range(len(columns))]
            total = self._with(total, interval, self.shares, columns)
            at_ends.append(total)
        return at_ends, at_nodes

    def _ad(self, axes: Any, twist: Any) -> Any:
        """Brackets ad(e) V of all axes with a twist, (6, r)."""
        v, w, moving, turning = axes[:3, :], axes[3:, :], self.kind.hat(twist[:3]), self.kind.hat(twist[3:])
        return self.kind.below(-(moving @ w) - turning @ v, -(turning @ w))

    def _ad_transposed(self, axes: Any, wrench: Any) -> Any:
        """Rows (ad(e)^T H)^T of all axes, (r, 6)."""
        v, w, force, moment = axes[:3, :], axes[3:, :], self.kind.hat(wrench[:3]), self.kind.hat(wrench[3:])
        return self.kind.beside((force @ w).T, (force @ v + moment @ w).T)


def _beyond(values: list[Any], nothing: Any) -> list[Any]:
    """For each interval the sum over the masses at its end and beyond."""
    sums: list[Any] = []
    total = nothing
    for value in reversed(values):
        total = total if value is None else total + value
        sums.append(total)
    return sums[::-1]


def _contact_terms(model: RodModel, intervals: list[_Interval], count: int) -> ca.Function:
    """(c, c_rate) -> the terms, of a rod that only bends."""
    c, rate = ca.SX.sym("c", model.size), ca.SX.sym("c_rate", model.size)
    found = list(_Terms(model, _Symbols, count).all(c, rate, intervals, _symbolic_frames(model.robot, c, intervals)))
    for k in (2, 4):  # symmetric to the last bit
        found[k] = ca.tril2symm(ca.tril(found[k]))
    names = ["momentum", "known_force", "mass", "momentum_by_c", "force_by_c", "jacobians"]
    return ca.Function(
        "contact_terms", [c, rate], [ca.densify(value) for value in found], ["c", "c_rate"], names, {"cse": True}
    )


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
