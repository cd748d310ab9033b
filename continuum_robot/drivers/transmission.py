# SPDX-License-Identifier: Apache-2.0
"""Motors behind a transmission as the actuators of the tendons: one motor for two antagonists, coupled gears, layers.

The driver inside has a channel for each motor and counts what its spool would wind at its radius at zero.
"""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.around import Around, AroundCounts
from continuum_robot.drivers.protocols import CountsFromPowerOn, TendonActuators, TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import Coupling

Vector = NDArray[np.float64]

REFUSED = "transmission: command refused"
"""How the fault begins that a command latches which the motors cannot make."""


class Transmitted(Around):
    """N tendons behind M motors: q = T y + q0, tau = T^T F (:class:`~continuum_robot.robot.coupling.Coupling`).

    - A tendon's values are as old as the oldest of its motors, and as warm as the warmest. Its current is that of the
      motor that moves it most, positive where that pulls it in; each motor's is some tendon's.
    - Its tension follows from the motors' loads, and where these leave it open from the preload, or is NaN.
    - A command of displacements that no motion of the motors makes is refused, and latches a fault with the reason.
    """

    def __init__(self, actuators: TendonActuators, coupling: Coupling) -> None:
        super().__init__(actuators)
        self.coupling = coupling
        matrix = coupling.matrix
        if actuators.tendon_count != matrix.shape[1]:
            raise ParameterError("actuators", actuators.tendon_count, f"{matrix.shape[1]} motors of the transmission")
        self.tendon_count = len(matrix)
        self._turned_m = np.zeros(matrix.shape[1])
        self._refused: str = ""

    def read(self, now_s: float) -> TendonReading:
        """The newest reading of the tendons, at ``now_s`` (s)."""
        found: TendonReading = self.actuators.read(now_s)
        coupling, turned = self.coupling, found.displacement_m
        self._turned_m = np.where(np.isfinite(turned), turned, self._turned_m)
        radius = coupling.radius(turned)
        return dataclasses.replace(
            found,
            displacement_m=coupling.tendons(coupling.wound(turned)),
            velocity_m_per_s=coupling.moved(radius * found.velocity_m_per_s),
            tension_n=coupling.loads(found.tension_n / radius),
            current_a=coupling.each_tendons(found.current_a),
            temperature_c=np.fmax.reduce(np.where(coupling.moves, found.temperature_c, np.nan), axis=1),
            age_s=np.where(coupling.moves, found.age_s, 0.0).max(axis=1),
            device_faults=(*found.device_faults, *filter(None, (self._refused,))),
        )

    def write(self, command: Vector, now_s: float) -> None:
        """Send displacements (m), or tensions (N) where the motors take these, of the tendons at ``now_s`` (s)."""
        given, coupling = np.asarray(command, dtype=float), self.coupling
        if given.shape != (self.tendon_count,) or not np.isfinite(given).all():
            raise ParameterError("command", command, f"{self.tendon_count} finite values")
        if not self.takes_displacements:
            self.actuators.write(coupling.forces(given) * coupling.radius(self._turned_m), now_s)
            return
        try:
            turned = coupling.turned(coupling.motors(given))
        except ParameterError as error:
            self._refused = f"{REFUSED}: {error}"
            raise
        self.actuators.write(turned, now_s)

    def clear_faults(self) -> None:
        """Clear the motors' faults and its own."""
        self._refused = ""
        self.actuators.clear_faults()


class TransmittedCounts(Transmitted, AroundCounts):
    """The same of motors that count from their power-on."""

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """Which tendons a motor moves that lost its zero, (N,)."""
        return np.asarray((self.coupling.moves & self.actuators.zero_lost).any(axis=1))


class TransmittedBoards(TransmittedCounts):
    """The same of motor boards, whose torque is switched on in many short steps."""

    def begin_enable(self, now_s: float) -> None:
        """As the actuators', at ``now_s`` (s)."""
        self.actuators.begin_enable(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """As the actuators', at ``now_s`` (s)."""
        return bool(self.actuators.continue_enable(now_s))


def transmitted(actuators: TendonActuators, coupling: Coupling | None) -> TendonActuators:
    """Actuators of the tendons behind a transmission; the same actuators where there is none."""
    if coupling is None:
        return actuators
    kind = TransmittedCounts if isinstance(actuators, CountsFromPowerOn) else Transmitted
    if hasattr(actuators, "begin_enable"):
        kind = TransmittedBoards
    return cast("TendonActuators", kind(actuators, coupling))
