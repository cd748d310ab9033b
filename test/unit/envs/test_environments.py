# SPDX-License-Identifier: Apache-2.0
"""Environments of gymnasium: their interface, their seeds, their robots and what they refuse."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="the extra learn is not installed")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from continuum_robot.envs import TASKS, RobotEnv, RobotVectorEnv  # noqa: E402
from continuum_robot.errors import ParameterError  # noqa: E402
from continuum_robot.experiments.learn.speed import speed  # noqa: E402

ROBOT = "opencr_five_tendon"
SHORT = {"robot": ROBOT, "episode_s": 0.06}


@contextmanager
def closing(envs: Any) -> Iterator[Any]:
    try:
        yield envs
    finally:
        envs.close()


def played(envs: Any, seed: Any, actions: np.ndarray) -> list[bytes]:
    """What each robot saw and got, as bytes."""
    seen, _ = envs.reset(seed=seed)
    told: list[list[bytes]] = [[one[k].tobytes() for one in seen.values()] for k in range(actions.shape[1])]
    for action in actions:
        seen, *rest, _ = envs.step(action)
        for k, kept in enumerate(told):
            kept += [one[k].tobytes() for one in (*seen.values(), *rest)]
    return [b"".join(kept) for kept in told]


def some_actions(steps: int, robots: int, size: int = 2) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (steps, robots, size)).astype(np.float32)


def test_gymnasiums_checker_finds_nothing() -> None:
    with closing(gymnasium.make("continuum_robot/Reach-v0", **SHORT)) as env, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Observations have no bounds: what a device measures is given as it is.
        warnings.filterwarnings("ignore", ".*infinity. This is probably too")
        check_env(env.unwrapped, skip_render_check=True)


def test_the_bytes_are_of_the_seed_alone() -> None:
    """Not of the threads, the other robots, or the way in which gymnasium runs many; over ends of episodes."""
    actions = some_actions(9, 3)
    found = []
    for options in ({"threads": 1}, {"threads": 2}, {"vectorization_mode": "sync"}):
        with closing(gymnasium.make_vec("continuum_robot/Reach-v0", num_envs=3, **SHORT, **options)) as envs:
            found.append(played(envs, 5, actions))
            if "threads" in options:
                assert played(envs, 5, actions) == found[-1], "a reset is exact"
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 3
    with closing(RobotVectorEnv(num_envs=2, **SHORT)) as envs:
        assert played(envs, [7, 5], actions[:, [2, 0]]) == [found[0][2], found[0][0]]


@pytest.mark.parametrize("task", TASKS)
def test_every_task(task: str) -> None:
    with closing(gymnasium.make_vec(f"continuum_robot/{task}-v0", num_envs=2, **SHORT)) as envs:
        seen, told = envs.reset(seed=3)
        for action in some_actions(3, 2):
            assert seen in envs.observation_space
            assert all(np.isfinite(values).all() for values in seen.values())
            before = told["distance"]
            seen, rewards, terminated, truncated, told = envs.step(action)
            assert ((rewards >= 0) & (rewards <= 1)).all()
            assert not terminated.any()
            np.testing.assert_allclose(told["distance"], before, atol=5e-3)
        assert truncated.all()
        seen, rewards, _, truncated, _ = envs.step(action)
        assert not truncated.any(), "episodes have begun again"
        assert not rewards.any()


@pytest.mark.parametrize("task", ["Hold", "Press", "Obstacle", "Insert"])
def test_nothing_touches_a_mechanism(task: str) -> None:
    with pytest.raises(ParameterError, match="a rod for the task"):
        RobotEnv(task, robot="rolling_five_link")


@pytest.mark.parametrize(
    ("robot", "action"),
    [
        ("opencr_five_tendon", "tension"),
        ("three_segment_servo", "clarke"),
        ("three_segment_servo", "displacement"),
        ("rolling_five_link", "clarke"),
        ("crem_segment", "tension"),
    ],
)
def test_every_kind_of_robot_and_action(robot: str, action: str) -> None:
    with closing(RobotEnv(robot=robot, action=action)) as env:
        _, told = env.reset(seed=1)
        start = told["tip"]
        for _ in range(10):
            seen, *_, told = env.step(np.linspace(0.2, 1.0, env.act.size, dtype=np.float32))
        assert np.linalg.norm(told["tip"] - start) > 2e-5, "it moves"
        assert "fault" not in told
        written = f"tendon_commands.{'displacement' if robot == 'three_segment_servo' else 'tension'}"
        assert (written in seen) == (action != "clarke")


def test_the_tip_comes_where_the_action_puts_it() -> None:
    with closing(RobotEnv(robot=ROBOT)) as env:
        env.reset(seed=2)
        goal = np.array([0.003, -0.002])
        for _ in range(60):
            seen, *_, told = env.step(env.act.from_si(goal))
        np.testing.assert_allclose(seen["clarke_reference.position"], goal, atol=1e-6)
        np.testing.assert_allclose(seen["clarke_state.position"], goal, atol=2e-4)
        np.testing.assert_allclose(told["tip"], env.task.tip(goal), atol=2e-3)
        state = env.batch._stacks.stacks[0]
        env.batch._stacks.release()
        np.testing.assert_allclose(seen["clarke_state.position"], state.state.clarke_m, rtol=1e-6)
        np.testing.assert_allclose(told["tip"], state.plant.pose(state.plant.robot.length_m)[:3, 3], atol=1e-12)


def test_each_episode_has_a_robot_of_its_own() -> None:
    drawn = {
        "segments[0].backbone.youngs_modulus_pa": (40e9, 80e9),
        "segments[0].length_m": (0.2, 0.21),
        "simulation.wiring_errors.slack_m": (0.0, 0.001),
        "actuators.encoder_counts_per_turn": (10000, 20000),
    }
    with closing(RobotVectorEnv(num_envs=2, randomise=drawn, redraw_every=2, **SHORT)) as envs:

        def truths() -> list[Any]:
            envs._stacks.release()
            return [stack.plant.robot for stack in envs._stacks.stacks]

        envs.reset(seed=4)
        first = truths()
        for truth in first:
            assert 40e9 < truth.segments[0].backbone.youngs_modulus_pa < 80e9
            slack_m = truth.simulation.wiring_errors.slack_m
            assert len(set(slack_m)) == 5
            assert 0 < min(slack_m) <= max(slack_m) < 0.001
            assert 10000 <= truth.actuators.encoder_counts_per_turn <= 20000
        assert first[0].segments != first[1].segments
        assert {stack.robot.segments for stack in envs._stacks.stacks} == {envs.robot.segments}
        _, told = envs.reset()
        assert truths() == first
        poses = [stack.plant.pose(stack.plant.robot.length_m) for stack in envs._stacks.stacks]
        np.testing.assert_allclose(told["tip"], np.array(poses)[:, :3, 3], atol=1e-12)
        envs.reset()
        assert truths()[0].segments != first[0].segments
        envs.reset(seed=4)
        assert truths() == first


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"randomise": {"segments[0].youngs": (1, 2)}}, "segments.0..youngs.*dotted key of a number"),
        ({"randomise": {"name": (1, 2)}}, "dotted key of a number"),
        ({"randomise": {"segments[0].length_m": (2, 1)}}, "first at most as large"),
        ({"randomise": {"segments[0].length_m": (-1, 1)}}, "ends that the robot's file allows"),
        ({"observe": ["shape"]}, "observations here: tendon_states.displacement"),
        ({"noise": {"tracked_tip": 1e-3}}, "a standard deviation of"),
        ({"action": "displacement"}, "clarke or tension"),
        ({"period_s": 0.0005}, "a multiple of the driver's period"),
        ({"delay_s": -0.001}, "a multiple of the driver's period"),
        ({"redraw_every": 0}, "at least 1"),
        ({"episode_s": 0.0}, "at least period_s"),
        ({"task": "Dance"}, "Reach, FollowPath, Hold, Press, Obstacle, Insert"),
        ({"render_mode": "human"}, "rgb_array"),
        ({"autoreset_mode": "Disabled"}, "NextStep or SameStep"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RobotEnv(**{"robot": ROBOT, **options})


def test_a_fault_ends_the_episode() -> None:
    with closing(RobotVectorEnv(num_envs=2, robot=ROBOT)) as envs:
        envs.reset(seed=1)
        envs._stacks.release()
        envs._stacks.stacks[1].inject("device_fault", tendon=0)
        _, rewards, terminated, truncated, told = envs.step(np.zeros((2, 2)))
        assert terminated.tolist() == [False, True]
        assert not truncated.any()
        assert told["fault"][1].startswith("device_fault")
        assert told["_fault"].tolist() == [False, True]
        _, rewards, terminated, _, told = envs.step(np.zeros((2, 2)))
        assert not terminated.any(), "it has begun again"
        assert rewards[0] > 0
        assert rewards[1] == 0


def test_observations_are_late_and_noisy_as_asked() -> None:
    names = ["tendon_states.displacement", "clarke_state.velocity", "tracked_tip", "tip_target"]
    kinds: list[dict[str, Any]] = [
        {"period_s": 0.005},
        {"delay_s": 0.025},
        {"noise": {"tracked_tip": 0.5, "tip_target": 0.5}},
    ]
    seen = []
    for kind in kinds:
        with closing(RobotEnv(robot=ROBOT, action="tension", observe=names, **kind)) as env:
            steps = 12 if "period_s" in kind else 3
            env.reset(seed=1)
            seen.append([env.step(np.linspace(-0.9, -0.5, 5))[0] for _ in range(steps)])
    every_5_ms, late, noisy = seen
    for name in names:  # after 60 ms as it was after 35 ms
        np.testing.assert_array_equal(late[-1][name], every_5_ms[6][name])
    for name in names[:2]:
        np.testing.assert_array_equal(noisy[-1][name], every_5_ms[11][name])
    for name in names[2:]:
        assert 0.01 < np.linalg.norm(noisy[-1][name] - every_5_ms[11][name]) < 3


def test_episodes_begin_in_the_same_step_where_asked() -> None:
    actions = some_actions(3, 2)
    options = {**SHORT, "episode_s": 0.04, "noise": {"tip_target": 0.1}}
    with (
        closing(RobotVectorEnv(num_envs=2, **options)) as envs,
        closing(RobotVectorEnv(num_envs=2, autoreset_mode="SameStep", **options)) as same,
    ):
        envs.reset(seed=1), same.reset(seed=1)
        for action in actions[:2]:
            last, _, _, truncated, told = envs.step(action)
            first, _, _, also_truncated, also_told = same.step(action)
        assert truncated.all()
        assert also_truncated.all()
        after, *_ = envs.step(actions[2])
        for name, values in last.items():
            np.testing.assert_array_equal(also_told["final_obs"][1][name], values[1])
            np.testing.assert_array_equal(first[name], after[name])
        np.testing.assert_array_equal(also_told["final_info"]["tip"], told["tip"])


def test_a_picture() -> None:
    with closing(RobotEnv("Obstacle", robot=ROBOT, render_mode="rgb_array")) as env:
        env.reset(seed=1)
        picture = env.render()
        assert picture.shape == (480, 480, 3)
        assert picture.dtype == np.uint8
        assert len(np.unique(picture)) > 10


def test_the_experiment_measures_a_robot() -> None:
    """The numbers are of the machine; that they belong together is not."""
    found = speed.run({"robots": ROBOT, "num_envs": 2, "seconds": 0.05, "tasks": False})
    assert found["num_envs"][ROBOT] == 2
    assert found["times_real_time"] == pytest.approx(1e-3 * found["steps_per_second"][ROBOT])
    parts = ("plant_alone", "devices_driver_controller", "wrapper")
    parts_us = sum(found[f"{part}_us_per_step"][ROBOT] for part in parts)
    assert found["processor_us_per_step"][ROBOT] == pytest.approx(parts_us)
