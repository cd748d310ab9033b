# SPDX-License-Identifier: Apache-2.0
"""The stack in virtual time that users test their own controllers in."""

from __future__ import annotations

import inspect
import textwrap

import numpy as np
import pytest

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.compilation import SWITCH
from continuum_robot.simulation.bodies.mechanisms import linked_tip
from continuum_robot.testing import DYNAMICS, WIRE, VirtualStack

ROBOT = load_robot("opencr_five_tendon")
GOAL_M = np.array([0.004, -0.002])


def to_goal(time_s):
    return ClarkeReference.at_rest(min(time_s / 0.4, 1.0) * GOAL_M)


def test_the_example_of_its_docstring_runs_and_finds_the_broken_tendon():
    example = inspect.getdoc(VirtualStack).partition("breaks::\n")[2]
    names = {}
    exec(textwrap.dedent(example), names)
    stack = names["stack"]
    assert [name for _, name in stack.faults] == ["inconsistent_displacement"]
    assert stack.state.safety == "safe"


@pytest.mark.parametrize("level", [DYNAMICS, WIRE])
def test_the_shipped_controller_brings_the_robot_to_its_reference(level):
    with VirtualStack(ROBOT, level=level) as stack:
        stack.activate()
        stack.follow(to_goal, 1.0)
        np.testing.assert_allclose(stack.state.clarke_m, GOAL_M, atol=3e-4)
        stack.deactivate()
        assert stack.state.safety == "inactive"


def test_both_forms_of_the_cycle_give_the_same_numbers_to_the_last_bit(monkeypatch):
    def run():
        rows = []
        with VirtualStack(ROBOT) as stack:
            stack.activate()
            stack.on_cycle = lambda seen: rows.append(seen.state.commanded.tobytes() + seen.state.force_n.tobytes())
            stack.follow(to_goal, 0.2)
            stack.inject("snapped_tendon", tendon=0)
            stack.run(0.2)
            return type(stack.loop.cycle).__module__, rows, stack.faults

    compiled = run()
    monkeypatch.setenv(SWITCH, "interpreted")
    interpreted = run()
    assert interpreted[0] == "continuum_robot.runtime.cycle.driver_cycle"
    if compiled[0] == interpreted[0]:
        pytest.skip("there is no compiled form here")
    assert compiled[1:] == interpreted[1:]
    assert compiled[2]


def test_the_same_seed_gives_the_same_numbers_and_every_cycle_is_seen():
    def run(seed):
        times = []
        with VirtualStack(ROBOT, seed=seed) as stack:
            stack.activate()
            stack.on_cycle = lambda seen: times.append(seen.state.time_s)
            stack.follow(to_goal, 0.2)
            return times, stack.state.commanded

    (times, first), (_, again), (_, other) = run(1), run(1), run(2)
    np.testing.assert_allclose(np.diff(times), 1e-3, rtol=1e-6)
    assert len(times) == 200
    assert (first == again).all()
    assert (first != other).any()


def test_a_stall_of_the_computer_latches_and_ends_the_motion():
    with VirtualStack(ROBOT) as stack:
        stack.activate()
        stack.follow(to_goal, 0.1)
        stack.stall(0.5)
        assert stack.run_until(lambda: stack.faults, 0.1)
        assert not stack.run_until(lambda: stack.state.safety == "active", 0.05)
        with pytest.raises(ContinuumRobotError, match="latched"):
            stack.follow(to_goal, 0.1)


@pytest.mark.parametrize("level", [DYNAMICS, WIRE])
def test_shape_and_contacts_are_estimated_beside_it(level):
    estimator = robot_model(ROBOT).shape_estimator(WatchSettings())
    with VirtualStack(ROBOT, level=level, estimator=estimator, monitor=ContactMonitor(ROBOT, motors=True)) as stack:
        stack.activate()
        stack.follow(to_goal, 1.0)
        true_m = linked_tip(ROBOT, stack.plant.linked)[:3, 3]
        np.testing.assert_allclose(stack.shape.tip[:3, 3], true_m, atol=2e-3)
        assert stack.contact is not None
        assert not stack.contact.in_contact


def test_arguments_that_exclude_each_other_are_refused():
    with pytest.raises(ParameterError, match="dynamics or wire"):
        VirtualStack(ROBOT, level="mirror")
    with pytest.raises(ParameterError, match="estimator"):
        VirtualStack(ROBOT, monitor=ContactMonitor(ROBOT, motors=True))
