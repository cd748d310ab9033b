# SPDX-License-Identifier: Apache-2.0
"""Takes the newest message of each topic when a frame is drawn, and no callback in between."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from numpy.typing import NDArray
from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from continuum_robot.app.view.snapshot import ContactSnapshot, LoopSnapshot, Snapshot, StackSnapshot
from continuum_robot.msg import ClarkeState, Contact, Shape, StackStatus, TendonStates
from continuum_robot.nodes import conversions, qos
from continuum_robot.nodes.diagnostics import values_of

Vector = NDArray[np.float64]

_STALE_S = 1.0
_TOPICS: dict[str, tuple[Any, QoSProfile]] = {
    "tendon_states_decimated": (TendonStates, qos.newest_state()),
    "shape": (Shape, qos.newest_state()),
    "clarke_state": (ClarkeState, qos.newest_state()),
    "clarke_reference": (ClarkeState, qos.command_subscription()),
    "contact": (Contact, qos.newest_state()),
    "simulated_contact": (Contact, qos.newest_state()),
    "stack_status": (StackStatus, qos.latched()),
    "driver_status": (DiagnosticStatus, qos.latched()),
}


class Listener:
    """A node that is not spun: the middleware keeps the newest messages, and they are taken when asked for.

    Parameters
    ----------
    context : rclpy context
    namespace : of the stack, "" for none
    """

    def __init__(self, context: Context, namespace: str = "") -> None:
        self._node = Node(
            "view_listener",
            context=context,
            namespace=namespace or None,
            cli_args=[],
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._subscriptions = {
            topic: self._node.create_subscription(kind, topic, _ignore, profile)
            for topic, (kind, profile) in _TOPICS.items()
        }
        self._diagnostics = self._node.create_subscription(DiagnosticArray, "/diagnostics", _ignore, qos.events())
        self._prefix = f"{self._node.get_namespace().rstrip('/')}/tendon_driver: "
        self._newest: dict[str, Any] = {}
        self._came_s: dict[str, float] = {}
        self._loop: dict[str, str] = {}

    def snapshot(self) -> Snapshot:
        """What is known now."""
        now_s = time.monotonic()
        for topic, subscription in self._subscriptions.items():
            message = _take(subscription)
            if message is not None:
                self._newest[topic], self._came_s[topic] = message, now_s
        while (array := _take(self._diagnostics)) is not None:
            for status in array.status:
                if status.name in (self._prefix + "loop", self._prefix + "round_trip"):
                    self._loop |= values_of(status)
        states, shape = self._newest.get("tendon_states_decimated"), self._newest.get("shape")
        return Snapshot(
            time_s=now_s,
            silent_s=now_s - self._came_s.get("tendon_states_decimated", -math.inf),
            coefficients=_vector(shape, "coefficients"),
            tip_m=_point(shape),
            shape_problem="" if shape is None else shape.problem,
            clarke=_vector(self._fresh("clarke_state", now_s), "position"),
            clarke_reference=_vector(self._fresh("clarke_reference", now_s), "position"),
            tension_n=_vector(states, "tension"),
            commanded_n=_vector(states, "commanded_tension"),
            contact=contact_snapshot(self._fresh("contact", now_s)),
            true_contact=contact_snapshot(self._fresh("simulated_contact", now_s)),
            stack=stack_snapshot(self._fresh("stack_status", now_s, 5.0), self._newest.get("driver_status")),
            loop=loop_snapshot(self._loop),
        )

    def close(self) -> None:
        """Leave the topics."""
        self._node.destroy_node()

    def _fresh(self, topic: str, now_s: float, within_s: float = _STALE_S) -> Any:
        return self._newest.get(topic) if now_s - self._came_s.get(topic, -math.inf) < within_s else None


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
        "round_trip_p99_us": "round_trip_p99_us",
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
    place = None if shape is None else shape.tip.position
    return np.zeros(0) if place is None else np.array([place.x, place.y, place.z])


def _vector(message: Any, name: str) -> Vector:
    return np.zeros(0) if message is None else np.array(conversions.vector(getattr(message, name)))


def _take(subscription: Subscription[Any]) -> Any:
    with subscription.handle:
        taken = subscription.handle.take_message(subscription.msg_type, False)
    return None if taken is None else taken[0]


def _ignore(_message: Any) -> None:
    """Never called: the node is not spun."""
