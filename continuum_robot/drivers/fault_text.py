# SPDX-License-Identifier: Apache-2.0
"""What a user learns of a fault: its meaning, why it happens, how it is noticed, what to do."""

from __future__ import annotations

from typing import NamedTuple

RESET = "Reset the stack: `manage_stack` command 3, or `continuum-robot view`."
# Homing is refused beside a running stack, and a stack that starts has no fault to reset.
HOME = "End the stack, home the robot with `continuum-robot home ROBOT --hardware`, and start the stack again."


class FaultText(NamedTuple):
    """Of a fault that a device reports; a device's folder has its own in ``FAULTS`` of its module ``faults``.

    Attributes
    ----------
    meaning : in a few words
    causes : what brings it about, the likeliest first
    noticed : how it is found, with the threshold
    cure : steps, in order
    """

    meaning: str
    causes: tuple[str, ...]
    noticed: str
    cure: tuple[str, ...]
