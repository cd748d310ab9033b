# SPDX-License-Identifier: Apache-2.0
"""The bench of johnston's contact sweep in simulation: the robot with its encoders, moved against a force sensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.johnston.measurement import CommandedCurrent
from continuum_robot.experiments.johnston.segment import CapstanRobot, Stop, perturbed, servo_torque
from continuum_robot.experiments.johnston.sweep_runs import DIRECTIONS, Recording
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstans import drives, tension_from_torque
from continuum_robot.rod.tendons import string_matrix
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.string_encoders import StringEncoderModel, StringEncoderSettings
from continuum_robot.simulation.mujoco.plant import MujocoPlant
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.workers import MOST_WORKERS

Array = NDArray[np.float64]

PEAK_N, FARTHEST_DEG, RAMP_DEG_PER_S2, AWAY_DEG_PER_S = 20.0, 225.0, 1800.0, 180.0
CALIBRATION_DEG_PER_S = (60.0, 170.0)
SERVO_STEP_S = 5e-4


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("of the monitor", "Hz", default=200, ge=200, le=1000)
    parameter_error: float = quantity("fraction by which the monitor's parameters are off", default=0.05, ge=0, le=0.5)
    withdrawal_deg: float = quantity(
        "how far the capstan turns away before it approaches; the paper: 180", "deg", default=60.0, ge=10, le=180
    )
    margin: float = quantity("thresholds over the largest value of the calibration", default=1.2, ge=1, le=10)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the Kalman disturbance observer expects within a second",
        "N/s^0.5",
        default=30.0,
        gt=0,
        le=1e4,
    )
    torque_error: float = quantity(
        "fraction by which the torque that a current stands for is off, for each capstan", default=0.05, ge=0, le=0.5
    )
    gear_efficiency: float = quantity(
        "of motor and gearhead; the paper takes the rated one and does not name it", default=0.8, gt=0, le=1
    )
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    plant: str = quantity("what moves: our rod, or MuJoCo's chain of links", default=ROD, choices=tuple(PLANTS))
    cases: int = quantity("number of contacts, spread over the table", default=20, ge=1, le=20)
    workers: int = quantity("processes to which the contacts are shared out", default=0, ge=0, le=MOST_WORKERS)
    scheduler: str = quantity("address of a dask scheduler to whose workers they are shared out", default="")


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


@dataclass(frozen=True, slots=True)
class _Seen:
    """The true state of the robot in one cycle: angles (rad) and rates (rad/s) of the capstans, strings (m), loads."""

    capstan_angle: Array
    capstan_speed: Array
    extension_m: Array
    torque: Array
    wrench: Array
    c: Array


class Rig:
    """The simulated robot, its encoders, and its motion on the bench."""

    def __init__(self, settings: SweepSettings) -> None:
        rng = self._rng = np.random.default_rng(settings.seed)
        robot = load_robot(settings.robot)
        self.dt = 1 / settings.rate_hz
        self.settings = settings
        self.plant = CapstanRobot(perturbed(robot, settings.parameter_error, rng))
        self.strings = string_matrix(robot)
        self.encoders = StringEncoderModel(len(self.strings), StringEncoderSettings(), rng)
        self.current = CommandedCurrent(self.plant.capstans, settings.torque_error, settings.gear_efficiency, rng)

    def begin(self, number: int) -> None:
        """Noise from here on depends on nothing that was done before.

        Parameters
        ----------
        number : of what begins; contacts from 1
        """
        seed = (self.settings.seed, number)
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def _motion(self, stop: Stop) -> _Motion:
        return _Motion(self, stop) if self.settings.plant == ROD else _ChainMotion(self, stop)

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
        motion = self._motion(stop)
        yield from motion.until(side, -AWAY_DEG_PER_S, -self.settings.withdrawal_deg)
        yield from motion.until(side, case.speed_deg, FARTHEST_DEG, PEAK_N)
        yield from motion.until(side, -case.speed_deg, 0.0)

    def free(self, directions: Sequence[str]) -> Iterator[Sample]:
        """Free motion for the thresholds, in one plane after the other.

        Parameters
        ----------
        directions : of the planes, by name
        """
        motion = self._motion(Stop(arc_length_m=0.1, direction=(1.0, 0.0, 0.0), offset_m=10.0))
        for side in map(_side, directions):
            for speed in CALIBRATION_DEG_PER_S:
                yield from motion.until(side, speed, FARTHEST_DEG + 15)
                yield from motion.until(side, -speed, -FARTHEST_DEG - 15)
                yield from motion.until(side, speed, 0.0)


class _Motion:
    """Speed commands for one capstan, with ramps."""

    def __init__(self, rig: Rig, stop: Stop) -> None:
        self._rig, self._stop = rig, stop
        k = rig.plant.capstans
        self._x = np.zeros(2 * rig.plant.size)
        self._angle, self._speed = np.zeros(k), np.zeros(k)

    def until(self, side: Array, speed_deg: float, end_deg: float, peak_n: float = math.inf) -> Iterator[Sample]:
        """Turn at a speed until an angle along ``side``, or until the stop pushes with a force."""
        dt, rig = self._rig.dt, self._rig
        target, ramp_limit = math.radians(speed_deg) * side, math.radians(RAMP_DEG_PER_S2)
        end = math.radians(end_deg)
        while True:
            passed = float(side @ self._angle)
            if (passed - end) * np.sign(speed_deg) >= 0:
                return
            ramp = np.clip((target - self._speed) / dt, -ramp_limit, ramp_limit)
            reference = np.concatenate([self._angle, self._speed, ramp])
            seen = self._seen(reference)
            estimate = rig.current.read(seen.torque, seen.capstan_speed)
            readings = np.concatenate([seen.capstan_angle, rig.encoders.read(seen.extension_m)])
            yield Sample(readings, estimate, seen.c, seen.wrench)
            if np.linalg.norm(seen.wrench[:3]) >= peak_n:
                return
            self._move(reference)
            self._angle = self._angle + self._speed * dt + ramp * dt**2 / 2
            self._speed = self._speed + ramp * dt

    def _seen(self, reference: Array) -> _Seen:
        plant, n = self._rig.plant, self._rig.plant.size
        c, rate = self._x[:n].copy(), self._x[n:]
        torque, wrench = plant.drive_loads(self._x, reference, self._stop)
        jacobian = plant.capstan_jacobian
        return _Seen(jacobian @ c, jacobian @ rate, self._rig.strings @ c, torque, wrench, c)

    def _move(self, reference: Array) -> None:
        self._x = self._rig.plant.drive(self._x, reference, self._stop, self._rig.dt)


class _ChainMotion(_Motion):
    """The same commands to the same servo, with MuJoCo's chain for the rod, and a wall for the sensor.

    The wires are pulled with their pretension, and more on one side and less on the other by the servo's torque.
    """

    def __init__(self, rig: Rig, stop: Stop) -> None:
        super().__init__(rig, stop)
        robot = rig.plant.robot
        direction = np.array(stop.direction)
        wall = Contact(
            name="sensor",
            kind="wall",
            arc_length_m=stop.arc_length_m,
            point_m=tuple(stop.offset_m * direction),
            normal=tuple(-direction),
            body_radius_m=stop.reach_m,
            stiffness_n_per_m=stop.stiffness_n_per_m,
            dissipation_s_per_m=stop.dissipation_s_per_m,
            friction_coefficient=stop.friction_coefficient,
        )
        self._chain = MujocoPlant(robot, actuation="ideal", contacts=[wall])
        self._to_tension = tension_from_torque(robot)
        self._pretension = np.zeros(robot.tendon_count)
        for drive in drives(robot):
            self._pretension[[drive.pulled, drive.released]] = drive.strands * drive.capstans.pretension_n

    def _torque(self, angle: Array, speed: Array, ramp: Array) -> Array:
        # Half the difference of both tendons of a capstan is its angle times the path of a radian.
        turned, turning = self._to_tension.T @ self._chain.displacement, self._to_tension.T @ self._chain.velocity
        return np.asarray(servo_torque(self._chain.robot, angle - turned, speed - turning, ramp))

    def _seen(self, reference: Array) -> _Seen:
        chain, torque = self._chain, self._torque(*reference.reshape(3, -1))
        (load,) = chain.contact_loads
        angle, speed = self._to_tension.T @ chain.displacement, self._to_tension.T @ chain.velocity
        return _Seen(angle, speed, chain.string_extension, torque, load.wrench_in_disk, chain.c)

    def _move(self, reference: Array) -> None:
        angle, speed, ramp = reference.reshape(3, -1)
        steps = round(self._rig.dt / SERVO_STEP_S)
        for k in range(steps):
            t = k * SERVO_STEP_S
            torque = self._torque(angle + t * speed + t**2 / 2 * ramp, speed + t * ramp, ramp)
            self._chain.advance(np.maximum(self._pretension + self._to_tension @ torque, 0.0), self._rig.dt / steps)


def _side(direction: str) -> Array:
    """Which way which capstan turns to bend the robot in a direction, (2,)."""
    sign = 1.0 if direction[0] == "+" else -1.0
    return np.array([sign, 0.0]) if direction[1] == "x" else np.array([0.0, sign])
