# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics on the Clarke manifold with PD, and a disturbance observer that feeds forward what is left.

muhmann (25) in Clarke coordinates q, with the motors' rotors moving along, c = S q and generalised forces u = S^T f:

    u = S^T f(S q_r, S q_r', S q_r'') + M_m q_r'' + d_m q_r' + friction(q_r, q_r') + p e + d e' - r

The residual r is that of the momentum observer of johnston (43) to (47), of the force that the measured tensions make:
what tensions were limited to, by whomever, is what the observer sees, so nothing winds up. It takes the place of the
integral. The observer's form with the tensions as inputs is derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.controller import MeasuredTendons, checked_pretension
from continuum_robot.control.pid_parameters import PidParameters
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tendon_forces import TendonForces
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.code.generation import compile_functions
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.friction.resistance import Resistance
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.tendon_modes import coefficients_from_clarke, controlled_manifold
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]

_START_FADE_S = 0.5  # with which a start that the model does not explain goes away
_DRY_M_PER_S = 1e-3  # below this speed dry friction is rounded off


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseDynamicsSettings:
    """What is not in the robot file's ``control`` section, whose gains p and d, bounds and pretension hold."""

    observer_rate_per_s: float = quantity("bandwidth of the disturbance observer; 0: none", "1/s", default=25.0, ge=0)
    friction: float = quantity("fraction of the motors' dry friction fed forward", "", default=0.7, ge=0, le=1)


class InverseDynamicsController:
    """Model and PD on the Clarke coordinates; a :class:`~continuum_robot.control.controller.Controller`.

    Parameters
    ----------
    robot : a rod with ``control`` settings; with ``actuators`` their inertia and friction are fed forward too
    settings : of the observer and the friction
    compile, progress : as of :func:`~continuum_robot.rod.code.generation.compile_functions`

    Attributes
    ----------
    residual : estimated disturbance of the last update, shape (2m,), N

    Raises
    ------
    ParameterError : a robot that is no rod, or has no control settings
    """

    def __init__(
        self,
        robot: Robot,
        settings: InverseDynamicsSettings | None = None,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if robot.control is None:
            raise ParameterError("robot.control", None, f"control settings in the file of robot {robot.name!r}")
        self._settings = settings or InverseDynamicsSettings()
        self._size = robot.coordinate_count
        self._per_entry = self._size // len(robot.part_names)
        self._manifold = controlled_manifold(robot)
        self._forces = TendonForces(self._manifold, robot.control.tendon_forces, robot.control.pretension_n)
        self.set_settings(robot.control)
        model = RodModel(robot)
        functions = [model.inverse_dynamics, model.momentum_balance]
        made = compile_functions(functions, f"inverse dynamics of {robot.name}", compile=compile, progress=progress)
        self._rod_force, self._rod_momentum = made["inverse_dynamics"], made["momentum_balance"]
        self._shape = coefficients_from_clarke(robot)
        pull = np.asarray(self._manifold.displacement_matrix)
        size = self._size
        self._pull, self._mass, self._viscous, self._dry_n = pull, np.zeros((size, size)), np.zeros((size, size)), 0.0
        actuators = robot.actuators
        if actuators is not None:
            if not drives(robot):  # capstans have their inertia in the model of the rod
                self._mass = actuators.reflected_mass_kg * pull.T @ pull
            self._viscous = actuators.viscous_ns_per_m * pull.T @ pull
            if not actuators.friction_travel_m:
                self._dry_n = self._settings.friction * actuators.coulomb_n
        # Of the motion that the reference asks for, and of the one that was measured.
        self._asked, self._moved = (Resistance(robot, motor_fraction=self._settings.friction) for _ in range(2))
        self.residual = np.zeros(size)
        self._momentum = self._offset = self.residual

    def set_settings(self, settings: ControlSettings) -> None:
        """Go on with other gains, bounds and pretension.

        Parameters
        ----------
        settings : with one entry of gains a segment

        Raises
        ------
        ParameterError : another number of entries
        """
        entries = len(settings.gains) * self._per_entry
        if entries != self._size:
            raise ParameterError("control.gains", len(settings.gains), f"{self._size // self._per_entry} entries")
        self._forces.set(settings.tendon_forces, self._forces.pretension_n)
        self._gains = PidParameters.from_gains(settings.gains, self._per_entry)
        self._rate_n_per_s, self._asked_n = settings.pretension_rate_n_per_s, settings.pretension_n

    def ask_pretension(self, pretension_n: float) -> None:
        """Go to another pretension at the settings' rate, in the null space of the tensions.

        Parameters
        ----------
        pretension_n : least tension that is left on every tendon, N

        Raises
        ------
        ParameterError : negative or not finite
        """
        self._asked_n = checked_pretension(pretension_n)

    @property
    def pretension(self) -> float:
        """Least tension that is left on every tendon now, N."""
        return float(self._forces.pretension_n)

    def reset(self, reading: MeasuredTendons, tension: Vector, reference: ClarkeReference) -> None:
        """Start so that the first update asks for about the given tensions; arguments as :meth:`Controller.reset`."""
        clarke, rate = self._measured(reading)
        self.residual = np.zeros(len(clarke))
        self._asked.reset(self._shape @ reference.position, self._pull @ reference.position)
        self._moved.reset(self._shape @ clarke, self._pull @ clarke)
        self._momentum = self._moving(clarke, rate)[0]
        pulled = np.where(np.isfinite(tension), tension, 0.0)
        self._offset = self._pull.T @ pulled - self._desired(clarke, rate, reference)

    def update(self, reading: MeasuredTendons, reference: ClarkeReference, dt: float) -> Vector:
        """Answer a state; arguments as :meth:`Controller.update`.

        Returns
        -------
        tensions, shape (N,), N
        """
        clarke, rate = self._measured(reading)
        self._observe(clarke, rate, reading.tension_n, dt)
        self._offset = math.exp(-dt / _START_FADE_S) * self._offset
        force = self._desired(clarke, rate, reference) + self._offset - self.residual
        force = np.minimum(np.maximum(force, self._gains.u_clamp_min), self._gains.u_clamp_max)
        self._forces.approach(self._asked_n, self._rate_n_per_s * dt)
        self._forces.step(vector(force))
        return np.array(self._forces.tension)

    def _measured(self, reading: MeasuredTendons) -> tuple[Vector, Vector]:
        """Clarke coordinates (m) and their rates (m/s), muhmann (2)."""
        return self._manifold.clarke(reading.displacement_m), self._manifold.clarke(reading.velocity_m_per_s)

    def _desired(self, clarke: Vector, rate: Vector, reference: ClarkeReference) -> Vector:
        """Force of model and PD, (2m,), N."""
        shape = self._shape
        c = shape @ reference.position
        rod = self._rod_force(c, shape @ reference.velocity, shape @ reference.acceleration).reshape(-1)
        rod = rod + self._asked.move(c, self._pull @ reference.position)
        motors = self._mass @ reference.acceleration + self._viscous_and_dry(reference.velocity)
        error, error_rate = reference.position - clarke, reference.velocity - rate
        return np.asarray(shape.T @ rod + motors + self._gains.p * error + self._gains.d * error_rate)

    def _viscous_and_dry(self, rate: Vector) -> Vector:
        """Friction of the motors at rates of the coordinates, but for what its past says, (2m,), N."""
        return self._viscous @ rate + self._dry_n * (self._pull.T @ np.tanh(self._pull @ rate / _DRY_M_PER_S))

    def _moving(self, clarke: Vector, rate: Vector) -> tuple[Vector, Vector]:
        """Momentum of rod and motors, (2m,), N.s, and its rate less the force of the tensions, N."""
        c = self._shape @ clarke
        momentum, balance = self._rod_momentum(c, self._shape @ rate)
        resisting = self._moved.move(c, self._pull @ clarke)
        return (
            self._shape.T @ momentum.reshape(-1) + self._mass @ rate,
            self._shape.T @ (balance.reshape(-1) - resisting) - self._viscous_and_dry(rate),
        )

    def _observe(self, clarke: Vector, rate: Vector, tension: Vector, dt: float) -> None:
        """Residual of the momentum observer, johnston (47), for the tensions that were measured."""
        gain = self._settings.observer_rate_per_s
        pulled = self._pull.T @ tension
        if not gain or not math.isfinite(float(pulled.sum())):
            return
        momentum, balance = self._moving(clarke, rate)
        # Of the interval before, at whose end this state is: implicit in r, so that any gain and step are stable.
        expected = self._momentum + dt * (pulled + balance)
        self.residual = (self.residual + gain * (momentum - expected)) / (1 + gain * dt)
        self._momentum = momentum
