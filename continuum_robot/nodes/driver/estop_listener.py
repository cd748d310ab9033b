# SPDX-License-Identifier: Apache-2.0
"""Hears the e-stop at any time: a node and an executor of its own, beside a driver that may be busy for seconds."""

from __future__ import annotations

import time

from rclpy.clock import Clock, ClockType
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from continuum_robot.msg import EstopButton
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.faults import DriverFaults
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.owned_topic import publishers
from continuum_robot.runtime.estop_inputs import EstopInputs
from continuum_robot.srv import ReleaseEstop

JUDGE_PERIOD_S = 0.1
GRAPH_EVERY = 5
"""The graph is asked every so many periods."""


class EstopListener:
    """Serves ``estop``, topic and service, ``estop_button`` and ``release_estop``, in a thread of its own.

    A configuration runs in the executor's thread, and may wait for a board for seconds.
    """

    def __init__(self, context: DriverContext, inputs: EstopInputs, faults: DriverFaults) -> None:
        node = context.node
        self._node = node.helper("estop")
        self._context, self._inputs, self._faults = context, inputs, faults
        self._texts: tuple[str, ...] = ()
        self._looks = 0
        self._topic = node.resolve_topic_name("estop")
        for profile in (qos.switch_subscription(), qos.latched()):
            self._node.subscribe_with_publisher(Bool, self._topic, self._on_switch, profile)
        self._node.subscribe_with_publisher(
            EstopButton, node.resolve_topic_name("estop_button"), self._on_button, qos.switch_subscription()
        )
        self._node.create_service(Trigger, node.resolve_service_name("estop"), faults.serve_estop)
        self._node.create_service(ReleaseEstop, node.resolve_service_name("release_estop"), self._serve_release)
        self._timer = self._node.create_timer(JUDGE_PERIOD_S, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()  # until there is something to watch
        self._spinner = Spinner([self._node], node.context, node.on_defect)
        self._spinner.start()

    def close(self) -> None:
        """End."""
        if self._spinner.stop():
            self._node.destroy_node()

    def _on_switch(self, message: Bool, gid: bytes) -> None:
        self._inputs.switch(gid, pressed=message.data)
        if message.data:
            self._faults.press("topic")
        self._act()

    def _on_button(self, message: EstopButton, gid: bytes) -> None:
        name = message.id.strip() or "unnamed button"
        self._inputs.button(name, gid, pressed=message.pressed, sequence=message.sequence, now_s=time.monotonic())
        self._act()

    def _look(self) -> None:
        self._inputs.judge(time.monotonic())
        self._looks += 1
        if self._looks % GRAPH_EVERY == 1:
            self._see()
        self._act()
        if not self._inputs.known:
            self._timer.cancel()

    def _see(self) -> None:
        found = {
            gid: f"{one.node_namespace.rstrip('/')}/{one.node_name}"
            for gid, one in publishers(self._node, self._topic).items()
        }
        self._inputs.see(found, time.monotonic())

    def _act(self) -> None:
        """Press for who is new among the holders, let go behind the last."""
        if self._timer.is_canceled() and self._inputs.known:
            self._looks = 0
            self._timer.reset()
        holders = self._inputs.holders(time.monotonic())
        texts = tuple(str(holder) for holder in holders)
        if texts == self._texts:
            return
        before, self._texts = self._texts, texts
        for holder in holders:
            if holder.latches and str(holder) not in before:
                self._faults.press(f"{holder.name} {holder.state}")
        if not holders:
            self._faults.let_go()
        self._context.publish_status()

    def _serve_release(self, request: ReleaseEstop.Request, response: ReleaseEstop.Response) -> ReleaseEstop.Response:
        holder = check_request("ReleaseEstop", request).holder
        self._see()
        problem = self._inputs.release(holder, time.monotonic())
        response.success = not problem
        response.message = f"refused: {problem}" if problem else f"let go in place of {holder}"
        self._act()
        return response
