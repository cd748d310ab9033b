# SPDX-License-Identifier: Apache-2.0
"""CasADi functions called with NumPy arrays through fixed buffers, in CasADi's own machine."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class CasadiFunction:
    """A CasADi function of dense arrays. For one thread.

    Parameters
    ----------
    function : with dense inputs and outputs

    Attributes
    ----------
    inputs, outputs : the buffers, (n,) for a column or (rows, columns); the next call overwrites the results
    """

    def __init__(self, function: ca.Function) -> None:
        given = [np.zeros(function.numel_in(i)) for i in range(function.n_in())]
        found = [np.zeros(function.numel_out(i)) for i in range(function.n_out())]
        self.inputs = tuple(_shaped(array, function.size2_in(i)) for i, array in enumerate(given))
        self.outputs = tuple(_shaped(array, function.size2_out(i)) for i, array in enumerate(found))
        buffer: Any
        buffer, self._run = function.buffer()
        self._buffer = buffer, function  # what the evaluation reads and writes
        for i, array in enumerate(given):
            buffer.set_arg(i, array.data)
        for i, array in enumerate(found):
            buffer.set_res(i, array.data)

    def __call__(self, *arguments: Any) -> tuple[Array, ...]:
        """All results, fresh.

        Parameters
        ----------
        arguments : of the inputs' shapes, or a number for all entries of one
        """
        for array, value in zip(self.inputs, arguments, strict=True):
            array[:] = value
        self._run()
        return tuple(result.copy() for result in self.outputs)


def _shaped(buffer: Array, columns: int) -> Array:
    """View of a buffer as a matrix; CasADi stores columns one after another."""
    return buffer if columns == 1 else buffer.reshape(columns, -1).T
