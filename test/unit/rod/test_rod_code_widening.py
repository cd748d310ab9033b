# SPDX-License-Identifier: Apache-2.0
"""Loops over columns in vectors of four compute the same to the last bit."""

import casadi as ca
import numpy as np
import pytest

from continuum_robot.rod.code.generation import compile_functions, generate_c
from continuum_robot.rod.code.library import find_compiler
from continuum_robot.rod.code.splitting import split_functions
from continuum_robot.rod.code.widening import WIDTH, widen_loops


def turned(steps):
    """Vectors turned again and again: sums, products, quotients and roots."""
    x, y = ca.SX.sym("x", 3), ca.SX.sym("y", 3)
    a, b = x, y
    for _ in range(steps):
        a, b = ca.cross(a, b) / ca.norm_2(a + 2 * b), 0.5 * a - ca.sumsqr(b) * x
    return ca.Function(f"turned_{steps}", [x, y], [a, ca.vertcat(b, ca.dot(a, y))])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    find_compiler()
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path))


def columns(function, count):
    rng = np.random.default_rng(5)
    return [0.3 + 0.2 * rng.normal(size=(int(function.nnz_in(i)), count)) for i in range(function.n_in())]


@pytest.mark.parametrize("count", [1, WIDTH, 11])
@pytest.mark.parametrize(
    "function", [turned(1), turned(3)]
)
def test_a_mapped_function_gives_what_it_gives_for_each_column(function, count):
    mapped = function.map(count)
    assert ("_wide(" in widen_loops(generate_c([mapped]))) == (count >= WIDTH)
    together = compile_functions([mapped], "mapped", compile="always")[mapped.name()]
    alone = compile_functions([function], "alone", compile="always")[function.name()]
    given = columns(function, count)
    found = together.evaluate(*[value.ravel(order="F") for value in given])  # column after column
    for k in range(count):
        expected = alone.evaluate(*[value[:, k] for value in given])
        for one, all_columns in zip(expected, found, strict=True):
            own = all_columns.ravel(order="F").reshape(count, -1)[k]
            np.testing.assert_array_equal(own, one.ravel(order="F"))


def test_functions_that_branch_or_call_others_stay_as_they_are():
    x = ca.SX.sym("x", 2)
    branching = ca.Function("branching", [x], [ca.if_else(x[0] > 0, x[1], ca.sin(x[0]))])
    inner = ca.Function("inner", [x], [x * 2], {"never_inline": True})
    calling = ca.Function("calling", [x], [inner(x) + 1])
    for function in (branching, calling):
        source = generate_c([function.map(8)])
        assert widen_loops(source) == source


def test_long_functions_are_split_after_widening():
    source = widen_loops(generate_c([turned(8).map(10)]))
    split = split_functions(source, 50)
    assert "_wide_part3(" in split
    assert "casadi_wide kept[" in split
