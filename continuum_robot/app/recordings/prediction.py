# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot replay FILE.csv``: recorded tendon displacements, and how well they predict the marker."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from continuum_robot.app.output import print_table, write_json
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import agreement, replay
from continuum_robot.robot.loading import load_robot


def run_prediction(file: Path, robot: str, json_file: Path | None, console: Console | None = None) -> int:
    """Print how well the marker that a robot file predicts agrees with the motion capture; the exit code, 0."""
    loaded = load_robot(robot)
    numbers = {"robot": loaded.name, "file": file.name, **agreement(replay(loaded, read_recording(file)))}
    print_table(console or Console(), f"{loaded.name}: {file.name}", ("number", ">value"), numbers.items())
    write_json(json_file, numbers)
    return 0
