# SPDX-License-Identifier: Apache-2.0
"""A bench on which a weight depends on one tendon of a robot's actuators: for the calibration of torque constants."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.maxwell_slip import motor_slip
from continuum_robot.simulation.motors import FRICTION_SPEED_M_PER_S

Vector = NDArray[np.float64]

GRAVITY_M_PER_S2 = 9.80665
SUBSTEP_S = 1e-4
RECEIVE_TIMEOUT_S = 0.15


class HungWeightBench:
    """Tendon actuators of a robot; one pulls at a weight that lies on a support, the others at nothing and stand still.

    Implements drivers/protocols.py. The driver believes the robot file's torque constant, the motor has another one.
    """

    simulated = True

    def __init__(
        self,
        robot: Robot,
        tendon: int,
        mass_kg: float,
        *,
        torque_constant_fraction: float = 1.0,
        slack_m: float = 0.003,
        rng: np.random.Generator | None = None,
    ) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        if not 0 <= tendon < robot.tendon_count:
            raise ParameterError("tendon", tendon + 1, f"1 to {robot.tendon_count}")
        rng = np.random.default_rng(robot.simulation.seed) if rng is None else rng
        self.tendon_count, self.height_m = robot.tendon_count, 0.0
        self._tendon, self._mass_kg, self._slack_m = tendon, mass_kg, slack_m
        self._stiffness, self._damping = (
            float(robot.tendon_stiffnesses_n_per_m[tendon]),
            robot.simulation.tendon_damping_ns_per_m,
        )
        self._motor = motor = robot.actuators.of(tendon + 1)
        self._cogging_phase_rad = float(rng.uniform(0, 2 * np.pi, robot.tendon_count)[tendon])
        self._believed_n_per_a = robot.newton_per_ampere
        self._true_n_per_a = motor.newton_per_ampere * torque_constant_fraction
        self._spooled_m = self._speed = self._rise = self._current_a = 0.0
        self._commanded_a, self._command_s = 0.0, -math.inf
        self._is_open = self._is_enabled = False
        self._now_s: float | None = None
        self._slip = motor_slip(np.array([motor.coulomb_n]), motor.friction_travel_m, np.zeros(1))
        self._derivative = FilteredDerivative(0.001)

    def open(self) -> None:
        """Start."""
        self._is_open, self._now_s = True, None
        self._derivative.reset()

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on."""
        if aborted():
            raise interrupted("simulated tendon actuators")
        self._is_enabled = True

    def disable(self) -> None:
        """Switch torque off."""
        self._is_enabled, self._commanded_a = False, 0.0

    def close(self) -> None:
        """End."""
        self.disable()
        self._is_open = False

    def clear_faults(self) -> None:
        """There are none."""

    def write(self, tension_n: Vector, now_s: float) -> None:
        """Take a tension (N) for each tendon."""
        self._commanded_a = float(tension_n[self._tendon] / self._believed_n_per_a[self._tendon])
        self._command_s = now_s

    def read(self, now_s: float) -> TendonReading:
        """Let time pass up to ``now_s`` and read. Raises :class:`DeviceError` where it is not open."""
        if not self._is_open:
            raise DeviceError("hung-weight bench", "is not open", "Open it first.")
        before_s = now_s if self._now_s is None else self._now_s
        duration_s = min(max(0.0, now_s - before_s), 0.05)
        steps = math.ceil(duration_s / SUBSTEP_S - 1e-9)
        for _ in range(steps):
            self._step(duration_s / steps, now_s)
        self._now_s = now_s
        position, current = np.zeros(self.tendon_count), np.zeros(self.tendon_count)
        position[self._tendon], current[self._tendon] = self._spooled_m, self._current_a
        velocity = np.nan_to_num(self._derivative.update(position, duration_s))
        unknown, zeros = np.full(self.tendon_count, np.nan), np.zeros(self.tendon_count)
        return TendonReading(now_s, position, velocity, current * self._believed_n_per_a, current, unknown, zeros)

    def _step(self, h: float, now_s: float) -> None:
        motor = self._motor
        fresh = now_s - self._command_s <= RECEIVE_TIMEOUT_S
        desired_a = self._commanded_a if self._is_enabled and fresh else 0.0
        stretch_m = self._spooled_m - self._slack_m - self.height_m
        pull = 0.0
        if stretch_m > 0:
            pull = max(0.0, self._stiffness * stretch_m + self._damping * (self._speed - self._rise))
        cogging = motor.cogging_n * math.sin(motor.cogging_rad_per_m * self._spooled_m + self._cogging_phase_rad)
        friction = motor.viscous_ns_per_m * self._speed
        if self._slip is None:
            friction += motor.coulomb_n * math.tanh(self._speed / FRICTION_SPEED_M_PER_S)
        else:
            friction += float(self._slip.move([self._spooled_m])[0])
        self._speed += h * (self._true_n_per_a * self._current_a - pull - friction - cogging) / motor.reflected_mass_kg
        self._spooled_m += h * self._speed
        self._current_a += h * (desired_a - self._current_a) / motor.current_time_constant_s
        self._rise += h * (pull / self._mass_kg - GRAVITY_M_PER_S2)
        self.height_m += h * self._rise
        if self.height_m <= 0:
            self.height_m, self._rise = 0.0, max(0.0, self._rise)
