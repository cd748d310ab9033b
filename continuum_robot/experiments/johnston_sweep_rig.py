# SPDX-License-Identifier: Apache-2.0
"""The bench of johnston's contact sweep in simulation: the robot with its encoders, moved against a force sensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Progress
from continuum_robot.experiments.johnston_measurement import CommandedCurrent
from continuum_robot.experiments.johnston_segment import CapstanRobot, Stop, perturbed
from continuum_robot.experiments.johnston_sweep_runs import DIRECTIONS, Recording
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import string_matrix
from continuum_robot.simulation.string_encoders import StringEncoderModel, StringEncoderSettings

Array = NDArray[np.float64]

PEAK_N, FARTHEST_DEG, RAMP_DEG_PER_S2, AWAY_DEG_PER_S = 20.0, 225.0, 1800.0, 180.0
CALIBRATION_DEG_PER_S = (60.0, 170.0)


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("of the monitor", "Hz", default=200, ge=200, le=1000)
    parameter_error: float = quantity("share by which the monitor's parameters are off", default=0.05, ge=0, le=0.5)
    withdrawal_deg: float = quantity(
        "how far the capstan turns away before it approaches; the paper: 180", "deg", default=60.0, ge=10, le=180
    )
    margin: float = quantity("thresholds over the largest value of the calibration", default=1.2, ge=1, le=10)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the best estimator expects within a second", "N/s^0.5", default=30.0, gt=0, le=1e4
    )
    torque_error: float = quantity(
        "share by which the torque that a current stands for is off, for each capstan", default=0.05, ge=0, le=0.5
    )
    gear_efficiency: float = quantity(
        "of motor and gearhead; the paper takes the rated one and does not name it", default=0.8, gt=0, le=1
    )
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    cases: int = quantity("number of contacts, spread over the table", default=20, ge=1, le=20)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the robot's sensors and motors give in one cycle, and the truth.

    Attributes
    ----------
    readings_m : extensions of the strings, shape (strings,), m
    torque : of the capstans by their commanded current, shape (capstans,), N.m
    c : true coefficients, shape (n,), 1/m
    wrench : true (force, moment) at the contact in the backbone's frame, shape (6,), N and N.m
    """

    readings_m: Array
    torque: Array
    c: Array
    wrench: Array


class Rig:
    """The simulated robot, its encoders, and its motion on the bench."""

    def __init__(self, settings: SweepSettings, progress: Progress) -> None:
        rng = np.random.default_rng(settings.seed)
        robot = load_robot(settings.robot)
        self.dt = 1 / settings.rate_hz
        self.settings = settings
        self.plant = CapstanRobot(perturbed(robot, settings.parameter_error, rng), progress)
        self.strings = string_matrix(robot)
        self.encoders = StringEncoderModel(len(self.strings), StringEncoderSettings(), rng)
        self.current = CommandedCurrent(self.plant.capstans, settings.torque_error, settings.gear_efficiency, rng)

    def approach(self, case: Recording, *, present: bool) -> Iterator[Sample]:
        """Away from the sensor, towards it, and away again.

        Parameters
        ----------
        case : direction, disk and speed
        present : whether the sensor stands there; else it is out of reach
        """
        side = _side(case.direction)
        stop = Stop(
            arc_length_m=case.arc_length_m, direction=DIRECTIONS[case.direction], offset_m=0.08 if present else 10.0
        )
        motion = _Motion(self, stop)
        yield from motion.until(side, -AWAY_DEG_PER_S, -self.settings.withdrawal_deg)
        yield from motion.until(side, case.speed_deg, FARTHEST_DEG, PEAK_N)
        yield from motion.until(side, -case.speed_deg, 0.0)

    def free(self, direction: str) -> Iterator[Sample]:
        """Free motion in one plane for the thresholds.

        Parameters
        ----------
        direction : of the plane, by name
        """
        stop = Stop(arc_length_m=0.1, direction=(1.0, 0.0, 0.0), offset_m=10.0)
        motion, side = _Motion(self, stop), _side(direction)
        for speed in CALIBRATION_DEG_PER_S:
            yield from motion.until(side, speed, FARTHEST_DEG + 15)
            yield from motion.until(side, -speed, -FARTHEST_DEG - 15)
            yield from motion.until(side, speed, 0.0)


class _Motion:
    """Speed commands for one capstan, with ramps."""

    def __init__(self, rig: Rig, stop: Stop) -> None:
        self._rig, self._stop = rig, stop.parameters
        k = rig.plant.capstans
        self._x = np.zeros(2 * rig.plant.size + 1)
        self._angle, self._speed = np.zeros(k), np.zeros(k)

    def until(self, side: Array, speed_deg: float, end_deg: float, peak_n: float = math.inf) -> Iterator[Sample]:
        """Turn at a speed until an angle along ``side``, or until the stop pushes with a force."""
        rig, dt, n = self._rig, self._rig.dt, self._rig.plant.size
        target, ramp_limit = math.radians(speed_deg) * side, math.radians(RAMP_DEG_PER_S2)
        end = math.radians(end_deg)
        while True:
            passed = float(side @ self._angle)
            if (passed - end) * np.sign(speed_deg) >= 0:
                return
            ramp = np.clip((target - self._speed) / dt, -ramp_limit, ramp_limit)
            reference = np.concatenate([self._angle, self._speed, ramp])
            torque, wrench = rig.plant.drive_loads(self._x, reference, self._stop)
            extension = rig.strings @ self._x[:n]
            angles = rig.plant.capstan_jacobian @ self._x[:n]
            estimate = rig.current.read(torque, rig.plant.capstan_jacobian @ self._x[n : 2 * n])
            readings = np.concatenate([angles, rig.encoders.read(extension)])
            yield Sample(readings, estimate, self._x[:n].copy(), wrench)
            if np.linalg.norm(wrench[:3]) >= peak_n:
                return
            self._x = rig.plant.drive(self._x, reference, self._stop, dt)
            self._angle = self._angle + self._speed * dt + ramp * dt**2 / 2
            self._speed = self._speed + ramp * dt


def _side(direction: str) -> Array:
    """Which way which capstan turns to bend the robot in a direction, (2,)."""
    sign = 1.0 if direction[0] == "+" else -1.0
    return np.array([sign, 0.0]) if direction[1] == "x" else np.array([0.0, sign])
