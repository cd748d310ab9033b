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
from continuum_robot.rod.code.library import Library, LibraryUser, Progress, Source, shared_library, vector_flags
from continuum_robot.rod.code.splitting import split_functions
from continuum_robot.rod.code.widening import widen_loops

Array = NDArray[np.float64]
# Straight-line code of this kind, split into parts, runs fastest at -O1, which takes about 60 us for an instruction and
# half the time of -O2. Above this many instructions that is 20 s and more; -O0 takes a third, and runs several times
# slower.
_LARGE_INSTRUCTIONS = 350_000
_PART_STATEMENTS = 250


class FastFunction(LibraryUser):
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
        self._function = function
        self._inputs = [np.zeros(function.nnz_in(i)) for i in range(function.n_in())]
        self._outputs = [np.zeros(function.nnz_out(i)) for i in range(function.n_out())]
        self.inputs = tuple(_shaped(buffer, function.size2_in(i)) for i, buffer in enumerate(self._inputs))
        self.outputs = tuple(_shaped(buffer, function.size2_out(i)) for i, buffer in enumerate(self._outputs))
        self.run: Callable[[], None] = self._first_run
        self._addresses: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
        super().__init__(library)

    def _first_run(self) -> None:
        self._settled()
        self.run()

    def _bind(self, library: ctypes.CDLL | None) -> None:
        if library is None:
            self._bind_virtual_machine(self._function)
        else:
            self._bind_library(library)

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
    library = _library_of(functions, name, compile, progress)
    return {function.name(): FastFunction(function, library) for function in functions}


def _library_of(functions: Sequence[ca.Function], name: str, compile: str, progress: Progress | None) -> Library:
    for function in functions:
        _check_dense(function)
    if compile == "never":
        return None
    count = code_size(functions)
    text = widen_loops(generate_c(functions))
    source = Source(
        name,
        f"{count:,} instructions",
        [text, str(_PART_STATEMENTS)],
        lambda: split_functions(text, _PART_STATEMENTS),
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


def _check_dense(function: ca.Function) -> None:
    sparse = [i for i in range(function.n_in()) if not function.sparsity_in(i).is_dense()]
    sparse += [i for i in range(function.n_out()) if not function.sparsity_out(i).is_dense()]
    if sparse:
        raise ParameterError(f"function {function.name()}", sparse, "dense inputs and outputs")


def _shaped(buffer: Array, columns: int) -> Array:
    """View of a buffer as a matrix; CasADi stores columns one after another."""
    return buffer if columns == 1 else buffer.reshape(columns, -1).T
