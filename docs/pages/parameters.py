# SPDX-License-Identifier: Apache-2.0
"""docs/reference/parameters.md from the nodes: each is made, configured, and asked what it has declared."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterable
from typing import Any

import rclpy
from rclpy.context import Context

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import initialize
from continuum_robot.nodes.stack.making import node_class
from continuum_robot.nodes.stack.options import MANAGED_NODES, StackOptions
from continuum_robot.nodes.supervisor import Supervisor
from pages.text import WRITTEN_BY, code, table

ROBOTS = ("opencr_five_tendon", "crem_segment")
"""Their nodes are looked at; together they have every node but the next ones."""
_OF_NEITHER = ("base_stage", "fiber_interrogator")

INTRODUCTION = """\
# Parameters

{written_by}

What each node declares; `ros2 param describe` reports the same. "live" ones may be set while the node is active; a
change is checked as a whole and refused with a sentence, or taken at the next cycle. Where the default reports *robot
file*, it is the value there ([robot_file.md](robot_file.md)), read again at each configuration; what a launch file, a
`params_file` or `ros2 param set` sets wins over it, but never raises a limit
([safety.md](../explanation/safety.md#what-the-robot-file-states-holds)). *By the robot* is computed from it
([for the contact monitor](../how-to/contact.md#where-the-defaults-come-from)). In a `params_file` begin sections with
`/**:` or `/**/tendon_driver:`, else they hold for nodes without a namespace only. A section of no known node is refused
before anything starts, a value or a name that does not fit its node when the node is made or configured, both with
the file's line; a name under `/**:` need not be known to every node.

    ros2 param set /clarke_controller gains.segment_1.p 15000.0
    ros2 param set /reference_source reference.kind circle
"""

HEADER = ("parameter", "default", "allowed", "live", "meaning")
FROM_FILE, BY_ROBOT = "*robot file*", "*by the robot*"
OF_ROS = re.compile(r"use_sim_time|start_type_description_service|qos_overrides\..*")


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """A parameter as its node declared it.

    Attributes
    ----------
    default : as it is shown
    allowed : as it is shown
    live : may be set while the node runs
    meaning : one sentence, with the unit
    """

    default: str
    allowed: str
    live: bool
    meaning: str


def page() -> str:
    """The whole page. Nothing is sent over DDS but what joining it takes.

    Raises
    ------
    DeviceError : DDS cannot be joined
    """
    nodes: dict[str, dict[str, Declared]] = {}
    for robot in ROBOTS:
        for node, declared in _declared(robot).items():
            nodes[node] = declared | nodes.get(node, {})
    common = _common(nodes.values())
    lines = [INTRODUCTION.format(written_by=WRITTEN_BY), "## All nodes", "", *_table(common), ""]
    for node in [*MANAGED_NODES, "supervisor"]:
        own = {name: one for name, one in nodes[node].items() if name not in common or one.live > common[name].live}
        lines += [f"## {node}", "", *_table(own), ""]
    return "\n".join(lines).rstrip() + "\n"


def _declared(robot: str) -> dict[str, dict[str, Declared]]:
    with tempfile.TemporaryDirectory() as folder:
        context = Context()
        options = StackOptions(robot=robot, record_directory=folder, force_sensor=True, contact=True, predictive=True)
        initialize([], context)
        nodes: list[ManagedNode] = []
        try:
            found = {}
            for name in [*options.node_names, *_OF_NEITHER, "supervisor"]:
                overrides = {"robot": robot} if name != "supervisor" else {}
                made = Supervisor if name == "supervisor" else node_class(name)
                node = made(context=context, overrides=overrides)
                nodes.append(node)
                # Some settings are declared when the robot file is read; where a device is missing, after that.
                # All nodes stay until the end: the driver needs the simulator.
                node.trigger_configure()
                found[name] = _of_node(node)
            return found
        finally:
            for node in reversed(nodes):
                node.destroy_node()
            rclpy.try_shutdown(context=context)


def _of_node(node: ManagedNode) -> dict[str, Declared]:
    names = sorted(name for name in node.list_parameters([], 0).names if not OF_ROS.fullmatch(name))
    from_file, computed = node.parameters.of_robot
    found: dict[str, Declared] = {}
    for name, described in zip(names, node.describe_parameters(names), strict=True):
        shown = re.sub(r"^gains\.[^.]+\.", "gains.<segment>.", name)
        default = _shown(StackOptions().robot if name == "robot" else node.get_parameter(name).value)
        default = FROM_FILE if name in from_file else BY_ROBOT if name in computed else default
        if name == "robot_description":
            default = BY_ROBOT
        found[shown] = Declared(default, _allowed(described), not described.read_only, described.description)
    return found


def _common(nodes: Iterable[dict[str, Declared]]) -> dict[str, Declared]:
    """Parameters that every node has, with the same meaning; live where every node has them live."""
    every = list(nodes)
    return {
        name: min((other[name] for other in every), key=lambda one: one.live)
        for name, parameter in every[0].items()
        if all(name in other and other[name].meaning == parameter.meaning for other in every)
    }


def _table(parameters: dict[str, Declared]) -> list[str]:
    rows = [
        (code(name), one.default, one.allowed, "yes" if one.live else "no", one.meaning)
        for name, one in sorted(parameters.items())
    ]
    return table(HEADER, rows)


def _shown(value: Any) -> str:
    if value is None or (not isinstance(value, (bool, int, float)) and len(value) == 0):
        return "empty"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, (int, float, str)):
        return code(str(value))
    return code(f"[{', '.join(str(item) for item in value)}]")


def _allowed(described: Any) -> str:
    if described.additional_constraints:
        text = str(described.additional_constraints).removeprefix("one of ")
        interval = re.match(r"a number in ([\[(].*?[\])])", text)
        return interval[1] if interval else text
    for ranges in (described.floating_point_range, described.integer_range):
        if ranges:
            return f"{ranges[0].from_value:g} to {ranges[0].to_value:g}"
    return ""
