# SPDX-License-Identifier: Apache-2.0
"""The node that owns the tendon actuators. Its parts are in ``nodes/driver/``; here is when each of them acts."""

from __future__ import annotations

import sys
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.clock import Clock, ClockType
from std_srvs.srv import Trigger

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety_settings import SafetySettings
from continuum_robot.drivers.zeroed import ZeroedActuators
from continuum_robot.errors import ParameterError
from continuum_robot.nodes import qos
from continuum_robot.nodes.diagnostics import LoopThresholds
from continuum_robot.nodes.driver.commands import CommandInput
from continuum_robot.nodes.driver.devices import make_actuators
from continuum_robot.nodes.driver.diagnosis import DriverDiagnosis
from continuum_robot.nodes.driver.estop_listener import EstopListener
from continuum_robot.nodes.driver.faults import DriverFaults
from continuum_robot.nodes.driver.homing import StoredHoming
from continuum_robot.nodes.driver.loop import DriverLoop, configured
from continuum_robot.nodes.driver.parameters import declare_parameters, realtime_settings
from continuum_robot.nodes.driver.procedure_actions import ProcedureActions
from continuum_robot.nodes.driver.procedure_drive import ProcedureDrive, refuse_procedure
from continuum_robot.nodes.driver.slack import take_up_slack, wait_for_ramp, wait_for_rest
from continuum_robot.nodes.driver.states import OtherDriver, StatePublisher
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.parameters import Settings
from continuum_robot.nodes.periodic import FrozenGarbage
from continuum_robot.nodes.spinning import run_node
from continuum_robot.nodes.timing import LoopReport, RoundTripReport, RoundTripStatistics

GRAPH_PERIOD_S = 0.5


class TendonDriver(ManagedNode):
    """Publishes ``tendon_states`` every cycle, applies ``tendon_commands`` within limits, and keeps the tendons safe.

    Configured, it reads and publishes with the power off; active, it holds the measured tensions until the first
    command arrives. Faults latch; ``reset_estop`` clears them where the inputs are neutral.

    Attributes
    ----------
    loop : what runs while the driver is configured, None while not
    """

    # Not made where the constructor fails before.
    _actions: ProcedureActions | None = None
    _estop_listener: EstopListener | None = None

    def __init__(self, **node_options: Any) -> None:
        super().__init__("tendon_driver", **node_options)
        declare_parameters(self.parameters)
        thresholds = LoopThresholds(self)
        self._limits: Settings | None = None
        self._safety_settings = self.parameters.declare_settings("safety", SafetySettings())
        self.loop: DriverLoop | None = None
        self._opened: DriverLoop | None = None
        self._frozen = False

        self._faults = DriverFaults(self, self._get_loop, self._publish_status)
        self._homing = StoredHoming(self, self._get_loop, self._publish_status)
        self._procedures = ProcedureDrive(self, self._get_loop, self._publish_status)
        self._states = StatePublisher(self)
        self._status = self.create_publisher(DiagnosticStatus, "driver_status", qos.latched())
        self._commands = CommandInput(self)
        self.create_service(Trigger, "reset_estop", self._faults.serve_reset)
        self.create_service(Trigger, "reset_statistics", self._serve_reset_statistics)
        self._other = OtherDriver(self, lambda: self.loop is not None)
        self._diagnosis = DriverDiagnosis(
            self, self._get_loop, thresholds, faults=self._faults, homing=self._homing, commands=self._commands
        )
        self._actions = ProcedureActions(self, self._procedures, self._homing)
        self.create_timer(GRAPH_PERIOD_S, self._watch_graph, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._publish_status()
        # Its callbacks come in a thread of its own, all others in the executor's.
        self._estop_listener = EstopListener(self, self._faults.on_estop_topic, self._faults.serve_estop)

    # Lifecycle

    def configure(self) -> None:
        """Open the actuators, start the loop with the power off.

        Raises
        ------
        DeviceError : a device does not open, or another driver publishes in this DDS domain
        ParameterError : a robot file without limits or actuators
        """
        robot = self.load_robot()
        if robot.limits is None or robot.actuators is None:
            raise ParameterError("robot", robot.name, "a robot file with limits and actuators")
        self._other.refuse()
        self.parameters.forget_settings(self._limits)
        self._limits = self.parameters.declare_settings("limits", robot.limits)
        robot = robot.changed(limits=self._limits.value)
        actuators = ZeroedActuators(make_actuators(self, robot, self._limits.value))
        actuators.open()
        safety = self._faults.prepare(robot, self._safety_settings.value)
        rate_hz = self.parameters.get("rate_hz")
        period_s = 1.0 / rate_hz
        trips = RoundTripStatistics(period_s)
        self._states.prepare(
            robot.tendon_count,
            simulated=self.simulated,
            decimation=max(1, round(rate_hz / self.parameters.get("decimated_rate_hz"))),
            trips=trips,
        )
        self.loop = self._opened = loop = DriverLoop(
            robot,
            actuators,
            safety,
            self._states,
            self._faults,
            period_s=period_s,
            realtime=realtime_settings(self.parameters),
        )
        self._homing.read(loop)
        self._commands.listen(loop, trips)
        loop.start()

    def activate(self) -> None:
        """Take up slack with a low tension, then obey commands; the first tensions are the measured ones.

        Without torque a bent robot springs back and leaves tendons slack, their displacements then fit no shape.
        """
        loop = configured(self.loop)
        refuse_procedure(loop)
        self._homing.require(loop.actuators.inner)
        loop.safety.refuse_faults()

        def start() -> None:
            now_s = time.monotonic()
            loop.safety.activate(loop.actuators.read(now_s), now_s)
            loop.command = None
            loop.take_up = None
            loop.powered = True
            self._diagnosis.activated_ns = round(now_s * 1e9)

        FrozenGarbage.hold()
        self._frozen = True
        loop.switch_on()
        take_up_slack(loop, self.parameters.get("take_up_share"), self.get_logger().warning)
        loop.call(start)
        self.reset_statistics()
        self._publish_status()

    def deactivate(self) -> None:
        """Ramp to the safe tension, then switch the torque off. Takes the time of the ramp, and is bounded."""
        loop = self.loop
        self._procedures.end(loop)
        try:
            if loop is not None and loop.running and loop.powered:
                loop.call(loop.safety.deactivate)
                wait_for_ramp(loop, self.get_logger().warning)
                # Torque that goes off while the robot still swings back would leave tendons slack.
                wait_for_rest(loop)
        finally:
            if loop is not None and (loop.powered or loop.enabled):
                loop.call(loop.power_off)
            if self._frozen:
                self._frozen = False
                FrozenGarbage.release()
            self._publish_status()

    def cleanup(self) -> None:
        """Stop the loop and close the actuators."""
        loop = self.loop
        self._procedures.end(loop)
        self.loop = None
        if loop is not None and not loop.stop():
            self.get_logger().error("the driver's loop hangs in a call to the device")
        if self._opened is not None:
            self._opened.close()  # tried again by the next cleanup where it fails
        self._opened = None
        self._other.closed()
        self._publish_status()

    def destroy_node(self) -> None:
        """End the actions and what listens for the e-stop, release everything, then destroy the node."""
        if self._actions is not None:
            self._actions.close()
        self.release()
        if self._estop_listener is not None:
            self._estop_listener.close()
        super().destroy_node()

    def on_defect(self, error: BaseException) -> None:
        """A callback failed: what it leaves undone is unknown, so the tendons are made safe.

        Parameters
        ----------
        error : what was raised
        """
        super().on_defect(error)
        self._faults.estop("internal_error")

    # What the tools read

    def loop_report(self) -> LoopReport | None:
        """Timing of the loop since the activation, None while not configured."""
        return None if self.loop is None else self.loop.report()

    def round_trip_report(self) -> RoundTripReport | None:
        """Round trips since the activation, None before the first configuration."""
        return self._commands.report()

    def reset_statistics(self) -> None:
        """Start the statistics of the loop and of the round trips over."""
        if self.loop is not None:
            self.loop.reset_statistics()
        self._commands.reset()

    @property
    def faults(self) -> tuple[str, ...]:
        """Names of the faults that are latched now; an e-stop of the driver itself is named by its reason."""
        return self._faults.names

    @property
    def newest_reading(self) -> TendonReading | None:
        """The newest reading, None before the first."""
        return self._procedures.newest_reading

    @property
    def powered(self) -> bool:
        """Whether tensions are written to the actuators."""
        return self.loop is not None and self.loop.powered

    # Callbacks

    def _serve_reset_statistics(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.reset_statistics()
        response.success = True
        return response

    def _watch_graph(self) -> None:
        """Two writers fight over the tendons: neither is let through."""
        if self.loop is not None and self._commands.two_writers():
            self._faults.estop("two_writers")

    def _publish_status(self) -> None:
        self._status.publish(self._diagnosis.driver_status())

    def _get_loop(self) -> DriverLoop | None:
        return self.loop


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TendonDriver, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
