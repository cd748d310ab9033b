# SPDX-License-Identifier: Apache-2.0
"""The polled base for servos on one serial bus: numbers, silence, answers in a chain, range."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from continuum_robot.drivers.polled import BusActuators, Sample
from continuum_robot.drivers.servo_bus import ANSWER_MARGIN_S, Framing, ServoBus
from continuum_robot.drivers.servo_settings import RESTART
from continuum_robot.robot.description import Robot

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

    @abstractmethod
    def ping(self, servo: int) -> bool:
        """Whether a servo answers; ``servo``: its number."""

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
        """As of the polled base, with packets, those without all answers, and what was changed in the servos."""
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
