# SPDX-License-Identifier: Apache-2.0
"""The generalised forces that hold a rod at given Clarke coordinates, muhmann (25), as stepped code."""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.code.generation import FastFunction
from continuum_robot.stepped.buffers import indices, matrix, stepped, vector

Vector = NDArray[np.float64]


@cython.cclass
class HoldingForce:
    """K_M q and g_M of muhmann (25): elastic and gravity force at Clarke coordinates.

    The gravity force is a generated function. Compiled, it is called through its address; interpreted, through the same
    library, so both give the same bits. Called as a function it is the ``rod_feedforward`` of the controller. Not for
    use by two threads at once; each makes one of its own from :attr:`parts`.

    Parameters
    ----------
    stiffness : K_M, shape (2m, 2m), N/m
    shape : from Clarke coordinates to coefficients, shape (n, 2m), 1/m per m
    gravity : generalised gravity force of the coefficients; it gets buffers of its own

    Attributes
    ----------
    parts : the three arguments, of which another one is made
    native : whether compiled code can call it
    elastic, gravity : of the last step, N

    Raises
    ------
    ParameterError : a function without machine code, for the compiled form
    """

    parts = cython.declare(object, visibility="readonly")
    native = cython.declare(cython.bint, visibility="readonly")
    coordinate_count: cython.int
    coefficient_count: cython.int
    stiffness: cython.double[::1]
    shape: cython.double[::1]
    coefficients: cython.double[::1]
    load: cython.double[::1]
    elastic: cython.double[::1]
    gravity: cython.double[::1]
    _function: object
    _run: object
    _address: cython.size_t
    _arguments: cython.size_t
    _results: cython.size_t
    _integers: cython.size_t
    _work: cython.size_t

    def __init__(self, stiffness: Vector, shape: Vector, gravity: FastFunction) -> None:
        function = gravity.clone()
        if cython.compiled and not function.compiled:
            raise ParameterError("gravity", function.name, "machine code: compiled control calls no virtual machine")
        self.parts = (stiffness, shape, gravity)
        self.coefficient_count, self.coordinate_count = shape.shape
        self.stiffness, self.shape = matrix(stiffness.tolist()), matrix(shape.tolist())
        self.elastic, self.gravity = vector(self.coordinate_count), vector(self.coordinate_count)
        self.coefficients = memoryview(function.inputs[0])  # type: ignore[arg-type]
        self.load = memoryview(function.outputs[0])  # type: ignore[arg-type]
        self._function, self._run = function, function.run
        self.native = function.compiled
        self._address, self._arguments, self._results, self._integers, self._work = function.addresses

    @stepped
    def step(self, clarke: cython.double[::1]) -> cython.void:
        """Elastic and gravity force at Clarke coordinates, m."""
        j: cython.int
        k: cython.int
        total: cython.double
        coordinates: cython.int = self.coordinate_count
        for j in indices(self.coefficient_count):
            total = 0.0
            for k in indices(coordinates):
                total += self.shape[j * coordinates + k] * clarke[k]
            self.coefficients[j] = total
        self.call()
        for k in indices(coordinates):
            total = 0.0
            for j in indices(coordinates):
                total += self.stiffness[k * coordinates + j] * clarke[j]
            self.elastic[k] = total
            total = 0.0
            for j in indices(self.coefficient_count):
                total += self.shape[j * coordinates + k] * self.load[j]
            self.gravity[k] = total

    @stepped
    def call(self) -> cython.void:
        """Call the generated function on its buffers."""
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

    def __call__(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Elastic and gravity generalised force (2m,), N, at Clarke coordinates (2m,), m."""
        self.step(vector(clarke))
        return np.array(self.elastic), np.array(self.gravity)
