# SPDX-License-Identifier: Apache-2.0
"""The stage that carries a robot: poses, their derivatives, gravity, and what its section of a robot file refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation as Oracle

from continuum_robot.drivers import backends
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.geometry import se3
from continuum_robot.robot.base_stage import BaseStage, Insertion, Rotation
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot, parse_robot
from continuum_robot.rod.rod import Rod

ROBOT = load_robot("three_segment_servo_stage")
ALONG = Insertion(range_m=(0.0, 0.3), speed_m_per_s=0.02, acceleration_m_per_s2=0.1)
ABOUT = Rotation(range_rad=(-3.0, 3.0), speed_rad_per_s=0.5, acceleration_rad_per_s2=2.0)
TILTED = BaseStage(insertion=ALONG, rotation=ABOUT, base_m=(0.01, -0.02, 0.03), base_rad=(0.3, -0.2, 0.5))

UP = np.array([0.0, 0.0, 1.0])


def test_the_pose_is_the_carriages_times_the_bases_on_it():
    found = TILTED.pose((0.1, 0.7))
    turn = Oracle.from_euler("z", 0.7)
    assert found[:3, :3] == pytest.approx((turn * Oracle.from_rotvec(TILTED.base_rad)).as_matrix())
    assert found[:3, 3] == pytest.approx(turn.apply(TILTED.base_m) + 0.1 * UP)
    both = se3.exp([0, 0, 0.1, 0, 0, 0]) @ se3.exp([0, 0, 0, 0, 0, 0.7]) @ TILTED.pose((0.0, 0.0))
    assert found == pytest.approx(both)


@pytest.mark.parametrize("stage", [TILTED, BaseStage(insertion=ALONG), BaseStage(rotation=ABOUT, base_m=(0.1, 0, 0))])
def test_the_jacobian_is_the_derivative_of_places(stage):
    place, at = np.array([0.05, -0.04, 0.2]), np.array([0.1, 0.7]) * stage.has
    steps = 1e-6 * np.diag(stage.has.astype(float))
    slopes = [se3.apply(stage.pose(at + row), place) - se3.apply(stage.pose(at - row), place) for row in steps]
    assert stage.jacobian(at, place) == pytest.approx(np.array(slopes).T / 2e-6, abs=1e-9)


def test_gravity_stands_still_in_the_stages_frame():
    gravity = np.array([1.0, -9.0, 3.0])
    still = TILTED.pose((0, 0))[:3, :3] @ gravity
    for at in ((0.1, 0.7), (0.0, -2.0)):
        assert TILTED.pose(at)[:3, :3] @ TILTED.gravity(at, gravity) == pytest.approx(still)


def test_a_round_robot_sags_the_same_way_however_it_is_turned():
    lying = ROBOT.changed(gravity_m_per_s2=(-9.81, 0.0, 0.0))
    still = Rod(lying).equilibrium()
    tip = Rod(lying).moved(still.c)[0][:3, 3]
    assert tip[0] < -0.02
    for angle in (0.4, 2.0):
        rod = Rod(lying.on_stage((0.05, angle)))
        turned = rod.moved(rod.equilibrium().c)[0][:3, 3]
        assert se3.apply(lying.base_stage.pose((0.05, angle)), turned) == pytest.approx(tip + 0.05 * UP, abs=1e-6)


def test_a_robot_without_a_stage_has_no_place_on_it():
    with pytest.raises(ParameterError, match="base_stage"):
        load_robot("three_segment_servo").on_stage((0, 0))
    with pytest.raises(ParameterError, match="position"):
        ROBOT.on_stage((0.1, np.nan))


def _motor(robot, **changes):
    robot["hardware"]["base_stage"]["motors"][1] |= changes


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda r: r.update(base_stage={}), "base_stage.insertion"),
        (lambda r: r["base_stage"]["insertion"].update(range_m=[0.1, 0.3]), "base_stage.insertion.range_m"),
        (lambda r: r["base_stage"]["rotation"].update(range_rad=[0.0, 0.0]), "base_stage.rotation.range_rad"),
        (lambda r: r["base_stage"]["rotation"].update(speed_rad_per_s=0.0), "base_stage.rotation.speed_rad_per_s"),
        (lambda r: (r.pop("base_stage"), r.pop("assumed")), "hardware.base_stage"),
        (lambda r: _motor(r, tendon=3), "hardware.base_stage.motors"),
        (lambda r: _motor(r, torque_constant_nm_per_a=None), "hardware.base_stage"),
        (lambda r: r["hardware"]["base_stage"].update(maximum_current_a=None), "hardware.base_stage"),
    ],
)
def test_what_cannot_be_is_refused(change, key):
    values = yaml.safe_load(shipped_file("robots/three_segment_servo_stage.yaml").read_text())
    change(values)
    with pytest.raises((RobotFileError, ParameterError)) as caught:
        backends.base_stage(parse_robot(yaml.safe_dump(values)), simulated=False)
    assert key in str(caught.value)


def test_an_axis_without_a_motor_stays_at_zero():
    robot = ROBOT.changed(base_stage=dataclasses.replace(ROBOT.base_stage, insertion=None))
    stage = backends.base_stage(robot, simulated=True)
    assert stage.motors.tendon_count == 1
    stage.motors.enable()
    stage.write(np.array([0.0, 0.3]), 0.0)
    assert stage.read(0.1).displacement_m == pytest.approx([0, 0.3])
