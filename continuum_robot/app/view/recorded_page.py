# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot view`` of recordings: no stack runs, nothing is asked of ROS, and only time can be moved."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.recordings.playback import Playback, read_playback
from continuum_robot.app.view.controls.player import Player
from continuum_robot.app.view.controls.status import banner
from continuum_robot.app.view.curves import DURATION_S, POINTS
from continuum_robot.app.view.gui import note, show
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.panel import STYLE
from continuum_robot.app.view.served_page import ServedPage
from continuum_robot.nodes.base.spinning import StopRequest

_CURVE_STEP_S = DURATION_S / POINTS
_TRAIL_S, _TRAIL_STEP_S = 5.0, 0.05
_MOST_MOMENTS = 8


class RecordedPage(ServedPage):
    """The page of one recording, or of several on one time."""

    def __init__(self, options: ViewOptions, runs: Sequence[Playback]) -> None:
        self._runs = runs
        self._filled = -math.inf
        self._shifts: list[float] = []
        for run in runs:
            run.state(0.0)  # what cannot be read is said before the page is served
        log = logging.getLogger("continuum_robot.view").warning
        super().__init__(options, [run.robot for run in runs], [run.name for run in runs], log)

    def _make_panel(self) -> None:
        self.panel = _Panel(self._server, self._runs)

    def _take(self, now_s: float) -> list[RobotState]:
        player = self.panel.player
        states = self._states(player.times_s(now_s))
        player.update(now_s)
        self._fill_curves(player.time_s)
        return states

    def _states(self, times_s: Sequence[float]) -> list[RobotState]:
        return [run.state(time_s) for run, time_s in zip(self._runs, times_s, strict=True)]

    def _fill_curves(self, time_s: float) -> None:
        """Let the curves have the last seconds: what is new, or all of it where the time was moved."""
        player = self.panel.player
        last = math.floor(time_s / _CURVE_STEP_S)
        shifts = player.at(0.0)
        first = self._filled + 1
        if shifts != self._shifts or not last - POINTS < first <= last + 1:
            self._curves.clear()
            first, self._shifts = last - POINTS, shifts
            self._retrace(time_s)
        for step in range(max(int(first), 0), last + 1):
            self._curves.add(self._states(player.at(step * _CURVE_STEP_S)))
        self._filled = last

    def _retrace(self, time_s: float) -> None:
        times_s = [player_s for player_s in np.arange(time_s - _TRAIL_S, time_s, _TRAIL_STEP_S) if player_s >= 0.0]
        states = [self._states(self.panel.player.at(float(at_s))) for at_s in times_s]
        for number, shown in enumerate(self.shown):
            shown.scene.retrace([state[number] for state in states])

    def _draw(self) -> float:
        for shown, run, state in zip(self.shown, self._runs, self.snapshots, strict=True):
            shown.draw(state, self.limit_n, run["obstacles"])
        return float(self.panel.player.time_s)


class _Panel:
    """Time, and the state of each run in words."""

    def __init__(self, server: Any, runs: Sequence[Playback]) -> None:
        server.gui.add_html(STYLE)
        moments = [run.moments() for run in runs]
        marks_s = [at_s for at_s, _ in moments[0]] if len(runs) == 1 else []
        self.player = Player(server, [run.name for run in runs], [run.duration_s for run in runs], marks_s)
        self._words = []
        for run, own in zip(runs, moments, strict=True):
            seen = "".join(f"; {what} at {at_s:.1f} s" for at_s, what in own[:_MOST_MOMENTS])
            more = f" and {len(own) - _MOST_MOMENTS} more" if len(own) > _MOST_MOMENTS else ""
            cut = ", cut off" if run.run.was_cut else ""
            server.gui.add_html(note(f"{run.name}: {run.robot.name}, {run.duration_s:.1f} s{cut}{seen}{more}"))
            self._words.append(server.gui.add_html(""))

    def update(self, snapshots: Sequence[RobotState]) -> None:
        """Bring the words up to date."""
        for words, snapshot in zip(self._words, snapshots, strict=True):
            show(words, "content", banner(snapshot, recorded=True))

    def close(self) -> None:
        """Nothing is to be given back."""


def run_view_of_recordings(options: ViewOptions, runs: Sequence[Path]) -> int:
    """Serve the page until Ctrl-C."""
    robot, namespace = options.robot or None, options.namespace or None
    with StopRequest(last=True) as stop, RecordedPage(
        options, [read_playback(run, robot, namespace) for run in runs]
    ) as page:  # fmt: skip
        sys.stdout.write(f"{page.address}\n")
        sys.stdout.flush()
        while not stop.wait(page.frame()):
            pass
    return 143 if stop.signal_name == "SIGTERM" else 130
