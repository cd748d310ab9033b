# SPDX-License-Identifier: Apache-2.0
"""The driver's loop put together: safety logic, cycle and pace around actuators. Whatever drives a robot uses this."""

from __future__ import annotations

from collections.abc import Sequence

from continuum_robot.drivers.protocols import RunsInCycle, SteppedWith, TendonActuators
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.actuation import DISPLACEMENT, TENSION
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.actuators import ActuatorsAround
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.cycle.forms import Form, form_of, interpreted_form
from continuum_robot.runtime.cycle.loop_reports import LoopWatcher
from continuum_robot.runtime.pace import Pace

PERIOD_S = 0.001


class QuietWatcher:
    """A :class:`LoopWatcher` that does nothing, for who wants to hear of some things only."""

    def on_row(self, row: list[float]) -> None:
        """As :class:`LoopWatcher`."""

    def on_change(self, new_faults: Sequence[str]) -> None:
        """As :class:`LoopWatcher`."""

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """As :class:`LoopWatcher`."""

    def on_hang(self) -> None:
        """As :class:`LoopWatcher`."""

    def on_failure(self, error: BaseException) -> None:
        """As :class:`LoopWatcher`."""


def cycle_period_s(robot: Robot) -> float:
    """Time between two cycles of the driver, by the robot file, s."""
    return PERIOD_S if robot.actuators is None else 1 / robot.actuators.cycle_hz


def make_safety(
    robot: Robot,
    form: Form,
    settings: SafetySettings | None = None,
    *,
    period_s: float | None = None,
    delay_margin_s: float | None = None,
) -> TendonSafety:
    """The safety logic of a robot, in the form of the cycle that steps it."""
    period_s = cycle_period_s(robot) if period_s is None else period_s
    safety: TendonSafety = form.parts.TendonSafety(
        robot, settings or SafetySettings(), period_s=period_s, delay_margin_s=delay_margin_s
    )
    return safety


def make_loop(
    robot: Robot,
    actuators: TendonActuators,
    watcher: LoopWatcher,
    pace: Pace,
    *,
    form: Form | None = None,
    safety: TendonSafety | None = None,
    number: int = 0,
) -> DriverLoop:
    """The loop of open actuators, not started."""
    taken = DISPLACEMENT if getattr(actuators, "takes_displacements", False) else TENSION
    if robot.actuators is not None and taken != robot.actuators.command:
        raise ParameterError(
            "actuators.command", robot.actuators.command, f"{taken}, which {type(actuators).__name__} take"
        )
    form = form_of(actuators, form or interpreted_form("nothing else was asked for"))
    safety = safety or make_safety(robot, form)
    inside = isinstance(actuators, RunsInCycle)
    around = None if inside else ActuatorsAround(actuators, form.parts)
    if isinstance(actuators, SteppedWith):
        actuators.step_with(form.parts)
    device = around.device if around is not None else actuators.cycle  # type: ignore[attr-defined]
    cycle = form.parts.DriverCycle(device, safety, robot.tendon_count, robot.coordinate_count, number=number)
    if form.compiled and inside and isinstance(pace, ControlThread):
        pace.run_compiled(form.parts.CycleLoop, cycle)
    return DriverLoop(robot, actuators, safety, cycle, pace, watcher, around)
