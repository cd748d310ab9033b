# SPDX-License-Identifier: Apache-2.0
import pytest
from rod_robots import undamped

from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.dynamics import RodDynamics


@pytest.fixture(scope="session")
def two_segment():
    return load_robot("two_segment")


@pytest.fixture(scope="session")
def virtual(two_segment):
    """The two-segment robot in CasADi's virtual machine."""
    return RodDynamics(two_segment, compile="never")


@pytest.fixture(scope="session")
def conservative(two_segment):
    """The two-segment robot without damping, in CasADi's virtual machine."""
    return RodDynamics(undamped(two_segment), compile="never")
