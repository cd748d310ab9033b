# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: a robot of servos moves under a tracker, and what it is follows from that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from continuum_robot.app.output import say, write_json
from continuum_robot.app.procedures.devices import load_checked, run_procedure
from continuum_robot.app.procedures.identify import print_values
from continuum_robot.drivers import backends
from continuum_robot.drivers.mounted_tracker import MountedTracker
from continuum_robot.drivers.protocols import TendonActuators, Tracker
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.self_calibration import SelfCalibration, SelfCalibrationSettings
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.identification.self_calibration import fit_calibration, write_record
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread
from continuum_robot.simulation.devices.sensors import PlantTracker, TrackerErrors
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.truth import true_robot
from continuum_robot.workers import HERE, WorkerOptions, tasks

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
