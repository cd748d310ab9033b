# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault of the campaign, gathered from the families: their order fixes the seeds of the runs."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.families import (
    board_errors,
    can_frames,
    commands,
    host,
    motor_boards,
    others,
    processes,
    sensors,
    tendons,
)
from continuum_robot.experiments.fault_campaign.kind import FaultKind, by_name

KINDS: tuple[FaultKind, ...] = (
    *can_frames.KINDS,
    *motor_boards.KINDS,
    *tendons.KINDS,
    *commands.KINDS,
    *host.KINDS,
    *processes.KINDS,
    *sensors.KINDS,
    *others.KINDS,
    *board_errors.KINDS,
)
"""Every kind, in the order of the documentation."""


def kinds_by_name(names: str = "") -> tuple[FaultKind, ...]:
    """As :func:`.kind.by_name`."""
    return by_name(KINDS, names)
