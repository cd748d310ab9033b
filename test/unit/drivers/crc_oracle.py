# SPDX-License-Identifier: Apache-2.0
"""CRCs with polynomial 0x1021, bit by bit as their definitions say."""

from __future__ import annotations


def crc_ccitt_false(data: bytes) -> int:
    register = 0xFFFF
    for byte in data:
        for bit in range(7, -1, -1):
            feedback = (register >> 15) ^ (byte >> bit & 1)
            register = (register << 1 & 0xFFFF) ^ (0x1021 if feedback else 0)
    return register


def crc_x25(data: bytes) -> int:
    register = 0xFFFF
    for byte in data:
        for bit in range(8):
            feedback = (register & 1) ^ (byte >> bit & 1)
            register = (register >> 1) ^ (0x8408 if feedback else 0)
    return register ^ 0xFFFF


CHECK = b"123456789"
assert crc_ccitt_false(CHECK) == 0x29B1
assert crc_x25(CHECK) == 0x906E
