# SPDX-License-Identifier: Apache-2.0
"""The call of a generated function from stepped code."""

from __future__ import annotations

from typing import Any

import cython

from continuum_robot.errors import ParameterError
from continuum_robot.rod.code.generation import FastFunction
from continuum_robot.stepped.buffers import stepped


@cython.cclass
class GeneratedCall:
    """A generated function on buffers of its own.

    Compiled, it is called through its address; interpreted, through the same library, so both give the same bits. Not
    for use by two threads at once.

    Parameters
    ----------
    function : it gets buffers of its own

    Attributes
    ----------
    native : whether compiled code can call it

    Raises
    ------
    ParameterError : a function without machine code, for the compiled form
    """

    native = cython.declare(cython.bint, visibility="readonly")
    _function: object
    _run: object
    _address: cython.size_t
    _arguments: cython.size_t
    _results: cython.size_t
    _integers: cython.size_t
    _work: cython.size_t

    def __init__(self, function: FastFunction) -> None:
        own = function.clone()
        if cython.compiled and not own.compiled:
            raise ParameterError("function", own.name, "machine code: compiled control calls no virtual machine")
        self._function, self._run = own, own.run
        self.native = own.compiled
        self._address, self._arguments, self._results, self._integers, self._work = own.addresses

    def input(self, index: int) -> Any:
        """Memory of an input, column by column.

        Parameters
        ----------
        index : of the input, from 0
        """
        return memoryview(self._function.inputs[index])  # type: ignore[attr-defined]

    def output(self, index: int) -> Any:
        """Memory of a result, a column.

        Parameters
        ----------
        index : of the result, from 0
        """
        return memoryview(self._function.outputs[index])  # type: ignore[attr-defined]

    @stepped
    def call(self) -> cython.void:
        """Call the function on its buffers."""
        if cython.compiled:
            # The type is declared by runtime/cycle/compilation.py.
            cython.cast(CasadiFunction, self._address)(  # type: ignore[name-defined]  # noqa: F821
                cython.cast(cython.pp_double, self._arguments),
                cython.cast(cython.pp_double, self._results),
                cython.cast(cython.p_longlong, self._integers),
                cython.cast(cython.p_double, self._work),
                0,
            )
        else:
            self._run()  # type: ignore[operator]
