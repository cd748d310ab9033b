# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each fault of CiA 402 drives."""

from __future__ import annotations

from continuum_robot.drivers.fault_text import HOME, RESET, SERVO_FAULTS, FaultText

WHERE = "`/diagnostics` of tendon_driver as `<port> drive <node id>: {name}`, with [device_fault](device_fault.md)"
_SHARED = ("receive_timeout", "torque_off", "position_jump", "hardware_error")
FAULTS: dict[str, FaultText] = {name: SERVO_FAULTS[name] for name in _SHARED} | {
    "silent_drive": FaultText(
        "a drive sends no process data",
        ("no supply", "a loose cable or a missing termination", "another bit rate or node id than in the robot file"),
        "A drive does not answer the SYNC for 0.1 s; the others are still read.",
        ("Check supply and cables.", RESET),
    ),
    "heartbeat_lost": FaultText(
        "a drive's heartbeat does not come",
        ("a loose cable", "the drive hangs"),
        "No heartbeat of the drive for `receive_timeout_ms`; it sends four in that time.",
        ("Check supply and cables.", RESET),
    ),
    "not_operational": FaultText(
        "a drive left the NMT state operational, so it takes no commands",
        ("it missed this computer's heartbeat", "another program on the bus sent an NMT command"),
        "The state in the drive's heartbeat.",
        ("End other programs on the bus, and relieve the computer.", RESET),
    ),
    "restarted": FaultText(
        "a drive restarted, so it counts from another zero",
        ("its supply broke down", "another program reset it"),
        "The drive's boot-up message.",
        ("Check the supply.", HOME),
    ),
    "quick_stop": FaultText(
        "a drive stopped by itself and holds its place",
        ("it missed this computer's heartbeat", "its quick stop input is open"),
        "The state quick stop active in the statusword while the drive should be enabled.",
        ("Relieve the computer, or close the input.", RESET),
    ),
    "following_error": FaultText(
        "a drive does not follow its target position",
        ("the tendon is blocked or overloaded", "the window 0x6065 of the drive is too narrow", "wrong gains"),
        "Bit 13 of the statusword.",
        ("Free the tendon.", "Compare the window with the lag of the drive's tuned loop.", RESET),
    ),
}
