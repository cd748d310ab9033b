# SPDX-License-Identifier: Apache-2.0
"""Friction of capstan-driven tendons in the holes of the disks, in closed form: johnston section 5.3, (32)-(38).

A strand that comes to a bushing with tension f and direction t_in and leaves with tension f' and direction t_out
presses on it with f' t_out - f t_in, of which the part in the disk's plane is the normal force. johnston (34) prints a
plus: there both unit vectors point away from the disk, so that the one before the disk runs against the strand. With
directions along the strand the sign is a minus, and a strand that passes straight through a hole, however oblique to
the disk, presses on nothing.

With a = P t_in, b = P t_out and x = f' / f the condition f' = f - mu |f' b - f a| of (33), (34) is
(1 - mu^2 b.b) x^2 - 2 (1 - mu^2 a.b) x + (1 - mu^2 a.a) = 0 with x <= 1. For mu < 1 the polynomial is positive at
x = 0, not positive at x = 1 and grows without bound, so one root lies in [0, 1] and the other above: johnston's
constrained minimisation (35) has a single admissible point, the lesser root. It does not depend on f, so a strand loses
a share of its tension that depends on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.capstans import Drive, capstan_jacobian, drives
from continuum_robot.rod.code_generation import FastFunction, compile_functions
from continuum_robot.rod.moving_chain import SegmentSteps
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]

SIGNS = ("tanh", "sign")
TANH_PER_RADIAN = 10.0  # johnston below (37)
# Deflections at a bushing below about this angle over the friction coefficient, rad, are rounded off, so that the
# friction has a derivative at the straight configuration.
_ROUNDING = 1e-7


def bushing_share(before: Any, after: Any, friction_coefficient: Any, rounding: float = _ROUNDING) -> Any:
    """Share of its tension that a strand keeps at one bushing: f_i / f_(i-1) of johnston (33)-(35).

    Parameters
    ----------
    before, after : directions of the strand before and after the bushing, along the strand, in the disk's plane, (2,)
    friction_coefficient : mu, in [0, 1)
    rounding : see the module's constant; 0 for the exact formula, without derivative where nothing deflects

    Returns
    -------
    in [0, 1], 1 where the strand passes straight through
    """
    square = friction_coefficient**2
    aa, ab = ca.dot(before, before), ca.dot(before, after)
    turn = after - before
    cross = before[0] * turn[1] - before[1] * turn[0]
    # (1 - mu^2 ab)^2 - (1 - mu^2 aa)(1 - mu^2 bb) without cancellation; never negative, as |a| <= 1 and mu < 1.
    discriminant = ca.fmax(square * (ca.dot(turn, turn) - square * cross**2), 0)
    root = ca.sqrt(discriminant + rounding**2) - rounding
    # The lesser root as product over greater root: it keeps its digits for a small share. Rounding may not make it > 1.
    return ca.fmin((1 - square * aa) / (1 - square * ab + root), 1)


def strand_share(segment: Segment, own: Any, angle_rad: float, friction_coefficient: Any) -> Any:
    """Share of its tension with which a strand ends that runs out through all disks, and back.

    The bushings are one in the base plate, one in each disk, and the same again on the way back: 2 (n_d + 1) of (36).
    The strand comes from the capstan, and goes around the pulley on the last disk, square to the plates.

    Parameters
    ----------
    segment : the segment; with two strands a tendon runs out and back, else out only
    own : (k,) its coefficients, CasADi expression
    angle_rad : of the tendon from +x
    friction_coefficient : mu

    Returns
    -------
    product of the shares of all bushings
    """
    radius_m = segment.tendons.pitch_radius_m
    hole = ca.DM([radius_m * math.cos(angle_rad), radius_m * math.sin(angle_rad), 0.0])
    straight = ca.SX.zeros(2)
    steps = SegmentSteps(segment, own)
    chords: list[Any] = []  # for each stretch between disks: direction at its start and at its end, in those planes
    places_m = [0.0, *(float(place) for place in segment.disks.positions_m(segment.length_m) if place > 0)]
    for start_m, end_m in pairwise(places_m):
        rotation, position = steps.frame(start_m, end_m)
        chord = position + rotation @ hole - hole
        chord = chord / ca.sqrt(ca.dot(chord, chord))
        chords += [chord[:2], (rotation.T @ chord)[:2]]
    planes = [straight, *chords, straight]
    share: Any = ca.SX(1)
    for before, after in zip(planes[::2], planes[1::2], strict=True):
        share *= bushing_share(before, after, friction_coefficient)
        if segment.tendons.strands > 1:
            share *= bushing_share(-after, -before, friction_coefficient)
    return share


class TendonFriction:
    """Friction of all capstans of a robot; of no effect on a robot without capstans.

    Parameters
    ----------
    robot : the robot
    sign : "tanh" for tanh(10 q') of the capstan's speed (rad/s), "sign" for its sign: below johnston (37)
    coefficients : friction coefficient of each capstan instead of the robot file's, (k,), dimensionless; they stay
        parameters of :attr:`symbolic`
    compile, progress : as in :func:`~continuum_robot.rod.code_generation.compile_functions`

    Attributes
    ----------
    capstan_count : k
    jacobian : J_qc, (k, n), rad per (1/m)
    coefficients : (k,)
    shares : casadi.Function (c, coefficients) -> (k, 2), what the pulled and the released strand of each keep
    resistance : casadi.Function (c, capstan_speed, capstan_torque, coefficients) -> friction torque (k,)
    symbolic : casadi.Function (c, c_rate, capstan_torque, coefficients) -> friction torque (k,)

    Raises
    ------
    ParameterError : unknown sign, or coefficients that are not in [0, 1)
    """

    def __init__(
        self,
        robot: Robot,
        *,
        sign: str = "tanh",
        coefficients: ArrayLike | None = None,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if sign not in SIGNS:
            raise ParameterError("sign", sign, "one of " + ", ".join(SIGNS))
        self.robot = robot
        self._drives = drives(robot)
        self.capstan_count = len(self._drives)
        self.jacobian = capstan_jacobian(robot)
        values = [drive.friction_coefficient for drive in self._drives] if coefficients is None else coefficients
        self.coefficients = np.array(values, dtype=float)
        if self.coefficients.shape != (self.capstan_count,) or not np.all(
            (self.coefficients >= 0) & (self.coefficients < 1)
        ):
            raise ParameterError("coefficients", coefficients, f"{self.capstan_count} values in [0, 1)")
        self.shares = self._shares()
        self.resistance = self._resistance(sign)
        self.symbolic = self._torque()
        self._fast: FastFunction | None = None
        if self.capstan_count and compile != "never":
            name = f"the tendon friction of {robot.name}"
            made = compile_functions([self.symbolic], name, compile=compile, progress=progress)
            self._fast = made[self.symbolic.name()]
        elif self.capstan_count:
            self._fast = FastFunction(self.symbolic)

    def capstan_torque(self, c: ArrayLike, c_rate: ArrayLike, capstan_torque: ArrayLike) -> Vector:
        """Torque by which friction resists each capstan, johnston (32)-(37).

        Parameters
        ----------
        c, c_rate : (n,) state
        capstan_torque : (k,) torque on each capstan, N.m

        Returns
        -------
        (k,) tau_F, N.m; of the sign of the capstan's speed
        """
        if self._fast is None:
            return np.zeros(0)
        return self._fast(c, c_rate, capstan_torque, self.coefficients).reshape(-1)

    def generalized_force(self, c: ArrayLike, c_rate: ArrayLike, capstan_torque: ArrayLike) -> Vector:
        """kappa_fric = J_qc^T tau_F of johnston (38), (n,), N.m^2; it is subtracted from the other forces (41).

        Parameters
        ----------
        capstan_torque : on each capstan, (k,), N.m
        """
        return self.jacobian.T @ self.capstan_torque(c, c_rate, capstan_torque)

    def _shares(self) -> ca.Function:
        c = ca.SX.sym("c", self.robot.coefficient_count)
        coefficients = ca.SX.sym("coefficients", self.capstan_count)
        rows = [self._of_drive(drive, c, coefficients[k]) for k, drive in enumerate(self._drives)]
        value = ca.vertcat(*rows) if rows else ca.SX(0, 2)
        return ca.Function("shares", [c, coefficients], [value], ["c", "coefficients"], ["shares"], {"cse": True})

    def _of_drive(self, drive: Drive, c: Any, coefficient: Any) -> Any:
        segment = self.robot.segments[drive.segment]
        own = c[coefficient_slices(self.robot)[drive.segment]]
        angles = segment.tendons.angles_rad
        first = self.robot.tendon_slices[drive.segment].start
        sides = [float(angles[tendon - first]) for tendon in (drive.pulled, drive.released)]
        return ca.horzcat(*(strand_share(segment, own, angle, coefficient) for angle in sides))

    def _resistance(self, sign: str) -> ca.Function:
        k = self.capstan_count
        c, speed = ca.SX.sym("c", self.robot.coefficient_count), ca.SX.sym("capstan_speed", k)
        torque, coefficients = ca.SX.sym("capstan_torque", k), ca.SX.sym("coefficients", k)
        shares = self.shares(c, coefficients)
        radii = ca.DM([drive.capstans.radius_m for drive in self._drives])
        pretensions = ca.DM([drive.capstans.pretension_n for drive in self._drives])
        # Which of the two strands is pulled follows from the sign of the torque, so (32) is this for both signs.
        pulled, released = ca.fmax(pretensions + torque / radii, 0), ca.fmax(pretensions - torque / radii, 0)
        lost = (1 - shares[:, 0]) * pulled + (1 - shares[:, 1]) * released  # johnston (33), (36)
        direction = ca.sign(speed) if sign == "sign" else ca.tanh(TANH_PER_RADIAN * speed)
        value = direction * radii * lost  # johnston (37)
        return ca.Function(
            "friction_resistance",
            [c, speed, torque, coefficients],
            [ca.densify(value)],
            ["c", "capstan_speed", "capstan_torque", "coefficients"],
            ["friction_torque"],
            {"cse": True},
        )

    def _torque(self) -> ca.Function:
        c, c_rate = (ca.SX.sym(name, self.robot.coefficient_count) for name in ("c", "c_rate"))
        torque, coefficients = (ca.SX.sym(name, self.capstan_count) for name in ("capstan_torque", "coefficients"))
        speed = ca.SX(ca.sparsify(ca.DM(self.jacobian))) @ c_rate
        return ca.Function(
            "tendon_friction",
            [c, c_rate, torque, coefficients],
            [self.resistance(c, speed, torque, coefficients)],
            ["c", "c_rate", "capstan_torque", "coefficients"],
            ["friction_torque"],
            {"cse": True},
        )
