# SPDX-License-Identifier: Apache-2.0
"""Every shipped robot, whatever it is made of, answers what the stack asks of its model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.models.making import robot_model
from continuum_robot.models.rod import RodDrawing
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.rod import Rod

ROBOTS = sorted(shipped_robots())


@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_drawn_ends_at_the_tip_and_stands_on_tf(name):
    model = robot_model(load_robot(name))
    drawing = model.drawing()
    rest = np.zeros(drawing.size)
    frames, geometry = drawing.frames(rest), drawing.geometry(rest)
    assert frames.shape == (len(drawing.frame_names), 4, 4)
    np.testing.assert_allclose(frames[-1], geometry.tip, atol=1e-12)
    assert drawing.frame_names[-1] == "tip"
    np.testing.assert_allclose(
        frames[:, :3, :3] @ frames[:, :3, :3].transpose(0, 2, 1), [np.eye(3)] * len(frames), atol=1e-9
    )
    assert len(geometry.tendons) >= model.robot.tendon_count
    assert len(geometry.backbone) > 0 or geometry.outlines
    parts = model.rigid_parts()
    assert (parts[0].frame, parts[-1].frame) == ("base", "tip")
    assert {part.frame for part in parts[1:]} <= set(drawing.frame_names)


@pytest.mark.parametrize("name", ROBOTS)
def test_the_shape_that_is_drawn_is_found_from_its_tendons_and_strings(name):
    robot = load_robot(name)
    model = robot_model(robot)
    drawing = model.drawing()
    if robot.segments:
        rod = Rod(robot)
        tension = np.full(robot.tendon_count, 0.02 * (robot.limits.maximum_n if robot.limits is not None else 10.0))
        tension[0] *= 3.0
        drawn = rod.equilibrium(tension).c
        displacement, strings = rod.displacement(drawn), rod.strings.displacement(drawn)
    else:
        coordinates = np.full(robot.coordinate_count, 1e-3)
        drawn, displacement = drawing.coefficients(coordinates), clarke_manifold(robot).displacement(coordinates)
        tension = strings = None
    estimator = model.shape_estimator(WatchSettings())
    for _ in range(300):
        found = estimator.update(displacement, np.zeros_like(displacement), strings, 0.01, tension)
    moved = np.linalg.norm(drawing.geometry(drawn).tip[:3, 3] - drawing.geometry(np.zeros(drawing.size)).tip[:3, 3])
    missed = np.linalg.norm(drawing.geometry(found.coefficients).tip[:3, 3] - drawing.geometry(drawn).tip[:3, 3])
    assert missed < 0.05 * moved


@pytest.mark.parametrize("name", [name for name in ROBOTS if load_robot(name).control is not None])
def test_what_holds_the_rest_is_little_beside_what_holds_a_bend(name):
    robot = load_robot(name)
    feedforward = robot_model(robot).feedforward()
    count = robot.coordinate_count
    rest, _ = feedforward(np.zeros(count))
    for k in range(min(count, 2)):
        coordinates = np.zeros(count)
        coordinates[k] = 1e-3
        elastic, gravity = feedforward(coordinates)
        assert elastic.shape == gravity.shape == (count,)
        assert elastic[k] - rest[k] > 0  # the rod resists


def test_traits_say_what_is_missing_and_why():
    rod, mechanism = load_robot("opencr_five_tendon").traits, load_robot("crem_segment").traits
    assert rod.kind == ROD
    reasons = rod.without_boards, rod.without_contact, rod.without_tip_control, rod.without_compiled_cycle
    assert not any(reasons)
    assert "mechanism" in mechanism.without_boards
    assert mechanism.tip_nodes
    assert robot_model(load_robot("crem_segment")).largest_push_n == 0
    assert robot_model(load_robot("opencr_five_tendon")).largest_push_n > 0


def test_coordinates_are_named_as_many_as_there_are():
    for name in ROBOTS:
        robot = load_robot(name)
        names = robot.traits.coordinate_names
        assert len(names) in (0, robot.coordinate_count), name
    assert clarke_manifold(load_robot("opencr_five_tendon")).displacement_matrix.shape[1] == 2


def test_a_tendon_with_many_turns_is_drawn_as_one():
    """41 stations along the rod cut the corners of more than a few turns, and all of twenty."""
    robot = load_robot("rucker")
    helical = robot.routed_tendons[0]
    path = dataclasses.replace(helical, end_m=0.2, routing=HelicalRouting(turns=20.0))
    drawing = RodDrawing(dataclasses.replace(robot, routed_tendons=(path, *robot.routed_tendons[1:])))
    drawn = drawing.geometry(np.zeros(drawing.size)).tendons[4]
    length_m = np.linalg.norm(np.diff(drawn, axis=0), axis=1).sum()
    assert length_m == pytest.approx(np.hypot(0.2, 20 * 2 * np.pi * helical.pitch_radius_m), rel=0.02)
    assert np.all(np.diff(drawn[:, 2]) > 0)
