# SPDX-License-Identifier: Apache-2.0
"""The sums of the general rod as machine code: strain_kernel.c, compiled once into the user's cache.

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
        code = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
        library = load_library(build_library([code], lambda: code, _FLAGS, "the general rod", None))
    except (OSError, subprocess.SubprocessError, ContinuumRobotError) as error:
        if wish == "always":
            raise ContinuumRobotError(f"cannot compile the general rod: {error}") from error
        return None
    for name in ("chain_frames", "chain_contraction", "load_terms", "path_terms", "inertia_terms"):
        getattr(library, name).restype = None
    return library


class Record:
    """A C structure of whole numbers and pointers to arrays, which it keeps alive.

    Parameters
    ----------
    numbers : leading members of type long long
    arrays : the pointers behind them; arrays of doubles or of C's int, made contiguous
    """

    def __init__(self, numbers: tuple[int, ...], arrays: tuple[Any, ...]) -> None:
        self._arrays = arrays
        words = [*numbers, *(array.ctypes.data for array in arrays)]
        self._memory = (ctypes.c_longlong * len(words))(*words)
        self.pointer = ctypes.c_void_p(ctypes.addressof(self._memory))


def doubles(array: Any) -> Vector:
    """A contiguous array of doubles."""
    return np.ascontiguousarray(array, dtype=np.float64)


def whole(array: Any) -> NDArray[np.intc]:
    """A contiguous array of C's int."""
    return np.ascontiguousarray(array, dtype=np.intc)


def address(array: Any) -> ctypes.c_void_p:
    """Where a contiguous array begins."""
    return ctypes.c_void_p(array.ctypes.data)
