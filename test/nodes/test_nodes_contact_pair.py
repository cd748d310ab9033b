# SPDX-License-Identifier: Apache-2.0
"""Two pushes at once on a stack in lock-step: the pair on ``contact``, and what motion alone shows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from ros_contact import touched_stack

from continuum_robot.app.client.state import contact_state
from continuum_robot.app.view.legend import contact_words
from continuum_robot.estimation.contact.kind import SEVERAL
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros, pytest.mark.long]

ROBOT = load_robot("vanderbilt_segment")
SCHEDULE = """
contacts:
  - {name: tip, kind: push, arc_length_m: 0.3, force_n: [0.0, 15.0, 0.0], ramp_s: 0.2, start_s: 2.0, end_s: 5.0}
  - {name: body, kind: push, arc_length_m: 0.13, force_n: [-35.0, 0.0, 0.0], ramp_s: 0.2, start_s: 2.0, end_s: 5.0}
"""


@pytest.fixture(scope="module")
def contacts(domain, tmp_path_factory):
    # Without a learned floor the errors that the model may have are large: two pushes look like one, and a bad model.
    parameters = {
        "contact_monitor": {
            "kind.one_contact_confidence": 0.5,
            "stiffness_error_fraction": 0.0,
            "friction_error_fraction": 0.0,
        }
    }
    folder = tmp_path_factory.mktemp("contacts")
    with touched_stack(ROBOT.name, SCHEDULE, folder, parameters, start_motion=False) as (_, probe):
        truth = probe.received["simulated_contact"]
        probe.wait(lambda: any(m.in_contact for m in truth), 20.0, "nothing touched")
        probe.wait(lambda: not truth[-1].in_contact, 20.0, "the pushes did not end")
        probe.pause(1.0)
        return list(probe.received["contact"])


def test_a_pair_is_there_where_one_contact_explains_nothing(contacts):
    several = [message for message in contacts if message.kind == SEVERAL]
    assert several
    for message in contacts:
        count = 2 if message.kind == SEVERAL else 0
        assert len(message.pair_arc_lengths) == len(message.pair_arc_length_deviations) == count
        assert len(message.pair_forces) == 3 * count
        located = np.isfinite(np.array(message.pair_arc_lengths)).all()
        assert bool(message.pair_reason) == (count > 0 and not located)


def test_the_client_has_the_pair_and_what_is_unknown_as_nan(contacts):
    several = next(message for message in reversed(contacts) if message.kind == SEVERAL)
    state = contact_state(several)
    assert state.pair_arc_lengths_m == pytest.approx(np.array(several.pair_arc_lengths), nan_ok=True)
    assert state.pair_forces_n.shape == (2, 3)
    located = bool(np.isfinite(state.pair_arc_lengths_m).all())
    assert ("two: " in contact_words(state)) == located
    clear = contact_state(next(message for message in contacts if message.state == "clear"))
    assert np.isnan(clear.pair_arc_lengths_m).all()


def test_the_segments_motion_is_judged(contacts):
    assert {len(message.screw_deviations) for message in contacts if message.state == "clear"} == {len(ROBOT.segments)}
    assert {message.screw_segment for message in contacts} <= {-1, 0}
