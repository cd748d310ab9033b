# SPDX-License-Identifier: Apache-2.0
"""Motors with a spool, seen from the tendon: their numbers, and expressions of them for CasADi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import Actuators
from continuum_robot.rod.friction.maxwell_slip import ELEMENTS, MaxwellSlip, motor_slip, slip_force

# Below this tendon speed dry friction fades out, so that it has a derivative; a motor at rest creeps accordingly.
FRICTION_SPEED_M_PER_S = 5e-4
_AT_REST_M_PER_S = 1e-9
# Of the speed that :meth:`MotorModel.drag` depends on: without them friction acts as mass.
_FRICTION_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class MotorModel:
    """A motor's dynamics seen from the tendon: position and speed of the tendon on the spool, force on the tendon.

    Attributes
    ----------
    newton_per_ampere : force for a current, N/A
    mass_kg : rotor inertia that moves with the tendon, kg
    viscous_ns_per_m, coulomb_n, cogging_n : friction and cogging as forces on the tendon
    friction_travel_m : over which dry friction builds up; 0: at once, but for a creep
    cogging_rad_per_m : phase of the cogging for a spooled length, rad/m
    current_time_constant_s : lag of the current loop, s
    cogging_phase_rad : of each tendon, shape (N,), rad
    """

    newton_per_ampere: float
    mass_kg: float
    viscous_ns_per_m: float
    coulomb_n: float
    friction_travel_m: float
    cogging_n: float
    cogging_rad_per_m: float
    current_time_constant_s: float
    cogging_phase_rad: NDArray[np.float64]

    @classmethod
    def from_actuators(cls, actuators: Actuators, tendon_count: int, rng: np.random.Generator) -> MotorModel:
        """The model of a robot's actuators; the generator draws the rotors' angles at the straight configuration.

        Parameters
        ----------
        tendon_count : number of motors
        """
        return cls(
            newton_per_ampere=actuators.newton_per_ampere,
            mass_kg=actuators.reflected_mass_kg,
            viscous_ns_per_m=actuators.viscous_ns_per_m,
            coulomb_n=actuators.coulomb_n,
            friction_travel_m=actuators.friction_travel_m,
            cogging_n=actuators.cogging_n,
            cogging_rad_per_m=actuators.cogging_periods_per_turn * actuators.motor_rad_per_m,
            current_time_constant_s=actuators.current_time_constant_s,
            cogging_phase_rad=rng.uniform(0, 2 * np.pi, tendon_count),
        )

    def anchor_count(self, tendon_count: int) -> int:
        """Number of values that :meth:`acceleration` takes as ``anchors``.

        Parameters
        ----------
        tendon_count : number of motors
        """
        return ELEMENTS * tendon_count if self.friction_travel_m > 0 else 0

    def slip(self, position: NDArray[np.float64]) -> MaxwellSlip | None:
        """The memory of the motors' dry friction, at rest; None where it builds up at once.

        Parameters
        ----------
        position : spooled lengths, shape (N,), m
        """
        return motor_slip(self.coulomb_n, self.friction_travel_m, position)

    @property
    def drags(self) -> bool:
        """Whether there is friction or cogging."""
        return bool(self.viscous_ns_per_m or self.coulomb_n or self.cogging_n)

    def dragged_rate(
        self,
        resisting: NDArray[np.float64],
        known: NDArray[np.float64],
        pull: NDArray[np.float64],
        position: NDArray[np.float64],
        rate: NDArray[np.float64],
        duration_s: float,
    ) -> NDArray[np.float64]:
        """Rates of coordinates that solve R rate = known with the motors' friction and cogging over a time, (M,).

        Parameters
        ----------
        resisting : R without them, shape (M, M)
        known : shape (M,)
        pull : displacements of the tendons for a unit of each coordinate, shape (N, M)
        position : spooled lengths, shape (N,), m
        rate : of the coordinates, where the search begins, shape (M,)
        duration_s : over which they resist, s
        """
        for _ in range(_FRICTION_ITERATIONS):
            damping, cogging = self.drag(position, pull @ rate)
            system = resisting + duration_s * pull.T @ (damping[:, None] * pull)
            rate = np.linalg.solve(system, known - duration_s * cogging @ pull)
        return rate

    def drag(self, position: NDArray[np.float64], speed: NDArray[np.float64]) -> tuple[Any, Any]:
        """Friction as damping at these speeds (N.s/m), and cogging (N): of motors without a memory, shape (N,) each.

        Parameters
        ----------
        position : spooled lengths, shape (N,), m
        speed : their rates, shape (N,), m/s
        """
        slow = np.maximum(np.abs(speed), _AT_REST_M_PER_S)
        damping = self.viscous_ns_per_m + self.coulomb_n * np.tanh(slow / FRICTION_SPEED_M_PER_S) / slow
        return damping, self.cogging_n * np.sin(self.cogging_rad_per_m * position + self.cogging_phase_rad)

    def acceleration(
        self, position: Any, speed: Any, current: Any, tension: Any, anchors: Any, slid_to: Any | None = None
    ) -> Any:
        """Acceleration of the tendon on the spool, m/s^2.

        Parameters
        ----------
        position : spooled length, m, (N,) CasADi expression
        speed : its rate, m/s
        current : motor current, A
        tension : of the tendon, N
        anchors : of the dry friction's elements one after another, :attr:`MaxwellSlip.anchors`, m
        slid_to : spooled length at which dry friction acts; None: ``position``
        """
        if self.friction_travel_m > 0:
            at = position if slid_to is None else slid_to
            dry = slip_force(at, anchors, self.coulomb_n, self.friction_travel_m)
        else:
            dry = self.coulomb_n * ca.tanh(speed / FRICTION_SPEED_M_PER_S)
        friction = self.viscous_ns_per_m * speed + dry
        cogging = self.cogging_n * ca.sin(self.cogging_rad_per_m * position + ca.DM(self.cogging_phase_rad))
        return (self.newton_per_ampere * current - tension - friction - cogging) / self.mass_kg
