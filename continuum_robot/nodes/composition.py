# SPDX-License-Identifier: Apache-2.0
"""The whole stack in one process: the same nodes and topics, a third of the processor time."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.parameters import ParameterServer
from continuum_robot.nodes.base.spinning import (
    Spinner,
    StopRequest,
    dds_error,
    fail,
    initialize,
    shut_down_at_end,
    wait_for,
)
from continuum_robot.nodes.driver.timing_numbers import timing_of
from continuum_robot.nodes.recorder import STATISTICS, Recorder
from continuum_robot.nodes.simulator import SimulatorNode
from continuum_robot.nodes.stack.making import make_nodes
from continuum_robot.nodes.stack.option_list import StackFields, declared
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.supervisor import RUNNING, Supervisor
from continuum_robot.nodes.tendon_driver import TendonDriver
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.reports import LoopReport, RoundTripReport
from continuum_robot.simulation.plant import Plant


class ComposedStack:
    """All nodes of a robot in this process, on one EventsExecutor in a thread.

    Use as a context manager, or call :meth:`start` and :meth:`shutdown`. rclpy gets a context of its own, so several
    stacks can live side by side.
    """

    def __init__(self, options: StackOptions | None = None) -> None:
        self.options = options or StackOptions()
        self.context = Context()
        self.nodes: dict[str, ManagedNode] = {}
        self._spinner: Spinner | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Make all nodes and spin them; with ``autostart`` the supervisor begins to bring them up."""
        options = self.options
        load_robot(options.robot)
        initialize(list(options.arguments), self.context)
        try:
            self._make_nodes()
        except Exception as error:
            self._destroy()
            if isinstance(error, ContinuumRobotError):
                raise
            raise (dds_error(error) if type(error).__name__ == "RCLError" else error) from error
        self._spinner = Spinner(list(self.nodes.values()), self.context, on_failure=self._on_failure)
        self._spinner.start()
        self._spinner.run(self.supervisor.trigger_configure)
        self._spinner.run(self.supervisor.trigger_activate)

    def wait_until_up(self, timeout_s: float = 60.0) -> StackStatus:
        """Wait until all nodes are active."""
        supervisor = self.supervisor
        wait_for(lambda: supervisor.stack_state in RUNNING, timeout_s)
        if supervisor.stack_state != StackStatus.UP:
            reason = supervisor.message or f"is {supervisor.stack_state} after {timeout_s:g} s"
            raise DeviceError("stack", reason, "See the log above")
        return self.status()

    def status(self) -> StackStatus:
        """State of the stack and of its nodes, and latched faults."""
        return self.supervisor.status()

    def shutdown(self) -> None:
        """Release the tensions, bring all nodes down in reverse order, close files, leave DDS. Safe to call twice."""
        with self._lock:
            spinner, self._spinner = self._spinner, None
            if spinner is not None:
                if self.context.ok():
                    self.supervisor.before_exit(spinner)
                spinner.stop()
            self._destroy()

    @property
    def failed(self) -> bool:
        """Whether a defect of the program showed: an exception in a callback or in a node's thread."""
        spun = self._spinner is not None and self._spinner.failed
        return spun or any(node.defect for node in self.nodes.values())

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor node."""
        node = self.nodes.get("supervisor")
        if not isinstance(node, Supervisor):
            raise DeviceError("stack", "is not started", "Call start() first")
        return node

    @property
    def driver(self) -> TendonDriver:
        """The driver node."""
        node = self.nodes.get("tendon_driver")
        if not isinstance(node, TendonDriver):
            raise DeviceError("stack", "is not started", "Call start() first")
        return node

    @property
    def plant(self) -> Plant:
        """The simulated rod."""
        node = self.nodes.get("simulator")
        if not isinstance(node, SimulatorNode):
            raise DeviceError("stack", "has no plant", "Start it, with simulated hardware")
        return node.plant

    @property
    def recording(self) -> Path | None:
        """Folder of the recording, None without one."""
        node = self.nodes.get("recorder")
        return node.folder if isinstance(node, Recorder) else None

    def loop_report(self) -> LoopReport | None:
        """Timing of the driver's loop since its activation or :meth:`reset_statistics`."""
        return self.driver.loop_report()

    def round_trip_report(self) -> RoundTripReport | None:
        """Round trips since the driver's activation or :meth:`reset_statistics`."""
        return self.driver.round_trip_report()

    def timing_numbers(self) -> dict[str, Any]:
        """The driver's numbers of its loop since its activation or :meth:`reset_statistics`, for metrics.json."""
        status = self.driver.diagnostics.status
        return timing_of(values_of(status("loop")) | values_of(status("round_trip")))

    def newest_timing_numbers(self) -> dict[str, Any]:
        """The same."""
        return self.timing_numbers()

    @property
    def time_is_over(self) -> bool:
        """In lock-step: whether the time that was asked for has passed."""
        return bool(self.driver.status().time_is_over)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of processes of its own: there are none."""
        return {}

    @property
    def ended(self) -> Mapping[str, int]:
        """Exit codes of processes that ended by themselves: there are none."""
        return {}

    def start_again(self) -> Mapping[str, int]:
        """Start processes again that ended: there are none."""
        return {}

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often processes were started again: there are none."""
        return {}

    def note(self, numbers: Mapping[str, Any]) -> None:
        """Store numbers of the running stack with its recording, where there is one."""
        recorder = self.nodes.get("recorder")
        if isinstance(recorder, Recorder):
            recorder.add_metadata({STATISTICS: json.dumps(dict(numbers))})

    def reset_statistics(self) -> None:
        """Start the statistics of loop and round trip over."""
        self.driver.reset_statistics()

    def run(self, function: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Run ``function`` in the executor's thread, where the nodes live, and give its result."""
        if self._spinner is None:
            raise DeviceError("stack", "is not started", "Call start() first")
        return self._spinner.run(function, timeout_s)

    def __enter__(self) -> ComposedStack:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _make_nodes(self) -> None:
        self.nodes |= make_nodes(self.options.node_names, self._node_options, self.options.controller)
        self.nodes["supervisor"] = Supervisor(**self._node_options("supervisor"))

    def _node_options(self, name: str) -> dict[str, Any]:
        options = self.options
        overrides = options.parameters_of(name)
        return {"context": self.context, "namespace": options.namespace or None, "overrides": overrides}

    def _on_failure(self, error: BaseException) -> None:
        for node in self.nodes.values():
            node.on_defect(error)

    def _destroy(self) -> None:
        for node in reversed(self.nodes.values()):
            node.destroy_node()
        self.nodes.clear()
        rclpy.try_shutdown(context=self.context)


class _CommandLine(Node):
    """Reads the parameters of the composition from the command line or a launch file."""

    def __init__(self, context: Context, arguments: Sequence[str]) -> None:
        super().__init__("composition", context=context)
        server = ParameterServer(self)

        def declare(name: str, default: Any, description: str, **more: Any) -> Any:
            return server.declare(name, default, description, read_only=True, **more)

        given = declared(StackFields, declare)
        alias = str(declare("use_mock_hardware", "", "the same as use_fake_hardware", any_type=True)).lower()
        if alias in ("true", "false"):
            given["simulated"] = alias == "true"
        record = bool(declare("record", False, "record all topics"))
        directory = str(declare("directory", "runs", "folder in which the recording's folder is made"))
        replaced = "instead of the robot file's"
        self.options = StackOptions(
            **given,
            namespace=self.get_namespace(),
            record_directory=directory if record else None,
            params_file=str(declare("params_file", "", "file that parameters came from, which refusals name")),
            parameters={
                "tendon_driver": {"can_interface": str(declare("can_interface", "", replaced))},
                "string_encoder": {"serial_port": str(declare("serial_port", "", replaced))},
                "force_sensor": {"serial_port": str(declare("force_port", "", replaced))},
            },
            arguments=arguments,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the composed stack until SIGINT or SIGTERM; 0 after a requested stop, 1 when something failed."""
    try:
        given = sys.argv if arguments is None else list(arguments)
        # The nodes read the same command line: parameter files, log level, remappings.
        options = dataclasses.replace(_read_options(given), arguments=given)
    except Exception as error:
        return fail(error)
    stack = ComposedStack(options)
    with StopRequest(last=True) as stop:
        try:
            stack.start()
            while not stop.wait(0.5):
                if options.autostart and stack.supervisor.startup_failed:
                    return 1
        except ContinuumRobotError as error:
            return fail(error)
        finally:
            failed = stack.failed
            stack.shutdown()
    return 1 if failed else 0


def _read_options(arguments: list[str]) -> StackOptions:
    context = Context()
    initialize(arguments, context)
    with shut_down_at_end(context):
        node = _CommandLine(context, _without_node_name(arguments))
        options = node.options
        node.destroy_node()
    return options


def _without_node_name(arguments: Sequence[str]) -> list[str]:
    """The command line without ``-r __node:=name``, which would give all nodes one name."""
    kept: list[str] = []
    for word in arguments:
        if word.startswith(("__node:=", "__name:=")):
            if kept and kept[-1] in ("-r", "--remap"):
                kept.pop()
        else:
            kept.append(word)
    return kept


if __name__ == "__main__":
    sys.exit(main())
