# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each fault of Feetech servos."""

from __future__ import annotations

from continuum_robot.drivers.fault_text import SERVO_FAULTS, WHERE_SERVOS

WHERE, FAULTS = WHERE_SERVOS, SERVO_FAULTS
