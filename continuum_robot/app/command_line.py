# SPDX-License-Identifier: Apache-2.0
"""The command ``continuum-robot``: its subcommands stand in commands/, each with an example here."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from continuum_robot import __version__
from continuum_robot.app.commands import experiments, hardware, recordings, robots, running
from continuum_robot.app.commands.arguments import EXIT_REFUSED
from continuum_robot.errors import ContinuumRobotError, ParameterError, RecordingError, RobotFileError
from continuum_robot.robot.file.shipped_files import did_you_mean

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
WRONG_USAGE = (ParameterError, RobotFileError, RecordingError)
"""What is wrong with a command line or with a file that it names. All else has failed, a missing device too."""

EPILOG = (
    "Exit codes: 0 done; 1 failed: a fault latched, a node died, a device or the stack does not answer, the DDS domain "
    "is busy; 2 wrong usage: an argument, or a file that it names; 130 stopped by Ctrl-C; 143 stopped by SIGTERM. "
    "DDS stays on the loopback unless ROS_AUTOMATIC_DISCOVERY_RANGE is set otherwise; "
    "ROS_DOMAIN_ID chooses the domain."
)


class ReadableErrors(TyperGroup):
    """A group of commands that shows the project's own errors in one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; ``ctx`` is the parser's context. Turns errors into exit codes, see ``EPILOG``."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _with_hint(error.message)
            raise
        except ContinuumRobotError as error:
            typer.echo(f"continuum-robot: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(EXIT_REFUSED if isinstance(error, WRONG_USAGE) else EXIT_FAILED) from None
        except BrokenPipeError:
            raise  # the reader of our output has gone; the parser ends quietly
        except OSError as error:
            typer.echo(f"continuum-robot: {error.strerror or error}: {error.filename or 'no file'}", err=True)
            raise typer.Exit(EXIT_FAILED) from None
        except KeyboardInterrupt:
            typer.echo("continuum-robot: stopped by Ctrl-C", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None


def _with_hint(message: str) -> str:
    """The parser's sentence about a word that is none of an option's, with the word that may have been meant."""
    message = message.removeprefix("Value error, ")
    if "is not one of" not in message:
        return message
    word, *allowed = re.findall(r"'([^']*)'", message)
    return message.rstrip(".") + (did_you_mean(word, allowed) or ".")


application = typer.Typer(
    name="continuum-robot",
    cls=ReadableErrors,
    help="Control, simulate and measure tendon-driven continuum robots on ROS 2.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@application.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# In the order of --help.
command = application.command
command(cls=running.OptionalContact, epilog="Example: continuum-robot demo --duration 10 --robot two_segment")(
    running.demo
)
command(epilog="Example: continuum-robot up opencr_five_tendon --simulated --processes --record")(running.up)
command(epilog="Example: continuum-robot view opencr_five_tendon")(running.view)
command(epilog="Example: continuum-robot controller hold_tension")(running.controller)
command(epilog="Example: continuum-robot teleop --gamepad auto --mode tip")(running.teleop)
command(epilog="Example: continuum-robot check my_robot.yaml")(robots.check)
command(epilog="Example: continuum-robot convert old_robot.yaml --out my_robot.yaml")(robots.convert)
command(epilog="Example: continuum-robot tune my_robot.yaml --out tuned.yaml")(robots.tune)
command(epilog="Example: continuum-robot devices my_robot.yaml --json devices.json")(hardware.devices)
command(
    epilog="Example: continuum-robot simulate-devices opencr_five_tendon, then, in another terminal: continuum-robot "
    "home simulated_devices/robot.yaml --hardware"
)(hardware.simulate_devices)
command(epilog="Example: continuum-robot faults --json faults.json")(experiments.faults)
command(
    cls=experiments.ExperimentHelp,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: continuum-robot experiment muhmann.tracking --json tracking.json --plots figures",
)(experiments.experiment)
command(
    "identify-geometry",
    epilog="Example: continuum-robot identify-geometry ftdcr_v4 --data ftdcr_v4_tendon_pull.csv --out fitted.yaml",
)(robots.identify_geometry)
command(
    epilog="Example: continuum-robot identify ftdcr_v4 --data ftdcr_v4_train.csv --out fitted.yaml, then: "
    "continuum-robot experiment ftdcr.validate --robot fitted.yaml --data other.csv --json result.json"
)(robots.identify)
command(epilog="Example: continuum-robot calibrate three_segment_servo --out calibrated.yaml")(hardware.calibrate)
command(epilog="Example: continuum-robot home opencr_five_tendon --hardware")(hardware.home)
command("check-tendons", epilog="Example: continuum-robot check-tendons opencr_five_tendon --hardware")(
    hardware.check_tendons
)
command(
    "calibrate-torque",
    epilog="Example: continuum-robot calibrate-torque my_robot.yaml --tendon 2 --mass 0.3 --mass 0.8 --out new.yaml",
)(hardware.calibrate_torque)
command(
    "calibrate-cogging",
    epilog="Example: continuum-robot calibrate-cogging opencr_five_tendon --plot cogging.png",
)(hardware.calibrate_cogging)
command("learn-floor", epilog="Example: continuum-robot learn-floor --duration 30")(running.learn_floor)
command(epilog="Example: continuum-robot weigh --turns 5 --json payload.json")(running.weigh)
command(epilog="Example: continuum-robot workspace rucker --compare rucker_helical --tension 5 --plot workspace.png")(
    robots.workspace
)
command(
    epilog="Example: continuum-robot replay runs/2026-01-31_12-00-00, or, of motion capture: continuum-robot replay "
    "ftdcr_v4_train.csv --robot fitted.yaml  (the file identify-geometry wrote)"
)(recordings.replay)
command(epilog="Example: continuum-robot report runs/2026-01-31_12-00-00 --out redrawn")(recordings.report)
command(epilog="Example: continuum-robot repair runs/2026-01-31_12-00-00")(recordings.repair)
command(epilog="Example: continuum-robot bench --seconds 30 --json bench.json")(experiments.bench)
command(epilog="Example: continuum-robot realtime --seconds 60 --json realtime.json")(experiments.realtime)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : without the program's name; None takes those of the process

    Returns
    -------
    the exit code: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C, 143 stopped by SIGTERM
    """
    try:
        application(args=None if arguments is None else list(arguments), prog_name="continuum-robot")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
