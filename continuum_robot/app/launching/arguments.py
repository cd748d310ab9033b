# SPDX-License-Identifier: Apache-2.0
"""The arguments of the files in launch/, without launch itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from continuum_robot.app.running.options import RESPAWNS
from continuum_robot.app.running.processes import RESPAWN_DELAY_S
from continuum_robot.nodes.stack.option_list import LAUNCH, Offered, StackFields, faces, offered, option
from continuum_robot.robot.file.shipped_files import shipped_robots

BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class LaunchArgument:
    """An argument of a launch file, as ``--show-args`` prints it."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(StackFields):
    """Of ``sim.launch.py`` and ``hardware.launch.py``."""

    use_mock_hardware: str = option(
        "The same as use_fake_hardware, for those who know it by this name; it wins if both are given",
        default="",
        choices=("", *BOOLEAN),
        at=LAUNCH,
    )
    use_sim_time: bool = option("true: the same as clock:=lockstep", default=False, at=LAUNCH)
    rviz: bool = option("Also start rviz2", default=False, at=LAUNCH)
    record: bool = option("Record all topics of the robot (MCAP)", default=False, at=LAUNCH)
    record_to: str = option(
        "Where record:=true makes a folder named by the date",
        default="runs",
        at=faces(LAUNCH, name="record_directory"),
    )
    can_interface: str = option(
        "python-can interface of the motor boards instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    serial_port: str = option(
        "Serial port of the string-encoder board instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    force_port: str = option(
        "Serial port of the force-torque sensor instead of the robot file's; hardware only", default="", at=LAUNCH
    )
    respawn: int = option(
        "How often a program of a node that ends by itself is started again, each time after "
        f"{RESPAWN_DELAY_S:g} s; the supervisor configures it, and a reset (service manage_stack) brings the stack "
        "up again. 0: never; composed:=true: never",
        default=RESPAWNS,
        ge=0,
        le=9999,
        at=LAUNCH,
    )
    log_level: str = option(
        "Least severity of log messages",
        default="info",
        choices=("debug", "info", "warn", "error", "fatal"),
        at=LAUNCH,
    )
    composed: bool = option(
        "All nodes in one process: lower latency and a third of the processor time. false: each node a process",
        default=False,
        at=LAUNCH,
    )


def stack_arguments(simulated: bool) -> list[LaunchArgument]:
    """Arguments of ``sim.launch.py`` and ``hardware.launch.py``."""
    return [_argument(one, simulated) for one in offered(LaunchOptions, LAUNCH)]


def _argument(one: Offered, simulated: bool) -> LaunchArgument:
    default, text = simulated if one.field == "simulated" else one.default, one.rules.doc
    if one.field == "robot":
        text += ": " + ", ".join(shipped_robots())
    if one.kind is bool:
        return LaunchArgument(one.name, str(default).lower(), text, BOOLEAN)
    return LaunchArgument(one.name, str(default), text, one.rules.choices)


def rviz_arguments() -> list[LaunchArgument]:
    """Arguments of ``rviz.launch.py``."""
    return [
        LaunchArgument(
            "robot",
            default="opencr_five_tendon",
            description="Robot file (YAML), or the name of a shipped one; the view takes its size from it: "
            + ", ".join(shipped_robots()),
        ),
        LaunchArgument("namespace", default="", description="ROS namespace of the robot"),
        LaunchArgument("prefix", default="", description="What stands in front of the robot's tf frames"),
        LaunchArgument(
            "rviz_config",
            default="",
            description="Configuration file of rviz2; empty: the shipped one, scaled to the robot",
        ),
    ]


def misspelt(given: Iterable[str], arguments: Iterable[LaunchArgument]) -> list[str]:
    """A sentence for every argument that is unknown and looks like a known one.

    launch ignores unknown arguments in silence; those of a launch file that includes this one are none of ours.
    """
    names = [argument.name for argument in arguments]
    near = {name: difflib.get_close_matches(name, names, 1, 0.8) for name in given if name not in names}
    return [
        f"[WARN] launch argument {name}:= is unknown and ignored; meant {matches[0]}:= ?"
        for name, matches in near.items()
        if matches
    ]
