# SPDX-License-Identifier: Apache-2.0
"""Lock-step: time comes from the simulated robot, and a step is taken when all that have to act have acted.

The loop of the tendon driver is the clock. At each simulated time it gives turns through
:class:`LockstepCoordinator`, one node after the other in a fixed order, to those that have something to do; nothing
else runs in between, so that two runs publish the same bytes on any computer. The nodes' side is
nodes/lockstep/participant.py.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock as ClockMessage

from continuum_robot.errors import DeviceError
from continuum_robot.msg import LockstepDone, LockstepGo
from continuum_robot.nodes.lockstep.participant import DONE_TOPIC, GO_TOPIC, CountedPublisher, Inbox
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.flat_messages import FlatLayout
from continuum_robot.runtime.clock import SteppedClock
from continuum_robot.runtime.turns import Member, Turns

LIMIT_S = 20.0
"""Wall-clock time after which a participant that does not answer ends the run, s."""
_REPEAT_S = 0.1
_MOST_TURNS = 10_000
_ADVICE = "Look into its log; it may have ended, hang in a callback, or run without clock:=lockstep"


@dataclass(slots=True)
class _Line:
    """What is needed to give a participant its turn."""

    publisher: Any
    layout: FlatLayout | None = None
    numbers: Any = None
    topics: int = -1


class LockstepCoordinator:
    """Gives turns, and counts the messages of lock-step. Made with the driver's node and kept as long as it.

    All methods but those that make publishers and subscriptions are for the loop's thread; the node is spun in another.
    """

    def __init__(
        self,
        node: Node,
        clock: SteppedClock,
        *,
        limit_s: float = LIMIT_S,
        while_waiting: Callable[[], None] = lambda: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node, self._clock, self._limit_s = node, clock, limit_s
        self._while_waiting, self._interrupted = while_waiting, interrupted
        self._turns = Turns(())
        self._lines: dict[str, _Line] = {}
        self._step = 0
        self._awaited: tuple[str, int] | None = None
        self._asked: set[str] = set()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._answers: deque[bytes] = deque()
        self._closed = False
        self._inboxes: list[Inbox] = []
        self._done_layouts: dict[bytes, FlatLayout] = {}
        self._done_texts: dict[bytes, tuple[str, list[str], tuple[str, ...]]] = {}
        self._clock_message = ClockMessage()
        self._clocks = node.create_publisher(ClockMessage, "/clock", qos.state_publisher())
        node.create_subscription(LockstepDone, DONE_TOPIC, self._on_done, qos.lockstep_turns(), raw=True)

    # Messages of the coordinator itself

    def create_publisher(self, kind: Any, topic: str) -> CountedPublisher:
        """A publisher whose messages are counted."""
        return CountedPublisher(self._node, kind, topic, self._on_publish)

    def listen(
        self, kind: Any, topic: str, callback: Callable[..., None], *, raw: bool = False, with_gid: bool = False
    ) -> None:
        """Hear a topic of the participants; the callback is called by :meth:`wait_heard`."""
        self._inboxes.append(
            Inbox(self._node, kind, topic, callback, raw=raw, with_gid=with_gid, on_heard=self._signal)
        )

    def wait_heard(self) -> bool:
        """Handle everything that the participants have published on the topics that are listened to."""
        end_s = None
        for inbox in self._inboxes:
            while inbox.heard < self._turns.totals.get(inbox.topic, 0):
                end_s = time.monotonic() + self._limit_s if end_s is None else end_s
                if self._given_up:
                    return False
                if not self._wait(end_s) and not self._given_up and inbox.heard < self._turns.totals[inbox.topic]:
                    count = self._turns.totals[inbox.topic]
                    raise DeviceError(
                        "lock-step",
                        f"{inbox.heard} of {count} messages of {inbox.topic} came within {self._limit_s:g} s",
                        "A node other than the participants may publish there, or DDS lost some",
                    )
            inbox.handle()
        return True

    def publish_clock(self, now_ns: int) -> None:
        """Publish the time on /clock, for tools and nodes with use_sim_time that take no part."""
        conversions.set_stamp(self._clock_message.clock, now_ns)
        self._clocks.publish(self._clock_message)

    # Turns

    def wait_for(self, names: Sequence[str], timeout_s: float = 60.0) -> bool:
        """Ask who is there, and wait until all have answered and heard everything so far; time stands still.

        To be called before time begins, when all nodes are active, and again after one was activated meanwhile.
        """
        for name in names:
            if name not in self._turns.members:
                self._turns.members[name] = Member(name)
                publisher = self._node.create_publisher(LockstepGo, f"{name}/{GO_TOPIC}", qos.lockstep_turns())
                self._lines[name] = _Line(publisher)
        for name in [name for name in self._turns.members if name not in names]:
            del self._turns.members[name]
        self._turns.members = {name: self._turns.members[name] for name in names}
        self._asked = set(names)
        end_s = time.monotonic() + timeout_s
        while self._asked and not self._given_up:
            for name in sorted(self._asked):
                self._send(self._turns.members[name], 0, self._clock.now_ns())
            self._wait(min(end_s, time.monotonic() + _REPEAT_S))
            if self._asked and time.monotonic() > end_s:
                raise DeviceError(
                    "lock-step", f"no answer of {', '.join(sorted(self._asked))} within {timeout_s:g} s", _ADVICE
                )
        return not self._asked

    def run_due(self, now_ns: int) -> bool:
        """Give turns until nobody has anything to do at this time."""
        self._clock.set_ns(now_ns)
        self._take_answers()
        turns, before = self._turns, self._step
        while True:
            somebody = False
            for member in turns.members.values():
                if turns.is_due(member, now_ns):
                    somebody = True
                    if not self._give(member, now_ns):
                        return False
            if not somebody:
                return True
            if self._step - before > _MOST_TURNS:
                raise DeviceError(
                    "lock-step",
                    f"{_MOST_TURNS} turns at {now_ns * 1e-9:.6f} s",
                    "Two nodes answer each other endlessly",
                )

    def run_all(self, now_ns: int) -> bool:
        """Give everybody a turn, those too that let messages wait, and then to who has something to do."""
        self._clock.set_ns(now_ns)
        self._take_answers()
        for member in self._turns.members.values():
            if not self._give(member, now_ns):
                return False
        return self.run_due(now_ns)

    @property
    def published(self) -> Mapping[str, int]:
        """Messages of each topic so far, by its full name."""
        return self._turns.totals

    def wake(self) -> None:
        """Have ``while_waiting`` called soon, where a turn is waited for. Safe to call at any time."""
        self._signal()

    def close(self) -> None:
        """End a wait that is under way in another thread, and all later ones, at once. Safe to call at any time."""
        self._closed = True
        self._signal()

    def reopen(self) -> None:
        """Wait again, after :meth:`close`."""
        self._closed = False

    @property
    def _given_up(self) -> bool:
        return self._closed or self._interrupted()

    def _give(self, member: Member, now_ns: int) -> bool:
        reasons = self._turns.unheard(member)
        was_due = member.next_due_ns <= now_ns
        self._step += 1
        self._awaited = member.name, self._step
        self._turns.give(member)
        self._send(member, self._step, now_ns)
        end_s = time.monotonic() + self._limit_s
        while self._awaited is not None and not self._given_up:
            if not self._wait(end_s) and self._awaited is not None and not self._given_up:
                waits = [f"message {self._turns.totals[topic]} of {topic}" for topic in reasons]
                waits += ["a timer that is due"] if was_due else []
                raise DeviceError(
                    "lock-step",
                    f"{member.name} did not answer within {self._limit_s:g} s at {now_ns * 1e-9:.6f} s "
                    f"(turn {self._step}, for {' and '.join(waits)})",
                    _ADVICE,
                )
        return self._awaited is None

    def _send(self, member: Member, step: int, now_ns: int) -> None:
        line, totals = self._lines[member.name], self._turns.totals
        layout = line.layout
        if layout is None or line.topics != len(totals):
            message = LockstepGo(participant=member.name, topics=list(totals), published=[0] * len(totals))
            layout = line.layout = FlatLayout(message)
            line.numbers, line.topics = layout.editable(), len(totals)
        numbers, place = line.numbers, layout.place
        numbers[place["step"]], numbers[place["time_ns"]] = step, now_ns
        numbers[place["published"]] = list(totals.values())
        line.publisher.publish(layout.to_bytes(numbers))

    def _wait(self, end_s: float) -> bool:
        """Until something came; False at the end."""
        came = self._wake.acquire(timeout=max(0.0, end_s - time.monotonic()))
        self._while_waiting()
        self._take_answers()
        return came

    def _take_answers(self) -> None:
        answers = self._answers
        while answers:
            self._take_answer(answers.popleft())

    def _on_publish(self, publisher: CountedPublisher) -> None:
        self._turns.count(publisher.topic)

    def _take_answer(self, data: bytes) -> None:
        length = int.from_bytes(data[12:16], "little")
        key = data[16 : 16 + length]
        layout = self._done_layouts.get(key)
        numbers = layout.numbers(data) if layout is not None else ()
        if layout is None or not numbers:
            done = deserialize_message(data, LockstepDone)
            layout = self._done_layouts[key] = FlatLayout(done)
            self._done_texts[key] = done.participant, list(done.topics), tuple(done.heard)
            numbers = layout.numbers(data)
        name, topics, heard = self._done_texts[key]
        place = layout.place
        step = numbers[place["step"]]
        counts = numbers[place["published"]]
        self._turns.note(name, dict(zip(topics, counts, strict=True)), heard, numbers[place["next_due_ns"]])
        if step == 0:
            self._asked.discard(name)
        elif self._awaited == (name, step):
            self._awaited = None

    # In the executor's thread

    def _on_done(self, data: bytes) -> None:
        self._answers.append(data)
        self._signal()

    def _signal(self) -> None:
        with contextlib.suppress(RuntimeError):  # it was signalled already
            self._wake.release()
