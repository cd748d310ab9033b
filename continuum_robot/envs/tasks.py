# SPDX-License-Identifier: Apache-2.0
"""The tasks: what an episode asks for, what is seen of that, and what it is worth.

Rewards are computed from the truth, the simulated robot itself, and lie between 0 and 1 for an action, so that an
episode that a fault ends is worth less than one that goes on. In the formulas d is the distance of the true tip from
its goal, L the length of the robot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.motion import reach
from continuum_robot.control.observations import Observation, observations
from continuum_robot.envs.stacks import Stacks
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.contact import Contact

Array = NDArray[np.float64]

NEARNESS = 5.0
"""A reward for nearness falls by a factor e with every fifth of the robot's length."""


class Task:
    """What a batch of episodes asks for. Arrays have a row a robot.

    Parameters
    ----------
    robot : as its controller believes it
    count : how many robots

    Attributes
    ----------
    episode_s : usual length of an episode, s
    own : observations that it adds, by name, besides those of the robot
    measured : those of them that sensors give, which are late as all of these
    goals : where the tip shall be, (count, 3), base frame, m

    Raises
    ------
    ParameterError : a robot for which the task makes no sense
    """

    episode_s = 4.0
    measured: tuple[str, ...] = ()
    own: dict[str, Observation]

    def __init__(self, robot: Robot, count: int) -> None:
        self.robot, self.goals = robot, np.full((count, 3), np.nan)
        self.low, self.high = reach(robot)
        self._drawing = robot_model(robot).drawing()
        self.own = {"tip_target": observations(robot)["tip_target"]}

    def tip(self, clarke: Array) -> Array:
        """Where the tip of the unloaded robot is at Clarke coordinates, (n,), m; (3,), base frame, m."""
        return self._drawing.pose(self._drawing.coefficients(clarke), self.robot.length_m)[:3, 3]

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw an episode of one robot; what touches it there."""
        raise NotImplementedError

    def act(self, index: int, stacks: Stacks, time_s: float) -> None:
        """Do to one robot what an action meets with that ends at a time of its episode, s."""

    def seen(self, name: str) -> Array:
        """One of its :attr:`own` observations, (count, size)."""
        return {"tip_target": self.goals}[name]

    def rewards(self, tips: Array, stacks: Stacks, indices: Sequence[int]) -> Array:
        """What the newest action was worth, (count,); of robots but ``indices`` it does not count.

        Parameters
        ----------
        tips : true places of the tips, (count, 3), base frame, m
        """
        del stacks, indices
        return np.exp(-NEARNESS * self.distances(tips) / self.robot.length_m)

    def things(self, index: int) -> tuple[Array, ...]:
        """What a picture shows besides robot and goal: paths, each (points, 3), base frame, m."""
        del index
        return ()

    def distances(self, tips: Array) -> Array:
        """Of the tips (count, 3) from their goals, (count,), m."""
        return np.sqrt(((tips - self.goals) ** 2).sum(axis=1))


class Reach(Task):
    """Bring the tip to a place and hold it there.

    The goal is where the tip of the unloaded robot is at Clarke coordinates drawn evenly from their range.
    Reward: exp(-5 d / L).
    """

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw a goal."""
        self.goals[index] = self.tip(rng.uniform(self.low, self.high))
        return ()


TASKS: dict[str, type[Task]] = {"Reach": Reach}
"""By the name under which they are registered."""
