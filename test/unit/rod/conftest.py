# SPDX-License-Identifier: Apache-2.0
import pytest

from continuum_robot.robot.loading import load_robot


@pytest.fixture(scope="session")
def two_segment():
    return load_robot("two_segment")
