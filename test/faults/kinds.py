# SPDX-License-Identifier: Apache-2.0
"""The kinds of faults as faults.yaml has them: what breaks, who must notice it, what must happen, what a user does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.backends import boards_of
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

SAFE, TOLERATED, EITHER = "safe", "tolerated", "safe or tolerated"
VIRTUAL, UP = "virtual", "up"
RESET, HOME, POWER = "reset", "home", "power cycle"
READING, COMMAND, BOARD, EVIDENCE = "reading timeout", "command timeout", "board timeout", "evidence"

KNOWN: dict[str, str] = {
    "at once": "when it begins",
    READING: "when the newest reading is older than `limits.reading_timeout_s`",
    COMMAND: "when the newest command is older than `limits.command_timeout_s`",
    BOARD: "when the board's own `receive_timeout_ms` has passed",
    "current mismatch time": "when currents have disagreed for `current_mismatch_time_s`",
    "missed cycles": (
        "when more cycles of a second are missed than `safety.missed_fraction`: the time counts from its detection"
    ),
    EVIDENCE: (
        "when the robot's motion gives it away: the time counts from its detection, and the truth bounds the harm"
    ),
}
"""From when on a fault can be known at all; the time to the safe state counts from there."""

TENSION_FRACTION, SERVO_FRACTION = 0.7, 0.3
"""Amplitude of the move, as a fraction of limits.maximum_displacement_m."""
MOVE_S = 1.0
INJECTION_TIMES: dict[str, float] = {"early in the ramp": 0.15, "at speed": 0.5, "at rest, bent": 1.4}
"""When a fault begins, after the start of the move, s."""
MOVING, BEFORE, STOPPING = "at speed", "before the start", "in the stop"
BUS_MOMENTS = (MOVING, BEFORE, STOPPING)
ONE, REST, ALL = "one", "rest", "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault; the keys of faults.yaml. ``inject``, ``bus`` or ``action`` is what happens."""

    name: str
    becomes: str
    cause: str = ""
    group: str = ""
    inject: Mapping[str, Any] = field(default_factory=dict)
    bus: Mapping[str, Any] = field(default_factory=dict)
    action: str | Mapping[str, Any] = ""
    runs: str = VIRTUAL
    controller: str = "clarke"
    robot: str = ""
    found_by: tuple[str, ...] = ()
    known: str = "at once"
    recovery: str = RESET
    seen: str = ""
    cure: str = ""
    spared: bool = False
    """The tendon that is hit may be slack, or hold what it has."""
    refastened: bool = False
    astray: bool = False
    """The robot may go on far from its reference."""
    sensors: bool = False
    rollover: bool = False
    # Of servos.
    holds: bool = False
    moments: tuple[str, ...] = ()
    refused_as: str = ""
    lasts: bool = False
    up: bool = False
    # Of a soak.
    weight: float = 0.0
    mechanical: bool = False
    truthless: bool = False
    reset: bool = False

    @property
    def call(self) -> tuple[str, dict[str, Any]]:
        """Name of the action, and its arguments."""
        given = {"name": self.action} if isinstance(self.action, str) else dict(self.action)
        return given.pop("name"), given

    @property
    def times(self) -> tuple[str, ...]:
        """The moments at which it is tried."""
        return self.moments or (BUS_MOMENTS if self.bus else tuple(INJECTION_TIMES))


def _kinds(section: Sequence[Mapping[str, Any]]) -> tuple[Kind, ...]:
    values: list[dict[str, Any]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in one.items()} for one in section
    ]
    return tuple(Kind(**one) for one in values)


_FILE = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
KINDS, SERVOS = (_kinds(_FILE[name]) for name in ("kinds", "servos"))
SOAK = _kinds([{"known": EVIDENCE, "runs": UP, **one} for one in _FILE["soak"]])


def kinds_of(robot: Robot) -> tuple[Kind, ...]:
    """The kinds of a robot."""
    return SERVOS if robot.takes_displacements else KINDS


def by_name(kinds: Sequence[Kind], names: str) -> tuple[Kind, ...]:
    """Those of the kinds that are named, separated by commas; all where nothing is."""
    desired = [name.strip() for name in names.split(",") if name.strip()]
    known = {kind.name for kind in kinds}
    for name in desired:
        if name not in known:
            raise ParameterError("kinds", name, "some of " + ", ".join(sorted(known)))
    return tuple(kind for kind in kinds if not desired or kind.name in desired)


def moments(kind: Kind, count: int) -> tuple[str, ...]:
    """The first ``count`` moments of a kind. Raises :class:`ParameterError` for another count."""
    if not 1 <= count <= len(INJECTION_TIMES):
        raise ParameterError("moments", count, f"1 to {len(INJECTION_TIMES)}")
    return kind.times[:count]


def limits_of(robot: Robot) -> Any:
    """Of its tensions, or of its displacements. Raises :class:`ParameterError` where it has none."""
    return robot.displacement_limits if robot.takes_displacements else robot.tension_limits


def move_of(robot: Robot) -> RestToRest:
    """The motion in which faults happen."""
    fraction = SERVO_FRACTION if robot.takes_displacements else TENSION_FRACTION
    end = np.zeros(robot.coordinate_count)
    end[0] = fraction * limits_of(robot).smallest("maximum_displacement_m", robot.tendon_count)
    return RestToRest(np.zeros_like(end), end, MOVE_S)


def known_after_s(kind: Kind, robot: Robot, board_s: float | None = None) -> float:
    """How long after its beginning a fault can be known, s; NaN: from its detection. ``board_s``: the boards' own."""
    limits = limits_of(robot)
    if kind.known == READING:
        return float(limits.reading_timeout_s)
    if kind.known == COMMAND:
        return float(limits.command_timeout_s)
    if kind.known == BOARD:
        return boards_of(robot).receive_timeout_ms / 1000 if board_s is None else board_s
    if kind.known == "current mismatch time":
        return float(boards_of(robot).current_mismatch_time_s)
    return 0.0 if kind.known == "at once" else math.nan
