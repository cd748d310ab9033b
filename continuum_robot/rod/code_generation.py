# SPDX-License-Identifier: Apache-2.0
"""CasADi functions as fast numeric functions: compiled C called through fixed buffers, or CasADi's virtual machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.code_library import Pending, Progress, Source, shared_library, vector_flags
from continuum_robot.rod.code_splitting import split_functions
from continuum_robot.rod.code_widening import WIDTH, widen_loops

Array = NDArray[np.float64]
Library = ctypes.CDLL | Pending | None
"""Compiled code, code that is being compiled, or None: CasADi evaluates the function."""

# Straight-line code of this kind, split into parts, runs fastest at -O1, which takes about 60 us for an instruction and
# half the time of -O2. Above this many instructions that is 20 s and more; -O0 takes a third, and runs several times
# slower.
_LARGE_INSTRUCTIONS = 350_000
_PART_STATEMENTS = 250


class FastFunction:
    """A CasADi function with dense inputs and outputs, called with NumPy arrays.

    Inputs are copied into fixed buffers and the results out of them, so results are fresh arrays: shape (n,) for a
    column, (rows, columns) for a matrix. Not for use by two threads at once: each takes its own :meth:`clone`.

    Parameters
    ----------
    library : the code of ``function``

    Attributes
    ----------
    name : the function's name
    inputs, outputs : the buffers, (n,) or (rows, columns), for callers that fill them, :meth:`run` and read at once:
        the next run overwrites the results
    """

    def __init__(self, function: ca.Function, library: Library = None) -> None:
        self.name: str = function.name()
        self._function, self._library = function, library
        self._inputs = [np.zeros(function.nnz_in(i)) for i in range(function.n_in())]
        self._outputs = [np.zeros(function.nnz_out(i)) for i in range(function.n_out())]
        self.inputs = tuple(_shaped(buffer, function.size2_in(i)) for i, buffer in enumerate(self._inputs))
        self.outputs = tuple(_shaped(buffer, function.size2_out(i)) for i, buffer in enumerate(self._outputs))
        self.run: Callable[[], None]
        self._addresses: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
        if isinstance(library, Pending):
            self.run = self._first_run
            library.waiting.append(self._settled)
        else:
            self._bind(library)

    def _settled(self) -> ctypes.CDLL | None:
        """Wait for a library that is being compiled, and use it."""
        if isinstance(self._library, Pending):
            self._library = self._library.library.result()
            self._bind(self._library)
        return self._library

    def _first_run(self) -> None:
        self._settled()
        self.run()

    def _bind(self, library: ctypes.CDLL | None) -> None:
        if library is None:
            self._bind_virtual_machine(self._function)
        else:
            self._bind_library(library)

    @property
    def compiled(self) -> bool:
        """Whether it runs as machine code."""
        return self._settled() is not None

    @property
    def addresses(self) -> tuple[int, int, int, int, int]:
        """For compiled callers; all 0 where CasADi evaluates it.

        Of the machine code, of its pointers to inputs and to results, and of its scratch memory of integers and floats.
        """
        self._settled()
        return self._addresses

    @cached_property
    def instructions(self) -> int:
        """Number of elementary operations, those of the functions that it calls included."""
        return instruction_count(self._function)

    def _bind_virtual_machine(self, function: ca.Function) -> None:
        buffer: Any
        buffer, self.run = function.buffer()
        self._buffer = buffer  # keeps the memory that the evaluation reads and writes
        for i, array in enumerate(self._inputs):
            buffer.set_arg(i, array.data)
        for i, array in enumerate(self._outputs):
            buffer.set_res(i, array.data)

    def _bind_library(self, library: ctypes.CDLL) -> None:
        entry = getattr(library, self.name)
        entry.restype = ctypes.c_int
        entry.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int]
        sizes = [ctypes.c_longlong() for _ in range(4)]
        work = getattr(library, f"{self.name}_work")
        work.argtypes = [ctypes.POINTER(ctypes.c_longlong)] * 4
        work(*(ctypes.byref(size) for size in sizes))
        n_arg, n_res, n_iw, n_w = (max(1, int(size.value)) for size in sizes)
        # The generated code uses what follows the arguments as scratch pointers.
        self._arguments = (ctypes.c_void_p * max(n_arg, len(self._inputs)))()
        self._results = (ctypes.c_void_p * max(n_res, len(self._outputs)))()
        self._integers = np.zeros(n_iw, dtype=np.int64)
        self._work = np.zeros(n_w)
        for i, array in enumerate(self._inputs):
            self._arguments[i] = array.ctypes.data
        for i, array in enumerate(self._outputs):
            self._results[i] = array.ctypes.data
        parameters = (
            ctypes.c_void_p(ctypes.addressof(self._arguments)),
            ctypes.c_void_p(ctypes.addressof(self._results)),
            ctypes.c_void_p(self._integers.ctypes.data),
            ctypes.c_void_p(self._work.ctypes.data),
            ctypes.c_int(0),
        )

        self._addresses = (
            ctypes.cast(entry, ctypes.c_void_p).value or 0,
            ctypes.addressof(self._arguments),
            ctypes.addressof(self._results),
            int(self._integers.ctypes.data),
            int(self._work.ctypes.data),
        )

        def run() -> None:
            entry(*parameters)

        self.run = run

    def clone(self) -> FastFunction:
        """The same function with buffers of its own, for another thread."""
        return FastFunction(self._function, self._settled())

    def __call__(self, *arguments: Any) -> Any:
        """Evaluate.

        Parameters
        ----------
        arguments : one for each input: array-like of its number of entries (matrices column by column), or a number
            for all of them

        Returns
        -------
        one fresh array, or a tuple of them where the function has several outputs

        Raises
        ------
        ParameterError : an argument of another size
        """
        results = self.evaluate(*arguments)
        return results[0].copy() if len(results) == 1 else tuple(result.copy() for result in results)

    def evaluate(self, *arguments: Any) -> tuple[Array, ...]:
        """Evaluate, and return the buffers of all results: the next call overwrites them.

        Parameters
        ----------
        arguments : as for a call

        Returns
        -------
        the buffers, each (n,) for a column or (rows, columns)

        Raises
        ------
        ParameterError : an argument of another size
        """
        try:
            for buffer, argument in zip(self._inputs, arguments, strict=True):
                buffer[:] = argument
        except ValueError as error:
            shapes = tuple(np.shape(argument) for argument in arguments)
            expected = tuple(buffer.shape for buffer in self._inputs)
            raise ParameterError(f"shapes of the arguments of {self.name}", shapes, str(expected)) from error
        self.run()
        return self.outputs


class Batch:
    """A CasADi function evaluated at many columns of its arguments in one call. Several threads may use it at once.

    Parameters
    ----------
    function : with dense inputs and outputs
    library : its code with :data:`_BATCH_CODE`
    """

    def __init__(self, function: ca.Function, library: Library = None) -> None:
        self._function, self._library = function, library
        self._inputs = [int(function.nnz_in(i)) for i in range(function.n_in())]
        self._outputs = [int(function.nnz_out(i)) for i in range(function.n_out())]
        self._shapes = [(int(function.size2_out(i)), int(function.size1_out(i))) for i in range(function.n_out())]
        if isinstance(library, Pending):
            library.waiting.append(self._settled)
        elif library is not None:
            self._bind(library)

    def _settled(self) -> ctypes.CDLL | None:
        """Wait for a library that is being compiled, and use it."""
        if isinstance(self._library, Pending):
            self._library = self._library.library.result()
            if self._library is not None:
                self._bind(self._library)
        return self._library

    @property
    def compiled(self) -> bool:
        """Whether it runs as machine code."""
        return self._settled() is not None

    def _bind(self, library: ctypes.CDLL) -> None:
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
        self._pointers = ctypes.c_void_p * len(steps)

    def __call__(self, *arguments: Array) -> list[Array]:
        """Evaluate.

        Parameters
        ----------
        arguments : (k, size) each, column-major within a matrix

        Returns
        -------
        results, (k, size) for columns and (k, rows, columns) for matrices
        """
        given = [np.ascontiguousarray(argument, dtype=np.float64) for argument in arguments]
        found = [np.empty((len(given[0]), size)) for size in self._outputs]
        self._run(given, found, len(given[0]))
        return [self._shaped(array, i) for i, array in enumerate(found)]

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
        given = [np.ascontiguousarray(argument, dtype=np.float64) for argument in arguments]
        count = len(given[0])
        carried = np.empty((count + 1, self._outputs[0]))
        carried[0] = start
        found = [carried[1:], *(np.empty((count, size)) for size in self._outputs[1:])]
        self._run([carried[:-1], *given], found, count, chained=True)
        return [carried, *(self._shaped(array, i) for i, array in enumerate(found) if i)]

    def _shaped(self, array: Array, i: int) -> Array:
        columns, rows = self._shapes[i]
        return array if columns == 1 else array.reshape(len(array), columns, rows).swapaxes(1, 2)

    def _run(self, given: list[Array], found: list[Array], count: int, *, chained: bool = False) -> None:
        if not count:
            return
        if self._settled() is not None:
            pointers = self._pointers(*[_address(array) for array in (*given, *found)])
            entries = self._alone if chained else self._entries
            self._call(entries, ctypes.c_longlong(count), self._sizes, self._steps, pointers)
            return
        many = self._many(count, chained)
        values = [given[0][0], *given[1:]] if chained else given
        results = many.call([ca.DM(value.T if value.ndim > 1 else value) for value in self._matrices(values, chained)])
        for array, result in zip(found, results, strict=True):
            array[:] = np.array(result).reshape(-1, order="F").reshape(array.shape)

    def _matrices(self, values: list[Array], chained: bool) -> list[Array]:
        """Arguments of a map: matrices side by side."""
        shaped = []
        for i, value in enumerate(values):
            rows = int(self._function.size1_in(i))
            shaped.append(value if chained and i == 0 else value.reshape(-1, rows))
        return shaped

    def _many(self, count: int, chained: bool) -> ca.Function:
        return self._function.mapaccum(count) if chained else self._function.map(count)


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
    library = _library(both, name, compile, progress, _BATCH_CODE)
    return {function.name(): Batch(function, library) for function in functions}


def compile_functions(
    functions: Sequence[ca.Function],
    name: str,
    *,
    compile: str = "auto",
    progress: Progress | None = None,
) -> dict[str, FastFunction]:
    """Make functions callable at high rates.

    Parameters
    ----------
    functions : CasADi functions with dense inputs and outputs and different names
    name : what they are, for the progress line, e.g. "the rod model of two_segment"
    compile : "auto": to C if a compiler works, else the virtual machine; "always": an error without; "never"
    progress : receives one line before a compilation, and one where the virtual machine is used instead

    Returns
    -------
    the functions by name

    Raises
    ------
    ParameterError : unknown ``compile``
    ContinuumRobotError : ``compile="always"`` and no compiler, or it failed
    """
    library = _library(functions, name, compile, progress)
    return {function.name(): FastFunction(function, library) for function in functions}


def _library(
    functions: Sequence[ca.Function], name: str, compile: str, progress: Progress | None, more: str = ""
) -> Library:
    """Compiled code of functions, and more C code beside it."""
    functions = [_dense(function) for function in functions]
    if compile == "never":
        return None
    count = code_size(functions)
    text = widen_loops(generate_c(functions))
    source = Source(
        name,
        f"{count:,} instructions",
        [text, str(_PART_STATEMENTS), more],
        lambda: split_functions(text, _PART_STATEMENTS) + more,
        ["-O0" if count > _LARGE_INSTRUCTIONS else "-O1", *vector_flags()],
    )
    return shared_library(source, compile, progress)


def instruction_count(function: ca.Function) -> int:
    """Number of elementary operations of one call of a function, those of the functions that it calls included."""
    total = _own_instructions(function)
    if function.is_a("Map"):
        (mapped,) = function.find_functions(0)
        return instruction_count(mapped) * (int(function.nnz_out(0)) // int(mapped.nnz_out(0)))
    if function.class_name() == "Switch":
        return max(instruction_count(choice) for choice in function.find_functions(0))
    if not function.find_functions():
        return total
    steps = function.instructions_sx() if function.is_a("SXFunction") else None
    for k in range(function.n_instructions()):
        if function.instruction_id(k) == ca.OP_CALL:
            step = function.instruction_MX(k) if steps is None else steps[k]
            total += instruction_count(step.which_function())
    return total


def code_size(functions: Sequence[ca.Function]) -> int:
    """Number of elementary operations in the code of functions: what several of them call is counted once."""
    every = [inner for function in functions for inner in (function, *function.find_functions())]
    return sum({function.__hash__(): _own_instructions(function) for function in every}.values())


def _own_instructions(function: ca.Function) -> int:
    """Without those of the functions that it calls; maps and switches only call."""
    return 0 if function.class_name() in ("Map", "Switch") else int(function.n_instructions())


def generate_c(functions: Sequence[ca.Function]) -> str:
    """C source of the functions."""
    generator = ca.CodeGenerator("functions", {"with_header": False, "casadi_int": "long long int"})
    for function in functions:
        generator.add(function)
    return str(generator.dump())


def _dense(function: ca.Function) -> ca.Function:
    sparse = [i for i in range(function.n_in()) if not function.sparsity_in(i).is_dense()]
    sparse += [i for i in range(function.n_out()) if not function.sparsity_out(i).is_dense()]
    if sparse:
        raise ParameterError(f"function {function.name()}", sparse, "dense inputs and outputs")
    return function


def _shaped(buffer: Array, columns: int) -> Array:
    """View of a buffer as a matrix; CasADi stores columns one after another."""
    return buffer if columns == 1 else buffer.reshape(columns, -1).T


def _address(array: Array) -> int:
    """Where a contiguous array begins; ``array.ctypes.data`` takes several times as long."""
    memory: Any = array
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
