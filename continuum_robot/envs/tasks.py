# SPDX-License-Identifier: Apache-2.0
"""The tasks: what an episode asks for, what is seen of that, and what it is worth.

Rewards are computed from the truth, the simulated robot itself, and lie between 0 and 1 for an action, so that an
episode that a fault ends is worth less than one that goes on. In the formulas d is the distance of the true tip from
its goal, L the length of the robot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.blending import quintic
from continuum_robot.control.motion import motion_limits, reach
from continuum_robot.control.observations import Observation, observations
from continuum_robot.envs.stacks import Stacks
from continuum_robot.errors import ParameterError
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.contact import Contact

Array = NDArray[np.float64]

GENTLE = 0.2
"""F_0, of the force that the page offers for pushes: what :attr:`.RobotModel.largest_push_n` is."""
_DRAWS = 100
_ROUNDING_S = 1e-9


class Task:
    """What a batch of episodes asks for. Arrays have a row a robot.

    Parameters
    ----------
    robot : as its controller believes it
    count : how many robots
    period_s : from one action to the next, s

    Attributes
    ----------
    episode_s : usual length of an episode, s
    own : observations that it adds, by name, besides those of the robot
    measured : those of them that sensors give, which are late as all of these
    goals : where the tip shall be, (count, 3), base frame, m
    shown : what :attr:`own` observations show, (count, size) each, by name
    middle, start : Clarke coordinates in the middle of their range, and nearest to the straight robot, (n,), m

    Raises
    ------
    ParameterError : a robot for which the task makes no sense
    """

    episode_s = 4.0
    nearness = 5.0
    measured: tuple[str, ...] = ()
    own: dict[str, Observation]

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        self.robot, self.period_s, self.goals = robot, period_s, np.full((count, 3), np.nan)
        self.low, self.high = reach(robot)
        self.middle, self.start = (self.low + self.high) / 2, np.clip(0.0, self.low, self.high)
        self._drawing = robot_model(robot).drawing()
        self.own = {"tip_target": observations(robot)["tip_target"]}
        self.shown = {"tip_target": self.goals}

    def tip(self, clarke: Array) -> Array:
        """Where the tip of the unloaded robot is at Clarke coordinates, (n,), m; (3,), base frame, m."""
        return self._drawing.pose(self._drawing.coefficients(clarke), self.robot.length_m)[:3, 3]

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw an episode of one robot; what touches it there."""
        raise NotImplementedError

    def act(self, index: int, stacks: Stacks, time_s: float) -> None:
        """Do to one robot what the action meets with that ends at a time of its episode, s."""

    def seen(self, name: str, stacks: Stacks) -> Array:
        """One of its :attr:`own` observations, (count, size)."""
        del stacks
        return self.shown[name]

    def rewards(self, tips: Array, stacks: Stacks, indices: Sequence[int]) -> Array:
        """What the newest action was worth, (count,); of robots but ``indices`` it does not count.

        Parameters
        ----------
        tips : true places of the tips, (count, 3), base frame, m
        """
        del stacks, indices
        return np.exp(-self.nearness * self.distances(tips) / self.robot.length_m)

    def distances(self, tips: Array) -> Array:
        """Of the tips (count, 3) from their goals, (count,), m."""
        return np.sqrt(((tips - self.goals) ** 2).sum(axis=1))

    def things(self, index: int) -> tuple[Array, ...]:
        """What a picture shows besides robot and goal: paths, each (points, 3), base frame, m."""
        del index
        return ()

    def drawn_coordinates(self, rng: np.random.Generator, least: float, most: float) -> Array:
        """Clarke coordinates in a random direction from the middle of their range, (n,), m: the one that comes furthest
        comes through a part of its half between ``least`` and ``most``.
        """
        direction = rng.uniform(-1.0, 1.0, self.low.size)
        part = direction * (rng.uniform(least, most) / np.abs(direction).max())
        return self.middle + part * (self.high - self.low) / 2


class Reach(Task):
    """Bring the tip to a place and hold it there.

    The goal is where the tip of the unloaded robot is at Clarke coordinates drawn evenly from their range.
    Reward: exp(-5 d / L).
    """

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw a goal."""
        self.goals[index] = self.tip(rng.uniform(self.low, self.high))
        return ()


class FollowPath(Task):
    """Follow a moving place with the tip.

    It moves as the tip of the unloaded robot does while every Clarke coordinate swings as a sine around the middle of
    its range. Amplitudes up to 0.8 of the half of it are drawn, phases, and a common period: from one to two times that
    at which the swings take 0.8 of the speed or acceleration of the robot's references. The swings grow from the
    straight robot during the first second. ``tip_target`` is where the place will be when the next action ends.
    Reward: exp(-20 d / L), with the place at the end of the action.
    """

    episode_s, nearness = 8.0, 20.0
    grow_s = 1.0

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self.coming = self.shown["tip_target"] = np.full_like(self.goals, np.nan)
        self._swings = np.zeros((count, 2, self.low.size))
        self._turn_s = np.ones(count)

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw the swings."""
        half = (self.high - self.low) / 2
        self._swings[index] = rng.uniform(0.0, 0.8, half.size) * half, rng.uniform(0.0, 2 * np.pi, half.size)
        far_m, limits = float(np.linalg.norm(self._swings[index, 0])), motion_limits(self.robot)
        fastest = min(limits.speed_m_per_s / far_m, math.sqrt(limits.acceleration_m_per_s2 / far_m / 0.8))
        self._turn_s[index] = 2 * np.pi / (0.8 * fastest) * rng.uniform(1.0, 2.0)
        self.goals[index], self.coming[index] = self._place(index, 0.0), self._place(index, self.period_s)
        return ()

    def act(self, index: int, stacks: Stacks, time_s: float) -> None:
        """Move on."""
        del stacks
        self.goals[index], self.coming[index] = self.coming[index], self._place(index, time_s + self.period_s)

    def _place(self, index: int, time_s: float) -> Array:
        amplitude, phase = self._swings[index]
        swung = self.middle + amplitude * np.sin(2 * np.pi * time_s / self._turn_s[index] + phase)
        return self.tip(self.start + quintic(min(1.0, time_s / self.grow_s)) * (swung - self.start))


def _rods_alone(robot: Robot, task: str) -> float:
    """A force that the robot can be felt to resist at its tip, N; nothing touches the simulated mechanisms."""
    most_n = robot_model(robot).largest_push_n
    if not most_n > 0:
        raise ParameterError("robot", robot.name, f"a rod for the task {task}: nothing touches simulated mechanisms")
    return most_n


class Hold(Task):
    """Hold the tip at a place while it is pushed.

    The goal is drawn as that of Reach from the inner half of the range. From the beginning of each second for half
    a second a force acts at the tip: direction drawn from the sphere, size up to that which the page offers for pushes.
    It is not observed. Reward: exp(-20 d / L).
    """

    nearness = 20.0
    pushed_s = 0.5

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self._most_n = _rods_alone(robot, "Hold")
        self._force_n = np.zeros((count, math.ceil(self.episode_s), 3))

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw a goal and pushes, which begin again from the first one in longer episodes."""
        self.goals[index] = self.tip(self.drawn_coordinates(rng, 0.0, 0.5))
        direction = rng.standard_normal(self._force_n[index].shape)
        size = rng.uniform(0.0, self._most_n, (len(direction), 1))
        self._force_n[index] = size * direction / np.sqrt((direction**2).sum(axis=1, keepdims=True))
        return ()

    def act(self, index: int, stacks: Stacks, time_s: float) -> None:
        """Push, or do so no longer."""
        begin_s = time_s - self.period_s
        second = int(begin_s + _ROUNDING_S)
        pushes = begin_s - second < self.pushed_s - _ROUNDING_S
        force = self._force_n[index, second % len(self._force_n[index])] if pushes else None
        stacks.push(index, force)


class _TouchTask(Task):
    """Tasks at something that is touched."""

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self.force_n = _rods_alone(robot, type(self).__name__)
        self._radius_m = robot.segments[-1].disks.radius_m

    def gentleness(self, stacks: Stacks, indices: Sequence[int]) -> Array:
        """exp(-F / F_0), (count,), of the sums F of the sizes of the true forces at what they touch."""
        found = np.zeros(len(self.goals))
        for index in indices:
            found[index] = sum(math.sqrt(force @ force) for force in stacks.contact_forces(index))
        return np.exp(-found / (GENTLE * self.force_n))

    def way_in(self, rng: np.random.Generator, least: float, most: float) -> tuple[Array, Array, Array]:
        """Coordinates drawn as by :meth:`drawn_coordinates`, (n,), where the tip is there (3,), m, and in which
        direction it moves as they grow, (3,).
        """
        start = self.tip(self.start)
        for _ in range(_DRAWS):
            clarke = self.drawn_coordinates(rng, least, most)
            point = self.tip(clarke)
            along = self.tip(self.middle + 1.01 * (clarke - self.middle)) - point
            size = math.sqrt(along @ along)
            if size > 0 and along @ (point - start) > 0:  # it comes from outside
                return clarke, point, along / size
        raise ParameterError("robot", self.robot.name, "a robot whose tip goes away from where it starts")


class Press(_TouchTask):
    """Press the tip on a wall with a force.

    The tip of the unloaded robot comes to a point of the wall, square to it, at Clarke coordinates drawn from 0.4 to
    0.8 of their range. The force is drawn from 0.1 to 0.5 of that which the page offers for pushes. The wall stands on
    a force sensor: ``wrench`` is what it measures, the force on the wall in the base frame, and no moment about the
    point. Reward: (exp(-5 d / L) + exp(-3 |F - F_goal| / F_goal)) / 2, with the force F normal to the wall.
    """

    measured = ("wrench",)

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self._normals, self._wanted_n = np.zeros((count, 3)), np.zeros((count, 1))
        self.own |= {
            "wall_normal": Observation("wall_normal", 3, "1", np.ones(3)),
            "force_target": Observation("force_target", 1, "N", np.full(1, self.force_n)),
            "wrench": Observation("wrench", 6, "N, N.m", np.repeat([self.force_n, self.force_n * robot.length_m], 3)),
        }
        self.shown |= {"wall_normal": self._normals, "force_target": self._wanted_n}

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw wall and force."""
        _, point, along = self.way_in(rng, 0.4, 0.8)
        self.goals[index], self._normals[index] = point, -along
        self._wanted_n[index] = rng.uniform(0.1, 0.5) * self.force_n
        at_m = self.robot.length_m
        return (Contact(name="wall", kind="wall", arc_length_m=at_m, point_m=tuple(point), normal=tuple(-along)),)

    def seen(self, name: str, stacks: Stacks) -> Array:
        """The wall, the force that is wanted, and what the sensor measures."""
        if name != "wrench":
            return super().seen(name, stacks)
        found = np.zeros((len(self.goals), 6))
        for index in range(len(found)):
            found[index, :3] = -stacks.contact_forces(index)[0]
        return found

    def rewards(self, tips: Array, stacks: Stacks, indices: Sequence[int]) -> Array:
        """For the way to the wall, and for the force."""
        force_n = np.zeros(len(tips))
        for index in indices:
            force_n[index] = stacks.contact_forces(index)[0] @ self._normals[index]
        wanted_n = self._wanted_n[:, 0]
        near = super().rewards(tips, stacks, indices)
        return (near + np.exp(-3.0 * np.abs(force_n - wanted_n) / wanted_n)) / 2


class Obstacle(_TouchTask):
    """Bring the tip to a place behind a ball.

    The goal is where the tip of the unloaded robot is at Clarke coordinates drawn from 0.7 to 1 of their range. In the
    middle of the straight way there stands a ball, whose radius together with that of the robot's last disk is half
    of the way to it. Tip and backbone at 0.85 and 0.7 of its length touch the ball with a disk's radius. Reward:
    exp(-5 d / L - F / F_0), with the sum F of the forces and F_0 a fifth of what the page offers for pushes.
    """

    places = (0.7, 0.85, 1.0)

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self._balls = self.shown["obstacle"] = np.zeros((count, 4))
        self.own |= {"obstacle": Observation("obstacle", 4, "m", np.full(4, robot.length_m))}
        self._drawn(np.random.default_rng(0))

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw goal and ball."""
        clarke, self._balls[index] = self._drawn(rng)
        self.goals[index] = self.tip(clarke)
        *center, radius_m = self._balls[index].tolist()
        return tuple(
            Contact(
                name=f"ball at {place:g}", kind="sphere", arc_length_m=place * self.robot.length_m,
                center_m=tuple(center), sphere_radius_m=radius_m, body_radius_m=self._radius_m,
            )
            for place in self.places
        )  # fmt: skip

    def rewards(self, tips: Array, stacks: Stacks, indices: Sequence[int]) -> Array:
        """For the way, less where it touches."""
        return super().rewards(tips, stacks, indices) * self.gentleness(stacks, indices)

    def things(self, index: int) -> tuple[Array, ...]:
        """Three circles around the ball."""
        turn = np.linspace(0.0, 2 * np.pi, 33)
        circle = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], axis=1)
        return tuple(self._balls[index, :3] + self._balls[index, 3] * np.roll(circle, k, axis=1) for k in range(3))

    def _drawn(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coordinates of a goal, (n,), m, and a ball on the way there, (4,)."""
        start = self.tip(self.start)
        for _ in range(_DRAWS):
            clarke = self.drawn_coordinates(rng, 0.7, 1.0)
            center = self.tip(self.middle + (clarke - self.middle) / 2)
            way_m = min(float(np.linalg.norm(center - one)) for one in (start, self.tip(clarke)))
            if way_m / 2 > self._radius_m:
                return clarke, np.array([*center, way_m / 2 - self._radius_m])
        expected = f"a robot whose tip goes further than {4e3 * self._radius_m:.3g} mm, four times a disk's radius"
        raise ParameterError("robot", self.robot.name, expected)


class Insert(_TouchTask):
    """Insert the tip into a hole.

    The mouth is where the tip of the unloaded robot is at Clarke coordinates drawn from 0.3 to 0.6 of their range, and
    the hole goes on in the direction in which the tip moves there. The goal lies where the tip is as these coordinates
    grow on, 0.1 L from the mouth. The tip touches the hole's walls with 0.02 L of radius, 0.03 L less than the hole's;
    the robot behind the tip has a slot for itself. Reward: exp(-5 d / L - F / F_0), F_0 as that of Obstacle.
    """

    depth, hole, tip_radius = 0.1, 0.05, 0.02

    def __init__(self, robot: Robot, count: int, period_s: float) -> None:
        super().__init__(robot, count, period_s)
        self._mouths, self._inwards = np.zeros((2, count, 3))
        self.shown |= {"tube_mouth": self._mouths, "tube_inwards": self._inwards}
        place = Observation("tube_mouth", 3, "m", np.full(3, robot.length_m))
        self.own |= {"tube_mouth": place, "tube_inwards": Observation("tube_inwards", 3, "1", np.ones(3))}

    def draw(self, index: int, rng: np.random.Generator) -> Sequence[Contact]:
        """Draw a hole."""
        length_m = self.robot.length_m
        clarke, point, along = self.way_in(rng, 0.3, 0.6)
        further = [self.tip(self.middle + part * (clarke - self.middle)) for part in np.linspace(1.0, 1 / 0.6, 50)]
        depths_m = np.linalg.norm(np.array(further) - point, axis=1)
        self.goals[index] = further[int(np.abs(depths_m - self.depth * length_m).argmin())]
        self._mouths[index], self._inwards[index] = point, along
        return (
            Contact(
                name="tube", kind="tube", arc_length_m=length_m, mouth_m=tuple(point), inwards=tuple(along),
                inner_radius_m=self.hole * length_m, body_radius_m=self.tip_radius * length_m,
            ),
        )  # fmt: skip

    def rewards(self, tips: Array, stacks: Stacks, indices: Sequence[int]) -> Array:
        """For the way, less where it touches."""
        return super().rewards(tips, stacks, indices) * self.gentleness(stacks, indices)

    def things(self, index: int) -> tuple[Array, ...]:
        """The axis of the hole."""
        end = self._mouths[index] + self.depth * self.robot.length_m * self._inwards[index]
        return (np.stack([self._mouths[index], end]),)


TASKS: dict[str, type[Task]] = {one.__name__: one for one in (Reach, FollowPath, Hold, Press, Obstacle, Insert)}
"""By the names under which they are registered."""
