# SPDX-License-Identifier: Apache-2.0
"""ROS 2 nodes, one a file. A node subscribes, converts, calls ``update`` of an algorithm, publishes.

The parts of larger nodes are in folders: driver/, reference/, supervision/.
"""
