# SPDX-License-Identifier: Apache-2.0
"""The node that owns the tendon actuators: one thread reads, publishes, checks and writes at a fixed rate."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from continuum_robot.drivers import backends
from continuum_robot.drivers.protocols import CountsFromPowerOn, TendonActuators, TendonReading
from continuum_robot.drivers.tendon_safety import (
    ESTOP,
    FAULTS,
    SafetyOutput,
    SafetySettings,
    TendonSafety,
)
from continuum_robot.drivers.zeroed import ZeroedActuators
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.identification.procedures.procedure import Procedure, TakeUp, TakeUpSettings
from continuum_robot.identification.procedures.record import (
    HOME_FIRST,
    HomingRecord,
    calibration_folder,
    load_record,
    record_path,
    simulated_folder,
)
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.msg import Contact, TendonCommands, TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.estop_listener import EstopListener
from continuum_robot.nodes.flat_messages import commands_layout, states_layout
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.periodic import FrozenGarbage, PeriodicThread, RealtimeSettings
from continuum_robot.nodes.procedures import ProcedureActions
from continuum_robot.nodes.simulated_contact import TrueContacts
from continuum_robot.nodes.simulated_push import SimulatedPush
from continuum_robot.nodes.spinning import run_node
from continuum_robot.nodes.timing import LoopReport, RoundTripReport, RoundTripStatistics, WriterWatch
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.simulation.contact import load_contacts
from continuum_robot.simulation.devices import SimulatedTendonActuators
from continuum_robot.simulation.mechanism_body import linked_count
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plant_link import PlantLink
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.srv import InjectFault

Vector = NDArray[np.float64]

FAKE_LEVELS = ("dynamics", "mirror", "wire")
HOMING_POLICIES = ("auto", "required", "ignored")
GRAPH_PERIOD_S = 0.5
FOREIGN_STATES_S = 0.5
SETTLE_TIMEOUT_S = 1.0
REST_M_PER_S = 2e-3
PROCEDURE_TIMEOUT_S = 600.0
TAKE_UP_PERIOD_S = 0.005
OWN_REASONS = ("two_writers", "internal_error")
"""Reasons for which the driver itself asks for the e-stop."""
_TAKE_UP = TakeUpSettings(rest_time_s=0.1, timeout_s=4.0)


class TendonDriver(ManagedNode):
    """Publishes ``tendon_states`` every cycle, applies ``tendon_commands`` within limits, and keeps the tendons safe.

    Configured, it reads and publishes with the power off; active, it holds the measured tensions until the first
    command arrives. It never sends an old command again to keep a device content: a command's age counts from the state
    that it answers. Faults latch; ``reset_estop`` clears them where the inputs are neutral.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("tendon_driver", **node_options)
        declare = self.parameters.declare
        declare(
            "rate_hz", 1000.0, "rate of the driver's cycle", rules=Quantity("", "Hz", ge=20, le=4000), read_only=True
        )
        declare(
            "decimated_rate_hz",
            100.0,
            "rate of tendon_states_decimated, for estimators and viewers that need not see every cycle",
            rules=Quantity("", "Hz", ge=1, le=4000),
            read_only=True,
        )
        declare(
            "fake_level",
            "dynamics",
            "how much of the robot is simulated: mirror, dynamics, or wire, where the real driver speaks to simulated"
            " motor boards",
            rules=Quantity("", choices=FAKE_LEVELS),
            read_only=True,
        )
        declare(
            "homing",
            "auto",
            "whether a stored homing of this robot and robot file is needed to be activated; auto: on hardware",
            rules=Quantity("", choices=HOMING_POLICIES),
            read_only=True,
        )
        declare("calibration_folder", "", "where homings are kept, empty: in the user's data folder", read_only=True)
        declare("can_interface", "", "python-can interface instead of the robot file's, empty: that", read_only=True)
        declare(
            "contacts",
            "",
            "file of what touches the simulated robot, by the time since the driver was activated; empty: nothing",
            read_only=True,
        )
        declare("base_frame", "base", "frame_id of the place of simulated contacts", read_only=True)
        declare(
            "take_up_share",
            0.25,
            "tension that takes up slack at activation, as a share of what a tendon may carry when all carry the same",
            rules=Quantity("", "", ge=0, le=1),
            read_only=True,
        )
        declare("rt.priority", 0, "SCHED_FIFO priority, 0: none", rules=Quantity("", ge=0, le=98), read_only=True)
        declare("rt.cpu_affinity", [-1], "CPUs for the loop, -1: any", read_only=True)
        declare("rt.lock_memory", False, "keep the process's memory from being swapped out", read_only=True)
        celsius = Quantity("", "degC", ge=0, le=300)
        declare("temperature_warn_c", 70.0, "motor temperature at which to warn", rules=celsius)
        declare("temperature_error_c", 85.0, "motor temperature that counts as an error", rules=celsius)
        self.parameters.add_check(_temperatures_in_order)
        self._thresholds = LoopThresholds(self)
        self._limits: Any = None
        self._safety_settings = self.parameters.declare_settings("safety", SafetySettings())

        self._robot: Robot | None = None
        self._actuators: ZeroedActuators | None = None
        self._fakes: SimulatedHardware | None = None
        self._not_homed = ""
        self._was_aligned = False
        self._procedure: ProcedureRun | None = None
        self._touching: TrueContacts | None = None
        self._safety: TendonSafety | None = None
        self._loop: PeriodicThread | None = None
        self._round_trip: RoundTripStatistics | None = None
        self._writers = WriterWatch()
        self._powered = self._enabled = False
        self._take_up: Vector | None = None
        self._frozen = False
        self._sequence = 0
        self._to_decimate: deque[bytes] = deque()
        self._command: tuple[Vector, float, int] | None = None
        self._reading: TendonReading | None = None
        self._output: SafetyOutput | None = None
        self._early_estop: tuple[str, bool] | None = None
        self._estop_lock = threading.Lock()
        self._estop_input = False
        self._last_fault = ""
        self._bus_problem = ""
        self._invalid_commands = 0

        self._states = self.create_publisher(TendonStates, "tendon_states", qos.state_publisher())
        self._decimated = self.create_publisher(TendonStates, "tendon_states_decimated", qos.state_publisher())
        # The truth, of simulated contacts only.
        self._truth = self.create_publisher(Contact, "simulated_contact", qos.state_publisher())
        self._status = self.create_publisher(DiagnosticStatus, "driver_status", qos.latched())
        self.create_subscription(
            TendonCommands, "tendon_commands", self._on_command, qos.command_subscription(), raw=True
        )
        self.create_service(Trigger, "reset_estop", self._serve_reset)
        self.create_service(Trigger, "reset_statistics", self._serve_reset_statistics)
        self.create_service(InjectFault, "inject_fault", self._serve_inject_fault)
        self._push = SimulatedPush(self, lambda: self._plant_of(self._ready()[2])) if self.simulated else None
        self._foreign_s = self._closed_s = -math.inf
        # Never destroyed: the EventsExecutor does not take it well when a callback destroys what it listens to.
        self.create_subscription(
            TendonStates, "tendon_states_decimated", self._on_foreign_states, qos.newest_state(), raw=True
        )
        for name, task in (
            ("driver", self._diagnose_driver),
            ("loop", self._diagnose_loop),
            ("round_trip", self._diagnose_round_trip),
            ("bus", self._diagnose_bus),
        ):
            self.diagnostics.add_task(name, task)
        self._actions = ProcedureActions(self)
        self.create_timer(GRAPH_PERIOD_S, self._watch_graph, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._publish_status()
        self._estop_listener = EstopListener(self, self._on_estop, self._serve_estop)

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
        if time.monotonic() - self._foreign_s < FOREIGN_STATES_S:
            raise DeviceError(
                self.resolve_topic_name("tendon_states"),
                "another driver is publishing it in this DDS domain",
                "Stop that program, or give this robot a namespace or a ROS_DOMAIN_ID of its own",
            )
        self.parameters.forget_settings(self._limits)
        self._limits = self.parameters.declare_settings("limits", robot.limits)
        robot = robot.changed(limits=self._limits.value)
        actuators = ZeroedActuators(self._make_actuators(robot))
        actuators.open()
        self._touching = None
        if self.parameters.get("contacts"):
            self._touching = TrueContacts(self._plant_of(actuators), str(self.parameters.get("base_frame")))
        with self._estop_lock:
            if self._safety is None or self._robot != robot:
                # Otherwise the old one is kept, so that closing and opening the device clears no fault.
                before = self._safety
                if before is not None and ESTOP in before.faults:
                    self._early_estop = (before.estop_reason, before.estop_held)
                self._safety = TendonSafety(robot, self._safety_settings.value)
            if self._early_estop is not None:
                self._safety.estop(self._early_estop[0], held=self._early_estop[1])
                self._early_estop = None
        self._robot, self._actuators = robot, actuators
        self._was_aligned = isinstance(actuators.inner, CountsFromPowerOn) and actuators.inner.aligned
        self._read_homing(robot, actuators)
        self._prepare_messages(robot.tendon_count)
        rate_hz = self.parameters.get("rate_hz")
        period_s = 1.0 / rate_hz
        self._decimation = max(1, round(rate_hz / self.parameters.get("decimated_rate_hz")))
        self._round_trip = RoundTripStatistics(period_s)
        self._loop = PeriodicThread(
            "tendon_driver",
            period_s,
            self._cycle,
            on_failure=self._on_loop_failure,
            on_refused=self.warn_of_all,
            realtime=self._realtime(),
        )
        self._loop.start()

    def activate(self) -> None:
        """Take up slack with a low tension, then obey commands; the first tensions are the measured ones.

        Without torque a bent robot springs back and leaves tendons slack, their displacements then fit no shape.
        """
        loop, safety, actuators = self._ready()
        self._refuse_procedure()
        self._require_homing(actuators)
        safety.refuse_faults()

        def start() -> None:
            now_s = time.monotonic()
            safety.activate(actuators.read(now_s), now_s)
            self._command = None
            self._take_up = None
            self._powered = True
            if self._touching is not None:
                self._touching.start()

        FrozenGarbage.hold()
        self._frozen = True
        # Not in the loop: a board may take a second to say that it is on, and the readings go on meanwhile.
        self._enabled = True
        self._switch_on(loop, safety, actuators)
        self._take_up_slack(loop, safety)
        loop.call(start)
        loop.statistics.reset()
        self._trips().reset()
        self._publish_status()

    def deactivate(self) -> None:
        """Ramp to the safe tension, then switch the torque off. Takes the time of the ramp, and is bounded."""
        loop, safety, actuators = self._loop, self._safety, self._actuators
        self._end_procedure()
        try:
            if loop is not None and loop.running and safety is not None and self._powered:
                loop.call(safety.deactivate)
                self._wait_for_ramp(safety)
                # Torque that goes off while the robot still swings back would leave tendons slack.
                self._wait_for_rest()
        finally:
            if actuators is not None and (self._powered or self._enabled):
                if loop is not None and loop.running:
                    loop.call(self._power_off)
                else:
                    self._power_off()
            if self._frozen:
                self._frozen = False
                FrozenGarbage.release()
            self._publish_status()

    def cleanup(self) -> None:
        """Stop the loop and close the actuators."""
        self._end_procedure()
        loop, self._loop = self._loop, None
        if loop is not None and not loop.stop():
            self.get_logger().error("the driver's loop hangs in a call to the device")
        if self._actuators is not None:
            self._power_off()
            self._actuators.close()
        if self._fakes is not None:
            self._fakes.close()
        self._actuators = self._reading = self._output = self._fakes = None
        self._closed_s = time.monotonic()
        self._publish_status()

    def destroy_node(self) -> None:
        """End the actions and what listens for the e-stop, release everything, then destroy the node."""
        self._actions.close()
        self.release()
        self._estop_listener.close()
        super().destroy_node()

    def on_defect(self, error: BaseException) -> None:
        """A callback failed: what it leaves undone is unknown, so the tendons are made safe.

        Parameters
        ----------
        error : what was raised
        """
        super().on_defect(error)
        self._estop("internal_error")

    # What the tools read

    def loop_report(self) -> LoopReport | None:
        """Timing of the loop since the activation, None while not configured."""
        return None if self._loop is None else self._loop.statistics.report()

    def round_trip_report(self) -> RoundTripReport | None:
        """Round trips since the activation, None before the first configuration."""
        return None if self._round_trip is None else self._round_trip.report()

    def reset_statistics(self) -> None:
        """Start the statistics of the loop and of the round trips over."""
        if self._loop is not None:
            self._loop.statistics.reset()
        if self._round_trip is not None:
            self._round_trip.reset()

    @property
    def driver_state(self) -> str:
        """What the safety logic says: ``inactive``, ``active``, ``safe``; ``unconfigured`` before it exists."""
        if self._safety is None:
            return "unconfigured" if self._early_estop is None else "safe"
        return self._safety.state

    @property
    def faults(self) -> tuple[str, ...]:
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

    # The cycle, in the loop's thread

    def _cycle(self, now_s: float, elapsed_s: float) -> None:
        actuators, safety = self._actuators, self._safety
        if actuators is None or safety is None:
            return
        self._publish_decimated()
        try:
            reading: TendonReading | None = actuators.read(now_s)
        except ContinuumRobotError as error:
            self._on_bus_error(error)
            reading = None
        if reading is not None:
            self._reading = reading
        self._publish_states(reading if reading is not None else self._unknown_reading(now_s))
        command, procedure = self._command, self._procedure
        if procedure is not None:
            # The procedure is the commander: what it wants was born from this reading.
            tensions = procedure.wanted(reading, elapsed_s)
            output = safety.update(reading, tensions, 0.0, now_s, elapsed_s, command_sequence=self._sequence)
        elif command is None:
            output = safety.update(reading, None, 0.0, now_s, elapsed_s)
        else:
            wanted, born_s, sequence = command
            output = safety.update(reading, wanted, now_s - born_s, now_s, elapsed_s, command_sequence=sequence)
        tension = output.tension if self._powered and output.write else self._take_up
        if tension is not None:
            try:
                actuators.write(tension, now_s)
            except ContinuumRobotError as error:
                self._on_bus_error(error)
            self._note_commanded(tension.tolist(), output.limited.tolist())
        before, self._output = self._output, output
        if output.new_faults or before is None or before.state != output.state or before.faults != output.faults:
            self._on_change(output)

    def _publish_states(self, reading: TendonReading) -> None:
        numbers, place = self._numbers, self._layout.place
        self._sequence = sequence = self._sequence + 1
        numbers[place["sequence"]] = sequence
        numbers[place["displacement"]] = reading.displacement_m.tolist()
        numbers[place["velocity"]] = reading.velocity_m_per_s.tolist()
        numbers[place["tension"]] = reading.tension_n.tolist()
        numbers[place["current"]] = reading.current_a.tolist()
        numbers[place["temperature"]] = reading.temperature_c.tolist()
        numbers[place["age"]] = reading.age_s.tolist()
        monotonic_ns = time.monotonic_ns()
        since_acquired_ns = monotonic_ns - round(reading.stamp_s * 1e9)
        stamp_ns = conversions.now_ns(self.get_clock()) - since_acquired_ns
        numbers[place["sec"]], numbers[place["nanosec"]] = divmod(stamp_ns, conversions.NS_PER_S)
        data = self._layout.to_bytes(numbers)
        self._trips().published(sequence, monotonic_ns)
        self._states.publish(data)
        if sequence % self._decimation == 0:
            self._to_decimate.append(data)
            if self._touching is not None:
                self._touching.publish(self._truth, stamp_ns, sequence)

    def _publish_decimated(self) -> None:
        """Publish what is due on tendon_states_decimated: after the command, for which the tendons wait, has come.

        Where none comes, the next cycle does it. Its readers would otherwise take the processor from the controller.
        """
        with contextlib.suppress(IndexError):
            self._decimated.publish(self._to_decimate.popleft())

    def _note_commanded(self, tension_n: list[float], limited: list[int]) -> None:
        """What the next states say was sent."""
        self._numbers[self._layout.place["commanded_tension"]] = tension_n
        self._numbers[self._layout.place["limited"]] = limited

    def _unknown_reading(self, now_s: float) -> TendonReading:
        """What is published when a reading fails: unknown values, as old as the last good ones."""
        unknown = np.full(self._message_size, np.nan)
        last = self._reading
        age = np.full(self._message_size, math.inf) if last is None else last.age_s + (now_s - last.stamp_s)
        return TendonReading(now_s, unknown, unknown, unknown, unknown, unknown, age, ("bus_error",))

    def _on_bus_error(self, error: ContinuumRobotError) -> None:
        if str(error) != self._bus_problem:
            self._bus_problem = str(error)
            self.get_logger().error(self._bus_problem)

    def _on_change(self, output: SafetyOutput) -> None:
        for fault in output.new_faults:
            meaning = FAULTS.get(fault, "")
            reason = f" ({self._safety.estop_reason})" if fault == ESTOP and self._safety is not None else ""
            self.get_logger().error(
                f"fault {fault}{reason}: {meaning}. The tendons go to their safe tension; reset_estop clears the fault"
            )
        if output.new_faults:
            self._last_fault = self.faults[-1]
        self._publish_status()

    def _on_loop_failure(self, error: BaseException) -> None:
        """The loop's thread died: without it nothing watches the tendons, so the torque goes off at once."""
        if self._safety is not None:
            self._safety.estop("internal_error")
        self._power_off()
        self._last_fault = "internal_error"
        self.defect = repr(error)
        self.report_error("the driver's loop failed", error)
        self._publish_status()

    def _power_off(self) -> None:
        if self._actuators is not None:
            self._actuators.disable()
        if self._safety is not None:
            self._safety.torque_off()
        self._powered = self._enabled = False
        self._command = self._take_up = None
        self._note_commanded([math.nan] * self._message_size, [0] * self._message_size)

    def _take_up_slack(self, loop: PeriodicThread, safety: TendonSafety) -> None:
        """Pull all tendons in slowly until they rest, with a tension that falls to zero at a low speed.

        A tendon that is slack when the controller begins would be pulled in at full speed, and jerk when it is tight.
        More than the safe tension may be needed, since friction and cogging hold a motor against it. Whether it worked
        is checked by the activation that follows, which says what is wrong when it did not.
        """
        limits, robot = safety.limits, self.configured_robot
        share_n = min(limits.maximum_n, limits.total_n / self._message_size)
        level_n = max(limits.safe_n, limits.minimum_n, self.parameters.get("take_up_share") * share_n)
        if safety.faults:
            return
        take_up = TakeUp(np.full(self._message_size, level_n), robot.tendon_names, _TAKE_UP)
        last_s, tight = time.monotonic(), False
        while not tight and loop.running and not safety.faults:
            reading = self._reading
            now_s = time.monotonic()
            if reading is not None and np.isfinite(reading.velocity_m_per_s).all():
                try:
                    self._take_up, tight = take_up.update(reading, now_s - last_s)
                except ContinuumRobotError as error:
                    self.get_logger().warning(str(error))
                    return
                last_s = now_s
            elif now_s - last_s > SETTLE_TIMEOUT_S:
                return
            time.sleep(TAKE_UP_PERIOD_S)

    def _wait_for_rest(self) -> None:
        """Wait until the tendons stand still under the safe tension, a second at most."""
        end_s, quiet_s = time.monotonic() + SETTLE_TIMEOUT_S, time.monotonic()
        while time.monotonic() < end_s:
            if not self._at_rest():
                quiet_s = time.monotonic()
            elif time.monotonic() - quiet_s > 0.05:
                return
            time.sleep(0.01)

    def _at_rest(self) -> bool:
        reading = self._reading
        return reading is not None and bool(np.all(np.abs(reading.velocity_m_per_s) < REST_M_PER_S))

    def _wait_for_ramp(self, safety: TendonSafety) -> None:
        limits = safety.limits
        end_s = time.monotonic() + limits.maximum_n / limits.safe_rate_n_per_s + 0.5
        while time.monotonic() < end_s:
            if safety.released:
                return
            time.sleep(2.0 / self.parameters.get("rate_hz"))
        self.get_logger().warning("the tensions did not reach the safe value in time; the torque goes off now")

    # Callbacks, in the executor's thread; those of the e-stop in a thread of its own

    def _on_command(self, data: bytes) -> None:
        trips = self._round_trip
        if not self._powered or trips is None or self._procedure is not None:
            return
        now_ns = time.monotonic_ns()
        layout = self._command_layout
        numbers = layout.numbers(data)
        if numbers:
            sequence, tension = numbers[layout.place["sequence"]], np.array(numbers[layout.place["tension"]])
        else:
            message: TendonCommands = layout.message(data)
            sequence, tension = message.sequence, conversions.vector(message.tension)
        self._writers.command(sequence)
        trip_ns = trips.received(sequence, now_ns)
        if trip_ns is None:
            if sequence:
                return  # it answers a state that this driver does not remember
            trip_ns = 0
        if tension.size != self._message_size:
            self._invalid_commands += 1
        self._command = (tension, (now_ns - trip_ns) * 1e-9, sequence)
        self._publish_decimated()

    def _on_estop(self, message: Bool) -> None:
        self._estop_input = bool(message.data)
        if message.data:
            self._estop("topic", held=True)
            return
        with self._estop_lock:
            if self._safety is not None:
                self._safety.release_estop()
            elif self._early_estop is not None:
                self._early_estop = (self._early_estop[0], False)

    def _serve_estop(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._estop("service")
        response.success, response.message = True, "e-stop latched: the tendons go to their safe tension"
        return response

    def _estop(self, reason: str, *, held: bool = False) -> None:
        with self._estop_lock:
            safety, loop = self._safety, self._loop
            if safety is None:
                self._early_estop = (reason, held)
                self._last_fault = ESTOP
            elif loop is None:
                safety.estop(reason, held=held)
        if safety is not None and loop is not None:
            try:
                loop.call(lambda: safety.estop(reason, held=held), timeout_s=0.2)
            except ContinuumRobotError as error:
                # The loop hangs in the device: the torque goes off past it.
                self.report_error("estop", error)
                if self._actuators is not None:
                    self._actuators.disable()
        self._publish_status()

    def _serve_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        safety, loop, actuators = self._safety, self._loop, self._actuators
        blocking: tuple[str, ...] = ()
        try:
            if safety is None:
                if self._estop_input:
                    blocking = (ESTOP,)
                else:
                    self._early_estop = None
            elif loop is None:
                blocking = safety.reset()
            else:

                def reset() -> tuple[str, ...]:
                    self._command = None
                    if actuators is not None:
                        actuators.clear_faults()
                    if not self._powered:
                        # Without torque tendons may hang slack; the next activation takes them up, and checks.
                        safety.torque_off()
                    return safety.reset()

                blocking = loop.call(reset)
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        if blocking:
            meanings = "; ".join("the estop topic still says true" if n == ESTOP else FAULTS[n] for n in blocking)
            response.message = f"refused, the inputs are not neutral: {meanings}"
            return response
        self._bus_problem = ""
        self._publish_status()
        response.success = True
        response.message = "faults cleared" + ("; deactivate and activate to go on" if self.state == "active" else "")
        return response

    def _serve_reset_statistics(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.reset_statistics()
        response.success = True
        return response

    def _serve_inject_fault(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        actuators, loop, fakes = self._actuators, self._loop, self._fakes
        if not self.simulated:
            response.message = "refused: faults are injected into simulated hardware only"
        elif actuators is None or loop is None:
            response.message = "refused: configure the driver first"
        else:
            try:
                wanted = (request.fault, request.tendon, request.magnitude, request.duration_s)
                if fakes is not None:
                    fakes.inject(*wanted)
                elif isinstance(actuators.inner, SimulatedTendonActuators):
                    device = actuators.inner
                    loop.call(lambda: device.inject(*wanted))
                response.success = True
                response.message = f"injected {request.fault}" if request.fault else "injected faults cleared"
            except ContinuumRobotError as error:
                response.message = f"refused: {error}"
        return response

    def _watch_graph(self) -> None:
        """Two writers fight over the tendons: neither is let through."""
        if self._loop is None:
            return
        if self._writers.two_writers(self.count_publishers("tendon_commands")):
            self._estop("two_writers")

    # Status

    def _publish_status(self) -> None:
        self._status.publish(self.diagnostics_status())

    def diagnostics_status(self) -> DiagnosticStatus:
        """The status that is latched on ``driver_status``."""
        builder = StatusBuilder(f"{self.full_name}: driver", self.diagnostics.hardware_id)
        self._diagnose_driver(builder)
        return builder.to_message()

    def _diagnose_driver(self, status: StatusBuilder) -> None:
        faults = self.faults
        reason = self._safety.estop_reason if self._safety is not None and self.estop_latched else ""
        if faults:
            status.summary(Level.ERROR, "safe state: " + ", ".join(faults) + (f" ({reason})" if reason else ""))
        status.summary(Level.OK, self.driver_state)
        status.add("state", self.driver_state)
        status.add("faults", list(faults))
        status.add("last_fault", self._last_fault)
        status.add("estop", self.estop_latched)
        status.add("estop_reason", reason)
        status.add("simulated", self.simulated)
        status.add("powered", self._powered)
        status.add("homed", not self._not_homed)
        if self._not_homed:
            status.summary(Level.WARN, self._not_homed)

    def _diagnose_loop(self, status: StatusBuilder) -> None:
        report = self.loop_report()
        if report is None or self._loop is None or not report.cycles:
            status.summary(Level.OK, "the loop does not run")
            return
        self._thresholds.diagnose(status, report, self._loop.period_s)

    def _diagnose_round_trip(self, status: StatusBuilder) -> None:
        report = self.round_trip_report()
        publishers = self.count_publishers("tendon_commands")
        if publishers > 1:
            status.summary(Level.WARN, f"{publishers} publishers on tendon_commands")
        drivers = self.count_publishers("tendon_states")
        if drivers > 1:
            status.summary(Level.WARN, f"{drivers} publishers on tendon_states")
        if report is None:
            status.summary(Level.OK, "not configured")
            return
        status.summary(Level.OK, f"p99 {report.p99_us:.0f} us" if report.commands else "no commands")
        status.add("states_published", report.states)
        status.add("commands_received", report.commands)
        status.add("commands_late", report.late)
        status.add("commands_unsequenced", report.unsequenced)
        status.add("commands_unknown", report.unknown)
        status.add("commands_invalid", self._invalid_commands)
        status.add("round_trip_p50_us", report.p50_us)
        status.add("round_trip_p99_us", report.p99_us)
        status.add("round_trip_mean_us", report.mean_us)
        status.add("round_trip_max_us", report.maximum_us)

    def _diagnose_bus(self, status: StatusBuilder) -> None:
        reading = self._reading
        if self._bus_problem:
            status.summary(Level.ERROR, self._bus_problem)
        if reading is None:
            status.summary(Level.OK, "not configured")
            return
        if reading.device_faults:
            status.summary(Level.ERROR, "devices report " + ", ".join(reading.device_faults))
        hottest = float(np.max(reading.temperature_c))
        if hottest >= self.parameters.get("temperature_error_c"):
            status.summary(Level.ERROR, f"a motor is at {hottest:.0f} degC")
        elif hottest >= self.parameters.get("temperature_warn_c"):
            status.summary(Level.WARN, f"a motor is at {hottest:.0f} degC")
        status.summary(Level.OK, "ok")
        status.add("age_s", reading.age_s)
        status.add("tension_n", reading.tension_n)
        status.add("current_a", reading.current_a)
        status.add("temperature_c", reading.temperature_c)
        status.add("device_faults", list(reading.device_faults))
        inner = None if self._actuators is None else self._actuators.inner
        if isinstance(inner, CountsFromPowerOn):
            for channel, counters in inner.counters().items():
                for name, value in counters.items():
                    status.add(f"{channel}.{name}", value)

    # Helpers

    def _on_foreign_states(self, _data: bytes) -> None:
        """Before this driver publishes, states are another driver's. A dead driver would still be listed a while."""
        if self._loop is None and time.monotonic() - self._closed_s > FOREIGN_STATES_S:
            self._foreign_s = time.monotonic()

    def _ready(self) -> tuple[PeriodicThread, TendonSafety, ZeroedActuators]:
        if self._loop is None or self._safety is None or self._actuators is None:
            raise DeviceError("tendon_driver", "is not configured", "Configure it first")
        return self._loop, self._safety, self._actuators

    def _trips(self) -> RoundTripStatistics:
        if self._round_trip is None:
            raise DeviceError("tendon_driver", "is not configured", "Configure it first")
        return self._round_trip

    def _make_actuators(self, robot: Robot) -> TendonActuators:
        get = self.parameters.get
        if not self.simulated:
            return backends.tendon_actuators(robot, str(get("can_interface")))
        contacts = load_contacts(get("contacts"), robot) if get("contacts") else ()
        link = PlantLink.writer(self.get_namespace(), linked_count(robot), robot=robot.name)
        if get("fake_level") == "wire":
            self._fakes = SimulatedHardware(robot, contacts=contacts, link=link, progress=self._tell)
            self._fakes.open()
            return self._fakes.tendon_actuators()
        return SimulatedTendonActuators(
            robot,
            contacts=contacts,
            level=get("fake_level"),
            link=link,
            # The board lets go on its own, but after the driver had its chance to ramp down.
            receive_timeout_s=1.5 * self._limits.value.command_timeout_s,
            progress=self._tell,
        )

    def _tell(self, text: str) -> None:
        self.get_logger().info(text)

    def _plant_of(self, actuators: ZeroedActuators) -> Plant:
        """The plant behind simulated actuators."""
        if self._fakes is not None:
            return self._fakes.plant
        if isinstance(actuators.inner, SimulatedTendonActuators):
            return actuators.inner.plant
        raise ParameterError(
            "contacts", self.parameters.get("contacts"), "none on hardware, which touches what it does"
        )

    # Homing and procedures

    @property
    def configured_robot(self) -> Robot:
        """The robot as configured. Raises :class:`DeviceError` where it is not."""
        self._ready()
        if self._robot is None:
            raise DeviceError("tendon_driver", "is not configured", "Configure it first")
        return self._robot

    @property
    def calibration_folder(self) -> Path:
        """Where homings of this robot are kept."""
        given = str(self.parameters.get("calibration_folder"))
        folder = Path(given).expanduser() if given else calibration_folder()
        return simulated_folder(folder) if self.simulated else folder

    @property
    def newest_reading(self) -> TendonReading | None:
        """The newest reading, None before the first."""
        return self._reading

    @property
    def homing_required(self) -> bool:
        """Whether a stored homing is needed to be activated."""
        policy = self.parameters.get("homing")
        return policy == "required" or (policy == "auto" and not self.simulated)

    def _read_homing(self, robot: Robot, actuators: ZeroedActuators) -> None:
        """Take the stored homing over, or note why there is none. Before the loop runs."""
        self._not_homed = ""
        if self._safety is not None:
            self._safety.positions_known = not self.homing_required
        if not self.homing_required:
            return
        try:
            record = load_record(robot, record_path(robot, self.calibration_folder))
            self._require_power(actuators)
        except ContinuumRobotError as error:
            self._not_homed = str(error)
            self.get_logger().warning(self._not_homed)
            return
        self._use_homing(record)

    def take_homing(self, record: HomingRecord) -> None:
        """Count displacements from a homing from now on. Raises :class:`DeviceError` while not configured."""
        loop, _, _ = self._ready()
        loop.call(lambda: self._use_homing(record))
        self._publish_status()

    def _use_homing(self, record: HomingRecord) -> None:
        if self._actuators is not None and self._safety is not None:
            self._actuators.zero_m = record.zero
            self._safety.positions_known = True
            self._not_homed = ""
            self.get_logger().info(f"homed on {record.date} at {record.tension_n:g} N")

    def _require_power(self, actuators: ZeroedActuators) -> None:
        """A board that was switched off since forgot its alignment, and where it stood."""
        inner = actuators.inner
        if not isinstance(inner, CountsFromPowerOn):
            return
        expected = self.homing_required or self._was_aligned
        if inner.zero_lost.any() or (expected and not inner.aligned):
            raise DeviceError("motor boards", "one lost its power, or its position, since the homing", HOME_FIRST)

    def _require_homing(self, actuators: ZeroedActuators) -> None:
        if self._not_homed:
            raise DeviceError("tendon_driver", self._not_homed.removesuffix(f" {HOME_FIRST}").rstrip("."), HOME_FIRST)
        self._require_power(actuators)

    @staticmethod
    def _switch_on(loop: PeriodicThread, safety: TendonSafety, actuators: ZeroedActuators) -> None:
        """Enable the devices, unless an e-stop comes meanwhile.

        What they latched while the torque was off, e.g. in a stall of this computer, is forgotten; what is wrong comes
        back.
        """
        loop.call(actuators.clear_faults)
        actuators.enable(lambda: bool(safety.faults))

    def _refuse_procedure(self) -> None:
        if self._procedure is not None:
            raise DeviceError("tendon_driver", "a procedure is under way", "Wait for it, or cancel it")

    def begin_procedure(self, procedure: Procedure) -> ProcedureRun:
        """Switch the torque on and let a procedure drive the tendons; not in the executor's thread.

        Raises
        ------
        DeviceError : the driver is not inactive, a fault is latched, or a device cannot be enabled
        """
        loop, safety, actuators = self._ready()
        if self.state != "inactive":
            raise DeviceError("tendon_driver", f"is {self.state}", "Procedures need it inactive: deactivate it first")
        self._refuse_procedure()
        safety.refuse_faults()
        run = ProcedureRun(procedure, safety)
        self._procedure_zero = actuators.zero_m

        def begin() -> None:
            actuators.zero_m = np.zeros(actuators.tendon_count)
            now_s = time.monotonic()
            run.begin(actuators.read(now_s), now_s)
            self._powered, self._command, self._procedure = True, None, run

        self._enabled = True
        try:
            self._switch_on(loop, safety, actuators)
            loop.call(begin)
        except BaseException:
            loop.call(self._power_off)
            actuators.zero_m = self._procedure_zero
            raise
        self._publish_status()
        return run

    def finish_procedure(self, run: ProcedureRun, cancelled: threading.Event) -> None:
        """Wait until a procedure has ended and let go of the tendons; not in the executor's thread.

        Parameters
        ----------
        cancelled : set by who cancels it
        """
        loop, safety, actuators = self._ready()
        end_s, asked = time.monotonic() + PROCEDURE_TIMEOUT_S, False
        try:
            while not run.finished and loop.running and self._procedure is run:
                if (cancelled.is_set() or time.monotonic() > end_s) and not asked:
                    asked = True
                    loop.call(run.cancel)
                time.sleep(0.01)
        finally:
            if self._procedure is run:
                if loop.running:
                    loop.call(self._power_off)
                else:
                    self._power_off()
                self._procedure = None
            run.restore()
            actuators.zero_m = self._procedure_zero
            # What was read until now counts from another zero: no jump.
            safety.torque_off()
            if not run.succeeded and not run.problem:
                run.problem = "the driver's loop ended"
            self._publish_status()

    def _end_procedure(self) -> None:
        """The node is brought down meanwhile: ramp to the safe tension and let go."""
        run, loop, safety = self._procedure, self._loop, self._safety
        if run is None or loop is None or safety is None:
            return
        if loop.running:
            loop.call(safety.deactivate)
            self._wait_for_ramp(safety)
        self._procedure = None

    def _prepare_messages(self, count: int) -> None:
        self._layout, self._command_layout = states_layout(count), commands_layout(count)
        self._numbers, self._message_size = self._layout.editable(), count
        self._numbers[self._layout.place["simulated"]] = self.simulated

    def _realtime(self) -> RealtimeSettings:
        get = self.parameters.get
        cpus = tuple(int(cpu) for cpu in get("rt.cpu_affinity") if cpu >= 0)
        return RealtimeSettings(int(get("rt.priority")), cpus, bool(get("rt.lock_memory")))


def _temperatures_in_order(values: Any) -> None:
    warn, error = values.get("temperature_warn_c", 0.0), values.get("temperature_error_c", math.inf)
    if warn > error:
        raise ParameterError("temperature_warn_c", warn, f"at most temperature_error_c = {error:g} degC")


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TendonDriver, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
