# SPDX-License-Identifier: Apache-2.0
"""The compiled kernel, found beside this package's generated half; None where no library could be built."""

from __future__ import annotations

import ctypes as ct
import logging
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import continuum_robot

NAME, WIDE = "librod_kernel.so", "librod_kernel_wide.so"
_WIDE_FLAGS = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

Pointer = ct.c_void_p


class Shape(ct.Structure):
    """As in arrays.hpp."""

    _fields_ = [
        *((name, ct.c_int) for name in ("n", "pieces", "bodies", "paths", "path_nodes", "straight")),
        *(
            (name, Pointer)
            for name in (
                *("piece", "place", "row", "phi", "at_node", "weight", "weight_of"),
                *("path_node", "path_phi", "path_index"),
            )
        ),
    ]


class Numbers(ct.Structure):
    """As in arrays.hpp."""

    _fields_ = [
        (name, Pointer) for name in ("gravity", "body", "inertia", "stiffness", "damping", "rest", "path_rest", "path")
    ]


class Terms(ct.Structure):
    """As in arrays.hpp."""

    _fields_ = [
        (name, Pointer)
        for name in ("momentum", "force", "bias", "mass", "momentum_by_c", "force_by_c", "pose", "jacobian")
    ]


class Directions(ct.Structure):
    """As in gradient.hpp."""

    _fields_ = [("count", ct.c_int), *((name, Pointer) for name in ("body", "stiffness", "damping"))]


WIRE = np.dtype([("first", np.int32), ("holes", np.int32), ("back", np.int32)])
"""As in capstans.hpp."""
HOLE = np.dtype([("body", np.int32), ("at_m", np.float64, 2)], align=True)
"""As in capstans.hpp."""


class Pull(ct.Structure):
    """As in forces.hpp."""

    _fields_ = [(name, Pointer) for name in ("tension", "stiffness", "spooled", "slack_m", "stops")]


class AtRest(ct.Structure):
    """As in statics.hpp."""

    _fields_ = [
        *((name, Pointer) for name in ("hessian", "force", "length", "tension", "gradient", "pose", "jacobian")),
        ("energy", ct.c_double),
    ]


class Held(ct.Structure):
    """As in held.hpp."""

    _fields_ = [
        *((name, ct.c_int) for name in ("paths", "stiffnesses", "conservative")),
        *(
            (name, Pointer)
            for name in (
                *("tendon", "rest", "path", "path_rest", "straight", "stiffness_by", "point", "c", "reading"),
                *("hessian", "gradient", "shorter", "tension", "pull", "anchor", "by", "tip", "point_by"),
            )
        ),
    ]


PLACE = np.dtype([("node", np.int32), ("step_m", np.float64)], align=True)


def at(array: NDArray[np.generic] | None) -> int | None:
    """Address of an array's values, which must be contiguous and stay alive; None of None."""
    if array is None:
        return None
    if not array.flags.c_contiguous:
        raise ValueError("the kernel reads contiguous arrays only")
    return array.ctypes.data


NOT_BUILT = (
    "the rod's kernel was not built when this package was installed, for lack of a C++17 compiler: its NumPy form"
    " serves, some hundred times slower, without batches, motions, plants, capstans' friction, slopes by numbers and"
    " the contact monitor"
)


@lru_cache(maxsize=1)
def library() -> ct.CDLL | None:
    """The kernel, for the widest vectors that this processor has; loaded once. Without one a warning says so, once."""
    found = load(WIDE if _has_wide() else NAME) or load(NAME)
    if found is None:
        logging.getLogger("continuum_robot.rod").warning("%s", NOT_BUILT)
    return found


def load(name: str) -> ct.CDLL | None:
    """One of the two libraries; None where it was not built."""
    folders = [Path(folder, "rod", "kernel") for folder in continuum_robot.__path__]
    if "CONTINUUM_ROBOT_KERNEL" in os.environ:
        folders = [Path(os.environ["CONTINUUM_ROBOT_KERNEL"])]
    for folder in folders:
        if (folder / name).is_file():
            found = ct.CDLL(str(folder / name))
            found.rod_memory.restype = ct.c_size_t
            return found
    return None


def _has_wide() -> bool:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    return _WIDE_FLAGS.issubset(flags)
