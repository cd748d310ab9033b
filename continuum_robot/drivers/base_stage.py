# SPDX-License-Identifier: Apache-2.0
"""The motors of a base stage are a displacement driver's, with an axis in the place of a tendon.

So every motor that holds displacements moves a stage too: what a turn of it pulls in is what it moves the axis, m or
rad. Motor 1 is that of the first axis that the stage has, insertion or rotation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, DisplacementActuators, TendonReading, never
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import DISPLACEMENT, Actuators, PositionServo
from continuum_robot.robot.base_stage import BaseStage
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_SECTION = "hardware.base_stage"


@dataclass(frozen=True)
class _Driven:
    """What drivers of motors ask of a robot, of a stage."""

    name: str
    motor_count: int
    actuators: Actuators
    takes_displacements: bool = True
    transmission: None = None
    limits: None = None


def stage_motors(robot: Robot) -> tuple[Robot, Any]:
    """What the driver of a stage's motors is made with: what it moves, and the section of the robot file."""
    stage = robot.base_stage
    settings: Any = None if robot.hardware is None else robot.hardware.base_stage
    if stage is None or settings is None:
        raise ParameterError(_SECTION, None, f"motors of the base stage in the file of robot {robot.name!r}")
    # A spool of 1 m pulls in as many metres as it turns by radians.
    radii = [radius for radius, has in zip((stage.lead_m / (2 * math.pi), 1.0), stage.has, strict=True) if has]
    motors = sorted(settings.motors, key=lambda entry: entry.number)
    if [entry.number for entry in motors] != list(range(1, len(radii) + 1)):
        expected = f"1 to {len(radii)}: a motor for each axis of base_stage"
        raise ParameterError(f"{_SECTION}.motors.tendon", [entry.number for entry in motors], expected)
    largest_a = getattr(settings, "maximum_current_a", None)
    if largest_a is None or any(entry.torque_constant_nm_per_a is None for entry in motors):
        expected = "maximum_current_a, and torque_constant_nm_per_a of each motor: what its axis may push with"
        raise ParameterError(_SECTION, largest_a, expected)
    actuators = Actuators(
        command=DISPLACEMENT,
        spool_radius_m=1.0,
        torque_constant_nm_per_a=1.0,
        maximum_current_a=largest_a,
        rotor_inertia_kg_m2=1e-5,
        servo=PositionServo(maximum_speed_rad_per_s=1e4),
    )
    driven = cast("Robot", _Driven(f"{robot.name} base stage", len(radii), actuators))
    wound = tuple(replace(entry, spool_radius_m=radius) for entry, radius in zip(motors, radii, strict=True))
    return driven, replace(settings, motors=wound)


class StageAxes:
    """Both axes of a stage, of which one may have no motor: it stays at 0."""

    def __init__(self, motors: DisplacementActuators, stage: BaseStage) -> None:
        self.motors, self.stage, self._has = motors, stage, stage.has
        self.simulated = motors.simulated

    def read(self, now_s: float) -> TendonReading:
        found = self.motors.read(now_s)
        return TendonReading(
            found.stamp_s,
            self._both(found.displacement_m),
            self._both(found.velocity_m_per_s),
            self._both(found.tension_n),
            self._both(found.current_a),
            self._both(found.temperature_c),
            self._both(found.age_s),
            found.device_faults,
        )

    def _both(self, values: Vector) -> Vector:
        both = np.zeros(2)
        both[self._has] = values
        return both

    def write(self, position: Vector, now_s: float) -> None:
        """Send a position, (2,), m and rad."""
        self.motors.write(position[self._has], now_s)


class SimulatedStage:
    """Motors of a simulated stage: they are where they were told to be, unless they are blocked."""

    simulated = True
    takes_displacements = True

    def __init__(self, count: int) -> None:
        self.tendon_count = count
        self.blocked = self.enabled = False
        self.device_faults: tuple[str, ...] = ()
        self._position = np.zeros(count)
        self._before = (0.0, self._position)

    def open(self) -> None:
        """Nothing is to be done."""

    def enable(self, aborted: Aborted = never) -> None:  # noqa: ARG002
        self.enabled = True

    def read(self, now_s: float) -> TendonReading:
        before_s, before = self._before
        speed = (self._position - before) / (now_s - before_s) if now_s > before_s else np.zeros(self.tendon_count)
        self._before = now_s, self._position
        unknown, zero = np.full(self.tendon_count, np.nan), np.zeros(self.tendon_count)
        return TendonReading(now_s, self._position, speed, unknown, unknown, unknown, zero, self.device_faults)

    def write(self, displacement_m: Vector, now_s: float) -> None:  # noqa: ARG002
        if self.enabled and not self.blocked:
            self._position = np.array(displacement_m)

    def disable(self) -> None:
        self.enabled = False

    def close(self) -> None:
        """Nothing is to be done."""

    def clear_faults(self) -> None:
        """What it reports is what a test says."""
