# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics with a disturbance observer: on plants without motors, where the model is all there is."""

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.control.inverse_dynamics import InverseDynamicsController, under_inverse_dynamics
from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.robot import doors
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold
from continuum_robot.runtime.cycle import foreign_controller
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import VirtualStack

ROBOT = load_robot("opencr_five_tendon")
MOTORLESS = dataclasses.replace(ROBOT, actuators=None)
SOFT = dataclasses.replace(  # gains that suit a robot without the motors' inertia
    MOTORLESS,
    control=dataclasses.replace(
        ROBOT.control, gains=tuple(dataclasses.replace(one, p=1000.0, d=30.0) for one in ROBOT.control.gains)
    ),
)
CYCLE_S = 1e-3
MANIFOLD = controlled_manifold(ROBOT)


def reading(displacement, velocity, tension, stamp_s=0.0):
    count = len(displacement)
    return TendonReading(
        stamp_s, displacement, velocity, tension, np.full(count, np.nan), np.full(count, np.nan), np.zeros(count), ()
    )


def reference(position, velocity=(0.0, 0.0), acceleration=(0.0, 0.0)):
    return ClarkeReference(*(np.array(part, dtype=float) for part in (position, velocity, acceleration)))


def controller(robot=SOFT, **settings):
    return InverseDynamicsController(under_inverse_dynamics(robot, **settings))


class Loop:
    """A controller on ideal tension sources, which may be limited; measured tensions are those applied."""

    def __init__(self, own, robot=SOFT, largest_n=math.inf):
        self.own, self.largest_n = own, largest_n
        self.plant = Plant(robot, actuation="ideal")
        self.tension = np.full(5, 3.0)
        own.reset(self.measured(), self.tension, reference([0, 0]))

    def measured(self):
        return reading(self.plant.rod_displacement, self.plant._body.rod_velocity, self.tension)

    @property
    def clarke(self):
        return MANIFOLD.clarke(self.plant.rod_displacement)

    def run(self, desired, duration_s, force=None):
        for k in range(round(duration_s / CYCLE_S)):
            asked = self.own.update(self.measured(), desired(k * CYCLE_S), CYCLE_S)
            self.tension = np.minimum(asked, self.largest_n)
            self.plant.advance(self.tension, CYCLE_S, force)


def test_the_tensions_give_the_acceleration_of_the_reference():
    own, model = controller(observer_rate_per_s=0.0), Rod(MOTORLESS)
    shape = coefficients_from_clarke(ROBOT)
    rng = np.random.default_rng(4)
    for _ in range(5):
        position, velocity, acceleration = (
            5e-3 * rng.normal(size=2),
            0.03 * rng.normal(size=2),
            0.3 * rng.normal(size=2),
        )
        desired = reference(position, velocity, acceleration)
        state = reading(
            MANIFOLD.displacement_matrix @ position, MANIFOLD.displacement_matrix @ velocity, np.full(5, 3.0)
        )
        own.reset(state, np.full(5, 3.0), desired)
        own.start_offset[:] = [0.0, 0.0]
        tension = own.update(state, desired, CYCLE_S)
        force = model.displacement_gradient(shape @ position).T @ tension
        found = model.acceleration(shape @ position, shape @ velocity, force)
        np.testing.assert_allclose(found, shape @ acceleration, rtol=1e-7, atol=1e-7)


def test_the_first_answer_is_near_the_tensions_it_is_given():
    own = controller(ROBOT)
    state = reading(np.zeros(5), np.zeros(5), np.full(5, 3.0))
    given = np.array([5.0, 3.0, 4.0, 3.0, 6.0])
    own.reset(state, given, reference([1e-3, 0]))
    force = MANIFOLD.generalized_force(own.update(state, reference([1e-3, 0]), 0.0))
    np.testing.assert_allclose(force, MANIFOLD.generalized_force(given), atol=1e-9)


def test_a_force_that_nobody_reports_is_found_and_leaves_no_error():
    own = controller(observer_rate_per_s=30.0)
    loop = Loop(own)
    pushed = np.array([0.004, -0.002])  # on the coefficients
    loop.run(lambda _time_s: reference([2e-3, 1e-3]), 3.0, pushed)
    found = coefficients_from_clarke(ROBOT).T @ pushed
    np.testing.assert_allclose(own.residual, found, rtol=2e-3, atol=1e-3 * np.abs(found).max())
    np.testing.assert_allclose(loop.clarke, [2e-3, 1e-3], atol=2e-6)
    without = Loop(controller(observer_rate_per_s=0.0))
    without.run(lambda _time_s: reference([2e-3, 1e-3]), 3.0, pushed)
    assert np.abs(without.clarke - [2e-3, 1e-3]).max() > 1e-4


def test_tensions_that_others_limit_wind_nothing_up():
    """A place that 4 N do not reach is asked for; the observer explains where the robot stays and holds no more."""
    own = controller(observer_rate_per_s=30.0)
    loop = Loop(own, largest_n=4.0)
    loop.run(lambda _time_s: reference([8e-3, 0]), 3.0)
    assert loop.clarke[0] < 6e-3
    assert np.abs(own.residual).max() < 0.05
    loop.run(lambda _time_s: reference([1e-3, 0]), 0.4)
    np.testing.assert_allclose(loop.clarke, [1e-3, 0], atol=1e-4)


def test_pretension_and_gains_change_while_it_runs():
    own = controller()
    loop = Loop(own)
    loop.run(lambda _time_s: reference([1e-3, 0]), 1.0)
    stood, least = loop.clarke, loop.tension.min()
    own.ask_pretension(5.0)
    loop.run(lambda _time_s: reference([1e-3, 0]), 0.2)
    assert own.pretension == pytest.approx(3.0 + 0.2 * ROBOT.control.pretension_rate_n_per_s)
    loop.run(lambda _time_s: reference([1e-3, 0]), 1.0)
    assert loop.tension.min() == pytest.approx(least + 2.0, abs=0.01)
    np.testing.assert_allclose(loop.clarke, stood, atol=1e-7)
    with pytest.raises(ParameterError, match="pretension_n = -1"):
        own.ask_pretension(-1.0)
    with pytest.raises(ParameterError, match=r"control\.gains = 2 -- expected 1 entries"):
        own.set_settings(dataclasses.replace(ROBOT.control, gains=ROBOT.control.gains * 2))


def test_an_unknown_tension_leaves_the_observer_as_it_is():
    own = controller()
    loop = Loop(own)
    loop.run(lambda _time_s: reference([1e-3, 0]), 0.5)
    before = list(own.residual)
    unknown = dataclasses.replace(loop.measured(), tension_n=np.full(5, np.nan))
    assert np.isfinite(own.update(unknown, reference([1e-3, 0]), CYCLE_S)).all()
    np.testing.assert_array_equal(own.residual, before)


def test_a_robot_file_names_its_controller():
    model = dataclasses.replace(ROBOT, control=dataclasses.replace(ROBOT.control, law="inverse_dynamics"))
    mine = dataclasses.replace(ROBOT, control=dataclasses.replace(ROBOT.control, law="mine"))
    assert "mine is Python code" in mine.traits.without_compiled_cycle
    assert not model.traits.without_compiled_cycle
    plant = Plant(model, rng=np.random.default_rng(1))
    stack = VirtualStack(model, plant)
    try:
        stack.activate()
        stack.follow(lambda _time_s: reference([2e-3, 0]), 1.5)
        np.testing.assert_allclose(MANIFOLD.clarke(plant.displacement), [2e-3, 0], atol=1e-4)
        assert type(stack.controller).__name__ == InverseDynamicsController.__name__  # of the compiled cycle
    finally:
        stack.close()


def test_controllers_of_other_packages_are_found_by_their_entry_point(monkeypatch):
    class Entry:
        name = "mine"

        def load(self):
            return lambda robot: ("made for", robot.name)

    monkeypatch.setattr(doors, "entry_points", lambda group: [Entry()] if group == doors.CONTROLLERS else [])

    def law(name):
        return foreign_controller.foreign_law(
            dataclasses.replace(ROBOT, control=dataclasses.replace(ROBOT.control, law=name))
        )

    assert law("mine") == ("made for", ROBOT.name)
    with pytest.raises(ParameterError, match=r"control\.law = 'yours' -- expected one of pid, inverse_dynamics, mine"):
        law("yours")


def test_what_resists_by_the_past_of_the_motion_is_fed_forward():
    """There and back on ideal tensions: with the backbone's lag known it stays on the way, without it does not."""
    own = Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    lagging = SOFT.changed(segments=tuple(dataclasses.replace(one, hysteresis=own) for one in SOFT.segments))

    def swing(time_s):
        phase = math.pi * time_s
        return reference(
            [4e-3 * (1 - math.cos(phase)), 0],
            [4e-3 * math.pi * math.sin(phase), 0],
            [4e-3 * math.pi**2 * math.cos(phase), 0],
        )

    errors = {}
    for name, known in (("known", lagging), ("unknown", SOFT)):
        loop, found = Loop(controller(known, observer_rate_per_s=0.0), lagging), []
        for k in range(3000):
            loop.run(lambda _time_s, now_s=k * CYCLE_S: swing(now_s), CYCLE_S)
            found.append(loop.clarke - swing((k + 1) * CYCLE_S).position)
        errors[name] = np.abs(found[500:]).max()
    assert errors["unknown"] > 1e-4
    assert errors["known"] < 0.15 * errors["unknown"]


def test_the_observer_does_not_take_known_friction_for_a_disturbance():
    actuators = dataclasses.replace(ROBOT.actuators, coulomb_friction_nm=0.0015, friction_travel_m=2e-4)
    robot = ROBOT.changed(actuators=dataclasses.replace(actuators, viscous_friction_nms=0.0))
    own = controller(robot, observer_rate_per_s=30.0, friction=1.0)
    pull, tension = np.asarray(MANIFOLD.displacement_matrix), np.full(5, 3.0)
    own.reset(reading(np.zeros(5), np.zeros(5), tension), tension, reference([0, 0]))
    # Held after a way in one direction: tensions of the motors are the rod's and their friction.
    place, shape = np.array([4e-3, 0.0]), coefficients_from_clarke(ROBOT)
    model = Rod(MOTORLESS)
    for k in range(1500):
        at = place * min(1.0, (k + 1) / 500)
        rate = place / 0.5 if k < 500 else np.zeros(2)
        c, c_rate = shape @ at, shape @ rate
        rod = model.terms(c, c_rate).bias + model.arrays.stiffness @ c + model.arrays.damping @ c_rate
        force = shape.T @ rod + pull.T @ (np.sign(pull @ place) * robot.actuators.coulomb_n)
        held = np.linalg.pinv(pull.T) @ force + 10.0
        own.update(reading(pull @ at, pull @ rate, held), reference(at), CYCLE_S)
    assert np.abs(own.residual).max() < 0.05 * robot.actuators.coulomb_n


def test_gains_of_the_observer_and_the_friction_change_while_it_runs():
    own = controller(ROBOT, observer_rate_per_s=0.0, friction=0.0)
    moving = reference([1e-3, 0], [0.05, 0])
    state = reading(np.zeros(5), np.zeros(5), np.full(5, 3.0))

    def force():
        own.reset(state, np.full(5, 3.0), moving)
        own.step([1e-3, 0.0], [0.05, 0.0], [0.0, 0.0], [3.0] * 5, True, CYCLE_S)
        return np.array(own.terms().feedforward)

    without = force()
    settings = dataclasses.replace(ROBOT.control.inverse_dynamics, friction=1.0, observer_rate_per_s=10.0)
    own.set_settings(dataclasses.replace(ROBOT.control, inverse_dynamics=settings))
    dry = np.asarray(MANIFOLD.displacement_matrix).T @ (
        ROBOT.actuators.coulomb_n * np.tanh(MANIFOLD.displacement_matrix @ [0.05, 0.0] / 1e-3)
    )
    np.testing.assert_allclose(force() - without, dry, rtol=1e-12, atol=1e-12)
    assert own.observer_rate_per_s == 10.0


def test_a_state_that_no_model_can_have_leaves_the_observer_as_it_is():
    own = controller(ROBOT)
    state = reading(np.zeros(5), np.zeros(5), np.full(5, 3.0))
    own.reset(state, np.full(5, 3.0), reference([0, 0]))
    for _ in range(3):
        own.update(state, reference([0, 0]), CYCLE_S)
    before = list(own.residual)
    own.update(reading(np.full(5, 1e300), np.zeros(5), np.full(5, 3.0)), reference([0, 0]), CYCLE_S)
    np.testing.assert_array_equal(own.residual, before)


def test_an_observer_that_is_switched_off_and_on_again_leaves_no_jump():
    """What it held fades away, and it restarts where the robot is, not where it was left."""
    pushed = np.array([0.004, -0.002])
    own = controller(observer_rate_per_s=30.0)
    loop = Loop(own)
    loop.run(lambda _time_s: reference([2e-3, 1e-3]), 2.0, pushed)

    def switched(rate_per_s):
        settings = dataclasses.replace(SOFT.control.inverse_dynamics, observer_rate_per_s=rate_per_s)
        own.set_settings(dataclasses.replace(SOFT.control, inverse_dynamics=settings))

    def force(velocity):
        moved = np.asarray(MANIFOLD.displacement_matrix) @ velocity
        state = reading(loop.plant.rod_displacement, moved, loop.tension)
        own.update(state, reference([2e-3, 1e-3]), CYCLE_S)
        return np.array(own.force)

    held = np.array(own.residual)
    before = np.array(own.force)
    switched(0.0)
    loop.run(lambda _time_s: reference([2e-3, 1e-3]), CYCLE_S, pushed)
    np.testing.assert_allclose(own.force, before, atol=5e-3 * np.abs(held).max())
    np.testing.assert_array_equal(own.residual, 0.0)
    loop.run(lambda _time_s: reference([2e-3, 1e-3]), 3.0)
    np.testing.assert_allclose(own.terms().i_term, 0.0, atol=5e-3 * np.abs(held).max())
    fast = np.array([0.3, 0.0])
    without = force(fast)
    switched(30.0)
    np.testing.assert_allclose(force(fast), without, atol=5e-3 * np.abs(held).max())
