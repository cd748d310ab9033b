# SPDX-License-Identifier: Apache-2.0
"""Makes the nodes of a process, and imports no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.driver.slot import ControllerSlot
from continuum_robot.nodes.lockstep.bus import LockstepBus
from continuum_robot.nodes.stack.options import CONTROL_LOOP, GROUPS, IN_CYCLE, SIMULATOR

_CLASSES = {
    "simulator": "SimulatorNode",
    "tendon_driver": "TendonDriver",
    "base_stage": "BaseStageNode",
    "string_encoder": "StringEncoder",
    "force_sensor": "ForceSensorNode",
    "shape_estimator": "ShapeEstimatorNode",
    "fiber_interrogator": "FiberInterrogator",
    "tip_tracker": "TipTracker",
    "contact_monitor": "ContactMonitorNode",
    "clarke_controller": "ClarkeControllerNode",
    "reference_source": "ReferenceSource",
    "tip_approach": "TipApproachNode",
    "predictive_tip": "PredictiveTipNode",
    "robot_visualizer": "RobotVisualizer",
    "recorder": "Recorder",
}
"""Name of the class in the module of that name, for each managed node."""
_CYCLE, _ROBOT = set(GROUPS[CONTROL_LOOP]), set(GROUPS[SIMULATOR])
_BEFORE_OTHERS = {"tendon_driver", "simulator"}
"""Nodes with a loop that may run before everything else, in a process of their own."""


def node_class(name: str) -> Callable[..., ManagedNode]:
    """The class of a managed node. Its module is imported now: a process needs only those of its own nodes."""
    found: Callable[..., ManagedNode] = getattr(import_module(f"continuum_robot.nodes.{name}"), _CLASSES[name])
    return found


def make_nodes(
    names: Sequence[str], options_of: Callable[[str], dict[str, Any]], controller: str
) -> dict[str, ManagedNode]:
    """Nodes for one process: in lock-step on one bus; driver and controller share their cycle where both are in it."""
    slot = ControllerSlot() if controller in IN_CYCLE and set(names) >= _CYCLE else None
    bus = LockstepBus()
    own_process = set(names) in (_CYCLE, _ROBOT)
    nodes: dict[str, ManagedNode] = {}
    try:
        for name in names:
            more: dict[str, Any] = {"bus": bus} | ({"slot": slot} if slot is not None and name in _CYCLE else {})
            if own_process and name in _BEFORE_OTHERS:
                more["own_process"] = True
            nodes[name] = node_class(name)(**options_of(name), **more)
    except BaseException:
        for node in reversed(nodes.values()):  # their threads would outlive the interpreter
            node.destroy_node()
        raise
    return nodes
