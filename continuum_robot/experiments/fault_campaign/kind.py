# SPDX-License-Identifier: Apache-2.0
"""What is documented of a kind of fault: what breaks, who must notice it, what must happen, what a user does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot

SAFE, TOLERATED, EITHER = "safe", "tolerated", "safe or tolerated"
AT_ONCE, READING, COMMAND, BOARD, MISMATCH, MISSED, FOUND = (
    "at once",
    "reading timeout",
    "command timeout",
    "board timeout",
    "current mismatch time",
    "missed cycles",
    "evidence",
)
VIRTUAL, PROCESSES, STACK = "virtual time", "processes", "processes of up"
RESET, HOME, POWER = "reset", "home", "power cycle"

DETECTABLE: dict[str, str] = {
    AT_ONCE: "when it begins",
    READING: "when the newest reading is older than `limits.reading_timeout_s`",
    COMMAND: "when the newest command is older than `limits.command_timeout_s`",
    BOARD: "when the board's own `receive_timeout_ms` has passed",
    MISMATCH: "when currents have disagreed for `current_mismatch_time_s`",
    MISSED: "when more cycles of a second are missed than `safety.missed_fraction`: the time counts from its detection",
    FOUND: "when the robot's motion gives it away: the time counts from its detection, and the truth bounds the harm",
}
"""From when on a fault can be known at all; the time to the safe state counts from there."""

Action = Callable[[VirtualRobot, int], float | None]


class NamedKind(Protocol):
    """A kind as a record names it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def runs(self) -> str:
        """Where it runs."""


Kind = TypeVar("Kind", bound=NamedKind)


def by_name(kinds: Sequence[Kind], names: str) -> tuple[Kind, ...]:
    """Those of the kinds that are named, separated by commas; all where nothing is."""
    desired = [name.strip() for name in names.split(",") if name.strip()]
    known = {kind.name for kind in kinds}
    for name in desired:
        if name not in known:
            raise ParameterError("kinds", name, "some of " + ", ".join(sorted(known)))
    return tuple(kind for kind in kinds if not desired or kind.name in desired)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """A kind of fault."""

    name: str
    group: str
    cause: str
    seen: str
    cure: str
    detectors: tuple[str, ...] = ()
    reaction: str = TOLERATED
    action: Action | None = None
    robot: Callable[[Robot], Robot] | None = None
    detectable: str = AT_ONCE
    recovery: str = RESET
    duration_s: float = 0.0
    spared: bool = False
    refastened: bool = False
    astray: bool = False
    sensors: bool = False
    runs: str = VIRTUAL
    rollover: bool = False


def knowable_after_s(kind: FaultKind, limits: TensionLimits, boards: Any) -> float:
    """How long after its beginning a fault can be known, s; NaN: from its detection."""
    return {
        AT_ONCE: 0.0,
        READING: limits.reading_timeout_s,
        COMMAND: limits.command_timeout_s,
        BOARD: boards.receive_timeout_ms / 1000,
        MISMATCH: boards.current_mismatch_time_s,
        MISSED: math.nan,
        FOUND: math.nan,
    }[kind.detectable]


def injected(fault: str, magnitude: float = 0.0, duration_s: float = 0.0, *, target: int | None = None) -> Action:
    """The action that makes a fault of the simulated devices happen."""

    def act(robot: VirtualRobot, tendon: int) -> None:
        robot.hardware.inject(fault, tendon if target is None else target, magnitude, duration_s)

    return act
