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
a fraction of its tension that depends on the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.code.shared import code_in, function_of, sparse
from continuum_robot.rod.friction.capstans import Drive, capstan_jacobian, drives, wires_from_tension
from continuum_robot.rod.moving_chain import SegmentSteps, expressions_of
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]

SIGNS = ("tanh", "sign")
TANH_PER_RADIAN = 10.0  # johnston below (37)
# Deflections at a bushing below about this angle over the friction coefficient, rad, are rounded off, so that the
# friction has a derivative at the straight configuration.
_ROUNDING = 1e-7


def bushing_fraction(before: Any, after: Any, friction_coefficient: Any, rounding: float = _ROUNDING) -> Any:
    """Fraction of its tension that a strand keeps at one bushing: f_i / f_(i-1) of johnston (33)-(35).

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
    # The lesser root as product over greater root keeps its digits for a small fraction. Rounding may not make it > 1.
    return ca.fmin((1 - square * aa) / (1 - square * ab + root), 1)


def strand_fraction(hole_m: Any, mu: Any, strands: int, frames: Sequence[tuple[Any, Any]]) -> Any:
    """Fraction of its tension with which a strand ends that runs out through all disks, and back.

    The bushings are one in the base plate, one in each disk, and the same again on the way back: 2 (n_d + 1) of (36).
    The strand comes from the capstan, and goes around the pulley on the last disk, square to the plates.

    Parameters
    ----------
    hole_m : where the strand runs through each disk, in its frame, (3,), m
    mu : friction coefficient
    strands : with two a tendon runs out and back, else out only
    frames : rotation (3, 3) and position (3,) of every disk in the frame of the one before, the first in the base's

    Returns
    -------
    product of the fractions of all bushings
    """
    straight = ca.SX.zeros(2)
    chords: list[Any] = []  # for each stretch between disks: direction at its start and at its end, in those planes
    for rotation, position in frames:
        chord = position + rotation @ hole_m - hole_m
        chord = chord / ca.sqrt(ca.dot(chord, chord))
        chords += [chord[:2], (rotation.T @ chord)[:2]]
    planes = [straight, *chords, straight]
    fraction: Any = ca.SX(1)
    for before, after in zip(planes[::2], planes[1::2], strict=True):
        fraction *= bushing_fraction(before, after, mu)
        if strands > 1:
            fraction *= bushing_fraction(-after, -before, mu)
    return fraction


def _fraction(strands: int, hole_m: Any, mu: Any, *frames: Any) -> tuple[Any]:
    return (strand_fraction(hole_m, mu, strands, list(zip(frames[::2], frames[1::2], strict=True))),)


def _fraction_gradient(strands: int, hole_m: Any, mu: Any, *frames: Any) -> tuple[Any, Any]:
    """The fraction, and its gradient by the twists of the disks against one another, (1, 6 disks), in a sweep back."""
    twists = [ca.SX.sym("twist", 6) for _ in frames[::2]]
    moved = [
        (rotation @ (ca.SX.eye(3) + ca.skew(twist[:3])), position + rotation @ twist[3:])
        for rotation, position, twist in zip(frames[::2], frames[1::2], twists, strict=True)
    ]
    still = ca.vertcat(*twists)
    fraction = strand_fraction(hole_m, mu, strands, moved)
    fraction, gradient = ca.substitute([fraction, ca.gradient(fraction, still)], [still], [ca.SX.zeros(still.shape[0])])
    return fraction, gradient.T


def _along(gradient: Any, *tangents: Any) -> tuple[Any]:
    return (gradient @ ca.vertcat(*tangents),)


class TendonFriction:
    """Friction of all capstans of a robot; of no effect on a robot without capstans.

    Parameters
    ----------
    robot : the robot
    sign : "tanh" for tanh(10 q') of the capstan's speed (rad/s), "sign" for its sign: below johnston (37)
    coefficients : friction coefficient of each capstan instead of the robot file's, (k,), dimensionless; they stay
        parameters of :attr:`symbolic`
    compile, progress : as in :func:`~continuum_robot.rod.code.generation.compile_functions`

    Attributes
    ----------
    capstan_count : k
    jacobian : J_qc, (k, n), rad per (1/m)
    coefficients : (k,)
    fractions : casadi.Function (c, coefficients) -> (k, 2), what the pulled and the released strand of each keep
    resistance : casadi.Function (c, capstan_speed, tension of all tendons, coefficients) -> friction torque (k,)
    symbolic : casadi.Function (c, c_rate, capstan_torque, coefficients) -> friction torque (k,), of tensions around the
        pretension of the robot's file

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
        self.sign = sign
        self._tendon_count = robot.tendon_count
        self._radii_m = np.array([drive.capstans.radius_m for drive in self._drives])
        self._pretension_n = np.array([drive.capstans.pretension_n for drive in self._drives])
        self._of_tension = wires_from_tension(robot)
        self.fractions = self._fractions()
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
        """Torque by which friction resists each capstan, johnston (32)-(37), around the pretension of the robot's file.

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

    def _fractions(self) -> ca.Function:
        c, coefficients = self._symbols()
        frames = [[part for frame in steps.frames(ends_m) for part in frame] for steps, ends_m in self._steps(c)]
        rows = [
            ca.horzcat(
                *(
                    fraction
                    for (fraction,) in self._of_strands(
                        "fraction", _fraction, k, drive, frames[drive.segment], coefficients
                    )
                )
            )
            for k, drive in enumerate(self._drives)
        ]
        value = ca.vertcat(*rows) if rows else ca.DM(0, 2)
        return function_of("fractions", [c, coefficients], [value], ["c", "coefficients"], ["fractions"])

    @cached_property
    def fraction_jacobian(self) -> ca.Function:
        """(c, coefficients) -> fractions (k, 2), and the derivatives by c of those of pulled and released, (k, n).

        By the twists of the disks against one another; how c moves the disks is the same for all strands.
        """
        c, coefficients = self._symbols()
        places = coefficient_slices(self.robot)
        frames, tangents = [], []
        for steps, ends_m in self._steps(c):
            motions = steps.motions(ends_m)
            frames.append([part for step in motions for part in (step.rotation, step.position)])
            tangents.append([step.tangent for step in motions])
        fractions: list[Any] = []
        rows: tuple[list[Any], list[Any]] = ([], [])
        for k, drive in enumerate(self._drives):
            place, at = places[drive.segment], drive.segment
            found = self._of_strands("fraction_gradient", _fraction_gradient, k, drive, frames[at], coefficients)
            fractions.append(ca.horzcat(*(fraction for fraction, _ in found)))
            for row, (_, gradient) in zip(rows, found, strict=True):
                (own,) = code_in(type(c))("along", _along, gradient, *tangents[at])
                row.append(ca.horzcat(ca.DM(1, place.start), own, ca.DM(1, c.shape[0] - place.stop)))
        results = [ca.vertcat(*fractions), *(ca.densify(ca.vertcat(*row)) for row in rows)]
        names = ["fractions", "pulled", "released"]
        return function_of("fraction_jacobian", [c, coefficients], results, ["c", "coefficients"], names)

    def _of_strands(
        self, name: str, formula: Callable[..., Any], k: int, drive: Drive, frames: list[Any], coefficients: Any
    ) -> list[tuple[Any, ...]]:
        """A formula of the pulled and of the released strand of drive ``k``."""
        tendons = self.robot.segments[drive.segment].tendons
        first = self.robot.tendon_slices[drive.segment].start
        found = []
        for at in (drive.pulled, drive.released):
            angle_rad = float(tendons.angles_rad[at - first])
            hole_m = ca.DM(tendons.pitch_radius_m * np.array([math.cos(angle_rad), math.sin(angle_rad), 0.0]))
            own = partial(formula, tendons.strands)
            code = code_in(type(coefficients))
            found.append(code(f"{name}_{tendons.strands}", own, hole_m, coefficients[k], *frames))
        return found

    def _symbols(self) -> tuple[Any, Any]:
        kind = expressions_of(self.robot)
        return kind.sym("c", self.robot.coefficient_count), kind.sym("coefficients", self.capstan_count)

    def _steps(self, c: Any) -> list[tuple[SegmentSteps, list[float]]]:
        """For each segment its steps, and the ends of those from disk to disk, m."""
        found = []
        for segment, place in zip(self.robot.segments, coefficient_slices(self.robot), strict=True):
            ends_m = [float(at) for at in segment.disks.positions_m(segment.length_m) if at > 0]
            found.append((SegmentSteps(segment, c[place]), ends_m))
        return found

    def _resistance(self, sign: str) -> ca.Function:
        c, coefficients = self._symbols()
        speed, tension = type(c).sym("capstan_speed", self.capstan_count), type(c).sym("tension", self._tendon_count)
        wires = self.wires_of_tension(tension)
        value = self.torque_of(self.fractions(c, coefficients), speed, wires, sign)
        names = ["c", "capstan_speed", "tension", "coefficients"]
        given = [c, speed, tension, coefficients]
        return function_of("friction_resistance", given, [ca.densify(value)], names, ["friction_torque"])

    def wires_of_tension(self, tension: Any) -> Any:
        """Tensions of the pulled wires, then of the released ones, (2k,), N: expression or array, as the tensions.

        Parameters
        ----------
        tension : of all tendons, (N,), N
        """
        return self._of_tension @ tension

    def wires_of_torque(self, torque: Any) -> Any:
        """The same where only the torque on the capstans is known: around the pretension of the robot's file.

        johnston (32) prints the whole of |tau| / r_c on either wire. By statics tau = r_c (f+ - f-), half of it is, and
        the pulled wire carries all once the other is slack.

        Parameters
        ----------
        torque : on the capstans, (k,), N.m
        """
        library: Any = np if isinstance(torque, np.ndarray) else ca
        half = torque / self._radii_m / 2
        pretension = self._pretension_n if library is np else ca.DM(self._pretension_n)
        join = np.concatenate if library is np else (lambda parts: ca.vertcat(*parts))
        sides = [library.fmax(library.fmax(pretension + one, 2 * one), 0) for one in (half, -half)]
        return join(sides)

    def torque_of(self, fractions: Any, speed: Any, wires: Any, sign: str = "tanh") -> Any:
        """Friction torque of the capstans, expression (k,), N.m.

        Parameters
        ----------
        fractions : what pulled and released strand of each keep, (k, 2)
        speed : of the capstans, (k,), rad/s
        wires : tensions of the pulled wires, then of the released ones, (2k,), N
        sign : as of the class
        """
        count = self.capstan_count
        lost = (1 - fractions[:, 0]) * wires[:count] + (1 - fractions[:, 1]) * wires[count:]  # johnston (33), (36)
        direction = ca.sign(speed) if sign == "sign" else ca.tanh(TANH_PER_RADIAN * speed)
        return direction * ca.DM(self._radii_m) * lost  # johnston (37)

    def _torque(self) -> ca.Function:
        c, coefficients = self._symbols()
        c_rate, torque = type(c).sym("c_rate", c.shape[0]), type(c).sym("capstan_torque", self.capstan_count)
        speed = sparse(self.jacobian) @ c_rate
        wires = self.wires_of_torque(torque)
        value = ca.densify(self.torque_of(self.fractions(c, coefficients), speed, wires, self.sign))
        names = ["c", "c_rate", "capstan_torque", "coefficients"]
        given = [c, c_rate, torque, coefficients]
        return function_of("tendon_friction", given, [value], names, ["friction_torque"])
