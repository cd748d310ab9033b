# SPDX-License-Identifier: Apache-2.0
"""Feed-forward of cogging: the table between its entries, the lead, fading, and what is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.cogging import CoggingCompensation, strongest_harmonic
from continuum_robot.errors import ParameterError

ENTRIES = 90


def compensation(amplitude=2.0, lead_s=0.0, m_per_turn=(0.01, -0.02)):
    table = [amplitude * np.cos(3 * 2 * np.pi * np.arange(ENTRIES) / ENTRIES), np.arange(ENTRIES) / ENTRIES]
    result = CoggingCompensation(2)
    result.set_table([row.tolist() for row in table], list(m_per_turn), lead_s)
    return result, np.array(table)


def faded_in(lead_s=0.0):
    result, table = compensation(lead_s=lead_s)
    result.switch(on=True)
    for _ in range(250):
        result.step([0.0, 0.0], [0.0, 0.0], 0.0, True)
    return result, table


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_forces_are_those_of_numpy_interpolation(one, other):
    result, table = faded_in()
    q = [0.01 * one, 0.02 * other]
    result.step(q, [0.0, 0.0], 0.0, True)
    for j, turns in enumerate((q[0] / 0.01, q[1] / -0.02)):
        place = (turns % 1.0) * ENTRIES
        expected = np.interp(place, np.arange(ENTRIES + 1), [*table[j], table[j][0]])
        # The second table jumps by nearly 1 over its last entry: rounding of the place shows there.
        assert result.here_n[j] == pytest.approx(expected, abs=1e-8)
        assert result.ahead_n[j] == result.here_n[j]


def test_the_force_is_read_where_the_motor_will_be():
    result, table = faded_in(lead_s=0.002)
    result.step([0.0, 0.0], [0.1, 0.0], 0.001, True)
    at = 0.1 * 0.003 / 0.01 * ENTRIES
    assert result.ahead_n[0] == pytest.approx(np.interp(at, np.arange(ENTRIES), table[0]))
    assert result.here_n[0] == pytest.approx(table[0][0])


def test_it_fades_in_and_out_without_a_jump_and_is_exactly_off_then():
    result, table = compensation()
    result.step([0.0, 0.0], [0.0, 0.0], 0.0, True)
    assert not result.acts
    assert result.forces() == [0.0, 0.0]
    before, forces = 0.0, []
    for on in (True, False):
        result.switch(on=on)
        for _ in range(201):
            result.step([0.0, 0.0], [0.0, 0.0], 0.0, True)
            forces.append(result.ahead_n[0] if result.acts else 0.0)
    for force in forces:
        assert abs(force - before) <= 0.005 * table[0][0] + 1e-12
        before = force
    assert max(forces) == pytest.approx(table[0][0])
    assert not result.acts


def test_a_motor_of_unknown_position_keeps_its_force():
    result, _ = faded_in()
    before = result.forces()
    result.step([math.nan, 0.003], [0.0, math.nan], 0.0, True)
    assert result.forces() == before


@pytest.mark.parametrize(
    ("table", "per_turn", "lead_s"),
    [
        ([[0.0, 1.0]], [0.01], 0.0),
        ([[0.0, 1.0], [0.0]], [0.01, 0.01], 0.0),
        ([[0.0, math.nan], [0.0, 1.0]], [0.01, 0.01], 0.0),
        ([[0.0, 1.0], [0.0, 1.0]], [0.01, 0.0], 0.0),
        ([[0.0, 1.0], [0.0, 1.0]], [0.01, 0.01], -1.0),
    ],
)
def test_wrong_tables_are_refused(table, per_turn, lead_s):
    result, _ = compensation()
    with pytest.raises(ParameterError):
        result.set_table(table, per_turn, lead_s)


def test_it_is_not_switched_on_without_a_table():
    result = CoggingCompensation(2)
    with pytest.raises(ParameterError, match="calibrate-cogging"):
        result.switch(on=True)
    result, _ = faded_in()
    result.set_table([], [])
    assert not result.on
    assert not result.acts


def test_motors_without_torque_get_nothing_and_fade_in_again():
    result, table = faded_in()
    result.step([0.0, 0.0], [0.0, 0.0], 0.0, False)
    assert not result.acts
    result.step([0.0, 0.0], [0.0, 0.0], 0.0, True)
    assert result.ahead_n[0] == pytest.approx(0.005 * table[0][0])


@pytest.mark.parametrize(("speed", "fraction"), [(0.0, 1.0), (0.01, 1.0), (-0.015, 0.5), (0.02, 0.0), (-1.0, 0.0)])
def test_fast_motors_get_less(speed, fraction):
    result, table = faded_in()
    result.set_table([row.tolist() for row in table], [0.01, -0.02], 0.0, [0.02, 0.02])
    result.step([0.0, 0.0], [speed, 0.0], 0.0, True)
    assert result.here_n[0] == pytest.approx(fraction * table[0][0])


def test_the_strongest_harmonic_is_found():
    angle = 2 * np.pi * np.arange(200) / 200
    assert strongest_harmonic(0.3 * np.sin(7 * angle) + 2.0 + 0.1 * np.cos(30 * angle)) == 7
    assert strongest_harmonic(np.zeros(10)) == 1
