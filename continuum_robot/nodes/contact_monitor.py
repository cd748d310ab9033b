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
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.contact.channels import contact_channels
from continuum_robot.estimation.contact.held_loads import HELD, MEASURED, UNTOLD, HeldLoads
from continuum_robot.estimation.contact.kind import SEVERAL, ContactKind, ContactKinds, KindSettings
from continuum_robot.estimation.contact.location import PairEstimate
from continuum_robot.estimation.contact.monitor import OF_THE_OBSERVERS, ContactMonitor
from continuum_robot.estimation.contact.settings import (
    METHODS,
    MonitorSettings,
    default_location,
    default_settings,
)
from continuum_robot.estimation.contact.states import CLEAR, COLLISION, CONTACT, INVALID, SETTLING, ContactEstimate
from continuum_robot.estimation.screw_deviation import ScrewDeviation, ScrewDeviations, ScrewSettings
from continuum_robot.estimation.sensor_watch import StandstillWatch
from continuum_robot.msg import Shape, StringLengths, TendonStates
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.contact.floor import ContactFloor
from continuum_robot.nodes.contact.publisher import ContactPublisher
from continuum_robot.nodes.lockstep.flow import FlowTimer
from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.nodes.topics.thinning import Thinning
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS, added
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.timing import Histogram
from continuum_robot.srv import SetContactThresholds

Vector = NDArray[np.float64]

JOIN_TIMEOUT_S = 5.0
_REMEMBERED_STATES = 16
_THRESHOLDS = tuple(SetContactThresholds.Request.get_fields_and_field_types())


class ContactMonitorNode(ManagedNode):
    """Event-driven on ``shape``, in a thread of its own so that its work never delays a controller.

    Each shape is joined with the tensions of the same driver cycle. Where shape or tensions stop, or are not numbers,
    for longer than ``input_timeout_s``, or the shape estimator names a broken sensor, the node is invalid, reports why,
    and stays so until ``reset``. After a shorter gap in the shapes' stamps the observers restart and the state is
    "settling" until they know the motion. It is silent while the tendons are not driven.
    """

    follows_payload = True

    def __init__(self, **node_options: Any) -> None:
        super().__init__("contact_monitor", **node_options)
        declare = self.parameters.declare
        declare("rate_hz", 100.0, "how often contacts are looked for at most", rules=Quantity("", "Hz", ge=1, le=1000))
        declare(
            "input_timeout_s",
            0.25,
            "how long shape or tensions may be missing before the node is invalid",
            rules=Quantity("", "s", ge=0.01, le=10),
        )
        declare(
            "settle_s",
            0.5,
            "time from power on until contacts are looked for: the tendons are slack before, and are stretched",
            rules=Quantity("", "s", ge=0, le=60),
        )
        declare(
            "longest_gap_s",
            0.06,
            "time between two shapes, by their stamps, above which the observers restart: what happened "
            "meanwhile is not known",
            rules=Quantity("", "s", ge=0.01, le=10),
        )
        declare(
            "restart_s",
            0.25,
            "time after such a start for which the state is settling, neither clear nor contact",
            rules=Quantity("", "s", ge=0, le=10),
        )
        declare(
            "suspect_motion_m",
            1e-4,
            "motion of another sensor from which on a string that stands still to the last bit holds a contact back: "
            "less is within the encoders' own error",
            rules=Quantity("", "m", gt=0, le=0.1),
        )
        declare("tare_at_start", False, "tare first of all; nothing may touch the robot then", read_only=True)
        declare("base_frame", "base", "frame_id of the contact's location", read_only=True)
        # Held while the monitor works: services wait for the end of an update, a fraction of a millisecond.
        self._monitor_lock = threading.RLock()
        self._floor = ContactFloor(self, lambda: self._monitor, self._monitor_lock, self._unable_to_learn)
        self._settings: Settings | None = None
        self._location: Settings | None = None
        self._kind_settings: Settings | None = None
        self._screw_settings: Settings | None = None
        self._screws: ScrewDeviations | None = None
        self._kinds: ContactKinds | None = None
        self._robot: Robot | None = None
        self._monitor: ContactMonitor | None = None
        self._active = False
        self._thread: threading.Thread | None = None
        self._heard_s, self._was_settled = 0.0, False
        self._wake = threading.Condition()
        self._stopping = False
        self._newest: Shape | None = None
        self._power = conversions.PowerOn()
        self._settled = False
        self._tensions: deque[tuple[int, Vector, Vector]] = deque(maxlen=_REMEMBERED_STATES)
        self._held: HeldLoads | None = None
        self._rubbing: Vector | None = None
        self._loads = MEASURED
        self._displacement: Vector = np.zeros(0)
        self._standstill = StandstillWatch((), 1.0)
        self._suspects: tuple[str, ...] = ()
        self._estimate: ContactEstimate | None = None
        self._last_stamp_ns = 0
        self.shapes_taken = 0
        # Half a period of grace: shapes come with the driver's jitter.
        self._thinning = Thinning(grace=0.5)
        self._settling_until_ns, self._gap = 0, ""
        inputs = ("inputs_not_finite", "inputs_of_another_size", "inputs_without_tensions")
        self._counts = dict.fromkeys(("updates", "contacts", "gaps", *inputs), 0)
        self._execution = Histogram()
        self._missing = ""
        self.parameters.on_change(self._on_parameters)
        self._on_parameters(set())
        self._contacts = ContactPublisher(self.flow, simulated=self.simulated)
        flow = self.flow
        subscribe_to_stream(self, TendonStates, "tendon_states_decimated", self._on_states, lazy=True)
        subscribe_to_stream(self, StringLengths, "string_lengths", self._on_strings, lazy=True)
        subscribe_to_stream(self, Shape, "shape", self._on_shape)
        # In lock-step there is no thread, and this looks whether shapes are missing.
        self._look: FlowTimer | None = flow.create_timer(self._work_without) if self.clock.stepped else None
        self.create_service(Trigger, "~/tare", self._serve_tare)
        self.create_service(Trigger, "~/reset", self._serve_reset)
        self.create_service(SetContactThresholds, "~/set_thresholds", self._serve_thresholds)
        self.diagnostics.add_task("contact", self._diagnose)
        self._gravity = TurnedGravity(self, self._turn)

    # Lifecycle

    def configure(self) -> None:
        """Make the monitor."""
        robot = self.load_robot()
        self._robot = robot
        self._settings = self.parameters.declare_settings(
            "", default_settings(robot), check=self._check_settings, take=self._take_settings
        )
        self._location = self.parameters.declare_settings("location", default_location(robot))
        self._kind_settings = self.parameters.declare_settings("kind", KindSettings())
        self._screw_settings = self.parameters.declare_settings("screw", ScrewSettings())
        self._held, self._loads = None, MEASURED
        fractions = () if robot.displaced_tendons is None else robot.displaced_tendons.friction_fraction
        self._rubbing = np.array(fractions) if any(fractions) else None
        monitor = self._make_monitor(robot, motors=True)
        pose = monitor.functions.backbone_pose()
        self._tendon_count, self._size = robot.tendon_count, monitor.coefficient_count
        names = [string.name for string in robot.strings]
        self._standstill = StandstillWatch(names, self.parameters.get("suspect_motion_m"))
        frame = self.parameters.get("base_frame")
        self._contacts.prepare(frame, monitor.size, len(robot.segments), pose)
        try:
            self._kinds = ContactKinds(robot, pose, self._kind_settings.value)
            self._screws = ScrewDeviations(robot, pose, self._screw_settings.value)
        except ParameterError as error:
            self.say(f"kinds of contacts and their segments by motion are not reported: {error}")
        self._estimate = None
        self._monitor = monitor
        self._gravity.follow(robot)
        self._floor.read()

    def _make_monitor(self, robot: Robot, *, motors: bool) -> ContactMonitor:
        """``motors``: the loads are measured by the motors' currents."""
        assert self._settings is not None
        assert self._location is not None
        return ContactMonitor(
            self._gravity.turned(robot),
            self._settings.value,
            self._location.value,
            motors=motors,
            observer_settings=self.own_settings,
        )

    def _turn(self, gravity: Vector) -> None:
        with self._monitor_lock:
            if self._monitor is not None:
                self._monitor.set_gravity(gravity)

    def carry(self, payload_kg: float) -> None:
        """Begin anew with another payload, kg: observers, tare and what was learnt were those of the one before."""
        monitor = self._monitor
        if monitor is None:
            return
        self._floor.stop("the payload was changed meanwhile")
        with self._monitor_lock:
            monitor.set_payload(payload_kg)
            self._robot = monitor.robot

    def activate(self) -> None:
        """Look for contacts from the next shape on."""
        monitor = self._monitor
        if monitor is None:
            raise ParameterError("state", self.state, "a configured node")
        with self._monitor_lock:
            monitor.reset()
        if self._kinds is not None:
            self._kinds.reset()
        if self._screws is not None:
            self._screws.reset()
        self._last_stamp_ns, self._estimate = 0, None
        self._settling_until_ns, self._gap = 0, ""
        self._tensions.clear()
        self._standstill.reset()
        self._suspects = ()
        self._power, self._settled = conversions.PowerOn(), False
        self._newest, self._missing, self._stopping = None, "", False
        self._heard_s, self._was_settled = self.clock.monotonic_s(), False
        self._floor.begin()
        self._active = True
        if self._look is not None:
            self._look.start(self._timeout_s / 4)
            return
        self._thread = threading.Thread(target=self._run, name="contact_monitor", daemon=True)
        self._thread.start()

    def deactivate(self) -> None:
        """Fall silent."""
        self._active = False
        self._floor.stop("the contact monitor was deactivated")
        if self._look is not None:
            self._look.cancel()
        thread, self._thread = self._thread, None
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if thread is not None:
            thread.join(JOIN_TIMEOUT_S)

    def cleanup(self) -> None:
        """Forget the monitor and its tare."""
        self.deactivate()
        self._monitor = self._estimate = self._kinds = self._screws = None

    def destroy_node(self) -> None:
        """End the action, then destroy the node."""
        if hasattr(self, "_floor"):  # the constructor came that far
            self._floor.close()
        super().destroy_node()

    # Messages, in the executor's thread

    def _on_states(self, message: TendonStates) -> None:
        if not self._active:
            return
        self._power.update(message)
        self._settled = self._power.lasts_s(message) >= self._settle_s
        self._displacement = conversions.vector(message.displacement)
        self._tensions.append((message.sequence, conversions.vector(message.tension), self._displacement))

    def _on_strings(self, message: StringLengths) -> None:
        # Motors stand still while a hand bends the robot; strings do not.
        if not self._active:
            return
        with contextlib.suppress(ParameterError):  # the shape estimator reports that the number is wrong
            self._suspects = self._standstill.update(conversions.vector(message.extension), self._displacement)

    def _on_shape(self, message: Shape) -> None:
        if not self._active:
            return
        if not self._thinning.due(self.clock.monotonic_ns()):
            return
        if self.clock.stepped:
            self._work(message)
            return
        with self._wake:
            self._newest = message
            self._wake.notify()

    # The work, in the node's own thread; in lock-step in its turns

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._newest is not None, self._timeout_s / 4)
                shape, self._newest = self._newest, None
                if self._stopping:
                    return
            self._work(shape)

    def _work_without(self) -> None:
        self._work(None)

    def _work(self, shape: Shape | None) -> None:
        """Deal with a shape, or with none for a while. A defect latches invalid, as a broken sensor does."""
        try:
            self._deal_with(shape)
        except Exception as error:
            self.on_defect(error)
            if self._was_settled:
                with contextlib.suppress(Exception):  # in the log already
                    self._latch(f"the contact monitor failed: {error!r}", shape)
        self.shapes_taken += shape is not None

    def _deal_with(self, shape: Shape | None) -> None:
        if self._settled != self._was_settled:
            self._was_settled, self._heard_s = self._settled, self.clock.monotonic_s()
            self._begin()
        # The observers run from the robot's rest on, so that they know its motion when it counts.
        if shape is not None and self._take(shape, silent=not self._was_settled):
            self._heard_s = self.clock.monotonic_s()
        elif self._was_settled and self.clock.monotonic_s() - self._heard_s > self._timeout_s:
            self._miss(shape)

    def _begin(self) -> None:
        """The tendons have settled, or lost their power: what was wrong while they hung slack does not count."""
        monitor = self._monitor
        if monitor is None:
            return
        self._floor.stop("the tendons lost their power")
        with self._monitor_lock:
            if self._estimate is not None and self._estimate.state == INVALID:
                monitor.reset()
            if self._settled and self.parameters.get("tare_at_start"):
                monitor.tare()
            self._estimate = None

    def _take(self, shape: Shape, *, silent: bool) -> bool:
        """Use one shape; whether it and its tensions could be used."""
        tension, displacement = self._tension(shape.sequence)
        if tension is not None and not self._choose_loads(tension):
            return False
        monitor, deviation_n = self._monitor, None
        coefficients = conversions.vector(shape.coefficients)
        if monitor is None:
            return False
        rates, covariance = conversions.vector(shape.coefficient_rates), conversions.vector(shape.covariance)
        sizes = coefficients.size, rates.size, covariance.size
        if sizes != (self._size, self._size, self._size**2):
            n = self._size
            self._missing = (
                f"shape has {' + '.join(map(str, sizes))} coefficients, rates and covariances,"
                f" those of the robot file are {n} + {n} + {n * n}"
            )
            self._counts["inputs_of_another_size"] += 1
            self.get_logger().error(f"refused: {self._missing}", throttle_duration_sec=5.0)
            return False
        if tension is None:
            self._missing = "no tensions of this robot on tendon_states_decimated"
            self._counts["inputs_without_tensions"] += 1
            return False
        fault = shape.problem
        if self._held is not None:
            fraction = monitor.settings.stiffness_error_fraction
            at = covariance.reshape(self._size, self._size)
            tension, deviation_n = self._held.loads(coefficients, at, displacement, fraction)
        elif self._rubbing is not None and tension is not None:
            deviation_n = self._rubbing * np.abs(tension)  # friction of the paths, of unknown sign
        if not fault and not math.isfinite(float(tension.sum() + coefficients.sum() + rates.sum())):
            what = "tensions" if not math.isfinite(float(tension.sum())) else "coefficients of the shape"
            self._missing = f"the {what} are not numbers"
            self._counts["inputs_not_finite"] += 1
            return False
        start_ns = time.monotonic_ns()
        stamp_ns = conversions.stamp_ns(shape.header.stamp)
        step_s = (stamp_ns - self._last_stamp_ns) * 1e-9 if self._last_stamp_ns else 0.0
        if step_s < 0 or step_s > self._longest_gap_s:
            self._bridge(monitor, step_s, stamp_ns)
            step_s = 0.0
        self._last_stamp_ns = stamp_ns
        try:
            with self._monitor_lock:
                if silent and self._estimate is not None and self._estimate.state == INVALID:
                    monitor.reset()
                before = self._estimate
                estimate = monitor.update(
                    coefficients,
                    rates,
                    covariance.reshape(self._size, self._size),
                    step_s,
                    tension=tension,
                    tension_deviation_n=deviation_n,
                    tendon_displacement=self._displacement if self._displacement.size == self._tendon_count else None,
                    c_rate_covariance=self._rate_covariance(shape),
                    fault=fault,
                    suspects=self._suspects,
                )
                if stamp_ns < self._settling_until_ns and estimate.state in (CLEAR, CONTACT, COLLISION):
                    estimate = dataclasses.replace(estimate, state=SETTLING, reason=self._gap)
                self._estimate = estimate
                if not silent:
                    self._floor.take(estimate, self._displacement, step_s)
        except ContinuumRobotError as error:
            self._missing = str(error)
            return False
        self._missing = ""
        self._counts["updates"] += 1
        if silent:
            return True
        if estimate.in_contact and not (before is not None and before.in_contact):
            self._counts["contacts"] += 1
        kind = self._kind(estimate, coefficients, step_s)
        with self._monitor_lock:
            pair = monitor.pair(estimate, kind.name == SEVERAL, step_s)
        screw = self._screw(coefficients, step_s)
        self._publish(estimate, kind, coefficients, pair, screw, stamp=shape.header.stamp, sequence=shape.sequence)
        self._execution.add(time.monotonic_ns() - start_ns)
        return True

    def _bridge(self, monitor: ContactMonitor, step_s: float, stamp_ns: int) -> None:
        """Shapes were missing: the observers know nothing of the robot's motion in that time."""
        self._counts["gaps"] += 1
        self._gap = f"the observers restart, {1e3 * step_s:.0f} ms after the last shape"
        self._settling_until_ns = stamp_ns + round(1e9 * self.parameters.get("restart_s"))
        with self._monitor_lock:
            monitor.bridge(max(0.0, step_s))

    def _rate_covariance(self, shape: Shape) -> Vector | None:
        """Of the shape's rates; None where it does not say, or not of all."""
        values = conversions.vector(shape.rate_covariance)
        known = values.size == self._size**2 and math.isfinite(float(values.sum()))
        return values.reshape(self._size, self._size) if known else None

    def _miss(self, shape: Shape | None) -> None:
        """Nothing usable came for too long: invalid, reported once a timeout and latched."""
        reason = "no shape" if shape is None and not self._missing else self._missing
        self._latch(f"{reason} for {self._timeout_s:g} s", shape)

    def _latch(self, reason: str, shape: Shape | None) -> None:
        """Invalid until a reset."""
        monitor, unknown = self._monitor, np.full(self._size, np.nan)
        if monitor is None:
            return
        with self._monitor_lock:
            estimate = monitor.update(
                unknown,
                unknown,
                np.full((self._size, self._size), np.nan),
                0.0,
                tension=np.zeros(self._tendon_count),
                fault=reason,
            )
            self._estimate = estimate
        stamp = Time() if shape is None else shape.header.stamp
        if shape is None:
            conversions.set_stamp(stamp, self.clock.now_ns())
        kind, sequence = self._kind(estimate, unknown, 0.0), 0 if shape is None else shape.sequence
        self._publish(estimate, kind, unknown, None, None, stamp=stamp, sequence=sequence)

    def _tension(self, sequence: int) -> tuple[Vector | None, Vector]:
        """Tensions and displacements of the driver's cycle ``sequence``, else the newest ones; None: there are none."""
        states = list(self._tensions)
        found = next((state for state in reversed(states) if state[0] == sequence), states[-1] if states else None)
        if found is None or found[1].size != self._tendon_count or found[2].size != self._tendon_count:
            return None, np.zeros(0)
        return found[1], found[2]

    def _choose_loads(self, tension: Vector) -> bool:
        """Where servos that hold displacements tell no load, take what their tendons stretch by; False: not known."""
        robot = self._robot
        if robot is None or not robot.takes_displacements or self._held is not None or not np.isnan(tension).all():
            return True
        try:
            self._held = HeldLoads(robot)
        except ParameterError:
            self._missing = UNTOLD
            self._counts["inputs_without_tensions"] += 1
            return False
        with self._monitor_lock:
            self._monitor = self._make_monitor(robot, motors=False)
        self._loads = HELD
        self.say(f"contacts are found by {HELD}: the servos measure no load")
        return True

    def _kind(self, estimate: ContactEstimate, coefficients: Vector, step_s: float) -> ContactKind:
        """The kind of the contact, if there is one."""
        kinds = self._kinds
        if kinds is None or self._displacement.size != self._tendon_count:
            return ContactKind()
        return kinds.update(estimate, coefficients, self._displacement, step_s)

    def _screw(self, coefficients: Vector, step_s: float) -> ScrewDeviation | None:
        """How the segments' motion deviates from free motion."""
        screws = self._screws
        if screws is None or self._displacement.size != self._tendon_count:
            return None
        return screws.update(coefficients, self._displacement, step_s)

    def _publish(
        self,
        estimate: ContactEstimate,
        kind: ContactKind,
        coefficients: Vector,
        pair: PairEstimate | None,
        screw: ScrewDeviation | None,
        *,
        stamp: Any,
        sequence: int,
    ) -> None:
        method = "" if self._settings is None else self._settings.value.method
        self._contacts.publish(estimate, kind, coefficients, method, pair, screw, stamp=stamp, sequence=sequence)

    # Services and parameters, in the executor's thread

    def _serve_tare(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        monitor, estimate = self._monitor, self._estimate
        if monitor is None or not self._active:
            response.message = "refused: activate the contact monitor first"
        elif estimate is not None and estimate.state == INVALID:
            response.message = f"refused: invalid ({estimate.reason}); reset first"
        elif self._floor.running:
            response.message = "refused: it learns from free motion; wait for its end, or cancel that"
        else:
            with self._monitor_lock:
                monitor.tare()
            response.success = True
            response.message = f"taring for {monitor.settings.tare_s:g} s: nothing may touch the robot"
        return response

    def _serve_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        monitor = self._monitor
        if monitor is None:
            response.message = "refused: configure the contact monitor first"
            return response
        self._floor.stop("the contact monitor was reset")
        with self._monitor_lock:
            monitor.reset()
            self._missing = self.defect = ""
        response.success = True
        response.message = "observers restart; what is still broken is found again"
        return response

    def _serve_thresholds(
        self, request: SetContactThresholds.Request, response: SetContactThresholds.Response
    ) -> SetContactThresholds.Response:
        if self._settings is None:
            response.message = "refused: configure the contact monitor first"
            return response
        try:
            asked = check_request("SetContactThresholds", request)
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        desired = {name: getattr(asked, name) for name in _THRESHOLDS}
        changes = {name: value for name, value in desired.items() if not value < 0}
        result = self.set_parameters_atomically([Parameter(name, value=value) for name, value in changes.items()])
        response.success = result.successful
        response.message = result.reason or f"{len(changes)} thresholds taken"
        return response

    def _check_settings(self, candidate: MonitorSettings) -> None:
        """Whether a robot can be monitored with these settings. Raises :class:`ContinuumRobotError`."""
        robot = self._robot
        if robot is None:
            return
        if candidate.method not in METHODS:
            added(CONTACT_OBSERVERS, candidate.method, "method")
        channels = contact_channels(robot).count
        if len(candidate.gain_per_s) not in (1, channels):
            raise ParameterError("gain_per_s", candidate.gain_per_s, f"1 or {channels} values, 1/s")
        if candidate.known_arc_length_m > robot.length_m:
            raise ParameterError(
                "known_arc_length_m", candidate.known_arc_length_m, f"at most the length {robot.length_m:g} m"
            )

    def _on_parameters(self, names: set[str]) -> None:
        if "payload_kg" in names:
            self._floor.read()
        self._thinning.period_ns = round(1e9 / self.parameters.get("rate_hz"))
        self._timeout_s = float(self.parameters.get("input_timeout_s"))
        self._longest_gap_s = float(self.parameters.get("longest_gap_s"))
        self._settle_s = float(self.parameters.get("settle_s"))
        self._standstill.moved_m = float(self.parameters.get("suspect_motion_m"))
        if self._kinds is not None and self._kind_settings is not None:
            self._kinds.settings = self._kind_settings.value
        if self._screws is not None and self._screw_settings is not None:
            self._screws.settings = self._screw_settings.value

    def _take_settings(self, settings: MonitorSettings, _names: set[str]) -> None:
        if self._monitor is None:
            return
        with self._monitor_lock:
            old = self._monitor.settings
            self._monitor.with_settings(settings)
        if any(getattr(old, name) != getattr(settings, name) for name in OF_THE_OBSERVERS):
            self._floor.replace()

    def _unable_to_learn(self) -> DeviceError | None:
        """Why nothing can be learnt now, and what to do; None where it can."""
        estimate = self._estimate
        if not self._active:
            return DeviceError("contact_monitor", "is not active", "Activate it")
        if not self._was_settled or estimate is None:
            return DeviceError("contact_monitor", "waits for power on the tendons", "Activate the driver")
        if estimate.state == INVALID:
            return DeviceError("contact_monitor", f"is invalid: {estimate.reason}", "Reset it")
        if estimate.state != CLEAR:
            because = f" ({estimate.reason})" if estimate.reason else ""
            return DeviceError("contact_monitor", f"is in the state {estimate.state}{because}", "Free the robot")
        return None

    def _diagnose(self, status: StatusBuilder) -> None:
        estimate = self._estimate
        if estimate is None:
            status.summary(Level.OK, self.state if not self._active else "waits for power on the tendons")
            return
        if estimate.state == INVALID:
            status.summary(Level.ERROR, f"invalid: {estimate.reason}")
        elif estimate.in_contact or estimate.state == SETTLING:
            status.summary(Level.WARN, estimate.state)
        status.summary(Level.OK, CLEAR if estimate.state == CLEAR else estimate.state)
        status.add("contact_state", estimate.state)
        status.add("loads", self._loads)
        status.add("invalid_reason", estimate.reason)
        status.add("residual_share_of_threshold", float(estimate.ratio))
        self._floor.diagnose(status)
        for name, count in self._counts.items():
            status.add(name, count)
        status.add("execution_mean_us", self._execution.mean_us)
        status.add("execution_p99_us", self._execution.quantile_us(0.99))


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ContactMonitorNode)


if __name__ == "__main__":
    sys.exit(main())
