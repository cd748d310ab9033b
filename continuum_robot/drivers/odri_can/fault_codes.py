# SPDX-License-Identifier: Apache-2.0
"""The faults of a motor board as numbers, for the control cycle; faults.py has their names, in this order.

1 to 7 are the errors of the status. After those up to ``LAST_WITHOUT_TORQUE`` the board has no torque and must be
enabled again.
"""

from __future__ import annotations

import cython

from continuum_robot.stepped.buffers import integers, stepped

BOARD_ESTOP = cython.declare(cython.int, 0)
BOARD_ENCODER = cython.declare(cython.int, 1)
BOARD_RECEIVE_TIMEOUT = cython.declare(cython.int, 2)
BOARD_OTHER_ERROR = cython.declare(cython.int, 7)
BOARD_MOTOR_OFF = cython.declare(cython.int, 8)
BOARD_REBOOTED = cython.declare(cython.int, 9)
LAST_WITHOUT_TORQUE = cython.declare(cython.int, 9)
BOARD_POSITION_JUMP = cython.declare(cython.int, 10)
BOARD_SILENT = cython.declare(cython.int, 11)
BOARD_SILENT_STATUS = cython.declare(cython.int, 12)
BOARD_CURRENT_MISMATCH = cython.declare(cython.int, 13)
BOARD_IS_TWO = cython.declare(cython.int, 14)
BOARD_OTHER_HOST = cython.declare(cython.int, 15)
BOARD_BUS_OFF = cython.declare(cython.int, 16)
BOARD_BUS_ERROR = cython.declare(cython.int, 17)
BOARD_FAULT_CODES = cython.declare(cython.int, 18)


@cython.cclass
class LatchedFaults:
    """The faults of a board that were seen since they were cleared, in the order in which they came.

    Attributes
    ----------
    count : how many
    """

    count: cython.int
    _seen: cython.longlong
    _order: cython.int[::1]

    def __init__(self) -> None:
        self._order = integers(3 * BOARD_FAULT_CODES)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.count, self._seen = 0, 0

    @stepped
    def latch(self, fault: cython.int, motor: cython.int) -> cython.void:
        """Add a fault of motor 1 or 2, or of the board: 0."""
        number: cython.int = 3 * fault + motor
        mask: cython.longlong = 1
        mask = mask << number
        if not self._seen & mask:
            self._seen = self._seen | mask
            self._order[self.count] = number
            self.count += 1

    def all(self) -> list[tuple[int, int]]:
        """Each fault's code and motor."""
        return [(self._order[j] // 3, self._order[j] % 3) for j in range(self.count)]
