# SPDX-License-Identifier: Apache-2.0
"""What one starts with stands in the package's root, and the root loads nothing that was not asked for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import continuum_robot


@pytest.mark.parametrize("name", continuum_robot.__all__)
def test_everything_that_the_root_names_is_there(name):
    if name == "Robot" and importlib.util.find_spec("rclpy") is None:
        pytest.skip("the client needs ROS 2")
    assert getattr(continuum_robot, name) is not None
    assert name in dir(continuum_robot)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NoRobot"):
        _ = continuum_robot.NoRobot


def test_the_root_alone_loads_no_library():
    code = "import continuum_robot, sys; print([n for n in ('numpy', 'casadi', 'rclpy', 'scipy') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
