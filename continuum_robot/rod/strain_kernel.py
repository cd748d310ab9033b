# SPDX-License-Identifier: Apache-2.0
"""The sums of the general rod as machine code: strain_kernel.c and strain_step.c, compiled once into the user's cache.

Where no compiler works the NumPy formulas run, which the kernel repeats.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.rod.code_generation import build_library, load_library

Vector = NDArray[np.float64]

_SOURCES = ("strain_kernel.c", "strain_step.c")
_FLAGS = ("-O3", "-fno-math-errno")
SWITCH = "CONTINUUM_ROBOT_STRAIN_KERNEL"
"""Environment variable: "never" leaves the kernel out, "always" makes it an error where it cannot be compiled."""


@cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, None where NumPy has to do.

    Raises
    ------
    ContinuumRobotError : it cannot be compiled though the environment asks for it
    """
    wish = os.environ.get(SWITCH, "auto")
    if wish == "never":
        return None
    try:
        code = "\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SOURCES)
        library = load_library(build_library([code], lambda: code, _FLAGS, "the general rod", None))
    except (OSError, subprocess.SubprocessError, ContinuumRobotError) as error:
        if wish == "always":
            raise ContinuumRobotError(f"cannot compile the general rod: {error}") from error
        return None
    for name in ("chain_frames", "chain_contraction", "load_terms", "path_terms", "inertia_terms"):
        getattr(library, name).restype = None
    library.motion_stage.restype = ctypes.c_longlong
    return library


class Record:
    """A C structure of whole numbers and pointers to arrays and other structures, which it keeps alive.

    Parameters
    ----------
    numbers : leading members of type long long
    arrays : the pointers behind them; arrays of doubles or of C's int, made contiguous, or records
    """

    def __init__(self, numbers: tuple[int, ...], arrays: tuple[Any, ...]) -> None:
        self._arrays = arrays
        words = [*numbers, *(_place(part) for part in arrays)]
        self._memory = (ctypes.c_longlong * len(words))(*words)
        self.pointer: Any = ctypes.c_void_p(ctypes.addressof(self._memory))

    def put(self, place: int, number: int) -> None:
        """Change a leading member.

        Parameters
        ----------
        place : index of the member
        number : its new value
        """
        self._memory[place] = number


def _place(part: Any) -> int:
    return int(part.pointer.value if isinstance(part, Record) else part.ctypes.data)


def doubles(array: Any) -> Vector:
    """A contiguous array of doubles, of the shape (...) of ``array``."""
    return np.ascontiguousarray(array, dtype=np.float64)


def whole(array: Any) -> NDArray[np.intc]:
    """A contiguous array of C's int, of the shape (...) of ``array``."""
    return np.ascontiguousarray(array, dtype=np.intc)


def address(array: Any) -> ctypes.c_void_p:
    """Where a contiguous array begins."""
    return ctypes.c_void_p(array.ctypes.data)
