# SPDX-License-Identifier: Apache-2.0
"""A kind of motors of your own: winches behind a serial port that take a line and answer a line.

To the board: ``I 0.120 0.080 ...``, the current of each winch, A, or ``P 0.310 0.250 ...``, the turns that each holds;
``off`` switches them off, ``?`` only asks. From the board, after each line: ``S <turns> ... <current> ...``, of each
winch. It switches off by itself after 100 ms without a line.

    pip install ./examples/own_motor
    continuum-robot devices examples/own_motor/five_winches.yaml
    continuum-robot up examples/own_motor/five_winches.yaml --hardware
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import serial

from continuum_robot.drivers.polled import PolledActuators, Sample
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Motor
from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Winches:
    """The section ``hardware.tendon_actuators`` of a robot file; keys, units and ranges are checked when it is read."""

    kind: str = quantity("winch_serial", choices=("winch_serial",))
    port: str = quantity("serial port of the board", filled=True)
    maximum_current_a: float = quantity("clamp on every current that is sent", "A", gt=0, le=5)
    receive_timeout_ms: int = quantity("the board's own timeout", "ms", default=100, ge=10, le=1000)
    motors: tuple[Motor, ...] = quantity("every winch, in the order of the board, and its tendon")


class WinchActuators(PolledActuators):
    """The driver: what the polled base does not know. Threads, ages, timeouts and faults are the base's."""

    settings = Winches

    def __init__(self, robot: Robot, settings: Winches) -> None:
        super().__init__(robot, settings, name=f"winches at {settings.port}")
        self._port, self._line = settings.port, serial.Serial()

    def connect(self) -> bool:
        """Open the port and switch all off. The board forgets its turns with its power, and does not say so: False."""
        self.reconnect()
        self.switch_off()
        if not self.exchange(None):
            raise DeviceError(self.name, "do not answer", "Switch the board on.")
        return False

    def reconnect(self) -> None:
        """Open the port, again."""
        self.disconnect()
        try:
            self._line = serial.Serial(self._port, 921600, timeout=0.05, write_timeout=0.05)
        except OSError as error:
            raise DeviceError(self.name, str(error), "Plug the board in.") from error

    def disconnect(self) -> None:
        """Close the port."""
        self._line.close()

    def switch_on(self, index: int) -> None:
        """Nothing to do: a winch is on from its first line."""

    def switch_off(self) -> None:
        """All off, in one line."""
        if self._line.is_open:
            self._ask("off")

    def exchange(self, goals: Sequence[float] | None) -> Mapping[int, Sample]:
        """A line with goals and its answer; nothing where that is damaged: the values grow old instead."""
        letter = "P" if self.takes_displacements else "I"
        answer = self._ask("?" if goals is None else " ".join([letter, *(f"{goal:.4f}" for goal in goals)]))
        try:
            turns, current = np.array(answer.split()[1:], dtype=float).reshape(2, self.tendon_count)
        except ValueError:
            return {}
        return {i: Sample(turns[i], self._speed(i, turns[i]), current[i], math.nan) for i in range(self.tendon_count)}

    def _speed(self, index: int, turns: float) -> float:
        """From the last two answers: the board does not tell it."""
        before = self.newest(index)
        return 0.0 if before is None else (turns - before[1].turns) / max(1e-3, self.clock() - before[0])

    def _ask(self, line: str) -> str:
        try:
            self._line.reset_input_buffer()
            self._line.write(line.encode() + b"\n")
            return self._line.read_until(b"\n").decode(errors="replace")
        except OSError as error:
            raise DeviceError(self.name, f"are gone ({error})", "Plug the board in.") from error
