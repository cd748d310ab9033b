# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot realtime``: whether this machine is fit for the 1 kHz cycle, and what to do where it is not."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.backends import boards_of, simulated_tendon_actuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime import machine, timer_jitter
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.cycle.forms import Form, compiled_form
from continuum_robot.runtime.machine import Finding, Verdict, allowed_priority
from continuum_robot.runtime.periodic import (
    FIFO_PRIORITY,
    FrozenGarbage,
    RealtimeSettings,
    ask_for_short_slices,
    simulator_settings,
    use_exact_timers,
)
from continuum_robot.runtime.timer_jitter import Lateness
from continuum_robot.simulation.faults import WIRE
from continuum_robot.simulation.simulator import STEP_NS, Simulator

PERIOD_S = 0.001
_SETTLES_S = 0.5
"""From the first command until the statistics begin."""
_START_TIMEOUT_S = 120.0
"""The plant may have to be compiled."""
_ANSWER_TIMEOUT_S = 5.0


class _Watcher(QuietWatcher):
    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def on_failure(self, error: BaseException) -> None:
        """Keep what ended the loop."""
        self.failures.append(error)


def measure_form(robot: Robot, form: Form, wait: Callable[[], object]) -> dict[str, Any]:
    """Run the loop that the driver runs, in one form, while ``wait`` lasts.

    Read, control (the controller in the cycle holds the robot), check and write, through real sockets; the boards and
    the plant are in another process.
    """
    robot = wired(robot)
    if robot.control is None:
        raise DeviceError(f"robot {robot.name}", "has no control settings", "Take one that has.")
    use_exact_timers()
    ask_for_short_slices()
    namespace = f"bench_{os.getpid()}"
    watcher, parts = _Watcher(), form.parts
    with _simulated_boards(robot, namespace) as boards_s:
        wires = SimulatedWires(namespace, robot.name)
        actuators = simulated_tendon_actuators(robot, wires, None, parts if form.compiled else None)
        actuators.open()
        # As the node asks for it.
        realtime = RealtimeSettings(allowed_priority(FIFO_PRIORITY))
        thread = ControlThread("tendon_driver", PERIOD_S, realtime=realtime)
        loop = make_loop(robot, actuators, watcher, thread, form=form)
        reference = parts.ReferenceInput(robot.coordinate_count)
        controller = parts.ClarkeController(robot)
        loop.cycle.attach(parts.ControllerCycle(controller, reference, robot.control.state_timeout_s, PERIOD_S))
        FrozenGarbage.hold()
        try:
            loop.start()
            loop.switch_on()
            loop.obey()
            loop.call(lambda: loop.cycle.control_now(on=True))
            time.sleep(_SETTLES_S)
            loop.pace.reset_statistics()
            thread_s, simulated_s = loop.call(time.thread_time), boards_s()
            wait()
            report, responses = loop.pace.report(), loop.pace.response_report()
            thread_s, simulated_s = loop.call(time.thread_time) - thread_s, boards_s() - simulated_s
        finally:
            loop.stop()
            FrozenGarbage.release()
            faults = list(loop.safety.faults)
            loop.close()
    if watcher.failures:
        raise watcher.failures[0]
    if report is None or responses is None:
        raise DeviceError("driver's loop", "measured nothing", "Wait longer.")
    return {
        "boards": len(boards_of(robot).channels),
        "loop_rate_hz": report.rate_hz,
        "missed_cycles_percent": report.missed_percent,
        "period_p99_us": report.period_p99_us,
        "period_max_us": report.period_max_us,
        "late_p99_us": max(0.0, report.period_p99_us - 1e6 * PERIOD_S),
        "response_p50_us": responses.p50_us,
        "response_p99_us": responses.p99_us,
        "cycle_us": 1e6 * thread_s / max(1, report.cycles),
        "processor_percent": 100 * thread_s / report.duration_s,
        "faults": faults,
        "simulated_boards_processor_percent": 100 * simulated_s / report.duration_s,
    }


@contextlib.contextmanager
def _simulated_boards(robot: Robot, namespace: str) -> Iterator[Callable[[], float]]:
    """Another process simulates the robot to the bytes on its CAN channels; yields what tells its processor time, s."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_simulate, args=(robot, namespace, there), daemon=True)
    process.start()
    there.close()

    def answer(timeout_s: float) -> float:
        with contextlib.suppress(EOFError, OSError):
            if here.poll(timeout_s):
                return float(here.recv())
        raise DeviceError("simulated motor boards", "do not answer", "Their process reports why on the terminal.")

    def processor_s() -> float:
        here.send(None)
        return answer(_ANSWER_TIMEOUT_S)

    try:
        answer(_START_TIMEOUT_S)
        yield processor_s
    finally:
        here.close()
        process.join(_ANSWER_TIMEOUT_S)
        if process.is_alive():
            process.kill()


def _simulate(robot: Robot, namespace: str, asked: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks for it ends it
    use_exact_timers()
    ask_for_short_slices()
    simulator = Simulator(robot, WIRE, namespace=namespace)
    simulator.open()
    loop = ControlThread(
        "simulated boards",
        STEP_NS * 1e-9,
        lambda now_s, _elapsed_s, _missed: simulator.step(now_s),
        on_failure=lambda _error: asked.close(),
        realtime=simulator_settings(),
    )
    FrozenGarbage.hold()
    loop.start()
    try:
        asked.send(time.process_time())
        while True:
            asked.recv()
            asked.send(time.process_time())
    except (EOFError, OSError):
        loop.stop()
        simulator.close()


ROBOT = "opencr_five_tendon"
FIT_LATE_P99_US, RESERVE_LATE_P99_US = 100.0, 500.0
RESERVE_MISSED_PERCENT = 0.2
FIT_CYCLE_PART, RESERVE_CYCLE_PART = 0.3, 0.6
_COST_SECONDS = 3.0
_COLORS = {Verdict.FIT: "green", Verdict.RESERVE: "yellow", Verdict.UNFIT: "red"}


def run_realtime(
    seconds: float,
    json_file: Path | None,
    *,
    priority: int = FIFO_PRIORITY,
    root: Path = machine.SYSTEM_ROOT,
    console: Console | None = None,
) -> int:
    """Inspect, measure, print, and write JSON."""
    console = console or Console()
    findings = machine.inspect_machine(root)
    findings.append(machine.scheduler_rights(machine.try_real_time_scheduler(), root))
    findings.append(machine.memory_lock(machine.try_memory_lock()))
    isolated = machine.cpu_list(_isolated(root))
    numbers: dict[str, Any] = {"timer_seconds": seconds}
    loaded_cores = sorted(set(os.sched_getaffinity(0)) - set(isolated))
    for name, cores in (("idle", []), ("loaded", loaded_cores)):
        with console.status(f"the timer for {seconds / 2:g} s, {name} ..."), timer_jitter.busy_cores(cores):
            measured = timer_jitter.measure_lateness(lambda: time.sleep(seconds / 2), priority=priority, cpus=isolated)
        findings.append(judge_timer(f"timer, {name}", measured))
        numbers |= _timer_numbers(name, measured)
    with console.status("one cycle of the driver ..."):
        cost_us = cycle_cost_us(lambda: time.sleep(_COST_SECONDS))
    findings.append(judge_cycle(cost_us))
    numbers["driver_cycle_us"] = cost_us
    verdict = machine.worst(finding.verdict for finding in findings)
    _print(console, findings, verdict)
    if json_file is not None:
        for finding in findings:
            key = finding.name.replace(",", "").replace(" ", "_")
            numbers |= {key: finding.value, f"{key}_verdict": finding.verdict.value, f"{key}_cure": finding.cure}
        write_json(json_file, {"verdict": verdict.value, **numbers})
    return 1 if verdict is Verdict.UNFIT else 0


def cycle_cost_us(wait: Callable[[], object]) -> float:
    """Processor time of one cycle of the driver here, in the form that runs by default, us.

    The boards are simulated by another process, at the other end of real sockets.
    """
    return float(measure_form(load_robot(ROBOT), compiled_form(), wait)["cycle_us"])


def judge_timer(name: str, measured: Lateness) -> Finding:
    """The verdict on wake-ups."""
    value = (
        f"late by {measured.p50_us:.0f} us p50, {measured.p99_us:.0f} us p99, {measured.maximum_us:.0f} us max; "
        f"{measured.missed} of {measured.deadlines} deadlines missed ({measured.missed_percent:.2g} %), "
        f"{'SCHED_FIFO' if measured.real_time else 'ordinary scheduler'}"
    )
    if measured.missed == 0 and measured.p99_us <= FIT_LATE_P99_US:
        return Finding(name, value, Verdict.FIT)
    cure = "the cures above, the kernel and the isolated cores first"
    if not measured.real_time:
        cure = "the scheduler's rights and rt.priority first, then the cures above"
    few = measured.missed_percent <= RESERVE_MISSED_PERCENT and measured.p99_us <= RESERVE_LATE_P99_US
    return Finding(name, value, Verdict.RESERVE if few else Verdict.UNFIT, cure)


def judge_cycle(cost_us: float) -> Finding:
    """The verdict on what one cycle costs, us."""
    part = cost_us * 1e-6 / PERIOD_S
    value = f"{cost_us:.0f} us of processor time on simulated motor boards, {100 * part:.0f} % of the period"
    if part <= FIT_CYCLE_PART:
        return Finding("driver cycle", value, Verdict.FIT)
    cure = "governor performance, a faster processor, a C compiler for the compiled cycle, or a lower rate"
    return Finding("driver cycle", value, Verdict.RESERVE if part <= RESERVE_CYCLE_PART else Verdict.UNFIT, cure)


def _isolated(root: Path) -> str:
    found = machine.isolated_cores(root)
    return found.value if found.verdict is Verdict.FIT else ""


def _timer_numbers(name: str, measured: Lateness) -> dict[str, Any]:
    return {
        f"timer_{name}_late_p50_us": measured.p50_us,
        f"timer_{name}_late_p99_us": measured.p99_us,
        f"timer_{name}_late_max_us": measured.maximum_us,
        f"timer_{name}_missed": measured.missed,
        f"timer_{name}_missed_percent": measured.missed_percent,
        f"timer_{name}_real_time": measured.real_time,
    }


def _print(console: Console, findings: list[Finding], verdict: Verdict) -> None:
    rows = [(one.name, one.value, Text(one.verdict.value, _COLORS[one.verdict])) for one in findings]
    print_table(console, "", ("", "found", "verdict"), rows)
    say(console, *(f"{one.name}: {one.cure}" for one in findings if one.cure))
    console.print(f"\nFor a 1 kHz cycle this machine is [{_COLORS[verdict]}]{verdict.value}[/{_COLORS[verdict]}].")
    say(console, "How to set up a machine: docs/how-to/realtime.md")
