# SPDX-License-Identifier: Apache-2.0
"""Makes the nodes of a process, and imports no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from continuum_robot.nodes.driver.slot import ControllerSlot
from continuum_robot.nodes.lifecycle import ManagedNode

_CLASSES = {
    "simulator": "SimulatorNode",
    "tendon_driver": "TendonDriver",
    "string_encoder": "StringEncoder",
    "force_sensor": "ForceSensorNode",
    "shape_estimator": "ShapeEstimatorNode",
    "tip_tracker": "TipTracker",
    "contact_monitor": "ContactMonitorNode",
    "clarke_controller": "ClarkeControllerNode",
    "reference_source": "ReferenceSource",
    "tip_approach": "TipApproachNode",
    "robot_visualizer": "RobotVisualizer",
    "recorder": "Recorder",
}
"""Name of the class in the module of that name, for each managed node."""


def node_class(name: str) -> Callable[..., ManagedNode]:
    """The class of a managed node. Its module is imported now: a process needs only those of its own nodes.

    Parameters
    ----------
    name : of the node
    """
    found: Callable[..., ManagedNode] = getattr(import_module(f"continuum_robot.nodes.{name}"), _CLASSES[name])
    return found


def make_nodes(
    names: Sequence[str], options_of: Callable[[str], dict[str, Any]], controller: str
) -> dict[str, ManagedNode]:
    """Nodes for one process; driver and controller share their cycle where both are in it.

    Parameters
    ----------
    names : of the nodes
    options_of : what a node is made with
    controller : ``internal`` or another one
    """
    ends = {"tendon_driver", "clarke_controller"}
    slot = ControllerSlot() if controller == "internal" and ends <= set(names) else None
    nodes: dict[str, ManagedNode] = {}
    try:
        for name in names:
            more = {"slot": slot} if slot is not None and name in ends else {}
            nodes[name] = node_class(name)(**options_of(name), **more)
    except BaseException:
        for node in reversed(nodes.values()):  # their threads would outlive the interpreter
            node.destroy_node()
        raise
    return nodes
