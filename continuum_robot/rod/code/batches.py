# SPDX-License-Identifier: Apache-2.0
"""CasADi functions evaluated at many columns of their arguments in one call."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.generation import library_of
from continuum_robot.rod.code.library import Library, LibraryUser, Progress
from continuum_robot.rod.code.widening import WIDTH

Array = NDArray[np.float64]

_PLANS_KEPT = 32  # of each function and thread


class Batch(LibraryUser):
    """A CasADi function evaluated at many columns of its arguments in one call. Several threads may use it at once.

    Parameters
    ----------
    function : with dense inputs and outputs
    library : its code with :data:`_BATCH_CODE`
    """

    def __init__(self, function: ca.Function, library: Library = None) -> None:
        self._function = function
        self._inputs = [int(function.nnz_in(i)) for i in range(function.n_in())]
        self._outputs = [int(function.nnz_out(i)) for i in range(function.n_out())]
        self._shapes = [(int(function.size2_out(i)), int(function.size1_out(i))) for i in range(function.n_out())]
        self._plans = _Plans()
        super().__init__(library)

    def _bind(self, library: ctypes.CDLL | None) -> None:
        if library is None:
            return
        # One after another, and several at once: each has its own need of scratch memory.
        names = [one.name() for one in (self._function, *_several(self._function))]
        needs = []
        for name in names:
            sizes = [ctypes.c_longlong() for _ in range(4)]
            getattr(library, f"{name}_work")(*(ctypes.byref(size) for size in sizes))
            needs.append([max(1, int(size.value)) for size in sizes])
        entries = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
        self._entries = (ctypes.c_void_p * 2)(*entries)
        self._alone = (ctypes.c_void_p * 2)(entries[0])
        steps = [*self._inputs, *self._outputs]
        self._sizes = (ctypes.c_longlong * 6)(
            len(self._inputs), len(self._outputs), *(max(pair) for pair in zip(*needs, strict=True))
        )
        self._steps = (ctypes.c_longlong * len(steps))(*steps)
        self._call = library.over_columns
        self._call.restype = None

    def __call__(self, *arguments: Array) -> list[Array]:
        """Evaluate.

        Parameters
        ----------
        arguments : (k, size) each, column-major within a matrix

        Returns
        -------
        results, (k, size) for columns and (k, rows, columns) for matrices
        """
        return self._run(len(arguments[0]), arguments)

    def chained(self, start: Array, *arguments: Array) -> list[Array]:
        """Evaluate one after another, with the first result of each the first argument of the next.

        Parameters
        ----------
        start : (size,) first argument at the beginning, in the function's own units
        arguments : the others, (k, size) each, in the function's own units

        Returns
        -------
        as of a call, but the first result has k + 1 rows, ``start`` before all
        """
        return self._run(len(arguments[0]), arguments, start)

    def _run(self, count: int, given: Sequence[Array], start: Array | None = None) -> list[Array]:
        chained = start is not None
        library = self._settled()
        plans = self._plans.known
        plan = plans.get((count, chained))
        if plan is None:
            while len(plans) >= _PLANS_KEPT:
                del plans[next(iter(plans))]
            plan = plans[count, chained] = _Plan(count, chained, self._inputs, self._outputs, self._shapes)
        block = np.empty(plan.size)
        found = [block[place].reshape(shape) for place, shape in plan.results]
        if chained:
            found[0][0] = start
        if count and library is None:
            self._evaluate(given, found, chained)
        elif count:
            for buffer, value in zip(plan.inputs, given, strict=True):
                buffer[...] = value
            plan.lead_to(_address(block))
            entries = self._alone if chained else self._entries
            self._call(entries, plan.count, self._sizes, self._steps, plan.address)
        return [array.swapaxes(1, 2) if array.ndim > 2 else array for array in found]

    def _evaluate(self, given: Sequence[Array], found: list[Array], chained: bool) -> None:
        """By CasADi's virtual machine."""
        count = len(given[0])
        many = self._function.mapaccum(count) if chained else self._function.map(count)
        values = [ca.DM(found[0][0])] if chained else []
        for value in given:
            rows = int(self._function.size1_in(len(values)))
            values.append(ca.DM(np.asarray(value, dtype=float).reshape(-1, rows).T))
        for i, (array, result) in enumerate(zip(found, many.call(values), strict=True)):
            place = array[1:] if chained and not i else array
            place[:] = np.array(result).reshape(-1, order="F").reshape(place.shape)


class _Plans(threading.local):
    """Plans of one thread by the number of columns, and whether they are chained."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bool], _Plan] = {}


class _Plan:
    """Memory of the arguments of a call, and where its results go: all in one block.

    Attributes
    ----------
    count : of the columns
    inputs : buffers of the arguments that are given, (count, size) each
    size : of the block of results
    results : place in the block and shape of each result; matrices stand column by column
    address : of the pointers to all arguments and results
    """

    def __init__(
        self, count: int, chained: bool, inputs: list[int], outputs: list[int], shapes: list[tuple[int, int]]
    ) -> None:
        self.count = ctypes.c_longlong(count)
        self.inputs = [np.zeros((count, size)) for size in inputs[chained:]]
        self.results: list[tuple[slice, tuple[int, ...]]] = []
        self.size, begins = 0, []
        for i, (size, (columns, rows)) in enumerate(zip(outputs, shapes, strict=True)):
            before = int(chained and i == 0)  # the start of a chain stands before its first result
            shape = (count + before, size) if columns == 1 else (count + before, columns, rows)
            begins.append(self.size + before * size)
            self.results.append((slice(self.size, self.size + math.prod(shape)), shape))
            self.size += math.prod(shape)
        self._chained, self._begins = chained, 8 * np.array(begins, dtype=np.uintp)
        self._pointers = np.zeros(len(inputs) + len(outputs), dtype=np.uintp)
        self._pointers[chained : len(inputs)] = [buffer.ctypes.data for buffer in self.inputs]
        self._of_results = self._pointers[len(inputs) :]
        self.address = ctypes.c_void_p(self._pointers.ctypes.data)

    def lead_to(self, block: int) -> None:
        """Let the pointers lead to a block of results at an address."""
        np.add(self._begins, np.uintp(block), out=self._of_results)
        if self._chained:
            self._pointers[0] = block


_BATCH_CODE = f"""
typedef int (*column_function)(const double **, double **, long long *, double *, int);
void over_columns(const column_function *functions, long long count,
                  const long long *sizes, const long long *steps, double *const *given) {{
    const double *arg[sizes[2] + sizes[0]];
    double *res[sizes[3] + sizes[1]], w[sizes[5]];
    long long iw[sizes[4]];
    for (long long i = 0; i < sizes[0]; i++) arg[i] = given[i];
    for (long long i = 0; i < sizes[1]; i++) res[i] = given[sizes[0] + i];
    for (long long k = 0; k < count;) {{
        long long several = functions[1] && k + {WIDTH} <= count ? {WIDTH} : 1;
        functions[several > 1](arg, res, iw, w, 0);
        for (long long i = 0; i < sizes[0]; i++) arg[i] += several * steps[i];
        for (long long i = 0; i < sizes[1]; i++) res[i] += several * steps[sizes[0] + i];
        k += several;
    }}
}}
"""
"""Calls a function of any arguments column by column, or the one for several columns where there are as many."""


def _several(function: ca.Function) -> tuple[ca.Function, ...]:
    """The function over several columns at once, which widening makes fast; none for one that is made to be chained."""
    return () if function.nnz_in(0) == function.nnz_out(0) else (function.map(WIDTH),)


def compile_batches(
    functions: Sequence[ca.Function], name: str, *, compile: str = "auto", progress: Progress | None = None
) -> dict[str, Batch]:
    """Make functions callable on many columns at once; arguments and errors as for :func:`compile_functions`."""
    both = [one for function in functions for one in (function, *_several(function))]
    library = library_of(both, name, compile, progress, _BATCH_CODE)
    return {function.name(): Batch(function, library) for function in functions}


def _address(array: Array) -> int:
    """Where a contiguous array begins; ``array.ctypes.data`` takes several times as long."""
    memory: Any = array
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
