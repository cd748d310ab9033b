# SPDX-License-Identifier: Apache-2.0
"""Who holds the e-stop: every publisher of the topic and every button by itself, gone and silent ones too."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from continuum_robot.runtime.hang_watch import OwnGap

GONE_S = 2.0
"""A publisher that the graph does not show for so long has gone; a new one may not be shown at once."""
UNNAMED = "a publisher of the topic estop"
RELEASE = "where it has gone for good, the service release_estop lets go of it"


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that holds the e-stop."""

    name: str
    state: str
    there: bool
    latches: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.state}" + ("" if self.there else f" ({RELEASE})")


@dataclass(slots=True)
class _Switch:
    """A publisher of the topic."""

    pressed: bool
    name: str
    unseen_since_s: float = math.inf


@dataclass(slots=True)
class _Sender:
    """A program that sends the heartbeat of a button."""

    pressed: bool
    sequence: int
    heard_s: float


@dataclass(slots=True)
class _Button:
    """A button by the programs that send its heartbeat: one, or something is wrong."""

    senders: dict[bytes, _Sender] = field(default_factory=dict)
    state: str = ""
    there: bool = True


class EstopInputs:
    """Keeps the last state of each publisher of ``estop`` and each button of ``estop_button``.

    A publisher that published true and has gone holds the e-stop on; so does a button whose heartbeat is lost. Several
    threads may use it.
    """

    def __init__(self, button_timeout_s: float, needed: Iterable[str] = ()) -> None:
        self._timeout_s = button_timeout_s
        self._gap = OwnGap(button_timeout_s / 2)
        self._switches: dict[bytes, _Switch] = {}
        self._buttons = {name: _Button(state="is a button that was never heard") for name in needed}
        self._lock = threading.Lock()

    def switch(self, publisher: bytes, *, pressed: bool) -> None:
        """A publisher of the topic published its state."""
        with self._lock:
            switch = self._switches.get(publisher)
            if switch is not None:
                switch.pressed = pressed
            elif pressed:
                name = f"publisher {publisher.hex('.')}" if publisher else UNNAMED
                self._switches[publisher] = _Switch(pressed, name)

    def button(self, name: str, publisher: bytes, *, pressed: bool, sequence: int, now_s: float) -> None:
        """A heartbeat of a button."""
        with self._lock:
            button = self._buttons.setdefault(name, _Button())
            sender = button.senders.get(publisher)
            if sender is None:
                button.senders[publisher] = _Sender(pressed, sequence, now_s)
            elif sequence != sender.sequence:
                sender.pressed, sender.sequence, sender.heard_s = pressed, sequence, now_s
            else:
                sender.pressed |= pressed
            self._judge(button, now_s)

    def judge(self, now_s: float) -> None:
        """Find the buttons that fell silent. To be called a few times within the timeout."""
        with self._lock:
            if self._gap.look(now_s):
                return  # heartbeats wait to be read
            for button in self._buttons.values():
                self._judge(button, now_s)

    def see(self, publishers: Mapping[bytes, str], now_s: float) -> None:
        """Who publishes on the topic now."""
        with self._lock:
            for publisher, switch in list(self._switches.items()):
                if publisher in publishers or not publisher:
                    switch.name, switch.unseen_since_s = publishers.get(publisher, switch.name), math.inf
                    continue
                switch.unseen_since_s = min(switch.unseen_since_s, now_s)
                if not switch.pressed:
                    del self._switches[publisher]

    @property
    def known(self) -> bool:
        """Whether anything was heard that has to be watched."""
        with self._lock:
            return bool(self._switches or self._buttons)

    def holders(self, now_s: float) -> tuple[Holder, ...]:
        """Who holds the e-stop now."""
        with self._lock:
            switches = [
                Holder(
                    switch.name,
                    "reports true on the topic estop" if there else "reported true on the topic estop and has gone",
                    there,
                )
                for switch in self._switches.values()
                if switch.pressed
                for there in (now_s - switch.unseen_since_s < GONE_S,)
            ]
            buttons = [
                Holder(name, button.state, button.there, latches=bool(button.senders))
                for name, button in self._buttons.items()
                if button.state
            ]
        return (*switches, *buttons)

    def release(self, name: str, now_s: float) -> str:
        """Let go in place of a holder that has gone."""
        holders = self.holders(now_s)
        named = [holder for holder in holders if holder.name == name]
        if not named:
            return f"{name!r} does not hold the e-stop; " + (
                f"who does: {', '.join(holder.name for holder in holders)}" if holders else "nobody does"
            )
        there = [holder for holder in named if holder.there]
        if there:
            return f"{there[0]}: only who has gone is released by others, release it there"
        with self._lock:
            self._buttons.pop(name, None)
            for publisher, switch in list(self._switches.items()):
                if switch.name == name and switch.pressed and now_s - switch.unseen_since_s >= GONE_S:
                    del self._switches[publisher]
        return ""

    def _judge(self, button: _Button, now_s: float) -> None:
        alive = {who: one for who, one in button.senders.items() if now_s - one.heard_s <= self._timeout_s}
        button.there = bool(alive) or not button.senders
        if not button.senders:
            return
        if not alive:
            button.state = "is a button whose heartbeat is lost"
            return
        button.senders = alive  # who sent it before was replaced
        if len(alive) > 1:
            button.state = f"is a button with {len(alive)} senders: give each a name of its own"
        else:
            (sender,) = alive.values()
            button.state = "is a button that is pressed" if sender.pressed else ""
