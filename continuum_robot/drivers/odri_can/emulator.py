# SPDX-License-Identifier: Apache-2.0
"""A simulated dual-motor board with the ODRI CAN firmware: the same frames, times, latches and faults.

What it does comes from udriver_firmware c98d229, ``mw_dual_motor_torque_ctrl``; what is inferred there is so here.
Driven by ``step(now_s)`` with monotonic or virtual time.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from continuum_robot.drivers.odri_can import codec, protocol
from continuum_robot.drivers.odri_can.protocol import (
    HIGHEST_POSITION_REV,
    STATUS_PERIOD_S,
    TICK_S,
    Command,
    CommandCode,
    CurrentReference,
    ErrorCode,
    Status,
)
from continuum_robot.drivers.odri_can.settings import FULL_SCALE_A
from continuum_robot.errors import FrameError, ParameterError

COUNTS_PER_REV = 20000
# Low-pass of three ticks on the speed, spintac.c.
VELOCITY_SMOOTHING = 1 / 3

FAULTS: dict[str, str] = {
    "lost_frames": "frames to the host get lost with this probability (0 means 1)",
    "late_frames": "frames to the host come later by this time, s",
    "duplicated_frames": "frames to the host come twice with this probability (0 means 1)",
    "corrupted_frames": "a bit of a frame to the host is flipped with this probability (0 means 1)",
    "reordered_frames": "a frame to the host changes places with the next with this probability (0 means 1)",
    "lost_commands": "frames from the host get lost with this probability (0 means 1)",
    "full_queue": "the board's cable is off: nobody takes the host's frames, which fill its adapter's queue",
    "silent": "the board sends nothing, and hears nothing",
    "wrong_board": "another device is on the channel, with other identifiers",
    "second_board": "a second board without motors sends on the same channel",
    "other_host": "another program sends current references of zero on the same channel",
    "bus_off": "the controller of the host is bus-off: nothing passes either way",
    "noise": "in a tick, with this probability (0 means 1), something that is no frame is on the wire",
    "reboot": "the board restarts, once",
    "encoder_error": "an encoder lost counts: motors off until power is switched off",
    "position_converter_error": "the position converter fails: motors off until power is switched off",
    "rollover_error": "another program had the board switch off where a position rolls over, until power is off",
    "other_board_error": "the board reports its error 7 and switches off, once",
    "motor_off": "a motor switches off, once",
    "estop": "the stop input is closed",
    "stuck_motor": "the rotor of a motor is blocked",
    "open_phase": "a motor gets no current",
    "frozen_position": "positions repeat",
    "position_jump": "positions jump by this many revolutions, once",
}
"""Name and meaning of every fault that can be injected, with the meaning of the magnitude."""

_FOREIGN_OFFSET = 0x200
_BREAKS = {
    "encoder_error": ErrorCode.ENCODER,
    "position_converter_error": ErrorCode.POSITION_CONVERTER,
}


class MotorPort(Protocol):
    """A motor behind a board."""

    position_rev: float
    velocity_rev_per_s: float
    current_a: float

    def drive(self, current_a: float, held: bool) -> None:
        """Give a motor a current (A); ``held``: its rotor is kept where it is."""


class CanWire(Protocol):
    """What a simulated board needs of a CAN channel."""

    def receive(self) -> list[tuple[int, bytes]]:
        """Data frames that arrived; never waits."""

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame; whether somebody took it."""

    def disturb(self, rng: np.random.Generator) -> None:
        """Put something on the wire that is no frame of any board."""

    def report_bus_off(self) -> None:
        """Tell the host that its controller went bus-off, where the wire has a way to."""

    def close(self) -> None:
        """End. Safe to call at any time."""


@dataclass(slots=True)
class _Injected:
    magnitude: float
    end_s: float
    motor: int


class SimulatedOdriBoard:
    """A board with two motors on a wire."""

    def __init__(
        self,
        wire: CanWire,
        motors: tuple[MotorPort | None, MotorPort | None],
        *,
        alignment_s: float = 2.0,
        aligned: bool = False,
        start_rev: float = 0.0,
        current_noise_a: float = 0.0,
        single_slot: bool = False,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not 0 <= alignment_s < math.inf:
            raise ParameterError("alignment_s", alignment_s, "a time of at least 0 s")
        if not abs(start_rev) < HIGHEST_POSITION_REV:
            raise ParameterError("start_rev", start_rev, "revolutions between -100 and 100")
        self.wire, self.motors = wire, motors
        self.lost_ticks = self.timeouts = 0
        self._alignment_s, self._start_rev, self._noise_a = alignment_s, start_rev, current_noise_a
        self._single_slot = single_slot
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._faults: dict[str, _Injected] = {}
        self._late: deque[tuple[float, int, bytes]] = deque()
        self._held_back: tuple[int, bytes] | None = None
        self._frozen: list[float] | None = None
        self._now_s: float | None = None
        self._boot(aligned=aligned)

    def _boot(self, *, aligned: bool) -> None:
        """The state after power-on: the system is on, the motors are off, nothing is streamed."""
        self.system_enabled, self.error = True, ErrorCode.NONE
        self.motor_enabled, self.motor_ready = [False, False], [aligned, aligned]
        self.receive_timeout_ms = 0
        self.reference_a = (0.0, 0.0)
        self._broken, self._rollover_error = ErrorCode.NONE, False
        self._streams = dict.fromkeys(range(CommandCode.SEND_CURRENT, CommandCode.SEND_ENCODER_INDEX + 1), False)
        self._aligning_since_s: list[float | None] = [None, None]
        self._reference_s = 0.0
        self._booted_s: float | None = None
        self._status_s = self._tick_s = -math.inf
        self._speed = [0.0, 0.0]
        self._zero = [(0.0 if motor is None else motor.position_rev) - self._start_rev for motor in self.motors]
        self._turn, self._shown = [0, 0], [0.0, 0.0]

    # --- faults

    def inject(self, fault: str, magnitude: float = 0.0, duration_s: float = 0.0, motor: int = 0) -> None:
        """Inject a fault from the next step on."""
        if not fault:
            self._faults.clear()
            return
        if fault not in FAULTS:
            raise ParameterError("fault", fault, "one of " + ", ".join(FAULTS) + ", or empty to end all")
        if motor not in (0, 1, 2):
            raise ParameterError("motor", motor, "1 or 2, or 0 for both")
        if not math.isfinite(magnitude) or ("probability" in FAULTS[fault] and not 0 <= magnitude <= 1):
            raise ParameterError("magnitude", magnitude, FAULTS[fault])
        if not 0 <= duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a duration of at least 0 s; 0: until ended")
        now_s = 0.0 if self._now_s is None else self._now_s
        self._faults[fault] = _Injected(magnitude, now_s + duration_s if duration_s > 0 else math.inf, motor)

    def _has(self, fault: str, motor: int = 0) -> bool:
        injected = self._faults.get(fault)
        return injected is not None and (motor == 0 or injected.motor in (0, motor))

    def _happens(self, fault: str) -> bool:
        injected = self._faults.get(fault)
        return injected is not None and self._rng.random() < (injected.magnitude or 1.0)

    def _begin_faults(self, now_s: float) -> None:
        for name in [name for name, injected in self._faults.items() if injected.end_s <= now_s]:
            del self._faults[name]
        if self._faults.pop("reboot", None) is not None:
            self._boot(aligned=False)
        jump, off = self._faults.pop("position_jump", None), self._faults.pop("motor_off", None)
        for index in (0, 1):
            if jump is not None and jump.motor in (0, index + 1):
                self._zero[index] -= jump.magnitude
            if off is not None and off.motor in (0, index + 1):
                self.motor_enabled[index] = False
        if self._faults.pop("other_board_error", None) is not None and self.system_enabled:
            self._switch_off(ErrorCode.OTHER)
        for name, error in _BREAKS.items():
            if self._has(name):
                self._broken = error
        self._rollover_error = self._rollover_error or self._has("rollover_error")
        if not self._has("frozen_position"):
            self._frozen = None

    # --- time

    def step(self, now_s: float) -> None:
        """Do what is due: take commands, drive the motors, send frames."""
        self._now_s = now_s
        self._begin_faults(now_s)
        if self._booted_s is None:
            self._booted_s = self._tick_s = now_s
            self._status_s = -math.inf
        self._hear(now_s)
        self._supervise(now_s)
        self._drive(now_s)
        if now_s >= self._tick_s - 1e-9:
            behind = int((now_s - self._tick_s) / TICK_S + 1e-6)
            self.lost_ticks += behind
            self._tick_s += (behind + 1) * TICK_S
            self._tick(now_s)
        while self._late and self._late[0][0] <= now_s:
            _, identifier, data = self._late.popleft()
            self._put(identifier, data)

    # --- frames from the host

    def _hear(self, now_s: float) -> None:
        commands: list[Command] = []
        deaf = self._has("silent") or self._has("bus_off") or self._has("wrong_board")
        for identifier, data in () if self._has("full_queue") else self.wire.receive():
            if deaf or self._happens("lost_commands"):
                continue
            try:
                frame = codec.decode(identifier, data)
            except FrameError:
                continue
            if isinstance(frame, CurrentReference):
                self.reference_a, self._reference_s = (frame[0], frame[1]), now_s
            elif isinstance(frame, Command):
                commands.append(frame)
        for command in commands[-1:] if self._single_slot else commands:
            self._obey(command, now_s)

    def _obey(self, command: Command, now_s: float) -> None:
        code, on = command.code, bool(command.value)
        if code == CommandCode.ENABLE_SYSTEM:
            if on and not self.system_enabled:
                self.error = ErrorCode.NONE
                self.system_enabled = True
            elif not on:
                self._switch_off(self.error)
        elif code in (CommandCode.ENABLE_MOTOR_1, CommandCode.ENABLE_MOTOR_2):
            index = code - CommandCode.ENABLE_MOTOR_1
            self.motor_enabled[index] = on and self.system_enabled
            starts = self.motor_enabled[index] and not self.motor_ready[index]
            self._aligning_since_s[index] = now_s if starts else None
        elif code == CommandCode.SEND_ALL:
            self._streams = dict.fromkeys(self._streams, on)
        elif code in self._streams:
            self._streams[code] = on
        elif code == CommandCode.RECEIVE_TIMEOUT_MS:
            self.receive_timeout_ms = command.value
        elif code == CommandCode.ENABLE_ROLLOVER_ERROR:
            self._rollover_error = on

    def _switch_off(self, error: ErrorCode) -> None:
        self.system_enabled, self.error = False, error
        self.motor_enabled = [False, False]
        self._aligning_since_s = [None, None]

    def _supervise(self, now_s: float) -> None:
        """Errors are evaluated only while the system is on; the code stays in the status afterwards."""
        if not self.system_enabled:
            return
        waited_s = now_s - self._reference_s
        driven = any(on and value != 0 for on, value in zip(self.motor_enabled, self.reference_a, strict=True))
        if self._broken:
            self._switch_off(self._broken)
        elif self._has("estop"):
            self._switch_off(ErrorCode.NONE)
        elif self.receive_timeout_ms and driven and waited_s > self.receive_timeout_ms / 1000:
            self.timeouts += 1
            self._switch_off(ErrorCode.RECEIVE_TIMEOUT)

    def _drive(self, now_s: float) -> None:
        for index, motor in enumerate(self.motors):
            since_s = self._aligning_since_s[index]
            if since_s is not None and now_s - since_s >= self._alignment_s:
                self._aligning_since_s[index] = None
                self.motor_ready[index] = True
            aligning = self._aligning_since_s[index] is not None
            obeys = self.system_enabled and self.motor_enabled[index] and self.motor_ready[index]
            if motor is not None:
                current = self.reference_a[index] if obeys and not self._has("open_phase", index + 1) else 0.0
                motor.drive(current, aligning or self._has("stuck_motor", index + 1))

    # --- frames to the host

    def _tick(self, now_s: float) -> None:
        position, velocity, current = self._snapshot()
        steps = [now - before for now, before in zip(position, self._shown, strict=True)]
        self._shown = position
        if self._rollover_error and self.system_enabled and max(map(abs, steps)) > HIGHEST_POSITION_REV:
            self._switch_off(ErrorCode.POSITION_ROLLOVER)
        if self._streams[CommandCode.SEND_CURRENT]:
            self._send(now_s, protocol.Current(current[0], current[1]))
        if self._streams[CommandCode.SEND_POSITION]:
            self._send(now_s, protocol.Position(position[0], position[1]))
        if self._streams[CommandCode.SEND_VELOCITY]:
            self._send(now_s, protocol.Velocity(velocity[0], velocity[1]))
        if self._streams[CommandCode.SEND_ADC]:
            self._send(now_s, protocol.Adc(0.0, 0.0))
        if self._streams[CommandCode.SEND_ENCODER_INDEX]:
            self._send_index(now_s, position)
        # The firmware compares unsigned milliseconds with now - 1000, so that it sends at every look in the first
        # second.
        booting = now_s - (self._booted_s or 0.0) < STATUS_PERIOD_S
        if booting or now_s >= self._status_s + STATUS_PERIOD_S - 1e-9:
            self._status_s = now_s
            self._send(now_s, self._status())
        if self._has("second_board"):
            for frame in (protocol.Current(0.0, 0.0), protocol.Position(0.0, 0.0), protocol.Velocity(0.0, 0.0)):
                self._send(now_s, frame)
        if self._has("other_host"):
            self._send(now_s, CurrentReference(0.0, 0.0))
        if self._happens("noise"):
            self.wire.disturb(self._rng)
        if self._has("bus_off"):
            self.wire.report_bus_off()

    def _snapshot(self) -> tuple[list[float], list[float], list[float]]:
        position, velocity, current = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        for index, motor in enumerate(self.motors):
            if motor is None:
                continue
            turns = round((motor.position_rev - self._zero[index]) * COUNTS_PER_REV) / COUNTS_PER_REV
            half = HIGHEST_POSITION_REV
            position[index] = (turns + half) % (2 * half) - half
            self._speed[index] += VELOCITY_SMOOTHING * (motor.velocity_rev_per_s - self._speed[index])
            velocity[index] = self._speed[index] * 60 / 1000
            value = motor.current_a + (self._noise_a * self._rng.standard_normal() if self._noise_a else 0.0)
            current[index] = (value + FULL_SCALE_A) % (2 * FULL_SCALE_A) - FULL_SCALE_A
        if self._has("frozen_position"):
            self._frozen = position if self._frozen is None else self._frozen
            position = self._frozen
        return position, velocity, current

    def _send_index(self, now_s: float, position: list[float]) -> None:
        for index, value in enumerate(position):
            turn = math.floor(value)
            if turn != self._turn[index] and self.motors[index] is not None:
                self._send(now_s, protocol.EncoderIndex(float(max(turn, self._turn[index])), index + 1))
            self._turn[index] = turn

    def _status(self) -> Status:
        on, ready = self.motor_enabled, self.motor_ready
        return Status(self.system_enabled, on[0], ready[0], on[1], ready[1], self.error)

    def _send(self, now_s: float, frame: protocol.Frame) -> None:
        identifier, data = codec.encode(frame)
        if not self._faults:
            self._flush_held_back()
            self.wire.send(identifier, data)
            return
        if any(map(self._has, ("silent", "bus_off", "full_queue"))) or self._happens("lost_frames"):
            return
        if self._has("wrong_board"):
            identifier += _FOREIGN_OFFSET
        if self._happens("corrupted_frames"):
            place = int(self._rng.integers(8 * len(data)))
            changed = bytearray(data)
            changed[place // 8] ^= 1 << place % 8
            data = bytes(changed)
        if self._held_back is None and self._happens("reordered_frames"):
            self._held_back = identifier, data
            return
        late = self._faults.get("late_frames")
        for _ in range(2 if self._happens("duplicated_frames") else 1):
            if late is not None:
                self._late.append((now_s + late.magnitude, identifier, data))
            else:
                self._put(identifier, data)
        self._flush_held_back()

    def _flush_held_back(self) -> None:
        held, self._held_back = self._held_back, None
        if held is not None:
            self._put(*held)

    def _put(self, identifier: int, data: bytes) -> None:
        self.wire.send(identifier, data)
