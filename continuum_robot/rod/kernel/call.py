# SPDX-License-Identifier: Apache-2.0
"""The rod's kernel called from stepped code, and the arrays of plant.hpp: laws, what a step is given, and the state."""

from __future__ import annotations

import ctypes as ct
from functools import partial
from typing import Any

import cython
import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel.library import Pointer
from continuum_robot.rod.rod import Rod
from continuum_robot.stepped.buffers import stepped


def memory_of(array: Any) -> Any:
    """Of an array, as stepped code indexes it."""
    return memoryview(array)


def _run_numpy(rod: Rod, rows: Any, elastic: bool) -> None:
    """The call without a library."""
    found, held = rod.terms(*rows[:3]), np.zeros(rod.n)
    if elastic:
        held = rod.arrays.stiffness @ rows[0] + rod.arrays.damping @ rows[1]
    rows[3:] = found.momentum, found.force - held, found.bias + held


@cython.cclass
class KernelCall:
    """Inverse dynamics of a rod, and what changes its momentum, on buffers of its own.

    Compiled, the kernel is called through its address; interpreted, through the same library, so both give the same
    bits. Not for use by two threads at once; any thread may call, and nothing is allocated.

    Attributes
    ----------
    force : what changes p without tendons and friction: dL/dc - D c_rate, johnston (43), (44)
    bias : force that gives the acceleration, tendons' included: the left side of muhmann (25)
    """

    native = cython.declare(cython.bint, visibility="readonly")
    c: cython.double[::1]
    rate: cython.double[::1]
    acceleration: cython.double[::1]
    momentum: cython.double[::1]
    force: cython.double[::1]
    bias: cython.double[::1]
    _kept: object
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
        library, rows = rod.library, np.zeros((6, rod.n))
        self.native = library is not None
        if cython.compiled and not self.native:
            raise ParameterError("rod", rod.n, "the kernel's library: compiled control calls no Python function")
        self.c, self.rate, self.acceleration, self.momentum, self.force, self.bias = map(memory_of, rows)
        self._run = partial(_run_numpy, rod, rows, elastic)
        if library is None:
            return
        numbers = kernel.Numbers.from_buffer_copy(rod.numbers)
        if not elastic:
            numbers.stiffness = numbers.damping = None
        results = dict(zip(("momentum", "force", "bias"), rows[3:], strict=True))
        terms = kernel.Terms(**{name: kernel.at(results[name]) for name in wanted})
        memory = np.zeros(library.rod_memory(ct.byref(rod.shape)))
        self._kept = rod, rows, numbers, terms, memory  # what the addresses belong to
        given = [ct.addressof(rod.shape), ct.addressof(numbers), *(kernel.at(row) for row in rows[:3])]
        given += [ct.addressof(terms), kernel.at(memory)]
        self._address = ct.cast(library.rod_dynamics, ct.c_void_p).value
        self._shape, self._numbers, self._at_c, self._at_rate = given[:4]
        self._at_acceleration, self._terms, self._memory = given[4:]
        self._run = partial(library.rod_dynamics, *map(ct.c_void_p, given))

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


MOTOR = np.dtype(
    [
        (name, np.float64)
        for name in (
            *("newton_per_ampere", "mass", "viscous", "coulomb", "cogging", "cogging_rad_per_m"),
            *("servo_stiffness", "servo_damping", "no_load_speed"),
        )
    ]
)
"""As in plant.hpp."""


class Spool(ct.Structure):
    """As in plant.hpp."""

    _fields_ = [
        *((name, ct.c_int) for name in ("turns", "elements")),
        *((name, ct.c_double) for name in ("stiffness", "stiffening", "damping", "creep", "current_time_constant")),
        *((name, Pointer) for name in ("motor", "reach", "slip")),
    ]


class Drive(ct.Structure):
    """As in plant.hpp."""

    _fields_ = [
        (name, Pointer)
        for name in (
            *("desired", "force", "offset", "fraction", "free", "phase", "anchors"),
            *("lost", "capstan", "touching", "largest", "stops"),
        )
    ]


class State(ct.Structure):
    """As in plant.hpp."""

    _fields_ = [(name, Pointer) for name in ("c", "v", "momentum", "spooled", "speed", "current", "tension")]


CAPSTAN = np.dtype(
    [
        *((name, np.int32) for name in ("pulled", "released")),
        *((name, np.float64) for name in ("path_per_radian", "radius", "strands")),
    ]
)
"""As in plant.hpp."""
