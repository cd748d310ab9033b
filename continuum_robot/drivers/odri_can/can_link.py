# SPDX-License-Identifier: Apache-2.0
"""How a CAN interface is brought up for the motor boards: the words of ``ip link``."""

from __future__ import annotations

BITRATE_BPS = 1_000_000
"""The firmware's, fixed."""
SAMPLE_POINT = 0.867
"""The firmware's, fixed: 13 of 15 time quanta."""
RESTART_MS = 100
"""How long the adapter stays away from the bus after a bus-off."""
QUEUE_LENGTH = 1000
"""Frames; the kernel's own 10 fill at once."""


def bring_up_commands(name: str, bitrate_bps: int = BITRATE_BPS) -> tuple[str, str]:
    """The two commands that bring a CAN interface up, for root; the first may fail.

    Some drivers refuse ``restart-ms`` (gs_usb, whose adapters come back from a bus-off by themselves). In one
    command with the bit rate the interface would then stay down.

    Parameters
    ----------
    name : of the interface
    bitrate_bps : bit/s
    """
    return (
        f"ip link set {name} type can restart-ms {RESTART_MS}",
        f"ip link set {name} up txqueuelen {QUEUE_LENGTH} type can bitrate {bitrate_bps} sample-point {SAMPLE_POINT}",
    )


def bring_up_line(name: str, bitrate_bps: int = BITRATE_BPS) -> str:
    """Both commands as a line to type.

    Parameters
    ----------
    name : of the interface
    bitrate_bps : bit/s
    """
    return "; ".join(f"sudo {command}" for command in bring_up_commands(name, bitrate_bps))
