# SPDX-License-Identifier: Apache-2.0
"""What a controller is to the driver's cycle, and what the one of muhmann's fig. 4 computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.pid_parameters import PidTerms
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError

Vector = NDArray[np.float64]


def checked_pretension(pretension_n: float) -> float:
    """A pretension that is asked for, checked."""
    if not 0 <= pretension_n < math.inf:
        raise ParameterError("pretension_n", pretension_n, "a tension of at least 0 N")
    return float(pretension_n)


class MeasuredTendons(Protocol):
    """What a controller sees of the tendons; a :class:`~continuum_robot.drivers.protocols.TendonReading` is one."""

    @property
    def stamp_s(self) -> float:
        """Monotonic time of the acquisition, s."""

    @property
    def displacement_m(self) -> Vector:
        """Displacements, shape (N,), m; finite."""

    @property
    def velocity_m_per_s(self) -> Vector:
        """Velocities, shape (N,), m/s; finite."""

    @property
    def tension_n(self) -> Vector:
        """Tensions, shape (N,), N; NaN where unknown."""


class Controller(Protocol):
    """A controller of another package, for the driver's cycle: it gets every state, and its answer is written at once.

    Its commands are tensions, or displacements where the robot's actuators take these. The cycle calls it in its
    thread, interpreted, and bounds neither its time nor its commands: the driver's limits and its watch over the
    cycle's duration do. A state that is old or not finite is not handed on. Where it has a method
    ``realised(command)``, that gets the command, shape (N,), which the limits left of the last answer, before the next
    one: for the anti-windup of its integral. Over topics it is that of an answer a cycle or more before.
    """

    def reset(self, reading: MeasuredTendons, command: Vector, reference: ClarkeReference) -> None:
        """Start, or start again after a gap, so that the first update asks for about the given command.

        Parameters
        ----------
        reading : measured now
        command : tensions on the tendons now, or their displacements, shape (N,), N or m
        reference : that the first update gets
        """

    def update(self, reading: MeasuredTendons, reference: ClarkeReference, dt: float) -> Vector:
        """Answer a state.

        Parameters
        ----------
        reading : measured now
        reference : of the Clarke coordinates
        dt : time since the state that was answered before, s, at most a few periods

        Returns
        -------
        tensions or displacements, shape (N,), N or m; one that is not finite gives no answer to this state
        """


@dataclass(frozen=True, slots=True)
class ClarkeOutput:
    """What one cycle of the Clarke controller computed.

    Attributes
    ----------
    command : desired tensions or displacements, shape (N,), N or m; all NaN where an input was not finite
    clarke : measured Clarke coordinates, shape (2m,), m
    clarke_rate : their rate, shape (2m,), m/s; NaN where the velocity is not measured
    generalized_force : desired generalised force on the Clarke coordinates, shape (2m,), N
    terms : the terms of the PID
    """

    command: Vector
    clarke: Vector
    clarke_rate: Vector
    generalized_force: Vector
    terms: PidTerms
