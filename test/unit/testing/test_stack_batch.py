# SPDX-License-Identifier: Apache-2.0
"""Stacks whose cycles run compiled alone: the same numbers, to the last bit, as cycle by cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.runtime.cycle.forms import compiled_form
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing import WIRE, StackBatch, SteadyReference, VirtualStack

ROBOT = load_robot("opencr_five_tendon")
ZERO, GOAL_M = np.zeros(2), np.array([0.004, -0.002])
COMPILED = compiled_form().compiled


def wired(**errors):
    return replace(ROBOT, simulation=replace(ROBOT.simulation, wiring_errors=WiringErrors(**errors)))


def seen(stack):
    plant, loop = stack.plant, stack.loop
    numbers = stack.newest_row, stack.now_s, loop.cycle.failures, loop.rows_lost, stack.faults
    return repr((*numbers, plant.state, plant.limited, plant.tension, stack.actuators.read(stack.now_s)))


def follows(stack):
    stack.follow(SteadyReference(ZERO, GOAL_M / 0.2), 0.2)
    stack.follow(SteadyReference(GOAL_M, ZERO))
    stack.run(0.05)


def obeys(stack):
    stack.command(np.full(5, 4.0))
    stack.run(0.05)
    stack.command(None)
    stack.run(0.05)


def reads_late(stack):
    stack.run(0.05)
    stack.inject("delay_readings", magnitude=0.02, duration_s=0.01)
    stack.run(0.05)


def breaks(stack):
    stack.follow(SteadyReference(ZERO, GOAL_M / 0.1))
    stack.run(0.05)
    stack.inject("snapped_tendon", tendon=0)
    stack.run(0.1)
    stack.inject("")
    stack.run(0.05)


def goes_too_far(stack):
    stack.follow(SteadyReference(ZERO, GOAL_M / 0.01))
    stack.run(0.2)


@pytest.mark.skipif(not COMPILED, reason="there is no compiled form here")
@pytest.mark.parametrize(
    ("robot", "story"),
    [
        (ROBOT, follows),
        (ROBOT, obeys),
        (ROBOT, reads_late),
        (ROBOT, breaks),
        (ROBOT, goes_too_far),
        (wired(slack_m=(3e-4, 0, 0, 1e-4, 0), current_gain=(1.1, 1, 0.9, 1, 1)), follows),
        (wired(pulls_tendon=(2, 1, 3, 4, 5), polarity=(1, 1, 1, 1, -1), current_offset_a=(0.01, 0, 0, 0, 0.02)), obeys),
    ],
)
def test_cycles_that_run_free_give_the_same_bits(robot, story):
    def run(stack):
        stack.activate(take_up=False)
        story(stack)
        return seen(stack)

    with VirtualStack(robot, believed=ROBOT) as free, VirtualStack(robot, believed=ROBOT) as stepped:
        freed, run_free = [], free.free_run.run
        free.free_run.run = lambda count: freed.append(run_free(count)) or freed[-1]
        stepped.free_run = None
        assert run(free) == run(stepped)
        assert sum(freed) > 50


def test_a_restart_is_a_new_stack_to_the_last_bit():
    def run(stack):
        stack.activate()
        follows(stack)
        return seen(stack)

    other = wired(slack_m=(3e-4, 0, 0, 1e-4, 0))
    with VirtualStack(ROBOT, seed=5) as stack:
        first = run(stack)
        stack.inject("snapped_tendon", tendon=0)
        stack.run(0.1)
        assert stack.faults
        stack.restart(6)
        second = run(stack)
        stack.restart(5, other)
        stack.restart(5, ROBOT)
        assert run(stack) == first != second
    with pytest.raises(ParameterError, match="new VirtualStack"):
        VirtualStack(ROBOT, Plant(ROBOT)).restart(1)
    with pytest.raises(ParameterError, match="new VirtualStack"):
        VirtualStack(ROBOT, level=WIRE).restart(1)


def test_a_batch_gives_each_stack_the_numbers_that_it_has_alone_for_any_number_of_threads():
    rng = np.random.default_rng(3)
    goals_m = rng.uniform(-0.004, 0.004, (4, 3, 2))

    def made(seed):
        stack = VirtualStack(ROBOT, seed=seed)
        stack.activate(take_up=False)
        return stack

    def together(threads):
        with StackBatch([made(seed) for seed in range(3)], threads) as batch:
            before = np.zeros((3, 2))
            for goal in goals_m:
                batch.follow(before, (goal - before) / 0.02)
                batch.run(0.02)
                before = goal
            batch.release(np.array([False, True, False]))
            batch.stacks[1].inject("snapped_tendon", tendon=0)
            batch.run(0.03)
            batch.obey(np.full((3, 5), 4.0))
            batch.run(0.02, np.array([True, True, False]))
            rows, strains = batch.rows.copy(), batch.strains.copy()
        return rows, strains, [seen(stack) for stack in batch.stacks]

    def alone(seed):
        stack, before = made(seed), np.zeros(2)
        for goal in goals_m[:, seed]:
            stack.follow(SteadyReference(before, (goal - before) / 0.02))
            stack.run(0.02)
            before = goal
        if seed == 1:
            stack.inject("snapped_tendon", tendon=0)
        stack.run(0.03)
        if seed < 2:
            stack.command(np.full(5, 4.0))
            stack.run(0.02)
        else:
            stack.command(np.full(5, 4.0))
        return seen(stack)

    one, three = together(1), together(3)
    assert [array.tobytes() for array in one[:2]] == [array.tobytes() for array in three[:2]]
    assert one[2] == three[2] == [alone(seed) for seed in range(3)]


@pytest.mark.parametrize("name", ["three_segment_servo", "rolling_five_link"])
def test_a_batch_of_robots_that_need_python_runs_them_cycle_by_cycle(name):
    robot = load_robot(name)

    def made(seed):
        stack = VirtualStack(robot, seed=seed)
        stack.activate(take_up=False)
        return stack

    goal_m = np.full((1, robot.coordinate_count), 1e-3)
    with StackBatch([made(4)]) as batch:
        batch.follow(0 * goal_m, goal_m / 0.1)
        batch.run(0.1)
    alone = made(4)
    alone.follow(SteadyReference(0 * goal_m[0], goal_m[0] / 0.1))
    alone.run(0.1)
    np.testing.assert_array_equal(batch.rows[0], alone.newest_row)
    assert np.isnan(batch.strains).all() == (alone.plant is None)


def test_what_a_batch_is_made_of_is_checked():
    with pytest.raises(ParameterError, match="one or more, of robots"):
        StackBatch([])
    with pytest.raises(ParameterError, match="threads"):
        StackBatch([VirtualStack(ROBOT)], threads=0)
    with pytest.raises(ParameterError, match="5 values"):
        VirtualStack(ROBOT).command(np.zeros(4))
