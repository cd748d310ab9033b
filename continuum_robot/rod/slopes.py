# SPDX-License-Identifier: Apache-2.0
"""Exact derivatives of a rod's force and of its tendons' lengths along a direction of its numbers, by dual numbers."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.kernel import library as kernel

if TYPE_CHECKING:
    from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]


def terms_slope(
    rod: Rod, c: Vector, changes: Mapping[str, Vector], *, gravity: Vector | None = None, body: Vector | None = None
) -> Vector:
    """Derivative of the force of weight and loads at rest in c, (n,), along changes of gravity, body or rest."""
    if not {"gravity", "body", "rest"} & set(changes):
        return np.zeros(rod.n)
    values = {"gravity": gravity, "body": body}
    arrays = {name: _dual(rod, name, changes, values.get(name)) for name in ("gravity", "body", "rest")}
    numbers = kernel.Numbers(**{name: kernel.at(array) for name, array in arrays.items()})
    state, still, force = _paired(c, np.zeros(rod.n)), np.zeros((rod.n, 2)), np.empty((rod.n, 2))
    out = kernel.Terms(force=kernel.at(force))
    rod.compiled().rod_terms_along(
        ct.byref(rod.shape), ct.byref(numbers), *map(_address, (state, still)), None, ct.byref(out)
    )
    return force[:, 1].copy()


def length_slope(rod: Rod, c: Vector, changes: Mapping[str, Vector]) -> tuple[Vector, Vector]:
    """Derivative of the tendons' lengths, (N,), and of their gradients, (N, n), along changes of path or path_rest."""
    arrays = {name: _dual(rod, name, changes, None) for name in ("path_rest", "path")}
    numbers = kernel.Numbers(**{name: kernel.at(array) for name, array in arrays.items()})
    count = rod.tendon_count
    state, length, gradient = _paired(c, np.zeros(rod.n)), np.empty((count, 2)), np.empty((count, rod.n, 2))
    rod.compiled().rod_lengths_along(
        ct.byref(rod.shape), ct.byref(numbers), *map(_address, (state, None, length, gradient)), None
    )
    return length[:, 1].copy(), gradient[..., 1].copy()


def _dual(rod: Rod, name: str, changes: Mapping[str, Vector], instead: Vector | None) -> Vector:
    """An array's values, each with its slope."""
    values = getattr(rod.arrays, name) if instead is None else instead
    change = np.asarray(changes.get(name, np.zeros(values.shape)), dtype=float)
    if change.shape != values.shape:
        raise ParameterError(name, change.shape, f"the shape {values.shape} of the rod's arrays")
    return _paired(values, change)


def _paired(values: Vector, slopes: Vector) -> Vector:
    return np.ascontiguousarray(np.stack([values, slopes], axis=-1))


def _address(array: Vector | None) -> ct.c_void_p:
    return ct.c_void_p(kernel.at(array))
