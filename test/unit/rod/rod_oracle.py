# SPDX-License-Identifier: Apache-2.0
"""Oracles that share no code with rod/, but for the functions of a basis.

Energies of constant-curvature robots written from muhmann (9)-(19) in arc parameters: arcs in closed form in
(phi, theta), velocities by complex step, integrals by a 60-point rule.
"""

import math
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp

from continuum_robot.rod.bases import basis_matrix

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def rotation_z(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def rotation_y(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def arc(phi, theta, length, s):
    """Rotation and position at arc length s of a segment that bends by theta towards phi; theta != 0."""
    angle = theta * s / length
    radius = length / theta
    rotation = rotation_z(phi) @ rotation_y(angle) @ rotation_z(-phi)
    along = radius * (1 - np.cos(angle))
    return rotation, np.array([along * np.cos(phi), along * np.sin(phi), radius * np.sin(angle)])


def frame(robot, arcs, index, s):
    """Base-frame rotation and position at arc length s of segment ``index``; ``arcs`` = [(phi, theta), ...]."""
    rotation, position = np.eye(3), np.zeros(3)
    for i in range(index + 1):
        length = robot.segments[i].length_m
        local, offset = arc(*arcs[i], length, s if i == index else length)
        position = position + rotation @ offset
        rotation = rotation @ local
    return rotation, position


def moving_frame(robot, arcs, arc_rates, index, s):
    """Position, velocity, and angular velocity in body axes, by complex step along the arc rates."""
    h = 1e-30
    stepped = np.asarray(arcs) + 1j * h * np.asarray(arc_rates)
    rotation, position = frame(robot, stepped, index, s)
    turn = rotation.real.T @ rotation.imag / h
    spin = np.array([turn[2, 1], turn[0, 2], turn[1, 0]])
    return position.real, position.imag / h, spin


def energies(robot, arcs, arc_rates):
    """Every term of muhmann (9)-(19), with V = -m g . p and the rotational tendon integral over its own segment."""
    gravity = np.asarray(robot.gravity_m_per_s2)
    sums = dict.fromkeys(
        [
            "backbone_translational",
            "backbone_rotational",
            "tendons_translational",
            "tendons_rotational",
            "disks_translational",
            "disks_rotational",
            "backbone_gravity",
            "tendons_gravity",
            "disks_gravity",
            "tendon_axial",
            "elastic",
        ],
        0.0,
    )
    for index, segment in enumerate(robot.segments):
        length, backbone = segment.length_m, segment.backbone
        passing = [later.tendons for later in robot.segments[index:]]
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            position, velocity, spin = moving_frame(robot, arcs, arc_rates, index, length * (node + 1) / 2)
            ds = length * weight / 2
            second = math.pi / 64 * (backbone.outer_diameter_m**4 - backbone.inner_diameter_m**4)
            area = math.pi / 4 * (backbone.outer_diameter_m**2 - backbone.inner_diameter_m**2)
            rho = backbone.density_kg_per_m3
            sums["backbone_translational"] += rho * area * velocity @ velocity / 2 * ds
            sums["backbone_rotational"] += rho * spin @ np.diag([second, second, 2 * second]) @ spin / 2 * ds
            sums["backbone_gravity"] -= rho * area * gravity @ position * ds
            for tendons in passing:
                second = math.pi / 64 * tendons.diameter_m**4
                area = math.pi / 4 * tendons.diameter_m**2
                many = tendons.count * tendons.density_kg_per_m3
                sums["tendons_translational"] += many * area * velocity @ velocity / 2 * ds
                sums["tendons_rotational"] += many * spin @ np.diag([second, second, 2 * second]) @ spin / 2 * ds
                sums["tendons_gravity"] -= many * area * gravity @ position * ds
        disks = segment.disks
        across = disks.mass_kg * (3 * disks.radius_m**2 + disks.thickness_m**2) / 12
        along = disks.mass_kg * disks.radius_m**2 / 2
        for o in range(1, disks.count + 1):
            position, velocity, spin = moving_frame(robot, arcs, arc_rates, index, o * length / disks.count)
            sums["disks_translational"] += disks.mass_kg * velocity @ velocity / 2
            sums["disks_rotational"] += spin @ np.diag([across, across, along]) @ spin / 2
            sums["disks_gravity"] -= disks.mass_kg * gravity @ position
        theta = arcs[index][1]
        stiffness = backbone.youngs_modulus_pa * math.pi / 64 * (
            backbone.outer_diameter_m**4 - backbone.inner_diameter_m**4
        ) + sum(t.count * t.youngs_modulus_pa * math.pi / 64 * t.diameter_m**4 for t in passing)
        sums["elastic"] += stiffness / (2 * length) * theta**2
        sums["tendon_axial"] += axial_energy(robot, arcs, arc_rates, index)
    return sums


def axial_energy(robot, arcs, arc_rates, index):
    """(12) of the tendons that end with segment ``index``: q_k = r sum_j theta_j cos(psi_k - phi_j)."""
    tendons = robot.segments[index].tendons
    whole_length = sum(segment.length_m for segment in robot.segments[: index + 1])
    mass = tendons.density_kg_per_m3 * math.pi / 4 * tendons.diameter_m**2 * whole_length
    total = 0.0
    for k in range(tendons.count):
        psi = tendons.angle_offset_rad + 2 * math.pi * k / tendons.count
        rate = sum(
            tendons.pitch_radius_m * (theta_rate * math.cos(psi - phi) + theta * math.sin(psi - phi) * phi_rate)
            for (phi, theta), (phi_rate, theta_rate) in list(zip(arcs, arc_rates, strict=True))[: index + 1]
        )
        total += mass * rate**2 / 2
    return total


def coefficients(robot, arcs, arc_rates):
    """Constant curvature [kappa_x, kappa_y] of each segment and its rate: kappa = theta / l (-sin phi, cos phi)."""
    c, c_rate = [], []
    for segment, (phi, theta), (phi_rate, theta_rate) in zip(robot.segments, arcs, arc_rates, strict=True):
        sin, cos = math.sin(phi), math.cos(phi)
        c += [-theta * sin / segment.length_m, theta * cos / segment.length_m]
        c_rate += [
            (-theta_rate * sin - theta * cos * phi_rate) / segment.length_m,
            (theta_rate * cos - theta * sin * phi_rate) / segment.length_m,
        ]
    return np.array(c), np.array(c_rate)


def integrated_poses(robot, c, index, places):
    """Poses at arc lengths of segment ``index``, from R' = R hat(u), p' = R e_z by an adaptive solver."""
    frame, offset = np.eye(4), 0
    for i, segment in enumerate(robot.segments[: index + 1]):
        order, length = segment.basis.order, segment.length_m
        own = c[offset : offset + 2 * (order + 1)].reshape(-1, 2)
        offset += own.size

        def derivative(s, y, own=own, length=length):
            u_x, u_y = np.polynomial.chebyshev.chebval(2 * s / length - 1, own)
            R = y.reshape(3, 4)[:, :3]
            u = np.array([[0, 0, u_y], [0, 0, -u_x], [-u_y, u_x, 0]])
            return np.hstack([R @ u, R[:, 2:3]]).ravel()

        stops = np.asarray(places) if i == index else [length]
        solved = solve_ivp(derivative, (0, length), frame[:3].ravel(), "DOP853", t_eval=stops, rtol=1e-12, atol=1e-13)
        poses = np.array([np.vstack([y.reshape(3, 4), [0, 0, 0, 1]]) for y in solved.y.T])
        frame = poses[-1]
    return poses


def strain_at(robot, c, s):
    """Strain (6,), angular part first, at an arc length from the base."""
    first = 0
    for start, segment in zip(robot.segment_starts_m, robot.segments, strict=True):
        own = c[first : first + segment.basis.coefficient_count]
        if s <= start + segment.length_m or segment is robot.segments[-1]:
            return np.array([0, 0, 0, 0, 0, 1.0]) + basis_matrix(segment.basis, (s - start) / segment.length_m) @ own
        first += len(own)
    raise AssertionError


def rod_poses(robot, c, places):
    """Poses at arc lengths from the base in any order, from R' = R hat(u), p' = R v by an adaptive solver."""

    def derivative(s, y):
        R, u = y.reshape(3, 4)[:, :3], strain_at(robot, c, s)
        turn = np.array([[0, -u[2], u[1]], [u[2], 0, -u[0]], [-u[1], u[0], 0]])
        return np.hstack([R @ turn, (R @ u[3:])[:, None]]).ravel()

    wanted, frame, found = np.unique(places), np.eye(4)[:3].ravel(), {0.0: np.eye(4)}
    ends = [*robot.segment_starts_m, robot.length_m]
    cuts = [low + (high - low) * at for (low, high), one in zip(pairwise(ends), robot.segments, strict=True)
            for at in one.basis.breaks]  # fmt: skip
    stops = np.unique([*wanted, *cuts, *ends])
    for low, high in pairwise(stops):
        inside = 1e-12 * robot.length_m  # the strain of the piece that ends there
        solved = solve_ivp(derivative, (low + inside, high - inside), frame, "DOP853", rtol=1e-11, atol=1e-13)
        frame = solved.y[:, -1]
        found[float(high)] = np.vstack([frame.reshape(3, 4), [0, 0, 0, 1]])
    return np.array([found[float(place)] for place in places])
