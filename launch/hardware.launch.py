# SPDX-License-Identifier: Apache-2.0
"""The robot on its bus."""

from launch import LaunchDescription

from continuum_robot.app.launching.description import stack_description


def generate_launch_description() -> LaunchDescription:
    return stack_description(simulated=False)
