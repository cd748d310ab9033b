# SPDX-License-Identifier: Apache-2.0
"""Fewer controlled modes than coordinates, by servos that hold displacements: against the rod's equilibria."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from changed_robots import coupled_segments, with_modes, with_servos
from test_displacement_controller import Loop, held, rigid_servos

from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.rod.tendons import clarke_from_modes, controlled_manifold

assert rigid_servos  # the fixture, for this file too
PLACE_M = [0.004, -0.003, 0.002, 0.001]


@pytest.mark.parametrize("modes", [1, 3])
def test_modes_are_held_and_all_others_at_zero(modes):
    whole, place = with_servos("two_segment"), PLACE_M[:modes]
    robot = with_modes(whole, modes)
    loop = Loop(robot)
    found = held(robot, loop.go(place)[-1])
    into = clarke_from_modes(robot)
    np.testing.assert_allclose(clarke_manifold(robot).clarke(found.displacement), into @ place, atol=2e-9)
    np.testing.assert_allclose(loop.control.clarke, loop.start, atol=1e-12)  # the last one observed
    assert found.tension.min() == pytest.approx(robot.control.pretension_n, abs=1e-4)
    # The same place of all coordinates is the same command.
    other = Loop(whole)
    np.testing.assert_allclose(loop.control.command, other.go(into @ place)[-1], atol=1e-9)
    force = np.array(loop.control.force)
    np.testing.assert_allclose(force, into.T @ np.array(other.control.force), atol=1e-6)


def test_two_servos_bend_two_segments_whose_tendons_they_share():
    robot = coupled_segments()
    manifold, coupling = controlled_manifold(robot), coupling_of(robot)
    np.testing.assert_allclose(coupling.missed @ manifold.displacement_matrix, 0, atol=1e-9)
    into = clarke_from_modes(robot)
    np.testing.assert_allclose(into, into[0, 0] * np.vstack([np.eye(2), np.eye(2)]), atol=1e-9)
    loop = Loop(robot, coupling.offset_m)
    place = [0.004, -0.003]
    command = loop.go(place)[-1]
    np.testing.assert_allclose(coupling.missed @ (command - coupling.offset_m), 0, atol=1e-9)
    found = held(robot, command)
    np.testing.assert_allclose(manifold.clarke(found.displacement), place, atol=2e-9)
    np.testing.assert_allclose(found.tension, loop.control.tension, atol=1e-4)
    # What no motor can make, the tendons hold: off by their stretch under what the rod forces them with.
    off = clarke_manifold(robot).clarke(found.displacement) - into @ place
    assert np.abs(off).max() < 2e-4


def test_motors_that_cannot_follow_all_coordinates_name_the_key():
    robot = coupled_segments()
    whole = robot.changed(control=replace(robot.control, modes=0), reference=None)
    with pytest.raises(ParameterError, match=r"cannot follow 1, 2, 3, 4; control\.modes"):
        DisplacementController(whole)
    with pytest.raises(ParameterError, match="2 directions of displacement"):
        controlled_manifold(with_modes(whole, 3))
