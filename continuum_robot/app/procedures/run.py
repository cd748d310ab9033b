# SPDX-License-Identifier: Apache-2.0
"""``home`` and ``check-tendons``: procedures in this process, without ROS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from continuum_robot.app.procedures.devices import (
    aligned,
    completed,
    load_checked,
    opened,
    path_of_record,
    write_numbers,
    zero_strings,
)
from continuum_robot.drivers.protocols import SetsZero
from continuum_robot.identification.procedures.cogging_record import forget_angles
from continuum_robot.identification.procedures.homing import HomingSettings
from continuum_robot.identification.procedures.load_onset import homing_of
from continuum_robot.identification.procedures.record import make_record
from continuum_robot.identification.procedures.tendon_check import OK, TendonCheckSettings, tendon_check_of
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]


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
    if isinstance(homed, int):
        return homed
    record = make_record(devices.robot, homed)
    record.store(path)
    if newly_aligned and forget_angles(devices.robot):
        console.print("the motors were aligned again: calibrate their cogging again (calibrate-cogging)")
    table = Table("tendon", "slack taken up, mm", "zero, mm")
    for name, slack, zero in zip(loaded.tendon_names, homed.slack_m, homed.zero_m, strict=True):
        table.add_row(name, f"{1e3 * slack:.2f}", f"{1e3 * zero:.3f}")
    console.print(table)
    for string in loaded.strings:
        zero_m = homed.string_zero_m.get(string.name)
        console.print(f"string {string.name}: " + ("unknown" if zero_m is None else f"zero {1e3 * zero_m:.3f} mm"))
    console.print(f"homed at {homed.tension_n:g} N; stored in {path}", markup=False, highlight=False, soft_wrap=True)
    write_numbers(
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
    """Pull at every tendon, and say which is not as the robot file states; arguments and errors as :func:`run_home`."""
    console = console or Console()
    loaded = load_checked(robot)
    procedure = tendon_check_of(loaded, TendonCheckSettings(pull_n=pull_n))
    with opened(loaded, simulated, console) as devices:
        if isinstance(devices.strings, SetsZero) and not devices.strings.zeroed:
            zero_strings(devices, console)
        verdicts = completed(devices, procedure, "checking the tendons", console)
    if isinstance(verdicts, int):
        return verdicts
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
    write_numbers(
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
