# SPDX-License-Identifier: Apache-2.0
"""The simulator's end of drivers/simulated_link: commands to simulated actuators, their readings to the driver."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.simulated_link import codec
from continuum_robot.drivers.simulated_link.codec import Command, CommandKind
from continuum_robot.drivers.simulated_wires import LINK, socket_path
from continuum_robot.errors import FrameError
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.wire.ports import Listener


class LinkServer:
    """Serves one driver at a time, the newest."""

    def __init__(self, actuators: SimulatedTendonActuators, folder: Path) -> None:
        self._actuators = actuators
        self.listener = Listener(socket_path(folder, LINK))
        self.bad_datagrams = self.unsent = 0
        self._wire: socket.socket | None = None
        self._newest = b""

    def accept(self) -> None:
        """Take a new driver, who gets the newest reading; commands of the one before are gone, and so is it."""
        wire = self.listener.accept()
        if wire is not None:
            self._drop()
            self._wire = wire
            self._send(self._newest)

    def obey(self, before_s: float) -> None:
        """Hand on what arrived since the last step, which was at ``before_s``.

        It acts from that step on: commands take effect once a step, as on a board.
        """
        self.accept()
        self._obey(before_s)

    def send(self, reading: TendonReading) -> None:
        """Send what was read after a step."""
        self._newest = codec.encode_reading(reading)
        self._send(self._newest)

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._drop()
        self.listener.close()

    def _obey(self, before_s: float) -> None:
        written: Command | None = None
        for _ in range(4096):
            wire = self._wire
            if wire is None:
                break
            try:
                data = wire.recv(codec.LARGEST_DATAGRAM)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                # Nobody switches anything off: without commands the receive timeout does, as on a board.
                self._drop()
                break
            try:
                command = codec.decode_command(data)
            except FrameError:
                self.bad_datagrams += 1
                continue
            unfit = CommandKind.TENSIONS if self._actuators.takes_displacements else CommandKind.DISPLACEMENTS
            if len(command.values) != self._actuators.tendon_count or command.kind == unfit:
                self.bad_datagrams += 1
            elif command.kind in (CommandKind.TENSIONS, CommandKind.DISPLACEMENTS):
                written = command
            else:
                self._write(written, before_s)
                written = None
                self._switch(command)
        self._write(written, before_s)

    def _write(self, command: Command | None, before_s: float) -> None:
        if command is not None:
            self._actuators.write(np.array(command.values), before_s)

    def _switch(self, command: Command) -> None:
        if command.kind == CommandKind.ENABLE:
            self._actuators.enable()
        elif command.kind == CommandKind.DISABLE:
            self._actuators.disable()
        elif command.kind == CommandKind.CLEAR_FAULTS:
            self._actuators.clear_faults()
        else:
            self._actuators.set_receive_timeout(command.receive_timeout_s)

    def _send(self, data: bytes) -> None:
        if self._wire is None or not data:
            return
        try:
            self._wire.send(data)
        except BlockingIOError:
            self.unsent += 1
        except OSError:
            self._drop()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
