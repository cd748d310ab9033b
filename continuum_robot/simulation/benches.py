# SPDX-License-Identifier: Apache-2.0
"""Benches on which simulated robots are calibrated: a chirp of capstans, and a weight that hangs on one tendon."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.friction.maxwell_slip import motor_slip
from continuum_robot.simulation.devices.sensors import StringEncoderModel, StringEncoderSettings
from continuum_robot.simulation.motors import FRICTION_SPEED_M_PER_S
from continuum_robot.simulation.plant import Plant

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chirp:
    """q(t) = amplitude sin(2 pi ((f_end - f_start) / (2 t_f) t^2 + f_start t) + phase).

    As printed, johnston (71) begins at f_0 = 0.25 Hz and ends at f_1 = 0.01 Hz; the text states the opposite, which
    this does. The defaults are the paper's, for the angle of a capstan; an amplitude in m makes it a tendon
    displacement.
    """

    amplitude: float = quantity("amplitude; 360 degrees of a capstan", "rad", default=2 * math.pi, ge=-100, le=100)
    start_hz: float = quantity("frequency at the start", "Hz", default=0.01, ge=0, le=100)
    end_hz: float = quantity("frequency at the end", "Hz", default=0.25, ge=0, le=100)
    duration_s: float = quantity("time from the one to the other", "s", default=6.0, gt=0, le=3600)
    phase_rad: float = quantity("phase at the start", "rad", default=math.pi / 2, ge=-10, le=10)

    def frequency_hz(self, time_s: ArrayLike) -> Array:
        """Instantaneous frequency at times (s), Hz; the same shape."""
        fraction = np.asarray(time_s, dtype=float) / self.duration_s
        return np.asarray(self.start_hz + (self.end_hz - self.start_hz) * fraction)

    def position(self, time_s: ArrayLike) -> Array:
        """Position at times (s), in the amplitude's unit; the same shape."""
        return self.amplitude * np.sin(self._angle(time_s))

    def rate(self, time_s: ArrayLike) -> Array:
        """Its derivative at times ``time_s`` (s), per s; the same shape (...)."""
        return self.amplitude * 2 * math.pi * self.frequency_hz(time_s) * np.cos(self._angle(time_s))

    def _angle(self, time_s: ArrayLike) -> Array:
        t = np.asarray(time_s, dtype=float)
        slope = (self.end_hz - self.start_hz) / (2 * self.duration_s)
        return 2 * math.pi * (slope * t**2 + self.start_hz * t) + self.phase_rad  # johnston (71), f_0 and f_1 swapped


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRun:
    """T samples of k capstans, N tendons, S strings and n coefficients."""

    time_s: Array
    capstan_torque_nm: Array
    tendon_displacement_m: Array
    string_extension_m: Array
    c: Array
    c_rate: Array


def simulate_calibration(
    robot: Robot,
    rng: np.random.Generator,
    *,
    chirp: Chirp | None = None,
    duration_s: float | None = None,
    sample_s: float = 0.005,
    bandwidth_rad_per_s: float = 30.0,
    encoders: StringEncoderSettings | None = None,
    tendon_noise_m: float = 5e-6,
) -> CalibrationRun:
    """Drive every capstan along the chirp and record.

    A controller of proportional and derivative action on the capstans' angles gives the torque at each sample, which
    is held until the next. The plant follows from rest at the chirp's first angle, after a second of holding it.
    """
    capstans = drives(robot)
    if not capstans or not robot.strings:
        raise ParameterError("robot", robot.name, "a robot with capstans and strings")
    motion = chirp or Chirp()
    friction, plant = CapstanFriction(robot), Plant(robot, actuation="ideal")
    inertia = np.array([drive.capstans.inertia_kg_m2 for drive in capstans])
    stiff, damped = inertia * bandwidth_rad_per_s**2, 2 * inertia * bandwidth_rad_per_s
    settle = round(1.0 / sample_s)
    samples = round((motion.duration_s if duration_s is None else duration_s) / sample_s)
    plant.reset(np.linalg.pinv(friction.jacobian) @ np.full(len(capstans), float(motion.position(0.0))))
    encoder = StringEncoderModel(len(robot.strings), encoders or StringEncoderSettings(), rng)
    rows: list[tuple[Array, ...]] = []
    for k in range(-settle, samples):
        t = max(k, 0) * sample_s
        desired, speed = float(motion.position(t)), float(motion.rate(t)) if k >= 0 else 0.0
        c, rate = plant.c, plant.c_rate
        torque = stiff * (desired - friction.jacobian @ c) + damped * (speed - friction.jacobian @ rate)
        if k >= 0:
            rows.append((torque, plant.displacement, encoder.read(plant.string_extension), c, rate))
        plant.advance(friction.tension_of_torque(torque), sample_s)
    torques, tendons, strings, cs, rates = (np.array(column) for column in zip(*rows, strict=True))
    return CalibrationRun(
        time_s=np.asarray(np.arange(samples) * sample_s, dtype=float),
        capstan_torque_nm=torques,
        tendon_displacement_m=tendons + tendon_noise_m * rng.standard_normal(tendons.shape),
        string_extension_m=strings,
        c=cs,
        c_rate=rates,
    )


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

    def write(self, tension_n: Array, now_s: float) -> None:
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
