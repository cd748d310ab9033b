# SPDX-License-Identifier: Apache-2.0
"""The 1 kHz loop over DDS, measured: in one process, and in separate ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from continuum_robot.app.running.demo import wait_until_up
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.processes import processor_time_s
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import CONTROL_LOOP, StackOptions

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
    """The loop with all nodes in this process."""
    with running_stack(ComposedStack(options), stop) as stack:
        before_s, processor_s = time.monotonic(), time.process_time()
        numbers = loop_numbers(stack, seconds, stop)
        fraction = 100.0 * (time.process_time() - processor_s) / (time.monotonic() - before_s)
        return {
            "nodes": list(stack.nodes),
            **numbers,
            "processor_percent": fraction,
            "faults": list(stack.status().faults),
        }


def loop_in_separate_processes(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """The loop as ``demo`` and ``up`` run it: in groups of nodes, each a process.

    Arguments, result and errors as :func:`loop_in_one_process`; beside the sum of the processes the result has
    ``<group>_processor_percent`` for each, and ``loop_processor_us_a_cycle``: processor time of driver and controller.
    """
    with running_stack(ProcessStack(options), stop) as stack:
        before_s, before = time.monotonic(), {name: processor_time_s(pid) for name, pid in stack.pids.items()}
        numbers = loop_numbers(stack, seconds, stop)
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
def running_stack(stack: Stack, stop: StopRequest) -> Iterator[Stack]:
    """The stack, up and settled; down at the end. Raises :class:`DeviceError` where it does not come up."""
    try:
        stack.start()
        problem = wait_until_up(stack, stop, STARTUP_TIMEOUT_S)
        if problem:
            raise DeviceError("stack", problem, "See the log above")
        wait_or_stop(stop, SETTLING_S)
        yield stack
    finally:
        stack.shutdown()


def loop_numbers(
    stack: ComposedStack, seconds: float, stop: StopRequest, begin: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """``LOOP_KEYS`` of the driver's loop over a time from now on."""
    stack.reset_statistics()
    begin()
    wait_or_stop(stop, seconds)
    timing = stack.newest_timing_numbers()
    missing = [key for key in LOOP_KEYS if key not in timing]
    if missing:
        raise DeviceError("tendon_driver", f"has no {', '.join(missing)}", "See the log above")
    return {key: timing[key] for key in LOOP_KEYS}


def wait_or_stop(stop: StopRequest, duration_s: float) -> None:
    """Wait. Raises :class:`Stopped` where a stop was asked for."""
    if stop.wait(duration_s):
        raise Stopped
