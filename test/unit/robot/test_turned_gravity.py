# SPDX-License-Identifier: Apache-2.0
"""Models whose gravity a stage turns, against those of a robot whose file states the turned gravity."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.control.inverse_dynamics import InverseDynamicsController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_use import TendonUse
from continuum_robot.control.tip.staged import StagedUse
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.plant import Plant

STAGE = load_robot("three_segment_servo_stage").base_stage
AT = (0.05, 0.9)
LYING = (-9.81, 0.0, 0.0)


def pair(name, **control):
    """A robot on a stage with gravity across its axis, and the robot that its stage has turned."""
    robot = load_robot(name).changed(base_stage=STAGE, gravity_m_per_s2=LYING)
    if control:
        robot = robot.changed(control=replace(robot.control, **control))
    assert robot.gravity_turns
    turned = robot.on_stage(AT)
    gravity = list(turned.gravity_m_per_s2)
    np.testing.assert_allclose(gravity, STAGE.gravity(AT, LYING))
    assert abs(gravity[1]) > 5
    return robot, turned, gravity


def test_gravity_along_the_axis_does_not_turn():
    robot = load_robot("three_segment_servo_stage")
    assert not robot.gravity_turns
    assert not load_robot("two_segment").gravity_turns
    insertion = replace(STAGE, rotation=None)
    assert not robot.changed(base_stage=insertion, gravity_m_per_s2=LYING).gravity_turns


def test_servos_are_told_what_the_turned_robot_needs():
    robot, turned, gravity = pair("three_segment_servo")
    place = [0.004, -0.002, 0.003, 0.001, -0.001, 0.002]
    commands = []
    for one in (robot, turned):
        control, zero = DisplacementController(one), [0.0] * 6
        if one is robot:
            control.set_gravity(gravity)
        control.observe([0.0] * 9, [0.0] * 9)
        control.begin([0.0] * 9, zero, zero, zero)
        for step in range(500):
            control.step([min(1.0, step / 200) * one_m for one_m in place], zero, zero, [np.nan] * 9, True, 0.005)
        commands.append(np.array(control.command))
        before = DisplacementController(robot)
    np.testing.assert_allclose(commands[0], commands[1], atol=1e-8)
    before.observe([0.0] * 9, [0.0] * 9)
    before.begin([0.0] * 9, zero, zero, zero)
    for step in range(500):
        before.step([min(1.0, step / 200) * one_m for one_m in place], zero, zero, [np.nan] * 9, True, 0.005)
    assert np.abs(np.array(before.command) - commands[1]).max() > 1e-5


@pytest.mark.parametrize("law", ["pid", "inverse_dynamics"])
def test_tensions_feed_forward_the_turned_weight(law):
    feeds = {"feedforward_stiffness": 1.0, "feedforward_gravity": 1.0} if law == "pid" else {"law": law}
    robot, turned, gravity = pair("two_segment", **feeds)
    tensions = []
    for one, given in ((robot, gravity), (turned, None), (robot, None)):
        pid = law == "pid"
        control = ClarkeController(one, clarke_feedforward(one)) if pid else InverseDynamicsController(one)
        if given is not None:
            control.set_gravity(given)
        still = ClarkeReference.at_rest(np.array([0.004, -0.002, 0.003, 0.001]))
        count = one.tendon_count
        displacement = np.array(control.manifold.displacement(still.position))
        if law == "pid":
            control.reset(displacement)
            tensions.append(control.update(displacement, np.zeros(count), still, 0.001).command)
        else:
            still_there = {"velocity_m_per_s": np.zeros(count), "tension_n": np.full(count, 5.0), "stamp_s": 0.0}
            reading = SimpleNamespace(displacement_m=displacement, **still_there)
            control.reset(reading, np.full(count, np.nan), still)
            tensions.append(control.update(reading, still, 0.001))
    np.testing.assert_allclose(tensions[0], tensions[1], atol=1e-9)
    assert np.abs(tensions[0] - tensions[2]).max() > 0.01


def test_the_shape_of_servos_is_estimated_in_the_turned_gravity():
    robot, turned, gravity = pair("three_segment_servo")
    c = Rod(turned).equilibrium().c
    load_n = np.full(9, 4.0)
    displacement = Rod(turned).displacement(Rod(turned).equilibrium(load_n).c) + load_n / 1.5e4
    found = []
    for one in (robot, turned):
        estimator = ShapeEstimator(one)
        if one is robot:
            estimator.set_gravity(np.array(gravity))
            estimator.reset()
        for _ in range(30):
            estimate = estimator.update(displacement, np.zeros(9), tension=load_n)
        found.append(estimate.coefficients)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.linalg.norm(c) > 0


def test_contact_is_watched_for_in_the_turned_gravity():
    robot, turned, gravity = pair("two_segment")
    watched, expected, upright = ContactMonitor(robot), ContactMonitor(turned), ContactMonitor(robot)
    watched.set_gravity(np.array(gravity))
    rod = Rod(turned)
    c, rate = rod.equilibrium().c, np.zeros(rod.n)
    forces = [one.functions(c, rate).known_force for one in (watched, expected, upright)]
    np.testing.assert_allclose(forces[0], forces[1], atol=1e-12)
    np.testing.assert_allclose(forces[0], 0, atol=1e-7)  # it is at rest there
    assert np.abs(forces[2]).max() > 1e-4


def test_the_simulated_robot_sags_as_the_turned_one():
    robot, turned, gravity = pair("two_segment")
    plant, other = Plant(robot), Plant(turned)
    plant.set_gravity(gravity)
    plant.reset()
    other.reset()
    np.testing.assert_allclose(plant.c, other.c, atol=1e-9)
    for one in (plant, other):
        one.advance(np.linspace(1, 10, 10), 0.02)
    np.testing.assert_allclose(plant.c, other.c, atol=1e-9)
    with pytest.raises(ParameterError, match="gravity_m_per_s2"):
        plant.set_gravity([0.0, np.nan, 0.0])


def test_tip_control_plans_with_the_gravity_of_the_place_of_the_stage():
    robot, turned, _ = pair("three_segment_servo")
    clarke = np.array([0.01, -0.004, 0.003, 0.001, 0.002, 0.005])
    staged, plain = StagedUse(robot, 0.9), TendonUse(turned, 0.9)
    np.testing.assert_allclose(staged.tension(np.append(clarke, AT)), plain.tension(clarke), atol=1e-9)
    np.testing.assert_allclose(staged.use(np.append(clarke, AT))[: plain.count], plain.use(clarke), atol=1e-9)
    at_zero = staged.tension(np.append(clarke, (0.0, 0.0)))
    np.testing.assert_allclose(at_zero, TendonUse(robot, 0.9).tension(clarke), atol=1e-9)
    assert np.abs(at_zero - plain.tension(clarke)).max() > 0.05
