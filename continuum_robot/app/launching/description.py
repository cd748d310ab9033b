# SPDX-License-Identifier: Apache-2.0
"""What the files in launch/ share. The only module that imports launch and launch_ros, which are not on PyPI."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
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

from continuum_robot.app.launching.plan import (
    LaunchArgument,
    Program,
    misspelt,
    programs_of_stack,
    rviz_arguments,
    stack_arguments,
    write_scaled,
)
from continuum_robot.app.running.child_process import CHILD_MODULE
from continuum_robot.app.running.processes import RESPAWN_DELAY_S
from continuum_robot.errors import MISCONFIGURED, ContinuumRobotError, ParameterError
from continuum_robot.nodes.base.dds_environment import set_dds_environment
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot

PACKAGE = "continuum_robot"


def stack_description(simulated: bool) -> LaunchDescription:
    """All nodes of a robot."""
    return _description(stack_arguments(simulated), _stack)


def rviz_description() -> LaunchDescription:
    """rviz2 with the robot's displays, for ``ros2 launch continuum_robot rviz.launch.py``."""
    return _description(
        rviz_arguments(), lambda context: [_rviz(context, context.launch_configurations["rviz_config"])]
    )


def _description(
    arguments: list[LaunchArgument], actions: Callable[[LaunchContext], list[Action]]
) -> LaunchDescription:
    def checked(context: LaunchContext) -> list[Action]:
        set_dds_environment(context.environment)
        notes = [LogInfo(msg=note) for note in misspelt(context.launch_configurations, arguments)]
        try:
            return [*notes, *actions(context)]
        except ContinuumRobotError as error:
            # launch prints the exception's class and text, and ends with exit code 1.
            raise RuntimeError(str(error)) from None

    return LaunchDescription([*map(_declared, arguments), OpaqueFunction(function=checked)])


def _declared(argument: LaunchArgument) -> DeclareLaunchArgument:
    return DeclareLaunchArgument(
        argument.name,
        default_value=argument.default,
        description=argument.description,
        choices=list(argument.choices) or None,
    )


def _stack(context: LaunchContext) -> list[Action]:
    given = context.launch_configurations
    files = [given["params_file"]] if given["params_file"] else []
    # First: what is missing is refused before anything starts.
    rviz = [_rviz(context)] if given["rviz"] == "true" else []

    def started(program: Program) -> Node:
        return Node(
            package=PACKAGE,
            executable=program.executable,
            exec_name=program.executable,  # else it would be shown by the name of its prefix
            name=program.node,
            namespace=given["namespace"],
            parameters=[dict(program.parameters), *files],
            ros_arguments=["--log-level", given["log_level"]],
            output="screen",
            emulate_tty=True,
            prefix=_with_launch(given),
            # launch's own 5 s would cut a slow ramp short.
            sigterm_timeout=f"{program.grace_s:g}",
            respawn=program.respawns > 0,
            respawn_delay=RESPAWN_DELAY_S,
            respawn_max_retries=program.respawns or -1,
        )

    nodes = [started(program) for program in programs_of_stack(given)]
    handlers = [OnProcessExit(target_action=node, on_exit=_refused) for node in nodes[:-1]]
    handlers.append(OnProcessExit(target_action=nodes[-1], on_exit=_ended))
    return [*nodes, *map(RegisterEventHandler, handlers), *rviz]


def _with_launch(given: Mapping[str, str]) -> str:
    """The prefix of a program that is stopped in order should launch be killed: no robot stays under power without it.
    What ``--launch-prefix`` gives comes behind.
    """
    command = shlex.join([sys.executable, "-m", CHILD_MODULE, str(os.getpid())])
    return f"{command} {given.get('launch-prefix', '')}"


def _refused(event: ProcessExited, context: LaunchContext) -> None:
    if event.returncode == MISCONFIGURED and not context.is_shutdown:
        # Before the program would be started again, with the same parameters.
        raise RuntimeError("a program cannot use its parameters: see the log above")


def _ended(event: ProcessExited, context: LaunchContext) -> list[Action]:
    if event.returncode and not context.is_shutdown:
        # launch prints it, stops the other processes, and ends with exit code 1.
        raise RuntimeError("the stack did not come up, or failed: see the log above")
    return [] if context.is_shutdown else [Shutdown(reason="the stack has ended")]


def _rviz(context: LaunchContext, configuration: str = "") -> Node:
    given = context.launch_configurations
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        raise ParameterError(
            "package", "rviz2", "an installed package: install it, or use the page in the browser, continuum-robot view"
        ) from None
    configuration = configuration or str(
        write_scaled(shipped_file("rviz/continuum_robot.rviz"), load_robot(given["robot"]))
    )
    return Node(
        package="rviz2",
        executable="rviz2",
        exec_name="rviz2",
        namespace=given["namespace"],
        # The configuration's topics are relative: rviz looks for them in its own namespace.
        arguments=["-d", configuration, "-f", f"{given['prefix']}base"],
        output="screen",
        prefix=_with_launch(given),
    )
