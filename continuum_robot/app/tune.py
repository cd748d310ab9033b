# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot tune``: gains of a robot from its model, with the reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from continuum_robot.app.judgement import bus_cycle_s
from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.control.delay_margin import MOTORS, SERVOS, DelayMargin
from continuum_robot.control.tuning import GAIN_MARGIN, Tuning, tune
from continuum_robot.errors import ParameterError
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot


@dataclass(frozen=True)
class TuneOptions:
    """What the gains have to keep."""

    margin_deg: float = 45.0
    gain_margin: float = GAIN_MARGIN
    rate_hz: float = 0.0
    delay_s: float = 0.0


def run_tune(
    robot: str, out: Path | None, json_file: Path | None, options: TuneOptions, console: Console | None = None
) -> int:
    """Find gains for a robot, print them with the reasons, and write them."""
    console = console or Console()
    loaded = load_robot(robot)
    usual_hz = 1e3 if loaded.actuators is None else loaded.actuators.cycle_hz
    period_s = 1 / (options.rate_hz or usual_hz)
    if options.delay_s and loaded.takes_displacements:
        raise ParameterError("delay_s", options.delay_s, "0: that of servos is a cycle of their bus, which rate_hz is")
    delay_s = options.delay_s or bus_cycle_s(loaded)
    cycles = max(1, math.ceil(delay_s / period_s - 1e-9))
    with console.status(f"{loaded.name}: looking for gains ..."):
        found = tune(
            loaded,
            phase_margin_rad=math.radians(options.margin_deg),
            gain_margin=options.gain_margin,
            period_s=period_s,
            computing_cycles=cycles,
        )
    _print(console, loaded, found)
    if out is not None:
        write_fitted_robot(loaded, found, out)
        say(console, f"Written to {out}. Judge it with: continuum-robot check {out}")
    write_json(json_file, _numbers(loaded, found, out))
    return 0


def reasons(robot: Robot, found: Tuning) -> list[str]:
    """Why these gains and no larger ones, in sentences."""
    reached, parts = found.margins, robot.part_names
    if reached.plant == SERVOS:
        return [
            "The servos' own loops keep their gains; tuned is what corrects the error of the shape or tip.",
            f"Limited by the {found.limited_by} margin: {1e3 * found.computing_s:.3g} ms pass until its command, at"
            f" {1 / found.period_s:.4g} Hz; the loop crosses gain 1 at {reached.crossover_hz:.3g} Hz.",
        ]
    plant = "the motors' mass alone" if reached.plant == MOTORS else "rod, elastic tendons and motors"
    shown = zip(parts, found.mass_kg, found.stiffness_n_per_m, strict=True)
    masses = ", ".join(f"{part} {mass:.3g} kg and {stiffness:.3g} N/m" for part, mass, stiffness in shown)
    bus = " (the servos' bus)" if bus_cycle_s(robot) > found.period_s else ""
    limit = {
        "phase": f"the phase margin: {1e3 * found.computing_s:.3g} ms from a reading to its command{bus}, the sampling"
        f" at {1 / found.period_s:.4g} Hz, the filters of the rate and the lag of the current take the phase",
        "gain": "the gain margin: beyond the crossover the tendons' elasticity and the delay leave no more",
    }[found.limited_by]
    return [
        f"Plant: {plant}. The {robot.coordinates_name} show about the crossover, and at rest: {masses}.",
        f"Bandwidth: the loop crosses gain 1 at up to {reached.crossover_hz:.3g} Hz; both zeros of the PID lie at"
        f" {found.zero_hz:.3g} Hz.",
        f"Limited by {limit}.",
    ]


def _print(console: Console, robot: Robot, found: Tuning) -> None:
    old = None if robot.control is None else robot.control.gains
    rows = []
    for index, (part, gains) in enumerate(zip(robot.part_names, found.control.gains, strict=True)):
        for name, unit in (("p", "N/m"), ("i", "N/(m·s)"), ("d", "N·s/m")):
            before = "none" if old is None else f"{getattr(old[index], name):g}"
            rows.append((part if name == "p" else "", name, before, f"{getattr(gains, name):g}", unit))
    if found.margins.plant == SERVOS:
        before = f"{robot.control_settings.integral_per_s:g}"
        rows.append(("all", "integral_per_s", before, f"{found.control.integral_per_s:g}", "1/s"))
    print_table(console, "", ("part", "gain", ">in the file", ">tuned", "unit"), rows)
    if old is None:
        settings = found.control
        say(
            console,
            f"The file has no section control: pretension {settings.pretension_n:.3g} N, forces by"
            f" {settings.tendon_forces}, bounds from limits.maximum_n.",
        )
    say(console, *reasons(robot, found))
    if found.before is not None:
        say(console, f"Before: {_margins(found.before)}")
    say(console, f"After:  {_margins(found.margins)}")


def _margins(found: DelayMargin) -> str:
    if found.margin_s == 0:
        return "unstable"
    return (
        f"phase margin {math.degrees(found.phase_margin_rad):.3g}°, gain margin {found.gain_margin:.3g},"
        f" delay margin {1e3 * found.margin_s:.3g} ms"
    )


def _numbers(robot: Robot, found: Tuning, out: Path | None) -> dict[str, object]:
    reached, before = found.margins, found.before
    return {
        "robot": robot.name,
        "robot_file": None if out is None else str(out),
        "parts": list(robot.part_names),
        "gains": [{"p": one.p, "i": one.i, "d": one.d} for one in found.control.gains],
        "integral_per_s": found.control.integral_per_s,
        "pretension_n": found.control.pretension_n,
        "phase_margin_rad": reached.phase_margin_rad,
        "gain_margin": reached.gain_margin,
        "delay_margin_s": reached.margin_s,
        "crossover_hz": reached.crossover_hz,
        "phase_margin_before_rad": None if before is None else before.phase_margin_rad,
        "gain_margin_before": None if before is None else before.gain_margin,
        "delay_margin_before_s": None if before is None else before.margin_s,
        "mass_kg": list(found.mass_kg),
        "stiffness_n_per_m": list(found.stiffness_n_per_m),
        "zero_hz": found.zero_hz,
        "rate_hz": 1 / found.period_s,
        "delay_s": found.computing_s,
        "limited_by": found.limited_by,
        "reasons": reasons(robot, found),
    }
