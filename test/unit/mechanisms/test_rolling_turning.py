# SPDX-License-Identifier: Apache-2.0
"""Tables of rolling joints over their angles, against the statics."""

import numpy as np
import pytest
from rolling import five_links

from continuum_robot.mechanisms.rolling_joint.statics import Balance, Case, joint_moments, link_loads
from continuum_robot.mechanisms.rolling_joint.turning import JointTurning

STATICS = five_links()


@pytest.fixture(scope="module")
def turning():
    return JointTurning(STATICS)


def poses(count):
    rng = np.random.default_rng(2)
    for _ in range(count):
        yield rng.uniform(*STATICS.linkage.limits_m.T), rng.uniform(0.0, 10.0, 2)


def test_levers_carry_the_moments_of_the_statics(turning):
    for contact, tension in poses(100):
        balance = Balance(STATICS.linkage, contact, Case(tension[:, None], link_loads((), 5)))
        joints = turning.at(balance.joints.angle_rad)
        assert joints.contact_m == pytest.approx(contact, abs=2e-5)  # a cell with a jump of curvature in it
        assert joints.gaps_m == pytest.approx(balance.joints.lengths_m, abs=5e-7)
        assert -tension @ joints.levers_m == pytest.approx(joint_moments(balance.moment_nm), abs=3e-4)


def test_a_joint_is_as_stiff_as_its_levers_change(turning):
    low, high = turning.limits_rad.T
    for part in (0.11, 0.37, 0.62, 0.9):
        at = low + part * (high - low)
        before, after = turning.at(at - 2e-3), turning.at(at + 2e-3)
        slopes = (after.levers_m - before.levers_m) / 4e-3
        assert turning.at(at).lever_slopes_m == pytest.approx(slopes, abs=2e-4)


def test_beyond_its_surfaces_a_joint_stays_at_the_end(turning):
    low, high = turning.limits_rad.T
    for beyond, end in ((low - 0.1, low), (high + 0.1, high)):
        assert turning.at(beyond).contact_m == pytest.approx(turning.at(end).contact_m)
        assert turning.angles(turning.at(end).contact_m) == pytest.approx(end, abs=1e-6)
