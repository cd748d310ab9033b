# SPDX-License-Identifier: Apache-2.0
"""Stiffness of a cross-section: torsion, shear and extension are of the same material as the stated bending."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuum_robot.identification.robot_keys import STIFFNESS, with_factor
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Backbone
from continuum_robot.rod.description import RodDescription

ROD = {"youngs_modulus_pa": 60e9, "poisson_ratio": 0.3, "density_kg_per_m3": 6400, "outer_diameter_m": 0.001}


def test_a_round_rod_has_the_textbook_stiffnesses():
    area, second, shear = math.pi / 4 * 1e-6, math.pi / 64 * 1e-12, 60e9 / 2.6
    expected = (60e9 * second, 60e9 * second, 2 * shear * second, shear * area, shear * area, 60e9 * area)
    assert Backbone(**ROD).section_stiffnesses == pytest.approx(expected, rel=1e-14)


def test_a_fitted_bending_stiffness_is_that_of_its_material():
    """What a fit writes as bending stiffness is a softer rod in all strains, as a softer Young's modulus is."""
    softer = Backbone(**{**ROD, "youngs_modulus_pa": 0.7 * 60e9})
    x, y = softer.bending_stiffnesses_nm2
    written = Backbone(**ROD, bending_stiffness_x_nm2=x, bending_stiffness_y_nm2=y)
    assert written.section_stiffnesses == pytest.approx(softer.section_stiffnesses, rel=1e-14)
    assert written.bending_stiffness_nm2 == pytest.approx(softer.bending_stiffness_nm2, rel=1e-14)


def test_an_ellipse_has_saint_venants_torsion_and_its_area():
    a, b = 0.0008, 0.0005  # of half the axes
    radius = math.sqrt(a * b)
    x, y = 60e9 * math.pi / 4 * a * b**3, 60e9 * math.pi / 4 * a**3 * b
    rod = Backbone(
        **{**ROD, "outer_diameter_m": 2 * radius}, bending_stiffness_x_nm2=x, bending_stiffness_y_nm2=y
    )
    torsion = 60e9 / 2.6 * math.pi * a**3 * b**3 / (a**2 + b**2)
    assert rod.section_stiffnesses[2] == pytest.approx(torsion, rel=1e-12)
    assert rod.section_stiffnesses[5] == pytest.approx(60e9 * math.pi * a * b, rel=1e-12)


def test_a_stated_torsional_stiffness_counts():
    assert Backbone(**ROD, torsional_stiffness_nm2=0.5).section_stiffnesses[2] == 0.5


@pytest.mark.parametrize("name", ["rucker", "vanderbilt_segment", "mixed_routing"])
def test_a_factor_on_the_stiffness_is_one_on_all_strains(name):
    robot = load_robot(name)
    stiffer = with_factor(robot, STIFFNESS, 0, 1.5)
    count = robot.segments[0].basis.coefficient_count
    tendons = robot.segments[0].tendons.bending_stiffness_nm2
    assert tendons == 0
    one, other = (RodDescription.of_robot(rod).stiffness[:count, :count] for rod in (robot, stiffer))
    np.testing.assert_allclose(other, 1.5 * one, rtol=1e-12, atol=1e-15 * one.max())
