# SPDX-License-Identifier: Apache-2.0
"""The command ``continuum-robot``: its subcommands stand in commands/, each with an example here."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from continuum_robot import __version__
from continuum_robot.app.commands import experiments, hardware, recordings, robots, running
from continuum_robot.app.commands.arguments import EXIT_REFUSED, ManualCommand, ManualGroup
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


class ReadableErrors(ManualGroup):
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
    rich_markup_mode=None,
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


RUN, ROBOT, CALIBRATE, RECORD, DEVELOP = "Run", "Robot", "Calibrate", "Record", "Develop"

# In the order of --help.
COMMANDS: tuple[tuple[str, Any, str, dict[str, Any]], ...] = (
    (RUN, running.demo, "demo --duration 10 --robot two_segment", {"cls": running.OptionalContact}),
    (RUN, running.up, "up opencr_five_tendon --simulated --processes --record", {}),
    (
        RUN,
        running.view,
        "view opencr_five_tendon, or, of recordings: continuum-robot view runs/2026-01-31_12-00-00 other_runs/first",
        {},
    ),
    (RUN, running.controller, "controller hold_tension", {}),
    (RUN, running.teleop, "teleop --gamepad auto --mode tip", {}),
    (ROBOT, robots.check, "check my_robot.yaml", {}),
    (ROBOT, robots.convert, "convert old_robot.yaml --out my_robot.yaml", {}),
    (ROBOT, robots.tune, "tune my_robot.yaml --out tuned.yaml", {}),
    (
        ROBOT,
        robots.workspace,
        "workspace rucker --compare rucker_helical --tension 5 --plot workspace.png",
        {},
    ),
    (ROBOT, robots.compare, "compare till_helical --plot compare.png", {}),
    (ROBOT, robots.sweep, "sweep gains_and_friction --out gains.csv --workers 4", {}),
    (ROBOT, hardware.devices, "devices my_robot.yaml --json devices.json", {}),
    (
        ROBOT,
        hardware.simulate_devices,
        "simulate-devices opencr_five_tendon, then, in another terminal: continuum-robot home "
        "simulated_devices/robot.yaml --hardware",
        {},
    ),
    (CALIBRATE, hardware.home, "home opencr_five_tendon --hardware", {}),
    (CALIBRATE, hardware.check_tendons, "check-tendons opencr_five_tendon --hardware", {}),
    (CALIBRATE, hardware.calibrate, "calibrate three_segment_servo --out calibrated.yaml", {}),
    (
        CALIBRATE,
        robots.identify,
        "identify ftdcr_v4 --data ftdcr_v4_train.csv --out fitted.yaml, then: continuum-robot experiment "
        "ftdcr.validate --robot fitted.yaml --data other.csv --json result.json",
        {},
    ),
    (
        CALIBRATE,
        robots.identify_geometry,
        "identify-geometry ftdcr_v4 --data ftdcr_v4_tendon_pull.csv --out fitted.yaml",
        {},
    ),
    (
        CALIBRATE,
        hardware.calibrate_torque,
        "calibrate-torque my_robot.yaml --tendon 2 --mass 0.3 --mass 0.8 --out new.yaml",
        {},
    ),
    (CALIBRATE, hardware.calibrate_cogging, "calibrate-cogging opencr_five_tendon --plot cogging.png", {}),
    (CALIBRATE, running.learn_floor, "learn-floor --duration 30", {}),
    (CALIBRATE, running.weigh, "weigh --turns 5 --json payload.json", {}),
    (RECORD, recordings.report, "report runs/2026-01-31_12-00-00 --folder redrawn", {}),
    (
        RECORD,
        recordings.replay,
        "replay runs/2026-01-31_12-00-00, or, of motion capture: continuum-robot replay ftdcr_v4_train.csv --robot "
        "fitted.yaml  (the file identify-geometry wrote)",
        {},
    ),
    (
        RECORD,
        recordings.export,
        "export runs/2026-01-31_12-00-00 runs/2026-01-31_12-05-00 --to lerobot --out my_data_set",
        {},
    ),
    (RECORD, recordings.repair, "repair runs/2026-01-31_12-00-00", {}),
    (
        DEVELOP,
        experiments.experiment,
        "experiment muhmann.tracking --json tracking.json --plots figures",
        {
            "cls": experiments.ExperimentHelp,
            "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
        },
    ),
    (DEVELOP, experiments.realtime, "realtime --duration 60 --json realtime.json", {}),
)
"""Group, function, example and what else typer is told of each."""

for _group, _function, _example, _more in COMMANDS:
    application.command(
        epilog=f"Example: continuum-robot {_example}", rich_help_panel=_group, **{"cls": ManualCommand} | _more
    )(_function)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    try:
        application(args=None if arguments is None else list(arguments), prog_name="continuum-robot")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
