# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot up``: the nodes of a robot until Ctrl-C, in one process or in several."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from continuum_robot.app.demo import (
    STATUS_PERIOD_S,
    prepare_model,
    wait_until_up,
)
from continuum_robot.app.domain import claimed_domain
from continuum_robot.app.processes import ProcessGroup, node_command
from continuum_robot.app.stack import load_for_stack, node_parameters, with_fake_level
from continuum_robot.app.status_line import StackMonitor, render
from continuum_robot.app.view.companion import PageCompanion
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.spinning import StopRequest
from continuum_robot.nodes.stack_options import StackOptions

WATCH_PERIOD_S = 0.5


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """Options of the command, see its help.

    Attributes
    ----------
    robot : path of a robot file, or the name of a shipped one
    simulated : simulated hardware, else the robot on its bus
    fake_level : wire, dynamics, mirror or auto
    processes : each node in its own, else all in one
    record : record all topics
    out : folder of recordings
    activate : drive the robot, else only bring the nodes up
    contact : start the contact monitor
    namespace : of the nodes
    prefix : of the frames
    force : also where another stack lives in this DDS domain
    view : start the page in the browser
    """

    robot: str
    simulated: bool
    fake_level: str
    processes: bool
    record: bool
    out: Path
    activate: bool
    contact: bool
    namespace: str
    prefix: str
    force: bool = False
    view: bool = True

    def stack(self) -> StackOptions:
        """What is to be brought up."""
        return StackOptions(
            robot=self.robot,
            simulated=self.simulated,
            fake_level=self.fake_level,
            force=self.force,
            namespace=self.namespace,
            prefix=self.prefix,
            record_directory=self.out.resolve() if self.record else None,
            autostart=self.activate,
            contact=self.contact,
        )


def run_up(up: UpOptions, console: Console | None = None) -> int:
    """Bring the nodes up, keep them until a signal comes, bring them down in order.

    Parameters
    ----------
    up : the command's options
    console : where to print

    Returns
    -------
    exit code: 130 or 143 after Ctrl-C or SIGTERM; 1 where the stack did not come up, or a process or node failed

    Raises
    ------
    ContinuumRobotError : a robot file that cannot be used, a busy DDS domain
    """
    console = console or Console()
    options = up.stack()
    robot = load_for_stack(options)
    with claimed_domain(options.namespace):
        if options.simulated:
            prepare_model(robot, console)
        options, devices = with_fake_level(options, robot)
        companion = PageCompanion(up.robot, console, namespace=up.namespace, wanted=up.view, out=up.out)
        with StopRequest() as stop, companion as page:
            problem = (_in_processes if up.processes else _composed)(options, stop, console, devices, page)
    if problem:
        console.print(f"[red]failed[/red]: {escape(problem)}", highlight=False, soft_wrap=True)
        return 1
    return 143 if stop.signal_name == "SIGTERM" else 130


def _composed(options: StackOptions, stop: StopRequest, console: Console, devices: str, page: PageCompanion) -> str:
    stack = ComposedStack(options)
    try:
        stack.start()
        if options.autostart:
            with console.status("bringing the nodes up ..."):
                problem = wait_until_up(stack, stop)
            if problem:
                return problem
        monitor = StackMonitor(stack, devices)
        begun_s = time.monotonic()
        try:
            with Live(console=console, auto_refresh=False) as live:
                while not stop.wait(STATUS_PERIOD_S):
                    live.update(render(monitor.snapshot(), time.monotonic() - begun_s, None), refresh=True)
                    page.tell()
        finally:
            monitor.close()
            stack.note(stack.timing_numbers())
        return "a node failed, see the log above" if stack.failed else ""
    finally:
        stack.shutdown()


def _in_processes(options: StackOptions, stop: StopRequest, console: Console, devices: str, page: PageCompanion) -> str:
    console.print(f"devices: {devices}", highlight=False)
    commands = {
        node: node_command(node, parameters, options.namespace) for node, parameters in node_parameters(options).items()
    }
    group = ProcessGroup(commands)
    group.start()
    for name, pid in group.pids.items():
        console.print(f"{name}: process {pid}", highlight=False)
    lost: dict[str, int] = {}
    while not stop.wait(WATCH_PERIOD_S):
        page.tell()
        for name, code in group.ended().items():
            if name not in lost:
                lost[name] = code
                console.print(f"[red]{name} ended with code {code}[/red]", highlight=False)
        # Without the supervisor nobody brings the others down in order; without any of them there is nothing to do.
        if "supervisor" in lost or len(lost) == len(commands):
            break
    # The supervisor was started last and is stopped first: it brings the others down in order.
    codes = group.stop()
    failed = {name: code for name, code in (lost or codes).items() if code != 0 or name in lost}
    return ", ".join(f"{name} ended with code {code}" for name, code in failed.items())
