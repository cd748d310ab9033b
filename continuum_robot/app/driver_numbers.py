# SPDX-License-Identifier: Apache-2.0
"""Timing of a driver in another process, as it says on /diagnostics."""

from __future__ import annotations

import time

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context

from continuum_robot.app.domain import absolute_namespace
from continuum_robot.app.newest_messages import NewestMessages
from continuum_robot.nodes import qos
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.driver.timing_numbers import timing_of


class DriverNumbers:
    """Keeps the newest numbers of the driver's loop.

    Parameters
    ----------
    context : rclpy context
    namespace : of the stack, "" for none
    """

    def __init__(self, context: Context, namespace: str) -> None:
        self._prefix = f"{absolute_namespace(namespace).rstrip('/')}/tendon_driver: "
        self._messages = NewestMessages(
            context, namespace, "driver_numbers", {"/diagnostics": DiagnosticArray}, {"/diagnostics": qos.events()}
        )
        self._values: dict[str, str] = {}
        self._count = 0

    def newest(self) -> dict[str, str]:
        """Values by their keys, of all statuses of the driver; empty before the first."""
        for message in self._messages.drain("/diagnostics"):
            own = [status for status in message.status if status.name.startswith(self._prefix)]
            for status in own:
                self._values |= values_of(status)
            self._count += bool(own)
        return self._values

    def timing(self) -> dict[str, float | int | str]:
        """Numbers of the loop for metrics.json; empty before the first."""
        return timing_of(self.newest())

    def wait_for_next(self, timeout_s: float) -> bool:
        """Wait until the driver has said its numbers once more; False where it did not.

        Parameters
        ----------
        timeout_s : s
        """
        self.newest()
        before, end_s = self._count, time.monotonic() + timeout_s
        while self._count == before:
            if time.monotonic() > end_s:
                return False
            time.sleep(0.02)
            self.newest()
        return True

    def close(self) -> None:
        """Leave the topic."""
        self._messages.close()
