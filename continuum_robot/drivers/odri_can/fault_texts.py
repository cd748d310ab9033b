# SPDX-License-Identifier: Apache-2.0
"""The faults of a motor board: the one table of their codes, names, and what a user learns of them."""

from __future__ import annotations

from continuum_robot.drivers.fault_text import HOME, RESET, FaultText

WHERE = "`/diagnostics` of tendon_driver as `<channel>: {name}`, with [device_fault](device_fault.md)"

FAULTS: dict[str, FaultText] = {
    "estop": FaultText(
        "the stop input of the board was closed",
        ("the button at the board's stop input is pressed", "its cable is broken"),
        "The board's status reports it.",
        ("Open the input.", RESET),
    ),
    "encoder_error": FaultText(
        "the encoder lost counts between two index marks",
        ("the encoder lost counts between two index marks: loose disk, dirt, interference",),
        "The board compares its count with the index mark of every turn.",
        ("Check the encoder.", "Switch the board's power off and on.", HOME),
    ),
    "receive_timeout": FaultText(
        "no current reference reached the board in time, so it switched off",
        ("no current reference reached the board: cable, adapter, a host that stalled",),
        "The board counts `receive_timeout_ms` itself and switches its motors off.",
        ("Check the wire to the board and the host's load.", RESET),
    ),
    "motor_temperature": FaultText(
        "the board reports a motor that is too hot",
        ("too much current for too long", "no cooling"),
        "The board's status reports it.",
        ("Let the motor cool down.", "Lower `limits.maximum_n` or the pretension.", RESET),
    ),
    "position_converter_error": FaultText(
        "the board's position converter reports an error",
        ("a defect of the board's position converter",),
        "The board's status reports it.",
        ("Reset; if it comes again, switch its power off and on, then replace the board.", HOME),
    ),
    "position_rollover_error": FaultText(
        "the board switched off by a rollover of its position",
        ("another program switched the board's rollover error on, and a motor passed 100 revolutions",),
        "The board's status reports it. A rollover as such is followed and no fault.",
        ("Switch the board's power off and on: its rollover error is then off.", HOME),
    ),
    "other_board_error": FaultText(
        "the board reports an error without a meaning",
        ("an error code that the firmware does not explain",),
        "The board's status holds it.",
        ("Switch the board's power off and on.", HOME),
    ),
    "motor_off": FaultText(
        "a motor is off that was switched on",
        ("the board switched a motor off by itself",),
        "The board's status reports that a motor is off which was switched on.",
        ("Look for other faults of the board.", RESET),
    ),
    "rebooted": FaultText(
        "the board restarted",
        ("the board lost its supply for a moment",),
        "Its motors are not aligned any more, or its positions restart.",
        ("Check the supply.", "Slacken the tendons: the rotors align with a jerk.", HOME),
    ),
    "position_jump": FaultText(
        "a position jumped farther than a motor can turn",
        ("the encoder lost its count", "the board restarted"),
        "A position moved farther than a motor can turn in the time.",
        ("Check the encoder's cable.", HOME),
    ),
    "silent_board": FaultText(
        "no positions or currents arrive",
        ("the board has no power", "its CAN cable is off", "the channel in the robot file is another one"),
        "No positions or currents for `silent_after_s` (30 ms) and 20 ms more: the computer did not stall.",
        ("Check supply and CAN wiring.", "`continuum-robot devices ROBOT` lists what is on each channel.", RESET),
    ),
    "silent_status": FaultText(
        "no status frames arrive",
        ("status frames are lost", "two boards on one channel collide"),
        "No status for 2.5 s, though it comes once a second.",
        ("One board a channel.", "Check wiring and termination.", RESET),
    ),
    "current_mismatch": FaultText(
        "the measured current does not follow the commanded one",
        ("the board switched off", "a phase is open", "the supply is too weak"),
        "The measured current does not follow the commanded one.",
        ("Check the motor's cable and the supply.", RESET),
    ),
    "two_boards": FaultText(
        "more frames arrive than one board sends",
        ("two boards are on one CAN channel: they have no addresses",),
        "More frames arrive than one board sends.",
        ("Give each board a channel of its own.", RESET),
    ),
    "other_host": FaultText(
        "another program sends commands on this channel",
        ("another program, or another computer, sends commands on this channel",),
        "A command is seen that this driver did not send.",
        ("Stop the other program.", RESET),
    ),
    "bus_off": FaultText(
        "the CAN adapter went bus-off",
        ("a short circuit or missing termination", "a wrong bit rate"),
        "The CAN controller reports bus-off.",
        (
            "Check wiring, termination, bit rate.",
            "With `restart-ms` the adapter comes back by itself; otherwise `sudo ip link set canN down`, then `up`.",
            "A board that stays silent went bus-off too: slacken the tendons, switch its power off and on, home.",
            RESET,
        ),
    ),
    "queue_full": FaultText(
        "frames to the board wait in the adapter's queue, which is full",
        ("no board acknowledges them: its cable is off, or it has no power", "the queue is short"),
        "Three frames in a row found no place in the queue (ENOBUFS, or EAGAIN).",
        ("Check the board's supply, the cable and its termination.", "Set `txqueuelen 1000`.", RESET),
    ),
    "bus_error": FaultText(
        "frames can be neither sent nor received",
        ("the adapter was unplugged", "its network interface was set down", "its driver failed"),
        "Reading fails, or three frames in a row could not be sent.",
        ("Plug the adapter in, or set its interface up: it is opened again by itself.", RESET),
    ),
}
"""Of every fault. Its code is its place here; 1 to 6 are the errors of the status, which has no 6 and calls that 7."""
CODES = {name: code for code, name in enumerate(FAULTS)}
NAMES = tuple(FAULTS)


def fault_of(error: int) -> str:
    """The fault of an error of the status; without one, a board that is off had its stop input closed."""
    return NAMES[min(error, CODES["other_board_error"])]
