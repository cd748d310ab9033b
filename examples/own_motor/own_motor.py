# SPDX-License-Identifier: Apache-2.0
"""A kind of motors of your own: winches behind a serial port that take a line and answer a line.

To the board: ``I 0.120 0.080 ...``, the current of each winch, A; ``I off`` switches them off. From the board, after
each line: ``S <turns> ... <current> ...``, of each winch. It switches off by itself after 100 ms without a line.

    pip install ./examples/own_motor
    continuum-robot devices examples/own_motor/five_winches.yaml
    continuum-robot up examples/own_motor/five_winches.yaml --hardware
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import serial

from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.protocols import TendonReading, never
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


class WinchActuators:
    """The driver: a TendonActuators of continuum_robot/drivers/protocols.py."""

    settings = Winches

    def __init__(self, robot: Robot, settings: Winches) -> None:
        self.simulated, self.tendon_count = False, robot.tendon_count
        self._port, self._motors = settings.port, MotorCurrents(robot, settings, settings.motors)
        self._line: serial.Serial | None = None
        self._received, self._enabled = b"", False
        self._stamp_s, self._turns, self._speed, self._current = -np.inf, *np.full((3, robot.tendon_count), np.nan)

    def open(self) -> None:
        """Open the port and switch all off."""
        if self._line is None:
            try:
                self._line = serial.Serial(self._port, 921600, timeout=0, write_timeout=0.01)
            except OSError as error:
                raise DeviceError(f"winches at {self._port}", str(error), "Plug the board in.") from error
        self._send("I off")

    def enable(self, aborted: Callable[[], bool] = never) -> None:
        """Torque on: from the next :meth:`write`."""
        if aborted():
            raise DeviceError(f"winches at {self._port}", "enabling was broken off", "Enable again.")
        self._enabled = True

    def read(self, now_s: float) -> TendonReading:
        """The newest line of the board with its age; never waits."""
        if self._line is None:
            raise DeviceError(f"winches at {self._port}", "is not open", "Open it first.")
        *lines, self._received = (self._received + self._line.read(4096)).split(b"\n")
        for line in lines[-1:]:
            try:
                turns, self._current = np.array(line.split()[1:], dtype=float).reshape(2, self.tendon_count)
            except ValueError:  # damaged on its way: the values grow old instead
                continue
            self._speed = (turns - self._turns) / (now_s - self._stamp_s)
            self._turns, self._stamp_s = turns, now_s
        current = self._motors.polarity * self._current
        return TendonReading(
            min(now_s, self._stamp_s) if np.isfinite(self._stamp_s) else now_s,
            self._motors.signed_m_per_rev * self._turns,
            self._motors.signed_m_per_rev * self._speed,
            current / self._motors.ampere_per_newton,
            current,
            np.full(self.tendon_count, np.nan),
            np.full(self.tendon_count, 0.0 if np.isfinite(self._stamp_s) else np.inf),
        )

    def write(self, tension_n: np.ndarray, now_s: float) -> None:
        """A current for every tension."""
        del now_s
        current, _ = self._motors.currents(tension_n)
        if self._enabled:
            self._send("I " + " ".join(f"{value:.4f}" for value in self._motors.polarity * current))

    def disable(self) -> None:
        """Torque off."""
        self._enabled = False
        self._send("I off")

    def close(self) -> None:
        """End."""
        self.disable()
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def clear_faults(self) -> None:
        """The board has none."""

    def _send(self, line: str) -> None:
        if self._line is not None:
            self._line.write(line.encode() + b"\n")
