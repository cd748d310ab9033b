# SPDX-License-Identifier: Apache-2.0
"""The driver's loop at 1 kHz on three CAN channels, without ROS: its processor time and punctuality."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.backends import boards_of, simulated_tendon_actuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.cycle.forms import Form
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.periodic import (
    FIFO_PRIORITY,
    FrozenGarbage,
    RealtimeSettings,
    ask_for_short_slices,
    simulator_settings,
    use_exact_timers,
)
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
