# SPDX-License-Identifier: Apache-2.0
"""Hardware of the campaign that can be unplugged while it runs."""

from __future__ import annotations

import socket

import numpy as np

from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware

ALIGNMENT_S = 0.3
QUEUE_BYTES = 65536
"""Of frames that wait in an adapter: some 160 of them, so that a queue fills up within a run."""


class PluggableHardware(SimulatedHardware):
    """Simulated hardware whose CAN adapters can be unplugged, and that calls ``on_step`` after each step."""

    def __init__(self, robot: Robot, plant: Plant, rng: np.random.Generator, start_rev: float) -> None:
        super().__init__(
            robot, plant, rng, alignment_s=ALIGNMENT_S, start_rev=start_rev, strings=bool(robot.strings), force=True
        )
        self._unplugged: set[str] = set()
        self._hosts: dict[str, socket.socket] = {}

    def host_socket(self, channel: str) -> socket.socket:
        """As the simulated hardware's; nothing where the adapter is out."""
        if channel in self._unplugged:
            raise DeviceError(f"CAN channel {channel}", "there is no such device", "Plug the adapter in.")
        self._hosts[channel] = made = super().host_socket(channel)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE_BYTES)
        return made

    def unplug(self, channel: str) -> None:
        """Pull an adapter out: what the host holds is dead."""
        self._unplugged.add(channel)
        self._hosts[channel].shutdown(socket.SHUT_RDWR)

    def plug_in(self) -> None:
        """Plug all adapters in again."""
        self._unplugged.clear()
