# SPDX-License-Identifier: Apache-2.0
"""Everything that nodes, page and client ask of a robot, behind one protocol, whatever the robot is made of."""
