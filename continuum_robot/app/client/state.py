# SPDX-License-Identifier: Apache-2.0
"""What is known of a running robot at one moment, in plain Python: for programs, the page, the campaign and tests."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot as RobotDescription

Vector = NDArray[np.float64]

SILENCE_S = 2.0
SIMULATED_TIME_S = 1e8
"""A stamp so long ago is one of lock-step, where time begins at 1 s: then what counts is when the message came."""


def _empty() -> Vector:
    return np.zeros(0)


def _unknown_location() -> Vector:
    return np.full(3, np.nan)


def _unknown_pair() -> Vector:
    return np.full(2, np.nan)


def _unknown_forces() -> Vector:
    return np.full((2, 3), np.nan)


@dataclass(frozen=True, slots=True)
class ContactState:
    """What the contact monitor reports, or the simulator's truth.

    Attributes
    ----------
    state : clear, contact, collision, invalid, taring, settling; "" where no contact monitor runs
    in_contact : contact or collision
    kind : unknown, accidental, sustained, sliding, tip_blocked, body_blocked, segment_blocked, several; "" without a
        contact; an accidental one is reported after its end
    kind_reason : what was seen of that
    arc_length_m : of the contact from the base, m; NaN where unknown
    force_n : size of the force, N; NaN where unknown
    location_m : of the contact, shape (3,), base frame, m; NaN where unknown
    reason : why it is invalid, or settles
    residual_ratio : magnitude of each residual over its threshold, shape (n,)
    interval_m : ends of the stretch of backbone that holds it with 90 % probability, m; NaN where unknown
    wrench_arc_length_m : where the force acts, m
    force_there_n : in the backbone's frame there, shape (3,), N; NaN for a direction that is not detected
    force_deviation_n : standard deviation of its magnitude, N; NaN where unknown
    pair_arc_lengths_m : of the kind several: where two contacts are, from the base, shape (2,), m; NaN where unknown
    pair_deviations_m : standard deviations of these, shape (2,), m
    pair_forces_n : of each in the backbone's frame there, shape (2, 3), N; NaN where unknown
    pair_reason : which of both is not observable, and why
    screw_segment : index of the segment that is touched by what its motion shows; -1: none
    """

    state: str = ""
    in_contact: bool = False
    kind: str = ""
    kind_reason: str = ""
    arc_length_m: float = math.nan
    force_n: float = math.nan
    location_m: Vector = field(default_factory=_unknown_location)
    reason: str = ""
    residual_ratio: Vector = field(default_factory=_empty)
    interval_m: tuple[float, float] = (math.nan, math.nan)
    wrench_arc_length_m: float = math.nan
    force_there_n: Vector = field(default_factory=_unknown_location)
    force_deviation_n: float = math.nan
    pair_arc_lengths_m: Vector = field(default_factory=_unknown_pair)
    pair_deviations_m: Vector = field(default_factory=_unknown_pair)
    pair_forces_n: Vector = field(default_factory=_unknown_forces)
    pair_reason: str = ""
    screw_segment: int = -1


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """Timing of the driver's loop since it was activated; NaN where it is unknown.

    Attributes
    ----------
    rate_hz, missed_percent : of the loop
    execution_p99_us : 99th percentile
    response_p50_us, response_p99_us : from a reading to the command that answers it, over the topics where the
        controller is not in the cycle
    """

    rate_hz: float = math.nan
    missed_percent: float = math.nan
    execution_p99_us: float = math.nan
    response_p50_us: float = math.nan
    response_p99_us: float = math.nan


@dataclass(frozen=True, slots=True)
class RobotState:
    """The newest of everything that the stack reports of the robot; NaN or empty where it is unknown.

    Attributes
    ----------
    stack : down, starting, up, stopping, fault; "" before the supervisor was heard
    simulated : whether the wires end in a simulator
    faults : latched now
    last_fault : the newest one, kept after recovery
    estop : whether the e-stop is latched
    controller : that commands the tendons: clarke, tip, hold_tension or topic; "" where the driver does not obey
    holding : whether the stack is up and holds, not started: nothing moves until somebody starts a motion
    writer : who writes the reference
    displacement_m, velocity_m_per_s, tension_n : of every tendon, shape (N,)
    commanded_n, commanded_m : what the driver sent, shape (N,); the one that the actuators do not take is empty
    clarke_m, clarke_rate_m_per_s : measured Clarke coordinates, shape (2m,)
    reference_m : desired Clarke coordinates, shape (2m,), m
    coefficients : estimated shape, shape (n,), 1/m
    tip : estimated tip frame, shape (4, 4), base frame
    stage : insertion and rotation of the base stage, shape (2,), m and rad; empty where there is none
    stage_problem : why the stage does not move, "" where it does
    contact : of the contact monitor
    age_s : of the tendons' reading
    in_lockstep : whether its stamps are simulated time
    nodes : lifecycle state of each managed node
    episode : whether an episode that was marked as begun is being recorded
    driver : state of the tendon driver: unconfigured, inactive, active, safe; "" before it was heard
    driver_message : its sentence
    driver_faults : latched by the driver
    shape_problem : sensors that the shape estimator found broken
    true_contact : the simulator's truth, where it is listened to
    loop : timing of the driver, where its diagnostics are listened to
    time_s : of this state, monotonic clock, s
    silent_s : how long no state of the tendons came, s; inf before the first
    """

    stack: str = ""
    simulated: bool = False
    faults: tuple[str, ...] = ()
    last_fault: str = ""
    estop: bool = False
    controller: str = ""
    holding: bool = False
    writer: str = ""
    displacement_m: Vector = field(default_factory=_empty)
    velocity_m_per_s: Vector = field(default_factory=_empty)
    tension_n: Vector = field(default_factory=_empty)
    commanded_n: Vector = field(default_factory=_empty)
    commanded_m: Vector = field(default_factory=_empty)
    clarke_m: Vector = field(default_factory=_empty)
    clarke_rate_m_per_s: Vector = field(default_factory=_empty)
    reference_m: Vector = field(default_factory=_empty)
    coefficients: Vector = field(default_factory=_empty)
    tip: Vector = field(default_factory=lambda: np.full((4, 4), np.nan))
    stage: Vector = field(default_factory=_empty)
    stage_problem: str = ""
    contact: ContactState = field(default_factory=ContactState)
    age_s: float = math.inf
    in_lockstep: bool = False
    nodes: Mapping[str, str] = field(default_factory=dict)
    episode: bool = False
    driver: str = ""
    driver_message: str = ""
    driver_faults: tuple[str, ...] = ()
    shape_problem: str = ""
    true_contact: ContactState = field(default_factory=ContactState)
    loop: LoopTiming = field(default_factory=LoopTiming)
    time_s: float = 0.0
    silent_s: float = math.inf

    @property
    def tip_position_m(self) -> Vector:
        """Estimated tip, shape (3,), base frame, m."""
        return self.tip[:3, 3]

    @property
    def alive(self) -> bool:
        """Whether the driver speaks; in lock-step, where time may wait for a node, whether the supervisor does."""
        return self.silent_s < SILENCE_S or (self.in_lockstep and self.stack != "")

    @property
    def obeys(self) -> bool:
        """Whether the stack is up and the driver takes commands."""
        return self.stack == "up" and self.driver == "active"

    @property
    def all_faults(self) -> list[str]:
        """Latched faults, as supervisor and driver say them."""
        return list(dict.fromkeys([*self.faults, *self.driver_faults]))


def state_of(
    messages: Any, loop: Mapping[str, Any], robot: RobotDescription | None, fresh_s: float, status_fresh_s: float
) -> RobotState:
    """As of :meth:`continuum_robot.app.client.stack_link.StackLink.state`.

    Parameters
    ----------
    messages : NewestMessages
    loop : the driver's numbers by key
    robot : whose sizes unknown values get
    fresh_s, status_fresh_s : age above which a message counts as unknown, s
    """
    from continuum_robot.nodes.recordings.mcap_file import BEGIN, EPISODE  # noqa: PLC0415
    from continuum_robot.nodes.topics import conversions  # noqa: PLC0415
    from continuum_robot.nodes.topics.driver_status import fault_names, state_name  # noqa: PLC0415

    def values(message: Any, name: str, count: int | None) -> Vector:
        found = np.zeros(0) if message is None else np.array(conversions.vector(getattr(message, name)))
        return found if count is None or found.size == count else np.full(count, np.nan)

    tendon_count, coordinates, size = (
        (None, None, None) if robot is None else (robot.tendon_count, robot.coordinate_count, robot.coefficient_count)
    )
    displaced = robot is not None and robot.takes_displacements
    tendons, shape = messages.fresh("tendon_states_decimated"), messages.fresh("shape")
    clarke, reference = messages.fresh("clarke_state", fresh_s), messages.fresh("clarke_reference", fresh_s)
    status, driver = messages.fresh("stack_status", status_fresh_s), messages.fresh("driver_status")
    writer, stage = messages.fresh("reference_writer"), messages.fresh("base_stage/status")
    episode = messages.fresh(EPISODE)
    driver_faults = () if driver is None else fault_names(driver)
    silent_s = age_s = messages.silent_s("tendon_states_decimated")
    in_lockstep = False
    if tendons is not None:
        stamped_s = (time.time_ns() - conversions.stamp_ns(tendons.header.stamp)) * 1e-9
        in_lockstep = stamped_s > SIMULATED_TIME_S
        age_s = silent_s if in_lockstep else stamped_s
    return RobotState(
        stack="" if status is None else status.state,
        simulated=bool(status is not None and status.simulated),
        faults=driver_faults if status is None else tuple(status.faults),
        last_fault="" if status is None else status.last_fault,
        estop=bool(status is not None and status.estop) or bool(driver is not None and driver.estop),
        controller="" if status is None else status.controller,
        holding=bool(status is not None and status.holding),
        writer="" if writer is None else str(writer.data),
        displacement_m=values(tendons, "displacement", tendon_count),
        velocity_m_per_s=values(tendons, "velocity", tendon_count),
        tension_n=values(tendons, "tension", tendon_count),
        commanded_n=values(tendons, "commanded_tension", None if displaced else tendon_count),
        commanded_m=values(tendons, "commanded_displacement", tendon_count if displaced else None),
        clarke_m=values(clarke, "position", coordinates),
        clarke_rate_m_per_s=values(clarke, "velocity", coordinates),
        reference_m=values(reference, "position", coordinates),
        coefficients=values(shape, "coefficients", size),
        tip=np.full((4, 4), np.nan) if shape is None else conversions.pose_matrix(shape.tip),
        stage=values(messages.fresh("base_stage/state", fresh_s), "position", None),
        stage_problem="" if stage is None or stage.level == type(stage).OK else stage.message,
        contact=contact_state(messages.fresh("contact", fresh_s)),
        age_s=age_s,
        in_lockstep=in_lockstep,
        nodes={} if status is None else dict(zip(status.node_names, status.node_states, strict=False)),
        episode=episode is not None and episode.data == BEGIN,
        driver="" if driver is None else state_name(driver),
        driver_message="" if driver is None else driver.message,
        driver_faults=driver_faults,
        shape_problem="" if shape is None else shape.problem,
        true_contact=contact_state(messages.fresh("simulated_contact", fresh_s)),
        loop=loop_timing(loop),
        time_s=time.monotonic(),
        silent_s=silent_s,
    )


def _of_two(values: Vector, each: int) -> Vector:
    """Values of two contacts, (2, each); NaN where there are none."""
    return values.reshape(2, each) if values.size == 2 * each else np.full((2, each), np.nan)


def contact_state(message: Any) -> ContactState:
    """A message of the contact monitor, or of the simulator's truth; None: of neither."""
    from continuum_robot.nodes.topics import conversions  # noqa: PLC0415

    if message is None:
        return ContactState()

    def values(name: str) -> Vector:
        return np.array(conversions.vector(getattr(message, name)))

    residual, threshold, interval = values("residual"), values("contact_threshold"), values("arc_length_interval")
    force = values("wrench")[:3]
    known = message.in_contact and force.size == 3
    return ContactState(
        state=message.state,
        in_contact=message.in_contact,
        kind=message.kind,
        kind_reason=message.kind_reason,
        arc_length_m=message.arc_length if message.location_observable else math.nan,
        force_n=float(np.linalg.norm(force)) if known else math.nan,
        location_m=conversions.position(message.pose.position) if known else _unknown_location(),
        reason=message.invalid_reason,
        residual_ratio=np.abs(residual) / threshold if residual.size == threshold.size > 0 else np.zeros(0),
        interval_m=(float(interval[0]), float(interval[1])) if interval.size == 2 else (math.nan, math.nan),
        wrench_arc_length_m=message.wrench_arc_length,
        pair_arc_lengths_m=_of_two(values("pair_arc_lengths"), 1)[:, 0],
        pair_deviations_m=_of_two(values("pair_arc_length_deviations"), 1)[:, 0],
        pair_forces_n=_of_two(values("pair_forces"), 3),
        pair_reason=message.pair_reason,
        screw_segment=message.screw_segment,
        force_there_n=force if force.size else _unknown_location(),
        force_deviation_n=_deviation(force, values("wrench_covariance")),
    )


def loop_timing(values: Mapping[str, Any]) -> LoopTiming:
    """The driver's numbers of its loop, by the keys that they have on /diagnostics.

    Parameters
    ----------
    values : numbers or texts of numbers
    """

    def number(*keys: str) -> float:
        return float(next((values[key] for key in keys if key in values), math.nan))

    return LoopTiming(
        rate_hz=number("loop_rate_hz"),
        missed_percent=number("missed_cycles_percent"),
        execution_p99_us=number("execution_p99_us"),
        response_p50_us=number("response_p50_us", "round_trip_p50_us"),
        response_p99_us=number("response_p99_us", "round_trip_p99_us"),
    )


def _deviation(force: Vector, covariance: Vector) -> float:
    """Standard deviation along the force, of the components that are known."""
    known = np.nan_to_num(force)
    size = float(np.sqrt(known @ known))
    if covariance.size != 36 or not size > 0:
        return math.nan
    direction = known / size
    variance = float(direction @ np.nan_to_num(covariance.reshape(6, 6)[:3, :3]) @ direction)
    return math.sqrt(variance) if variance > 0 else math.nan
