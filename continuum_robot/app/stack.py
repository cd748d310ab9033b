# SPDX-License-Identifier: Apache-2.0
"""Which nodes a stack has and with which parameters: the same for processes, launch files and the bench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.supervisor import MANAGED_NODES
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import find_robot_file, load_robot

CONTROLLERS = ("clarke_controller", "none")
SUPERVISOR = "supervisor"


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What is to be brought up.

    Attributes
    ----------
    robot : robot file, or the name of a shipped one
    fake_hardware : the wires end in a simulator
    fake_level : ``dynamics`` or ``mirror``
    controller : which node commands the tensions, or ``none``
    activate : bring the nodes up to active
    record_directory : where the recorder makes its folder, None: no recording
    record_name : name of that folder, "": date and time
    namespace : ROS namespace of all nodes and topics
    prefix : in front of every tf frame
    can_interface, serial_port : where the hardware is
    """

    robot: str
    fake_hardware: bool = True
    fake_level: str = "dynamics"
    controller: str = CONTROLLERS[0]
    activate: bool = True
    record_directory: Path | None = None
    record_name: str = ""
    namespace: str = ""
    prefix: str = ""
    can_interface: str = "can0"
    serial_port: str = ""

    def load(self) -> Robot:
        """The robot, checked for what a stack needs.

        Raises
        ------
        RobotFileError : the file cannot be used
        ParameterError : it lacks a section that a stack needs
        """
        robot = load_robot(self.robot)
        needed = ["actuators", "limits", *(["control"] if self.controller != "none" else [])]
        missing = [section for section in needed if getattr(robot, section) is None]
        if missing:
            raise ParameterError(
                "robot", robot.file_name or robot.name, f"a robot file with the sections {', '.join(missing)}"
            )
        return robot

    @property
    def managed_nodes(self) -> tuple[str, ...]:
        """Nodes that the supervisor manages, in the order of configuration."""
        left_out = set() if self.controller != "none" else {"clarke_controller", "reference_source"}
        if self.record_directory is None:
            left_out.add("recorder")
        return tuple(node for node in MANAGED_NODES if node not in left_out)

    def parameters(self) -> dict[str, dict[str, object]]:
        """ROS parameters of every node, the supervisor last.

        Raises
        ------
        RobotFileError : there is no such robot file
        """
        common: dict[str, object] = {
            "robot": str(find_robot_file(self.robot).resolve()),
            "use_fake_hardware": self.fake_hardware,
        }
        own: dict[str, dict[str, object]] = {
            "tendon_driver": {"fake_level": self.fake_level, "can_interface": self.can_interface},
            "string_encoder": {"serial_port": self.serial_port},
            "shape_estimator": {"base_frame": f"{self.prefix}base"},
            "robot_visualizer": {"prefix": self.prefix},
            "recorder": {"directory": str((self.record_directory or Path()).resolve()), "name": self.record_name},
            SUPERVISOR: {"autostart": self.activate, "node_names": list(self.managed_nodes)},
        }
        return {node: common | own.get(node, {}) for node in (*self.managed_nodes, SUPERVISOR)}
