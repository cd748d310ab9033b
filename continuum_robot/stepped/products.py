# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and vectors of stepped code, summed in one order."""

from __future__ import annotations

import cython

from continuum_robot.stepped.buffers import indices, stepped


@stepped
def multiply(
    rows: cython.double[::1],
    values: cython.double[::1],
    row_count: cython.int,
    column_count: cython.int,
    product: cython.double[::1],
) -> cython.void:
    """``product`` of a matrix, row after row (``rows``), of ``row_count`` by ``column_count``, and a vector
    (``values``).
    """
    j: cython.int
    k: cython.int
    at: cython.int = 0
    for j in indices(row_count):
        total: cython.double = 0.0
        for k in indices(column_count):
            total += rows[at + k] * values[k]
        product[j] = total
        at += column_count


@stepped
def multiply_transposed(
    rows: cython.double[::1],
    values: cython.double[::1],
    row_count: cython.int,
    column_count: cython.int,
    product: cython.double[::1],
) -> cython.void:
    """As :func:`multiply`, of the matrix's transpose: ``values`` of ``row_count``, ``product`` of ``column_count``;
    ``rows`` as there.
    """
    j: cython.int
    k: cython.int
    for k in indices(column_count):
        total: cython.double = 0.0
        at: cython.int = k
        for j in indices(row_count):
            total += rows[at] * values[j]
            at += column_count
        product[k] = total
