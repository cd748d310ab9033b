# SPDX-License-Identifier: Apache-2.0
"""A simulated rod in explicit compiled steps: one that only bends, with parallel tendons, which is not stiff."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.friction.capstans import drives, tension_from_torque
from continuum_robot.rod.friction.tendons import TendonFriction
from continuum_robot.rod.integration import rk4_step
from continuum_robot.rod.strain.statics import equilibrium
from continuum_robot.simulation.bodies.plant_body import Drive, diverged
from continuum_robot.simulation.bodies.rod_body import RodBody
from continuum_robot.simulation.motors import tendon_tension

Vector = NDArray[np.float64]

BLOCK_S = 1e-3
# The Runge-Kutta method of order 4 is stable to 2.78 on the real and 2.82 on the imaginary axis. Up to the first
# product of rate and step it is accurate enough to leave fast modes where they are; up to the second one that only
# decays still does, to a third in a step.
STABLE_PRODUCT, DECAYING_PRODUCT = 1.5, 2.0


class ExplicitBody(RodBody):
    """Rod, tendons and motors in equal steps of the classical Runge-Kutta method; capstans with their friction.

    Parameters
    ----------
    robot, motor, contacts, progress, compile : as of :class:`RodBody`; displacements are linear in the coefficients

    Attributes
    ----------
    substep_s : the robot file's, or a fraction of it where that would be unstable, s
    derivative : (y, parameters) -> y'; y is c, c_rate and with motors spooled length, speed, current; parameters are
        input (N), generalised force (n), offset, stiffness fraction, free (N), those of the contacts, and anchors of
        the motors' dry friction
    """

    def _make(self) -> None:
        robot, contacts = self._robot, self._contacts
        self._friction = TendonFriction(robot, compile="never")
        self._jacobian = self._rod.displacement_jacobian(np.zeros(self._size))  # parallel tendons: constant
        self._untouched = np.zeros(contacts.size)
        self._anchors = 0 if self._motor is None else self._motor.anchor_count(self._tendons)
        self.derivative = self._derivative()
        self.substep_s = self._stable_substep()
        self._block = max(1, round(BLOCK_S / self.substep_s))
        single = rk4_step(self.derivative, name="plant_step")
        made = [single, _repeated(single, self._block, "plant_block")]
        functions = compile_functions(
            made, f"the plant of {robot.name}", compile=self._compile, progress=self._progress
        )
        self._single: FastFunction = functions["plant_step"]
        self._many: FastFunction = functions["plant_block"]

    @property
    def compiled(self) -> bool:
        """Whether it runs as machine code."""
        return self._many.compiled

    @cached_property
    def rest(self) -> Vector:
        """As of :class:`RodBody`; straight where gravity allows it."""
        straight = np.zeros(self._size)
        if np.abs(np.array(self._model.gravity_force(straight))).max() < 1e-12:
            return straight
        return equilibrium(self._rod, settle=False).c

    def reset(self, c: Vector) -> None:
        """As of :class:`RodBody`."""
        parts = [c, np.zeros(self._size)]
        if self._motor is not None:
            parts += [self._jacobian @ c, np.zeros(2 * self._tendons)]
        self._y = np.concatenate(parts)
        self._hysteresis.reset(c)
        self._slip = None if self._motor is None else self._motor.slip(self.spools[0])

    def advance(self, drive: Drive, duration_s: float) -> None:
        """As of :class:`RodBody`."""
        steps = max(1, math.ceil(duration_s / self.substep_s * (1 - 1e-9)))
        h = duration_s / steps
        desired, force, *fixed, time_s, contacts_from_s = drive
        touching, anchors, spooled = self._untouched, np.zeros(0), slice(2 * self._size, 2 * self._size + self._tendons)
        parameters = np.concatenate((desired, force, *fixed, touching, anchors))
        y, done = self._y, 0
        changes = bool(self._contacts.size or self._hysteresis.acts or self._slip is not None)
        while done < steps:
            if changes:
                pushed = force - self._hysteresis.move(y[: self._size])
                if self._contacts.size:
                    touching, push = self._touching(y, time_s + done * h - contacts_from_s)
                    pushed = pushed + push
                if self._slip is not None:
                    self._slip.move(y[spooled])
                    anchors = self._slip.anchors.reshape(-1)
                parameters = np.concatenate((desired, pushed, *fixed, touching, anchors))
            if steps - done >= self._block:
                y, done = self._many(y, parameters, h), done + self._block
                continue
            for _ in range(steps - done):
                y = self._single(y, parameters, h)
            done = steps
        if not math.isfinite(y.sum()):
            remedy = f"reduce simulation.substep_s (now {self.substep_s:g} s), or the gains"
            raise diverged(self._robot, time_s, remedy)
        self._y = y

    def _touching(self, y: Vector, time_s: float) -> tuple[Vector, Vector]:
        """Parameters of the contacts for the next block of steps, and the generalised force of pushes."""
        if not math.isfinite(y.sum()):  # an error after the last step
            return np.zeros(self._contacts.size), np.zeros(self._size)
        c, c_rate = y[: self._size].copy(), y[self._size : 2 * self._size]
        return self._contacts.parameters(self.kinematics, c, c_rate, time_s)

    @property
    def c(self) -> Vector:
        """Strain coefficients, shape (n,), 1/m."""
        return self._y[: self._size].copy()

    @property
    def c_rate(self) -> Vector:
        """Their rates, shape (n,), 1/(m.s)."""
        return self._y[self._size : 2 * self._size].copy()

    @property
    def spools(self) -> Vector:
        """Tendon on each spool (m), its rate (m/s) and the motor's current (A), shape (3, N); with motors."""
        return self._y[2 * self._size :].reshape(3, self._tendons).copy()

    def tension(self, drive: Drive) -> Vector:
        """As of :class:`RodBody`."""
        if self._motor is None:
            return drive.desired.copy()
        spooled, speed, _ = self.spools
        stretch, rate = spooled - self.rod_displacement, speed - self.rod_velocity
        value = tendon_tension(self._robot.simulation, stretch, rate, drive.offset_m, drive.stiffness_fraction)
        return np.asarray(value)

    def friction_torque(self, tension_n: Vector, velocity: Vector) -> Vector:
        """As of :class:`RodBody`; johnston (37)."""
        if not self._friction.capstan_count:
            return np.zeros(0)
        speed = _speed_of_capstans(self._robot) @ velocity
        value = self._friction.resistance(self.c, speed, tension_n, self._friction.coefficients)
        return np.array(value, dtype=float).reshape(-1)

    # --- making it

    def _derivative(self) -> ca.Function:
        n, N = self._size, self._tendons
        y = ca.MX.sym("y", 2 * n + (3 * N if self._motor is not None else 0))
        own = n + 4 * N
        touched = own + self._contacts.size
        parameters = ca.MX.sym("parameters", touched + self._anchors)
        desired, force, offset, fraction, free = ca.vertsplit(
            parameters[:own], [0, N, N + n, 2 * N + n, 3 * N + n, 4 * N + n]
        )
        c, rate = y[:n], y[n : 2 * n]
        if self._contacts.size:
            force = force + self._contacts.expression(c, rate, parameters[own:touched])
        to_force = ca.MX(ca.DM(self._jacobian.T))
        acceleration = self._model.acceleration
        if self._motor is None:
            tension = fraction * ca.fmax(desired, 0)
            if self._friction.capstan_count:
                resisting = self._resisting(c, ca.DM(self._friction.jacobian) @ rate, tension)
                force = force - ca.DM(self._friction.jacobian.T) @ resisting  # johnston (38), (41)
            change = [rate, acceleration(c, rate, to_force @ tension + force)]
        else:
            position, speed, current = y[2 * n : 2 * n + N], y[2 * n + N : 2 * n + 2 * N], y[2 * n + 2 * N :]
            stretch = position - ca.DM(self._jacobian) @ c
            stretch_rate = speed - ca.DM(self._jacobian) @ rate
            tension = tendon_tension(self._robot.simulation, stretch, stretch_rate, offset, fraction)
            load: Any = tension
            if self._friction.capstan_count:
                resisting = self._resisting(c, ca.DM(_speed_of_capstans(self._robot)) @ speed, tension)
                load = tension + ca.DM(tension_from_torque(self._robot)) @ resisting  # half on each of the pair
            change = [
                rate,
                acceleration(c, rate, to_force @ tension + force),
                free * speed,
                free * self._motor.acceleration(position, speed, current, load, parameters[touched:])
                - (1 - free) * speed / BLOCK_S,
                (desired - current) / self._motor.current_time_constant_s,
            ]
        return ca.Function("plant_derivative", [y, parameters], [ca.vertcat(*change)], ["y", "parameters"], ["change"])

    def _resisting(self, c: Any, capstan_speed: Any, tension: Any) -> Any:
        """Friction torque on the capstans, expression; johnston (37)."""
        return self._friction.resistance(c, capstan_speed, tension, ca.DM(self._friction.coefficients))

    def _stable_substep(self) -> float:
        """The robot file's substep, or the largest whole fraction of it that the fastest mode allows."""
        desired, progress = self._robot.simulation.substep_s, self._progress
        jacobian, _ = self.linearised()
        modes = np.linalg.eigvals(jacobian)  # 1/s
        fastest = float(np.abs(modes).max())
        decays = (modes.real < 0) & (np.abs(modes.imag) < 1e-3 * np.abs(modes.real))
        products = np.where(decays, DECAYING_PRODUCT, STABLE_PRODUCT)
        parts = max(1, math.ceil(desired * float((np.abs(modes) / products).max())))
        if parts > 1 and progress is not None:
            progress(
                f"the plant of {self._robot.name} takes steps of {desired / parts:.3g} s instead of"
                f" simulation.substep_s = {desired:g} s: its fastest mode has {fastest:.4g} 1/s;"
                " simulation.time_steps: implicit may be faster"
            )
        return desired / parts

    def linearised(self) -> tuple[Vector, Vector]:
        """Jacobians of the derivative by the state y and by the parameters, in SI units, (n_y, n_y) and (n_y, n_p).

        At rest with all tendons tight, where springs and dampers act; moved to the steepest cogging.
        """
        n, N = self._size, self._tendons
        parameters = np.concatenate([np.zeros(N + n + N), np.ones(2 * N), self._untouched])
        state = np.concatenate([self.rest, np.zeros(n)])
        if self._motor is not None:
            spooled = self._jacobian @ self.rest + 1e-3
            state = np.concatenate([state, spooled, np.zeros(2 * N)])
            parameters = np.concatenate([parameters, np.tile(spooled, self._anchors // N)])
        # One direction at a time: the function of all at once takes longer to make than all else of the plant.
        along, value = self.derivative.forward(1), self.derivative(state, parameters)
        directions = np.eye(state.size + parameters.size)
        columns = [along(state, parameters, value, d[: state.size], d[state.size :]) for d in directions]
        jacobian = np.array(ca.horzcat(*columns), dtype=float)
        return jacobian[:, : state.size], jacobian[:, state.size :]


def _speed_of_capstans(robot: Robot) -> Vector:
    """Matrix from the speeds of all tendons (m/s) to those of the capstans (rad/s), shape (capstans, N).

    Half of the difference of both tendons, so that a stretched pair counts as it winds.
    """
    matrix = np.zeros((len(drives(robot)), robot.tendon_count))
    for row, drive in zip(matrix, drives(robot), strict=True):
        row[drive.pulled], row[drive.released] = 0.5 / drive.path_per_radian_m, -0.5 / drive.path_per_radian_m
    return matrix


def _repeated(step: ca.Function, count: int, name: str) -> ca.Function:
    """The step ``count`` times with the same parameters; calls, not copies of the code."""
    y, parameters, h = (ca.MX.sym(step.name_in(i), step.size1_in(i)) for i in range(3))
    value: Any = y
    for _ in range(count):
        value = step(value, parameters, h)
    return ca.Function(name, [y, parameters, h], [value], ["y", "p", "h"], ["next"])
