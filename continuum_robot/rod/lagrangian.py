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

from continuum_robot.robot.description import Robot
from continuum_robot.rod.inertia import Parts, Station, stations
from continuum_robot.rod.moving_chain import MovingFrame, SegmentSteps, base_frame, step_ends
from continuum_robot.rod.tendons import coefficient_slices


def moving_stations(
    robot: Robot, parts: Parts, base: MovingFrame, c: Any, c_rate: Any, quadrature_nodes: int | None = None
) -> Iterator[tuple[Station, MovingFrame]]:
    """All stations of the robot with the motion of the backbone there, from the base to the tip.

    Parameters
    ----------
    robot : the robot
    parts : what has inertia
    base : the frame that it stands on
    c, c_rate : (n,) symbols, 1/m and 1/(m.s)
    quadrature_nodes : as in :func:`~continuum_robot.rod.inertia.stations`
    """
    frame = base
    for index, place in enumerate(coefficient_slices(robot)):
        segment = robot.segments[index]
        borne = stations(robot, index, parts, quadrature_nodes)
        ends_m = step_ends(segment.basis, segment.length_m, [station.s_m for station in borne])
        here: dict[float, list[Station]] = {}
        for station in borne:  # steps end where masses are, to rounding
            here.setdefault(min(ends_m, key=lambda end_m: abs(end_m - station.s_m)), []).append(station)
        steps = SegmentSteps(segment, c[place], c_rate[place])
        start_m = 0.0
        for end_m in ends_m:
            frame = frame.moved(steps.motion(start_m, end_m), place)
            start_m = end_m
            for station in here.get(end_m, []):
                yield station, frame


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
    """Sum of the stations' inertia, weight and energies; arguments as in :func:`moving_stations`.

    The sliding of the tendons, muhmann (12), has a constant mass matrix and is added by the model.

    Parameters
    ----------
    quadrature_nodes : as in :func:`~continuum_robot.rod.inertia.stations`
    weight : whether ``bias`` has it
    """
    size, gravity = robot.coefficient_count, ca.DM(robot.gravity_m_per_s2)
    mass, bias = ca.SX(size, size), ca.SX(size, 1)
    translational: dict[str, Any] = {}
    rotational: dict[str, Any] = {}
    height: dict[str, Any] = {}
    base = base_frame(size, robot.gravity_m_per_s2 if weight else None)
    for station, frame in moving_stations(robot, parts, base, c, c_rate, quadrature_nodes):
        W, V = frame.jacobian[:3, :], frame.jacobian[3:, :]
        spin, velocity = frame.twist[:3], frame.twist[3:]
        turning, moving = frame.acceleration[:3], frame.acceleration[3:]
        if station.mass_kg:
            position = frame.position
            if station.center_of_mass_m is not None:  # johnston (17)
                arm: Any = ca.sparsify(ca.DM(station.center_of_mass_m))
                across = ca.skew(arm)
                V, velocity, moving = V - across @ W, velocity - across @ spin, moving - across @ turning
                position = position + frame.rotation @ arm
            V = ca.sparsify(V)
            mass += station.total_mass_kg * ca.tril(V.T @ V)
            bias += station.total_mass_kg * (V.T @ (moving + ca.cross(spin, velocity)))
            for part, own in station.mass_kg.items():
                energy = own / 2 * ca.dot(velocity, velocity)  # muhmann (10), (11), (14)
                translational[part] = translational.get(part, 0) + energy
                # V = -m g . p; muhmann (16)-(18) print the opposite sign for +z along gravity.
                height[part] = height.get(part, 0) - own * ca.dot(gravity, position)
        tensor = station.tensor_kg_m2
        if tensor is not None:  # johnston (18), (20)
            total = ca.sparsify(ca.DM(tensor))
            mass += ca.tril(W.T @ total @ W)
            bias += W.T @ (total @ turning + ca.cross(spin, total @ spin))
            for part, inertia in station.tensors_kg_m2.items():
                energy = ca.dot(spin, ca.sparsify(ca.DM(inertia)) @ spin) / 2
                rotational[part] = rotational.get(part, 0) + energy
    return Terms(mass, bias, translational, rotational, height)
