# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot demo``: a simulated robot on real nodes tracks its trajectory, and leaves a report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from continuum_robot.app.output import run_folder, say
from continuum_robot.app.recordings.run import RECORDING, open_run
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.options import DemoOptions
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.processes import processor_time_s
from continuum_robot.app.running.stack import LOCKSTEP, load_for_stack, tell_truth, with_simulation_level
from continuum_robot.app.running.status_line import StackMonitor, render
from continuum_robot.app.view.admission import checked_origins
from continuum_robot.app.view.page_process import PageProcess
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.estimation.contact.settings import contact_channels
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.choices import AT_START
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.nodes.supervisor import Supervisor
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.runtime.cycle.forms import compiled_form
from continuum_robot.simulation.contact import load_contacts

STARTUP_TIMEOUT_S = 120.0
STATUS_PERIOD_S = 0.5


@dataclass
class Outcome:
    """How a run ended."""

    facts: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    recording: Path | None = None


ROBOT, CONTACT_ROBOT = "opencr_five_tendon", "vanderbilt_segment"
LEARN_S, SETTLE_S = 8.0, 2.0
# A robot that swings after a push feels a little of what is left of it: fractions of the force across the tip that the
# tendons balance, 5 and 8 N for vanderbilt_segment, which feels a newton or two.
_LEAST_FRACTIONS = {"contact_force_steady_n": 0.026, "contact_force_accelerating_n": 0.0413}


def contact_least(robot: Robot) -> dict[str, float]:
    """Parameters of the contact monitor: the least forces that count as contact, which hide what free motion makes."""
    force_n = contact_channels(robot).balanced_tip_force_n
    return {name: float(f"{fraction * force_n:.2g}") for name, fraction in _LEAST_FRACTIONS.items()}


def contact_file(given: str, robot: Robot) -> Path:
    """The file of what touches the robot: as given, or the one that is shipped for it."""
    if given:
        return Path(given).resolve()
    try:
        return shipped_file(f"contacts/{robot.name}.yaml")
    except ParameterError as error:
        expected = f"a file: there is no shipped one for the robot {robot.name}"
        raise ParameterError("--contact", None, expected) from error


def robot_of(demo: DemoOptions) -> str:
    """The robot that was asked for, or the one that is usual."""
    return demo.robot or (ROBOT if demo.touched_by is None else CONTACT_ROBOT)


def run_demo(demo: DemoOptions, console: Console | None = None) -> int:
    """Bring the stack up, track for a while, shut it down, write the report."""
    console = console or Console()
    allow_origins = checked_origins(demo.allow_origin)
    name = robot_of(demo)
    options = StackOptions.of(demo, robot=name, start_motion=True)
    robot = load_for_stack(options)
    options = dataclasses.replace(options, truth=tell_truth(options, robot, console))
    if robot.reference is None:
        raise ParameterError("robot", robot.file_name or robot.name, "a robot file with the section reference")
    touching: Path | None = None
    duration_s = demo.duration_s
    if demo.touched_by is not None:
        touching = contact_file(demo.touched_by, robot)
        first_s = min((one.start_s for one in load_contacts(touching, robot)), default=0.0)
        if first_s >= duration_s:
            allowed = f"more than {first_s:g} s: only then does the first contact of {touching.name} begin"
            raise ParameterError("--duration", duration_s, allowed)
    with (
        ProcessStack.server() as server,
        claimed_domain(options.namespace, meanwhile=lambda: prepare_cycle(robot, console)),
    ):
        options, devices, sentence = with_simulation_level(options, robot)
        if sentence:
            say(console, sentence)
        folder = run_folder(demo.folder)
        if touching is not None:
            duration_s += LEARN_S + SETTLE_S
            console.print(
                f"{LEARN_S:g} s of free motion first, from which the contact monitor learns; then something touches",
                highlight=False,
            )
        options = dataclasses.replace(
            options,
            record_directory=folder,
            record_name=RECORDING,
            contact=touching is not None or bool(options.world),
            run_s=duration_s if options.clock == LOCKSTEP else 0.0,
            parameters=_parameters(robot, touching, options.world),
        )
        page_process = PageProcess(
            name, console, desired=demo.view, folder=demo.folder, view_only=demo.view_only, allow_origins=allow_origins
        )  # fmt: skip
        with StopRequest() as stop, page_process as page:
            stack = ProcessStack(options, server)
            outcome = _track(stack, duration_s, stop, console, devices=devices, page=page)
    reported = _report(outcome, robot, folder, console)
    if outcome.problem:
        console.print(f"[red]failed[/red]: {escape(outcome.problem)}", highlight=False, soft_wrap=True)
    if stop.signal_name:
        return 143 if stop.signal_name == "SIGTERM" else 130
    return 0 if reported and not outcome.problem else 1


def _parameters(robot: Robot, touching: Path | None, world: str) -> dict[str, dict[str, Any]]:
    """Parameters of the nodes where something may touch the robot."""
    if touching is not None:
        return {
            "simulator": {"contacts": str(touching), "contacts_after_s": LEARN_S + SETTLE_S},
            "contact_monitor": {"free_motion": AT_START, "learn_s": LEARN_S},
        }
    # Obstacles stand beside the robot from the start: no motion there is known to be free.
    return {"contact_monitor": contact_least(robot)} if world else {}


def prepare_cycle(robot: Robot, console: Console) -> None:
    """Compile the control cycle, or find it in the cache, before anything is started; nothing where it is not used."""
    if robot.traits.without_compiled_cycle:
        return
    with console.status("preparing the control cycle ...") as status:
        compiled_form(lambda text: status.update(escape(text)))


def _track(
    stack: ProcessStack, duration_s: float, stop: StopRequest, console: Console, *, devices: str, page: PageProcess
) -> Outcome:
    outcome = Outcome()
    try:
        stack.start()
        with console.status("bringing the nodes up ..."):
            outcome.problem = wait_until_up(stack, stop)
        if not outcome.problem and not stop.signal_name:
            _follow(StackMonitor(stack, devices), stack, duration_s, stop, outcome, console=console, page=page)
    except ContinuumRobotError as error:
        outcome.problem = str(error)
    finally:
        with console.status("releasing the tensions, bringing the nodes down ..."):
            stack.shutdown()
        outcome.recording = stack.recording
    return outcome


def wait_until_up(stack: ComposedStack, stop: StopRequest, timeout_s: float = STARTUP_TIMEOUT_S) -> str:
    """Wait until all nodes are active, or a stop is asked for."""
    deadline_s = time.monotonic() + timeout_s
    while stack.supervisor.stack_state not in ("up", "fault"):
        if stack.supervisor.awaits_commands:
            deadline_s = time.monotonic() + timeout_s
        elif time.monotonic() > deadline_s:
            return f"the stack is still {stack.supervisor.stack_state} after {timeout_s:g} s"
        if stack.ended:
            return _ended(stack)
        if stop.wait(0.05):
            return ""
    if stack.supervisor.stack_state == "up":
        return ""
    return stack.supervisor.reason or what_latched(stack.status().faults, stack.supervisor)


def what_latched(faults: Iterable[str], supervisor: Supervisor) -> str:
    """A sentence on faults, and on what is known of them."""
    reason = supervisor.reason if supervisor.stack_state == "fault" else ""
    return f"faults latched: {', '.join(faults)}" + (f" ({reason})" if reason else "")


def _follow(
    monitor: StackMonitor,
    stack: ProcessStack,
    duration_s: float,
    stop: StopRequest,
    outcome: Outcome,
    *,
    console: Console,
    page: PageProcess,
) -> None:
    lockstep = stack.options.clock == LOCKSTEP
    if not lockstep:
        stack.reset_statistics()
    begun_s, processor_s = time.monotonic(), _processor_s(stack)
    faults: dict[str, None] = {}
    elapsed_s = 0.0

    def over() -> bool:
        return stack.time_is_over if lockstep else elapsed_s >= duration_s

    try:
        with Live(console=console, auto_refresh=False) as live:
            while not (over() or stack.ended):
                pause_s = STATUS_PERIOD_S if lockstep else min(STATUS_PERIOD_S, duration_s - elapsed_s)
                if stop.wait(max(0.0, pause_s)):
                    break
                elapsed_s = time.monotonic() - begun_s
                state = monitor.state()
                faults |= dict.fromkeys(state.faults)
                live.update(render(state, monitor.hardware, elapsed_s, None if lockstep else duration_s), refresh=True)
                page.tell()
                if lockstep and faults:
                    break
    finally:
        monitor.close()
    took_s = time.monotonic() - begun_s
    processors = _processor_s(stack)
    outcome.facts |= {
        **stack.newest_timing_numbers(),
        "simulated": bool(stack.status().simulated),
        "simulation_level": stack.options.simulation_level,
        "truth": stack.options.truth,
        "clock": stack.options.clock,
        "processor_percent": 100.0 * (sum(processors.values()) - sum(processor_s.values())) / took_s,
        **{f"{name}_processor_percent": 100.0 * (processors[name] - processor_s[name]) / took_s for name in processors},
        "faults": list(faults),
    }
    stack.note(outcome.facts)
    if faults:
        outcome.problem = what_latched(faults, stack.supervisor)
    elif stack.failed:
        outcome.problem = _ended(stack) if stack.ended else "a node failed, see the log above"


def _ended(stack: ComposedStack) -> str:
    """Which processes ended by themselves."""
    return "a process ended: " + ", ".join(f"{name} with code {code}" for name, code in stack.ended.items())


def _processor_s(stack: ProcessStack) -> dict[str, float]:
    """Processor time of this process and of the stack's, s."""
    return {name: processor_time_s(pid) for name, pid in stack.pids.items()} | {"demo": time.process_time()}


def _report(outcome: Outcome, robot: Robot, folder: Path, console: Console) -> bool:
    """Write the report of what was recorded; whether it could be written."""
    if outcome.recording is None or not outcome.facts:
        return False
    # Matplotlib takes as long to import as a node to come up; the robot does not wait for it.
    from continuum_robot.app.report.report import report_run, summary_lines  # noqa: PLC0415

    try:
        with console.status("writing the report ..."), open_run(outcome.recording) as run:
            numbers, plots = report_run(run, folder, robot, outcome.facts)
    except ContinuumRobotError as error:
        outcome.problem = outcome.problem or str(error)
        return False
    files = (f"recording {file}" for file in sorted(outcome.recording.glob("*.mcap")))
    say(console, *summary_lines(numbers, plots), f"metrics   {folder / 'metrics.json'}", *files)
    return True
