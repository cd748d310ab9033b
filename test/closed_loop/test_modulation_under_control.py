# SPDX-License-Identifier: Apache-2.0
"""The segment with equilibrium modulation: driver's protocol, both controllers and shape, in virtual time."""

import dataclasses

import numpy as np
import pytest
from virtual_loop import VirtualLoop

from continuum_robot.control.tip.macro_micro import MACRO, MICRO, MacroMicroController, MacroMicroParameters
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.experiments.experiment import experiments
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce, jacobians
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment, modulation_of
from continuum_robot.models.making import robot_model
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.bodies.mechanisms import mechanism_body

STEP_S = 1e-3


@pytest.fixture(scope="module")
def robot():
    return load_robot("crem_segment")


@pytest.fixture(scope="module")
def segment(robot):
    return make_segment(modulation_of(robot))


def test_the_loop_follows_bend_and_insertion_through_driver_and_safety(robot, segment):
    loop = VirtualLoop(robot)
    estimator = robot_model(robot).shape_estimator(WatchSettings())
    loop.activate(robot.control.pretension_n)
    loop.reference_start_s = loop.now_s
    record = loop.run(6.0)
    assert loop.safety.state == "active"
    assert not loop.faults
    errors = record["clarke"] - record["reference"]
    assert np.abs(errors).max() < 2e-4
    assert np.abs(errors[-1]).max() < 5e-6
    assert np.min(record["command"]) >= robot.limits.minimum_n
    reading = loop.reading
    estimate = estimator.update(reading.displacement_m, reading.velocity_m_per_s, None, STEP_S)
    np.testing.assert_allclose(estimate.coefficients, robot.reference.amplitude_m, atol=1e-5)
    theta, delta = segment.configuration(reading.displacement_m[:3])
    tip = jacobians(segment, theta, delta, estimate.coefficients[2], make_moment_error(robot.mechanism)).pose
    np.testing.assert_allclose(estimate.tip, tip, atol=1e-5)


def test_the_body_rests_where_the_springs_hold_the_tensions_and_stops_at_its_stroke(robot):
    body = mechanism_body(robot)
    tension = np.array([20.0, 5.0, 5.0, 3.0, 1.0])
    for _ in range(4000):
        body.advance(tension, 5e-3)
    force = clarke_manifold(robot).generalized_force(tension)
    stiffness = ModulationForce(robot).stiffness_n_per_m
    np.testing.assert_allclose(body.coordinates_m[:2], force[:2] / stiffness, atol=1e-7)
    assert body.coordinates_m[2] == robot.mechanism.stroke_m
    for _ in range(4000):
        body.advance(np.array([0, 0, 0, 0, 5.0]), 5e-3)
    np.testing.assert_allclose(body.coordinates_m, 0, atol=1e-7)
    assert body.string_extension.shape == (0,)


def test_force_is_that_of_the_balance_of_moments(robot, segment):
    force, gravity = robot_model(robot).feedforward()(np.array([0.002, 0.001, 0.01]))
    assert not gravity.any()
    theta, delta = segment.configuration(clarke_manifold(robot).displacement([0.002, 0.001, 0.0])[:3])
    moment = jacobians(segment, theta, delta, 0.0, make_moment_error(robot.mechanism)).state.moment_nm
    np.testing.assert_allclose(np.linalg.norm(force), abs(moment) / segment.pitch_radius_m, rtol=5e-3)
    np.testing.assert_allclose(np.arctan2(force[1], force[0]), -delta, atol=1e-12)


def test_manifold_by_virtual_work(robot):
    manifold = clarke_manifold(robot)
    moved = np.array([0.001, -0.002, 0.005])
    tension = np.array([3.0, 4.0, 5.0, 2.0, 1.0])
    np.testing.assert_allclose(manifold.clarke(manifold.displacement(moved)), moved, atol=1e-18)
    np.testing.assert_allclose(tension @ manifold.displacement(moved), manifold.generalized_force(tension) @ moved)
    assert manifold.inconsistency_m(manifold.displacement(moved)).max() < 1e-15


def test_drawing_shows_backbones_at_their_lengths(robot, segment):
    drawing = robot_model(robot).drawing()
    pulled = np.array([0.0015, 0.0009, 0.015])
    frames, paths = drawing.frames(pulled), drawing.geometry(pulled).tendons
    assert len(frames) == len(drawing.frame_names)
    assert len(paths) == robot.tendon_count
    np.testing.assert_allclose(paths[-1][-1], frames[-1][:3, 3], atol=1e-12)
    np.testing.assert_allclose(paths[-2][-1], frames[0][:3, 3], atol=1e-12)
    lengths = [np.linalg.norm(np.diff(path, axis=0), axis=1).sum() for path in paths[:3]]
    desired = segment.length_m - clarke_manifold(robot).displacement(pulled)[:3]
    # theta' is not theta: the lengths are off by r (theta' - theta).
    np.testing.assert_allclose(lengths, desired, atol=3e-5)
    assert len(drawing.geometry(pulled).outlines) == 6


def test_unknown_drives_leave_the_shape_unknown(robot):
    estimator = robot_model(robot).shape_estimator(WatchSettings())
    assert estimator.update(np.array([0, np.nan, 0, 0, 0]), np.zeros(5)).is_unobservable
    with pytest.raises(ParameterError, match="displacement"):
        estimator.update(np.zeros(3), np.zeros(3))


def test_a_tip_target_is_met_to_a_micrometre_inside_the_stroke():
    result = experiments()["wang.approach"].run({"targets": 1, "seed": 3})
    assert result["largest_final_error_um"] < 1.0
    assert min(result["error_after_macro_um"]) > 1.0  # the backbones alone do not
    assert result["insertion_within_stroke"]


def controller_of(robot, segment, **changes):
    parameters = MacroMicroParameters(insertion_low_m=0.001, insertion_high_m=0.02, macro_resolution_m=1e-6, **changes)
    return MacroMicroController(segment, make_moment_error(robot.mechanism), parameters)


def test_phases_a_lost_tip_and_a_new_target(robot, segment):
    controller = controller_of(robot, segment, rest_samples=3)
    error = make_moment_error(robot.mechanism)
    state = segment.backbone_displacement_m(1.0, 0.2), 0.0105
    controller.reset(*state)
    target = jacobians(segment, 0.9, 0.25, 0.012, error).pose[:3, 3]
    phases = []
    for _ in range(300):
        theta, delta = segment.configuration(state[0])
        tip = jacobians(segment, theta, delta, state[1], error).pose[:3, 3]
        output = controller.update(tip, target, 0.03)
        phases.append(output.phase)
        state = output.displacement_m, output.insertion_m
    assert phases[0] == MACRO
    assert phases[-1] == MICRO
    assert np.linalg.norm(target - tip) < 1e-6
    lost = controller.update(np.full(3, np.nan), target, 0.03)
    np.testing.assert_array_equal(lost.displacement_m, state[0])
    assert lost.insertion_m == state[1]
    assert controller.update(tip, target + 0.001, 0.03).phase == MACRO


def test_a_target_out_of_reach_of_the_insertion_is_said(robot, segment):
    """At rest in the micro phase, a tip that is measured elsewhere asks for more than the stroke has."""
    controller = controller_of(robot, segment, rest_samples=1, release_m=1.0)
    error = make_moment_error(robot.mechanism)
    displacement = segment.backbone_displacement_m(0.9, 0.2)
    controller.reset(np.round(displacement, 6), 0.0105)
    theta, delta = segment.configuration(np.round(displacement, 6))
    found = jacobians(segment, theta, delta, 0.0105, error)
    tip = found.pose[:3, 3]
    for _ in range(5):
        output = controller.update(tip, tip.copy(), 0.03)
    assert output.phase == MICRO
    for _ in range(400):
        output = controller.update(tip - found.micro[:3] * 0.03, tip, 0.03)
    assert output.at_limit
    assert output.insertion_m == 0.02


def test_wrong_settings_and_robots_are_refused_by_name(robot, segment):
    with pytest.raises(ParameterError, match="insertion_low_m"):
        MacroMicroParameters(insertion_low_m=0.02, insertion_high_m=0.01, macro_resolution_m=0)
    with pytest.raises(ParameterError, match="micro_gain_per_s"):
        controller_of(robot, segment, micro_gain_per_s=0.0)
    long = MacroMicroParameters(insertion_low_m=0.0, insertion_high_m=0.05, macro_resolution_m=0)
    with pytest.raises(ParameterError, match="insertion_high_m"):
        MacroMicroController(segment, make_moment_error(robot.mechanism), long)
    with pytest.raises(ParameterError, match="target_m"):
        controller_of(robot, segment).update(np.zeros(3), np.full(3, np.nan), 0.1)
    with pytest.raises(ParameterError, match="dt"):
        controller_of(robot, segment).update(np.zeros(3), np.zeros(3), 0.0)
    with pytest.raises(ParameterError, match="equilibrium_modulation"):
        modulation_of(load_robot("rolling_five_link"))
    with pytest.raises(RobotFileError, match="stroke_m"):
        dataclasses.replace(robot.mechanism, stroke_m=0.05)
    with pytest.raises(RobotFileError, match="lumen_diameter_m"):
        dataclasses.replace(robot.mechanism, lumen_diameter_m=0.001)
    with pytest.raises(RobotFileError, match="backbone_diameter_m"):
        dataclasses.replace(robot.mechanism, backbone_diameter_m=0.004)
