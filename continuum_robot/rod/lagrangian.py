# SPDX-License-Identifier: Apache-2.0
"""Terms of a robot's equations of motion and its energies, in CasADi: sums over the stations that have mass.

With the velocity Jacobian J and the bias acceleration a of each station the equations of motion are sums of
J^T m (J c'' + a - gravity), which is what the Euler-Lagrange equations of L = T - V give; the tests hold this against
automatic differentiation of L itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.shared import Code, sparse
from continuum_robot.rod.inertia import Parts, Station, stations
from continuum_robot.rod.moving_chain import SegmentSteps, code_of, step_ends
from continuum_robot.rod.moving_frame import MovingFrame, base_frame
from continuum_robot.rod.tendons import coefficient_slices


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of the equations of motion: M c'' + bias + ... = generalised force, and the energies.

    Attributes
    ----------
    mass : (n, n) expression; its lower triangle is filled
    bias : (n,) C(c, c') c' and the weight, where the base is accelerated against gravity
    translational, rotational : kinetic energy of each part, J
    height : potential energy in gravity of each part, J
    """

    mass: Any
    bias: Any
    translational: dict[str, Any]
    rotational: dict[str, Any]
    height: dict[str, Any]


def inertial_terms(
    robot: Robot,
    parts: Parts,
    c: Any,
    c_rate: Any,
    quadrature_nodes: int | None = None,
    *,
    weight: bool = True,
) -> Terms:
    """Sum of the stations' inertia, weight and energies.

    The sliding of the tendons, muhmann (12), has a constant mass matrix and is added by the model.

    Parameters
    ----------
    robot : the robot
    parts : what has inertia
    c, c_rate : (n,) coefficients and rates, 1/m and 1/(m.s), both of one kind of expression
    quadrature_nodes : as in :func:`~continuum_robot.rod.inertia.stations`
    weight : whether ``bias`` has it
    """
    kind: type[ca.SX | ca.MX] = type(c)
    size, gravity = robot.coefficient_count, ca.DM(robot.gravity_m_per_s2)
    mass, bias = kind(size, size), kind(size, 1)
    translational: dict[str, Any] = {}
    rotational: dict[str, Any] = {}
    height: dict[str, Any] = {}
    base = base_frame(size, robot.gravity_m_per_s2 if weight else None, kind)
    for station, frame, code in _moving_stations(robot, parts, base, c, c_rate, quadrature_nodes):
        still = np.zeros(3) if station.center_of_mass_m is None else station.center_of_mass_m
        arm, here = sparse(still), (frame.jacobian, frame.twist, frame.acceleration)
        if station.mass_kg:
            given = (station.total_mass_kg, arm, *here)
            own_mass, own_bias, square = code("of_mass", _of_mass, *given)
            mass, bias = mass + own_mass, bias + own_bias
            (position,) = code("center", _center, frame.rotation, frame.position, arm)
            for part, own in station.mass_kg.items():
                energy = own / 2 * square  # muhmann (10), (11), (14)
                translational[part] = translational.get(part, 0) + energy
                # V = -m g . p; muhmann (16)-(18) print the opposite sign for +z along gravity.
                height[part] = height.get(part, 0) - own * ca.dot(gravity, position)
        tensor = station.tensor_kg_m2
        if tensor is not None:
            own_mass, own_bias = code("of_tensor", _of_tensor, sparse(tensor), *here)
            mass, bias = mass + own_mass, bias + own_bias
            spin = frame.twist[:3]
            for part, inertia in station.tensors_kg_m2.items():
                energy = ca.dot(spin, sparse(inertia) @ spin) / 2
                rotational[part] = rotational.get(part, 0) + energy
    return Terms(mass, bias, translational, rotational, height)


def _moving_stations(
    robot: Robot, parts: Parts, base: MovingFrame, c: Any, c_rate: Any, quadrature_nodes: int | None = None
) -> Iterator[tuple[Station, MovingFrame, Code]]:
    """All stations from the base to the tip with the motion of the backbone there, and how their terms are written."""
    frame = base
    for index, place in enumerate(coefficient_slices(robot)):
        segment = robot.segments[index]
        borne = stations(robot, index, parts, quadrature_nodes)
        ends_m = step_ends(segment.basis, segment.length_m, [station.s_m for station in borne])
        here: dict[float, list[Station]] = {}
        for station in borne:  # steps end where masses are, to rounding
            here.setdefault(min(ends_m, key=lambda end_m: abs(end_m - station.s_m)), []).append(station)
        motions = SegmentSteps(segment, c[place], c_rate[place]).motions(ends_m)
        for end_m, motion in zip(ends_m, motions, strict=True):
            frame = frame.moved(motion, place)
            for station in here.get(end_m, []):
                yield station, frame, code_of(segment.basis, type(c))


def _of_mass(mass_kg: Any, arm: Any, jacobian: Any, twist: Any, acceleration: Any) -> tuple[Any, Any, Any]:
    """What a mass adds to M and to the bias, and the square of its speed."""
    W, V = jacobian[:3, :], jacobian[3:, :]
    spin, velocity = twist[:3], twist[3:]
    turning, moving = acceleration[:3], acceleration[3:]
    if arm.nnz():  # johnston (17)
        across = ca.skew(arm)
        V, velocity, moving = V - across @ W, velocity - across @ spin, moving - across @ turning
    V = ca.sparsify(V)
    bias = mass_kg * (V.T @ (moving + ca.cross(spin, velocity)))
    return mass_kg * ca.tril(V.T @ V), bias, ca.dot(velocity, velocity)


def _of_tensor(tensor: Any, jacobian: Any, twist: Any, acceleration: Any) -> tuple[Any, Any]:
    """What the rotation of a body adds to M and to the bias; johnston (18), (20)."""
    W, spin, turning = jacobian[:3, :], twist[:3], acceleration[:3]
    return ca.tril(W.T @ tensor @ W), W.T @ (tensor @ turning + ca.cross(spin, tensor @ spin))


def _center(rotation: Any, position: Any, arm: Any) -> tuple[Any]:
    """Where a mass is, in the base frame."""
    return (position + rotation @ arm if arm.nnz() else position,)
