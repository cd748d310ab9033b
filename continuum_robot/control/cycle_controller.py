# SPDX-License-Identifier: Apache-2.0
"""What the controllers in the driver's cycle share: coordinates of a state, tensions of a force. Stepped code."""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import isfinite

from continuum_robot.control.controller import ClarkeOutput, checked_pretension
from continuum_robot.control.pid_parameters import PidTerms
from continuum_robot.control.tendon_forces import PRELOAD, TendonForces
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.payload import Payload
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, matrix, stepped, vector
from continuum_robot.stepped.products import multiply


@cython.cclass
class CycleController:
    """A controller that the driver's cycle steps, in either form; what it asks for is for those that inherit."""

    manifold = cython.declare(object, visibility="readonly")
    settings = cython.declare(object, visibility="readonly")
    needs_python = cython.declare(cython.bint, visibility="readonly")
    takes_displacements = cython.declare(cython.bint, visibility="readonly")
    tendon_count: cython.int
    coordinate_count: cython.int
    clarke = cython.declare(cython.double[::1], visibility="readonly")
    clarke_rate = cython.declare(cython.double[::1], visibility="readonly")
    force = cython.declare(cython.double[::1], visibility="readonly")
    command = cython.declare(cython.double[::1], visibility="readonly")
    forces: TendonForces
    payload = cython.declare(Payload, visibility="readonly")
    asked_pretension_n: cython.double
    pretension_rate_n_per_s: cython.double
    clarke_matrix: cython.double[::1]
    displacement_matrix: cython.double[::1]
    _per_entry: cython.int

    def __init__(self, robot: Robot) -> None:
        settings = robot.control_settings
        self._per_entry = robot.coordinate_count // len(robot.part_names)
        self.manifold = manifold = controlled_manifold(robot)
        tendons, coordinates = manifold.tendon_count, manifold.coordinate_count
        self.tendon_count, self.coordinate_count = tendons, coordinates
        self.clarke_matrix = matrix(manifold.clarke_matrix.tolist())
        self.displacement_matrix = matrix(manifold.displacement_matrix.tolist())
        self.clarke, self.clarke_rate = vector([math.nan] * coordinates), vector([math.nan] * coordinates)
        self.force, self.command = vector([math.nan] * coordinates), vector([math.nan] * tendons)
        self.forces = TendonForces(manifold, settings.tendon_forces, settings.pretension_n)
        self.needs_python = self.takes_displacements = False
        self.settings = None
        self.payload = None

    def set_settings(self, settings: ControlSettings) -> None:
        """Go on in the same state with other settings, between two cycles."""
        self._check(settings)
        self._take_settings(settings)

    def _check(self, settings: ControlSettings) -> None:
        entries = self.coordinate_count // self._per_entry
        if len(settings.gains) != entries:
            raise ParameterError("control.gains", len(settings.gains), f"{entries} entries, one a segment or mode")
        if self.settings is not None and settings.modes != self.settings.modes:
            raise ParameterError("control.modes", settings.modes, "no change: another controller has other coordinates")

    def _take_settings(self, settings: ControlSettings) -> None:
        asked = settings.pretension_n
        if self.settings is not None and asked in (self.settings.pretension_n, self.asked_pretension_n):
            self.forces.set(settings.tendon_forces, self.forces.pretension_n)  # what was asked for since holds
        else:
            if self.settings is not None:
                self.ask_pretension(settings.pretension_n)
            self.forces.set(settings.tendon_forces, settings.pretension_n)
            self.asked_pretension_n = float(settings.pretension_n)
        self.pretension_rate_n_per_s = float(settings.pretension_rate_n_per_s)
        self.settings = settings

    def ask_pretension(self, pretension_n: float) -> None:
        """Go to another pretension at the settings' rate while the place is held. Between two cycles only.

        What it adds to the tensions lies in their null space: it forces no coordinate.
        """
        if self.forces.strategy == PRELOAD and pretension_n != self.asked_pretension_n:
            raise ParameterError(
                "pretension_n", pretension_n, "no change: motors that share tendons keep their preload"
            )
        self.asked_pretension_n = checked_pretension(pretension_n)

    def ask_payload(self, payload_kg: float) -> None:
        """Take another payload into the model, evenly in ``PAYLOAD_S`` of rod/payload.py. Between two cycles only."""
        if self.payload is None:
            raise ParameterError("payload_kg", payload_kg, "no change: the controller has no model of the weight")
        self.payload.ask(payload_kg)

    def set_gravity(self, gravity_m_per_s2: list[float]) -> None:
        """Go on in another gravity, as a stage turns the robot. From any thread."""
        if self.payload is not None:  # else it has no model of the weight
            self.payload.turn(gravity_m_per_s2)

    @property
    def pretension(self) -> float:
        """Pretension now, N; on its way to what was asked for."""
        return float(self.forces.pretension_n)

    def output(self) -> ClarkeOutput:
        """What the last step computed, as arrays of its own."""
        return ClarkeOutput(
            np.array(self.command),
            np.array(self.clarke),
            np.array(self.clarke_rate),
            np.array(self.force),
            self.terms(),
        )

    def terms(self) -> PidTerms:
        """Of the force of the last step, as arrays of their own; what a controller does not have is NaN."""
        return PidTerms.unknown(self.coordinate_count)

    @stepped
    def observe(self, displacement: cython.double[::1], velocity: cython.double[::1]) -> cython.bint:
        """Clarke coordinates and rates of a state, muhmann (2); False where one is not finite.

        ``displacement`` and ``velocity`` are those of the tendons, m and m/s.
        """
        k: cython.int
        known: cython.double = 0.0
        multiply(self.clarke_matrix, displacement, self.coordinate_count, self.tendon_count, self.clarke)
        multiply(self.clarke_matrix, velocity, self.coordinate_count, self.tendon_count, self.clarke_rate)
        for k in indices(self.coordinate_count):
            known += self.clarke[k] + self.clarke_rate[k]
        return isfinite(known)

    @stepped
    def begin(
        self,
        command: cython.double[::1],
        position: cython.double[::1],
        velocity: cython.double[::1],
        acceleration: cython.double[::1],
    ) -> cython.void:
        """Start at the observed state, so that the first step asks for the given ``command``, N or m (NaN: unknown).

        ``position``, ``velocity`` and ``acceleration`` are those of the reference, m, m/s and m/s^2.
        """

    @stepped
    def step(
        self,
        position: cython.double[::1],  # noqa: ARG002
        velocity: cython.double[::1],  # noqa: ARG002
        acceleration: cython.double[::1],  # noqa: ARG002
        measured_tension: cython.double[::1],  # noqa: ARG002
        rate_measured: cython.bint,  # noqa: ARG002
        dt: cython.double,  # noqa: ARG002
    ) -> cython.bint:
        """Answer the observed state; False, and NaN tensions, where an input is not finite.

        ``position``, ``velocity`` and ``acceleration`` are those of the reference, m, m/s and m/s^2,
        ``measured_tension`` belongs to the state, N (NaN: unknown), ``rate_measured``: its rates do, ``dt`` is the time
        since the state before, s.
        """
        self.rest()
        return False

    @stepped
    def pull(self, force: cython.double[::1], dt: cython.double) -> cython.bint:
        """Answer by tensions for a ``force``, N, after a time ``dt``, s; False where one is not finite."""
        j: cython.int
        known: cython.double = 0.0
        self.forces.approach(self.asked_pretension_n, self.pretension_rate_n_per_s * dt)
        if self.payload is not None:
            self.payload.step(dt)
        self.forces.step(force)
        copy_into(self.force, force, self.coordinate_count)
        copy_into(self.command, self.forces.tension, self.tendon_count)
        for j in indices(self.tendon_count):
            known += self.command[j]
        return isfinite(known)

    @stepped
    def realise(self, command: cython.double[::1]) -> cython.void:
        """The driver limited the last answer to this ``command``, N or m: for those with an integral."""

    @stepped
    def rest(self) -> cython.void:
        """Give no answer: NaN force and tensions; the state stays."""
        j: cython.int
        for j in indices(self.coordinate_count):
            self.force[j] = UNKNOWN
        for j in indices(self.tendon_count):
            self.command[j] = UNKNOWN
