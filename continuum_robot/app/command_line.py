# SPDX-License-Identifier: Apache-2.0
"""The command ``continuum-robot``: every subcommand parses its arguments here and runs a module of this folder."""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from continuum_robot import __version__
from continuum_robot.errors import ContinuumRobotError, ParameterError

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130

EXTRAS = {"viser": "viz", "websockets": "viz"}
"""Modules that only some commands need, and the extra that installs them."""

EPILOG = (
    "Exit codes: 0 done; 1 it ran and failed (a fault latched, a node died); 2 refused: a wrong argument or file, "
    "a busy DDS domain; 130 stopped by Ctrl-C; 143 stopped by SIGTERM. "
    "DDS stays on the loopback unless ROS_AUTOMATIC_DISCOVERY_RANGE is set otherwise; "
    "ROS_DOMAIN_ID chooses the domain."
)


class ReadableErrors(TyperGroup):
    """A group of commands that tells the project's own errors in one line instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; ``ctx`` is the parser's context. Turns errors into exit codes, see ``EPILOG``."""
        try:
            return super().invoke(ctx)
        except ContinuumRobotError as error:
            typer.echo(f"continuum-robot: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(EXIT_REFUSED) from None
        except BrokenPipeError:
            raise  # whoever read our output has gone; the parser ends quietly
        except OSError as error:
            typer.echo(f"continuum-robot: {error.strerror or error}: {error.filename or 'no file'}", err=True)
            raise typer.Exit(EXIT_REFUSED) from None
        except KeyboardInterrupt:
            typer.echo("continuum-robot: stopped by Ctrl-C", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None


class FakeLevel(str, enum.Enum):
    """How much of the robot is simulated."""

    auto = "auto"
    wire = "wire"
    dynamics = "dynamics"
    mirror = "mirror"


class TeleopMode(str, enum.Enum):
    """What a person moves."""

    clarke = "clarke"
    tip = "tip"


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

LevelOption = Annotated[
    FakeLevel,
    typer.Option(
        "--fake-level",
        help="wire: the real drivers speak to simulated boards, byte by byte; dynamics: rod, tendons and motors, no "
        "wires; mirror: follows the commands ideally; auto: wire where this machine keeps up, as a short measurement "
        "says.",
    ),
]
RobotArgument = Annotated[
    str, typer.Argument(metavar="ROBOT", help="Robot file (YAML), or the name of a shipped one such as two_segment.")
]
SimulatedOption = Annotated[
    bool, typer.Option("--simulated/--hardware", help="Simulated devices, or those of the robot.")
]
ViewOption = Annotated[
    bool, typer.Option("--view/--no-view", help="Also show the robot on a page in the browser, at 127.0.0.1 only.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers as JSON here.")]


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


class OptionalContact(TyperCommand):
    """A command whose option ``--contact`` may stand without its value, which is then empty."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Give ``--contact`` an empty value where none follows; ``ctx`` is the parser's context.

        Parameters
        ----------
        args : words of the command line
        """
        given: list[str] = []
        for word, following in pairwise([*args, "--"]):
            given.append(word)
            if word == "--contact" and following.startswith("-"):
                given.append("")
        return super().parse_args(ctx, given)


@application.command(cls=OptionalContact, epilog="Example: continuum-robot demo --duration 10 --robot two_segment")
def demo(
    duration: Annotated[
        float, typer.Option(metavar="S", min=1.0, max=86400.0, help="How long to track the trajectory, s.")
    ] = 30.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The report goes to DIR/<date>/.")] = Path("runs"),
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Robot file, or the name of a shipped one: opencr_five_tendon, with --contact vanderbilt_segment.",
            show_default=False,
        ),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Obstacles push on the robot meanwhile: those of FILE, or those shipped for the robot. The report "
            "then says what was felt.",
            show_default=False,
        ),
    ] = None,
    fake_level: LevelOption = FakeLevel.auto,
    *,
    view: ViewOption = True,
) -> None:
    """Bring a simulated robot up on ROS 2, track its trajectory, leave a report.

    All nodes (driver with simulated plant, string encoder, shape estimator, controller, reference, supervisor,
    recorder, visualizer) run in this process and talk over DDS. A status line shows state, rate, tracking error,
    tensions and round trip. Afterwards DIR/<date>/ holds metrics.json, the plots and the recording (MCAP).

    Ctrl-C ends it early in good order: the report then covers what was recorded, and the exit code is 130.
    """
    part = _part("demo")
    name = robot or ("opencr_five_tendon" if contact is None else part.CONTACT_ROBOT)
    raise typer.Exit(part.run_demo(name, duration, out, contact=contact, fake_level=fake_level.value, view=view))


@application.command(epilog="Example: continuum-robot up opencr_five_tendon --simulated --processes --record")
def up(
    robot: RobotArgument,
    *,
    simulated: Annotated[
        bool, typer.Option("--simulated/--hardware", help="Simulated hardware, or the robot on its bus.")
    ] = True,
    fake_level: LevelOption = FakeLevel.auto,
    processes: Annotated[
        bool, typer.Option("--processes/--composed", help="Each node a process, or all in this one.")
    ] = False,
    force: Annotated[bool, typer.Option("--force/--no-force", help="Also read the force-torque sensor.")] = False,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Record the topics to DIR/<date>/.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where --record writes.")] = Path("runs"),
    activate: Annotated[
        bool, typer.Option("--activate/--no-activate", help="Activate all nodes, or wait for the service ~/manage.")
    ] = True,
    contact: Annotated[
        bool, typer.Option("--contact/--no-contact", help="Look for contacts, and publish them on the topic contact.")
    ] = True,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of all nodes and topics.")] = "",
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put in front of every tf frame.")] = "",
    view: ViewOption = True,
) -> None:
    """Bring up the nodes of a robot until Ctrl-C, then release the tensions and shut down in order.

    With --hardware the drivers open the devices of the robot file's `hardware` section; where one does not answer, the
    command says which, enables nothing and ends with exit code 1. Home the robot first.
    """
    options = _part("up").UpOptions(
        robot=robot,
        simulated=simulated,
        fake_level=fake_level.value,
        force=force,
        processes=processes,
        record=record,
        out=out,
        activate=activate,
        contact=contact,
        namespace=namespace,
        prefix=prefix,
        view=view,
    )
    raise typer.Exit(_part("up").run_up(options))


@application.command(epilog="Example: continuum-robot view opencr_five_tendon")
def view(
    robot: Annotated[
        str,
        typer.Argument(
            metavar="[ROBOT]",
            help="Robot file, or the name of a shipped one; without: what the running stack says.",
            show_default=False,
        ),
    ] = "",
    *,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the stack.")] = "",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of the page; 0: 8080, or the next that is free.")
    ] = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where recordings go that the page begins.")] = Path("runs"),
    screenshot: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="Write a picture of the page with chromium, and end.", show_default=False),
    ] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of that picture, pixels.")] = "1280x800",
) -> None:
    """Show a running robot on a page in the browser, and steer it there.

    The page is a node like any other, in its own process: it shows backbone, disks, tendons by their tension, wanted
    and actual shape, contacts, curves, the state of the stack and every fault with what to do; it has an emergency
    stop, reset, sliders, targets to drag, gains, pushes on a simulated robot, and recording. It is served at 127.0.0.1,
    to this computer only: whoever opens it can move the robot. `demo` and `up` start it, too. Needs the extra viz.

    The emergency stop of the page is no safety device: keep the real one within reach.
    """
    part = _part("view.page")
    options = part.ViewOptions(robot=robot, namespace=namespace, port=port, out=out)
    if screenshot is None:
        raise typer.Exit(part.run_view(options))
    raise typer.Exit(_part("view.screenshot").run_screenshot(options, screenshot, size))


@application.command(epilog="Example: continuum-robot teleop --gamepad auto --mode tip")
def teleop(
    *,
    keyboard: Annotated[
        bool, typer.Option("--keyboard", help="Keys of this terminal; without another device the default.")
    ] = False,
    gamepad: Annotated[
        str,
        typer.Option(
            metavar="DEVICE", help="Gamepad: a file /dev/input/event*, or auto for the first.", show_default=False
        ),
    ] = "",
    joy: Annotated[
        bool, typer.Option("--joy", help="The topic joy (sensor_msgs/Joy), as joy_node publishes it.")
    ] = False,
    mode: Annotated[
        TeleopMode, typer.Option(help="What the sticks move: the Clarke coordinates of a segment, or the tip.")
    ] = TeleopMode.clarke,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the robot.")] = "",
) -> None:
    """Steer a running robot by hand: bring one up first, with `up` or `demo`, in another terminal.

    It moves while the dead man's switch is held: the shoulder button of a gamepad, or a key of the keyboard that
    repeats. Speed, acceleration and range come from the robot file. The e-stop key latches the e-stop. While this
    program steers, the reference source is silent; at the end it holds the robot where it is. The screen lists all keys
    and shows the robot. Exit code 2 where there is no such device, no terminal or no robot.
    """
    if keyboard + bool(gamepad) + joy > 1:
        raise ParameterError("teleop", "several devices", "one of --keyboard, --gamepad and --joy")
    options = _part("teleop").TeleopOptions(gamepad=gamepad, joy=joy, mode=mode.value, namespace=namespace)
    raise typer.Exit(_part("teleop").run_teleop(options))


@application.command(epilog="Example: continuum-robot check my_robot.yaml")
def check(robot: RobotArgument, json_file: JsonOption = None) -> None:
    """Check a robot file and print what it describes.

    Geometry, masses, stiffness, the natural frequencies of the straight robot from the rod model, limits, control,
    what can be run with it, and which values are assumed. A file with an error gives one message with file, line,
    key, value and what is allowed, and exit code 2.
    """
    _part("check").run_check(robot, json_file)


@application.command(epilog="Example: continuum-robot devices my_robot.yaml --json devices.json")
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
    plugged in is named as unexpected. No motor is switched on; the force sensor is set up as the robot file says.
    Exit code 1 where a device is missing, with one sentence each that says what to do.
    """
    raise typer.Exit(_part("devices").run_devices(robot, json_file))


@application.command(epilog="Example: continuum-robot faults --json faults.json")
def faults(
    robot: Annotated[
        str, typer.Argument(metavar="[ROBOT]", help="Robot file, or the name of a shipped one.")
    ] = "opencr_five_tendon",
    *,
    json_file: JsonOption = None,
    kinds: Annotated[
        str, typer.Option(metavar="NAMES", help="Only these, separated by commas; see --list. Empty: all.")
    ] = "",
    moment_count: Annotated[
        int,
        typer.Option(
            "--moments", metavar="N", min=1, max=3, help="1: early in the ramp; 2: at speed too; 3: at rest, bent, too."
        ),
    ] = 3,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of noise, and of the tendons that are hit.")] = 0,
    processes: Annotated[
        bool, typer.Option("--processes/--virtual-only", help="Kill and stop processes over DDS too.")
    ] = True,
    show_list: Annotated[bool, typer.Option("--list", help="List all kinds of faults.")] = False,
) -> None:
    """Break everything once, on a simulated robot that moves under control, and see whether it ends safe.

    The shipped drivers run against simulated wires. Each fault is injected at three moments of a motion; detection,
    time to the safe state and tensions are judged by the simulated robot's truth, and the robot has to move again
    without a restart. docs/faults.md says what every fault looks like and what to do. Takes some ten minutes. Exit
    code 1 unless every run ended safe.
    """
    part = _part("faults")
    if show_list:
        part.print_kinds()
        raise typer.Exit
    raise typer.Exit(
        part.run_faults(
            robot,
            kinds=kinds,
            moment_count=moment_count,
            seed=seed,
            json_file=json_file,
            processes=processes,
        )
    )


@application.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: continuum-robot experiment muhmann.tracking --json tracking.json --plots figures",
)
def experiment(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; see --list.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
    plots: Annotated[Path | None, typer.Option("--plots", metavar="DIR", help="Draw the figures here.")] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List all, with the paper's own numbers and the options of each.")
    ] = False,
) -> None:
    """Run an experiment of a paper: print its numbers beside the paper's, write them as JSON, draw its figures.

    Options of the experiment itself follow its name, e.g. --robot FILE --data FILE for ftdcr.replay; --list names them.
    """
    part = _part("experiment")
    if show_list or name is None:
        part.print_list()
        raise typer.Exit(0 if show_list else EXIT_REFUSED)
    part.run_experiment(name, own_options(context.args), json_file, plots)


@application.command(
    "identify-geometry",
    epilog="Example: continuum-robot identify-geometry ftdcr_v4 --data ftdcr_v4_tendon_pull.csv --out fitted.yaml",
)
def identify_geometry(
    robot: RobotArgument,
    data: Annotated[Path, typer.Option(metavar="CSV", help="Recording in which one tendon at a time is pulled.")],
    out: Annotated[Path, typer.Option(metavar="YAML", help="The robot file with the fitted values.")],
) -> None:
    """Find the servo-to-tendon map, the segments' angles and the marker's place by a fit to a recording."""
    _part("identify").run_identify_geometry(robot, data, out)


@application.command(
    epilog="Example: continuum-robot identify ftdcr_v4 --data ftdcr_v4_train.csv --out fitted.yaml, then: "
    "continuum-robot experiment ftdcr.validate --robot fitted.yaml --data other.csv --json result.json"
)
def identify(
    robot: RobotArgument,
    data: Annotated[Path, typer.Option(metavar="CSV", help="Recording of servos and marker, in the order of time.")],
    out: Annotated[Path, typer.Option(metavar="YAML", help="The robot file with the fitted values.")],
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Picture of the steps and of the errors.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Fit a real robot whose servos hold its tendons at displacements: geometry, statics, friction.

    Each step is a physical model with a few named parameters, fitted to the recording and judged on blocks of it that
    were left out; a step that gains nothing there is not kept. A robot file without a `recording` section needs a
    recording in which every tendon is once pulled alone, to find which servo drives it. Takes a minute or two.
    """
    _part("identify").run_identify(robot, data, out, json_file=json_file, plot=plot)


@application.command(
    epilog="Example: continuum-robot calibrate dynamics vanderbilt_segment --data chirp.csv --out fitted.yaml"
)
def calibrate(
    kind: Annotated[str, typer.Argument(metavar="DYNAMICS", help="What to calibrate: dynamics.")],
    robot: RobotArgument,
    out: Annotated[Path, typer.Option(metavar="YAML", help="The robot file with the fitted values.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Recording of torques, tendons and strings; without: a simulated chirp."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Picture of measured and simulated motion.")] = None,
) -> None:
    """Fit the stiffness of the backbone and the friction of the tendons to a recorded chirp of the capstans."""
    _part("calibrate").run_calibrate(kind.lower(), robot, data, out, plot)


@application.command(epilog="Example: continuum-robot home opencr_five_tendon --hardware")
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
    raise typer.Exit(_part("procedures").run_home(robot, simulated, tension, json_file))


@application.command("check-tendons", epilog="Example: continuum-robot check-tendons opencr_five_tendon --hardware")
def check_tendons(
    robot: RobotArgument,
    simulated: SimulatedOption = True,
    pull: Annotated[
        float,
        typer.Option(metavar="N", min=0.0, help="Most that is added to a tendon's tension, N; 0: from the limits."),
    ] = 0.0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask no question: what no string tells stays unknown, and is said.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Pull a little at one tendon after the other, and compare what moves with the robot file: polarity and mapping.

    Exit code 1 where a tendon is stuck, not attached, reversed or swapped with another; says which. The tendons alone
    cannot tell whether all of a segment are turned by some places or mirrored: strings do, and without them you are
    asked which way the tip moved. Ctrl-C releases the tendons.
    """
    ask = None if yes or not sys.stdin.isatty() else typer.confirm
    raise typer.Exit(_part("procedures").run_check_tendons(robot, simulated, pull, json_file, ask=ask))


@application.command(
    "calibrate-torque",
    epilog="Example: continuum-robot calibrate-torque my_robot.yaml --tendon 2 --mass 0.3 --mass 0.8 --out new.yaml",
)
def calibrate_torque(
    robot: RobotArgument,
    tendon: Annotated[int, typer.Option(metavar="J", min=1, help="Number of the tendon, from 1.")],
    mass: Annotated[list[float], typer.Option(metavar="KG", help="A weight, kg; once for each.")],
    *,
    simulated: SimulatedOption = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before each weight.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="YAML", help="Robot file to write with what was found.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Lift and lower weights hung on one tendon: the motor's torque constant, and the friction.

    Unhook the tendon from the robot and let the weight lie on a support under it. Lifting takes more current than
    lowering, by friction; their mean balances the weight. Ctrl-C puts the weight down.
    """

    def ask(sentence: str) -> None:
        typer.confirm(f"{sentence} Ready?", abort=True)

    part = _part("procedures")
    asked = None if yes or simulated else ask
    raise typer.Exit(part.run_calibrate_torque(robot, simulated, tendon, mass, out=out, json_file=json_file, ask=asked))


@application.command(
    epilog="Example: continuum-robot workspace rucker --compare rucker_helical --tension 5 --plot workspace.png"
)
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
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Draw shapes and tip positions here.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Where the tip of a robot goes under the tensions of its tendons, how it turns, and how stiff it is.

    Any routing and any strain basis. Tensions without an equilibrium, and equilibria that are not stable, were found
    beyond a buckling, or whose loads the basis cannot bear, are counted.
    """
    options = _part("workspace").WorkspaceOptions(tension_n=tension, samples=samples, weightless=weightless)
    _part("workspace").run_workspace([robot, *(compare or [])], options, plot, json_file)


@application.command(
    epilog="Example: continuum-robot replay runs/2026-01-31_12-00-00, or, of motion capture: continuum-robot replay "
    "ftdcr_v4_train.csv --robot fitted.yaml  (the file identify-geometry wrote)"
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
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new recording of a RUN goes to DIR/<date>/.")] = Path(
        "replays"
    ),
    json_file: JsonOption = None,
) -> None:
    """Play a recording into the nodes through the ROS 2 topics, and compare what comes out.

    Of a RUN, what the sensors measured and the references go into shape estimator, controller and contact monitor, with
    the recorded robot file, parameters and times; there is no driver, nothing moves. Their shapes, commands and
    contacts are recorded anew in DIR/<date>/ and compared with the old ones, message by message: the same program gives
    the same numbers. With --robot another file, and its settings, say what would have been different.

    Of a .csv, each sample is published on tendon_states, the shape estimator answers on shape, and the predicted marker
    is compared with the motion capture.
    """
    if run.suffix == ".csv":
        if robot is None:
            expected = "a robot file with a `recording` section, as identify-geometry and identify write it, for a .csv"
            raise ParameterError("--robot", None, expected)
        raise typer.Exit(_part("replay").run_replay(run, robot, realtime, json_file))
    part = _part("replay_run")
    raise typer.Exit(part.run_replay_of_run(run, robot, realtime=realtime, out=out, json_file=json_file))


RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of a run such as runs/2026-01-31_12-00-00, of a recording, or a .mcap."),
]


@application.command(epilog="Example: continuum-robot report runs/2026-01-31_12-00-00 --out redrawn")
def report(
    run: RunArgument,
    out: Annotated[
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
    raise typer.Exit(_part("report").run_report(run, robot, out))


@application.command(epilog="Example: continuum-robot repair runs/2026-01-31_12-00-00")
def repair(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The new recording; without: beside the old, <name>_repaired.")
    ] = None,
) -> None:
    """Copy a recording that was cut off into a whole one, with its index and metadata.yaml, for other programs.

    The recorder hands everything older than 0.55 s to the operating system. What a kill leaves lacks the index at the
    file's end, without which ros2 bag, rosbags and Foxglove do not open it. The old file is left as it is.
    """
    raise typer.Exit(_part("repair").run_repair(run, out))


@application.command(epilog="Example: continuum-robot bench --seconds 30 --json bench.json")
def bench(
    json_file: JsonOption = None,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=2.0, max=3600.0, help="Length of each run of the 1 kHz loop, s.")
    ] = 30.0,
) -> None:
    """Measure, on this machine: the rod model's speed, and the 1 kHz loop over DDS.

    Forward dynamics of one, two and three segments, compiled and in CasADi's machine (µs a call); then the loop with
    all nodes in one process and in separate processes: rate, missed cycles, round trip from tendon_states to the
    matching tendon_commands (p50, p99, max) and the CPU share of each process.
    """
    raise typer.Exit(_part("bench").run_bench(seconds, json_file))


def own_options(arguments: Sequence[str]) -> dict[str, str | bool]:
    """Options that follow an experiment's name, ``["--robot", "a.yaml", "--fast"]`` -> ``{"robot": "a.yaml", ...}``.

    An option without a value counts as true, ``true`` and ``false`` are no texts; hyphens in names become underscores.

    Parameters
    ----------
    arguments : words of the command line

    Raises
    ------
    ParameterError : an argument that is not an option, or an option given twice
    """
    options: dict[str, str | bool] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--") or len(name) == len("--"):
            raise ParameterError("argument", name, "options of the experiment as --name VALUE")
        key, equals, value = name[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        key = key.replace("-", "_")
        if key in options:
            raise ParameterError(f"--{key}", value, "each option once")
        options[key] = {"true": True, "false": False}.get(value, value)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : without the program's name; None takes those of the process

    Returns
    -------
    the exit code: 0 done, 1 failed, 2 refused, 130 stopped by Ctrl-C, 143 stopped by SIGTERM
    """
    try:
        application(args=None if arguments is None else list(arguments), prog_name="continuum-robot")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _part(name: str) -> ModuleType:
    # Imported when its command runs: ROS 2, CasADi and matplotlib take a second to load, and --help needs none of them.
    try:
        return importlib.import_module(f"continuum_robot.app.{name}")
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        extra = f"pip install 'continuum_robot[{EXTRAS[error.name]}]'"
        raise ContinuumRobotError(f"the module {error.name} is missing: install the extra, {extra}") from None


if __name__ == "__main__":
    sys.exit(main())
