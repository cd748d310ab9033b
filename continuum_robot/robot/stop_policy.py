# SPDX-License-Identifier: Apache-2.0
"""What the driver does with the tendons after a fault, from the robot file; reasons in docs/reference/safety.md."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity, refuse

RELEASE, HOLD_TENSION, HOLD_PLACE, BRAKE = "release", "hold_tension", "hold_place", "brake"
TORQUE_OFF = "torque_off"
STOP_ACTIONS = (RELEASE, HOLD_TENSION, HOLD_PLACE, BRAKE, TORQUE_OFF)
CLASSES = ("operator", "commands", "readings", "loop_too_slow", "mechanics", "devices", "motor_hot")
"""Classes of faults: keys of the section."""

_LIMP = "without torque a bent robot springs back at once: release ramps its tensions down first"
_NO_TENSION = "servos that take displacements hold no tension, but hold_place"
_AT_THE_END = ((HOLD_TENSION, HOLD_PLACE, BRAKE), "the torque goes off after it")
# What each kind of actuators refuses, by class of fault, and why.
_OF_TENSIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "operator": ((), ""),
    "commands": ((), ""),
    "readings": ((HOLD_PLACE,), "the place cannot be held by readings that are not to be trusted"),
    "loop_too_slow": ((HOLD_PLACE,), "a loop that is late cannot hold a place"),
    "mechanics": ((HOLD_TENSION, HOLD_PLACE), "a motor whose tendon snapped would wind it in"),
    "devices": ((HOLD_TENSION, HOLD_PLACE), "a motor may be off, and the tendons opposite would pull the robot over"),
    "motor_hot": ((HOLD_TENSION, HOLD_PLACE), "the motor must cool"),
    "deactivation": _AT_THE_END,
}
_OF_DISPLACEMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(CLASSES, ((), "")),
    "deactivation": _AT_THE_END,
    "mechanics": ((HOLD_PLACE,), "an overloaded tendon would stay overloaded"),
    "motor_hot": ((HOLD_PLACE,), "the motor must cool"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPolicy:
    """What a stop does by class of fault; what each kind of actuators may do: docs/reference/safety.md.

    release ramps to limits.safe_n, or pays out by limits.pay_out_m; hold_tension, hold_place and brake; torque_off for
    actuators that take displacements.
    """

    operator: str = quantity("after the e-stop", default=RELEASE, choices=STOP_ACTIONS)
    commands: str = quantity(
        "after commands that are missing or invalid (command_*): holding is the fallback controller",
        default=RELEASE,
        choices=STOP_ACTIONS,
    )
    readings: str = quantity(
        "after readings that are not to be trusted (reading_timeout, reading_not_finite, displacement_jump,"
        " frozen_reading)",
        default=RELEASE,
        choices=STOP_ACTIONS,
    )
    loop_too_slow: str = quantity("after loop_too_slow and loop_hangs", default=RELEASE, choices=STOP_ACTIONS)
    mechanics: str = quantity(
        "where the robot is not as it should be (displacement_out_of_range, inconsistent_displacement,"
        " tension_out_of_range, current_mismatch, displacement_lag, slack_tendon)",
        default=RELEASE,
        choices=STOP_ACTIONS,
    )
    devices: str = quantity("after device_fault", default=RELEASE, choices=STOP_ACTIONS)
    motor_hot: str = quantity("after motor_hot", default=RELEASE, choices=STOP_ACTIONS)
    deactivation: str = quantity(
        "when the driver is deactivated without a fault, before the torque goes off; torque_off, of servos that hold"
        " displacements: nothing, they give way from where they are as far as gears and friction let them",
        default=RELEASE,
        choices=(RELEASE, TORQUE_OFF),
    )
    hold_s: float = quantity(
        "how long tensions or place are held; then the tensions ramp down at limits.safe_rate_n_per_s, or servos pay"
        " out",
        default=2.0,
        gt=0,
        le=3600,
    )
    hold_authority_n: float = quantity(
        "by how much hold_place may change the tension of a tendon, around that of the last command; 0: a tenth of"
        " limits.maximum_n",
        default=0.0,
        ge=0,
        le=1e4,
    )
    hold_bandwidth_rad_per_s: float = quantity(
        "bandwidth of hold_place: stiffness and critical damping of each tendon follow from the motor's reflected mass",
        default=30.0,
        gt=0,
        le=200,
    )
    torque_off: bool = quantity(
        "switch the torque off where a release has ended; false: the tendons keep limits.safe_n, or servos their"
        " place, until the driver is deactivated",
        default=False,
    )

    def check(self, *, displacements: bool) -> None:
        """Refuse what these actuators cannot do, or should not."""
        for key, (refused, reason) in (_OF_DISPLACEMENTS if displacements else _OF_TENSIONS).items():
            action = getattr(self, key)
            never, because = (HOLD_TENSION, _NO_TENSION) if displacements else (TORQUE_OFF, _LIMP)
            if action == never or action in refused:
                allowed = [other for other in STOP_ACTIONS if other not in (*refused, never)]
                why = because if action == never else reason
                raise refuse(f"stop.{key}", action, f"one of {', '.join(allowed)}: {why}")
        if displacements:
            for key in ("hold_authority_n", "hold_bandwidth_rad_per_s"):
                value, usual = getattr(self, key), self.__dataclass_fields__[key].default
                if value != usual:
                    expected = f"{usual:g}, or none: a servo holds its place by a loop of its own"
                    raise refuse(f"stop.{key}", value, expected)

    @property
    def braking(self) -> str:
        """The first key whose action is a brake, "" for none."""
        return next((key for key in CLASSES if getattr(self, key) == BRAKE), "")
