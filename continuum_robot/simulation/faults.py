# SPDX-License-Identifier: Apache-2.0
"""Named faults of the simulated devices, and a board on which they are injected, scheduled and cleared."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError

FREEZE_SENSOR = "freeze_sensor"
NAN_READING = "nan_reading"
DROP_READINGS = "drop_readings"
ENCODER_JUMP = "encoder_jump"
DELAY_READINGS = "delay_readings"
SATURATE_CURRENT = "saturate_current"
SLACK_TENDON = "slack_tendon"
STUCK_MOTOR = "stuck_motor"
SNAPPED_TENDON = "snapped_tendon"
BRAKE_OPEN = "brake_open"
BRAKE_SHUT = "brake_shut"
DEVICE_FAULT = "device_fault"
HOT_MOTOR = "hot_motor"

BRAKES = (BRAKE_OPEN, BRAKE_SHUT)
LONGEST_DELAY_S = 1.0


@dataclass(frozen=True, slots=True)
class FaultKind:
    """What a fault does."""

    meaning: str
    unit: str = ""
    lowest: float = -math.inf
    highest: float = math.inf
    sensor: bool = False
    mechanical: bool = False


FAULTS: dict[str, FaultKind] = {
    FREEZE_SENSOR: FaultKind("position and velocity repeat bit by bit, with fresh stamps; no magnitude", sensor=True),
    NAN_READING: FaultKind("all values of the reading are NaN; no magnitude", sensor=True),
    DROP_READINGS: FaultKind(
        "readings get lost with this probability (0 means 1): old values with their growing age", "", 0, 1, sensor=True
    ),
    ENCODER_JUMP: FaultKind("this length is added to the position", "m", -1, 1, sensor=True),
    DELAY_READINGS: FaultKind("readings come later by this time", "s", 0, LONGEST_DELAY_S, sensor=True),
    SATURATE_CURRENT: FaultKind("the motor gives at most this current", "A", 0),
    SLACK_TENDON: FaultKind("the tendon is longer by this length", "m", -0.1, 1, mechanical=True),
    STUCK_MOTOR: FaultKind("the motor does not turn; no magnitude", mechanical=True),
    SNAPPED_TENDON: FaultKind("the tendon transmits nothing; no magnitude", mechanical=True),
    BRAKE_OPEN: FaultKind("the brake of the motor does not close; no magnitude", mechanical=True),
    BRAKE_SHUT: FaultKind("the brake of the motor does not open; no magnitude", mechanical=True),
    DEVICE_FAULT: FaultKind(
        "the motor board reports a fault and gives no current, until its faults are cleared; no magnitude"
    ),
    HOT_MOTOR: FaultKind("the motor board reports this temperature of the motor, else none", "degC", -50, 500),
}
"""Name and kind of every fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault: ``name``, ``channel`` (-1: all), ``magnitude``, active from ``start_s`` to ``end_s``."""

    name: str
    channel: int
    magnitude: float
    start_s: float
    end_s: float


class FaultBoard:
    """Which faults are active on which tendon (or string) at a time."""

    def __init__(self, channel_count: int, channel_name: str, allowed: tuple[str, ...]) -> None:
        self._count, self._channel_name, self._allowed = channel_count, channel_name, allowed
        self._faults: list[Fault] = []

    @property
    def empty(self) -> bool:
        """Whether nothing is injected or scheduled."""
        return not self._faults

    def inject(
        self,
        name: str,
        channel: int = -1,
        magnitude: float = 0.0,
        duration_s: float = 0.0,
        *,
        now_s: float | None = None,
        start_s: float | None = None,
    ) -> None:
        """Inject or schedule a fault."""
        if not name:
            self._faults.clear()
            return
        if name not in self._allowed:
            raise ParameterError("fault", name, "one of " + ", ".join(self._allowed) + ", or empty to clear")
        kind = FAULTS[name]
        if not -1 <= channel < self._count:
            raise ParameterError(self._channel_name, channel, f"0 to {self._count - 1}, or -1 for all")
        if not (math.isfinite(magnitude) and kind.lowest <= magnitude <= kind.highest):
            raise ParameterError(
                "magnitude", magnitude, f"a number from {kind.lowest:g} to {kind.highest:g} {kind.unit}".rstrip()
            )
        if not 0 <= duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a duration of at least 0 s; 0: until cleared")
        begin_s = (-math.inf if now_s is None else now_s) if start_s is None else start_s
        if duration_s > 0 and begin_s == -math.inf:
            raise ParameterError("start_s", start_s, "a time, since nothing was read yet and the fault shall end")
        end_s = begin_s + duration_s if duration_s > 0 else math.inf
        self._faults.append(Fault(name, channel, magnitude, begin_s, end_s))

    def forget_ended(self, now_s: float) -> None:
        """Drop faults that are over at ``now_s`` (s)."""
        self._faults = [fault for fault in self._faults if fault.end_s > now_s]

    def mask(self, name: str, now_s: float) -> NDArray[np.bool_]:
        """Where a fault is active at ``now_s`` (s), shape (channels,)."""
        return ~np.isnan(self.magnitude(name, now_s))

    def magnitude(self, name: str, now_s: float) -> NDArray[np.float64]:
        """Magnitude of a fault at ``now_s`` (s), shape (channels,); NaN where it is not active."""
        values = np.full(self._count, np.nan)
        for fault in self._faults:
            if fault.name == name and fault.start_s <= now_s < fault.end_s:
                values[slice(None) if fault.channel < 0 else fault.channel] = fault.magnitude
        return values
