# SPDX-License-Identifier: Apache-2.0
"""What a driver's loop calls when something happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from continuum_robot.errors import ContinuumRobotError


class LoopWatcher(Protocol):
    """Hears what happens in the loop; called in the thread that reads the cycle's log."""

    def on_row(self, row: list[float]) -> None:
        """A cycle ended; the numbers of ``row`` stand where :class:`CycleRow` states."""

    def on_change(self, new_faults: Sequence[str]) -> None:
        """The safety logic changed its state or its faults; ``new_faults`` latched."""

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """The devices could not be read or written; ``error`` says why."""

    def on_hang(self) -> None:
        """Cycles hang, or go on again, as ``DriverLoop.hangs`` states; called in a thread of its own."""

    def on_failure(self, error: BaseException) -> None:
        """The loop ended by a defect, ``error``; the torque is off."""


@runtime_checkable
class EnabledInSteps(Protocol):
    """Actuators whose torque is switched on in many short steps between the cycles, such as motor boards."""

    def begin_enable(self, now_s: float) -> None:
        """Begin; ``now_s``: on the clock of the cycle, s."""

    def continue_enable(self, now_s: float) -> bool:
        """Go on at ``now_s`` (s); whether all are on."""

    def disable(self) -> None:
        """Switch the torque off."""


class DeviceReports(Protocol):
    """What is known of the devices beside their numbers."""

    error: ContinuumRobotError | None

    @property
    def device_faults(self) -> tuple[str, ...]:
        """Names of the faults that the devices report."""

    def needs_service(self) -> bool:
        """Whether something should be done for the devices between two cycles."""

    def service(self, now_s: float) -> None:
        """Do it; ``now_s``: on the clock of the cycle, s."""
