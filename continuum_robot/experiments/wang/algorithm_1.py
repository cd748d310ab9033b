# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 of wang as printed: Gauss and Newton's steps, shortened to a fraction."""

from __future__ import annotations

import numpy as np

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.identification.modulation_fit import FitSettings, ModulationData, ModulationFit, PoseErrors
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment

_MOST_ITERATIONS = 2000
_THRESHOLD = 1e-3  # beta: relative change of the objective at which it stops


def fit_as_printed(
    segment: ModulatedSegment, data: ModulationData, settings: FitSettings | None = None, *, step: float = 0.1
) -> ModulationFit:
    """The minimum of wang (78) by Algorithm 1."""
    if not 0 < step <= 1:
        raise ParameterError("step", step, "a number in (0, 1]")
    seen = data.seen()
    problem, twice = PoseErrors(segment, seen, settings or FitSettings()), 2 * len(np.asarray(seen.position_m))
    x, history = problem.parameters.expected, [problem.parameters.expected]
    before, now = 1.0, 100.0  # as Algorithm 1 starts
    while abs(now - before) / before >= _THRESHOLD:
        if len(history) > _MOST_ITERATIONS:
            raise ConvergenceError("Algorithm 1 of wang", abs(now - before) / before, _THRESHOLD, _MOST_ITERATIONS)
        c, J = problem(x)
        before, now = now, float(c @ c) / twice  # wang (78)
        problem.check(J)
        x = x - step * np.linalg.lstsq(J, c, rcond=None)[0]  # wang (82), (83); W and H are in J and c
        history.append(x)
    return problem.result(history[:-1])
