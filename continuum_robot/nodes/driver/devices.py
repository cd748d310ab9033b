# SPDX-License-Identifier: Apache-2.0
"""The actuators that the parameters ask for, real or simulated; what touches simulated ones, and their faults."""

from __future__ import annotations

from typing import Any

from rclpy.publisher import Publisher

from continuum_robot.drivers import backends
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.runtime.driver_loop import DriverLoop
from continuum_robot.nodes.driver.simulated_contact import TrueContacts
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.contact import load_contacts
from continuum_robot.simulation.mechanism_body import linked_count
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plant_link import PlantLink
from continuum_robot.simulation.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.srv import InjectFault

_CONTACTS = "none: hardware touches what it does, and fake_level mirror has no plant to be touched"


class DriverDevices:
    """Makes the actuators and knows what stands behind simulated ones.

    Parameters
    ----------
    node : the driver: its parameters, namespace and log

    Attributes
    ----------
    hardware : simulated boards behind the real driver, None for none
    """

    def __init__(self, node: ManagedNode) -> None:
        self._node = node
        self.hardware: SimulatedHardware | None = None

    def make(self, robot: Robot, limits: TensionLimits) -> TendonActuators:
        """The actuators, not open yet.

        Parameters
        ----------
        robot : as configured
        limits : of the robot

        Raises
        ------
        ParameterError : contacts of a robot without a plant
        ContinuumRobotError : they cannot be made as the parameters say
        """
        node, get = self._node, self._node.parameters.get
        if get("contacts") and (not node.simulated or get("fake_level") == "mirror"):
            # Before anything is opened.
            raise ParameterError("contacts", get("contacts"), _CONTACTS)
        if not node.simulated:
            return backends.tendon_actuators(robot, str(get("can_interface")))
        contacts = load_contacts(get("contacts"), robot) if get("contacts") else ()
        link = PlantLink.writer(node.get_namespace(), linked_count(robot), robot=robot.name)
        if get("fake_level") == "wire":
            self.hardware = SimulatedHardware(robot, contacts=contacts, link=link, progress=self._tell)
            self.hardware.open()
            return self.hardware.tendon_actuators()
        return SimulatedTendonActuators(
            robot,
            contacts=contacts,
            level=get("fake_level"),
            link=link,
            # The board lets go on its own, but after the driver had its chance to ramp down.
            receive_timeout_s=1.5 * limits.command_timeout_s,
            progress=self._tell,
        )

    def close(self) -> None:
        """Close simulated boards, after the actuators."""
        if self.hardware is not None:
            self.hardware.close()
        self.hardware = None

    def plant(self, actuators: TendonActuators) -> Plant:
        """The plant behind simulated actuators.

        Parameters
        ----------
        actuators : that :meth:`make` made

        Raises
        ------
        ParameterError : they are real
        """
        if self.hardware is not None:
            return self.hardware.plant
        if isinstance(actuators, SimulatedTendonActuators):
            return actuators.plant
        raise ParameterError("plant", type(actuators).__name__, "simulated actuators: hardware has no plant")

    def true_contacts(self, actuators: TendonActuators, publisher: Publisher[Any]) -> TrueContacts | None:
        """The truth about the contacts that the parameters give, None for none.

        Parameters
        ----------
        actuators : open
        publisher : of the truth

        """
        get = self._node.parameters.get
        if not get("contacts"):
            return None
        return TrueContacts(self.plant(actuators), str(get("base_frame")), publisher)

    def inject(self, request: InjectFault.Request, loop: DriverLoop | None) -> tuple[bool, str]:
        """Make simulated devices misbehave; whether they do, and a sentence.

        Parameters
        ----------
        request : which fault
        loop : of the driver, None where it is not configured
        """
        if not self._node.simulated:
            return False, "refused: faults are injected into simulated hardware only"
        if loop is None:
            return False, "refused: configure the driver first"
        wanted = (request.fault, request.tendon, request.magnitude, request.duration_s)
        device = loop.actuators
        try:
            if self.hardware is not None:
                self.hardware.inject(*wanted)
            elif isinstance(device, SimulatedTendonActuators):
                loop.call(lambda: device.inject(*wanted))
        except ContinuumRobotError as error:
            return False, f"refused: {error}"
        return True, f"injected {request.fault}" if request.fault else "injected faults cleared"

    def _tell(self, text: str) -> None:
        self._node.get_logger().info(text)
