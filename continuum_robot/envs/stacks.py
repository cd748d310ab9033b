# SPDX-License-Identifier: Apache-2.0
"""A batch of virtual stacks with a life for every episode, and where the true robots are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.models.drawing import Geometry
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.rod.stations import TipSteps
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.stack_batch import StackBatch
from continuum_robot.testing.virtual_stack import VirtualStack

Array = NDArray[np.float64]

SETTLE_S = 0.1
"""From the activation to the first observation."""


class Stacks(StackBatch):
    """Robots that their drivers and controllers believe to be one, each as its own truth has it.

    Parameters
    ----------
    robot : what is believed
    count : how many
    threads : that run them
    """

    def __init__(self, robot: Robot, count: int, threads: int) -> None:
        super().__init__([VirtualStack(robot) for _ in range(count)], threads)
        self.robot = robot
        self._drawing, self._manifold = robot_model(robot).drawing(), controlled_manifold(robot)
        plants = [stack.plant for stack in self.stacks]
        self._truths: list[Robot | None] = [None] * count
        self._ways: TipSteps | None = None
        if plants[0] is not None:
            self._ways = TipSteps(*(np.repeat(part[None], count, axis=0) for part in plants[0].rod.tip_steps))

    def begin(self, index: int, truth: Robot, seed: int, contacts: Sequence[Contact] = ()) -> None:
        """Begin a life, active and at rest: the same bytes for the same arguments.

        A simulated robot begins without slack, which is taken up only where the truth has some.
        """
        self.release(np.arange(len(self.stacks)) == index)
        stack = self.stacks[index]
        if contacts:
            stack.close()
            plant = Plant(truth, rng=np.random.default_rng(seed), contacts=contacts)
            stack = self.stacks[index] = VirtualStack(truth, plant, believed=self.robot, seed=seed)
        else:
            stack.restart(seed, truth)
        stack.activate(take_up=any(truth.simulation.wiring_errors.slack_m))
        stack.run(SETTLE_S)
        self._look(index)
        if self._ways is not None and stack.plant is not None and self._truths[index] is not truth:
            for parts, part in zip(self._ways, stack.plant.rod.tip_steps, strict=True):
                parts[index] = part
        self._truths[index] = truth

    def faults(self) -> dict[int, str]:
        """The first fault that latched, of the robots that have one."""
        # One that is lent has none: its run would have ended.
        found = {index: self.stacks[index].faults for index in np.flatnonzero(~self._lent).tolist()}
        return {index: faults[0][1] for index, faults in found.items() if faults}

    def push(self, index: int, force_in_base_n: Array | None) -> None:
        """Push a rod's tip from now on, (3,), N; None: no longer."""
        plant = self.stacks[index].plant
        if plant is None or (force_in_base_n is None and not plant.is_pushed):
            return
        self.release(np.arange(len(self.stacks)) == index)
        if force_in_base_n is None:
            plant.release()
        else:
            plant.push(plant.robot.length_m, force_in_base_n)

    def contact_forces(self, index: int) -> list[Array]:
        """The true forces on a rod at its contacts, (3,) each, base frame, N."""
        plant = self.stacks[index].plant
        return [] if plant is None else [load.force_in_base_n for load in plant.contact_loads]

    def tips(self) -> Array:
        """The true places of the tips in the base frame, (count, 3), m; of mechanisms by their tendons, which do not
        stretch.
        """
        if self._ways is not None:
            return self._ways.tips(self.strains[:, : self.robot.coefficient_count])
        length_m = self.robot.length_m
        return np.array([self._drawing.pose(self.coefficients(k), length_m)[:3, 3] for k in range(len(self.stacks))])

    def coefficients(self, index: int) -> Array:
        """The true shape of a robot; of a mechanism by its tendons."""
        if self._ways is not None:
            return self.strains[index, : self.robot.coefficient_count]
        return self._drawing.coefficients(self._manifold.clarke(self.rows[index, self.row.displacement]))

    def geometry(self, index: int) -> Geometry:
        """Where all that can be seen of a robot lies."""
        return self._drawing.geometry(self.coefficients(index))

    def close(self) -> None:
        """End all."""
        super().close()
        for stack in self.stacks:
            stack.close()
