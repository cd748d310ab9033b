# SPDX-License-Identifier: Apache-2.0
"""What emulators of servos share: registers, answers on a chain, faults, motors. A device's folder adds its bytes.

An emulator knows bytes and time; on which port it is, and what its motors move, is for simulation/.
"""

from __future__ import annotations

import math
import random
import struct
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from continuum_robot.drivers.servo_bus import BROADCAST, ShortFraming
from continuum_robot.drivers.short_servos import CODES, Table, magnitude
from continuum_robot.errors import ParameterError

BOOT_S = 0.3
NEW_RETURN_DELAY = 250
QUIET_S = 0.02
"""Without a packet for so long, watchdogs may strike: every servo is then looked at in each step."""

SILENT = "silent"
MUTE = "mute"
NO_SUPPLY = "no_supply"
OTHER_BAUD = "other_baud"
LOST_FRAMES = "lost_frames"
CORRUPTED_FRAMES = "corrupted_frames"
NOISE = "noise"
GARBAGE = "garbage"
REBOOT = "reboot"
OVERHEATING = "overheating"
OVERLOAD = "overload"
INPUT_VOLTAGE = "input_voltage"
ENCODER = "encoder"
ELECTRICAL_SHOCK = "electrical_shock"
WATCHDOG = "watchdog"
WRONG_MODEL = "wrong_model"
DRIVE_REVERSED = "drive_reversed"
NARROW_LIMITS = "narrow_limits"
STUCK_MOTOR = "stuck_motor"
POSITION_JUMP = "position_jump"

FAULTS: dict[str, str] = {
    SILENT: "nothing reaches the servo, and it answers nothing",
    MUTE: "the servo obeys, and nothing of what it answers arrives",
    NO_SUPPLY: "the servo has no supply; it restarts when the fault ends",
    OTHER_BAUD: "the servo listens at this baud rate, bit/s",
    LOST_FRAMES: "each nth answer gets lost",
    CORRUPTED_FRAMES: "each nth answer has a flipped bit",
    NOISE: "bytes that are no packet come before each nth answer",
    GARBAGE: "random bytes come instead of its answers",
    REBOOT: "the servo restarts, once",
    OVERHEATING: "the servo is too hot and switched off, until it restarts",
    OVERLOAD: "the servo switches off by overload, once",
    INPUT_VOLTAGE: "the servo switches off by a supply out of its range, once",
    ENCODER: "the servo switches off since its encoder fails, once",
    ELECTRICAL_SHOCK: "the servo switches off by a short circuit of its motor, once",
    WATCHDOG: "the servo's own watchdog strikes, once",
    WRONG_MODEL: "another model has the servo's number",
    DRIVE_REVERSED: "an earlier use left the direction of the servo reversed",
    NARROW_LIMITS: "an earlier use left narrow limits in the servo",
    STUCK_MOTOR: "the horn is blocked",
    POSITION_JUMP: "the position jumps by this many turns, once",
}
"""Name and meaning of every fault that can be injected, with the meaning of the magnitude."""

_SWITCHED_OFF = (OVERLOAD, OVERHEATING, INPUT_VOLTAGE, ENCODER, ELECTRICAL_SHOCK)
LEFT_BEHIND = (WRONG_MODEL, DRIVE_REVERSED, NARROW_LIMITS)
"""What lies in a servo's lasting memory."""


class MotorPort(Protocol):
    """A motor inside a servo."""

    position_rev: float
    velocity_rev_per_s: float
    current_a: float

    @property
    def load_fraction(self) -> float:
        """Current as a fraction of the largest."""

    def drive(self, current_a: float, held: bool) -> None:
        """Give it a current, A; ``held``: it is blocked."""

    def follow(self, position_rev: float, torque_fraction: float, held: bool) -> None:
        """Have its loop hold a place, rev, with at most this fraction of its torque; ``held``: it is blocked."""


@dataclass(slots=True)
class EmulatedServo:
    """A servo: its number on the bus, its motor, its registers, its faults."""

    number: int
    motor: MotorPort
    table: bytearray
    zero_rev: float = 0.0
    reference_rev: float = math.nan
    moves: bool = True
    silent_until_s: float = -math.inf
    heard_s: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)
    replaced: dict[int, bytes] = field(default_factory=dict)

    def get(self, address: int, size: int, *, signed: bool = False) -> int:
        """A register."""
        return int.from_bytes(self.table[address : address + size], "little", signed=signed)

    def set(self, address: int, size: int, value: int) -> None:
        """Set a register."""
        self.table[address : address + size] = value.to_bytes(size, "little", signed=value < 0)

    def follow(self, goal_rev: float, speed_rev_per_s: float, torque_fraction: float, duration_s: float) -> None:
        """Hold a goal, which its profile approaches at a speed, rev/s; 0: at once."""
        if math.isnan(self.reference_rev):
            self.reference_rev = self.motor.position_rev
        left = goal_rev - self.reference_rev
        step = speed_rev_per_s * duration_s if speed_rev_per_s else math.inf
        self.moves = abs(left) > step
        self.reference_rev += min(max(left, -step), step)
        self.motor.follow(self.reference_rev, torque_fraction, STUCK_MOTOR in self.faults)

    def let_go(self, current_a: float = 0.0) -> None:
        """Hold no place, and give the motor a current, A."""
        self.reference_rev, self.moves = math.nan, False
        self.motor.drive(current_a, STUCK_MOTOR in self.faults)


class EmulatedServos:
    """Servos on a bus. A kind of servos overrides the methods that raise."""

    title = "servos"
    own_faults: ClassVar[Mapping[str, int]] = {}
    """Bit or code by which a servo of this kind says why it switched off."""
    talks: ClassVar[bool] = False
    """Whether it sends without being asked: then it measures in every step."""
    left_behind: ClassVar[Mapping[str, tuple[int, bytes]]] = {}
    """Address and bytes of the lasting registers of each of :data:`LEFT_BEHIND` that servos of this kind have."""
    has_watchdog = False

    def __init__(self, servos: Mapping[int, MotorPort], table_size: int, baud_bps: int) -> None:
        self.servos = {number: EmulatedServo(number, motor, bytearray(table_size)) for number, motor in servos.items()}
        self.baud_bps = self.host_bps = baud_bps
        self.now_s = 0.0
        self._buffer, self._answered, self._answers = bytearray(), bytearray(), 0
        self._measured, self._changed, self._heard_s = False, True, 0.0

    # --- what a kind adds

    @abstractmethod
    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """The first whole packet of the host: number, instruction, parameters."""

    @abstractmethod
    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """Do what a packet says, and :meth:`answer`."""

    @abstractmethod
    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """The bytes of an answer."""

    @abstractmethod
    def boot(self, servo: EmulatedServo) -> None:
        """Registers as after power-on; ``zero_rev`` where the position counts anew."""

    @abstractmethod
    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """Switch off by one of ``own_faults``, as the registers show it."""

    @abstractmethod
    def measure(self, servo: EmulatedServo) -> None:
        """Measured values into the registers."""

    @abstractmethod
    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """Drive the motor as the registers say."""

    @abstractmethod
    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether its torque is on."""

    def range_turns(self, servo: EmulatedServo) -> tuple[float, float]:
        """Lowest and highest position within its turn, rev; zeros of one that has no end."""
        del servo
        return 0.0, 0.0

    def strike(self, servo: EmulatedServo) -> None:
        """Have the servo's own watchdog strike."""

    # --- from outside

    @property
    def known_faults(self) -> set[str]:
        """Names of :data:`FAULTS` that servos of this kind can have."""
        lacking = {fault for fault in _SWITCHED_OFF if fault not in self.own_faults}
        lacking |= {fault for fault in LEFT_BEHIND if fault not in self.left_behind}
        return set(FAULTS) - lacking - (set() if self.has_watchdog else {WATCHDOG})

    def centre(self) -> EmulatedServos:
        """Screw the spools on so that all are in the middle of their turn; gives itself."""
        for servo in self.servos.values():
            servo.zero_rev = servo.motor.position_rev - sum(self.range_turns(servo)) / 2
        return self

    @property
    def torque_enabled(self) -> list[bool]:
        """Of every servo, in the order of their numbers."""
        return [self.is_on(self.servos[number]) for number in sorted(self.servos)]

    def inject(self, fault: str, number: int, magnitude: float = 1.0) -> None:
        """Inject a fault of :data:`FAULTS` into a servo until ended; "" ends all of it."""
        if number not in self.servos:
            raise ParameterError("number", number, f"one of the servos {', '.join(map(str, self.servos))}")
        known = [one for one in FAULTS if one in self.known_faults]
        if fault and fault not in known:
            raise ParameterError("fault", fault, f"one of {', '.join(known)} of {self.title}, or empty to end all")
        self._changed = True
        servo = self.servos[number]
        if not fault:
            if NO_SUPPLY in servo.faults:
                self.reboot(servo)
            servo.faults.clear()
            for address, data in servo.replaced.items():
                servo.table[address : address + len(data)] = data
            servo.replaced.clear()
            return
        servo.faults[fault] = magnitude
        if fault in self.left_behind:
            address, data = self.left_behind[fault]
            servo.replaced.setdefault(address, bytes(servo.table[address : address + len(data)]))
            servo.table[address : address + len(data)] = data
        if fault == NO_SUPPLY:
            self.reboot(servo)

    def hear(self, now_s: float) -> None:
        """A packet has come by ``now_s`` (s), and is taken in the step of then: no watchdog strikes before."""
        for servo in self.servos.values():
            servo.heard_s = now_s

    def step(self, now_s: float, received: bytes = b"") -> bytes:
        """Let time pass: measure where somebody asks, take packets, drive the motors."""
        duration_s, self.now_s = max(0.0, now_s - self.now_s) if self.now_s else 0.0, now_s
        self._measured = False
        for servo in self.servos.values():
            if servo.faults:
                self._strike(servo)
        if self.talks:
            self._measure()
        answers = self.take(received)
        every = self._changed or now_s - self._heard_s > QUIET_S
        self._changed = False
        for servo in self.servos.values():
            if every or servo.moves:
                self.move(servo, duration_s)
        return answers

    def take(self, received: bytes) -> bytes:
        """What the servos answer to bytes of the host, at the time of the latest step."""
        self._buffer += received
        self._answered = bytearray()
        while (found := self.take_packet(self._buffer)) is not None:
            self._measure()
            for number in filter(self.present, self.servos):
                self.servos[number].heard_s = self.now_s
            self._changed, self._heard_s = True, self.now_s
            self.obey(*found)
        return bytes(self._answered)

    # --- what kinds use

    def obey_packet(
        self, numbers: Sequence[int], instruction: int, parameters: bytes, word: str, codes: Mapping[str, int]
    ) -> bool:
        """Ping, read, write, sync read and sync write, alike in all protocols; whether it was one of them."""
        wide = struct.calcsize("<" + word)
        if instruction in (codes["sync_read"], codes["sync_write"]) and len(parameters) > 2 * wide - 1:
            address, size = struct.unpack_from("<" + 2 * word, parameters)
            rest = parameters[2 * wide :]
            if instruction == codes["sync_read"]:
                self.answer_in_turn(list(rest), lambda servo: bytes(servo.table[address : address + size]))
            else:
                for place in range(0, len(rest) - size, size + 1):
                    self.write(rest[place], address, rest[place + 1 : place + 1 + size])
            return True
        for number in filter(self.present, numbers):
            if instruction == codes["ping"]:
                self.answer(number, self.identity(self.servos[number]))
            elif instruction == codes["read"] and len(parameters) == 2 * wide:
                address, size = struct.unpack("<" + 2 * word, parameters)
                self.answer(number, bytes(self.servos[number].table[address : address + size]))
            elif instruction == codes["write"] and len(parameters) > wide:
                error = self.write(number, int.from_bytes(parameters[:wide], "little"), parameters[wide:])
                if self.answers_writes(self.servos[number]):
                    self.answer(number, b"", error)
            else:
                return False
        return True

    def write(self, number: int, address: int, data: bytes) -> int:
        raise NotImplementedError

    def identity(self, servo: EmulatedServo) -> bytes:
        """What a ping is answered with."""
        del servo
        return b""

    def answers_writes(self, servo: EmulatedServo) -> bool:
        """Whether it answers what is written."""
        del servo
        return True

    def present(self, number: int) -> EmulatedServo | None:
        """The servo of a number, if it listens."""
        servo = self.servos.get(number)
        if servo is None or self.now_s < servo.silent_until_s or SILENT in servo.faults or NO_SUPPLY in servo.faults:
            return None
        return servo if servo.faults.get(OTHER_BAUD, self.baud_bps) == self.host_bps else None

    def answering(self, number: int) -> EmulatedServo | None:
        """The servo of a number, if it listens and its answers arrive."""
        servo = self.present(number)
        return None if servo is None or MUTE in servo.faults else servo

    def answer(self, number: int, data: bytes, error: int = 0) -> None:
        """Have a servo answer, if it listens."""
        if (servo := self.answering(number)) is not None:
            self.send(self.framed(number, servo, error, data), [servo])

    def answer_in_turn(self, numbers: Sequence[int], data: Callable[[EmulatedServo], bytes]) -> None:
        """Have servos answer in a chain: each waits for the one before it, so behind a silent one nobody does."""
        for number in numbers:
            servo = self.answering(number)
            if servo is None:
                break
            self.answer(number, data(servo))

    def send(self, framed: bytes, servos: Sequence[EmulatedServo] = ()) -> None:
        """Send what servos answer together, as their faults leave it; without servos: what their adapter answers."""
        self._answers += bool(servos)
        if any(self._struck_by(servo, LOST_FRAMES) for servo in servos):
            return
        data = bytearray(framed)
        for servo in servos:
            if self._struck_by(servo, CORRUPTED_FRAMES):
                data[len(data) // 2] ^= 0x10
            if self._struck_by(servo, NOISE):
                data[:0] = b"\xff\xff\x00\xfd\xff"
            if GARBAGE in servo.faults:
                data[:] = random.Random(self._answers).randbytes(len(data))
        self._answered += data

    def reboot(self, servo: EmulatedServo) -> None:
        """Restart: nothing volatile is kept."""
        self.boot(servo)
        servo.reference_rev = math.nan
        servo.silent_until_s = self.now_s + BOOT_S

    def _struck_by(self, servo: EmulatedServo, fault: str) -> bool:
        return fault in servo.faults and self._answers % max(1, int(servo.faults[fault])) == 0

    def _measure(self) -> None:
        """All into the registers, once in a step: motors move between the steps."""
        if not self._measured:
            self._measured = True
            for servo in self.servos.values():
                self.measure(servo)

    def _strike(self, servo: EmulatedServo) -> None:
        if servo.faults.pop(REBOOT, None) is not None:
            self.reboot(servo)
        if servo.faults.pop(WATCHDOG, None) is not None and self.is_on(servo):
            self.strike(servo)
        jump = servo.faults.pop(POSITION_JUMP, None)
        if jump is not None:
            servo.zero_rev -= jump
        for fault in _SWITCHED_OFF:
            if fault in servo.faults:
                self.fail(servo, fault)
                if fault != OVERHEATING:
                    del servo.faults[fault]
        self._changed = True


class EmulatedShortServos(EmulatedServos):
    """Servos in position mode."""

    at: ClassVar[Table]
    full_torque: ClassVar[int]
    size: ClassVar[int]
    """Of the registers, in bytes."""
    identity_at: ClassVar[int]
    """Where its number stands, and behind that the code of its baud rate."""
    maximum_torque_at: ClassVar[int]
    error_at: ClassVar[int]

    def __init__(
        self,
        servos: Mapping[int, MotorPort],
        baud_bps: int,
        *,
        model: int,
        baud_code: int,
        highest: int,
        counts_per_turn: float,
        speed_unit_rev_per_s: float,
    ) -> None:
        super().__init__(servos, self.size, baud_bps)
        self._framing = ShortFraming()
        self.counts_per_turn, self.speed_unit_rev_per_s = counts_per_turn, speed_unit_rev_per_s
        for number, servo in self.servos.items():
            servo.set(self.at.model, 2, model)
            servo.set(self.identity_at, 1, number)
            servo.set(self.identity_at + 1, 1, baud_code)
            servo.set(self.at.return_delay, 1, NEW_RETURN_DELAY)
            servo.set(self.at.high, 2, highest)
            servo.set(self.maximum_torque_at, 2, self.full_torque)
            self.boot(servo)

    def boot(self, servo: EmulatedServo) -> None:
        """Volatile registers are as new; it stands where it stands."""
        servo.table[self.at.torque :] = bytes(len(servo.table) - self.at.torque)
        servo.set(self.at.torque_limit, 2, servo.get(self.maximum_torque_at, 2))

    def fail(self, servo: EmulatedServo, fault: str) -> None:
        """The error names it, and the torque is off."""
        servo.table[self.error_at] |= 1 << self.own_faults[fault]
        servo.table[self.at.torque] = 0

    def measure(self, servo: EmulatedServo) -> None:
        """Place, speed, load, voltage, temperature."""
        at, motor = self.at, servo.motor
        servo.set(at.position, 2, self.counts(servo))
        servo.set(at.position + 2, 2, magnitude(motor.velocity_rev_per_s / self.speed_unit_rev_per_s, at.speed_sign))
        servo.set(at.load, 2, magnitude(motor.load_fraction * self.full_torque, at.load_sign))
        servo.table[at.temperature - 1] = 120
        servo.table[at.temperature] = 85 if OVERHEATING in servo.faults else 31

    def take_packet(self, received: bytearray) -> tuple[int, int, bytes] | None:
        """The first whole packet."""
        return self._framing.take(received)

    def obey(self, number: int, instruction: int, parameters: bytes) -> None:
        """Do what a packet says."""
        self.obey_packet(list(self.servos) if number == BROADCAST else [number], instruction, parameters, "B", CODES)

    def write(self, number: int, address: int, data: bytes) -> int:
        if (servo := self.present(number)) is not None:
            end = min(len(servo.table), address + len(data))
            servo.table[address:end] = data[: end - address]
            self.written(servo, address)
        return 0

    def written(self, servo: EmulatedServo, address: int) -> None:
        """Follow what was written at an address."""

    def framed(self, number: int, servo: EmulatedServo, error: int, data: bytes) -> bytes:
        """A status packet."""
        return self._framing.packet(number, error | servo.table[self.error_at], data)

    def is_on(self, servo: EmulatedServo) -> bool:
        """Whether its torque is on."""
        return bool(servo.table[self.at.torque])

    def counts(self, servo: EmulatedServo) -> int:
        """Where it is, within its turn."""
        low, high = servo.get(self.at.low, 2), servo.get(self.at.high, 2)
        counts = round((servo.motor.position_rev - servo.zero_rev) * self.counts_per_turn)
        return min(max(counts, low), high)

    def range_turns(self, servo: EmulatedServo) -> tuple[float, float]:
        """Between its position limits."""
        low, high = servo.get(self.at.low, 2), servo.get(self.at.high, 2)
        return low / self.counts_per_turn, high / self.counts_per_turn

    def move(self, servo: EmulatedServo, duration_s: float) -> None:
        """Towards the goal while the torque is on; it holds it whoever is silent."""
        if not self.is_on(servo):
            servo.let_go()
            return
        goal = servo.get(self.at.goal, 2) / self.counts_per_turn + servo.zero_rev
        speed = servo.get(self.at.speed, 2) * self.speed_unit_rev_per_s
        servo.follow(goal, speed, min(1.0, servo.get(self.at.torque_limit, 2) / self.full_torque), duration_s)
