# SPDX-License-Identifier: Apache-2.0
"""Commands that read what a run recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from continuum_robot.app.commands.arguments import JsonOption, part, without_effect
from continuum_robot.errors import ParameterError

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of a run such as runs/2026-01-31_12-00-00, of a recording, or a .mcap."),
]


def replay(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a run or of a recording, a .mcap; or tendons and a marker as a .csv."
        ),
    ],
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Robot file; without: as recorded. For a .csv one with a `recording` section.",
            show_default=False,
        ),
    ] = None,
    *,
    realtime: Annotated[
        bool, typer.Option("--realtime/--fast", help="At the recorded pace, or as fast as every message is answered.")
    ] = False,
    folder: Annotated[Path, typer.Option(metavar="DIR", help="The new recording of a RUN goes to DIR/DATE/.")] = Path(
        "replays"
    ),
    json_file: JsonOption = None,
) -> None:
    """Play a recording into the nodes through the ROS 2 topics, and compare what comes out.

    Of a RUN, what the sensors measured and the references go into shape estimator, controller and contact monitor, with
    the recorded robot file, parameters and times; there is no driver, nothing moves. Their shapes, commands and
    contacts are recorded again in DIR/DATE/ and compared with the old ones, message by message: the same program
    gives the same numbers. With --robot another file, and its settings, say what would have been different.

    Of a .csv, the marker that the robot file predicts from the tendons is compared with the motion capture.
    """
    if run.suffix == ".csv":
        if robot is None:
            expected = "a robot file with a `recording` section, as identify-geometry and identify write it, for a .csv"
            raise ParameterError("--robot", None, expected)
        without_effect("with a .csv", {"--realtime": realtime, "--folder": folder != Path("replays")})
        raise typer.Exit(part("recordings.run").run_prediction(run, robot, json_file))
    module = part("recordings.replay_run")
    raise typer.Exit(module.run_replay_of_run(run, robot, realtime=realtime, out=folder, json_file=json_file))


def report(
    run: RunArgument,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The report goes to DIR; without: to the run's folder.")
    ] = None,
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Robot file, or the name of a shipped one; without: as recorded.", show_default=False
        ),
    ] = None,
) -> None:
    """Redraw the report of a run from its recording alone: metrics.json and the plots.

    The recording holds the robot's file and what the run knew of itself, so that the numbers are those of the first
    report. One that was cut off, by a kill or a power failure, is read as far as it goes. A recording of ros2 bag
    does as well, with --robot.
    """
    raise typer.Exit(part("report.report").run_report(run, robot, folder))


def repair(
    run: RunArgument,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The new recording; without: beside the old, NAME_repaired.")
    ] = None,
) -> None:
    """Copy a recording that was cut off into a whole one, with its index and metadata.yaml, for other programs.

    The recorder hands everything older than 0.55 s to the operating system. What a kill leaves lacks the index at the
    file's end, without which ros2 bag, rosbags and Foxglove do not open it. The old file is left as it is.
    """
    raise typer.Exit(part("recordings.run").run_repair(run, folder))
