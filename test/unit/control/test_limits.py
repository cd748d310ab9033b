# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from continuum_robot.control import limits as module
from continuum_robot.control.limits import (
    LIMITED_MAXIMUM,
    LIMITED_MINIMUM,
    LIMITED_NOT_FINITE,
    LIMITED_RATE,
    LIMITED_TOTAL,
    TensionLimiter,
)
from continuum_robot.control.tendon_forces import TendonForces
from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import controlled_manifold

DT = 0.001


def make(count=3, manifold=None, **changes):
    values = {
        "minimum_n": 0.5,
        "maximum_n": 20.0,
        "rate_n_per_s": 1e6,
        "total_n": 1000.0,
        "safe_n": 0.5,
        "safe_rate_n_per_s": 100.0,
        "maximum_displacement_m": 0.02,
    }
    return TensionLimiter(TensionLimits(**{**values, **changes}), manifold or UnrelatedTendons(count))


def test_what_is_within_all_limits_passes_untouched():
    result = make().update([1.0, 5.0, 20.0], DT)
    np.testing.assert_array_equal(result.tension, [1, 5, 20])
    np.testing.assert_array_equal(result.limited, [0, 0, 0])
    assert result.limited.dtype == np.uint8


def test_minimum_and_maximum():
    result = make().update([-3.0, 0.4, 25.0], DT)
    np.testing.assert_array_equal(result.tension, [0.5, 0.5, 20])
    assert result.limited.tolist() == [LIMITED_MINIMUM, LIMITED_MINIMUM, LIMITED_MAXIMUM]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_keeps_the_previous_command(bad):
    limiter = make()
    limiter.reset([3.0, 4.0, 5.0])
    result = limiter.update([3.1, bad, 5.1], DT)
    np.testing.assert_array_equal(result.tension, [3.1, 4.0, 5.1])
    assert result.limited.tolist() == [0, LIMITED_NOT_FINITE, 0]


def test_rate_counts_from_the_previous_command():
    limiter = make(rate_n_per_s=1000.0)
    limiter.reset([5.0, 5.0, 5.0])
    for k in (1, 2, 3):
        result = limiter.update([10.0, 1.0, 5.0], DT)
        np.testing.assert_allclose(result.tension, [5 + k, 5 - 0.8 * k, 5])
        assert result.limited.tolist() == [LIMITED_RATE, LIMITED_RATE, 0]
    np.testing.assert_allclose(limiter.update([10.0, 2.0, 5.5], 0.0).tension, [8, 2.6, 5])


def test_total_scales_what_lies_above_the_minimum():
    limiter = make(total_n=11.5)
    result = limiter.update([4.5, 0.5, 16.5], DT)
    np.testing.assert_allclose(result.tension, [2.5, 0.5, 8.5])
    assert result.limited.tolist() == [LIMITED_TOTAL, 0, LIMITED_TOTAL]


def test_total_keeps_the_direction_of_bending():
    manifold = ClarkeManifold([5, 4], [0.007, 0.006], [0.0, 0.3])
    limiter = make(manifold=manifold, total_n=30.0)
    desired = np.random.default_rng(0).uniform(0.5, 15, 9)
    before = manifold.generalized_force(desired)
    after = manifold.generalized_force(limiter.update(desired, DT).tension)
    np.testing.assert_allclose(after / np.linalg.norm(after), before / np.linalg.norm(before), atol=1e-12)


MANIFOLDS = {
    "five": ClarkeManifold([5], [0.007], [0.2]),
    "two segments": ClarkeManifold([5, 4], [0.007, 0.006], [0.0, 0.3]),
    "routed": controlled_manifold(load_robot("mixed_routing")),
}


def largest_scale(manifold, desired, lowest_n, highest_n, total_n):
    """Independent oracle: the largest part of the desired force that common tensions of the slices allow, by an LP."""
    slices = manifold.tendon_slices
    common = np.zeros((len(desired), len(slices)))
    for column, rows in enumerate(slices):
        common[rows, column] = manifold.shift_direction[rows]
    # x = (scale, common of each slice); tensions = scale desired + common x.
    tensions = np.column_stack([desired, common])
    limits = np.vstack([tensions, -tensions, tensions.sum(axis=0)])
    bounds = np.concatenate([np.full(len(desired), highest_n), np.full(len(desired), -lowest_n), [total_n]])
    found = linprog(
        [-1.0] + [0.0] * len(slices), limits, bounds, bounds=[(0, 1)] + [(None, None)] * len(slices), method="highs"
    )
    assert found.success
    return found.x[0]


@pytest.mark.parametrize("name", MANIFOLDS)
@given(seed=st.integers(0, 10**6), size=st.floats(1.0, 200.0), spare=st.floats(1.0, 30.0))
@settings(max_examples=10)
def test_the_force_keeps_its_direction_and_as_much_of_its_size_as_the_tendons_allow(name, seed, size, spare):
    manifold = MANIFOLDS[name]
    count = manifold.tendon_count
    rng = np.random.default_rng(seed)
    total_n = count * 0.5 * 20 + spare * count
    limiter = make(manifold=manifold, total_n=total_n)
    forces = TendonForces(manifold, "shift", float(rng.uniform(0, 5)))
    forces.step(rng.normal(0, size, manifold.coordinate_count).tolist())
    desired = np.array(forces.tension) + rng.uniform(-1, 0)  # below the minimum too
    result = limiter.update(desired, DT)
    asked, realised = manifold.generalized_force(desired), manifold.generalized_force(result.tension)
    scale = realised @ asked / (asked @ asked)
    np.testing.assert_allclose(realised, scale * asked, atol=1e-9 * np.abs(asked).max())
    assert scale == pytest.approx(largest_scale(manifold, desired, 0.5, 20.0, total_n), rel=1e-6)
    assert np.all((result.tension >= 0.5 - 1e-9) & (result.tension <= 20 + 1e-9))


def test_a_pull_that_has_to_rise_is_on_the_straight_way_to_its_force():
    manifold = MANIFOLDS["five"]
    limiter = make(manifold=manifold, rate_n_per_s=1000.0)
    limiter.reset(np.full(5, 3.0))
    asked = np.array([12.0, 9.0, 3.0, 3.0, 8.0])
    for k in range(1, 12):
        realised = manifold.generalized_force(limiter.update(asked, DT).tension)
        np.testing.assert_allclose(realised, min(1.0, k / 9) * manifold.generalized_force(asked), atol=1e-9)


def test_all_limits_at_once_are_all_reported():
    limiter = make(4, rate_n_per_s=1000.0, total_n=8.0)
    limiter.reset([2.0, 2.0, 2.0, 2.0])
    result = limiter.update([math.nan, -1.0, 30.0, 10.0], DT)
    assert result.limited[0] & LIMITED_NOT_FINITE
    assert result.limited[1] & LIMITED_MINIMUM
    assert result.limited[2] & LIMITED_MAXIMUM
    assert result.limited[2] & LIMITED_TOTAL
    assert result.tension.sum() <= 8.0 + 1e-12
    assert np.all(np.abs(result.tension - 2.0) <= 1.0 + 1e-12)


def test_a_long_demand_above_the_total_settles_at_its_own_proportions():
    limiter = make(3, rate_n_per_s=500.0, total_n=11.5)
    limiter.reset([9.0, 1.0, 1.5])
    for _ in range(200):
        result = limiter.update([4.5, 0.5, 16.5], DT)
    np.testing.assert_allclose(result.tension, [2.5, 0.5, 8.5], atol=1e-9)


@given(
    count=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    rate=st.floats(0.1, 1e5),
    spare=st.floats(0.01, 3.0),
    dt=st.floats(0, 0.1),
    broken=st.floats(0, 1),
)
def test_whatever_is_desired_the_command_obeys_every_limit(count, seed, rate, spare, dt, broken):
    rng = np.random.default_rng(seed)
    minimum, maximum = 0.5, 20.0
    total = count * (minimum + spare)
    limiter = make(count, rate_n_per_s=rate, total_n=total)
    previous = minimum + rng.dirichlet(np.ones(count)) * min(count * spare, maximum - minimum)
    limiter.reset(previous)
    for _ in range(8):
        desired = rng.normal(0, 10.0 ** rng.uniform(-1, 6), count)
        desired[rng.random(count) < broken * 0.3] = rng.choice([np.nan, np.inf, -np.inf])
        result = limiter.update(desired, dt)
        tension = result.tension
        assert np.all(np.isfinite(tension))
        assert np.all((tension >= minimum - 1e-12) & (tension <= maximum + 1e-12))
        assert np.all(np.abs(tension - previous) <= rate * dt * (1 + 1e-12) + 1e-12)
        assert tension.sum() <= total * (1 + 1e-12)
        # What was changed is reported, and what is reported was changed or not finite.
        changed = ~np.isclose(tension, desired, rtol=1e-12, atol=1e-12)
        assert np.all(result.limited[changed] != 0)
        np.testing.assert_array_equal(limiter.previous, tension)
        previous = tension


@given(start=st.lists(st.floats(0, 100), min_size=4, max_size=4), seed=st.integers(0, 1000))
def test_from_outside_of_the_limits_the_command_never_jumps_and_arrives(start, seed):
    limiter = make(4, rate_n_per_s=1000.0, total_n=30.0)
    limiter.reset(start)
    desired = np.random.default_rng(seed).uniform(-5, 40, 4)
    previous = np.array(start)
    for _ in range(200):
        tension = limiter.update(desired, DT).tension
        assert np.all(np.abs(tension - previous) <= 1.0 + 1e-9)
        previous = tension
    assert np.all((tension >= 0.5 - 1e-9) & (tension <= 20 + 1e-9))
    assert tension.sum() <= 30 + 1e-9


def test_without_a_reset_it_starts_from_no_tension():
    result = make(rate_n_per_s=100.0).update([5.0, 5.0, 5.0], DT)
    np.testing.assert_allclose(result.tension, 0.1)
    assert np.all(result.limited & LIMITED_RATE)


def test_the_result_is_the_callers_own():
    limiter = make()
    limiter.update([5.0, 5.0, 5.0], DT).tension[:] = 1e9
    np.testing.assert_array_equal(limiter.previous, [5, 5, 5])


def test_bits_are_those_of_the_message():
    TendonStates = pytest.importorskip("continuum_robot.msg", reason="messages are not built").TendonStates
    for name in ("NOT_FINITE", "MINIMUM", "MAXIMUM", "RATE", "TOTAL"):
        assert getattr(module, f"LIMITED_{name}") == getattr(TendonStates, f"LIMITED_{name}")


@pytest.mark.parametrize("bad", [[1.0, 2.0], [1.0, math.nan, 2.0], [-1.0, 2.0, 3.0], [1.0, math.inf, 2.0]])
def test_a_reset_to_impossible_tensions_is_refused(bad):
    with pytest.raises(ParameterError, match="tension"):
        make().reset(bad)


@pytest.mark.parametrize("dt", [-1e-3, math.nan, math.inf])
def test_a_negative_or_unknown_step_is_an_error(dt):
    with pytest.raises(ParameterError, match="dt"):
        make().update([1.0, 1.0, 1.0], dt)


def test_wrong_number_of_tendons_and_impossible_total_are_refused():
    with pytest.raises(ParameterError, match="desired"):
        make().update([1.0, 1.0], DT)
    with pytest.raises(ParameterError, match="total_n"):
        make(5, total_n=2.0)
