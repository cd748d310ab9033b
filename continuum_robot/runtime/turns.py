# SPDX-License-Identifier: Apache-2.0
"""Lock-step without its messages: timers on simulated time, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from continuum_robot.errors import ParameterError
from continuum_robot.runtime.clock import Clock

NEVER_NS = 2**63 - 1
"""Due time of what is not due at all."""


class SteppedTimer:
    """A timer on simulated time; stopped until :meth:`start`."""

    def __init__(self, clock: Clock, callback: Callable[[], None], on_change: Callable[[], None]) -> None:
        self._clock, self.callback, self._on_change = clock, callback, on_change
        self._period_ns = 0
        self.due_ns = NEVER_NS

    def start(self, period_s: float) -> None:
        """Be due a period from now, and then periodically."""
        period_ns = round(period_s * 1e9)
        if period_ns < 1:
            raise ParameterError("period_s", period_s, "at least 1e-9 s")
        self._period_ns = period_ns
        self.due_ns = self._clock.monotonic_ns() + period_ns
        self._on_change()

    def cancel(self) -> None:
        """Be not due any more."""
        if self.due_ns != NEVER_NS:
            self.due_ns = NEVER_NS
            self._on_change()

    def advance(self, now_ns: int) -> None:
        """To the next due time after ``now_ns``, ns, on the grid of periods: what was missed is skipped."""
        self.due_ns += self._period_ns * (1 + (now_ns - self.due_ns) // self._period_ns)


class SteppedTimers:
    """All timers of a node."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock, self._on_change = clock, on_change
        self._timers: list[SteppedTimer] = []

    def create(self, callback: Callable[[], None]) -> SteppedTimer:
        """A further timer, stopped."""
        timer = SteppedTimer(self._clock, callback, self._on_change)
        self._timers.append(timer)
        return timer

    @property
    def next_due_ns(self) -> int:
        """When the next timer is due, ns; NEVER_NS for none."""
        return min((timer.due_ns for timer in self._timers), default=NEVER_NS)

    def fire(self, now_ns: int) -> None:
        """Call what is due, in the order of due times, then of creation; each timer once."""
        while True:
            # min() keeps the first of equals.
            timer = min(self._timers, key=lambda timer: timer.due_ns, default=None)
            if timer is None or timer.due_ns > now_ns:
                return
            timer.advance(now_ns)
            timer.callback()


@dataclass(slots=True)
class Member:
    """What is known of a participant in lock-step."""

    name: str
    heard: tuple[str, ...] = ()
    next_due_ns: int = NEVER_NS
    given: dict[str, int] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    here: bool = False


class Turns:
    """Whose turn it is: the participants with messages that they were not given, or with a timer that is due."""

    def __init__(self, names: Iterable[str]) -> None:
        self.members = {name: Member(name) for name in names}
        self.totals: dict[str, int] = {}

    def count(self, topic: str, messages: int = 1) -> None:
        """Note messages of the coordinator itself, or of a participant."""
        self.totals[topic] = self.totals.get(topic, 0) + messages

    def note(self, name: str, published: Mapping[str, int], heard: tuple[str, ...], next_due_ns: int) -> None:
        """Take a participant's answer; one of a name that takes no part is ignored."""
        member = self.members.get(name)
        if member is None:
            return
        for topic, number in published.items():
            before = member.published.get(topic, 0)
            self.count(topic, number - before if number >= before else number)
            member.published[topic] = number
        member.heard, member.next_due_ns, member.here = heard, next_due_ns, True

    def unheard(self, member: Member) -> list[str]:
        """Topics with messages that a participant was not given."""
        totals, given = self.totals, member.given
        return [topic for topic in member.heard if totals.get(topic, 0) > given.get(topic, 0)]

    def is_due(self, member: Member, now_ns: int) -> bool:
        """Whether it is a participant's turn."""
        if member.next_due_ns <= now_ns:
            return True
        totals, given = self.totals, member.given
        for topic in member.heard:
            if totals.get(topic, 0) > given.get(topic, 0):
                return True
        return False

    def give(self, member: Member) -> None:
        """Note that a participant gets everything that was published so far."""
        member.given.update(self.totals)
