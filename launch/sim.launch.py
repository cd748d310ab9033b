# SPDX-License-Identifier: Apache-2.0
"""The robot with simulated hardware: the same nodes and topics, only the wires end in a simulator."""

from launch import LaunchDescription

from continuum_robot.app.launching.description import stack_description


def generate_launch_description() -> LaunchDescription:
    return stack_description(simulated=True)
