# SPDX-License-Identifier: Apache-2.0
"""What nodes have in common that simulate a device: the robot it belongs to, what it sees of that, injected faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.nodes.base.component import ComponentNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.channel import Dated
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, link_path
from continuum_robot.srv import InjectFault

Vector = NDArray[np.float64]
Seen = TypeVar("Seen", bound=Dated)
What_contra = TypeVar("What_contra", contravariant=True)

PATIENCE_S = 0.5


@dataclass(frozen=True, kw_only=True)
class TrueRobot:
    """The parameter that names the robot which is simulated in place of the one that nodes believe to have."""

    true_robot: str = quantity(
        "file of the robot that is simulated in place of the parameter robot, or the name of a shipped truth;"
        " empty: simulation.truth of the robot file; none: the robot itself",
        default="",
    )


def answer_injection(
    inject: Callable[[str, int, float, float], None], request: InjectFault.Request, response: InjectFault.Response
) -> InjectFault.Response:
    """Fill the ``response`` to ``inject_fault``: what was injected, or why it was refused."""
    try:
        asked = check_request("InjectFault", request)
        inject(asked.fault, asked.tendon, asked.magnitude, asked.duration_s)
    except ContinuumRobotError as error:
        response.message = f"refused: {error}"
        return response
    response.success = True
    response.message = f"injected {request.fault}" if request.fault else "injected faults cleared"
    return response


class LateSensor(Protocol[What_contra, Seen]):
    """A simulated sensor that reports what it saw later."""

    def look(self, time_s: float, what: What_contra, /) -> None:
        """See ``what`` at a time, s."""

    def reported(self, now_s: float, /) -> list[Seen]:
        """What_contra comes until now, s, and has not come before."""


class Sight(Generic[What_contra, Seen]):
    """Looks at the simulated robot for a sensor, and gives each report once, when it is due."""

    def __init__(
        self,
        host: ComponentNode,
        robot: Robot,
        sensor: LateSensor[What_contra, Seen],
        what: Callable[[Vector], What_contra | None],
        *,
        device: str,
        program: str,
    ) -> None:
        """``what`` the sensor sees of the linked values, (linked_count,); None: there is nothing to see."""
        if not host.simulated:
            raise ParameterError("use_fake_hardware", False, f"true: on hardware {program} publishes it")
        self._link = PlantLinkReader(link_path(host.get_namespace(), robot.name))
        self._link.open()
        host.closing.callback(self._link.close)
        self._sensor, self._what, self._device = sensor, what, device
        self._last: Seen | None = None

    def new(self, now_s: float) -> Seen | None:
        """The report that comes now, None for none. Raises :class:`DeviceError` where nothing has come for long."""
        sample = self._link.read()
        found = None if sample is None else self._what(np.asarray(sample.extension_m))
        if sample is not None and found is not None:
            self._sensor.look(sample.time_s, found)
        reported = self._sensor.reported(now_s)
        if reported:
            self._last = reported[-1]
            return self._last
        # The driver may be at work on the link just now, and a report takes its time or is lost.
        if found is None and (self._last is None or now_s - self._last.time_s >= PATIENCE_S):
            raise DeviceError(self._device, "sees nothing of a simulated robot", "Bring the node simulator up")
        return None
