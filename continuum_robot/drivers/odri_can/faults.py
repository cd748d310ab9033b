# SPDX-License-Identifier: Apache-2.0
"""The faults of a motor board: their names, what to do, and which errors of its status they are."""

from __future__ import annotations

from continuum_robot.drivers.odri_can.codec import ErrorCode, Status

ESTOP = "estop"
RECEIVE_TIMEOUT = "receive_timeout"
ENCODER = "encoder_error"
POSITION_CONVERTER = "position_converter_error"
POSITION_ROLLOVER = "position_rollover_error"
MOTOR_TEMPERATURE = "motor_temperature"
OTHER_ERROR = "other_board_error"
MOTOR_OFF = "motor_off"
REBOOTED = "rebooted"
POSITION_JUMP = "position_jump"
SILENT_BOARD = "silent_board"
SILENT_STATUS = "silent_status"
CURRENT_MISMATCH = "current_mismatch"
TWO_BOARDS = "two_boards"
OTHER_HOST = "other_host"
BUS_OFF = "bus_off"
BUS_ERROR = "bus_error"

FAULTS: dict[str, str] = {
    ESTOP: "the stop input of the board was closed: open it, then enable again",
    RECEIVE_TIMEOUT: "no current reference reached the board in time, so it switched off: enable again",
    ENCODER: "the encoder lost counts between two index marks: switch the board's power off and on, home again",
    POSITION_CONVERTER: "the board's position converter reports an error: enable again, or switch its power off",
    POSITION_ROLLOVER: "the board reports a rollover of its position: enable again",
    MOTOR_TEMPERATURE: "the board reports a motor that is too hot: let it cool down",
    OTHER_ERROR: "the board reports an error without a meaning: switch its power off and on",
    MOTOR_OFF: "a motor is off that was switched on: enable again",
    REBOOTED: "the board restarted: its position and alignment are lost; enable with slack tendons, home again",
    POSITION_JUMP: "a position jumped farther than a motor can turn: its zero is lost, home again",
    SILENT_BOARD: "no positions or currents arrive: check the board's supply and the CAN wiring",
    SILENT_STATUS: "no status frames arrive: check the CAN wiring, two boards on one channel collide",
    CURRENT_MISMATCH: "the measured current does not follow the commanded one: the board is off, or a phase is open",
    TWO_BOARDS: "more frames arrive than one board sends: one board a channel, they have no addresses",
    OTHER_HOST: "another program sends commands on this channel: stop it",
    BUS_OFF: "the CAN adapter went bus-off: check wiring, termination and bit rate",
    BUS_ERROR: "frames can be neither sent nor received: check the adapter and its plug",
}
"""Name and meaning of every fault of a board."""

ERRORS = {
    ErrorCode.ENCODER: ENCODER,
    ErrorCode.RECEIVE_TIMEOUT: RECEIVE_TIMEOUT,
    ErrorCode.MOTOR_TEMPERATURE: MOTOR_TEMPERATURE,
    ErrorCode.POSITION_CONVERTER: POSITION_CONVERTER,
    ErrorCode.POSITION_ROLLOVER: POSITION_ROLLOVER,
    ErrorCode.RESERVED: OTHER_ERROR,
    ErrorCode.OTHER: OTHER_ERROR,
}
"""Fault of each error that a status may hold."""
BY_CODE = (
    ESTOP,
    ENCODER,
    RECEIVE_TIMEOUT,
    MOTOR_TEMPERATURE,
    POSITION_CONVERTER,
    POSITION_ROLLOVER,
    OTHER_ERROR,
    OTHER_ERROR,
    MOTOR_OFF,
    REBOOTED,
    POSITION_JUMP,
    SILENT_BOARD,
    SILENT_STATUS,
    CURRENT_MISMATCH,
    TWO_BOARDS,
    OTHER_HOST,
    BUS_OFF,
    BUS_ERROR,
)
"""Name of each fault of fault_codes.py; the error that the firmware reserves, 6, is one without a meaning."""


def describe(status: Status) -> str:
    """A status in words."""
    words = ["system on" if status.system_enabled else "system off"]
    for motor in (1, 2):
        state = "on" if status.motor_enabled(motor) else "off"
        words.append(f"motor {motor} {state} and {'ready' if status.motor_ready(motor) else 'not aligned'}")
    error = "no error" if status.error is ErrorCode.NONE else f"error {int(status.error)}: {ERRORS[status.error]}"
    return ", ".join([*words, error])
