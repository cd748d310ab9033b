# SPDX-License-Identifier: Apache-2.0
"""Commands of tensions to motors behind a transmission: what comes of them, within which limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from changed_robots import CAPSTAN, PRELOAD_N, tension_values
from hypothesis import given
from hypothesis import strategies as st
from robot_files import made

from continuum_robot.control.limits import LIMITED_MINIMUM, LIMITED_RATE, LIMITED_TOTAL
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.identification.procedures.homing import Mounted, homing_of
from continuum_robot.identification.procedures.tendon_check import tendon_check_of
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.loading import load_robot

GEARS, DIFFERENTIAL = [[1.0, 0.0], [0.3, 1.0]], [[1.0, 1.0], [1.0, -1.0]]
JOHNSTON = load_robot("vanderbilt_two_motors")
ROBOTS = [JOHNSTON, made(tension_values()), *(made(tension_values(matrix, 0.0)) for matrix in (GEARS, DIFFERENTIAL))]
ALL = SafetySettings(swing_fraction=1.0, headroom_fraction=0.0, soft_fraction=1.0)


def begun(robot, tension_n=None):
    """The rules of a robot from measured tensions on."""
    rules, nothing = TendonSafety(robot, ALL).rules, np.zeros(robot.tendon_count)
    measured = np.full(robot.tendon_count, np.nan) if tension_n is None else tension_n
    assert not rules.prepare(TendonReading(0.0, nothing, nothing, measured, nothing * np.nan, nothing, nothing), True)
    rules.start()
    return rules


@given(st.sampled_from(ROBOTS), st.integers(0, 2**32 - 1))
def test_every_command_is_within_all_limits_and_can_be_made(robot, seed):
    rng, coupling, limits, rules = np.random.default_rng(seed), Coupling(robot), robot.limits, begun(robot)
    largest_n = robot.actuators.maximum_tension_n * (1 + 1e-9)
    for _ in range(30):
        before, since_s = np.array(rules.command), float(rng.uniform(0, 0.02))
        rules.limit(rng.uniform(-0.5, 1.5, len(before)) * limits.maximum_n, since_s)
        tension = np.array(rules.command)
        assert limits.minimum_n - 1e-9 <= tension.min() <= tension.max() <= limits.maximum_n + 1e-9
        assert tension.sum() <= limits.total_n + 1e-9
        assert np.abs(tension - before).max() <= limits.rate_n_per_s * since_s + 1e-9
        assert np.abs(coupling.forces(tension)).max() <= largest_n
        np.testing.assert_allclose(coupling.loads(coupling.forces(tension)), tension, atol=1e-9)


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.name)
def test_what_motors_can_make_is_reached_whatever_the_tendons_share(robot):
    rng, coupling, rules = np.random.default_rng(0), Coupling(robot), begun(robot)
    own = np.eye(robot.tendon_count) if not coupling.shares else coupling.told @ coupling.matrix.T
    middle = np.full(robot.tendon_count, max(robot.control.pretension_n, 8.0))
    wanted = middle + own @ rng.uniform(-3, 3, robot.tendon_count)
    idle = coupling.missed @ rng.uniform(-5, 5, robot.tendon_count) if coupling.shares else 0.0
    for _ in range(200):
        rules.limit((wanted + idle).tolist(), 0.01)
    np.testing.assert_allclose(rules.command, wanted, atol=1e-6)
    assert not any(rules.limited)


def test_bits_say_what_held_a_motor_back():
    rules = begun(made(tension_values()), np.array([14.0, 2.0]))
    for since_s, bit in ((0.001, LIMITED_RATE), (1.0, LIMITED_MINIMUM)):
        rules.limit([30.0, 0.0], since_s)
        assert list(rules.limited) == [bit, bit]
    np.testing.assert_allclose(rules.command, [15.0, 1.0])
    rules = begun(made(tension_values(GEARS, 0.0)), np.array([20.0, 2.0]))
    rules.limit([20.0, 29.0], 1.0)
    assert LIMITED_TOTAL in rules.limited
    assert sum(rules.command) == pytest.approx(45.0)


def test_what_is_not_told_begins_at_the_preload():
    np.testing.assert_allclose(begun(made(tension_values())).command, PRELOAD_N)
    np.testing.assert_allclose(begun(made(tension_values()), np.array([9.0, 6.0])).command, [9.5, 6.5])


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("limits", "safe_n", 1.0, "transmission.preload_n = 8 N"),
        ("control", "pretension_n", 3.0, "8.0, or none"),
        ("control", "tendon_forces", "clip", "preload, or none"),
    ],
)
def test_keys_that_the_preload_decides_are_refused(section, key, value, said):
    values = tension_values()
    values[section][key] = value
    with pytest.raises(RobotFileError, match=f"{section}.{key}: .*{said}"):
        made(values)
    plain = load_robot("opencr_five_tendon")
    with pytest.raises(RobotFileError, match="no motors share tendons"):
        plain.changed(control=dataclasses.replace(plain.control, tendon_forces="preload"))


def test_tensions_that_nothing_tells_cannot_be_commanded():
    with pytest.raises(ParameterError, match=r"transmission\.matrix .*tell no tensions"):
        Coupling(made(tension_values([[1.0], [-0.8]])))


def test_each_motors_current_is_some_tendons():
    for robot in ROBOTS:
        coupling, currents = Coupling(robot), np.arange(1.0, robot.motor_count + 1)
        np.testing.assert_array_equal(coupling.each_motors(coupling.each_tendons(currents)), currents)
    np.testing.assert_array_equal(Coupling(JOHNSTON).each_tendons(np.array([1.0, 2.0])), [1, 2, -1, -2])


def test_a_tendon_has_half_of_the_motor_that_two_share():
    halves = load_robot("vanderbilt_segment").actuators
    assert JOHNSTON.tendon_actuators.rotor_inertia_kg_m2 == pytest.approx(halves.rotor_inertia_kg_m2)
    values = tension_values(CAPSTAN)
    pair = made(values)
    for key in ("viscous_friction_nms", "coulomb_friction_nm"):
        assert getattr(pair.tendon_actuators, key) == pytest.approx(0.5 * values["actuators"][key])


def test_homing_takes_the_pose_and_procedures_that_pull_one_tendon_are_refused():
    robot = made(tension_values())
    homing, coupling = homing_of(robot), Coupling(robot)
    assert isinstance(homing, Mounted)
    place, nothing = coupling.offset_m + 3e-3, np.zeros(2)
    for _ in range(1000):
        step = homing.update(TendonReading(0.0, place, nothing, nothing + 8.0, nothing, nothing, nothing), 0.01)
        np.testing.assert_array_equal(step.command, [8.0, 8.0])
        if step.done:
            break
    np.testing.assert_allclose(homing.result.zero_m, 3e-3)
    with pytest.raises(ParameterError, match="a motor for each tendon"):
        tendon_check_of(robot)
