# SPDX-License-Identifier: Apache-2.0
"""What a stack consists of: its nodes, their parameters, and which of them share a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from continuum_robot.nodes.stack.choices import AUTO, CLARKE, HOLD_TENSION, IF_MISSING, LOCKSTEP, NONE, TIP, TOPIC
from continuum_robot.nodes.stack.option_list import StackFields
from continuum_robot.robot.base_stage import STAGE_FRAME
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot

MANAGED_NODES = (
    "simulator",
    "tendon_driver",
    "base_stage",
    "string_encoder",
    "force_sensor",
    "fiber_interrogator",
    "shape_estimator",
    "tip_tracker",
    "contact_monitor",
    "clarke_controller",
    "reference_source",
    "tip_approach",
    "predictive_tip",
    "robot_visualizer",
    "recorder",
)
"""All nodes in the order in which they are configured."""

SIMULATOR = "simulator"
CONTROL_LOOP = "control_loop"
DISPLAY = "display"
VISUALIZER = "robot_visualizer"
PREDICTIVE = "predictive"
IN_CYCLE = (CLARKE, TIP, HOLD_TENSION)
"""Controllers that are in the driver's cycle."""
GROUPS = {
    SIMULATOR: (SIMULATOR,),
    CONTROL_LOOP: ("tendon_driver", "clarke_controller"),
    "sensing": (
        "base_stage",
        "string_encoder",
        "force_sensor",
        "fiber_interrogator",
        "shape_estimator",
        "tip_tracker",
        "contact_monitor",
        "reference_source",
        "tip_approach",
    ),
    PREDICTIVE: ("predictive_tip",),
    DISPLAY: ("robot_visualizer", "recorder"),
}
"""Nodes by the process that they share."""

TRACKER = {"rate_hz": 60.0, "noise_m": 1e-4, "delay_s": 0.015}
"""The simulated tracker of robots that do not have a camera of their own: as good as an optical one."""


@dataclass(frozen=True, kw_only=True)
class StackOptions(StackFields):
    """What to compose: what every way to start a stack offers, and what the program that starts it adds."""

    record_directory: Path | str | None = None
    record_name: str = ""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    @classmethod
    def of(cls, given: StackFields, **more: Any) -> StackOptions:
        """What was given at a face, with ``more`` over it."""
        return cls(**{one.name: getattr(given, one.name) for one in fields(StackFields)} | more)

    @property
    def node_names(self) -> tuple[str, ...]:
        """The managed nodes, in the order of configuration."""
        left_out = set() if self.simulated else {"simulator"}
        if self.record_directory is None:
            left_out.add("recorder")
        if not self.visualize:
            left_out.add("robot_visualizer")
        if not self.force_sensor:
            left_out.add("force_sensor")
        robot = load_robot(self.robot)
        traits = robot.traits
        if robot.base_stage is None:
            left_out.add("base_stage")
        if robot.fiber is None:
            left_out.add("fiber_interrogator")
        if not self.contact or traits.without_contact:
            left_out.add("contact_monitor")
        if self.controller == NONE:
            left_out |= {"clarke_controller", "reference_source", "tip_approach", "predictive_tip"}
        left_out |= {"tip_tracker", "tip_approach"} - set(traits.tip_nodes)
        if not self.predictive or traits.without_tip_control:
            left_out.add("predictive_tip")
        if self.tracker and not traits.without_tip_control:
            left_out.discard("tip_tracker")
        if not self.simulated:
            read = robot.hardware is not None and robot.hardware.tracker is not None
            left_out |= {"fiber_interrogator"} if read else {"tip_tracker", "fiber_interrogator"}
        return tuple(name for name in MANAGED_NODES if name not in left_out)

    def parameters_of(self, name: str) -> dict[str, Any]:
        """ROS parameters of the node ``name``, composed or in a process of its own."""
        base_frame, robot = f"{self.prefix}base", load_robot(self.robot)
        traits = robot.traits
        own: dict[str, dict[str, Any]] = {
            "simulator": {
                "simulation_level": self.simulation_level,
                "world": self.world,
                "true_robot": self.truth,
                "base_frame": base_frame,
            },
            "tendon_driver": {
                "simulation_level": self.simulation_level,
                "lockstep.run_s": self.run_s,
                "prefix": self.prefix,
                "start_controller": self.controller if self.controller in (TIP, HOLD_TENSION) else "",
            }
            | ({} if robot.actuators is None else {"rate_hz": robot.actuators.cycle_hz})
            | self._of_foreign_commands(robot),
            "string_encoder": {"simulation_level": self.simulation_level, "true_robot": self.truth},
            "force_sensor": {"simulation_level": self.simulation_level},
            "shape_estimator": {"base_frame": base_frame},
            "tip_tracker": {"base_frame": base_frame} | ({} if traits.tip_nodes else TRACKER),
            "tip_approach": {"base_frame": base_frame},
            "predictive_tip": {"base_frame": base_frame, "world": self.world},
            "contact_monitor": {
                "base_frame": base_frame,
                "simulation_level": self.simulation_level,
                # The motion that the supervisor starts is the first one.
                "free_motion": IF_MISSING if self.start_motion and not self.simulated else AUTO,
            },
            "base_stage": {"prefix": self.prefix},
            "reference_source": {
                "base_frame": base_frame if robot.base_stage is None else f"{self.prefix}{STAGE_FRAME}"
            }
            | ({"reaction.strategy": self.reaction} if self.reaction else {}),
            # The supervisor activates them, not their own start.
            # In lock-step the visualizer looks on from outside.
            "robot_visualizer": {"prefix": self.prefix, "activate": False, "clock": "real"},
            "recorder": {"name": self.record_name, "activate": False},
            "supervisor": {
                "node_names": list(self.node_names),
                "autostart": self.autostart,
                "start_motion": self.start_motion,
                # In lock-step a program that has no turn is not waited for.
                "await_commands": self.controller == NONE and self.clock == "real",
            },
        }
        if self.record_directory is not None:
            own["recorder"]["directory"] = str(self.record_directory)
        common = {
            "robot": str(self.robot),
            "use_fake_hardware": self.simulated,
            "clock": self.clock,
            "seed": self.seed,
            "payload_kg": self.payload_kg,
        } | ({"params_file": self.params_file} if self.params_file else {})
        return common | own.get(name, {}) | dict(self.parameters.get(name, {}))

    def _of_foreign_commands(self, robot: Robot) -> dict[str, Any]:
        """The delay that the robot file's controller bears says nothing of another one's, which answers over DDS."""
        if self.controller != NONE or robot.limits is None:
            return {}
        return {"safety.late_latency_s": 0.5 * robot.limits.command_timeout_s}

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The nodes of each process, in the order of starting: nothing slow is beside the driver's cycle.

        In lock-step all that act share one.
        """
        names, groups = self.node_names, dict[str, tuple[str, ...]]()
        if self.clock == LOCKSTEP:
            groups[LOCKSTEP] = tuple(name for name in names if name != VISUALIZER)
            return groups | ({DISPLAY: (VISUALIZER,)} if VISUALIZER in names else {})
        for group, members in GROUPS.items():
            own = tuple(name for name in names if name in members)
            if group == CONTROL_LOOP and self.controller == TOPIC:
                groups |= {name: (name,) for name in own}
            elif own:
                groups[group] = own
        return groups
