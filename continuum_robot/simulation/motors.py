# SPDX-License-Identifier: Apache-2.0
"""Motors with a spool, seen from the tendon: their numbers and laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.actuation import Actuators
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip, motor_slip, slip_force

Vector: TypeAlias = NDArray[np.float64]

# Below this tendon speed dry friction fades out, so that it has a derivative; a motor at rest creeps accordingly.
FRICTION_SPEED_M_PER_S = 5e-4
_AT_REST_M_PER_S = 1e-9
# Of the speed that :meth:`MotorModel.drag` depends on: without them friction acts as mass.
_FRICTION_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class MotorModel:
    """Motors' dynamics seen from the tendons: position and speed of a tendon on its spool, force on it."""

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
        changed: dict[str, Any] = {k: value[:count] for k, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, **changed, servo=None if self.servo is None else self.servo.first(count))

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
            rate = np.asarray(np.linalg.solve(system, known - duration_s * cogging @ pull))
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


@dataclass(frozen=True, slots=True)
class PositionLoop:
    """A spring and a damper from the goal to the spool, by the motor's encoder, within what the motor gives.

    It has no integral: under a load F it stays F / k behind, as a servo with a proportional gain alone does.
    """

    stiffness_n_per_m: Vector
    damping_ns_per_m: Vector
    no_load_speed_m_per_s: Vector

    @classmethod
    def of(cls, actuators: Actuators, tendon_count: int, mounted: Callable[[Vector], Vector] = np.copy) -> PositionLoop:
        """The loops of a robot's actuators; arguments as of ``MotorModel.from_actuators``."""
        keys = "bandwidth_rad_per_s", "reflected_mass_kg", "maximum_speed_m_per_s"
        w, mass_kg, fastest = (mounted(actuators.each(key, tendon_count)) for key in keys)
        return cls(mass_kg * w**2, 2 * mass_kg * w, fastest)

    def first(self, count: int) -> PositionLoop:
        """The loops of the first motors alone."""
        arrays = self.stiffness_n_per_m, self.damping_ns_per_m, self.no_load_speed_m_per_s
        return PositionLoop(*(one[:count] for one in arrays))

    def force(
        self, goal: Vector, position: Vector, speed: Vector, largest_n: Vector, duration_s: float
    ) -> tuple[Vector, Vector]:
        """Force on the tendons at the end of a time, and how fast it falls with the speed there, (N,) each: N, N.s/m.

        The largest force falls linearly to none at the no-load speed, and brakes beyond it.
        """
        wanted = self.stiffness_n_per_m * (goal - position) - self.damping_ns_per_m * speed
        slower = largest_n / self.no_load_speed_m_per_s
        up = np.clip(largest_n - slower * speed, -largest_n, largest_n)
        down = np.clip(-largest_n - slower * speed, -largest_n, largest_n)
        force = np.minimum(np.maximum(wanted, down), up)
        falling = (wanted > up) & (np.abs(up) < largest_n) | (wanted < down) & (np.abs(down) < largest_n)
        within = self.damping_ns_per_m + duration_s * self.stiffness_n_per_m
        slope = np.where((wanted >= down) & (wanted <= up), within, np.where(falling, slower, 0.0))
        off = np.isnan(goal)
        return np.where(off, 0.0, force), np.where(off, 0.0, slope)
