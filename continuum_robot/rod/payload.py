# SPDX-License-Identifier: Apache-2.0
"""The mass that a rod's tip carries, and gravity, changed while a controller runs. Stepped code."""

from __future__ import annotations

import cython

from continuum_robot.rod.kernel.arrays import MASS
from continuum_robot.rod.kernel.call import memory_of
from continuum_robot.rod.rod import Rod
from continuum_robot.stepped.buffers import indices, stepped, vector

PAYLOAD_S = cython.declare(cython.double, 1.0)
"""In which the model takes over another payload, s, so that the tensions that bear it do not jump."""
_NUMBERS = cython.declare(cython.int, 10)


@cython.cclass
class Payload:
    """Writes the payload into the numbers of a rod, which the kernel reads at each call; goes to another one evenly.

    Gravity, which a stage turns, it writes at once.
    """

    mass_kg = cython.declare(cython.double, visibility="readonly")
    asked_kg: cython.double
    rate_kg_per_s: cython.double
    body: cython.double[::1]
    without: cython.double[::1]
    of_one_kg: cython.double[::1]
    gravity: cython.double[::1]

    def __init__(self, rod: Rod) -> None:
        body, of_one_kg = rod.carrying_body[MASS], rod.payload_per_kg
        self.mass_kg = self.asked_kg = rod.payload_kg
        self.rate_kg_per_s = 0.0
        self.body, self.of_one_kg = memory_of(body), vector(of_one_kg.tolist())
        self.without = vector((body - self.mass_kg * of_one_kg).tolist())
        self.gravity = memory_of(rod.arrays.gravity)

    def ask(self, payload_kg: float) -> None:
        """Go to another mass, kg, in :data:`PAYLOAD_S`. Between two cycles only."""
        self.asked_kg = float(payload_kg)
        self.rate_kg_per_s = abs(self.asked_kg - self.mass_kg) / PAYLOAD_S

    def turn(self, gravity_m_per_s2: list[float]) -> None:
        """Take another gravity, (3,), m/s^2, in the base frame. From any thread: a cycle may see part of a change."""
        for k in range(3):
            self.gravity[k] = float(gravity_m_per_s2[k])

    @stepped
    def step(self, dt: cython.double) -> cython.void:
        """Go on for a time ``dt``, s."""
        k: cython.int
        if self.mass_kg == self.asked_kg:
            return
        most_kg: cython.double = self.rate_kg_per_s * dt
        if self.asked_kg > self.mass_kg + most_kg:
            self.mass_kg += most_kg
        elif self.asked_kg < self.mass_kg - most_kg:
            self.mass_kg -= most_kg
        else:
            self.mass_kg = self.asked_kg
        for k in indices(_NUMBERS):
            self.body[k] = self.without[k] + self.mass_kg * self.of_one_kg[k]
