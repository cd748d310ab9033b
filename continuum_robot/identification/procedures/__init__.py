# SPDX-License-Identifier: Apache-2.0
"""What is done with a robot before its first closed loop: homing, check of the tendons, torque constants."""
