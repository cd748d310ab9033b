# SPDX-License-Identifier: Apache-2.0
"""A computer that stands still."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.kind import BOARD, SAFE, TOLERATED, Action, FaultKind
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot

GROUP = "The host"


def _stall(duration_s: float) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.stall(duration_s)

    return act


KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="stall_50ms",
        group=GROUP,
        cause="the whole computer stands still for 50 ms",
        action=_stall(0.050),
        detectors=(),
        reaction=TOLERATED,
        duration_s=0.001,
        seen="an overrun of the loop in `/diagnostics`",
        cure="relieve the computer; docs/hardware.md has real-time settings",
    ),
    FaultKind(
        name="stall_500ms",
        group=GROUP,
        cause="the whole computer stands still for 500 ms",
        action=_stall(0.500),
        detectors=("odri_can: receive_timeout", "tendon_safety:"),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.001,
        seen="the boards switch off meanwhile; `device_fault` with `receive_timeout`",
        cure="find what stops the computer, then reset",
    ),
)
