# SPDX-License-Identifier: Apache-2.0
"""All tendon actuators of a robot behind ODRI motor boards: tensions to currents, motor turns to displacements."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.odri_can.board import Board
from continuum_robot.drivers.odri_can.bus import BusFactory, CanChannel
from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import OdriCan

Vector = NDArray[np.float64]

ANSWER_TIMEOUT_S = 1.5
"""A status comes once a second."""
WAIT_S = 0.002
SECOND_OFF_AFTER_S = 0.003


class OdriTendonActuators:
    """Tendon actuators on 1 to k CAN channels, one dual-motor board a channel.

    A tension becomes a current, which is limited to ``maximum_current_a`` (the boards have no limit), and what was
    limited is told. The tension that is read is the measured current's. Displacements count from the pose at the
    boards' power-on, over alignments and restarts of the host; drivers/zeroed.py gives them another zero.

    Each waiting is bounded. :meth:`enable` may take the seconds of an alignment: then call it from another thread
    than the cycle's, whose readings and writes go on meanwhile; or use :meth:`begin_enable` and
    :meth:`continue_enable`.

    Parameters
    ----------
    robot : with ``hardware`` and ``actuators``, which have what the motors' entries do not state
    settings : instead of the robot's own
    bus_factory : opens the bus of a channel, instead of python-can's own way
    clock : monotonic time, s, the one of ``now_s``
    sleep : waits for a time, s
    threaded : receive in a thread for each channel; otherwise in :meth:`read`, for runs in virtual time
    simulated : whether simulated boards are at the other end

    Attributes
    ----------
    simulated : as given
    tendon_count : N
    limited : where the newest tensions were beyond the largest current, shape (N,), bool
    commanded_current_a : newest currents towards the motors, before polarity, shape (N,), A; NaN before the first

    Raises
    ------
    ParameterError : a robot without this hardware, or a tendon without a motor or with two
    """

    def __init__(
        self,
        robot: Robot,
        settings: OdriCan | None = None,
        *,
        bus_factory: BusFactory | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        threaded: bool = True,
        simulated: bool = False,
    ) -> None:
        if settings is None:
            settings = None if robot.hardware is None else _odri(robot.hardware.tendon_actuators)
        if settings is None:
            raise ParameterError("robot.hardware", None, f"motor boards in the file of robot {robot.name!r}")
        self.simulated, self.tendon_count, self.settings = simulated, robot.tendon_count, settings
        self._motors = MotorCurrents(robot, settings, settings.motors)
        motors = self._motors.motors
        self._signed_n_per_a = self._motors.polarity / self._motors.ampere_per_newton
        self._clock, self._sleep, self._threaded = clock, sleep, threaded
        self.channels: list[CanChannel] = []
        self.boards: list[Board] = []
        places: dict[tuple[str, int], tuple[int, int]] = {}
        for name in settings.channels:
            used = sorted(entry.motor for entry in motors if entry.channel == name)
            if not used:
                continue
            self._add(name, used, bus_factory)
            for motor in used:
                places[name, motor] = (len(self.boards) - 1, motor - 1)
        self._places = [places[entry.channel, entry.motor] for entry in motors]
        self._is_open = self._enabling = False
        self._forget_commands()

    def _add(self, name: str, motors: Sequence[int], bus_factory: BusFactory | None) -> None:
        settings = self.settings

        def receive(identifier: int, data: bytes, stamp_s: float) -> None:
            board.telemetry.receive(identifier, data, stamp_s)

        channel = CanChannel(
            settings.interface,
            name,
            settings.bitrate_bps,
            receive,
            bus_factory=bus_factory,
            clock=self._clock,
            threaded=self._threaded,
        )
        board = Board(name, motors, settings, channel.send)
        self.channels.append(channel)
        self.boards.append(board)

    # --- the protocol

    def open(self) -> None:
        """Open all channels, switch the torque off, and wait until each board answers.

        Raises
        ------
        DeviceError : names every channel that cannot be opened, or every board that does not answer; all are closed
        """
        if self._is_open:
            return
        try:
            self._open_channels()
            self._shake_hands()
        except BaseException:
            self._close_channels()
            raise
        self._is_open = True
        self.clear_faults()

    def _open_channels(self) -> None:
        errors = []
        for channel, board in zip(self.channels, self.boards, strict=True):
            board.forget()
            try:
                channel.open()
            except DeviceError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise DeviceError(
                "CAN channels",
                "; ".join(f"{error.device.removeprefix('CAN channel ')}: {error.problem}" for error in errors),
                " ".join(dict.fromkeys(error.remedy for error in errors)),
            )

    def _shake_hands(self) -> None:
        for board in self.boards:
            board.start_streams(self._clock())
        end_s = self._clock() + ANSWER_TIMEOUT_S
        while self._clock() < end_s and any(board.telemetry.missing() for board in self.boards):
            self._sleep(WAIT_S)
            self._poll()
            for board in self.boards:
                board.pump(self._clock())
        pairs = list(zip(self.channels, self.boards, strict=True))
        foreign = [board.name for board in self.boards if board.telemetry.other_host]
        if foreign:
            raise DeviceError(
                f"motor boards on {', '.join(foreign)}",
                "another program sends commands to them",
                "Stop it: nothing was enabled.",
            )
        silent = [
            f"{board.name} {board.telemetry.missing()}{_hint(channel)}"
            for channel, board in pairs
            if board.telemetry.missing()
        ]
        if silent:
            raise DeviceError(
                "motor boards",
                "; ".join(silent),
                "Check the boards' supply, the CAN wiring and termination, and the bit rate of 1 Mbit/s.",
            )

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on with zero current; the first :meth:`write` afterwards moves.

        The first time after the boards' power-on the rotors are aligned, which takes seconds and needs slack tendons.
        Later it takes until the boards' next status, a second at most; nothing where they are on.

        Parameters
        ----------
        aborted : asked every few milliseconds while it waits

        Raises
        ------
        DeviceError : not open; a board reports an error, its stop input, or is not ready in time; or it was aborted.
            All are off then
        """
        if aborted():
            raise interrupted("motor boards")
        self.begin_enable(self._clock())
        while not self.continue_enable(self._clock()):
            if aborted():
                self.disable()
                raise interrupted("motor boards")
            self._wait_for_boards()

    def _wait_for_boards(self) -> None:
        """Let a little time pass while they are enabled."""
        self._sleep(WAIT_S)
        self._poll()

    def begin_enable(self, now_s: float) -> None:
        """Begin to switch torque on, without waiting; :meth:`continue_enable` goes on. Raises :class:`DeviceError`."""
        self._require_open()
        if all(board.on for board in self.boards):
            return
        self._enabling = True
        for board in self.boards:
            # Those that are on already wait without current: the others' alignment needs slack tendons.
            if board.on:
                board.write(0.0, 0.0, now_s)
            board.begin_enable(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """Go on with enabling, every few milliseconds; whether all are on.

        Raises
        ------
        DeviceError : as :meth:`enable`
        """
        self._require_open()
        if not self._enabling and not all(board.on for board in self.boards):
            raise interrupted("motor boards")  # by disable() of another thread
        try:
            done = [board.continue_enable(now_s) for board in self.boards]
        except DeviceError:
            self.disable()
            raise
        if not all(done):
            return False
        self._enabling = False
        return True

    def read(self, now_s: float) -> TendonReading:
        """The newest values, which arrived before this call; never waits.

        Raises
        ------
        DeviceError : not open
        """
        self._require_open()
        self._poll()
        samples = []
        faults: list[str] = []
        for channel, board in zip(self.channels, self.boards, strict=True):
            board.look(now_s, bus_off=channel.bus_off, bus_failed=channel.failed)
            faults += board.faults
            samples.append(board.telemetry.sample)
        known = [sample.stamp_s for sample in samples if sample is not None]
        stamp_s = min(max(known), now_s) if known else now_s
        rows = []
        for number, motor in self._places:
            sample = samples[number]
            if sample is None:
                rows.append((math.nan, math.nan, math.nan, math.inf))
                continue
            age_s = max(0.0, stamp_s - sample.oldest_s)
            rows.append((sample.position_rev[motor], sample.velocity_rev_per_s[motor], sample.current_a[motor], age_s))
        turns, speed, current, age = np.array(rows).T.copy()
        return TendonReading(
            stamp_s,
            turns * self._motors.signed_m_per_rev,
            speed * self._motors.signed_m_per_rev,
            current * self._signed_n_per_a,
            current * self._motors.polarity,
            np.full(self.tendon_count, np.nan),
            age,
            tuple(faults),
        )

    def write(self, tension_n: ArrayLike, now_s: float) -> None:
        """Send a tension (N) to every tendon; nothing before all boards are on, nor to one that is off again.

        Parameters
        ----------
        tension_n : shape (N,), finite
        now_s : s

        Raises
        ------
        ParameterError : wrong shape or not finite
        DeviceError : not open
        """
        self._require_open()
        current, self.limited = self._motors.currents(tension_n)
        self.commanded_current_a = current
        signed = (current * self._motors.polarity).tolist()
        pairs = [[0.0, 0.0] for _ in self.boards]
        for (number, motor), value in zip(self._places, signed, strict=True):
            pairs[number][motor] = value
        if self._enabling:
            return
        for board, (first, second) in zip(self.boards, pairs, strict=True):
            board.write(first, second, now_s)

    def disable(self) -> None:
        """Currents to zero and torque off, on all boards, whatever fails. Safe to call at any time."""
        self._forget_commands()
        self._enabling = False
        reachable = [pair for pair in zip(self.channels, self.boards, strict=True) if pair[0].is_open]
        if not reachable:
            return
        for _, board in reachable:
            board.disable()
        self._sleep(SECOND_OFF_AFTER_S)
        for _, board in reachable:
            board.pump(self._clock())

    def close(self) -> None:
        """Torque off, and end. Safe to call at any time."""
        self.disable()
        self._close_channels()
        self._is_open = False

    def clear_faults(self) -> None:
        """Forget what the boards latched; what is still wrong comes back with the next reading."""
        for board in self.boards:
            board.clear_faults()

    # --- diagnostics

    @property
    def aligned(self) -> bool:
        """Whether all rotors are aligned: one that is not was without power since it was enabled last.

        A zero that was found before that is void. Asked after :meth:`open` and before :meth:`enable`.
        """
        return all(
            (status := board.telemetry.status) is not None
            and all(status[1].motor_ready(motor) for motor in board.motors)
            for board in self.boards
        )

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """Which motors' positions began anew or jumped since :meth:`open`, shape (N,)."""
        return np.array([self.boards[number].telemetry.zero_lost for number, _ in self._places])

    def counters(self) -> dict[str, dict[str, Any]]:
        """Counters of every channel and its board, and the newest error of the channel, by the channel's name."""
        return {
            channel.name: {
                **dataclasses.asdict(channel.counters),
                **dataclasses.asdict(board.telemetry.counters),
                "last_error": channel.last_error,
            }
            for channel, board in zip(self.channels, self.boards, strict=True)
        }

    # --- helpers

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError("motor boards", "are not open", "Open them first.")

    def _poll(self) -> None:
        if not self._threaded:
            for channel in self.channels:
                channel.poll()

    def _close_channels(self) -> None:
        for channel in self.channels:
            channel.close()

    def _forget_commands(self) -> None:
        self.limited = np.zeros(self.tendon_count, dtype=bool)
        self.commanded_current_a = np.full(self.tendon_count, np.nan)


def _odri(settings: Any) -> OdriCan | None:
    return settings if isinstance(settings, OdriCan) else None


def _hint(channel: CanChannel) -> str:
    return f" ({channel.last_error})" if channel.last_error else ""
