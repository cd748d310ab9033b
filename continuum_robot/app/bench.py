# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot bench``: speed of the rod model, and of the 1 kHz loop over DDS, on this machine."""

from __future__ import annotations

import importlib.util
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.node import Node
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from std_srvs.srv import Trigger

from continuum_robot import __version__
from continuum_robot.app.bare_loop import measure_bare_loop
from continuum_robot.app.demo import prepare_model, wait_until_up
from continuum_robot.app.domain import claimed_domain
from continuum_robot.app.driver_bench import measure_driver_cycle
from continuum_robot.app.output import write_json
from continuum_robot.app.processes import ProcessGroup, node_command, processor_time_s
from continuum_robot.app.stack import load_for_stack, node_parameters
from continuum_robot.drivers.benchmark import measure_codecs
from continuum_robot.errors import DeviceError
from continuum_robot.estimation.benchmark import measure_contact_monitor
from continuum_robot.mechanisms.rolling_joint.benchmark import measure_rolling_joints
from continuum_robot.msg import StackStatus
from continuum_robot.nodes import qos
from continuum_robot.nodes.composition import ComposedStack, StackOptions
from continuum_robot.nodes.diagnostics import values_of
from continuum_robot.nodes.spinning import Spinner, StopRequest, initialize, shut_down_at_end, wait_for
from continuum_robot.rod.benchmark import measure_forward_dynamics
from continuum_robot.rod.strain_benchmark import measure_statics
from continuum_robot.rod.strain_motion_benchmark import measure_motion

ROBOT = "opencr_five_tendon"
STARTUP_TIMEOUT_S = 60.0
SETTLING_S = 2.0
# The driver reports on /diagnostics twice a second.
REPORT_PERIOD_S = 0.6

BARE, ONE, SEPARATE = "bare_loop", "one_process", "separate_processes"
LOOP_KEYS = ("loop_rate_hz", "missed_cycles_percent", "round_trip_p50_us", "round_trip_p99_us", "round_trip_max_us")


class _Stopped(KeyboardInterrupt):
    """A stop was asked for while measuring."""


def run_bench(seconds: float, json_file: Path | None, console: Console | None = None) -> int:
    """Measure, print, and write JSON.

    Parameters
    ----------
    seconds : length of each run of the loop, s
    json_file : where to write the numbers too, None for nowhere
    console : where to print

    Returns
    -------
    exit code: 0; 130 or 143 where it was stopped by SIGINT or SIGTERM

    Raises
    ------
    BusyDomainError : another stack lives in this DDS domain
    DeviceError : the stack did not come up
    """
    console = console or Console()
    options = StackOptions(robot=ROBOT)
    robot = load_for_stack(options)
    numbers: dict[str, Any] = {"loop_seconds": seconds, **machine()}
    with console.status("forward dynamics ...") as status:
        numbers |= measure_forward_dynamics(progress=lambda text: status.update(escape(text)))
    _print_dynamics(console, numbers)
    with console.status("statics ...") as status:
        numbers |= measure_statics(progress=lambda text: status.update(escape(text)))
    _print_statics(console, numbers)
    with console.status("motion of the general rod ...") as status:
        numbers |= measure_motion(progress=lambda text: status.update(escape(text)))
    _print_motion(console, numbers)
    with console.status("rolling joints ..."):
        numbers |= measure_rolling_joints()
    _print_rolling_joints(console, numbers)
    with console.status("contact monitor ...") as status:
        numbers |= measure_contact_monitor(progress=lambda text: status.update(escape(text)))
    _print_contact_monitor(console, numbers)
    with console.status("codecs ..."):
        numbers |= measure_codecs()
    _print_codecs(console, numbers)
    with claimed_domain(""):
        prepare_model(robot, console)
        with StopRequest() as stop:
            try:
                with console.status(f"the driver on simulated motor boards for {seconds:g} s ..."):
                    numbers |= measure_driver_cycle(robot, lambda: stop.wait(seconds))
                if stop.wait(0.0):
                    raise _Stopped
                with console.status(f"the same messages without the stack, for {seconds:g} s ..."):
                    bare = measure_bare_loop(seconds, stop)
                numbers |= {f"{BARE}_{key}": value for key, value in bare.items()}
                if stop.wait(0.0):
                    raise _Stopped
                for place, measure in ((ONE, loop_in_one_process), (SEPARATE, loop_in_separate_processes)):
                    with console.status(f"1 kHz loop for {seconds:g} s: {place.replace('_', ' ')} ..."):
                        measured = measure(options, seconds, stop)
                    numbers |= {f"{place}_{key}": value for key, value in measured.items()}
                if has_viewer():
                    with console.status(f"the loop with and without the page in the browser, {seconds:g} s each ..."):
                        numbers |= loop_with_page(options, seconds, stop)
            except _Stopped:
                return 143 if stop.signal_name == "SIGTERM" else 130
    _print_driver(console, numbers)
    _print_loop(console, numbers)
    _print_page(console, numbers)
    console.print(
        f"These numbers are of this machine: {numbers['processor']}, {numbers['processors']} CPUs", highlight=False
    )
    if json_file is not None:
        write_json(json_file, numbers)
    return 0


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, operating system, Python, load before the run."""
    return {
        "version": __version__,
        "processor": _processor(),
        "processors": os.cpu_count() or 0,
        "system": platform.platform(),
        "python": platform.python_version(),
        "rmw": os.environ.get("RMW_IMPLEMENTATION", "default"),
        "load_average_before": os.getloadavg()[0],
    }


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
        raise _Stopped


def _processor() -> str:
    try:
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = ()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _print_dynamics(console: Console, numbers: Mapping[str, Any]) -> None:
    table = Table(title="Forward dynamics, µs a call", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("segments", "compiled", "CasADi's machine", "instructions"):
        table.add_column(heading, justify="right")
    for count in (1, 2, 3):
        key = f"forward_dynamics_{count}_segments"
        compiled = numbers.get(f"{key}_compiled_us")
        table.add_row(
            str(count),
            "no compiler" if compiled is None else f"{compiled:.1f}",
            f"{numbers[f'{key}_virtual_machine_us']:.1f}",
            str(numbers[f"{key}_instructions"]),
        )
    console.print(table)


def _print_statics(console: Console, numbers: Mapping[str, Any]) -> None:
    title = "Static solution, bending and torsion of order 3, ms"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("warm start", "cold", "cold, load in steps"):
        table.add_column(heading, justify="right")
    keys = ("warm", "cold", "cold_with_continuation")
    table.add_row(*(f"{numbers[f'static_solve_{key}_ms']:.2f}" for key in keys))
    console.print(table)


def _print_motion(console: Console, numbers: Mapping[str, Any]) -> None:
    title = "Motion of three segments with bending of order 2, steps of 2 ms"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("method", "times real time", "evaluations a step"):
        table.add_column(heading, justify="right")
    for method in ("midpoint", "sdirk"):
        key = f"dynamics_3_segments_{method}"
        table.add_row(method, f"{numbers[f'{key}_times_real_time']:.1f}", f"{numbers[f'{key}_iterations_a_step']:.1f}")
    console.print(table)


def _print_rolling_joints(console: Console, numbers: Mapping[str, Any]) -> None:
    title = "Rolling joints, five links, from a pose near by, µs a solution"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("median", "least"):
        table.add_column(heading, justify="right")
    table.add_row(*(f"{numbers[f'rolling_joint_5_links_{heading}_us']:.0f}" for heading in ("median", "least")))
    console.print(table)


def _print_contact_monitor(console: Console, numbers: Mapping[str, Any]) -> None:
    table = Table(title="Contact monitor, µs an update", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("robot and method", "median", "p99"):
        table.add_column(heading, justify="left" if heading.startswith("robot") else "right")
    for key in numbers:
        if key.startswith("contact_monitor_") and key.endswith("_median_us"):
            name = key.removesuffix("_median_us")
            shown = name.removeprefix("contact_monitor_")
            table.add_row(shown, f"{numbers[key]:.0f}", f"{numbers[name + '_p99_us']:.0f}")
    console.print(table)


def _print_codecs(console: Console, numbers: Mapping[str, Any]) -> None:
    table = Table(title="Codecs, µs a frame", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("driver")
    table.add_column("time", justify="right")
    for key, value in numbers.items():
        if key.startswith("codec_"):
            table.add_row(key.removeprefix("codec_").removesuffix("_us").replace("_", " "), f"{value:.2f}")
    console.print(table)


def _print_driver(console: Console, numbers: Mapping[str, Any]) -> None:
    console.print(
        f"driver on {numbers['driver_boards']} simulated boards, {numbers['driver_tendons']} tendons, without ROS: "
        f"{numbers['driver_loop_rate_hz']:.1f} Hz, {numbers['driver_missed_cycles_percent']:.2f} % missed, late p99 "
        f"{numbers['driver_late_p99_us']:.0f} us; driver {numbers['driver_cycle_us']:.0f} us a cycle, "
        f"{numbers['driver_processor_percent']:.1f} % of a core (boards and plant "
        f"{numbers['simulated_boards_processor_percent']:.1f} %)",
        highlight=False,
        soft_wrap=True,
    )


def _print_loop(console: Console, numbers: Mapping[str, Any]) -> None:
    table = Table(title="1 kHz loop over DDS", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("")
    rows: list[tuple[str, str, Callable[[Any], str]]] = [
        ("rate", "loop_rate_hz", lambda value: f"{value:.1f} Hz"),
        ("cycles missed", "missed_cycles_percent", lambda value: f"{value:.2f} %"),
        ("round trip p50", "round_trip_p50_us", lambda value: f"{value:.0f} µs"),
        ("round trip p99", "round_trip_p99_us", lambda value: f"{value:.0f} µs"),
        ("round trip max", "round_trip_max_us", lambda value: f"{value:.0f} µs"),
        ("processor, 100 % is a core", "processor_percent", lambda value: f"{value:.0f} %"),
        ("faults", "faults", lambda value: ", ".join(value) or "none"),
    ]
    places = (ONE, SEPARATE, BARE)
    for heading in ("one process", "separate processes", "bare loop"):
        table.add_column(heading, justify="right")
    for name, key, shown in rows:
        cells = (numbers.get(f"{place}_{key}") for place in places)
        table.add_row(name, *("" if cell is None else shown(cell) for cell in cells))
    for node in numbers[f"{SEPARATE}_nodes"]:
        table.add_row(f"  {node}", "", f"{numbers[f'{SEPARATE}_{node}_processor_percent']:.0f} %", style="dim")
    console.print(table)
    console.print(
        "The bare loop: the same messages between two processes that compute nothing, measured just before. What it "
        "misses, this machine and the middleware miss.",
        highlight=False,
    )


def _print_page(console: Console, numbers: Mapping[str, Any]) -> None:
    if "page_frames_hz" not in numbers:
        console.print("page in the browser: not measured, the extra viz is not installed", highlight=False)
        return
    parts = [
        f"{words} {numbers[f'{key}_missed_cycles_percent']:.2f} % of the cycles missed, round trip p99 "
        f"{numbers[f'{key}_round_trip_p99_us']:.0f} µs"
        for words, key in (("without", "without_page"), ("with", "with_page"))
    ]
    console.print(
        f"page in the browser, in one run: {'; '.join(parts)}; {numbers['page_frames_hz']:.1f} frames a second, "
        f"{numbers['page_processor_percent']:.0f} % of a core",
        highlight=False,
        soft_wrap=True,
    )
