# SPDX-License-Identifier: Apache-2.0
"""The actuators that the parameters ask for: on the robot's bus, or on the wires of the node that simulates it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from time import sleep as real_sleep

from continuum_robot.drivers import backends
from continuum_robot.drivers.dynamixel.actuators import STEPPED_MARGIN_S, DynamixelTendonActuators
from continuum_robot.drivers.made_up_wiring import wired
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.simulated_link.actuators import SimulatedLinkActuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.nodes.choices import ON_WIRES
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Dynamixel
from continuum_robot.runtime.forms import Form

_ANSWER_MARGIN_S = 0.05  # of simulated servos in real time: another process answers, which a busy machine may stop

Time = tuple[Callable[[], float], Callable[[float], None]]
"""Clock and waiting, s."""


def make_actuators(
    node: ManagedNode, robot: Robot, limits: TensionLimits, form: Form, time: Time | None = None
) -> TendonActuators:
    """The actuators, not open yet.

    Parameters
    ----------
    node : the driver: its parameters and namespace
    robot : as configured
    limits : of the robot
    form : of the cycle that reads and writes them, where they know forms
    time : of lock-step; None: real

    Raises
    ------
    ContinuumRobotError : they cannot be made as the parameters say
    """
    get = node.parameters.get
    parts = form.parts if form.compiled else None
    if not node.simulated:
        return backends.tendon_actuators(robot, str(get("can_interface")), form=parts)
    wires = SimulatedWires(node.get_namespace(), robot.name)
    if get("fake_level") in ON_WIRES:
        clock, sleep = (monotonic, real_sleep) if time is None else time
        on_wires = wired(robot)
        if isinstance(backends.hardware_of(on_wires).tendon_actuators, Dynamixel):
            return DynamixelTendonActuators(
                on_wires,
                clock=clock,
                answer_margin_s=_ANSWER_MARGIN_S if time is None else STEPPED_MARGIN_S,
                simulated=True,
                find_port=wires.find_servos,
                stepped=time is not None,
            )
        return OdriTendonActuators(
            on_wires, socket_factory=wires.open_channel, clock=clock, sleep=sleep, simulated=True, form=parts
        )
    return SimulatedLinkActuators(
        robot.tendon_count,
        wires.open_link,
        # The board lets go on its own, but after the driver had its chance to ramp down.
        receive_timeout_s=1.5 * limits.command_timeout_s,
    )
