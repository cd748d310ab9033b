# SPDX-License-Identifier: Apache-2.0
"""The capstan-driven segment of johnston: offset masses, inertia tensors, uneven stiffness, capstans, two segments."""

from __future__ import annotations

import numpy as np
import pytest
from rod_robots import undamped
from scipy.integrate import solve_ivp

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.johnston.distal_segment import distal_reaction, lumped_distal
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.friction.capstans import (
    actuator_mass_matrix,
    capstan_jacobian,
    drives,
    tension_from_torque,
)
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import string_matrix, tendon_matrix

STEP = 1e-30  # of the complex step: no cancellation, so the derivatives are as exact as the frames


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("vanderbilt_segment")


@pytest.fixture(scope="module")
def two() -> Robot:
    return load_robot("vanderbilt_two_segment")


def curvature(robot: Robot, c: np.ndarray, s_m: float) -> np.ndarray:
    """u(s) of johnston (4), (5), written out for order 2."""
    index = int(np.searchsorted(robot.segment_starts_m, s_m, side="right")) - 1
    start_m = robot.segment_starts_m[index]
    own, x = c[6 * index : 6 * index + 6], (s_m - start_m) / robot.segments[index].length_m
    phi = np.array([1, 2 * x - 1, 8 * x**2 - 8 * x + 1])
    return np.array([phi @ own[0::2], phi @ own[1::2], 0])


def hat(v: np.ndarray) -> np.ndarray:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def frames(robot: Robot, c: np.ndarray, places_m: np.ndarray, steps: int = 40) -> list[tuple[np.ndarray, np.ndarray]]:
    """Frames by Runge-Kutta steps of R' = R hat(u), p' = R e_z, for complex coefficients too."""
    R, p, s, found = np.eye(3, dtype=c.dtype), np.zeros(3, dtype=c.dtype), 0.0, []
    for end in places_m:
        h = (end - s) / steps
        for k in range(steps):
            inside = (s + k * h + 1e-13, s + (k + 0.5) * h, s + (k + 1) * h - 1e-13)
            a, m, b = (hat(curvature(robot, c, place)) for place in inside)
            k1 = R @ a
            k2 = (R + h / 2 * k1) @ m
            k3 = (R + h / 2 * k2) @ m
            k4 = (R + h * k3) @ b
            half = R + h / 24 * (5 * k1 + 4 * k2 + 4 * k3 - k4)
            new = R + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            p = p + h / 6 * (R + 4 * half + new)[:, 2]
            R = new
        found.append((R, p))
        s = end
    return found


def energies(robot: Robot, c: np.ndarray, c_rate: np.ndarray) -> tuple[float, float, float]:
    """Kinetic energy of backbone and disks, and height energy, johnston (13), (18), (30), (31), by a complex step."""
    gravity = np.array(robot.gravity_m_per_s2)
    masses = []
    for segment, start_m in zip(robot.segments, robot.segment_starts_m, strict=True):
        nodes, weights = np.polynomial.legendre.leggauss(12)
        rho = segment.backbone.mass_per_length_kg_per_m
        r = segment.backbone.outer_diameter_m / 2
        for node, weight in zip(nodes, weights, strict=True):
            kilograms = rho * weight / 2 * segment.length_m
            tensor = kilograms * r**2 * np.diag([0.25, 0.25, 0.5])
            masses.append((start_m + (node + 1) / 2 * segment.length_m, kilograms, np.zeros(3), tensor, 0))
        for disk in segment.disks.individual:
            tensor = np.array(disk.inertia_kg_m2).reshape(3, 3)
            masses.append((start_m + disk.arc_length_m, disk.mass_kg, np.array(disk.center_of_mass_m), tensor, 1))
    masses.sort(key=lambda entry: entry[0])
    placed = frames(robot, c + 1j * STEP * c_rate, np.array([entry[0] for entry in masses]))
    kinetic, height = [0.0, 0.0], 0.0
    for (R, p), (_, kilograms, offset, tensor, part) in zip(placed, masses, strict=True):
        velocity = (p + R @ offset).imag / STEP
        turn = R.real.T @ R.imag / STEP
        spin = np.array([turn[2, 1], turn[0, 2], turn[1, 0]])
        kinetic[part] += (kilograms * velocity @ velocity + spin @ tensor @ spin) / 2
        height -= kilograms * gravity @ (p + R @ offset).real
    return kinetic[0], kinetic[1], height


@pytest.mark.parametrize(("nodes", "energy", "force"), [(None, 3e-7, 6e-7), (14, 3e-9, 4e-9)])
@pytest.mark.parametrize("name", ["vanderbilt_segment", "vanderbilt_two_segment"])
def test_energies_are_those_of_integrated_frames(name: str, nodes: int | None, energy: float, force: float) -> None:
    """Measured: 1.5e-7 of the energy, 3.1e-7 of the weight's force with the default's 8 nodes; 14 reach the frames."""
    robot = load_robot(name)
    rng, n = np.random.default_rng(3), robot.coefficient_count
    c, c_rate = rng.normal(0, 2, n), rng.normal(0, 3, n)
    backbone, disks, _ = energies(robot, c, c_rate)
    parts = {
        "backbone": (Parts(rotational_energy=True, disk_inertia=False), backbone),
        "disks": (Parts(rotational_energy=True, backbone_inertia=False), disks),
        "both": (Parts(rotational_energy=True), backbone + disks),
    }
    for name, (own, expected) in parts.items():
        found = Rod(robot, parts=own, nodes=nodes).terms(c, c_rate).momentum @ c_rate / 2
        np.testing.assert_allclose(found, expected, rtol=energy, err_msg=name)
    step, rod = 1e-4, Rod(robot, nodes=nodes)
    still = np.zeros(n)
    slope = [energies(robot, c + one, still)[2] - energies(robot, c - one, still)[2] for one in step * np.eye(n)]
    height = -np.array(slope) / (2 * step)
    np.testing.assert_allclose(rod.terms(c, still).force, height, atol=force * np.abs(height).max())
    inertia = [segment.capstans.inertia_kg_m2 for segment in robot.segments for _ in range(2)]
    speed = capstan_jacobian(robot) @ c_rate
    moving = Rod(robot, parts=WITH_CAPSTANS).terms(c, c_rate).momentum - rod.terms(c, c_rate).momentum
    assert moving @ c_rate / 2 == pytest.approx(np.array(inertia) @ speed**2 / 2)  # johnston (22)
    # Integral of EI_x kappa_x^2 + EI_y kappa_y^2, johnston (28).
    expected = 0.0
    for k, segment in enumerate(robot.segments):
        nodes, weights = np.polynomial.legendre.leggauss(8)
        for node, weight in zip(nodes, weights, strict=True):
            s_m = robot.segment_starts_m[k] + (node + 1) / 2 * segment.length_m
            u = curvature(robot, c, s_m)
            stiffness = segment.backbone.bending_stiffness_x_nm2, segment.backbone.bending_stiffness_y_nm2
            expected += weight * segment.length_m / 4 * (stiffness[0] * u[0] ** 2 + stiffness[1] * u[1] ** 2)
    np.testing.assert_allclose(c @ rod.arrays.stiffness @ c / 2, expected)


def test_inverse_dynamics_are_the_euler_lagrange_equations(robot: Robot) -> None:
    """With the gradient of L and the time derivative of the momentum along a motion, by a small central difference."""
    rod, rng, h = Rod(robot, nodes=16, parts=WITH_CAPSTANS), np.random.default_rng(5), 1e-5
    c, c_rate, second = rng.normal(0, 2, 6), rng.normal(0, 3, 6), rng.normal(0, 20, 6)

    def momentum(t: float) -> np.ndarray:
        return rod.terms(c + c_rate * t + second * t**2 / 2, c_rate + second * t).momentum

    rate = (8 * (momentum(h) - momentum(-h)) - (momentum(2 * h) - momentum(-2 * h))) / (12 * h)
    inverse, arrays = rod.in_cycle(["bias"]), rod.arrays
    inverse.c[:], inverse.rate[:], inverse.acceleration[:] = c, c_rate, second
    inverse.run()
    expected = rate - rod.terms(c, c_rate).force + arrays.stiffness @ c + arrays.damping @ c_rate
    np.testing.assert_allclose(inverse.bias, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(rod.acceleration(c, c_rate, inverse.bias), second, rtol=1e-9)


def test_energy_is_conserved_without_damping(robot: Robot) -> None:
    rod = Rod(undamped(robot), parts=WITH_CAPSTANS)
    x = np.concatenate([[0.8, 1.2, 0.3, -0.5, 0.2, 0.1], np.zeros(6)])

    def derivative(_t: float, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[6:], rod.acceleration(x[:6], x[6:], np.zeros(6))])

    def potential(c: np.ndarray) -> float:
        return energies(robot, c, np.zeros(6))[2] + c @ rod.arrays.stiffness @ c / 2

    end = solve_ivp(derivative, (0, 1.0), x, rtol=1e-9, atol=1e-9, method="DOP853").y[:, -1]
    kinetic = rod.terms(end[:6], end[6:]).momentum @ end[6:] / 2
    assert kinetic > 1e-2
    assert kinetic + potential(end[:6]) == pytest.approx(potential(x[:6]), abs=1e-5 * kinetic)


def test_a_turn_of_the_capstan_bends_by_42_degrees(robot: Robot) -> None:
    for row, (place, sign) in enumerate([(1, 1), (0, -1)]):  # capstan 1 bends towards +x, 2 towards +y
        c = np.zeros(6)
        c[place] = sign * np.radians(42) / robot.length_m
        turned_deg = np.degrees(capstan_jacobian(robot) @ c)
        assert turned_deg[row] == pytest.approx(360, abs=0.1)
        assert turned_deg[1 - row] == pytest.approx(0, abs=1e-9)


def torque_from_tension(robot: Robot) -> np.ndarray:
    """Tensions of all tendons to capstan torques: their difference times the radius over the strands."""
    matrix = np.zeros((len(drives(robot)), robot.tendon_count))
    for row, drive in zip(matrix, drives(robot), strict=True):
        row[drive.pulled], row[drive.released] = drive.path_per_radian_m, -drive.path_per_radian_m
    return matrix


def test_capstan_torque_and_tension_do_the_same_work(two: Robot) -> None:
    rng = np.random.default_rng(6)
    jacobian, displacement = capstan_jacobian(two), tendon_matrix(two)
    tension, torque = rng.uniform(20, 400, two.tendon_count), rng.normal(0, 2, 4)
    np.testing.assert_allclose(jacobian.T @ (torque_from_tension(two) @ tension), displacement.T @ tension, atol=1e-9)
    np.testing.assert_allclose(torque_from_tension(two) @ tension_from_torque(two), np.eye(4), atol=1e-12)
    np.testing.assert_allclose(displacement.T @ (tension_from_torque(two) @ torque), jacobian.T @ torque, atol=1e-12)
    # One strand of the pulled side has half of the tendon's tension, and the wire winds at the radius of (10).
    drive = drives(two)[0]
    wire = tension / 2
    expected = (wire[0] - wire[2]) * np.hypot(drive.capstans.radius_m, drive.capstans.lead_m / (2 * np.pi))
    assert (torque_from_tension(two) @ tension)[0] == pytest.approx(expected)


def test_actuators_of_the_file_weigh_what_the_capstans_do(robot: Robot) -> None:
    """Four motors on the tendons have the kinetic energy of two capstans: johnston (24)."""
    displacement = tendon_matrix(robot)
    np.testing.assert_allclose(
        robot.actuators.reflected_mass_kg * displacement.T @ displacement,
        actuator_mass_matrix(robot),
        rtol=1e-4,
        atol=1e-12,
    )
    moved = Rod(robot, parts=WITH_CAPSTANS).arrays.inertia
    np.testing.assert_allclose(moved, actuator_mass_matrix(robot), rtol=1e-12, atol=1e-15)
    assert not Rod(robot).arrays.inertia.any()


@pytest.mark.parametrize("name", ["vanderbilt_segment", "vanderbilt_two_segment"])
def test_capstans_and_strings_show_all_coefficients(name: str) -> None:
    """The square matrix of johnston (6) has full rank for each segment."""
    robot = load_robot(name)
    rows = np.vstack([tendon_matrix(robot)[drive.pulled] for drive in drives(robot)] + [string_matrix(robot)])
    assert rows.shape == (robot.coefficient_count, robot.coefficient_count)
    assert np.linalg.cond(rows) < 100


def test_a_string_between_two_disks_reads_the_length_there(robot: Robot) -> None:
    """Against chords of the bent path, many between its ends."""
    c = np.array([1.0, 2.0, 0.5, -0.4, 0.3, 0.2])
    for string, extension in zip(robot.strings, string_matrix(robot) @ c, strict=True):
        lead_in = np.linspace(0, string.start_m, 20)[1:-1]
        places = np.linspace(string.start_m, string.anchor_m, 400)
        placed = frames(robot, c, np.concatenate([lead_in, places]), steps=2)[len(lead_in) :]
        hole = string.pitch_radius_m * np.array([np.cos(string.angle_rad), np.sin(string.angle_rad), 0])
        path = np.array([p + R @ hole for R, p in placed])
        length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
        assert extension == pytest.approx(string.anchor_m - string.start_m - length, abs=1e-7)


def test_tendons_of_a_carried_segment_leave_the_other_alone(two: Robot) -> None:
    displacement = tendon_matrix(two)
    assert not displacement[4:, :6].any()
    assert not displacement[:4, 6:].any()
    manifold = clarke_manifold(two)
    np.testing.assert_allclose(manifold.clarke_matrix @ manifold.displacement_matrix, np.eye(4), atol=1e-12)
    clarke = np.array([0.01, -0.02, 0.03, 0.005])
    np.testing.assert_allclose(manifold.displacement(clarke)[4:], manifold.displacement_matrix[4:, 2:] @ clarke[2:])
    np.testing.assert_allclose(manifold.inconsistency_m(manifold.displacement(clarke)), 0, atol=1e-12)


def test_a_straight_distal_segment_weighs_what_it_is_lumped_to(two: Robot) -> None:
    """With the distal segment straight and at rest in itself, both have the same inertia and weight."""
    whole, lumped = (Rod(one, parts=WITH_CAPSTANS) for one in (two, lumped_distal(two)))
    c = np.concatenate([[0.8, -1.2, 0.3, -0.5, 0.2, 0.1], np.zeros(6)])
    both, alone = whole.terms(c, np.zeros(12)), lumped.terms(c[:6], np.zeros(6))
    np.testing.assert_allclose(both.mass[:6, :6], alone.mass, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(both.force[:6], alone.force, rtol=1e-7, atol=1e-12)
    with pytest.raises(ParameterError, match="two segments"):
        lumped_distal(lumped_distal(two))


def test_reaction_moments_of_section_13(two: Robot, robot: Robot) -> None:
    np.testing.assert_array_equal(distal_reaction(two, 2.0, [0.3, -0.4]), [0, 0, 0, 2.3, -0.4, 0])
    with pytest.raises(ParameterError, match="elbow_torque_nm"):
        distal_reaction(two, 21.0, [0, 0])
    with pytest.raises(ParameterError, match="elbow_torque_nm"):
        distal_reaction(two, float("nan"), [0, 0])
    with pytest.raises(ParameterError, match="distal_torque_nm"):
        distal_reaction(two, 1.0, [0, float("nan")])
    with pytest.raises(ParameterError, match="two segments"):
        distal_reaction(robot, 1.0, [0, 0])
