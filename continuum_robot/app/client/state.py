# SPDX-License-Identifier: Apache-2.0
"""What is known of a robot now, read from the newest messages of its stack."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.nodes import conversions
from continuum_robot.robot.description import Robot as RobotDescription

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ContactState:
    """What the contact monitor says.

    Attributes
    ----------
    state : clear, contact, collision, blind, taring, settling; "" where no contact monitor runs
    in_contact : contact or collision
    arc_length_m : of the contact from the base, m; NaN where unknown
    force_n : size of the force, N; NaN where unknown
    place_m : of the contact, shape (3,), base frame, m; NaN where unknown
    """

    state: str = ""
    in_contact: bool = False
    arc_length_m: float = math.nan
    force_n: float = math.nan
    place_m: Vector = field(default_factory=lambda: np.full(3, np.nan))


@dataclass(frozen=True, slots=True)
class RobotState:
    """The newest of everything that the stack says of the robot; NaN where it is unknown.

    Attributes
    ----------
    stack : down, starting, up, stopping, fault; "" before the supervisor was heard
    simulated : whether the wires end in a simulator
    faults : latched now
    last_fault : the newest one, kept after recovery
    estop : whether the e-stop is latched
    controller : that commands the tendons: clarke, hold_tension or topic; "" where the driver does not obey
    holding : whether the stack is up and holds, not started: nothing moves until somebody starts a motion
    writer : who writes the reference
    displacement_m, velocity_m_per_s, tension_n : of every tendon, shape (N,)
    clarke_m, clarke_rate_m_per_s : measured Clarke coordinates, shape (2m,)
    reference_m : wanted Clarke coordinates, shape (2m,), m
    coefficients : estimated shape, shape (n,), 1/m
    tip : estimated tip frame, shape (4, 4), base frame
    contact : of the contact monitor
    age_s : of the tendons' reading
    """

    stack: str
    simulated: bool
    faults: tuple[str, ...]
    last_fault: str
    estop: bool
    controller: str
    holding: bool
    writer: str
    displacement_m: Vector
    velocity_m_per_s: Vector
    tension_n: Vector
    clarke_m: Vector
    clarke_rate_m_per_s: Vector
    reference_m: Vector
    coefficients: Vector
    tip: Vector
    contact: ContactState
    age_s: float

    @property
    def tip_position_m(self) -> Vector:
        """Estimated tip, shape (3,), base frame, m."""
        return self.tip[:3, 3]


SIMULATED_TIME_S = 1e8
"""A stamp so long ago is one of lock-step, where time begins at 1 s: then what counts is when the message came."""


def robot_state(link: StackLink, robot: RobotDescription) -> RobotState:
    """The newest of everything that is known, at once.

    Parameters
    ----------
    link : to the stack
    robot : of the stack
    """
    messages = link.messages
    status, tendons, clarke = messages["stack_status"], messages["tendon_states_decimated"], messages["clarke_state"]
    shape, reference = messages["shape"], messages["clarke_reference"]
    tendon_count, coordinates = robot.tendon_count, robot.coordinate_count
    age_s = math.inf
    if tendons is not None:
        age_s = (time.time_ns() - conversions.stamp_ns(tendons.header.stamp)) * 1e-9
        if age_s > SIMULATED_TIME_S:
            age_s = messages.silent_s("tendon_states_decimated")
    return RobotState(
        stack="" if status is None else status.state,
        simulated=bool(status is not None and status.simulated),
        faults=() if status is None else tuple(status.faults),
        last_fault="" if status is None else status.last_fault,
        estop=bool(status is not None and status.estop),
        controller="" if status is None else status.controller,
        holding=bool(status is not None and status.holding),
        writer=link.writer,
        displacement_m=_values(tendons, "displacement", tendon_count),
        velocity_m_per_s=_values(tendons, "velocity", tendon_count),
        tension_n=_values(tendons, "tension", tendon_count),
        clarke_m=_values(clarke, "position", coordinates),
        clarke_rate_m_per_s=_values(clarke, "velocity", coordinates),
        reference_m=_values(reference, "position", coordinates),
        coefficients=_values(shape, "coefficients", robot.coefficient_count),
        tip=np.full((4, 4), np.nan) if shape is None else conversions.pose_matrix(shape.tip),
        contact=_contact(messages["contact"]),
        age_s=age_s,
    )


def _values(message: Any, name: str, count: int) -> Vector:
    """A field as an array of its own, NaN where it is not there."""
    values = np.zeros(0) if message is None else np.array(conversions.vector(getattr(message, name)))
    return values if values.size == count else np.full(count, np.nan)


def _contact(message: Any) -> ContactState:
    if message is None:
        return ContactState()
    wrench = np.array(conversions.vector(message.wrench))
    known = wrench.size == 6 and message.in_contact
    return ContactState(
        message.state,
        message.in_contact,
        message.arc_length,
        float(np.linalg.norm(wrench[:3])) if known else math.nan,
        conversions.position(message.place.position) if known else np.full(3, np.nan),
    )
