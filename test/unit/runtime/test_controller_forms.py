# SPDX-License-Identifier: Apache-2.0
"""The controller's cycle interpreted and compiled, bit by bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cycle_cases import INTERPRETED, PERIOD_S, Loop, random_settings, robot_with

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import (
    ANTIWINDUP_STRATEGIES,
    INVERSE_DYNAMICS_LAW,
    TENDON_FORCE_STRATEGIES,
)
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.rod import Rod
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle


@pytest.fixture(scope="module")
def compiled():
    try:
        return compiled_cycle()
    except NotCompiledError as error:
        pytest.skip(str(error))


def test_the_compiled_form_refuses_a_feedforward_in_python(compiled, monkeypatch):
    robot = robot_with(feedforward_stiffness=1.0)

    def feedforward(clarke):
        return clarke, clarke

    assert ClarkeController(robot, feedforward).needs_python
    with pytest.raises(ParameterError, match="machine code"):
        compiled.ClarkeController(robot, feedforward)
    monkeypatch.setattr(kernel, "library", lambda: None)
    with pytest.raises(ParameterError, match="machine code"):
        compiled.ClarkeController(robot, clarke_feedforward(robot))
    with pytest.raises(ParameterError, match="the kernel's library"):
        compiled.KernelCall(Rod(robot))


def everything(loop):
    """All that a cycle computes, as one array."""
    output = loop.cycle.output()
    parts = [output.command, output.clarke, output.clarke_rate, output.generalized_force]
    parts += [getattr(output.terms, one.name) for one in dataclasses.fields(output.terms)]
    parts += [loop.reference.position, loop.reference.velocity, loop.reference.acceleration]
    return np.concatenate([np.asarray(part, dtype=float) for part in [*parts, loop.counters()]])


@pytest.mark.parametrize("strategy", TENDON_FORCE_STRATEGIES)
@pytest.mark.parametrize("antiwindup", ANTIWINDUP_STRATEGIES)
@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment"])
def test_both_forms_give_the_same_bits(compiled, name, antiwindup, strategy):
    robot = remembering(robot_with(name)) if strategy == "shift" else robot_with(name)
    rng = np.random.default_rng([len(name), len(antiwindup), len(strategy)])
    robot = dataclasses.replace(robot, control=random_settings(robot, rng, antiwindup, strategy))
    feedforward = clarke_feedforward(robot)
    loops = [Loop(robot, forms=forms, feedforward=feedforward, blend_s=0.05) for forms in (INTERPRETED, compiled)]
    assert_same_bits(loops, robot, rng, lambda: random_settings(robot, rng, antiwindup, strategy))


@pytest.mark.parametrize("past", [False, True], ids=["dry", "with a past"])
@pytest.mark.parametrize(
    "name",
    ["opencr_five_tendon", "two_segment", pytest.param("vanderbilt_segment", marks=pytest.mark.long), "mixed_routing"],
)
def test_inverse_dynamics_gives_the_same_bits(compiled, name, past):
    """With friction that acts at once, and with friction and backbones that remember their way."""
    robot = robot_with(name)
    rng = np.random.default_rng([len(name), past])
    if past:
        robot = remembering(robot)
    control = dataclasses.replace(random_settings(robot, rng, "none", "shift"), law=INVERSE_DYNAMICS_LAW)
    robot = dataclasses.replace(robot, control=control)
    controllers = [forms.InverseDynamicsController(robot) for forms in (INTERPRETED, compiled)]
    loops = [
        Loop(robot, controller, forms, blend_s=0.05)
        for controller, forms in zip(controllers, (INTERPRETED, compiled), strict=True)
    ]
    assert_same_bits(loops, robot, rng, lambda: random_settings(robot, rng, "none", "shift"))
    residual = np.array(controllers[0].residual)
    assert np.abs(residual).min() > 0 or controllers[0].settings.inverse_dynamics.observer_rate_per_s == 0
    np.testing.assert_array_equal(residual, np.array(controllers[1].residual))


def remembering(robot):
    """The robot with motors whose friction builds up over a travel, where it has motors, and a lagging backbone."""
    lag = Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    changed = robot.changed(segments=tuple(dataclasses.replace(one, hysteresis=lag) for one in robot.segments))
    if robot.actuators is None:
        return changed
    motors = dataclasses.replace(robot.actuators, coulomb_friction_nm=0.0015, friction_travel_m=2e-4)
    return changed.changed(actuators=motors)


def assert_same_bits(loops, robot, rng, changed_settings):
    """Smooth motion with noise, as a recording has it, and every fault, gap and change in between."""
    count, coordinates = robot.tendon_count, robot.coordinate_count
    phase = rng.uniform(0, 6, coordinates)
    for k in range(800):
        time_s = k * PERIOD_S
        place = 8e-3 * np.sin(12 * time_s + phase) + rng.normal(0, 1e-5, coordinates)
        state = {"velocity_m_per_s": rng.normal(0, 5e-2, count)}
        draw = rng.random()
        if draw < 0.05:
            field = rng.choice(["displacement_m", "velocity_m_per_s", "age_s", "tension_n"])
            values = rng.normal(0, 1e-2, count)
            values[rng.integers(count)] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
            state[field] = values
        elif draw < 0.06:
            state["stamp_s"] = rng.choice([np.nan, 0.0, 100.0 + time_s])
        extra = {
            "after_s": float(rng.choice([PERIOD_S, 3e-4, 0.0, 0.03, 0.3], p=[0.9, 0.04, 0.02, 0.02, 0.02])),
            "steps": int(rng.choice([1, 3, 0, -50], p=[0.95, 0.03, 0.01, 0.01])),
            "following": bool(rng.random() > 0.01),
            "commanded": np.full(count, np.nan) if rng.random() < 0.05 else rng.uniform(0, 10, count),
        }
        reference = None
        if k % 4 == 0 and (k // 100) % 3 < 2:
            reference = ClarkeReference(
                8e-3 * np.sin(12 * time_s + phase),
                0.096 * np.cos(12 * time_s + phase),
                rng.normal(0, 1, coordinates),
            )
        settings = changed_settings() if rng.random() < 0.02 else None
        late_s = rng.uniform(-2e-3, 5e-3)
        found = []
        for loop in loops:
            if settings is not None:
                loop.cycle.set_settings(settings)
            if reference is not None:
                assert loop.reference.receive(reference, loop.now_s - late_s)
            answered = loop.state(place, **state, **extra)
            found.append(np.append(everything(loop), answered))
        np.testing.assert_array_equal(found[0], found[1])
    received, answered, stale, not_finite, lost, restarts = loops[0].counters()
    assert min(received, answered, stale, not_finite, lost, restarts) > 2


@pytest.mark.parametrize("law", ["pid", INVERSE_DYNAMICS_LAW])
def test_a_payload_is_taken_over_evenly_with_the_same_bits(compiled, law):
    robot = robot_with(feedforward_stiffness=1.0, feedforward_gravity=1.0, law=law).changed(
        gravity_m_per_s2=(9.81, 0.0, 0.0)
    )

    def controller(forms, robot):
        if law == INVERSE_DYNAMICS_LAW:
            return forms.InverseDynamicsController(robot)
        return forms.ClarkeController(robot, clarke_feedforward(robot))

    heavy = robot.carrying(0.05)
    loops = [Loop(robot, controller(forms, robot), forms) for forms in (INTERPRETED, compiled)]
    loops.append(Loop(heavy, controller(INTERPRETED, heavy)))
    place, forces = np.array([5e-3, 2e-3]), []
    for k in range(3000):
        if k in (500, 1800):
            for loop in loops[:2]:
                loop.cycle.ask_payload(0.05 if k == 500 else 0.0)
        for loop in loops:
            loop.follow(place)
            assert loop.state(place)
        np.testing.assert_array_equal(everything(loops[0]), everything(loops[1]))
        forces.append(np.array(loops[0].cycle.output().terms.feedforward))
        if k == 1700:
            full = np.array(loops[2].cycle.output().terms.feedforward)
            assert loops[0].controller.payload.mass_kg == 0.05
            np.testing.assert_allclose(forces[-1], full, rtol=1e-9)
    step = np.abs(np.diff(forces[499:], axis=0)).max()
    assert 0 < step <= 1.1e-3 * np.abs(full - forces[499]).max()
    np.testing.assert_array_equal(forces[-1], forces[499])


def test_a_controller_without_a_model_of_the_weight_takes_no_payload():
    with pytest.raises(ParameterError, match="payload_kg"):
        ClarkeController(robot_with()).ask_payload(0.1)
