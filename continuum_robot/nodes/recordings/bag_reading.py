# SPDX-License-Identifier: Apache-2.0
"""Recordings of anybody: what in them cannot be read, or is not what this stack records, ends in one declared error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from continuum_robot.errors import RecordingError

_LONGEST_REASON = 200


@contextlib.contextmanager
def readable(bag: Path) -> Iterator[None]:
    """While a recording is opened and its messages are taken apart."""
    try:
        yield
    except RecordingError:
        raise
    # In a damaged or foreign file rosbags, and what takes its messages apart, meet whatever a byte can be taken for:
    # KeyError, struct.error, MemoryError, AttributeError and more, without a common base.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise RecordingError(
            bag,
            f"cannot be read as a recording ({reason})",
            "Give the folder of a run, the folder of a recording, or a file that ends in .mcap",
        ) from error
