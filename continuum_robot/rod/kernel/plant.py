# SPDX-License-Identifier: Apache-2.0
"""Arrays of plant.hpp: laws of tendons, motors and capstans, what a step takes as given, and the state."""

from __future__ import annotations

import ctypes as ct

import numpy as np

from continuum_robot.rod.kernel.library import Pointer

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
