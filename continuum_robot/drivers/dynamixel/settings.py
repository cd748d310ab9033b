# SPDX-License-Identifier: Apache-2.0
"""The Dynamixel servos' section of a robot file."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.dynamixel.models import MODES, PROTOCOL_1, PROTOCOL_2, model_named, names_of
from continuum_robot.drivers.servo_settings import ServoSection, bus_cycle_s
from continuum_robot.robot.doors import TENDON_ACTUATORS
from continuum_robot.robot.schema import quantity, refuse

DOOR = TENDON_ACTUATORS
DYNAMIXEL = "dynamixel"
BAUDS_BPS = (9600, 57600, 115200, 200_000, 250_000, 400_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000)
_SENT_BYTES, _GOAL_BYTES, _ANSWER_BYTES = 28, 4, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamixel(ServoSection):
    """Dynamixel servos on one serial bus: X, MX and P with protocol 2; AX, RX and MX with protocol 1."""

    kind: str = quantity("dynamixel", choices=(DYNAMIXEL,))
    baud_bps: int = quantity("baud rate of port and servos", default=1_000_000, ge=9600, le=4_000_000)
    protocol: int = quantity("of the servos' firmware", default=PROTOCOL_2, ge=PROTOCOL_1, le=PROTOCOL_2)
    model: str = quantity(
        "model of all servos, e.g. XL430-W250, which the driver then insists on; empty: any, and before they are"
        " connected an XM430-W350 for tensions, an XL430-W250 for displacements, an AX-12A with protocol 1",
        default="",
    )
    mode: str = quantity(
        "control mode; auto: current for tensions; for displacements current_based_position where the model has it,"
        " else extended_position, position with protocol 1",
        default="auto",
        choices=("auto", *MODES),
    )
    receive_timeout_ms: int = quantity(
        "time without a packet after which a servo stops by itself, rounded up to 20 ms; without a command the driver"
        " lets go by then, or has the servos hold where they are",
        default=160,
        ge=20,
        le=2540,
    )
    maximum_current_a: float | None = quantity(
        "clamp on every current that is sent; none: that of actuators", default=None, gt=0, le=20
    )

    @property
    def current_error_fraction(self) -> float:
        """How far the servos' measured current may be off, as a fraction of the largest: it is not calibrated."""
        return 0.2

    @property
    def current_unit_a(self) -> float:
        """Current of a count, A; 0 where the model measures none."""
        return model_named(self.model or "XM430-W350").current_unit_a

    @property
    def velocity_unit_rev_per_s(self) -> float:
        """Speed of a count, rev/s."""
        return model_named(self.model or "XM430-W350").velocity_unit_rev_per_s

    @property
    def cycle_s(self) -> float:
        """How long all servos take to get a command and answer with their state, s."""
        return bus_cycle_s(self.motors, self.baud_bps, _SENT_BYTES, _GOAL_BYTES, _ANSWER_BYTES)

    def __post_init__(self) -> None:
        if self.baud_bps not in BAUDS_BPS:
            raise refuse("baud_bps", self.baud_bps, "one of " + ", ".join(map(str, BAUDS_BPS)))
        known = names_of(self.protocol)
        if self.model and self.model not in known:
            raise refuse("model", self.model, f"with protocol {self.protocol} one of {', '.join(known)}")
        if self.model and self.mode != "auto":
            modes = model_named(self.model).modes
            if self.mode not in modes:
                raise refuse("mode", self.mode, f"what an {self.model} can do: {', '.join(modes)}")
        ServoSection.__post_init__(self)
