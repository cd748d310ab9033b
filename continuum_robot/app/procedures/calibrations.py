# SPDX-License-Identifier: Apache-2.0
"""Procedures that calibrate drives: torque constants and cogging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from continuum_robot.app.procedures.devices import completed, load_checked, opened, path_of_record, write_numbers
from continuum_robot.app.procedures.pictures import draw_cogging
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.cogging import SPEEDS_M_PER_S, CoggingCalibration
from continuum_robot.identification.procedures.cogging_record import make_cogging_record
from continuum_robot.identification.procedures.hung_weight import HungWeight, HungWeightResult, fit_torque_constant
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.simulation.hung_weight import HungWeightBench

Vector = NDArray[np.float64]

# What the simulated motor's torque constant is, relative to the robot file's: something to be found.
SIMULATED_TORQUE_FRACTION = 1.08


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
    """Find a motor's torque constant with hung weights; arguments and errors as :func:`run_home`."""
    console = console or Console()
    loaded = load_checked(robot)
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
        with opened(loaded, simulated, console, actuators=bench) as devices:
            result = completed(devices, procedure, f"{mass_kg:g} kg on tendon {tendon}", console)
        if isinstance(result, int):
            return result
        results.append(result)
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
    write_numbers(json_file, numbers | {"deviation_nm_per_a": fit.deviation_nm_per_a, "masses_kg": list(masses_kg)})
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
    """Find the cogging of all motors over their angle and store it; arguments and errors as :func:`run_home`."""
    console = console or Console()
    loaded = load_checked(robot)
    path = path_of_record(loaded, simulated, "cogging")
    calibration = CoggingCalibration(loaded, tuple(speeds_m_per_s) or SPEEDS_M_PER_S, tension_n)
    with opened(loaded, simulated, console) as devices:
        while (sweep := calibration.sweep) is not None:
            samples = completed(devices, sweep, calibration.title, console)
            if isinstance(samples, int):
                return samples
            with console.status("fitting the tables ..."):
                fit = calibration.take(samples)
            devices.loop.feed_cogging_forward(fit.force_n, calibration.m_per_turn)
            devices.loop.compensate_cogging(on=True)
        record = make_cogging_record(devices.robot, fit)
    record.store(path)
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
    write_numbers(
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
