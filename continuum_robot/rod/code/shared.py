# SPDX-License-Identifier: Apache-2.0
"""Expressions whose code exists once however often they occur, as at every node or disk of a rod.

Straight-line code for a whole robot takes gcc a second for every 13,000 operations, and the processor reads it from
memory at each call. What is alike at many places is a function of its own, called at each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

Formula = Callable[..., Sequence[Any]]
Code = Callable[..., tuple[Any, ...]]
"""How formulas are written: :func:`shared_code` or :func:`repeated_code`."""

_FUNCTIONS: dict[tuple[str, ...], ca.Function] = {}


def shared_code(name: str, formula: Formula, *given: Any) -> tuple[Any, ...]:
    """Results of a formula, by a call where it occurs; each pattern of zeros in its arguments has a function.

    Parameters
    ----------
    name : of the formula: the same formula is meant wherever the name is the same
    formula : of as many expressions as are given; gives expressions
    given : expressions or numbers; zeros that are none of a matrix' entries stay so in the formula. Calls on ``MX``
        hand results on where they stand, those on ``SX`` copy each number
    """
    kind: Any = ca.MX if any(isinstance(value, ca.MX) for value in given) else ca.SX
    values = [kind(value) for value in given]
    patterns = [value.sparsity() for value in values]
    key = (name, *(f"{pattern.shape}{pattern.colind()}{pattern.row()}" for pattern in patterns))
    if key not in _FUNCTIONS:
        symbols = [ca.SX.sym(f"i{k}", pattern) for k, pattern in enumerate(patterns)]
        options = {"cse": True, "never_inline": True}
        _FUNCTIONS[key] = ca.Function(f"rod_{name}", symbols, list(formula(*symbols)), options)
    return tuple(_FUNCTIONS[key].call(values))


def repeated_code(name: str, formula: Formula, *given: Any) -> tuple[Any, ...]:
    """Results of a formula, written out where it occurs; arguments as of :func:`shared_code`."""
    del name
    return tuple(formula(*given))


def code_in(kind: type[ca.SX | ca.MX]) -> Code:
    """How formulas of a whole robot are written in expressions of a ``kind``: calls in ``MX``, out in ``SX``.

    Parameters
    ----------
    kind : of the expressions
    """
    return repeated_code if kind is ca.SX else shared_code


def function_of(
    name: str, arguments: list[Any], results: list[Any], inputs: list[str], outputs: list[str]
) -> ca.Function:
    """A function of expressions; common subexpressions are looked for in ``SX``, where all is written out.

    Parameters
    ----------
    name : of the function
    arguments, results : expressions
    inputs, outputs : their names
    """
    return ca.Function(name, arguments, results, inputs, outputs, {"cse": isinstance(arguments[0], ca.SX)})


def sparse(matrix: ArrayLike) -> ca.DM:
    """Numbers for expressions, without the zeros: these cost nothing in products.

    Parameters
    ----------
    matrix : (rows, columns) or (rows,), in any unit
    """
    return ca.sparsify(ca.DM(np.asarray(matrix, dtype=float)))


def product_function(name: str, matrix: ArrayLike) -> ca.Function:
    """Of a vector: its product with a sparse matrix, written out; several times as fast as by indices.

    Parameters
    ----------
    name : of the function
    matrix : (rows, columns), in any unit
    """
    factor = sparse(matrix)
    x = ca.SX.sym("x", factor.size2())
    return ca.Function(name, [x], [ca.densify(ca.SX(factor) @ x)])
