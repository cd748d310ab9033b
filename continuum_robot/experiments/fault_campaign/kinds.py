# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault of the campaign, gathered from the families: their order fixes the seeds of the runs."""

from __future__ import annotations

from continuum_robot.errors import ParameterError
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
from continuum_robot.experiments.fault_campaign.kind import FaultKind

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
    """The kinds of that name, or of that group, separated by commas; all where empty.

    Parameters
    ----------
    names : of kinds or groups

    Raises
    ------
    ParameterError : an unknown name; lists the known ones
    """
    desired = [name.strip() for name in names.split(",") if name.strip()]
    known = {kind.name for kind in KINDS}
    for name in desired:
        if name not in known:
            raise ParameterError("kinds", name, "some of " + ", ".join(sorted(known)))
    return tuple(kind for kind in KINDS if not desired or kind.name in desired)
