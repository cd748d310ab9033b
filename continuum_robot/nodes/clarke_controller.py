# SPDX-License-Identifier: Apache-2.0
"""The node that closes the loop: every ``tendon_states`` is answered at once with ``tendon_commands``."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController, ClarkeOutput
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.parts import make_feedforward
from continuum_robot.msg import ClarkeState, PidState, TendonCommands, TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import Level, StatusBuilder, values_of
from continuum_robot.nodes.flat_messages import commands_layout, states_layout
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.parameters import Settings
from continuum_robot.nodes.reference_input import ReferenceInput
from continuum_robot.nodes.spinning import run_node
from continuum_robot.runtime.timing import Histogram
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.rod.feedforward import clarke_feedforward

Vector = NDArray[np.float64]

_LONGEST_STEP_S = 0.1
_LARGEST_GAP = 20
_NOMINAL_STEP_S = 0.001


class _States(NamedTuple):
    """What the controller reads of TendonStates; one number a tendon where it is not one for all."""

    stamp_ns: int
    sequence: int
    simulated: bool
    displacement: Vector
    velocity: Vector
    tension: tuple[float, ...]
    age_s: tuple[float, ...]
    commanded_tension: tuple[float, ...]


class ClarkeControllerNode(ManagedNode):
    """PID on the Clarke coordinates, event-driven: no timer, no thread, the driver's cycle is the clock.

    A state that is old or not finite gets no answer, so the driver's command timeout acts. Whenever the driver does not
    follow (not active, after a gap in its sequence), the controller starts anew without a jump.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("clarke_controller", **node_options)
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
        self.parameters.on_change(self._on_parameters)
        self._settings: Settings | None = None
        self._robot: Robot | None = None
        self._controller: ClarkeController | None = None
        self._reference: ReferenceInput | None = None
        self._pending: ControlSettings | None = None
        self._publish_pid = bool(self.parameters.get("publish_pid_state"))
        self._active = False
        self._driver_active = False
        self._aligned = False
        self._last_sequence = 0
        self._last_stamp_ns = 0
        self._last_step_s = _NOMINAL_STEP_S
        self._next_state_ns = 0
        self._state_period_ns = 0
        self._timeout_s = math.inf
        self._received = self._answered = self._stale = self._not_finite = self._lost = self._restarts = 0
        self._execution = Histogram()
        self._problem = ""

        self._commands = self.create_publisher(TendonCommands, "tendon_commands", qos.command_publisher())
        self._clarke = self.create_publisher(ClarkeState, "clarke_state", qos.state_publisher())
        self._pid = self.create_publisher(PidState, "pid_state", qos.state_publisher())
        self.create_subscription(TendonStates, "tendon_states", self._on_states, qos.newest_state(), raw=True)
        self.create_subscription(ClarkeState, "clarke_reference", self._on_reference, qos.command_subscription())
        self.create_subscription(DiagnosticStatus, "driver_status", self._on_driver_status, qos.latched())
        self.diagnostics.add_task("controller", self._diagnose)

    # Lifecycle

    def configure(self) -> None:
        """Make the controller of the robot's file, with the parameters' values over it.

        Raises
        ------
        ParameterError : a robot file without control settings
        """
        robot = self.load_robot()
        if robot.control is None:
            raise ParameterError("robot", robot.name, "a robot file with a control section")
        self._robot = robot
        self.parameters.forget_settings(self._settings)
        self._settings = self.parameters.declare_settings(
            "",
            robot.control,
            item_names={"gains": list(robot.part_names)},
            check=self._check_settings,
            leave_out=("note",),
        )
        settings = self._settings.value
        controller = self._make_controller(robot, settings)
        self._timeout_s = settings.state_timeout_s
        self._state_period_ns = round(1e9 / self.parameters.get("clarke_state.rate_hz"))
        self._reference = ReferenceInput(robot.coordinate_count, self.parameters.get("reference.blend_s"))
        self._prepare_messages(robot)
        self._aligned = False
        self._pending = None
        self._controller = controller

    def activate(self) -> None:
        """Answer from the next state on, starting at the measured position with the tensions as they are."""
        self._aligned = False
        self._received = self._answered = self._stale = self._not_finite = self._lost = self._restarts = 0
        self._execution.reset()
        self._active = True

    def deactivate(self) -> None:
        """Fall silent; the driver's command timeout, or its own deactivation, releases the tendons."""
        self._active = False

    def cleanup(self) -> None:
        """Forget the controller."""
        self._active = False
        self._controller = None

    # Callbacks

    def _on_states(self, data: bytes) -> None:
        controller = self._controller
        if controller is None:
            return
        start_ns = time.monotonic_ns()
        states = self._read(data)
        if states is None:
            return
        step_s = self._advance(states.sequence, states.stamp_ns)
        # NaN: the driver's torque is off.
        if self._active and self._driver_active and math.isfinite(states.commanded_tension[0]):
            output = self._answer(controller, states, step_s)
        else:
            output = None
            self._aligned = False
        if states.stamp_ns >= self._next_state_ns:
            self._publish_clarke_state(controller, states, output)
            late = states.stamp_ns - self._next_state_ns > self._state_period_ns
            self._next_state_ns = (states.stamp_ns if late else self._next_state_ns) + self._state_period_ns
        self._execution.add(time.monotonic_ns() - start_ns)

    def _read(self, data: bytes) -> _States | None:
        numbers, place = self._states_layout.numbers(data), self._states_layout.place
        if numbers:
            return _States(
                numbers[place["sec"]] * conversions.NS_PER_S + numbers[place["nanosec"]],
                numbers[place["sequence"]],
                numbers[place["simulated"]],
                np.array(numbers[place["displacement"]]),
                np.array(numbers[place["velocity"]]),
                numbers[place["tension"]],
                numbers[place["age"]],
                numbers[place["commanded_tension"]],
            )
        message: TendonStates = self._states_layout.message(data)
        counts = {len(field) for field in (message.displacement, message.velocity, message.commanded_tension)}
        if counts != {self._tendon_count}:
            self._complain(
                f"tendon_states has {len(message.displacement)} tendons, the robot file {self._tendon_count}"
            )
            return None
        return _States(
            conversions.stamp_ns(message.header.stamp),
            message.sequence,
            message.simulated,
            np.array(message.displacement),
            np.array(message.velocity),
            tuple(message.tension),
            tuple(message.age),
            tuple(message.commanded_tension),
        )

    def _answer(self, controller: ClarkeController, states: _States, step_s: float) -> ClarkeOutput | None:
        self._received += 1
        age_s = (conversions.now_ns(self.get_clock()) - states.stamp_ns) * 1e-9
        if not age_s + max(states.age_s, default=0.0) <= self._timeout_s:
            self._stale += 1
            self._aligned = False
            return None
        pending, self._pending = self._pending, None
        if pending is not None:
            controller = self._controller = controller.with_settings(pending)
        if not self._aligned and not self._align(controller, states):
            self._not_finite += 1
            return None
        output = controller.update(states.displacement, states.velocity, self._wanted(states.stamp_ns), step_s)
        tension = output.tension.tolist()
        if not math.isfinite(sum(tension)):
            self._not_finite += 1
            return None
        command, place = self._command, self._command_layout.place
        command[place["sequence"]] = states.sequence
        command[place["tension"]] = tension
        now_ns = conversions.now_ns(self.get_clock())
        command[place["sec"]], command[place["nanosec"]] = divmod(now_ns, conversions.NS_PER_S)
        self._commands.publish(self._command_layout.to_bytes(command))
        self._answered += 1
        if self._publish_pid:
            self._publish_pid_state(states, output)
        return output

    def _align(self, controller: ClarkeController, states: _States) -> bool:
        """Start at the measured position with the tensions that are on the tendons now."""
        tension = states.commanded_tension
        if not math.isfinite(sum(tension)):
            tension = states.tension
        if not math.isfinite(states.displacement.sum() + states.velocity.sum() + sum(tension)):
            return False
        reference = self._reference_input()
        reference.start(controller.manifold.clarke(states.displacement))
        controller.reset(states.displacement, tension, velocity=states.velocity)
        self._aligned = True
        self._restarts += 1
        return True

    def _advance(self, sequence: int, stamp_ns: int) -> float:
        """Time step since the previous state, and notice of gaps."""
        steps = sequence - self._last_sequence
        step_s = (stamp_ns - self._last_stamp_ns) * 1e-9
        if steps > 1:
            self._lost += steps - 1
        if steps <= 0 or steps > _LARGEST_GAP:
            self._aligned = False
        if 0 < step_s < _LONGEST_STEP_S:
            self._last_step_s = step_s / max(steps, 1)
        else:
            # The wall clock was set, or these are the first states: the driver's period is the better guess.
            step_s = self._last_step_s
        self._last_sequence, self._last_stamp_ns = sequence, stamp_ns
        return step_s

    def _on_reference(self, message: ClarkeState) -> None:
        reference = self._reference
        if reference is None:
            return
        position = conversions.vector(message.position)
        velocity = conversions.vector(message.velocity) if message.velocity else np.zeros_like(position)
        acceleration = conversions.vector(message.acceleration) if message.acceleration else np.zeros_like(position)
        stamp_s = conversions.stamp_ns(message.header.stamp) * 1e-9
        now_s = conversions.now_ns(self.get_clock()) * 1e-9
        # Without a stamp, or from a machine with another clock, the time of arrival is the best there is.
        if not abs(now_s - stamp_s) < _LONGEST_STEP_S:
            stamp_s = now_s
        if not reference.receive(ClarkeReference(position, velocity, acceleration), stamp_s):
            self._complain(f"clarke_reference with {position.size} values, or one that is not finite, was refused")

    def _on_driver_status(self, message: DiagnosticStatus) -> None:
        state = values_of(message).get("state")
        # A driver that is not configured sends no states. Where states come, such a status is that of another one,
        # which was started by mistake and will be refused.
        if state != "unconfigured":
            self._driver_active = state == "active"

    def _on_parameters(self, names: set[str]) -> None:
        if "publish_pid_state" in names:
            self._publish_pid = bool(self.parameters.get("publish_pid_state"))
        if self._settings is not None and names & set(self._settings.leaves):
            self._pending = self._settings.value

    # Helpers

    def _wanted(self, stamp_ns: int) -> ClarkeReference:
        return self._reference_input().at(stamp_ns * 1e-9)

    def _reference_input(self) -> ReferenceInput:
        if self._reference is None:
            raise ParameterError("clarke_controller", self.state, "a configured node")
        return self._reference

    def _check_settings(self, settings: ControlSettings) -> None:
        limits = self._robot.limits if self._robot is not None else None
        if limits is not None and not limits.minimum_n <= settings.pretension_n <= limits.maximum_n:
            raise ParameterError(
                "pretension_n",
                settings.pretension_n,
                f"a tension within the robot's limits, [{limits.minimum_n:g}, {limits.maximum_n:g}] N",
            )

    def _make_controller(self, robot: Robot, settings: ControlSettings) -> ClarkeController:
        if robot.mechanism is not None:
            feedforward = make_feedforward(robot)
        else:
            feedforward = clarke_feedforward(robot, progress=self.get_logger().info)
        return ClarkeController(robot, feedforward).with_settings(settings)

    def _prepare_messages(self, robot: Robot) -> None:
        self._tendon_count = robot.tendon_count
        coordinates = robot.coordinate_count
        self._states_layout = states_layout(robot.tendon_count)
        self._command_layout = commands_layout(robot.tendon_count)
        self._command = self._command_layout.editable()
        self._state_message = ClarkeState(simulated=self.simulated)
        self._position = conversions.preallocate(self._state_message, "position", coordinates)
        self._velocity = conversions.preallocate(self._state_message, "velocity", coordinates)
        self._force = conversions.preallocate(self._state_message, "generalized_force", coordinates)
        # Never measured, and NaN rather than empty: readers of recordings stumble over empty arrays.
        conversions.preallocate(self._state_message, "acceleration", coordinates)

    def _publish_clarke_state(self, controller: ClarkeController, states: _States, output: ClarkeOutput | None) -> None:
        message = self._state_message
        conversions.set_stamp(message.header.stamp, states.stamp_ns)
        message.sequence = states.sequence
        message.simulated = states.simulated
        if output is None:
            self._position[:] = controller.manifold.clarke(states.displacement)
            self._velocity[:] = controller.manifold.clarke(states.velocity)
            self._force[:] = np.nan
        else:
            self._position[:] = output.clarke
            self._velocity[:] = output.clarke_rate
            self._force[:] = output.generalized_force
        self._clarke.publish(message)

    def _publish_pid_state(self, states: _States, output: ClarkeOutput) -> None:
        terms, array = output.terms, conversions.float_array
        message = PidState(sequence=states.sequence)
        conversions.set_stamp(message.header.stamp, states.stamp_ns)
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

    def _diagnose(self, status: StatusBuilder) -> None:
        if self._problem:
            status.summary(Level.WARN, self._problem)
        if self._active and self._driver_active:
            if self._stale or self._not_finite:
                status.summary(Level.WARN, f"{self._stale} states too old, {self._not_finite} not finite: no answer")
            status.summary(Level.OK, "in closed loop")
        status.summary(Level.OK, "waiting for the driver" if self._active else self.state)
        for key, value in (
            ("states_received", self._received),
            ("commands_sent", self._answered),
            ("states_stale", self._stale),
            ("states_not_finite", self._not_finite),
            ("states_lost", self._lost),
            ("bumpless_starts", self._restarts),
            ("references_refused", self._reference.refused if self._reference is not None else 0),
            ("execution_mean_us", self._execution.mean_us),
            ("execution_p99_us", self._execution.quantile_us(0.99)),
            ("execution_max_us", self._execution.maximum_us),
        ):
            status.add(key, value)

    def check(self) -> None:
        """Refuse a robot file without control settings.

        Raises
        ------
        ParameterError : it has none
        """
        if self.load_robot().control is None:
            raise ParameterError("robot", self.parameters.get("robot"), "a robot file with a control section")


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ClarkeControllerNode, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
