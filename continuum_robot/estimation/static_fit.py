# SPDX-License-Identifier: Apache-2.0
"""Shape of a robot whose rod does more than bend, or whose tendons are routed: the rod's statics between its sensors.

Such sensors are fewer than the rod's coefficients, so mechanics fills in: energy is least. Where the tensions are
measured, they are forces on the rod, and the lengths of tendons and strings in the body are what is seen: the shape is
the most likely one of a rod that bears these tensions, its weight, and unknown forces F of which those that bend it
easily are as likely as those that bend it little, p ~ exp(-F^T K^-1 F / 2 E), with E the elastic energy of the largest
contact that is expected (estimation/seen_modes.py). A contact shows in the lengths and does not falsify them. Without
tensions the spools hold elastic tendons, and unknown loads move the true shape away from the estimate; strings and a
fibre see them where servos hold displacements. A rod that swings is seen as the sensors see it, and between them where
it would rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.estimation.modal_filter import ModalState
from continuum_robot.estimation.seen_modes import seen_modes, sensed_rod
from continuum_robot.estimation.sensor_watch import SensorWatch, WatchSettings
from continuum_robot.estimation.shape_estimate import ShapeEstimate, ShapeSettings, sensor_names
from continuum_robot.robot.description import Robot
from continuum_robot.rod.fiber import curvature_readings
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.statics import Balance, Held, at_rest, downhill, equilibrium

Vector = NDArray[np.float64]

_ITERATIONS = 12
_LAST_STEP = 1e-4  # the same of a whole step of Newton's, which leaves its square
_LONGEST_LOOK_S = 0.05  # for which a motion is thought to go on
_LEFT_OPEN = 0.5  # fraction of what a mode can be up to which it counts as seen
_INVALID = ("the shape is not seen: a tendon is unknown",)
_LOST = ("the shape is not seen: no equilibrium with these displacements",)


@dataclass(frozen=True, slots=True)
class _Readings:
    """Tendons spooled, strings drawn out, curvatures times their lever (m), which of these are known, tensions (N);
    without, elastic tendons. With ``held``, tendons that show by their springs alone, with tensions of 0.
    """

    spooled: Vector
    extension: Vector
    bent: Vector
    known: NDArray[np.bool_]
    tension: Vector | None
    held: Held | None = None


class StaticFit:
    """Shape of least energy that fits tendons and strings, followed from one reading to the next."""

    def __init__(self, robot: Robot, settings: ShapeSettings) -> None:
        self._robot = robot
        self.rod = sensed_rod(robot)
        self._balance = Balance(self.rod)
        self._tendons, self._displaced = HeldTendons.of(robot), robot.takes_displacements
        self._stiffness = self._tendons.stiffness_n_per_m
        # Strings are paths without stiffness.
        self._springs = np.append(self._stiffness, np.zeros(len(robot.strings)))
        self._no_strings = np.zeros(len(robot.strings))
        self.modes = seen_modes(robot, settings)
        self._of_fiber = curvature_readings(robot)
        self._sensors = sensor_names(robot)
        self._sigma_m = self.modes.sigma_m
        self._filter = self.modes.motion_filter()
        self.reset()

    def watch(self, settings: WatchSettings) -> SensorWatch | None:
        """None: only the mechanics ties one sensor to another, so none can be judged by the others."""
        del settings
        return None

    def set_payload(self, payload_kg: float) -> None:
        """As of :class:`~continuum_robot.estimation.shape.ShapeFit`; the modes stay those of the payload before."""
        self.rod.payload_kg = payload_kg

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """As of :class:`~continuum_robot.estimation.shape.ShapeFit`; the modes stay those of the gravity before."""
        self.rod.gravity_m_per_s2 = gravity_m_per_s2

    def reset(self) -> None:
        """Start from the rod at rest."""
        self._c = equilibrium(self.rod, balance=self._balance).c.copy()
        self._rate = np.zeros(self.rod.n)
        self._held = np.zeros(len(self._sigma_m))
        self._filter.reset()

    def update(self, readings: Vector, velocity: Vector | None, tension: Vector | None, dt: float) -> ShapeEstimate:
        """Arguments as of :class:`~continuum_robot.estimation.shape.ShapeFit`.

        A tendon's displacement has to be known; strings and curvatures are used where the tensions are known, or the
        robot's actuators take displacements, the velocities where neither is.
        """
        count = len(self._stiffness)
        displacement, extension, bent = np.split(readings, [count, count + len(self._robot.strings)])
        spooled = self._tendons.spooled(displacement)
        if not np.isfinite(spooled).all():
            return ShapeEstimate.unseen(self.rod.n, _INVALID)
        seen = self._read(spooled, extension, bent, tension)
        try:
            self._c, hessian, pull = self._settle(self._c + min(dt, _LONGEST_LOOK_S) * self._rate, seen)
        except ConvergenceError:
            try:
                wound = np.append(spooled, self._no_strings)
                held = equilibrium(self.rod, stiffness=self._springs, spooled=wound, balance=self._balance)
                self._c, hessian, pull = self._settle(held.c, seen)
            except ConvergenceError:
                self.reset()
                return ShapeEstimate.unseen(self.rod.n, _LOST)
        slope = np.asarray(np.linalg.solve(hessian, pull), dtype=float)
        covariance: Vector
        motion: ModalState | None = None
        if seen.tension is None:
            known = np.full(count, np.nan) if velocity is None else velocity
            rates, self._rate = slope @ known, np.zeros(self.rod.n)
        else:
            motion, self._rate = self._moved(slope, dt)
            rates = self._rate
        drawn = self.rod.displacement(self._c)[count:]
        missed = np.concatenate([extension - drawn, bent - self._of_fiber @ self._c])
        missed = missed[np.isfinite(missed)]
        if seen.tension is None:
            # The unknown forces move a rod on elastic tendons by the inverse of what holds it.
            errors = slope * self._sigma_m[: len(spooled)]
            moved = np.linalg.solve(hessian, self.rod.arrays.stiffness)
            loaded = np.asarray(np.linalg.solve(hessian, moved.T), dtype=float)
            covariance = errors @ errors.T + self.modes.energy_j * (loaded + loaded.T) / 2
        else:
            covariance = self.modes.energy_j * np.asarray(np.linalg.inv(hessian), dtype=float)
        return ShapeEstimate(
            coefficients=self._c.copy(),
            coefficient_rates=rates,
            covariance=covariance,
            residual_m=float(np.sqrt(np.mean(missed**2))) if missed.size else 0.0,
            sensor_count=len(spooled) + int(missed.size),
            tip=self.rod.moved(self._c)[0],
            motion=motion,
            unobservable=self._unobservable_without(covariance, seen),
        )

    def _read(self, spooled: Vector, extension: Vector, bent: Vector, tension: Vector | None) -> _Readings:
        if tension is None or not np.isfinite(tension).all():
            known = np.concatenate([np.zeros(len(spooled)), np.isfinite(extension), np.isfinite(bent)]).astype(bool)
            if self._displaced and known.any():
                held = Held(self._springs, np.append(spooled, self._no_strings))
                return _Readings(spooled, extension, bent, known, np.zeros(len(spooled)), held)
            return _Readings(spooled, extension, bent, np.isfinite(np.concatenate([spooled, extension, bent])), None)
        pull = np.maximum(tension, 0.0)
        # What is spooled less what the tendon stretches by is out of the body; a slack tendon shows nothing.
        known = np.concatenate([pull > 0, np.isfinite(extension), np.isfinite(bent)])
        return _Readings(spooled - pull / self._stiffness, extension, bent, known, pull)

    def _moved(self, slope: Vector, dt: float) -> tuple[ModalState, Vector]:
        """The motion of the modes by their filter, as that of the robot's coefficients; rates of the rod's, (n,)."""
        modes = self.modes
        if dt <= 0:
            self._filter.reset()
        motion = self._filter.update(modes.coordinates @ (self._c - modes.rest), dt)
        per_mode = slope @ modes.readings
        n, k = per_mode.shape
        spread = np.zeros((3 * n, 3 * k))
        for part in range(3):
            spread[part * n : (part + 1) * n, part * k : (part + 1) * k] = per_mode
        state = ModalState(
            self._c.copy(),
            per_mode @ motion.c_rate,
            per_mode @ motion.c_acceleration,
            spread @ motion.covariance @ spread.T,
            np.zeros(n, dtype=bool),
        )
        return state, per_mode @ motion.c_rate

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
        """The rod on elastic tendons."""
        wound = np.append(readings.spooled, self._no_strings)
        found = at_rest(self._balance, c, Held(self._springs, wound))
        gradient = found.gradient[: len(self._stiffness)]
        pulls = np.where(found.tension[: len(self._stiffness)] > 0, self._stiffness, 0.0)
        return found.c, found.own_hessian, -(pulls[:, None] * gradient).T

    def _fitted(self, c: Vector, readings: _Readings) -> tuple[Vector, Vector, Vector]:
        """Newton's method on the shape and the sensors' forces together.

        What holds the rod to its readings is so stiff that on the energy alone only tiny steps lead along the curve of
        shapes that fit; with the forces as unknowns of their own whole steps do, as for constraints.
        """
        balance, rod, size, held = self._balance, self.rod, np.inf, self._held
        spring = self.modes.energy_j * self.modes.information(readings.known)
        read = np.nan_to_num(np.concatenate([readings.spooled, readings.extension, readings.bent]))
        # A curvature is a length that becomes shorter by what is read.
        rest_m = np.append(rod.rest_m, np.zeros(len(readings.bent)))
        pull = readings.tension
        if pull is None:
            raise ParameterError("tension", pull, "the tendons' tensions")
        count, tension = len(rod.rest_m), np.append(pull, self._no_strings)
        for _ in range(_ITERATIONS):
            state = balance.pulled(c, tension + held[:count], readings.held)
            jacobian = np.concatenate([state.gradient, -self._of_fiber])
            taut = spring @ jacobian
            hessian = state.own_hessian + jacobian.T @ taut
            force = spring @ (read - rest_m + np.append(state.length_m, -self._of_fiber @ c))
            bending = self._of_fiber.T @ held[count:]
            out_of_balance = balance.root @ state.force - bending + jacobian.T @ (force - held)
            scaled = balance.inverse_root @ hessian @ balance.inverse_root.T
            direction, _ = downhill(scaled, balance.inverse_root @ out_of_balance)
            step, fraction = balance.step(direction)
            size = float(np.abs(rod.scale * step).max())
            c, held = c + fraction * step, held + fraction * (force + taut @ step - held)
            if size <= _LAST_STEP:
                self._held = held
                if readings.held is not None:  # what the springs pull by a spooled length
                    tendons = len(self._stiffness)
                    pulled = np.where(state.tension[:tendons] > 0, self._stiffness, 0.0)
                    taut[:tendons] += pulled[:, None] * state.gradient[:tendons]
                return c, hessian, -taut.T
        raise ConvergenceError("shape", size, _LAST_STEP, _ITERATIONS)
