# SPDX-License-Identifier: Apache-2.0
"""Commands about a robot file: what it describes, where the robot reaches, and fits of it to a recording."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from continuum_robot.app.commands.arguments import (
    JsonOption,
    RobotArgument,
    SchedulerOption,
    WorkersOption,
    file_option,
    part,
)
from continuum_robot.errors import ParameterError
from continuum_robot.workers import WorkerOptions


class TuneBy(str, enum.Enum):
    """How gains are found."""

    RULE = "rule"
    GRADIENT = "gradient"


def check(robot: RobotArgument, json_file: JsonOption = None) -> None:
    """Check a robot file and print what it describes.

    Geometry, masses, stiffness, the natural frequencies of the straight robot from the rod model, limits, control
    with its delay margin, what can be run with it, and which values are assumed.

    What keeps the robot from working is an error with its cause and remedy, and the exit code is 1: an unstable or
    ringing loop, a reference beyond the limits, friction above the pretension, a law or a tool's file that is not
    there. What makes it work poorly is a warning. A file that cannot be read gives one message with file, line, key,
    value and what is allowed, and exit code 2.
    """
    raise typer.Exit(part("check").run_check(robot, json_file))


def convert(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A robot file of the version before.")],
    out: Annotated[Path, file_option("YAML", "The file of this version.")],
) -> None:
    """Write a robot file of version 1 as version 2; files of version 1 are read without, too.

    Where fits came from stands in `provenance` then. A file without any keeps all its comments, others those at its
    head.
    """
    part("convert").run_convert(file, out)


def tune(
    robot: RobotArgument,
    *,
    out: Annotated[Path | None, file_option("YAML", "Copy of the robot file to write with the gains.")] = None,
    by: Annotated[
        TuneBy,
        typer.Option(
            help="rule: largest integral gain. gradient: from there, least error in a simulated run; both are judged."
        ),
    ] = TuneBy.RULE,
    margin: Annotated[
        float, typer.Option(metavar="DEG", min=20.0, max=75.0, help="Phase margin that the loop keeps, degrees.")
    ] = 45.0,
    gain_margin: Annotated[
        float, typer.Option(metavar="X", min=1.2, max=20.0, help="Factor on all gains that the loop bears.")
    ] = 2.5,
    rate: Annotated[
        float, typer.Option(metavar="HZ", min=0.0, max=4000.0, help="Rate of the driver's cycle, Hz; 0: 1000.")
    ] = 0.0,
    delay: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0.0,
            max=0.1,
            help="From a reading to its command on the motors, s; 0: one cycle, or what the bus of servos takes.",
        ),
    ] = 0.0,
    json_file: JsonOption = None,
) -> None:
    """Find the gains of a robot's PID from its masses, stiffness, motors, rate and delay, and say why these.

    Of all gains that keep the wanted phase and gain margins, those with the largest integral gain are taken: they
    leave the least error under slow disturbances. A file without the section control gets one. With --out the gains go
    into a copy of the robot file; all else in it stays. Without, nothing but what you see, and --json, is written.

    With --by gradient the search goes on from these gains: among all that keep the same margins, within a factor of 4,
    it looks for the least error in a simulated run of the rod with motors, filters and delay, along the file's
    reference with a step of force in it. Then the shipped driver runs both on the simulated robot, and you see whether
    it helps. It takes up to two minutes, and works for rods whose motors take tensions.
    """
    if 0 < rate < 20:
        raise ParameterError("--rate", rate, "0, or a rate from 20 to 4000 Hz")
    module = part("tune")
    options = module.TuneOptions(margin, gain_margin, rate, delay, by.value)
    raise typer.Exit(module.run_tune(robot, out, json_file, options))


def workspace(
    robot: RobotArgument,
    *,
    compare: Annotated[
        list[str] | None, typer.Option(metavar="ROBOT", help="Another robot beside it; may be given again.")
    ] = None,
    tension: Annotated[
        float, typer.Option(metavar="N", min=0.0, help="Largest tension of a tendon, N; 0: the robot's limit.")
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=1, max=100000, help="About how many tensions.")] = 400,
    weightless: Annotated[bool, typer.Option("--weightless", help="Leave gravity out.")] = False,
    routed: Annotated[
        bool, typer.Option("--routed", help="Pull the tendons that the file routes one by one, too.")
    ] = False,
    pretension: Annotated[
        float,
        typer.Option(metavar="N", min=0.0, help="Least tension under control, for the tip's stiffness; 0: the file's."),
    ] = 0.0,
    plot: Annotated[Path | None, file_option("PNG", "Draw shapes and tip positions here.")] = None,
    json_file: JsonOption = None,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
) -> None:
    """Where the tip of a robot goes under the tensions of its tendons, how it turns, and how stiff it is.

    Any routing and any strain basis. Tensions without an equilibrium, and equilibria that are not stable, were found
    beyond a buckling, or whose loads the basis cannot bear, are counted. For robots with a controller and parallel
    tendons the stiffness of the tip under control is mapped too, at a pretension.
    """
    options = part("workspace").WorkspaceOptions(
        tension_n=tension, samples=samples, weightless=weightless, routed=routed, pretension_n=pretension
    )
    where = WorkerOptions(workers, scheduler)
    part("workspace").run_workspace([robot, *(compare or [])], options, plot, json_file, where=where)


def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="A published result (YAML), or the name of a shipped one.")
    ],
    plot: Annotated[Path | None, file_option("PNG", "Draw the shapes here, of one file.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Judge a published static shape by two engines that share no mechanics.

    The file holds the publication, its robot, loads, result and tolerance; config/published has examples. The rod's
    energy and the Cosserat boundary-value problem solve the same case. The result holds if both are within its
    tolerance. It does not hold if both agree with each other ten times better than with it. Otherwise the engines
    disagree, and nothing is said about the publication. Exit code 1: it does not hold, or the engines disagree.
    """
    raise typer.Exit(part("compare").run_compare(files, plot, json_file))


def identify_geometry(
    robot: RobotArgument,
    data: Annotated[Path, typer.Option(metavar="CSV", help="Recording in which one tendon at a time is pulled.")],
    out: Annotated[Path, file_option("YAML", "The robot file with the fitted values.")],
) -> None:
    """Find the servo-to-tendon map, the segments' angles and the marker's place by a fit to a recording."""
    part("procedures.identify").run_identify_geometry(robot, data, out)


def identify(
    robot: RobotArgument,
    out: Annotated[Path, file_option("YAML", "The robot file with the fitted values.")],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Recording: of servos and marker, in the order of time; or of motors. Without: a robot with motors"
            " moves now, and the recording is kept beside the file.",
        ),
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated/--hardware", help="What moves: simulated devices, or those of the robot.")
    ] = True,
    duration: Annotated[float, typer.Option(metavar="S", min=0.0, help="How long it moves, s; 0: a minute.")] = 0.0,
    tension: Annotated[
        float, typer.Option(metavar="N", min=0.0, help="Of every tendon while it moves, N; 0: from the limits.")
    ] = 0.0,
    plot: Annotated[Path | None, file_option("PNG", "Picture of what was fitted.")] = None,
    json_file: JsonOption = None,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
) -> None:
    """Fit a robot to a recording: its dynamics, or geometry and statics where servos hold its tendons.

    A robot with a motor on every tendon moves in chirps of all its coordinates, and beside them pulls its tendons
    against each other: masses, stiffness and damping of the segments, inertia and friction of the motors, cogging and
    the tendons' stiffness follow, each with its deviation. What the motion does not show stays as the file has it. Keep
    the robot's surroundings free: it bends to all sides, slowly and fast. The fit of a robot with routed tendons takes
    some minutes. Of rolling joints and equilibrium modulation the damping of joints or guides follows.

    A robot with capstans needs a recording of torques, tendons and strings, or is simulated along johnston's chirp:
    stiffness, friction of the wires, masses, inertia of the capstans and damping.

    A robot whose servos hold tendons at displacements needs a recording. Each step is a physical model with a few named
    parameters, fitted to it and judged on blocks of it that were left out; a step that gains nothing there is not kept.
    A robot file without a `recording` section needs a recording in which every tendon is once pulled alone, to find
    which servo drives it. Takes a minute or two.
    """
    where = WorkerOptions(workers, scheduler)
    module = part("procedures.identify")
    raise typer.Exit(
        module.run_identify(
            robot,
            data,
            out,
            simulated=simulated,
            duration_s=duration,
            tension_n=tension,
            json_file=json_file,
            plot=plot,
            where=where,
        )
    )


def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The sweep (YAML), or the name of a shipped one.")],
    *,
    out: Annotated[
        Path | None,
        file_option(
            "FILE", "Table to write: .parquet (extra learn), or .csv. Without: the sweep's name and .parquet, here."
        ),
    ] = None,
    json_file: JsonOption = None,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
) -> None:
    """Run a robot many times in virtual time, each time with other values, and compare the runs in one table.

    The file names a robot, how long each run follows the robot's reference, and under `grid` lists of values, under
    `random` ranges from which `count` values are drawn, for keys of the robot file, gains and limits included. A key
    with `truth.` in front is of the robot that is simulated, which driver and controller do not know: stiffness,
    friction, slack. All robots are checked before the first run. Metrics are those of the report of `demo`: errors of
    the coordinates and of the true tip, tensions, limited cycles; a run ends early where a fault latches.

    Runs are kept as they end, in a file beside the table: after Ctrl-C the same command goes on, and if the sweep or
    a robot file has changed meanwhile, it says what differs. The numbers are the same for any number of workers. The
    picture has the table's name and .png. Exit code 1: a fault latched in a run, or a run failed.
    """
    where = WorkerOptions(workers, scheduler)
    raise typer.Exit(part("sweep.command").run_sweep(file, out, json_file, where=where))
