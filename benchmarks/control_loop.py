# SPDX-License-Identifier: Apache-2.0
"""The 1 kHz loop over DDS on this machine, beside a bare one: python benchmarks/control_loop.py --json FILE.

The driver without ROS, the loop with all nodes in one process and in separate processes, and while a page, a client and
a recorder come to it: rate, missed cycles, from the reading to its command written, processor time of each process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bare_loop import measure_bare_loop
from rich.console import Console
from rich.markup import escape

from continuum_robot import __version__
from continuum_robot.app.client.stack_link import DIAGNOSTICS, StackLink
from continuum_robot.app.output import print_table, write_json
from continuum_robot.app.running.demo import prepare_cycle, wait_until_up
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.processes import ProcessGroup, node_command, processor_time_s
from continuum_robot.app.running.realtime import measure_form
from continuum_robot.app.running.stack import AUTO, choose_level, load_for_stack
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import CONTROL_LOOP, GROUPS, StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.forms import compiled_form, interpreted_form

ROBOT = "opencr_five_tendon"
STARTUP_TIMEOUT_S = 60.0
SETTLING_S = 2.0
_PAGE_S = 10.0
ONLOOKERS = str(Path(__file__).with_name("onlookers.py"))

BARE, ONE, SEPARATE = "bare_loop", "one_process", "separate_processes"
ALONE, PAGE, CLIENT, RECORDER = "without_page", "with_page", "with_client", "with_recorder"
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


def loop_in_company(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """One run of the loop, in processes: alone, then with the page, a client and a recorder, each of which stays.

    A stage begins when its program is started: what the start costs the loop is in the numbers. Somebody takes what the
    page sends and draws nothing: what a browser costs is a matter of its graphics.
    """
    python = [sys.executable, "-m"]
    with (
        running_stack(ProcessStack(options), stop) as stack,
        tempfile.TemporaryDirectory(prefix="continuum_robot_bench_") as folder,
        contextlib.ExitStack() as company,
    ):

        def start(name: str, *command: str, output: int | None = None) -> ProcessGroup:
            group = ProcessGroup({name: command}, signals=(signal.SIGTERM, signal.SIGKILL), output=output)
            group.start()
            company.callback(group.stop)
            return group

        def start_page() -> None:
            view = "continuum_robot.app.command_line", "view", options.robot
            page = start("view", *python, *view, output=subprocess.PIPE)
            address = Path(folder) / "address"
            address.write_text(_address_of(page, stop), encoding="utf-8")
            start("audience", sys.executable, ONLOOKERS, str(address))
            pids.append(page.pids["view"])

        def start_recorder() -> None:
            own = {"robot": options.robot, "use_fake_hardware": True, "activate": True, "directory": folder}
            start("recorder", *node_command("recorder", own, options.namespace, ("-r", "__node:=bench_recorder")))

        pids: list[int] = []
        link = StackLink(name="bench", topics=(DIAGNOSTICS,), context=stack.context, listens_only=True)
        company.callback(link.close)
        begins = {
            ALONE: lambda: None,
            PAGE: start_page,
            CLIENT: lambda: start("client", sys.executable, ONLOOKERS),
            RECORDER: start_recorder,
        }
        numbers: dict[str, Any] = {}
        for stage, begin in begins.items():
            measured = loop_numbers(stack, seconds, stop, begin)
            numbers |= {f"{stage}_{key}": value for key, value in measured.items()}
            numbers[f"{stage}_faults"] = list(stack.status().faults)
        frames_hz = _frames_hz(link)
        if not frames_hz > 0:
            raise DeviceError("view", "draws nothing", "See the log above")
        before_s, used_s = time.monotonic(), processor_time_s(pids[0])
        wait_or_stop(stop, min(seconds, _PAGE_S))
        fraction = 100.0 * (processor_time_s(pids[0]) - used_s) / (time.monotonic() - before_s)
        return numbers | {"page_frames_hz": frames_hz, "page_processor_percent": fraction}


def _address_of(page: ProcessGroup, stop: StopRequest) -> str:
    text, deadline_s = b"", time.monotonic() + STARTUP_TIMEOUT_S
    while b"\n" not in text:
        if page.ended() or time.monotonic() > deadline_s:
            raise DeviceError("view", "does not come up", "See the log above")
        wait_or_stop(stop, 0.1)
        text += page.read("view")
    return text.split()[0].decode()


def _frames_hz(link: StackLink) -> float:
    """How often the page draws, by /diagnostics; 0 without a message."""
    newest = 0.0
    for message in link.messages.drain(DIAGNOSTICS):
        for status in message.status:
            if status.name.startswith("/view_") and status.name.endswith(": page"):
                newest = float(values_of(status)["frames_hz"])
    return newest


def measure_driver_cycle(
    robot: Robot, wait: Callable[[], object], progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The driver's loop without ROS, first interpreted, then compiled where it can be; each while ``wait`` lasts."""
    default = compiled_form(progress)
    forms = [interpreted_form("it is measured"), default] if default.compiled else [default]
    numbers: dict[str, Any] = {"driver_tendons": robot.tendon_count}
    measured: dict[str, Any] = {}
    for form in forms:
        measured = measure_form(robot, form, wait)
        numbers["driver_boards"] = measured.pop("boards")
        numbers["simulated_boards_processor_percent"] = measured.pop("simulated_boards_processor_percent")
        numbers |= {f"driver_{form.name}_{key}": value for key, value in measured.items()}
    numbers |= {f"driver_{key}": value for key, value in measured.items()}
    return numbers | {"driver_form": default.name, "driver_form_reason": default.reason}


def run(seconds: float, json_file: Path | None) -> int:
    """Measure, print, and write JSON."""
    console = Console()
    robot = load_for_stack(StackOptions(robot=ROBOT))
    numbers: dict[str, Any] = {"loop_seconds": seconds, **machine()}
    with claimed_domain(""):
        prepare_cycle(robot, console)
        options = StackOptions(robot=ROBOT, simulation_level=choose_level(AUTO, robot).name, start_motion=True)
        numbers["simulation_level"] = options.simulation_level
        with StopRequest() as stop:
            try:
                with console.status(f"the driver on simulated motor boards, {seconds:g} s in each form ...") as status:
                    numbers |= measure_driver_cycle(
                        robot, lambda: stop.wait(seconds), progress=lambda text: status.update(escape(text))
                    )
                if stop.wait(0.0):
                    raise Stopped
                with console.status(f"the same messages without the stack, for {seconds:g} s ..."):
                    bare = measure_bare_loop(seconds, stop)
                numbers |= {f"{BARE}_{key}": value for key, value in bare.items()}
                if stop.wait(0.0):
                    raise Stopped
                for place, measure in ((ONE, loop_in_one_process), (SEPARATE, loop_in_separate_processes)):
                    with console.status(f"1 kHz loop for {seconds:g} s: {place.replace('_', ' ')} ..."):
                        measured = measure(options, seconds, stop)
                    numbers |= {f"{place}_{key}": value for key, value in measured.items()}
                if importlib.util.find_spec("viser") is not None:
                    with console.status(f"the loop alone, with the page, a client, a recorder, {seconds:g} s each ..."):
                        numbers |= loop_in_company(options, seconds, stop)
            except Stopped:
                return 143 if stop.signal_name == "SIGTERM" else 130
    print_driver(console, numbers)
    print_loop(console, numbers)
    print_company(console, numbers)
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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


_HERTZ, _MICROSECONDS, _PERCENT, _LOAD = "{:.1f} Hz".format, "{:.0f} µs".format, "{:.2f} %".format, "{:.0f} %".format
_RATE, _MISSED = ("rate", "loop_rate_hz", _HERTZ), ("cycles missed", "missed_cycles_percent", _PERCENT)
_FAULTS = ("faults", "faults", lambda names: ", ".join(names) or "none")
_TRIPS = tuple((f"round trip {name}", f"round_trip_{name}_us", _MICROSECONDS) for name in ("p50", "p99", "max"))


def print_driver(console: Console, numbers: Mapping[str, Any]) -> None:
    """The driver's loop without ROS, in both forms."""
    rows = (
        _RATE,
        _MISSED,
        ("begins late p99", "late_p99_us", _MICROSECONDS),
        ("reading to its command written p50", "response_p50_us", _MICROSECONDS),
        ("reading to its command written p99", "response_p99_us", _MICROSECONDS),
        ("processor a cycle", "cycle_us", _MICROSECONDS),
        ("processor, 100 % is a core", "processor_percent", _LOAD),
        _FAULTS,
    )
    forms = {form: f"driver_{form}" for form in ("interpreted", "compiled") if f"driver_{form}_loop_rate_hz" in numbers}
    title = f"Driver on {numbers['driver_boards']} CAN channels, {numbers['driver_tendons']} tendons, without ROS"
    _print(console, title, forms, rows, numbers)
    console.print(
        f"By default it runs {numbers['driver_form']}: {numbers['driver_form_reason']}. The simulated boards are "
        f"in another process: {numbers['simulated_boards_processor_percent']:.0f} % of a core.",
        highlight=False,
    )


def print_loop(console: Console, numbers: Mapping[str, Any]) -> None:
    """The loop over DDS, in one process, in separate ones, and bare."""
    cost = ("driver and controller, a cycle", "loop_processor_us_a_cycle", _MICROSECONDS)
    load = ("processor, 100 % is a core", "processor_percent", _LOAD)
    groups = tuple((f"  {group}", f"{group}_processor_percent", _LOAD) for group in GROUPS)
    places = {"one process": ONE, "separate processes": SEPARATE, "bare loop": BARE}
    rows = (_RATE, _MISSED, *_TRIPS, load, *groups, cost, _FAULTS)
    _print(console, "1 kHz loop over DDS", places, rows, numbers)
    console.print(
        "Round trip: of the bare loop from a state to the command that answers it, two hops of DDS; of the stack"
        " from the beginning of a cycle, before it reads, to its command written. The bare loop: the same messages"
        " between two processes that compute nothing, measured just before. What it misses, this machine and the"
        " middleware miss.",
        highlight=False,
    )


def print_company(console: Console, numbers: Mapping[str, Any]) -> None:
    """The loop of one run, with one program more each time."""
    if "page_frames_hz" not in numbers:
        console.print("page in the browser: not measured, the extra viz is not installed", highlight=False)
        return
    stages = {"alone": ALONE, "and the page": PAGE, "and a client": CLIENT, "and a recorder": RECORDER}
    title = "Programs that come to a running stack, one after the other"
    _print(console, title, stages, (_MISSED, *_TRIPS[:2], _FAULTS), numbers)
    console.print(
        f"The page draws {numbers['page_frames_hz']:.1f} frames a second and takes "
        f"{numbers['page_processor_percent']:.0f} % of a core.",
        highlight=False,
    )


def _print(console: Console, title: str, places: Mapping[str, str], rows: Any, numbers: Mapping[str, Any]) -> None:
    """A column a place, whose numbers have its name before their key; a row that no place has is left out."""
    lines = []
    for name, key, shown in rows:
        values = [numbers.get(f"{place}_{key}") for place in places.values()]
        if any(value is not None for value in values):
            lines.append([name, *("" if value is None else shown(value) for value in values)])
    print_table(console, title, ["", *(f">{name}" for name in places)], lines)


def main() -> int:
    """Run the benchmark as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each run of the loop, s")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    given = parser.parse_args()
    return run(given.seconds, given.json)


if __name__ == "__main__":
    sys.exit(main())
