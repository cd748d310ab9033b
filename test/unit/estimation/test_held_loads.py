# SPDX-License-Identifier: Apache-2.0
"""Contacts of servo robots that measure no load, by displacements, stiffness and a shape that strings show."""

from __future__ import annotations

import numpy as np
import pytest
from changed_robots import stiffer, with_servos, with_tendons

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.held_loads import HeldLoads
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.segments.tendons import String
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

STRINGS = tuple(
    String(name=f"{anchor_m}/{angle_rad}", anchor_m=anchor_m, pitch_radius_m=0.008, angle_rad=angle_rad)
    for anchor_m in (0.2, 0.4)
    for angle_rad in (0.1, 1.7)
)
ROBOT = with_tendons(with_servos().changed(strings=STRINGS), 2e4)
PLACE_M = np.array([0.004, -0.002, 0.003, 0.004])


def held(robot, force_n=0.0):
    """Coefficients, true tensions, displacements and strings of a robot that is pushed at its tip."""
    rod = Rod(robot).loaded([PointWrench(s_m=0.4, force_n=(force_n, 0.0, 0.0))]) if force_n else Rod(robot)
    displacement = controlled_manifold(robot).displacement(PLACE_M) + 4 / robot.tendon_stiffness_n_per_m
    found = rod.equilibrium(stiffness=robot.tendon_stiffness_n_per_m, spooled=displacement)
    extension = Rod(robot, paths=[one.path for one in STRINGS]).displacement(found.c)
    return found, displacement, extension


def test_loads_are_those_of_the_equilibrium_and_their_errors_cover_others():
    found, displacement, _ = held(ROBOT)
    nothing = np.zeros((4, 4))
    load, deviation = HeldLoads(ROBOT).loads(found.c, nothing, displacement, 0.05)
    np.testing.assert_allclose(load, found.tension, atol=1e-6)
    assert (deviation >= 0.05 * load).all()
    shaken = HeldLoads(ROBOT).loads(found.c + 1e-3, 1e-6 * np.eye(4), displacement, 0.05)
    assert (np.abs(shaken[0] - load) < 3 * shaken[1]).all()


def judged(true, force_n):
    """The last estimate of a monitor of ROBOT at rest, for another robot's readings."""
    _, displacement, extension = held(true, force_n)
    estimator, monitor, loads = ShapeEstimator(ROBOT), ContactMonitor(ROBOT, motors=False), HeldLoads(ROBOT)
    for _ in range(60):
        shape = estimator.update(displacement, np.zeros(10), extension, 0.01)
        load, deviation = loads.loads(
            shape.coefficients, shape.covariance, displacement, monitor.settings.stiffness_error_fraction
        )
        found = monitor.update(
            shape.coefficients, 0 * shape.coefficient_rates, shape.covariance, 0.01,
            tension=load, tension_deviation_n=deviation,
        )  # fmt: skip
    return found


def test_errors_of_the_stiffness_are_no_contact_and_a_push_is():
    quiet = judged(with_tendons(stiffer(ROBOT, 1.03), 1.95e4), 0.0)
    assert not quiet.in_contact
    pushed = judged(ROBOT, 3.0)
    assert pushed.in_contact
    assert pushed.ratio > 2 * quiet.ratio


def test_displacements_alone_are_refused():
    with pytest.raises(ParameterError, match="held displacements alone show no contact"):
        HeldLoads(with_servos())
