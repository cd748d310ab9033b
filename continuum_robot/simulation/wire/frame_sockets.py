# SPDX-License-Identifier: Apache-2.0
"""Simulated motor boards on sockets that carry CAN frames, for drivers in other processes."""

from __future__ import annotations

from pathlib import Path

from continuum_robot.drivers.simulated_wires import channel_name, socket_path
from continuum_robot.simulation.wire.can_wire import FrameSocketWire
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.listening import Listener


class BoardSockets:
    """One listening socket for each motor board; a new connection takes the place of the old one.

    Parameters
    ----------
    hardware : open
    folder : of the sockets

    Attributes
    ----------
    listeners : by channel

    Raises
    ------
    DeviceError : a socket cannot be made
    """

    def __init__(self, hardware: SimulatedHardware, folder: Path) -> None:
        self._hardware = hardware
        self.listeners: dict[str, Listener] = {}
        try:
            for channel, board in hardware.boards.items():
                self.listeners[channel] = Listener(socket_path(folder, channel_name(channel)))
                board.wire.close()
                board.wire = FrameSocketWire()
        except BaseException:
            self.close()
            raise

    def accept(self) -> None:
        """Put new connections on their boards; what was under way to and from the old ones is gone."""
        for channel, listener in self.listeners.items():
            wire = listener.accept()
            if wire is not None:
                board = self._hardware.boards[channel]
                board.wire.close()
                board.wire = FrameSocketWire(wire)

    def close(self) -> None:
        """End; the boards' own wires are closed with the hardware. Safe to call at any time."""
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()
