# SPDX-License-Identifier: Apache-2.0
"""Quality of service of every topic, in one place.

A publisher and a subscriber that disagree in reliability, durability or deadline are silently not connected, so every
profile here is compatible with the plain profile of command-line tools (reliable, volatile, no deadline), and every
publisher is reliable, which serves best-effort subscribers as well.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

LOCKSTEP_DEPTH = 2000
"""Messages of a topic in lock-step that the middleware keeps for programs outside: two seconds at 1 kHz."""

RECORDED_DEPTH = 500
"""Messages of a topic that may wait for the recorder."""

FLOW_TOPICS = (
    "tendon_states",
    "tendon_states_decimated",
    "tendon_commands",
    "string_lengths",
    "fiber_curvature",
    "wrench",
    "tracked_tip",
    "tracked_pose_with_covariance",
    "clarke_state",
    "clarke_reference",
    "shape",
    "contact",
    "simulated_contact",
    "simulated_shape",
    "tip_state",
    "base_stage/command",
    "base_stage/state",
    "pid_state",
)
"""Topics that belong to lock-step: nodes hand them to each other on its bus then (nodes/lockstep/bus.py)."""


def command_publisher() -> QoSProfile:
    """Commands that this stack sends: only the newest counts. No deadline: its timer is set again by every message."""
    return _profile(1)


def command_subscription() -> QoSProfile:
    """Commands that this stack takes: only the newest counts, a queue of old ones would be played late.

    The age of a command is checked in every cycle.
    """
    return _profile(1)


def owned_command() -> QoSProfile:
    """Commands of which only the owner's are taken: a queue, in which those of others do not push the owner's out.

    It is emptied at once, and the newest of the owner counts.
    """
    return _profile(20, reliable=False)


def owned_reference() -> QoSProfile:
    """As :func:`owned_command`, for references, of which none may be lost."""
    return _profile(20)


def state_publisher() -> QoSProfile:
    """Measured and estimated states: reliable, so that a late reader of a burst loses nothing; a short queue."""
    return _profile(5)


def newest_state() -> QoSProfile:
    """A consumer of many states: the newest only, older ones are of no use to it, and nobody keeps them for it."""
    return _profile(1, reliable=False)


def every_state(depth: int = RECORDED_DEPTH) -> QoSProfile:
    """A consumer that wants every message, such as the recorder: a queue for a stall of half a second at 1 kHz."""
    return _profile(depth)


def latched() -> QoSProfile:
    """Status, e-stop, configuration: a later subscriber still gets the last one."""
    return _profile(1, latched=True)


def latched_queue() -> QoSProfile:
    """As :func:`latched`, for a consumer that counts the changes: a queue, none is skipped while it is busy."""
    return _profile(10, latched=True)


def switch_subscription() -> QoSProfile:
    """A switch such as the e-stop: reliable; volatile, so that publishers which do not latch are heard as well."""
    return _profile(10)


def visualization() -> QoSProfile:
    """Markers, paths, tf: reliable as rviz expects, a queue of a second."""
    return _profile(30)


def events() -> QoSProfile:
    """Rare messages of many senders: /diagnostics, transition events."""
    return _profile(50)


def lockstep() -> QoSProfile:
    """A topic of :data:`FLOW_TOPICS` over DDS in lock-step, where time may pass much faster than for its listeners."""
    return _profile(LOCKSTEP_DEPTH)


def _profile(depth: int, *, reliable: bool = True, latched: bool = False) -> QoSProfile:
    """The newest ``depth`` messages, without deadline; ``latched``: kept for who comes later."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )
