# SPDX-License-Identifier: Apache-2.0
"""The 1 kHz loop over DDS, measured: in one process, in separate ones, and beside the page."""

from __future__ import annotations

import importlib.util
import math
import signal
import subprocess
import sys
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.node import Node
from std_srvs.srv import Trigger

from continuum_robot.app.demo import wait_until_up
from continuum_robot.app.processes import ProcessGroup, node_command, processor_time_s
from continuum_robot.app.stack import node_parameters
from continuum_robot.errors import DeviceError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes import qos
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.spinning import Spinner, StopRequest, initialize, shut_down_at_end, wait_for
from continuum_robot.nodes.stack_options import StackOptions

STARTUP_TIMEOUT_S = 60.0
SETTLING_S = 2.0
# The driver reports on /diagnostics twice a second.
REPORT_PERIOD_S = 0.6

BARE, ONE, SEPARATE = "bare_loop", "one_process", "separate_processes"
LOOP_KEYS = ("loop_rate_hz", "missed_cycles_percent", "round_trip_p50_us", "round_trip_p99_us", "round_trip_max_us")


class Stopped(KeyboardInterrupt):
    """A stop was asked for while measuring."""


def loop_in_one_process(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """The loop with all nodes in this process.

    Parameters
    ----------
    options : which robot and nodes
    seconds : length of the measurement, s
    stop : ends it

    Returns
    -------
    ``nodes``, the loop's numbers, ``processor_percent`` with 100 % one core, ``faults``

    Raises
    ------
    DeviceError : the stack did not come up
    """
    stack = ComposedStack(options)
    try:
        stack.start()
        problem = wait_until_up(stack, stop, STARTUP_TIMEOUT_S)
        if problem:
            raise DeviceError("stack", problem, "See the log above")
        _wait(stop, SETTLING_S)
        before_s, processor_s = time.monotonic(), time.process_time()
        numbers = _loop_numbers(stack, seconds, stop)
        share = 100.0 * (time.process_time() - processor_s) / (time.monotonic() - before_s)
        return {
            "nodes": list(stack.nodes),
            **numbers,
            "processor_percent": share,
            "faults": list(stack.status().faults),
        }
    finally:
        stack.shutdown()


def loop_in_separate_processes(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """The loop with a process for each node; arguments, result and errors as :func:`loop_in_one_process`.

    The result has ``<node>_processor_percent`` for each process beside their sum.

    Parameters
    ----------
    seconds, stop : as there
    """
    group = ProcessGroup(
        {node: node_command(node, parameters) for node, parameters in node_parameters(options).items()}
    )
    initialize(args=[])
    with shut_down_at_end():
        watcher = _Watcher()
        spinner = Spinner([watcher])
        spinner.start()
        try:
            group.start()
            watcher.wait_until_up(stop, group)
            _wait(stop, SETTLING_S)
            watcher.reset_statistics()
            pids = group.pids
            before_s, before = time.monotonic(), {name: processor_time_s(pid) for name, pid in pids.items()}
            _wait(stop, seconds)
            took_s = time.monotonic() - before_s
            shares = {name: 100.0 * (processor_time_s(pid) - before[name]) / took_s for name, pid in pids.items()}
            _wait(stop, REPORT_PERIOD_S)
            return {
                "nodes": list(pids),
                **{key: watcher.number(key) for key in LOOP_KEYS},
                "processor_percent": sum(shares.values()),
                **{f"{name}_processor_percent": share for name, share in shares.items()},
                "faults": list(watcher.faults),
            }
        finally:
            group.stop()
            spinner.stop()
            watcher.destroy_node()


def has_viewer() -> bool:
    """Whether the extra with the page in the browser is installed."""
    return importlib.util.find_spec("viser") is not None


def loop_with_page(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """One run of the loop, with all nodes in this process: first without, then with the page, drawn for one client.

    The client takes what the page sends and draws nothing: what a browser costs is a matter of its graphics.

    Parameters
    ----------
    options : which robot and nodes
    seconds : length of each part, s
    stop : ends it

    Returns
    -------
    ``without_page_`` and ``with_page_`` with the loop's numbers, ``page_frames_hz``, ``page_processor_percent``

    Raises
    ------
    DeviceError : the stack or the page did not come up
    """
    stack = ComposedStack(options)
    command = [sys.executable, "-m", "continuum_robot.app.command_line", "view", options.robot]
    page = ProcessGroup({"view": command}, signals=(signal.SIGTERM, signal.SIGKILL), output=subprocess.PIPE)
    audience: ProcessGroup | None = None
    try:
        stack.start()
        problem = wait_until_up(stack, stop, STARTUP_TIMEOUT_S)
        if problem:
            raise DeviceError("stack", problem, "See the log above")
        watcher = _Watcher(stack.context)
        stack.add_node(watcher)
        _wait(stop, SETTLING_S)
        numbers = {f"without_page_{key}": value for key, value in _loop_numbers(stack, seconds, stop).items()}
        page.start()
        address = _address_of(page, stop)
        audience = ProcessGroup({"audience": [sys.executable, "-m", "continuum_robot.app.view.audience", address]})
        audience.start()
        if not wait_for(lambda: watcher.frames_hz > 0, STARTUP_TIMEOUT_S):
            raise DeviceError("view", "draws nothing", "See the log above")
        _wait(stop, SETTLING_S)
        pid = page.pids["view"]
        before_s, processor_s = time.monotonic(), processor_time_s(pid)
        numbers |= {f"with_page_{key}": value for key, value in _loop_numbers(stack, seconds, stop).items()}
        share = 100.0 * (processor_time_s(pid) - processor_s) / (time.monotonic() - before_s)
        return numbers | {"page_frames_hz": watcher.frames_hz, "page_processor_percent": share}
    finally:
        if audience is not None:
            audience.stop()
        page.stop()
        stack.shutdown()


def _address_of(page: ProcessGroup, stop: StopRequest) -> str:
    text, deadline_s = b"", time.monotonic() + STARTUP_TIMEOUT_S
    while b"\n" not in text:
        if page.ended() or time.monotonic() > deadline_s:
            raise DeviceError("view", "does not come up", "See the log above")
        _wait(stop, 0.1)
        text += page.read("view")
    return text.split()[0].decode()


def _loop_numbers(stack: ComposedStack, seconds: float, stop: StopRequest) -> dict[str, float]:
    stack.reset_statistics()
    _wait(stop, seconds)
    loop, trips = stack.loop_report(), stack.round_trip_report()
    if loop is None or trips is None:
        raise DeviceError("tendon_driver", "has no statistics", "See the log above")
    return {
        "loop_rate_hz": loop.rate_hz,
        "missed_cycles_percent": loop.missed_percent,
        "round_trip_p50_us": trips.p50_us,
        "round_trip_p99_us": trips.p99_us,
        "round_trip_max_us": trips.maximum_us,
    }


class _Watcher(Node):
    """Reads the driver's statistics, the page's and the stack's state from the topics."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__("bench", context=context, cli_args=[])
        self.frames_hz = 0.0
        self.state = ""
        self.faults: tuple[str, ...] = ()
        self._values: dict[str, str] = {}
        self._reset = self.create_client(Trigger, "reset_statistics")
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.events())
        self.create_subscription(StackStatus, "stack_status", self._on_status, qos.latched())

    def wait_until_up(self, stop: StopRequest, group: ProcessGroup) -> None:
        """Wait until the supervisor says so. Raises :class:`DeviceError` where it does not come to it."""
        deadline_s = time.monotonic() + STARTUP_TIMEOUT_S
        while self.state != "up":
            _wait(stop, 0.1)
            if group.ended():
                raise DeviceError(", ".join(group.ended()), "ended while the stack came up", "See the log above")
            if self.state == "fault" or time.monotonic() > deadline_s:
                raise DeviceError("stack", f"is {self.state or 'silent'} instead of up", "See the log above")

    def reset_statistics(self) -> None:
        """Have the driver start its statistics over. Raises :class:`DeviceError` where it does not answer."""
        done = self._reset.call_async(Trigger.Request())
        if not wait_for(done.done, 5.0):
            raise DeviceError("tendon_driver", "does not answer reset_statistics", "See the log above")

    def number(self, key: str) -> float:
        """A number of the driver's newest report, NaN where there was none."""
        return float(self._values.get(key, math.nan))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name in ("/tendon_driver: loop", "/tendon_driver: round_trip"):
                self._values |= values_of(status)
            elif status.name == "/view: page":
                self.frames_hz = float(values_of(status)["frames_hz"])

    def _on_status(self, message: StackStatus) -> None:
        self.state, self.faults = message.state, tuple(message.faults)


def _wait(stop: StopRequest, duration_s: float) -> None:
    if stop.wait(duration_s):
        raise Stopped
