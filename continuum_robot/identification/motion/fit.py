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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.fit import Fit, FoundValues, fit
from continuum_robot.identification.motion.equations import (
    CoordinateEquations,
    DrivenRod,
    ForceEquations,
    ModulationEquations,
    RollingEquations,
    TensionEquations,
)
from continuum_robot.identification.motion.parameters import (
    LAG_S,
    ROLLING,
    MotionFitSettings,
    bends_alone,
    check_driven_rod,
    in_file,
    is_mechanism,
    of_the_past,
)
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
Progress = Callable[[str], None]

MODEL_ERROR = 0.01
"""Fraction of the forces to which the model is trusted, of either sign in each block of time."""

# Weights that change every parameter by less, relative to its usual size or to its least deviation, are the last.
_CHANGE, _CHANGE_OF_DEVIATION = 1e-4, 0.1
_EVALUATIONS = 6  # with the same weights
_LONGER = 1.4
_BANDS_HZ, _ROUGH = (1.5, 3.0, 6.0), 0.03
# Of the fastest motion that counts: what swings faster at the start is filtered out.
_SWINGS = 3.0
_LEAST_BLOCKS = 8


@dataclass(frozen=True, kw_only=True)
class MotionFit(FoundValues):
    """What was found from the motors; T samples."""

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

        def by_name(values: NDArray[Any]) -> dict[str, Any]:
            return dict(zip(self.names, values.tolist(), strict=True))

        return {
            **{name: by_name(getattr(self, name)) for name in ("values", "deviations", "before", "shown")},
            "cogging_amplitude_nm": self.cogging_nm,
            "cogging_deviation_nm": self.cogging_deviation_nm,
            "lag_s": self.lag_s,
            "chords_per_m": self.chords_per_m.tolist(),
            "residual_n": self.residual_n,
            "force_n": float(np.sqrt(np.mean(self.measured_n**2))),
            "across_n": self.across_n,
        }


def fit_motion(
    robot: Robot,
    samples: RecordedMotion,
    settings: MotionFitSettings | None = None,
    progress: Progress | None = None,
) -> MotionFit:
    """Find the parameters of a robot from how it moved."""
    settings = settings or MotionFitSettings()
    even = samples.even()
    if is_mechanism(robot):
        equations = RollingEquations if robot.traits.kind == ROLLING else ModulationEquations
        return fit_forces(robot, [equations(robot, even, settings)], settings, progress)
    check_driven_rod(robot)
    robot = robot.with_all_coordinates
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
    """Find the parameters for which equations leave the least of the forces."""
    say = progress or (lambda _: None)
    x = stages[0].parameters.expected
    past = of_the_past(stages[0].parameters)
    if past:
        # While other values are wrong, a past of any length explains some of what they leave over: it would go astray.
        x = _solution(stages[0], x, settings.iterations, _ROUGH, partial(_say, say, "past as in the file, "), past)[0].x
    for number, one in enumerate(stages, 1):
        stage = f"stage {number} of {len(stages)}, " if len(stages) > 1 else ""
        change = _CHANGE if one is stages[-1] else _ROUGH
        found, weights = _solution(one, x, settings.iterations, change, partial(_say, say, stage))
        x = found.x
    if past:
        found, weights = _lower(stages[-1], found, weights, past, settings.iterations, say)
    say("deviations by leaving out blocks of time")
    return _result(robot, stages[-1], found, weights, settings)


def _lower(
    equations: ForceEquations, found: Fit, weights: Vector, past: list[int], iterations: int, say: Progress
) -> tuple[Fit, Vector]:
    """The fit from a longer past if that leaves less: forces by the past have knots, with valleys beside each other."""
    start = found.x.copy()
    start[past] *= _LONGER
    try:
        other, own = _solution(equations, start, iterations, _CHANGE, partial(_say, say, "from a longer past, "))
    except ConvergenceError:
        return found, weights
    left = other.rows.reshape(-1, len(weights)) * (weights / own)  # both weighed alike
    return (other, own) if np.sum(left**2) < found.rows @ found.rows else (found, weights)


def _say(say: Progress, stage: str, text: str) -> None:
    say(stage + text)


def _solution(
    equations: ForceEquations, x: Vector, iterations: int, change: float, say: Progress, held: Sequence[int] = ()
) -> tuple[Fit, Vector]:
    """The parameters for which equations leave the least, and the weights of the forces.

    Each force weighs by what is left of it, and by how far the model is trusted. Parameters that are ``held`` stay.
    """
    count = equations.parameters.at["sine"].start
    latest: dict[bytes, tuple[Vector, Vector]] = {}

    def linearised(x: Vector) -> tuple[Vector, Vector]:
        if x.tobytes() not in latest:
            found = equations.linearised(x)
            latest.clear()
            latest[x.tobytes()] = found
        return latest[x.tobytes()]

    for number in range(iterations):
        rows, _ = linearised(x)
        weights = 1 / np.sqrt(np.mean(rows**2, axis=0) + (MODEL_ERROR * equations.forces.std(axis=0)) ** 2)

        def weighed(x: Vector, weights: Vector = weights) -> tuple[Vector, Vector]:
            rows, slopes = linearised(x)
            slopes = slopes * weights[:, None]
            slopes[..., held] = 0.0
            return (rows * weights).ravel(), slopes.reshape(-1, len(x))

        found = fit(equations.parameters, weighed, start=x, tolerance=change / 10, evaluations=_EVALUATIONS)
        changes = np.abs(found.x - x)[:count]
        x = found.x
        say(f"step {number + 1}: parameters changed by up to {100 * float(changes.max()):.2g} %")
        # Forces by the past have knots, about which steps go to and fro.
        least = np.sqrt(np.diag(found.inverse))[:count]
        if np.all(changes < np.maximum(change, _CHANGE_OF_DEVIATION * least)):
            return found, weights
    raise ConvergenceError("the fit of the motion", float(changes.max()), change, iterations)


def _result(
    robot: Robot, equations: ForceEquations, found: Fit, weights: Vector, settings: MotionFitSettings
) -> MotionFit:
    """The fit in the units of the file; deviations by leaving out blocks, and by the trust in the model."""
    known, named = equations.parameters, in_file(robot)
    time_s, forces, at, x = equations.time_s, equations.forces * weights, known.at, found.x
    number = max(_LEAST_BLOCKS, int((time_s[-1] - time_s[0]) / settings.block_s))
    block = np.repeat(np.arange(len(time_s)) * number // len(time_s), forces.shape[1])
    mistrusted = MODEL_ERROR * forces.ravel()[:, None] * (block[:, None] == np.arange(number))
    covariance = found.covariance(mistrusted, blocks=block)
    count, motors = len(named), robot.tendon_count
    deviations, priors = np.sqrt(np.diag(covariance))[:count], known.deviation[:count]
    rows = found.rows.reshape(forces.shape) / weights
    left, across = np.split(rows, [robot.coordinate_count], axis=1)
    sine, cosine = x[at["sine"]], x[at["cosine"]]
    amplitude = np.hypot(sine, cosine)
    slope = np.zeros(len(x))
    lever_m = 1 / driven_parts(robot)[0].each("motor_rad_per_m", motors)
    slope[at["sine"]] = lever_m * sine / np.maximum(amplitude, 1e-12) / motors
    slope[at["cosine"]] = lever_m * cosine / np.maximum(amplitude, 1e-12) / motors
    return MotionFit(
        keys=named.keys,
        before=named.values(named.expected),
        values=found.values[:count],
        deviations=deviations * named.scale,
        priors=priors * named.scale,
        file=equations.samples.file,
        sha256=equations.samples.sha256,
        cogging_nm=float((amplitude * lever_m).mean()),
        cogging_deviation_nm=float(np.sqrt(slope @ covariance @ slope)),
        lag_s=float(x[at["lag"]][0] * LAG_S),
        chords_per_m=x[at.get("chords", slice(0, 0))],
        time_s=time_s,
        measured_n=equations.pulled,
        modelled_n=equations.pulled - left,
        across_n=float(np.sqrt(np.mean(across**2))) if across.size else 0.0,
    )
