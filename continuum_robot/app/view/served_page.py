# SPDX-License-Identifier: Apache-2.0
"""What every page has, of a running robot or of recordings: the server, robots, legend and curves, and the frames."""

from __future__ import annotations

import contextlib
import io
import math
import secrets
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.admission import TOKEN, RefusalLog
from continuum_robot.app.view.curves import Curves
from continuum_robot.app.view.guarded_server import HOST, serve
from continuum_robot.app.view.legend import Legend
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.scene import SIDEWAYS, ObstacleScene, Scene, prepare_world
from continuum_robot.models import colors
from continuum_robot.models.drawing import desired_coefficients
from continuum_robot.models.making import robot_model
from continuum_robot.nodes.simulated.obstacles import obstacle_triangles
from continuum_robot.robot.description import Robot

_TOKEN_BYTES = 24
FRAME_S = 1.0 / 30.0
_CURVE_S = 0.1
_WORDS_S = 0.2
_IDLE_S = 0.1
_SENDING_S = 0.02  # viser collects for 1/60 s before it sends
P = TypeVar("P", bound="ServedPage")

_BESIDE = 0.9
"""From one robot to the next, in lengths of the longest."""


class ShownRobot:
    """One robot of a page: what is drawn of it, and the obstacles around it."""

    def __init__(
        self, server: viser.ViserServer, robot: Robot, length_m: float, name: str = "base", folder: str = ""
    ) -> None:
        self.robot, self.model = robot, robot_model(robot)
        self.drawing = self.model.drawing()
        self.scene = Scene(
            server, robot, self.drawing, self.model.largest_push_n or 1.0, length_m=length_m, name=name, folder=folder
        )  # fmt: skip
        self._obstacles = ObstacleScene(server, self.scene.scale, folder)
        self._world: Any = None

    def draw(self, snapshot: RobotState, limit_n: float, world: Any, pushed: Any = None) -> None:
        """Show a state; ``world``: the newest message of obstacles, which is converted once."""
        desired = desired_coefficients(self.drawing, self.robot, snapshot.reference_m)
        self.scene.draw(snapshot, desired, limit_n, pushed)
        if world is not None and world is not self._world:
            self._world = world
            self._obstacles.draw(obstacle_triangles(world))


class ServedPage(ABC):
    """Server and everything on the page. Use as a context manager, and call :meth:`frame` again and again."""

    panel: Any

    def __init__(
        self, options: ViewOptions, robots: Sequence[Robot], names: Sequence[str], log: Callable[[str], object]
    ) -> None:
        self.options = options
        self.refusals = RefusalLog(log)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._server = serve(
            options.port, f"continuum-robot: {', '.join(names)}", token, self.refusals,
            allow_origins=options.allow_origin or (), view_only=options.view_only,
        )  # fmt: skip
        self.address = f"http://{HOST}:{self._server.get_port()}/?{TOKEN}={token}"
        self.frames = 0
        self.draws_unseen = False
        self._drawn_s: deque[float] = deque(maxlen=90)
        self._curves_s = self._words_s = -math.inf
        with self._server.atomic():
            gui = self._server.gui
            gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
            gui.main_panel.dock_right()
            prepare_world(self._server, len(robots))
            self.shown = self._show(robots, names)
            self.scene = self.shown[0].scene
            self.limit_n = max(colors.largest_limit_n(robot) for robot in robots)
            self._make_panel()
            side = gui.add_panel()
            with side.add_tab("What you see"):
                self._legend = Legend(self._server, robots, names, self.limit_n)
                self._curves = Curves(self._server, robots)
            side.dock_left()
            side.set_width(350)
        self.snapshots = [RobotState() for _ in robots]

    def _show(self, robots: Sequence[Robot], names: Sequence[str]) -> list[ShownRobot]:
        """One robot stands in the middle, several beside each other, as large as they are to each other."""
        longest_m = max(robot_model(robot).drawing().length_m for robot in robots)
        if len(robots) == 1:
            return [ShownRobot(self._server, robots[0], longest_m)]
        shown = []
        for number, (robot, name) in enumerate(zip(robots, names, strict=True)):
            folder = f"/{number + 1}"
            place = _BESIDE * (number - (len(robots) - 1) / 2)
            self._server.scene.add_frame(folder, show_axes=False, position=place * SIDEWAYS)
            shown.append(ShownRobot(self._server, robot, longest_m, name, folder))
        return shown

    @abstractmethod
    def _make_panel(self) -> None:
        """Make :attr:`panel`, what a hand can move."""

    @abstractmethod
    def _take(self, now_s: float) -> list[RobotState]:
        """What is shown next, of each robot; the curves keep it."""

    @abstractmethod
    def _draw(self) -> float:
        """Draw the robots; gives the time at which the curves end."""

    @property
    def snapshot(self) -> RobotState:
        """What is shown of the first robot."""
        return self.snapshots[0]

    @property
    def clients(self) -> int:
        """How many browsers look."""
        return len(self._server.get_clients())

    @property
    def frames_hz(self) -> float:
        """Frames a second of the last seconds, 0 while nobody looks."""
        drawn = self._drawn_s
        if len(drawn) < 2 or time.monotonic() - drawn[-1] > 1.0:
            return 0.0
        return (len(drawn) - 1) / (drawn[-1] - drawn[0])

    def frame(self) -> float:
        """Take what is new and show it; gives how long to wait until the next one, s.

        Nothing is sent to browsers while a frame is drawn. So the wait is never shorter than the drawing was: on a
        computer too slow for 30 frames a second the page would draw all the time, and browsers would hear nothing.
        """
        begun_s = time.monotonic()
        self.snapshots = self._take(begun_s)
        watched = self.draws_unseen or self.clients > 0
        with self._server.atomic():
            if begun_s - self._words_s > _WORDS_S:
                self._words_s = begun_s
                self.panel.update(self.snapshots)
                self._legend.update(self.snapshots)
            if watched:
                curves_end_s = self._draw()
                if begun_s - self._curves_s > _CURVE_S:
                    self._curves_s = begun_s
                    self._curves.draw(curves_end_s)
        if watched:
            self.frames += 1
            self._drawn_s.append(begun_s)
        took_s = time.monotonic() - begun_s
        return max((FRAME_S if watched else _IDLE_S) - took_s, took_s, _SENDING_S)

    def mark(self) -> str:
        """A condition in JavaScript that is true once a browser has taken everything that was sent until now."""
        name = f"cr-mark-{self.frames}"
        self._server.gui.add_html(f'<span id="{name}"></span>')
        return f"document.getElementById('{name}') !== null"

    def close(self) -> None:
        """End the server."""
        self.panel.close()
        with contextlib.redirect_stdout(io.StringIO()):  # it reports good-bye
            self._server.stop()

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
