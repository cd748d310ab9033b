# SPDX-License-Identifier: Apache-2.0
"""ROS 2 nodes, one a file; with app/ the only place that imports rclpy."""
