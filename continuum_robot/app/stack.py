# SPDX-License-Identifier: Apache-2.0
"""What the demo, ``up``, the bench and the launch files share: checks before a start, and nodes as processes."""

from __future__ import annotations

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.composition import StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import find_robot_file, load_robot

SUPERVISOR = "supervisor"


def load_for_stack(options: StackOptions) -> Robot:
    """The robot of a stack, checked for what the stack needs.

    Parameters
    ----------
    options : what is to be brought up

    Raises
    ------
    RobotFileError : the file cannot be used
    ParameterError : it lacks a section that a stack needs
    """
    robot = load_robot(options.robot)
    needed = ["actuators", "limits", *(["control"] if options.controller else [])]
    missing = [section for section in needed if getattr(robot, section) is None]
    if missing:
        raise ParameterError(
            "robot", robot.file_name or robot.name, f"a robot file with the sections {', '.join(missing)}"
        )
    return robot


def node_parameters(options: StackOptions) -> dict[str, dict[str, object]]:
    """ROS parameters of every node when each is a process, the supervisor last.

    Parameters
    ----------
    options : what is to be brought up

    Raises
    ------
    RobotFileError : there is no such robot file
    """
    common: dict[str, object] = {
        "robot": str(find_robot_file(options.robot).resolve()),
        "use_fake_hardware": options.simulated,
    }
    own: dict[str, dict[str, object]] = {
        "tendon_driver": {"fake_level": options.fake_level, "base_frame": f"{options.prefix}base"},
        "shape_estimator": {"base_frame": f"{options.prefix}base"},
        "contact_monitor": {"base_frame": f"{options.prefix}base"},
        # The supervisor activates them, not their own start.
        "robot_visualizer": {"prefix": options.prefix, "activate": False},
        "recorder": {"directory": str(options.record_directory), "name": options.record_name, "activate": False},
        SUPERVISOR: {"autostart": options.autostart, "node_names": list(options.node_names)},
    }
    return {
        node: common | own.get(node, {}) | dict(options.parameters.get(node, {}))
        for node in (*options.node_names, SUPERVISOR)
    }
