# SPDX-License-Identifier: Apache-2.0
"""The safety logic stepped by hand, with arrays and names instead of buffers and codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from continuum_robot.drivers import reading_buffer
from continuum_robot.drivers.safety import tendon_safety


@dataclass(frozen=True)
class Output:
    """What is sent after a step, and why; ``new_faults`` latched since the output before."""

    tension: np.ndarray
    limited: np.ndarray
    state: str
    write: bool
    faults: tuple
    new_faults: tuple


def by_hand(kind, buffer):
    """``kind`` of safety logic, whose readings are of the kind ``buffer``, with a method ``update``."""

    class ByHand(kind):
        reported = ()

        def update(self, reading, command, command_age_s, now_s, dt, *, command_sequence=None):
            count = len(self.commanded)
            taken = buffer(count)
            if reading is not None:
                taken.set(reading)
            desired, size = np.full(count, np.nan), -1
            if command is not None:
                command = np.asarray(command, dtype=float)
                size = 0
                if command.shape == (count,):
                    desired, size = command, count
            self.step_once(taken, desired.tolist(), size, command_age_s, command_sequence or 0, now_s, dt)
            faults = self.faults
            new = tuple(name for name in faults if name not in self.reported)
            self.reported = faults
            tension, limited = np.array(self.rules.output, dtype=float), np.array(self.rules.limited, dtype=np.uint8)
            return Output(tension, limited, self.state, bool(self.write), faults, new)

        def reset(self):
            blocking = super().reset()
            self.reported = self.reported if blocking else ()
            return blocking

    return ByHand


TendonSafety = by_hand(tendon_safety.TendonSafety, reading_buffer.ReadingBuffer)
