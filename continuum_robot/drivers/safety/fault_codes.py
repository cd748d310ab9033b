# SPDX-License-Identifier: Apache-2.0
"""Faults of :mod:`continuum_robot.drivers.safety.tendon_faults` as bits, which the cycle handles; stepped code.

The order is that in which faults of one cycle latch, and the order of the names there.
"""

from __future__ import annotations

import cython

READING_TIMEOUT_BIT = cython.declare(cython.int, 1 << 0)
DEVICE_FAULT_BIT = cython.declare(cython.int, 1 << 1)
READING_NOT_FINITE_BIT = cython.declare(cython.int, 1 << 2)
DISPLACEMENT_OUT_OF_RANGE_BIT = cython.declare(cython.int, 1 << 3)
INCONSISTENT_DISPLACEMENT_BIT = cython.declare(cython.int, 1 << 4)
TENSION_OUT_OF_RANGE_BIT = cython.declare(cython.int, 1 << 5)
DISPLACEMENT_JUMP_BIT = cython.declare(cython.int, 1 << 6)
FROZEN_READING_BIT = cython.declare(cython.int, 1 << 7)
CURRENT_MISMATCH_BIT = cython.declare(cython.int, 1 << 8)
MOTOR_HOT_BIT = cython.declare(cython.int, 1 << 9)
COMMAND_WRONG_SIZE_BIT = cython.declare(cython.int, 1 << 10)
COMMAND_NOT_FINITE_BIT = cython.declare(cython.int, 1 << 11)
COMMAND_OUT_OF_RANGE_BIT = cython.declare(cython.int, 1 << 12)
COMMAND_TIMEOUT_BIT = cython.declare(cython.int, 1 << 13)
LOOP_TOO_SLOW_BIT = cython.declare(cython.int, 1 << 14)
ESTOP_BIT = cython.declare(cython.int, 1 << 15)
LOOP_HANGS_BIT = cython.declare(cython.int, 1 << 16)
DISPLACEMENT_LAG_BIT = cython.declare(cython.int, 1 << 17)
SLACK_TENDON_BIT = cython.declare(cython.int, 1 << 18)
FAULT_BIT_COUNT = cython.declare(cython.int, 19)
