# SPDX-License-Identifier: Apache-2.0
"""A rod of any strains: terms of its Lagrangian, poses, lengths of its tendons; numbers may change at any time."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.kernel.arrays import RodArrays, rod_arrays
from continuum_robot.rod.kernel.reference import Terms

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of tendons at c.

    Attributes
    ----------
    length_m : (N,), m
    gradient : by the coefficients, (N, n)
    """

    length_m: Vector
    gradient: Vector


class Rod:
    """Made of a robot's description in milliseconds, without a compiler.

    Parameters
    ----------
    robot : a rod
    nodes : Gauss nodes a piece, at least 6; None: as many as give about 1e-7
    paths : tendons and strings whose lengths are wanted; None: all tendons
    stations_m : arc lengths whose poses are wanted, m

    Attributes
    ----------
    arrays : what the kernel reads; its numbers (gravity, body, stiffness, damping, rest, path) may be written between
        two calls

    Raises
    ------
    ParameterError : a mechanism, or what no rod can have
    """

    arrays: RodArrays

    def __init__(
        self,
        robot: Robot,
        *,
        nodes: int | None = None,
        paths: Sequence[RoutedPath] | None = None,
        stations_m: Sequence[float] = (),
    ) -> None:
        if not robot.segments:
            raise ParameterError("robot", robot.name, "a rod with segments")
        self.arrays = rod_arrays(robot, nodes=nodes, paths=paths, stations_m=stations_m)
        self._prepare()

    @property
    def n(self) -> int:
        """Number of coefficients."""
        return self.arrays.n

    @property
    def tendon_count(self) -> int:
        """Number of paths whose lengths it knows."""
        return int(self.arrays.path_index.max()) + 1 if self.arrays.path_index.size else 0

    def __getstate__(self) -> dict[str, object]:
        return {"arrays": self.arrays}

    def __setstate__(self, state: dict[str, RodArrays]) -> None:
        self.arrays = state["arrays"]
        self._prepare()

    def _prepare(self) -> None:
        arrays = self.arrays
        self._library = kernel.library()
        self._place = np.zeros(len(arrays.place), kernel.PLACE)
        self._place["node"], self._place["body"] = arrays.place.T
        self._place["step_m"] = arrays.step_m
        at = kernel.at
        self._shape = kernel.Shape(
            arrays.n, len(arrays.piece), len(arrays.place), len(arrays.body), self.tendon_count, len(arrays.path_node),
            0, at(arrays.piece), at(self._place), at(arrays.rows), at(arrays.phi), at(arrays.at_node), at(arrays.weight),
            at(arrays.path_node), at(arrays.path_phi), at(arrays.path_index),
        )  # fmt: skip
        self._numbers = kernel.Numbers(
            at(arrays.gravity), at(arrays.body), None, at(arrays.stiffness), at(arrays.damping), at(arrays.rest),
            at(arrays.path_rest), at(arrays.path),
        )  # fmt: skip
        if self._library is not None:
            self._library.rod_prepare(C.byref(self._shape))

    def terms(self, c: ArrayLike, v: ArrayLike, a: ArrayLike | None = None) -> Terms:
        """Everything that L = T - V and the loads have to say at (c, v).

        Parameters
        ----------
        c, v : coefficients and their rates, (n,)
        a : accelerations, (n,): the bias then holds M a; None: none

        Raises
        ------
        ParameterError : not n finite numbers
        """
        C_, V = self._state("c", c), self._state("v", v)
        A = None if a is None else self._state("a", a)
        if self._library is None:
            return reference.terms(self.arrays, C_, V, A)
        n, bodies = self.n, len(self.arrays.body)
        pose = np.empty((bodies, 12))
        found = {name: np.empty(n) for name in ("momentum", "force", "bias")}
        found |= {name: np.empty((n, n)) for name in ("mass", "momentum_by_c", "force_by_c")}
        jacobian = np.empty((bodies, 6, n))
        out = kernel.Terms(*(kernel.at(array) for array in (*found.values(), pose, jacobian)))
        self._library.rod_terms(
            C.byref(self._shape), C.byref(self._numbers), C.c_void_p(kernel.at(C_)), C.c_void_p(kernel.at(V)),
            C.c_void_p(kernel.at(A)), C.byref(out),
        )  # fmt: skip
        return Terms(**found, rotation=pose[:, :9].reshape(-1, 3, 3), position=pose[:, 9:], jacobian=jacobian)

    def lengths(self, c: ArrayLike) -> Lengths:
        """Lengths of the tendons, and their gradient.

        Parameters
        ----------
        c : coefficients, (n,)
        """
        C_ = self._state("c", c)
        if self._library is None:
            return Lengths(*reference.lengths(self.arrays, C_, self.tendon_count))
        length, gradient = np.empty(self.tendon_count), np.empty((self.tendon_count, self.n))
        self._library.rod_lengths(
            C.byref(self._shape), C.byref(self._numbers), C.c_void_p(kernel.at(C_)), None,
            C.c_void_p(kernel.at(length)), C.c_void_p(kernel.at(gradient)), None,
        )  # fmt: skip
        return Lengths(length, gradient)

    def _state(self, name: str, values: ArrayLike) -> Vector:
        array = np.ascontiguousarray(values, dtype=float)
        if array.shape != (self.n,) or not np.isfinite(array).all():
            raise ParameterError(name, values, f"{self.n} finite numbers")
        return array
