# SPDX-License-Identifier: Apache-2.0
"""Who gives the reference: the choice, the turn to write, and a slider for each Clarke coordinate."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Answer, Commander
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.gui import Program, note
from continuum_robot.app.view.steering_range import on_step, reach_of, slider_step, unit_of
from continuum_robot.control.motion import motion_limits
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]
P = ParamSpec("P")

TRAJECTORY, SLIDERS, TIP, PLANE = "Trajectory", "Sliders", "Drag the tip", "Drag in the Clarke plane"
CHOICES = (TRAJECTORY, SLIDERS, TIP, PLANE)
NOBODY, HOLDS, PLAYS = "nobody", "nobody: the robot holds", f"{SOURCE} steers"


def _alone(method: Callable[Concatenate[Steering, P], None]) -> Callable[Concatenate[Steering, P], None]:
    """Choices, answers and frames come in threads of their own: one of them acts at a time."""

    @functools.wraps(method)
    def alone(steering: Steering, *arguments: P.args, **named: P.kwargs) -> None:
        with steering._lock:
            method(steering, *arguments, **named)

    return alone


class Steering:
    """Takes the turn to write references, and gives it back."""

    def __init__(self, server: viser.ViserServer, commander: Commander, robot: Robot, status: Status) -> None:
        self._gui, self._commander, self._robot, self._status = server.gui, commander, robot, status
        self.reach, self.unit = reach_of(robot), unit_of(robot)
        self.tip_by_stack = len(self.reach.names) > 1
        self.mode: Any = server.gui.add_dropdown("Steer", (NOBODY, *CHOICES), hint="Who gives the reference.")
        self.mode.on_update(lambda _event: self._choose(self.mode.value))
        status.start.on_click(lambda _event: self.leave())
        self.sliders: list[Any] = []
        self.chosen_s = -math.inf
        self._program = Program()
        self._lock = threading.RLock()
        self._snapshot = RobotState()
        self._desired: Array | None = None
        self._chosen = self._writer_before = ""
        self._question: object = None

    def add_sliders(self) -> None:
        """The sliders, in the container that is open."""
        reach, per_m = self.reach, self.unit.per_m
        self._gui.add_html(note(f"Clarke coordinates, {self.unit.name}:" if len(reach.names) > 1 else ""))
        for name, low, high in zip(reach.names, reach.low_m, reach.high_m, strict=True):
            step = slider_step(per_m * (high - low))
            slider = self._gui.add_slider(
                name, min=on_step(per_m * low, step), max=on_step(per_m * high, step), step=step,
                initial_value=0.0, hint=f"{self.unit.name}. Moving it takes the reference over.",
            )  # fmt: skip
            slider.on_update(lambda _event: self._slide())
            self.sliders.append(slider)

    @property
    def target(self) -> Array:
        """Clarke coordinates that were aimed at, else those of the reference, shape (coordinates,), m; may be empty."""
        return self._snapshot.reference_m if self._desired is None else self._desired

    def aim(self, target: Array) -> None:
        """Steer towards a target within reach, where the page steers."""
        self._desired = np.clip(target, self.reach.low_m, self.reach.high_m)
        self._commander.aim(self._desired)

    def asking(self, answer: Answer) -> Answer:
        """Until the answer, the turn is neither taken nor lost; a later question makes it void."""
        question = self._question = object()

        def answered(success: bool, sentence: str) -> None:
            with self._lock:
                if self._question is question:
                    answer(success, sentence)
                if self._question is question:  # the answer asked nothing else
                    self._question = None

        return answered

    @_alone
    def leave(self) -> None:
        """Fall silent; the reference source, or nobody, gives the reference."""
        self._commander.drop_reference()
        chosen, self._chosen, self._desired = self._chosen, "", None
        self._show_who_steers(chosen)

    @_alone
    def update(self, snapshot: RobotState) -> None:
        """Leave where the turn is lost; sliders that no hand moves follow the reference."""
        self._snapshot = snapshot
        self._leave_when_taken()
        self._show_who_steers(self._chosen)
        if self.mode.value != SLIDERS and snapshot.reference_m.size == len(self.sliders):
            for slider, value in zip(self.sliders, snapshot.reference_m, strict=True):
                shown = on_step(float(np.clip(self.unit.per_m * value, slider.min, slider.max)), slider.step)
                if slider.value != shown:
                    self._program.move(slider, shown)

    def close(self) -> None:
        """Give the reference back."""
        if self._commander.steering:
            done = threading.Event()
            self._commander.hand_back(lambda _success, _sentence: done.set())
            done.wait(1.0)

    def _show_who_steers(self, shown: str) -> None:
        """While this page does not steer, an entry names who does: so every other one is a change, and acts."""
        value = self.mode.value
        if value in CHOICES and value != shown:
            return
        desired = self._chosen or self._other
        options = CHOICES if self._chosen else (desired, *CHOICES)
        if (self.mode.options, value) != (options, desired):
            self._program.move(self.mode, desired, options=options, seen=value)

    @property
    def _other(self) -> str:
        snapshot, writer = self._snapshot, self._commander.writer
        if not (snapshot.obeys and snapshot.alive):
            return NOBODY
        if writer in ("", SOURCE, self._commander.name):
            return HOLDS if snapshot.holding or writer != SOURCE else PLAYS
        return f"{writer} steers"

    @_alone
    def _choose(self, mode: str) -> None:
        if self._program.moves or mode not in CHOICES:
            return
        self._question = object()  # before the choice: what is being asked for is not lost yet
        self._chosen, self.chosen_s, self._writer_before = mode, time.monotonic(), self._commander.writer
        if mode in (TRAJECTORY, TIP):
            self._desired = None
        if mode == TRAJECTORY:
            self._commander.play(self.asking(self._played))
        elif mode == TIP and self.tip_by_stack:
            self._status.show("The robot holds. Drag the axes at the tip: it brings its tip there.")
            self._commander.hold(self.asking(self._status.show_if_refused))
        elif self._commander.steering:
            self._question = None
        else:
            self._take()

    def _played(self, _success: bool, sentence: str) -> None:
        self._status.show(f"{SOURCE}: {sentence}")
        self.leave()

    def _take(self) -> None:
        snapshot = self._snapshot
        start = snapshot.reference_m if snapshot.reference_m.size else snapshot.clarke_m
        if start.size != len(self.sliders) or snapshot.driver != "active":
            self._status.show("The robot is not under control: nothing to steer. See the state above.")
            self._question = None
            self.leave()
            return

        def taken(success: bool, sentence: str) -> None:
            self._status.show(f"You steer now: {sentence}." if success else f"Refused: {sentence}")
            if not success:
                self.leave()
            elif self._desired is not None:
                self._commander.aim(self._desired)

        self._commander.take_reference(start, motion_limits(self._robot), self.asking(taken))

    @_alone
    def _slide(self) -> None:
        if self._program.moves:
            return
        writer = self._commander.writer
        chosen = self._chosen == SLIDERS or self._commander.steering
        if not chosen and writer not in ("", SOURCE, self._commander.name):
            # Another page, client or pad steers. Taking over from a person is a choice, no touch of a slider.
            self._status.show(f"{writer} steers. Choose {SLIDERS} under Steer to take over.")
            return
        self.aim(1.0 / self.unit.per_m * np.array([slider.value for slider in self.sliders]))
        if self.mode.value != SLIDERS:
            self.mode.value = SLIDERS

    def _leave_when_taken(self) -> None:
        """Somebody else took the reference, or the robot stopped: the page steers no more."""
        snapshot, writer = self._snapshot, self._commander.writer
        if not self._chosen or self._question is not None:
            return
        if writer != self._writer_before:
            self._writer_before = ""
        if self._chosen == TIP and self.tip_by_stack:
            lost = writer not in ("", SOURCE, self._commander.name, self._writer_before, *snapshot.nodes)
        else:
            lost = not self._commander.steering
        if lost or snapshot.stack == "fault" or not snapshot.alive:
            self.leave()
            self._status.show(
                f"You do not steer any more: {writer or 'nobody'} gives the reference."
                if lost and snapshot.alive
                else "You do not steer any more: the robot stopped."
            )
