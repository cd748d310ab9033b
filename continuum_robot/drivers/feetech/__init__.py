# SPDX-License-Identifier: Apache-2.0
"""Feetech STS and SMS servos as tendon actuators: settings, driver, faults, survey, emulator."""
