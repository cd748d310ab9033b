# SPDX-License-Identifier: Apache-2.0
"""Shape of a robot whose rod does more than bend, or whose tendons are routed: the rod's statics between its sensors.

Such sensors are fewer than the rod's coefficients, so mechanics fills in: energy is least. Where the tensions are
measured, they are forces on the rod, and the lengths of tendons and strings in the body are what is seen: the shape is
the most likely one of a rod that bears these tensions, its weight, and unknown forces F of which those that bend it
easily are as likely as those that bend it little, p ~ exp(-F^T K^-1 F / 2 E), with E the elastic energy of the largest
contact that is expected (estimation/seen_modes.py). A contact shows in the lengths and does not falsify them. Without
tensions the spools hold elastic tendons, and unknown loads move the true shape away from the estimate. A rod
that swings is seen as the sensors see it, and between them where it would rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.estimation.modal_filter import ModalState
from continuum_robot.estimation.seen_modes import seen_modes
from continuum_robot.estimation.sensor_errors import sensor_names
from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape_estimate import ShapeEstimate, ShapeSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.fiber import curvature_readings
from continuum_robot.rod.strain.inverse import hold
from continuum_robot.rod.strain.problem import StaticProblem, downhill
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.strain.statics import equilibrium

Vector = NDArray[np.float64]

_ITERATIONS = 12
_LEAST_FRACTION = 1e-3
_LAST_STEP = 1e-4  # the same of a whole step of Newton's, which leaves its square
_LONGEST_LOOK_S = 0.05  # for which a motion is thought to go on
_LEFT_OPEN = 0.5  # fraction of what a mode can be up to which it counts as seen
_TOLERANCE = 1e-6  # rad, or relative stretch: far below what the encoders see
_INVALID = ("the shape is not seen: a tendon is unknown",)
_LOST = ("the shape is not seen: no equilibrium with these displacements",)


@dataclass(frozen=True, slots=True)
class _Readings:
    """Tendons spooled, strings drawn out, curvatures times their lever (m), which of these are known, tensions (N);
    without, elastic tendons.
    """

    spooled: Vector
    extension: Vector
    bent: Vector
    known: NDArray[np.bool_]
    tension: Vector | None


class StaticFit:
    """Shape of least energy that fits tendons and strings, followed from one reading to the next.

    Parameters
    ----------
    robot : with segments; its tendons have the stiffness of ``simulation.tendon_stiffness_n_per_m``
    settings : how much the sensors are trusted
    compile, progress : without effect, nothing is compiled here

    Attributes
    ----------
    rod : of the robot
    modes : what the sensors see of the shape
    """

    def __init__(
        self,
        robot: Robot,
        settings: ShapeSettings,
        *,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        del compile, progress
        self._robot = robot
        self.rod = StrainRod.from_robot(robot)
        self._problem = StaticProblem(self.rod)
        self._stiffness = np.full(robot.tendon_count, robot.simulation.tendon_stiffness_n_per_m)
        self.modes = seen_modes(robot, settings)
        self._of_fiber = curvature_readings(robot)
        self._sensors = sensor_names(robot)
        self._sigma_m = self.modes.sigma_m
        self._filter = self.modes.motion_filter()
        self._rest = equilibrium(self._problem).c
        self.reset()

    def watch(self, settings: WatchSettings) -> SensorWatch | None:
        """None: only the mechanics ties one sensor to another, so none can be judged by the others."""
        del settings
        return None

    def reset(self) -> None:
        """Start from the rod at rest."""
        self._c = self._rest.copy()
        self._rate = np.zeros(self.rod.size)
        self._held = np.zeros(len(self._sigma_m))
        self._filter.reset()

    def update(self, readings: Vector, velocity: Vector | None, tension: Vector | None, dt: float) -> ShapeEstimate:
        """Arguments as of :class:`~continuum_robot.estimation.shape.ShapeFit`.

        A tendon's displacement has to be known; strings and curvatures are used where the tensions are known, the
        velocities where they are not.
        """
        count = len(self._stiffness)
        spooled, extension, bent = np.split(readings, [count, count + len(self._robot.strings)])
        if not np.isfinite(spooled).all():
            return ShapeEstimate.unseen(self.rod.size, _INVALID)
        seen = self._read(spooled, extension, bent, tension)
        try:
            self._c, hessian, pull = self._settle(self._c + min(dt, _LONGEST_LOOK_S) * self._rate, seen)
        except ConvergenceError:
            try:
                self._c = hold(self._problem, spooled, tendon_stiffness_n_per_m=self._stiffness).state.c
                self._c, hessian, pull = self._settle(self._c, seen)
            except ConvergenceError:
                self.reset()
                return ShapeEstimate.unseen(self.rod.size, _LOST)
        slope = np.asarray(np.linalg.solve(hessian, pull), dtype=float)
        covariance: Vector
        motion: ModalState | None = None
        if seen.tension is None:
            known = np.full(count, np.nan) if velocity is None else velocity
            rates, self._rate = slope @ known, np.zeros(self.rod.size)
        else:
            motion = self._moved(slope, dt)
            rates = self._rate = motion.c_rate
        missed = np.concatenate([extension - self.rod.string_extension(self._c), bent - self._of_fiber @ self._c])
        missed = missed[np.isfinite(missed)]
        if seen.tension is None:
            errors = slope * self._sigma_m[: len(spooled)]
            covariance = errors @ errors.T
        else:
            covariance = self.modes.energy_j * np.asarray(np.linalg.inv(hessian), dtype=float)
        return ShapeEstimate(
            coefficients=self._c.copy(),
            coefficient_rates=rates,
            covariance=covariance,
            residual_m=float(np.sqrt(np.mean(missed**2))) if missed.size else 0.0,
            sensor_count=len(spooled) + int(missed.size),
            tip=self.rod.poses(self._c, [self.rod.length_m])[0],
            motion=motion,
            unobservable=self._unobservable_without(covariance, seen),
        )

    def _read(self, spooled: Vector, extension: Vector, bent: Vector, tension: Vector | None) -> _Readings:
        if tension is None or not np.isfinite(tension).all():
            return _Readings(spooled, extension, bent, np.isfinite(np.concatenate([spooled, extension, bent])), None)
        pull = np.maximum(tension, 0.0)
        # What is spooled less what the tendon stretches by is out of the body; a slack tendon shows nothing.
        known = np.concatenate([pull > 0, np.isfinite(extension), np.isfinite(bent)])
        return _Readings(spooled - pull / self._stiffness, extension, bent, known, pull)

    def _moved(self, slope: Vector, dt: float) -> ModalState:
        """The motion of the modes by their filter, as that of the coefficients."""
        modes = self.modes
        if dt <= 0:
            self._filter.reset()
        motion = self._filter.update(modes.coordinates @ (self._c - modes.rest), dt)
        per_mode = slope @ modes.readings
        n, k = self.rod.size, modes.count
        spread = np.zeros((3 * n, 3 * k))
        for part in range(3):
            spread[part * n : (part + 1) * n, part * k : (part + 1) * k] = per_mode
        return ModalState(
            self._c.copy(),
            per_mode @ motion.c_rate,
            per_mode @ motion.c_acceleration,
            spread @ motion.covariance @ spread.T,
            np.zeros(n, dtype=bool),
        )

    def _unobservable_without(self, covariance: Vector, readings: _Readings) -> tuple[str, ...]:
        """A sentence on modes that do not stand out of what the sensors that are left leave open."""
        count = len(readings.spooled)
        others = readings.known[count:]
        if readings.tension is None or others.all():
            return ()
        coordinates = self.modes.coordinates
        open_to = np.sqrt(((coordinates @ covariance) * coordinates).sum(axis=1))
        lost = np.flatnonzero(open_to > _LEFT_OPEN * self.modes.largest)
        if not lost.size:
            return ()
        names = [name for name, known in zip(self._sensors[count:], others, strict=True) if not known]
        return (f"{', '.join(f'mode_{k + 1}' for k in lost)} unobservable without {', '.join(names)}",)

    def _settle(self, c: Vector, readings: _Readings) -> tuple[Vector, Vector, Vector]:
        """Coefficients, the energy's Hessian there, and minus its gradient's rate by the readings."""
        return self._hung(c, readings) if readings.tension is None else self._fitted(c, readings)

    def _hung(self, c: Vector, readings: _Readings) -> tuple[Vector, Vector, Vector]:
        """Newton's method on the energy of a rod on elastic tendons."""
        problem, size = self._problem, np.inf
        energy_j, gradient, hessian, taut = self._terms(c, readings.spooled)
        for _ in range(_ITERATIONS):
            scaled = problem.inverse_root @ hessian @ problem.inverse_root.T
            force = problem.inverse_root @ gradient
            direction, _ = downhill(scaled, force)
            step, fraction = problem.step(direction)
            size = float(np.abs(self.rod.strain_scale * step).max())
            if size <= _TOLERANCE:
                return c, hessian, -taut.T
            while True:  # tendons that become slack or tight on the way would make a whole step go to and fro
                found = self._terms(c + fraction * step, readings.spooled)
                if found[0] <= energy_j + 1e-4 * fraction * float(force @ direction) or fraction < _LEAST_FRACTION:
                    break
                fraction /= 2
            c, (energy_j, gradient, hessian, taut) = c + fraction * step, found
        raise ConvergenceError("shape", size, _TOLERANCE, _ITERATIONS)

    def _terms(self, c: Vector, spooled: Vector) -> tuple[float, Vector, Vector, Vector]:
        """Energy of rod and tendons, its gradient (n,) and Hessian (n, n), and the tension's Jacobian (N, n)."""
        stretch = spooled - self.rod.tendons.rest_m + self.rod.tendons.lengths(c)
        tension = self._stiffness * np.maximum(stretch, 0.0)
        energy_j, gradient, hessian = self._problem.terms(c, tension)
        jacobian = self.rod.tendons.jacobian(c)
        taut = np.where(tension > 0, self._stiffness, 0.0)[:, None] * jacobian
        # The terms have tension times (path less that at rest) = tension times (stretch - spooled); here it is elastic.
        energy_j += float(tension @ (spooled - stretch / 2))
        return energy_j, gradient, hessian + jacobian.T @ taut, taut

    def _fitted(self, c: Vector, readings: _Readings) -> tuple[Vector, Vector, Vector]:
        """Newton's method on the shape and the sensors' forces together.

        What holds the rod to its readings is so stiff that on the energy alone only tiny steps lead along the curve of
        shapes that fit; with the forces as unknowns of their own whole steps do, as for constraints.
        """
        problem, rod, size = self._problem, self.rod, np.inf
        count, held = len(readings.spooled), self._held
        spring = self.modes.energy_j * self.modes.information(readings.known)
        read = np.nan_to_num(np.concatenate([readings.spooled, readings.extension, readings.bent]))
        # A curvature is a length that becomes shorter by what is read.
        rest_m = np.concatenate([rod.tendons.rest_m, rod.strings.rest_m, np.zeros(len(readings.bent))])
        strings = slice(count, count + len(readings.extension))
        slack = np.zeros(count)
        pull = readings.tension
        if pull is None:
            raise ParameterError("tension", pull, "the tendons' tensions")
        for _ in range(_ITERATIONS):
            _, gradient, hessian = problem.terms(c, slack)
            tendon_m, by_tendon, pulled, curve = rod.tendons.weighted(c, pull + held[:count])
            string_m, by_string, drawn, more = rod.strings.weighted(c, held[strings])
            jacobian = np.concatenate([by_tendon, by_string, -self._of_fiber])
            bending = self._of_fiber.T @ held[strings.stop :]
            taut = spring @ jacobian
            hessian = hessian + curve + more + jacobian.T @ taut
            force = spring @ (read - rest_m + np.concatenate([tendon_m, string_m, -self._of_fiber @ c]))
            out_of_balance = gradient + pulled + drawn - bending + jacobian.T @ (force - held)
            scaled = problem.inverse_root @ hessian @ problem.inverse_root.T
            direction, _ = downhill(scaled, problem.inverse_root @ out_of_balance)
            step, fraction = problem.step(direction)
            size = float(np.abs(rod.strain_scale * step).max())
            c, held = c + fraction * step, held + fraction * (force + taut @ step - held)
            if size <= _LAST_STEP:
                self._held = held
                return c, hessian, -taut.T
        raise ConvergenceError("shape", size, _LAST_STEP, _ITERATIONS)
