# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators around others: what is passed on as it is. Subclasses change what is read or written."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import (
    Aborted,
    CountsFrames,
    CountsFromPowerOn,
    TendonActuators,
    TendonReading,
    TensionSensors,
    never,
)
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.coupling import Coupling

Vector = NDArray[np.float64]


class Around:
    """Actuators that pass everything on."""

    def __init__(self, actuators: TendonActuators) -> None:
        self.actuators: Any = actuators
        self.simulated, self.tendon_count = actuators.simulated, actuators.tendon_count
        self.takes_displacements = bool(getattr(actuators, "takes_displacements", False))

    def open(self) -> None:
        self.actuators.open()

    def enable(self, aborted: Aborted = never) -> None:
        self.actuators.enable(aborted)

    def read(self, now_s: float) -> TendonReading:
        reading: TendonReading = self.actuators.read(now_s)
        return reading

    def write(self, command: Vector, now_s: float) -> None:
        self.actuators.write(command, now_s)

    def disable(self) -> None:
        self.actuators.disable()

    def close(self) -> None:
        self.actuators.close()

    def clear_faults(self) -> None:
        self.actuators.clear_faults()


class AroundCounts(Around):
    """The same around actuators that count from their power-on."""

    @property
    def aligned(self) -> bool:
        """As the actuators'."""
        return bool(self.actuators.aligned)

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """As the actuators'."""
        lost: NDArray[np.bool_] = self.actuators.zero_lost
        return lost

    def counters(self) -> dict[str, dict[str, Any]]:
        """As the actuators'."""
        return dict(self.actuators.counters())


class MeasuredTensions(Around):
    """Actuators and tension sensors as one: all but the tensions is the actuators'.

    A tendon with a sensor has its value, or NaN while that is not known: never the motor's guess in its place. Only a
    tendon without a sensor keeps what the motor reports.
    """

    def __init__(self, actuators: TendonActuators, sensors: TensionSensors) -> None:
        super().__init__(actuators)
        self.sensors = sensors
        self._measured = np.zeros(sensors.tendon_count, dtype=bool)

    def open(self) -> None:
        """Open the sensors, then the actuators. Raises :class:`DeviceError`; all are closed then."""
        self.sensors.open()
        try:
            self.actuators.open()
        except BaseException:
            self.sensors.close()
            raise

    def read(self, now_s: float) -> TendonReading:
        reading: TendonReading = self.actuators.read(now_s)
        try:
            found = self.sensors.read(now_s)
        except DeviceError as error:
            tension, faults = np.full_like(reading.tension_n, np.nan), tuple[str, ...]((str(error),))
        else:
            tension, faults = found.tension_n, found.device_faults
        self._measured |= np.isfinite(tension)
        return dataclasses.replace(
            reading,
            tension_n=np.where(self._measured, tension, reading.tension_n),
            device_faults=(*reading.device_faults, *faults),
        )

    def close(self) -> None:
        self.actuators.close()
        self.sensors.close()


class MeasuredCounts(MeasuredTensions, AroundCounts):
    """The same of actuators that count from their power-on."""

    def counters(self) -> dict[str, dict[str, Any]]:
        found = super().counters()
        if isinstance(self.sensors, CountsFrames):
            found["tension_sensors"] = dict(self.sensors.statistics())
        return found


def measured(actuators: TendonActuators, sensors: TensionSensors) -> MeasuredTensions:
    """Actuators with the tensions of sensors."""
    kind = MeasuredCounts if isinstance(actuators, CountsFromPowerOn) else MeasuredTensions
    return kind(actuators, sensors)


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
        self._refused = ""
        self.actuators.clear_faults()


class TransmittedCounts(Transmitted, AroundCounts):
    """The same of motors that count from their power-on."""

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
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
