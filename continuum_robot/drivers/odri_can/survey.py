# SPDX-License-Identifier: Apache-2.0
"""Listens to a CAN channel without sending anything, and lists what is there."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from continuum_robot.drivers.can_bus import BITRATE_BPS
from continuum_robot.drivers.odri_can import codec
from continuum_robot.drivers.odri_can.board_watch import ONE_BOARD_HZ
from continuum_robot.drivers.odri_can.channel import Channel, SocketFactory
from continuum_robot.drivers.odri_can.codec import Status
from continuum_robot.drivers.odri_can.faults import describe
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.errors import FrameError
from continuum_robot.stepped.system_calls import CanFrame

DURATION_S = 1.5
_HOST_IDS = (codec.COMMAND_ID, codec.CURRENT_REFERENCE_ID)
_WAIT_S = 0.02


@dataclass(frozen=True, slots=True)
class ChannelSurvey:
    """What was heard on a channel.

    Attributes
    ----------
    channel : its name
    status : newest status of a board; None where none came
    frame_rates_hz : frames a second of each identifier
    unexpected_ids : identifiers that are not of these boards
    bad_frames : frames with these boards' identifiers whose content is not theirs
    other_host : somebody sends commands there
    problem : what is wrong, as a sentence without its full stop; "" where nothing is
    """

    channel: str
    status: Status | None
    frame_rates_hz: dict[int, float]
    unexpected_ids: tuple[int, ...]
    bad_frames: int
    other_host: bool
    problem: str

    @property
    def board_found(self) -> bool:
        """Whether a board sent its status."""
        return self.status is not None

    def summary(self) -> str:
        """A line for a person."""
        words = self.problem if self.status is None else f"motor board: {describe(self.status)}"
        if self.status is not None and self.problem:
            words += f"; {self.problem}"
        return words


class _Heard(Telemetry):
    """Counts the frames of a channel by identifier, and decodes what boards send."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[int] = Counter()
        self.newest: Status | None = None
        self.bad = 0

    def take_usual(self, frame: CanFrame, stamp_s: float) -> bool:  # noqa: ARG002
        """Leave every frame to :meth:`take`."""
        return False

    def take(self, identifier: int, length: int, first: int, second: int, stamp_s: float) -> None:  # noqa: ARG002
        """Take a frame; arguments as of :class:`.Telemetry`."""
        self.counts[identifier] += 1
        try:
            frame = codec.decode(identifier, struct.pack(">ii", first, second)[:length])
        except FrameError:
            self.bad += identifier in codec.KNOWN_IDS
            return
        if isinstance(frame, Status):
            self.newest = frame


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
    """Listen to a channel. Nothing is sent, so nothing is enabled.

    Parameters
    ----------
    interface : of python-can
    channel : its name
    bitrate_bps : bit/s
    duration_s : how long to listen, s; a board shows its status once a second
    clock, sleep : time to listen by
    socket_factory : opens the channel's socket in the interface's place

    Raises
    ------
    DeviceError : the channel cannot be opened
    """
    heard = _Heard()
    listener = Channel(interface, channel, bitrate_bps, socket_factory)
    listener.open()
    try:
        begin_s = clock()
        while clock() - begin_s < duration_s:
            listener.port.drain(heard, clock())
            sleep(_WAIT_S)
        listener.port.drain(heard, clock())
        elapsed_s = clock() - begin_s
        trouble = listener.last_error or ("the adapter is bus-off" if listener.bus_off else "")
    finally:
        listener.close()
    counts, bad, status = heard.counts, heard.bad, heard.newest
    rates = {identifier: count / elapsed_s for identifier, count in sorted(counts.items())}
    unexpected = tuple(identifier for identifier in rates if identifier not in codec.KNOWN_IDS)
    other_host = any(identifier in counts for identifier in _HOST_IDS)
    problems = []
    if status is None:
        others = ", ".join(f"0x{identifier:03X}" for identifier in rates)
        problems.append(f"no motor board answers (heard: {others})" if others else "no frame at all")
    if rates.get(codec.POSITION_ID, 0.0) > ONE_BOARD_HZ:
        problems.append("more than one board on this channel, which cannot be identified apart")
    if unexpected:
        problems.append("frames of something else: " + ", ".join(f"0x{identifier:03X}" for identifier in unexpected))
    if bad:
        problems.append(f"{bad} frames that no such board sends")
    if other_host:
        problems.append("another program sends commands here")
    if trouble:
        problems.append(trouble)
    return ChannelSurvey(channel, status, rates, unexpected, bad, other_host, "; ".join(problems))
