# SPDX-License-Identifier: Apache-2.0
"""The arguments of the files in launch/, without launch itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from continuum_robot.app.running.processes import RESPAWN_DELAY_S, RESPAWNS
from continuum_robot.app.running.simulation_level import AUTO
from continuum_robot.nodes.stack.choices import CLARKE
from continuum_robot.nodes.stack.options import CONTROLLERS
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.reaction_settings import REACTIONS

BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class LaunchArgument:
    """An argument of a launch file, as ``--show-args`` prints it.

    Attributes
    ----------
    name : before ``:=``
    default : where it is not given
    description : one sentence or two
    choices : what is allowed; empty: any text
    """

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


def stack_arguments(simulated: bool) -> list[LaunchArgument]:
    """Arguments of ``sim.launch.py`` and ``hardware.launch.py``.

    Parameters
    ----------
    simulated : default of ``use_fake_hardware``
    """
    return [
        LaunchArgument(
            "robot",
            default="opencr_five_tendon",
            description="Robot file (YAML), or the name of a shipped one: " + ", ".join(shipped_robots()),
        ),
        LaunchArgument(
            "use_fake_hardware",
            default=str(simulated).lower(),
            choices=BOOLEAN,
            description="true: the same nodes and topics, the wires end in a simulator. false: the robot on its bus",
        ),
        LaunchArgument(
            "use_mock_hardware",
            default="",
            choices=("", *BOOLEAN),
            description="The same as use_fake_hardware, for those who know it by this name; it wins if both are given",
        ),
        LaunchArgument(
            "simulation_level",
            default=AUTO,
            choices=(AUTO, "wire", "dynamics", "mujoco"),
            description="How much is simulated. auto: wire where this machine keeps up, measured, else dynamics. "
            "dynamics: rod, tendons and motors with friction and cogging. wire: these behind simulated boards, to "
            "which the real drivers speak. mujoco: as wire, with a chain of rigid links in MuJoCo for the robot",
        ),
        LaunchArgument(
            "world",
            default="",
            description="File of obstacles around the simulated robot, or the name of a shipped one (tube.yaml, "
            "box.yaml); with simulation_level:=mujoco",
        ),
        LaunchArgument(
            "controller",
            default=CLARKE,
            choices=CONTROLLERS,
            description="What commands the tendons. clarke: the Clarke controller in the driver's cycle. tip: the "
            "same, and the tip is kept where it is or brought to its target. hold_tension: the driver holds the "
            "tensions until the service switch_controller. topic: the Clarke controller as a node of its own, or "
            "yours, over the topic tendon_commands. none: only driver and estimators, for yours there",
        ),
        LaunchArgument(
            "clock",
            default=AUTO,
            choices=(AUTO, "real", "lockstep"),
            description="lockstep: time comes from the simulated robot and waits for every node. auto: real where this "
            "machine keeps up with it",
        ),
        LaunchArgument(
            "use_sim_time", default="false", choices=BOOLEAN, description="true: the same as clock:=lockstep"
        ),
        LaunchArgument(
            "activate",
            default="true",
            choices=BOOLEAN,
            description="Bring all nodes up to active. false: they wait for the service supervisor/manage",
        ),
        LaunchArgument(
            "start_motion",
            default="false",
            choices=BOOLEAN,
            description="Start the trajectory once the stack is up for the first time. false: the robot holds until "
            "somebody starts a motion, by the service reference_source/restart for instance",
        ),
        LaunchArgument(
            "contact",
            default="true",
            choices=BOOLEAN,
            description="Look for contacts, and publish them on the topic contact",
        ),
        LaunchArgument("rviz", default="false", choices=BOOLEAN, description="Also start rviz2"),
        LaunchArgument("record", default="false", choices=BOOLEAN, description="Record all topics of the robot (MCAP)"),
        LaunchArgument(
            "record_directory", default="runs", description="Where record:=true makes a folder named by the date"
        ),
        LaunchArgument(
            "namespace", default="", description="ROS namespace of all nodes and topics, for several robots"
        ),
        LaunchArgument(
            "prefix", default="", description="Put in front of every tf frame, for several robots, e.g. left_"
        ),
        LaunchArgument(
            "can_interface",
            default="",
            description="python-can interface of the motor boards instead of the robot file's; hardware only",
        ),
        LaunchArgument(
            "serial_port",
            default="",
            description="Serial port of the string-encoder board instead of the robot file's; hardware only",
        ),
        LaunchArgument(
            "reaction",
            default="",
            choices=("", *REACTIONS),
            description="What the robot does when something touches it; empty: as the robot file states",
        ),
        LaunchArgument(
            "truth",
            default="",
            description="Robot file of what is simulated in place of robot, or the name of a shipped truth; empty: as"
            " the robot file states (simulation.truth); none: the robot itself",
        ),
        LaunchArgument(
            "payload_kg", default="-1.0", description="What the tip carries, kg; negative: as the robot file states"
        ),
        LaunchArgument("tracker", default="false", choices=BOOLEAN, description="Simulate a tracker of the tip"),
        LaunchArgument(
            "predictive",
            default="false",
            choices=BOOLEAN,
            description="Start the node that plans to targets of the tip round the obstacles of its parameter world",
        ),
        LaunchArgument(
            "force_sensor", default="false", choices=BOOLEAN, description="Also read the force-torque sensor"
        ),
        LaunchArgument(
            "force_port",
            default="",
            description="Serial port of the force-torque sensor instead of the robot file's; hardware only",
        ),
        LaunchArgument(
            "params_file",
            default="",
            description="YAML file with ROS parameters; it wins over the robot file. Start its sections with /**: "
            "so that they hold in any namespace",
        ),
        LaunchArgument(
            "respawn",
            default=str(RESPAWNS),
            description="How often a program of a node that ends by itself is started again, each time after "
            f"{RESPAWN_DELAY_S:g} s; the supervisor configures it, and a reset (service manage_stack) brings the stack "
            "up again. 0: never; composed:=true: never",
        ),
        LaunchArgument(
            "log_level",
            default="info",
            choices=("debug", "info", "warn", "error", "fatal"),
            description="Least severity of log messages",
        ),
        LaunchArgument(
            "composed",
            default="false",
            choices=BOOLEAN,
            description="All nodes in one process: lower latency and a third of the processor time. "
            "false: each node a process",
        ),
    ]


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

    Parameters
    ----------
    given : names
    arguments : known ones
    """
    names = [argument.name for argument in arguments]
    near = {name: difflib.get_close_matches(name, names, 1, 0.8) for name in given if name not in names}
    return [
        f"[WARN] launch argument {name}:= is unknown and ignored; meant {matches[0]}:= ?"
        for name, matches in near.items()
        if matches
    ]
