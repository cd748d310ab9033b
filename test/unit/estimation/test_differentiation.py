# SPDX-License-Identifier: Apache-2.0
"""Differentiation filters: what they say of their delay is measured on ramps and sines."""

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative

DT = 1e-3
TIMES = np.arange(4000) * DT


def filtered(time_constant_s):
    one = FilteredDerivative(time_constant_s)
    return one, lambda value: one.update(value, DT), one.delay_s(DT)


FILTERS = {
    "difference": lambda: filtered(0.0),
    "filtered 2 ms": lambda: filtered(0.002),
    "filtered 10 ms": lambda: filtered(0.01),
}
each = pytest.mark.parametrize("make", FILTERS.values(), ids=FILTERS.keys())


def run(update, values):
    return np.array([update(value) for value in values])


@each
def test_a_ramp_gives_its_slope(make):
    _, update, _ = make()
    rates = run(update, 3.0 - 2.5 * TIMES)
    assert rates[-1] == pytest.approx(-2.5, rel=1e-6)


@each
def test_on_a_constant_acceleration_the_rate_is_late_by_the_stated_delay(make):
    _, update, delay_s = make()
    rates = run(update, 4.0 * TIMES**2 / 2)
    late_s = (4.0 * TIMES[-1] - rates[-1]) / 4.0
    assert late_s == pytest.approx(delay_s, abs=2e-6)


@each
def test_a_slow_sine_comes_out_shifted_by_the_delay(make):
    _, update, delay_s = make()
    omega = 2 * np.pi * 0.5
    rates = run(update, np.sin(omega * TIMES))
    expected = omega * np.cos(omega * (TIMES - delay_s))
    kept = TIMES > 2.0
    assert np.abs(rates - expected)[kept].max() < 0.01 * omega


@each
def test_arrays_are_differentiated_entry_by_entry(make):
    _, update, _ = make()
    _, single, _ = make()
    values = np.stack([np.sin(30 * TIMES[:200]), np.cos(20 * TIMES[:200])], axis=1)
    together = run(update, values)
    alone = run(single, values[:, 1])
    np.testing.assert_allclose(together[:, 1], alone, rtol=1e-12, atol=1e-12)


@each
def test_reset_forgets(make):
    one, update, _ = make()
    first = run(update, TIMES[:50] ** 2)
    one.reset()
    np.testing.assert_array_equal(run(update, TIMES[:50] ** 2), first)


@each
def test_results_are_causal(make):
    _, update, _ = make()
    _, other, _ = make()
    values = np.sin(40 * TIMES[:300])
    changed = values.copy()
    changed[200:] += 1.0
    np.testing.assert_array_equal(run(update, values)[:200], run(other, changed)[:200])


def test_an_unknown_sample_makes_the_rate_unknown_and_passes():
    one = FilteredDerivative(0.002)
    values = np.stack([TIMES[:100], 2 * TIMES[:100]], axis=1)
    values[50, 0] = np.nan
    rates = np.array([one.update(value, DT) for value in values])
    assert np.isnan(rates[50:52, 0]).all()
    assert np.isfinite(rates[1:, 1]).all()
    assert rates[-1] == pytest.approx([1.0, 2.0])


def test_changing_time_steps_are_taken_and_no_time_changes_nothing():
    one = FilteredDerivative(0.0)
    one.update(0.0, DT)
    assert one.update(0.003, 0.003) == pytest.approx(1.0)
    assert one.update(5.0, 0.0) == pytest.approx(1.0)
    assert one.update(0.001, 0.001) == pytest.approx(-2.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FilteredDerivative(-1.0),
        lambda: FilteredDerivative(0.1).update(0.0, -1.0),
    ],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ParameterError):
        make()
