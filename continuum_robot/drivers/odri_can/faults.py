# SPDX-License-Identifier: Apache-2.0
"""The faults of a motor board: their names, what to do, and which errors of its status they are."""

from __future__ import annotations

from continuum_robot.drivers.odri_can.codec import ErrorCode, Status

FAULTS: dict[str, str] = {
    "estop": "the stop input of the board was closed: open it, then enable again",
    "encoder_error": "the encoder lost counts between two index marks: switch the board's power off and on, home again",
    "receive_timeout": "no current reference reached the board in time, so it switched off: enable again",
    "motor_temperature": "the board reports a motor that is too hot: let it cool down",
    "position_converter_error": "the board's position converter reports an error: enable again, or switch its power"
    " off",
    "position_rollover_error": "the board reports a rollover of its position: enable again",
    "other_board_error": "the board reports an error without a meaning: switch its power off and on",
    "motor_off": "a motor is off that was switched on: enable again",
    "rebooted": "the board restarted: its position and alignment are lost; enable with slack tendons, home again",
    "position_jump": "a position jumped farther than a motor can turn: its zero is lost, home again",
    "silent_board": "no positions or currents arrive: check the board's supply and the CAN wiring",
    "silent_status": "no status frames arrive: check the CAN wiring, two boards on one channel collide",
    "current_mismatch": "the measured current does not follow the commanded one: the board is off, or a phase is open",
    "two_boards": "more frames arrive than one board sends: one board a channel, they have no addresses",
    "other_host": "another program sends commands on this channel: stop it",
    "bus_off": "the CAN adapter went bus-off: check wiring, termination and bit rate",
    "bus_error": "frames can be neither sent nor received: check the adapter and its plug",
}
"""Name and meaning of every fault of a board, in the order of fault_codes.py."""

BY_CODE = (*list(FAULTS)[:7], *list(FAULTS)[6:])
"""Name of each fault of fault_codes.py; the error that the firmware reserves, 6, is one without a meaning."""


def describe(status: Status) -> str:
    """A status in words."""
    words = ["system on" if status.system_enabled else "system off"]
    for motor in (1, 2):
        state = "on" if status.motor_enabled(motor) else "off"
        words.append(f"motor {motor} {state} and {'ready' if status.motor_ready(motor) else 'not aligned'}")
    error = "no error" if status.error is ErrorCode.NONE else f"error {int(status.error)}: {BY_CODE[status.error]}"
    return ", ".join([*words, error])
