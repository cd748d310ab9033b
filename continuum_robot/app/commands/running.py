# SPDX-License-Identifier: Apache-2.0
"""Commands that bring a robot up, show it and steer it."""

from __future__ import annotations

import enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from continuum_robot.app.commands.arguments import JsonOption, ManualCommand, part, with_options, without_effect
from continuum_robot.app.running.options import RESPAWNS, RUNS, DemoOptions, UpOptions
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.stack.choices import AUTO
from continuum_robot.nodes.stack.option_list import DEMO, UP, VIEW


class TeleopMode(str, enum.Enum):
    """What a person moves."""

    clarke = "clarke"
    tip = "tip"


class OptionalContact(ManualCommand):
    """A command whose option ``--contact`` may stand without its value, which is then empty."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Give ``--contact`` an empty value where none follows; ``ctx`` is the parser's context."""
        given: list[str] = []
        for word, following in pairwise([*args, "--"]):
            given.append(word)
            if word == "--contact" and following.startswith("-"):
                given.append("")
        return super().parse_args(ctx, given)


@with_options(DemoOptions, DEMO)
def demo(options: DemoOptions) -> None:
    """Bring a simulated robot up on ROS 2, track its trajectory, leave a report.

    Driver and controller share one process, in one cycle; the simulated robot, the estimators with the reference, and
    recorder with visualizer each have another; all talk over DDS. A status line shows state, rate, tracking error,
    tensions and response. Afterwards DIR/DATE/ holds metrics.json, the plots and the recording (MCAP).

    With --clock lockstep time comes from the simulated robot, and all nodes that act share one process and one thread:
    the run is as fast as this machine can, and two runs with the same seed give the same messages on every machine.

    Without --robot it is opencr_five_tendon, with --contact vanderbilt_segment. Ctrl-C ends it early in good order: the
    report then covers what was recorded, and the exit code is 130.
    """
    if not options.view:
        without_effect(
            "with --no-view", {"--view-only": options.view_only, "--allow-origin": bool(options.allow_origin)}
        )
    raise typer.Exit(part("running.demo").run_demo(options))


@with_options(UpOptions, UP, argument="robot")
def up(options: UpOptions) -> None:
    """Bring up the nodes of a robot until Ctrl-C, then release the tensions and shut down in order.

    With --hardware the drivers open the devices of the robot file's `hardware` section; where one does not answer, the
    command names it, enables nothing and ends with exit code 1. Home the robot first. Then it holds until a
    motion is started, unless --start is given.
    """
    if not options.simulated:
        without_effect(
            "with --hardware",
            {
                "--world": bool(options.world),
                "--truth": bool(options.truth),
                "--seed": options.seed >= 0,
                "--clock lockstep": options.clock == "lockstep",
                "--simulation-level": options.simulation_level != AUTO,
            },
        )
    if not options.view:
        without_effect(
            "with --no-view",
            {
                "--view-only": options.view_only,
                "--allow-origin": bool(options.allow_origin),
                "--folder": options.folder != RUNS and not options.record,
            },
        )
    if not options.processes:
        without_effect("with --composed", {"--respawn": options.respawn != RESPAWNS})
    raise typer.Exit(part("running.up").run_up(options))


@with_options(ViewOptions, VIEW, argument="robot_or_runs")
def view(options: ViewOptions) -> None:
    """Show a running robot on a page in the browser and steer it there; or show recordings, and move their time.

    The page is a node like any other, in its own process: it shows backbone, disks, tendons by their tension, desired
    and actual shape, contacts, curves, the state of the stack and every fault with what to do; it has an emergency
    stop, reset, sliders, targets to drag, gains, pushes on a simulated robot, and recording. It is served at 127.0.0.1,
    to this computer only, under an address with a token that is another at every start: who has that address can
    move the robot. `demo` and `up` start it, too. Needs the extra viz.

    Of recordings it shows the same, without a stack: a slider moves the time, and it plays at a chosen speed. Several
    RUNs stand beside each other on one time, with their curves over each other.

    The emergency stop of the page is no safety device: keep the real one within reach.
    """
    part("view.admission").checked_origins(options.allow_origin)
    given = options.robot_or_runs or []
    runs = [Path(one) for one in given if _is_recording(one)]
    if not runs:
        if len(given) > 1:
            raise ParameterError("view", " ".join(given), "one robot, or recordings")
        without_effect("without a recording", {"--robot": bool(options.robot)})
        raise typer.Exit(part("view.page").run_view(options, "".join(given)))
    robots = [one for one in given if not _is_recording(one)]
    if robots:
        raise ParameterError("view", robots[0], "a recording like the others")
    without_effect(
        "with a recording",
        {"--view-only": options.view_only, "--folder": options.folder != RUNS},
    )
    raise typer.Exit(part("view.recorded_page").run_view_of_recordings(options, runs))


def _is_recording(given: str) -> bool:
    """Whether an argument means a recording, there or not, and no robot: those are names, or files of YAML."""
    path = Path(given)
    if path.suffix in (".yaml", ".yml"):
        return path.name == "metadata.yaml"
    return path.is_dir() or path.suffix in (".mcap", ".db3") or len(path.parts) > 1


def controller(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="Which one commands from now on; without: only say.", show_default=False),
    ] = "",
    *,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the stack.")] = "",
) -> None:
    """Say which controller commands the tendons of a running stack, or switch to another while the torque stays on.

    clarke: the Clarke controller in the driver's cycle; tip: the same, and the tip is kept where it is or brought to
    its target; topic: the program that writes tendon_commands; hold_tension: the driver holds the tensions as they are.
    Tensions do not jump. Every motion ends; after it the robot holds where it is. Exit code 1 where the driver
    refuses or does not answer.
    """
    raise typer.Exit(part("procedures.on_stack").run_controller(name, namespace))


def learn_floor(
    duration: Annotated[
        float, typer.Option(metavar="S", min=2.0, max=600.0, help="Free motion to learn from, s.")
    ] = 10.0,
    *,
    only_if_missing: Annotated[
        bool, typer.Option("--only-if-missing", help="Do nothing where a floor is in use.")
    ] = False,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the stack.")] = "",
) -> None:
    """Let the contact monitor of a running stack learn what its residual is without a contact, and store it.

    Start a motion like those of the work first, and let nothing touch the robot. Its thresholds are raised above what
    free motion made; kalman_disturbance_observer learns the whole of its residual. The record is used where robot
    file, devices and settings of the monitor are the same: see its parameter free_motion. Where something touches, or
    nothing moves, nothing is learnt, and the floor of before is used on: exit code 1. Ctrl-C cancels.
    """
    module = part("procedures.on_stack")
    raise typer.Exit(module.run_learn_floor(duration, namespace, only_if_missing=only_if_missing))


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
    spacemouse: Annotated[
        bool, typer.Option("--spacemouse", help="The first SpaceMouse, and beside it the keys of this terminal.")
    ] = False,
    joy: Annotated[
        bool, typer.Option("--joy", help="The topic joy (sensor_msgs/Joy), as joy_node publishes it.")
    ] = False,
    mode: Annotated[
        TeleopMode, typer.Option(help="What the sticks move: the Clarke coordinates of a segment, or the tip.")
    ] = TeleopMode.clarke,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the robot.")] = "",
) -> None:
    """Steer a running robot by hand: bring one up first, with `up` or `demo`, in another terminal.

    It moves while the dead man's switch is held: the shoulder button of a gamepad, the left button of a SpaceMouse, or
    a key of the keyboard that repeats. Speed, acceleration and range come from the robot file. The e-stop key latches
    the e-stop. While this program steers, the reference source is silent; at the end it holds the robot where it is.
    The screen lists all keys and shows the robot. Exit code 1 where there is no such device, no terminal or no robot.
    """
    if keyboard + bool(gamepad) + spacemouse + joy > 1:
        raise ParameterError("teleop", "several devices", "one of --keyboard, --gamepad, --spacemouse and --joy")
    session = part("teleop.session")
    options = session.TeleopOptions(
        gamepad=gamepad, spacemouse=spacemouse, joy=joy, mode=mode.value, namespace=namespace
    )
    raise typer.Exit(session.run_teleop(options))


def weigh(
    radius: Annotated[
        float,
        typer.Option(metavar="M", min=0.0, max=1.0, help="Of the turns, m; 0: 0.3 of the largest displacement."),
    ] = 0.0,
    period: Annotated[float, typer.Option(metavar="S", min=1.0, max=1000.0, help="Time of a turn, s.")] = 16.0,
    turns: Annotated[int, typer.Option(min=1, max=100, help="Turns each way.")] = 6,
    bending_order: Annotated[
        int, typer.Option(min=0, max=12, help="Least order of bending of the model; 0: the robot file's.")
    ] = 2,
    json: JsonOption = None,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of the stack.")] = "",
) -> None:
    """Weigh what the tip of a running robot carries: slow turns without it, and with it.

    The robot bends, turns its bend each way and straightens. Then the payload is fixed to the tip, and it does that
    again. Printed are mass and standard deviation, and the line for the robot file, with which controller, contact
    monitor and simulated robot know it. Nothing else may touch the robot. A simulated robot of constant curvature does
    not sag: weigh it with --bending-order 0.
    """
    raise typer.Exit(part("procedures.on_stack").run_weigh(radius, period, turns, bending_order, namespace, json))
