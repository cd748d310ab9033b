# SPDX-License-Identifier: Apache-2.0
"""The time of recordings: a slider, play and pause, speed, and when each run begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import viser

from continuum_robot.app.view.gui import Program, note, show

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "5": 5.0, "10": 10.0}
_SLIDER_STEP_S = 0.01
_FOLLOW_S = 0.1
"""How often the slider follows while the recording plays."""


class Player:
    """Which time is shown, in the container that is open.

    Attributes
    ----------
    time_s : that is shown, s from the beginning of the first run
    """

    def __init__(
        self,
        server: viser.ViserServer,
        names: Sequence[str],
        durations_s: Sequence[float],
        marks_s: Sequence[float] = (),
    ) -> None:
        gui = server.gui
        self.time_s, self.plays = 0.0, False
        self._durations_s = durations_s
        self._end_s = max(durations_s)
        self._program = Program()
        self._stepped_s = self._followed_s = -math.inf
        self.slider: Any = gui.add_slider(
            "time, s", min=0.0, max=self._last_s, step=_SLIDER_STEP_S, initial_value=0.0,
            hint="Seconds from the first message.",
            marks=((0.0, "0"), *marks_s, (self._last_s, f"{self._last_s:g}")) if marks_s else None,
        )  # fmt: skip
        self.slider.on_update(lambda _event: self._seek())
        self.play: Any = gui.add_button("Play", hint="Plays and pauses; at the end it begins again.")
        self.play.on_click(lambda _event: self._switch())
        self.speed: Any = gui.add_dropdown("speed", tuple(SPEEDS), initial_value="1", hint="Times real time.")
        self.shifts: list[Any] = []
        if len(names) > 1:
            gui.add_html(note("One time for all runs. Move a run to where it belongs, s later than the first:"))
            self.shifts = [
                gui.add_number(f"{number + 2}: {name}", 0.0, step=_SLIDER_STEP_S, hint="Shown so much later, s.")
                for number, name in enumerate(names[1:])
            ]
            for shift in self.shifts:
                shift.on_update(lambda _event: self._reach())

    def times_s(self, now_s: float) -> list[float]:
        """The time of each run that is shown now, s from its own beginning; ``now_s``: of the wall."""
        elapsed_s, self._stepped_s = now_s - self._stepped_s, now_s
        if self.plays and math.isfinite(elapsed_s):
            self.time_s += elapsed_s * SPEEDS[self.speed.value]
            if self.time_s >= self._end_s:
                self.time_s, self.plays = self._end_s, False
        return self.at(self.time_s)

    def at(self, time_s: float) -> list[float]:
        """The time of each run at a common time."""
        return [time_s, *(time_s - float(shift.value) for shift in self.shifts)]

    def update(self, now_s: float) -> None:
        """Let slider and button follow."""
        show(self.play, "label", "Pause" if self.plays else "Play")
        if now_s - self._followed_s > _FOLLOW_S:
            self._followed_s = now_s
            value = round(self.time_s / _SLIDER_STEP_S) * _SLIDER_STEP_S
            if abs(self.slider.value - value) > 0.5 * _SLIDER_STEP_S:
                self._program.move(self.slider, value)

    @property
    def _last_s(self) -> float:
        """The end of the slider, a whole number of its steps."""
        return max(1, math.ceil(self._end_s / _SLIDER_STEP_S - 1e-6)) * _SLIDER_STEP_S

    def _reach(self) -> None:
        """Let the time reach to the end of the last run, wherever it was moved."""
        shifts_s = [0.0, *(float(shift.value) for shift in self.shifts)]
        ends_s = [length_s + shift_s for length_s, shift_s in zip(self._durations_s, shifts_s, strict=True)]
        self._end_s = max(ends_s)
        self.slider.max = self._last_s

    def _seek(self) -> None:
        if not self._program.moves:
            self.time_s = float(self.slider.value)

    def _switch(self) -> None:
        if not self.plays and self.time_s >= self._end_s:
            self.time_s = 0.0
        self.plays = not self.plays
