# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot up``: the nodes of a robot until Ctrl-C, in one process or in several."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from continuum_robot.app.output import say
from continuum_robot.app.running.demo import (
    STATUS_PERIOD_S,
    prepare_cycle,
    wait_until_up,
)
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.options import UpOptions
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.stack import SUPERVISOR, load_for_stack, tell_truth, with_simulation_level
from continuum_robot.app.running.status_line import StackMonitor, render
from continuum_robot.app.view.admission import checked_origins
from continuum_robot.app.view.page_process import PageProcess
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import MANAGED_NODES, StackOptions


def stack_of(up: UpOptions) -> StackOptions:
    """What is to be brought up."""
    parameters = {}
    if up.params_file:
        nodes, given = (*MANAGED_NODES, SUPERVISOR), ParamsFile(Path(up.params_file))
        given.check_sections(nodes)
        parameters = {node: given.of(node, up.namespace) for node in nodes}
    return StackOptions.of(
        up,
        record_directory=up.folder.resolve() if up.record else None,
        start_motion=up.autostart and (up.simulated if up.start is None else up.start),
        params_file=str(Path(up.params_file).resolve()) if up.params_file else "",
        parameters=parameters,
    )


def run_up(up: UpOptions, console: Console | None = None) -> int:
    """Bring the nodes up, keep them until a signal comes, bring them down in order."""
    console = console or Console()
    options = stack_of(up)
    robot = load_for_stack(options)
    tell_truth(options, robot, console)

    def prepare() -> None:
        if options.simulated:
            prepare_cycle(robot, console)

    forking = ProcessStack.server() if up.processes else contextlib.nullcontext()
    with forking as server, claimed_domain(options.namespace, meanwhile=prepare):
        chosen, devices, sentence = with_simulation_level(options, robot)
        if sentence:
            say(console, sentence)
        page_process = PageProcess(
            up.robot, console, namespace=up.namespace, desired=up.view, folder=up.folder, view_only=up.view_only,
            allow_origins=checked_origins(up.allow_origin),
        )  # fmt: skip
        with StopRequest() as stop, page_process as page:
            stack = ProcessStack(chosen, server, up.respawn) if up.processes else ComposedStack(chosen)
            problem = _run(stack, stop, console, devices, page)
    if problem:
        console.print(f"[red]failed[/red]: {escape(problem)}", highlight=False, soft_wrap=True)
        return 1
    return 143 if stop.signal_name == "SIGTERM" else 130


def _run(stack: ComposedStack, stop: StopRequest, console: Console, devices: str, page: PageProcess) -> str:
    try:
        stack.start()
        for name, pid in stack.pids.items():
            console.print(f"{name}: process {pid}", highlight=False)
        if stack.options.autostart:
            with console.status("bringing the nodes up ..."):
                problem = wait_until_up(stack, stop)
            if problem:
                return problem
        monitor = StackMonitor(stack, devices)
        begun_s = time.monotonic()
        lost: dict[str, int] = {}
        try:
            with Live(console=console, auto_refresh=False) as live:
                while not stop.wait(STATUS_PERIOD_S):
                    line = render(monitor.state(), monitor.hardware, time.monotonic() - begun_s, None)
                    live.update(line, refresh=True)
                    page.tell()
                    for name, code in stack.start_again().items():
                        console.print(
                            f"[red]{name} ended with code {code}[/red]: started again as process {stack.pids[name]}"
                            f" (number {stack.restarts[name]}); reset the stack to go on",
                            highlight=False,
                        )
                    for name, code in stack.ended.items():
                        if name not in lost:
                            lost[name] = code
                            console.print(f"[red]{name} ended with code {code}[/red]", highlight=False)
        finally:
            monitor.close()
            stack.note(stack.timing_numbers())
        if lost:
            return ", ".join(f"{name} ended with code {code}" for name, code in lost.items())
        return "a node failed, see the log above" if stack.failed else ""
    finally:
        stack.shutdown()
