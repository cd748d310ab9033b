# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot up``: the nodes of a robot until Ctrl-C, in one process or in several."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from continuum_robot.app.running.demo import (
    STATUS_PERIOD_S,
    prepare_cycle,
    wait_until_up,
)
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.processes import RESPAWNS
from continuum_robot.app.running.simulation_level import AUTO
from continuum_robot.app.running.stack import SUPERVISOR, load_for_stack, tell_truth, with_simulation_level
from continuum_robot.app.running.status_line import StackMonitor, render
from continuum_robot.app.view.page_process import PageProcess
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.choices import CLARKE
from continuum_robot.nodes.stack.options import MANAGED_NODES, StackOptions


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """Options of the command, see its help.

    Attributes
    ----------
    robot : path of a robot file, or the name of a shipped one
    simulated : simulated hardware, else the robot on its bus
    simulation_level : wire, dynamics, mujoco or auto
    world : file of obstacles, with mujoco; empty: none
    truth : robot file of what is simulated, or the name of a shipped truth; empty: as the robot file states; ``none``
    processes : nodes in groups, each group a process, else all in one
    controller : clarke, tip, hold_tension, topic or none
    clock : real, lockstep, or auto: real where this machine keeps up
    record : record all topics
    out : folder of recordings
    activate : bring the stack up, else only start the nodes
    start_motion : play the trajectory once the stack is up, else hold; None: with simulated hardware alone
    contact : start the contact monitor
    tracker : simulate a tracker of the tip
    predictive : plan to targets of the tip round the obstacles of the world
    reaction : to contacts; empty: as the robot file states
    payload_kg : what the tip carries, kg; negative: as the robot file states
    params_file : parameters of the nodes; they win over the robot file
    namespace : of the nodes
    prefix : of the frames
    force_sensor : also read the force-torque sensor
    view : start the page in the browser
    view_only : the page shows and takes no orders
    allow_origins : further addresses of the page
    respawns : how often a process that ends by itself is started again
    """

    robot: str
    simulated: bool
    simulation_level: str
    processes: bool
    controller: str = CLARKE
    clock: str = AUTO
    record: bool
    out: Path
    activate: bool
    start_motion: bool | None = None
    contact: bool
    namespace: str
    prefix: str
    force_sensor: bool = False
    view: bool = True
    view_only: bool = False
    allow_origins: tuple[str, ...] = ()
    respawns: int = RESPAWNS
    world: str = ""
    truth: str = ""
    tracker: bool = False
    predictive: bool = False
    reaction: str = ""
    payload_kg: float = -1.0
    params_file: Path | None = None

    def stack(self) -> StackOptions:
        """What is to be brought up. Raises RobotFileError."""
        nodes, file = (*MANAGED_NODES, SUPERVISOR), self.params_file
        parameters = {}
        if file is not None:
            given = ParamsFile(file)
            given.check_sections(nodes)
            parameters = {node: given.of(node, self.namespace) for node in nodes}
        return StackOptions(
            robot=self.robot,
            simulated=self.simulated,
            simulation_level=self.simulation_level,
            world=self.world,
            truth=self.truth,
            force_sensor=self.force_sensor,
            tracker=self.tracker,
            predictive=self.predictive,
            reaction=self.reaction,
            payload_kg=self.payload_kg,
            namespace=self.namespace,
            prefix=self.prefix,
            record_directory=self.out.resolve() if self.record else None,
            autostart=self.activate,
            start_motion=self.activate and (self.simulated if self.start_motion is None else self.start_motion),
            controller=self.controller,
            clock=self.clock,
            contact=self.contact,
            params_file="" if file is None else str(file.resolve()),
            parameters=parameters,
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
    tell_truth(options, robot, console)

    def prepare() -> None:
        if options.simulated:
            prepare_cycle(robot, console)

    forking = ProcessStack.server() if up.processes else contextlib.nullcontext()
    with forking as server, claimed_domain(options.namespace, meanwhile=prepare):
        chosen, devices, sentence = with_simulation_level(options, robot)
        if sentence:
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        page_process = PageProcess(
            up.robot, console, namespace=up.namespace, desired=up.view, out=up.out, view_only=up.view_only,
            allow_origins=up.allow_origins,
        )  # fmt: skip
        with StopRequest() as stop, page_process as page:
            stack = ProcessStack(chosen, server, up.respawns) if up.processes else ComposedStack(chosen)
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
