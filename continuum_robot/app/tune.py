# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot tune``: gains of a robot from its model, with the reasons."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from continuum_robot.app.judgement import bus_cycle_s
from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.control.delay_margin import MOTORS, SERVOS, DelayMargin
from continuum_robot.control.gain_gradient import ENTRY_S, GradientTuning, tune_by_gradient
from continuum_robot.control.references import Chirp, ClarkeReference, Reference, Steps, blend, make_reference
from continuum_robot.control.tuning import GAIN_MARGIN, Tuning, tune
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.testing.virtual_stack import VirtualStack

Vector = NDArray[np.float64]

BY_RULE, BY_GRADIENT = "rule", "gradient"
_TRACKED_S, _STEPPED_S, _REST_S = 6.0, 1.5, 1.0
_STEP = 0.05  # of limits.maximum_displacement_m
_SETTLED = 0.05
_DWELL_S = 0.5  # so that a short run has steps
_OWN_HZ, _OWN_AMPLITUDE = 0.5, 0.25  # where the file has no reference, of limits.maximum_displacement_m


@dataclass(frozen=True)
class TuneOptions:
    """What the gains have to keep."""

    margin_deg: float = 45.0
    gain_margin: float = GAIN_MARGIN
    rate_hz: float = 0.0
    delay_s: float = 0.0
    by: str = BY_RULE


@dataclass(frozen=True, slots=True)
class Judged:
    """What gains do on the simulated robot: along the reference, and with a step of the first coordinate.

    Attributes
    ----------
    tracking_m : root mean square error of all coordinates along the reference, entry left out, m
    overshoot : of the step
    settling_s : until the step's error stays below a twentieth, s
    fault : that ended the run, "": none; what it kept from being known is NaN
    """

    tracking_m: float = math.nan
    overshoot: float = math.nan
    settling_s: float = math.nan
    fault: str = ""


def reference_of(robot: Robot) -> Reference:
    """The file's own trajectory, steps of it sooner after each other; if it has none, sines of all coordinates."""
    if robot.reference is not None:
        folder = Path(robot.file_name).parent if robot.file_name else None
        found = make_reference(robot.reference, robot.coordinate_count, folder, robot.base_stage)
        return dataclasses.replace(found, dwell_s=min(found.dwell_s, _DWELL_S)) if isinstance(found, Steps) else found
    amplitude = np.full(robot.coordinate_count, _OWN_AMPLITUDE * _reach_m(robot))
    return Chirp(amplitude, np.full(robot.coordinate_count, _OWN_HZ), 0.0, 60.0)


def judge(robot: Robot, reference: Reference) -> Judged:
    """Judge a robot's gains under the shipped driver, with its limits, on the robot's own simulation."""
    found = Judged()
    try:
        with VirtualStack(robot) as stack:
            stack.activate()
            start, errors = np.array(stack.state.clarke_m), list[Vector]()

            def entered(time_s: float) -> ClarkeReference:
                return blend(start, reference.at(time_s), min(1.0, time_s / ENTRY_S), ENTRY_S)

            stack.follow(entered, ENTRY_S)
            begun_s = stack.now_s

            def look(now: VirtualStack) -> None:
                errors.append(now.state.clarke_m - reference.at(ENTRY_S + now.now_s - begun_s).position)

            stack.follow(lambda time_s: reference.at(ENTRY_S + time_s), _TRACKED_S, look)
        found = Judged(tracking_m=float(np.sqrt(np.mean(np.square(errors)))))
        with VirtualStack(robot) as stack:
            stack.activate()
            goal_m, way = _STEP * _reach_m(robot), list[float]()
            goal = np.zeros(robot.coordinate_count)
            stack.follow(lambda _time_s: ClarkeReference.at_rest(goal), _REST_S)
            goal = goal.copy()
            goal[0] = goal_m
            stack.follow(
                lambda _time_s: ClarkeReference.at_rest(goal), _STEPPED_S, lambda now: way.append(now.state.clarke_m[0])
            )
        part = np.array(way) / goal_m
        off = np.flatnonzero(np.abs(part - 1) > _SETTLED)
        settled_s = 0.0 if not off.size else math.inf if off[-1] == len(part) - 1 else (off[-1] + 1) * stack.period_s
        return dataclasses.replace(found, overshoot=max(0.0, float(part.max()) - 1), settling_s=settled_s)
    except ContinuumRobotError as error:
        return dataclasses.replace(found, fault=str(error))


def _reach_m(robot: Robot) -> float:
    assert robot.limits is not None
    return robot.limits.smallest("maximum_displacement_m", robot.tendon_count)


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
    by_gradient: GradientTuning | None = None
    judged: dict[str, Judged] = {}
    if options.by == BY_GRADIENT:
        reference, rule = reference_of(loaded), found
        with console.status(f"{loaded.name}: following the gradient of a simulated run ..."):
            by_gradient = tune_by_gradient(loaded, rule, reference)
        found = by_gradient.tuning
        with console.status(f"{loaded.name}: judging on the simulated robot ..."):
            for name, control in {BY_RULE: rule.control, BY_GRADIENT: found.control}.items():
                judged[name] = judge(_run_with(loaded, control, found), reference)
    _print(console, loaded, found, by_gradient)
    if by_gradient is not None:
        _print_beside(console, loaded, rule, by_gradient, judged)
    if out is not None:
        write_fitted_robot(loaded, found, out)
        say(console, f"Written to {out}. Judge it with: continuum-robot check {out}")
    numbers = _numbers(loaded, found, out)
    if by_gradient is not None:
        numbers |= {
            "simulated_error_m": {BY_RULE: by_gradient.rule_m, BY_GRADIENT: by_gradient.found_m},
            "judged": {name: dataclasses.asdict(one) for name, one in judged.items()},
        }
    write_json(json_file, numbers)
    return 0


def _run_with(robot: Robot, control: ControlSettings, found: Tuning) -> Robot:
    """The robot with such control, at the rate and with the delay that it is tuned for."""
    assert robot.actuators is not None
    late_s = found.computing_s - found.period_s  # one cycle passes anyway
    return robot.changed(
        control=control,
        actuators=dataclasses.replace(robot.actuators, rate_hz=1 / found.period_s),
        simulation=dataclasses.replace(robot.simulation, command_delay_s=max(late_s, robot.simulation.command_delay_s)),
    )


def verdict(judged: dict[str, Judged]) -> str:
    """Whether the gradient helps, in a sentence."""
    rule, found = judged[BY_RULE], judged[BY_GRADIENT]
    if rule.fault and found.fault:
        return "Neither: on the simulated robot both end with a fault. Ask for wider margins."
    if found.fault:
        return f"Keep the rule's gains: on the simulated robot those found by gradient end with a fault, {found.fault}."
    if rule.fault:
        return "Take those found by gradient: on the simulated robot the rule's end with a fault."
    if not found.tracking_m < rule.tracking_m:
        return "Keep the rule's gains: on the simulated robot those found by gradient do not track better."
    less = 1 - found.tracking_m / rule.tracking_m
    better = f"On the simulated robot the error along the reference is {less:.0%} less"
    if found.overshoot <= rule.overshoot + 0.02:
        return f"{better} by gradient."
    return (
        f"{better} by gradient, but a step overshoots by {100 * found.overshoot:.0f} %, not by"
        f" {100 * rule.overshoot:.0f} %: take the rule's if steps matter."
    )


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


def _print_beside(
    console: Console, robot: Robot, rule: Tuning, found: GradientTuning, judged: dict[str, Judged]
) -> None:
    rows = list[tuple[str, ...]]()
    gains = zip(robot.part_names, rule.control.gains, found.tuning.control.gains, strict=True)
    for part, by_rule, by_gradient in gains:
        for name, unit in (("p", "N/m"), ("i", "N/(m·s)"), ("d", "N·s/m")):
            rows.append((f"{part} {name}", f"{getattr(by_rule, name):g}", f"{getattr(by_gradient, name):g}", unit))
    both = rule.margins, found.tuning.margins
    rows.append(("phase margin", *(f"{math.degrees(one.phase_margin_rad):.3g}" for one in both), "°"))
    rows.append(("gain margin", *(f"{one.gain_margin:.3g}" for one in both), ""))
    rows.append(("error in the run of the search", f"{1e3 * found.rule_m:.3g}", f"{1e3 * found.found_m:.3g}", "mm"))
    names = (("error along the reference", "tracking_m", 1e3, "mm"), ("overshoot of a step", "overshoot", 100, "%"))
    for title, name, factor, unit in (*names, ("settling of a step", "settling_s", 1e3, "ms")):
        values = [getattr(judged[by], name) for by in (BY_RULE, BY_GRADIENT)]
        rows.append((title, *("unknown" if math.isnan(one) else f"{factor * one:.3g}" for one in values), unit))
    print_table(console, "", ("", ">by rule", ">by gradient", "unit"), rows)
    for by, one in judged.items():
        if one.fault:
            say(console, f"By {by}: {one.fault} on the simulated robot.")
    say(console, verdict(judged))


def _print(console: Console, robot: Robot, found: Tuning, by_gradient: GradientTuning | None) -> None:
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
    if by_gradient is None:
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
        "reasons": [found.control.note] if math.isnan(found.zero_hz) and found.mass_kg else reasons(robot, found),
    }
