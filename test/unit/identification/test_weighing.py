# SPDX-License-Identifier: Apache-2.0
"""Weighing what the tip carries: the model against a rod that is solved as a whole, and the motion."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from continuum_robot.errors import ParameterError
from continuum_robot.identification.weighing import Turn, WeighingModel, sagging, weigh
from continuum_robot.identification.weighing_motion import ARCS, WeighingMotion
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.design import tendon_stiffness
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

ROBOT = load_robot("opencr_five_tendon")
RADIUS_M = 0.006


def turned(payload_kg: float, stiffness_ratio: float = 1.0, seed: int | None = None) -> Turn:
    """A rod of third order under tensions that bend it round a turn, with its tendons' stretch, and noise."""
    sags = sagging(ROBOT, 3)
    segment = sags.segments[0]
    x, y = (stiffness_ratio * value for value in segment.backbone.bending_stiffnesses_nm2)
    backbone = dataclasses.replace(segment.backbone, bending_stiffness_x_nm2=x, bending_stiffness_y_nm2=y)
    sags = sags.changed(segments=(dataclasses.replace(segment, backbone=backbone),))
    rod = Rod(sags)
    manifold = controlled_manifold(ROBOT)
    weight = PointWrench(s_m=rod.length_m, force_n=tuple(payload_kg * np.array(ROBOT.gravity_m_per_s2)))
    rows = []
    for angle in np.linspace(0, 2 * np.pi, ARCS, endpoint=False):
        pull = 1.5 * np.array([np.cos(angle), np.sin(angle)])
        tension = manifold.clarke_matrix.T @ pull
        tension += 3.0 - tension.min()
        displacement = rod.displacement(rod.loaded([weight]).equilibrium(tension).c)
        rows.append((displacement + tension / tendon_stiffness(ROBOT, tension), tension))
    displacement, tension = (np.array([*column, *column]) for column in zip(*rows, strict=True))
    if seed is not None:
        tension = tension + np.random.default_rng(seed).normal(0, 0.05, tension.shape)
    return Turn(displacement, tension)


@pytest.mark.parametrize("ratio", [1.0, 0.75])
def test_the_payload_of_a_rod_that_sags_is_found(ratio):
    found = weigh(ROBOT, turned(0.0, ratio), turned(0.02, ratio))
    assert found.payload_kg == pytest.approx(0.02, rel=0.01)
    assert found.stiffness_ratio == pytest.approx(ratio, rel=0.01)
    assert found.deviation_kg < 2e-4


def test_a_model_that_cannot_sag_takes_it_for_less():
    found = weigh(ROBOT, turned(0.0), turned(0.02), bending_order=0)
    assert found.payload_kg < 0.9 * 0.02


@pytest.mark.long
def test_the_deviation_is_that_of_the_noise():
    found = [weigh(ROBOT, turned(0.0, seed=2 * k), turned(0.01, seed=2 * k + 1)) for k in range(8)]
    errors = np.array([one.payload_kg - 0.01 for one in found])
    said = np.mean([one.deviation_kg for one in found])
    assert 0.4 < np.sqrt(np.mean(errors**2)) / said < 2.5


def test_what_the_robot_file_carries_does_not_count():
    known = ROBOT.changed(payload_kg=0.05)
    turn = turned(0.0)
    assert np.array_equal(WeighingModel(known).force(turn, 0.0, 1.0), WeighingModel(ROBOT).force(turn, 0.0, 1.0))


def test_without_gravity_or_bend_there_is_nothing_to_weigh():
    with pytest.raises(ParameterError, match="gravity"):
        WeighingModel(ROBOT.changed(gravity_m_per_s2=(0.0, 0.0, 0.0)))
    straight = Turn(np.zeros((2 * ARCS, 5)), np.full((2 * ARCS, 5), 3.0))
    with pytest.raises(ParameterError, match=r"larger bend|friction hides"):
        weigh(ROBOT, straight, straight)


def test_an_arc_without_samples_is_named():
    with pytest.raises(ParameterError, match="at least one for each"):
        Turn.of_samples(np.zeros(3, dtype=int), np.zeros((3, 5)), np.ones((3, 5)))


def test_samples_that_are_not_numbers_are_left_out():
    arc = np.repeat(np.arange(2 * ARCS), 2)
    tension = np.ones((len(arc), 5))
    tension[::2, 0] = np.nan
    turn = Turn.of_samples(arc, np.zeros((len(arc), 5)), tension)
    assert np.array_equal(turn.tension_n, np.ones((2 * ARCS, 5)))


MOTION = WeighingMotion(RADIUS_M, 4, period_s=8.0, turns=2)


@given(some.floats(-1.0, MOTION.duration_s + 1.0))
def test_velocity_and_acceleration_are_derivatives_of_the_place(t_s):
    step_s = 1e-4
    before, at, after = (MOTION.at(t_s + shift) for shift in (-step_s, 0.0, step_s))
    np.testing.assert_allclose(at.velocity, (after.position - before.position) / (2 * step_s), atol=1e-6)
    np.testing.assert_allclose(at.acceleration, (after.velocity - before.velocity) / (2 * step_s), atol=1e-4)


def test_it_turns_each_way_over_every_arc_and_ends_straight():
    times = np.arange(0.0, MOTION.duration_s, 0.01)
    arcs = np.array([MOTION.arc(t) for t in times])
    assert set(arcs) == {-1, *range(2 * ARCS)}
    assert (np.diff(np.flatnonzero(arcs >= 0)) == 1).all()
    for t, arc in zip(times, arcs, strict=True):
        if arc >= 0:
            place = MOTION.at(t).position
            radius_m = np.hypot(*place[:2])
            assert 0.74 * RADIUS_M < radius_m < 1.06 * RADIUS_M
            middle = 2 * np.pi * (arc % ARCS + 0.5) / ARCS
            assert place[:2] @ [np.cos(middle), np.sin(middle)] >= radius_m * np.cos(np.pi / ARCS) * (1 - 1e-9)
    assert not MOTION.at(0.0).position.any()
    assert not MOTION.at(MOTION.duration_s).position.any()


@pytest.mark.parametrize("bad", [{"period_s": 0.0}, {"turns": 0}, {"radius_m": -0.001}])
def test_a_motion_that_is_none_is_refused(bad):
    with pytest.raises(ParameterError, match="positive"):
        WeighingMotion(**{"radius_m": RADIUS_M, "coordinate_count": 2, **bad})
