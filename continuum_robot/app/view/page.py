# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot view``: the page's server, and the loop that draws it."""

from __future__ import annotations

import contextlib
import io
import math
import secrets
import sys
import time
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view import colors
from continuum_robot.app.view.admission import TOKEN, RefusalLog
from continuum_robot.app.view.commander import Commander, page_link
from continuum_robot.app.view.curves import Curves
from continuum_robot.app.view.guarded_server import HOST, serve
from continuum_robot.app.view.legend import Legend
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.panel import OnlookersPanel, Panel
from continuum_robot.app.view.scene import ObstacleScene, Scene
from continuum_robot.app.view.steering_range import reach_of
from continuum_robot.errors import ContinuumRobotError, DeviceError, RobotTimeoutError
from continuum_robot.models.making import robot_model
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.simulated.obstacles import OBSTACLES_TOPIC, obstacle_triangles
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.periodic import give_way

_TOKEN_BYTES = 24
FRAME_S = 1.0 / 30.0
_CURVE_S = 0.1
_WORDS_S = 0.2
_IDLE_S = 0.1
_SENDING_S = 0.02  # viser collects for 1/60 s before it sends
_REPORT_S = 1.0
_DISCOVERY_S = 30.0
_STALE_S = 1.0
_STATUS_STALE_S = 5.0


class Page:
    """Server, nodes and everything on the page. Use as a context manager, and call :meth:`frame` again and again."""

    def __init__(self, options: ViewOptions, robot: Robot) -> None:
        self.options, self._robot = options, robot
        model = robot_model(robot)
        drawing = model.drawing()
        self._drawing = drawing
        self._link = page_link(options.namespace)
        self._commander = Commander(self._link)
        self.refusals = RefusalLog(self._link.node.get_logger().warning)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._server = serve(
            options.port, f"continuum-robot: {robot.name}", token, self.refusals,
            allow_origins=options.allow_origin or (), view_only=options.view_only,
        )  # fmt: skip
        self.address = f"http://{HOST}:{self._server.get_port()}/?{TOKEN}={token}"
        self._limit_n = robot.limits.largest("maximum_n", robot.tendon_count) if robot.limits is not None else 1.0
        self._largest_n = math.nan
        self.frames = 0
        self.draws_unseen = False
        self._drawn_s: deque[float] = deque(maxlen=90)
        self._reported_s = self._curves_s = self._words_s = -math.inf
        with self._server.atomic():
            gui = self._server.gui
            gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
            gui.main_panel.dock_right()
            largest = model.largest_push_n or 1.0
            self.scene = Scene(self._server, drawing, largest, robot.base_stage)
            self._obstacles = ObstacleScene(self._server, self.scene.scale)
            self._world: Any = None
            self.panel: Panel | OnlookersPanel = (
                OnlookersPanel(self._server)
                if options.view_only
                else Panel(
                    self._server, self._commander, model, drawing,
                    scene_scale=self.scene.scale, record_directory=options.folder.resolve(),
                )
            )  # fmt: skip
            side = gui.add_panel()
            with side.add_tab("What you see"):
                self._legend = Legend(self._server, robot)
                self._curves = Curves(self._server, reach_of(robot).short_names, robot)
            side.dock_left()
            side.set_width(350)
        self.snapshot = RobotState()

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
        before = self.snapshot  # in lock-step time may wait for a node, and nothing is old then
        fresh_s = math.inf if before.in_lockstep and before.alive else _STALE_S
        snapshot = self.snapshot = self._link.state(fresh_s=fresh_s, status_fresh_s=_STATUS_STALE_S)
        self._curves.add(snapshot)
        if snapshot.tension_n.size and np.any(np.isfinite(snapshot.tension_n)):
            self._largest_n = float(np.nanmax([self._largest_n, np.nanmax(snapshot.tension_n)]))
        if begun_s - self._reported_s > _REPORT_S:
            self._reported_s = begun_s
            self._commander.report(self.frames_hz, self.clients, self.refusals.count)
        watched = self.draws_unseen or self.clients > 0
        end_n = colors.scale_end(self._largest_n, self._limit_n)
        with self._server.atomic():
            if begun_s - self._words_s > _WORDS_S:
                self._words_s = begun_s
                self.panel.update(snapshot)
                self._legend.update(snapshot, end_n)
            if watched:
                self.scene.draw(snapshot, self._desired(snapshot), end_n, self._commander.pushed)
                self._draw_obstacles()
                if begun_s - self._curves_s > _CURVE_S:
                    self._curves_s = begun_s
                    self._curves.draw(begun_s)
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
        """Give the reference back, end the server, leave DDS."""
        self.panel.close()
        with contextlib.redirect_stdout(io.StringIO()):  # it reports good-bye
            self._server.stop()
        self._link.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _draw_obstacles(self) -> None:
        """Of the newest message, which is converted once."""
        world = self._link.messages[OBSTACLES_TOPIC]
        if world is not None and world is not self._world:
            self._world = world
            self._obstacles.draw(obstacle_triangles(world))

    def _desired(self, snapshot: RobotState) -> Any:
        reference = snapshot.reference_m
        if reference.size != self._robot.coordinate_count or not np.all(np.isfinite(reference)):
            return None
        try:
            return self._drawing.coefficients(reference)
        except ContinuumRobotError:
            return None


def run_view(options: ViewOptions) -> int:
    """Serve the page until Ctrl-C."""
    # Where the computer is so busy that the page is late, the driver's own timeouts act before a hand would.
    give_way()  # before any thread is made: threads inherit it
    with StopRequest(last=True) as stop:
        robot = load_robot(options.robot or robot_of_stack(options.namespace))
        with Page(options, robot) as page:
            sys.stdout.write(f"{page.address}\n")
            sys.stdout.flush()
            while not stop.wait(page.frame()):
                pass
    return 143 if stop.signal_name == "SIGTERM" else 130


def robot_of_stack(namespace: str, timeout_s: float = _DISCOVERY_S) -> str:
    """The robot file that a running stack was started with."""
    with contextlib.closing(StackLink(namespace, "view", topics=())) as link:
        try:
            return str(link.get_parameter("tendon_driver", "robot", timeout_s))
        except RobotTimeoutError as error:
            raise DeviceError(
                "view", f"no stack is heard within {timeout_s:g} s", "Start one (continuum-robot up), or name ROBOT"
            ) from error
