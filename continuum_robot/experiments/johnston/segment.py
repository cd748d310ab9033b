# SPDX-License-Identifier: Apache-2.0
"""Capstan-driven robots for the experiments of johnston: motion under given loads or under a drive, and the observers.

Motion is integrated with the whole model, friction of the tendons (32)-(38) included, by Runge-Kutta steps or, as in
the paper, by the Dormand-Prince pair. Loads are part of the integrated equations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.disturbance_observer import StateTerms
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Disk
from continuum_robot.rod.contact.functions import ContactFunctions
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.kernel.reference import Terms as RodTerms
from continuum_robot.simulation.contact import contact_force

Array = NDArray[np.float64]
Progress = Callable[[str], None]

# Position servo of the capstans: 8 Hz, well damped, on the inertia of a capstan with what depends on it.
SERVO_STIFFNESS_NM = 75.0
SERVO_DAMPING_NMS = 2.5


@dataclass(frozen=True, slots=True)
class Observation:
    """What GMO and JFD need of the model at one state.

    Attributes
    ----------
    momentum : p, johnston (43), (n,), N.m^2.s
    known_force : dL/dc - D c_rate + J_qc^T torque - friction, (n,), N.m^2
    deviation : johnston (70), (n,), N.m^2
    """

    momentum: Array
    known_force: Array
    deviation: Array


@dataclass(frozen=True, slots=True)
class Loaded:
    """A motion under loads that are known as functions of time.

    Attributes
    ----------
    time_s : (k,)
    c, c_rate, c_acceleration : (k, n)
    """

    time_s: Array
    c: Array
    c_rate: Array
    c_acceleration: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A compliant stop that a disk runs against, e.g. a force sensor.

    Attributes
    ----------
    arc_length_m : of the touched place, from the base
    direction : in the base frame, from the backbone to the stop, (3,), unit length
    reach_m : distance of the touched point from the backbone, in the same direction in the disk's frame
    offset_m : distance of the stop's surface from the base along ``direction``
    stiffness_n_per_m, dissipation_s_per_m, friction_coefficient : as of a wall of simulation/contact
    """

    arc_length_m: float
    direction: tuple[float, float, float]
    reach_m: float = 0.08
    offset_m: float = 0.08
    stiffness_n_per_m: float = 20e3
    dissipation_s_per_m: float = 2.0
    friction_coefficient: float = 0.2


class CapstanRobot:
    """A robot with capstans: equations of motion, observations and measurements.

    Parameters
    ----------
    robot : with capstans and with strings, as many as the shape needs

    Attributes
    ----------
    size, capstans : number of coefficients and of capstans
    functions : momentum, forces, derivatives and Jacobians in one call
    friction : of the tendons
    capstan_jacobian : J_qc, (capstans, n)
    """

    def __init__(self, robot: Robot) -> None:
        self.robot, self.functions, self.friction = robot, ContactFunctions(robot), CapstanFriction(robot)
        self._rod = self.functions.rod
        self.size, self._evaluate = self._rod.n, self._rod.prepared()
        self.capstan_jacobian = self.friction.jacobian
        self.capstans = len(self.capstan_jacobian)

    def _driven(self, at: RodTerms, rate: Array, torque: Array) -> Array:
        """J_qc^T (torque - friction), johnston (38), (41)."""
        friction, jacobian = self.friction, self.capstan_jacobian
        kept, _ = friction.kept(at, self._rod, slopes=False)
        return np.asarray(
            jacobian.T @ (torque - friction.torque(kept, jacobian @ rate, friction.wires_of_torque(torque)))
        )

    def _held(self, c: Array, rate: Array) -> Array:
        """K c + D c_rate."""
        return np.asarray(self._rod.arrays.stiffness @ c + self._rod.arrays.damping @ rate)

    def _motion(self, x: Array, force: Callable[[RodTerms, Array, Array], Array]) -> Array:
        """(c, c_rate)' for a force on the coefficients besides the rod's own, of terms, c and c_rate."""
        c, rate = x[: self.size], x[self.size :]
        at = self._evaluate(c, rate)
        second = np.linalg.solve(at.mass, force(at, c, rate) - at.bias - self._held(c, rate))  # muhmann (25)
        return np.concatenate([rate, second])

    def _loaded(self, x: Array, torque: Array, wrench: Array) -> Array:
        """(c, c_rate)' under a torque of the capstans and a wrench at the tip."""
        return self._motion(x, lambda at, _, rate: self._driven(at, rate, torque) + at.jacobian[-1].T @ wrench)

    def _stopped(self, x: Array, reference: Array, stop: Stop, time_s: float) -> tuple[Array, Array, Array]:
        """(c, c_rate)' of the driven robot, torque of the capstans, wrench at the stop in the backbone's frame."""
        start, speed, ramp = reference.reshape(3, -1)
        desired, desired_speed = start + time_s * speed + time_s**2 / 2 * ramp, speed + time_s * ramp
        angle, turning = self.capstan_jacobian @ x[: self.size], self.capstan_jacobian @ x[self.size :]
        torque = servo_torque(self.robot, desired - angle, desired_speed - turning, ramp)
        wrench = np.zeros(6)

        def force(at: RodTerms, c: Array, rate: Array) -> Array:
            rotation, place, jacobian = self._at(at, c, stop.arc_length_m)
            wrench[:] = _of_stop(stop, rotation, place, jacobian @ rate)
            return self._driven(at, rate, torque) + jacobian.T @ wrench

        return self._motion(x, force), torque, wrench

    def _at(self, at: RodTerms, c: Array, s_m: float) -> tuple[Array, Array, Array]:
        """Rotation, position and body Jacobian at an arc length."""
        body = int(np.argmin(np.abs(self._rod.arrays.bodies_m - s_m)))
        if abs(self._rod.arrays.bodies_m[body] - s_m) < 1e-9:
            return at.rotation[body], at.position[body], at.jacobian[body]
        stations = self._rod.stations([s_m])
        poses = stations.poses(at, c)
        return poses[0, :3, :3], poses[0, :3, 3], stations.jacobians(at, poses)[0]

    # --- numeric

    def observe(self, c: Array, c_rate: Array, c_acceleration: Array, torque: Array) -> Observation:
        """Terms of the observers at a measured state; arrays (n,), (n,), (n,), (capstans,).

        Parameters
        ----------
        torque : of the capstans, shape (capstans,), N.m
        """
        at = self._evaluate(c, c_rate)
        driven, held = self._driven(at, c_rate, torque), self._held(c, c_rate)
        deviation = at.bias + at.mass @ c_acceleration + held - driven  # johnston (70)
        return Observation(at.momentum.copy(), at.force - held + driven, deviation)

    def jacobian(self, c: Array, s_m: float) -> Array:
        """Body Jacobian at an arc length (m), (6, n)."""
        return self._rod.jacobian(c, s_m)

    def pose(self, c: Array, s_m: float) -> Array:
        """Frame of the backbone at an arc length (m) in the base frame, (4, 4)."""
        return np.asarray(self._rod.poses(c, [s_m])[0])

    def terms(self) -> Terms:
        """The model with its derivatives, for the disturbance observer."""
        return Terms(self.functions, self.friction)

    def ramped(self, torque: Array, wrench: Array, ramp_s: float, duration_s: float, rate_hz: float) -> Loaded:
        """Motion from rest and straight under a torque and a tip wrench that grow for ``ramp_s`` and are then held.

        Parameters
        ----------
        torque : on the capstans, (capstans,), N.m
        wrench : force (N) and moment (N.m) at the tip in its own frame, (6,)
        ramp_s, duration_s : s
        rate_hz : of the integration and of the samples
        """
        n, h, load = self.size, 1 / rate_hz, np.concatenate([torque, wrench])
        times = np.asarray(np.arange(round(duration_s * rate_hz) + 1) * h, dtype=np.float64)
        x, states = np.zeros(2 * n), np.zeros((len(times), 3 * n))
        for index, time_s in enumerate(times):
            rising = time_s < ramp_s - h / 2
            fraction, slope = (time_s / ramp_s, 1 / ramp_s) if rising else (1.0, 0.0)

            def motion(x: Array, t: float, fraction: float = fraction, slope: float = slope) -> Array:
                grown = (fraction + t * slope) * load
                return self._loaded(x, grown[: self.capstans], grown[self.capstans :])

            states[index] = [*x, *motion(x, 0.0)[n:]]
            x = rk4_step(motion, x, h)
        return Loaded(times, states[:, :n], states[:, n : 2 * n], states[:, 2 * n :])

    def derivative(self, time_s: float, x: Array, torque: Array, wrench: Array, ramp_s: float) -> Array:
        """(c, c_rate)' under loads that have grown for ``time_s`` of ``ramp_s`` towards their values, (2 n,).

        Parameters
        ----------
        x : (c, c_rate), shape (2 n,), 1/m and 1/(m.s)
        torque : of the capstans in the end, shape (capstans,), N.m
        wrench : (force, moment) at the tip in the end, shape (6,), N and N.m
        ramp_s : s
        """
        grown = time_s / ramp_s
        return self._loaded(x, grown * torque, grown * wrench)

    def drive(self, x: Array, reference: Array, stop: Stop, duration_s: float) -> Array:
        """(c, c_rate) after a step of the driven robot; reference: angle, speed, acceleration of the capstans.

        Parameters
        ----------
        x : (c, c_rate), shape (2 n,), 1/m and 1/(m.s)
        reference : angle (rad), speed (rad/s), acceleration (rad/s^2) of the capstans, shape (3 capstans,)
        stop : that it may touch
        duration_s : s
        """

        def motion(x: Array, t: float) -> Array:
            return self._stopped(x, reference, stop, t)[0]

        half = duration_s / 2
        return rk4_step(lambda x, t: motion(x, t + half), rk4_step(motion, x, half), half)

    def drive_loads(self, x: Array, reference: Array, stop: Stop) -> tuple[Array, Array]:
        """Torque of the capstans (N.m), and what the stop does to the robot: wrench in the frame of the backbone.

        Parameters
        ----------
        x : (c, c_rate), shape (2 n,), 1/m and 1/(m.s)
        reference : angle (rad), speed (rad/s), acceleration (rad/s^2) of the capstans, shape (3 capstans,)
        stop : that it may touch
        """
        return self._stopped(x, reference, stop, 0.0)[1:]


@dataclass(frozen=True, slots=True)
class Terms:
    """The model as the disturbance observer asks for it.

    Attributes
    ----------
    functions : of the rod
    friction : of the tendons in the disks
    """

    functions: ContactFunctions
    friction: CapstanFriction

    def at(self, c: Array, c_rate: Array, torque: Array) -> StateTerms:
        """Everything at a state (n,), (n,) under a torque of the capstans.

        Parameters
        ----------
        torque : of the capstans, shape (capstans,), N.m
        """
        functions, friction = self.functions, self.friction
        terms, wires = functions(c, c_rate), friction.wires_of_torque(torque)
        kept = friction.kept(functions.newest, functions.rod)
        lost, lost_by_c, lost_by_rate = friction.force(kept, c_rate, wires)
        return StateTerms(terms, friction.jacobian.T @ torque - lost, -lost_by_c, -lost_by_rate)


def rk4_step(motion: Callable[[Array, float], Array], x: Array, step_s: float) -> Array:
    """A state after a Runge-Kutta step of order 4.

    Parameters
    ----------
    motion : its rate, of the state and the time since the step began, s
    x : state
    step_s : s
    """
    half = step_s / 2
    first = motion(x, 0.0)
    second = motion(x + half * first, half)
    third = motion(x + half * second, half)
    last = motion(x + step_s * third, step_s)
    return np.asarray(x + step_s / 6 * (first + 2 * second + 2 * third + last))


def _of_stop(stop: Stop, rotation: Array, place: Array, twist: Array) -> Array:
    """Wrench that a stop does to the robot, in the axes of the backbone's frame there, (6,).

    Parameters
    ----------
    rotation, place : of the backbone's frame, (3, 3), (3,), m
    twist : of it, (linear, angular) in its own axes, (6,)
    """
    direction = np.array(stop.direction)
    arm = stop.reach_m * direction
    speed = rotation @ (twist[:3] + np.cross(twist[3:], arm))
    gap = stop.offset_m - direction @ (place + rotation @ arm)
    side, upright = np.array([-direction[1], direction[0], 0.0]), np.array([0.0, 0.0, 1.0])
    law = stop.stiffness_n_per_m, stop.dissipation_s_per_m, stop.friction_coefficient
    normal, rubbing = contact_force(gap, -direction @ speed, np.array([side @ speed, speed[2]]), law)
    force = rotation.T @ (rubbing[0] * side + rubbing[1] * upright - normal * direction)
    return np.concatenate([force, np.cross(arm, force)])


def point_force(residual: Array, jacobian: Array) -> Array:
    """Force in x and y of the backbone's frame that fits a generalised force best: johnston (60), (61) with W = 1.

    Parameters
    ----------
    residual : (n,), or (n, m) for several at once, N.m^2
    jacobian : body Jacobian at the contact, (6, n)

    Returns
    -------
    (2,) or (2, m), N
    """
    rows = jacobian[:2]
    return np.asarray(np.linalg.solve(rows @ rows.T, rows @ residual))


def perturbed(robot: Robot, fraction: float, rng: np.random.Generator) -> Robot:
    """The robot with stiffnesses, masses and friction that are wrong by a fraction, each up or down by lot.

    Parameters
    ----------
    robot : as the monitor believes it to be; backbone with its own stiffnesses, disks one by one, capstans
    fraction : largest fraction by which each is wrong, e.g. 0.05
    rng : draws the signs
    """

    def off() -> float:
        return float(1 + fraction * rng.choice([-1.0, 1.0]))

    segments = []
    for segment in robot.segments:
        backbone, capstans = segment.backbone, segment.capstans
        stiffness_x, stiffness_y = backbone.bending_stiffness_x_nm2, backbone.bending_stiffness_y_nm2
        other = dataclasses.replace(
            backbone,
            bending_stiffness_x_nm2=None if stiffness_x is None else stiffness_x * off(),
            bending_stiffness_y_nm2=None if stiffness_y is None else stiffness_y * off(),
        )
        heavier = off()
        disks = dataclasses.replace(
            segment.disks, individual=tuple(_scaled(disk, heavier) for disk in segment.disks.individual)
        )
        if capstans is not None:
            friction = tuple(value * off() for value in capstans.friction_coefficients)
            capstans = dataclasses.replace(capstans, friction_coefficients=friction)
        segments.append(dataclasses.replace(segment, backbone=other, disks=disks, capstans=capstans))
    return dataclasses.replace(robot, name=f"{robot.name}_true", segments=tuple(segments))


def _scaled(disk: Disk, ratio: float) -> Disk:
    inertia = tuple(ratio * value for value in disk.inertia_kg_m2)
    return dataclasses.replace(disk, mass_kg=ratio * disk.mass_kg, inertia_kg_m2=inertia)


def servo_torque(robot: Robot, angle_error: Array, speed_error: Array, ramp: Array) -> Array:
    """Torque of the capstans' position servo, (capstans,), N.m.

    Parameters
    ----------
    robot : with capstans
    angle_error, speed_error : desired less actual, (capstans,), rad and rad/s
    ramp : desired acceleration, (capstans,), rad/s^2
    """
    return SERVO_STIFFNESS_NM * angle_error + SERVO_DAMPING_NMS * speed_error + _drive_inertia(robot) * ramp


def _drive_inertia(robot: Robot) -> float:
    capstans = robot.segments[0].capstans
    return 0.0 if capstans is None else capstans.inertia_kg_m2
