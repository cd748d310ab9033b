# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from continuum_robot.errors import ParameterError
from continuum_robot.identification.replay import TautTendons
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("ftdcr_v4")
TAUT = TautTendons(ROBOT)
LENGTHS_M = np.array([segment.length_m for segment in ROBOT.segments])
RADIUS_M = 0.0045

clarke_values = st.lists(st.floats(-0.008, 0.008), min_size=6, max_size=6).map(np.array)
displacements = st.lists(st.floats(-0.01, 0.004), min_size=9, max_size=9).map(np.array)


@given(clarke=clarke_values)
def test_consistent_displacements_give_the_clarke_transform(clarke):
    given_m = TAUT.manifold.displacement(clarke)
    shape = TAUT.shape(given_m)
    np.testing.assert_allclose(shape.clarke[0], clarke, atol=1e-12)
    np.testing.assert_allclose(shape.displacement[0], given_m, atol=1e-12)
    assert not shape.slack.any()


@given(clarke=clarke_values, common=st.floats(0, 0.002))
@example(clarke=np.zeros(6), common=0.001953125)  # rounding of the huge tensions of co-contraction
def test_co_contraction_of_one_segment_is_projected_out(clarke, common):
    """All tendons of the last segment pulled by the same length: least squares, the Clarke transform."""
    given_m = TAUT.manifold.displacement(clarke) + np.repeat([0.0, 0.0, common], 3)
    np.testing.assert_allclose(TAUT.shape(given_m).clarke[0], clarke, atol=2e-5)


@pytest.mark.parametrize("tendon", range(9))
def test_one_taut_tendon_bends_uniformly_to_its_end(tendon):
    displacement = np.full(9, -0.010)
    displacement[tendon] = 0.003
    shape = TAUT.shape(displacement)
    segment = tendon // 3
    theta = 0.003 / RADIUS_M * LENGTHS_M / LENGTHS_M[: segment + 1].sum()
    theta[segment + 1 :] = 0.0
    psi = ROBOT.segments[segment].tendons.angles_rad[tendon % 3]
    expected = RADIUS_M * theta[:, None] * [np.cos(psi), np.sin(psi)]
    np.testing.assert_allclose(shape.clarke[0], expected.ravel(), atol=1e-7)
    assert shape.slack[0].sum() == 8
    assert not shape.slack[0, tendon]


@given(displacement=displacements)
def test_agrees_with_a_general_optimiser(displacement):
    """The same convex problem, unconstrained with elastic tendons, by BFGS on its energy."""
    D = TAUT.manifold.displacement_matrix
    stiffness = np.repeat([0.06 / length for length in LENGTHS_M], 2)
    compliance = 1e-6 * np.trace((D / stiffness) @ D.T) / 9

    def energy(x):  # x in mm
        stretch = np.maximum(1e3 * displacement - D @ x, 0)
        return (
            0.5 * stiffness @ x**2 + 0.5 * stretch @ stretch / compliance,
            stiffness * x - D.T @ stretch / compliance,
        )

    found = TAUT.shape(displacement).clarke[0]
    value, gradient = energy(1e3 * found)
    assert np.linalg.norm(gradient) < 1e-5 * (1 + np.abs(D.T).sum() / compliance * 1e-3)
    other = minimize(energy, 1e3 * found + 0.05, jac=True, method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    assert value <= other.fun * (1 + 1e-6) + 1e-9


@given(displacement=displacements.map(lambda q: q - q.max()))
def test_nothing_pulled_stays_straight(displacement):
    shape = TAUT.shape(displacement)
    np.testing.assert_allclose(shape.clarke, 0, atol=1e-12)


def test_stiff_segment_bends_less():
    stiff = dataclasses.replace(
        ROBOT.segments[0], backbone=dataclasses.replace(ROBOT.segments[0].backbone, youngs_modulus_pa=150e9)
    )
    robot = dataclasses.replace(ROBOT, segments=(stiff, *ROBOT.segments[1:]))
    displacement = np.full(9, -0.010)
    displacement[6] = 0.003
    clarke = TautTendons(robot).shape(displacement).clarke[0].reshape(3, 2)
    bending = np.linalg.norm(clarke, axis=1)
    assert bending[0] / bending[1] == pytest.approx(0.06 / 0.0625 / 3, rel=1e-6)


@pytest.mark.parametrize("displacement", [np.zeros(8), np.full(9, np.nan), np.zeros((2, 10))])
def test_refuses_wrong_shapes_and_unknown_values(displacement):
    with pytest.raises(ParameterError, match="displacement"):
        TAUT.shape(displacement)
