# SPDX-License-Identifier: Apache-2.0
"""Two contacts on the page: two arrows where both are located, one arrow where they are not."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed: the extra viz")

from continuum_robot.app.client.state import ContactState, RobotState
from continuum_robot.app.view.legend import contact_words
from continuum_robot.app.view.scene import Scene
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("vanderbilt_two_segment")
PAIR = ContactState(
    state="contact",
    in_contact=True,
    kind="several",
    wrench_arc_length_m=0.3,
    force_there_n=np.array([5.0, 1.0, np.nan]),
    pair_arc_lengths_m=np.array([0.2, 0.6]),
    pair_deviations_m=np.array([0.01, 0.02]),
    pair_forces_n=np.array([[-8.0, 0.0, 0.0], [0.0, 4.0, 0.0]]),
)


class Server:
    """Takes whatever is added, and keeps a handle of it by name."""

    def __init__(self):
        self.scene, self.handles = self, {}

    def __getattr__(self, _name):
        def add(name="", *_values, **_looks):
            handle = SimpleNamespace(visible=True, points=None, text="", position=None)
            self.handles[name] = handle
            return handle

        return add


@pytest.fixture
def drawn():
    server = Server()
    scene = Scene(server, ROBOT, robot_model(ROBOT).drawing(), 10.0)

    def draw(contact):
        straight = np.zeros(ROBOT.coefficient_count)
        scene.draw(RobotState(coefficients=straight, contact=contact), None, 10.0, None)
        return server.handles

    return draw


def test_both_forces_are_arrows_at_their_locations(drawn):
    handles = drawn(PAIR)
    assert handles["/robot/pair"].visible
    assert not handles["/robot/force"].visible
    heads = np.asarray(handles["/robot/pair"].points)[:, 1] * ROBOT.length_m
    assert heads[:, 2] == pytest.approx([0.2, 0.6], abs=1e-6)
    tails = np.asarray(handles["/robot/pair"].points)[:, 0] * ROBOT.length_m
    assert tails[0, 0] > heads[0, 0]  # it pushes towards -x
    assert tails[1, 1] < heads[1, 1]
    assert handles["/robot/force_label"].text == "contact, two: 8 N at 200 ± 10 mm and 4 N at 600 ± 20 mm"


def test_one_arrow_is_left_where_a_location_is_unknown(drawn):
    drawn(PAIR)
    half = dataclasses.replace(PAIR, pair_arc_lengths_m=np.array([np.nan, 0.6]))
    handles = drawn(half)
    assert not handles["/robot/pair"].visible
    assert handles["/robot/force"].visible
    assert "two" not in contact_words(half)


def test_nothing_is_left_of_a_pair_that_is_over(drawn):
    drawn(PAIR)
    handles = drawn(ContactState(state="clear"))
    assert not handles["/robot/pair"].visible
    assert not handles["/robot/force"].visible
    assert not handles["/robot/force_label"].visible
