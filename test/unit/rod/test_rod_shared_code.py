# SPDX-License-Identifier: Apache-2.0
"""Code that exists once computes the same, and so do its derivatives."""

import casadi as ca
import numpy as np
import pytest

from continuum_robot.rod.code.shared import shared_code


def formula(matrix, vector):
    return matrix @ ca.sin(vector), ca.dot(vector, vector)


@pytest.mark.parametrize("kind", [ca.SX, ca.MX])
def test_calls_compute_what_the_formula_does_and_have_its_derivatives(kind):
    x = kind.sym("x", 3)
    first, second = ca.diag(x), ca.DM([[1, 2, 0], [0, 1, 0], [3, 0, 1]])
    called = [*shared_code("formula", formula, first, x), *shared_code("formula", formula, second, 2 * x)]
    plain = [*formula(first, x), *formula(second, 2 * x)]
    functions = [
        ca.Function("f", [x], [ca.vertcat(*values), ca.jacobian(ca.vertcat(*values), x)]) for values in (called, plain)
    ]
    for one, other in zip(*(function([0.3, -1.2, 2.0]) for function in functions), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-15)


def test_the_code_of_arguments_that_are_alike_exists_once():
    x = ca.SX.sym("x", 3)
    results = [shared_code("formula", formula, ca.diag(k * x), x)[0] for k in range(1, 9)]
    dense = shared_code("formula", formula, ca.SX.ones(3, 3) * x[0], x)[0]
    total = ca.Function("f", [x], [sum(results), dense])
    names = {inner.name() for inner in total.find_functions()}
    assert names == {"rod_formula"}
    assert len(total.find_functions()) == 2  # of a diagonal, and of a full matrix
