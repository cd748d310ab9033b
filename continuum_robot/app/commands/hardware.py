# SPDX-License-Identifier: Apache-2.0
"""Commands for the devices of a robot: find them, home, check and calibrate."""

from __future__ import annotations

import sys
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
from continuum_robot.workers import WorkerOptions

SimulatedOption = Annotated[
    bool, typer.Option("--simulated/--hardware", help="Simulated devices, or those of the robot.")
]


def _kilograms(text: str | float) -> float:
    """A mass in kg; typer reads a ValueError as a wrong option."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number; the unit is kg, without its name: 0.3 for 300 g") from None


def devices(
    robot: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROBOT]", help="Robot file, or the name of a shipped one; without: ports only.", show_default=False
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Find serial ports and CAN interfaces, and ask the devices of a robot whether they are there.

    Each device of the robot file's `hardware` section is found, missing or in use by another program; what else is
    plugged in is named as unexpected. No motor is switched on; the force sensor is set up as the robot file states.
    Exit code 1 where a device is missing, with one sentence each that says what to do.
    """
    raise typer.Exit(part("devices").run_devices(robot, json_file))


def simulate_devices(
    robot: RobotArgument,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the ports and of the robot file that names them.")
    ] = Path("simulated_devices"),
) -> None:
    """Simulated devices on ports of their own, to rehearse what is done with a real robot's, until Ctrl-C.

    Motor boards on slcan adapters, the string-encoder board and the force sensor stand behind pseudo-terminals in
    DIR, moved by one simulated robot. The robot file in it names their ports: give it to devices, check-tendons,
    home and up with --hardware, or to ros2 launch; the drivers read and write the same bytes. The devices are stepped
    every millisecond: where the computer is too busy for that, their boards' timeouts strike.
    """
    raise typer.Exit(part("simulate_devices").run_simulate_devices(robot, folder))


def home(
    robot: RobotArgument,
    simulated: SimulatedOption = True,
    tension: Annotated[
        float,
        typer.Option(metavar="N", min=0.0, help="On every tendon at the straight pose, N; 0: the robot file's."),
    ] = 0.0,
    json_file: JsonOption = None,
) -> None:
    """Take up slack, sway the robot about its straight pose, and store where its tendons and strings stand there.

    On hardware a robot is driven only if it was homed since its boards were switched on, with the robot file as it is
    now. The first time after power-on the rotors are aligned: slacken the tendons before. Ctrl-C releases the tendons.
    """
    module = part("procedures.run")
    raise typer.Exit(module.run_home(robot, simulated, tension, json_file))


def check_tendons(
    robot: RobotArgument,
    simulated: SimulatedOption = True,
    pull: Annotated[
        float,
        typer.Option(metavar="N", min=0.0, help="Most that is added to a tendon's tension, N; 0: from the limits."),
    ] = 0.0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask no question: what no string shows stays unknown, and is reported.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Pull a little at one tendon after the other, and compare what moves with the robot file: polarity and mapping.

    Exit code 1 where a tendon is stuck, not attached, reversed or swapped with another, and which. The tendons
    alone cannot show whether all of a segment are turned by some positions or mirrored: strings do; without them you
    are asked which way the tip moved. Ctrl-C releases the tendons.
    """
    ask = None if yes or not sys.stdin.isatty() else typer.confirm
    module = part("procedures.run")
    raise typer.Exit(module.run_check_tendons(robot, simulated, pull, json_file, ask=ask))


def calibrate(
    robot: RobotArgument,
    out: Annotated[Path, file_option("YAML", "The robot file with what was found; the recording is kept beside it.")],
    *,
    simulated: SimulatedOption = True,
    load: Annotated[
        float, typer.Option(metavar="N", min=0.0, help="Load of a tendon at which it stops, N; 0: limits.maximum_n.")
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before it moves.")] = False,
    json_file: JsonOption = None,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
) -> None:
    """Let a robot of servos move for some minutes under a tracker of its tip, and find what it is.

    It homes by its loads, pulls each tendon alone, then in pairs, goes to places all over its coordinates, and moves
    slowly in all of them. From displacements, loads and poses follow zero and gain (spool) of each tendon, the angles
    and the stiffness of the segments, stiffness and friction of the tendons, where base and marker are, and how late
    the tracker is, each with its deviation. Before it moves it says how far, and at which load it stops; on hardware it
    asks. Ctrl-C lets the tendons out. Home again with the new file. Simulated, the robot is its truth
    (simulation.truth). Robots whose motors take tensions: `identify`.
    """

    def ask(sentence: str) -> None:
        typer.confirm(f"{sentence} Move?", abort=True)

    module = part("procedures.run")
    asked = None if yes or simulated else ask
    where = WorkerOptions(workers, scheduler)
    raise typer.Exit(
        module.run_calibrate(robot, simulated, out, load_n=load, json_file=json_file, ask=asked, where=where)
    )


def calibrate_torque(
    robot: RobotArgument,
    tendon: Annotated[int, typer.Option(metavar="J", min=1, help="Number of the tendon, from 1.")],
    mass: Annotated[list[float], typer.Option(metavar="KG", parser=_kilograms, help="A weight, kg; once for each.")],
    *,
    simulated: SimulatedOption = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before each weight.")] = False,
    out: Annotated[Path | None, file_option("YAML", "Robot file to write with what was found.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Lift and lower weights hung on one tendon: the motor's torque constant, and the friction.

    Unhook the tendon from the robot and let the weight lie on a support under it. Lifting takes more current than
    lowering, by friction; their mean balances the weight. Ctrl-C puts the weight down.
    """

    def ask(sentence: str) -> None:
        typer.confirm(f"{sentence} Ready?", abort=True)

    module = part("procedures.run")
    asked = None if yes or simulated else ask
    raise typer.Exit(
        module.run_calibrate_torque(robot, simulated, tendon, mass, out=out, json_file=json_file, ask=asked)
    )


def calibrate_cogging(
    robot: RobotArgument,
    simulated: SimulatedOption = True,
    speed: Annotated[
        list[float] | None,
        typer.Option(
            metavar="M/S",
            min=1e-4,
            help="Speed of a sweep, m/s; once for each, the slowest last. Default: 0.01, 0.005 and again 0.005.",
            show_default=False,
        ),
    ] = None,
    tension: Annotated[
        float,
        typer.Option(metavar="N", min=0.0, help="On every tendon at the straight pose, N; 0: chosen from the limits."),
    ] = 0.0,
    plot: Annotated[Path | None, file_option("PNG", "Picture of the tables.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Turn every motor slowly both ways, and store its cogging over its angle, with the uncertainty.

    The robot goes in circles in which each motor makes a turn, the tendons stay on. From the second sweep on the table
    so far is fed forward. The driver feeds it forward in its cycle: see its parameter cogging. Do it after home; after
    the motors were aligned again the angles are lost, and it is due again. Ctrl-C releases the tendons.
    """
    module = part("procedures.run")
    raise typer.Exit(
        module.run_calibrate_cogging(robot, simulated, speed or (), tension, plot=plot, json_file=json_file)
    )
