# SPDX-License-Identifier: Apache-2.0
"""The node that feels contacts: from ``shape`` and the tendons' tensions to ``contact``."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.action.server import ServerGoalHandle
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from continuum_robot.action import LearnFloor
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.contact.held_loads import HELD, MEASURED, UNTOLD, HeldLoads
from continuum_robot.estimation.contact.kind import SEVERAL, ContactKind, ContactKinds, KindSettings
from continuum_robot.estimation.contact.monitor import OF_THE_OBSERVERS, ContactMonitor
from continuum_robot.estimation.contact.settings import (
    METHODS,
    MonitorSettings,
    contact_channels,
    default_location,
    default_settings,
)
from continuum_robot.estimation.contact.states import CLEAR, COLLISION, CONTACT, INVALID, SETTLING, ContactEstimate
from continuum_robot.estimation.screw_deviation import ScrewDeviation, ScrewDeviations, ScrewSettings
from continuum_robot.estimation.sensor_watch import StandstillWatch
from continuum_robot.msg import Contact, Shape, StringLengths, TendonStates
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.contact.floor import FEEDBACK_PERIOD_S, ContactFloor, FloorParameters
from continuum_robot.nodes.contact.publisher import ContactPublisher
from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS, added
from continuum_robot.robot.schema import quantity
from continuum_robot.runtime.timing import Histogram
from continuum_robot.srv import SetContactThresholds

Vector = NDArray[np.float64]

JOIN_TIMEOUT_S = 5.0
_REMEMBERED_STATES = 16
_THRESHOLDS = tuple(SetContactThresholds.Request.get_fields_and_field_types())


@dataclass(frozen=True, kw_only=True)
class ContactParameters(FloorParameters):
    """Of the contact monitor."""

    rate_hz: float = quantity(
        "how often contacts are looked for at most", "Hz", default=100.0, ge=1, le=1000, live=True
    )
    input_timeout_s: float = quantity(
        "how long shape or tensions may be missing before the node is invalid",
        "s",
        default=0.25,
        ge=0.01,
        le=10,
        live=True,
    )
    settle_s: float = quantity(
        "time from power on until contacts are looked for: the tendons are slack before, and are stretched",
        "s",
        default=0.5,
        ge=0,
        le=60,
        live=True,
    )
    longest_gap_s: float = quantity(
        "time between two shapes, by their stamps, above which the observers restart: what happened meanwhile is not"
        " known",
        "s",
        default=0.06,
        ge=0.01,
        le=10,
        live=True,
    )
    restart_s: float = quantity(
        "time after such a start for which the state is settling, neither clear nor contact",
        "s",
        default=0.25,
        ge=0,
        le=10,
        live=True,
    )
    suspect_motion_m: float = quantity(
        "motion of another sensor from which on a string that stands still to the last bit holds a contact back: "
        "less is within the encoders' own error",
        "m",
        default=1e-4,
        gt=0,
        le=0.1,
        live=True,
    )
    tare_at_start: bool = quantity("tare first of all; nothing may touch the robot then", default=False)
    base_frame: str = quantity("frame_id of the contact's location", default="base")


class Contacts(node.Component):
    """Event-driven on ``shape``, in a thread of its own so that its work never delays a controller.

    Each shape is joined with the tensions of the same driver cycle. Where shape or tensions stop, or are not numbers,
    for longer than ``input_timeout_s``, or the shape estimator names a broken sensor, the node is invalid, reports why,
    and stays so until ``reset``. After a shorter gap in the shapes' stamps the observers restart and the state is
    "settling" until they know the motion. It is silent while the tendons are not driven.
    """

    name, about, goes_on = "contact_monitor", "contact", True
    parameters = ContactParameters()
    contacts = node.output(Contact, "contact")
    states = node.heard(TendonStates, "tendon_states_decimated", active=True, lazy=True)
    strings = node.heard(StringLengths, "string_lengths", active=True, lazy=True)
    shapes = node.heard(Shape, "shape", active=True)
    # In lock-step there is no thread, and this looks whether shapes are missing.
    look = node.Line(lambda host, call: host.flow.create_timer(call) if host.clock.stepped else None)
    waiting = node.Line(lambda host, _call: Waiting(host, FEEDBACK_PERIOD_S))
    gravity = node.Line(TurnedGravity)
    tare = node.service(Trigger, "~/tare")
    reset = node.service(Trigger, "~/reset")
    thresholds = node.service(SetContactThresholds, "~/set_thresholds")
    learn = node.service(Trigger, "~/learn")
    forget = node.service(Trigger, "~/forget_floor")
    learn_floor = node.action(LearnFloor, "~/learn_floor")

    kinds: ContactKinds | None = None
    screws: ScrewDeviations | None = None
    held: HeldLoads | None = None
    loads = MEASURED
    estimate: ContactEstimate | None = None
    newest: Shape | None = None
    settled = was_settled = stopping = False
    heard_s = 0.0
    missing = gap = ""
    last_stamp_ns = settling_until_ns = shapes_taken = 0
    suspects: tuple[str, ...] = ()
    thread: threading.Thread | None = None

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        # Held while the monitor works: services wait for the end of an update, a fraction of a millisecond.
        self.lock = threading.RLock()
        self.wake = threading.Condition()
        settings_of = host.parameters.declare_settings
        self.settings = settings_of("", default_settings(robot), check=self._check_settings, take=self._take_settings)
        self.location = settings_of("location", default_location(robot))
        self.kind_settings = settings_of("kind", KindSettings())
        self.screw_settings = settings_of("screw", ScrewSettings())
        fractions = () if robot.displaced_tendons is None else robot.displaced_tendons.friction_fraction
        self.rubbing = np.array(fractions) if any(fractions) else None
        self.monitor = self._make_monitor(motors=True)
        self.tendon_count = robot.tendon_count
        self.size, pose = self.monitor.coefficient_count, self.monitor.functions.backbone_pose()
        names = [string.name for string in robot.strings]
        self.standstill = StandstillWatch(names, self.parameters.suspect_motion_m)
        self.publisher = ContactPublisher(
            self.contacts,
            self.parameters.base_frame,
            self.monitor.size,
            len(robot.segments),
            pose,
            simulated=host.simulated,
        )
        try:
            self.kinds = ContactKinds(robot, pose, self.kind_settings.value)
            self.screws = ScrewDeviations(robot, pose, self.screw_settings.value)
        except ParameterError as error:
            host.say(f"kinds of contacts and their segments by motion are not reported: {error}")
        self.power = conversions.PowerOn()
        self.tensions: deque[tuple[int, Vector, Vector]] = deque(maxlen=_REMEMBERED_STATES)
        self.displacement: Vector = np.zeros(0)
        # Half a period of grace: shapes come with the driver's jitter.
        self.thinning = Thinning(grace=0.5)
        inputs = ("inputs_not_finite", "inputs_of_another_size", "inputs_without_tensions")
        self.counts = dict.fromkeys(("updates", "contacts", "gaps", *inputs), 0)
        self.execution = Histogram()
        self.parameters_changed()
        self.gravity.follow(robot)
        self.floor = ContactFloor(host, lambda: self.parameters, lambda: self.monitor, self.lock, self.unable_to_learn)

    def _make_monitor(self, *, motors: bool) -> ContactMonitor:
        """``motors``: the loads are measured by the motors' currents."""
        return ContactMonitor(
            self.gravity.turned(self.robot),
            self.settings.value,
            self.location.value,
            motors=motors,
            observer_settings=self.host.own_settings,
        )

    @gravity
    def turn(self, gravity: Vector) -> None:
        with self.lock:
            self.monitor.set_gravity(gravity)

    def carry(self, payload_kg: float) -> None:
        """Begin anew with another payload, kg: observers, tare and what was learnt were those of the one before."""
        self.floor.stop("the payload was changed meanwhile")
        with self.lock:
            self.monitor.set_payload(payload_kg)
            self.robot = self.monitor.robot

    def activate(self) -> None:
        """Look for contacts from the next shape on."""
        with self.lock:
            self.monitor.reset()
        if self.kinds is not None:
            self.kinds.reset()
        if self.screws is not None:
            self.screws.reset()
        self.last_stamp_ns, self.estimate = 0, None
        self.settling_until_ns, self.gap = 0, ""
        self.tensions.clear()
        self.standstill.reset()
        self.suspects = ()
        self.power, self.settled = conversions.PowerOn(), False
        self.newest, self.missing, self.stopping = None, "", False
        self.heard_s, self.was_settled = self.host.clock.monotonic_s(), False
        self.floor.begin()
        if self.look is not None:
            self.look.start(self.parameters.input_timeout_s / 4)
            return
        self.thread = threading.Thread(target=self._run, name="contact_monitor", daemon=True)
        self.thread.start()

    def deactivate(self) -> None:
        self.floor.stop("the contact monitor was deactivated")
        if self.look is not None:
            self.look.cancel()
        thread, self.thread = self.thread, None
        with self.wake:
            self.stopping = True
            self.wake.notify()
        if thread is not None:
            thread.join(JOIN_TIMEOUT_S)

    # Messages, in the executor's thread

    @states
    def see_states(self, message: TendonStates) -> None:
        self.power.update(message)
        self.settled = self.power.lasts_s(message) >= self.parameters.settle_s
        self.displacement = conversions.vector(message.displacement)
        self.tensions.append((message.sequence, conversions.vector(message.tension), self.displacement))

    @strings
    def see_strings(self, message: StringLengths) -> None:
        """Look for strings that stand still while others move."""
        # Motors stand still while a hand bends the robot; strings do not.
        with contextlib.suppress(ParameterError):  # the shape estimator reports that the number is wrong
            self.suspects = self.standstill.update(conversions.vector(message.extension), self.displacement)

    @shapes
    def see_shape(self, message: Shape) -> None:
        """Work on it, or hand it to the thread that does."""
        if not self.thinning.due(self.host.clock.monotonic_ns()):
            return
        if self.host.clock.stepped:
            self.work(message)
            return
        with self.wake:
            self.newest = message
            self.wake.notify()

    # The work, in the node's own thread; in lock-step in its turns

    def _run(self) -> None:
        while True:
            with self.wake:
                self.wake.wait_for(
                    lambda: self.stopping or self.newest is not None, self.parameters.input_timeout_s / 4
                )
                shape, self.newest = self.newest, None
                if self.stopping:
                    return
            self.work(shape)

    @look
    def work_without(self) -> None:
        self.work(None)

    def work(self, shape: Shape | None) -> None:
        """Deal with a shape, or with none for a while. A defect latches invalid, as a broken sensor does."""
        try:
            self._deal_with(shape)
        except Exception as error:
            self.host.on_defect(error)
            if self.was_settled:
                with contextlib.suppress(Exception):  # in the log already
                    self._latch(f"the contact monitor failed: {error!r}", shape)
        self.shapes_taken += shape is not None

    def _deal_with(self, shape: Shape | None) -> None:
        if self.settled != self.was_settled:
            self.was_settled, self.heard_s = self.settled, self.host.clock.monotonic_s()
            self._begin()
        # The observers run from the robot's rest on, so that they know its motion when it counts.
        if shape is not None and self._take(shape, silent=not self.was_settled):
            self.heard_s = self.host.clock.monotonic_s()
        elif self.was_settled and self.host.clock.monotonic_s() - self.heard_s > self.parameters.input_timeout_s:
            self._miss(shape)

    def _begin(self) -> None:
        """The tendons have settled, or lost their power: what was wrong while they hung slack does not count."""
        monitor = self.monitor
        self.floor.stop("the tendons lost their power")
        with self.lock:
            if self.estimate is not None and self.estimate.state == INVALID:
                monitor.reset()
            if self.settled and self.parameters.tare_at_start:
                monitor.tare()
            self.estimate = None

    def _take(self, shape: Shape, *, silent: bool) -> bool:
        """Use one shape; whether it and its tensions could be used."""
        tension, displacement = self._tension(shape.sequence)
        if tension is not None and not self._choose_loads(tension):
            return False
        monitor, deviation_n = self.monitor, None
        coefficients = conversions.vector(shape.coefficients)
        rates, covariance = conversions.vector(shape.coefficient_rates), conversions.vector(shape.covariance)
        sizes = coefficients.size, rates.size, covariance.size
        if sizes != (self.size, self.size, self.size**2):
            n = self.size
            self.missing = (
                f"shape has {' + '.join(map(str, sizes))} coefficients, rates and covariances,"
                f" those of the robot file are {n} + {n} + {n * n}"
            )
            self.counts["inputs_of_another_size"] += 1
            self.host.get_logger().error(f"refused: {self.missing}", throttle_duration_sec=5.0)
            return False
        if tension is None:
            self.missing = "no tensions of this robot on tendon_states_decimated"
            self.counts["inputs_without_tensions"] += 1
            return False
        fault = shape.problem
        if self.held is not None:
            fraction = monitor.settings.stiffness_error_fraction
            at = covariance.reshape(self.size, self.size)
            tension, deviation_n = self.held.loads(coefficients, at, displacement, fraction)
        elif self.rubbing is not None and tension is not None:
            deviation_n = self.rubbing * np.abs(tension)  # friction of the paths, of unknown sign
        if not fault and not math.isfinite(float(tension.sum() + coefficients.sum() + rates.sum())):
            what = "tensions" if not math.isfinite(float(tension.sum())) else "coefficients of the shape"
            self.missing = f"the {what} are not numbers"
            self.counts["inputs_not_finite"] += 1
            return False
        start_ns = time.monotonic_ns()
        stamp_ns = conversions.stamp_ns(shape.header.stamp)
        step_s = (stamp_ns - self.last_stamp_ns) * 1e-9 if self.last_stamp_ns else 0.0
        if step_s < 0 or step_s > self.parameters.longest_gap_s:
            self._bridge(monitor, step_s, stamp_ns)
            step_s = 0.0
        self.last_stamp_ns = stamp_ns
        try:
            with self.lock:
                if silent and self.estimate is not None and self.estimate.state == INVALID:
                    monitor.reset()
                before = self.estimate
                estimate = monitor.update(
                    coefficients,
                    rates,
                    covariance.reshape(self.size, self.size),
                    step_s,
                    tension=tension,
                    tension_deviation_n=deviation_n,
                    tendon_displacement=self.displacement
                    if self.displacement.size == self.tendon_count
                    else None,
                    c_rate_covariance=self._rate_covariance(shape),
                    fault=fault,
                    suspects=self.suspects,
                )
                if stamp_ns < self.settling_until_ns and estimate.state in (CLEAR, CONTACT, COLLISION):
                    estimate = dataclasses.replace(estimate, state=SETTLING, reason=self.gap)
                self.estimate = estimate
                if not silent:
                    self.floor.take(estimate, self.displacement, step_s)
        except ContinuumRobotError as error:
            self.missing = str(error)
            return False
        self.missing = ""
        self.counts["updates"] += 1
        if silent:
            return True
        if estimate.in_contact and not (before is not None and before.in_contact):
            self.counts["contacts"] += 1
        kind = self._kind(estimate, coefficients, step_s)
        with self.lock:
            pair = monitor.pair(estimate, kind.name == SEVERAL, step_s)
        screw = self._screw(coefficients, step_s)
        stamp, method = shape.header.stamp, self.settings.value.method
        self.publisher.publish(estimate, kind, coefficients, method, pair, screw, stamp=stamp, sequence=shape.sequence)
        self.execution.add(time.monotonic_ns() - start_ns)
        return True

    def _bridge(self, monitor: ContactMonitor, step_s: float, stamp_ns: int) -> None:
        """Shapes were missing: the observers know nothing of the robot's motion in that time."""
        self.counts["gaps"] += 1
        self.gap = f"the observers restart, {1e3 * step_s:.0f} ms after the last shape"
        self.settling_until_ns = stamp_ns + round(1e9 * self.parameters.restart_s)
        with self.lock:
            monitor.bridge(max(0.0, step_s))

    def _rate_covariance(self, shape: Shape) -> Vector | None:
        """Of the shape's rates; None where it does not say, or not of all."""
        values = conversions.vector(shape.rate_covariance)
        known = values.size == self.size**2 and math.isfinite(float(values.sum()))
        return values.reshape(self.size, self.size) if known else None

    def _miss(self, shape: Shape | None) -> None:
        """Nothing usable came for too long: invalid, reported once a timeout and latched."""
        reason = "no shape" if shape is None and not self.missing else self.missing
        self._latch(f"{reason} for {self.parameters.input_timeout_s:g} s", shape)

    def _latch(self, reason: str, shape: Shape | None) -> None:
        unknown = np.full(self.size, np.nan)
        with self.lock:
            estimate = self.monitor.update(
                unknown,
                unknown,
                np.full((self.size, self.size), np.nan),
                0.0,
                tension=np.zeros(self.robot.tendon_count),
                fault=reason,
            )
            self.estimate = estimate
        stamp = Time() if shape is None else shape.header.stamp
        if shape is None:
            conversions.set_stamp(stamp, self.host.clock.now_ns())
        kind, sequence = self._kind(estimate, unknown, 0.0), 0 if shape is None else shape.sequence
        method = self.settings.value.method
        self.publisher.publish(estimate, kind, unknown, method, None, None, stamp=stamp, sequence=sequence)

    def _tension(self, sequence: int) -> tuple[Vector | None, Vector]:
        """Tensions and displacements of the driver's cycle ``sequence``, else the newest ones; None: there are none."""
        states = list(self.tensions)
        found = states[-1] if states else None
        if found is not None and found[0] != sequence:
            found = next((state for state in reversed(states) if state[0] == sequence), found)
        if found is None or found[1].size != self.tendon_count or found[2].size != self.tendon_count:
            return None, np.zeros(0)
        return found[1], found[2]

    def _choose_loads(self, tension: Vector) -> bool:
        """Where servos that hold displacements tell no load, take what their tendons stretch by; False: not known."""
        robot = self.robot
        if not robot.takes_displacements or self.held is not None or not np.isnan(tension).all():
            return True
        try:
            self.held = HeldLoads(robot)
        except ParameterError:
            self.missing = UNTOLD
            self.counts["inputs_without_tensions"] += 1
            return False
        with self.lock:
            self.monitor = self._make_monitor(motors=False)
        self.loads = HELD
        self.host.say(f"contacts are found by {HELD}: the servos measure no load")
        return True

    def _kind(self, estimate: ContactEstimate, coefficients: Vector, step_s: float) -> ContactKind:
        kinds = self.kinds
        if kinds is None or self.displacement.size != self.tendon_count:
            return ContactKind()
        return kinds.update(estimate, coefficients, self.displacement, step_s)

    def _screw(self, coefficients: Vector, step_s: float) -> ScrewDeviation | None:
        """How the segments' motion deviates from free motion."""
        screws = self.screws
        if screws is None or self.displacement.size != self.tendon_count:
            return None
        return screws.update(coefficients, self.displacement, step_s)

    # Services and parameters, in the executor's thread

    @tare
    def begin_tare(self, _request: Trigger.Request) -> str:
        if not self.host.active:
            raise ContinuumRobotError("activate the contact monitor first")
        if self.estimate is not None and self.estimate.state == INVALID:
            raise ContinuumRobotError(f"invalid ({self.estimate.reason}); reset first")
        if self.floor.running:
            raise ContinuumRobotError("it learns from free motion; wait for its end, or cancel that")
        with self.lock:
            self.monitor.tare()
        return f"taring for {self.monitor.settings.tare_s:g} s: nothing may touch the robot"

    @reset
    def restart(self, _request: Trigger.Request) -> str:
        """Forget what was found, and a defect."""
        self.floor.stop("the contact monitor was reset")
        with self.lock:
            self.monitor.reset()
            self.missing = self.host.defect = ""
        return "observers restart; what is still broken is found again"

    @learn
    def begin_learning(self, _request: Trigger.Request) -> str:
        return self.floor.learn()

    @forget
    def forget_floor(self, _request: Trigger.Request) -> str:
        return self.floor.forget()

    @learn_floor
    async def serve_learning(self, goal: ServerGoalHandle) -> Any:
        return await self.floor.serve(goal, self.waiting)

    @thresholds
    def set_thresholds(self, request: SetContactThresholds.Request) -> SetContactThresholds.Response:
        """Set parameters, those that are not below 0."""
        asked = check_request("SetContactThresholds", request)
        desired = {name: getattr(asked, name) for name in _THRESHOLDS}
        changes = {name: value for name, value in desired.items() if not value < 0}
        result = self.host.set_parameters_atomically([Parameter(name, value=value) for name, value in changes.items()])
        message = result.reason or f"{len(changes)} thresholds taken"
        return SetContactThresholds.Response(success=result.successful, message=message)

    def _check_settings(self, candidate: MonitorSettings) -> None:
        """Whether a robot can be monitored with these settings. Raises :class:`ContinuumRobotError`."""
        robot = self.robot
        if candidate.method not in METHODS:
            added(CONTACT_OBSERVERS, candidate.method, "method")
        channels = contact_channels(robot).count
        if len(candidate.gain_per_s) not in (1, channels):
            raise ParameterError("gain_per_s", candidate.gain_per_s, f"1 or {channels} values, 1/s")
        if candidate.known_arc_length_m > robot.length_m:
            raise ParameterError(
                "known_arc_length_m", candidate.known_arc_length_m, f"at most the length {robot.length_m:g} m"
            )

    def parameters_changed(self, names: Collection[str] = ()) -> None:
        if "payload_kg" in names:
            self.floor.read()
        self.thinning.period_ns = round(1e9 / self.parameters.rate_hz)
        self.standstill.moved_m = self.parameters.suspect_motion_m
        if self.kinds is not None:
            self.kinds.settings = self.kind_settings.value
        if self.screws is not None:
            self.screws.settings = self.screw_settings.value

    def _take_settings(self, settings: MonitorSettings, _names: set[str]) -> None:
        if self.host.component is not self:
            return
        with self.lock:
            old = self.monitor.settings
            self.monitor.with_settings(settings)
        if any(getattr(old, name) != getattr(settings, name) for name in OF_THE_OBSERVERS):
            self.floor.replace()

    def unable_to_learn(self) -> DeviceError | None:
        """Why nothing can be learnt now, and what to do; None where it can."""
        estimate = self.estimate
        if not self.host.active:
            return DeviceError("contact_monitor", "is not active", "Activate it")
        if not self.was_settled or estimate is None:
            return DeviceError("contact_monitor", "waits for power on the tendons", "Activate the driver")
        if estimate.state == INVALID:
            return DeviceError("contact_monitor", f"is invalid: {estimate.reason}", "Reset it")
        if estimate.state != CLEAR:
            because = f" ({estimate.reason})" if estimate.reason else ""
            return DeviceError("contact_monitor", f"is in the state {estimate.state}{because}", "Free the robot")
        return None

    def health(self, status: StatusBuilder) -> None:
        estimate = self.estimate
        if estimate is None:
            status.summary(Level.OK, "waits for power on the tendons" if self.host.active else self.host.state)
            return
        if estimate.state == INVALID:
            status.summary(Level.ERROR, f"invalid: {estimate.reason}")
        elif estimate.in_contact or estimate.state == SETTLING:
            status.summary(Level.WARN, estimate.state)
        status.summary(Level.OK, CLEAR if estimate.state == CLEAR else estimate.state)
        status.add("contact_state", estimate.state)
        status.add("loads", self.loads)
        status.add("invalid_reason", estimate.reason)
        status.add("residual_share_of_threshold", float(estimate.ratio))
        self.floor.diagnose(status)
        for name, count in self.counts.items():
            status.add(name, count)
        status.add("execution_mean_us", self.execution.mean_us)
        status.add("execution_p99_us", self.execution.quantile_us(0.99))


ContactMonitorNode = node.as_node(Contacts)
main = partial(node.run, Contacts)


if __name__ == "__main__":
    sys.exit(main())
