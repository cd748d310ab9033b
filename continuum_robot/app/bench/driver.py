# SPDX-License-Identifier: Apache-2.0
"""The driver's loop at 1 kHz on three CAN channels, without ROS: processor time and punctuality, in both forms."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from continuum_robot.app.bench.boards import SimulatedBoards
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.backends import boards_of, simulated_tendon_actuators
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop
from continuum_robot.runtime.cycle.forms import Form, compiled_form, interpreted_form
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.periodic import (
    FIFO_PRIORITY,
    FrozenGarbage,
    RealtimeSettings,
    ask_for_short_slices,
    use_exact_timers,
)

PERIOD_S = 0.001
SETTLES_S = 0.5
"""From the first command until the statistics begin."""


class _Watcher(QuietWatcher):
    """Keeps what ended the loop."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def on_failure(self, error: BaseException) -> None:
        """As :class:`LoopWatcher`; ``error`` is kept."""
        self.failures.append(error)


def measure_driver_cycle(
    robot: Robot, wait: Callable[[], object], progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run the loop that the driver runs while ``wait`` lasts, first interpreted, then compiled where it can be.

    Read, control (the controller in the cycle holds the robot), check and write, through real sockets; the boards and
    the plant are in another process.
    """
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


def measure_form(robot: Robot, form: Form, wait: Callable[[], object]) -> dict[str, Any]:
    """Run the loop in one form while ``wait`` lasts, as :func:`measure_driver_cycle`."""
    robot = wired(robot)
    use_exact_timers()
    ask_for_short_slices()
    namespace = f"bench_{os.getpid()}"
    watcher = _Watcher()
    with SimulatedBoards(robot, namespace) as boards:
        wires = SimulatedWires(namespace, robot.name)
        actuators = simulated_tendon_actuators(robot, wires, None, form.parts if form.compiled else None)
        actuators.open()
        # As the node asks for it.
        realtime = RealtimeSettings(allowed_priority(FIFO_PRIORITY))
        thread = ControlThread("tendon_driver", PERIOD_S, realtime=realtime)
        loop = make_loop(robot, actuators, watcher, thread, form=form)
        loop.cycle.attach(_controller(robot, form))
        FrozenGarbage.hold()
        try:
            loop.start()
            loop.switch_on()
            loop.obey()
            loop.call(lambda: loop.cycle.control_now(on=True))
            time.sleep(SETTLES_S)
            loop.pace.reset_statistics()
            thread_s, boards_s = loop.call(time.thread_time), boards.processor_s()
            wait()
            report, responses = loop.pace.report(), loop.pace.response_report()
            thread_s, boards_s = loop.call(time.thread_time) - thread_s, boards.processor_s() - boards_s
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
        "simulated_boards_processor_percent": 100 * boards_s / report.duration_s,
    }


def _controller(robot: Robot, form: Form) -> Any:
    """Holds the robot where it is."""
    if robot.control is None:
        raise DeviceError(f"robot {robot.name}", "has no control settings", "Take one that has.")
    parts = form.parts
    return parts.ControllerCycle(
        parts.ClarkeController(robot),
        parts.ReferenceInput(robot.coordinate_count),
        robot.control.state_timeout_s,
        PERIOD_S,
    )
