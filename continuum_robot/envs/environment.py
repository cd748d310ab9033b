# SPDX-License-Identifier: Apache-2.0
"""The environments: a batch of robots for ``gymnasium.make_vec``, and a batch of one for ``gymnasium.make``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from continuum_robot.control.motion import LimitedMotion, motion_limits
from continuum_robot.control.observations import CLARKE, DISPLACEMENT, TENSION, observations
from continuum_robot.control.observations import action as action_of
from continuum_robot.envs.randomisation import Intervals, Randomisation
from continuum_robot.envs.stacks import Stacks
from continuum_robot.envs.tasks import TASKS, Task
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.assembly import cycle_period_s
from continuum_robot.simulation.truth import true_robot

Array = NDArray[np.float64]
Seen = dict[str, NDArray[np.float32]]

TRACKED = "tracked_tip"


class RobotVectorEnv(gymnasium.vector.VectorEnv[Seen, Array, Any]):
    """Robots at the same task, each under its own stack: driver, limits, controller and simulated devices.

    An action acts for ``period_s``. Action and limits are those of the real robot: a Clarke reference moves within the
    speed and acceleration of the robot's references, and is followed by the controller of its file; tensions and
    displacements pass the driver as those of another program do. A fault that latches ends the episode.

    Observations are what the simulated devices measure, with their noise, quantisation and delay, named as in
    docs/reference/topics.md, in SI units, float32.

    Parameters
    ----------
    task : name in :data:`TASKS`, or a class of your own
    robot : what driver and controller believe: a name, a file, or a loaded robot with actuators, limits and control
    num_envs : how many
    action : ``clarke``, or ``tension`` or ``displacement``, as the actuators take; values in [-1, 1] stand for the
        range in :func:`~continuum_robot.control.observations.action`
    observe : names of the observations; empty: all of the tendons, the Clarke coordinates and the task
    period_s : from one action to the next, a multiple of the driver's period, s
    delay_s : age of the observations when they are given, besides what the robot file says of its devices, s
    noise : standard deviations of Gaussian noise on observations by their names, in their units, besides that of the
        simulated devices
    episode_s : after which time an episode is truncated, s; None: the task's
    truth : file of the simulated robot; empty: that of the robot file, or the robot itself
    randomise : keys of the true robot's file to (low, high), drawn anew for each episode; the controller does not know
    redraw_every : in how many episodes one drawn robot lives
    threads : for the simulation; None: one a processor
    autoreset_mode : "NextStep" or "SameStep", as of :class:`gymnasium.vector.AutoresetMode`
    render_mode : None or ``rgb_array``

    Attributes
    ----------
    task : the running :class:`Task`
    done : (num_envs,) whose episode has ended
    scales : of each observation, (size,): values divided by it are about within [-1, 1]
    act : the action in SI units, an :class:`~continuum_robot.control.observations.Action`

    Raises
    ------
    ParameterError : an argument that is not allowed, or a robot for which the task makes no sense
    RobotFileError : a robot file that cannot be used
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        task: str | type[Task] = "Reach",
        robot: str | Path | Robot = "opencr_five_tendon",
        num_envs: int = 1,
        *,
        action: str = CLARKE,
        observe: Sequence[str] = (),
        period_s: float = 0.02,
        delay_s: float = 0.0,
        noise: Mapping[str, float] | None = None,
        episode_s: float | None = None,
        truth: str = "",
        randomise: Intervals | None = None,
        redraw_every: int = 1,
        threads: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ParameterError("render_mode", render_mode, "rgb_array or None")
        self.robot = robot if isinstance(robot, Robot) else load_robot(robot)
        if self.robot.control is not None and self.robot.control.policy is not None:
            raise ParameterError("robot.control.policy", self.robot.name, "a robot without one: actions lead it here")
        self.act = action_of(self.robot, action)
        self._check_times(period_s, delay_s)
        self.task = _task(task)(self.robot, num_envs, period_s)
        episode_s = self.task.episode_s if episode_s is None else episode_s
        if not period_s <= episode_s < math.inf:
            raise ParameterError("episode_s", episode_s, f"a time in s, at least period_s = {period_s:g} s")
        self._last = round(episode_s / period_s)
        self._randomisation = Randomisation(true_robot(self.robot, truth), randomise or {})
        if redraw_every < 1:
            raise ParameterError("redraw_every", redraw_every, "a number of episodes, at least 1")
        self._redraw_every = redraw_every
        modes = {one.value: one for one in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)}
        mode = modes.get(getattr(autoreset_mode, "value", autoreset_mode))
        if mode is None:
            raise ParameterError("autoreset_mode", autoreset_mode, " or ".join(modes))
        self.metadata = {**self.metadata, "autoreset_mode": mode, "render_fps": round(1 / period_s)}
        self._stacks = Stacks(self.robot, num_envs, threads or os.cpu_count() or 1)
        self._prepare_observations(observe, dict(noise or {}))
        size = self.act.size
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._motion = LimitedMotion(motion_limits(self.robot), np.zeros((num_envs, self.robot.coordinate_count)))
        self._manifold = controlled_manifold(self.robot)
        self.generators: list[np.random.Generator | None] = [None] * num_envs
        self._truths: list[Robot | None] = [None] * num_envs
        self._tips = np.full((num_envs, 3), np.nan)
        self._episodes, self._steps = np.zeros((2, num_envs), dtype=int)
        self.done = np.ones(num_envs, dtype=bool)

    def _check_times(self, period_s: float, delay_s: float) -> None:
        cycle_s = cycle_period_s(self.robot)
        for name, value, least_s in (("period_s", period_s, cycle_s), ("delay_s", delay_s, 0.0)):
            cycles = value / cycle_s if math.isfinite(value) else math.nan
            if not (value >= least_s and abs(cycles - round(cycles)) < 1e-6):
                expected = f"a multiple of the driver's period, {cycle_s:g} s, at least {least_s:g} s"
                raise ParameterError(name, value, expected)
        self.period_s, cycles = period_s, round(period_s / cycle_s)
        late = round(delay_s / cycle_s)
        self._measured_at = cycles - late % cycles
        self._edges = sorted({0, self._measured_at, cycles})
        self._history: list[Seen] = [{} for _ in range(1 + late // cycles)]

    def _prepare_observations(self, observe: Sequence[str], noise: dict[str, float]) -> None:
        row, clarke = self._stacks.row, self.act.name == CLARKE
        command = f"tendon_commands.{DISPLACEMENT if self.robot.takes_displacements else TENSION}"
        rows = {f"tendon_states.{name}": getattr(row, name) for name in ("displacement", "velocity", "tension")}
        self._in_rows = {**rows, command: row.commanded}
        self._in_coordinates = {"clarke_state.position": row.displacement, "clarke_state.velocity": row.velocity}
        asked = ("clarke_reference.position", "clarke_reference.velocity") if clarke else (command,)
        robots = observations(self.robot)
        usual = {name: robots[name] for name in (*rows, *self._in_coordinates, *asked)} | self.task.own
        known = usual | {name: robots[name] for name in (command, TRACKED)}
        for name in observe:
            if name not in known:
                raise ParameterError("observe", name, f"of observations here: {', '.join(known)}")
        self.observed = {name: known[name] for name in sorted(observe or usual)}  # as in gymnasium's spaces
        for name, size in noise.items():
            if name not in self.observed or not 0 <= size < math.inf:
                raise ParameterError(f"noise[{name!r}]", size, f"a standard deviation of {', '.join(self.observed)}")
        self._noise = noise
        self.scales = {name: one.scale.astype(np.float32) for name, one in self.observed.items()}
        spaces: dict[str, Any] = {
            name: gymnasium.spaces.Box(-np.inf, np.inf, (one.size,), np.float32) for name, one in self.observed.items()
        }
        self.single_observation_space = gymnasium.spaces.Dict(spaces)
        measured = {*self._in_rows, *self._in_coordinates, TRACKED, *self.task.measured} - {command}
        self._measured = [name for name in self.observed if name in measured]

    # --- gymnasium's methods

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode of every robot.

        Parameters
        ----------
        seed : robot i draws all that it draws from ``seed + i``, or from the i-th of a sequence, whatever the others
            do; None: the generators go on
        options : none
        """
        if options:
            raise ParameterError("options", options, "none: what an episode is like is an argument of the environment")
        everyone = range(self.num_envs)
        given = (
            seed if isinstance(seed, (Sequence, np.ndarray)) else [None if seed is None else seed + k for k in everyone]
        )
        if len(given) != self.num_envs:
            raise ParameterError("seed", seed, f"a number, or {self.num_envs} of them")
        for index, own in enumerate(given):
            if own is not None or self.generators[index] is None:
                self.take_generator(index, seeding.np_random(None if own is None else int(own))[0])
        self._begin(everyone)
        return self._seen(everyone), self._told()

    def take_generator(self, index: int, rng: np.random.Generator) -> None:
        """Let one robot draw from another generator from its next episode on."""
        self.generators[index], self._episodes[index] = rng, 0

    def step(self, actions: Array) -> tuple[Seen, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Let all robots follow an action each, (num_envs, size), for a period."""
        given = np.asarray(actions, float)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            raise ParameterError("actions", actions, f"finite values of the shape {self.action_space.shape}")
        same_step = self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        begun, going = np.flatnonzero(self.done).tolist(), np.flatnonzero(~self.done).tolist()
        self._begin(begun)
        self._advance(going, self.act.to_si(np.clip(given, -1.0, 1.0)))
        rewards, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        faults = np.full(self.num_envs, None, dtype=object)
        rewards[going] = self.task.rewards(self._tips, self._stacks, going)[going]
        for index, fault in self._stacks.faults().items():
            faults[index], terminated[index] = fault, index in going
        truncated = (self._steps >= self._last) & ~terminated
        truncated[begun] = False
        self.done = terminated | truncated
        told = self._told()
        if terminated.any():
            told |= {"fault": faults, "_fault": terminated.copy()}
        seen = self._seen(range(self.num_envs))
        if same_step and self.done.any():
            told = self._begin_at_once(seen, told)
        return seen, rewards, terminated, truncated, told

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture of each robot with its goal, (480, 480, 3)."""
        if self.render_mode is None:
            return None
        try:
            from continuum_robot.envs.picture import picture  # noqa: PLC0415 - matplotlib is of the extra app
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        length_m, task = self.robot.length_m, self.task
        return tuple(
            picture(self._stacks.geometry(index), length_m, task.goals[index], task.things(index))
            for index in range(self.num_envs)
        )

    def close_extras(self, **_kwargs: Any) -> None:
        """End the stacks."""
        self._stacks.close()

    # --- what happens in them

    def _begin(self, indices: Sequence[int]) -> None:
        """Begin episodes."""
        if not indices:
            return
        for index in indices:
            rng = self.generators[index]
            if rng is None:
                raise gymnasium.error.ResetNeeded("Call reset() before step()")
            truth = self._truths[index]
            if truth is None or self._episodes[index] % self._redraw_every == 0:
                truth = self._truths[index] = self._randomisation.drawn(rng)
            self._episodes[index] += 1
            contacts = self.task.draw(index, rng)
            self._stacks.begin(index, truth, int(rng.integers(2**31)), contacts)
        self._tips = self._stacks.tips()
        led = self._motion.reference
        led.position[indices] = self._coordinates(self._stacks.rows[:, self._stacks.row.displacement])[indices]
        led.velocity[indices] = 0.0
        self._motion.reset(led.position, led.velocity)
        self._steps[indices], self.done[indices] = 0, False
        now = self._measure()
        for before in self._history:
            for name, values in now.items():
                before.setdefault(name, values.copy())[indices] = values[indices]

    def _advance(self, indices: Sequence[int], goals: Array) -> None:
        """Let robots move for a period towards goals, (num_envs, size), in SI units."""
        self._steps[indices] += 1
        stacks = self._stacks
        if type(self.task).act is not Task.act:
            for index in indices:
                self.task.act(index, stacks, self._steps[index] * self.period_s)
        if self.act.name == CLARKE:
            position = self._motion.reference.position
            position[indices] = goals[indices]
            led = self._motion.towards(position, self.period_s)
            stacks.follow(led.position - self.period_s * led.velocity, led.velocity)
        else:
            stacks.obey(goals)
        which = np.zeros(self.num_envs, dtype=bool)
        which[indices] = True
        for begin, end in pairwise(self._edges):
            stacks.run((end - begin) * stacks.period_s, which)
            if end == self._edges[-1] or (end == self._measured_at and TRACKED in self._measured):
                self._tips = stacks.tips()
            if end == self._measured_at:
                self._history = [*self._history[1:], self._measure()]

    def _coordinates(self, of_tendons: Array) -> Array:
        """Clarke coordinates of (num_envs, N); no product of matrices, whose bits depend on the number of rows."""
        return np.asarray((of_tendons[:, None, :] * self._manifold.clarke_matrix).sum(axis=-1))

    def _measure(self) -> Seen:
        """What the sensors of all robots see now."""
        rows, found = self._stacks.rows, {}
        for name in self._measured:
            if name in self._in_rows:
                found[name] = rows[:, self._in_rows[name]].astype(np.float32)
            elif name in self._in_coordinates:
                found[name] = self._coordinates(rows[:, self._in_coordinates[name]]).astype(np.float32)
            else:
                found[name] = (self._tips if name == TRACKED else self.task.seen(name, self._stacks)).astype(np.float32)
        return found

    def _seen(self, noisy: Sequence[int]) -> Seen:
        """The observations of all robots; noise is drawn for some."""
        found, led = {}, self._motion.reference
        for name in self.observed:
            if name in self._history[0]:
                found[name] = self._history[0][name].copy()
            elif name in self._in_rows:
                found[name] = self._stacks.rows[:, self._in_rows[name]].astype(np.float32)
            elif name.startswith("clarke_reference."):
                found[name] = getattr(led, name.partition(".")[2]).astype(np.float32)
            else:
                found[name] = self.task.seen(name, self._stacks).astype(np.float32)
        for name, size in self._noise.items():
            for index in noisy:
                rng = self.generators[index]
                assert rng is not None, "reset() has made it"
                found[name][index] += size * rng.standard_normal(self.observed[name].size)
        return found

    def _told(self) -> dict[str, Any]:
        known = np.ones(self.num_envs, dtype=bool)
        distance = self.task.distances(self._tips)
        return {"tip": self._tips.copy(), "_tip": known, "distance": distance, "_distance": known.copy()}

    def _begin_at_once(self, seen: Seen, told: dict[str, Any]) -> dict[str, Any]:
        """In the mode SameStep: begin again where an episode is done. Puts what is seen then in the place of what was
        seen last; what is told of both.
        """
        done, indices = self.done.copy(), np.flatnonzero(self.done).tolist()
        last = np.full(self.num_envs, None, dtype=object)
        for index in indices:
            last[index] = {name: values[index].copy() for name, values in seen.items()}
        final = {name: values & done if name.startswith("_") else values for name, values in told.items()}
        self._begin(indices)
        for name, values in self._seen(indices).items():
            seen[name][indices] = values[indices]
        return self._told() | {"final_obs": last, "_final_obs": done, "final_info": final, "_final_info": done.copy()}


class RobotEnv(gymnasium.Env[Seen, Array]):
    """A batch of one: arguments, attributes and errors as of :class:`RobotVectorEnv`, without ``num_envs``."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, task: str | type[Task] = "Reach", **options: Any) -> None:
        self.batch = RobotVectorEnv(task, num_envs=1, **options)
        batch = self.batch
        self.metadata = {**self.metadata, "render_fps": batch.metadata["render_fps"]}
        self.observation_space, self.action_space = batch.single_observation_space, batch.single_action_space
        self.task, self.robot, self.act, self.scales = batch.task, batch.robot, batch.act, batch.scales
        self.render_mode = batch.render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode; arguments as of :meth:`RobotVectorEnv.reset`."""
        super().reset(seed=seed)
        if seed is not None or self.batch.generators[0] is None:
            self.batch.take_generator(0, self.np_random)
        seen, told = self.batch.reset(options=options)
        return _first(seen), _first_told(told)

    def step(self, action: Array) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Follow an action, (size,), for a period."""
        if self.batch.done[0]:
            raise gymnasium.error.ResetNeeded("Call reset() before step()")
        seen, reward, terminated, truncated, told = self.batch.step(np.asarray(action)[None, :])
        return _first(seen), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _first_told(told)

    def render(self) -> Any:
        """A picture of the robot with its goal, (480, 480, 3); None without ``render_mode``."""
        pictures = self.batch.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """End the stack."""
        self.batch.close()


def _first(seen: Seen) -> Seen:
    return {name: values[0] for name, values in seen.items()}


def _first_told(told: dict[str, Any]) -> dict[str, Any]:
    return {name: values[0] for name, values in told.items() if not name.startswith("_")}


def _task(task: str | type[Task]) -> type[Task]:
    if not isinstance(task, str):
        return task
    if task not in TASKS:
        raise ParameterError("task", task, f"one of {', '.join(TASKS)}, or a class of your own")
    return TASKS[task]
