# SPDX-License-Identifier: Apache-2.0
"""What the files in launch/ share. The only module that imports launch and launch_ros, which are not on PyPI."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch_ros.actions import Node

from continuum_robot.app.fake_level import AUTO, choose_level
from continuum_robot.app.rviz_view import write_scaled
from continuum_robot.app.stack import load_for_stack, node_parameters
from continuum_robot.drivers import backends
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.nodes.composition import StackOptions
from continuum_robot.nodes.loopback import keep_to_loopback
from continuum_robot.robot.loading import find_robot_file, load_robot, shipped_robots
from continuum_robot.robot.shipped_files import shipped_file

PACKAGE = "continuum_robot"
BOOLEAN = ["true", "false"]


def stack_description(fake_hardware: bool) -> LaunchDescription:
    """All nodes of a robot.

    Parameters
    ----------
    fake_hardware : default of ``use_fake_hardware``

    Returns
    -------
    the description for ``ros2 launch``
    """
    arguments = [
        DeclareLaunchArgument(
            "robot",
            default_value="opencr_five_tendon",
            description="Robot file (YAML), or the name of a shipped one: " + ", ".join(shipped_robots()),
        ),
        DeclareLaunchArgument(
            "use_fake_hardware",
            default_value=str(fake_hardware).lower(),
            choices=BOOLEAN,
            description="true: the same nodes and topics, the wires end in a simulator. false: the robot on its bus",
        ),
        DeclareLaunchArgument(
            "use_mock_hardware",
            default_value="",
            choices=["", *BOOLEAN],
            description="The same as use_fake_hardware, for those who know it by this name; it wins if both are given",
        ),
        DeclareLaunchArgument(
            "fake_level",
            default_value=AUTO,
            choices=[AUTO, "wire", "dynamics", "mirror"],
            description="How much is simulated. auto: wire where this machine keeps up, measured, else dynamics. "
            "dynamics: rod, tendons and motors with friction and cogging. wire: these behind simulated boards, to "
            "which the real drivers speak. mirror: ideal tendons that follow their commands at once",
        ),
        DeclareLaunchArgument(
            "controller",
            default_value="clarke_controller",
            choices=["clarke_controller", "none"],
            description="Which controller commands the tensions. none: only driver and estimators, for your own "
            "controller on the topic tendon_commands",
        ),
        DeclareLaunchArgument(
            "activate",
            default_value="true",
            choices=BOOLEAN,
            description="Bring all nodes up to active. false: they wait for the service supervisor/manage",
        ),
        DeclareLaunchArgument(
            "contact",
            default_value="true",
            choices=BOOLEAN,
            description="Look for contacts, and publish them on the topic contact",
        ),
        DeclareLaunchArgument("rviz", default_value="false", choices=BOOLEAN, description="Also start rviz2"),
        DeclareLaunchArgument(
            "record", default_value="false", choices=BOOLEAN, description="Record all topics of the robot (MCAP)"
        ),
        DeclareLaunchArgument(
            "record_directory", default_value="runs", description="Where record:=true makes a folder named by the date"
        ),
        DeclareLaunchArgument(
            "namespace", default_value="", description="ROS namespace of all nodes and topics, for several robots"
        ),
        DeclareLaunchArgument(
            "prefix", default_value="", description="Put in front of every tf frame, for several robots, e.g. left_"
        ),
        DeclareLaunchArgument(
            "can_interface",
            default_value="",
            description="python-can interface of the motor boards instead of the robot file's; hardware only",
        ),
        DeclareLaunchArgument(
            "serial_port",
            default_value="",
            description="Serial port of the string-encoder board instead of the robot file's; hardware only",
        ),
        DeclareLaunchArgument(
            "force", default_value="false", choices=BOOLEAN, description="Also read the force-torque sensor"
        ),
        DeclareLaunchArgument(
            "force_port",
            default_value="",
            description="Serial port of the force-torque sensor instead of the robot file's; hardware only",
        ),
        DeclareLaunchArgument(
            "params_file",
            default_value="",
            description="YAML file with ROS parameters; it wins over the robot file. Start its sections with /**: "
            "so that they hold in any namespace",
        ),
        DeclareLaunchArgument(
            "log_level",
            default_value="info",
            choices=["debug", "info", "warn", "error", "fatal"],
            description="Least severity of log messages",
        ),
        DeclareLaunchArgument(
            "composed",
            default_value="false",
            choices=BOOLEAN,
            description="All nodes in one process: lower latency and a third of the processor time. "
            "false: each node a process",
        ),
    ]
    return _description(arguments, _stack)


def rviz_description() -> LaunchDescription:
    """rviz2 with the robot's displays, for ``ros2 launch continuum_robot rviz.launch.py``."""
    arguments = [
        DeclareLaunchArgument(
            "robot",
            default_value="opencr_five_tendon",
            description="Robot file (YAML), or the name of a shipped one; the view takes its size from it: "
            + ", ".join(shipped_robots()),
        ),
        DeclareLaunchArgument("namespace", default_value="", description="ROS namespace of the robot"),
        DeclareLaunchArgument("prefix", default_value="", description="What stands in front of the robot's tf frames"),
        DeclareLaunchArgument(
            "rviz_config",
            default_value="",
            description="Configuration file of rviz2; empty: the shipped one, scaled to the robot",
        ),
    ]
    return _description(arguments, lambda context: [_rviz(context, context.launch_configurations["rviz_config"])])


def _description(
    arguments: list[DeclareLaunchArgument], actions: Callable[[LaunchContext], list[Action]]
) -> LaunchDescription:
    names = [argument.name for argument in arguments]

    def checked(context: LaunchContext) -> list[Action]:
        keep_to_loopback(context.environment)
        try:
            return [*_misspelt(context, names), *actions(context)]
        except ContinuumRobotError as error:
            # launch prints the exception's class and text, and ends with exit code 1.
            raise RuntimeError(str(error)) from None

    return LaunchDescription(
        [
            *arguments,
            OpaqueFunction(function=checked),
        ]
    )


def _misspelt(context: LaunchContext, names: list[str]) -> list[Action]:
    # launch ignores unknown arguments in silence; those of a launch file that includes this one are none of ours.
    found = []
    for given in context.launch_configurations:
        near = [] if given in names else difflib.get_close_matches(given, names, 1, 0.8)
        if near:
            found.append(LogInfo(msg=f"[WARN] launch argument {given}:= is unknown and ignored; meant {near[0]}:= ?"))
    return found


def _stack(context: LaunchContext) -> list[Action]:
    given = context.launch_configurations
    options = StackOptions(
        robot=given["robot"],
        simulated=(given["use_mock_hardware"] or given["use_fake_hardware"]) == "true",
        fake_level=given["fake_level"],
        force=given["force"] == "true",
        namespace=given["namespace"],
        prefix=given["prefix"],
        record_directory=os.path.abspath(given["record_directory"]) if given["record"] == "true" else None,
        controller=given["controller"] != "none",
        autostart=given["activate"] == "true",
        contact=given["contact"] == "true",
        parameters={
            "tendon_driver": {"can_interface": given["can_interface"]},
            "string_encoder": {"serial_port": given["serial_port"]},
            "force_sensor": {"serial_port": given["force_port"]},
        },
    )
    robot = load_for_stack(options)
    if options.simulated:
        options = dataclasses.replace(options, fake_level=choose_level(options.fake_level, robot).name)
    else:
        backends.hardware_of(robot)
    files = [given["params_file"]] if given["params_file"] else []
    if files and not os.path.isfile(files[0]):
        raise ParameterError("params_file", files[0], "an existing file")

    def program(executable: str, name: str | None, parameters: dict[str, object]) -> Node:
        return Node(
            package=PACKAGE,
            executable=executable,
            name=name,
            namespace=given["namespace"],
            parameters=[parameters, *files],
            ros_arguments=["--log-level", given["log_level"]],
            output="screen",
            emulate_tty=True,
        )

    if given["composed"] == "true":
        composed = {
            "robot": os.path.abspath(find_robot_file(options.robot)),
            "use_fake_hardware": options.simulated,
            "fake_level": options.fake_level,
            "prefix": options.prefix,
            "record": options.record_directory is not None,
            "directory": str(options.record_directory or ""),
            "controller": options.controller,
            "contact": options.contact,
            "force": options.force,
            "can_interface": given["can_interface"],
            "serial_port": given["serial_port"],
            "force_port": given["force_port"],
            "autostart": options.autostart,
        }
        nodes = [program("composition", None, composed)]
    else:
        nodes = [program(name, name, parameters) for name, parameters in node_parameters(options).items()]
    # The last is the supervisor, or all of them: without it nobody brings the others down in order.
    actions: list[Action] = [*nodes, RegisterEventHandler(OnProcessExit(target_action=nodes[-1], on_exit=_ended))]
    if given["rviz"] == "true":
        actions.append(_rviz(context))
    return actions


def _ended(event: ProcessExited, context: LaunchContext) -> list[Action]:
    if event.returncode and not context.is_shutdown:
        # launch prints it, stops the other processes, and ends with exit code 1.
        raise RuntimeError("the stack did not come up, or failed: see the log above")
    return [] if context.is_shutdown else [Shutdown(reason="the stack has ended")]


def _rviz(context: LaunchContext, configuration: str = "") -> Node:
    given = context.launch_configurations
    configuration = configuration or str(
        write_scaled(shipped_file("rviz/continuum_robot.rviz"), load_robot(given["robot"]))
    )
    return Node(
        package="rviz2",
        executable="rviz2",
        namespace=given["namespace"],
        # The configuration's topics are relative: rviz looks for them in its own namespace.
        arguments=["-d", configuration, "-f", f"{given['prefix']}base"],
        output="screen",
    )
