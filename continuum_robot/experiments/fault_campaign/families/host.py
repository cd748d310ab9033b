# SPDX-License-Identifier: Apache-2.0
"""A computer that stands still, or is slow."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.kind import BOARD, MISSED, SAFE, TOLERATED, Action, FaultKind
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.runtime.cycle.assembly import PERIOD_S
from continuum_robot.runtime.cycle.driver_loop import HANG_S

GROUP = "The host"
SLOW_S = 1.5


def _stall(duration_s: float) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.stall(duration_s)

    return act


def _every_second_cycle(robot: VirtualRobot, _tendon: int) -> None:
    for _ in range(round(SLOW_S / (2 * PERIOD_S))):
        robot.stall(PERIOD_S)
        robot.cycle()


def _hang(robot: VirtualRobot, _tendon: int) -> None:
    robot.safety.hang_seen = True  # by the watch, whose thread is none of virtual time
    robot.stall(HANG_S)


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
    FaultKind(
        name="cycle_hangs",
        group=GROUP,
        cause="a cycle hangs for 500 ms: a device call or the controller's update does not return",
        action=_hang,
        detectors=("tendon_safety: loop_hangs",),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.001,
        seen="`loop_hangs` while it hangs, and an e-stop answers that it is not confirmed; the boards switch off",
        cure="mend the controller or the device, then reset; restart the driver where the cycle never goes on",
    ),
    FaultKind(
        name="host_slow",
        group=GROUP,
        cause="the computer misses every second cycle of the driver for 1.5 s",
        action=_every_second_cycle,
        detectors=("tendon_safety: loop_too_slow",),
        reaction=SAFE,
        detectable=MISSED,
        duration_s=SLOW_S,
        seen="`loop_too_slow`, and before it a warning in `/diagnostics` with the missed cycles",
        cure="relieve the computer, docs/realtime.md has real-time settings; then reset",
    ),
)
