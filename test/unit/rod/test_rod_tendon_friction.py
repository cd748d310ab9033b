# SPDX-License-Identifier: Apache-2.0
"""Friction at the disks, johnston (32)-(38): properties, and the paper's own minimisation as an oracle."""

from __future__ import annotations

from itertools import pairwise

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.friction.capstans import capstan_jacobian, tension_from_torque
from continuum_robot.rod.friction.tendons import TendonFriction, bushing_fraction
from continuum_robot.rod.model import RodModel

shapes = st.lists(st.floats(-3, 3), min_size=6, max_size=6).map(np.array)
frictions = st.floats(0, 0.99)


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("vanderbilt_segment")


@pytest.fixture(scope="module")
def friction(robot: Robot) -> TendonFriction:
    return TendonFriction(robot, compile="never")


def strand(robot: Robot, model: RodModel, c: np.ndarray, angle: float, mu: float, f0: float) -> list[float]:
    """Tensions along a strand, out and back, from frames in space and a root finder at each bushing."""
    radius = robot.segments[0].tendons.pitch_radius_m
    hole = np.array([radius * np.cos(angle), radius * np.sin(angle), 0, 1])
    poses = [np.array(model.pose(c, s)) for s in [0.0, *robot.disk_arc_lengths_m]]
    points = [pose @ hole for pose in poses]
    course = [poses[0][:3, 2]]
    course += [(b - a)[:3] / np.linalg.norm(b - a) for a, b in pairwise(points)]
    course += [poses[-1][:3, 2]]
    passed = [(poses[i][:3, 2], course[i], course[i + 1]) for i in range(len(poses))]
    passed += [(n, -after, -before) for n, before, after in reversed(passed)]
    tensions = [f0]
    for normal, before, after in passed:
        P = np.eye(3) - np.outer(normal, normal)
        f = tensions[-1]

        def lost(x: float, P: np.ndarray = P, f: float = f, before: np.ndarray = before, after: np.ndarray = after):
            return f - x - mu * np.linalg.norm(P @ (x * after - f * before))  # (33), (34)

        tensions.append(f if f == 0 or lost(f) == 0 else brentq(lost, 0, f, xtol=1e-13, rtol=1e-14))
    return tensions


@settings(deadline=None, max_examples=40)
@given(c=shapes, mu=frictions, angle=st.sampled_from([0, np.pi / 2, np.pi, 3 * np.pi / 2]))
def test_tension_never_rises_and_stays_positive_and_the_share_is_that_of_the_strand(known, c, mu, angle):
    robot, model, friction = known
    tensions = strand(robot, model, c, angle, mu, 208.0)
    assert np.all(np.diff(tensions) <= 0)
    assert min(tensions) >= 0
    fractions = np.array(friction.fractions(c, [mu, mu]))
    plane, side = round(angle / (np.pi / 2)) % 2, round(angle / (np.pi / 2)) // 2
    assert 0 <= fractions[plane, side] <= 1
    assert fractions[plane, side] == pytest.approx(tensions[-1] / 208.0, abs=1e-4)  # one Magnus step a stretch


@pytest.fixture(scope="module")
def known(robot: Robot, friction: TendonFriction) -> tuple[Robot, RodModel, TendonFriction]:
    return robot, RodModel(robot), friction


@settings(deadline=None)
@given(
    before=st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6)),
    after=st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6)),
    mu=frictions,
)
def test_a_bushing_keeps_a_share_and_takes_coulombs_friction(before, after, mu):
    a, b = ca.DM(before), ca.DM(after)
    fraction = float(bushing_fraction(a, b, mu, rounding=0.0))
    assert 0 <= fraction <= 1
    normal = np.linalg.norm(fraction * np.array(after) - np.array(before))
    assert 1 - fraction == pytest.approx(mu * normal, abs=1e-12)
    rounded = float(bushing_fraction(a, b, mu))
    assert fraction <= rounded <= 1
    assert rounded == pytest.approx(fraction, abs=1e-6)


@pytest.mark.parametrize(("mu", "f"), [(0.0312, 208.0), (0.1637, 60.0), (0.9, 300.0)])
def test_the_papers_minimisation_finds_the_same_tension(mu: float, f: float) -> None:
    """(35): the least f_i^2 that obeys 0 <= f_i and friction = mu x normal force, by scipy's SLSQP."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        before, after = rng.uniform(-0.3, 0.3, (2, 2))

        def condition(x: np.ndarray, before: np.ndarray = before, after: np.ndarray = after) -> float:
            return 1 - x[0] - mu * np.linalg.norm(x[0] * after - before)

        solution = minimize(
            lambda x: x[0] ** 2,
            [0.9],
            method="SLSQP",
            bounds=[(0, None)],
            constraints=[{"type": "eq", "fun": condition}],
            options={"ftol": 1e-14},
        )
        assert solution.success
        assert f * float(bushing_fraction(ca.DM(before), ca.DM(after), mu)) == pytest.approx(
            f * solution.x[0], rel=1e-6
        )


def test_no_friction_when_straight_and_a_finite_derivative_there(robot: Robot, friction: TendonFriction) -> None:
    straight, rate = np.zeros(6), np.full(6, 2.0)
    np.testing.assert_array_equal(friction.capstan_torque(straight, rate, [2.0, -3.0]), 0)
    c, mu = ca.SX.sym("c", 6), ca.DM(friction.coefficients)
    derivative = ca.Function("derivative", [c], [ca.jacobian(friction.fractions(c, mu), c)])
    assert np.isfinite(np.array(derivative(straight))).all()
    bent, h = np.array([0.5, -0.8, 0.2, 0.1, -0.3, 0.4]), 1e-6
    for k in range(6):
        step = np.eye(6)[k] * h
        expected = (np.array(friction.fractions(bent + step, mu)) - np.array(friction.fractions(bent - step, mu))) / (
            2 * h
        )
        np.testing.assert_allclose(
            np.array(derivative(bent))[:, k], expected.reshape(-1, order="F"), rtol=1e-5, atol=1e-8
        )


def test_without_a_coefficient_there_is_no_friction(robot: Robot) -> None:
    smooth = TendonFriction(robot, coefficients=[0, 0], compile="never")
    assert np.abs(smooth.capstan_torque(np.ones(6), np.ones(6), [1.0, 1.0])).max() < 1e-9


def test_friction_resists_motion_and_grows_with_pretension_and_torque(robot: Robot, friction: TendonFriction) -> None:
    rng = np.random.default_rng(8)
    jacobian = capstan_jacobian(robot)
    for _ in range(20):
        c, rate, torque = rng.normal(0, 1.5, 6), rng.normal(0, 3, 6), rng.normal(0, 3, 2)
        found = friction.capstan_torque(c, rate, torque)
        force = friction.generalized_force(c, rate, torque)
        assert force @ rate >= 0  # it is subtracted: power taken out
        np.testing.assert_allclose(force, jacobian.T @ found)
        fractions = np.array(friction.fractions(c, friction.coefficients))
        r_c, f_pl = 0.015255, 208.0
        for j in range(2):
            # johnston (32) with half of what it prints, so that r_c (f+ - f-) is the torque.
            half = abs(torque[j]) / r_c / 2
            pulled, released = max(f_pl + half, 2 * half), max(f_pl - half, 0)
            first, second = (pulled, released) if torque[j] > 0 else (released, pulled)
            lost = (1 - fractions[j, 0]) * first + (1 - fractions[j, 1]) * second
            assert found[j] == pytest.approx(np.tanh(10 * jacobian[j] @ rate) * r_c * lost)  # (37)


def test_friction_is_that_of_the_tensions_that_are_there(robot: Robot, friction: TendonFriction) -> None:
    """Half of what each wire loses at 20 N it loses at 10 N, and what common tension adds costs friction."""
    rng = np.random.default_rng(9)
    c, speed = rng.normal(0, 1.5, 6), np.array([3.0, -2.0])
    for tension in (np.full(4, 20.0), np.full(4, 800.0), rng.uniform(50, 400, 4)):
        found = np.array(friction.resistance(c, speed, tension, friction.coefficients)).ravel()
        twice = np.array(friction.resistance(c, speed, 2 * tension, friction.coefficients)).ravel()
        np.testing.assert_allclose(twice, 2 * found)
        fractions, strands = np.array(friction.fractions(c, friction.coefficients)), robot.segments[0].tendons.strands
        for k in range(2):
            wires = tension[[k, k + 2]] / strands
            lost = (1 - fractions[k]) @ wires
            assert found[k] == pytest.approx(np.tanh(10 * speed[k]) * 0.015255 * lost)


def test_torque_and_tensions_around_the_pretension_say_the_same(robot: Robot, friction: TendonFriction) -> None:
    """By statics: the torque of the tensions that a torque makes around the pretension is that torque."""
    strands, f_pl = robot.segments[0].tendons.strands, robot.segments[0].capstans.pretension_n
    for torque in (np.array([0.7, -1.1]), np.array([-2.9, 2.0])):
        tension = strands * f_pl + tension_from_torque(robot) @ torque
        lead = robot.segments[0].capstans.wire_per_radian_m / robot.segments[0].capstans.radius_m
        np.testing.assert_allclose(
            friction.wires_of_torque(torque) - f_pl, lead * (friction.wires_of_tension(tension) - f_pl), rtol=1e-9
        )
    slack = friction.wires_of_torque(np.array([20.0, -20.0]))
    np.testing.assert_allclose(slack, [20.0 / 0.015255, 0, 0, 20.0 / 0.015255])


def test_sign_and_tanh_agree_in_fast_motion(robot: Robot, friction: TendonFriction) -> None:
    sharp = TendonFriction(robot, sign="sign", compile="never")
    c, rate = np.array([0.5, 0.9, 0.1, 0.2, 0.0, 0.3]), np.array([-3.0, 4.0, 0, 0, 0, 0])
    np.testing.assert_allclose(sharp.capstan_torque(c, rate, [1, 1]), friction.capstan_torque(c, rate, [1, 1]))
    np.testing.assert_array_equal(sharp.capstan_torque(c, 0 * rate, [1, 1]), 0)


def test_a_robot_without_capstans_has_no_friction() -> None:
    friction = TendonFriction(load_robot("opencr_five_tendon"))
    assert friction.capstan_count == 0
    np.testing.assert_array_equal(friction.generalized_force(np.ones(2), np.ones(2), []), np.zeros(2))


@pytest.mark.parametrize(
    "options", [{"sign": "step"}, {"coefficients": [0.1]}, {"coefficients": [0.1, 1.0]}, {"coefficients": [0.1, -0.1]}]
)
def test_bad_arguments_are_named(robot: Robot, options: dict) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        TendonFriction(robot, **options)
