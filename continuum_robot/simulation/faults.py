# SPDX-License-Identifier: Apache-2.0
"""Named faults of the simulated devices, the board on which they are injected, and which settings act on which robot.

A setting of the simulation that would do nothing at a level is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.description import Robot
from continuum_robot.robot.simulation_settings import SimulationSettings

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


WIRE, DYNAMICS, MUJOCO = LEVELS = "wire", "dynamics", "mujoco"

_LATE = ("reading_delay_s", "reading_jitter_s", "command_delay_s", "command_jitter_s")
_TENDONS_AND_MOTORS = (
    "tendon_stiffening_per_n",
    "tendon_damping_ns_per_m",
    "method",
    "substep_s",
    "no_load_speed_rad_per_s",
    "backlash_m",
    "wiring_errors",
)
_OF_ENCODERS = ("string_largest_error_m", "string_stroke_m", "string_counts_per_turn")
_OF_STRINGS = ("string_noise_m", "string_resolution_m", "string_mean_error_m", *_OF_ENCODERS)


def check_plant_settings(robot: Robot, level: str, coupling: Coupling | None = None) -> None:
    """Refuse settings of the robot that moves, its tendons and motors, which would do nothing."""
    _refuse(robot, _idle_in_plant(robot, level, coupling))


def check_device_settings(robot: Robot, level: str) -> None:
    """Refuse settings of buses and sensors that would do nothing; arguments and error as above."""
    _refuse(robot, _idle_in_devices(robot, level))


def _idle_in_plant(robot: Robot, level: str, coupling: Coupling | None) -> Iterator[tuple[tuple[str, ...], str]]:
    if reason := robot.traits.without_boards:
        yield _TENDONS_AND_MOTORS, f"its default: {reason}"
        return
    if level == MUJOCO:
        yield ("tendon_stiffening_per_n",), "0 with MuJoCo's chain, whose tendons are linear springs"
        yield ("method",), "its default with MuJoCo's chain, which has an integrator of its own"
    if robot.displaced_tendons is not None:
        yield ("tendon_stiffening_per_n",), "0 with displaced_tendons, whose stiffness was found under load"
    if robot.takes_displacements:
        expected = "0 for servos, which have actuators.servo.maximum_speed_rad_per_s"
        yield ("no_load_speed_rad_per_s",), expected
    elif coupling is not None:
        yield ("no_load_speed_rad_per_s",), "0 with a transmission"
    against = coupling is not None and ((coupling.matrix > 0).any(axis=0) & (coupling.matrix < 0).any(axis=0)).any()
    if not against:
        expected = "0 without motors that pull tendons against each other: one tendon keeps its gear on one flank"
        yield ("backlash_m",), expected


def _idle_in_devices(robot: Robot, level: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if level != DYNAMICS:
        yield _LATE, f"0 at level {level}, whose wires take time"
    if not robot.strings:
        yield _OF_STRINGS, "its default: the robot has no strings"
    elif not robot.simulation.string_mean_error_m:
        yield (
            _OF_ENCODERS,
            "its default: simulation.string_mean_error_m is 0, without which encoders err by noise alone",
        )


def _refuse(robot: Robot, idle: Iterator[tuple[tuple[str, ...], str]]) -> None:
    usual = SimulationSettings()
    for keys, expected in idle:
        for key in keys:
            if (value := getattr(robot.simulation, key)) != getattr(usual, key):
                raise ParameterError(f"simulation.{key}", value, expected)
