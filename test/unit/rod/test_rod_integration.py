# SPDX-License-Identifier: Apache-2.0
import casadi as ca
import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.rod.code.generation import FastFunction
from continuum_robot.rod.integration import rk4_step, simulate


def oscillator():
    x, force = ca.SX.sym("x", 2), ca.SX.sym("force")
    return ca.Function("oscillator", [x, force], [ca.vertcat(x[1], force - 4 * x[0])])


def test_rk4_is_of_fourth_order():
    exact = np.array([np.cos(2 * 0.8), -2 * np.sin(2 * 0.8)])
    errors = []
    for substeps in (4, 8, 16):
        step = FastFunction(rk4_step(oscillator(), substeps=substeps))
        errors.append(np.abs(step([1.0, 0.0], 0.0, 0.8) - exact).max())
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 16, rtol=0.15)


def test_substeps_are_steps():
    one = FastFunction(rk4_step(oscillator()))
    three = FastFunction(rk4_step(oscillator(), substeps=3, name="three"))
    x = np.array([0.3, -1.0])
    for _ in range(3):
        x = one(x, 2.5, 0.1)
    np.testing.assert_allclose(three([0.3, -1.0], 2.5, 0.3), x, atol=1e-15)
    with pytest.raises(ParameterError, match="substeps = 0"):
        rk4_step(oscillator(), substeps=0)


def test_the_fixed_and_the_adaptive_solver_agree(virtual):
    tension = np.array([2.0, 0.5, 0, 0, 0.3, 0, 1.0, 0, 0, 0.2])
    start, rate = np.array([1.0, -2.0, 3.0, 0.5]), np.array([5.0, 0, -8.0, 2.0])
    adaptive = simulate(virtual, start, rate, [0.0, 0.1, 0.2], tension=lambda t, c, c_rate: tension)
    step = FastFunction(rk4_step(virtual.state_derivative, substeps=4))
    x = np.concatenate([start, rate])
    for _ in range(200):
        x = step(x, tension, np.zeros(4), 0.001)
    np.testing.assert_allclose(adaptive.c[-1], x[:4], rtol=1e-6)
    np.testing.assert_allclose(adaptive.c_rate[-1], x[4:], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(adaptive.c[0], start)
    assert adaptive.c.shape == (3, 4)


def test_loads_get_time_and_state(virtual):
    c, none = np.array([1.0, 2.0, 0.5, 0.3]), np.zeros(4)
    weight = virtual.inverse_dynamics(c, none, none)
    motion = simulate(virtual, c, none, [0.0, 0.05], generalized_force=lambda t, c, c_rate: weight)
    np.testing.assert_allclose(motion.c[-1], c, atol=1e-9)


def test_leaving_the_range_of_the_kinematics_is_an_error(virtual):
    pull = np.zeros(10)
    pull[5] = 20.0
    with pytest.raises(ParameterError, match="bending angle"):
        simulate(virtual, np.zeros(4), np.zeros(4), np.linspace(0, 1.0, 50), tension=lambda t, c, c_rate: pull)
