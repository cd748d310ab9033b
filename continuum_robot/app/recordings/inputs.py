# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a recorded run were given, in the order in which they took it. Needs no ROS 2.

The recorder hears every message, also those that a busy node passed over. What each node took follows from what it
answered: a command has the sequence number of its state and the time at which it was computed, a shape the stamp of the
strings it was computed from.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.app.recordings.reading import open_bag, stamp_ns
from continuum_robot.errors import RecordingError

STATES, STRINGS, REFERENCE = "tendon_states", "string_lengths", "clarke_reference"
DECIMATED, FIBER = "tendon_states_decimated", "fiber_curvature"
STATUS, PARAMETERS = "driver_status", "/parameter_events"
COMMANDS, SHAPE, CLARKE, CONTACT = "tendon_commands", "shape", "clarke_state", "contact"
INPUTS = (STATES, DECIMATED, STRINGS, FIBER, REFERENCE, STATUS, PARAMETERS)
ANSWERS = (COMMANDS, SHAPE, CLARKE, CONTACT)

_ACTIVE = 2  # DriverStatus.ACTIVE
_STATUS_LEAD_NS = 50_000_000
_LATE_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Given:
    """A message other than a state of the tendons: when it came, ns, its topic, and itself, serialised."""

    time_ns: int
    topic: str
    data: bytes


@dataclass(frozen=True, slots=True)
class State:
    """One state of the tendons and what came of it."""

    time_ns: int
    sequence: int
    data: bytes
    controlled: bool = True
    strings: tuple[bytes, ...] = ()
    answers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RecordedInputs:
    """The inputs of a run in order, the topics with answers to them, and the states' number of tendons."""

    steps: tuple[Given | State, ...]
    answered: frozenset[str]
    tendon_count: int

    @property
    def begin_ns(self) -> int:
        """Time of the first input, ns."""
        return self.steps[0].time_ns

    @property
    def state_count(self) -> int:
        """How many states of the tendons there are."""
        return sum(isinstance(step, State) for step in self.steps)


@dataclass
class _Topics:
    """Messages of the topics, each as (time of the recorder in ns, serialised, itself)."""

    messages: dict[str, list[tuple[int, bytes, Any]]] = field(default_factory=dict)

    def __getitem__(self, topic: str) -> list[tuple[int, bytes, Any]]:
        return self.messages.get(topic, [])


def read_inputs(bag: Path, namespace: str | None = None) -> RecordedInputs:
    """Read what the nodes were given."""
    with open_bag(bag) as opened:
        prefix = opened.namespace(STATES, namespace).rstrip("/")
        names = {topic if topic.startswith("/") else f"{prefix}/{topic}": topic for topic in INPUTS + ANSWERS}
        topics = _Topics()
        for connection, time_ns, data, message in opened.messages(lambda one: one.topic in names):
            topics.messages.setdefault(names[connection.topic], []).append((time_ns, data, message))
        return _inputs(bag, topics)


def _inputs(bag: Path, topics: _Topics) -> RecordedInputs:
    old = [name for name in (COMMANDS, CLARKE, REFERENCE) if topics[name] and not hasattr(topics[name][0][2], "writer")]
    if old or (topics[STATUS] and not hasattr(topics[STATUS][0][2], "state")):
        problem = f"has {(old or [STATUS])[0]} as an earlier version recorded it"
        raise RecordingError(bag, problem, "Replay it with the version that recorded it; report reads it")
    if not topics[STATES]:
        there = ", ".join(name for name, messages in topics.messages.items() if messages) or "no topic of this stack"
        raise RecordingError(bag, f"has no messages on {STATES} (there are: {there})", "Record tendon_states")
    answered = frozenset(topic for topic in ANSWERS if topics[topic])
    if not answered:
        raise RecordingError(bag, f"has no messages on {', '.join(ANSWERS)}", "Record at least one of them too")
    states = _states(topics)
    plain = (REFERENCE, PARAMETERS, FIBER) if topics[SHAPE] else (REFERENCE, PARAMETERS, FIBER, STRINGS)
    given = [Given(time_ns, topic, data) for topic in plain for time_ns, data, _ in topics[topic]]
    given += _statuses(topics, states)
    steps: list[Given | State] = [*given, *states]
    steps.sort(key=_order)
    return RecordedInputs(tuple(steps), answered, len(topics[STATES][0][2].displacement))


def _order(step: Given | State) -> tuple[int, int]:
    """A node takes one after the other: a reference that came before a command was computed went into it.

    In lock-step many things are at one time: references of a state's time answer that state. Curvatures of a fibre
    stand at the time at which it was read, and come up to a period of the shape later: after that time's state.
    """
    if isinstance(step, State):
        return step.time_ns, 1
    return step.time_ns, 2 if step.topic in (REFERENCE, FIBER) else 0


def _states(topics: _Topics) -> list[State]:
    computed_ns = {message.sequence: stamp_ns(message) for _, _, message in topics[COMMANDS]}
    shapes_ns = {message.sequence: stamp_ns(message) for _, _, message in topics[SHAPE]}
    contacts = {message.sequence for _, _, message in topics[CONTACT]}
    strings = _Strings(topics[STRINGS])
    seen = set(computed_ns) | {message.sequence for _, _, message in topics[CLARKE]}
    both = {message.sequence for _, _, message in topics[STATES]}
    # The recording of a replay has those that the controller passed over as the estimator got them only.
    others = [entry for entry in topics[DECIMATED] if entry[2].sequence not in both]
    states: list[State] = []
    for received_ns, data, message in sorted([*topics[STATES], *others], key=lambda entry: entry[0]):
        sequence = message.sequence
        known = ((COMMANDS, computed_ns), (SHAPE, shapes_ns), (CONTACT, contacts))
        # A busy controller takes the newest state only. Where it is not to command, it makes no difference.
        sent = message.commanded_tension if len(message.commanded_tension) else message.commanded_displacement
        controlled = sequence in both and (sequence in seen or not math.isfinite(sent[0]) or not computed_ns)
        taken: list[bytes] = []
        if sequence in shapes_ns:
            # A shape without strings has the stamp of its state; in lock-step one with strings may have that too.
            alone = shapes_ns[sequence] == stamp_ns(message) and not strings.were_acquired(shapes_ns[sequence])
            taken = strings.until_lost(received_ns) if alone else strings.until_acquired(shapes_ns[sequence])
        states.append(
            State(
                computed_ns.get(sequence, received_ns),
                sequence,
                data,
                controlled=controlled,
                strings=tuple(taken),
                answers=frozenset(topic for topic, sequences in known if sequence in sequences),
            )
        )
    return states


class _Strings:
    """Hands out the strings' readings in order, each once."""

    def __init__(self, messages: list[tuple[int, bytes, Any]]) -> None:
        self._messages = messages
        self._next = 0
        self._index = {_acquired_ns(message): index for index, (_, _, message) in enumerate(messages)}

    def were_acquired(self, time_ns: int) -> bool:
        """Whether there is a reading of this time."""
        return time_ns in self._index

    def until_acquired(self, time_ns: int) -> list[bytes]:
        """Up to the one that was acquired at this time; none where there is no such one."""
        return self._take(self._index.get(time_ns, -1) + 1)

    def until_lost(self, time_ns: int) -> list[bytes]:
        """For a shape without strings: none while none was used, else up to one that knows nothing, or till then."""
        if self._next == 0:
            return []
        end = bisect.bisect_right(self._messages, time_ns, key=lambda entry: entry[0])
        late = bisect.bisect_right(self._messages, time_ns + _LATE_NS, key=lambda entry: entry[0])
        unknown = [
            index for index in range(self._next, late) if not np.isfinite(self._messages[index][2].extension).any()
        ]
        return self._take(unknown[0] + 1 if unknown else end)

    def _take(self, end: int) -> list[bytes]:
        taken = [data for _, data, _ in self._messages[self._next : end]]
        self._next = max(self._next, end)
        return taken


def _statuses(topics: _Topics, states: list[State]) -> Iterator[Given]:
    """The driver's states, placed by the answers: the recorder heard of them at another time than the controller.

    "active" is just before the first state that was answered under it, another just after the last one before it.
    """
    answered = [state.time_ns for state in states if COMMANDS in state.answers]
    until_ns: int | None = None
    given: list[Given] = []
    for time_ns, data, message in reversed(topics[STATUS]):
        place_ns = time_ns
        if message.state == _ACTIVE:
            index = bisect.bisect_left(answered, time_ns - _STATUS_LEAD_NS)
            place_ns = until_ns = answered[index] if index < len(answered) else time_ns
        else:
            index = len(answered) if until_ns is None else bisect.bisect_left(answered, until_ns)
            place_ns = max(time_ns, answered[index - 1] + 1) if index else time_ns
        given.append(Given(place_ns, STATUS, data))
    yield from reversed(given)


def _acquired_ns(message: Any) -> int:
    """When a reading of the strings was acquired: its stamp less the age of the oldest that is known."""
    age = np.asarray(message.age)[np.isfinite(message.extension)]
    return stamp_ns(message) - (round(float(age.max()) * 1e9) if age.size else 0)
