# SPDX-License-Identifier: Apache-2.0
"""A calibration run of a capstan-driven robot in simulation: the chirp, its recording and the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.simulation.devices.sensors import StringEncoderModel, StringEncoderSettings
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
