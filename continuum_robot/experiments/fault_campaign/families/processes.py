# SPDX-License-Identifier: Apache-2.0
"""What happens between processes: they die, stand still, or are too many; the actions are by name in app/."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.kind import (
    AT_ONCE,
    BOARD,
    COMMAND,
    EITHER,
    FOUND,
    PROCESSES,
    READING,
    SAFE,
    TOLERATED,
    FaultKind,
)

GROUP = "Between processes"

KINDS: tuple[FaultKind, ...] = (
    *(
        FaultKind(
            name=name,
            group=GROUP,
            cause=cause,
            detectors=detectors,
            reaction=reaction,
            detectable=detectable,
            runs=PROCESSES,
            seen=seen,
            cure=cure,
        )
        for name, reaction, detectable, detectors, cause, seen, cure in (
            (
                "controller_killed",
                SAFE,
                COMMAND,
                ("tendon_driver: command_timeout",),
                "the controller's process is killed",
                "`command_timeout`, then `node_lost: clarke_controller`",
                "start the node again, then reset",
            ),
            (
                "estimator_killed",
                EITHER,
                FOUND,
                ("supervisor: node_lost",),
                "the shape estimator's process is killed",
                "`node_lost: shape_estimator`; the supervisor pauses the stack",
                "start the node again, then reset",
            ),
            (
                "driver_killed",
                SAFE,
                BOARD,
                ("supervisor: node_lost",),
                "the driver's process is killed by SIGKILL",
                "`node_lost: tendon_driver`; the boards switch off by themselves",
                "start the node again, then reset",
            ),
            (
                "driver_stopped_50ms",
                EITHER,
                READING,
                (),
                "the driver's process stands still for 50 ms",
                "an overrun of the loop in `/diagnostics`; `reading_timeout` where it took longer than that",
                "docs/hardware.md has real-time settings",
            ),
            (
                "driver_stopped_500ms",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "the driver's process stands still for 500 ms",
                "`device_fault` with `receive_timeout`: the boards have switched off",
                "find what stops it, then reset",
            ),
            (
                "controller_stopped_500ms",
                SAFE,
                COMMAND,
                ("tendon_driver: command_timeout",),
                "the controller's process stands still for 500 ms",
                "`command_timeout`",
                "find what stops it, then reset",
            ),
            (
                "all_nodes_stopped_500ms",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "all nodes stand still for 500 ms",
                "`device_fault` with `receive_timeout`, `command_timeout`",
                "find what stops them, then reset",
            ),
            (
                "limit_set",
                TOLERATED,
                AT_ONCE,
                ("tendon_driver: parameter refused",),
                "somebody sets `limits.maximum_n` while the robot moves",
                "the call is refused: read-only while active",
                "deactivate, set it, activate",
            ),
            (
                "two_writers",
                SAFE,
                FOUND,
                ("tendon_driver: two_writers",),
                "a second program writes `tendon_commands`",
                "`two_writers`, within the half second in which the graph is looked at",
                "stop one of them, then reset",
            ),
            (
                "command_storm",
                SAFE,
                FOUND,
                ("tendon_driver:",),
                "a program sends `tendon_commands` ten thousand times a second",
                "`two_writers`",
                "stop it, then reset",
            ),
            (
                "disk_full",
                TOLERATED,
                AT_ONCE,
                (),
                "the disk is full while a recording runs",
                "the recorder logs it once, and the robot goes on",
                "make room, record again",
            ),
            (
                "clock_stepped",
                TOLERATED,
                AT_ONCE,
                (),
                "the clock of the reference's computer jumps by an hour",
                "nothing: ages count on the monotonic clock, references of a foreign clock from their arrival",
                "none",
            ),
            (
                "port_unplugged",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "the serial port of a CAN adapter is pulled out",
                "`device_fault`, and the channel reports `bus_error`",
                "plug it in, then reset: it is opened again by itself",
            ),
        )
    ),
)
