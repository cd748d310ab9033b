# SPDX-License-Identifier: Apache-2.0
"""The motors' forces against the tensions of a rod of any strains under tendons on any path, for measured samples.

Where a rod stretches, twists and swings in shapes that its tendons do not hold, its shape does not follow from their
displacements at once. It is simulated under them (motion/driven_rod.py), with all parameters that are looked for, and
the tensions that come of it are compared:

    F_j(t + l) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j),

as in motion/coordinate_equations.py, but a constant is a tension here: it bends the rod before the motion. What the rod
swings by at the start, from the take-up of slack, is looked for with the rest. Nothing is said of chords between disks.
The filter of what is measured has passed on the displacements, so that it is in T, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from continuum_robot.identification.motion.driven_rod import DrivenRod
from continuum_robot.identification.motion.motors import DRY, MOTORS, PAST_STEP, Motors
from continuum_robot.identification.motion.parameters import TENDON_DAMPING, TENDON_STIFFNESS
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.unknowns import TRIM_S, MotionFitSettings, Unknowns, weights
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendon_modes import controlled_manifold

Vector = NDArray[np.float64]

# Energy with which a rod may swing in each shape before the motion: that of a thin one bent by a tenth of a radian.
_SWING_J = 2e-4
_START_S = 0.2  # of rest before the motion
_LEAST_LEFT = 0.4  # of a value that has to be positive, after one step


class TensionEquations:
    """Forces of all motors; see :class:`~.unknowns.ForceEquations` for what they share with others.

    Parameters
    ----------
    robot : a rod with a motor on each tendon
    samples : at even times
    settings : how they are used
    rod : of the robot, for equations of several bands
    swings : whether the rod may swing at the start; bands that are slower than its swing do not show it
    """

    def __init__(
        self,
        robot: Robot,
        samples: DriveSamples,
        settings: MotionFitSettings,
        rod: DrivenRod,
        *,
        swings: bool = True,
    ) -> None:
        self._rod = rod
        usual_n = float(np.abs(samples.force_n).mean())
        self.unknowns = Unknowns.of(robot, usual_n, settings.prior, swings=2 * rod.swings.shape[2], swinging=swings)
        self._motors = Motors(robot, samples, self.unknowns.parameters, settings.stretching_hz)
        pull = np.asarray(controlled_manifold(robot).displacement_matrix)
        self._onto = np.concatenate([pull, null_space(pull.T)], axis=1)
        period_s = self._motors.period_s
        # Even, so that the middle of a step is a sample.
        every = 2 * max(1, round(settings.step_s / (2 * period_s)))
        self._middle, self._step_s = slice(every // 2, None, every), every * period_s
        trim = round(TRIM_S / self._step_s)
        middles = samples.time_s[self._middle]
        self._kept = slice(trim, len(middles) - trim, max(1, round(1 / (self._step_s * settings.samples_hz))))
        self.time_s = middles[self._kept]
        self._start_n = self._motors.force_n[: max(1, round(_START_S / period_s))].mean(axis=0)
        whole = self._used(self._motors.force_n) @ self._onto
        self.pulled, self.forces = whole[:, : pull.shape[1]], whole - whole.mean(axis=0)

    def _used(self, values: Vector) -> Vector:
        """Those of values at the samples, (T, ...), that count."""
        return values[self._middle][self._kept]

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the forces (T, N), its slopes (T, N, U) and weights (N,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)

        Raises
        ------
        ConvergenceError : the rod cannot be simulated with these
        """
        known, motors = self.unknowns, self._motors
        parameters = known.parameters
        count, scales = parameters.count, parameters.scales
        values = unknowns[:count] * scales
        stiffness, damping = float(values[TENDON_STIFFNESS]), float(values[TENDON_DAMPING])
        tension, tension_by = self._rod.tensions(
            unknowns[parameters.rod],
            (stiffness, damping),
            self._start_n + unknowns[known.constant],
            math.sqrt(_SWING_J) * unknowns[known.swing].reshape(2, -1),
            motors.place_m[self._middle],
            motors.rate_m_per_s[self._middle],
            self._step_s,
        )
        tension, tension_by = tension[self._kept], tension_by[self._kept]
        by = np.zeros((*tension.shape, known.count))
        rod = self._rod.count
        by[:, :, parameters.rod] = tension_by[:, :, :rod]
        for place, column in ((TENDON_STIFFNESS, rod), (TENDON_DAMPING, rod + 1)):
            by[:, :, place] = tension_by[:, :, column] * scales[place]
        constants = slice(rod + 2, rod + 2 + tension.shape[1])
        by[:, :, known.constant] = tension_by[:, :, constants]
        by[:, :, known.swing] = math.sqrt(_SWING_J) * tension_by[:, :, constants.stop :]
        moving = [self._used(force) for force in motors.moving]
        if parameters.travel is not None:
            factor, limit_n = float(unknowns[parameters.travel]), values[DRY] * parameters.motor_units[DRY]
            moving[DRY] = self._used(motors.rubbed(factor))
            later = self._used(motors.rubbed(factor + PAST_STEP))
            by[:, :, parameters.travel] = limit_n * (later - moving[DRY]) / PAST_STEP
        for place, force in enumerate(moving):
            by[:, :, place] = force * parameters.motor_units[place] * scales[place]
        for where, wave in zip((known.sine, known.cosine), motors.waves, strict=True):
            by[:, :, where] = np.eye(tension.shape[1]) * self._used(wave)[:, :, None]
        by[:, :, known.lag] = self._used(motors.late)
        linear = [*range(MOTORS), *range(known.sine.start, known.cosine.stop), known.lag]
        rows = self._used(motors.force_n) - tension - by[:, :, linear] @ unknowns[linear]
        slopes = -np.einsum("tju,jk->tku", by, self._onto)
        return rows @ self._onto, slopes, weights(rows @ self._onto, self.forces)

    def fraction(self, unknowns: Vector, step: Vector) -> float:
        """As much as leaves every value that a rod needs positive; arguments as of :class:`~.ForceEquations`."""
        needed = slice(TENDON_STIFFNESS, self.unknowns.parameters.rod.stop)
        lost = float((-step[needed] / unknowns[needed]).max())
        return min(1.0, (1 - _LEAST_LEFT) / lost) if lost > 0 else 1.0
