# SPDX-License-Identifier: Apache-2.0
"""Capstan-driven robots for the experiments of johnston: motion under given loads or under a drive, and the observers.

Motion is integrated with the whole model, friction of the tendons (32)-(38) included, either by compiled Runge-Kutta
steps or, as in the paper, by the Dormand-Prince pair. Loads are part of the integrated equations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.disturbance_observer import StateTerms
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Disk
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.contact.functions import ContactFunctions, FrictionTerms
from continuum_robot.rod.friction.capstans import capstan_jacobian
from continuum_robot.rod.friction.tendons import TendonFriction
from continuum_robot.rod.integration import rk4_step
from continuum_robot.rod.model import RodModel
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

    @property
    def parameters(self) -> Array:
        """All of it, (9,)."""
        return np.array(
            [
                self.arc_length_m,
                *self.direction,
                self.reach_m,
                self.offset_m,
                self.stiffness_n_per_m,
                self.dissipation_s_per_m,
                self.friction_coefficient,
            ]
        )


class CapstanRobot:
    """A robot with capstans: equations of motion, observations and measurements.

    Parameters
    ----------
    robot : with capstans and with strings, as many as the shape needs
    progress : receives a line where something has to be compiled

    Attributes
    ----------
    size, capstans : number of coefficients and of capstans
    capstan_jacobian : J_qc, (capstans, n)
    """

    def __init__(self, robot: Robot, progress: Progress | None = None) -> None:
        self.robot = robot
        self.model = RodModel(robot)
        self.size = self.model.size
        self.capstan_jacobian = capstan_jacobian(robot)
        self.capstans = len(self.capstan_jacobian)
        self._progress = progress
        self.friction = TendonFriction(robot, progress=progress)
        made = compile_functions(
            [self._observation(), self.model.body_jacobian, self.model.pose],
            f"the observers of {robot.name}",
            progress=progress,
        )
        self._observe, self._jacobian, self._pose = made["observation"], made["body_jacobian"], made["pose"]
        self._steps: dict[str, Callable[..., Array]] = {}
        self._terms: ContactFunctions | None = None

    # --- symbolic

    def _symbols(self) -> tuple[ca.MX, ca.MX, ca.MX]:
        n = self.size
        return ca.MX.sym("c", n), ca.MX.sym("c_rate", n), ca.MX.sym("torque", self.capstans)

    def _driven(self, c: ca.MX, c_rate: ca.MX, torque: ca.MX) -> ca.MX:
        """J_qc^T (torque - friction), johnston (38), (41)."""
        lost = self.friction.symbolic(c, c_rate, torque, ca.DM(self.friction.coefficients))
        return ca.mtimes(ca.DM(self.capstan_jacobian.T), torque - lost)

    def _observation(self) -> ca.Function:
        c, c_rate, torque = self._symbols()
        c_acceleration = ca.MX.sym("c_acceleration", self.size)
        driven = self._driven(c, c_rate, torque)
        damped = ca.mtimes(ca.DM(self.model.damping), c_rate)
        known = self.model.lagrangian_gradient(c, c_rate) - damped + driven
        deviation = self.model.inverse_dynamics(c, c_rate, c_acceleration) - driven  # johnston (70)
        values = [self.model.momentum(c, c_rate), known, deviation]
        return ca.Function("observation", [c, c_rate, c_acceleration, torque], values)

    def _loaded_motion(self) -> ca.Function:
        """(x, loads) -> x' for x = (c, c_rate, t); loads: arc length, torque and wrench at t = 0, and their slopes."""
        c, c_rate, _ = self._symbols()
        t, k = ca.MX.sym("t"), self.capstans
        loads = ca.MX.sym("loads", 1 + 2 * k + 12)
        torque = loads[1 : 1 + k] + t * loads[1 + k : 1 + 2 * k]
        wrench = loads[1 + 2 * k : 7 + 2 * k] + t * loads[7 + 2 * k :]
        force = ca.mtimes(self.model.body_jacobian(c, loads[0]).T, wrench)
        second = self.model.acceleration(c, c_rate, self._driven(c, c_rate, torque) + force)
        return ca.Function(
            "loaded", [ca.vertcat(c, c_rate, t), loads], [ca.vertcat(c_rate, second, 1)], ["x", "u"], ["d"]
        )

    def _driven_motion(self) -> tuple[ca.Function, ca.Function]:
        """(x, reference, stop) -> x', and -> (torque, wrench at the stop in the frame of the backbone)."""
        c, c_rate, _ = self._symbols()
        t, k = ca.MX.sym("t"), self.capstans
        reference, stop = ca.MX.sym("reference", 3 * k), ca.MX.sym("stop", 9)
        start, speed, ramp = (reference[i * k : (i + 1) * k] for i in range(3))
        J = ca.DM(self.capstan_jacobian)
        desired, desired_speed = start + t * speed + t**2 / 2 * ramp, speed + t * ramp
        torque = servo_torque(self.robot, desired - ca.mtimes(J, c), desired_speed - ca.mtimes(J, c_rate), ramp)
        pose, jacobian = self.model.pose(c, stop[0]), self.model.body_jacobian(c, stop[0])
        rotation, place = pose[:3, :3], pose[:3, 3]
        direction, arm = stop[1:4], stop[4] * stop[1:4]
        twist = ca.mtimes(jacobian, c_rate)
        speed_there = ca.mtimes(rotation, twist[:3] + ca.cross(twist[3:], arm))
        gap = stop[5] - ca.dot(direction, place + ca.mtimes(rotation, arm))
        side = ca.vertcat(-direction[1], direction[0], 0)
        upright = ca.vertcat(0, 0, 1)
        slip = ca.vertcat(ca.dot(side, speed_there), speed_there[2])
        normal, rubbing = contact_force(gap, -ca.dot(direction, speed_there), slip, (stop[6], stop[7], stop[8]))
        force = ca.mtimes(rotation.T, -normal * direction + rubbing[0] * side + rubbing[1] * upright)
        wrench = ca.vertcat(force, ca.cross(arm, force))
        load = self._driven(c, c_rate, torque) + ca.mtimes(jacobian.T, wrench)
        second = self.model.acceleration(c, c_rate, load)
        x = ca.vertcat(c, c_rate, t)
        inputs = [x, reference, stop]
        names = ["x", "reference", "stop"]
        motion = ca.Function("driven", inputs, [ca.vertcat(c_rate, second, 1)], names, ["d"])
        return motion, ca.Function("driven_loads", inputs, [torque, wrench], names, ["torque", "wrench"])

    def _made(self, name: str) -> Callable[..., Array]:
        if name not in self._steps:
            if name == "loaded":
                motion = self._loaded_motion()
                functions = [motion, rk4_step(motion, substeps=1, name="loaded_step")]
            else:
                motion, loads = self._driven_motion()
                functions = [rk4_step(motion, substeps=2, name="driven_step"), loads]
            made = compile_functions(functions, f"the motion ({name}) of {self.robot.name}", progress=self._progress)
            self._steps |= made
        return self._steps[name]

    # --- numeric

    def observe(self, c: Array, c_rate: Array, c_acceleration: Array, torque: Array) -> Observation:
        """Terms of the observers at a measured state; arrays (n,), (n,), (n,), (capstans,).

        Parameters
        ----------
        torque : of the capstans, shape (capstans,), N.m
        """
        momentum, known, deviation = self._observe(c, c_rate, c_acceleration, torque)
        return Observation(momentum.ravel(), known.ravel(), deviation.ravel())

    def jacobian(self, c: Array, s_m: float) -> Array:
        """Body Jacobian at an arc length (m), (6, n)."""
        return np.asarray(self._jacobian(c, s_m))

    def pose(self, c: Array, s_m: float) -> Array:
        """Frame of the backbone at an arc length (m) in the base frame, (4, 4)."""
        return np.asarray(self._pose(c, s_m))

    def terms(self) -> Terms:
        """The model with its derivatives, for the disturbance observer; derived and compiled at the first call."""
        return Terms(
            self.contact_functions,
            FrictionTerms(self.friction, progress=self._progress),
            self.friction.wires_of_torque,
            self.capstan_jacobian,
        )

    @property
    def contact_functions(self) -> ContactFunctions:
        """Momentum, forces, derivatives and Jacobians in one call; made at the first use."""
        if self._terms is None:
            self._terms = ContactFunctions(self.model)
        return self._terms

    def ramped(self, torque: Array, wrench: Array, ramp_s: float, duration_s: float, rate_hz: float) -> Loaded:
        """Motion from rest and straight under a torque and a tip wrench that grow for ``ramp_s`` and are then held.

        Parameters
        ----------
        torque : on the capstans, (capstans,), N.m
        wrench : force (N) and moment (N.m) at the tip in its own frame, (6,)
        ramp_s, duration_s : s
        rate_hz : of the integration and of the samples
        """
        self._made("loaded")
        step, motion, h, n = self._steps["loaded_step"], self._steps["loaded"], 1 / rate_hz, self.size
        x = np.zeros(2 * n + 1)
        times = np.asarray(np.arange(round(duration_s * rate_hz) + 1) * h, dtype=np.float64)
        states = np.zeros((len(times), 3 * n))
        tip_m = self.robot.length_m
        load = np.concatenate([torque, wrench])
        for index, time_s in enumerate(times):
            rising = time_s < ramp_s - h / 2
            fraction, slope = (time_s / ramp_s, 1 / ramp_s) if rising else (1.0, 0.0)
            loads = _loads(tip_m, fraction * load, slope * load, self.capstans)
            x[-1] = 0.0
            states[index, : 2 * n] = x[: 2 * n]
            states[index, 2 * n :] = motion(x, loads).ravel()[n : 2 * n]
            x = step(x, loads, h).ravel().copy()
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
        load = np.concatenate([torque, wrench]) * time_s / ramp_s
        loads = _loads(self.robot.length_m, load, 0 * load, self.capstans)
        return self._made("loaded")(np.append(x, 0.0), loads).ravel()[: 2 * self.size]

    def drive(self, x: Array, reference: Array, stop: Array, duration_s: float) -> Array:
        """(c, c_rate, 0) after a step of the driven robot; reference: angle, speed, acceleration of the capstans.

        Parameters
        ----------
        x : (c, c_rate, 0), shape (2 n + 1,), 1/m and 1/(m.s)
        reference : angle (rad), speed (rad/s), acceleration (rad/s^2) of the capstans, shape (3 capstans,)
        stop : as :class:`Stop` gives it, shape (9,)
        """
        self._made("driven_step")
        after = self._steps["driven_step"](x, reference, stop, duration_s).ravel().copy()
        after[-1] = 0.0
        return after

    def drive_loads(self, x: Array, reference: Array, stop: Array) -> tuple[Array, Array]:
        """Torque of the capstans (N.m), and what the stop does to the robot: wrench in the frame of the backbone.

        Parameters
        ----------
        x : (c, c_rate, 0), shape (2 n + 1,), 1/m and 1/(m.s)
        reference : angle (rad), speed (rad/s), acceleration (rad/s^2) of the capstans, shape (3 capstans,)
        stop : as :class:`Stop` gives it, shape (9,)
        """
        self._made("driven_step")
        torque, wrench = self._steps["driven_loads"](x, reference, stop)
        return torque.ravel(), wrench.ravel()


@dataclass(frozen=True, slots=True)
class Terms:
    """The model as the disturbance observer asks for it.

    Attributes
    ----------
    functions : of the rod
    friction : of the tendons in the disks
    wires : tensions of the wires for a torque of the capstans
    capstan_jacobian : J_qc, shape (capstans, n), rad per (1/m)
    """

    functions: ContactFunctions
    friction: FrictionTerms
    wires: Callable[[Array], Array]
    capstan_jacobian: Array

    def at(self, c: Array, c_rate: Array, torque: Array) -> StateTerms:
        """Everything at a state (n,), (n,) under a torque of the capstans.

        Parameters
        ----------
        torque : of the capstans, shape (capstans,), N.m
        """
        lost, lost_by_c, lost_by_rate = self.friction(c, c_rate, self.wires(torque))
        driven = self.capstan_jacobian.T @ torque
        return StateTerms(self.functions(c, c_rate), driven - lost.ravel(), -lost_by_c, -lost_by_rate)


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


def _loads(s_m: float, start: Array, slope: Array, capstans: int) -> Array:
    return np.concatenate([[s_m], start[:capstans], slope[:capstans], start[capstans:], slope[capstans:]])


def servo_torque(robot: Robot, angle_error: Any, speed_error: Any, ramp: Any) -> Any:
    """Torque of the capstans' position servo, (capstans,), N.m, for CasADi expressions and arrays.

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
