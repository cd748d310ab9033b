# SPDX-License-Identifier: Apache-2.0
"""What the topics say of a running robot, in plain Python, taken when a frame is drawn."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from numpy.typing import NDArray
from rclpy.context import Context
from rclpy.qos import QoSProfile
from visualization_msgs.msg import MarkerArray

from continuum_robot.app.domain import absolute_namespace
from continuum_robot.app.newest_messages import NewestMessages
from continuum_robot.app.view.snapshot import ContactSnapshot, LoopSnapshot, Snapshot, StackSnapshot
from continuum_robot.msg import ClarkeState, Contact, Shape, StackStatus, TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.obstacles import OBSTACLES_TOPIC, obstacle_triangles

Vector = NDArray[np.float64]

_STALE_S = 1.0
_STATUS_STALE_S = 5.0
_DIAGNOSTICS = "/diagnostics"
_TOPICS: dict[str, tuple[Any, QoSProfile]] = {
    "tendon_states_decimated": (TendonStates, qos.newest_state()),
    "shape": (Shape, qos.newest_state()),
    "clarke_state": (ClarkeState, qos.newest_state()),
    "clarke_reference": (ClarkeState, qos.command_subscription()),
    "contact": (Contact, qos.newest_state()),
    "simulated_contact": (Contact, qos.newest_state()),
    OBSTACLES_TOPIC: (MarkerArray, qos.latched()),
    "stack_status": (StackStatus, qos.latched()),
    "driver_status": (DiagnosticStatus, qos.latched()),
    _DIAGNOSTICS: (DiagnosticArray, qos.events()),
}


class Listener:
    """Makes the newest messages of a stack into one :class:`Snapshot`.

    Parameters
    ----------
    context : rclpy context
    namespace : of the stack, "" for none
    """

    def __init__(self, context: Context, namespace: str = "") -> None:
        kinds = {topic: kind for topic, (kind, _) in _TOPICS.items()}
        profiles = {topic: profile for topic, (_, profile) in _TOPICS.items()}
        self._messages = NewestMessages(context, namespace, "view_listener", kinds, profiles)
        driver = f"{absolute_namespace(namespace).rstrip('/')}/tendon_driver: "
        self._loop_names = (driver + "loop", driver + "round_trip")
        self._loop: dict[str, dict[str, str]] = {}
        self._world: tuple[MarkerArray | None, dict[str, Vector]] = (None, {})

    def snapshot(self) -> Snapshot:
        """What is known now."""
        messages = self._messages
        for array in messages.drain(_DIAGNOSTICS):
            for status in array.status:
                if status.name in self._loop_names:
                    self._loop[status.name] = values_of(status)
        states, shape = messages["tendon_states_decimated"], messages["shape"]
        return Snapshot(
            time_s=time.monotonic(),
            silent_s=messages.silent_s("tendon_states_decimated"),
            coefficients=_vector(shape, "coefficients"),
            tip_m=_point(shape),
            shape_problem="" if shape is None else shape.problem,
            clarke=_vector(messages.fresh("clarke_state", _STALE_S), "position"),
            clarke_reference=_vector(messages.fresh("clarke_reference", _STALE_S), "position"),
            tension_n=_vector(states, "tension"),
            commanded_n=_vector(states, "commanded_tension"),
            contact=contact_snapshot(messages.fresh("contact", _STALE_S)),
            true_contact=contact_snapshot(messages.fresh("simulated_contact", _STALE_S)),
            obstacles=self._obstacles(),
            stack=stack_snapshot(messages.fresh("stack_status", _STATUS_STALE_S), messages["driver_status"]),
            loop=loop_snapshot({key: text for values in self._loop.values() for key, text in values.items()}),
        )

    def _obstacles(self) -> dict[str, Vector]:
        """Of the newest message, which is converted once."""
        newest = self._messages[OBSTACLES_TOPIC]
        if newest is not None and newest is not self._world[0]:
            self._world = newest, obstacle_triangles(newest)
        return self._world[1]

    def close(self) -> None:
        """Leave the topics."""
        self._messages.close()


def contact_snapshot(message: Contact | None) -> ContactSnapshot | None:
    """A message of the contact monitor, or of the simulator's truth, in plain Python."""
    if message is None:
        return None
    residual, threshold = _vector(message, "residual"), _vector(message, "contact_threshold")
    share = np.abs(residual) / threshold if residual.size == threshold.size > 0 else np.zeros(0)
    force = _vector(message, "wrench")[:3]
    interval = _vector(message, "arc_length_interval")
    return ContactSnapshot(
        state=message.state,
        reason=message.blind_reason,
        touching=message.in_contact,
        share=share,
        arc_length_m=message.arc_length if message.location_observable else math.nan,
        interval_m=(float(interval[0]), float(interval[1])) if interval.size == 2 else (math.nan, math.nan),
        wrench_arc_length_m=message.wrench_arc_length,
        force_n=force if force.size else np.full(3, math.nan),
        force_deviation_n=_deviation(force, _vector(message, "wrench_covariance")),
        place_assumed=message.wrench_place_assumed,
    )


def stack_snapshot(status: StackStatus | None, driver: DiagnosticStatus | None) -> StackSnapshot:
    """What supervisor and driver say, in plain Python."""
    values = {} if driver is None else values_of(driver)
    faults = tuple(name for name in values.get("faults", "").split(", ") if name)
    estop = values.get("estop") == "true"
    says = "" if driver is None else driver.message
    if status is None:
        return StackSnapshot(estop=estop, faults=faults, driver=values.get("state", ""), driver_says=says)
    return StackSnapshot(
        state=status.state,
        simulated=status.simulated,
        estop=status.estop or estop,
        holding=status.holding,
        nodes=dict(zip(status.node_names, status.node_states, strict=False)),
        faults=tuple(status.faults),
        last_fault=status.last_fault,
        driver=values.get("state", ""),
        driver_says=says,
    )


def loop_snapshot(values: Mapping[str, str]) -> LoopSnapshot:
    """The driver's statistics as it writes them on /diagnostics.

    Parameters
    ----------
    values : text by key
    """
    keys = {
        "rate_hz": "loop_rate_hz",
        "missed_percent": "missed_cycles_percent",
        "period_p99_us": "period_p99_us",
        "execution_p99_us": "execution_p99_us",
        "response_p99_us": "response_p99_us" if "response_p99_us" in values else "round_trip_p99_us",
    }
    return LoopSnapshot(**{name: float(values.get(key, "nan")) for name, key in keys.items()})


def _deviation(force: Vector, covariance: Vector) -> float:
    """Standard deviation along the force, of the components that are known."""
    known = np.nan_to_num(force)
    size = float(np.sqrt(known @ known))
    if covariance.size != 36 or not size > 0:
        return math.nan
    direction = known / size
    variance = float(direction @ np.nan_to_num(covariance.reshape(6, 6)[:3, :3]) @ direction)
    return math.sqrt(variance) if variance > 0 else math.nan


def _point(shape: Shape | None) -> Vector:
    return np.zeros(0) if shape is None else conversions.position(shape.tip.position)


def _vector(message: Any, name: str) -> Vector:
    return np.zeros(0) if message is None else np.array(conversions.vector(getattr(message, name)))
