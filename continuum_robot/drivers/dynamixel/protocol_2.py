# SPDX-License-Identifier: Apache-2.0
"""Packets of Dynamixel protocol 2. Source: emanual.robotis.com/docs/en/dxl/protocol2."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from continuum_robot.drivers.servo_bus import BROADCAST, Answer

HEADER = b"\xff\xff\xfd\x00"
PING, READ, WRITE, REBOOT, STATUS, SYNC_READ, SYNC_WRITE, FAST_SYNC_READ = 1, 2, 3, 8, 0x55, 0x82, 0x83, 0x8A
LONGEST = 1024
_SHORTEST = 10
_BEGUN, _STUFFED = b"\xff\xff\xfd", b"\xff\xff\xfd\xfd"


def _remainder(value: int) -> int:
    value <<= 8
    for _ in range(8):
        value = (value << 1 ^ 0x8005 if value & 0x8000 else value << 1) & 0xFFFF
    return value


_REMAINDERS = tuple(map(_remainder, range(256)))


def crc_16(data: bytes, value: int = 0) -> int:
    """Checksum: polynomial 0x8005, begin 0, not reflected."""
    for byte in data:
        value = (value << 8 & 0xFFFF) ^ _REMAINDERS[value >> 8 ^ byte]
    return value


class Protocol2:
    """The framing: header, number, length, instruction, parameters, CRC; a header within parameters is stuffed."""

    overhead = 11

    @staticmethod
    def packet(servo: int, instruction: int, parameters: bytes) -> bytes:
        """A packet; an answer has its error as the first of the parameters."""
        body = (bytes([instruction]) + parameters).replace(_BEGUN, _STUFFED)
        head = HEADER + struct.pack("<BH", servo, len(body) + 2) + body
        return head + struct.pack("<H", crc_16(head))

    @staticmethod
    def take_packet(received: bytearray) -> tuple[int, int, bytes] | None:
        """The first whole packet: number, instruction, parameters; it is removed with all that came before."""
        while True:
            begin = received.find(HEADER)
            if begin < 0:
                del received[: max(0, len(received) - len(HEADER) + 1)]
                return None
            del received[:begin]
            if len(received) < _SHORTEST:
                return None
            size = int.from_bytes(received[5:7], "little") + 7
            if not _SHORTEST <= size <= LONGEST:
                del received[0]
                continue
            if len(received) < size:
                return None
            data = bytes(received[:size])
            if crc_16(data[:-2]) != int.from_bytes(data[-2:], "little"):
                del received[0]
                continue
            del received[:size]
            # The answer of many servos in one is not stuffed.
            fast = data[4] == BROADCAST and data[7] == STATUS
            body = data[7:-2] if fast else data[7:-2].replace(_STUFFED, _BEGUN)
            return data[4], body[0], body[1:]

    def take(self, received: bytearray) -> Answer | None:
        """The first whole answer."""
        while (found := self.take_packet(received)) is not None:
            servo, instruction, body = found
            if instruction == STATUS and body:
                return Answer(servo, body[0], body[1:])
        return None


def place(address: int, size: int) -> bytes:
    """Parameters that name registers."""
    return struct.pack("<HH", address, size)


def sync_write(address: int, values: Mapping[int, bytes]) -> bytes:
    """Parameters that set a register of many servos; ``values``: bytes of each, all of one length."""
    size = len(next(iter(values.values())))
    return place(address, size) + b"".join(bytes([servo]) + data for servo, data in values.items())


def fast_size(size: int, count: int) -> int:
    """Bytes of data in the one answer of many servos to a fast sync read of ``size`` bytes."""
    return count * (size + 4) - 3


def fast_parts(data: bytes, size: int, servos: Sequence[int]) -> dict[int, bytes]:
    """What each servo put into the one answer to a fast sync read: number, registers, checksum, and the
    next's error.
    """
    found = {}
    for index, servo in enumerate(servos):
        begin = index * (size + 4)
        if data[begin] != servo:
            return {}
        found[servo] = data[begin + 1 : begin + 1 + size]
    return found
