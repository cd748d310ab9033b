# SPDX-License-Identifier: Apache-2.0
"""Packets of Dynamixel protocol 2, and the control table of its servos, as far as the driver needs it; little-endian.

The addresses of the volatile registers are those of the X series; :attr:`Model.ram` is added to them. Sources:
emanual.robotis.com/docs/en/dxl/protocol2, and there the control tables of XM430-W350, XL430-W250, XC330, MX-64(2.0) and
PH54-200.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from continuum_robot.drivers.dynamixel.models import Model
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


MODEL_NUMBER = 0
ID = 7
BAUD_RATE = 8
RETURN_DELAY = 9
DRIVE_MODE = 10
OPERATING_MODE = 11
PWM_LIMIT = 36
CURRENT_LIMIT = 38
VELOCITY_LIMIT = 44
MAXIMUM_POSITION, MINIMUM_POSITION = 48, 52

TORQUE_ENABLE = 64
STATUS_RETURN = 68
HARDWARE_ERROR = 70
VELOCITY_I_GAIN, POSITION_I_GAIN = 76, 82
BUS_WATCHDOG = 98
GOAL_PWM = 100
GOAL_CURRENT = 102
GOAL_VELOCITY = 104
PROFILE_ACCELERATION = 108
PROFILE_VELOCITY = 112
GOAL_POSITION = 116
PRESENT_CURRENT = 126
PRESENT_POSITION = 132

KNOWN_MARK = 1234
"""Left in a gain that the mode does not use and that has another value after power-on: a servo that still has it counts
its turns as it did then."""
BAUD_CODES = {57600: 1, 115200: 2, 1_000_000: 3, 2_000_000: 4, 3_000_000: 5, 4_000_000: 6, 9600: 0}
ANSWERS_ALL = 2
"""Status return level of a servo that answers what is written too."""
REVERSED, TIME_PROFILE, ON_BY_GOAL = 1, 4, 8
"""Bits of the drive mode: it turns the other way round; profiles in time instead of speed; a goal switches it on."""
WATCHDOG_UNIT_MS = 20
WATCHDOG_STRUCK = 0xFF
LOAD_UNIT = 1e-3
EXTENDED_TURNS = 255.0

# From 64: torque enabled, 5 bytes of others, hardware error. From 126: current or load, velocity, position, 8 bytes of
# the trajectories, voltage, temperature.
CONDITION_SIZE = HARDWARE_ERROR - TORQUE_ENABLE + 1
_STATE = struct.Struct("<hii8xHB")
STATE_SIZE = _STATE.size

OVERLOAD = 5
ERROR_BITS = {0: "input_voltage", 2: "overheating", 3: "motor_encoder", 4: "electrical_shock", OVERLOAD: "overload"}


class ServoState(NamedTuple):
    """What a servo measures."""

    effort_counts: int
    velocity_rev_per_s: float
    position_rev: float
    voltage_v: float
    temperature_c: float


def decode_state(data: bytes, model: Model) -> ServoState:
    """The state from the registers at :data:`PRESENT_CURRENT`; ``data`` has :data:`STATE_SIZE` bytes."""
    effort, velocity, position, voltage, temperature = _STATE.unpack(data)
    return ServoState(
        effort,
        velocity * model.velocity_unit_rev_per_s,
        position / model.counts_per_turn,
        voltage / 10,
        float(temperature),
    )


def encode_state(state: ServoState, model: Model) -> bytes:
    """The registers of a state; the other direction, for the simulated servo."""
    return _STATE.pack(
        state.effort_counts,
        round(state.velocity_rev_per_s / model.velocity_unit_rev_per_s),
        round(state.position_rev * model.counts_per_turn),
        round(state.voltage_v * 10),
        round(state.temperature_c),
    )


def watchdog_counts(timeout_ms: int) -> int:
    """The bus watchdog for a time in ms, rounded up, at least 1 and at most 127."""
    return max(1, min(127, -(-timeout_ms // WATCHDOG_UNIT_MS)))


def error_names(bits: int) -> tuple[str, ...]:
    """Names of the bits of a hardware error; an unknown bit by its number."""
    return tuple(ERROR_BITS.get(bit, f"bit_{bit}") for bit in range(8) if bits >> bit & 1)
