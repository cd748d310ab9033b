# SPDX-License-Identifier: Apache-2.0
"""The motors' forces against the tensions of a rod of any strains under tendons on any path, for measured samples.

Where a rod stretches, twists and swings in shapes that its tendons do not hold, its shape does not follow from their
displacements at once. It is simulated under them, with all parameters that are looked for: muhmann (22) to (25) in the
strain coefficients with the tensions on the paths of rucker (14),

    T = T_0 + k (l(c) - l(c_0) + q - q_0) + d (J c' + q'),   J = dl/dc,

and these tensions are compared with the forces less what the motors take (motion/equations.py). The motion begins near
rest, where T_0 holds the rod at c_0, with a swing that what was before has left, which is looked for with the rest. A
constant of a motor is a tension here: it bends the rod before the motion. Nothing is said of chords between disks. The
filter of what is measured has passed on the displacements, so that it is in T, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, null_space

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.fit import Parameters
from continuum_robot.identification.motion.equations import ForceEquations
from continuum_robot.identification.motion.parameters import MotionFitSettings, beside, kinds_in_file
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.identification.simulated_motion import Forces, RodParts, SimulatedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.rod import NotConvergedError, Rod
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]

_SWING_J = 2e-4  # energy with which a rod may swing in each shape at the start: of a thin one bent by 0.1 rad
_NONE = 1e-6  # deviation of swings that are known not to be there
_START_S = 0.2  # of rest before the motion
# Last correction within a step, bending angle (rad) or relative stretch: a hundredth of a newton of a stiff tendon.
_TOLERANCE = 3e-6


class DrivenRod:
    """The rod of a robot under tendons that follow given displacements."""

    def __init__(self, robot: Robot, swings_hz: float) -> None:
        rod = Parameters({"rod": kinds_in_file(robot)["rod"]})
        self._parts = RodParts(robot, rod.keys, rod.scale)
        straight = np.zeros(self._parts.rod.n)
        pulls = self._parts.rod.lengths(straight).gradient
        held = self._parts.rod.arrays.stiffness + pulls.T @ (robot.tendon_stiffnesses_n_per_m[:, None] * pulls)
        squares, modes = eigh(held, self._parts.rod.terms(straight, straight).mass)
        slow = squares < (2 * np.pi * swings_hz) ** 2
        self.swings: Vector = math.sqrt(_SWING_J) * np.array([modes[:, slow] / np.sqrt(squares[slow]), modes[:, slow]])

    def tensions(
        self,
        factors: Vector,
        spring: tuple[float, float],
        start_n: Vector,
        swing: Vector,
        place_m: Vector,
        rate_m_per_s: Vector,
        step_s: float,
    ) -> tuple[Vector, Vector]:
        """Tensions of N tendons in the middle of K steps, (K, N), N, and their derivative, (K, N, R + 2 + N + 2 W).

        That is by the factors, the tendons' stiffness and damping, the tensions at the start, and the swing there.
        """
        parts, rod, (stiffness, damping) = self._parts, self._parts.rod, spring
        parts.take(factors)
        motion = SimulatedMotion(parts, _TOLERANCE)
        count, tendons, modes = len(factors), len(start_n), swing.shape[1]
        own = slice(count + 2, count + 2 + tendons)
        none = np.zeros((tendons, own.stop + 2 * modes))
        given = none.copy()
        given[:, own] = np.eye(tendons)
        try:
            rest = rod.equilibrium(start_n)
        except NotConvergedError as error:
            raise ConvergenceError("the rod at rest before the motion", math.nan, 0.0, 0) from error
        c, still = rest.c, np.zeros(rod.n)
        lengths_m, pulls, _ = rod.pulled(c, start_n)
        by_rest = -pulls.T @ given
        by_rest[:, :count] -= parts.forces(c[None], still[None], still[None])[:-1, 0].T
        c_by = np.asarray(np.linalg.solve(rest.hessian, by_rest), dtype=float)
        lengths_by, rate_by = pulls @ c_by, np.zeros_like(c_by)
        c_by[:, own.stop : own.stop + modes], rate_by[:, own.stop + modes :] = self.swings
        rate = self.swings[1] @ swing[1]
        state = motion.begin(c + self.swings[0] @ swing[0], rate, c_by, rate_by)
        springs = _Springs(rod, spring, start_n, lengths_m, given - stiffness * lengths_by, count)
        found, slopes, before = np.empty_like(place_m), np.empty((*place_m.shape, none.shape[1])), rate
        for step, (place, pulling) in enumerate(zip(place_m - place_m[0], rate_m_per_s, strict=True)):
            springs.place_m, springs.rate_m_per_s = place, pulling
            guess, before = 2 * rate - before, rate
            state, _, rate, by = motion.step(state, guess, step_s, springs)
            c_by, rate_by = np.split(by, 2, axis=1)
            found[step] = springs.tension
            slopes[step] = springs.by + springs.pulls @ (stiffness * c_by + damping * rate_by)
        return found, slopes


class _Springs:
    """Tendons between the rod and given displacements, which may be written: what they pull with."""

    def __init__(
        self, rod: Rod, spring: tuple[float, float], start_n: Vector, lengths_m: Vector, by: Vector, at: int
    ) -> None:
        self._rod, self._spring, self._start_n, self._lengths_m, self._at = rod, spring, start_n, lengths_m, at
        self.place_m = self.rate_m_per_s = np.zeros(len(start_n))
        self.tension, self.by, self.pulls = start_n, by, np.zeros((len(start_n), rod.n))

    def __call__(self, c: Vector, rate: Vector, _terms: Terms) -> Forces:
        """The force -J^T T on the coefficients."""
        stiffness, damping = self._spring
        lengths_m, J, _ = self._rod.pulled(c, self.tension)
        stretch, stretching = lengths_m - self._lengths_m + self.place_m, J @ rate + self.rate_m_per_s
        self.tension = self._start_n + stiffness * stretch + damping * stretching
        _, self.pulls, bent = self._rod.pulled(c, self.tension)
        self.by[:, self._at], self.by[:, self._at + 1] = stretch, stretching
        square = J.T @ J
        return Forces(-J.T @ self.tension, bent - stiffness * square, -damping * square, -J.T @ self.by)


class TensionEquations(ForceEquations):
    """Forces of all motors."""

    def __init__(
        self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, rod: DrivenRod, *, swings: bool = True
    ) -> None:
        swing = beside("swing", 2 * rod.swings.shape[2], 1.0 if swings else _NONE)
        super().__init__(robot, samples, settings, swing=swing)
        self._rod, motors = rod, self.motors
        pull = np.asarray(controlled_manifold(robot).displacement_matrix)
        self._onto = np.concatenate([pull, null_space(pull.T)], axis=1)
        # Even, so that the middle of a step is a sample.
        every = 2 * max(1, round(settings.step_s / (2 * motors.period_s)))
        self._middle, self._step_s = slice(every // 2, None, every), every * motors.period_s
        self._kept = motors.kept(self._step_s)
        self.time_s = samples.time_s[self._middle][self._kept]
        self._start_n = motors.force_n[: max(1, round(_START_S / motors.period_s))].mean(axis=0)
        whole = self._used(motors.force_n)
        self.pulled, self.forces = whole[:, : pull.shape[1]], whole - whole.mean(axis=0)

    def _used(self, values: Vector) -> Vector:
        """Those of values at the samples, (T, N), that count, on the coordinates and across them."""
        return np.asarray(values[self._middle][self._kept] @ self._onto)

    def left(self, x: Vector, tension: Vector | None = None) -> Vector:
        """What is left of the forces, (T, N), N; raises ConvergenceError where the rod cannot be simulated."""
        tension = self._simulated(x)[0] if tension is None else tension
        return self._used(self.motors.force_n - self.motors.resisting(x, constant=False)) - tension

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        at, (tension, by) = self.parameters.at, self._simulated(x)
        rows, slopes = self._by_motors(x, tension)
        scale = self.parameters.scale
        places = [*range(*at["rod"].indices(len(x)))]
        for name in ("stiffness", "damping", "constant", "swing"):
            places += range(*at[name].indices(len(x)))
        factor = np.where(np.isin(places, [at["stiffness"].start, at["damping"].start]), scale[places], 1.0)
        slopes[:, :, places] -= by * factor
        return rows, slopes

    def _by_motors(self, x: Vector, tension: Vector) -> tuple[Vector, Vector]:
        rows = self.left(x, tension)
        slopes = np.zeros((*rows.shape, len(x)))
        for name in ("inertia", "viscous", "dry", "travel", "sine", "cosine", "lag"):
            for k in range(*self.parameters.at.get(name, slice(0, 0)).indices(len(x))):
                further = x.copy()
                further[k] += self.motors.steps[k]
                slopes[:, :, k] = (self.left(further, tension) - rows) / self.motors.steps[k]
        return rows, slopes

    def _simulated(self, x: Vector) -> tuple[Vector, Vector]:
        """Tensions on the coordinates and across them (T, N), and their derivative, (T, N, R + 2 + N + 2 W)."""
        at, values, motors = self.parameters.at, self.parameters.values(x), self.motors
        tension, by = self._rod.tensions(
            x[at["rod"]],
            (float(values[at["stiffness"]][0]), float(values[at["damping"]][0])),
            self._start_n + x[at["constant"]],
            x[at["swing"]].reshape(2, -1),
            motors.place_m[self._middle],
            motors.rate_m_per_s[self._middle],
            self._step_s,
        )
        return tension[self._kept] @ self._onto, np.einsum("tju,jk->tku", by[self._kept], self._onto)
