# SPDX-License-Identifier: Apache-2.0
"""Many virtual stacks: begun, commanded and run together, and where their tips are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.observations import CLARKE
from continuum_robot.control.references import ClarkeReference
from continuum_robot.models.drawing import Geometry
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.assembly import cycle_period_s
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import VirtualStack

Array = NDArray[np.float64]

SETTLE_S = 0.1
"""From the activation to the first observation."""


class Stacks:
    """Robots of one description, each as its own truth has it, under a stack each.

    Parameters
    ----------
    robot : what drivers and controllers believe
    count : how many
    action : of :func:`~continuum_robot.control.observations.action`; without ``clarke`` no controller is in the cycle
    threads : that run them

    Attributes
    ----------
    rows : what the newest cycles read, computed and wrote, (count, ``at.width``)
    at : where the values stand in a row
    """

    def __init__(self, robot: Robot, count: int, action: str, threads: int) -> None:
        self.robot, self.period_s, self._threads = robot, cycle_period_s(robot), threads
        self.at = CycleRow(robot.tendon_count, robot.coordinate_count)
        self.rows = np.full((count, self.at.width), np.nan)
        self._controlled = action == CLARKE
        self._stacks: list[VirtualStack | None] = [None] * count
        self._drawing = robot_model(robot).drawing()
        self._manifold = controlled_manifold(robot)

    def __getitem__(self, index: int) -> VirtualStack:
        stack = self._stacks[index]
        assert stack is not None, "begin() makes it"
        return stack

    def begin(self, index: int, truth: Robot, seed: int, contacts: Sequence[Contact] = ()) -> None:
        """Begin a robot's life again, active and at rest: the same bytes for the same arguments.

        Simulated tendons start without slack, and it is taken up only where the truth has some: it takes as long as
        many actions.
        """
        self._end(index)
        plant = Plant(truth, rng=np.random.default_rng(seed), contacts=contacts) if contacts else None
        stack = self._stacks[index] = VirtualStack(truth, plant, believed=self.robot, seed=seed)
        if not self._controlled:
            stack.loop.cycle.attach(None)
        if any(truth.simulation.wiring_errors.slack_m):
            stack.activate()
        else:
            stack.loop.switch_on()
            stack.loop.obey()
            stack.loop.cycle.control_now(on=True)
        stack.run(SETTLE_S)
        self.rows[index] = stack._row

    def held(self, index: int) -> Array:
        """Where a controller that was given no reference holds, (n,), m."""
        return np.array(self[index]._input.position)

    def follow(self, index: int, position: Array, velocity: Array) -> None:
        """Let a controller follow a reference from the next cycle on, (n,), m and m/s, as one that a node publishes."""
        stack = self[index]
        stack._input.receive(ClarkeReference(position, velocity, np.zeros_like(position)), stack.now_s + self.period_s)

    def command(self, index: int, values: Array) -> None:
        """Command tensions or displacements, (N,), N or m, as another program does."""
        cycle = self[index].loop.cycle
        cycle.command(values.tolist(), self[index].now_s, cycle.cycles)

    def run(self, indices: Sequence[int], duration_s: float) -> None:
        """Let the cycles of some run."""
        for index in indices:
            stack = self[index]
            stack.run(duration_s)
            self.rows[index] = stack._row

    def fault(self, index: int) -> str:
        """The first fault that latched; empty: none."""
        faults = self[index].faults
        return faults[0][1] if faults else ""

    def tip(self, index: int) -> Array:
        """The true place of a tip in the base frame, (3,), m."""
        plant = self[index].plant
        if plant is not None:
            return plant.pose(plant.robot.length_m)[:3, 3]
        return self._drawing.pose(self.coefficients(index), self.robot.length_m)[:3, 3]

    def coefficients(self, index: int) -> Array:
        """The true shape of a robot; of a mechanism by its tendons, which do not stretch."""
        plant = self[index].plant
        if plant is not None:
            return plant.c
        return self._drawing.coefficients(self._manifold.clarke(self.rows[index, self.at.displacement]))

    def geometry(self, index: int) -> Geometry:
        """Where all that can be seen of a robot lies."""
        return self._drawing.geometry(self.coefficients(index))

    def close(self) -> None:
        """End all."""
        for index in range(len(self._stacks)):
            self._end(index)

    def _end(self, index: int) -> None:
        stack, self._stacks[index] = self._stacks[index], None
        if stack is not None:
            stack.close()
