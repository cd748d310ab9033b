# SPDX-License-Identifier: Apache-2.0
"""What drivers/backends.py takes from this folder; a survey listens to channels without sending anything."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from continuum_robot.drivers.can_bus import BITRATE_BPS
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.board import ONE_BOARD_HZ, describe
from continuum_robot.drivers.odri_can.channel import Channel, SocketFactory
from continuum_robot.drivers.odri_can.emulator import FAULTS, CanWire, MotorPort, SimulatedOdriBoard
from continuum_robot.drivers.odri_can.protocol import KINDS, POSITION_ID, Status
from continuum_robot.drivers.odri_can.settings import OdriCan
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.survey import FOUND, MISSING, Finding, absent
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
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


def heard_on(
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


CYCLE_MODULES = ("frames", "telemetry", "frame_port", "board", "motor_boards")
BOARD_FAULTS = FAULTS


def make(robot: Robot, settings: OdriCan, *, interface: str = "", **options: Any) -> TendonActuators:
    """The driver, not open yet; ``options`` as of its class."""
    settings = dataclasses.replace(settings, interface=interface) if interface else settings
    return OdriTendonActuators(robot, settings, **options)


def boards(
    settings: OdriCan,
    port: Callable[[str, int], MotorPort | None],
    wire: Callable[[], CanWire],
    **options: Any,
) -> dict[str, SimulatedOdriBoard]:
    """Emulated boards by channel, each on a ``wire`` of its own; ``port`` gives the motor of a channel and a number."""
    used = [name for name in settings.channels if any(entry.channel == name for entry in settings.motors)]
    return {name: SimulatedOdriBoard(wire(), (port(name, 1), port(name, 2)), **options) for name in used}


def survey(_robot: Robot, settings: OdriCan) -> list[Finding]:
    """Listen on every channel, without switching anything on."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda channel: _channel(settings, channel), settings.channels))


def _channel(settings: OdriCan, channel: str) -> Finding:
    name = "motor board"
    remedy = "Check its power, the wiring and the two terminating resistors."
    try:
        heard = heard_on(settings.interface, channel, settings.bitrate_bps)
    except DeviceError as error:
        return absent(name, channel, error)
    if heard.status is None:
        return Finding(name, channel, MISSING, f"{heard.problem}. {remedy}")
    return Finding(name, channel, FOUND, heard.summary())
