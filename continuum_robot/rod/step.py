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

from continuum_robot.rod.code.batches import Batch, compile_batches
from continuum_robot.rod.code.shared import sparse
from continuum_robot.rod.exponential import (
    bracket,
    exponential,
    magnus_of_sixth_order,
    stumpff,
    stumpff_around,
    tangent,
    tangent_coefficients,
)

REACH_RAD = 2.5
"""Turn of one step to which its functions hold to double precision, rad."""
GAUSS_RATIOS = (0.5 - math.sqrt(15) / 10, 0.5, 0.5 + math.sqrt(15) / 10)
"""Positions of a step's nodes, in its length."""
GAUSS_WEIGHTS = (5 / 18, 4 / 9, 5 / 18)
NODAL = 6 * len(GAUSS_RATIOS)
"""Number of strains at the nodes of a step."""
_OPTIONS = {"cse": True}


def magnus(strain: Any, length: Any) -> Any:
    """Twist Omega (6,) of a step from the strain (18,) at its nodes and its length, m."""
    first, second, third = ca.vertsplit(strain, 6)
    return magnus_of_sixth_order(first, second, third, length)


def frame_change(strain: Any, length: Any) -> tuple[Any, Any, Any]:
    """Rotation and translation of a step, and the twist of its end in its start's frame per change of Omega, (6, 6).

    Parameters
    ----------
    strain : (18,) at the nodes, 1/m and dimensionless
    length : of the step, m
    """
    here = _Step(_ALL, REACH_RAD)
    rotation, shift, by_omega = ca.substitute(
        here.at([here.turn, here.shift, here.tangent(1)]), [here.nodal, here.length], [strain, length]
    )
    return rotation, shift, by_omega


def frame_parts(frame: Any) -> tuple[Any, Any]:
    """Rotation (3, 3) and position (3,) of a frame (12,)."""
    return ca.reshape(frame[:9], 3, 3), frame[9:]


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


_ALL = StrainPattern((), tuple(range(6)), (0.0,) * 6)


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


def _spread_function() -> ca.Function:
    """The frame at a step's end, and with the derivative of Omega by the nodal strains, (6, 18), the twist (6, 18) of
    that frame against the start's, in base axes, that they cause.
    """
    frame, strain, length = ca.SX.sym("frame", 12), ca.SX.sym("strain", NODAL), ca.SX.sym("length")
    rotation, position = frame_parts(frame)
    turn, shift, tangent = frame_change(strain, length)
    angular = rotation @ tangent[:3, :]
    own = ca.jacobian(magnus(strain, length), strain)
    moved = ca.vertcat(angular, ca.skew(position) @ angular + rotation @ tangent[3:, :]) @ own
    after = ca.vertcat(ca.vec(rotation @ turn), position + rotation @ shift)
    return ca.Function("rod_spread", [frame, strain, length], [after, ca.densify(moved), ca.densify(own)], _OPTIONS)


def _curvature_function() -> ca.Function:
    """Second derivatives of a step's end along a constant wrench W (6,) in base axes.

    The generalised force of W on a change of Omega, by Omega, (6, 6); W along the second derivative of Omega by the
    nodal strains, (18, 18); and W along the bracket with a twist of the step's start in base axes: (6, 6).
    """
    frame, strain, length = ca.SX.sym("frame", 12), ca.SX.sym("strain", NODAL), ca.SX.sym("length")
    wrench, moved, twist = ca.SX.sym("wrench", 6), ca.SX.sym("moved", 6), ca.SX.sym("twist", 6)
    rotation, position = frame_parts(frame)
    local = ca.vertcat(rotation.T @ (wrench[:3] - ca.cross(position, wrench[3:])), rotation.T @ wrench[3:])
    here, force = _Step(_ALL, REACH_RAD), ca.SX.sym("force", 6)
    on_omega = here.tangent(1).T @ force
    by_omega, on_step = ca.substitute(
        here.at([ca.jacobian(on_omega, here.omega), on_omega]),
        [here.nodal, here.length, force],
        [strain, length, local],
    )
    weight = ca.SX.sym("weight", 6)
    bent = ca.substitute(ca.hessian(ca.dot(weight, magnus(strain, length)), strain)[0], weight, on_step)
    by_start = ca.jacobian(ca.gradient(ca.dot(wrench, bracket(moved, twist)), twist), moved)
    return ca.Function(
        "rod_curvature",
        [frame, strain, length, wrench],
        [ca.densify(by_omega), ca.densify(bent), ca.densify(by_start)],
        _OPTIONS,
    )


@cache
def own_motion_function(pattern: StrainPattern) -> ca.Function:
    """What a step of the moving rod does by itself, from the strains picked (m,), their rates and the step's length.

    Rotation (9,) and translation (3,) from its start to its end, and the twist (6,) of its end against its start in the
    end's axes.
    """
    here = _Step(pattern, REACH_RAD)
    return ca.Function(
        "rod_own_motion",
        [here.nodal, here.rate, here.length],
        [ca.densify(value) for value in here.at([ca.vec(here.turn), here.shift, here.tangent(-1) @ here.step_rate])],
        _OPTIONS,
    )


def carry_functions() -> tuple[ca.Function, ca.Function]:
    """A step of the moving rod out from the base, and back, given what it does by itself.

    Out: rotation (9,) and body twist (6,) of the step's end from those of its start, and the results of
    :func:`own_motion_function`. Back: from rotation and translation of the step and a wrench (6,) in its end's axes,
    the same wrench about its start in the start's axes.
    """
    rotation, twist, turn, shift, own = (
        ca.SX.sym(name, size) for name, size in (("rotation", 9), ("twist", 6), ("turn", 9), ("shift", 3), ("own", 6))
    )
    wrench = ca.SX.sym("wrench", 6)
    turned = ca.reshape(turn, 3, 3)
    end = carried(turned, shift, twist) + own
    out = ca.Function(
        "rod_out", [rotation, twist, turn, shift, own], [ca.vec(ca.reshape(rotation, 3, 3) @ turned), end], _OPTIONS
    )
    before = ca.gradient(ca.dot(wrench, end), twist)
    return out, ca.Function("rod_back", [turn, shift, wrench], [before], _OPTIONS)


@cache
def jacobian_step_function(size: int, before: int, moved: tuple[tuple[bool, ...], ...], principal: bool) -> ca.Function:
    """A step of the Jacobian J (6, n) of the chain's end in its own axes, and J^T times the root of an inertia, (n, 6).

    From rotation (9,) and translation (3,) of the step, J at its start, the twist of its end per strain picked, (6, m),
    these strains per coefficient of the step, and the root: (6, 6), or (6,) of an inertia about principal axes.

    Parameters
    ----------
    size : number n of coefficients
    before : coefficients of the segments before
    moved : for each strain picked, which coefficients of the step move it
    principal : the inertia's axes are those of the station
    """
    picked, own = len(moved), len(moved[0])
    turn, shift, jacobian = ca.SX.sym("turn", 9), ca.SX.sym("shift", 3), ca.SX.sym("jacobian", 6, size)
    by_strain, nodal = ca.SX.sym("by_strain", 6, picked), ca.SX.sym("nodal", sparse(moved).sparsity())
    root = ca.SX.sym("root", 6, 1 if principal else 6)
    turned = ca.reshape(turn, 3, 3)
    moving = moved_jacobian(turned, shift, jacobian[:, : before + own], slice(before, before + own), by_strain @ nodal)
    end = ca.horzcat(moving, ca.SX.zeros(6, size - before - own))
    weighed = ca.diag(root) @ end if principal else root @ end
    return ca.Function(
        "rod_jacobian_step",
        [turn, shift, jacobian, by_strain, nodal, root],
        [ca.densify(end), ca.densify(weighed.T)],
        _OPTIONS,
    )


@cache
def step_force_function(pattern: StrainPattern) -> ca.Function:
    """The parts of dT/dc_rate (m,), and of dT/dc with the generalised force of W (m,), on the strains at a step.

    From the twist (6,) of the step's start in its own axes, the strains picked (m,), their rates, length, momentum
    wrench L (6,) and force wrench W (6,) on what lies beyond the step, in its end's axes.
    """
    here = _Step(pattern, REACH_RAD)
    twist, momentum, wrench = (ca.SX.sym(name, 6) for name in ("twist", "momentum", "wrench"))
    by_omega, step_rate = here.tangent(-1), ca.SX.sym("step_rate", 6)
    end = carried(here.turn, here.shift, twist) + by_omega @ step_rate
    on_rate, loaded = by_omega.T @ momentum, by_omega.T @ wrench
    on_omega = ca.gradient(ca.dot(momentum, end), here.omega) + loaded
    a, b = ca.SX.sym("a", 6), ca.SX.sym("b", 6)
    by_rate = ca.jtimes(here.step, here.nodal, a, True)
    by_strain = ca.gradient(ca.dot(a, here.step_rate) + ca.dot(b, here.step), here.nodal)
    found = here.at(ca.substitute([on_rate, on_omega], [step_rate], [here.step_rate]))
    results = ca.substitute([by_rate, by_strain], [a, b], found)
    return ca.Function(
        "rod_step_force",
        [twist, here.nodal, here.rate, here.length, momentum, wrench],
        [ca.densify(value) for value in results],
        _OPTIONS,
    )


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


def local_load_function() -> ca.Function:
    """Wrench of a load (law of 15 numbers) about the frame it acts on, in that frame's axes, from the rotation (9,)."""
    rotation, law = ca.SX.sym("rotation", 9), ca.SX.sym("law", 15)
    wrench = load_wrench(ca.vertcat(rotation, ca.SX.zeros(3)), law)[1]
    turned = ca.reshape(rotation, 3, 3).T
    local = ca.vertcat(turned @ wrench[:3], turned @ wrench[3:])
    return ca.Function("rod_local_load", [rotation, law], [local], _OPTIONS)


def path_rates_function(count: int) -> ca.Function:
    """Lengths of all paths at one node, their rates, and the gradients of both by the strain there, (6,) each.

    Parameters
    ----------
    count : number of paths N; strain (6,) and its rate, places (4 N,) and weights (N,) are the arguments
    """
    strain, rate = ca.SX.sym("strain", 6), ca.SX.sym("rate", 6)
    places, weights = ca.SX.sym("places", 4 * count), ca.SX.sym("weights", count)
    lengths = [
        weight * ca.norm_2(tendon_tangent(strain, place))
        for weight, place in zip(ca.vertsplit(weights), ca.vertsplit(places, 4), strict=True)
    ]
    pulls = [ca.gradient(length, strain) for length in lengths]
    rates = [ca.dot(pull, rate) for pull in pulls]
    return ca.Function(
        "rod_path_rates",
        [strain, rate, places, weights],
        [ca.vertcat(*lengths), ca.vertcat(*rates), *pulls, *(ca.gradient(value, strain) for value in rates)],
        _OPTIONS,
    )


def load_wrench(frame: Any, law: Any) -> tuple[Any, Any]:
    """Potential (J) of a load, and its wrench about the base's origin in base axes, (6,).

    Parameters
    ----------
    frame : where it acts, (12,)
    law : (15,) point of application in that frame, force and moment in base axes, force and moment in the frame's; the
        force in base axes alone has a potential
    """
    rotation, position = frame_parts(frame)
    offset, force, moment, own_force, own_moment = ca.vertsplit(law, 3)
    point = position + rotation @ offset
    total = force + rotation @ own_force
    turning = moment + rotation @ own_moment + ca.cross(point, total)
    return -ca.dot(force, point), ca.vertcat(turning, total)


def _load_function() -> ca.Function:
    """Potential and wrench of a load, and the derivative (6, 6) of the wrench by a twist of the frame in base axes."""
    frame, law, twist = ca.SX.sym("frame", 12), ca.SX.sym("law", 15), ca.SX.sym("twist", 6)
    rotation, position = frame_parts(frame)
    potential, wrench = load_wrench(frame, law)
    rate = ca.vertcat(ca.vec(ca.skew(twist[:3]) @ rotation), ca.cross(twist[:3], position) + twist[3:])
    motion = ca.jacobian(ca.jtimes(wrench, frame, rate), twist)
    return ca.Function("rod_load", [frame, law], [potential, wrench, ca.densify(motion)], _OPTIONS)


def tendon_tangent(strain: Any, place: Any) -> Any:
    """Tangent t = v + u x r + r' of a path in the cross-section, (3,); rucker (14) in body axes.

    Parameters
    ----------
    strain : (6,), 1/m and dimensionless
    place : (x, y, x', y') of the path, (4,), m and dimensionless
    """
    arm = ca.vertcat(place[:2], 0)
    return strain[3:] + ca.cross(strain[:3], arm) + ca.vertcat(place[2:], 0)


def _path_function() -> ca.Function:
    """Length of a path at one node, its gradient by the strain there (6,) and the tension times its Hessian (6, 6)."""
    strain, place = ca.SX.sym("strain", 6), ca.SX.sym("place", 4)
    weight, tension = ca.SX.sym("weight"), ca.SX.sym("tension")
    length = weight * ca.norm_2(tendon_tangent(strain, place))
    hessian, gradient = ca.hessian(length, strain)
    return ca.Function(
        "rod_path",
        [strain, place, weight, tension],
        [length, gradient, ca.densify(tension * hessian)],
        _OPTIONS,
    )


@cache
def step_functions() -> dict[str, Batch]:
    """The functions of one step, compiled once for all rods: spread, curvature, load and path.

    Where no compiler works CasADi's virtual machine evaluates them.
    """
    functions = [_spread_function(), _curvature_function(), _load_function(), _path_function()]
    return compile_batches(functions, "the general rod")
