# SPDX-License-Identifier: Apache-2.0
"""A CANopen bus as its only master sees it: SDO and process data, the heartbeats, boot-ups and emergencies beside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from continuum_robot.drivers.can_bus import CanLine, Frame, line_at, slcan_line, take_slcan
from continuum_robot.drivers.cia402 import codec
from continuum_robot.errors import DeviceError

ATTEMPTS = 3
ANSWER_S = 0.05
"""How long a drive may take to answer an SDO: some do it in their slowest task, s."""
_BEATS = 4
"""Heartbeats in the time after which a drive misses them."""


class CanOpenBus:
    """Frames out and in; the host's heartbeat goes out before them where it is due."""

    def __init__(
        self,
        port: str,
        bitrate_bps: int,
        host_id: int,
        timeout_ms: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        margin_s: float = 0.0,
        ask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.port, self._bitrate_bps, self._host_id = port, bitrate_bps, host_id
        self._beat_s, self._clock, self._margin_s, self._in_process = timeout_ms / 1000 / _BEATS, clock, margin_s, ask
        self._line: CanLine | None = None
        self._received = bytearray()
        self._beaten_s, self.beats = -math.inf, False
        self.states: dict[int, int] = {}
        self.heard: set[int] = set()
        self.boot_ups: set[int] = set()
        self.sent = self.lost = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"CiA 402 drives at {self.port}"

    def open(self) -> None:
        if self._in_process is None and self._line is None:
            line = line_at(self.port, self._bitrate_bps, "hardware.tendon_actuators.port")
            line.open()
            self._line = line

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def forget(self) -> None:
        """Know nothing of any node."""
        self.states, self.heard, self.boot_ups = {}, set(), set()
        self._beaten_s = -math.inf

    # --- frames

    def exchange(self, frames: Iterable[Frame], wanted: Iterable[int], wait_s: float) -> dict[int, bytes]:
        """Send frames, and collect answers."""
        while (stale := self._receive(0.0)) is not None:
            self._note(stale)
        if self.beats and self._clock() - self._beaten_s >= self._beat_s:
            self.beat()
        for frame in frames:
            self._send(frame)
        missing, found = set(wanted), dict[int, bytes]()
        end_s = time.monotonic() + wait_s + self._margin_s
        while missing:
            # What the system kept meanwhile is read first: an answer may be there though this computer stalled.
            came = self._receive(0.0)
            if came is None:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or self._in_process is not None:
                    break
                came = self._receive(left_s)
            if came is not None and not self._note(came):
                found[came.identifier] = came.data
                missing.discard(came.identifier)
        self.lost += len(missing)
        return found

    def beat(self) -> None:
        """Send the host's heartbeat. Raises :class:`DeviceError` where the adapter is gone."""
        self._beaten_s = self._clock()
        self._send(Frame(codec.HEARTBEAT + self._host_id, bytes([codec.OPERATIONAL])))

    def command(self, command: int, nodes: Sequence[int]) -> None:
        """Send an NMT command to nodes. Raises :class:`DeviceError` where the adapter is gone."""
        self.exchange([Frame(codec.NMT, bytes([command, node])) for node in nodes], (), 0.0)

    def transfer(self, node: int, request: Frame) -> int | None:
        """The value that an SDO request is answered with; None where nobody answers."""
        key = int.from_bytes(request.data[1:3], "little") << 8 | request.data[3]
        identifier = codec.SDO_ANSWER + node
        for _ in range(ATTEMPTS):
            answer = codec.sdo_answer(self.exchange([request], [identifier], ANSWER_S).get(identifier, b""))
            if answer is None or answer.key != key:
                continue
            if answer.abort:
                reason = codec.ABORTS.get(answer.abort, f"abort code {answer.abort:08X}")
                words = f"refuses object 0x{key >> 8:04X}:{key & 0xFF:02X} ({reason})"
                raise DeviceError(self.device(node), words, "Check the drive's model, firmware and commissioning.")
            return answer.value
        return None

    def read(self, node: int, key: int) -> int:
        """An object of a drive. Raises :class:`DeviceError` where it refuses or is silent."""
        value = self.transfer(node, codec.read_request(node, key))
        if value is None:
            raise self.silent([node])
        return value

    def write(self, node: int, key: int, value: int) -> None:
        """Write an object of a drive. Raises :class:`DeviceError` where it refuses or is silent."""
        if self.transfer(node, codec.write_request(node, key, value)) is None:
            raise self.silent([node])

    def device(self, node: int) -> str:
        """A drive in messages."""
        return f"drive {node} at {self.port}"

    def silent(self, nodes: Sequence[int]) -> DeviceError:
        """The error of drives that do not answer."""
        remedy = f"Check supply, cables, termination, node ids, and that the drives run at {self._bitrate_bps} bit/s."
        return DeviceError(self.name, f"drive {', '.join(map(str, nodes))} does not answer", remedy)

    def _note(self, frame: Frame) -> bool:
        """Whether it is a heartbeat, a boot-up, or an emergency, and is kept so."""
        function, node = frame.identifier & 0x780, frame.identifier & 0x7F
        if function == codec.HEARTBEAT and len(frame.data) == 1:
            state = frame.data[0] & 0x7F
            self.states[node] = state
            self.heard.add(node)
            if state == codec.BOOT_UP:
                self.boot_ups.add(node)
            return True
        return function == codec.EMERGENCY

    def _send(self, frame: Frame) -> None:
        self.sent += 1
        if self._in_process is not None:
            self._received += self._in_process(slcan_line(frame))
            return
        self._opened().send(frame)

    def _receive(self, wait_s: float) -> Frame | None:
        if self._in_process is not None:
            return take_slcan(self._received)
        return self._opened().receive(wait_s)

    def _opened(self) -> CanLine:
        if self._line is None:
            raise DeviceError(self.name, "is not open", "Open it first.")
        return self._line
