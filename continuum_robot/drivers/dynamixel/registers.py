# SPDX-License-Identifier: Apache-2.0
"""Control table of Dynamixel servos with protocol 2, as far as the driver needs it; little-endian.

The addresses of the volatile registers are those of the X series; :attr:`Model.ram` is added to them. Source: control
tables of XM430-W350, XL430-W250, XC330, MX-64(2.0) and PH54-200 on emanual.robotis.com.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from continuum_robot.drivers.dynamixel.models import Model

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
