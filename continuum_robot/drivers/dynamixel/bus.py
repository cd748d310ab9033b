# SPDX-License-Identifier: Apache-2.0
"""A bus with Dynamixel servos, over the makers' library dynamixel-sdk (extra ``dynamixel``)."""

from __future__ import annotations

import contextlib
import select
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import serial

from continuum_robot.drivers.serial_port import WRITE_TIMEOUT_S, explain
from continuum_robot.errors import DeviceError

try:
    import dynamixel_sdk
except ImportError:  # an extra: without it only opening such a bus fails
    dynamixel_sdk = None

SETTING = "hardware.tendon_actuators.port"
ANSWER_MARGIN_S = 0.01
LONGEST_WAIT_S = 0.1
LONGEST_LATE = 4096
"""Bytes that are read of an answer whose time is over: what the operating system may have kept of it meanwhile."""
ATTEMPTS = 3
_STALL_S = 0.1
# Places in a packet, and the bytes that its length counts beside those that were asked for: status, error, checksum.
_LENGTH, _INSTRUCTION, _SIZE, _FRAME, _PING_SIZE = 5, 7, 10, 4, 3

_LOST = (OSError, termios.error)
"""What a serial port raises when its adapter is pulled out; pyserial's own exception is an OSError."""


class DynamixelBus:
    """Packets to and from the servos on a serial port.

    The library's own port polls without a pause and allows 34 ms for the adapter; here it sleeps until bytes come,
    counts on the monotonic clock, and keeps other programs out.

    Parameters
    ----------
    port : path of the adapter
    baud_bps : bit/s
    answer_margin_s : how long an answer may take beyond its bytes, s; the library counts on 34 ms
    ask : servos in this process, which answer a packet's bytes at once; None: those at the port

    Attributes
    ----------
    packets, failures : how many exchanges there were, and how many got no proper answer
    """

    def __init__(
        self,
        port: str,
        baud_bps: int,
        answer_margin_s: float = ANSWER_MARGIN_S,
        ask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.port, self.baud_bps = port, baud_bps
        self._ask = ask
        self._answer_margin_s = answer_margin_s
        self.packets = self.failures = 0
        self._line: Any = None
        self._packet: Any = None

    @property
    def name(self) -> str:
        """For messages."""
        return f"Dynamixel bus at {self.port}"

    def open(self) -> None:
        """Open the port.

        Raises
        ------
        DeviceError : the library is not installed, or why the port cannot be opened
        """
        if self._line is not None:
            return
        if dynamixel_sdk is None:
            raise DeviceError(
                self.name,
                "the library dynamixel-sdk is not installed",
                "Run: pip install 'continuum-robot[dynamixel]'.",
            )
        line = self._open_port() if self._ask is None else _DirectLine(self._ask)
        self._line = _port_handler(self.port, self.baud_bps, line, self._answer_margin_s)
        self._packet = _packet_handler()

    def _open_port(self) -> serial.Serial:
        try:
            line = serial.Serial(self.port, self.baud_bps, timeout=0, write_timeout=WRITE_TIMEOUT_S, exclusive=True)
        except (OSError, ValueError) as error:
            problem, remedy = explain(self.port, self.baud_bps, SETTING, error)
            raise DeviceError(self.name, problem, remedy) from error
        with contextlib.suppress(OSError, ValueError, NotImplementedError):
            line.set_low_latency_mode(True)
        return line

    def close(self) -> None:
        """End. Safe to call at any time."""
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(OSError):
                line.closePort()

    def ping(self, servo: int) -> bool:
        """Whether a servo answers."""
        return any(self._exchange("ping", servo)[1] == 0 for _ in range(ATTEMPTS))

    def read(self, servo: int, address: int, size: int) -> int:
        """An unsigned register of 1, 2 or 4 bytes. Raises :class:`DeviceError`.

        Parameters
        ----------
        servo : its number on the bus
        address : of the register in the control table
        size : of the register, bytes
        """
        for _ in range(ATTEMPTS):
            value, result, _ = self._exchange(f"read{size}ByteTxRx", servo, address)
            if result == 0:
                return int(value)
        raise self._silent([servo])

    def write(self, servo: int, address: int, size: int, value: int) -> None:
        """Set a register of 1, 2 or 4 bytes. Raises :class:`DeviceError` where the servo is silent or refuses.

        Parameters
        ----------
        servo : its number on the bus
        address : of the register in the control table
        size : of the register, bytes
        value : what it is set to, unsigned
        """
        for _ in range(ATTEMPTS):
            result, error = self._exchange(f"write{size}ByteTxRx", servo, address, value)
            # The highest bit only marks a hardware error, which is read elsewhere.
            if result == 0 and error & 0x7F:
                problem = str(self._packet.getRxPacketError(error)).removeprefix("[RxPacketError] ").rstrip(".")
                raise DeviceError(
                    f"servo {servo} at {self.port}",
                    f"refuses register {address} = {value} ({problem})",
                    "Look at its settings with the maker's wizard.",
                )
            if result == 0:
                return
        raise self._silent([servo])

    def reboot(self, servo: int) -> None:
        """Let a servo restart, which clears its hardware error; it is silent for some tenths of a second."""
        self._exchange("reboot", servo)

    def write_all(self, address: int, values: Mapping[int, bytes]) -> bool:
        """Set a register of many servos in one packet, which nobody answers; whether it went out.

        Parameters
        ----------
        address : of the register
        values : bytes for each servo, all of one length
        """
        size = len(next(iter(values.values())))
        group = dynamixel_sdk.GroupSyncWrite(self._require_open(), self._packet, address, size)
        for servo, data in values.items():
            group.addParam(servo, list(data))
        self.packets += 1
        try:
            done = group.txPacket() == 0
        except _LOST:
            done = False
        finally:
            self._release()
        self.failures += not done
        return done

    def read_all(self, address: int, size: int, servos: Sequence[int]) -> dict[int, bytes]:
        """Registers of many servos; those behind the first that does not answer are missing.

        Parameters
        ----------
        address : of the first register
        size : bytes
        servos : which
        """
        group = dynamixel_sdk.GroupSyncRead(self._require_open(), self._packet, address, size)
        for servo in servos:
            group.addParam(servo)
        self.packets += 1
        try:
            result = group.txRxPacket()
        except _LOST:
            result = -1
        finally:
            self._release()
        self.failures += result != 0
        return {servo: bytes(data) for servo, data in group.data_dict.items() if len(data) == size}

    def _exchange(self, call: str, *arguments: int) -> Any:
        line = self._require_open()
        self.packets += 1
        try:
            answer = getattr(self._packet, call)(line, *arguments)
        except _LOST as error:
            raise DeviceError(
                self.name, f"is gone ({error})", "Plug the adapter in again, then open it again."
            ) from error
        except IndexError:  # the library takes a packet that is too short for one of data
            answer = (0, -1, 0) if call.startswith(("read", "ping")) else (-1, 0)
        finally:
            self._release()
        place = 1 if call.startswith(("read", "ping")) else 0
        if answer[place] != 0:
            self.failures += 1
            time.sleep(self._answer_margin_s)  # an answer that is only late shall not answer the next question
        return answer

    def _release(self) -> None:
        """The library leaves its flag set where a call ended with an error."""
        if self._line is not None:
            self._line.is_using = False

    def _require_open(self) -> Any:
        if self._line is None:
            raise DeviceError(self.name, "is not open", "Open it first.")
        return self._line

    def _silent(self, servos: Sequence[int]) -> DeviceError:
        return DeviceError(
            self.name,
            f"servo {', '.join(map(str, servos))} does not answer",
            f"Check its supply and cable, its number, and that it runs at {self.baud_bps} bit/s.",
        )

    def missing(self, servos: Sequence[int]) -> list[int]:
        """Which of these answer no ping, nor one after a pause that is longer than a stall of the machine.

        Parameters
        ----------
        servos : numbers on the bus
        """
        silent = [servo for servo in servos if not self.ping(servo)]
        if silent:
            time.sleep(_STALL_S)
        return [servo for servo in silent if not self.ping(servo)]


class _DirectLine:
    """A line to servos in this process: what is written is answered before the write returns."""

    def __init__(self, ask: Callable[[bytes], bytes]) -> None:
        self._ask, self._answers = ask, bytearray()

    @property
    def in_waiting(self) -> int:
        return len(self._answers)

    def write(self, data: Sequence[int]) -> int:
        self._answers += self._ask(bytes(data))
        return len(data)

    def read(self, size: int) -> bytes:
        taken = bytes(self._answers[:size])
        del self._answers[:size]
        return taken

    def reset_input_buffer(self) -> None:
        self._answers.clear()

    def close(self) -> None:
        self._answers.clear()


def _packet_handler() -> Any:
    """The library's packets, but an answer that has not the bytes that were asked for answers an earlier question."""

    class Packets(dynamixel_sdk.Protocol2PacketHandler):
        wanted = 0

        def txPacket(self, port: Any, packet: list[int]) -> int:
            instruction = packet[_INSTRUCTION]
            if instruction in (dynamixel_sdk.INST_READ, dynamixel_sdk.INST_SYNC_READ):
                self.wanted = int.from_bytes(packet[_SIZE : _SIZE + 2], "little")
            else:
                self.wanted = _PING_SIZE if instruction == dynamixel_sdk.INST_PING else 0
            return int(super().txPacket(port, packet))

        def rxPacket(self, port: Any, *options: Any) -> tuple[list[int], int]:
            while True:
                packet, result = super().rxPacket(port, *options)
                if result != 0 or int.from_bytes(packet[_LENGTH : _LENGTH + 2], "little") - _FRAME == self.wanted:
                    return packet, result

    return Packets()


def _port_handler(name: str, baud_bps: int, line: Any, answer_margin_s: float) -> Any:
    """The library's port over an open line, waiting instead of polling."""

    class Port(dynamixel_sdk.PortHandler):
        late_bytes = 0

        def readPort(self, length: int) -> bytes:
            left_s = (self.packet_start_time + self.packet_timeout - self.getCurrentTime()) / 1000
            if left_s <= 0:
                # The library looks at the time only where nothing comes: noise without an end would hold it for ever.
                length = min(length, LONGEST_LATE - self.late_bytes)
                self.late_bytes += max(0, length)
            if length > 0 and line.in_waiting < length and not isinstance(line, _DirectLine):
                select.select([line.fileno()], [], [], max(0.0, min(left_s, LONGEST_WAIT_S)))
            return bytes(line.read(max(0, length)))

        def setPacketTimeout(self, packet_length: int) -> None:
            self.late_bytes = 0
            self.setPacketTimeoutMillis(self.tx_time_per_byte * packet_length + 1000 * answer_margin_s)

        def getCurrentTime(self) -> float:
            return time.monotonic() * 1000

    port = Port(name)
    port.ser, port.is_open, port.baudrate = line, True, baud_bps
    port.tx_time_per_byte = 10 * 1000 / baud_bps
    return port
