# SPDX-License-Identifier: Apache-2.0
"""Robot files with capstans and with disks described one by one: values of johnston, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from robot_files import GONE, changed_robot

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.loading import load_robot


def test_values_of_tables_3_4_and_9():
    robot, two = load_robot("vanderbilt_segment"), load_robot("vanderbilt_two_segment")
    for segment in (robot.segments[0], *two.segments):
        assert segment.length_m == 0.30065
        np.testing.assert_allclose(
            segment.disks.positions_m(segment.length_m), [0.05308, 0.10262, 0.15316, 0.2037, 0.25424, 0.30065]
        )
        assert segment.backbone.linear_density_kg_per_m == 0.0831532
        # (14): a quarter of rho r^2
        assert segment.backbone.rotary_inertia_kg_m == pytest.approx(0.0831532 * 0.002**2 / 4)
        np.testing.assert_allclose(segment.disks.masses_kg[:5], 0.30881)
        assert segment.disks.individual[2].inertia_tensor_kg_m2[0, 1] == 0.0024e-3
        assert (segment.capstans.radius_m, segment.capstans.lead_m) == (0.015255, 0.00283)
        assert (segment.capstans.inertia_kg_m2, segment.capstans.pretension_n) == (0.014323, 208)
        assert segment.tendons.strands == 2
    for end in (robot.segments[0], two.segments[1]):
        assert end.backbone.bending_stiffnesses_nm2 == (1.1440, 1.0373)
        assert end.capstans.friction_coefficients == (0.0312, 0.1637)
        assert end.disks.masses_kg[-1] == 0.74312
        assert end.disks.individual[-1].center_of_mass_m == (-0.0133e-3, 0, 20.8966e-3)
    proximal = two.segments[0]
    assert proximal.backbone.bending_stiffnesses_nm2 == (1.6003, 2.1502)
    assert proximal.capstans.friction_coefficients == (0.09, 0.2)
    assert (robot.gravity_m_per_s2, two.gravity_m_per_s2) == ((0, 0, -9.81), (0, 9.81, 0))
    assert not two.segments[1].tendons.from_base


BAD = {
    "not_symmetric": ("segments[0].disks.individual[1].inertia_kg_m2[1]", 0.1e-3, "symmetric"),
    "not_positive_definite": ("segments[0].disks.individual[1].inertia_kg_m2[0]", -1e-3, "positive principal"),
    "no_body_has_it": ("segments[0].disks.individual[1].inertia_kg_m2[8]", 5e-3, "none greater than the sum"),
    "eight_values": ("segments[0].disks.individual[1].inertia_kg_m2", [1e-3] * 8, "9 values"),
    "no_mass": ("segments[0].disks.individual[1].mass_kg", 0.0, "(0, 100]"),
    "not_increasing": ("segments[0].disks.individual[1].arc_length_m", 0.01, "increasing"),
    "beyond_the_end": ("segments[0].disks.individual[5].arc_length_m", 0.4, "at most the segment's length_m"),
    "two_kinds_of_disks": ("segments[0].disks.count", 3, "either count or"),
    "mass_twice": ("segments[0].disks.mass_kg", 0.3, "individual disks with a mass each"),
    "strands": ("segments[0].tendons.strands", 0, "[1, 8]"),
    "half_a_strand": ("segments[0].tendons.strands", 1.5, "whole number"),
    "five_tendons": ("segments[0].tendons.count", 5, "4, as the segment has capstans"),
    "friction": ("segments[0].capstans.friction_coefficients[1]", 1.0, "[0, 1)"),
    "three_frictions": ("segments[0].capstans.friction_coefficients", [0.1] * 3, "2 values"),
    "capstan_radius": ("segments[0].capstans.radius_m", 0.0, "(0, 0.5]"),
    "capstan_inertia": ("segments[0].capstans.inertia_kg_m2", -1.0, "(0, 10]"),
    "pretension": ("segments[0].capstans.pretension_n", float("nan"), "[0, 100000]"),
    "stiffness": ("segments[0].backbone.bending_stiffness_y_nm2", 0.0, "(0, 1e+06]"),
    "string": ("strings[2].start_m", 0.35, "less than anchor_m"),
}


@pytest.mark.parametrize(("key", "value", "says"), BAD.values(), ids=BAD.keys())
def test_impossible_values_are_refused(key, value, says):
    with pytest.raises(RobotFileError) as caught:
        changed_robot({key: value}, "vanderbilt_segment")
    assert says in caught.value.expected


def test_equal_disks_need_a_mass():
    with pytest.raises(RobotFileError, match="mass_kg"):
        changed_robot({"segments[0].disks.mass_kg": GONE})


def test_capstans_of_a_later_segment_ride_on_the_one_before():
    with pytest.raises(RobotFileError, match="ride on the end"):
        changed_robot({"segments[1].tendons.from_base": True}, "vanderbilt_two_segment")
