# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of what a policy sees and gives."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot import load_robot
from continuum_robot.control.observations import action, chosen, observations
from continuum_robot.errors import ParameterError


@pytest.mark.parametrize("name", ["opencr_five_tendon", "three_segment_servo", "rucker_helical", "crem_segment"])
def test_the_scale_of_every_observation_is_positive_and_of_its_size(name: str) -> None:
    known = observations(load_robot(name))
    assert {"tendon_states.displacement", "clarke_reference.position", "tip_target"} <= set(known)
    for one in known.values():
        assert one.scale.shape == (one.size,)
        assert np.all((one.scale > 0) & np.isfinite(one.scale))


def test_names_are_those_that_the_robot_has() -> None:
    servos, tensions = observations(load_robot("three_segment_servo")), observations(load_robot("opencr_five_tendon"))
    assert "tendon_commands.displacement" in servos
    assert "tendon_commands.tension" not in servos
    assert "string_lengths.extension" not in servos
    assert tensions["string_lengths.extension"].size == 2
    with pytest.raises(ParameterError, match=r"tendon_commands\.displacement.*one that opencr_five_tendon has"):
        chosen(load_robot("opencr_five_tendon"), ["clarke_state.position", "tendon_commands.displacement"])


@pytest.mark.parametrize(("robot", "name"), [
    ("opencr_five_tendon", "clarke"), ("opencr_five_tendon", "tension"), ("three_segment_servo", "displacement"),
    ("crem_segment", "clarke"),
])  # fmt: skip
def test_actions_go_from_the_lowest_value_to_the_highest_and_back(robot: str, name: str) -> None:
    one = action(load_robot(robot), name)
    np.testing.assert_allclose(one.to_si([-np.ones(one.size), np.ones(one.size)]), [one.low, one.high])
    batch = np.random.default_rng(1).uniform(-1, 1, (3, 2, one.size))
    np.testing.assert_allclose(one.from_si(one.to_si(batch)), batch, atol=1e-12)


def test_an_action_that_the_actuators_do_not_take_is_refused() -> None:
    with pytest.raises(ParameterError, match="action = 'tension' -- expected clarke or displacement"):
        action(load_robot("three_segment_servo"), "tension")
