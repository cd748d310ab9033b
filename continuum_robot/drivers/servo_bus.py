# SPDX-License-Identifier: Apache-2.0
"""Packets to servos on a half-duplex serial bus, and their answers: for every protocol that frames them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from continuum_robot.drivers.polled import BusActuators, Sample
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.drivers.servo_settings import RESTART
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

SETTING = "hardware.tendon_actuators.port"
BROADCAST = 254
ANSWER_MARGIN_S = 0.01
LONGEST_LATE = 4096
"""Bytes that are read of an answer whose time is over: what the operating system may have kept of it meanwhile."""
ATTEMPTS = 3
_STALL_S = 0.15
_BITS = 10


class Answer(NamedTuple):
    """A servo's answer: its number, its error byte, and what it sent."""

    servo: int
    error: int
    data: bytes


class Framing(Protocol):
    """How a protocol puts packets on the wire."""

    overhead: int
    """Bytes of an answer beside its data."""

    def packet(self, servo: int, instruction: int, parameters: bytes) -> bytes:
        """An instruction to a servo."""

    def take(self, received: bytearray) -> Answer | None:
        """The first whole answer, which is removed with all that came before; None where there is none yet."""


class ShortFraming:
    """Two bytes 0xFF, number, length, instruction, a checksum of one byte: Dynamixel protocol 1, Feetech."""

    overhead = 6

    @staticmethod
    def packet(servo: int, instruction: int, parameters: bytes) -> bytes:
        """A packet; answers of servos have their error in the place of the instruction."""
        body = bytes([servo, len(parameters) + 2, instruction]) + parameters
        return b"\xff\xff" + body + bytes([~sum(body) & 0xFF])

    def take(self, received: bytearray) -> Answer | None:
        """The first whole packet with a right checksum, which is removed with all that came before."""
        while True:
            begin = received.find(b"\xff\xff")
            if begin < 0:
                del received[: max(0, len(received) - 1)]
                return None
            del received[:begin]
            if len(received) < self.overhead:
                return None
            size = received[3] + 4
            # A third 0xFF is no number: the header begins later.
            if received[2] == 0xFF or size < self.overhead:
                del received[0]
                continue
            if len(received) < size:
                return None
            if ~sum(received[2 : size - 1]) & 0xFF != received[size - 1]:
                del received[0]
                continue
            answer = Answer(received[2], received[4], bytes(received[5 : size - 1]))
            del received[:size]
            return answer


class ServoBus:
    """A serial bus of servos."""

    def __init__(
        self,
        port: str,
        baud_bps: int,
        framing: Framing,
        device: str,
        answer_margin_s: float = ANSWER_MARGIN_S,
        ask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.port, self.baud_bps, self.framing = port, baud_bps, framing
        self._device, self._margin_s, self.in_process = device, answer_margin_s, ask
        self.make_line: Callable[[], Any] = lambda: SerialPort(
            self.port, self.baud_bps, device=self._device, setting=SETTING
        )
        self.remedy = f"Check supply and cables, the servos' numbers, and that they run at {baud_bps} bit/s."
        self._line: Any = None
        self.packets = self.failures = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self._device} at {self.port}"

    def open(self) -> None:
        """Open the port. Raises :class:`DeviceError` that says why it cannot be opened."""
        if self.in_process is None and self._line is None:
            line = self.make_line()
            line.open()
            self._line = line

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def send(self, servo: int, instruction: int, parameters: bytes = b"") -> None:
        """Send a packet that nobody answers. Raises :class:`DeviceError` where the adapter is gone."""
        self.packets += 1
        self._transmit(self.framing.packet(servo, instruction, parameters))

    def ask(self, servo: int, instruction: int, parameters: bytes, size: int, of: Sequence[int]) -> dict[int, Answer]:
        """Send a packet and collect answers."""
        self.packets += 1
        missing, found, received = set(of), {}, bytearray()
        received += self._transmit(self.framing.packet(servo, instruction, parameters))
        wait_s = _BITS * len(of) * (size + self.framing.overhead) / self.baud_bps + self._margin_s
        end_s, late = time.monotonic() + wait_s, 0
        while True:
            while missing and (answer := self.framing.take(received)) is not None:
                if answer.servo in missing and len(answer.data) == size:
                    missing.discard(answer.servo)
                    found[answer.servo] = answer
            if not missing or self._line is None:
                break
            # What the system kept meanwhile is read first: an answer may be there though this computer stalled.
            data, left_s = self._line.read(), end_s - time.monotonic()
            received += data
            late += len(data) if left_s <= 0 else 0
            if (not data and left_s <= 0) or late > LONGEST_LATE:
                break
            if not data:
                self._line.wait(left_s)
        self.failures += bool(missing)
        if missing and self._line is not None and len(of) == 1:
            time.sleep(self._margin_s)  # an answer that is only late shall not answer the next question
        return found

    def ask_one(self, servo: int, instruction: int, parameters: bytes, size: int) -> Answer:
        """The answer of one servo, asked three times at least, and for longer than a machine stalls."""
        end_s, attempts = time.monotonic() + _STALL_S, 0
        while attempts < ATTEMPTS or (self._line is not None and time.monotonic() < end_s):
            attempts += 1
            found = self.ask(servo, instruction, parameters, size, [servo])
            if servo not in found:
                continue
            if attempts > 1 and self._line is not None:
                time.sleep(self._margin_s)  # the others may be answered yet
            return found[servo]
        raise self.silent([servo])

    def missing(self, servos: Sequence[int], ping: Callable[[int], bool]) -> list[int]:
        """Which servos answer no ping, nor one after a pause that is longer than a stall of the machine."""
        silent = [servo for servo in servos if not any(ping(servo) for _ in range(ATTEMPTS))]
        if silent and self._line is not None:
            time.sleep(_STALL_S)
        return [servo for servo in silent if not any(ping(servo) for _ in range(ATTEMPTS))]

    def silent(self, servos: Sequence[int]) -> DeviceError:
        """The error of servos that do not answer."""
        return DeviceError(
            self.name,
            f"servo {', '.join(map(str, servos))} does not answer",
            self.remedy,
        )

    def _transmit(self, data: bytes) -> bytes:
        if self.in_process is not None:
            return self.in_process(data)
        if self._line is None:
            raise DeviceError(self.name, "is not open", "Open it first.")
        self._line.read()  # what is still there answers an earlier question
        self._line.write(data)
        return b""


SILENT_SERVO = "silent_servo"
OUT_OF_RANGE = "position_out_of_range"
TORQUE_OFF = "torque_off"
HARDWARE_ERROR = "hardware_error"


class BusServos(BusActuators):
    """Tendon actuators that are servos on one serial bus."""

    silent = SILENT_SERVO
    usual_margin_s = ANSWER_MARGIN_S

    def __init__(self, robot: Robot, settings: Any, framing: Framing, device: str, **options: Any) -> None:
        super().__init__(robot, settings, **options)
        self.bus = ServoBus(settings.port, settings.baud_bps, framing, device, self.answer_margin_s, self.ask)
        self.servos = [entry.id for entry in self.motors.motors]
        self.written: list[str] = []

    # --- what a kind of servos adds

    @abstractmethod
    def set_up(self) -> bool:
        """Look at every servo, switch all off and set them up; the result as of :meth:`PolledActuators.connect`."""

    def ping(self, servo: int) -> bool:
        """Whether a servo answers; ``servo``: its number."""
        return bool(self.identify(servo))

    @abstractmethod
    def send_goals(self, goals: Sequence[float]) -> None:
        """Send goals, as of :meth:`PolledActuators.exchange`."""

    @abstractmethod
    def ask_states(self, indices: Sequence[int]) -> Mapping[int, Sample]:
        """Values of servos, by the index of the tendon; ``indices``: which are asked."""

    # --- the polled base

    def connect(self) -> bool:
        """Open the port, find all servos, and set them up."""
        self.open_bus()
        if missing := self.bus.missing(self.servos, self.ping):
            raise self.bus.silent(missing)
        self.written = []
        return self.set_up()

    def exchange(self, goals: Sequence[float] | None) -> Mapping[int, Sample]:
        """Send goals, and ask the servos; those that are silent only now and then, one at a time."""
        if goals is not None:
            self.send_goals(goals)
        return self.ask_states(self.asked())

    def name_of(self, index: int) -> str:
        """Port and number."""
        return f"{self.name} servo {self.servos[index]}"

    def device_of(self, index: int) -> str:
        """The servo in messages."""
        return f"servo {self.servos[index]} at {self.bus.port}"

    def counters(self) -> dict[str, dict[str, Any]]:
        (name, counts), *_ = super().counters().items()
        bus = {"packets": self.bus.packets, "failures": self.bus.failures, "written": "; ".join(self.written)}
        return {name: bus | counts}

    # --- what kinds of servos use

    def answers(self, servos: Sequence[int], ask: Callable[[Sequence[int]], Mapping[int, bytes]]) -> dict[int, bytes]:
        """Answers of many servos to one packet, those behind a silent one included.

        On such a bus each servo answers after the one before it in the list has: behind a silent one nobody does. The
        rest is therefore asked again without it.
        """
        found: dict[int, bytes] = {}
        left = list(servos)
        for _ in range(3):
            found |= ask(left)
            left = [servo for servo in left if servo not in found][1:]
            if not left:
                break
        return found

    def may_restart(self, restarts: int) -> bool:
        """Whether a servo with an overload is brought back, by the policy of the robot file."""
        able = self.settings.overload == RESTART and restarts < self.settings.overload_restarts
        return bool(self.enabled and able)

    def within(self, index: int, goal: float, low: float, high: float) -> float:
        """A goal within the servo's range; what lies beyond is limited, and latches."""
        self.limited[index] = not low <= goal <= high
        if self.limited[index]:
            self.latch(index, OUT_OF_RANGE)
        return min(max(goal, low), high)
