# SPDX-License-Identifier: Apache-2.0
"""Friction at the disks, johnston (32)-(38): properties, and (33), (34) at each bushing by a root finder."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import capstan_jacobian, tension_from_torque
from continuum_robot.rod.rod import Rod

shapes = st.lists(st.floats(-3, 3), min_size=6, max_size=6).map(np.array)
frictions = st.floats(0, 0.99)


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("vanderbilt_segment")


@pytest.fixture(scope="module")
def friction(robot: Robot) -> CapstanFriction:
    return CapstanFriction(robot)


def strand(robot: Robot, rod: Rod, c: np.ndarray, angle: float, mu: float, f0: float) -> list[float]:
    """Tensions along a strand, out and back, from frames in space and a root finder at each bushing."""
    path = robot.tendon_paths[round(angle / (np.pi / 2))]
    places = np.array([0.0, *robot.disk_arc_lengths_m])
    poses = rod.poses(c, places)
    x, y, _, _ = path.at(places)
    points = [pose @ [*hole, 0, 1] for pose, hole in zip(poses, zip(x, y, strict=True), strict=True)]
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


@given(c=shapes, mu=frictions, angle=st.sampled_from([0, np.pi / 2, np.pi, 3 * np.pi / 2]))
def test_tension_never_rises_and_stays_positive_and_the_share_is_that_of_the_strand(known, c, mu, angle):
    robot, rod = known
    tensions = strand(robot, rod, c, angle, mu, 208.0)
    assert np.all(np.diff(tensions) <= 0)
    assert min(tensions) >= 0
    fractions = CapstanFriction(robot, coefficients=[mu, mu]).fractions(c)
    plane, side = round(angle / (np.pi / 2)) % 2, round(angle / (np.pi / 2)) // 2
    assert 0 <= fractions[plane, side] <= 1
    assert fractions[plane, side] == pytest.approx(tensions[-1] / 208.0, abs=1e-5)  # rounded where straight


@pytest.fixture(scope="module", params=["bends", "does more"])
def known(request: pytest.FixtureRequest, robot: Robot) -> tuple[Robot, Rod]:
    """The segment, and one that twists and stretches too and whose tendons are helices."""
    if request.param == "does more":
        robot = general(robot)
    return robot, Rod(robot)


def general(robot: Robot) -> Robot:
    segment = robot.segments[0]
    basis = Basis(kind="chebyshev", bending_order=1, torsion_order=0, extension_order=0)
    tendons = dataclasses.replace(segment.tendons, routing=HelicalRouting(turns=0.2))
    return robot.changed(
        segments=(dataclasses.replace(segment, basis=basis, tendons=tendons),), control=None, reference=None, strings=()
    )


def test_derivatives_are_those_of_differences(known: tuple[Robot, Rod]) -> None:
    robot, _ = known
    friction = CapstanFriction(robot)
    rod = Rod(robot, nodes=16, stations_m=friction.stations_m.tolist())  # Jacobians as exact as frames
    n, wires = rod.n, friction.wires_of_torque(np.array([0.7, -1.1]))
    c, rate = np.random.default_rng(4).normal(size=(2, n)) / rod.scale * np.where(rod.scale == 1, 0.02, 0.5)
    slow = rate / 20  # where tanh is not saturated

    def force(c: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return friction.force(friction.kept(rod.terms(c, rate), rod), rate, wires)

    found, by_c, by_rate = force(c, slow)
    np.testing.assert_allclose(found, friction.generalized_force(c, slow, [0.7, -1.1]), rtol=1e-5)
    for k, step in enumerate(1e-6 * np.eye(n) / rod.scale):
        for matrix, high, low in (
            (by_c, force(c + step, slow), force(c - step, slow)),
            (by_rate, force(c, slow + step), force(c, slow - step)),
        ):
            expected = (high[0] - low[0]) / (2 * step[k])
            np.testing.assert_allclose(matrix[:, k], expected, atol=1e-5 * np.abs(matrix).max())


def test_no_friction_when_straight_and_a_finite_derivative_there(robot: Robot, friction: CapstanFriction) -> None:
    straight, rate = np.zeros(6), np.full(6, 2.0)
    np.testing.assert_array_equal(friction.generalized_force(straight, rate, [2.0, -3.0]), 0)
    rod = Rod(robot, stations_m=friction.stations_m.tolist())
    _, slopes = friction.kept(rod.terms(straight, straight), rod)
    assert np.isfinite(slopes).all()


def test_without_a_coefficient_there_is_no_friction(robot: Robot) -> None:
    smooth = CapstanFriction(robot, coefficients=[0, 0])
    assert np.abs(smooth.generalized_force(np.ones(6), np.ones(6), [1.0, 1.0])).max() < 1e-9


def test_friction_resists_motion_and_grows_with_pretension_and_torque(robot: Robot, friction: CapstanFriction) -> None:
    rng = np.random.default_rng(8)
    jacobian = capstan_jacobian(robot)
    for _ in range(20):
        c, rate, torque = rng.normal(0, 1.5, 6), rng.normal(0, 3, 6), rng.normal(0, 3, 2)
        wires = friction.wires_of_torque(torque)
        found = friction.torque(friction.fractions(c), jacobian @ rate, wires)
        force = friction.generalized_force(c, rate, torque)
        assert force @ rate >= 0  # it is subtracted: power taken out
        np.testing.assert_allclose(force, jacobian.T @ found)
        fractions = friction.fractions(c)
        r_c, f_pl = 0.015255, 208.0
        for j in range(2):
            # johnston (32) with half of what it prints, and (10) for r_c, so that f+ - f- does the torque's work.
            half = abs(torque[j]) / robot.segments[0].capstans.wire_per_radian_m / 2
            pulled, released = max(f_pl + half, 2 * half), max(f_pl - half, 0)
            first, second = (pulled, released) if torque[j] > 0 else (released, pulled)
            lost = (1 - fractions[j, 0]) * first + (1 - fractions[j, 1]) * second
            assert found[j] == pytest.approx(np.tanh(10 * jacobian[j] @ rate) * r_c * lost)  # (37)


def test_friction_is_that_of_the_tensions_that_are_there(robot: Robot, friction: CapstanFriction) -> None:
    """Half of what each wire loses at 20 N it loses at 10 N, and what common tension adds costs friction."""
    rng = np.random.default_rng(9)
    c, speed = rng.normal(0, 1.5, 6), np.array([3.0, -2.0])
    for tension in (np.full(4, 20.0), np.full(4, 800.0), rng.uniform(50, 400, 4)):
        found = friction.resistance(c, speed, tension)
        twice = friction.resistance(c, speed, 2 * tension)
        np.testing.assert_allclose(twice, 2 * found)
        fractions, strands = friction.fractions(c), robot.segments[0].tendons.strands
        for k in range(2):
            wires = tension[[k, k + 2]] / strands
            lost = (1 - fractions[k]) @ wires
            assert found[k] == pytest.approx(np.tanh(10 * speed[k]) * 0.015255 * lost)


def test_torque_and_tensions_around_the_pretension_say_the_same(robot: Robot, friction: CapstanFriction) -> None:
    """By statics: the torque of the tensions that a torque makes around the pretension is that torque."""
    strands, f_pl = robot.segments[0].tendons.strands, robot.segments[0].capstans.pretension_n
    of_torque = tension_from_torque(robot)
    for torque in (np.array([0.7, -1.1]), np.array([-2.9, 2.0])):
        tension = strands * f_pl + of_torque @ torque
        np.testing.assert_allclose(friction.tension_of_torque(torque), tension, rtol=1e-12)
        np.testing.assert_allclose(friction.wires_of_torque(torque), friction.wires_of_tension(tension), rtol=1e-12)
    torque = np.array([20.0, -20.0])  # more than the pretension can give
    slack = friction.tension_of_torque(torque)
    np.testing.assert_array_equal(slack[[1, 2]], 0)
    np.testing.assert_allclose(2 * of_torque[[0, 3]] @ torque, slack[[0, 3]])


def test_a_robot_without_capstans_has_no_friction() -> None:
    friction = CapstanFriction(load_robot("opencr_five_tendon"))
    assert friction.capstan_count == 0
    np.testing.assert_array_equal(friction.generalized_force(np.ones(2), np.ones(2), []), np.zeros(2))


@pytest.mark.parametrize(
    "options", [{"coefficients": [0.1]}, {"coefficients": [0.1, 1.0]}, {"coefficients": [0.1, -0.1]}]
)
def test_bad_arguments_are_named(robot: Robot, options: dict) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        CapstanFriction(robot, **options)
