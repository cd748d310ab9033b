# SPDX-License-Identifier: Apache-2.0
"""``home``, ``check-tendons``, ``calibrate-torque``, ``calibrate-cogging``: procedures in this process, without ROS."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.app.procedures.cogging_plot import draw_cogging
from continuum_robot.drivers import backends
from continuum_robot.drivers.assumed_wiring import wired
from continuum_robot.drivers.protocols import CountsFromPowerOn, SetsZero, StringEncoders, TendonActuators
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.procedures.cogging_calibration import SPEEDS_M_PER_S, CoggingCalibration
from continuum_robot.identification.procedures.cogging_record import (
    cogging_path,
    forget_angles,
    make_cogging_record,
    store_cogging,
)
from continuum_robot.identification.procedures.homing import Homing, HomingSettings
from continuum_robot.identification.procedures.hung_weight import HungWeight, HungWeightResult, fit_torque_constant
from continuum_robot.identification.procedures.procedure import Procedure
from continuum_robot.identification.procedures.record import (
    calibration_folder,
    make_record,
    record_path,
    simulated_folder,
    store_record,
    string_zeros,
)
from continuum_robot.identification.procedures.run import CANCELLED, ProcedureRun
from continuum_robot.identification.procedures.tendon_check import OK, TendonCheck, TendonCheckSettings
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.assembly import PERIOD_S, QuietWatcher, make_loop
from continuum_robot.runtime.pace import Pace, RealTimePace, VirtualPace
from continuum_robot.simulation.hung_weight import HungWeightBench
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.power_on import switched_on

Vector = NDArray[np.float64]

STRING_CYCLES = 5
# What the simulated motor's torque constant is, relative to the robot file's: something to be found.
SIMULATED_TORQUE_FRACTION = 1.08
STRING_ZERO_LOOKS = 10
LOOK_S = 0.05


class _Devices(QuietWatcher):
    """Open devices in the driver's loop, in real time or in virtual time; a procedure may drive."""

    def __init__(self, robot: Robot, actuators: TendonActuators, strings: StringEncoders | None, pace: Pace) -> None:
        self.robot, self.strings, self.pace = robot, strings, pace
        self.string_readings: list[Vector] = []
        self.failure = ""
        self.loop = make_loop(robot, actuators, self, lambda _cycle, _form: pace)
        self.loop.safety.positions_known = False

    def start(self) -> None:
        """Begin to read."""
        self.loop.start()

    def stop(self) -> None:
        """End the cycle."""
        self.loop.stop()

    def wait(self, duration_s: float) -> bool:
        """Let time pass; whether the cycle still runs."""
        self.pace.wait(lambda: False, duration_s)
        return self.loop.running

    def call(self, function: Callable[[], None]) -> None:
        """Run something between two cycles."""
        self.loop.call(function)

    def begin(self, procedure: Procedure) -> ProcedureRun:
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
            self.call(self.loop.power_off)

    # What happens in the loop

    def on_row(self, row: list[float]) -> None:
        """Read the strings now and then.

        Parameters
        ----------
        row : of the cycle's log
        """
        strings = self.strings
        if strings is None or int(row[self.loop.row.number]) % STRING_CYCLES:
            return
        try:
            extension = strings.read(row[self.loop.row.now_s]).extension_m
        except ContinuumRobotError:
            return
        run = self.loop.procedure
        procedure = None if run is None else run.procedure
        if isinstance(procedure, Homing) and procedure.measuring:
            self.string_readings.append(extension)
        elif isinstance(procedure, TendonCheck):
            procedure.take_strings(extension)

    def on_failure(self, error: BaseException) -> None:
        """Note why the cycle ended.

        Parameters
        ----------
        error : the defect
        """
        self.failure = repr(error)


def run_home(
    robot: str, simulated: bool, tension_n: float, json_file: Path | None, console: Console | None = None
) -> int:
    """Home a robot and store what was found.

    Parameters
    ----------
    robot : robot file, or the name of a shipped one
    simulated : simulated devices instead of the robot's
    tension_n : on every tendon at the straight pose, 0: the robot file's, N
    json_file : where to write the result too
    console : where to print

    Returns
    -------
    exit code: 0; 1 where it failed; 130 where it was cancelled

    Raises
    ------
    ContinuumRobotError : a robot file, a device or an argument that cannot be used
    """
    console = console or Console()
    loaded = _loaded(robot)
    path = record_path(
        wired(loaded) if simulated else loaded, simulated_folder() if simulated else calibration_folder()
    )
    procedure = Homing(loaded, HomingSettings(tension_n=tension_n))
    with _open(loaded, simulated, console) as devices:
        _zero_strings(devices, console)
        newly_aligned = not simulated and not _aligned(devices.loop.actuators)
        run = _follow(devices, procedure, "homing", console)
        homed = procedure.result
        if not run.succeeded or homed is None:
            return _failed(run.problem, console)
        names = [string.name for string in loaded.strings]
        known = string_zeros(names, devices.string_readings)
    record = make_record(devices.robot, homed, known)
    store_record(record, path)
    if newly_aligned and forget_angles(devices.robot):
        console.print("the motors were aligned again: calibrate their cogging again (calibrate-cogging)")
    table = Table("tendon", "slack taken up, mm", "zero, mm")
    for name, slack, zero in zip(loaded.tendon_names, homed.slack_m, homed.zero_m, strict=True):
        table.add_row(name, f"{1e3 * slack:.2f}", f"{1e3 * zero:.3f}")
    console.print(table)
    for name in names:
        console.print(f"string {name}: " + (f"zero {1e3 * known[name]:.3f} mm" if name in known else "unknown"))
    console.print(f"homed at {homed.tension_n:g} N; stored in {path}", markup=False, highlight=False, soft_wrap=True)
    _write(
        json_file, {"file": str(path), "zero_m": homed.zero_m, "slack_m": homed.slack_m, "tension_n": homed.tension_n}
    )
    return 0


def run_check_tendons(
    robot: str,
    simulated: bool,
    pull_n: float,
    json_file: Path | None,
    *,
    ask: Callable[[str], bool] | None = None,
    console: Console | None = None,
) -> int:
    """Pull at every tendon, and say which is not as the robot file states; arguments and errors as :func:`run_home`.

    Parameters
    ----------
    robot, simulated, json_file, console : as there
    pull_n : most that is added to a tendon's tension, 0: chosen from the limits, N
    ask : asks the person who watched, where no string shows a turned or mirrored order; None: nobody is there

    Returns
    -------
    exit code: 0 where all are right; 1; 130 where it was cancelled
    """
    console = console or Console()
    loaded = _loaded(robot)
    procedure = TendonCheck(loaded, TendonCheckSettings(pull_n=pull_n))
    with _open(loaded, simulated, console) as devices:
        if isinstance(devices.strings, SetsZero) and not devices.strings.zeroed:
            _zero_strings(devices, console)
        run = _follow(devices, procedure, "checking the tendons", console)
    verdicts = procedure.result
    if not run.succeeded or verdicts is None:
        return _failed(run.problem, console)
    table = Table("tendon", "moved, mm", "verdict")
    for name, moved, verdict in zip(loaded.tendon_names, np.diag(verdicts.response_m), verdicts.verdicts, strict=True):
        table.add_row(
            name, f"{1e3 * moved:.2f}", f"[green]{verdict}[/green]" if verdict == OK else f"[red]{verdict}[/red]"
        )
    console.print(table)
    console.print(verdicts.orientation, highlight=False, soft_wrap=True)
    seen: bool | None = None
    if verdicts.passed and not verdicts.orientation_known and ask is not None and not simulated:
        seen = ask(orientation_question(loaded))
        if not seen:
            console.print(
                "[red]the tendons are turned or mirrored[/red]: correct the motors' tendons in the robot file"
            )
    _write(
        json_file,
        {
            "verdicts": list(verdicts.verdicts),
            "response_m": verdicts.response_m,
            "misfit": verdicts.misfit,
            "string_response_m": verdicts.string_response_m,
            "orientation_known": verdicts.orientation_known,
            "orientation": verdicts.orientation,
            "seen_by_a_person": seen,
        },
    )
    return 0 if verdicts.passed and seen is not False else 1


def orientation_question(robot: Robot) -> str:
    """What somebody who watched the pulls is asked: the first two tendons of a segment tell turns and mirror images.

    Parameters
    ----------
    robot : that was checked
    """
    seen = []
    for segment, rows in zip(robot.segments, robot.tendon_slices, strict=True):
        first, second = np.degrees(segment.tendons.angles_rad[:2]) % 360
        names = robot.tendon_names[rows]
        seen.append(f"towards {first:.0f} degrees with {names[0]} and towards {second:.0f} degrees with {names[1]}")
    return (
        f"Did the tip move {', '.join(seen)}? (from +x of the base, counter-clockwise as seen from the tip towards the"
        " base)"
    )


def run_calibrate_torque(
    robot: str,
    simulated: bool,
    tendon: int,
    masses_kg: Sequence[float],
    *,
    out: Path | None = None,
    json_file: Path | None = None,
    ask: Callable[[str], None] | None = None,
    console: Console | None = None,
) -> int:
    """Find a motor's torque constant with hung weights; arguments and errors as :func:`run_home`.

    Parameters
    ----------
    robot, simulated, json_file, console : as there
    tendon : number from 1
    masses_kg : of the weights, one after the other
    out : robot file to write with the constant that was found; None: none
    ask : called with a sentence before each weight, returns when it hangs; None: nobody is asked

    Returns
    -------
    exit code: 0; 1 where it failed; 130 where it was cancelled

    Raises
    ------
    ParameterError : no weight
    """
    console = console or Console()
    loaded = _loaded(robot)
    if not masses_kg:
        raise ParameterError("--mass", None, "at least one weight, kg")
    procedures = [HungWeight(loaded, tendon - 1, mass_kg) for mass_kg in masses_kg]
    results: list[HungWeightResult] = []
    for mass_kg, procedure in zip(masses_kg, procedures, strict=True):
        if ask is not None:
            ask(f"Unhook tendon {tendon} from the robot and hang {mass_kg:g} kg on it, lying on a support.")
        bench = (
            HungWeightBench(loaded, tendon - 1, mass_kg, torque_constant_fraction=SIMULATED_TORQUE_FRACTION)
            if simulated
            else None
        )
        with _open(loaded, simulated, console, actuators=bench) as devices:
            run = _follow(devices, procedure, f"{mass_kg:g} kg on tendon {tendon}", console)
        if not run.succeeded or procedure.result is None:
            return _failed(run.problem, console)
        results.append(procedure.result)
    fit = fit_torque_constant(results)
    deviation = f" ± {fit.deviation_nm_per_a:.2g}" if np.isfinite(fit.deviation_nm_per_a) else ""
    console.print(
        f"tendon {tendon}: {fit.torque_constant_nm_per_a:.5g}{deviation} N.m/A, friction {fit.friction_n:.2g} N",
        highlight=False,
    )
    if out is not None:
        write_fitted_robot(loaded, fit, out)
        console.print(f"robot file {out}", markup=False, highlight=False, soft_wrap=True)
    numbers = {"tendon": tendon, "torque_constant_nm_per_a": fit.torque_constant_nm_per_a, "friction_n": fit.friction_n}
    _write(json_file, numbers | {"deviation_nm_per_a": fit.deviation_nm_per_a, "masses_kg": list(masses_kg)})
    return 0


def run_calibrate_cogging(
    robot: str,
    simulated: bool,
    speeds_m_per_s: Sequence[float],
    tension_n: float,
    *,
    plot: Path | None = None,
    json_file: Path | None = None,
    console: Console | None = None,
) -> int:
    """Find the cogging of all motors over their angle and store it; arguments and errors as :func:`run_home`.

    Parameters
    ----------
    robot, simulated, json_file, console : as there
    speeds_m_per_s : of the sweeps, one after the other; empty: the usual ones
    tension_n : of every tendon, 0: chosen from the limits, N
    plot : picture of the tables; None: none

    Returns
    -------
    exit code: 0; 1 where it failed; 130 where it was cancelled
    """
    console = console or Console()
    loaded = _loaded(robot)
    path = cogging_path(
        wired(loaded) if simulated else loaded, simulated_folder() if simulated else calibration_folder()
    )
    calibration = CoggingCalibration(loaded, tuple(speeds_m_per_s) or SPEEDS_M_PER_S, tension_n)
    with _open(loaded, simulated, console) as devices:
        while (sweep := calibration.sweep) is not None:
            run = _follow(devices, sweep, calibration.title, console)
            if not run.succeeded or sweep.result is None:
                return _failed(run.problem, console)
            with console.status("fitting the tables ..."):
                fit = calibration.take(sweep.result)
            devices.loop.feed_cogging_forward(fit.force_n, calibration.m_per_turn)
            devices.loop.compensate_cogging(on=True)
        record = make_cogging_record(devices.robot, fit)
    store_cogging(record, path)
    largest = np.abs(fit.force_n).max(axis=1)
    deviation = np.sqrt(np.mean(fit.deviation_n**2, axis=1))
    table = Table("tendon", "cogging, N", "deviation, N", "harmonics of a turn")
    for j, name in enumerate(loaded.tendon_names):
        strongest = _strongest_orders(fit.force_n[j])
        table.add_row(name, f"{largest[j]:.3f}", f"{deviation[j]:.3f}", ", ".join(map(str, strongest)))
    console.print(table)
    if calibration.corrections_n:
        console.print(f"the last sweep changed the tables by {calibration.corrections_n[-1]:.3f} N", highlight=False)
    console.print(f"stored in {path}", markup=False, highlight=False, soft_wrap=True)
    if plot is not None:
        draw_cogging(record, plot)
        console.print(f"picture {plot}", markup=False, highlight=False, soft_wrap=True)
    _write(
        json_file,
        {
            "file": str(path),
            "largest_cogging_n": largest,
            "deviation_n": deviation,
            "corrections_n": calibration.corrections_n,
        },
    )
    return 0


def _strongest_orders(force_n: Vector, count: int = 3) -> list[int]:
    """Harmonics of a turn with the largest amplitudes, down to a tenth of the largest."""
    amplitude = np.abs(np.fft.rfft(force_n))[1:]
    order = np.argsort(amplitude)[::-1][:count]
    return [int(k) + 1 for k in order if amplitude[k] > 0.1 * amplitude.max() > 0]


def _loaded(robot: str) -> Robot:
    loaded = load_robot(robot)
    missing = [section for section in ("actuators", "limits") if getattr(loaded, section) is None]
    if missing:
        name = loaded.file_name or loaded.name
        raise ParameterError("robot", name, f"a robot file with the sections {', '.join(missing)}")
    return loaded


@contextlib.contextmanager
def _open(
    robot: Robot, simulated: bool, console: Console, actuators: TendonActuators | None = None
) -> Iterator[_Devices]:
    """Devices that are open and read; the torque is off and all is closed when the block is left."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_unclaimed())
        stack.enter_context(_terminated_as_interrupted())
        strings: StringEncoders | None = None
        hardware: SimulatedHardware | None = None

        def on_step(now_s: float) -> None:
            if hardware is not None:
                hardware.step(now_s)

        pace = VirtualPace(PERIOD_S, on_step=on_step) if simulated else RealTimePace(PERIOD_S)
        if actuators is not None:
            pass
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
        devices = _Devices(robot, actuators, strings, pace)
        stack.callback(devices.end)
        stack.callback(devices.stop)
        devices.start()
        yield devices


def _follow(devices: _Devices, procedure: Procedure, title: str, console: Console) -> ProcedureRun:
    """Run a procedure, show its progress, cancel it in good order on Ctrl-C."""
    columns = (TextColumn("{task.fields[title]}"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
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
                devices.call(run.cancel)
            if run.step is not None:
                bar.update(task, completed=run.step.progress, description=escape(run.step.phase))
    devices.end()
    if not run.succeeded and not run.problem:
        run.problem = devices.failure or CANCELLED
    return run


def _aligned(actuators: TendonActuators) -> bool:
    """Whether the motors count as they did before this program: others than boards that forget always do."""
    return not isinstance(actuators, CountsFromPowerOn) or actuators.aligned


def _zero_strings(devices: _Devices, console: Console) -> None:
    """A board that was never zeroed since its boot shows no lengths."""
    strings = devices.strings
    if isinstance(strings, SetsZero):
        devices.call(strings.request_zero)
        for _ in range(STRING_ZERO_LOOKS):
            devices.wait(LOOK_S)
            if strings.zeroed:
                return
        if not strings.zeroed:
            console.print("[yellow]the string-encoder board does not answer: strings stay unknown[/yellow]")


def _failed(problem: str, console: Console) -> int:
    if problem == CANCELLED:
        console.print("cancelled: the tendons were released, nothing was stored")
        return 130
    console.print(f"[red]failed[/red]: {escape(problem)}", highlight=False, soft_wrap=True)
    return 1


def _write(json_file: Path | None, numbers: dict[str, object]) -> None:
    if json_file is not None:
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in numbers.items()}
        write_json(json_file, plain)


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
