# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators of a robot that another process simulates without motor boards."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.drivers.reconnection import Reconnection
from continuum_robot.drivers.simulated_link import codec
from continuum_robot.drivers.simulated_link.codec import Command, CommandKind
from continuum_robot.drivers.simulated_wires import WAIT_S
from continuum_robot.errors import DeviceError, FrameError, ParameterError

Vector = NDArray[np.float64]

DEVICE = "simulated tendon actuators"


class SimulatedLinkActuators:
    """What drivers/protocols.py asks for, over a socket to the simulator.

    The newest reading wins; where none came it is served again with its old stamp. A simulator that ended is looked for
    twice a second. The torque is off whenever the link was opened.
    """

    simulated = True

    def __init__(
        self,
        tendon_count: int,
        open_link: Callable[[], socket.socket],
        *,
        takes_displacements: bool = False,
        receive_timeout_s: float = 0.1,
        wait_s: float = WAIT_S,
    ) -> None:
        self.tendon_count, self.bad_datagrams = tendon_count, 0
        self._nothing, self.takes_displacements = (0.0,) * tendon_count, takes_displacements
        self._kind = CommandKind.DISPLACEMENTS if takes_displacements else CommandKind.TENSIONS
        self._open_link, self._wait_s = open_link, wait_s
        self._timeout = codec.encode_command(Command(CommandKind.RECEIVE_TIMEOUT, self._nothing, receive_timeout_s))
        self._wire: socket.socket | None = None
        self._is_open = False
        self._reading: TendonReading | None = None
        self._reconnection = Reconnection()

    def open(self) -> None:
        if self._is_open:
            return
        self._reading = None
        try:
            wire = self._connect()
            end_s = time.monotonic() + self._wait_s
            while self._reading is None:
                ready, _, _ = select.select([wire], [], [], max(0.0, end_s - time.monotonic()))
                if not ready:
                    raise DeviceError(DEVICE, f"sent nothing within {self._wait_s:g} s", "Look at the simulator's log.")
                self._receive(wire)
        except BaseException:
            self._drop()
            raise
        self._is_open = True
        self._reconnection.found()

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on; a tension that was written before takes effect now, and servos hold where they are."""
        self._require_open()
        if aborted():
            raise interrupted(DEVICE)
        self._send(CommandKind.ENABLE)

    def read(self, now_s: float) -> TendonReading:
        self._require_open()
        self._reconnection.attempt(now_s, self._connect)
        wire = self._wire
        try:
            if wire is None:
                raise simulator_ended()
            self._receive(wire)
        except DeviceError as error:
            self._drop()
            self._reconnection.lose(error, now_s)
            raise
        reading = self._reading
        if reading is None:
            unknown = np.full(self.tendon_count, np.nan)
            infinite = np.full(self.tendon_count, np.inf)
            return TendonReading(now_s, unknown, unknown, unknown, unknown, unknown, infinite)
        return reading

    def write(self, command: Vector, now_s: float) -> None:  # noqa: ARG002 - it acts when it arrives
        self._require_open()
        values = np.asarray(command, dtype=float)
        if values.shape != (self.tendon_count,):
            raise ParameterError("command", command, f"{self.tendon_count} finite values")
        self._put(codec.encode_command(Command(self._kind, tuple(values.tolist()))))

    def disable(self) -> None:
        if self._wire is not None:
            try:
                self._send(CommandKind.DISABLE)
            except DeviceError:
                self._drop()

    def close(self) -> None:
        self.disable()
        self._drop()
        self._is_open = False

    def clear_faults(self) -> None:
        """Clear faults that the simulated motor boards latch. Raises :class:`DeviceError` as :meth:`enable`."""
        self._require_open()
        self._send(CommandKind.CLEAR_FAULTS)

    def _connect(self) -> socket.socket:
        self._drop()
        self._wire = wire = self._open_link()
        self._put(self._timeout)
        self._send(CommandKind.DISABLE)
        return wire

    def _receive(self, wire: socket.socket) -> None:
        """Take what arrived; :attr:`_reading` is the newest."""
        newest = b""
        try:
            while True:
                data = wire.recv(codec.LARGEST_DATAGRAM)
                if not data:
                    raise simulator_ended()
                newest = data
        except BlockingIOError:
            pass
        except ConnectionError as error:
            raise simulator_ended() from error
        if not newest:
            return
        try:
            reading = codec.decode_reading(newest)
        except FrameError:
            self.bad_datagrams += 1
            return
        refuse_other_robot(len(reading.displacement_m), self.tendon_count)
        self._reading = reading

    def _send(self, kind: CommandKind) -> None:
        self._put(codec.encode_command(Command(kind, self._nothing)))

    def _put(self, data: bytes) -> None:
        wire = self._wire
        if wire is None:
            raise simulator_ended()
        try:
            wire.send(data)
        except OSError as error:
            raise simulator_ended() from error

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError(DEVICE, "are not open", "Open them first.")

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def refuse_other_robot(simulated_count: int, tendon_count: int) -> None:
    """Raise :class:`DeviceError` where another robot is simulated than the driver's."""
    if simulated_count != tendon_count:
        raise DeviceError(
            DEVICE,
            f"have {simulated_count} tendons instead of {tendon_count}",
            "Start simulator and driver with the same robot file.",
        )


def simulator_ended() -> DeviceError:
    """The error of a driver whose simulator is gone."""
    return DeviceError(
        DEVICE,
        "do not answer: the simulator ended, stands still, or serves another driver",
        "Start the node simulator again, then reset the stack.",
    )
