# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics on the Clarke manifold with PD, and a disturbance observer that feeds forward what is left.

muhmann (25) in Clarke coordinates q, with the motors' rotors moving along, c = S q and generalised forces u = S^T f:

    u = S^T f(S q_r, S q_r', S q_r'') + d_m q_r' + friction(q_r, q_r') + p e + d e' - r

The residual r is that of the momentum observer of johnston (43) to (47), of the force that the measured tensions make:
what tensions were limited to, by whomever, is what the observer sees, so nothing winds up. It takes the place of the
integral. The observer's form with the tensions as inputs is derived here. Stepped code.
"""

from __future__ import annotations

import dataclasses

import cython
import numpy as np
from cython.cimports.libc.math import exp, isfinite
from numpy.typing import NDArray

from continuum_robot.control.controller import MeasuredTendons
from continuum_robot.control.cycle_controller import CycleController
from continuum_robot.control.friction_force import FrictionForce
from continuum_robot.control.pid_parameters import PidParameters, PidTerms
from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.control_settings import INVERSE_DYNAMICS_LAW, ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import DRIVEN
from continuum_robot.rod.holding_force import under_pretension
from continuum_robot.rod.kernel.call import KernelCall
from continuum_robot.rod.payload import Payload
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke
from continuum_robot.stepped.buffers import copy_into, indices, integers, matrix, stepped, vector
from continuum_robot.stepped.products import multiply, multiply_transposed

Vector = NDArray[np.float64]

OFFSET_FADE_S = cython.declare(cython.double, 0.5)
"""With which a start that the model does not explain goes away, s."""


@cython.cclass
class InverseDynamicsController(CycleController):
    """Model and PD on the Clarke coordinates, and the observer of what the model leaves.

    Parameters
    ----------
    robot : a rod with ``control`` settings; with ``actuators`` their inertia and friction are fed forward too

    Attributes
    ----------
    needs_python : whether the kernel has no library, so that only the interpreted form can step it
    residual : estimated disturbance of the last step, N

    Raises
    ------
    ParameterError : a robot that is no rod, or has no control settings
    """

    residual = cython.declare(cython.double[::1], visibility="readonly")
    coefficient_count: cython.int
    observer_rate_per_s: cython.double
    # Gains and bounds of each coordinate
    p: cython.double[::1]
    d: cython.double[::1]
    force_min: cython.double[::1]
    force_max: cython.double[::1]
    # The model, and coefficients of coordinates
    shape: cython.double[::1]
    asked: KernelCall
    moved: KernelCall
    # What resists the motion that the reference asks for, and the one that was measured
    asked_friction: FrictionForce
    moved_friction: FrictionForce
    # State
    observing: cython.bint  # whether the momentum is that of the state before
    momentum: cython.double[::1]
    start_offset: cython.double[::1]
    # Of the last step
    error: cython.double[::1]
    p_term: cython.double[::1]
    d_term: cython.double[::1]
    model_force: cython.double[::1]
    bounded: cython.double[::1]
    saturated: cython.int[::1]
    # Scratch memory
    momentum_now: cython.double[::1]
    balance: cython.double[::1]
    pulled: cython.double[::1]
    on_tendons: cython.double[::1]

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        rod = under_pretension(robot, Rod(robot, paths=(), parts=DRIVEN))
        self.asked, self.moved = KernelCall(rod, "bias"), KernelCall(rod, "momentum", "force")
        self.needs_python, self.payload = not self.asked.native, Payload(rod)
        shape = coefficients_from_clarke(robot)
        self.coefficient_count = len(shape)
        self.shape = matrix(shape.tolist())
        self.asked_friction, self.moved_friction = FrictionForce(robot), FrictionForce(robot)
        size = self.coordinate_count
        self.residual, self.momentum, self.start_offset = vector(size), vector(size), vector(size)
        self.error, self.p_term, self.d_term = vector(size), vector(size), vector(size)
        self.model_force, self.bounded, self.saturated = vector(size), vector(size), integers(size)
        self.momentum_now, self.balance = vector(size), vector(size)
        self.pulled, self.on_tendons = vector(size), vector(self.tendon_count)
        self.observing = False
        self.set_settings(robot.control_settings)

    def _take_settings(self, settings: ControlSettings) -> None:
        gains = PidParameters.from_gains(settings.gains, self._per_entry)
        CycleController._take_settings(self, settings)
        self.p, self.d = vector(gains.p.tolist()), vector(gains.d.tolist())
        self.force_min, self.force_max = vector(gains.u_clamp_min.tolist()), vector(gains.u_clamp_max.tolist())
        self.observer_rate_per_s = float(settings.inverse_dynamics.observer_rate_per_s)
        self.asked_friction.dry_fraction = self.moved_friction.dry_fraction = float(settings.inverse_dynamics.friction)

    def terms(self) -> PidTerms:
        """Of the force of the last step, as arrays of their own; the residual takes the place of the integral."""
        return PidTerms(
            np.array(self.error),
            np.array(self.p_term),
            np.array(self.start_offset) - np.array(self.residual),
            np.array(self.d_term),
            np.array(self.model_force),
            np.array(self.bounded),
            np.array(self.saturated, dtype=bool),
        )

    def reset(self, reading: MeasuredTendons, tension: Vector, reference: ClarkeReference) -> None:
        """Start so that the first update asks for about the given tensions; arguments as :meth:`Controller.reset`."""
        self.observe(vector(reading.displacement_m), vector(reading.velocity_m_per_s))
        position, velocity = vector(reference.position), vector(reference.velocity)
        self.begin(vector(tension), position, velocity, vector(reference.acceleration))

    def update(self, reading: MeasuredTendons, reference: ClarkeReference, dt: float) -> Vector:
        """Answer a state; arguments as :meth:`Controller.update`.

        Returns
        -------
        tensions, shape (N,), N
        """
        self.observe(vector(reading.displacement_m), vector(reading.velocity_m_per_s))
        position, velocity = vector(reference.position), vector(reference.velocity)
        self.step(position, velocity, vector(reference.acceleration), vector(reading.tension_n), True, dt)
        return np.array(self.command)

    @stepped
    def begin(
        self,
        tension: cython.double[::1],
        position: cython.double[::1],
        velocity: cython.double[::1],
        acceleration: cython.double[::1],
    ) -> cython.void:
        """As of the base class: ``tension`` in N, ``position``, ``velocity`` and ``acceleration`` in m, m/s, m/s^2."""
        j: cython.int
        k: cython.int
        for k in indices(self.coordinate_count):
            self.residual[k] = 0.0
        self.observing = True
        self.asked_friction.rest(position)
        self.moved_friction.rest(self.clarke)
        self.find_momentum()
        copy_into(self.momentum, self.momentum_now, self.coordinate_count)
        for j in indices(self.tendon_count):
            self.on_tendons[j] = tension[j] if isfinite(tension[j]) else 0.0
        self.gather(self.on_tendons, self.pulled)
        self.find_terms(position, velocity, acceleration)
        for k in indices(self.coordinate_count):
            self.start_offset[k] = self.pulled[k] - (self.model_force[k] + self.p_term[k] + self.d_term[k])

    @stepped
    def step(
        self,
        position: cython.double[::1],
        velocity: cython.double[::1],
        acceleration: cython.double[::1],
        measured_tension: cython.double[::1],
        rate_measured: cython.bint,
        dt: cython.double,
    ) -> cython.bint:
        """As of the base class: ``position``, ``velocity`` and ``acceleration`` (m, m/s, m/s^2), ``measured_tension``
        (N) for the observer, ``rate_measured``, ``dt`` (s).
        """
        k: cython.int
        known: cython.double = 0.0
        for k in indices(self.coordinate_count):
            known += self.clarke[k] + self.clarke_rate[k] + position[k] + velocity[k] + acceleration[k]
        if not rate_measured or not isfinite(known):
            self.rest()
            return False
        self.find_residual(measured_tension, dt)
        self.find_terms(position, velocity, acceleration)
        fade: cython.double = exp(-dt / OFFSET_FADE_S)
        for k in indices(self.coordinate_count):
            self.start_offset[k] *= fade
            force: cython.double = self.model_force[k] + self.p_term[k] + self.d_term[k]
            force += self.start_offset[k] - self.residual[k]
            self.saturated[k] = 0
            if force < self.force_min[k]:
                force = self.force_min[k]
                self.saturated[k] = 1
            if force > self.force_max[k]:
                force = self.force_max[k]
                self.saturated[k] = 1
            self.bounded[k] = force
        return self.pull(self.bounded, dt)

    @stepped
    def gather(self, tension: cython.double[::1], force: cython.double[::1]) -> cython.void:
        """Generalised ``force`` of the ``tension`` of all tendons, N."""
        multiply_transposed(self.displacement_matrix, tension, self.tendon_count, self.coordinate_count, force)

    @stepped
    def find_terms(
        self, position: cython.double[::1], velocity: cython.double[::1], acceleration: cython.double[::1]
    ) -> cython.void:
        """Force of the model for a reference at ``position``, ``velocity`` and ``acceleration`` (m, m/s, m/s^2), and of
        the PD.
        """
        k: cython.int
        coordinates: cython.int = self.coordinate_count
        multiply(self.shape, position, self.coefficient_count, coordinates, self.asked.c)
        multiply(self.shape, velocity, self.coefficient_count, coordinates, self.asked.rate)
        multiply(self.shape, acceleration, self.coefficient_count, coordinates, self.asked.acceleration)
        self.asked.call()
        multiply_transposed(self.shape, self.asked.bias, self.coefficient_count, coordinates, self.model_force)
        self.asked_friction.step(position, velocity)
        for k in indices(coordinates):
            self.model_force[k] += self.asked_friction.force[k]
            self.error[k] = position[k] - self.clarke[k]
            self.p_term[k] = self.p[k] * self.error[k]
            self.d_term[k] = self.d[k] * (velocity[k] - self.clarke_rate[k])

    @stepped
    def find_momentum(self) -> cython.void:
        """Momentum of rod and motors as measured (``momentum_now``, N.s), and its rate less the force of the tensions
        (``balance``, N).
        """
        k: cython.int
        coordinates: cython.int = self.coordinate_count
        multiply(self.shape, self.clarke, self.coefficient_count, coordinates, self.moved.c)
        multiply(self.shape, self.clarke_rate, self.coefficient_count, coordinates, self.moved.rate)
        self.moved.call()
        self.moved_friction.step(self.clarke, self.clarke_rate)
        multiply_transposed(self.shape, self.moved.momentum, self.coefficient_count, coordinates, self.momentum_now)
        multiply_transposed(self.shape, self.moved.force, self.coefficient_count, coordinates, self.balance)
        for k in indices(coordinates):
            self.balance[k] -= self.moved_friction.force[k]

    @stepped
    def find_residual(self, measured_tension: cython.double[::1], dt: cython.double) -> cython.void:
        """Residual of the momentum observer, johnston (47), for the ``measured_tension``, N, after ``dt``, s."""
        k: cython.int
        known: cython.double = 0.0
        gain: cython.double = self.observer_rate_per_s
        if gain == 0.0:
            for k in indices(self.coordinate_count):  # what it held fades away like a start
                self.start_offset[k] -= self.residual[k]
                self.residual[k] = 0.0
            self.observing = False
            return
        if not self.observing:
            self.moved_friction.rest(self.clarke)
        self.find_momentum()
        self.gather(measured_tension, self.pulled)
        for k in indices(self.coordinate_count):
            known += self.momentum_now[k] + self.balance[k]
        if not isfinite(known):
            return
        for k in indices(self.coordinate_count):
            known += self.pulled[k]
        if not self.observing or not isfinite(known):  # the momentum goes on, and the residual stays
            copy_into(self.momentum, self.momentum_now, self.coordinate_count)
            self.observing = True
            return
        for k in indices(self.coordinate_count):
            # Of the interval before, at whose end this state is: implicit in r, so that any gain and step are stable.
            expected: cython.double = self.momentum[k] + dt * (self.pulled[k] + self.balance[k])
            self.residual[k] = (self.residual[k] + gain * (self.momentum_now[k] - expected)) / (1.0 + gain * dt)
            self.momentum[k] = self.momentum_now[k]


def under_inverse_dynamics(robot: Robot, **settings: float) -> Robot:
    """The robot under this law."""
    own = dataclasses.replace(robot.control_settings.inverse_dynamics, **settings)
    control = dataclasses.replace(robot.control_settings, law=INVERSE_DYNAMICS_LAW, inverse_dynamics=own)
    return robot.changed(control=control)
