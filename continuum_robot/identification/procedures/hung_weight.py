# SPDX-License-Identifier: Apache-2.0
"""Torque constant from a hung weight: lift and lower it at one speed; the mean of both currents is without friction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.fit import linear
from continuum_robot.identification.procedures.procedure import Procedure, ProcedureError, Step, driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import checked, quantity

Vector = NDArray[np.float64]

GRAVITY_M_PER_S2 = 9.80665


@dataclass(frozen=True, slots=True, kw_only=True)
class HungWeightSettings:
    """How the weight is moved."""

    clearance_m: float = quantity("how far it is lifted off its support first", "m", default=0.01, gt=0, le=1)
    stroke_m: float = quantity("travel over which the currents are averaged", "m", default=0.02, gt=0, le=1)
    strokes: int = quantity("how often it is lifted and lowered", default=3, ge=1, le=100)
    speed_m_per_s: float = quantity("speed of lifting and lowering", "m/s", default=0.01, gt=0, le=0.5)
    lag_m: float = quantity(
        "how far it may lag behind before it counts as not moving", "m", default=0.008, gt=0, le=0.5
    )
    stiffness_n_per_m: float = quantity("gain on the position", "N/m", default=1500.0, gt=0, le=1e6)
    damping_ns_per_m: float = quantity("gain on the velocity", "N.s/m", default=80.0, ge=0, le=1e5)


@dataclass(frozen=True, slots=True)
class HungWeightResult:
    """What one weight on one tendon gave."""

    tendon: int
    mass_kg: float
    current_up_a: float
    current_down_a: float
    newton_per_ampere: float
    torque_constant_nm_per_a: float
    friction_n: float


class HungWeight(Procedure[HungWeightResult]):
    """The procedure; see the module. The tendon is unhooked from the robot, the weight lies on its support. Pure."""

    tightening = "tightening the tendon"

    def __init__(self, robot: Robot, tendon: int, mass_kg: float, settings: HungWeightSettings | None = None) -> None:
        self.settings = settings = checked(HungWeightSettings, asdict(settings or HungWeightSettings()))
        _, limits = driven_parts(robot)
        if not 0 <= tendon < robot.tendon_count:
            raise ParameterError("tendon", tendon + 1, f"1 to {robot.tendon_count}")
        heaviest_kg = 0.6 * min(limits.of(tendon + 1).maximum_n, limits.total_n) / GRAVITY_M_PER_S2
        if not 0 < mass_kg <= heaviest_kg:
            raise ParameterError("mass_kg", mass_kg, f"more than 0 and at most {heaviest_kg:.3g} kg, by the limits")
        super().__init__(robot, limits.each("minimum_n", robot.tendon_count))
        self._robot, self._tendon, self._mass_kg = robot, tendon, mass_kg
        self._weight_n = mass_kg * GRAVITY_M_PER_S2
        # Up over the clearance, up and down over the stroke (the first time for practice), down to the support.
        top_m = settings.clearance_m + settings.stroke_m
        self._heights = [0.0, *(settings.strokes + 1) * [settings.clearance_m, top_m], settings.clearance_m, 0.0]
        self._leg, self._along_m = 0, 0.0
        self._up: list[float] = []
        self._down: list[float] = []
        self._start_m = self._tightened_s = self._height_m = 0.0
        self._put_down = False

    def tighten(self, reading: TendonReading, dt: float) -> tuple[Vector, bool]:
        """As of :class:`~.procedure.Procedure`: half the weight, which leaves it on its support."""
        v, slow = float(reading.velocity_m_per_s[self._tendon]), self.settings.speed_m_per_s
        self._tightened_s = self._tightened_s + dt if abs(v) < 0.2 * slow else 0.0
        return self._pulled(0.5 * self._weight_n * (1 - v / (2 * slow))), self._tightened_s > 0.3

    def start(self, reading: TendonReading) -> None:
        self._start_m = float(reading.displacement_m[self._tendon])

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`: the weight may not follow."""
        q, v = float(reading.displacement_m[self._tendon]), float(reading.velocity_m_per_s[self._tendon])
        tension = self._pulled(self._servo(reading, q, v, dt))
        return Step(tension, self._phase(), 0.1 + 0.9 * self._leg / len(self._heights))

    def stop(self) -> None:
        """Put the weight down, then end."""
        if not self._tight:
            super().stop()
        elif not self._put_down:
            self._put_down = True
            self._heights, self._leg, self._along_m = [self._height_m, 0.0], 0, 0.0

    def _pulled(self, force_n: float) -> Vector:
        """Tensions with a force on the weight's tendon, (N,), N.

        Below the minimum of one tendon the limits would raise the others: together they keep a direction.
        """
        tension = self.rest_n.copy()
        tension[self._tendon] = max(tension[self._tendon], force_n)
        return tension

    def _servo(self, reading: TendonReading, q: float, v: float, dt: float) -> float:
        settings = self.settings
        begin, end = self._heights[self._leg], self._heights[self._leg + 1]
        direction = math.copysign(1.0, end - begin)
        self._along_m += settings.speed_m_per_s * dt
        length = abs(end - begin)
        self._height_m = begin + direction * min(self._along_m, length)
        lag = self._start_m + self._height_m - q
        if abs(lag) > settings.lag_m:
            raise ProcedureError(
                f"{self._robot.tendon_names[self._tendon]} lags {1e3 * abs(lag):.0f} mm behind",
                "Check that the weight hangs freely on this tendon, its mass, and the gear ratio in the robot file.",
            )
        # Only the middle of a stroke counts: at its ends the weight turns round.
        if 1 < self._leg < len(self._heights) - 2 and 0.25 * length < self._along_m < 0.95 * length:
            (self._up if direction > 0 else self._down).append(float(reading.current_a[self._tendon]))
        if self._along_m >= length:
            if self._leg < len(self._heights) - 2:
                self._leg, self._along_m = self._leg + 1, 0.0
            elif self._put_down:
                super().stop()
            else:
                self.ended = True
        force = self._weight_n + settings.stiffness_n_per_m * lag
        return force + settings.damping_ns_per_m * (direction * settings.speed_m_per_s - v)

    def _phase(self) -> str:
        if self._leg >= len(self._heights) - 2:
            return "putting the weight down"
        if self._leg == 0:
            return "lifting the weight off its support"
        return "lifting" if self._heights[self._leg + 1] > self._heights[self._leg] else "lowering"

    def found(self) -> HungWeightResult:
        """As of :class:`~.procedure.Procedure`: no current may balance the weight."""
        up_a, down_a = abs(float(np.mean(self._up))), abs(float(np.mean(self._down)))
        balance_a = (up_a + down_a) / 2
        if balance_a <= 0:
            raise ProcedureError("no current balances the weight", "Check that the weight depends on this tendon.")
        per_ampere = self._weight_n / balance_a
        lever_m = nominal_lever_m(self._robot, self._tendon)
        friction_n = per_ampere * (up_a - down_a) / 2
        return HungWeightResult(
            self._tendon, self._mass_kg, up_a, down_a, per_ampere, per_ampere * lever_m, max(0.0, friction_n)
        )


def nominal_lever_m(robot: Robot, tendon: int) -> float:
    """Motor torque for a newton on a tendon (index from 0), by the robot file: spool radius over gear ratio, m."""
    actuators = driven_parts(robot)[0].of(tendon + 1)
    if robot.hardware is not None:
        for motor in robot.hardware.tendon_actuators.motors:
            if motor.tendon == tendon + 1:
                return motor.meter_per_turn(actuators) / (2 * math.pi)
    return actuators.spool_radius_m / actuators.gear_ratio


@dataclass(frozen=True, slots=True)
class TorqueFit:
    """Torque constant from several weights."""

    tendon: int
    torque_constant_nm_per_a: float
    deviation_nm_per_a: float
    friction_n: float


def fit_torque_constant(results: Sequence[HungWeightResult]) -> TorqueFit:
    """Least squares of weight = constant / lever * current through the origin."""
    if not results or len({result.tendon for result in results}) != 1:
        raise ParameterError("results", [result.tendon for result in results], "at least one, all of one tendon")
    balance = np.array([(result.current_up_a + result.current_down_a) / 2 for result in results])
    weight = GRAVITY_M_PER_S2 * np.array([result.mass_kg for result in results])
    lever_m = results[0].torque_constant_nm_per_a / results[0].newton_per_ampere
    (per_ampere,), ((variance,),), _ = linear(balance[:, None], weight)
    friction_n = float(np.mean([result.friction_n for result in results]))
    return TorqueFit(results[0].tendon, float(per_ampere * lever_m), math.sqrt(variance) * lever_m, friction_n)
