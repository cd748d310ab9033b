# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot bench``: the 1 kHz loop over DDS on this machine, beside a bare one."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from continuum_robot import __version__
from continuum_robot.app.bench.bare_loop import measure_bare_loop
from continuum_robot.app.bench.company import has_viewer, loop_in_company
from continuum_robot.app.bench.driver import measure_driver_cycle
from continuum_robot.app.bench.loop import (
    BARE,
    ONE,
    SEPARATE,
    Stopped,
    loop_in_one_process,
    loop_in_separate_processes,
)
from continuum_robot.app.bench.tables import Tables
from continuum_robot.app.output import write_json
from continuum_robot.app.running.demo import prepare_cycle
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.simulation_level import AUTO, choose_level
from continuum_robot.app.running.stack import load_for_stack
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.stack.options import StackOptions

ROBOT = "opencr_five_tendon"


def run_bench(seconds: float, json_file: Path | None, console: Console | None = None) -> int:
    """Measure, print, and write JSON."""
    console = console or Console()
    robot = load_for_stack(StackOptions(robot=ROBOT))
    numbers: dict[str, Any] = {"loop_seconds": seconds, **machine()}
    tables = Tables(console, numbers)
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
                if has_viewer():
                    with console.status(f"the loop alone, with the page, a client, a recorder, {seconds:g} s each ..."):
                        numbers |= loop_in_company(options, seconds, stop)
            except Stopped:
                return 143 if stop.signal_name == "SIGTERM" else 130
    tables.print_driver()
    tables.print_loop()
    tables.print_company()
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
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = ()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
