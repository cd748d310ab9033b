# SPDX-License-Identifier: Apache-2.0
"""The Clarke controller and the rod, which share no formula, closed in virtual time with ideal tendons."""

import dataclasses

import numpy as np
import pytest
from curvature import clarke_from_curvature

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.limits import TensionLimiter
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_forces import distribute
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

DT = 1e-3
SUBSTEPS = 4
TARGET = np.array([0.004, -0.006, 0.003, 0.01])


@pytest.fixture(scope="module")
def robot():
    """Two segments of different pitch radius with five and with four tendons."""
    robot = load_robot("two_segment")
    first, second = robot.segments
    tendons = dataclasses.replace(second.tendons, count=4, pitch_radius_m=0.006, angle_offset_rad=0.4)
    return dataclasses.replace(robot, segments=(first, dataclasses.replace(second, tendons=tendons)))


@pytest.fixture(scope="module")
def rod(robot):
    return Rod(robot)


@pytest.fixture(scope="module")
def feedforward(robot):
    return clarke_feedforward(robot)


def controller_of(robot, feedforward, fraction, **gains):
    entries = tuple(dataclasses.replace(one, **gains) for one in robot.control.gains)
    control = dataclasses.replace(
        robot.control, gains=entries, feedforward_stiffness=fraction, feedforward_gravity=fraction
    )
    return ClarkeController(dataclasses.replace(robot, control=control), feedforward)


def settled(robot, rod, controller, start, tension, duration_s):
    """Clarke coordinates after a time at a constant reference, and all tensions on the way from those at the start."""
    to_clarke = clarke_from_curvature(robot)
    c, c_rate = np.linalg.solve(to_clarke, start), np.zeros(rod.n)
    reference = ClarkeReference.at_rest(TARGET)
    limiter = TensionLimiter(robot.limits, controlled_manifold(robot))
    limiter.reset(np.broadcast_to(tension, robot.tendon_count))
    tensions, lever = [], -rod.lengths(c).gradient
    for _ in range(round(duration_s / DT)):
        displacement, velocity = lever @ c, lever @ c_rate
        output = controller.update(displacement, velocity, reference, DT)
        limited = limiter.update(output.command, DT)
        tensions.append(limited.tension)
        for _ in range(SUBSTEPS):
            c_rate = c_rate + DT / SUBSTEPS * rod.acceleration(c, c_rate, lever.T @ limited.tension)
            c = c + DT / SUBSTEPS * c_rate
    return to_clarke @ c, np.array(tensions)


@pytest.mark.parametrize("strategy", ["shift", "redistribute"])
def test_full_feedforward_holds_the_reference_exactly_without_an_integral(robot, rod, feedforward, strategy):
    controller = controller_of(robot, feedforward, 1.0, p=300.0, i=0.0, d=60.0)
    controller.set_settings(dataclasses.replace(controller.settings, tendon_forces=strategy))
    clarke, tensions = settled(robot, rod, controller, np.zeros(4), 1.0, 2.0)
    np.testing.assert_allclose(clarke, TARGET, atol=1e-6)
    # On the way from the first tensions the rate limit holds all of them back by one factor.
    assert tensions[len(tensions) // 2 :].min() >= controller.settings.pretension_n - 1e-12


def test_without_feedforward_pd_sags_by_the_force_over_the_gain(robot, rod, feedforward):
    controller = controller_of(robot, feedforward, 0.0, p=300.0, i=0.0, d=60.0)
    clarke, _ = settled(robot, rod, controller, np.zeros(4), 1.0, 2.0)
    elastic, gravity = feedforward(clarke)
    np.testing.assert_allclose(300 * (TARGET - clarke), elastic + gravity, atol=1e-4)
    assert np.abs(TARGET - clarke).max() > 1e-3


def test_the_integral_removes_what_the_feedforward_left(robot, rod, feedforward):
    controller = controller_of(robot, feedforward, 0.0, p=300.0, i=1500.0, d=60.0)
    clarke, _ = settled(robot, rod, controller, np.zeros(4), 1.0, 3.0)
    np.testing.assert_allclose(clarke, TARGET, atol=1e-5)


def test_a_start_in_equilibrium_stays_there(robot, rod, feedforward):
    """Tensions that hold the robot are on; a PID without feed-forward takes over, and nothing moves."""
    controller = controller_of(robot, feedforward, 0.0, p=300.0, i=1500.0, d=60.0)
    force = np.sum(feedforward(TARGET), axis=0)
    held = distribute("shift", force, controller.manifold, controller.settings.pretension_n)
    controller.reset(controller.manifold.displacement(TARGET), held)
    clarke, tensions = settled(robot, rod, controller, TARGET, held, 0.3)
    np.testing.assert_allclose(clarke, TARGET, atol=1e-10)
    np.testing.assert_allclose(tensions, np.broadcast_to(held, tensions.shape), atol=1e-6)
