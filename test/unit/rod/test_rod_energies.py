# SPDX-License-Identifier: Apache-2.0
"""Energies of muhmann (9)-(19) against an independent quadrature in arc parameters, away from straight."""

import dataclasses

import numpy as np
import pytest
import rod_oracle
from rod_robots import load_robot, shapes, undamped, uneven, with_basis

from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.model import RodModel

MOTIONS = {
    "moderate": ([(0.3, 0.8), (-1.2, 1.4), (2.5, 0.6)], [(1.5, -0.7), (0.4, 2.0), (-3.0, 1.1)]),
    "past_half_a_turn": ([(2.0, 3.6), (0.7, 3.3), (-2.2, 4.0)], [(-2.0, 1.0), (3.0, -2.5), (0.5, 0.9)]),
    "nearly_straight": ([(0.1, 1e-3), (1.1, 2e-3), (3.0, 5e-4)], [(4.0, 0.2), (-2.0, 0.1), (1.0, -0.3)]),
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


def model_energies(model, c, c_rate):
    translational, rotational, gravity, axial, elastic = (np.array(v).ravel() for v in model.energies(c, c_rate))
    parts = ("backbone", "tendons", "disks")
    sums = {f"{part}_translational": value for part, value in zip(parts, translational, strict=True)}
    sums |= {f"{part}_rotational": value for part, value in zip(parts, rotational, strict=True)}
    sums |= {f"{part}_gravity": value for part, value in zip(parts, gravity, strict=True)}
    return sums | {"tendon_axial": axial[0], "elastic": elastic[0]}


@pytest.fixture(scope="module", params=sorted(ROBOTS))
def full_model(request):
    robot = ROBOTS[request.param]()
    return RodModel(robot, rotational_energy=True, tendon_inertia=True, quadrature_nodes=14)


@pytest.mark.parametrize("motion", sorted(MOTIONS))
def test_every_term_is_the_papers(full_model, motion):
    robot = full_model.robot
    arcs, arc_rates = (values[: len(robot.segments)] for values in MOTIONS[motion])
    expected = rod_oracle.energies(robot, arcs, arc_rates)
    found = model_energies(full_model, *rod_oracle.coefficients(robot, arcs, arc_rates))
    assert found.keys() == expected.keys()
    largest = max(map(abs, expected.values()))
    for name, value in expected.items():
        assert value != 0
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-15 * largest, err_msg=name)


@pytest.mark.parametrize("motion", sorted(MOTIONS))
def test_the_default_quadrature_is_right_to_a_millionth(motion):
    robot = two_with_heavy_tendons()
    arcs, arc_rates = (values[:2] for values in MOTIONS[motion])
    expected = rod_oracle.energies(robot, arcs, arc_rates)
    model = RodModel(robot, rotational_energy=True, tendon_inertia=True)
    found = model_energies(model, *rod_oracle.coefficients(robot, arcs, arc_rates))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_the_default_quadrature_of_a_chebyshev_segment_is_right_to_a_millionth():
    """Against 20 nodes, up to 2.5 rad; more nodes also refine the Magnus steps, so this bounds both."""
    robot = with_basis(two_with_heavy_tendons(), 2, 1)
    options = {"rotational_energy": True, "tendon_inertia": True}
    default, fine = RodModel(robot, **options), RodModel(robot, quadrature_nodes=20, **options)
    for c, c_rate in shapes(robot, 51, 4, bending_rad=2.5):
        expected = model_energies(fine, c, c_rate)
        for name, value in model_energies(default, c, c_rate).items():
            np.testing.assert_allclose(value, expected[name], rtol=2e-6, err_msg=name)


def test_parts_that_are_left_out_are_zero_and_the_others_unchanged():
    robot = uneven()
    arcs, arc_rates = MOTIONS["moderate"]
    c, c_rate = rod_oracle.coefficients(robot, arcs, arc_rates)
    full = model_energies(RodModel(robot, rotational_energy=True, tendon_inertia=True), c, c_rate)
    for off in ("rotational_energy", "tendon_inertia", "backbone_inertia", "disk_inertia"):
        options = {"rotational_energy": True, "tendon_inertia": True, off: False}
        found = model_energies(RodModel(robot, **options), c, c_rate)
        for name, value in found.items():
            gone = {
                "rotational_energy": name.endswith("rotational"),
                "tendon_inertia": name.startswith("tendon"),
                "backbone_inertia": name.startswith("backbone"),
                "disk_inertia": name.startswith("disk"),
            }[off]
            np.testing.assert_allclose(value, 0.0 if gone else full[name], rtol=1e-12, err_msg=name)


def test_sums_of_the_parts():
    dynamics = RodDynamics(uneven(), rotational_energy=True, tendon_inertia=True, compile="never")
    c, c_rate = rod_oracle.coefficients(dynamics.robot, *MOTIONS["moderate"])
    found = dynamics.energies(c, c_rate)
    expected = rod_oracle.energies(dynamics.robot, *MOTIONS["moderate"])
    np.testing.assert_allclose(found.kinetic_rotational, sum(v for k, v in expected.items() if "rotational" in k))
    np.testing.assert_allclose(
        found.kinetic, sum(v for k, v in expected.items() if "gravity" not in k and k != "elastic")
    )
    np.testing.assert_allclose(found.kinetic, c_rate @ dynamics.mass_matrix(c) @ c_rate / 2)
    np.testing.assert_allclose(found.potential, dynamics.potential(c)[0])
    lagrangian = float(dynamics.symbolic.lagrangian(c, c_rate))
    np.testing.assert_allclose(found.kinetic - found.potential, lagrangian)
    np.testing.assert_allclose(found.total, found.kinetic + found.potential)


def test_gravity_pulls_towards_its_vector():
    """The corrected sign: a robot that hangs along gravity has less energy than one bent away from it."""
    hanging = RodDynamics(undamped(load_robot("two_segment")), compile="never")
    assert hanging.energies(np.zeros(4), np.zeros(4)).gravity < hanging.energies([0, 5.0, 0, 5.0], np.zeros(4)).gravity
