# SPDX-License-Identifier: Apache-2.0
"""Listens to a CAN channel without sending anything, and lists what is there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from continuum_robot.drivers.odri_can import codec
from continuum_robot.drivers.odri_can.board_watch import ONE_BOARD_HZ
from continuum_robot.drivers.odri_can.can_link import BITRATE_BPS
from continuum_robot.drivers.odri_can.channels import channel_of
from continuum_robot.drivers.odri_can.codec import Status
from continuum_robot.drivers.odri_can.faults import describe
from continuum_robot.errors import FrameError

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


class _Heard:
    """Takes the frames in the place of a board's telemetry."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.statuses: list[Status] = []
        self.bad = 0

    def take(self, identifier: int, length: int, frame: bytearray, stamp_s: float) -> None:
        """A frame of a socket."""
        self.receive(identifier, bytes(frame[8 : 8 + length]), stamp_s)

    def receive(self, identifier: int, data: bytes, _stamp_s: float) -> None:
        """A frame of python-can."""
        self.counts[identifier] += 1
        try:
            frame = codec.decode(identifier, data)
        except FrameError:
            self.bad += identifier in codec.KNOWN_IDS
            return
        if isinstance(frame, Status):
            self.statuses.append(frame)


def survey(
    interface: str,
    channel: str,
    bitrate_bps: int = BITRATE_BPS,
    *,
    duration_s: float = DURATION_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ChannelSurvey:
    """Listen to a channel. Nothing is sent, so nothing is enabled.

    Parameters
    ----------
    interface : of python-can
    channel : its name
    bitrate_bps : bit/s
    duration_s : how long to listen, s; a board shows its status once a second
    clock, sleep : time to listen by

    Raises
    ------
    DeviceError : the channel cannot be opened
    """
    frames: Any = _Heard()  # in the place of a telemetry
    listener = channel_of(interface, channel, bitrate_bps, clock=clock, threaded=False)
    listener.open()
    try:
        begin_s = clock()
        while clock() - begin_s < duration_s:
            listener.port.drain(frames, clock())
            sleep(_WAIT_S)
        listener.port.drain(frames, clock())
        elapsed_s = clock() - begin_s
        trouble = listener.last_error or ("the adapter is bus-off" if listener.bus_off else "")
    finally:
        listener.close()
    counts, statuses, bad = frames.counts, frames.statuses, frames.bad
    rates = {identifier: count / elapsed_s for identifier, count in sorted(counts.items())}
    unexpected = tuple(identifier for identifier in rates if identifier not in codec.KNOWN_IDS)
    other_host = any(identifier in counts for identifier in _HOST_IDS)
    status = statuses[-1] if statuses else None
    problems = []
    if status is None:
        heard = ", ".join(f"0x{identifier:03X}" for identifier in rates)
        problems.append(f"no motor board answers (heard: {heard})" if heard else "no frame at all")
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
