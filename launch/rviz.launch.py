# SPDX-License-Identifier: Apache-2.0
"""rviz2 for a robot that runs already."""

from launch import LaunchDescription

from continuum_robot.app.launching.description import rviz_description


def generate_launch_description() -> LaunchDescription:
    return rviz_description()
