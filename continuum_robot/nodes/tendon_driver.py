# SPDX-License-Identifier: Apache-2.0
"""The node that owns the tendon actuators. Its parts are in ``nodes/driver/``; here is when each of them acts."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from rclpy.clock import Clock, ClockType
from std_srvs.srv import Trigger

from continuum_robot.drivers.protocols import TendonActuators, TendonReading
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base.diagnostics import LoopThresholds
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.driver.commands import CommandInput
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.devices import make_actuators
from continuum_robot.nodes.driver.diagnosis import DriverDiagnosis
from continuum_robot.nodes.driver.estop_listener import EstopListener
from continuum_robot.nodes.driver.faults import DriverFaults
from continuum_robot.nodes.driver.lockstep import LockstepPace
from continuum_robot.nodes.driver.parameters import (
    declare_limits,
    declare_parameters,
    declare_temperatures,
    realtime_settings,
    refuse_of_tensions,
)
from continuum_robot.nodes.driver.procedure_actions import ACTIVATION, ProcedureActions, ProcedureDrive
from continuum_robot.nodes.driver.slot import ControllerSlot, ControllerSwitch
from continuum_robot.nodes.driver.states import OtherDriver, StatePublisher
from continuum_robot.nodes.driver.stored import COGGING, StoredCogging, StoredHeat, StoredHoming
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import make_loop
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import Form, compiled_form, form_of, interpreted_form
from continuum_robot.runtime.estop_inputs import EstopInputs
from continuum_robot.runtime.pace import Pace
from continuum_robot.runtime.periodic import FrozenGarbage
from continuum_robot.runtime.reports import LoopReport, ResponseReport, RoundTripReport
from continuum_robot.runtime.round_trips import RoundTripStatistics

GRAPH_PERIOD_S = 0.5


class TendonDriver(ManagedNode):
    """Publishes ``tendon_states`` every cycle, applies ``tendon_commands`` within limits, and keeps the tendons safe.

    Configured, it reads and publishes with the power off; active, it holds the measured tensions, or the place of
    servos, until the first command arrives. Faults latch; ``reset_estop`` clears them where the inputs are neutral.
    """

    # Its ramp needs the others; no program stays active that was asked to end.
    ends_first = True
    waits_for_devices = True
    # Not made where the constructor fails before.
    _estop_listener: EstopListener | None = None

    def __init__(self, *, slot: ControllerSlot | None = None, own_process: bool = False, **node_options: Any) -> None:
        super().__init__("tendon_driver", **node_options)
        self._slot = slot
        self._own_process = own_process and slot is not None
        self._shared = context = DriverContext(self)
        context.publish_status = self._publish_status
        declare_parameters(self.parameters)
        thresholds = LoopThresholds(self)
        self._temperatures: Settings | None = None
        self.parameters.on_change(self._on_parameters)
        self._safety_settings = self.parameters.declare_settings("safety", SafetySettings())
        self._opened: DriverLoop | None = None
        self._frozen = False
        self._refused_writers = 0
        self._commanded = False

        needed = [name.strip() for name in self.parameters.get("estop_buttons").split(",") if name.strip()]
        inputs = EstopInputs(self.parameters.get("estop_button_timeout_s"), needed)
        self._homing, self._cogging, self._heat = StoredHoming(context), StoredCogging(context), StoredHeat(context)
        self._faults = DriverFaults(context, inputs, self._heat)
        self._procedures = ProcedureDrive(context)
        self._lockstep = self._make_lockstep()
        flow = self.flow
        self._states = StatePublisher(self, flow)
        self._status = self.create_publisher(DriverStatus, "driver_status", qos.latched())
        self._commands = CommandInput(self, flow, self._on_two_writers, listens=slot is None)
        self.create_service(Trigger, "reset_estop", self._faults.serve_reset)
        self.create_service(Trigger, "reset_statistics", self._serve_reset_statistics)
        self._controllers = ControllerSwitch(context, slot)
        self._other = OtherDriver(context)
        self._diagnosis = DriverDiagnosis(
            context,
            thresholds,
            faults=self._faults,
            homing=self._homing,
            cogging=self._cogging,
            commands=self._commands,
            controllers=self._controllers,
        )
        ProcedureActions(context, self._procedures, self._homing)
        self.create_timer(GRAPH_PERIOD_S, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._publish_status()
        # Its callbacks come in a thread of its own, all others in the executor's.
        self._estop_listener = EstopListener(context, inputs, self._faults)

    def _make_lockstep(self) -> LockstepPace | None:
        if not self.clock.stepped:
            return None
        if not self.simulated:
            raise ParameterError("clock", "lockstep", "real: the time of hardware does not wait")
        pace = LockstepPace(self, 1.0 / self.parameters.get("rate_hz"), self.parameters.get("lockstep.run_s"))
        pace.on_done = self._publish_status
        return pace

    # Lifecycle

    def configure(self) -> None:
        """Open the actuators, start the loop with the power off."""
        robot = self.load_robot()
        if robot.limits is None or robot.actuators is None:
            raise ParameterError("robot", robot.name, "a robot file with limits and actuators")
        if robot.takes_displacements:
            refuse_of_tensions(self.parameters)
        self._other.refuse()
        if self._shared.hung is not None and not self._shared.hung.stop():
            raise DeviceError("tendon_driver", "its loop from before hangs still", "Restart the driver's process")
        self._shared.hung = None
        priority = self.parameters.get("rt.priority")
        if priority > 0 and self._slot is None:
            raise ParameterError(
                "rt.priority",
                priority,
                "0 where the controller is another program, which a real-time loop starves (controller: clarke is in"
                " the loop itself)",
            )
        self._temperatures = declare_temperatures(self.parameters, robot.actuators, self._take_temperatures)
        limits = declare_limits(self.parameters, robot.limits)
        robot = robot.changed(limits=limits, actuators=self._temperatures.value)
        self._procedures.gravity.follow(robot)
        desired = self._desired_form(robot)
        pace = self._lockstep
        if pace is not None:
            pace.connect()
        time = None if pace is None else (pace.now_s, pace.sleep)
        actuators = make_actuators(self, robot, limits, desired, time)
        actuators.open()
        form = form_of(actuators, desired)
        self.get_logger().info(f"the cycle runs {form.name}: {form.reason}")
        rate_hz = self.parameters.get("rate_hz")
        self._shared.loop = self._opened = loop = self._make_loop(robot, actuators, form, 1.0 / rate_hz)
        trips = None if self._slot is not None else RoundTripStatistics(loop.period_s)
        self._states.prepare(
            loop.row,
            robot,
            simulated=self.simulated,
            trips=trips,
        )
        self._homing.read(loop)
        self._cogging.read(loop)
        self._controllers.begin(loop)
        if self._slot is not None:
            self._slot.join(loop, form)
        else:
            self._commands.listen(loop, trips, str(self.parameters.get("prefix")))
        loop.start()

    def _desired_form(self, robot: Robot) -> Form:
        if robot.traits.without_compiled_cycle:
            return interpreted_form(robot.traits.without_compiled_cycle)
        if self.parameters.get("cycle") == "interpreted":
            return interpreted_form("the parameter cycle asks for it")
        return compiled_form(self.say)

    def _make_loop(self, robot: Robot, actuators: TendonActuators, form: Form, period_s: float) -> DriverLoop:
        safety = self._faults.prepare(robot, self._safety_settings.value, form, period_s)
        self._shared.form = form
        pace: Pace | None = self._lockstep
        if pace is None:
            realtime = realtime_settings(self.parameters, own_process=self._own_process)
            if realtime.priority:
                self.get_logger().info(f"the loop asks for SCHED_FIFO {realtime.priority} (rt.priority)")
            pace = ControlThread("tendon_driver", period_s, realtime=realtime, on_refused=self.warn_of_all)
        return make_loop(robot, actuators, self, pace, form=form, safety=safety, number=self._states.newest)

    def activate(self) -> None:
        """Take up slack with a low tension, then obey commands; the first ones are what is measured.

        Without torque a bent robot springs back and leaves tendons slack, their displacements then fit no shape.
        """
        loop = self._shared.configured
        self._procedures.reserve(ACTIVATION)
        self._homing.require(loop.actuators)
        loop.safety.refuse_faults()
        self._faults.refuse_held()
        FrozenGarbage.hold()
        self._frozen = True
        loop.switch_on()
        loop.take_up_slack(self.parameters.get("take_up_fraction"), self.get_logger().warning)
        loop.obey()
        self._diagnosis.activated_ns = round(loop.pace.now_s() * 1e9)
        self.reset_statistics()
        self._publish_status()

    def deactivate(self) -> None:
        """Release the tendons, then switch the torque off. Takes the time of the ramp, and is bounded."""
        loop = self.loop
        if self._procedures.owner not in ("", ACTIVATION):
            return  # an activation was refused beside a procedure: what that switched on is not ours to switch off
        try:
            if loop is not None and loop.hangs:
                # Where the cycle goes on, on_hang switches the rest off.
                if not loop.past(loop.disable):
                    self.get_logger().error("the devices do not take that the torque goes off: their own timeouts act")
            elif loop is not None and (loop.powered or loop.enabled):
                try:
                    if loop.running and loop.powered:
                        loop.ramp_down(self.get_logger().warning)
                finally:
                    loop.call(loop.power_off)
        finally:
            if self._frozen:
                self._frozen = False
                FrozenGarbage.release()
            self._procedures.free()
            self._publish_status()

    def cleanup(self) -> None:
        """Stop the loop and close the actuators."""
        loop = self.loop
        self._procedures.end(loop)
        self._heat.keep(loop, now=True)
        if self._slot is not None:
            self._slot.leave()
        self._shared.loop = None
        if loop is not None and not loop.stop():
            self.get_logger().error(
                "the driver's loop hangs in a device call or the controller's update; the devices are closed past it"
            )
            self._shared.hung, self._opened, self.exit_code = loop, None, 1
            if not loop.past(loop.close):
                self.get_logger().error("the devices do not take that they are closed: their own timeouts act")
        if self._opened is not None:
            self._opened.close()  # tried again by the next cleanup where it fails
        self._opened = None
        self._other.closed()
        self._publish_status()

    def destroy_node(self) -> None:
        """End the actions and what listens for the e-stop, release everything, then destroy the node."""
        self.end_actions()
        self.release()
        if self._estop_listener is not None:
            self._estop_listener.close()
        super().destroy_node()

    def on_defect(self, error: BaseException) -> None:
        """A callback failed: what it leaves undone is unknown, so the tendons are made safe."""
        super().on_defect(error)
        if "internal_error" not in self.faults:
            self._faults.estop("internal_error")

    # What happens in the loop: see LoopWatcher

    def on_row(self, row: list[float]) -> None:
        """Publish what a cycle did."""
        if self._lockstep is not None and not self._lockstep.turning:
            return  # nobody has a turn to hear it
        self._states.publish(row)
        if self._slot is not None:
            self._slot.on_row(row)

    def on_change(self, new_faults: Sequence[str]) -> None:
        """The safety logic changed its state or its faults."""
        self._faults.on_change(new_faults)

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """The devices could not be read or written."""
        self._faults.on_bus_error(error)

    def on_hang(self) -> None:
        """Cycles hang, or go on: then what was to be off meanwhile goes off."""
        self._faults.on_hang()
        loop = self.loop
        if loop is not None and not loop.hangs and self.state == "inactive" and not self._procedures.owner:
            with contextlib.suppress(DeviceError):  # it ends or hangs again, which is noticed anyway
                loop.call(loop.power_off)

    def on_failure(self, error: BaseException) -> None:
        """The loop ended by a defect; the torque is off."""
        self._faults.on_failure(error)

    # What the tools read

    @property
    def loop(self) -> DriverLoop | None:
        """The loop, None while not configured."""
        return self._shared.loop

    def loop_report(self) -> LoopReport | None:
        """Timing of the loop since the activation, None while not configured."""
        return None if self.loop is None else self.loop.pace.report()

    def response_report(self) -> ResponseReport | None:
        """Times from a cycle's beginning to its command written, None while not configured."""
        return None if self.loop is None else self.loop.pace.response_report()

    def round_trip_report(self) -> RoundTripReport | None:
        """Round trips over topics since the activation; None with the controller in the cycle."""
        return self._commands.report()

    def reset_statistics(self) -> None:
        """Start the statistics of the loop and of the round trips over."""
        if self.loop is not None:
            self.loop.pace.reset_statistics()
        self._commands.reset()

    @property
    def faults(self) -> tuple[str, ...]:
        """Names of the faults that are latched now; an e-stop of the driver itself is named by its reason."""
        return self._faults.names

    @property
    def newest_reading(self) -> TendonReading | None:
        """The newest reading, None before the first."""
        return None if self.loop is None else self.loop.reading

    @property
    def powered(self) -> bool:
        """Whether tensions are written to the actuators."""
        return self.loop is not None and self.loop.powered

    # Callbacks

    def _serve_reset_statistics(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.reset_statistics()
        response.success = True
        return response

    def _on_parameters(self, names: set[str]) -> None:
        if COGGING in names:
            self._cogging.apply(self.loop)

    def _take_temperatures(self, actuators: Actuators, _names: set[str]) -> None:
        loop, value = self.loop, actuators
        if loop is not None:
            loop.call(lambda: loop.safety.heat.set_limits(value.temperature_warn_c, value.temperature_error_c))

    def _look(self) -> None:
        self._heat.keep(self.loop)
        if self._commands.heard != self._commanded:
            self._commanded = not self._commanded
            self._publish_status()
        self._watch_graph()

    def _watch_graph(self) -> None:
        """Beside a controller in the cycle nobody else is let through."""
        others = 0 if self._slot is None else max(0, self._commands.publishers - 1)
        if others and not self._refused_writers:
            self.get_logger().warning(
                f"{others} other program{'s' * (others > 1)} on tendon_commands: refused, the controller is in the"
                " driver's cycle (bring the stack up with controller topic to command the tendons yourself)"
            )
        self._refused_writers = others

    def _on_two_writers(self) -> None:
        if self.parameters.get("second_writer") == "fault" and "two_writers" not in self.faults:
            self._faults.estop("two_writers")

    def status(self) -> DriverStatus:
        """What is published on ``driver_status``."""
        return self._diagnosis.driver_status()

    def _publish_status(self) -> None:
        self._status.publish(self.status())


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TendonDriver, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
