# SPDX-License-Identifier: Apache-2.0
"""What holds a rod: generalised forces at given coordinates of its tendons, muhmann (25), and servos at displacements.

A tendon whose servo reads q has taken in gain q + zero; what its path is not shorter by, it stretches by: load =
stiffness (gain q + zero - path), never negative. Dry friction of the path takes up a part of the load
(rod/friction/maxwell_slip.py), at most a fraction of it. Values of ``displaced_tendons`` where a fit found them; else a
tendon takes in what its servo reads, and slides without friction.
"""

from __future__ import annotations

from dataclasses import dataclass

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.kernel.call import KernelCall
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.stepped.buffers import matrix, stepped, vector
from continuum_robot.stepped.products import multiply, multiply_transposed

Vector = NDArray[np.float64]


@cython.cclass
class HoldingForce:
    """K_M q and g_M of muhmann (25): elastic and gravity force at Clarke coordinates.

    Called as a function it is the ``rod_feedforward`` of the controller. Not for use by two threads at once; each makes
    one of its own from :attr:`parts`.

    Parameters
    ----------
    stiffness : K_M, shape (2m, 2m), N/m
    shape : from Clarke coordinates to coefficients, shape (n, 2m), 1/m per m
    """

    parts = cython.declare(object, visibility="readonly")
    native = cython.declare(cython.bint, visibility="readonly")
    coordinate_count: cython.int
    coefficient_count: cython.int
    stiffness: cython.double[::1]
    shape: cython.double[::1]
    elastic: cython.double[::1]
    gravity: cython.double[::1]
    weight: KernelCall

    def __init__(self, stiffness: Vector, shape: Vector, rod: Rod) -> None:
        self.parts = (stiffness, shape, rod)
        self.coefficient_count, self.coordinate_count = shape.shape
        self.stiffness, self.shape = matrix(stiffness.tolist()), matrix(shape.tolist())
        self.elastic, self.gravity = vector(self.coordinate_count), vector(self.coordinate_count)
        self.weight = KernelCall(rod, "bias", elastic=False)
        self.native = self.weight.native

    @stepped
    def step(self, clarke: cython.double[::1]) -> cython.void:
        """Elastic and gravity force at Clarke coordinates, m."""
        multiply(self.shape, clarke, self.coefficient_count, self.coordinate_count, self.weight.c)
        self.weight.call()
        multiply(self.stiffness, clarke, self.coordinate_count, self.coordinate_count, self.elastic)
        multiply_transposed(self.shape, self.weight.bias, self.coefficient_count, self.coordinate_count, self.gravity)

    def __call__(self, clarke: Vector) -> tuple[Vector, Vector]:
        """Elastic and gravity generalised force (2m,), N, at Clarke coordinates (2m,), m."""
        self.step(vector(clarke))
        return np.array(self.elastic), np.array(self.gravity)


def clarke_feedforward(robot: Robot) -> HoldingForce:
    """The generalised forces K_M q and g_M of muhmann (25), apart from each other."""
    rod, shape = under_pretension(robot, Rod(robot, paths=())), coefficients_from_clarke(robot)
    return HoldingForce(shape.T @ rod.arrays.stiffness @ shape, shape, rod)  # K_M of (25)


def under_pretension(robot: Robot, rod: Rod) -> Rod:
    """The rod as stiff as its tendons leave it that run straight between disks or spiral, at the robot's pretension.

    Such a tendon at the same tension pulls a bent rod on: minus the second derivatives of the lengths times tensions.
    """
    if robot.control is not None and robot.displaced_tendons is not None and robot.displaced_tendons.bends_paths:
        balance, straight = Balance(Rod(robot)), np.zeros(rod.n)
        rod.arrays.stiffness[:] += balance.hessian(straight, robot.control.pretension_n) - balance.hessian(straight)
    return rod


STICKING_OVER_TENDON = 5.0
"""Friction springs are this much stiffer than their tendon: what they hide is F / (5 k), a fifth of the tendon's own
stretch under the friction."""


@dataclass(frozen=True, slots=True)
class HeldTendons:
    """Numbers of N tendons, shape (N,) each."""

    stiffness_n_per_m: Vector
    zero_m: Vector
    gain: Vector
    friction_fraction: Vector

    @classmethod
    def of(cls, robot: Robot) -> HeldTendons:
        """Those of a rod."""
        stiffness, found = robot.tendon_stiffnesses_n_per_m, robot.displaced_tendons
        if found is None:
            nothing = np.zeros(len(stiffness))
            return cls(stiffness, nothing, nothing + 1.0, nothing)
        return cls(stiffness, np.array(found.zero_m), np.array(found.gain), np.array(found.friction_fraction))

    @property
    def sticking_n_per_m(self) -> Vector:
        """Stiffness of the friction springs."""
        return STICKING_OVER_TENDON * self.stiffness_n_per_m

    def spooled(self, reading: Vector) -> Vector:
        """What is taken in at readings of the servos, (..., N), m."""
        return self.gain * reading + self.zero_m

    def reading(self, path_m: Vector, load_n: Vector) -> Vector:
        """Readings at which the servos hold a load."""
        return np.asarray((path_m + load_n / self.stiffness_n_per_m - self.zero_m) / self.gain)

    def path(self, reading: Vector, load_n: Vector) -> Vector:
        """What the paths are shorter by at readings of the servos under loads; a slack tendon does not show it, m."""
        return np.asarray(self.spooled(reading) - np.maximum(load_n, 0.0) / self.stiffness_n_per_m)
