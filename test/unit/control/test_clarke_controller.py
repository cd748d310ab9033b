# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ANTIWINDUP_STRATEGIES
from continuum_robot.robot.loading import load_robot

DT = 1e-3
ROBOTS = ["opencr_five_tendon", "two_segment"]


def robot_with(name="two_segment", gains=None, **control):
    robot = load_robot(name)
    entries = tuple(dataclasses.replace(one, **(gains or {})) for one in robot.control.gains)
    return dataclasses.replace(robot, control=dataclasses.replace(robot.control, gains=entries, **control))


def spring(clarke):
    return 50.0 * clarke, 0.1 * np.ones_like(clarke)


def moving(position, velocity):
    return ClarkeReference(position, velocity, np.zeros_like(position))


@pytest.mark.parametrize("name", ROBOTS)
def test_a_proportional_controller_pulls_towards_the_reference(name):
    controller = ClarkeController(robot_with(name, {"p": 100.0, "i": 0.0, "d": 0.0}))
    manifold = controller.manifold
    clarke = np.linspace(-0.002, 0.004, manifold.coordinate_count)
    desired = np.linspace(0.005, -0.003, manifold.coordinate_count)
    output = controller.update(
        manifold.displacement(clarke), np.zeros(manifold.tendon_count), ClarkeReference.at_rest(desired), DT
    )
    np.testing.assert_allclose(output.clarke, clarke, atol=1e-15)
    np.testing.assert_allclose(output.generalized_force, 100 * (desired - clarke), atol=1e-12)
    np.testing.assert_allclose(manifold.generalized_force(output.command), output.generalized_force, atol=1e-11)
    assert output.command.min() == controller.settings.pretension_n
    assert output.command.shape == (manifold.tendon_count,)


def test_velocity_goes_onto_the_manifold_and_damps():
    gains = {"p": 0.0, "i": 0.0, "d": 10.0, "derivative_filter_time": 0.0, "reference_velocity_weight": 0.0}
    controller = ClarkeController(robot_with(gains=gains))
    rate = np.array([0.1, -0.2, 0.3, 0.4])
    output = controller.update(np.zeros(10), controller.manifold.displacement(rate), moving(np.zeros(4), rate), DT)
    np.testing.assert_allclose(output.clarke_rate, rate, atol=1e-15)
    np.testing.assert_allclose(output.terms.d_term, -10 * rate, atol=1e-13)


def test_reference_velocity_counts_where_the_gains_say_so():
    gains = {"p": 0.0, "i": 0.0, "d": 10.0, "derivative_filter_time": 0.0, "reference_velocity_weight": 1.0}
    controller = ClarkeController(robot_with(gains=gains))
    rate = np.array([0.1, -0.2, 0.3, 0.4])
    output = controller.update(np.zeros(10), controller.manifold.displacement(rate), moving(np.zeros(4), rate), DT)
    np.testing.assert_allclose(output.terms.d_term, 0, atol=1e-13)


def test_without_a_velocity_the_displacement_is_differentiated():
    gains = {"p": 0.0, "i": 0.0, "d": 10.0, "derivative_filter_time": 0.0, "reference_velocity_weight": 0.0}
    controller = ClarkeController(robot_with(gains=gains))
    rate = np.array([0.1, -0.2, 0.3, 0.4])
    still = ClarkeReference.at_rest(np.zeros(4))
    for k in range(3):
        output = controller.update(controller.manifold.displacement(rate * k * DT), None, still, DT)
    np.testing.assert_allclose(output.terms.d_term, -10 * rate, atol=1e-10)
    assert np.isnan(output.clarke_rate).all()


@given(
    name=st.sampled_from(ROBOTS),
    seed=st.integers(0, 10**6),
    strategy=st.sampled_from(["shift", "redistribute"]),
    antiwindup=st.sampled_from(ANTIWINDUP_STRATEGIES),
    integral=st.sampled_from([0.0, 15000.0]),
    fractions=st.sampled_from([0.0, 1.0]),
    know_reference=st.booleans(),
)
def test_the_start_is_bumpless(name, seed, strategy, antiwindup, integral, fractions, know_reference):
    """The first force is that of the tensions that were there, whatever these were and wherever the robot stood."""
    rng = np.random.default_rng(seed)
    robot = robot_with(
        name,
        {"i": integral, "antiwindup_strategy": antiwindup, "i_clamp_max": 5.0, "i_clamp_min": -5.0},
        tendon_forces=strategy,
        feedforward_stiffness=fractions,
        feedforward_gravity=fractions,
    )
    controller = ClarkeController(robot, spring)
    manifold = controller.manifold
    displacement = rng.normal(0, 2e-3, manifold.tendon_count)
    velocity = rng.normal(0, 1e-2, manifold.tendon_count)
    tension = rng.uniform(0.2, 5, manifold.tendon_count)
    position = manifold.clarke(displacement)
    if know_reference:
        position = position + rng.normal(0, 1e-3, manifold.coordinate_count)
    reference = moving(position, rng.normal(0, 1e-2, manifold.coordinate_count) * know_reference)
    controller.reset(displacement, tension, velocity=velocity, reference=reference if know_reference else None)
    output = controller.update(displacement, velocity, reference, DT)
    np.testing.assert_allclose(output.generalized_force, manifold.generalized_force(tension), atol=1e-9)
    np.testing.assert_allclose(
        manifold.generalized_force(output.command), manifold.generalized_force(tension), atol=1e-9
    )
    # And the next cycle changes little: no hidden spring that lets go.
    following = controller.update(displacement, velocity, reference, DT)
    assert np.abs(following.generalized_force - output.generalized_force).max() < 0.5


def test_a_start_without_known_tension_is_feedforward_alone():
    controller = ClarkeController(robot_with(feedforward_stiffness=0.5, feedforward_gravity=1.0), spring)
    displacement = controller.manifold.displacement([0.001, 0.002, -0.003, 0.004])
    controller.reset(displacement)
    reference = ClarkeReference.at_rest(controller.manifold.clarke(displacement))
    output = controller.update(displacement, np.zeros(10), reference, DT)
    np.testing.assert_allclose(output.generalized_force, 25 * reference.position + 0.1, atol=1e-12)
    np.testing.assert_allclose(output.terms.feedforward, 25 * reference.position + 0.1, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("what", ["displacement", "velocity", "reference"])
def test_unknown_input_gives_unknown_tensions_and_keeps_the_state(what, bad):
    disturbed, undisturbed = (ClarkeController(robot_with()) for _ in range(2))
    rng = np.random.default_rng(0)
    inputs = [(rng.normal(0, 1e-3, 10), rng.normal(0, 1e-2, 10), rng.normal(0, 1e-3, 4)) for _ in range(6)]
    for displacement, velocity, position in inputs[:-1]:
        for controller in (disturbed, undisturbed):
            controller.update(displacement, velocity, ClarkeReference.at_rest(position), DT)
    displacement, velocity, position = (value.copy() for value in inputs[0])
    {"displacement": displacement, "velocity": velocity, "reference": position}[what][1] = bad
    with np.errstate(invalid="ignore"):
        output = disturbed.update(displacement, velocity, ClarkeReference.at_rest(position), DT)
    assert np.isnan(output.command).all()
    assert np.isnan(output.generalized_force).all()
    assert not output.terms.saturated.any()
    displacement, velocity, position = inputs[-1]
    after, expected = (
        controller.update(displacement, velocity, ClarkeReference.at_rest(position), DT)
        for controller in (disturbed, undisturbed)
    )
    np.testing.assert_array_equal(after.command, expected.command)


def test_saturation_is_reported():
    robot = robot_with(gains={"u_clamp_max": 2.0, "u_clamp_min": -2.0})
    controller = ClarkeController(robot)
    reference = ClarkeReference.at_rest(np.array([0.01, 0.0, -0.01, 0.0]))
    output = controller.update(np.zeros(10), np.zeros(10), reference, DT)
    assert output.terms.saturated.tolist() == [True, False, True, False]
    np.testing.assert_allclose(output.generalized_force, [2, 0, -2, 0])


def test_a_step_of_zero_repeats_and_a_negative_one_is_an_error():
    controller = ClarkeController(robot_with())
    desired = ClarkeReference.at_rest(np.full(4, 0.001))
    first = controller.update(np.zeros(10), np.zeros(10), desired, DT)
    again = controller.update(np.full(10, 0.1), np.zeros(10), desired, 0.0)
    np.testing.assert_array_equal(again.command, first.command)
    with pytest.raises(ParameterError, match="dt"):
        controller.update(np.zeros(10), np.zeros(10), desired, -DT)


def test_new_settings_keep_the_state():
    controller = ClarkeController(robot_with(gains={"p": 100.0, "i": 1000.0, "d": 0.0}))
    desired = ClarkeReference.at_rest(np.full(4, 0.001))
    for _ in range(100):
        before = controller.update(np.zeros(10), np.zeros(10), desired, DT)
    entries = tuple(dataclasses.replace(one, p=200.0) for one in controller.settings.gains)
    controller.set_settings(
        dataclasses.replace(controller.settings, gains=entries, tendon_forces="redistribute", pretension_n=2.0)
    )
    output = controller.update(np.zeros(10), np.zeros(10), desired, DT)
    np.testing.assert_allclose(output.terms.p_term, 0.2)
    np.testing.assert_allclose(output.terms.i_term, before.terms.i_term + DT * 1000 * 0.001)
    assert output.command.min() == pytest.approx(2.0)


def test_what_does_not_fit_the_robot_is_refused():
    robot = robot_with()
    with pytest.raises(ParameterError, match=r"robot\.control"):
        ClarkeController(load_robot("opencr_five_tendon").changed(control=None))
    with pytest.raises(ParameterError, match="rod_feedforward"):
        ClarkeController(robot_with(feedforward_gravity=0.5))
    controller = ClarkeController(robot)
    with pytest.raises(ParameterError, match="rod_feedforward"):
        controller.set_settings(dataclasses.replace(robot.control, feedforward_stiffness=0.1))
    with pytest.raises(ParameterError, match=r"control\.gains"):
        controller.set_settings(dataclasses.replace(robot.control, gains=robot.control.gains[:1]))
    with pytest.raises(ParameterError, match="displacement"):
        controller.update(np.zeros(5), np.zeros(5), ClarkeReference.at_rest(np.zeros(4)), DT)
    with pytest.raises(ParameterError, match="displacement"):
        controller.reset(np.full(10, np.nan))
    with pytest.raises(ParameterError, match="tension"):
        controller.reset(np.zeros(10), np.zeros(9))


@pytest.mark.parametrize("strategy", ["shift", "redistribute"])
def test_the_loop_closes_on_a_mass_and_spring(strategy):
    """Two segments as masses and springs on the manifold: PID brings every coordinate to its reference."""
    controller = ClarkeController(robot_with(tendon_forces=strategy))
    manifold = controller.manifold
    desired = ClarkeReference.at_rest(np.array([0.01, 0.005, 0.005, 0.02]))
    q, v = np.zeros(4), np.zeros(4)
    for _ in range(3000):
        output = controller.update(manifold.displacement(q), manifold.displacement(v), desired, DT)
        force = manifold.generalized_force(output.command) - 580 * q - 23 * v
        v = v + DT * force / 2.0
        q = q + DT * v
    np.testing.assert_allclose(q, desired.position, atol=2e-5)
