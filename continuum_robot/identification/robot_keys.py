# SPDX-License-Identifier: Apache-2.0
"""Values of a robot by the dotted keys of its file, and by two that stand for several of a segment in proportion."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.segment import Segment

MASS, STIFFNESS, DAMPING = "mass_kg", "bending_stiffness_nm2", "bending_damping_nms"
"""Of a segment: all that it weighs, its mean stiffness against bending, and its damping."""
KINDS = (MASS, STIFFNESS, DAMPING)

_IN_PROPORTION = {
    MASS: (
        "backbone.density_kg_per_m3", "backbone.mass_per_length_kg_per_m", "disks.mass_kg", "disks.individual",
    ),
    STIFFNESS: (
        *(f"backbone.{key}" for key in ("youngs_modulus_pa", "bending_stiffness_x_nm2", "bending_stiffness_y_nm2")),
        "backbone.torsional_stiffness_nm2",
    ),
}  # fmt: skip
_OF_SEGMENT = re.compile(r"segments\[(\d+)\]\.(mass_kg|bending_stiffness_nm2)")
_USUAL_DAMPING_S = 0.02


def segment_key(kind: str, index: int) -> str:
    """Key of one of KINDS of a segment."""
    return f"segments[{index}].{kind}"


def mass_kg(segment: Segment) -> float:
    """Mass of a segment's backbone and disks, kg."""
    return segment.length_m * segment.backbone.linear_density_kg_per_m + float(segment.disks.masses_kg.sum())


def usual_damping_nms(segment: Segment) -> float:
    """A segment's damping by its file, or a size that it may have where there is none, N.m.s."""
    return segment.bending_damping_nms or _USUAL_DAMPING_S * segment.backbone.bending_stiffness_nm2 / segment.length_m


def value_of(robot: Robot, key: str) -> Any:
    """What a robot's file says."""
    if match := _OF_SEGMENT.fullmatch(key):
        segment = robot.segments[int(match[1])]
        return mass_kg(segment) if match[2] == MASS else segment.backbone.bending_stiffness_nm2
    found: Any = robot
    for name in re.findall(r"\w+", key):
        found = found[int(name)] if isinstance(found, tuple) else getattr(found, name)
    return found


def file_keys(robot: Robot, values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values by keys that the file has."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if match := _OF_SEGMENT.fullmatch(key):
            factor = value / value_of(robot, key)
            own = {f"segments[{match[1]}].{name}": name for name in _IN_PROPORTION[match[2]]}
            found |= {name: _times(now, factor) for name in own if (now := value_of(robot, name))}
        else:
            found[key] = value
    return found


def with_values(robot: Robot, values: Mapping[str, Any]) -> Robot:
    """The robot with other values."""
    for key, value in file_keys(robot, values).items():
        robot = _changed(robot, re.findall(r"\w+", key), value)
    return robot


def with_factor(robot: Robot, kind: str, index: int, factor: float) -> Robot:
    """The robot with a value of one segment times a factor."""
    key = segment_key(kind, index)
    usual = usual_damping_nms(robot.segments[index]) if kind == DAMPING else value_of(robot, key)
    return with_values(robot, {key: factor * usual})


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(
            dataclasses.replace(
                disk, mass_kg=factor * disk.mass_kg, inertia_kg_m2=tuple(factor * one for one in disk.inertia_kg_m2)
            )
            for disk in value
        )
    return factor * value


def _changed(one: Any, way: list[str], value: Any) -> Any:
    if not way:
        return value
    name, *rest = way
    if isinstance(one, tuple):
        return tuple(_changed(item, rest, value) if k == int(name) else item for k, item in enumerate(one))
    inner = {name: _changed(getattr(one, name), rest, value)}
    return one.changed(**inner) if isinstance(one, Robot) else dataclasses.replace(one, **inner)
