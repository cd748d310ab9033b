# SPDX-License-Identifier: Apache-2.0
"""Masses, stiffness, damping, friction and stretch of a robot, from chirps: least squares of the motors' forces.

The file's values are what is expected before the data: what the data do not show stays there, with a deviation to say
so. The rest of a deviation is found by leaving out blocks of time (jackknife). Blocks differ in frequency and place, so
that what the model gets wrong is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.coordinate_equations import CoordinateEquations
from continuum_robot.identification.motion.driven_rod import DrivenRod
from continuum_robot.identification.motion.mechanisms import is_mechanism, rolls
from continuum_robot.identification.motion.modulation_equations import ModulationEquations
from continuum_robot.identification.motion.parameters import Parameters
from continuum_robot.identification.motion.rod_parts import bends_alone, check_driven_rod
from continuum_robot.identification.motion.rolling_equations import RollingEquations
from continuum_robot.identification.motion.samples import DriveSamples
from continuum_robot.identification.motion.tension_equations import TensionEquations
from continuum_robot.identification.motion.unknowns import (
    LAG_S,
    MODEL_ERROR,
    ForceEquations,
    MotionFitSettings,
    blocks,
)
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
Progress = Callable[[str], None]

# A step that changes every parameter by less, relative to its usual size or to its least deviation, is the last.
_CHANGE, _CHANGE_OF_DEVIATION = 1e-4, 0.1
# A step after which this much more is left is halved: a rod that swings freely is far from linear in its stiffness.
_WORSE, _HALVINGS = 1.02, 6
_BANDS_HZ, _ROUGH, _ROUGH_STEPS = (1.5, 3.0, 6.0), 0.03, 8
# Of the fastest motion that counts: what swings faster at the start is filtered out.
_SWINGS = 3.0


@dataclass(frozen=True, slots=True)
class MotionFit:
    """What was found; T samples.

    Attributes
    ----------
    parameters : names, units and what the robot file has
    values, deviations, priors : of the parameters, with deviations after and before the data, shape (P,)
    shown : which of them the data tell: with a deviation of less than half of the one before the data, shape (P,)
    cogging_nm, cogging_deviation_nm : amplitude of the motors' cogging, mean over the motors
    lag_s : of the displacements behind the currents
    chords_per_m : beta of every segment, shape (segments,), 1/m
    time_s : shape (T,), s
    measured_n, modelled_n : force on the coordinates, shape (T, 2m), N
    across_n : root mean square of what is left of the force across them, N
    """

    parameters: Parameters
    values: Vector
    deviations: Vector
    priors: Vector
    shown: NDArray[np.bool_]
    cogging_nm: float
    cogging_deviation_nm: float
    lag_s: float
    chords_per_m: Vector
    time_s: Vector
    measured_n: Vector
    modelled_n: Vector
    across_n: float

    @property
    def residual_n(self) -> float:
        """Root mean square of what is left of the forces on the coordinates, N."""
        return float(np.sqrt(np.mean((self.measured_n - self.modelled_n) ** 2)))

    def numbers(self) -> dict[str, object]:
        """The result as plain numbers for a file of results."""
        rows = zip(self.parameters.names, self.values, self.deviations, self.parameters.before, strict=True)
        return {
            "values": {name: float(value) for name, value, _, _ in rows},
            "deviations": dict(zip(self.parameters.names, map(float, self.deviations), strict=True)),
            "before": dict(zip(self.parameters.names, map(float, self.parameters.before), strict=True)),
            "shown": dict(zip(self.parameters.names, map(bool, self.shown), strict=True)),
            "cogging_amplitude_nm": self.cogging_nm,
            "cogging_deviation_nm": self.cogging_deviation_nm,
            "lag_s": self.lag_s,
            "chords_per_m": [float(value) for value in self.chords_per_m],
            "residual_n": self.residual_n,
            "force_n": float(np.sqrt(np.mean(self.measured_n**2))),
            "across_n": self.across_n,
        }


@dataclass(frozen=True, slots=True)
class RecordedMotionFit:
    """A fit and the recording it was made from.

    Attributes
    ----------
    fit : what was found
    file, sha256 : of the recording
    date : of the fit, ISO 8601
    """

    fit: MotionFit
    file: Path
    sha256: str
    date: str


def fit_motion(
    robot: Robot,
    samples: DriveSamples,
    settings: MotionFitSettings | None = None,
    progress: Progress | None = None,
) -> MotionFit:
    """Find the parameters of a robot from how it moved.

    Parameters
    ----------
    robot : as its file describes it: a rod or a mechanism, with a motor on each tendon
    samples : of chirps, see :class:`~continuum_robot.identification.procedures.chirps.Chirps`
    settings : how they are used
    progress : receives a line for each step

    Raises
    ------
    ParameterError : another robot, or samples that are too few or uneven
    ConvergenceError : no fit was found
    """
    settings = settings or MotionFitSettings()
    even = samples.even()
    if is_mechanism(robot):
        equations = RollingEquations if rolls(robot) else ModulationEquations
        return fit_forces(robot, [equations(robot, even, settings)], settings, progress)
    check_driven_rod(robot)
    if bends_alone(robot):
        return fit_forces(robot, [CoordinateEquations(robot, even, settings)], settings, progress)
    # A rod that swings freely: from where only slow motion leads, the fit of the fast one does not lose the beat. The
    # last one takes steps half as long, as the midpoint rule shows masses that are too small by (2 pi f h)^2 / 6.
    rod = DrivenRod(robot, _SWINGS * settings.stretching_hz)
    coarse = replace(settings, step_s=2 * settings.step_s)
    slower = [replace(coarse, stretching_hz=band) for band in _BANDS_HZ if band < settings.stretching_hz]
    stages = [TensionEquations(robot, even, one, rod, swings=False) for one in slower]
    stages += [TensionEquations(robot, even, one, rod) for one in (coarse, settings)]
    return fit_forces(robot, stages, settings, progress)


def fit_forces(
    robot: Robot, stages: Sequence[ForceEquations], settings: MotionFitSettings, progress: Progress | None = None
) -> MotionFit:
    """Find the parameters for which equations leave the least of the forces.

    Parameters
    ----------
    robot : as its file describes it
    stages : equations of its samples; each begins where those before ended, and the last ones count
    settings : how they are used
    progress : receives a line for each step

    Raises
    ------
    ConvergenceError : no fit was found
    """
    say = progress or (lambda _: None)
    equations, found = stages[-1], stages[0].unknowns.expected
    for number, one in enumerate(stages, 1):
        stage = f"stage {number} of {len(stages)}, " if len(stages) > 1 else ""
        found, (rows, slopes, weights) = _solution(
            one, found, settings, partial(_say, say, stage), rough=one is not equations
        )
    say("deviations by leaving out blocks of time")
    covariance = _covariance(equations, blocks(equations.time_s, settings.block_s), rows, slopes, weights)
    return _result(robot, equations, found, rows, covariance)


def _solution(
    equations: ForceEquations, start: Vector, settings: MotionFitSettings, say: Progress, *, rough: bool
) -> tuple[Vector, tuple[Vector, Vector, Vector]]:
    """The unknowns for which equations leave the least, and these linearised there; roughly, where others follow."""
    unknowns, change = equations.unknowns, _ROUGH if rough else _CHANGE
    count, found = unknowns.parameters.count, start.copy()
    rows, slopes, weights = equations.linearised(found)
    for number in range(_ROUGH_STEPS if rough else settings.iterations):
        system, gradient = _normal(rows, slopes, weights)
        system += np.diag(unknowns.precision)
        gradient += unknowns.precision * (found - unknowns.expected)
        step = -_solved(system, gradient)
        step *= equations.fraction(found, step)
        step, trial = _taken(equations, found, step, _WORSE * _cost(rows, weights), weights)
        found, (rows, slopes, weights) = found + step, trial
        changes = np.abs(step[:count])
        say(f"step {number + 1}: parameters changed by up to {100 * float(changes.max()):.2g} %")
        # Forces by the past have knots, about which steps go to and fro.
        least = np.sqrt(np.diag(np.linalg.inv(system)))[:count]
        if np.all(changes < np.maximum(change, _CHANGE_OF_DEVIATION * least)):
            break
    else:
        if not rough:
            raise ConvergenceError("the fit of the motion", float(changes.max()), change, settings.iterations)
    return found, (rows, slopes, weights)


def _result(robot: Robot, equations: ForceEquations, unknowns: Vector, rows: Vector, covariance: Vector) -> MotionFit:
    """The fit in the units of the file."""
    known = equations.unknowns
    parameters = known.parameters
    count, motors = parameters.count, robot.tendon_count
    deviations, priors = np.sqrt(np.diag(covariance))[:count], 1 / np.sqrt(known.precision[:count])
    left, across = np.split(rows, [robot.coordinate_count], axis=1)
    sine, cosine = unknowns[known.sine], unknowns[known.cosine]
    amplitude = np.hypot(sine, cosine)
    slope = np.zeros(len(unknowns))
    slope[known.sine] = sine / np.maximum(amplitude, 1e-12) / motors
    slope[known.cosine] = cosine / np.maximum(amplitude, 1e-12) / motors
    lever_m = 1 / driven_parts(robot)[0].motor_rad_per_m
    return MotionFit(
        parameters=parameters,
        values=unknowns[:count] * parameters.scales,
        deviations=deviations * parameters.scales,
        priors=priors * parameters.scales,
        shown=deviations < 0.5 * priors,
        cogging_nm=float(amplitude.mean() * lever_m),
        cogging_deviation_nm=float(np.sqrt(slope @ covariance @ slope) * lever_m),
        lag_s=float(unknowns[known.lag] * LAG_S),
        chords_per_m=unknowns[known.chords],
        time_s=equations.time_s,
        measured_n=equations.pulled,
        modelled_n=equations.pulled - left,
        across_n=float(np.sqrt(np.mean(across**2))) if across.size else 0.0,
    )


def _taken(
    equations: ForceEquations, found: Vector, step: Vector, most: float, weights: Vector
) -> tuple[Vector, tuple[Vector, Vector, Vector]]:
    """As much of a step as leaves at most so much of the forces, or the least of it; and all linearised after it."""
    for _ in range(_HALVINGS):
        try:
            trial = equations.linearised(found + step)
        except ConvergenceError:  # with such values the rod cannot be simulated
            step = step / 2
            continue
        if _cost(trial[0], weights) <= most:
            return step, trial
        step = step / 2
    return step, equations.linearised(found + step)


def _say(say: Progress, stage: str, text: str) -> None:
    say(stage + text)


def _cost(rows: Vector, weights: Vector) -> float:
    """Sum of the weighed squares."""
    return float(((rows * weights) ** 2).sum())


def _normal(rows: Vector, slopes: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Normal equations, (U, U) and (U,)."""
    flat = (slopes * weights[None, :, None]).reshape(-1, slopes.shape[2])
    return flat.T @ flat, flat.T @ (rows * weights).ravel()


def _solved(system: Vector, right: Vector) -> Vector:
    """Solution of a symmetric system whose unknowns differ in size."""
    scale = 1 / np.sqrt(np.diag(system))
    return np.asarray(scale * np.linalg.solve(system * scale[:, None] * scale, scale * right))


def _covariance(equations: ForceEquations, block_of: Vector, rows: Vector, slopes: Vector, weights: Vector) -> Vector:
    """Of all unknowns, (U, U): of leaving out blocks, of the trust in the model, and of the values before the data."""
    system, _ = _normal(rows, slopes, weights)
    precision = np.diag(equations.unknowns.precision)
    system = system + precision
    left_out, mistrusted = [], []
    for block in np.unique(block_of):
        inside = block_of == block
        own, gradient = _normal(rows[inside], slopes[inside], weights)
        left_out.append(_solved(system - own, gradient))
        mistrusted.append(_normal(MODEL_ERROR * equations.forces[inside], slopes[inside], weights)[1])
    spread, errors = np.array(left_out), np.array(mistrusted)
    inverse = np.linalg.inv(system)
    data = (len(spread) - 1) / len(spread) * spread.T @ spread
    return np.asarray(data + inverse @ (precision + errors.T @ errors) @ inverse)
