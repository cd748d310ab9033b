# SPDX-License-Identifier: Apache-2.0
"""Arrays of stepped code: Python lists where it is interpreted, C memory where it is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import cython

if cython.compiled:
    from array import array

Function = TypeVar("Function")

UNKNOWN = cython.declare(cython.double, float("nan"))
INFINITE = cython.declare(cython.double, float("inf"))


def stepped(function: Function) -> Function:
    """Marks what runs in the cycle; compiled, it becomes a C function that holds no interpreter lock."""
    return function


class _Ranges(dict):  # type: ignore[type-arg]
    def __missing__(self, count: int) -> Any:
        self[count] = range(count)
        return self[count]


indices = _Ranges().__getitem__
"""``indices(count)`` is ``range(count)``, compiled too; interpreted, the same object each time: a new one is slow."""


@stepped
def copy_into(place: cython.double[::1], values: cython.double[::1], count: cython.int) -> cython.void:
    """Put the first ``count`` of ``values`` into ``place``."""
    j: cython.int
    if cython.compiled:
        for j in indices(count):
            place[j] = values[j]
    else:
        place[:count] = values[:count]


def vector(values: int | Iterable[float]) -> Any:
    """A vector of floats for stepped code."""
    floats = [0.0] * values if isinstance(values, int) else [float(value) for value in values]
    if cython.compiled:
        return array("d", floats or [0.0])
    return floats


def integers(values: int | Iterable[int]) -> Any:
    """A vector of C integers for stepped code."""
    whole = [0] * values if isinstance(values, int) else [int(value) for value in values]
    if cython.compiled:
        return array("i", whole or [0])
    return whole


def counters(count: int) -> Any:
    """A vector of whole numbers below 2**63 for stepped code, all 0."""
    if cython.compiled:
        return array("q", [0] * count)
    return [0] * count


def matrix(rows: Iterable[Iterable[float]]) -> Any:
    """A matrix for stepped code, row after row in one vector."""
    return vector([value for row in rows for value in row])
