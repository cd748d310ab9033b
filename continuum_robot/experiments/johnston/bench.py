# SPDX-License-Identifier: Apache-2.0
"""Johnston's bench in simulation: capstans under position servos move a robot against a force sensor.

The paper takes the torque of a capstan from the commanded current by the torque constant, the rated efficiency of motor
and gearhead and the reduction (section 10), and names the difference to the actual torque as a source of error, without
a number. Two parts of it follow from the method: a constant factor of each capstan, since torque constant and
efficiency differ from their ratings, and the direction of the power. Where the motor drives, the gear takes the
fraction 1 - efficiency from its torque; where the load drives the motor, the gear helps to hold, the current is lower,
and the estimate is efficiency^2 of the actual torque.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import drives, tension_from_torque
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plants import PLANTS, ROD

Array = NDArray[np.float64]

# Position servo of the capstans: 8 Hz, well damped, on the inertia of a capstan with what depends on it.
SERVO_STIFFNESS_NM = 75.0
SERVO_DAMPING_NMS = 2.5
SERVO_STEP_S = 1e-3
RIM_M = 0.08  # radius of the disks
_TURNING_RAD_PER_S = 0.05  # below, the friction of the gear changes its side


def force_sensor(arc_length_m: float, direction: tuple[float, float, float], offset_m: float) -> Contact:
    """A sensor that the rim of a disk runs against."""
    x, y, z = direction
    return Contact(
        name="sensor",
        kind="wall",
        arc_length_m=arc_length_m,
        point_m=(offset_m * x, offset_m * y, offset_m * z),
        normal=(-x, -y, -z),
        body_point_m=(RIM_M * x, RIM_M * y, RIM_M * z),
        stiffness_n_per_m=20e3,
        dissipation_s_per_m=2.0,
        friction_coefficient=0.2,
    )


class Bench:
    """A simulated robot with capstans whose torques a position servo gives, at rest and straight at first."""

    def __init__(
        self, robot: Robot, sensor: Contact | None, acceleration_rad_per_s2: float, *, plant: str = ROD
    ) -> None:
        contacts: Sequence[Contact] = () if sensor is None else (sensor,)
        self.plant = PLANTS[plant](robot, actuation="ideal", contacts=contacts)
        self.plant.reset(np.zeros(robot.coefficient_count))
        self._friction, self._per_displacement = CapstanFriction(robot), tension_from_torque(robot).T
        self._inertia = np.array([drive.capstans.inertia_kg_m2 for drive in drives(robot)])
        self.angle, self.speed = np.zeros((2, len(self._inertia)))
        self._acceleration = acceleration_rad_per_s2

    @property
    def turned(self) -> tuple[Array, Array]:
        """Angles (rad) and speeds (rad/s) of the capstans, (capstans,) each."""
        # Half the difference of both tendons of a capstan is its angle times the path of a radian.
        return self._per_displacement @ self.plant.displacement, self._per_displacement @ self.plant.velocity

    @property
    def wrench(self) -> Array:
        """Force (N) and moment (N.m) of the sensor on the robot, in the backbone's frame there, (6,)."""
        loads = self.plant.contact_loads
        return loads[0].wrench_in_disk if loads else np.zeros(6)

    def hang(self) -> None:
        """Be at rest where the servo holds the robot's weight, the reference at zero."""
        rod, jacobian = Rod(self.plant.robot), self._friction.jacobian
        rod.arrays.stiffness[:] += SERVO_STIFFNESS_NM * jacobian.T @ jacobian
        self.plant.reset(equilibrium(rod).c)

    def torque(self, ramp: Array) -> Array:
        """Of the servo, (capstans,), N.m, where its reference accelerates, rad/s^2."""
        angle, speed = self.turned
        return (
            SERVO_STIFFNESS_NM * (self.angle - angle) + SERVO_DAMPING_NMS * (self.speed - speed) + self._inertia * ramp
        )

    def move(self, ramp: Array, duration_s: float) -> None:
        """Follow a reference that accelerates by ``ramp`` (capstans,), rad/s^2."""
        steps = math.ceil(duration_s / SERVO_STEP_S - 1e-9)
        h = duration_s / steps
        for _ in range(steps):
            self.plant.advance(self._friction.tension_of_torque(self.torque(ramp)), h)
            self.angle, self.speed = self.angle + h * self.speed + h**2 / 2 * ramp, self.speed + h * ramp

    def turn(
        self, side: Array, speed_rad_per_s: float, end_rad: float, cycle_s: float, peak_n: float = math.inf
    ) -> Iterator[Array]:
        """Turn the reference until an angle along ``side``, or until the sensor feels a force."""
        while (float(side @ self.angle) / float(side @ side) - end_rad) * np.sign(speed_rad_per_s) < 0:
            ramp = np.clip((speed_rad_per_s * side - self.speed) / cycle_s, -self._acceleration, self._acceleration)
            yield self.torque(ramp)
            if np.linalg.norm(self.wrench[:3]) >= peak_n:
                return
            self.move(ramp, cycle_s)


class CommandedCurrent:
    """Torque of capstans as the commanded current gives it."""

    def __init__(self, count: int, constant_error: float, efficiency: float, rng: np.random.Generator) -> None:
        self._factor = 1 + constant_error * rng.choice([-1.0, 1.0], count)
        self._loss = 1 - efficiency**2

    def read(self, torque: Array, speed: Array) -> Array:
        """The estimate."""
        driven_by_load = (1 - np.tanh(np.sign(torque) * speed / _TURNING_RAD_PER_S)) / 2
        return np.asarray(self._factor * torque * (1 - self._loss * driven_by_load))
