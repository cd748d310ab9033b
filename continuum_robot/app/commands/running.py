# SPDX-License-Identifier: Apache-2.0
"""Commands that bring a robot up, show it and steer it."""

from __future__ import annotations

import enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from continuum_robot.app.commands.arguments import JsonOption, RobotArgument, without_effect
from continuum_robot.app.commands.parts import part
from continuum_robot.errors import ParameterError


class SimulationLevel(str, enum.Enum):
    """How much of the robot is simulated."""

    auto = "auto"
    wire = "wire"
    dynamics = "dynamics"
    mujoco = "mujoco"


class TeleopMode(str, enum.Enum):
    """What a person moves."""

    clarke = "clarke"
    tip = "tip"


LevelOption = Annotated[
    SimulationLevel,
    typer.Option(
        "--simulation-level",
        "--fake-level",
        help="wire: the real drivers speak to simulated boards, byte by byte; dynamics: rod, tendons and motors, no "
        "wires; mujoco: as wire, with a chain of rigid links in MuJoCo for the robot (extra mujoco); auto: wire where "
        "this machine keeps up, as a short measurement reports.",
    ),
]


WorldOption = Annotated[
    str,
    typer.Option(
        "--world",
        metavar="FILE",
        help="Obstacles around the simulated robot: a world file, or the name of a shipped one (tube.yaml, box.yaml). "
        "Needs --simulation-level mujoco, and chooses it where the level is auto.",
    ),
]


class ControllerChoice(str, enum.Enum):
    """What commands the tendons."""

    clarke = "clarke"
    tip = "tip"
    hold_tension = "hold_tension"
    topic = "topic"
    none = "none"


class ClockChoice(str, enum.Enum):
    """Where the time of a simulated run comes from."""

    auto = "auto"
    real = "real"
    lockstep = "lockstep"


ClockOption = Annotated[
    ClockChoice,
    typer.Option(
        "--clock",
        help="lockstep: time comes from the simulated robot and waits for every node, the same run on every machine; "
        "auto: real where this machine keeps up.",
    ),
]
PayloadOption = Annotated[
    float | None,
    typer.Option(metavar="KG", min=0, max=100, help="What the tip carries, instead of the file's payload_kg."),
]
TruthOption = Annotated[
    str,
    typer.Option(
        "--truth",
        metavar="FILE",
        help="Robot file of what is simulated in place of the robot, or the name of a shipped truth; none: the robot "
        "itself. Without it as the robot file states (simulation.truth).",
        show_default=False,
    ),
]
ViewOption = Annotated[
    bool, typer.Option("--view/--no-view", help="Also show the robot on a page in the browser, at 127.0.0.1 only.")
]
ViewOnlyOption = Annotated[
    bool, typer.Option("--view-only", help="The page shows the robot and takes no orders from any browser.")
]
AllowOriginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN",
        help="A further address under which browsers reach the page, of a tunnel or a proxy, such as "
        "http://127.0.0.1:9000 or https://robot.example; may be given several times. The token is needed all the same.",
        show_default=False,
    ),
]


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


def demo(
    duration: Annotated[
        float, typer.Option(metavar="S", min=1.0, max=86400.0, help="How long to track the trajectory, s.")
    ] = 30.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The report goes to DIR/DATE/.")] = Path("runs"),
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
            "then lists what was detected.",
            show_default=False,
        ),
    ] = None,
    simulation_level: LevelOption = SimulationLevel.auto,
    *,
    world: WorldOption = "",
    clock: ClockOption = ClockChoice.auto,
    seed: Annotated[
        int, typer.Option(metavar="N", min=-1, help="Of everything drawn at random; -1: the robot file's.")
    ] = -1,
    payload_kg: PayloadOption = None,
    truth: TruthOption = "",
    view: ViewOption = True,
    view_only: ViewOnlyOption = False,
    allow_origin: AllowOriginOption = None,
) -> None:
    """Bring a simulated robot up on ROS 2, track its trajectory, leave a report.

    Driver and controller share one process, in one cycle; the simulated robot, the estimators with the reference, and
    recorder with visualizer each have another; all talk over DDS. A status line shows state, rate, tracking error,
    tensions and response. Afterwards DIR/DATE/ holds metrics.json, the plots and the recording (MCAP).

    With --clock lockstep time comes from the simulated robot: the run is as fast as this machine can, and two runs with
    the same seed give the same messages on every machine.

    Ctrl-C ends it early in good order: the report then covers what was recorded, and the exit code is 130.
    """
    if not view:
        without_effect("with --no-view", {"--view-only": view_only, "--allow-origin": bool(allow_origin)})
    allow_origins = part("view.admission").checked_origins(allow_origin)
    module = part("running.demo")
    name = robot or ("opencr_five_tendon" if contact is None else module.CONTACT_ROBOT)
    raise typer.Exit(
        module.run_demo(
            name,
            duration,
            out,
            contact=contact,
            simulation_level=simulation_level.value,
            world=world,
            view=view,
            view_only=view_only,
            allow_origins=allow_origins,
            clock=clock.value,
            seed=seed,
            payload_kg=-1.0 if payload_kg is None else payload_kg,
            truth=truth,
        )
    )


def up(
    robot: RobotArgument,
    *,
    simulated: Annotated[
        bool, typer.Option("--simulated/--hardware", help="Simulated hardware, or the robot on its bus.")
    ] = True,
    simulation_level: LevelOption = SimulationLevel.auto,
    world: WorldOption = "",
    processes: Annotated[
        bool,
        typer.Option(
            "--processes/--composed",
            help="Driver and controller, simulator, estimators and recorder each in a process "
            "of their own, or all in this one.",
        ),
    ] = True,
    controller: Annotated[
        ControllerChoice,
        typer.Option(
            "--controller",
            help="clarke: in the driver's cycle; tip: the same, and the tip is kept where it is or brought to its "
            "target; hold_tension: the driver holds the tensions until it is switched; "
            "topic: a node of its own, or yours, over tendon_commands; none: no controller.",
        ),
    ] = ControllerChoice.clarke,
    clock: ClockOption = ClockChoice.auto,
    force_sensor: Annotated[
        bool, typer.Option("--force-sensor/--no-force-sensor", help="Also read the force-torque sensor.")
    ] = False,
    reaction: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="When something touches: ignore, hold, retract, comply, guide or press; else as the file states.",
            show_default=False,
        ),
    ] = "",
    payload_kg: PayloadOption = None,
    truth: TruthOption = "",
    params_file: Annotated[
        Path | None,
        typer.Option(metavar="YAML", help="ROS parameters of the nodes, as for launch files; over the robot file's."),
    ] = None,
    tracker: Annotated[
        bool, typer.Option("--tracker/--no-tracker", help="Simulate a tracker of the tip, which corrects the estimate.")
    ] = False,
    predictive: Annotated[
        bool,
        typer.Option(
            "--predictive/--no-predictive",
            help="Start the node that plans to predictive_target round the obstacles of --world.",
        ),
    ] = False,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Record the topics to DIR/DATE/.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where --record writes.")] = Path("runs"),
    activate: Annotated[
        bool, typer.Option("--activate/--no-activate", help="Activate all nodes, or wait for the service ~/manage.")
    ] = True,
    start: Annotated[
        bool | None,
        typer.Option(
            "--start/--hold",
            help="Play the trajectory once the stack is up, or hold until a motion is started. Without either a"
            " simulated robot starts, and a robot on its bus holds.",
            show_default=False,
        ),
    ] = None,
    contact: Annotated[
        bool, typer.Option("--contact/--no-contact", help="Look for contacts, and publish them on the topic contact.")
    ] = True,
    namespace: Annotated[str, typer.Option(metavar="NS", help="ROS namespace of all nodes and topics.")] = "",
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put in front of every tf frame.")] = "",
    view: ViewOption = True,
    view_only: ViewOnlyOption = False,
    allow_origin: AllowOriginOption = None,
    respawn: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=9999,
            help="How often a process that ends by itself is started again; a reset then brings the stack up.",
        ),
    ] = 5,
) -> None:
    """Bring up the nodes of a robot until Ctrl-C, then release the tensions and shut down in order.

    With --hardware the drivers open the devices of the robot file's `hardware` section; where one does not answer, the
    command names it, enables nothing and ends with exit code 1. Home the robot first. Then it holds until a
    motion is started, unless --start is given.
    """
    if not simulated:
        without_effect(
            "with --hardware",
            {
                "--world": bool(world),
                "--truth": bool(truth),
                "--clock lockstep": clock is ClockChoice.lockstep,
                "--simulation-level": simulation_level is not SimulationLevel.auto,
            },
        )
    if not view:
        without_effect(
            "with --no-view",
            {
                "--view-only": view_only,
                "--allow-origin": bool(allow_origin),
                "--out": out != Path("runs") and not record,
            },
        )
    if not processes:
        without_effect("with --composed", {"--respawn": respawn != 5})
    options = part("running.up").UpOptions(
        robot=robot,
        simulated=simulated,
        simulation_level=simulation_level.value,
        world=world,
        force_sensor=force_sensor,
        tracker=tracker,
        predictive=predictive,
        reaction=reaction,
        payload_kg=-1.0 if payload_kg is None else payload_kg,
        truth=truth,
        params_file=params_file,
        processes=processes,
        controller=controller.value,
        clock=clock.value,
        record=record,
        out=out,
        activate=activate,
        start_motion=start,
        contact=contact,
        namespace=namespace,
        prefix=prefix,
        view=view,
        view_only=view_only,
        allow_origins=part("view.admission").checked_origins(allow_origin),
        respawns=respawn,
    )
    raise typer.Exit(part("running.up").run_up(options))


def view(
    robot: Annotated[
        str,
        typer.Argument(
            metavar="[ROBOT]",
            help="Robot file, or the name of a shipped one; without: what the running stack reports.",
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
        typer.Option(
            metavar="FILE",
            help="Write a picture of the page with chromium, and end: FILE.png, or FILE.gif, eight seconds that move.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of that picture, pixels.")] = "1280x800",
    view_only: ViewOnlyOption = False,
    allow_origin: AllowOriginOption = None,
) -> None:
    """Show a running robot on a page in the browser, and steer it there.

    The page is a node like any other, in its own process: it shows backbone, disks, tendons by their tension, desired
    and actual shape, contacts, curves, the state of the stack and every fault with what to do; it has an emergency
    stop, reset, sliders, targets to drag, gains, pushes on a simulated robot, and recording. It is served at 127.0.0.1,
    to this computer only, under an address with a token that is another at every start: who has that address can
    move the robot. `demo` and `up` start it, too. Needs the extra viz.

    The emergency stop of the page is no safety device: keep the real one within reach.
    """
    allow_origins = part("view.admission").checked_origins(allow_origin)
    module = part("view.page")
    options = module.ViewOptions(
        robot=robot, namespace=namespace, port=port, out=out, allow_origins=allow_origins, view_only=view_only
    )
    if screenshot is None:
        raise typer.Exit(module.run_view(options))
    raise typer.Exit(part("view.screenshot").run_screenshot(options, screenshot, size))


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
    raise typer.Exit(part("running.controller").run_controller(name, namespace))


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
    module = part("procedures.learn_floor")
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
    and shows the robot. Exit code 1 where there is no such device, no terminal or no robot.
    """
    if keyboard + bool(gamepad) + joy > 1:
        raise ParameterError("teleop", "several devices", "one of --keyboard, --gamepad and --joy")
    options = part("teleop.session").TeleopOptions(gamepad=gamepad, joy=joy, mode=mode.value, namespace=namespace)
    raise typer.Exit(part("teleop.session").run_teleop(options))


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
    raise typer.Exit(part("procedures.weigh").run_weigh(radius, period, turns, bending_order, namespace, json))
