# SPDX-License-Identifier: Apache-2.0
"""Motions and shapes that have a closed form."""

import numpy as np
import pytest
from rod_robots import heavy_rod_without_disks, light_rod_with_tip_disk

from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod

GRAVITY = 9.81


def pendulum_acceleration(theta, theta_rate, *, mass, length, stiffness, inertia, gravity_x, gravity_z):
    """theta'' of a disk at the tip of a weightless arc: one scalar coordinate, by hand.

    p = l ((1 - cos t)/t, sin t/t); (m |p'|^2 + I) t'' + m p'.p'' t'^2 - m g.p' + k t = 0.
    """
    t, sin, cos = theta, np.sin(theta), np.cos(theta)
    first = length * np.array([sin / t - (1 - cos) / t**2, cos / t - sin / t**2])
    second = length * np.array(
        [cos / t - 2 * sin / t**2 + 2 * (1 - cos) / t**3, -sin / t - 2 * cos / t**2 + 2 * sin / t**3]
    )
    force = mass * np.array([gravity_x, gravity_z]) @ first - stiffness * t
    return (force - mass * first @ second * theta_rate**2) / (mass * first @ first + inertia)


@pytest.mark.parametrize("rotational", [False, True])
@pytest.mark.parametrize("theta", [0.05, 0.9, -1.7, 3.6])
@pytest.mark.parametrize("direction", [0.0, 2.1])
def test_single_disk_pendulum(rotational, theta, direction):
    across, along = 2.0, -5.0
    cos, sin = np.cos(direction), np.sin(direction)
    robot = light_rod_with_tip_disk((across * cos, across * sin, along))
    segment = robot.segments[0]
    rod = Rod(robot, nodes=12, parts=Parts(rotational_energy=rotational))
    theta_rate = 4.0
    axis = np.array([-sin, cos]) / segment.length_m
    found = rod.acceleration(theta * axis, theta_rate * axis, np.zeros(2))
    disk = segment.disks
    expected = pendulum_acceleration(
        theta,
        theta_rate,
        mass=disk.mass_kg,
        length=segment.length_m,
        stiffness=segment.backbone.bending_stiffness_nm2 / segment.length_m,
        inertia=disk.mass_kg * (3 * disk.radius_m**2 + disk.thickness_m**2) / 12 if rotational else 0.0,
        gravity_x=across,
        gravity_z=along,
    )
    np.testing.assert_allclose(found, expected * axis, rtol=1e-6, atol=1e-5)


def cantilever(order):
    """Sag under a small sideways gravity; returns the tip's sag and the line load over the stiffness."""
    small = 1e-4 * GRAVITY
    robot = heavy_rod_without_disks((small, 0.0, 0.0), order)
    backbone = robot.segments[0].backbone
    rod = Rod(robot)
    found = rod.equilibrium()
    assert found.stable
    sag = rod.poses(found.c, [robot.length_m])[0, 0, 3]
    load = backbone.density_kg_per_m3 * backbone.area_m2 * small / backbone.bending_stiffness_nm2
    return robot, found.c, sag, load


@pytest.mark.parametrize("order", [2, 3])
def test_static_sag_of_a_cantilever(order):
    """Curvature w (l - s)^2 / (2 E I) is a polynomial of order 2: sag w l^4 / (8 E I) to the basis' precision."""
    robot, c, sag, load = cantilever(order)
    length = robot.length_m
    np.testing.assert_allclose(sag, load * length**4 / 8, rtol=2e-6)
    # (1 - x)^2 with x = s / l is 3/8 T_0 - 1/2 T_1 + 1/8 T_2 in shifted Chebyshev polynomials.
    expected = load * length**2 / 2 * np.array([3 / 8, -1 / 2, 1 / 8])
    np.testing.assert_allclose(c[1::2][:3], expected, rtol=1e-4)
    np.testing.assert_allclose(c[0::2], 0, atol=1e-12)


def test_static_sag_of_a_constant_curvature_cantilever():
    """The constant curvature of least energy: w l^2 / (6 E I), sag w l^4 / (12 E I)."""
    robot, c, sag, load = cantilever(0)
    np.testing.assert_allclose(c[1], load * robot.length_m**2 / 6, rtol=1e-5)
    np.testing.assert_allclose(sag, load * robot.length_m**4 / 12, rtol=1e-5)
