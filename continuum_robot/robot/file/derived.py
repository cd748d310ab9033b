# SPDX-License-Identifier: Apache-2.0
"""Values that a robot file may leave out since others say them: filled in when it is read, printed by ``check``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from continuum_robot.robot.actuation import DISPLACEMENT, TENSION
from continuum_robot.robot.doors import TENDON_ACTUATORS, shipped

Numbers = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a value follows.

    Attributes
    ----------
    key : that it has in the file
    of : keys that it follows from, which the file has to have; ``tendons`` is their number
    value : from these, in their order
    command : what the actuators take where it holds
    why : for people
    """

    key: str
    of: tuple[str, ...]
    value: Numbers
    command: str
    why: str


_FRICTION = tuple(f"actuators.{key}" for key in ("coulomb_friction_nm", "gear_ratio", "spool_radius_m"))
_SERVO = "actuators.servo.maximum_speed_rad_per_s", "actuators.gear_ratio", "actuators.spool_radius_m"
_TORQUE = "actuators.torque_constant_nm_per_a", "actuators.maximum_current_a", *_FRICTION[1:]

_PRELOAD = ("transmission.preload_n",)


def _friction_n(coulomb_nm: float, ratio: float, radius_m: float, cogging_nm: float = 0.0) -> float:
    return 1.1 * (coulomb_nm + cogging_nm) * ratio / radius_m


RULES = (
    Rule("limits.minimum_n", (*_FRICTION, "actuators.cogging_amplitude_nm"), _friction_n, TENSION,
         "what friction and cogging of a motor hold, and a tenth more"),
    Rule("limits.minimum_n", _FRICTION, _friction_n, TENSION, "what friction of a motor holds, and a tenth more"),
    Rule("limits.rate_n_per_s", ("limits.maximum_n",), lambda most: 100 * most, TENSION, "maximum_n in 10 ms"),
    Rule("limits.total_n", ("limits.maximum_n", "tendons"), lambda most, count: 0.6 * most * count, TENSION,
         "0.6 maximum_n a tendon"),
    Rule("limits.safe_n", _PRELOAD, float, TENSION, "transmission.preload_n, where there is one"),
    Rule("limits.safe_n", ("limits.maximum_n",), lambda most: most / 40, TENSION, "a fortieth of maximum_n"),
    Rule("limits.safe_rate_n_per_s", ("limits.maximum_n",), lambda most: 5 * most, TENSION, "maximum_n in 0.2 s"),
    Rule("limits.maximum_n", _TORQUE, lambda nm_per_a, most_a, ratio, radius: 0.5 * nm_per_a * most_a * ratio / radius,
         DISPLACEMENT, "half of what the servos can pull"),
    Rule("limits.speed_m_per_s", _SERVO, lambda speed, ratio, radius: 0.5 * speed / ratio * radius, DISPLACEMENT,
         "half of what the servos run without load"),
    Rule("limits.acceleration_m_per_s2", ("limits.speed_m_per_s",), lambda speed: 5 * speed, DISPLACEMENT,
         "the speed in 0.2 s"),
    Rule("limits.pay_out_m", ("limits.maximum_displacement_m",), lambda most: 0.25 * most, DISPLACEMENT,
         "a quarter of maximum_displacement_m"),
    Rule("limits.pay_out_speed_m_per_s", ("limits.speed_m_per_s",), lambda speed: 0.5 * speed, DISPLACEMENT,
         "half of the speed"),
    Rule("control.pretension_n", _PRELOAD, float, TENSION, "transmission.preload_n, where there is one"),
    Rule("control.pretension_n", ("limits.minimum_n",), lambda least: 2 * least, TENSION, "twice minimum_n"),
)  # fmt: skip
"""In the order in which they are applied: the first that gives a key counts."""


_DEFAULTS = {"actuators.gear_ratio": 1.0}


def fill(values: Any) -> tuple[str, ...]:
    """Fill what is left out, in place, of sections that the file has.

    Parameters
    ----------
    values : of a robot file, with what it includes

    Returns
    -------
    a line for each value: key, value, and why
    """
    lines = []
    if not isinstance(values, dict) or not isinstance(values.get("actuators"), dict):
        return ()
    for rule in RULES:
        name, _, key = rule.key.partition(".")
        section = values.get(name)
        given = [_number(values, one) for one in rule.of]
        fits = values["actuators"].get("command", TENSION) == rule.command
        if not isinstance(section, dict) or key in section or not fits or any(map(math.isnan, given)):
            continue
        section[key] = float(f"{rule.value(*given):.3g}")
        lines.append(f"{rule.key} = {section[key]:g}: {rule.why}")
    return (*lines, *_wire(values))


def _wire(values: dict[str, Any]) -> tuple[str, ...]:
    """Wire the motors as is usual with their kind, where the file does not say how."""
    hardware, count = values.get("hardware"), _tendon_count(values)
    motors = hardware.get("tendon_actuators") if isinstance(hardware, dict) else None
    if not isinstance(motors, dict) or "motors" in motors or math.isnan(count) or "transmission" in values:
        return ()
    kind = shipped(TENDON_ACTUATORS).get(str(motors.get("kind")))
    usual = getattr(kind, "usual_motors", None)
    if usual is None:
        return ()
    motors["motors"] = usual(motors, int(count))
    places = (", ".join(f"{key} {value}" for key, value in one.items()) for one in motors["motors"])
    return (f"hardware.tendon_actuators.motors = {'; '.join(places)}: in the order of the tendons",)


def _number(values: Any, key: str) -> float:
    """The number at a dotted key, NaN where there is none."""
    if key == "tendons":
        return _tendon_count(values)
    for name in key.split("."):
        values = values.get(name, _DEFAULTS.get(key)) if isinstance(values, dict) else None
    known = isinstance(values, (int, float)) and not isinstance(values, bool) and values > 0
    return float(values) if known else math.nan


def _tendon_count(values: dict[str, Any]) -> float:
    segments, routed = values.get("segments"), values.get("routed_tendons", [])
    if not isinstance(segments, list) or not isinstance(routed, list):
        return math.nan
    return sum(_number(one, "tendons.count") for one in segments) + len(routed) or math.nan
