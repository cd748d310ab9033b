# SPDX-License-Identifier: Apache-2.0
"""A robot on ROS 2 as a Python object whose methods wait; users import it from :mod:`continuum_robot.client`."""
