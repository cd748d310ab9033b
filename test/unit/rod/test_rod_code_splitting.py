# SPDX-License-Identifier: Apache-2.0
"""Long C functions in parts compute the same to the last bit."""

import re
import subprocess

import casadi as ca
import numpy as np
import pytest

from continuum_robot.rod.code import generation as code_generation
from continuum_robot.rod.code.generation import compile_functions, generate_c
from continuum_robot.rod.code.library import find_compiler
from continuum_robot.rod.code.splitting import split_functions


def long_function(length, name="chain"):
    """Straight-line code with values of all ages, that calls another function, and returns some values early."""
    x, y = ca.SX.sym("x", 3), ca.SX.sym("y", 2, 2)
    inner = ca.Function("inner", [x], [ca.sin(x) * x[0], ca.sum1(x)], {"never_inline": True})
    values = [x[0], x[1], y[0, 1], y[1, 1]]
    early = x[2] * y[0, 0]
    for k in range(length):
        values.append(values[(7 * k) % len(values)] * 0.5 - values[-1] * ca.cos(values[-3]))
    turned, total = inner(ca.vertcat(*values[-3:]))
    return ca.Function(name, [x, y], [early, turned, ca.vertcat(total, *values[::40])])


@pytest.mark.parametrize("statements", [1, 7, 100])
def test_parts_compute_the_same_to_the_last_bit(tmp_path, monkeypatch, statements):
    find_compiler()
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path))
    function, arguments = long_function(300), ([0.3, -0.7, 1.1], [0.2, 0.4, -0.6, 0.9])
    monkeypatch.setattr(code_generation, "_PART_STATEMENTS", 10**9)
    whole = compile_functions([function], "whole", compile="always")["chain"](*arguments)
    monkeypatch.setattr(code_generation, "_PART_STATEMENTS", statements)
    parts = compile_functions([function], "parts", compile="always")["chain"](*arguments)
    assert len(list(tmp_path.glob("*.so"))) == 2
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(
        parts[2].ravel(),
        function(*map(np.array, (arguments[0], np.reshape(arguments[1], (2, 2)).T)))[2].full().ravel(),
        rtol=1e-12,
    )


def test_no_part_is_long_and_short_functions_stay_as_they_are():
    source = generate_c([long_function(300), long_function(10, "short")])
    split = split_functions(source, 50)
    parts = re.findall(r"static int (casadi_f\d+)_part(\d+)\(", split)
    assert len({name for name, _ in parts}) == 1
    assert len(parts) > 6
    for body in re.findall(r"_part\d+\(const[^{]*\{\n(.*?)\n\}", split, re.DOTALL):
        assert sum("kept[" not in line for line in body.split("\n")) <= 50 + 2
    assert split_functions(generate_c([long_function(10)]), 50) == generate_c([long_function(10)])


def test_functions_with_loops_stay_whole():
    x = ca.MX.sym("x", 30, 30)
    function = ca.Function("loops", [x], [ca.mtimes(ca.mtimes(x, x), x) + x])
    assert split_functions(generate_c([function]), 1) == generate_c([function])


def test_split_code_compiles_without_warnings(tmp_path):
    compiler, _ = find_compiler()
    code = tmp_path / "code.c"
    code.write_text(split_functions(generate_c([long_function(300)]), 20), encoding="utf-8")
    answer = subprocess.run(
        [compiler, "-Wall", "-Wno-unused", "-O1", "-c", str(code), "-o", str(tmp_path / "code.o")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not answer.stderr
