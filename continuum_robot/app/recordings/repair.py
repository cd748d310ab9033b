# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot repair``: a recording that was cut off gets its index and metadata.yaml again."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from continuum_robot.app.output import say
from continuum_robot.app.recordings.run import find_recording, mcap_files
from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.repairing import repair


def run_repair(path: Path, out: Path | None, console: Console | None = None) -> int:
    """Copy what is readable of a recording into a new one that every reader opens."""
    bag = find_recording(path)
    files = mcap_files(bag)
    if not files:
        raise RecordingError(bag, "holds no MCAP file", "Give a recording in the format MCAP")
    name = bag.stem if bag.is_file() else bag.name
    folder = out or bag.parent / f"{name}_repaired"
    report = repair(files, folder)
    lost = f"{report.lost_bytes} bytes at the end were not readable"
    say(console or Console(), f"{report.messages} messages in {folder}; {lost}")
    return 0
