# SPDX-License-Identifier: Apache-2.0
"""The driver's faults and its e-stop: requested at any time, latched over configurations, reset by a service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from continuum_robot.control.delay_margin import late_latency_s
from continuum_robot.drivers.safety_settings import SafetySettings
from continuum_robot.drivers.tendon_faults import ESTOP, FAULTS
from continuum_robot.drivers.tendon_safety import TendonSafety
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.assembly import make_safety
from continuum_robot.runtime.driver_loop import DriverLoop
from continuum_robot.runtime.forms import Form

OWN_REASONS = ("two_writers", "internal_error")
"""Reasons for which the driver itself asks for the e-stop."""


class DriverFaults:
    """Keeps the safety logic while the devices are closed and opened, and an e-stop from before there is one.

    It watches the loop, and says there and on ``driver_status`` what latched. Requests come from the e-stop's own
    thread, from the executor's, and from the loop's.

    Parameters
    ----------
    node : the driver: its log, its state, and its defects
    loop : gives the loop, None while not configured
    publish_status : publishes ``driver_status``

    Attributes
    ----------
    last_fault : name of the newest fault, kept after a reset; "" before the first
    bus_problem : why the devices could not be read or written, until a reset; "" for nothing
    """

    def __init__(
        self, node: ManagedNode, loop: Callable[[], DriverLoop | None], publish_status: Callable[[], None]
    ) -> None:
        self._node, self._loop, self._publish_status = node, loop, publish_status
        self.last_fault = ""
        self.bus_problem = ""
        self._safety: TendonSafety | None = None
        self._made_for: tuple[Robot, str, float] | None = None
        self._early_estop: tuple[str, bool] | None = None
        self._estop_input = False
        self._lock = threading.Lock()

    def prepare(self, robot: Robot, settings: SafetySettings, form: Form, period_s: float) -> TendonSafety:
        """The safety logic of a robot; an e-stop that was requested before is latched in it.

        Parameters
        ----------
        robot : that is being configured
        settings : thresholds
        form : of the cycle
        period_s : of the cycle, s
        """
        with self._lock:
            safety = self._safety
            if safety is None or self._made_for != (robot, form.name, period_s):
                # Otherwise the old one is kept, so that closing and opening the device clears no fault.
                if safety is not None and ESTOP in safety.faults:
                    self._early_estop = (safety.estop_reason, safety.estop_held)
                self._safety = safety = make_safety(
                    robot, form, settings, period_s=period_s, delay_margin_s=late_latency_s(robot)
                )
                self._made_for = (robot, form.name, period_s)
            if self._early_estop is not None:
                safety.estop(self._early_estop[0], held=self._early_estop[1])
                self._early_estop = None
        return safety

    # What is latched

    @property
    def state(self) -> str:
        """What the safety logic says: ``inactive``, ``active``, ``safe``; ``unconfigured`` before it exists."""
        if self._safety is None:
            return "unconfigured" if self._early_estop is None else "safe"
        return self._safety.state

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the faults that are latched now; an e-stop of the driver itself is named by its reason."""
        safety = self._safety
        if safety is None:
            return () if self._early_estop is None else (ESTOP,)
        own = safety.estop_reason if safety.estop_reason in OWN_REASONS else ESTOP
        return tuple(own if fault == ESTOP else fault for fault in safety.faults)

    @property
    def estop_latched(self) -> bool:
        """Whether an e-stop is latched."""
        return self._early_estop is not None or (self._safety is not None and ESTOP in self._safety.faults)

    @property
    def estop_reason(self) -> str:
        """Why the safety logic latched an e-stop; "" where it did not."""
        return self._safety.estop_reason if self._safety is not None and self.estop_latched else ""

    # Requests

    def estop(self, reason: str, *, held: bool = False) -> None:
        """Latch the e-stop: the tendons go to their safe tension.

        Parameters
        ----------
        reason : who asks for it
        held : the input stays pressed, a reset is refused meanwhile
        """
        with self._lock:
            safety, loop = self._safety, self._loop()
            if safety is None:
                self._early_estop = (reason, held)
                self.last_fault = ESTOP
            elif loop is None:
                safety.estop(reason, held=held)
        if safety is not None and loop is not None:
            try:
                loop.call(lambda: safety.estop(reason, held=held), timeout_s=0.2)
            except ContinuumRobotError as error:
                # The loop hangs in the device: the torque goes off past it.
                self._node.report_error("estop", error)
                loop.disable()
        self._publish_status()

    def on_estop_topic(self, message: Bool) -> None:
        """The input says that it is pressed, or not.

        Parameters
        ----------
        message : of ``estop``
        """
        self._estop_input = bool(message.data)
        if message.data:
            self.estop("topic", held=True)
            return
        with self._lock:
            if self._safety is not None:
                self._safety.release_estop()
            elif self._early_estop is not None:
                self._early_estop = (self._early_estop[0], False)

    def serve_estop(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Answers the service ``estop``."""
        self.estop("service")
        response.success, response.message = True, "e-stop latched: the tendons go to their safe tension"
        return response

    def serve_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Answers the service ``reset_estop``."""
        try:
            blocking = self._reset()
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        if blocking:
            meanings = "; ".join("the estop topic still says true" if n == ESTOP else FAULTS[n] for n in blocking)
            response.message = f"refused, the inputs are not neutral: {meanings}"
            return response
        self.bus_problem = ""
        self._publish_status()
        active = self._node.state == "active"
        response.success = True
        response.message = "faults cleared" + ("; deactivate and activate to go on" if active else "")
        return response

    def _reset(self) -> tuple[str, ...]:
        """Clear the faults, or say what is not neutral."""
        safety, loop = self._safety, self._loop()
        if safety is None:
            if self._estop_input:
                return (ESTOP,)
            self._early_estop = None
            return ()
        if loop is None:
            return safety.reset()

        def reset() -> tuple[str, ...]:
            loop.cycle.forget_command()
            loop.actuators.clear_faults()
            if not loop.powered:
                # Without torque tendons may hang slack; the next activation takes them up, and checks.
                safety.torque_off()
            return safety.reset()

        return loop.call(reset)

    # What happens in the loop, in its thread

    def on_change(self, new_faults: Sequence[str]) -> None:
        """As :class:`LoopWatcher`: log and publish what the safety logic says.

        Parameters
        ----------
        new_faults : that latched
        """
        for fault in new_faults:
            meaning = FAULTS.get(fault, "")
            reason = f" ({self._safety.estop_reason})" if fault == ESTOP and self._safety is not None else ""
            self._node.get_logger().error(
                f"fault {fault}{reason}: {meaning}. The tendons go to their safe tension; reset_estop clears the fault"
            )
        if new_faults:
            self.last_fault = self.names[-1]
        self._publish_status()

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """As :class:`LoopWatcher`: log the ``error``, once."""
        if str(error) != self.bus_problem:
            self.bus_problem = str(error)
            self._node.get_logger().error(self.bus_problem)

    def on_failure(self, error: BaseException) -> None:
        """As :class:`LoopWatcher`: the ``error`` is a defect of the node."""
        self.last_fault = "internal_error"
        self._node.defect = repr(error)
        self._node.report_error("the driver's loop failed", error)
        self._publish_status()

    def on_refused(self, sentences: Sequence[str]) -> None:
        """As :class:`LoopWatcher`: log the ``sentences``."""
        self._node.warn_of_all(sentences)
