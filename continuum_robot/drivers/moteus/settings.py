# SPDX-License-Identifier: Apache-2.0
"""The moteus controllers' section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.servo_settings import NumberedMotor
from continuum_robot.robot.doors import TENDON_ACTUATORS
from continuum_robot.robot.hardware import check_motors
from continuum_robot.robot.schema import quantity

DOOR = TENDON_ACTUATORS
MOTEUS = "moteus"
_EXCHANGE_S = 3.0e-4
_SHORTEST_CYCLE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class MoteusMotor(NumberedMotor):
    """A controller on the bus, and the tendon that its spool pulls."""

    id: int = quantity("number of the controller on the bus", ge=1, le=127)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moteus:
    """moteus controllers on one CAN-FD bus, which hold torques or positions."""

    kind: str = quantity("moteus", choices=(MOTEUS,))
    port: str = quantity(
        "serial port of an fdcanusb, e.g. /dev/fdcanusb, or a CAN-FD interface, e.g. can0", filled=True
    )
    receive_timeout_ms: int = quantity(
        "time without a command after which a controller goes to its servo.default_timeout_mode",
        default=160,
        ge=20,
        le=2540,
    )
    maximum_current_a: float | None = quantity(
        "clamp on every torque that is sent, as its current; none: that of actuators", default=None, gt=0, le=200
    )
    motors: tuple[MoteusMotor, ...] = quantity("every controller and the tendon that it pulls")

    @property
    def baud_bps(self) -> int:
        """Of the port: USB, which ignores it."""
        return 921_600

    @property
    def cycle_s(self) -> float:
        """How long all controllers take to get a command and answer, one after the other, s."""
        return max(_SHORTEST_CYCLE_S, _EXCHANGE_S * len(self.motors))

    def __post_init__(self) -> None:
        check_motors((self.port,), [(self.port, entry.id) for entry in self.motors], "id")
