# SPDX-License-Identifier: Apache-2.0
"""Momentum, mass and force against the energies of muhmann (9)-(19) by another quadrature, away from straight."""

import dataclasses

import numpy as np
import pytest
import rod_oracle
from rod_robots import load_robot, shapes, uneven, with_basis

from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod

MOTIONS = {
    "moderate": ([(0.3, 0.8), (-1.2, 1.4), (2.5, 0.6)], [(1.5, -0.7), (0.4, 2.0), (-3.0, 1.1)]),
    "past_half_a_turn": ([(2.0, 3.6), (0.7, 3.3), (-2.2, 4.0)], [(-2.0, 1.0), (3.0, -2.5), (0.5, 0.9)]),
    "nearly_straight": ([(0.1, 1e-3), (1.1, 2e-3), (3.0, 5e-4)], [(4.0, 0.2), (-2.0, 0.1), (1.0, -0.3)]),
}
# What the default quadrature, of 6 nodes a segment, errs by at most in the kinetic energy; measured: 2.5e-9 at 1.4 rad
# a segment, 3.3e-6 at 4 rad for the disks, where 8 nodes err by 4e-8. The oracle's own error is 6e-11 near 0.
ERRORS = {"moderate": 5e-9, "past_half_a_turn": 5e-6, "nearly_straight": 1e-10}
PARTS = {
    "backbone": Parts(rotational_energy=True, disk_inertia=False),
    "tendons": Parts(rotational_energy=True, tendon_inertia=True, backbone_inertia=False, disk_inertia=False),
    "disks": Parts(rotational_energy=True, backbone_inertia=False),
}


def two_with_heavy_tendons():
    robot = load_robot("two_segment")
    segments = tuple(
        dataclasses.replace(
            segment,
            tendons=dataclasses.replace(
                segment.tendons, diameter_m=0.0006, density_kg_per_m3=7800, youngs_modulus_pa=1.5e11
            ),
        )
        for segment in robot.segments
    )
    return dataclasses.replace(robot, segments=segments, gravity_m_per_s2=(3.0, -1.0, 9.0))


ROBOTS = {"two": two_with_heavy_tendons, "uneven": uneven}
each = pytest.mark.parametrize("name", sorted(ROBOTS))
moving = pytest.mark.parametrize("motion", sorted(MOTIONS))


def arcs_of(robot, motion):
    return (values[: len(robot.segments)] for values in MOTIONS[motion])


def kinetic(rod, c, c_rate):
    return float(rod.terms(c, c_rate).momentum @ c_rate / 2)


@each
@moving
def test_kinetic_energy_of_every_part_is_the_papers(name, motion):
    robot = ROBOTS[name]()
    arcs, arc_rates = arcs_of(robot, motion)
    expected = rod_oracle.energies(robot, arcs, arc_rates)
    c, c_rate = rod_oracle.coefficients(robot, arcs, arc_rates)
    for part, parts in PARTS.items():
        whole = expected[f"{part}_translational"] + expected[f"{part}_rotational"]
        whole += expected["tendon_axial"] if part == "tendons" else 0.0
        assert whole > 0
        fine, eight, usual = (Rod(robot, nodes=nodes, parts=parts) for nodes in (14, 8, None))
        np.testing.assert_allclose(kinetic(fine, c, c_rate), whole, rtol=1e-10, err_msg=part)
        np.testing.assert_allclose(kinetic(eight, c, c_rate), whole, rtol=5e-8, err_msg=part)
        np.testing.assert_allclose(kinetic(usual, c, c_rate), whole, rtol=ERRORS[motion], err_msg=part)
        lighter = Rod(robot, nodes=14, parts=dataclasses.replace(parts, rotational_energy=False))
        without = whole - expected[f"{part}_rotational"]
        np.testing.assert_allclose(kinetic(lighter, c, c_rate), without, rtol=1e-9, err_msg=part)
    elastic = c @ fine.arrays.stiffness @ c / 2
    np.testing.assert_allclose(elastic, expected["elastic"], rtol=1e-9)


@each
def test_force_is_the_slope_of_the_lagrangian(name):
    """dL/dc of kinetic energy less that in gravity, by differences of the oracle's, whose sign is V = -m g . p."""
    robot = ROBOTS[name]()
    arcs, arc_rates = (np.array(values) for values in arcs_of(robot, "moderate"))
    c, c_rate = rod_oracle.coefficients(robot, arcs, arc_rates)

    def lagrangian(at):
        """At coefficients with the same rates of these."""
        bent = at.reshape(-1, 2)
        lengths = np.array([segment.length_m for segment in robot.segments])
        there = np.column_stack([np.arctan2(-bent[:, 0], bent[:, 1]), lengths * np.hypot(*bent.T)])
        rates = c_rate.reshape(-1, 2)
        size = np.hypot(*bent.T)
        turning = (bent[:, 0] * rates[:, 1] - bent[:, 1] * rates[:, 0]) / size**2
        growing = lengths * (bent * rates).sum(axis=1) / size
        values = rod_oracle.energies(robot, there, np.column_stack([turning, growing]))
        return sum(v * (-1 if "gravity" in k else 1) for k, v in values.items() if k != "elastic")

    steps = 1e-3 * np.eye(c.size)
    expected = [(lagrangian(c + step) - lagrangian(c - step)) / 2e-3 for step in steps]
    found = Rod(robot, nodes=14).terms(c, c_rate)
    np.testing.assert_allclose(found.force, expected, atol=1e-6 * np.abs(expected).max())
    # p' of johnston (43), (44) along a motion: M a + (dp/dc) v.
    a = np.linspace(-100, 200, c.size)
    bias = Rod(robot, nodes=14).terms(c, c_rate, a).bias
    rate = found.mass @ a + found.momentum_by_c @ c_rate
    np.testing.assert_allclose(bias, rate - found.force, atol=1e-9 * np.abs(rate).max())
    np.testing.assert_allclose(found.mass @ c_rate, found.momentum, rtol=1e-12)


@pytest.mark.parametrize(("nodes", "error"), [(None, 1e-5), (10, 1e-7), (14, 2e-9)])
def test_the_quadrature_of_a_chebyshev_segment_that_bends_by_2_5_rad_in_each_mode(nodes, error):
    """Measured: 5.5e-6 of the energy with the default's 8 nodes, 5.7e-8 with 10, 9.6e-10 with 14."""
    robot = with_basis(two_with_heavy_tendons(), 2, 1)
    usual, fine = Rod(robot, nodes=nodes), Rod(robot, nodes=24)
    for c, c_rate in shapes(robot, 51, 4, bending_rad=2.5):
        expected = fine.terms(c, c_rate)
        np.testing.assert_allclose(kinetic(usual, c, c_rate), expected.momentum @ c_rate / 2, rtol=error)
        force = usual.terms(c, c_rate).force
        np.testing.assert_allclose(force, expected.force, atol=error * np.abs(expected.force).max())


def test_a_rod_without_parts_has_no_mass():
    none = Parts(backbone_inertia=False, disk_inertia=False)
    assert not Rod(uneven(), parts=none).terms(np.ones(6), np.ones(6)).mass.any()
