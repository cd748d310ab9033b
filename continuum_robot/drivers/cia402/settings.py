# SPDX-License-Identifier: Apache-2.0
"""The section of CiA 402 drives in a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.servo_settings import NumberedMotor
from continuum_robot.robot.doors import TENDON_ACTUATORS
from continuum_robot.robot.hardware import check_motors
from continuum_robot.robot.schema import quantity, refuse

DOOR = TENDON_ACTUATORS
CIA402 = "cia402"
AUTO, HOLD, OFF = "auto", "hold", "off"
_SYNC_BITS, _NODE_BITS = 60, 380
"""On the bus in a cycle, stuff bits included: the SYNC, and what a drive gets and answers."""
_SHORTEST_CYCLE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Cia402Motor(NumberedMotor):
    """A drive on the bus, and the tendon that its spool pulls."""

    id: int = quantity("node id of the drive", ge=1, le=126)
    counts_per_turn: int = quantity(
        "position units (object 0x6064) in a turn of the motor: four times the lines of an incremental encoder",
        ge=16,
        le=2**26,
    )
    rated_torque_nm: float | None = quantity(
        "torque that 1000 units of the objects 0x6071 and 0x6077 stand for; none: object 0x6076 of the drive",
        default=None,
        gt=0,
        le=1000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cia402:
    """CiA 402 drives on one CANopen bus: mode 8 (CSP) for displacements, mode 10 (CST) for tensions."""

    kind: str = quantity("cia402", choices=(CIA402,))
    port: str = quantity(
        "a CAN interface of the kernel (can0), the serial port of an slcan adapter (/dev/ttyACM0), or"
        " INTERFACE:CHANNEL of python-can (pcan:PCAN_USBBUS1)",
        filled=True,
    )
    bitrate_bps: int = quantity("bit rate of the bus, which the drives are set to", default=1_000_000, ge=1e4, le=1e6)
    host_id: int = quantity("node id of this computer, whose heartbeat the drives watch", default=127, ge=1, le=127)
    receive_timeout_ms: int = quantity(
        "time without a heartbeat of this computer after which a drive stops by itself", default=300, ge=50, le=5000
    )
    quick_stop: str = quantity(
        "what a drive does that stops by itself: hold the place where it stopped, or switch off after it; auto: hold"
        " for displacements, off for tensions",
        default=AUTO,
        choices=(AUTO, HOLD, OFF),
    )
    velocity_unit_rpm: float = quantity(
        "what a unit of object 0x606C stands for, in turns of the motor a minute", default=1.0, gt=0, le=1000
    )
    maximum_current_a: float | None = quantity(
        "clamp on every torque that is sent, as its current; none: that of actuators", default=None, gt=0, le=200
    )
    motors: tuple[Cia402Motor, ...] = quantity("every drive and the tendon that it pulls")

    @property
    def velocity_unit_rev_per_s(self) -> float:
        """Speed of a unit of object 0x606C, rev/s."""
        return self.velocity_unit_rpm / 60

    @property
    def cycle_s(self) -> float:
        """How long all drives take to get a command and answer, s."""
        return max(_SHORTEST_CYCLE_S, (_SYNC_BITS + _NODE_BITS * len(self.motors)) / self.bitrate_bps)

    def __post_init__(self) -> None:
        check_motors((self.port,), [(self.port, entry.id) for entry in self.motors], "id")
        if self.host_id in [entry.id for entry in self.motors]:
            raise refuse("host_id", self.host_id, "a node id that no drive has")
