# SPDX-License-Identifier: Apache-2.0
"""A simulated string-encoder board in another process than the plant, whose strings come through a link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.backends import device_of, emulator_of, hardware_of
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.clock import Clock
from continuum_robot.simulation.devices.plant_link import StringSource
from continuum_robot.simulation.devices.sensors import string_error
from continuum_robot.simulation.wire.ports import Pacer

Vector = NDArray[np.float64]

PERIOD_S = 0.002


class LinkedStringBoard:
    """The board on a pseudo-terminal, and the driver for it. In real time a thread steps it; in simulated time
    :meth:`step` does, before each reading.
    """

    def __init__(self, robot: Robot, truth: Robot, source: StringSource, clock: Clock) -> None:
        if not self.can_read(robot):
            raise ParameterError("robot.strings", len(robot.strings), "1 to 4 strings, which a board reads")
        self._robot, self._source = robot, source
        section = hardware_of(wired(robot)).string_encoders
        assert section is not None
        self._settings: Any = section
        self._kind = device_of(section.kind)
        self._unknown = np.full(len(robot.strings), np.nan)
        rng = np.random.default_rng([truth.simulation.seed, 1])
        self._error = string_error(truth, rng)
        self._board = emulator_of(self._settings.kind)(robot, self._settings, self._extension, rng=rng)
        self._clock = clock
        self._pacer = None if clock.stepped else Pacer(self._board.step, PERIOD_S)

    @staticmethod
    def can_read(robot: Robot) -> bool:
        """Whether a board can read the robot's strings: not too many, and motors that can be simulated with it."""
        if robot.actuators is None or not robot.strings:
            return False
        encoders = hardware_of(wired(robot)).string_encoders
        return encoders is not None and emulator_of(encoders.kind) is not None

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

    def string_encoders(self) -> Any:
        """The real driver, not open yet."""
        # In simulated time there is nothing to wait for while the driver opens the port.
        patience = {"answer_timeout_s": 0.0} if self._clock.stepped else {}
        return self._kind.make(
            self._robot, self._settings, self._board.port, simulated=True, clock=self._clock.monotonic_s, **patience
        )

    def inject(self, fault: str, channel: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Inject a fault of the board or of its line. Raises :class:`ParameterError` for an unknown one."""
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
        if sample is None:
            return self._unknown
        return np.asarray(self._error(sample.extension_m[: self._unknown.size]))
