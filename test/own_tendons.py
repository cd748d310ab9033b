# SPDX-License-Identifier: Apache-2.0
"""Robots whose tendons have values of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from continuum_robot.robot.actuation import (
    Actuators,
    DisplacementLimits,
    OwnActuators,
    OwnDisplacementLimits,
    OwnTensionLimits,
    TensionLimits,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import find_robot_file

SMALL_SPOOLS = find_robot_file("three_segment_servo").parents[2] / "examples" / "small_distal_spools.yaml"
_KINDS: dict[type[Any], type[Any]] = {
    Actuators: OwnActuators,
    TensionLimits: OwnTensionLimits,
    DisplacementLimits: OwnDisplacementLimits,
}


def with_own(stated: Any, tendons: Iterable[int], **values: Any) -> Any:
    """Actuators or limits with an entry more."""
    return dataclasses.replace(
        stated, tendons=(*stated.tendons, _KINDS[type(stated)](tendons=tuple(tendons), **values))
    )


def _other(value: Any, factor: float) -> Any:
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, bandwidth_hz=factor * value.bandwidth_hz, maximum_speed_rad_per_s=77.0)
    return type(value)(factor * value + 1) if isinstance(value, int) else factor * value or 1e-3


def _restated(stated: Any, count: int) -> Any:
    """Every value that may be a tendon's own in entries, one a tendon, and other common ones."""
    kind = _KINDS[type(stated)]
    own = {key: getattr(stated, key) for key in (field.name for field in dataclasses.fields(kind)) if key != "tendons"}
    own = {key: value for key, value in own.items() if value is not None}
    other = {key: _other(value, 1.07 + 0.13 * index) for index, (key, value) in enumerate(own.items())}
    entries = tuple(kind(tendons=(number,), **own) for number in range(1, count + 1))
    return dataclasses.replace(stated, tendons=entries, **other)


def restated(robot: Robot) -> Robot:
    """The same robot: each tendon states as its own what all have, and what stands there for all is something else."""
    return robot.changed(
        actuators=_restated(robot.actuators, robot.tendon_count), limits=_restated(robot.limits, robot.tendon_count)
    )
