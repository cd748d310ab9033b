# SPDX-License-Identifier: Apache-2.0
"""A simulated string-encoder board in another process than the plant, whose strings come through a link."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.plant_link import StringSource
from continuum_robot.simulation.wire.hardware import wired
from continuum_robot.simulation.wire.pacing import Pacer
from continuum_robot.simulation.wire.string_encoder_board import FakeStringEncoderBoard

Vector = NDArray[np.float64]

PERIOD_S = 0.002


class LinkedStringBoard:
    """The board on a pseudo-terminal, in a thread, and the driver for it.

    Parameters
    ----------
    robot : with strings
    source : of the true extensions

    Raises
    ------
    ParameterError : more strings than a board reads, or none
    """

    def __init__(self, robot: Robot, source: StringSource) -> None:
        if not self.can_read(robot):
            raise ParameterError("robot.strings", len(robot.strings), "1 to 4 strings, which a board reads")
        hardware = wired(robot).hardware
        if hardware is None or hardware.string_encoders is None:
            raise ParameterError("hardware.string_encoders", None, "a string-encoder board")
        self._settings = hardware.string_encoders
        self._names = [string.name for string in robot.strings]
        self._source = source
        self._unknown = np.full(len(self._names), np.nan)
        self._board = FakeStringEncoderBoard(
            self._settings, self._names, self._extension, rng=np.random.default_rng([robot.simulation.seed, 1])
        )
        self._pacer = Pacer(self._board.step, PERIOD_S)

    @staticmethod
    def can_read(robot: Robot) -> bool:
        """Whether a board can read the robot's strings: not too many, and motors that can be simulated with it."""
        return (
            robot.actuators is not None
            and bool(robot.strings)
            and getattr(wired(robot).hardware, "string_encoders", None) is not None
        )

    def start(self) -> None:
        """Let time pass."""
        self._source.open()
        self._pacer.start()

    def string_encoders(self) -> StringEncoderReader:
        """The real driver, not open yet."""
        return StringEncoderReader(
            self._settings, self._names, port=self._board.port, simulated=True, clock=time.monotonic
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
            self._pacer.stop()
        finally:
            self._board.close()
            self._source.close()

    def _extension(self) -> Vector:
        sample = self._source.read()
        return self._unknown if sample is None else sample.extension_m
