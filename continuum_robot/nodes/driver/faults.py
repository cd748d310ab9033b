# SPDX-License-Identifier: Apache-2.0
"""The driver's faults and its e-stop: requested at any time, latched over configurations, reset by a service."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from std_srvs.srv import Trigger

from continuum_robot.control.delay_margin import late_latency_s
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_faults import DEVICE_FAULT, ESTOP, FAULTS, LOOP_HANGS
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.stored import StoredHeat
from continuum_robot.nodes.topics.driver_status import INTERNAL_ERROR, OWN_REASONS
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import BRAKE, HOLD_PLACE, HOLD_TENSION, RELEASE, TORQUE_OFF
from continuum_robot.runtime.cycle.assembly import make_safety
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import Form
from continuum_robot.runtime.estop_inputs import EstopInputs, Holder

DOES = {
    "": "",
    RELEASE: "the tendons are released",
    HOLD_TENSION: "the tensions are held",
    HOLD_PLACE: "the place is held",
    BRAKE: "the torque goes off, by which the brakes close",
    TORQUE_OFF: "the torque goes off",
}
"""What a stop does, in words."""


class DriverFaults:
    """Keeps the safety logic while the devices are closed and opened, and an e-stop from before there is one.

    It watches the loop, and reports there and on ``driver_status`` what latched. Requests come from the e-stop's own
    thread, from the executor's, and from the loop's.
    """

    def __init__(self, context: DriverContext, inputs: EstopInputs, heat: StoredHeat) -> None:
        self._context, self._node = context, context.node
        self._inputs, self._heat = inputs, heat
        self.last_fault = ""
        self.bus_problem = ""
        self._safety: TendonSafety | None = None
        self._made_for: tuple[Robot, str, float] | None = None
        self._early_estop: tuple[str, bool] | None = None
        self._lock = threading.Lock()

    def prepare(self, robot: Robot, settings: SafetySettings, form: Form, period_s: float) -> TendonSafety:
        """The safety logic of a robot; an e-stop that was requested before is latched in it."""
        with self._lock:
            safety = self._safety
            if safety is None or self._made_for != (robot, form.name, period_s):
                # Otherwise the old one is kept, so that closing and opening the device clears no fault.
                if safety is not None and ESTOP in safety.faults:
                    self._early_estop = (safety.estop_reason, safety.estop_held)
                before = safety
                self._safety = safety = make_safety(
                    robot, form, settings, period_s=period_s, delay_margin_s=late_latency_s(robot)
                )
                if before is None or len(before.heat.winding()) != robot.tendon_count:
                    self._heat.begin(robot, safety.heat)
                else:
                    safety.heat.take_over(before.heat)
                self._made_for = (robot, form.name, period_s)
            if self._early_estop is not None:
                safety.estop(self._early_estop[0], held=self._early_estop[1])
                self._early_estop = None
        return safety

    # What is latched

    @property
    def state(self) -> str:
        """State of the safety logic: ``inactive``, ``active``, ``safe``; ``unconfigured`` before it exists."""
        if self._safety is None:
            return "unconfigured" if self._early_estop is None else "safe"
        return "safe" if self._context.hangs else self._safety.state

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the faults that are latched now; an e-stop of the driver itself is named by its reason."""
        safety = self._safety
        if safety is None:
            return () if self._early_estop is None else (ESTOP,)
        own = safety.estop_reason if safety.estop_reason in OWN_REASONS else ESTOP
        faults = safety.faults
        # A cycle that hangs latches when it goes on; until then nobody else clears these.
        faults += (LOOP_HANGS,) if self._context.hangs and LOOP_HANGS not in faults else ()
        faults += (ESTOP,) if safety.estop_asked and ESTOP not in faults else ()
        return tuple(own if fault == ESTOP else fault for fault in faults)

    @property
    def stop_action(self) -> str:
        """What a stop does now, of the robot file's ``stop`` section; "" where no fault is latched."""
        return "" if self._safety is None else self._safety.stop_action

    @property
    def fallback_holds(self) -> bool:
        """Whether the driver holds in the place of a controller that is lost."""
        return self._safety is not None and self._safety.fallback_holds

    @property
    def estop_latched(self) -> bool:
        """Whether an e-stop is latched."""
        safety = self._safety
        return self._early_estop is not None or (safety is not None and (safety.estop_asked or ESTOP in safety.faults))

    @property
    def estop_reason(self) -> str:
        """Why the safety logic latched an e-stop; "" where it did not."""
        return self._safety.estop_reason if self._safety is not None and self.estop_latched else ""

    @property
    def estop_holders(self) -> tuple[Holder, ...]:
        """Who holds the e-stop now, and keeps it from being reset."""
        return self._inputs.holders(time.monotonic())

    # Requests

    def estop(self, reason: str, *, held: bool = False) -> str:
        """Latch the e-stop: the tendons are released, or what the robot file states."""
        release = reason in OWN_REASONS
        with self._lock:
            safety, loop = self._safety, self._context.loop
            if safety is None:
                self._early_estop = (reason, held)
                self.last_fault = ESTOP
            elif loop is None:
                safety.estop(reason, held=held, release=release)
        problem = ""
        if safety is not None and loop is not None and not loop.estop(reason, held=held, release=release):
            problem = self._past(loop)
            self._node.get_logger().error(f"e-stop ({reason}): {problem}")
        self._context.publish_status()
        return problem

    def _past(self, loop: DriverLoop) -> str:
        """The loop hangs: the torque goes off past it, if the devices take that."""
        off = loop.past(loop.disable)
        return (
            f"not confirmed: no control cycle has begun for {loop.standing_s:.1f} s, and only the next one latches it. "
            + ("The torque was switched off past it" if off else "The devices do not answer past it either")
            + f"{self._timeout(loop)}. If the robot is not at rest, cut the motors' supply"
        )

    def _timeout(self, loop: DriverLoop) -> str:
        hardware = loop.robot.hardware
        timeout_ms = None if hardware is None else getattr(hardware.tendon_actuators, "receive_timeout_ms", None)
        return "" if timeout_ms is None else f"; their own receive timeout of {timeout_ms:g} ms switches the motors off"

    def press(self, reason: str) -> None:
        """An input is pressed."""
        self.estop(reason, held=True)

    def let_go(self) -> None:
        """No input is pressed any more: the e-stop stays latched, and can be reset."""
        with self._lock:
            if self._safety is not None:
                self._safety.release_estop()
            elif self._early_estop is not None:
                self._early_estop = (self._early_estop[0], False)

    def serve_estop(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Answers the service ``estop``."""
        problem = self.estop("service")
        response.success = not problem
        response.message = f"e-stop {problem}" if problem else f"e-stop latched: {DOES[self.stop_action or RELEASE]}"
        return response

    def serve_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Answers the service ``reset_estop``."""
        try:
            blocking = self._reset()
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        if blocking:
            meanings = "; ".join(self._held() if name == ESTOP else FAULTS[name] for name in blocking)
            response.message = f"refused, the inputs are not neutral: {meanings}"
            return response
        self.bus_problem = ""
        self._context.publish_status()
        active = self._node.state == "active"
        response.success = True
        response.message = "faults cleared" + ("; deactivate and activate to go on" if active else "")
        return response

    def refuse_held(self) -> None:
        """Raise :class:`DeviceError` where somebody holds the e-stop: a button that was never heard latches nothing."""
        if self.estop_holders:
            raise DeviceError("e-stop", self._held(), "Release it, then bring the stack up again")

    def _held(self) -> str:
        return f"the e-stop is held: {'; '.join(str(holder) for holder in self.estop_holders)}"

    def _reset(self) -> tuple[str, ...]:
        """Clear the faults, or say what is not neutral."""
        if self.estop_holders:
            return (ESTOP,)
        safety, loop = self._safety, self._context.loop
        if safety is None:
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
        """As :class:`LoopWatcher`: log and publish what the safety logic reports."""
        for fault in new_faults:
            meaning = FAULTS.get(fault, "") if self._safety is None else self._safety.explain(fault)
            does = DOES[self.stop_action or RELEASE].capitalize()
            self._node.get_logger().error(
                f"fault {fault}{self._reason(fault)}: {meaning}. {does}; reset_estop clears the fault"
            )
        if new_faults:
            self.last_fault = self.names[-1]
        self._context.publish_status()

    def _reason(self, fault: str) -> str:
        if fault == ESTOP and self._safety is not None:
            return f" ({self._safety.estop_reason})"
        loop = self._context.loop
        if fault != DEVICE_FAULT or loop is None:
            return ""
        return f" ({', '.join(loop.devices.device_faults)})"

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """As :class:`LoopWatcher`: log the ``error``, once."""
        if str(error) != self.bus_problem:
            self.bus_problem = str(error)
            self._node.get_logger().error(self.bus_problem)

    def on_hang(self) -> None:
        """As :class:`LoopWatcher`: log and publish that a cycle does not end, or that it did."""
        loop = self._context.loop
        if loop is None:
            return
        if loop.hangs:
            self.last_fault = LOOP_HANGS
            self._node.get_logger().error(
                f"fault {LOOP_HANGS}: no control cycle has begun for {loop.standing_s:.1f} s: a device call or the "
                f"controller's update does not return. Nothing is written to the motors{self._timeout(loop)}"
            )
        else:
            self._node.get_logger().warning("the control cycle goes on")
        self._context.publish_status()
        self._node.diagnostics.publish()

    def on_failure(self, error: BaseException) -> None:
        """As :class:`LoopWatcher`: the ``error`` is a defect of the node."""
        self.last_fault = INTERNAL_ERROR
        self._node.defect = repr(error)
        self._node.report_error("the driver's loop failed", error)
        self._context.publish_status()
