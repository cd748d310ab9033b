# SPDX-License-Identifier: Apache-2.0
"""A simulated string-encoder board in another process than the plant, whose strings come through a link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.drivers.string_encoder_serial.reader import ANSWER_TIMEOUT_S, StringEncoderReader
from continuum_robot.drivers.string_encoder_serial.settings import STRING_ENCODER_SERIAL
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.clock import Clock
from continuum_robot.simulation.devices.plant_link import StringSource
from continuum_robot.simulation.wire.hardware import wired
from continuum_robot.simulation.wire.pacing import Pacer

Vector = NDArray[np.float64]

PERIOD_S = 0.002


class LinkedStringBoard:
    """The board on a pseudo-terminal, and the driver for it. In real time a thread steps it; in simulated time
    :meth:`step` does, before each reading.

    Parameters
    ----------
    robot : with strings
    source : of the true extensions
    clock : of the driver

    Raises
    ------
    ParameterError : more strings than a board reads, or none
    """

    def __init__(self, robot: Robot, source: StringSource, clock: Clock) -> None:
        if not self.can_read(robot):
            raise ParameterError("robot.strings", len(robot.strings), "1 to 4 strings, which a board reads")
        hardware = wired(robot).hardware
        if hardware is None or hardware.string_encoders is None:
            raise ParameterError("hardware.string_encoders", None, "a string-encoder board")
        self._settings = hardware.string_encoders
        self._names = [string.name for string in robot.strings]
        self._source = source
        self._unknown = np.full(len(self._names), np.nan)
        self._board = SimulatedStringEncoderBoard(
            self._settings, self._names, self._extension, rng=np.random.default_rng([robot.simulation.seed, 1])
        )
        self._clock = clock
        self._pacer = None if clock.stepped else Pacer(self._board.step, PERIOD_S)

    @staticmethod
    def can_read(robot: Robot) -> bool:
        """Whether a board can read the robot's strings: not too many, and motors that can be simulated with it."""
        return (
            robot.actuators is not None
            and bool(robot.strings)
            and getattr(getattr(wired(robot).hardware, "string_encoders", None), "kind", "") == STRING_ENCODER_SERIAL
        )

    def start(self) -> None:
        """Let time pass."""
        self._source.open()
        if self._pacer is not None:
            self._pacer.start()

    def step(self) -> None:
        """Let the board send what is due in simulated time; nothing in real time, where it does so by itself."""
        if self._pacer is None:
            self._board.step(self._clock.monotonic_s())
            self._board.wait_delivered()

    def string_encoders(self) -> StringEncoderReader:
        """The real driver, not open yet."""
        return StringEncoderReader(
            self._settings,
            self._names,
            port=self._board.port,
            simulated=True,
            # In simulated time there is nothing to wait for while the driver opens the port.
            answer_timeout_s=0.0 if self._clock.stepped else ANSWER_TIMEOUT_S,
            clock=self._clock.monotonic_s,
        )

    def inject(self, fault: str, channel: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Inject a fault of the board or of its line. Raises :class:`ParameterError` for an unknown one.

        Parameters
        ----------
        channel : index of the string from 0, -1: all
        magnitude : in the unit of the fault
        duration_s : s; 0: until ended
        """
        self._board.inject(fault, channel, magnitude, duration_s=duration_s)

    def close(self) -> None:
        """End. Raises what the board raised."""
        try:
            if self._pacer is not None:
                self._pacer.stop()
        finally:
            self._board.close()
            self._source.close()

    def _extension(self) -> Vector:
        sample = self._source.read()
        return self._unknown if sample is None else sample.extension_m[: self._unknown.size]
