# SPDX-License-Identifier: Apache-2.0
"""Functions of the rod's kernel that read one buffer of arrays and write another: observers.hpp.

On matrices of 6 to 36 rows NumPy spends its time on calls, not on numbers, so the contact monitor's filter and error
budgets are there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.rod.kernel import library as kernel

Vector = NDArray[np.float64]
Shapes = Sequence[tuple[int, ...]]


class BufferedCall:
    """One of them, with its buffers. For one thread.

    Parameters
    ----------
    name : of the function
    size : number n of coordinates, its first argument
    inputs, outputs : shapes of the arrays, in its order

    Attributes
    ----------
    inputs, outputs : the arrays, in the buffers: the next call overwrites the results

    Raises
    ------
    ContinuumRobotError : no library of the kernel
    """

    def __init__(self, name: str, size: int, inputs: Shapes, outputs: Shapes) -> None:
        library = kernel.library()
        if library is None:
            raise ContinuumRobotError(
                "the contact monitor needs the kernel's library: install a C++ compiler and the package again"
            )
        self._buffers = [np.zeros(sum(map(math.prod, shapes))) for shapes in (inputs, outputs)]
        self.inputs, self.outputs = map(_arrays, self._buffers, (inputs, outputs))
        addresses = (kernel.Pointer(kernel.at(buffer)) for buffer in self._buffers)
        function, (given, found) = getattr(library, name), addresses
        self._run = partial(_called, function, size, given, found)

    def __call__(self, number: int, *values: Any) -> tuple[Vector, ...]:
        """Results, in the buffer, with the function's second argument and the values of all inputs."""
        for array, value in zip(self.inputs, values, strict=True):
            array[...] = value
        self._run(number)
        return self.outputs


def _called(function: Any, size: int, given: Any, found: Any, number: int) -> None:
    function(size, number, given, found)


def _arrays(buffer: Vector, shapes: Shapes) -> tuple[Vector, ...]:
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(buffer, ends[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
