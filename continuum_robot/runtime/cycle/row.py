# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of a cycle stand in a row of its log."""

from __future__ import annotations


class CycleRow:
    """Places in a row of a :class:`~continuum_robot.runtime.cycle.log.CycleLog`, as the driver's cycle fills it."""

    def __init__(self, tendon_count: int, coordinate_count: int) -> None:
        self.number, self.now_s, self.stamp_s, self.missed, self.valid = range(5)
        at = 5
        places = []
        for _ in range(8):
            places.append(slice(at, at + tendon_count))
            at += tendon_count
        self.displacement, self.velocity, self.tension, self.current, self.temperature, self.age = places[:6]
        self.commanded, self.limited = places[6:]
        self.changed, self.written, self.answered = range(at, at + 3)
        at += 3
        self.desired = slice(at, at + tendon_count)
        at += tendon_count
        self.clarke, self.clarke_rate, self.force = (
            slice(at + index * coordinate_count, at + (index + 1) * coordinate_count) for index in range(3)
        )
        self.width = at + 3 * coordinate_count
