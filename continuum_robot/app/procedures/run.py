# SPDX-License-Identifier: Apache-2.0
"""Procedures that drive a robot's devices in this process, without ROS: ``home``, ``check-tendons``, ``calibrate-...``.

Each is a procedure, run by :func:`run_procedure`, and a report of what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.app.procedures.devices import (
    aligned,
    completed,
    load_checked,
    opened,
    path_of_record,
    run_procedure,
    zero_strings,
)
from continuum_robot.app.procedures.identify import print_values
from continuum_robot.app.procedures.pictures import draw_cogging
from continuum_robot.drivers import backends
from continuum_robot.drivers.mounted_tracker import MountedTracker
from continuum_robot.drivers.protocols import SetsZero, TendonActuators, Tracker
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.cogging import SPEEDS_M_PER_S, CoggingCalibration
from continuum_robot.identification.procedures.homing import HomingSettings, homing_of
from continuum_robot.identification.procedures.hung_weight import HungWeight, fit_torque_constant
from continuum_robot.identification.procedures.record import forget_angles, make_cogging_record, make_record
from continuum_robot.identification.procedures.self_calibration import SelfCalibration, SelfCalibrationSettings
from continuum_robot.identification.procedures.tendon_check import OK, TendonCheckSettings, tendon_check_of
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.identification.self_calibration import fit_calibration, write_record
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread
from continuum_robot.simulation.benches import HungWeightBench
from continuum_robot.simulation.devices.sensors import PlantTracker, TrackerErrors
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.truth import true_robot
from continuum_robot.workers import HERE, WorkerOptions, tasks

Vector = NDArray[np.float64]

# What the simulated motor's torque constant is, relative to the robot file's: something to be found.
SIMULATED_TORQUE_FRACTION = 1.08


def run_home(
    robot: str, simulated: bool, tension_n: float, json_file: Path | None, console: Console | None = None
) -> int:
    """Home a robot and store what was found."""
    console = console or Console()
    loaded = load_checked(robot)
    path = path_of_record(loaded, simulated, "homing")
    procedure = homing_of(loaded, HomingSettings(tension_n=tension_n))
    with opened(loaded, simulated, console) as devices:
        zero_strings(devices, console)
        newly_aligned = not simulated and not aligned(devices.loop.actuators)
        homed = completed(devices, procedure, "homing", console)
    make_record(devices.robot, homed).store(path)
    if newly_aligned and forget_angles(devices.robot):
        say(console, "the motors were aligned again: calibrate their cogging again (calibrate-cogging)")
    rows = zip(loaded.tendon_names, homed.slack_m, homed.zero_m, strict=True)
    shown = [(name, f"{1e3 * slack:.2f}", f"{1e3 * zero:.3f}") for name, slack, zero in rows]
    print_table(console, "", ("tendon", ">slack taken up, mm", ">zero, mm"), shown)
    for string in loaded.strings:
        zero_m = homed.string_zero_m.get(string.name)
        say(console, f"string {string.name}: " + ("unknown" if zero_m is None else f"zero {1e3 * zero_m:.3f} mm"))
    say(console, f"homed at {homed.tension_n:g} N; stored in {path}")
    found = {"zero_m": homed.zero_m, "slack_m": homed.slack_m, "tension_n": homed.tension_n}
    write_json(json_file, {"file": str(path), **found})
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
    """Pull at every tendon, and say which is not as the robot file states."""
    console = console or Console()
    loaded = load_checked(robot)
    procedure = tendon_check_of(loaded, TendonCheckSettings(pull_n=pull_n))
    with opened(loaded, simulated, console) as devices:
        if isinstance(devices.strings, SetsZero) and not devices.strings.zeroed:
            zero_strings(devices, console)
        verdicts = completed(devices, procedure, "checking the tendons", console)
    rows = zip(loaded.tendon_names, np.diag(verdicts.response_m), verdicts.verdicts, strict=True)
    shown = [
        (name, f"{1e3 * moved:.2f}", Text(verdict, "green" if verdict == OK else "red"))
        for name, moved, verdict in rows
    ]
    print_table(console, "", ("tendon", ">moved, mm", "verdict"), shown)
    say(console, verdicts.orientation)
    seen: bool | None = None
    if verdicts.passed and not verdicts.orientation_known and ask is not None and not simulated:
        seen = ask(orientation_question(loaded))
        if not seen:
            console.print(
                "[red]the tendons are turned or mirrored[/red]: correct the motors' tendons in the robot file"
            )
    found = {
        "verdicts": list(verdicts.verdicts),
        "response_m": verdicts.response_m,
        "misfit": verdicts.misfit,
        "string_response_m": verdicts.string_response_m,
        "orientation_known": verdicts.orientation_known,
        "orientation": verdicts.orientation,
        "seen_by_a_person": seen,
    }
    write_json(json_file, found)
    return 0 if verdicts.passed and seen is not False else 1


def orientation_question(robot: Robot) -> str:
    """The question to the operator who watched the pulls: two tendons of a segment show turns and mirror images."""
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
    """Find a motor's torque constant with hung weights."""
    console = console or Console()
    loaded = load_checked(robot)
    if not masses_kg:
        raise ParameterError("--mass", None, "at least one weight, kg")
    procedures = [HungWeight(loaded, tendon - 1, mass_kg) for mass_kg in masses_kg]
    results = []
    for mass_kg, procedure in zip(masses_kg, procedures, strict=True):
        if ask is not None:
            ask(f"Unhook tendon {tendon} from the robot and hang {mass_kg:g} kg on it, lying on a support.")
        bench = None
        if simulated:
            bench = HungWeightBench(loaded, tendon - 1, mass_kg, torque_constant_fraction=SIMULATED_TORQUE_FRACTION)
        title = f"{mass_kg:g} kg on tendon {tendon}"
        results.append(run_procedure(loaded, simulated, procedure, title, console, actuators=bench))
    fit = fit_torque_constant(results)
    deviation = f" ± {fit.deviation_nm_per_a:.2g}" if np.isfinite(fit.deviation_nm_per_a) else ""
    constant = f"{fit.torque_constant_nm_per_a:.5g}{deviation} N.m/A"
    say(console, f"tendon {tendon}: {constant}, friction {fit.friction_n:.2g} N")
    if out is not None:
        write_fitted_robot(loaded, fit, out)
        say(console, f"robot file {out}")
    numbers = {"tendon": tendon, "torque_constant_nm_per_a": fit.torque_constant_nm_per_a, "friction_n": fit.friction_n}
    write_json(json_file, numbers | {"deviation_nm_per_a": fit.deviation_nm_per_a, "masses_kg": list(masses_kg)})
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
    """Find the cogging of all motors over their angle and store it."""
    console = console or Console()
    loaded = load_checked(robot)
    path = path_of_record(loaded, simulated, "cogging")
    calibration = CoggingCalibration(loaded, tuple(speeds_m_per_s) or SPEEDS_M_PER_S, tension_n)
    with opened(loaded, simulated, console) as devices:
        while (sweep := calibration.sweep) is not None:
            samples = completed(devices, sweep, calibration.title, console)
            with console.status("fitting the tables ..."):
                fit = calibration.take(samples)
            devices.loop.feed_cogging_forward(fit.force_n, calibration.m_per_turn)
            devices.loop.compensate_cogging(on=True)
        record = make_cogging_record(devices.robot, fit)
    record.store(path)
    largest = np.abs(fit.force_n).max(axis=1)
    deviation = np.sqrt(np.mean(fit.deviation_n**2, axis=1))
    rows = [
        (name, f"{largest[j]:.3f}", f"{deviation[j]:.3f}", ", ".join(map(str, _strongest_orders(fit.force_n[j]))))
        for j, name in enumerate(loaded.tendon_names)
    ]
    print_table(console, "", ("tendon", ">cogging, N", ">deviation, N", "harmonics of a turn"), rows)
    if calibration.corrections_n:
        say(console, f"the last sweep changed the tables by {calibration.corrections_n[-1]:.3f} N")
    say(console, f"stored in {path}")
    if plot is not None:
        draw_cogging(record, plot)
        say(console, f"picture {plot}")
    found = {"largest_cogging_n": largest, "deviation_n": deviation, "corrections_n": calibration.corrections_n}
    write_json(json_file, {"file": str(path), **found})
    return 0


def _strongest_orders(force_n: Vector, count: int = 3) -> list[int]:
    """Harmonics of a turn with the largest amplitudes, down to a tenth of the largest."""
    amplitude = np.abs(np.fft.rfft(force_n))[1:]
    order = np.argsort(amplitude)[::-1][:count]
    return [int(k) + 1 for k in order if amplitude[k] > 0.1 * amplitude.max() > 0]


TRACKER_HZ = 60.0
"""Of the simulated tracker, poses a second."""


def run_calibrate(
    robot: str,
    simulated: bool,
    out: Path,
    *,
    load_n: float = 0.0,
    json_file: Path | None = None,
    ask: Callable[[str], None] | None = None,
    console: Console | None = None,
    where: WorkerOptions = HERE,
) -> int:
    """Move the robot, fit it, print what was found and write the robot file."""
    console = console or Console()
    loaded = load_checked(robot)
    if not loaded.takes_displacements:
        assert loaded.actuators is not None
        expected = "displacement: a robot whose motors take tensions is fitted by `continuum-robot identify`"
        raise ParameterError("actuators.command", loaded.actuators.command, expected)
    procedure = SelfCalibration(loaded, SelfCalibrationSettings(load_n=load_n))
    actuators, tracker = _simulated(loaded) if simulated else (None, backends.tracker(loaded))
    say(
        console,
        f"{loaded.name} is homed and then moves for {procedure.duration_s / 60:.0f} min to all sides, its tendons by up"
        f" to {1e3 * procedure.most_m:.0f} mm; about {procedure.most_load_n:.2g} N are expected of a tendon, and it"
        f" stops at {spread(procedure.stop_n)} N.",
    )
    if ask is not None:
        ask("Keep its surroundings free, and a hand at the switch.")
    record = run_procedure(loaded, simulated, procedure, "calibrating", console, actuators=actuators, tracker=tracker)
    rests = write_record(loaded, record, out.with_suffix(".csv"))
    say(console, f"recording: {rests.file}")
    with tasks(where) as runner, console.status(f"fitting {loaded.name} ...") as status:
        fit = fit_calibration(loaded, record, rests, lambda text: status.update(escape(text)), runner)
    write_fitted_robot(loaded, fit, out)
    print_values(console, fit.provenance)
    if not record.measured:
        say(console, "no load is measured: the bending stiffness of the file is the scale of all forces")
    if json_file is not None:
        write_json(json_file, fit.numbers())
        say(console, f"numbers: {json_file}")
    say(console, f"calibrated robot: {out}; home again with it")
    return 0


def _simulated(robot: Robot) -> tuple[TendonActuators, Tracker]:
    """The truth's servos, and a tracker with the truth's registration, latency and noise."""
    truth = true_robot(robot)
    actuators = SimulatedTendonActuators(truth)
    settings = None if truth.hardware is None else truth.hardware.tracker
    errors = TrackerErrors()
    if isinstance(settings, MountedTracker):
        errors = TrackerErrors(
            noise_m=settings.sigma_m, noise_rad=settings.sigma_rad, delay_s=min(settings.latency_s, 0.4)
        )
    rng = np.random.default_rng([robot.simulation.seed, 2])
    seen = PlantTracker(lambda: actuators.plant.pose(truth.length_m), truth.recording, errors, rng, TRACKER_HZ)
    return actuators, seen
