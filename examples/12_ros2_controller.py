# SPDX-License-Identifier: Apache-2.0
"""A controller of your own as a plain ROS 2 node: it answers every tendon_states with tendon_commands.

Beside `ros2 launch continuum_robot sim.launch.py controller:=none`, or `continuum-robot up ROBOT --controller none`.
"""

import math

import rclpy
from continuum_robot.msg import TendonCommands, TendonStates
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

PRETENSION_N, SWING_N, PERIOD_S = 4.0, 1.0, 4.0


class Circle(Node):
    """Bends the robot round a circle: pretension on each tendon, and a part that goes round with time."""

    def __init__(self) -> None:
        super().__init__("my_controller")
        # Only the newest state is of use: with a queue, a controller that was late once stays late.
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.commands = self.create_publisher(TendonCommands, "tendon_commands", 1)
        self.create_subscription(TendonStates, "tendon_states", self.answer, newest)

    def answer(self, state: TendonStates) -> None:
        """Answer from the first state on: the tendons get torque when the driver receives commands."""
        count, time_s = len(state.tension), state.header.stamp.sec % 3600 + 1e-9 * state.header.stamp.nanosec
        angle = 2 * math.pi * time_s / PERIOD_S
        tension = [PRETENSION_N + SWING_N * math.cos(angle - 2 * math.pi * j / count) for j in range(count)]
        self.commands.publish(
            TendonCommands(header=state.header, sequence=state.sequence, writer=self.get_name(), tension=tension)
        )


if __name__ == "__main__":
    rclpy.init()
    try:
        rclpy.spin(Circle())
    except KeyboardInterrupt:
        rclpy.try_shutdown()
