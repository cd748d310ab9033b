# SPDX-License-Identifier: Apache-2.0
"""Least squares with what is expected, transforms, bounds, error bars and blocks, on problems with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError, IdentifiabilityError
from continuum_robot.identification.fit import (
    LINEAR,
    ROBUST,
    Parameter,
    Parameters,
    by_differences,
    check_identified,
    fit,
)

TIME_S = np.linspace(0.0, 2.0, 200)
TRUE = np.array([3.0, 0.7])  # a rate, an amplitude


def decay(values):
    return values[1] * np.exp(-values[0] * TIME_S)


def parameters(deviation=np.inf, **bounds):
    rate = Parameter(("rate",), 2.0, deviation, scale=2.0, **bounds)
    return Parameters({"rate": rate, "amplitude": Parameter(("amplitude",), 1.0, deviation, scale=0.5)})


def problem(known, noise=0.0, seed=0):
    measured = decay(TRUE) + noise * np.random.default_rng(seed).normal(size=TIME_S.size)
    return by_differences(lambda x: (decay(known.values(x)) - measured) / (noise or 1.0))


def test_values_are_found_in_their_units():
    known = parameters()
    assert known.values(known.expected) == pytest.approx([2.0, 1.0])
    found = fit(known, problem(known))
    assert found.values == pytest.approx(TRUE, rel=1e-6)
    assert not found.limited.any()


def test_logarithms_and_origins_are_transforms():
    kinds = {
        "rate": Parameter(("rate",), 2.0, 0.5, scale=2.0, log=True),
        "amplitude": Parameter(("amplitude",), 1.5, 0.5, scale=0.5, origin=1.0),
    }
    known = Parameters(kinds)
    assert known.expected == pytest.approx([0.0, 1.0])
    assert known.values(known.expected) == pytest.approx([2.0, 1.5])
    free = Parameters({name: replace(kind, deviation=np.inf) for name, kind in kinds.items()})
    found = fit(free, problem(free))
    assert found.values == pytest.approx(TRUE, rel=1e-6)
    assert found.x == pytest.approx([np.log(1.5), -0.6], rel=1e-6)


def test_errors_have_the_stated_size():
    scores = []
    for seed in range(60):
        known = parameters()
        found = fit(known, problem(known, 0.01, seed))
        deviations = np.sqrt(np.diag(found.covariance(variance=1.0))) * known.scale
        scores.append((found.values - TRUE) / deviations)
    assert 0.75 < np.std(scores) < 1.3


def test_what_is_expected_counts_as_a_row_and_as_an_error():
    known = Parameters({"shown": Parameter(("a",), 1.0, 0.5), "hidden": Parameter(("b",), 4.0, 2.0)})
    found = fit(known, lambda x: (np.array([x[0] - 2.0]) / 0.5, np.array([[2.0, 0.0]])))
    assert found.values == pytest.approx([1.5, 4.0])  # halfway between what is expected and the datum
    assert np.sqrt(np.diag(found.covariance(variance=1.0))) == pytest.approx([0.5 / np.sqrt(2), 2.0])


def test_leaving_out_blocks_is_fitting_without_them():
    rng, blocks = np.random.default_rng(1), np.repeat(np.arange(8), 25)
    design, wrong = np.stack([np.ones(200), TIME_S], axis=1), rng.normal(size=8)[blocks]
    known = Parameters({"line": Parameter(("a", "b"), 0.0, 10.0)})

    def rows(x):
        return design @ x - wrong, design

    found, vectors = fit(known, rows), []
    for block in range(8):
        kept = blocks != block
        vectors.append(fit(known, lambda x, kept=kept: tuple(one[kept] for one in rows(x))).x)
    np.testing.assert_allclose(found.left_out(blocks), vectors, atol=1e-6)
    # Errors that a block shares are larger than those of its rows alone.
    shared, alone = found.covariance(blocks=blocks), found.covariance(variance=1.0)
    assert (np.diag(shared) > 4 * np.diag(alone)).all()


def test_an_error_of_unknown_size_shifts_what_it_looks_like():
    design = np.stack([np.ones(200), TIME_S], axis=1)
    known = Parameters({"line": Parameter(("a", "b"), 0.0)})
    found = fit(known, lambda x: (design @ x - 1.0, design))
    np.testing.assert_allclose(found.covariance(0.3 * TIME_S), [[0.0, 0.0], [0.0, 0.09]], atol=1e-9)


def test_a_bound_that_ends_the_search_is_said():
    known = parameters(high=1.25)
    assert fit(known, problem(known)).limited.tolist() == [True, False]


def test_a_trial_that_cannot_be_simulated_sends_the_search_back():
    known = parameters()
    whole = problem(known)

    def fragile(x):
        if known.values(x)[0] > 4.0:
            raise ConvergenceError("a motion", 1.0, 0.0, 3)
        return whole(x)

    assert fit(known, fragile).values == pytest.approx(TRUE, rel=1e-5)
    with pytest.raises(ConvergenceError):
        fit(known, fragile, start=np.array([2.5, 1.0]))


def test_outliers_count_less_with_a_robust_loss():
    known = Parameters({"mean": Parameter(("a",), 0.0)})
    data = np.append(np.zeros(20), 100.0)
    means = [fit(known, lambda x: (x - data, np.ones((21, 1))), loss=loss).x[0] for loss in (LINEAR, ROBUST)]
    assert means[0] == pytest.approx(100 / 21)
    assert means[1] < 0.1


def test_data_that_show_only_a_sum_name_both():
    slopes = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0], [3.0, 3.0, 0.5], [1.0, 1.0, 2.0]])
    with pytest.raises(IdentifiabilityError, match="a, b cannot be identified: only a sum") as caught:
        check_identified(slopes, ("a", "b", "c"), (), ("only a sum", "Measure more"))
    assert caught.value.parameters == ("a", "b")
