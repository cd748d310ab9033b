# SPDX-License-Identifier: Apache-2.0
"""The devices that a procedure drives: opened, followed to the end and closed without torque."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from continuum_robot.drivers import backends
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.protocols import CountsFromPowerOn, SetsZero, StringEncoders, TendonActuators, Tracker
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.procedures.procedure import CANCELLED, Found, Procedure, ProcedureRun
from continuum_robot.identification.procedures.record import record_path, simulated_folder
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import QuietWatcher, cycle_period_s, make_loop
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.pace import Pace, VirtualPace
from continuum_robot.runtime.periodic import FIFO_PRIORITY, FrozenGarbage, RealtimeSettings, waiting_for_loop
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.wire.hardware import SimulatedHardware, switched_on

STRING_CYCLES, STRING_ZERO_LOOKS, LOOK_S = 5, 10, 0.05


class ProcedureDevices(QuietWatcher):
    """Open devices in the driver's loop, in real time or in virtual time; a procedure may drive."""

    def __init__(
        self,
        robot: Robot,
        actuators: TendonActuators,
        strings: StringEncoders | None,
        pace: Pace,
        tracker: Tracker | None = None,
    ) -> None:
        self.robot, self.strings, self.pace, self._tracker = robot, strings, pace, tracker
        self.failure = ""
        self.loop = make_loop(robot, actuators, self, pace)
        self.loop.safety.positions_known = False

    def wait(self, duration_s: float) -> bool:
        """Let time pass; whether the cycle still runs."""
        self.pace.wait(lambda: False, duration_s)
        return self.loop.running

    def begin(self, procedure: Procedure[Any]) -> ProcedureRun:
        """Switch the torque on and begin. Raises :class:`DeviceError`."""
        self.loop.switch_on()
        run = ProcedureRun(procedure, self.loop.safety)
        # The first readings with the torque on: after another procedure the currents have to fade.
        self.pace.wait(lambda: False, LOOK_S)
        self.loop.begin_procedure(run)
        return run

    def end(self) -> None:
        """Switch the torque off."""
        run = self.loop.procedure
        if run is not None:
            self.loop.end_procedure(run, self.loop.cycle.zero)
        else:
            self.loop.call(self.loop.power_off)

    # What happens in the loop

    def on_row(self, row: list[float]) -> None:
        """Read the tracker, and the strings now and then."""
        if self._tracker is not None and self.loop.procedure is not None:
            with contextlib.suppress(ContinuumRobotError):  # a tracker that falls silent is the procedure's to notice
                while (pose := self._tracker.read(row[self.loop.row.now_s])) is not None:
                    self.loop.procedure.procedure.take_pose(pose)
        strings = self.strings
        if strings is None or int(row[self.loop.row.number]) % STRING_CYCLES:
            return
        try:
            extension = strings.read(row[self.loop.row.now_s]).extension_m
        except ContinuumRobotError:
            return
        run = self.loop.procedure
        if run is not None:
            run.procedure.take_strings(extension)

    def on_failure(self, error: BaseException) -> None:
        """Note why the cycle ended."""
        self.failure = repr(error)


def load_checked(robot: str) -> Robot:
    """The robot of a file with actuators and limits, else :class:`ParameterError`."""
    loaded = load_robot(robot)
    missing = [section for section in ("actuators", "limits") if getattr(loaded, section) is None]
    if missing:
        name = loaded.file_name or loaded.name
        raise ParameterError("robot", name, f"a robot file with the sections {', '.join(missing)}")
    return loaded


@contextlib.contextmanager
def opened(
    robot: Robot,
    simulated: bool,
    console: Console,
    actuators: TendonActuators | None = None,
    tracker: Tracker | None = None,
) -> Iterator[ProcedureDevices]:
    """Devices that are open and read; the torque is off and all is closed when the block is left."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_unclaimed())
        stack.enter_context(_terminated_as_interrupted())
        strings: StringEncoders | None = None
        hardware: SimulatedHardware | None = None

        def on_step(now_s: float) -> None:
            if hardware is not None:
                hardware.step(now_s)

        period_s = cycle_period_s(robot)
        pace = (
            VirtualPace(period_s, on_step=on_step)
            if simulated
            else ControlThread("tendon_driver", period_s, realtime=RealtimeSettings(allowed_priority(FIFO_PRIORITY)))
        )
        if actuators is not None:
            pass
        elif isinstance(pace, VirtualPace) and (robot.traits.without_boards or robot.takes_displacements):
            actuators = SimulatedTendonActuators(robot)
        elif isinstance(pace, VirtualPace):
            with console.status(f"{robot.name}: preparing the simulated robot ..."):
                hardware = switched_on(robot)
            stack.callback(hardware.close)
            robot = hardware.robot
            actuators = hardware.tendon_actuators(clock=pace.now_s, sleep=pace.pass_time)
            strings = None if hardware.string_board is None else hardware.string_encoders(answer_timeout_s=0.0)
        else:
            actuators = backends.tendon_actuators(robot)
            has_strings = robot.hardware is not None and robot.hardware.string_encoders is not None
            strings = backends.string_encoders(robot) if has_strings else None
        stack.callback(actuators.close)
        actuators.open()
        if strings is not None:
            stack.callback(strings.close)
            strings.open()
        if tracker is not None:
            stack.callback(tracker.close)
            tracker.open()
        if not simulated:
            FrozenGarbage.hold()
            stack.callback(FrozenGarbage.release)
        devices = ProcedureDevices(robot, actuators, strings, pace, tracker)
        stack.callback(devices.end)
        stack.callback(devices.loop.stop)
        devices.loop.start()
        yield devices


def run_procedure(
    robot: Robot,
    simulated: bool,
    procedure: Procedure[Found],
    title: str,
    console: Console,
    *,
    actuators: TendonActuators | None = None,
    tracker: Tracker | None = None,
) -> Found:
    """Open the devices, run a procedure on them, and close them; as :func:`completed`."""
    with opened(robot, simulated, console, actuators, tracker) as devices:
        return completed(devices, procedure, title, console)


def completed(devices: ProcedureDevices, procedure: Procedure[Found], title: str, console: Console) -> Found:
    """Run a procedure, show its progress, and give what it found; Ctrl-C cancels it in good order.

    Where it ended early this prints why, and ends the command with its exit code.
    """
    columns = (TextColumn("{task.fields[title]}"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    first = waiting_for_loop() if isinstance(devices.pace, ControlThread) else contextlib.nullcontext()
    with first, Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("switching the torque on (the rotors may be aligned first)", total=1.0, title=title)
        run = devices.begin(procedure)
        asked = False
        running = True
        while running and not run.finished:
            try:
                running = devices.wait(LOOK_S)
            except KeyboardInterrupt:
                if asked:
                    break  # the second time: torque off at once
                asked = True
                devices.loop.call(run.cancel)
            if run.step is not None:
                bar.update(task, completed=run.step.progress, description=escape(run.step.phase))
    devices.end()
    found: Found | None = run.conclude()
    problem = run.problem or devices.failure or CANCELLED
    if found is not None:
        return found
    if problem == CANCELLED:
        console.print("cancelled: the tendons were released, nothing was stored")
        raise typer.Exit(130)
    console.print(f"[red]failed[/red]: {escape(problem)}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def aligned(actuators: TendonActuators) -> bool:
    """Whether the motors count as they did before this program: others than boards that forget always do."""
    return not isinstance(actuators, CountsFromPowerOn) or actuators.aligned


def zero_strings(devices: ProcedureDevices, console: Console) -> None:
    """A board that was never zeroed since its boot shows no lengths."""
    strings = devices.strings
    if isinstance(strings, SetsZero):
        devices.loop.call(strings.request_zero)
        for _ in range(STRING_ZERO_LOOKS):
            devices.wait(LOOK_S)
            if strings.zeroed:
                return
        if not strings.zeroed:
            console.print("[yellow]the string-encoder board does not answer: strings stay unknown[/yellow]")


def path_of_record(robot: Robot, simulated: bool, kind: str) -> Path:
    """Where a record of a robot, or of its simulated one, is kept."""
    return record_path(wired(robot), simulated_folder(), kind) if simulated else record_path(robot, kind=kind)


@contextlib.contextmanager
def _unclaimed() -> Iterator[None]:
    """Hold the DDS domain, so that no stack drives the same devices; without ROS there can be none."""
    try:
        from continuum_robot.app.running.domain import claimed_domain  # noqa: PLC0415
    except ImportError:
        yield
        return
    with claimed_domain(""):
        yield


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM cancels as Ctrl-C does, instead of leaving motors with current until their boards give up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
