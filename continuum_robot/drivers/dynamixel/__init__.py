# SPDX-License-Identifier: Apache-2.0
"""Dynamixel servos as tendon actuators: control table, bus over the makers' own library, a robot's actuators."""
