# SPDX-License-Identifier: Apache-2.0
"""What the driver of the motor boards shows Python code: samples, and counters for the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Sample(NamedTuple):
    """Values of both motors in one tick of the board.

    Attributes
    ----------
    stamp_s : when its position arrived
    oldest_s : when the oldest of its values arrived; a lost frame leaves the value of the tick before
    position_rev : motor revolutions, continuous over the rollover of the wire
    velocity_rev_per_s : motor revolutions a second
    current_a : measured currents
    """

    stamp_s: float
    oldest_s: float
    position_rev: tuple[float, float]
    velocity_rev_per_s: tuple[float, float]
    current_a: tuple[float, float]


@dataclass(slots=True)
class BoardCounters:
    """What a board sent since it was made; read by the diagnostics.

    Attributes
    ----------
    bad_frames, unknown_identifiers : frames that are none of the protocol
    incomplete_ticks : ticks of which a frame was lost
    refused_positions : positions farther from the one before than a motor can turn
    positions, statuses : frames of these kinds
    """

    bad_frames: int = 0
    unknown_identifiers: int = 0
    incomplete_ticks: int = 0
    refused_positions: int = 0
    positions: int = 0
    statuses: int = 0


@dataclass(slots=True)
class ChannelCounters:
    """What happened on a channel since it was made; read by the diagnostics.

    Attributes
    ----------
    frames_in, frames_out : data frames of 11-bit identifiers
    refused_frames : remote, extended or FD frames, and such whose length is not what they state
    error_frames : reports of the CAN controller
    receive_errors, send_errors : failed calls; a frame for which the queue was full is one of the latter, and is lost
    reopened : how often the channel was opened again after errors
    """

    frames_in: int = 0
    frames_out: int = 0
    refused_frames: int = 0
    error_frames: int = 0
    receive_errors: int = 0
    send_errors: int = 0
    reopened: int = 0
