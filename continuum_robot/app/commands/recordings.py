# SPDX-License-Identifier: Apache-2.0
"""Commands that read what a run recorded."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from continuum_robot.app.commands.arguments import JsonOption, part, without_effect
from continuum_robot.errors import ParameterError

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of a run such as runs/2026-01-31_12-00-00, of a recording, or a .mcap."),
]


class DataFormat(str, enum.Enum):
    """What a recording is written as: a data set, or for a viewer."""

    parquet = "parquet"
    lerobot = "lerobot"
    csv = "csv"
    rerun = "rerun"
    foxglove = "foxglove"


VIEWERS = (DataFormat.rerun, DataFormat.foxglove)
FRAMES_HZ = 50.0


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs or of recordings, or .mcap files.")
    ],
    *,
    to: Annotated[
        DataFormat,
        typer.Option(
            help="A data set: a Parquet file, a LeRobotDataset (a folder), a CSV file; or for a viewer: rerun (.rrd), "
            "Foxglove (.mcap, and a layout beside it)."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="What is written; it must not exist yet.")],
    rate: Annotated[float, typer.Option(metavar="HZ", min=0.01, max=10_000.0, help="Frames per second.")] = FRAMES_HZ,
    observations: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What is exported, such as tendon_states.tension,clarke_state.position,tip_target; without: all "
            "numbers, or of lerobot displacements, tensions and coordinates.",
            show_default=False,
        ),
    ] = "",
    action: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What was asked for; without: none, or of lerobot clarke_reference.position.",
            show_default=False,
        ),
    ] = "",
    task: Annotated[
        str, typer.Option(metavar="TEXT", help="Of lerobot, what the robot was to do.", show_default=False)
    ] = "",
    namespace: Annotated[
        str | None, typer.Option(metavar="NS", help="Of recordings with several robots.", show_default=False)
    ] = None,
    robot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a viewer, robot file; without: as recorded.", show_default=False),
    ] = None,
) -> None:
    """Write recordings as one data set of episodes, Parquet, LeRobotDataset or CSV; or one for rerun or Foxglove.

    Episodes are what was marked while recording, by the page, the pad or the services of the recorder; discarded ones
    are left out. Without marks each RUN is one episode. Values are held on a common time base: each frame has the
    newest that was stamped until then. The action of a frame is what was asked for until the next one.

    For a viewer it is one RUN, with the robot drawn in three dimensions: what is written opens without this package.

    Parquet and LeRobotDataset need the extra learn, rerun its own. Nothing is overwritten, and no half is left behind.
    """
    if to in VIEWERS:
        where = f"with --to {to.value}"
        given = {"--observations": bool(observations), "--action": bool(action), "--task": bool(task)}
        without_effect(where, {**given, "--rate": rate != FRAMES_HZ})
        if len(runs) > 1:
            raise ParameterError("RUN", " ".join(map(str, runs)), f"one recording {where}")
        raise typer.Exit(part("recordings.viewers").run_export(runs[0], to.value, out, robot, namespace))
    without_effect(f"with --to {to.value}", {"--robot": robot is not None})
    if to is not DataFormat.lerobot:
        without_effect(f"with --to {to.value}", {"--task": bool(task)})
    module = part("recordings.dataset")
    names, actions = ([one.strip() for one in given.split(",") if one.strip()] for given in (observations, action))
    raise typer.Exit(
        module.run_export(
            runs, to.value, out, rate_hz=rate, names=names, actions=actions, task=task, namespace=namespace
        )
    )


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
