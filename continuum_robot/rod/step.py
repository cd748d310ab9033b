# SPDX-License-Identifier: Apache-2.0
"""One step along a rod with general strains, symbolically: what its kinematics, statics and motion are made of.

The rod is a chain g_i = g_(i-1) exp(Omega_i) of Magnus steps. Omega_i follows from the strain xi = (u, v) at the three
Gauss nodes of the step (sixth order), and the strain is linear in the coefficients, so each function here takes the
eighteen nodal strains of one step and knows nothing of bases or robots. Derivatives are CasADi's; they are the exact
derivatives of the chain, not of the continuous rod that it approaches.

Twists and strains have the angular part first; a wrench is (moment, force). Frames are vectors of 12: the rotation
matrix column by column, then the position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import casadi as ca

from continuum_robot.rod.exponential import (
    exponential,
    magnus_of_sixth_order,
    stumpff,
    stumpff_around,
    tangent,
    tangent_coefficients,
)

GAUSS_RATIOS = (0.5 - math.sqrt(15) / 10, 0.5, 0.5 + math.sqrt(15) / 10)
"""Positions of a step's nodes, in its length."""
_OPTIONS = {"cse": True}


def magnus(strain: Any, length: Any) -> Any:
    """Twist Omega (6,) of a step from the strain (18,) at its nodes and its length, m."""
    first, second, third = ca.vertsplit(strain, 6)
    return magnus_of_sixth_order(first, second, third, length)


@dataclass(frozen=True)
class StrainPattern:
    """Which strains a step has, of six: those alone are arguments of its functions.

    Attributes
    ----------
    constant : rows with one strain all along the step
    varying : rows with a strain of its own at each node
    rest : (6,) strain in the other rows, 1/m and dimensionless
    """

    constant: tuple[int, ...]
    varying: tuple[int, ...]
    rest: tuple[float, ...]

    @property
    def constant_alone(self) -> bool:
        """Whether the strain is the same at all nodes."""
        return not self.varying

    @property
    def picked(self) -> tuple[int, ...]:
        """Which of the eighteen nodal strains are arguments: (m,)."""
        return (*self.constant, *(row + 6 * node for node in range(len(GAUSS_RATIOS)) for row in self.varying))

    def strains(self, nodal: Any) -> Any:
        """All eighteen nodal strains.

        Parameters
        ----------
        nodal : those picked, (m,)
        """
        values: list[Any] = list(self.rest) * len(GAUSS_RATIOS)
        for at, value in zip(self.picked, ca.vertsplit(nodal), strict=True):
            for node in range(len(GAUSS_RATIOS)) if at in self.constant else (0,):
                values[at + 6 * node] = value
        return ca.vertcat(*values)

    def magnus(self, nodal: Any, length: Any) -> Any:
        """Twist Omega (6,) of a step.

        Parameters
        ----------
        nodal : the strains picked, (m,)
        length : of the step, m
        """
        strains = self.strains(nodal)
        return length * strains[:6] if self.constant_alone else magnus(strains, length)


@cache
def frame_function(pattern: StrainPattern, reach_rad: float) -> ca.Function:
    """Of the strains picked (m,) and the step's length (m): rotation (3, 3) and position (3,) of its end in its start.

    Parameters
    ----------
    reach_rad : turn of the step to which that holds to double precision, rad
    """
    nodal, length = ca.SX.sym("nodal", len(pattern.picked)), ca.SX.sym("length")
    step = pattern.magnus(nodal, length)
    results = exponential(step, stumpff(ca.sumsqr(step[:3]), reach_rad))
    return ca.Function("rod_step_frame", [nodal, length], [ca.densify(value) for value in results], _inlining(pattern))


@cache
def tangent_function(pattern: StrainPattern, reach_rad: float) -> ca.Function:
    """Of the strains picked (m,) and the step's length (m): where its end is, and how the strains move that.

    Rotation (3, 3) and position (3,) of its end in its start, and the twist of its end against its start in the end's
    axes per strain rate, (6, m).

    Parameters
    ----------
    reach_rad : turn of the step to which that holds to double precision, rad
    """
    here = _Step(pattern, reach_rad)
    by_strain = ca.jacobian(here.step, here.nodal)
    return ca.Function(
        "rod_step_tangent",
        [here.nodal, here.length],
        [ca.densify(value) for value in here.at([here.turn, here.shift, here.tangent(-1) @ by_strain])],
        _inlining(pattern),
    )


@cache
def drift_function(pattern: StrainPattern, reach_rad: float) -> ca.Function:
    """Of the strains picked (m,), their rates and the step's length (m): derivative of the twist of its end, (6,).

    At constant strain rates, the twist being that of the end against the start in the end's axes.

    Parameters
    ----------
    reach_rad : turn of the step to which that holds to double precision, rad
    """
    here = _Step(pattern, reach_rad)
    step_drift = ca.jtimes(here.step_rate, here.nodal, here.rate)
    by_omega, known = here.tangent(-1), ca.SX.sym("step_rate", 6)
    turned = ca.jtimes(by_omega @ known, here.omega, known)
    (value,) = here.at([ca.substitute(turned, known, here.step_rate) + by_omega @ step_drift])
    return ca.Function("rod_step_drift", [here.nodal, here.rate, here.length], [ca.densify(value)], _inlining(pattern))


def _inlining(pattern: StrainPattern) -> dict[str, bool]:
    """Where the strain is constant, copies of the code shrink to what the step's numbers leave of it."""
    return {**_OPTIONS, "never_inline": not pattern.constant_alone}


class _Step:
    """A step in symbols of its Omega, to differentiate by, with what that is in the strains picked (m,).

    Parameters
    ----------
    pattern : which strains are picked
    reach_rad : turn of the step to which all holds to double precision, rad
    """

    def __init__(self, pattern: StrainPattern, reach_rad: float) -> None:
        count = len(pattern.picked)
        self.nodal, self.rate, self.length = ca.SX.sym("nodal", count), ca.SX.sym("rate", count), ca.SX.sym("length")
        self.step = pattern.magnus(self.nodal, self.length)
        self.step_rate = ca.jtimes(self.step, self.nodal, self.rate)
        self.omega, self._square, self._reach_rad = ca.SX.sym("omega", 6), ca.SX.sym("square"), reach_rad
        self.turn, self.shift = exponential(
            self.omega, stumpff_around(ca.sumsqr(self.omega[:3]), self._square, reach_rad)
        )

    def tangent(self, sign: int) -> Any:
        """Twist of the end per change of Omega, (6, 6), as :func:`.exponential.tangent`."""
        return tangent(self.omega, tangent_coefficients(ca.sumsqr(self.omega[:3]), self._square, self._reach_rad), sign)

    def at(self, values: list[Any]) -> list[Any]:
        """The values in the strains."""
        known = [self.step, ca.sumsqr(self.step[:3])]
        return list(ca.substitute(values, [self.omega, self._square], known))


def carried(turn: Any, shift: Any, twists: Any) -> Any:
    """Twists (6, k) of a step's start in the axes of its end, of a frame fixed to the start there.

    Parameters
    ----------
    turn, shift : rotation (3, 3) and translation (3,) of the step, m
    twists : of the start in its own axes, rad/s and m/s
    """
    back, turning = turn.T, twists[:3, :]
    return ca.vertcat(back @ turning, back @ (twists[3:, :] - ca.skew(shift) @ turning))


def moved_jacobian(turn: Any, shift: Any, jacobian: Any, place: slice, own: Any) -> Any:
    """Jacobian of a step's end in its own axes, (6, n), from that of its start: J' = X J + D.

    Parameters
    ----------
    turn, shift : rotation (3, 3) and translation (3,) of the step, m
    jacobian : (6, n) of the start
    place : of the coefficients that the step has, k of them
    own : (6, k) D, twist of the end against the start in the end's axes per coefficient
    """
    moving = carried(turn, shift, jacobian)
    moving[:, place] += own
    return moving
