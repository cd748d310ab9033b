# SPDX-License-Identifier: Apache-2.0
"""The simulated robot that MuJoCo moves, in a world or alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.simulation.contact import Contact, ContactLoad
from continuum_robot.simulation.effects import MUJOCO
from continuum_robot.simulation.mujoco.body import ChainBody
from continuum_robot.simulation.mujoco.world import PlacedWorld
from continuum_robot.simulation.plant import Plant

Vector = NDArray[np.float64]


class MujocoPlant(Plant):
    """As :class:`~continuum_robot.simulation.plant.Plant`, with a chain of rigid links for the rod.

    Its strain coefficients are those that fit the hinge angles best; pushes and contacts act where they are on the
    chain, and ``contact_loads`` holds those with the world too.
    """

    LEVEL = MUJOCO
    _body: ChainBody

    def __init__(
        self,
        robot: Robot,
        *,
        actuation: str = "motors",
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        contacts: Sequence[Contact] = (),
        links: int | Sequence[int] | None = None,
        world: PlacedWorld | None = None,
    ) -> None:
        self._links, self._world = links, world
        super().__init__(robot, actuation=actuation, rng=rng, progress=progress, contacts=contacts)

    def _make_body(self, progress: Callable[[str], None] | None) -> ChainBody:
        return ChainBody(
            self.robot, self.motor, self._contacts.contacts, links=self._links, world=self._world, progress=progress
        )

    @property
    def chain(self) -> ChainBody:
        """The chain: its MuJoCo model, energy and links."""
        return self._body

    def obstacle_triangles(self) -> Iterator[tuple[str, Vector]]:
        """Name of every obstacle and its triangles in the base frame, (k, 3, 3), m."""
        return self._body.obstacle_triangles()

    def _pushed(self) -> Vector:
        # A hand acts on the chain itself, not on the coefficients that fit it.
        return np.zeros(self._size)

    def advance(self, command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None = None) -> None:
        """As of :class:`Plant`; a generalised force does its work on the fitted coefficients."""
        self._body.push = self._push
        super().advance(command, duration_s, generalized_force)

    @property
    def contact_loads(self) -> tuple[ContactLoad, ...]:
        """The truth about every contact of the contact file, then about those with the world that act now."""
        return self._body.contact_loads(self._time_s - self.contacts_from_s)
