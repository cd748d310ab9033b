# SPDX-License-Identifier: Apache-2.0
"""A stack in processes beside this one, which holds only the supervisor: how ``demo`` and ``up`` run a robot."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from std_srvs.srv import Trigger

from continuum_robot.app.client.stack_link import DIAGNOSTICS, StackLink
from continuum_robot.app.output import plain
from continuum_robot.app.running.process_server import ProcessServer
from continuum_robot.app.running.processes import ProcessGroup
from continuum_robot.app.running.stack import absolute_robot, stop_grace_s
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.spinning import has_joined_dds
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.driver.timing_numbers import timing_of
from continuum_robot.nodes.stack.group import GROUP_MODULE, group_command
from continuum_robot.nodes.stack.options import MANAGED_NODES, StackOptions
from continuum_robot.nodes.supervisor import Supervisor
from continuum_robot.robot.loading import load_robot

CALL_TIMEOUT_S = 5.0
DISCOVERY_TIMEOUT_S = 60.0
"""A node of a process that was started just now may take this long to appear; one that ends is noticed at once."""
REPORT_TIMEOUT_S = 3.0
"""Longer than from one message of the driver on /diagnostics to the next."""
_TYPE_SUPPORT = "rosidl_generator_py"
"""A context of rclpy imports it, and with it a parser of message files: 0.15 s of a processor, in each process."""


class ProcessStack(ComposedStack):
    """Nodes in groups, each group a process; the supervisor in this one. Used as :class:`ComposedStack`.

    A process that ends for good is a failure of the stack.
    """

    def __init__(self, options: StackOptions, server: ProcessServer | None = None, respawns: int = 0) -> None:
        super().__init__(absolute_robot(options))
        self.respawns = respawns
        self._group = ProcessGroup(
            {
                group: group_command(
                    {name: self.options.parameters_of(name) for name in names}, options.controller, options.namespace
                )
                for group, names in self.options.groups().items()
            },
            grace_s=stop_grace_s(load_robot(self.options.robot)),
            server=server,
        )
        self._link: StackLink | None = None
        self._ended: dict[str, int] = {}

    @staticmethod
    def server() -> contextlib.AbstractContextManager[ProcessServer | None]:
        """A server for a stack's processes, None where this one cannot be forked: made before DDS and any thread."""
        if has_joined_dds() or not ProcessServer.possible():
            return contextlib.nullcontext()
        nodes = [f"continuum_robot.nodes.{name}" for name in MANAGED_NODES]
        return ProcessServer([GROUP_MODULE, *nodes, _TYPE_SUPPORT])

    def start(self) -> None:
        """Start the processes, then the supervisor, which waits for their nodes."""
        self._group.start()
        try:
            super().start()
            self._link = StackLink(
                self.options.namespace, "stack", topics=(DIAGNOSTICS,), context=self.context, listens_only=True
            )
        except BaseException:
            self._group.stop()
            raise

    def shutdown(self) -> None:
        """Release the tensions, bring all nodes down in reverse order, end the processes. Safe to call twice."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._note_ended()
        super().shutdown()
        self._group.stop()

    def start_again(self) -> Mapping[str, int]:
        """Start processes again that ended by themselves a while ago; called now and then. The supervisor configures
        their nodes, and a reset brings the stack up.
        """
        return self._group.start_again(self.respawns)

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often each process was started again."""
        return self._group.restarts

    @property
    def failed(self) -> bool:
        """Whether a defect showed here, or a process ended for good."""
        self._note_ended()
        return bool(self._ended) or super().failed

    @property
    def ended(self) -> Mapping[str, int]:
        """Exit codes of the processes that ended by themselves and are not started again."""
        self._note_ended()
        return self._ended

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the groups."""
        return self._group.pids

    @property
    def recording(self) -> Path | None:
        """Folder of the recording, None without one."""
        options = self.options
        if options.record_directory is None or not options.record_name:
            return None
        folder = Path(options.record_directory) / options.record_name
        return folder if folder.exists() else None

    def timing_numbers(self) -> dict[str, Any]:
        """The driver's last published numbers of its loop; empty before the first."""
        return {} if self._link is None else dict(timing_of(self._link.driver_values()))

    def newest_timing_numbers(self) -> dict[str, Any]:
        """The same, after the driver has published them once more."""
        if self._link is not None:
            self._link.wait_for_driver_values(REPORT_TIMEOUT_S)
        return self.timing_numbers()

    @property
    def time_is_over(self) -> bool:
        """In lock-step: whether the time that was asked for has passed."""
        return self._link is not None and self._link.driver_values().get("time_is_over") == "true"

    def reset_statistics(self) -> None:
        """Start the statistics of the loop over. Raises :class:`DeviceError` where the driver does not answer."""
        if self._link is not None:
            self._link.call(Trigger, "reset_statistics", timeout_s=CALL_TIMEOUT_S)

    def note(self, numbers: Mapping[str, Any]) -> None:
        """Store numbers of the running stack with its recording, where there is one."""
        if "recorder" not in self.options.node_names or self._link is None:
            return
        with contextlib.suppress(ContinuumRobotError):
            self._link.set_parameters("recorder", {"note": json.dumps(plain(dict(numbers)))})

    def _note_ended(self) -> None:
        if not self.nodes:
            return
        for name, code in self._group.ended().items():
            if self._group.ended_for_good(name, code, self.respawns):
                self._ended.setdefault(name, code)

    def _make_nodes(self) -> None:
        options = self._node_options("supervisor")
        # Who starts a stack in processes has claimed its domain, and listened for others.
        waits = {"discovery_timeout_s": DISCOVERY_TIMEOUT_S, "second_supervisor_timeout_s": 0.0}
        options["overrides"] = waits | options["overrides"]
        self.nodes["supervisor"] = Supervisor(**options)
