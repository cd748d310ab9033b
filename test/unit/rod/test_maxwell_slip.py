# SPDX-License-Identifier: Apache-2.0
"""Axioms of friction that builds up over a travel, on lines and in planes, and of a rod with hysteresis."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ways import PATHS, refined

from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import KNOTS, MaxwellSlip, motor_slip, slip_force

LIMIT, TRAVEL = 0.7, 0.2


def line() -> MaxwellSlip:
    """One position at rest at zero."""
    return MaxwellSlip([LIMIT], [TRAVEL], [0.0])


def forces(path: list[float], slip: MaxwellSlip | None = None) -> list[float]:
    """Force after every corner of a way."""
    slip = slip or line()
    return [float(slip.move([position])[0]) for position in path]


def test_first_push_grows_as_an_exponential_at_the_knots():
    whole = 1 - np.exp(-KNOTS[-1])
    for knot in KNOTS:
        assert forces([knot * TRAVEL]) == pytest.approx([LIMIT * (1 - np.exp(-knot)) / whole])
    assert forces([100.0, -100.0]) == pytest.approx([LIMIT, -LIMIT])


@given(st.floats(0.01, 2), st.floats(0, 1))
def test_after_a_turn_the_curve_is_twice_as_wide(turn, fraction):
    """Masing's rule: f(turn) - f(x) = 2 f_first((turn - x) / 2)."""
    back = 2 * turn * fraction
    at_turn, after = forces([turn, turn - back])
    assert at_turn - after == pytest.approx(2 * forces([back / 2])[0], abs=1e-12)


@given(st.floats(0.05, 1), st.floats(0.05, 0.95))
def test_an_inner_loop_closes_and_is_forgotten(turn, fraction):
    way = [turn, -turn, turn]
    inner = [*way, turn * (1 - fraction), turn]
    assert forces(inner)[-1] == pytest.approx(forces(way)[-1], abs=1e-12)


@given(PATHS, st.integers(2, 7))
def test_force_depends_on_the_way_not_on_the_steps(path, pieces):
    start = [0.0, *path]
    assert np.allclose(forces(refined(start, pieces))[pieces - 1 :: pieces], forces(start)[1:], atol=1e-12)


@given(PATHS)
def test_a_closed_way_takes_energy(path):
    slip, work = line(), 0.0
    way = refined([0.0, *path, 0.0, *path, 0.0], 200)
    last, before = 0.0, 0.0
    for position in way:
        force = float(slip.move([position])[0])
        work += 0.5 * (force + before) * (position - last)
        last, before = position, force
    assert work >= -1e-9


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=8), st.floats(0, 6.3))
def test_no_direction_of_a_plane_is_preferred(path, angle_rad):
    turn = np.array([[np.cos(angle_rad), -np.sin(angle_rad)], [np.sin(angle_rad), np.cos(angle_rad)]])
    one, turned = (MaxwellSlip([LIMIT], [TRAVEL], np.zeros((1, 2))) for _ in range(2))
    for place in path:
        force = one.move([place])[0]
        assert np.linalg.norm(force) <= LIMIT + 1e-12
        assert turned.move([turn @ place])[0] == pytest.approx(turn @ force, abs=1e-9)


def test_in_a_plane_along_a_line_it_is_that_of_the_line():
    plane = MaxwellSlip([LIMIT], [TRAVEL], np.zeros((1, 2)))
    way = [0.1, 0.5, 0.3, -0.2, 0.6]
    direction = np.array([0.6, 0.8])
    assert [float(direction @ plane.move([direction * at])[0]) for at in way] == pytest.approx(forces(way))


@given(PATHS, st.floats(-2, 2))
def test_the_law_near_the_anchors_is_the_same(path, ahead):
    slip = line()
    for position in path:
        slip.move([position])
    force, _ = slip_force(np.array([ahead]), slip.anchors, LIMIT, TRAVEL)
    assert force == pytest.approx(slip.move([ahead]), abs=1e-12)


@pytest.mark.parametrize("ahead", [0.1, 0.5, 1.2, 2.0, 4.0])
def test_its_slope_is_that_of_the_elements_that_stick(ahead):
    at, anchors = np.array([ahead * TRAVEL]), line().anchors
    (low, _), (high, _) = (slip_force(at + step, anchors, LIMIT, TRAVEL) for step in (-1e-3, 1e-3))
    assert slip_force(at, anchors, LIMIT, TRAVEL)[1] == pytest.approx((high - low) / 2e-3)


def test_what_never_slid_is_uncertain():
    slip = MaxwellSlip([LIMIT, LIMIT], [TRAVEL, TRAVEL], [0.0, 0.0])
    assert slip.uncertain(0.0) == pytest.approx([LIMIT, LIMIT])
    slip.move([100.0, 0.3 * TRAVEL])
    first = 0.25 * 0.28617629 * LIMIT
    assert slip.uncertain(0.0) == pytest.approx([0.0, LIMIT - first])
    assert slip.uncertain(0.3) == pytest.approx([0.3 * LIMIT, 1.3 * LIMIT - first])


def test_motors_without_travel_have_no_memory():
    assert motor_slip(np.ones(3), 0.0, np.zeros(3)) is None


def hysteretic(name: str, moment_nm: float = 2e-3, curvature_per_m: float = 1.0) -> Robot:
    """A robot of the package whose backbone lags in every segment."""
    robot = load_robot(name)
    own = Hysteresis(moment_nm=moment_nm, curvature_per_m=curvature_per_m)
    return robot.changed(segments=tuple(dataclasses.replace(one, hysteresis=own) for one in robot.segments))


def test_rod_force_is_the_work_of_its_moments():
    """Bent once by a constant curvature, each segment resists with its moment times its length per curvature."""
    robot = hysteretic("two_segment")
    force = RodHysteresis(robot).move(np.full(robot.coefficient_count, 100.0))
    lengths_m = np.repeat([segment.length_m for segment in robot.segments], 2)
    assert force == pytest.approx(2e-3 * lengths_m / np.sqrt(2))


def test_rod_of_higher_order_agrees_with_a_finer_quadrature():
    robot = hysteretic("vanderbilt_segment")
    c = 3 * np.ones(robot.coefficient_count) / np.arange(1, robot.coefficient_count + 1)
    force = RodHysteresis(robot).move(c)
    s = (np.arange(4000) + 0.5) / 4000
    total = np.zeros(robot.coefficient_count)
    segment = robot.segments[0]
    for ratio in s:
        rows = basis_matrix(segment.basis, ratio)[:2]
        slip = MaxwellSlip([2e-3], [1.0], np.zeros((1, 2)))
        total += rows.T @ slip.move([rows @ c])[0] * segment.length_m / len(s)
    assert force == pytest.approx(total, rel=0.03, abs=0.01 * np.abs(total).max())


def test_robot_without_hysteresis_has_none():
    robot = load_robot("two_segment")
    resting = RodHysteresis(robot)
    assert not resting.acts
    assert not resting.move(np.ones(robot.coefficient_count)).any()
