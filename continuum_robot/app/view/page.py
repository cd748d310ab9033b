# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot view`` of a running robot: a node that listens, shows and steers."""

from __future__ import annotations

import contextlib
import math
import sys

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, page_link
from continuum_robot.app.view.options import ViewOptions
from continuum_robot.app.view.panel import OnlookersPanel, Panel
from continuum_robot.app.view.served_page import ServedPage
from continuum_robot.errors import DeviceError, RobotTimeoutError
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.simulated.obstacles import OBSTACLES_TOPIC
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.periodic import give_way

_REPORT_S = 1.0
_DISCOVERY_S = 30.0
_STALE_S = 1.0
_STATUS_STALE_S = 5.0


class Page(ServedPage):
    """The page of a running robot."""

    panel: Panel | OnlookersPanel

    def __init__(self, options: ViewOptions, robot: Robot) -> None:
        self._link = page_link(options.namespace)
        self._commander = Commander(self._link)
        self._reported_s = -math.inf
        super().__init__(options, [robot], [robot.name], self._link.node.get_logger().warning)

    def _make_panel(self) -> None:
        (shown,) = self.shown
        if self.options.view_only:
            self.panel = OnlookersPanel(self._server)
            return
        self.panel = Panel(
            self._server, self._commander, shown.model, shown.drawing,
            scene_scale=shown.scene.scale, record_directory=self.options.folder.resolve(),
        )  # fmt: skip

    def _take(self, now_s: float) -> list[RobotState]:
        before = self.snapshot  # in lock-step time may wait for a node, and nothing is old then
        fresh_s = math.inf if before.in_lockstep and before.alive else _STALE_S
        snapshots = [self._link.state(fresh_s=fresh_s, status_fresh_s=_STATUS_STALE_S)]
        self._curves.add(snapshots)
        if now_s - self._reported_s > _REPORT_S:
            self._reported_s = now_s
            self._commander.report(self.frames_hz, self.clients, self.refusals.count)
        return snapshots

    def _draw(self) -> float:
        self.shown[0].draw(self.snapshot, self.limit_n, self._link.messages[OBSTACLES_TOPIC], self._commander.pushed)
        return self.snapshot.time_s

    def close(self) -> None:
        """Give the reference back, end the server, leave DDS."""
        super().close()
        self._link.close()


def run_view(options: ViewOptions, robot_name: str) -> int:
    """Serve the page until Ctrl-C; the robot's name is empty where the stack is to be asked."""
    # Where the computer is so busy that the page is late, the driver's own timeouts act before a hand would.
    give_way()  # before any thread is made: threads inherit it
    with StopRequest(last=True) as stop:
        robot = load_robot(robot_name or robot_of_stack(options.namespace))
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
