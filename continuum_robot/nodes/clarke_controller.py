# SPDX-License-Identifier: Apache-2.0
"""The node that closes the loop: in the driver's cycle, or over topics, where every state is answered at once."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from std_msgs.msg import Float64, String

from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.tracked_tip import TRACKED_WEIGHT
from continuum_robot.models.making import robot_model
from continuum_robot.msg import ClarkeState, DriverStatus, PidState, Shape, TendonCommands, TendonStates, TipState
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.driver.slot import ControllerSlot
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import commands_layout, states_layout
from continuum_robot.nodes.topics.owned_topic import Owner, of_stream, subscribe_to_owner, subscribe_to_stream
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.foreign_controller import ForeignController, controller_of
from continuum_robot.runtime.cycle.forms import Form, interpreted_form
from continuum_robot.runtime.cycle.policy_controller import PolicyController
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.runtime.timing import Histogram

Vector = NDArray[np.float64]

_OF_FILE = ("note", "law", "modes", "policy")
# Of the settings: what has no effect on robots that take the other kind of commands.
_OF_TENSIONS = ("gains", "feedforward_stiffness", "feedforward_gravity", "feedforward_friction", "inverse_dynamics")
_OF_DISPLACEMENTS = ("integral_per_s", "pretension_by")
_LONGEST_PERIOD_S = 0.1
_LARGEST_CLOCK_ERROR_S = 0.1
_PERIOD_WEIGHT = 0.05
_FOLLOWED = (TipState.PLANNING, TipState.MOVING, TipState.REACHED)
PRETENSION_PERIOD_S = 0.02
REFERENCE_SILENCE_S = 0.5
"""After so long without a reference, another program's are taken where no reference source says whose turn it is."""


class ClarkeControllerNode(ManagedNode):
    """The robot file's law on the Clarke coordinates: no timer, no thread, the driver's cycle is the clock.

    With a slot the controller acts in the driver's cycle, and this node publishes what it wants; without one it answers
    ``tendon_states`` with ``tendon_commands``.

    What is answered, and when the controller restarts, is decided by :class:`ControllerCycle`. A state that is old or
    not finite gets no answer, so the driver's command timeout acts where no other state follows.
    """

    follows_payload = True

    def __init__(self, *, slot: ControllerSlot | None = None, **node_options: Any) -> None:
        super().__init__("clarke_controller", **node_options)
        self._slot = slot
        declare = self.parameters.declare
        hertz = Quantity("", "Hz", ge=1, le=4000)
        declare("clarke_state.rate_hz", 100.0, "how often clarke_state is published", rules=hertz, read_only=True)
        declare("publish_pid_state", False, "publish the terms of the controller on pid_state, every cycle")
        declare(
            "reference.blend_s",
            1.0,
            "time to blend into a reference that starts elsewhere than the robot stands",
            rules=Quantity("", "s", ge=0, le=60),
            read_only=True,
        )
        declare(
            "reference.largest_jump",
            0.2,
            "part of limits.maximum_displacement_m by which a reference may jump: one that jumps further is blended in",
            rules=Quantity("", "", gt=0, le=10),
            read_only=True,
        )
        self.parameters.on_change(self._on_parameters)
        self._settings: Settings | None = None
        self._robot: Robot | None = None
        self._controller: ControllerCycle | None = None
        self._reference: ReferenceInput | None = None
        self._publish_pid = bool(self.parameters.get("publish_pid_state"))
        self._active = False
        self._driver_active = False
        self._simulated = False
        self._limited = False
        self._stamp_ns = 0
        self._sequence = 0
        self._period_s = 0.001
        self._period_known = False
        self._thinning = Thinning()
        self._execution = Histogram()
        self._problem = ""
        self._jumps = 0
        # Of the cycle before: force, or displacements; where most was missing since the last diagnosis: how much, what
        # was desired and reached.
        self._desired: list[float] | None = None
        self._reached: Vector = np.zeros((0, 0))
        self._displacements = False
        self._rod: Rod | None = None
        self._policy: PolicyController | None = None
        self._sees_tip, self._failure = False, ""
        self._missing: tuple[float, list[float], list[float]] = (0.0, [], [])

        flow = self.flow
        self._commands = flow.create_publisher(TendonCommands, "tendon_commands", qos.command_publisher())
        self._clarke = flow.create_publisher(ClarkeState, "clarke_state", qos.state_publisher())
        self._pid = flow.create_publisher(PidState, "pid_state", qos.state_publisher())
        if slot is None:
            subscribe_to_stream(self, TendonStates, "tendon_states", self._on_states, raw=True)
            subscribe_to_owner(self, DriverStatus, "driver_status", self._on_driver_status)
        on_reference, owned = self.guarded(self._on_reference), qos.owned_reference()
        # Over topics it is the states that make it this node's turn.
        over_topics = slot is None
        flow.create_subscription(ClarkeState, "clarke_reference", on_reference, owned, lazy=over_topics, with_gid=True)
        # The node to which the reference source gave the turn writes; without a reference source, the first that does.
        self._desired_pretension: float | None = None
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._pretension_timer = self.create_timer(PRETENSION_PERIOD_S, self._hand_pretension_on, clock=steady)
        self._pretension_timer.cancel()
        take = of_stream(self, "tension_reference", self._on_tension_reference)
        self.subscribe_with_publisher(Float64, "tension_reference", take, qos.switch_subscription())
        remedy = "have it take the turn (service reference_source/take)"
        self._references = Owner(self, "clarke_reference", REFERENCE_SILENCE_S, remedy)
        self._gravity = TurnedGravity(self, self._turn)
        subscribe_to_owner(self, String, "reference_writer", self._on_reference_writer)
        self.diagnostics.add_task("controller", self._diagnose)

    # Lifecycle

    def configure(self) -> None:
        """Make the controller of the robot's file, with the parameters' values over it."""
        robot = self.load_robot()
        if robot.control is None:
            raise ParameterError("robot", robot.name, "a robot file with a control section")
        self._robot = robot
        if robot.actuators is not None:
            self._period_s = 1 / robot.actuators.cycle_hz
        self._settings = self.parameters.declare_settings(
            "",
            robot.control,
            item_names={"gains": list(robot.part_names)},
            check=self._check_settings,
            take=self._take_settings,
            leave_out=(*_OF_FILE, *(_OF_TENSIONS if robot.takes_displacements else _OF_DISPLACEMENTS)),
        )
        self._see_shape(robot)
        self._see_tip(robot)
        self._gravity.follow(robot)
        self._thinning.period_ns = round(1e9 / self.parameters.get("clarke_state.rate_hz"))
        self._reading = ReadingBuffer(robot.tendon_count)
        self._prepare_messages(robot)
        self._period_known = False
        if self._slot is None:
            self._controller = self._build(interpreted_form("over topics"))
        else:
            self._row = CycleRow(robot.tendon_count, robot.coordinate_count)
            self._slot.watch_closely(on=self._publish_pid)
            self._slot.offer(self._build, self.guarded(self._on_row))

    def carry(self, payload_kg: float) -> None:
        """Let the model go to another payload, kg, within a second, so that no tension jumps."""
        robot = self._configured().carrying(payload_kg)
        if self._slot is not None:
            self._slot.call(lambda cycle: cycle.ask_payload(payload_kg))
        elif self._controller is not None:
            self._controller.ask_payload(payload_kg)
        self._robot = robot

    def _turn(self, gravity: Vector) -> None:
        if self._controller is not None:
            self._controller.set_gravity(gravity.tolist())

    def _see_shape(self, robot: Robot) -> None:
        """Hear of the shape where an integral may correct its error, or the tip's."""
        sees = robot.takes_displacements and (robot.sees_shape or robot.sees_tip)
        if sees and self._rod is None:
            take = of_stream(self, "shape", self._on_shape)
            lazy = self._slot is None
            self.flow.create_subscription(Shape, "shape", take, qos.newest_state(), lazy=lazy, with_gid=True)
        self._rod = Rod(robot) if sees else None

    def _see_tip(self, robot: Robot) -> None:
        """Take the tip's target and its estimated place if a policy observes them."""
        if robot.control is not None and robot.control.policy is not None and not self._sees_tip:
            self._sees_tip = True
            subscribe_to_stream(self, TipState, "tip_state", self._on_tip_state)

    def _configured(self) -> Robot:
        if self._robot is None:
            raise ParameterError("clarke_controller", self.state, "a configured node")
        return self._robot

    def _build(self, form: Form) -> ControllerCycle:
        """The controller in a form of the cycle."""
        robot, settings = self._configured(), self._settings
        assert settings is not None
        parts = form.parts
        controller = controller_of(
            robot,
            parts,
            robot_model(robot).feedforward,
            settings=self.own_settings,
            real_time=not self.clock.stepped,
        )
        controller.set_settings(settings.value)
        self._policy = controller if isinstance(controller, PolicyController) else None
        law = controller if self._policy is None else self._policy.law
        if isinstance(law, ForeignController):
            law.on_defect = self.on_defect
        largest_m = math.inf
        if robot.limits is not None:
            largest_m = self.parameters.get("reference.largest_jump")
            largest_m *= robot.limits.smallest("maximum_displacement_m", robot.tendon_count)
        blend_s = self.parameters.get("reference.blend_s")
        reference = parts.ReferenceInput(robot.coordinate_count, blend_s, largest_m)
        self._jumps = 0
        cycle: ControllerCycle = parts.ControllerCycle(
            controller, reference, settings.value.state_timeout_s, self._period_s
        )
        self._reference, self._controller = reference, cycle
        return cycle

    def activate(self) -> None:
        """Answer from the next state on, starting at the measured position with the tensions as they are."""
        if self.defect:
            raise DeviceError("clarke_controller", f"has a defect: {self.defect}", "Clean up and configure it")
        self._execution.reset()
        self._references.forget_named()
        if self._slot is not None:
            self._slot.call(lambda cycle: cycle.reset())
            self._slot.act(on=True)
        elif self._controller is not None:
            self._controller.reset()
        self._active = True

    def deactivate(self) -> None:
        """Fall silent; the driver's command timeout, or its own deactivation, releases the tendons."""
        self._active = False
        if self._slot is not None:
            self._slot.act(on=False)

    def cleanup(self) -> None:
        """Forget the controller."""
        self._active = False
        if self._slot is not None:
            self._slot.withdraw()
        self._controller = self._policy = None

    def on_defect(self, error: BaseException) -> None:
        """Fall silent for good: the driver finds that no command comes, and its fallback holds."""
        self._active = False
        if self._slot is not None:
            self._slot.give_back()
        super().on_defect(error)

    # Callbacks

    def _on_states(self, data: bytes) -> None:
        cycle = self._controller
        if cycle is None:
            return
        start_ns, before_ns = time.monotonic_ns(), self._stamp_ns
        if not self._read(data):
            return
        # NaN: the driver's torque is off.
        following = self._active and self._driver_active and math.isfinite(self._commanded[0])
        now_s, now_ns = self.clock.monotonic_s(), self.clock.now_ns()
        # A reading that comes again, as of servos slower than the cycle, keeps its time to the last digit: no time has
        # passed, and the controller answers as before. A stamp in the future, of a clock that is ahead, is now.
        if self._stamp_ns != before_ns:
            self._reading.stamp_s = now_s - max(now_ns - self._stamp_ns, 0) * 1e-9
        desired, self._desired = self._desired, None
        cycle.limited = following and self._limited
        if cycle.answer(self._reading, self._commanded, following, now_s, self._sequence):
            self._publish_command(cycle.command)
            self._desired = list(cycle.command if self._displacements else cycle.generalized_force)
        if self._thinning.due(self._stamp_ns):
            self._compare(desired, self._commanded)
            self._publish_coordinates(cycle.clarke, cycle.clarke_rate, cycle.generalized_force)
        self._execution.add(time.monotonic_ns() - start_ns)

    def _on_row(self, numbers: list[float]) -> None:
        """A cycle of the driver in this process ended: say on topics what the controller in it did."""
        row = self._row
        self._sequence = int(numbers[row.number])
        self._stamp_ns = self.clock.stamp_ns(numbers[row.stamp_s])
        if any(numbers[row.limited]):
            self._compare(self._desired, numbers[row.commanded])
        self._desired = None
        if numbers[row.answered]:
            self._desired = numbers[row.desired if self._displacements else row.force]
            if self._publish_pid or self._commands.get_subscription_count():
                self._publish_command(numbers[row.desired])
        if self._thinning.due(self._stamp_ns):
            self._simulated = self.simulated
            self._publish_coordinates(numbers[row.clarke], numbers[row.clarke_rate], numbers[row.force])

    def _compare(self, desired: list[float] | None, commanded: Sequence[float]) -> None:
        """What the limits left of what was desired in the cycle before; ``commanded`` went out then."""
        if desired is None or not math.isfinite(commanded[0]):
            return
        reached = self._reached @ commanded
        missing = float(np.abs(desired - reached).max())
        if missing > self._missing[0]:
            self._missing = missing, list(desired), reached.tolist()

    def _read(self, data: bytes) -> bool:
        """Take over a message; False where it is of another robot."""
        numbers, place, reading = self._states_layout.numbers(data), self._states_layout.place, self._reading
        if numbers:
            stamp_ns = numbers[place["sec"]] * conversions.NS_PER_S + numbers[place["nanosec"]]
            sequence, self._simulated = numbers[place["sequence"]], numbers[place["simulated"]]
            names = ("displacement", "velocity", "tension", "age", self._commanded_field, "limited")
            displacement, velocity, tension, age, self._commanded, limited = (numbers[place[name]] for name in names)
        else:
            message: TendonStates = self._states_layout.message(data)
            displacement, velocity, tension = message.displacement, message.velocity, message.tension
            age, self._commanded, limited = message.age, conversions.commanded(message), message.limited
            counts = {len(field) for field in (displacement, velocity, tension, age, self._commanded)}
            if counts != {self._tendon_count}:
                self._complain(f"tendon_states has {len(displacement)} tendons, the robot file {self._tendon_count}")
                return False
            stamp_ns, sequence = conversions.stamp_ns(message.header.stamp), message.sequence
            self._simulated = message.simulated
        reading.displacement_m[:], reading.velocity_m_per_s[:] = displacement, velocity
        reading.tension_n[:], reading.age_s[:] = tension, age
        self._limited = any(limited)
        self._expect_period((stamp_ns - self._stamp_ns) * 1e-9, sequence - self._sequence)
        self._stamp_ns, self._sequence = stamp_ns, sequence
        return True

    def _expect_period(self, passed_s: float, steps: int) -> None:
        """Follow the rate of the driver, which is set in another node."""
        if self._controller is None or steps < 1 or not 0 < passed_s / steps < _LONGEST_PERIOD_S:
            return
        period_s = passed_s / steps
        weight = _PERIOD_WEIGHT if self._period_known else 1.0
        self._period_s += weight * (period_s - self._period_s)
        self._period_known = True
        self._controller.set_period(self._period_s)

    def _publish_command(self, values: Sequence[float]) -> None:
        if self._commands.get_subscription_count():
            command, place = self._command, self._command_layout.place
            command[place["sequence"]] = self._sequence
            command[place[self._command_field]] = values
            command[place["sec"]], command[place["nanosec"]] = divmod(self.clock.now_ns(), conversions.NS_PER_S)
            self._commands.publish(self._command_layout.to_bytes(command))
        if self._publish_pid and self._controller is not None:
            self._publish_pid_state(self._controller)

    def _on_reference_writer(self, message: String) -> None:
        self._references.give(message.data, self.clock.monotonic_s(), for_good=True)

    def _on_reference(self, message: ClarkeState, gid: bytes) -> None:
        reference = self._reference
        if reference is None or not self._references.admits(gid, self.clock.monotonic_s(), message.writer):
            return
        position = conversions.vector(message.position)
        velocity = conversions.vector(message.velocity) if message.velocity else np.zeros_like(position)
        acceleration = conversions.vector(message.acceleration) if message.acceleration else np.zeros_like(position)
        now_s, now_ns = self.clock.monotonic_s(), self.clock.now_ns()
        age_s = (now_ns - conversions.stamp_ns(message.header.stamp)) * 1e-9
        # Without a stamp, or from a machine with another clock, the time of arrival is the best there is.
        stamp_s = now_s - age_s if abs(age_s) < _LARGEST_CLOCK_ERROR_S else now_s
        if not reference.receive(ClarkeReference(position, velocity, acceleration), stamp_s):
            self._complain(f"clarke_reference with {position.size} values, or one that is not finite, was refused")

    def _on_shape(self, message: Shape) -> None:
        rod, cycle = self._rod, self._controller
        coefficients = conversions.vector(message.coefficients)
        if rod is None or cycle is None or coefficients.size != rod.n:
            return
        age_s = (self.clock.now_ns() - conversions.stamp_ns(message.header.stamp)) * 1e-9
        unseen = message.problem or not np.isfinite(coefficients).all()
        clarke = tip = None
        if self._configured().sees_shape:
            seen = np.full(self._tendon_count, np.nan) if unseen else rod.displacement(coefficients)
            clarke = self._clarke_matrix @ seen
        elif (TRACKED_WEIGHT, 1.0) in zip(message.value_names, message.values, strict=False):
            tip = conversions.position(message.tip.position)
        cycle.see(clarke=clarke, tip=tip, stamp_s=self.clock.monotonic_s() - age_s)

    def _on_tip_state(self, message: TipState) -> None:
        policy, now_s = self._policy, self.clock.monotonic_s()
        if policy is not None and message.state != TipState.REFUSED:  # which is of another target
            target = conversions.position(message.target) if message.state in _FOLLOWED else np.full(3, np.nan)
            policy.hear("tip_target", target, now_s)
            policy.hear("tip_pose.position", conversions.position(message.tip), now_s)

    def _on_driver_status(self, message: DriverStatus) -> None:
        # A driver that is not configured sends no states. Where states come, such a status is that of another one,
        # which was started by mistake and will be refused.
        if message.state != DriverStatus.UNCONFIGURED:
            # Where the driver holds the tensions itself, answers would only wind up the integral. A recorded driver had
            # its controller in the cycle: a replay answers its states.
            holds = message.controller == DriverStatus.CONTROLLER_HOLD_TENSION
            self._driver_active = message.state == DriverStatus.ACTIVE and not holds

    def _on_parameters(self, names: set[str]) -> None:
        if "publish_pid_state" in names:
            on = bool(self.parameters.get("publish_pid_state"))
            self._publish_pid = self._publish_pid and on
            if self._slot is not None:
                self._slot.watch_closely(on=on)
            self._publish_pid = on  # once each cycle waits for it: else its numbers would be of several

    def _take_settings(self, settings: ControlSettings, names: set[str]) -> None:
        if names == {"pretension_n"}:
            self._ask_pretension(settings.pretension_n)
        elif self._slot is not None:
            self._slot.call(lambda cycle: cycle.set_settings(settings))
        elif self._controller is not None:
            self._controller.set_settings(settings)

    def _on_tension_reference(self, message: Float64) -> None:
        settings = self._settings
        if settings is None:
            return
        try:
            self._check_settings(dataclasses.replace(settings.value, pretension_n=message.data))
        except ContinuumRobotError as error:
            self._complain(f"tension_reference was refused: {error}")
            return
        self._desired_pretension = message.data
        if self.clock.stepped or self._pretension_timer.is_canceled():
            self._hand_pretension_on()

    def _hand_pretension_on(self) -> None:
        """The newest that was asked for: the cycle waits each time, however often a program publishes."""
        desired, self._desired_pretension = self._desired_pretension, None
        if desired is None:
            self._pretension_timer.cancel()
            return
        self._pretension_timer.reset()
        try:
            self._ask_pretension(desired)
        except ContinuumRobotError as error:
            self._complain(f"tension_reference was refused: {error}")

    def _ask_pretension(self, pretension_n: float) -> None:
        """Let the pretension go there at its rate, in the null space of the tensions."""
        if self._slot is not None:
            self._slot.call(lambda cycle: cycle.ask_pretension(pretension_n))
        elif self._controller is not None:
            self._controller.ask_pretension(pretension_n)

    # Helpers

    def _check_settings(self, settings: ControlSettings) -> None:
        robot = self._robot
        if robot is None or robot.limits is None:
            return
        least_n = robot.limits.largest("least_n", robot.tendon_count)
        most_n = robot.limits.smallest("maximum_n", robot.tendon_count)
        if not least_n <= settings.pretension_n <= most_n:
            expected = f"a tension within the robot's limits, [{least_n:g}, {most_n:g}] N"
            raise ParameterError("pretension_n", settings.pretension_n, expected)

    def _prepare_messages(self, robot: Robot) -> None:
        self._tendon_count = robot.tendon_count
        coordinates = robot.coordinate_count
        self._displacements = displacements = robot.takes_displacements
        self._command_field = conversions.command_field(displacements=displacements)
        self._commanded_field = conversions.commanded_field(displacements=displacements)
        self._states_layout = states_layout(robot.tendon_count, displacements=displacements)
        self._command_layout = commands_layout(robot.tendon_count, displacements=displacements, writer=self.get_name())
        self._command = self._command_layout.editable()
        self._state_message = ClarkeState(simulated=self.simulated)
        self._position = conversions.preallocate(self._state_message, "position", coordinates)
        self._velocity = conversions.preallocate(self._state_message, "velocity", coordinates)
        self._force = conversions.preallocate(self._state_message, "generalized_force", coordinates)
        manifold = controlled_manifold(robot)
        self._clarke_matrix = np.array(manifold.clarke_matrix)
        self._reached = np.eye(robot.tendon_count)
        if not displacements:
            self._reached = np.ascontiguousarray(manifold.displacement_matrix.T)
        # Never measured, and NaN rather than empty: readers of recordings stumble over empty arrays.
        conversions.preallocate(self._state_message, "acceleration", coordinates)

    def _publish_coordinates(self, clarke: Sequence[float], rate: Sequence[float], force: Sequence[float]) -> None:
        message = self._state_message
        conversions.set_stamp(message.header.stamp, self._stamp_ns)
        message.sequence = self._sequence
        message.simulated = self._simulated
        self._position[:], self._velocity[:], self._force[:] = clarke, rate, force
        self._clarke.publish(message)

    def _publish_pid_state(self, cycle: ControllerCycle) -> None:
        output, array = cycle.output(), conversions.float_array
        terms = output.terms
        message = PidState(sequence=self._sequence)
        conversions.set_stamp(message.header.stamp, self._stamp_ns)
        message.reference = array(output.clarke + terms.error)
        message.measurement = array(output.clarke)
        message.error = array(terms.error)
        message.p_term, message.i_term, message.d_term = array(terms.p_term), array(terms.i_term), array(terms.d_term)
        message.feedforward, message.output = array(terms.feedforward), array(terms.output)
        message.saturated = [bool(flag) for flag in terms.saturated]
        self._pid.publish(message)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.get_logger().error(problem)

    def _log_failure(self) -> None:
        """Log once that the policy has failed."""
        failure = "" if self._policy is None else self._policy.failure
        if failure != self._failure and self._policy is not None:
            self._failure = failure
            if failure:
                self.get_logger().error(self._policy.problem)

    def _diagnose_jumps(self, status: StatusBuilder) -> int:
        """Report references that jumped since the last time; how many there were altogether."""
        jumps = 0 if self._reference is None else self._reference.jumps
        if jumps > self._jumps:
            sentence = f"clarke_reference jumped {jumps - self._jumps} times and was blended in: it should not jump"
            self.get_logger().warning(sentence)
            status.summary(Level.WARN, sentence)
        self._jumps = jumps
        return jumps

    def _diagnose(self, status: StatusBuilder) -> None:
        if self._problem:
            status.summary(Level.WARN, self._problem)
        cycle = self._controller
        counters = ("received", "answered", "stale", "not_finite", "lost", "restarts")
        received, answered, stale, not_finite, lost, restarts = (
            0 if cycle is None else getattr(cycle, name) for name in counters
        )
        if self._references.named:
            status.summary(Level.WARN, f"{self._references.named} writes clarke_reference without the turn: refused")
        jumps = self._diagnose_jumps(status)
        if self._active and cycle is not None and cycle.problem:
            status.summary(Level.WARN, cycle.problem)
        self._log_failure()
        if self._active and (self._driver_active or self._slot is not None):
            if stale or not_finite:
                status.summary(Level.WARN, f"{stale} states too old, {not_finite} not finite: no answer")
            status.summary(Level.OK, "in closed loop")
        if self._policy is not None:
            status.add("policy", "failed" if self._policy.failure else "acts" if self._policy.acts else "waits")
        status.summary(Level.OK, "waiting for the driver" if self._active else self.state)
        (missing, desired, reached), self._missing = self._missing, (0.0, [], [])
        what, unit = ("displacement", "m") if self._displacements else ("force", "n")
        for key, value in (
            ("pretension_n", math.nan if cycle is None else cycle.pretension),
            ("states_received", received),
            ("commands_sent", answered),
            ("states_stale", stale),
            ("states_not_finite", not_finite),
            ("states_lost", lost),
            ("bumpless_starts", restarts),
            ("references_refused", self._reference.refused if self._reference is not None else 0),
            ("references_jumped", jumps),
            ("reference_writer", self._references.writer),
            ("references_of_others", self._references.refused),
            ("refused_writer", self._references.named),
            ("execution_mean_us", self._execution.mean_us),
            ("execution_p99_us", self._execution.quantile_us(0.99)),
            ("execution_max_us", self._execution.maximum_us),
            (f"{what}_missing_{unit}", missing),
            (f"{what}_desired_{unit}", _listed(desired)),
            (f"{what}_reached_{unit}", _listed(reached)),
        ):
            status.add(key, value)

    def check(self) -> None:
        """Refuse a robot file without control settings."""
        if self.load_robot().control is None:
            raise ParameterError("robot", self.parameters.get("robot"), "a robot file with a control section")


def _listed(force: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in force)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ClarkeControllerNode, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
