# SPDX-License-Identifier: Apache-2.0
"""The stepped controller and reference against the same ones in NumPy, over random inputs, faults and changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy_controller
import pytest
from cycle_cases import random_settings, robot_with

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.control_settings import ANTIWINDUP_STRATEGIES, TENDON_FORCE_STRATEGIES
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.runtime.cycle.reference_input import ReferenceInput


def assert_same(found, expected):
    for name in ("command", "clarke", "clarke_rate", "generalized_force"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12, err_msg=name)
    for field in dataclasses.fields(found.terms):
        np.testing.assert_allclose(
            getattr(found.terms, field.name), getattr(expected.terms, field.name), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("strategy", TENDON_FORCE_STRATEGIES)
@pytest.mark.parametrize("antiwindup", ANTIWINDUP_STRATEGIES)
@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment"])
def test_the_controller_is_the_vectorised_one(name, antiwindup, strategy):
    rng = np.random.default_rng(
        [len(name), ANTIWINDUP_STRATEGIES.index(antiwindup), TENDON_FORCE_STRATEGIES.index(strategy)]
    )
    robot = robot_with(name)
    robot = dataclasses.replace(robot, control=random_settings(robot, rng, antiwindup, strategy))

    def feedforward(clarke):
        return 80.0 * clarke, np.sin(100 * clarke)

    found, expected = ClarkeController(robot, feedforward), numpy_controller.ClarkeController(robot, feedforward)
    count, coordinates = found.manifold.tendon_count, found.manifold.coordinate_count
    for _ in range(400):
        displacement = rng.normal(0, 5e-3, count)
        velocity = None if rng.random() < 0.2 else rng.normal(0, 5e-2, count)
        position, rate = rng.normal(0, 5e-3, coordinates), rng.normal(0, 1e-2, coordinates)
        if rng.random() < 0.05:
            (displacement, position, rate)[rng.integers(3)][0] = rng.choice([np.nan, np.inf])
        dt = rng.choice([0.0, 1e-3, 1e-3 * rng.random(), 0.5])
        reference = ClarkeReference(position, rate, np.zeros(coordinates))
        if rng.random() < 0.02:
            start = rng.normal(0, 1e-3, count)
            tension = None if rng.random() < 0.3 else rng.uniform(0, 10, count)
            moving = None if rng.random() < 0.5 else rng.normal(0, 1e-2, count)
            for controller in (found, expected):
                controller.reset(start, tension, velocity=moving)
        if rng.random() < 0.02:
            settings = random_settings(robot, rng, antiwindup, strategy)
            found.set_settings(settings)
            expected = expected.with_settings(settings)
        with np.errstate(invalid="ignore"):
            assert_same(
                found.update(displacement, velocity, reference, dt),
                expected.update(displacement, velocity, reference, dt),
            )


@pytest.mark.parametrize("built", [True, False])
def test_the_rods_feedforward_is_that_of_the_model(built, monkeypatch):
    if not built:
        monkeypatch.setattr(kernel, "library", lambda: None)
    robot = robot_with("opencr_five_tendon", feedforward_stiffness=0.7, feedforward_gravity=1.0)
    forces = clarke_feedforward(robot)
    controller = ClarkeController(robot, forces)
    assert controller.needs_python == (not built)
    stiffness, shape, rod = forces.parts
    rng = np.random.default_rng(3)
    for _ in range(50):
        position = rng.normal(0, 5e-3, 2)
        elastic, weight = forces(position)
        np.testing.assert_allclose(elastic, stiffness @ position, rtol=1e-12, atol=1e-14)
        force = rod.terms(shape @ position, 0 * shape[:, 0]).force
        np.testing.assert_allclose(weight, -shape.T @ force, rtol=1e-12, atol=1e-14)
        output = controller.update(np.zeros(5), np.zeros(5), ClarkeReference.at_rest(position), 1e-3)
        np.testing.assert_allclose(output.terms.feedforward, 0.7 * elastic + weight, rtol=1e-12, atol=1e-14)


def test_a_feedforward_that_is_switched_off_is_gone():
    robot = robot_with("opencr_five_tendon", feedforward_stiffness=1.0)
    controller = ClarkeController(robot, lambda clarke: (100.0 * clarke, 0.0 * clarke))
    reference = ClarkeReference.at_rest(np.array([0.01, 0.0]))
    assert controller.update(np.zeros(5), np.zeros(5), reference, 1e-3).terms.feedforward[0] == pytest.approx(1.0)
    controller.set_settings(dataclasses.replace(robot.control, feedforward_stiffness=0.0))
    assert controller.update(np.zeros(5), np.zeros(5), reference, 1e-3).terms.feedforward[0] == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_reference_is_the_vectorised_one(seed):
    rng = np.random.default_rng(seed)
    blend_s = rng.choice([0.0, 0.1, 1.0])
    found, expected = ReferenceInput(4, blend_s), numpy_controller.ReferenceInput(4, blend_s)
    time_s, silent_until_s = 10.0, 0.0
    for _ in range(1500):
        time_s += 1e-3
        draw = rng.random()
        if draw < 0.003:
            start = rng.normal(0, 1e-2, 4)
            found.start(start)
            expected.start(start)
        elif draw < 0.006:
            silent_until_s = time_s + rng.uniform(0, 0.1)
        elif draw < 0.3 and time_s > silent_until_s:
            values = [rng.normal(0, scale, 4) for scale in (1e-2, 1e-1, 1.0)]
            if rng.random() < 0.03:
                values[rng.integers(3)][rng.integers(4)] = np.nan
            stamps = rng.uniform(-1e-3, 3e-3, 1)[0] if expected._newest is not None else 0.0
            taken = expected.receive(ClarkeReference(*values), time_s - stamps)
            assert found.receive(ClarkeReference(*values), time_s - stamps) == taken
        one, other = found.at(time_s), expected.at(time_s)
        np.testing.assert_allclose(one.position, other.position, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.velocity, other.velocity, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.acceleration, other.acceleration, rtol=1e-12, atol=1e-9)
        assert found.age_s(time_s) == expected.age_s(time_s)
    assert found.refused == expected.refused
