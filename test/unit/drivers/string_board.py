# SPDX-License-Identifier: Apache-2.0
"""A string-encoder board with two strings, its settings, and a driver that reads it in virtual time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import StringReading
from continuum_robot.drivers.string_encoder_serial.device import StringEncoderReader
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.drivers.string_encoder_serial.settings import EncoderString, StringEncoderSerial

NAMES = ("string_x", "string_y")
RADIUS_M = 0.01
METER_PER_COUNT = 2 * math.pi * RADIUS_M / 4096


def settings(**changes: Any) -> StringEncoderSerial:
    """The first string turns counter 2 backwards, the second counter 0."""
    values: dict[str, Any] = {
        "kind": "string_encoder_serial",
        "port": "/dev/none",
        "strings": (
            EncoderString(string="string_y", channel=0, pulley_radius_m=RADIUS_M),
            EncoderString(string="string_x", channel=2, pulley_radius_m=2 * RADIUS_M, polarity=-1),
        ),
    }
    return StringEncoderSerial(**(values | changes))


class Bench:
    """Board and driver on one virtual clock."""

    def __init__(self, *, zeroed: bool = True, **changes: Any) -> None:
        self.extension = np.zeros(2)
        self.settings = settings(**changes)
        self.now_s = 1000.0
        self.board = SimulatedStringEncoderBoard(self.settings, NAMES, lambda: self.extension, zeroed=zeroed)
        self.board.step(self.now_s)
        self.reader = StringEncoderReader(
            self.settings, NAMES, port=self.board.port, answer_timeout_s=0, clock=lambda: self.now_s
        )
        self.reader.open()

    def run(self, duration_s: float, speed_m_per_s: float = 0.0, every: int = 10) -> StringReading:
        """Let time pass in steps of 1 ms, reading every few of them; the last reading."""
        steps = max(1, round(duration_s * 1000))
        for step in range(1, steps + 1):
            self.now_s += 0.001
            self.extension = self.extension + speed_m_per_s * 0.001
            self.board.step(self.now_s)
            if step % every == 0 or step == steps:
                reading = self.reader.read(self.now_s)
        return reading

    def close(self) -> None:
        self.reader.close()
        self.board.close()
