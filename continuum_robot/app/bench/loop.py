# SPDX-License-Identifier: Apache-2.0
"""The 1 kHz loop over DDS, measured: in one process, in separate ones, and beside the page."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.node import Node

from continuum_robot.app.demo import wait_until_up
from continuum_robot.app.process_stack import ProcessStack
from continuum_robot.app.processes import ProcessGroup, processor_time_s
from continuum_robot.errors import DeviceError
from continuum_robot.nodes import qos
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.spinning import StopRequest, wait_for
from continuum_robot.nodes.stack_options import CONTROL_LOOP, StackOptions

STARTUP_TIMEOUT_S = 60.0
SETTLING_S = 2.0

BARE, ONE, SEPARATE = "bare_loop", "one_process", "separate_processes"
LOOP_KEYS = (
    "loop_rate_hz",
    "missed_cycles_percent",
    "round_trip_p50_us",
    "round_trip_p99_us",
    "round_trip_max_us",
    "execution_mean_us",
    "execution_p99_us",
)
Stack = TypeVar("Stack", bound=ComposedStack)


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
    with _up(ComposedStack(options), stop) as stack:
        before_s, processor_s = time.monotonic(), time.process_time()
        numbers = _loop_numbers(stack, seconds, stop)
        share = 100.0 * (time.process_time() - processor_s) / (time.monotonic() - before_s)
        return {
            "nodes": list(stack.nodes),
            **numbers,
            "processor_percent": share,
            "faults": list(stack.status().faults),
        }


def loop_in_separate_processes(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """The loop as ``demo`` and ``up`` run it: in groups of nodes, each a process.

    Arguments, result and errors as :func:`loop_in_one_process`; beside the sum of the processes the result has
    ``<group>_processor_percent`` for each, and ``loop_processor_us_a_cycle``: processor time of driver and controller.

    Parameters
    ----------
    seconds, stop : as there
    """
    with _up(ProcessStack(options), stop) as stack:
        before_s, before = time.monotonic(), {name: processor_time_s(pid) for name, pid in stack.pids.items()}
        numbers = _loop_numbers(stack, seconds, stop)
        took_s = time.monotonic() - before_s
        used_s = {name: processor_time_s(pid) - before[name] for name, pid in stack.pids.items()}
        return {
            "nodes": list(stack.options.node_names),
            **numbers,
            "processor_percent": 100.0 * sum(used_s.values()) / took_s,
            **{f"{name}_processor_percent": 100.0 * one / took_s for name, one in used_s.items()},
            "loop_processor_us_a_cycle": 1e6 * used_s[CONTROL_LOOP] / (took_s * numbers["loop_rate_hz"]),
            "faults": list(stack.status().faults),
        }


@contextlib.contextmanager
def _up(stack: Stack, stop: StopRequest) -> Iterator[Stack]:
    """The stack, up and settled; down at the end."""
    try:
        stack.start()
        problem = wait_until_up(stack, stop, STARTUP_TIMEOUT_S)
        if problem:
            raise DeviceError("stack", problem, "See the log above")
        _wait(stop, SETTLING_S)
        yield stack
    finally:
        stack.shutdown()


def has_viewer() -> bool:
    """Whether the extra with the page in the browser is installed."""
    return importlib.util.find_spec("viser") is not None


def loop_with_page(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """One run of the loop, in processes: first without, then with the page, drawn for one client.

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
    command = [sys.executable, "-m", "continuum_robot.app.command_line", "view", options.robot]
    page = ProcessGroup({"view": command}, signals=(signal.SIGTERM, signal.SIGKILL), output=subprocess.PIPE)
    audience: ProcessGroup | None = None
    with _up(ProcessStack(options), stop) as stack:
        try:
            watcher = _Watcher(stack.context)
            stack.add_node(watcher)
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
    timing = stack.newest_timing_numbers()
    missing = [key for key in LOOP_KEYS if key not in timing]
    if missing:
        raise DeviceError("tendon_driver", f"has no {', '.join(missing)}", "See the log above")
    return {key: timing[key] for key in LOOP_KEYS}


class _Watcher(Node):
    """Reads how often the page draws."""

    def __init__(self, context: Context) -> None:
        super().__init__("bench", context=context, cli_args=[])
        self.frames_hz = 0.0
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.events())

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == "/view: page":
                self.frames_hz = float(values_of(status)["frames_hz"])


def _wait(stop: StopRequest, duration_s: float) -> None:
    if stop.wait(duration_s):
        raise Stopped
