# SPDX-License-Identifier: Apache-2.0
"""Control table of Dynamixel X servos with current control, as far as the driver needs it; protocol 2, little-endian.

Source: control tables of XM430-W350 and XC330 on emanual.robotis.com.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

OPERATING_MODE = 11
CURRENT_LIMIT = 38
TORQUE_ENABLE = 64
HARDWARE_ERROR = 70
BUS_WATCHDOG = 98
GOAL_CURRENT = 102
PROFILE_VELOCITY = 112
PRESENT_CURRENT = 126

CURRENT_CONTROL = 0
KNOWN_MARK = 12345
"""Left in the profile velocity, which current control does not use and which is 0 after power-on: a servo that still
has it counts its turns as it did then."""
WATCHDOG_UNIT_MS = 20
COUNTS_PER_TURN = 4096
VELOCITY_UNIT_REV_PER_S = 0.229 / 60

# From 64: torque enabled, 5 bytes of others, hardware error. From 126: current, velocity, position, 8 bytes of the
# trajectories, voltage, temperature.
CONDITION_SIZE = HARDWARE_ERROR - TORQUE_ENABLE + 1
_STATE = struct.Struct("<hii8xHB")
STATE_SIZE = _STATE.size

ERROR_BITS = {0: "input_voltage", 2: "overheating", 3: "motor_encoder", 4: "electrical_shock", 5: "overload"}


class ServoState(NamedTuple):
    """What a servo measures: counts of current, turns and turns a second of its horn, V, degree Celsius.

    Attributes
    ----------
    current_counts : current in the counts of the register
    velocity_rev_per_s : speed of the horn, rev/s
    position_rev : turns of the horn, rev
    voltage_v : of the supply, V
    temperature_c : degree Celsius
    """

    current_counts: int
    velocity_rev_per_s: float
    position_rev: float
    voltage_v: float
    temperature_c: float


def decode_state(data: bytes) -> ServoState:
    """The state from the registers at :data:`PRESENT_CURRENT`; ``data`` has :data:`STATE_SIZE` bytes."""
    current, velocity, position, voltage, temperature = _STATE.unpack(data)
    return ServoState(
        current, velocity * VELOCITY_UNIT_REV_PER_S, position / COUNTS_PER_TURN, voltage / 10, float(temperature)
    )


def encode_state(state: ServoState) -> bytes:
    """The registers of a state; the other direction, for the simulated servo."""
    return _STATE.pack(
        state.current_counts,
        round(state.velocity_rev_per_s / VELOCITY_UNIT_REV_PER_S),
        round(state.position_rev * COUNTS_PER_TURN),
        round(state.voltage_v * 10),
        round(state.temperature_c),
    )


def encode_goal_current(counts: int) -> bytes:
    """Two bytes of a goal current.

    Parameters
    ----------
    counts : in the unit of the register, signed
    """
    return struct.pack("<h", counts)


def watchdog_counts(timeout_ms: int) -> int:
    """The bus watchdog for a time in ms, rounded up, at least 1 and at most 127.

    Parameters
    ----------
    timeout_ms : ms
    """
    return max(1, min(127, -(-timeout_ms // WATCHDOG_UNIT_MS)))


def error_names(bits: int) -> tuple[str, ...]:
    """Names of the bits of a hardware error; an unknown bit by its number."""
    return tuple(ERROR_BITS.get(bit, f"bit_{bit}") for bit in range(8) if bits >> bit & 1)
