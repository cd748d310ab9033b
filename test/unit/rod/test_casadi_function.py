# SPDX-License-Identifier: Apache-2.0
import casadi as ca
import numpy as np
import pytest

from continuum_robot.rod.casadi_function import CasadiFunction


def test_matrices_go_in_and_come_out_by_rows_and_columns():
    X, a = ca.SX.sym("X", 3, 2), ca.SX.sym("a")
    function = CasadiFunction(ca.Function("example", [X, a], [a * X.T, ca.sum1(X).T]))
    given = np.arange(6.0).reshape(3, 2)
    turned, total = function(given, 2.0)
    function(0 * given, 1.0)  # results are the caller's
    np.testing.assert_array_equal(turned, 2 * given.T)
    np.testing.assert_array_equal(total, given.sum(axis=0))
    with pytest.raises(ValueError, match="argument"):
        function(given)
