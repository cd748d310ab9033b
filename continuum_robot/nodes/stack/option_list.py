# SPDX-License-Identifier: Apache-2.0
"""The options of a stack, in one list: the command line, launch files and the composition's parameters come from it.

A face is a way in which options are given: the commands ``up``, ``demo`` and ``view``, launch files, ROS parameters. An
option may have another name or default at a face. Without NumPy, ROS and typer, for ``--help``.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.stack.choices import AUTO, CLARKE, CLOCKS, CONTROLLERS, SIMULATION_LEVELS
from continuum_robot.robot.control_settings import REACTIONS
from continuum_robot.robot.schema import Quantity, check_rules, quantity_of

UP, DEMO, VIEW, LAUNCH, NODE = "up", "demo", "view", "launch", "node"
STARTS = f"{UP} {DEMO} {LAUNCH}"
EVERYWHERE = f"{STARTS} {NODE}"
NOT_DEMO = f"{UP} {LAUNCH} {NODE}"

SIMULATION, CONTROL, SEVERAL = "Simulated hardware", "Control", "Several robots"

REQUIRED: Any = object()
"""The default of an argument that must be given."""
_SAME: Any = object()


@dataclass(frozen=True, slots=True)
class Face:
    """Name and default of an option at a face, where they are not those of its field."""

    name: str = ""
    default: Any = _SAME


def faces(names: str, **different: Any) -> dict[str, Face]:
    """The same :class:`Face` by several names."""
    return dict.fromkeys(names.split(), Face(**different))


@dataclass(frozen=True, slots=True)
class Shown:
    """How the command line shows an option: flags other than its name, the group in ``--help``, what stands for its
    value, which is any text then.
    """

    flags: tuple[str, ...] = ()
    group: str = ""
    metavar: str = ""


def option(
    doc: str,
    *,
    default: Any,
    at: str | Mapping[str, Face],
    flags: tuple[str, ...] = (),
    group: str = "",
    metavar: str = "",
    **rules: Any,
) -> Any:
    """A field that faces offer."""
    metadata = {
        "quantity": Quantity(doc, **rules),
        "faces": faces(at) if isinstance(at, str) else dict(at),
        "shown": Shown(flags, group, metavar),
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Offered:
    """An option as a face offers it."""

    field: str
    name: str
    kind: Any
    default: Any
    rules: Quantity
    shown: Shown

    def parsed(self, text: str) -> Any:
        """The value that a text stands for. Raises :class:`ParameterError`."""
        if self.kind is bool:
            return text == "true"
        if self.kind not in (int, float):
            return text
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if not self.rules.admits(value):
            whole = f"a whole number from {self.rules.ge:g} to {self.rules.le:g}"
            raise ParameterError(self.name, text, whole if self.kind is int else self.rules.expected())
        return value


def offered(options: type[Any], face: str) -> Iterator[Offered]:
    """What a face offers of a dataclass of options, in the order of its fields."""
    kinds = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        here = field.metadata.get("faces", {}).get(face)
        if here is not None:
            default = field.default if here.default is _SAME else here.default
            rules, shown = quantity_of(field), field.metadata["shown"]
            yield Offered(field.name, here.name or field.name, kinds[field.name], default, rules, shown)


def from_texts(options: type[Any], face: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Values by field from texts by the options' names at a face. Raises :class:`ParameterError`."""
    return {one.field: one.parsed(given[one.name]) for one in offered(options, face)}


def named(values: Any, face: str) -> dict[str, Any]:
    """Values of a dataclass of options by their names at a face."""
    return {one.name: getattr(values, one.field) for one in offered(type(values), face)}


def declared(options: type[Any], declare: Callable[..., Any]) -> dict[str, Any]:
    """Values by field from ROS parameters, which are declared: ``declare`` is that of a ParameterServer."""
    return {one.field: declare(one.name, one.default, one.rules.doc, rules=one.rules) for one in offered(options, NODE)}


@dataclass(frozen=True, kw_only=True)
class StackFields:
    """What every way to start a stack offers."""

    robot: str = option(
        "Robot file (YAML), or the name of a shipped one",
        default="opencr_five_tendon",
        metavar="FILE",
        at=faces(UP, default=REQUIRED) | faces(DEMO, default="") | faces(f"{LAUNCH} {NODE}"),
    )
    simulated: bool = option(
        "Simulated hardware: the same nodes and topics, the wires end in a simulator; else the robot on its bus",
        default=True,
        flags=("--simulated/--hardware",),
        group=SIMULATION,
        at=faces(UP) | faces(f"{LAUNCH} {NODE}", name="use_fake_hardware"),
    )
    simulation_level: str = option(
        "How much is simulated. dynamics: rod, tendons and motors with friction and cogging. wire: these behind "
        "simulated boards, to which the real drivers speak. mujoco: as wire, with a chain of rigid links in MuJoCo for "
        "the robot (extra mujoco). auto: wire where this machine keeps up, measured, else dynamics",
        default="dynamics",
        choices=(AUTO, *SIMULATION_LEVELS),
        group=SIMULATION,
        at=faces(STARTS, default=AUTO) | faces(NODE),
    )
    world: str = option(
        "Obstacles around the simulated robot: a world file, or the name of a shipped one (tube.yaml, box.yaml, "
        "post.yaml); at simulation level mujoco, which it chooses where the level is auto",
        default="",
        group=SIMULATION,
        metavar="FILE",
        at=EVERYWHERE,
    )
    truth: str = option(
        "Robot file of what is simulated in place of the robot, or the name of a shipped truth; none: the robot itself."
        " Without it as the robot file states (simulation.truth)",
        default="",
        group=SIMULATION,
        metavar="FILE",
        at=EVERYWHERE,
    )
    clock: str = option(
        "lockstep: time comes from the simulated robot and waits for every node, the same run on every machine. auto: "
        "real where this machine keeps up",
        default="real",
        choices=(AUTO, *CLOCKS),
        group=SIMULATION,
        at=faces(STARTS, default=AUTO) | faces(NODE),
    )
    seed: int = option(
        "Of everything drawn at random; -1: the robot file's",
        default=-1,
        ge=-1,
        le=2**31 - 1,
        group=SIMULATION,
        at=EVERYWHERE,
    )
    tracker: bool = option(
        "Simulate a tracker of the tip, which corrects the estimate", default=False, group=SIMULATION, at=NOT_DEMO
    )
    payload_kg: float = option(
        "What the tip carries; negative: as the robot file states",
        default=-1.0,
        ge=-1,
        le=100,
        metavar="KG",
        at=faces(f"{UP} {DEMO}", default=None) | faces(f"{LAUNCH} {NODE}"),
    )
    controller: str = option(
        "What commands the tendons. clarke: the Clarke controller in the driver's cycle. tip: the same, and the tip is "
        "kept where it is or brought to its target. hold_tension: the driver holds the tensions until the service "
        "switch_controller. topic: the Clarke controller as a node of its own, or yours, over the topic "
        "tendon_commands. none: only driver and estimators, for yours there",
        default=CLARKE,
        choices=CONTROLLERS,
        group=CONTROL,
        at=NOT_DEMO,
    )
    contact: bool = option(
        "Look for contacts, and publish them on the topic contact",
        default=False,
        group=CONTROL,
        at=faces(f"{UP} {LAUNCH}", default=True) | faces(NODE),
    )
    reaction: str = option(
        "What the robot does when something touches it: ignore, hold, retract, comply, guide or press; without it as "
        "the robot file states",
        default="",
        choices=("", *REACTIONS),
        group=CONTROL,
        metavar="NAME",
        at=NOT_DEMO,
    )
    predictive: bool = option(
        "Start the node that plans to predictive_target round the obstacles of the world",
        default=False,
        group=CONTROL,
        at=NOT_DEMO,
    )
    force_sensor: bool = option("Also read the force-torque sensor", default=False, at=NOT_DEMO)
    autostart: bool = option(
        "Bring all nodes up to active; else they wait for the service supervisor/manage",
        default=True,
        at=faces(f"{UP} {LAUNCH}", name="activate") | faces(NODE),
    )
    start_motion: bool = option(
        "Start the trajectory once the stack is up for the first time; else the robot holds until somebody starts a "
        "motion, by the service reference_source/restart for instance",
        default=False,
        at=f"{LAUNCH} {NODE}",
    )
    namespace: str = option(
        "ROS namespace of all nodes and topics", default="", group=SEVERAL, metavar="NS", at=f"{UP} {LAUNCH}"
    )
    prefix: str = option(
        "Put in front of every tf frame, e.g. left_", default="", group=SEVERAL, metavar="TEXT", at=NOT_DEMO
    )
    visualize: bool = option("Publish tf, path and markers", default=True, at=NODE)
    run_s: float = option(
        "In lock-step, how long time passes once the stack is up; 0: without end", default=0.0, ge=0, at=NODE
    )
    params_file: str = option(
        "File of ROS parameters of the nodes (YAML); they win over the robot file's. Start its sections with /**: so "
        "that they hold in any namespace",
        default="",
        metavar="YAML",
        at=f"{UP} {LAUNCH}",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_rules(field.name, getattr(self, field.name), quantity_of(field))
