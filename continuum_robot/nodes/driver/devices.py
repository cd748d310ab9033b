# SPDX-License-Identifier: Apache-2.0
"""The actuators that the parameters ask for: on the robot's bus, or on the wires of the node that simulates it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from continuum_robot.drivers import backends
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.backends import Time
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.simulated_link.actuators import SimulatedLinkActuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.stack.choices import ON_WIRES
from continuum_robot.robot.actuation import Limits
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.forms import Form


def make_actuators(
    node: ManagedNode, robot: Robot, limits: Limits, form: Form, time: Time | None = None
) -> TendonActuators:
    """The actuators, not open yet."""
    get = node.parameters.get
    parts = form.parts if form.compiled else None
    if not node.simulated:
        return backends.tendon_actuators(robot, str(get("can_interface")), form=parts)
    bus = node.bus
    wires = SimulatedWires(node.get_namespace(), robot.name, on_connect=lambda: None if bus is None else bus.accept())
    if get("simulation_level") in ON_WIRES:
        return backends.simulated_tendon_actuators(wired(robot), wires, time, parts)
    make: Callable[..., TendonActuators] = partial(SimulatedLinkActuators, open_link=wires.open_link)
    if bus is not None and bus.actuators is not None:
        make = bus.actuators
    return make(
        robot.tendon_count,
        takes_displacements=robot.takes_displacements,
        # The board lets go on its own, but after the driver had its chance to ramp down.
        receive_timeout_s=1.5 * limits.command_timeout_s,
    )
