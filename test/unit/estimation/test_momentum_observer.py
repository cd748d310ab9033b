# SPDX-License-Identifier: Apache-2.0
"""Momentum observer and joint-force deviation: first-order behaviour, resets, faults."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.observers import (
    BackwardGaussian,
    JointForceDeviation,
    MomentumObserver,
    SmoothedDifference,
    ramp_error_rms,
)
from continuum_robot.rod.contact.functions import ContactTerms

DT = 1e-3


def follow(observer, contact, dt, cycles, known=0.0):
    """Residuals for a momentum that the contact force and the known force change; exact integrals of both."""
    size = observer.gain.size
    momentum, found = np.zeros(size), []
    for k in range(cycles):
        if k:
            momentum = momentum + (contact((k - 0.5) * dt) + known) * dt
        found.append(observer.update(momentum, np.full(size, known), dt))
    return np.array(found)


@given(st.floats(0.1, 200), st.floats(1e-4, 1e-2), st.floats(-50, 50))
def test_step_response_has_the_stated_pole_and_unit_gain(gain, dt, known):
    found = follow(MomentumObserver([gain], 0), lambda _: np.array([3.0]), dt, 200, known)[:, 0]
    pole = 1 / (1 + gain * dt)
    np.testing.assert_allclose(found, 3 * (1 - pole ** np.arange(200)), atol=1e-9 * max(1, abs(known)))


@pytest.mark.parametrize("gain", [5.0, 10.0, 25.0])
def test_continuous_first_order_lag(gain):
    """johnston (56): r / kappa = K / (s + K), for a step and a ramp."""
    times = np.arange(2000) * DT
    step = follow(MomentumObserver([gain], 300), lambda _: np.array([1.0]), DT, 2000)[:, 0]
    np.testing.assert_allclose(step, 1 - np.exp(-gain * times), atol=gain * DT)
    ramp = follow(MomentumObserver([gain], 300), lambda t: np.array([t]), DT, 2000)[:, 0]
    np.testing.assert_allclose(ramp, times - (1 - np.exp(-gain * times)) / gain, atol=2 * DT)
    assert times[np.argmax(step > 1 - math.exp(-1))] == pytest.approx(1 / gain, abs=2 * DT)


def test_channels_have_gains_of_their_own():
    found = follow(MomentumObserver([2.0, 50.0], 0), lambda _: np.array([1.0, 1.0]), DT, 500)
    np.testing.assert_allclose(found[-1], 1 - (1 + np.array([2.0, 50.0]) * DT) ** -499.0, rtol=1e-9)


@given(st.integers(1, 50), st.integers(0, 10**6))
def test_resets_leave_the_residual_as_it_is(cycles, seed):
    generator = np.random.default_rng(seed)
    gain = generator.uniform(1, 100, 3)
    free, often = MomentumObserver(gain, 0), MomentumObserver(gain, cycles)
    momentum = np.zeros(3)
    for _ in range(200):
        momentum = momentum + generator.normal(size=3)
        force, dt = generator.normal(size=3), generator.uniform(1e-4, 1e-2)
        one, other = free.update(momentum, force, dt), often.update(momentum, force, dt)
        np.testing.assert_allclose(one, other, atol=1e-9 * (1 + np.abs(one).max()))


def test_no_contact_gives_no_residual():
    """A pendulum whose momentum changes by the known force alone; the error is that of the trapezoidal rule."""
    observer = MomentumObserver([25.0], 100)
    times = np.arange(3000) * DT
    residuals = [observer.update([math.sin(t)], [math.cos(t)], DT)[0] for t in times]
    assert np.abs(residuals).max() < 1e-6


def test_stable_where_the_explicit_sum_is_not():
    found = follow(MomentumObserver([1e4], 0), lambda _: np.array([1.0]), 0.01, 50)[:, 0]
    assert np.all(np.diff(found) > -1e-12)
    assert found[-1] == pytest.approx(1.0)


def test_error_of_the_ramp_experiment():
    """johnston table 6 without noise: 0.67 N for a ramp to 10 N in 1 s, held for 1 s, at K_o = 10."""
    found = follow(MomentumObserver([10.0], 1000), lambda t: np.array([10 * min(t, 1.0)]), DT, 2001)[:, 0]
    error = found - 10 * np.minimum(np.arange(2001) * DT, 1)
    assert ramp_error_rms(10, 10, 1) == pytest.approx(0.671, abs=5e-4)
    assert math.sqrt(np.mean(error**2)) == pytest.approx(ramp_error_rms(10, 10, 1), rel=0.01)


def test_live_change_of_the_gain_is_bumpless():
    observer = MomentumObserver([10.0], 0)
    before = follow(observer, lambda _: np.array([1.0]), DT, 100)[-1]
    observer.with_gain([40.0])
    momentum = 99 * DT + DT
    after = observer.update([momentum], [0.0], DT)
    assert after[0] == pytest.approx(before[0] + (1 - before[0]) * 0.04 / 1.04, rel=1e-9)
    with pytest.raises(ParameterError):
        observer.with_gain([0.0])


@pytest.mark.parametrize("gain", [0.0, -1.0, [10.0, 0.0], [10.0, float("nan")], [math.inf]])
def test_gains_that_are_not_positive_are_refused(gain):
    with pytest.raises(ParameterError, match="gain"):
        MomentumObserver(gain)


def test_wrong_sizes_steps_and_resets_are_refused():
    with pytest.raises(ParameterError, match="reset_cycles"):
        MomentumObserver([1.0], -1)
    with pytest.raises(ParameterError, match="gain"):
        MomentumObserver([1.0, 2.0], size=3)
    observer = MomentumObserver(5.0, size=2)
    with pytest.raises(ParameterError, match="momentum"):
        observer.update([0.0], [0.0], DT)
    with pytest.raises(ParameterError, match="dt"):
        observer.update([0.0, 0.0], [0.0, 0.0], -DT)


@pytest.mark.parametrize(("momentum", "force", "dt"), [(math.nan, 0, DT), (0, math.inf, DT), (0, 0, math.nan)])
def test_what_is_not_a_number_blinds_until_a_reset(momentum, force, dt):
    observer = MomentumObserver([10.0])
    observer.update([0.0], [0.0], DT)
    assert math.isnan(observer.update([momentum], [force], dt)[0])
    assert observer.invalid_reason
    assert math.isnan(observer.update([0.0], [0.0], DT)[0])
    observer.reset()
    assert observer.update([0.0], [0.0], DT)[0] == 0
    assert not observer.invalid_reason


# --- baseline


def terms_of(mass, transport, known):
    size = len(known)
    zero = np.zeros((size, size))
    return ContactTerms(mass @ np.ones(size), known, mass, transport, zero, zero, np.zeros((1, 6, size)))


def test_deviation_solves_the_equations_of_motion():
    generator = np.random.default_rng(2)
    mass, transport = generator.normal(size=(2, 3, 3))
    rate, acceleration, known, other, contact = generator.normal(size=(5, 3))
    acceleration = np.linalg.solve(mass, known + other + contact - transport @ rate)
    found = JointForceDeviation().update(terms_of(mass, transport, known), rate, acceleration, other)
    np.testing.assert_allclose(found, contact, atol=1e-12)


def test_deviation_is_blinded_by_what_is_not_a_number():
    deviation, terms = JointForceDeviation(3), terms_of(np.eye(1), np.zeros((1, 1)), np.zeros(1))
    assert np.isnan(deviation.update(terms, [0.0], [math.nan], [0.0])).all()
    assert np.isnan(deviation.update(terms, [0.0], [0.0], [0.0])).all()
    assert deviation.invalid_reason
    deviation.reset()
    assert deviation.update(terms, [0.0], [0.0], [0.0]) == 0


@given(st.integers(1, 60), st.floats(-5, 5), st.floats(-5, 5))
def test_smoothing_keeps_constants_and_delays_ramps_by_what_it_states(points, start, slope):
    smoother = BackwardGaussian(points)
    assert smoother.weights.sum() == pytest.approx(1)
    assert np.all(np.diff(smoother.weights) <= 0)
    found = [float(smoother.update(start + slope * k)) for k in range(2 * points)]
    late = start + slope * (2 * points - 1 - smoother.delay_samples)
    assert found[-1] == pytest.approx(late, abs=1e-9)
    assert found[0] == pytest.approx(start)


def test_derivatives_of_a_parabola():
    chain = SmoothedDifference(10)
    for k in range(100):
        _, rate, second = chain.update(np.array([(k * DT) ** 2]), DT)
    assert second[0] == pytest.approx(2.0, rel=1e-6)
    delay = (BackwardGaussian(10).delay_samples + 0.5) * DT
    assert rate[0] == pytest.approx(2 * (99 * DT - delay), rel=1e-6)
    with pytest.raises(ParameterError, match="points"):
        SmoothedDifference(0)
