# SPDX-License-Identifier: Apache-2.0
"""Which transmissions a robot file may state, and the maps between tendons and motors that follow."""

from __future__ import annotations

import numpy as np
import pytest
from changed_robots import pair, pair_values
from hypothesis import given
from hypothesis import strategies as st
from robot_files import made

from continuum_robot.app.running.stack import choose_level
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.coupling import Coupling, coupling_of
from continuum_robot.robot.loading import load_robot


@pytest.mark.parametrize(
    ("transmission", "key", "said"),
    [
        ({"matrix": [[1.0]]}, "transmission.matrix", "2 rows, one a tendon"),
        ({"matrix": [[1.0], [-1.0, 0.5]]}, "transmission.matrix[1]", "1 entries, one a motor"),
        ({"matrix": [[1.0], [0.0]]}, "transmission.matrix[1]", "a motor that pulls this tendon"),
        ({"matrix": [[1.0, 2.0], [1.0, 2.0]]}, "transmission.matrix", "columns that are independent"),
        ({"preload_n": 0.0}, "transmission.preload_n", "1 motors hold 2 tendons tight"),
        ({"matrix": [[1.0, 0.3], [0.0, 1.0]], "preload_n": 5.0}, "transmission.preload_n", "a motor for each tendon"),
        ({"layer_m": [1e-3, 1e-3]}, "transmission.layer_m", "1 values, one a motor"),
        ({"matrix": [], "preload_n": 0.0}, "transmission", "matrix nor layer_m"),
        ({"layer_m": [0.015]}, "transmission.layer_m", "the spool"),
    ],
)
def test_what_cannot_be_is_refused_by_key(transmission, key, said):
    values = pair_values()
    values["transmission"].update(transmission)
    with pytest.raises(RobotFileError) as caught:
        made(values)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_keys_without_effect_are_refused():
    values = pair_values()
    values["control"]["pretension_n"] = 4.0
    with pytest.raises(RobotFileError, match=r"control.pretension_n: 4.0 .*preload_n"):
        made(values)
    for strategy in ("clip", "preload"):
        values = pair_values()
        values["control"]["tendon_forces"] = strategy
        with pytest.raises(RobotFileError, match=f"control.tendon_forces: '{strategy}'"):
            made(values)
    values = pair_values()
    del values["actuators"], values["limits"], values["control"]
    with pytest.raises(RobotFileError, match=r"actuators: None .*there is a transmission"):
        made(values)


def with_motors(*motors):
    values = pair_values()
    values["hardware"] = {
        "serial_number": "one",
        "tendon_actuators": {"kind": "dynamixel", "port": "/dev/null", "motors": list(motors)},
    }
    return made(values)


def test_motors_are_those_of_the_columns():
    assert with_motors({"id": 7, "column": 1}).motor_count == 1
    for motors, said in (
        ([{"id": 7, "tendon": 1}], r"motors\[0\].tendon: 1 .* none, but column"),
        ([{"id": 7, "column": 2}], r"motors\[0\].column: 2 .* 1 to 1, the columns"),
        ([{"id": 7}], r"motors\[0\].column: None"),
        ([{"id": 7, "column": 1}, {"id": 8, "column": 1}], r"motors\[1\].column: 1 .* a column of its own"),
        ([], r"a motor for column 1 too"),
    ):
        with pytest.raises(RobotFileError, match=said):
            with_motors(*motors)


def test_a_column_needs_a_transmission():
    values = pair_values()
    del values["transmission"]
    values["hardware"] = {
        "serial_number": "one",
        "tendon_actuators": {
            "kind": "dynamixel",
            "port": "/dev/null",
            "motors": [{"id": 7, "tendon": 1}, {"id": 8, "tendon": 2, "column": 1}],
        },
    }
    with pytest.raises(RobotFileError, match=r"motors\[1\].column: 1 .* no transmission"):
        made(values)


@pytest.mark.parametrize("level", ["mujoco"])
def test_levels_that_have_a_motor_for_each_tendon_are_refused(level):
    with pytest.raises(ParameterError, match="a motor for each tendon"):
        choose_level(level, pair(), real_time=False)
    assert choose_level("auto", pair(), real_time=False).name == "dynamics"


def test_robots_without_a_transmission_have_none():
    robot = load_robot("three_segment_servo")
    assert coupling_of(robot) is None
    assert robot.motor_count == robot.tendon_count == 9


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 2e-3))
def test_power_is_conserved_and_round_trips_end_where_they_began(seed, layer_m):
    """tau . dx = F . dq for any matrix and any layers, by differences of the map of places."""
    rng = np.random.default_rng(seed)
    motors = int(rng.integers(1, 3))
    matrix = rng.uniform(0.2, 2.0, (2, motors)) * rng.choice([-1, 1], (2, motors))
    if motors == 2:
        matrix += 3 * np.eye(2) * np.sign(matrix)
    coupling = Coupling(pair(matrix.tolist(), 8.0 if motors == 1 else 0.0, layer_m=[layer_m] * motors))
    turned, rate, tension = rng.uniform(-5e-3, 5e-3, motors), rng.uniform(-1, 1, motors), rng.uniform(0, 20, 2)

    def place(by):
        return coupling.tendons(coupling.wound(turned + by * rate))

    step = 1e-6
    moved = (place(step) - place(-step)) / (2 * step)
    torque = coupling.forces(tension) * coupling.radius(turned)
    assert torque @ rate == pytest.approx(tension @ moved, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(coupling.turned(coupling.motors(place(0.0))), turned, atol=1e-12)
    known = coupling.loads(coupling.forces(tension))
    if motors == 2:
        np.testing.assert_allclose(known, tension, atol=1e-9)
    elif not np.isnan(known).any():
        np.testing.assert_allclose(coupling.forces(known), coupling.forces(tension), atol=1e-9)


def test_a_capstan_tells_the_difference_and_the_preload_the_sum():
    coupling = Coupling(pair())
    np.testing.assert_allclose(coupling.offset_m, 8.0 / 2e4)
    np.testing.assert_allclose(coupling.loads(np.array([6.0])), [11.0, 5.0])


def test_the_softer_tendon_takes_less_of_the_difference():
    """By the springs themselves: F = k (q - path), with paths that change against each other."""
    values = pair_values()
    values["segments"][0]["tendons"]["stiffness_n_per_m"] = [1e4, 2e4]
    stiffness = np.array([1e4, 2e4])
    coupling = Coupling(made(values))
    path, wound = 2e-3 * np.array([1.0, -1.0]), np.array([2.3e-3])
    tension = stiffness * (coupling.tendons(wound) - path)
    np.testing.assert_allclose(coupling.loads(coupling.forces(tension)), tension, atol=1e-9)
    np.testing.assert_allclose(stiffness * coupling.tendons(np.zeros(1)), 8.0)


def test_where_the_preload_does_not_tell_tensions_they_are_unknown():
    """With unequal ratios the paths stretch the tendons by what their lengths alone do not say."""
    coupling = Coupling(pair([[1.0], [-0.8]]))
    assert np.isnan(coupling.loads(np.array([6.0]))).all()


def test_a_growing_spool_winds_the_length_of_its_spiral():
    """Against the sum of a fine polygon of the spiral."""
    robot = pair(layer_m=[1.5e-3])
    coupling, turns = Coupling(robot), 1.7
    angle = np.linspace(0, 2 * np.pi * turns, 200001)
    radius = 0.01 + 1.5e-3 * (angle[:-1] + angle[1:]) / (4 * np.pi)
    length = float((radius * np.diff(angle)).sum())
    assert coupling.wound(np.array([0.01 * angle[-1]]))[0] == pytest.approx(length, rel=1e-9)


def test_commands_outside_the_range_are_refused_with_the_tendon():
    coupling = Coupling(pair())
    begin = coupling.tendons(np.array([2e-3]))
    with pytest.raises(ParameterError, match=r"transmission.matrix: tendon \d would be .* mm from it"):
        coupling.motors(begin + np.full(2, 1e-4))
    np.testing.assert_allclose(coupling.motors(begin + np.full(2, 1e-6)), [2e-3], atol=1e-12)
    with pytest.raises(ParameterError):
        coupling.motors(np.array([np.nan, 0.0]))
