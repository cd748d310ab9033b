# SPDX-License-Identifier: Apache-2.0
"""All tendon actuators of a robot behind ODRI motor boards: tensions to currents, motor turns to displacements."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.can_bus import SOCKETCAN
from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.odri_can.board import Board
from continuum_robot.drivers.odri_can.channel import Channel, SocketFactory
from continuum_robot.drivers.odri_can.frame_port import FramePort
from continuum_robot.drivers.odri_can.motor_boards import MotorBoards
from continuum_robot.drivers.odri_can.settings import FULL_SCALE_A, OdriCan
from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.reconnection import open_all
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]

ANSWER_TIMEOUT_S = 1.5
"""A status comes once a second."""
WAIT_S = 0.002
SECOND_OFF_AFTER_S = 0.003
SERVICE_PERIOD_S = 0.5
INTERPRETED = SimpleNamespace(
    Board=Board, FramePort=FramePort, MotorBoards=MotorBoards, ReadingBuffer=ReadingBuffer, vector=vector
)
"""The interpreted form of the classes that the compiled one has too."""


class OdriTendonActuators:
    """Tendon actuators on 1 to k CAN channels, one dual-motor board a channel.

    A tension becomes a current, which is limited to ``maximum_current_a`` (the boards have no limit), and what was
    limited is reported. The tension that is read is the measured current's. Displacements count from the pose at the
    boards' power-on, over alignments and restarts of the host; the cycle counts from another zero.

    Each waiting is bounded. :meth:`enable` may take the seconds of an alignment: then call it from another thread
    than the cycle's, whose readings and writes go on meanwhile; or use :meth:`begin_enable` and
    :meth:`continue_enable`.

    A control cycle may use :attr:`cycle` itself, and must then call :meth:`service` between two cycles; all other
    calls that switch something wait until no cycle runs, which is the caller's to see to. :meth:`read` and
    :meth:`write` of one thread and all other calls of another do not meet.
    """

    def __init__(
        self,
        robot: Robot,
        settings: OdriCan,
        *,
        socket_factory: SocketFactory | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        simulated: bool = False,
        form: Any = None,
        pass_time: Callable[[float], None] | None = None,
    ) -> None:
        self.simulated, self.settings = simulated, settings
        self.compiled = form is not None and (socket_factory is not None or settings.interface == SOCKETCAN)
        self._form = parts = form if self.compiled else INTERPRETED
        self._motors = MotorCurrents(robot, settings, settings.motors)
        if not self._motors.largest_a.max() < FULL_SCALE_A:
            key, expected = "hardware.tendon_actuators.maximum_current_a", f"less than {FULL_SCALE_A:g} A"
            raise ParameterError(key, settings.maximum_current_a, f"{expected}, beyond which the boards' reading wraps")
        self._clock, self._wait, self._pass_time = clock, sleep, pass_time or (lambda _now_s: None)
        self._lock = threading.RLock()
        motors = self._motors.motors
        self.tendon_count = len(motors)
        self.channels = [
            Channel(settings.interface, name, settings.bitrate_bps, socket_factory, parts.FramePort)
            for name in settings.channels
            if any(entry.channel == name for entry in motors)
        ]
        self.boards: list[Any] = []
        for channel in reversed(self.channels):
            tendons = {entry.motor: tendon for tendon, entry in enumerate(motors) if entry.channel == channel.name}
            following = self.boards[0] if self.boards else None
            self.boards.insert(0, parts.Board(channel.name, tendons, settings, channel.port, following))
        self._board_of = [next(b for b in self.boards if b.name == entry.channel) for entry in motors]
        self.cycle: Any = parts.MotorBoards(self.boards[0], self._motors, clock is not time.monotonic)
        self._reading = self._form.ReadingBuffer(self.tendon_count)
        self._is_open = self._enabling = False
        self.error: ContinuumRobotError | None = None
        self._service_s: float | None = None
        self._reads = 0

    # --- the protocol

    def open(self) -> None:
        """Open all channels, switch the torque off, and wait until each board answers."""
        if self._is_open:
            return
        self._pass_time(self._clock())
        try:
            for board in self.boards:
                board.forget()
            open_all(self.channels, "CAN channels")
            self._shake_hands()
        except BaseException:
            self._close_channels()
            raise
        self._is_open = True
        self.cycle.is_open = True
        self.clear_faults()

    def _shake_hands(self) -> None:
        for board in self.boards:
            board.start_streams(self._clock())
        end_s = self._clock() + ANSWER_TIMEOUT_S
        while self._clock() < end_s and any(board.telemetry.missing() for board in self.boards):
            self._sleep(WAIT_S)
            self.cycle.receive(self._clock())
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
        with self._lock:
            reads, self._reads = self._reads, self.cycle.reads
            if self._reads == reads:  # no cycle of another thread takes the frames
                self.cycle.receive(self._clock())

    def begin_enable(self, now_s: float) -> None:
        """Begin to switch torque on, without waiting; :meth:`continue_enable` goes on. Raises :class:`DeviceError`."""
        self._require_open()
        with self._lock:
            if all(board.on for board in self.boards):
                return
            self._hold(True)
            for board in self.boards:
                # Those that are on already wait without current: the others' alignment needs slack tendons.
                if board.on:
                    board.rest(now_s)
                board.begin_enable(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """Go on with enabling, every few milliseconds; whether all are on."""
        self._require_open()
        with self._lock:
            if not self._enabling and not all(board.on for board in self.boards):
                raise interrupted("motor boards")  # by disable() of another thread
            try:
                done = [board.continue_enable(now_s) for board in self.boards]
            except DeviceError:
                self.disable()
                raise
            if not all(done):
                return False
            self._hold(False)
            return True

    def read(self, now_s: float) -> TendonReading:
        self._require_open()
        self._pass_time(now_s)
        with self._lock:
            self.cycle.read(self._reading, now_s)
            self.service(now_s)
            reading: TendonReading = self._reading.get(self.device_faults)
            return reading

    @property
    def device_faults(self) -> tuple[str, ...]:
        """Names of the boards' latched faults, with their channels, as a reading shows them."""
        return tuple(fault for board in self.boards for fault in board.faults)

    def needs_service(self) -> bool:
        return bool(self.cycle.wants_service)

    def service(self, now_s: float) -> None:
        """Open a channel again whose socket is of no use any more, every half a second; between two cycles."""
        if not self.needs_service():
            self._service_s = None
        elif self._service_s is None:
            self._service_s = now_s + SERVICE_PERIOD_S
        elif now_s >= self._service_s:
            self._service_s = now_s + SERVICE_PERIOD_S
            for channel in self.channels:
                channel.reopen()

    def write(self, tension_n: ArrayLike, now_s: float) -> None:
        """Send a tension (N) to every tendon; nothing before all boards are on, nor to one that is off again."""
        self._require_open()
        tension = np.asarray(tension_n, dtype=float)
        with self._lock:
            if tension.shape != (self.tendon_count,) or not self.cycle.write(self._vector(tension), now_s):
                raise ParameterError("tension_n", tension_n, f"{self.tendon_count} finite tensions in N")

    def _vector(self, values: Vector) -> Any:
        return np.ascontiguousarray(values) if self.compiled else values.tolist()

    @property
    def limited(self) -> NDArray[np.bool_]:
        """Where the newest tensions were beyond the largest current, shape (N,)."""
        return np.array(self.cycle.commanded()[1])

    @property
    def commanded_current_a(self) -> Vector:
        """Newest currents towards the motors, before polarity, shape (N,), A; NaN before the first."""
        return np.array(self.cycle.commanded()[0])

    def disable(self) -> None:
        """Currents to zero and torque off, on all boards, whatever fails. Safe to call at any time."""
        with self._lock:
            self.cycle.forget_commands()
            self._hold(False)
            reachable = [board for channel, board in zip(self.channels, self.boards, strict=True) if channel.is_open]
            for board in reachable:
                board.disable()
        if not reachable:
            return
        self._sleep(SECOND_OFF_AFTER_S)
        with self._lock:
            for board in reachable:
                board.pump(self._clock())

    def close(self) -> None:
        self.disable()
        self._is_open = False
        with self._lock:
            self.cycle.is_open = False
            self._close_channels()

    def clear_faults(self) -> None:
        """Forget what the boards latched; what is still wrong comes back with the next reading."""
        with self._lock:
            for board in self.boards:
                board.clear_faults()

    # --- diagnostics

    @property
    def aligned(self) -> bool:
        """Whether all rotors are aligned: one that is not was without power since it was enabled last.

        A zero that was found before that is void. Asked after :meth:`open` and before :meth:`enable`.
        """
        return all(board.aligned for board in self.boards)

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        return np.array([board.telemetry.zero_lost for board in self._board_of])

    def counters(self) -> dict[str, dict[str, Any]]:
        """Counters of every channel and its board, and the newest error of the channel, by the channel's name."""
        return {
            channel.name: {
                **channel.counters,
                **board.telemetry.counters,
                "last_error": channel.last_error,
            }
            for channel, board in zip(self.channels, self.boards, strict=True)
        }

    # --- helpers

    def _sleep(self, duration_s: float) -> None:
        self._wait(duration_s)
        self._pass_time(self._clock())

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError("motor boards", "are not open", "Open them first.")

    def _hold(self, held: bool) -> None:
        self._enabling = held
        self.cycle.held = held

    def _close_channels(self) -> None:
        for channel in self.channels:
            channel.close()


def _hint(channel: Channel) -> str:
    return f" ({channel.last_error})" if channel.last_error else ""
