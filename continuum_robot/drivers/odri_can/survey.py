# SPDX-License-Identifier: Apache-2.0
"""Listens to a CAN channel without sending anything, and lists what is there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from continuum_robot.drivers.can_bus import BITRATE_BPS
from continuum_robot.drivers.odri_can.board import ONE_BOARD_HZ, describe
from continuum_robot.drivers.odri_can.channel import Channel, SocketFactory
from continuum_robot.drivers.odri_can.protocol import KINDS, POSITION_ID, Status
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.stepped.system_calls import CanFrame

DURATION_S = 1.5
_WAIT_S = 0.02


class ChannelSurvey(NamedTuple):
    """What was heard on a channel."""

    status: Status | None
    frame_rates_hz: dict[int, float]
    problem: str

    def summary(self) -> str:
        """A line for a person."""
        board = "" if self.status is None else f"motor board: {describe(self.status)}"
        return "; ".join(filter(None, (board, self.problem)))


class _Heard(Telemetry):
    """Counts the frames of a channel by identifier too."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[int] = Counter()

    def take_usual(self, frame: CanFrame, stamp_s: float) -> bool:  # noqa: ARG002
        """Leave every frame to :meth:`take`."""
        return False

    def take(self, identifier: int, length: int, first: int, second: int, stamp_s: float) -> None:
        """Take a frame; arguments as of :class:`.Telemetry`."""
        self.counts[identifier] += 1
        super().take(identifier, length, first, second, stamp_s)


def survey(
    interface: str,
    channel: str,
    bitrate_bps: int = BITRATE_BPS,
    *,
    duration_s: float = DURATION_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    socket_factory: SocketFactory | None = None,
) -> ChannelSurvey:
    """Listen to a channel. Nothing is sent, so nothing is enabled."""
    heard, listener = _Heard(), Channel(interface, channel, bitrate_bps, socket_factory)
    listener.open()
    try:
        begin_s = clock()
        while clock() - begin_s < duration_s:
            listener.port.drain(heard, clock())
            sleep(_WAIT_S)
        listener.port.drain(heard, clock())
        elapsed_s = clock() - begin_s
        trouble = listener.last_error or ("the adapter is bus-off" if listener.port.bus_off else "")
    finally:
        listener.close()
    status = Status.of(heard.status_bits) if heard.has_status else None
    rates = {identifier: count / elapsed_s for identifier, count in sorted(heard.counts.items())}
    unexpected = ", ".join(f"0x{identifier:03X}" for identifier in rates if identifier not in KINDS)
    problems = {
        "no frame at all": not rates,
        "no motor board answers": bool(rates) and status is None,
        "more than one board on this channel, which cannot be identified apart": rates.get(POSITION_ID, 0.0)
        > ONE_BOARD_HZ,
        f"frames of something else: {unexpected}": bool(unexpected),
        f"{heard.bad_frames} frames that no such board sends": heard.bad_frames > 0,
        "another program sends commands here": heard.other_host,
        trouble: bool(trouble),
    }
    return ChannelSurvey(status, rates, "; ".join(words for words, is_so in problems.items() if is_so))
