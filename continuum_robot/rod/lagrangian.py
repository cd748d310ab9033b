# SPDX-License-Identifier: Apache-2.0
"""Motion of the mass stations of a robot, and the terms of its equations of motion, in CasADi.

A robot is a chain of stretches: segments of constant curvature, Magnus steps of others. Each is described in the frame
of its own start: local positions, velocities and their derivatives come from the local kinematics by automatic
differentiation, and the motion of the start (Jacobian and the acceleration that is left when c'' = 0) is handed from
stretch to stretch. With the velocity Jacobian J and the bias acceleration a of each
station the equations of motion are sums over stations of J^T m (J c'' + a - gravity), which is what the
Euler-Lagrange equations of L = T - V give; the tests hold this against automatic differentiation of L itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import casadi as ca

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.exponential import Frozen, hat
from continuum_robot.rod.frames import differentiated_frame, step_functions
from continuum_robot.rod.inertia import DISKS, Parts, Station, stations
from continuum_robot.rod.kinematics import stretch_frame, stretch_nodes
from continuum_robot.rod.tendons import coefficient_slices


@dataclass(frozen=True, slots=True)
class Motion:
    """Motion of a frame or point, expressed in some frame's axes but relative to the base.

    Attributes
    ----------
    linear_jacobian, angular_jacobian : (3, n) expressions; velocity and spin per c_rate
    spin : (3,) angular velocity, rad/s
    linear_bias, angular_bias : (3,) accelerations for c'' = 0

    The angular ones are None where nothing needs them.
    """

    linear_jacobian: Any
    angular_jacobian: Any
    spin: Any
    linear_bias: Any
    angular_bias: Any

    def fields(self) -> tuple[Any, ...]:
        """All five, in order."""
        return self.linear_jacobian, self.angular_jacobian, self.spin, self.linear_bias, self.angular_bias


@dataclass(frozen=True, slots=True)
class MovingStation:
    """A station with its motion, in the axes of its stretch's start.

    Attributes
    ----------
    station : mass and inertia
    motion : that of its centre of mass; the angular part only where it turns something
    rotation : (3, 3) of the backbone's frame; its last column is the axis of the cross-section
    position : (3,) place of the mass in the base frame, m
    gravity : (3,) gravity in the axes of the stretch's start, m/s^2
    """

    station: Station
    motion: Motion
    rotation: Any
    position: Any
    gravity: Any


def moving_stations(
    robot: Robot, parts: Parts, c: Any, c_rate: Any, quadrature_nodes: int | None = None
) -> Iterator[MovingStation]:
    """All stations of the robot with their motion, from the base to the tip.

    Parameters
    ----------
    robot : the robot
    parts : what has inertia
    c, c_rate : (n,) symbols, 1/m and 1/(m.s)
    quadrature_nodes : as in :func:`~continuum_robot.rod.inertia.stations`
    """
    size = robot.coefficient_count
    zero = ca.SX.zeros(3)
    base = Motion(ca.SX(3, size), ca.SX(3, size), zero, zero, zero)
    rotation, position = ca.SX.eye(3), zero
    for index, place in enumerate(coefficient_slices(robot)):
        segment = robot.segments[index]
        here: dict[float, list[Station]] = {}
        for station in stations(robot, index, parts, quadrature_nodes):
            here.setdefault(station.s_m, []).append(station)
        for start_m, ends_m in stretch_nodes(segment.basis, segment.length_m, list(here)):
            last = index + 1 == len(robot.segments) and ends_m[-1] == segment.length_m
            places = [here.get(end_m, []) for end_m in ends_m]
            turning = [any(station.turning for station in found) for found in places]
            turning[-1] = turning[-1] or not last
            local = _local_motions(segment, start_m, list(zip(ends_m, turning, strict=True)), c[place], c_rate[place])
            gravity = rotation.T @ ca.DM(robot.gravity_m_per_s2)
            for found, inner in zip(places, local, strict=True):
                motion = _moved(base, inner, place)
                for station in found:
                    world = position + rotation @ inner.position
                    there = motion
                    if station.center_of_mass_m is not None:
                        offset = inner.rotation @ ca.DM(station.center_of_mass_m)
                        there, world = _offset(motion, offset), world + rotation @ offset
                    yield MovingStation(station, there, inner.rotation, world, gravity)
            if last:
                return
            end = local[-1]
            base = Motion(*(end.rotation.T @ value for value in motion.fields()))
            position = position + rotation @ end.position
            rotation = rotation @ end.rotation


@dataclass(frozen=True, slots=True)
class _Local:
    """A frame in its stretch's start, and its motion relative to it, by differentiation."""

    rotation: Any
    position: Any
    jacobian: Any  # velocity per own rate (3, k)
    velocity: Any
    bias: Any
    spin_jacobian: Any  # None where nothing needs the rotation
    spin: Any
    spin_bias: Any


def _local_motions(
    segment: Segment, start_m: float, ends: list[tuple[float, bool]], own: Any, own_rate: Any
) -> list[_Local]:
    """Frames of a stretch at ``ends`` (arc length; whether its rotation is needed) and their motion."""
    if segment.basis.order > 0:
        steps = step_functions(segment)
        (end_m, _) = ends[0]
        rotation, position, jacobian, spin_rows = steps.place(own, start_m, end_m - start_m)
        bias, spin_bias = steps.drift(own, own_rate, start_m, end_m - start_m)
        velocity, spin = jacobian @ own_rate, spin_rows @ own_rate
        return [_Local(rotation, position, jacobian, velocity, bias, spin_rows, spin, spin_bias)]
    frozen = Frozen()
    found = []
    for end_m, turning in ends:
        frame = stretch_frame(segment, own, start_m, end_m - start_m, frozen)
        found.append((differentiated_frame(frame, own, own_rate, turning=turning), turning))
    thawed = iter(frozen.thaw([value for values, _ in found for value in values]))
    return [
        _Local(*(next(thawed) for _ in values), *(() if turning else (None, None, None))) for values, turning in found
    ]


def _moved(base: Motion, local: _Local, place: slice) -> Motion:
    """Motion of a frame that moves by ``local`` relative to ``base``, all in the axes of the stretch's start."""
    position = local.position
    linear = base.linear_jacobian - hat(position) @ base.angular_jacobian
    linear[:, place] += local.jacobian
    linear_bias = (
        base.linear_bias
        + ca.cross(base.angular_bias, position)
        + ca.cross(base.spin, ca.cross(base.spin, position) + 2 * local.velocity)
        + local.bias
    )
    if local.spin is None:
        return Motion(linear, None, None, linear_bias, None)
    angular = ca.SX(base.angular_jacobian)
    angular[:, place] += local.spin_jacobian
    angular_bias = base.angular_bias + ca.cross(base.spin, local.spin) + local.spin_bias
    return Motion(linear, angular, base.spin + local.spin, linear_bias, angular_bias)


def _offset(motion: Motion, offset: Any) -> Motion:
    """Motion of a point that is fixed in a moving frame, away from its origin: johnston (17) and its derivative."""
    return Motion(
        motion.linear_jacobian - hat(offset) @ motion.angular_jacobian,
        motion.angular_jacobian,
        motion.spin,
        motion.linear_bias
        + ca.cross(motion.angular_bias, offset)
        + ca.cross(motion.spin, ca.cross(motion.spin, offset)),
        motion.angular_bias,
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of the equations of motion: M c'' + coriolis + gravity + ... = generalised force, and the energies.

    Attributes
    ----------
    mass : (n, n) expression, symmetric
    coriolis : (n,) C(c, c') c'
    gravity : (n,)
    translational, rotational : kinetic energy of each part, J
    height : potential energy in gravity of each part, J
    """

    mass: Any
    coriolis: Any
    gravity: Any
    translational: dict[str, Any]
    rotational: dict[str, Any]
    height: dict[str, Any]


def inertial_terms(robot: Robot, parts: Parts, c: Any, c_rate: Any, quadrature_nodes: int | None = None) -> Terms:
    """Sum of the stations' inertia, gravity and energies; arguments as in :func:`moving_stations`.

    The sliding of the tendons, muhmann (12), has a constant mass matrix and is added by the model.

    Parameters
    ----------
    quadrature_nodes : as in :func:`~continuum_robot.rod.inertia.stations`
    """
    size = robot.coefficient_count
    mass, coriolis, gravity = ca.SX.zeros(size, size), ca.SX.zeros(size), ca.SX.zeros(size)
    translational: dict[str, Any] = {}
    rotational: dict[str, Any] = {}
    height: dict[str, Any] = {}
    world_gravity = ca.DM(robot.gravity_m_per_s2)
    for moving in moving_stations(robot, parts, c, c_rate, quadrature_nodes):
        motion, kilograms = moving.motion, moving.station.total_mass_kg
        if kilograms > 0:
            J = ca.sparsify(motion.linear_jacobian)
            velocity = J @ c_rate
            mass += kilograms * (J.T @ J)
            coriolis += kilograms * (J.T @ motion.linear_bias)
            gravity -= kilograms * (J.T @ moving.gravity)
            for part, share in moving.station.mass_kg.items():
                energy = share / 2 * ca.dot(velocity, velocity)  # muhmann (10), (11), (14)
                translational[part] = translational.get(part, 0) + energy
                # V = -m g . p; muhmann (16)-(18) print the opposite sign for +z along gravity.
                height[part] = height.get(part, 0) - share * ca.dot(world_gravity, moving.position)
        across, along = moving.station.total_inertia_kg_m2
        if across > 0 or along > 0:
            W, spin, axis = ca.sparsify(motion.angular_jacobian), motion.spin, moving.rotation[:, 2]
            row = axis.T @ W
            mass += across * (W.T @ W) + (along - across) * (row.T @ row)
            momentum = across * spin + (along - across) * ca.dot(axis, spin) * axis
            torque = (
                across * motion.angular_bias
                + (along - across) * ca.dot(axis, motion.angular_bias) * axis
                + ca.cross(spin, momentum)
            )
            coriolis += W.T @ torque
            for part, (part_across, part_along) in moving.station.inertia_kg_m2.items():
                energy = (part_across * ca.dot(spin, spin) + (part_along - part_across) * ca.dot(axis, spin) ** 2) / 2
                rotational[part] = rotational.get(part, 0) + energy
        if moving.station.tensor_kg_m2 is not None:
            # In the frame's own axes, in which the tensor is constant: johnston (18), (20).
            tensor, rotation = ca.SX(ca.DM(moving.station.tensor_kg_m2)), moving.rotation
            W = rotation.T @ motion.angular_jacobian
            spin, bias = rotation.T @ motion.spin, rotation.T @ motion.angular_bias
            mass += W.T @ tensor @ W
            coriolis += W.T @ (tensor @ bias + ca.cross(spin, tensor @ spin))
            rotational[DISKS] = rotational.get(DISKS, 0) + ca.dot(spin, tensor @ spin) / 2
    return Terms(mass, coriolis, gravity, translational, rotational, height)
