# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from continuum_robot.robot.basis import Basis, Chebyshev
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.bases import (
    basis_matrix,
    gauss_legendre,
    strain_matrix,
)

RATIOS = np.linspace(0, 1, 11)


def segment_of_order(order):
    basis = Basis(kind="chebyshev_bending", order=order) if order else Basis()
    return dataclasses.replace(load_robot("two_segment").segments[0], basis=basis)


@pytest.mark.parametrize("order", [0, 1, 2, 5, 12])
def test_polynomials_are_numpys_chebyshev(order):
    ours = np.array([Chebyshev().values(ratio, order) for ratio in RATIOS]).T
    theirs = chebyshev.chebvander(2 * RATIOS - 1, order).T
    np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_raising_the_order_keeps_the_meaning_of_the_first_coefficients():
    low, high = segment_of_order(1).basis, segment_of_order(4).basis
    for ratio in RATIOS:
        np.testing.assert_array_equal(basis_matrix(high, ratio)[:, :4], basis_matrix(low, ratio))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_gram_matrix_is_the_integral_of_the_squared_curvature(order):
    segment = segment_of_order(order)
    c = np.random.default_rng(2).normal(size=segment.basis.coefficient_count)
    nodes, weights = gauss_legendre(40)
    curvature = np.array([(basis_matrix(segment.basis, x) @ c)[:2] for x in nodes])
    expected = segment.length_m * weights @ np.sum(curvature**2, axis=1)
    np.testing.assert_allclose(
        c @ strain_matrix([(segment.basis, segment.length_m, (1, 1, 0, 0, 0, 0), ())]) @ c, expected, rtol=1e-13
    )
