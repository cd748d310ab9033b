# SPDX-License-Identifier: Apache-2.0
"""Mass matrix of a rod whose mass is lumped at the stations of its chain: M = R R^T, R of rod/strain/sweeps.py."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.rod.strain.kinematics import MagnusChain
from continuum_robot.rod.strain.sweeps import mass_root_function

Vector = NDArray[np.float64]


class ChainMass:
    """Mass at the stations of a chain.

    Parameters
    ----------
    chain : of the rod
    inertia : (k, 6, 6) of every station about itself in its own axes, kg.m^2, kg.m and kg

    Attributes
    ----------
    chain, inertia : as given
    """

    def __init__(self, chain: MagnusChain, inertia: Vector) -> None:
        self.chain, self.inertia = chain, inertia

    @cached_property
    def root_function(self) -> ca.Function:
        """C -> R(c), (n, 6 k), with M = R R^T."""
        return mass_root_function(self.chain, self.inertia)

    def matrix(self, c: ArrayLike) -> Vector:
        """M(c) of the kinetic energy c_rate^T M c_rate / 2, (n, n)."""
        root = self.root_function(np.asarray(c, dtype=float)).full()
        return np.asarray(root @ root.T)
