# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators whose tensions are those that sensors at the tendons measure."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from continuum_robot.drivers.around import Around, AroundCounts
from continuum_robot.drivers.protocols import (
    CountsFrames,
    CountsFromPowerOn,
    TendonActuators,
    TendonReading,
    TensionSensors,
)
from continuum_robot.errors import DeviceError


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
        """The newest reading, at ``now_s`` (s), with the measured tensions."""
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
        """Close both. Safe to call at any time."""
        self.actuators.close()
        self.sensors.close()


class MeasuredCounts(MeasuredTensions, AroundCounts):
    """The same of actuators that count from their power-on."""

    def counters(self) -> dict[str, dict[str, Any]]:
        """Those of the actuators, and of the sensors where they count."""
        found = super().counters()
        if isinstance(self.sensors, CountsFrames):
            found["tension_sensors"] = dict(self.sensors.statistics())
        return found


def measured(actuators: TendonActuators, sensors: TensionSensors) -> MeasuredTensions:
    """Actuators with the tensions of sensors."""
    kind = MeasuredCounts if isinstance(actuators, CountsFromPowerOn) else MeasuredTensions
    return kind(actuators, sensors)
