# SPDX-License-Identifier: Apache-2.0
"""The rod's kernel called from stepped code."""

from __future__ import annotations

from typing import Any

import cython

from continuum_robot.errors import ParameterError
from continuum_robot.rod.rod import Rod
from continuum_robot.stepped.buffers import stepped


def memory_of(array: Any) -> Any:
    """Of an array, as stepped code indexes it."""
    return memoryview(array)


@cython.cclass
class KernelCall:
    """Inverse dynamics of a rod, and what changes its momentum, on buffers of its own.

    Compiled, the kernel is called through its address; interpreted, through the same library, so both give the same
    bits. Not for use by two threads at once; any thread may call, and nothing is allocated.

    Parameters
    ----------
    rod : whose numbers it reads at each call
    wanted : which of momentum, force and bias it writes; the others stay 0
    elastic : with stiffness and damping

    Attributes
    ----------
    native : whether compiled code can call it
    c, rate, acceleration : what it reads, 1/m, 1/(m.s), 1/(m.s^2) for curvatures
    momentum : p = dL/dc_rate
    force : what changes p without tendons and friction: dL/dc - D c_rate, johnston (43), (44)
    bias : force that gives the acceleration, tendons' included: the left side of muhmann (25)

    Raises
    ------
    ParameterError : no library of the kernel, for the compiled form
    """

    native = cython.declare(cython.bint, visibility="readonly")
    c: cython.double[::1]
    rate: cython.double[::1]
    acceleration: cython.double[::1]
    momentum: cython.double[::1]
    force: cython.double[::1]
    bias: cython.double[::1]
    _function: object
    _run: object
    _address: cython.size_t
    _shape: cython.size_t
    _numbers: cython.size_t
    _at_c: cython.size_t
    _at_rate: cython.size_t
    _at_acceleration: cython.size_t
    _terms: cython.size_t
    _memory: cython.size_t

    def __init__(self, rod: Rod, *wanted: str, elastic: bool = True) -> None:
        own = rod.in_cycle(wanted, elastic=elastic)
        self.native = bool(own.addresses)
        if cython.compiled and not self.native:
            raise ParameterError("rod", rod.n, "the kernel's library: compiled control calls no Python function")
        self._function, self._run = own, own.run
        self.c, self.rate, self.acceleration = map(memory_of, (own.c, own.rate, own.acceleration))
        self.momentum, self.force, self.bias = map(memory_of, (own.momentum, own.force, own.bias))
        if self.native:
            self._address, self._shape, self._numbers, self._at_c = own.addresses[:4]
            self._at_rate, self._at_acceleration, self._terms, self._memory = own.addresses[4:]

    @stepped
    def call(self) -> cython.void:
        """Call the kernel on the buffers."""
        if cython.compiled:
            # The type is declared by runtime/cycle/compilation.py.
            cython.cast(RodDynamics, self._address)(  # type: ignore[name-defined]  # noqa: F821
                cython.cast(cython.p_void, self._shape),
                cython.cast(cython.p_void, self._numbers),
                cython.cast(cython.p_double, self._at_c),
                cython.cast(cython.p_double, self._at_rate),
                cython.cast(cython.p_double, self._at_acceleration),
                cython.cast(cython.p_void, self._terms),
                cython.cast(cython.p_double, self._memory),
            )
        else:
            self._run()  # type: ignore[operator]
