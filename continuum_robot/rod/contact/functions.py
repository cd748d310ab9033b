# SPDX-License-Identifier: Apache-2.0
"""Everything that a contact observer needs of the model in one compiled call.

Momentum, the gradient of the Lagrangian, their exact derivatives with respect to c and c_rate, and the body Jacobians
along the backbone, from one march from the base to the tip: the formulas stand in rod/contact/terms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.code.shared import function_of, sparse
from continuum_robot.rod.contact.collocation import Interval, intervals_of
from continuum_robot.rod.contact.symbolic_march import SymbolicMarch
from continuum_robot.rod.contact.terms import NumericMarch, all_terms
from continuum_robot.rod.friction.tendons import TendonFriction
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.moving_chain import expressions_of
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.tendons import check_parallel

Vector = NDArray[np.float64]
Progress = Callable[[str], None]

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


class _Terms(Protocol):
    """Evaluated terms of a kind of model."""

    instructions: int

    @property
    def compiled(self) -> bool: ...

    @property
    def rod(self) -> StrainRod | None: ...

    def evaluate(self, c: ArrayLike, c_rate: ArrayLike) -> tuple[Vector, ...]: ...

    def lever(self) -> Vector: ...

    def pose(self, progress: Progress | None) -> Callable[[Vector, float], Vector]: ...


class _GeneratedTerms:
    """Of the coefficients of a rod that only bends: compiled for the robot."""

    rod: StrainRod | None = None

    def __init__(
        self, model: RodModel, intervals: list[Interval], count: int, *, compile: str, progress: Progress | None
    ) -> None:
        self._model = model
        check_parallel(model.robot)
        function = _contact_terms(model, intervals, count)
        name = f"the contact model of {model.robot.name}"
        self._function = compile_functions([function], name, compile=compile, progress=progress)[function.name()]
        self.instructions = self._function.instructions
        self.evaluate: Callable[[ArrayLike, ArrayLike], tuple[Vector, ...]] = self._function.evaluate

    @property
    def compiled(self) -> bool:
        return self._function.compiled

    def lever(self) -> Vector:
        return np.asarray(self._model.tendon_matrix)

    def pose(self, progress: Progress | None) -> Callable[[Vector, float], Vector]:
        name = f"the pose of {self._model.robot.name}"
        pose: Callable[[Vector, float], Vector] = compile_functions([self._model.pose], name, progress=progress)["pose"]
        return pose


class _MarchedTerms:
    """Of any rod, per coordinate: numbers handed from node to node."""

    compiled, instructions = False, 0

    def __init__(self, model: RodModel, intervals: list[Interval], shapes: Vector, count: int) -> None:
        self._model, self._shapes = model, shapes
        self.rod = StrainRod.from_robot(model.robot)
        self._march = NumericMarch(self.rod, intervals, shapes, count)
        self._gravity = np.asarray(model.robot.gravity_m_per_s2, dtype=float)[:, None]
        constant, stiffness, damping = (
            shapes.T @ matrix @ shapes
            for matrix in (model.axial_mass + model.actuator_mass, model.stiffness, model.damping)
        )
        self._matrices = {"constant_mass": constant, "stiffness": stiffness, "damping": damping}

    def evaluate(self, c: ArrayLike, c_rate: ArrayLike) -> tuple[Vector, ...]:
        shape, rate = np.asarray(c, dtype=float), np.asarray(c_rate, dtype=float)
        if (shape.size, rate.size) != self._shapes.shape:
            raise ParameterError("c, c_rate", (shape.shape, rate.shape), "as many as the model has")
        elastic = self._shapes.T @ (self._model.stiffness @ shape)
        momentum, force, *others = all_terms(
            self._march.at(shape), self._gravity, elastic[:, None], rate[:, None], **self._matrices
        )
        return momentum[:, 0], force[:, 0], *others

    def lever(self) -> Vector:
        return self.rod.displacement_jacobian(np.zeros(self.rod.size)) @ self._shapes

    def pose(self, progress: Progress | None) -> Callable[[Vector, float], Vector]:
        del progress
        return lambda c, s_m: self.rod.poses(c, [s_m])[0]


class ContactFunctions:
    """The terms of a robot, compiled where they are of its coefficients. Not for use by two threads at once.

    Parameters
    ----------
    model : of the rod; its choice of inertias is kept
    shapes : coefficients per coordinate of which the terms are desired, (coefficients, n); None: of the coefficients,
        for a rod that only bends, with parallel tendons
    collocation_nodes : Gauss-Legendre nodes between two masses: with 2 the forces of a segment that bends by a right
        angle agree with those of ``model`` to about 1e-5, with 4 to better than 1e-6
    compile : "auto", "always" or "never", see :func:`~continuum_robot.rod.code.generation.compile_functions`
    progress : receives a line where something has to be compiled

    Attributes
    ----------
    nodes_m : arc lengths of the Jacobians, from the base, increasing, the first 0, shape (k,), m
    stiffness : of the coordinates, (n, n)

    Raises
    ------
    ParameterError : a number of nodes that is not 1 to 8; no shapes for a rod that does more than bend
    """

    def __init__(
        self,
        model: RodModel,
        shapes: Vector | None = None,
        *,
        collocation_nodes: int = 2,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if not 1 <= collocation_nodes <= 8:
            raise ParameterError("collocation_nodes", collocation_nodes, "1 to 8")
        self.model = model
        B = np.eye(model.size) if shapes is None else shapes
        self.size = B.shape[1]
        intervals = intervals_of(model.robot, model.parts, model.quadrature_nodes, collocation_nodes)
        self.nodes_m: Vector = np.array([0.0, *(interval.end_m for interval in intervals)])
        self.stiffness, self._damping = B.T @ model.stiffness @ B, B.T @ model.damping @ B
        self._terms: _Terms
        if shapes is None:
            self._terms = _GeneratedTerms(model, intervals, collocation_nodes, compile=compile, progress=progress)
        else:
            self._terms = _MarchedTerms(model, intervals, B, collocation_nodes)

    @property
    def compiled(self) -> bool:
        """Whether the terms are machine code."""
        return self._terms.compiled

    @property
    def instructions(self) -> int:
        """Number of elementary operations of a call; 0 where the terms are not generated."""
        return self._terms.instructions

    @property
    def rod(self) -> StrainRod | None:
        """Kinematics and tendons of a general rod; None of one whose displacements are linear in its coefficients."""
        return self._terms.rod

    @property
    def lever(self) -> Vector:
        """Displacement of every tendon per coordinate, (N, n): at the straight rod where it depends on the shape."""
        return self._terms.lever()

    def backbone_pose(self, progress: Progress | None = None) -> Callable[[Vector, float], Vector]:
        """Function of coefficients (n,) and an arc length (m) that gives the pose there, (4, 4).

        Parameters
        ----------
        progress : receives a line where something has to be compiled
        """
        return self._terms.pose(progress)

    def __call__(self, c: ArrayLike, c_rate: ArrayLike) -> ContactTerms:
        """Terms at the coefficients c and the rates c_rate (n,); of a general model the rates of its coordinates."""
        *terms, jacobians = self._terms.evaluate(c, c_rate)
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


def _contact_terms(model: RodModel, intervals: list[Interval], count: int) -> ca.Function:
    """(c, c_rate) -> the terms, of a rod that only bends."""
    kind: Any = expressions_of(model.robot)
    c, rate = kind.sym("c", model.size), kind.sym("c_rate", model.size)
    stiffness, damping, constant = (
        sparse(matrix) for matrix in (model.stiffness, model.damping, model.axial_mass + model.actuator_mass)
    )
    found = list(
        all_terms(
            SymbolicMarch(model.robot, intervals, c, count),
            sparse(model.robot.gravity_m_per_s2),
            stiffness @ c,
            rate,
            constant_mass=constant,
            stiffness=stiffness,
            damping=damping,
        )
    )
    names = ["momentum", "known_force", "mass", "momentum_by_c", "force_by_c", "jacobians"]
    return function_of("contact_terms", [c, rate], [ca.densify(value) for value in found], ["c", "c_rate"], names)


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
        kept, rate, wires = ca.SX.sym("fractions", k, 2), ca.SX.sym("c_rate", n), ca.SX.sym("wires", 2 * k)
        to_capstans = ca.SX(sparse(friction.jacobian))
        force = to_capstans.T @ friction.torque_of(kept, to_capstans @ rate, wires, friction.sign)  # johnston (38)
        derivatives = [ca.densify(ca.jacobian(force, by)) for by in (ca.vec(kept), rate)]
        of_fractions = ca.Function("force_of_fractions", [kept, rate, wires], [force, *derivatives], {"cse": True})
        given = [ca.MX.sym(name, size) for name, size in (("c", n), ("c_rate", n), ("wires", 2 * k))]
        found, *by_c = friction.fraction_jacobian(given[0], ca.DM(friction.coefficients))
        value, by_fractions, by_rate = of_fractions(found, *given[1:])
        function = ca.Function("friction_terms", given, [value, by_fractions @ ca.vertcat(*by_c), by_rate])
        self._function = compile_functions(
            [function], f"the tendon friction of {friction.robot.name}", compile=compile, progress=progress
        )["friction_terms"]

    def __call__(self, c: ArrayLike, c_rate: ArrayLike, wires: ArrayLike) -> tuple[Vector, Vector, Vector]:
        """kappa_fric of johnston (38), (n,), its derivatives by c and by c_rate, (n, n).

        ``wires`` are the tensions as of :meth:`TendonFriction.torque_of`, (2k,), N.
        """
        force, by_c, by_rate = self._function(c, c_rate, wires)
        return force, by_c, by_rate
