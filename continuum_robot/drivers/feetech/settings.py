# SPDX-License-Identifier: Apache-2.0
"""The Feetech servos' section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.servo_settings import ServoSection, bus_cycle_s
from continuum_robot.robot.doors import TENDON_ACTUATORS
from continuum_robot.robot.schema import quantity, refuse

DOOR = TENDON_ACTUATORS
FEETECH = "feetech"
BAUD_CODES = {1_000_000: 0, 500_000: 1, 250_000: 2, 128_000: 3, 115_200: 4, 76_800: 5, 57_600: 6, 38_400: 7}
SPEED_UNIT_REV_PER_S = 1 / 4096
_SENT_BYTES, _GOAL_BYTES, _ANSWER_BYTES = 16, 3, 37


@dataclass(frozen=True, slots=True, kw_only=True)
class Feetech(ServoSection):
    """Feetech servos of the STS and SMS series in position mode, on one serial bus."""

    kind: str = quantity("feetech", choices=(FEETECH,))
    baud_bps: int = quantity("baud rate of port and servos", default=1_000_000, ge=38_400, le=1_000_000)
    receive_timeout_ms: int = quantity(
        "time without a command after which the driver has the servos hold where they are; they have no timeout of"
        " their own",
        default=160,
        ge=20,
        le=2540,
    )

    @property
    def velocity_unit_rev_per_s(self) -> float:
        """Speed of a count, rev/s."""
        return SPEED_UNIT_REV_PER_S

    @property
    def cycle_s(self) -> float:
        """How long all servos take to get a command and answer with their state, s."""
        return bus_cycle_s(self.motors, self.baud_bps, _SENT_BYTES, _GOAL_BYTES, _ANSWER_BYTES)

    def __post_init__(self) -> None:
        if self.baud_bps not in BAUD_CODES:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, BAUD_CODES)))
        ServoSection.__post_init__(self)
