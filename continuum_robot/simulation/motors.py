# SPDX-License-Identifier: Apache-2.0
"""Motors with a spool, seen from the tendon: their numbers and laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import Actuators
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip, motor_slip, slip_force
from continuum_robot.simulation.servos import PositionLoop

Vector: TypeAlias = NDArray[np.float64]

# Below this tendon speed dry friction fades out, so that it has a derivative; a motor at rest creeps accordingly.
FRICTION_SPEED_M_PER_S = 5e-4
_AT_REST_M_PER_S = 1e-9
# Of the speed that :meth:`MotorModel.drag` depends on: without them friction acts as mass.
_FRICTION_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class MotorModel:
    """Motors' dynamics seen from the tendons: position and speed of a tendon on its spool, force on it.

    Attributes
    ----------
    newton_per_ampere : force for a current, (N,), N/A
    mass_kg : rotor inertia that moves with the tendon, (N,), kg
    viscous_ns_per_m, coulomb_n, cogging_n : friction and cogging as forces on the tendon, (N,)
    cogging_rad_per_m : phase of the cogging for a spooled length, (N,), rad/m
    cogging_phase_rad : (N,), rad
    friction_travel_m : over which dry friction builds up; 0: at once, but for a creep
    current_time_constant_s : lag of the current loop, s
    servo : the position loops, where they take displacements instead of currents
    """

    newton_per_ampere: Vector
    mass_kg: Vector
    viscous_ns_per_m: Vector
    coulomb_n: Vector
    cogging_n: Vector
    cogging_rad_per_m: Vector
    cogging_phase_rad: Vector
    friction_travel_m: float
    current_time_constant_s: float
    servo: PositionLoop | None = None

    @classmethod
    def from_actuators(
        cls,
        actuators: Actuators,
        tendon_count: int,
        rng: np.random.Generator,
        mounted: Callable[[Vector], Vector] = np.copy,
    ) -> MotorModel:
        """The model of a robot's actuators; the generator draws the rotors' angles at the straight configuration."""
        same = "newton_per_ampere", "viscous_ns_per_m", "coulomb_n", "cogging_n", "cogging_rad_per_m"
        return cls(
            **{key: mounted(actuators.each(key, tendon_count)) for key in same},
            mass_kg=mounted(actuators.each("reflected_mass_kg", tendon_count)),
            cogging_phase_rad=rng.uniform(0, 2 * np.pi, tendon_count),
            friction_travel_m=actuators.friction_travel_m,
            current_time_constant_s=actuators.current_time_constant_s,
            servo=None if actuators.servo is None else PositionLoop.of(actuators, tendon_count, mounted),
        )

    def first(self, count: int) -> MotorModel:
        """The first motors alone: of motors that share tendons there are fewer, all of one kind."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        arrays = {name: value[:count] for name, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays, servo=None if self.servo is None else self.servo.first(count))

    def slip(self, position: Vector) -> MaxwellSlip | None:
        """The memory of the motors' dry friction, at rest; None where it builds up at once."""
        return motor_slip(self.coulomb_n, self.friction_travel_m, position)

    @property
    def drags(self) -> bool:
        """Whether there is friction or cogging."""
        return bool((self.viscous_ns_per_m + self.coulomb_n + self.cogging_n).any())

    def dragged_rate(
        self,
        resisting: Vector,
        known: Vector,
        pull: Vector,
        position: Vector,
        rate: Vector,
        duration_s: float,
    ) -> Vector:
        """Rates of coordinates that solve R rate = known with the motors' friction and cogging over a time, (M,)."""
        for _ in range(_FRICTION_ITERATIONS):
            damping, cogging = self.drag(position, pull @ rate)
            system = resisting + duration_s * pull.T @ (damping[:, None] * pull)
            rate = np.linalg.solve(system, known - duration_s * cogging @ pull)
        return rate

    def drag(self, position: Vector, speed: Vector) -> tuple[Vector, Vector]:
        """Friction as damping at these speeds (N.s/m), and cogging (N): of motors without a memory, shape (N,) each."""
        slow = np.maximum(np.abs(speed), _AT_REST_M_PER_S)
        damping = self.viscous_ns_per_m + self.coulomb_n * np.tanh(slow / FRICTION_SPEED_M_PER_S) / slow
        return damping, self.cogging_n * np.sin(self.cogging_rad_per_m * position + self.cogging_phase_rad)

    def dry_friction(
        self, speed: Vector, position: Vector, anchors: Vector, duration_s: float
    ) -> tuple[Vector, Vector]:
        """Force of dry friction at the end of a time, and its slope by the speed there, (N,) each: N, N.s/m."""
        if self.friction_travel_m > 0:
            force, slope = slip_force(position, anchors, self.coulomb_n, self.friction_travel_m)
            return force, duration_s * slope
        part = np.tanh(speed / FRICTION_SPEED_M_PER_S)
        return self.coulomb_n * part, self.coulomb_n / FRICTION_SPEED_M_PER_S * (1 - part**2)
