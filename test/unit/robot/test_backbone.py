# SPDX-License-Identifier: Apache-2.0
"""Backbones whose cross-section changes along the segment, and that are bent without load."""

import dataclasses
import math

import pytest
from robot_files import changed_robot

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Backbone, TaperPoint

ROD = "segments[0].backbone"
ROUND = Backbone(youngs_modulus_pa=2e6, density_kg_per_m3=1100, outer_diameter_m=0.02, inner_diameter_m=0.004)


def test_a_cone_has_the_stiffness_and_mass_of_its_local_diameter():
    cone = dataclasses.replace(ROUND, taper=(TaperPoint(at=0.0), TaperPoint(at=1.0, diameter=0.4)))
    for ratio in (0.0, 0.3, 1.0):
        thin = dataclasses.replace(
            ROUND, outer_diameter_m=0.02 * (1 - 0.6 * ratio), inner_diameter_m=0.004 * (1 - 0.6 * ratio)
        )
        factors = cone.factors(ratio)
        assert factors.stiffness * cone.section_stiffnesses == pytest.approx(thin.section_stiffnesses, rel=1e-12)
        assert factors.mass * cone.linear_density_kg_per_m == pytest.approx(thin.linear_density_kg_per_m, rel=1e-12)
        assert factors.rotary * cone.rotary_inertia_kg_m == pytest.approx(thin.rotary_inertia_kg_m, rel=1e-12)
    frustum = math.pi / 12 * 0.3 * (1 + 0.4 + 0.16) * (0.02**2 - 0.004**2) * 1100
    assert cone.mass_kg(0.3) == pytest.approx(frustum, rel=1e-12)
    assert ROUND.mass_kg(0.3) == pytest.approx(0.3 * ROUND.linear_density_kg_per_m)
    assert cone.breaks == ()


def test_stiffness_and_mass_are_stated_by_themselves_too():
    points = (TaperPoint(at=0.2, stiffness=2.0), TaperPoint(at=0.5, mass=3.0), TaperPoint(at=0.8, diameter=0.5))
    stepped = dataclasses.replace(ROUND, taper=points, bending_stiffness_x_nm2=0.7)
    assert stepped.breaks == (0.2, 0.5, 0.8)
    assert stepped.factors(0.0).bending == 2.0
    middle = stepped.factors(0.35)
    assert (middle.bending, middle.area, middle.mass) == pytest.approx((1.5, 1.5, 2.0))
    assert stepped.factors(1.0).stiffness == pytest.approx([0.5**4] * 3 + [0.5**2] * 3)


def test_a_file_says_both_and_says_what_is_wrong():
    taper = [{"at": 0, "diameter": 1.2}, {"at": 1, "diameter": 0.8}]
    good = {f"{ROD}.taper": taper, f"{ROD}.rest_curvature_per_m": [0.0, 4.0, 0.5]}
    backbone = changed_robot(good).segments[0].backbone
    assert backbone.taper[1].diameter == 0.8
    assert backbone.rest_strain == (0.0, 4.0, 0.5, 0.0, 0.0, 1.0)
    assert load_robot("opencr_five_tendon").segments[0].backbone.rest_strain[:3] == (0.0, 0.0, 0.0)
    with pytest.raises(RobotFileError, match=r"taper.*increasing"):
        changed_robot({**good, f"{ROD}.taper": taper[::-1]})
    with pytest.raises(RobotFileError, match=r"rest_curvature_per_m.*3 values"):
        changed_robot({**good, f"{ROD}.rest_curvature_per_m": [0.0, 4.0]})
