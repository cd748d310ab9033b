# SPDX-License-Identifier: Apache-2.0
"""What the sections of all servos on a serial bus have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from continuum_robot.robot.hardware import Motor, check_motors
from continuum_robot.robot.schema import quantity

LATCH, RESTART = "latch", "restart"
BITS = 10
"""Of a byte on the line."""
SHORTEST_CYCLE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedMotor(Motor):
    """A motor that has a number on its bus."""

    id: int

    @property
    def place(self) -> tuple[str, int]:
        """Where it is connected: "" for the only bus, and its number there."""
        return "", self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoMotor(NumberedMotor):
    """A servo on the bus, and the tendon that its spool pulls."""

    id: int = quantity("number of the servo on the bus", ge=0, le=252)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoSection:
    """Servos on one serial bus."""

    port: str = quantity("serial port of the adapter, e.g. /dev/continuum_robot_servos", filled=True)
    overload: str = quantity(
        "what follows from a servo's overload error: latch it, or restart the servo and go on",
        default=LATCH,
        choices=(LATCH, RESTART),
    )
    overload_restarts: int = quantity("how often each servo is restarted until it latches", default=3, ge=1, le=100)
    motors: tuple[ServoMotor, ...] = quantity(
        "every servo and the tendon that it pulls; left out, where this is the only section: the servo of each"
        " tendon's number"
    )

    @staticmethod
    def usual_motors(_section: Mapping[str, Any], tendon_count: int) -> list[dict[str, Any]]:
        """Entries of ``motors`` where the file has none: the servo of each tendon's number."""
        return [{"id": tendon, "tendon": tendon} for tendon in range(1, tendon_count + 1)]

    def __post_init__(self) -> None:
        check_motors((self.port,), [(self.port, entry.id) for entry in self.motors], "id")


def bus_cycle_s(motors: Sequence[Motor], baud_bps: int, sent_bytes: int, goal_bytes: int, answer_bytes: int) -> float:
    """How long all servos take to get a command and answer with their state, s."""
    count = len(motors)
    return max(SHORTEST_CYCLE_S, BITS * (sent_bytes + count * (goal_bytes + answer_bytes)) / baud_bps)
