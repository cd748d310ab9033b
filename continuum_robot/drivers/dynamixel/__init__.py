# SPDX-License-Identifier: Apache-2.0
"""Dynamixel servos as tendon actuators: settings, models, both protocols, faults, survey, emulators."""
