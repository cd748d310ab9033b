# SPDX-License-Identifier: Apache-2.0
"""The pretension as a reference: reached at its rate, in the null space of the tensions; it survives new gains."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("opencr_five_tendon")
DT = 1e-3
RATE = ROBOT.control.pretension_rate_n_per_s


def stepped(controller, cycles):
    place = np.array([3e-3, 1e-3])
    reference = ClarkeReference.at_rest(place)
    displacement = controller.manifold.displacement_matrix @ (place - 1e-5)
    return [controller.update(displacement, np.zeros(5), reference, DT) for _ in range(cycles)]


@pytest.mark.parametrize("pretension_n", [8.0, 1.6])
def test_it_goes_there_at_its_rate_without_forcing_a_coordinate(pretension_n):
    asked, other = ClarkeController(ROBOT), ClarkeController(ROBOT)
    asked.ask_pretension(pretension_n)
    cycles = round(abs(pretension_n - ROBOT.control.pretension_n) / RATE / DT) + 2
    outputs, plain = stepped(asked, cycles), stepped(other, cycles)
    lowest = np.array([ROBOT.control.pretension_n, *(output.command.min() for output in outputs)])
    assert np.abs(np.diff(lowest)).max() <= RATE * DT * (1 + 1e-6)
    assert lowest[-1] == pytest.approx(pretension_n)
    for one, same in zip(outputs, plain, strict=True):
        np.testing.assert_array_equal(one.generalized_force, same.generalized_force)
        np.testing.assert_allclose(
            asked.manifold.generalized_force(one.command), same.generalized_force, rtol=1e-9, atol=1e-12
        )


def test_new_gains_do_not_take_it_back_and_a_new_pretension_of_the_settings_does():
    controller = ClarkeController(ROBOT)
    controller.ask_pretension(6.0)
    stepped(controller, 100)
    before = controller.pretension
    gains = tuple(dataclasses.replace(one, p=1.1 * one.p) for one in ROBOT.control.gains)
    controller.set_settings(dataclasses.replace(ROBOT.control, gains=gains))
    assert controller.pretension == before
    stepped(controller, 1000)
    assert controller.pretension == 6.0
    controller.set_settings(dataclasses.replace(ROBOT.control, pretension_n=2.0))
    assert controller.pretension == 2.0


@pytest.mark.parametrize("pretension_n", [-1.0, float("nan"), float("inf")])
def test_impossible_ones_are_refused(pretension_n):
    with pytest.raises(ParameterError, match="pretension_n"):
        ClarkeController(ROBOT).ask_pretension(pretension_n)


def test_settings_that_repeat_what_was_asked_for_do_not_jump_there():
    controller = ClarkeController(ROBOT)
    controller.ask_pretension(6.0)
    stepped(controller, 100)
    before = controller.pretension
    controller.set_settings(dataclasses.replace(ROBOT.control, pretension_n=6.0))
    assert controller.pretension == before
    stepped(controller, 1000)
    assert controller.pretension == 6.0
