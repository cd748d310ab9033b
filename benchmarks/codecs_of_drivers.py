# SPDX-License-Identifier: Apache-2.0
"""How long the codecs of the drivers take for a frame."""

from __future__ import annotations

import time
from collections.abc import Callable

from continuum_robot.drivers.odri_can import codec as odri
from continuum_robot.drivers.odri_can import protocol as odri_frames
from continuum_robot.drivers.rokubi_serial import codec as rokubi
from continuum_robot.drivers.string_encoder_serial import codec as strings

_BATCH = 1000


def measure_codecs(batches: int = 30) -> dict[str, float]:
    """Time of a frame in Python, the fastest of some batches: what else the machine does is not the codec's.

    Parameters
    ----------
    batches : of 1000 frames each

    Returns
    -------
    ``codec_<driver>_<encode or decode>_us``; the counts frame of the string-encoder board with its CRC and COBS, also
    for counts of zero (``..._of_zeros_us``), which COBS makes the most of
    """
    moving = strings.CountsFrame(
        1234, 1_000_123, (1234, -4500, 100_000, 70_000), strings.status_word(strings.Status.ZEROED, 1)
    )
    counts, zeros = strings.encode(moving)[:-1], strings.encode(strings.CountsFrame(0, 0, (0, 0, 0, 0), 0))[:-1]
    force = rokubi.ForceFrame(0, (1.0, 2.0, 3.0, 0.1, 0.2, 0.3), 1_000_123, 25.0)
    measured = rokubi.encode(force)
    position_id, position = odri.encode(odri_frames.Position(1.5, -2.5))
    work: dict[str, Callable[[], object]] = {
        "odri_can_encode": lambda: odri.encode(odri_frames.CurrentReference(1.5, -0.5)),
        "odri_can_decode": lambda: odri.decode(position_id, position),
        "string_encoder_encode": lambda: strings.encode(moving),
        "string_encoder_decode": lambda: strings.decode(counts),
        "string_encoder_decode_of_zeros": lambda: strings.decode(zeros),
        "rokubi_encode": lambda: rokubi.encode(force),
        "rokubi_decode": lambda: rokubi.decode(measured),
    }
    return {f"codec_{name}_us": min(_batch_us(step) for _ in range(batches)) for name, step in work.items()}


def _batch_us(step: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    for _ in range(_BATCH):
        step()
    return (time.perf_counter_ns() - begin) / 1e3 / _BATCH
