# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot repair``, and ``replay FILE.csv``: what is done with a recording without starting a node."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.app.recordings.run import find_recording, mcap_files
from continuum_robot.errors import RecordingError
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import agreement, replay
from continuum_robot.nodes.recordings.repairing import repair
from continuum_robot.robot.loading import load_robot


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


def run_prediction(file: Path, robot: str, json_file: Path | None, console: Console | None = None) -> int:
    """Print how well the marker that a robot file predicts agrees with the motion capture; the exit code, 0."""
    loaded = load_robot(robot)
    numbers = {"robot": loaded.name, "file": file.name, **agreement(replay(loaded, read_recording(file)))}
    print_table(console or Console(), f"{loaded.name}: {file.name}", ("number", ">value"), numbers.items())
    write_json(json_file, numbers)
    return 0
