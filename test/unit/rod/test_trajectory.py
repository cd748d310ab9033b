# SPDX-License-Identifier: Apache-2.0
"""Gradients of motions against differences, and tensions over time that they find against those of statics."""

import copy

import numpy as np
import pytest

from continuum_robot import Rod, load_robot
from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.kernel.library import library
from continuum_robot.rod.trajectory import Motion, TrajectoryProblem, optimal_tensions

pytestmark = pytest.mark.skipif(library() is None, reason="the kernel is not built")
MOST_N = 20.0


def slope(function, at, where, step):
    change = np.zeros_like(at)
    change[where] = step
    return (function(at + change) - function(at - change)) / (2 * step)


@pytest.mark.parametrize("method", ["sdirk", "midpoint"])
def test_the_gradient_of_all_states_is_that_of_differences(method):
    rod, rng = Rod(load_robot("two_segment")), np.random.default_rng(0)
    tension = rng.uniform(0.5, 4.0, (12, rod.tendon_count))
    c, v = rng.normal(size=rod.n), 3 * rng.normal(size=rod.n)
    on_c, on_v = rng.normal(size=(4, rod.n)), 0.05 * rng.normal(size=(4, rod.n))

    def cost(c, v, tension, rod=rod):
        kept = Motion(rod, c, v, tension, 2e-3, every=4, method=method)
        return float((on_c * np.sin(kept.c)).sum() + (on_v * kept.v**2).sum())

    masses, zero = rod.arrays.body * np.r_[np.ones(10), np.zeros(15)], np.zeros_like(rod.arrays.stiffness)
    changes = {
        "body": (masses, zero, zero),
        "stiffness": (0 * masses, rod.arrays.stiffness, zero),
        "damping": (0 * masses, zero, rod.arrays.damping),
    }
    kept = Motion(rod, c, v, tension, 2e-3, every=4, method=method)
    found = kept.gradient(on_c * np.cos(kept.c), 2 * on_v * kept.v, list(changes.values()))
    by_c = [slope(lambda x: cost(x, v, tension), c, k, 1e-5) for k in range(rod.n)]
    by_v = [slope(lambda x: cost(c, x, tension), v, k, 1e-4) for k in range(rod.n)]
    np.testing.assert_allclose(found.by_c, by_c, rtol=1e-6)
    np.testing.assert_allclose(found.by_v, by_v, rtol=2e-6)
    for place in ((0, 0), (6, 6), (11, 9)):
        by_tension = slope(lambda x: cost(c, v, x), tension, place, 1e-3)
        assert found.by_tension[place] == pytest.approx(by_tension, rel=1e-6)
    for along, (name, change) in zip(found.along, changes.items(), strict=True):

        def changed(part, name=name, change=change):
            other = copy.deepcopy(rod)
            getattr(other.arrays, name)[:] += part[0] * next(one for one in change if one.any())
            return cost(c, v, tension, other)

        assert along == pytest.approx(slope(changed, np.zeros(1), 0, 1e-5), rel=1e-6)


def bent(extra_n):
    """A rod at rest under 4 N, and where its tip is with more on the first tendon, (3,)."""
    rod = Rod(load_robot("opencr_five_tendon"))
    pull = np.full(5, 4.0)
    start = rod.equilibrium(pull)
    pull[0] += extra_n
    return rod, start, rod.moved(rod.equilibrium(pull).c)[0][:3, 3]


@pytest.mark.parametrize("path", [False, True])
def test_the_gradient_of_the_cost_is_that_of_differences(path):
    rod, start, target = bent(1.0)
    goal = np.linspace(rod.moved(start.c)[0][:3, 3], target, 4) if path else target
    limits = np.zeros(5), np.full(5, MOST_N)
    problem = TrajectoryProblem(rod, goal, 0.06, start, limits, 2e-3, 5, 1e-3)
    at = problem.pack(problem.statics) * np.random.default_rng(0).uniform(0.9, 1.1, problem.free.sum())
    gradient = problem.value(at)[1]
    for k in (0, 7, len(at) - 1):
        assert gradient[k] == pytest.approx(slope(lambda x: problem.value(x)[0], at, k, 1e-4), rel=1e-6)


def test_a_swing_ends_at_rest_within_limits_and_beats_statics():
    rod, start, target = bent(1.5)
    duration_s, limits = 0.3, {"least_n": 2.0, "most_n": 7.0}
    found = optimal_tensions(rod, target, duration_s, start=start, step_s=3e-3, **limits)
    assert found.error_m[-1] < 1e-5
    assert found.tension_n.min() >= 2.0
    assert found.tension_n.max() <= 7.0
    after = Motion(rod, found.c[-1], found.v[-1], np.tile(found.rest_n, (100, 1)), 3e-3, every=100)
    assert np.linalg.norm(rod.moved(after.c[-1])[0][:3, 3] - target) < 1e-4 * rod.length_m
    ramp = Motion(rod, start.c, np.zeros(2), np.linspace(start.tension, found.rest_n, 100), 3e-3, every=100)
    assert np.linalg.norm(rod.moved(ramp.c[-1])[0][:3, 3] - target) > 0.01
    slow = optimal_tensions(rod, target, duration_s, start=start, step_s=3e-3, rate_n_per_s=20.0, **limits)
    knots_n = np.diff(slow.tension_n, axis=0) / (duration_s / len(slow.tension_n))
    assert np.abs(knots_n).max() <= 20.0 * (1 + 1e-6)
    assert slow.error_m[-1] < 1e-4
    with pytest.raises(ConvergenceError, match="rate_n_per_s"):
        optimal_tensions(rod, target, duration_s, start=start, rate_n_per_s=1.0, **limits)


def test_a_path_is_followed_better_than_by_statics_and_slowly_by_statics():
    rod, start, _ = bent(1.0)
    way = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0, 1, 9))  # there, by rest at both ends
    tension = start.tension + way[:, None] * [1.0, 0.0, 0.0, 0.0, 0.0]
    path = np.array([rod.moved(rod.equilibrium(one).c)[0][:3, 3] for one in tension])
    limits = np.full(5, 1.0), np.full(5, MOST_N)

    def both(duration_s, step_s):
        problem = TrajectoryProblem(rod, path, duration_s, start, limits, step_s, 8, 1e-6)
        statics = problem.trajectory(problem.pack(problem.statics))
        found = optimal_tensions(
            rod, path, duration_s, start=start, least_n=1.0, most_n=MOST_N, step_s=step_s, knots=8, iterations=40
        )
        return statics, found

    statics, found = both(0.3, 5e-3)
    assert np.linalg.norm(found.error_m) < 0.05 * np.linalg.norm(statics.error_m)
    statics, found = both(60.0, 1.0)
    assert found.error_m.max() < 1e-3 * rod.length_m
    held = -rod.displacement_gradient(start.c).T @ statics.tension_n[-1]
    bending = -rod.displacement_gradient(start.c).T @ found.tension_n[-1]
    np.testing.assert_allclose(bending, held, atol=0.02 * np.abs(held).max())


def test_what_does_not_fit_is_said():
    rod, start, target = bent(1.0)
    with pytest.raises(ParameterError, match="divisor"):
        Motion(rod, start.c, np.zeros(2), np.ones((10, 5)), 1e-3, every=3)
    with pytest.raises(ParameterError, match="goal_m"):
        optimal_tensions(rod, target[:2], 1.0, start=start)
    with pytest.raises(ParameterError, match="start"):
        optimal_tensions(rod, target, 1.0, start=start, most_n=3.0)
    with pytest.raises(ParameterError, match="knots"):
        optimal_tensions(rod, target, 1.0, start=start, knots=1)
