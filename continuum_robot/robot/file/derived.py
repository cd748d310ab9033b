# SPDX-License-Identifier: Apache-2.0
"""Values that a robot file may leave out since others say them: filled in when it is read, printed by ``check``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from continuum_robot.robot.actuation import DISPLACEMENT, TENSION
from continuum_robot.robot.doors import STRING_ENCODERS, TENDON_ACTUATORS, shipped
from continuum_robot.robot.file.plain_yaml import place_of, value_at

Numbers = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a value follows."""

    key: str
    of: tuple[str, ...]
    value: Numbers
    command: str
    why: str
    digits: int = 3


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
    Rule("control.gains[].u_clamp_min", ("control.gains[].u_clamp_max",), lambda most: -most, TENSION,
         "-u_clamp_max", 15),
    Rule("control.gains[].i_clamp_min", ("control.gains[].i_clamp_max",), lambda most: -most, TENSION,
         "-i_clamp_max", 15),
    Rule("strings[].anchor_m", ("length_m",), lambda length_m: length_m, "", "at the tip", 15),
)  # fmt: skip
"""In the order in which they are applied: the first that gives a key counts."""


_DEFAULTS = {"actuators.gear_ratio": 1.0}
_OF_SEGMENTS = {"tendons": "tendons.count", "length_m": "length_m"}


def fill(values: Any) -> tuple[str, ...]:
    """Fill what is left out, in place, of sections that the file has."""
    if not isinstance(values, dict):
        return ()
    actuators = values.get("actuators")
    command = actuators.get("command", TENSION) if isinstance(actuators, dict) else None
    lines = []
    for rule in (one for one in RULES if one.command in ("", command)):
        for entry in _entries(values, rule.key):
            key = rule.key.replace("[]", entry)
            section, name = place_of(values, key) or (None, "")
            given = [_number(values, one.replace("[]", entry)) for one in rule.of]
            if not isinstance(section, dict) or name in section or any(map(math.isnan, given)):
                continue
            section[name] = float(f"{rule.value(*given):.{rule.digits}g}")
            lines.append(f"{key} = {section[name]:g}: {rule.why}")
    return (*lines, *wire(values))


def wire(values: dict[str, Any]) -> tuple[str, ...]:
    """Wire motors and strings as is usual with their kind, in place, where the file does not say how."""
    lines = []
    count = _number(values, "tendons")
    motors, kind = _devices(values, TENDON_ACTUATORS)
    stated = "motors" in motors or "transmission" in values or math.isnan(count)
    if hasattr(kind, "usual_motors") and not stated:
        motors["motors"] = kind.usual_motors(motors, int(count))
        lines.append(_line(TENDON_ACTUATORS, "motors", motors, "tendons"))
    encoders, kind = _devices(values, STRING_ENCODERS)
    names = [value_at(one, "name") for one in _listed(values, "strings")]
    given = _listed(encoders, "strings")
    if hasattr(kind, "usual_strings") and len(given) == len(names) and all(isinstance(one, dict) for one in given):
        wired = [{**usual, **one} for usual, one in zip(kind.usual_strings(names), given, strict=True)]
        if wired != given:
            encoders["strings"] = wired
            lines.append(_line(STRING_ENCODERS, "strings", encoders, "strings"))
    return tuple(lines)


def _devices(values: dict[str, Any], door: str) -> tuple[dict[str, Any], Any]:
    """The section of devices in ``hardware``, and its dataclass; empty and None where there is none."""
    section = value_at(values, f"hardware.{door.rpartition('.')[2]}")
    return (section, shipped(door).get(str(section.get("kind")))) if isinstance(section, dict) else ({}, None)


def _line(door: str, name: str, section: dict[str, Any], of: str) -> str:
    places = "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in section[name])
    return f"hardware.{door.rpartition('.')[2]}.{name} = {places}: in the order of the {of}"


def _listed(values: Any, key: str) -> list[Any]:
    found = value_at(values, key)
    return found if isinstance(found, list) else []


def _entries(values: dict[str, Any], key: str) -> list[str]:
    """What stands for ``[]`` in a rule's key: the index of each entry, or nothing where the key has none."""
    name, listed, _ = key.partition("[]")
    return [f"[{index}]" for index in range(len(_listed(values, name)))] if listed else [""]


def _number(values: dict[str, Any], key: str) -> float:
    """The number at a dotted key, NaN where there is none."""
    if key in _OF_SEGMENTS:
        routed = len(_listed(values, "routed_tendons")) if key == "tendons" else 0
        found = [_positive(value_at(one, _OF_SEGMENTS[key])) for one in _listed(values, "segments")]
        return sum(found) + routed if found else math.nan
    return _positive(value_at(values, key) or _DEFAULTS.get(key))


def _positive(value: Any) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return float(value) if known else math.nan
