# SPDX-License-Identifier: Apache-2.0
"""The messages of a ros2_control controller manager: joint_states in, joint_commands out, no message of this package.

Beside `ros2 launch continuum_robot sim.launch.py controller:=none`, or `continuum-robot up ROBOT --controller none`.
With ros2_control, topic_based_ros2_control sends these: docs/reference/topics.md.
"""

import math

import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

PRETENSION_N, SWING_N, PERIOD_S, RATE_HZ = 4.0, 1.0, 4.0, 100.0


class ControllerManager(Node):
    """An effort controller on every tendon, updated at a fixed rate once the states are known."""

    def __init__(self) -> None:
        super().__init__("controller_manager")
        self.states = JointState()
        self.create_subscription(JointState, "joint_states", self.read, qos_profile_sensor_data)
        self.commands = self.create_publisher(JointState, "joint_commands", qos_profile_sensor_data)
        self.create_timer(1.0 / RATE_HZ, self.write)

    def read(self, states: JointState) -> None:
        """Keep the newest state, as the state interfaces do."""
        self.states = states

    def write(self) -> None:
        """Efforts in N, by the joints' names: their order does not matter."""
        names = list(self.states.name)
        if not names:
            return
        now = self.get_clock().now()
        angle = 2 * math.pi * (now.nanoseconds * 1e-9 % PERIOD_S) / PERIOD_S
        effort = [PRETENSION_N + SWING_N * math.cos(angle - 2 * math.pi * j / len(names)) for j in range(len(names))]
        message = JointState(name=names[::-1], effort=effort[::-1])
        message.header.stamp = now.to_msg()
        self.commands.publish(message)


if __name__ == "__main__":
    rclpy.init()
    try:
        rclpy.spin(ControllerManager())
    except KeyboardInterrupt:
        rclpy.try_shutdown()
