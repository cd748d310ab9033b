# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from continuum_robot.experiments.johnston.multisegment import distal_alone, multisegment
from continuum_robot.experiments.johnston.segment import CapstanModel
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod


def test_distal_segment_alone_is_that_of_the_robot_with_a_straight_proximal_one_at_rest():
    robot = load_robot("vanderbilt_two_segment")
    both, alone = Rod(robot), Rod(distal_alone(robot))
    c = np.array([0.4, -0.9, 0.2, 0.3, -0.1, 0.2])
    whole = np.append(np.zeros(6), c)
    found, expected = alone.terms(c, 0 * c).force, both.terms(whole, 0 * whole).force[6:]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    # The drives of the distal segment ride on it, so that they turn with its own coefficients alone.
    jacobian = CapstanModel(distal_alone(robot)).capstan_jacobian
    assert jacobian.shape == (2, 6)


@pytest.mark.long
def test_both_couplings_have_numbers_for_both_segments():
    options = {"farthest_deg": 10, "speed_deg_per_s": 180}
    result = multisegment.run(options)
    json.dumps(result, allow_nan=False)
    assert set(multisegment.paper) <= set(result)
    assert {key.replace("uncoupled", "coupled") for key in multisegment.paper} <= set(result)
    # Hanging at rest, the observer of the whole robot sees less that is not there.
    for method in ("gmo", "jfd"):
        assert result[f"coupled_{method}_proximal_rmse_y_n"] < result[f"uncoupled_{method}_proximal_rmse_y_n"]
