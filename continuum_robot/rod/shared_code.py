# SPDX-License-Identifier: Apache-2.0
"""Expressions whose code exists once however often they occur, as at every node or disk of a rod.

Straight-line code for a whole robot takes gcc a second for every 13,000 operations, and the processor reads it from
memory at each call. What is alike at many places is a function of its own, called at each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca


class SharedCode:
    """Functions for one expression graph, one for each formula and pattern of zeros in its arguments."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, ...], ca.Function] = {}

    def __call__(self, name: str, formula: Callable[..., Sequence[Any]], *given: Any) -> tuple[Any, ...]:
        """Results of a formula, by a call where it occurs.

        Parameters
        ----------
        name : of the formula: the same formula is meant wherever the name is the same
        formula : of as many expressions as are given; gives expressions
        given : expressions or numbers; zeros that are none of a matrix' entries stay so in the formula
        """
        values = [ca.SX(value) for value in given]
        patterns = [value.sparsity() for value in values]
        key = (name, *(f"{pattern.shape}{pattern.colind()}{pattern.row()}" for pattern in patterns))
        if key not in self._functions:
            symbols = [ca.SX.sym(f"i{k}", pattern) for k, pattern in enumerate(patterns)]
            options = {"cse": True, "never_inline": True}
            self._functions[key] = ca.Function(f"rod_{name}", symbols, list(formula(*symbols)), options)
        return tuple(self._functions[key].call(values))
