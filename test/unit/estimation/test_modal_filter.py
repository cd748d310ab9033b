# SPDX-License-Identifier: Apache-2.0
"""Kalman filter of the modal coefficients: against a textbook filter, its stated covariance, and rates side by side."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.modal_filter import ModalKalmanFilter

DT = 0.01
MATRIX = np.array([[0.02, 0.0, -0.006], [0.0, 0.02, 0.003], [0.008, 0.004, 0.005], [-0.004, 0.008, 0.006]])
NOISE = np.array([1e-5, 1e-5, 2e-5, 2e-5])
JERK = np.array([20.0, 20.0, 5.0])


def make(**options):
    return ModalKalmanFilter(MATRIX, NOISE, JERK, nominal_dt_s=DT, **options)


def white_jerk_motion(rng, steps, dt=DT):
    """Exact samples of motion driven by white jerk, for each coefficient: shape (steps, 3, n)."""
    density = np.array(
        [[dt**5 / 20, dt**4 / 8, dt**3 / 6], [dt**4 / 8, dt**3 / 3, dt**2 / 2], [dt**3 / 6, dt**2 / 2, dt]]
    )
    root = np.linalg.cholesky(density)
    transition = np.array([[1, dt, dt * dt / 2], [0, 1, dt], [0, 0, 1]])
    state, found = np.zeros((3, JERK.size)), []
    for _ in range(steps):
        found.append(state)
        state = transition @ state + root @ rng.standard_normal((3, JERK.size)) * JERK
    return np.array(found)


def test_it_is_the_textbook_filter_whatever_the_steps_and_gaps():
    rng = np.random.default_rng(3)
    filtered = make()
    n = JERK.size
    x, P = np.zeros(3 * n), np.diag(np.repeat([100.0, 5.0, 50.0], n) ** 2)
    H = np.hstack([MATRIX, np.zeros((4, 2 * n))])
    for step in range(60):
        dt = 0.0 if step == 0 else math.exp(round(20 * math.log(rng.uniform(0.002, 0.1))) / 20)
        F = np.kron([[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]], np.eye(n))
        Q = np.kron(
            [[dt**5 / 20, dt**4 / 8, dt**3 / 6], [dt**4 / 8, dt**3 / 3, dt**2 / 2], [dt**3 / 6, dt**2 / 2, dt]],
            np.diag(JERK**2),
        )
        if abs(dt - DT) <= 0.25 * DT:
            continue  # there the filter takes the nominal step's gain
        y = MATRIX @ rng.normal(size=n) * 0.1
        lost = rng.random(4) < 0.2
        y[lost] = np.nan
        state = filtered.update(y, dt)
        x, P = F @ x, F @ P @ F.T + Q
        seen = H[~lost]
        S = seen @ P @ seen.T + np.diag(NOISE[~lost] ** 2)
        K = P @ seen.T @ np.linalg.inv(S)
        left = np.eye(3 * n) - K @ seen
        x = x + K @ (y[~lost] - seen @ x)
        P = left @ P @ left.T + K @ np.diag(NOISE[~lost] ** 2) @ K.T
        if not state.unseen.any():
            found = np.concatenate([state.c, state.c_rate, state.c_acceleration])
            # Values near zero by the error that they have anyway: libraries of linear algebra round differently.
            assert np.all(np.abs(found - x) < 1e-5 * np.abs(x) + 1e-6 * np.sqrt(np.diag(P))), found - x
            np.testing.assert_allclose(np.sqrt(np.diag(state.covariance)), np.sqrt(np.diag(P)), rtol=1e-4)


def test_errors_are_as_large_as_stated_also_with_the_settled_gain():
    rng = np.random.default_rng(5)
    filtered, squares = make(), []
    for motion in white_jerk_motion(rng, 6000):
        state = filtered.update(MATRIX @ motion[0] + NOISE * rng.standard_normal(4), DT)
        miss = np.concatenate([state.c - motion[0], state.c_rate - motion[1], state.c_acceleration - motion[2]])
        squares.append(miss @ np.linalg.solve(state.covariance, miss))
    # 9 degrees of freedom; neighbouring samples are correlated over some ten steps.
    assert np.mean(squares[500:]) == pytest.approx(9, rel=0.12)


def test_jittering_steps_reuse_the_settled_gain_and_lose_nothing():
    rng = np.random.default_rng(6)
    filtered, time_s, misses = make(), 0.0, []
    for _ in range(1500):
        dt = DT * rng.uniform(0.8, 1.2)
        time_s += dt
        state = filtered.update(MATRIX @ np.full(3, math.sin(2 * time_s)) + NOISE * rng.standard_normal(4), dt)
        misses.append(state.c_rate - 2 * math.cos(2 * time_s))
    sigma = np.sqrt(np.diag(state.covariance))[3:6]
    assert (np.std(misses[300:], axis=0) < 2.5 * sigma).all()


@given(seed=st.integers(0, 2**32 - 1), lost=st.sets(st.integers(0, 3), min_size=2, max_size=4))
def test_what_is_not_seen_is_nan_with_infinite_variance_and_comes_back(seed, lost):
    rng = np.random.default_rng(seed)
    filtered, c = make(), rng.normal(size=3)
    for _ in range(5):
        filtered.update(MATRIX @ c, DT)
    readings = MATRIX @ c
    readings[list(lost)] = np.nan
    state = filtered.update(readings, DT)
    assert state.unseen.any()
    assert np.isnan(state.c[state.unseen]).all()
    assert np.isnan(state.c_rate[state.unseen]).all()
    assert np.isinf(np.diag(state.covariance)[np.tile(state.unseen, 3)]).all()
    np.testing.assert_allclose(state.c[~state.unseen], c[~state.unseen], atol=1e-2)
    for _ in range(50):
        state = filtered.update(MATRIX @ c, DT)
    np.testing.assert_allclose(state.c, c, atol=1e-3)


def test_short_gaps_are_bridged_if_desired():
    filtered = make(bridge_s=0.05)
    for k in range(300):
        filtered.update(MATRIX @ np.full(3, 0.5 * k * DT), DT)
    for k in range(300, 305):
        state = filtered.update(np.full(4, np.nan), DT)
        np.testing.assert_allclose(state.c, 0.5 * k * DT, rtol=1e-3)
    assert np.isnan(filtered.update(np.full(4, np.nan), DT).c).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"noise_m": NOISE * 0}, "noise_m"),
        ({"jerk_density": JERK[:2]}, "jerk_density"),
        ({"matrix": MATRIX * [1, 1, 0]}, "matrix"),
        ({"nominal_dt_s": 0.0}, "nominal_dt_s"),
        ({"bridge_s": -1.0}, "bridge_s"),
    ],
)
def test_bad_settings_are_named(change, named):
    with pytest.raises(ParameterError, match=named):
        ModalKalmanFilter(**{"matrix": MATRIX, "noise_m": NOISE, "jerk_density": JERK, **change})


@pytest.mark.parametrize(("readings", "dt"), [(np.zeros(3), DT), (np.full(4, np.inf), DT), (np.zeros(4), -1.0)])
def test_bad_readings_are_refused(readings, dt):
    with pytest.raises(ParameterError):
        make().update(readings, dt)


# --- johnston's filter, and the comparison
