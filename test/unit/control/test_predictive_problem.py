# SPDX-License-Identifier: Apache-2.0
"""The quadratic program of predictive control against the same program in dense form, for another solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from continuum_robot.control.tip.predictive_problem import PredictiveProblem, Stages
from continuum_robot.errors import ParameterError

SIZE, STAGES, STAGE_S = 2, 5, 0.2
UNIT_M = np.array([0.01, 0.02])
RATE, EFFORT = np.array([0.3, 0.5]), np.array([0.05, 0.02])
PENALTIES = np.array([[20.0, 100.0], [5.0, 50.0]])
KINDS = np.array([0, 1])
FILLED = np.array([[1, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)


def made(solver="piqp"):
    return PredictiveProblem(
        UNIT_M,
        STAGES,
        STAGE_S,
        KINDS,
        filled=FILLED,
        rate_weight=RATE,
        acceleration_weight=EFFORT,
        penalties=PENALTIES,
        solver=solver,
    )


def stages(bound):
    rng = np.random.default_rng(7)
    root = rng.normal(size=(STAGES, 3, SIZE))
    rows = FILLED * rng.normal(size=(STAGES, len(KINDS), 3 * SIZE)) / np.tile(UNIT_M, 3)
    slope, bounds = rng.normal(size=(STAGES, SIZE)), np.full((STAGES, len(KINDS)), bound)
    return Stages(1e3 * root.transpose(0, 2, 1) @ root, slope, rows, bounds)


def trajectory(accelerations, position, velocity):
    """Positions and velocities at the ends of the stages, by the recursion."""
    q, v, found = position, velocity, []
    for a in accelerations:
        q, v = q + STAGE_S * v + STAGE_S**2 / 2 * a, v + STAGE_S * a
        found.append((q, v, a))
    return found


def cost(plan, slack, given):
    total = 0.0
    for (q, v, a), s, hessian, slope in zip(plan, slack, given.hessian, given.slope, strict=True):
        total += q @ hessian @ q / 2 + slope @ q + (v @ (RATE * v) + a @ (EFFORT * a)) / 2
        total += PENALTIES[:, 0] @ s + s @ (PENALTIES[:, 1] * s) / 2
    return total


@pytest.mark.parametrize("bound", [100.0, 0.3, -0.5])
@pytest.mark.parametrize("solver", ["piqp", "daqp", "osqp", "qpoases"])
def test_the_plan_is_the_minimum(bound, solver):
    given, start, velocity = stages(bound), np.array([0.004, -0.01]), np.array([0.01, 0.02])
    plan = made(solver).solve(start, velocity, given)
    # Its states follow from its accelerations, and it ends at rest.
    found = trajectory(plan.acceleration, start, velocity)
    np.testing.assert_allclose(plan.position[1:], [q for q, _, _ in found], atol=1e-6)
    np.testing.assert_allclose(plan.velocity[-1], 0, atol=1e-6)

    def spread(x):
        accelerations = x[: STAGES * SIZE].reshape(STAGES, SIZE) * UNIT_M
        return trajectory(accelerations, start, velocity), x[STAGES * SIZE :].reshape(STAGES, 2)

    def rows(x):
        motion, slack = spread(x)
        kept = [of @ np.concatenate(one) - s for one, s, of in zip(motion, slack, given.rows, strict=True)]
        return np.concatenate([*kept, motion[-1][1] / UNIT_M])

    zero, count = np.zeros(STAGES * (SIZE + 2)), STAGES * 2
    matrix = np.array([rows(unit) - rows(zero) for unit in np.eye(zero.size)]).T
    kept, rest = bound - rows(zero)[:count], -rows(zero)[count:]
    bounds = [(None, None)] * (STAGES * SIZE) + [(0, None)] * count
    oracle = minimize(
        lambda x: cost(*spread(x), given),
        zero,
        method="SLSQP",
        bounds=bounds,
        constraints=[LinearConstraint(matrix[:count], ub=kept), LinearConstraint(matrix[count:], rest, rest)],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert oracle.success
    # What is allowed and costs no more than the oracle's minimum is the minimum.
    left = [of @ np.concatenate(one) - s for one, s, of in zip(found, plan.slack, given.rows, strict=True)]
    assert np.max(left) <= bound + 1e-3
    assert plan.slack.min() > -1e-6
    assert cost(found, plan.slack, given) <= oracle.fun + 2e-3 * abs(oracle.fun) + 1e-5


def test_a_solver_that_is_not_there_is_refused():
    with pytest.raises(ParameterError, match="piqp"):
        made("simplex")


def test_numbers_that_are_none_give_no_plan():
    given = stages(1.0)
    assert made().solve(np.full(SIZE, np.nan), np.zeros(SIZE), given) is None
