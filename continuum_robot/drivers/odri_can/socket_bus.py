# SPDX-License-Identifier: Apache-2.0
"""Motor boards on sockets that carry CAN frames, behind today's CAN channels."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable

import can

from continuum_robot.drivers.odri_can.actuators import WAIT_S, OdriTendonActuators
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.simulated_wires import CAN_FRAME, ERROR, EXTENDED, REMOTE, OpenSocket
from continuum_robot.robot.description import Robot

_FLAGS = EXTENDED | REMOTE | ERROR


class SocketBus(can.BusABC):
    """A python-can bus on a connected socket, which it owns.

    Parameters
    ----------
    channel : name, for messages
    wire : carries ``struct can_frame``, does not block
    """

    def __init__(self, channel: str, wire: socket.socket) -> None:
        super().__init__(channel=channel)
        self.channel_info = f"socket: {channel}"
        self._wire = wire

    def fileno(self) -> int:
        """Descriptor of the socket."""
        return self._wire.fileno()

    def send(self, msg: can.Message, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send a frame, or raise :class:`can.CanOperationError` where the other end takes none.

        Parameters
        ----------
        msg : the frame
        timeout : s; not used: the socket takes it now or never
        """
        identifier = (
            msg.arbitration_id | (EXTENDED if msg.is_extended_id else 0) | (REMOTE if msg.is_remote_frame else 0)
        )
        try:
            self._wire.send(CAN_FRAME.pack(identifier, msg.dlc, bytes(msg.data)))
        except OSError as error:
            raise can.CanOperationError(f"the simulated channel takes nothing ({error.strerror})") from error

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        if timeout:
            select.select([self._wire], [], [], timeout)
        try:
            frame = self._wire.recv(CAN_FRAME.size)
        except BlockingIOError:
            return None, True
        except OSError as error:
            raise can.CanOperationError(f"the simulated channel failed ({error.strerror})") from error
        if len(frame) != CAN_FRAME.size:
            raise can.CanOperationError("the simulator ended")
        identifier, length, data = CAN_FRAME.unpack(frame)
        length = min(length, 8)
        message = can.Message(
            arbitration_id=identifier & ~_FLAGS,
            is_extended_id=bool(identifier & EXTENDED),
            is_remote_frame=bool(identifier & REMOTE),
            is_error_frame=bool(identifier & ERROR),
            dlc=length,
            data=None if identifier & REMOTE else data[:length],
        )
        return message, True

    def shutdown(self) -> None:
        """Close the socket."""
        super().shutdown()
        self._wire.close()


class SocketTendonActuators(OdriTendonActuators):
    """The driver of motor boards on sockets; frames are received where they are read, without threads.

    Parameters
    ----------
    robot : with ``hardware``
    open_socket : opens the socket of a channel
    clock : monotonic time, s
    sleep : waits for a time, s
    """

    def __init__(
        self,
        robot: Robot,
        open_socket: OpenSocket,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._one_reader = threading.Lock()

        def opened(channel: str) -> can.BusABC:
            return SocketBus(channel, open_socket(channel))

        super().__init__(robot, bus_factory=opened, clock=clock, sleep=sleep, threaded=False, simulated=True)

    def read(self, now_s: float) -> TendonReading:
        """See :meth:`OdriTendonActuators.read`."""
        with self._one_reader:
            return super().read(now_s)

    def _wait_for_boards(self) -> None:
        """In another thread than the cycle's too: without receive threads both read."""
        self._sleep(WAIT_S)
        self.read(self._clock())
