# SPDX-License-Identifier: Apache-2.0
"""The rolling-joint robot behind the driver's protocol, its controller and its shape estimator, in virtual time."""

import numpy as np
import pytest
from virtual_loop import VirtualLoop

from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import RollingShapeEstimator, ShapeEstimator
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics
from continuum_robot.models.making import robot_model
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.bodies.mechanisms import RollingPlant, mechanism_body

STEP_S = 1e-3


@pytest.fixture(scope="module")
def robot():
    return load_robot("rolling_five_link")


@pytest.fixture(scope="module")
def statics(robot):
    return RollingStatics(make_linkage(rolling_joint_of(robot)))


def test_the_plant_comes_to_rest_in_the_equilibrium_of_its_tensions(robot, statics):
    plant = RollingPlant(robot)
    np.testing.assert_array_equal(plant.displacement, 0.0)
    tension = np.array([6.0, 3.0])
    for _ in range(5000):
        plant.advance(tension, 5 * STEP_S)
    found = statics.solve_tension(tension)
    np.testing.assert_allclose(plant.contact_m, found.contact_m, atol=1e-6)
    home = statics.solve_tension([1.0, 1.0]).tendon_length_m
    np.testing.assert_allclose(plant.displacement, home - found.tendon_length_m, atol=1e-6)
    np.testing.assert_allclose(plant.current * robot.actuators.newton_per_ampere, tension)


def test_the_plant_stops_at_the_ends_of_its_surfaces(robot, statics):
    plant = RollingPlant(robot)
    for tension in ([20.0, 0.0], [0.0, 0.0], [0.0, 20.0]):
        for _ in range(300):
            plant.advance(np.array(tension), STEP_S)
            assert np.all(np.isfinite(plant.displacement))
            statics.linkage.check_contacts(plant.contact_m)


class Swing:
    """To and fro, 8 mm."""

    def at(self, time_s):
        rate = 2 * np.pi * 0.25
        return ClarkeReference(
            np.array([0.008 * np.sin(rate * time_s)]),
            np.array([0.008 * rate * np.cos(rate * time_s)]),
            np.array([-0.008 * rate**2 * np.sin(rate * time_s)]),
        )


def test_the_loop_follows_a_reference_through_driver_and_safety(robot):
    loop = VirtualLoop(robot)
    assert isinstance(loop.actuators, TendonActuators)
    estimator = robot_model(robot).shape_estimator(WatchSettings())
    loop.activate(robot.control.pretension_n)
    loop.reference, loop.reference_start_s = Swing(), loop.now_s
    misses = []

    def estimate(loop):
        reading = loop.reading
        found = estimator.update(reading.displacement_m, reading.velocity_m_per_s, None, STEP_S)
        true = loop.actuators._mechanism.contact_m  # the plant of the simulated device
        misses.append(np.abs(found.coefficients - true).max())

    record = loop.run(2.5, estimate)
    assert loop.safety.state == "active"
    assert not loop.faults
    errors = record["clarke"] - record["reference"]
    assert np.sqrt(np.mean(np.square(errors[1000:]))) < 5e-5
    assert np.min(record["command"]) >= robot.limits.minimum_n
    assert np.max(misses) < 5e-4


def test_the_shape_of_a_pose_is_found_and_its_rate(robot, statics):
    estimator = RollingShapeEstimator(robot)
    home = statics.solve_tension([1, 1]).tendon_length_m
    before, after = (statics.solve_tension([ratio, 1.0]) for ratio in (2.0, 2.01))
    displacement = home - before.tendon_length_m
    velocity = before.tendon_length_m - after.tendon_length_m
    estimate = estimator.update(displacement, velocity)
    np.testing.assert_allclose(estimate.coefficients, before.contact_m, atol=2e-6)
    np.testing.assert_allclose(estimate.coefficient_rates, after.contact_m - before.contact_m, rtol=0.05)
    assert estimate.residual_m < 1e-6
    assert np.all(np.linalg.eigvalsh(estimate.covariance) > -1e-15)
    np.testing.assert_allclose(estimate.tip[[0, 2], 3], before.poses[-1, :2], atol=1e-5)
    # z of the tip's frame is the direction of the last link.
    angle = before.poses[-1, 2]
    np.testing.assert_allclose(estimate.tip[:3, 2], [-np.sin(angle), 0.0, np.cos(angle)], atol=1e-3)
    assert estimator.update(displacement + 1e-3, velocity).residual_m > 3e-4


def test_an_unknown_tendon_leaves_the_shape_unknown(robot):
    estimate = RollingShapeEstimator(robot).update(np.array([0.0, np.nan]), np.zeros(2))
    assert estimate.is_unobservable
    assert np.all(np.isnan(estimate.coefficients))
    with pytest.raises(ParameterError, match="left and right"):
        RollingShapeEstimator(robot).update(np.zeros(3), np.zeros(3))


def test_frames_and_outlines_touch_at_the_contacts(robot, statics):
    drawing = robot_model(robot).drawing()
    contact = statics.solve_tension([2, 1]).contact_m
    frames = drawing.frames(contact)
    assert len(frames) == len(drawing.frame_names)
    turned = frames[:, :3, :3] @ np.swapaxes(frames[:, :3, :3], 1, 2)
    np.testing.assert_allclose(turned, np.tile(np.eye(3), (5, 1, 1)), atol=1e-15)
    outlines, tendons = drawing.geometry(contact).outlines, drawing.geometry(contact).tendons
    assert len(outlines) == 5
    assert [path.shape for path in tendons] == [(10, 3), (10, 3)]
    lengths = [np.linalg.norm(np.diff(path, axis=0), axis=1).sum() for path in tendons]
    np.testing.assert_allclose(lengths, statics.linkage.tendon_lengths(contact), rtol=1e-12)
    np.testing.assert_allclose(frames[-1], frames[-2])


def test_two_tendons_have_one_coordinate(robot):
    manifold = clarke_manifold(robot)
    displacement = np.array([0.004, -0.003])
    assert manifold.clarke(displacement) == pytest.approx([0.0035])
    assert manifold.inconsistency_m(displacement) == pytest.approx([0.0005])
    # Virtual work: the same by displacements and by the coordinate.
    tension = np.array([5.0, 3.0])
    moved = manifold.displacement(np.array([1e-3]))
    assert tension @ moved == pytest.approx(float(manifold.generalized_force(tension)[0]) * 1e-3)


def test_rods_are_no_mechanisms_and_mechanisms_no_rods(robot):
    with pytest.raises(ParameterError, match="rod"):
        Rod(robot)
    rod = load_robot("opencr_five_tendon")
    with pytest.raises(ParameterError, match="mechanism"):
        rolling_joint_of(rod)
    assert mechanism_body(rod) is None
    assert isinstance(robot_model(rod).shape_estimator(WatchSettings()), ShapeEstimator)
