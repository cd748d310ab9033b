# SPDX-License-Identifier: Apache-2.0
"""A fibre with gratings over DDS, in lock-step: on a robot whose bending tendons alone do not see."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import FiberCurvature, Shape
from robot_files import robot_file
from ros_probe import lockstep_stack

from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.topics import conversions
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.fiber import curvature_matrix

pytestmark = [pytest.mark.ros]

GRATINGS_M = [0.01, 0.055, 0.1, 0.145, 0.19]
ESTIMATOR = "/shape_estimator: estimator"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    fiber = {"segments[0].basis": {"kind": "chebyshev_bending", "order": 1}, "fiber": {"gratings_m": GRATINGS_M}}
    return robot_file(tmp_path_factory.mktemp("fiber"), fiber)


@pytest.fixture(scope="module")
def probe(domain, file):
    topics = ((Shape, "shape"), (FiberCurvature, "fiber_curvature"))
    with lockstep_stack(file, *topics, start_motion=True) as (_, probe):
        yield probe


def seen_by(probe, count):
    probe.received["shape"].clear()
    probe.wait(lambda: len(probe.received["shape"]) >= count)
    return np.array([conversions.vector(shape.coefficients) for shape in list(probe.received["shape"])])


def test_the_shape_is_that_of_the_curvatures(probe, file):
    robot = load_robot(file)
    probe.wait(lambda: len(probe.received["fiber_curvature"]) > 20)
    coefficients = seen_by(probe, 50)
    assert coefficients.shape[1] == robot.coefficient_count == 4
    assert np.isfinite(coefficients).all()
    newest = probe.newest("shape")
    measured = probe.newest("fiber_curvature")
    assert len(measured.curvature) == 2 * len(GRATINGS_M)
    assert measured.simulated
    expected = curvature_matrix(robot) @ conversions.vector(newest.coefficients)
    # Offsets of the fibre, and what the robot moves between the two messages.
    assert np.abs(expected - conversions.vector(measured.curvature)).max() < 0.3


def test_an_outage_is_named_and_over_when_it_is_over(probe):
    assert probe.set_parameter("fiber_interrogator", "lost", 1.0)
    probe.pause(0.3)
    assert np.isnan(seen_by(probe, 10)[-1]).any()
    probe.wait(lambda: "fiber/grating_1" in probe.diagnostics[ESTIMATOR].message)
    assert int(values_of(probe.diagnostics[ESTIMATOR])["estimates_without_curvature"]) > 0
    assert probe.set_parameter("fiber_interrogator", "lost", 0.0)
    probe.pause(0.3)
    assert np.isfinite(seen_by(probe, 10)[-1]).all()
    assert probe.faults() == []
