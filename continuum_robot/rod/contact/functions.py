# SPDX-License-Identifier: Apache-2.0
"""Everything that a contact observer needs of the model in one call of the rod's kernel.

Momentum, the gradient of the Lagrangian, their derivatives with respect to c and c_rate, and the body Jacobians along
the backbone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.stations import Frames

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
    """The terms of a robot's coordinates. Not for use by two threads at once."""

    newest: Terms

    def __init__(
        self, robot: Robot, shapes: Vector | None = None, *, nodes: int | None = None, parts: Parts = WITH_CAPSTANS
    ) -> None:
        self.robot = robot
        self.rod = Rod(robot, nodes=nodes, stations_m=robot.disk_arc_lengths_m.tolist(), parts=parts)
        bodies_m = self.rod.arrays.bodies_m
        # Two bodies at one place have one Jacobian.
        self._bodies = np.flatnonzero(np.diff(bodies_m, prepend=0.0) > 0)
        self.nodes_m: Vector = np.array([0.0, *bodies_m[self._bodies]])
        self._shapes = shapes
        self.linear = not robot.traits.nonlinear_lengths
        lever = self.rod.displacement_gradient(np.zeros(self.rod.n))
        self.lever: Vector = lever if shapes is None else lever @ shapes
        arrays = self.rod.arrays
        self.stiffness, self._damping = map(self._of_coordinates, (arrays.stiffness, arrays.damping))
        self.size = len(self.stiffness)
        self._evaluate = self.rod.prepared()

    def _of_coordinates(self, matrix: Vector) -> Vector:
        B = self._shapes
        return matrix if B is None else B.T @ matrix @ B

    def backbone_pose(self) -> Callable[[Vector, float], Vector]:
        """Function of coefficients (n,) and an arc length (m) that gives the pose there, (4, 4)."""
        rod, still, evaluate = self.rod, np.zeros(self.rod.n), self.rod.prepared("pose")

        def pose(c: Vector, s_m: float) -> Vector:
            c_now = rod.checked(c)
            at = evaluate(c_now, still)
            return rod.stations([s_m]).poses(Frames(at.rotation, at.position, at.jacobian), c_now)[0]

        return pose

    def __call__(self, c: ArrayLike, c_rate: ArrayLike) -> ContactTerms:
        """Terms at the coefficients c and the rates of the coordinates c_rate (n,)."""
        B, rate = self._shapes, np.asarray(c_rate, dtype=float)
        if rate.shape != (self.size,):
            raise ParameterError("c_rate", c_rate, f"{self.size} numbers")
        self.newest = terms = self._evaluate(c, rate if B is None else B @ rate)
        elastic = self.rod.arrays.stiffness @ np.asarray(c, dtype=float)
        jacobians = np.zeros((self.nodes_m.size, 6, self.size))
        if B is None:
            momentum, force = terms.momentum.copy(), terms.force - elastic
            jacobians[1:] = terms.jacobian[self._bodies]
        else:
            momentum, force = B.T @ terms.momentum, B.T @ (terms.force - elastic)
            jacobians[1:] = terms.jacobian[self._bodies] @ B
        momentum_by_c = self._of_coordinates(terms.momentum_by_c)
        return ContactTerms(
            momentum,
            force - self._damping @ rate,
            self._of_coordinates(terms.mass).copy(),
            momentum_by_c.copy(),
            self._of_coordinates(terms.force_by_c) - self.stiffness,
            momentum_by_c.T - self._damping,
            jacobians,
        )

    def interpolation(self, s_m: ArrayLike) -> Vector:
        """Matrix E that takes values at the nodes to arc lengths, shape (places, k).

        ``tensordot(E, jacobians, 1)`` are the body Jacobians at ``s_m`` (m, in [0, length]): by segment, the polynomial
        of degree 9 through (or closest to) the nodes in it, which a Jacobian on a segment is to 1e-6 up to a bending
        of a right angle.
        """
        robot = self.robot
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
