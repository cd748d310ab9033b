# SPDX-License-Identifier: Apache-2.0
"""An action goal for tests."""

from __future__ import annotations

import threading

from ros_probe import Probe

from continuum_robot.nodes.base.waiting import action_client


class Goal:
    """An action goal as a user's program sends it: progress, cancel, result; every wait has a limit."""

    def __init__(self, probe: Probe, kind, name: str, **fields) -> None:
        self.probe, self.feedback = probe, []
        self._client = probe.opened.enter_context(action_client(probe.node, kind, name))
        assert self._client.wait_for_server(10.0)
        self._done = threading.Event()
        self.handle = None
        self._known = threading.Event()
        sent = self._client.send_goal_async(
            kind.Goal(**fields), feedback_callback=lambda message: self.feedback.append(message.feedback)
        )
        sent.add_done_callback(self._accepted)

    def _accepted(self, future) -> None:
        self.handle = future.result()
        self._known.set()
        self.handle.get_result_async().add_done_callback(self._finished)

    def _finished(self, future) -> None:
        self.outcome = future.result()
        self._done.set()

    def result(self, timeout_s: float = 90.0):
        assert self._done.wait(timeout_s)
        return self.outcome.status, self.outcome.result

    def cancel(self) -> None:
        """Cancel it, once it is known to be accepted: feedback may come before that."""
        assert self._known.wait(30.0)
        self.handle.cancel_goal_async()
