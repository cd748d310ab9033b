# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot check``: what a robot file describes, in one page."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
from rich.console import Console

from continuum_robot.app.judgement import ERROR, WARNING, Judged, Judgement, bus_cycle_s, judge
from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.control.delay_margin import MOTORS, SERVOS, DelayMargin
from continuum_robot.control.references import make_reference
from continuum_robot.models.making import robot_model
from continuum_robot.models.robot_model import Summary
from continuum_robot.robot.actuation import Actuators, TensionLimits
from continuum_robot.robot.control_settings import INVERSE_DYNAMICS_LAW, PID_LAW, STATICS_LAW, ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.reading_thresholds import spread, thresholds_of
from continuum_robot.rod.accuracy import LARGEST_ERROR, MORE_NODES, RodAccuracy, rod_accuracy
from continuum_robot.rod.intersection import self_intersections
from continuum_robot.rod.tendons import coefficients_from_clarke

_HORIZON_S, _SHAPES = 60.0, 60
"""Of the reference, and the shapes in it that are looked at."""


def run_check(robot: str, json_file: Path | None, console: Console | None = None) -> int:
    """Check a robot file, judge whether the robot can work as it describes it, and print a summary."""
    console = console or Console()
    loaded = load_robot(robot)
    with console.status(f"{loaded.name}: deriving the model ..."):
        model = robot_model(loaded)
        summary, judged = model.summary(), judge(loaded, model)
        accuracy = rod_accuracy(loaded) if loaded.segments else None
        if accuracy is not None:
            judged = _with_shape(_with_accuracy(judged, accuracy), loaded)
    _print_heading(console, loaded, summary.parts)
    if summary.columns:
        columns = summary.columns
        rows = [(row, *(column[row] for column in columns.values())) for row in next(iter(columns.values()))]
        print_table(console, "", ("segment", *(f">{name}" for name in columns)), rows)
    say(console, *summary.lines)
    if accuracy is not None:
        say(console, _accuracy_line(accuracy))
    _print_settings(console, loaded, judged)
    write_json(json_file, _numbers(loaded, summary, judged, accuracy))
    return 0 if judged.works else 1


def _with_accuracy(judged: Judged, accuracy: RodAccuracy) -> Judged:
    if accuracy.good:
        return judged
    cause = f"energies and lengths are {accuracy.largest:.1g} off by their quadrature, more than {LARGEST_ERROR:g}"
    remedy = f"State more nodes than {max(accuracy.nodes)}, or fewer and smoother functions"
    bad = Judgement(ERROR, "segments.basis.nodes", cause, remedy)
    return dataclasses.replace(judged, judgements=(bad, *judged.judgements))


def _with_shape(judged: Judged, robot: Robot) -> Judged:
    """With a warning where the reference would bend the robot into itself."""
    if robot.reference is None or judged.use is None:
        return judged
    folder = Path(robot.file_name).parent if robot.file_name else None
    reference = make_reference(robot.reference, robot.coordinate_count, folder, robot.base_stage)
    times_s = np.linspace(0.0, min(reference.duration_s, _HORIZON_S), _SHAPES)
    positions = np.array([reference.at(float(time_s)).position for time_s in times_s])
    for time_s, found in zip(
        times_s, self_intersections(robot, positions @ coefficients_from_clarke(robot).T), strict=True
    ):
        if found is not None:
            cause = f"{time_s:.3g} s after its start the reference bends the robot into itself: {found}"
            warning = Judgement(WARNING, "reference", cause, "Lower its amplitudes")
            return dataclasses.replace(judged, judgements=(*judged.judgements, warning))
    return judged


def _accuracy_line(accuracy: RodAccuracy) -> str:
    counts = " and ".join(str(count) for count in sorted(set(accuracy.nodes)))
    return (
        f"Quadrature: {counts} Gauss nodes a piece; with {MORE_NODES} more, and segments bent by a radian, the tip is"
        f" {accuracy.tip:.1g} of the length away, masses change by {accuracy.mass:.1g}, forces by {accuracy.force:.1g}"
    )


def _numbers(robot: Robot, summary: Summary, judged: Judged, accuracy: RodAccuracy | None) -> dict[str, object]:
    return {
        "robot": robot.name,
        "tendons": robot.tendon_count,
        "length_m": robot.length_m,
        **summary.numbers,
        "assumed": list(robot.assumed),
        "derived": list(robot.derived),
        "missing": abilities(robot),
        **judged.numbers(),
        **({} if accuracy is None else {"quadrature_error": accuracy.largest}),
    }


def abilities(robot: Robot) -> dict[str, str]:
    """What can be run with a robot file: command -> "" where it can, else the missing sections."""
    stack = ("actuators", "limits", "control")
    needed = {
        "up": stack,
        "demo": (*stack, "reference"),
        "replay of a run": (),
        "replay of a .csv": ("recording",),
    }
    return {
        command: ", ".join(section for section in sections if getattr(robot, section) is None)
        for command, sections in needed.items()
    }


def _print_heading(console: Console, robot: Robot, parts: str) -> None:
    console.print(f"[bold]{robot.name}[/bold]  {robot.description}", highlight=False)
    gravity = ", ".join(f"{value:g}" for value in robot.gravity_m_per_s2)
    say(
        console,
        f"{robot.file_name}: a valid robot file",
        f"{parts}, {robot.tendon_count} tendons, {len(robot.strings)} strings, "
        f"{robot.length_m * 1e3:.4g} mm long, gravity ({gravity}) m/s² in the base frame\n",
    )


def _print_settings(console: Console, robot: Robot, judged: Judged) -> None:
    say(console, *_setting_lines(robot, judged))
    for one in judged.judgements:
        color = "red" if one.level == ERROR else "yellow"
        console.print(f"[{color}]{one.level}[/{color}]: ", end="", highlight=False)
        say(console, f"{one.key}: {one.cause}. {one.remedy}.")
    for command, missing in abilities(robot).items():
        if missing:
            text = f"[yellow]not possible[/yellow]: no section {missing}"
        elif command in ("up", "demo") and not judged.works:
            text = "[red]would not work[/red]: see the errors above"
        else:
            text = "[green]ready[/green]"
        console.print(f"{command}: {text}", highlight=False)
    for heading, lines in (
        ("Derived, since the file leaves them out", robot.derived),
        ("Assumed, that is, stated by no source", robot.assumed),
    ):
        if lines:
            say(console, f"\n{heading}:", *(f"  {line}" for line in lines))


def _heat_line(actuators: Actuators, count: int) -> str:
    warn_c, error_c = actuators.temperature_warn_c, actuators.temperature_error_c
    line = f"Motors: warning at {warn_c:g} °C, fault at {error_c:g} °C; "
    if actuators.heat is None:
        return line + "without actuators.heat only where their boards measure it"
    current_a = actuators.heat.steady_current_a(error_c)
    return line + (
        f"{current_a:.3g} A, {spread(current_a * actuators.each('newton_per_ampere', count))} N, for good bring a motor"
        f" to it in air of {actuators.heat.ambient_c:g} °C"
    )


def _own_line(robot: Robot) -> str:
    """What some tendons have of their own."""
    entries = [
        f"{'limits' if section is robot.limits else 'actuators'} of {', '.join(map(str, entry.tendons))}: "
        + ", ".join(f"{key} {value}" for key, value in entry.stated.items())
        for section in (robot.actuators, robot.limits)
        for entry in (() if section is None else section.tendons)
    ]
    return f"Tendons with values of their own: {'; '.join(entries)}"


def _setting_lines(robot: Robot, judged: Judged) -> list[str]:
    lines = []
    if robot.actuators is not None:
        actuators = robot.actuators
        keys = "newton_per_ampere", "maximum_tension_n", "meter_per_count", "reflected_mass_kg"
        n_per_a, most_n, count_m, mass_kg = (actuators.each(key, robot.motor_count) for key in keys)
        lines.append(
            f"Actuators: {spread(n_per_a, 4)} N/A, up to {spread(most_n, 4)} N, {spread(count_m * 1e6)} µm of tendon an"
            f" encoder count, {spread(mass_kg)} kg reflected"
        )
        lines.append(_heat_line(actuators, robot.motor_count))
    if robot.transmission is not None:
        preload = f", preload {robot.transmission.preload_n:g} N" if robot.shares_motors else ""
        layers = ", spools that grow" if any(robot.transmission.layer_m) else ""
        lines.append(f"Transmission: {robot.motor_count} motors for {robot.tendon_count} tendons{preload}{layers}")
    if robot.limits is not None:
        limits = robot.limits

        def of(key: str, factor: float = 1.0) -> str:
            return spread(factor * limits.each(key, robot.tendon_count), 6)

        if isinstance(limits, TensionLimits):
            bounds, safe = f"sum {limits.total_n:g} N, {of('rate_n_per_s')} N/s", f"safe state {of('safe_n')} N"
        else:
            bounds = f"{of('speed_m_per_s', 1e3)} mm/s, {of('acceleration_m_per_s2')} m/s²"
            safe = f"a release pays out by {of('pay_out_m', 1e3)} mm"
            safe += " as far as motors that share tendons can" if robot.shares_motors else ""
        least, most, stroke = of("least_n"), of("maximum_n"), of("maximum_displacement_m", 1e3)
        between = f"{least} to {most}" if not limits.tendons else f"at least {least}, at most {most}"
        lines.append(
            f"Limits: tension {between} N, {bounds}, displacement ±{stroke} mm; {safe}; commands time out after"
            f" {limits.command_timeout_s * 1e3:g} ms"
        )
        if limits.tendons or (robot.actuators is not None and robot.actuators.tendons):
            lines.append(_own_line(robot))
        period_s = 0.001 if robot.actuators is None else 1 / robot.actuators.cycle_hz
        lines.append(thresholds_of(robot, period_s).sentence)
    if robot.control is not None:
        lines.append(f"Control: {_law(robot, robot.control)}")
        if (policy := robot.control.policy) is not None:
            lines.append(f"Policy: {policy.model or policy.function}, {policy.rate_hz:g} Hz, served by this law")
        if judged.margins is not None:
            lines.append(_margin_line(robot, judged.margins))
    if robot.reference is not None:
        amplitudes = ", ".join(f"{value * 1e3:g}" for value in robot.reference.amplitude_m)
        use = judged.use
        needs = "" if use is None else (
            f"; tendons move by up to {use.displacement_m.max() * 1e3:.3g} mm and need up to"
            f" {use.tension_n.max():.3g} N"
        )  # fmt: skip
        lines.append(f"Reference: {robot.reference.kind}, amplitudes {amplitudes or 'none'} mm{needs}")
    for words, value in judged.defects_m.items():
        shown = "no equilibrium" if math.isnan(value) else f"the strain basis misses the tip by {value * 1e3:.2g} mm"
        lines.append(f"Statics at {words}: {shown}")
    for string in robot.strings:
        lines.append(
            f"String {string.name}: anchored at {string.anchor_m * 1e3:.4g} mm, "
            f"{string.pitch_radius_m * 1e3:.3g} mm from the backbone at {math.degrees(string.angle_rad):.4g}°"
        )
    if robot.recording is not None:
        lines.append(f"Recording: columns {', '.join(robot.recording.displacement_columns)}")
    for fit in robot.provenance:
        left = "".join(f", {error.of} {error.rmse:.3g}" for error in fit.errors)
        lines.append(f"Fitted by {fit.command}{f', {fit.date}' if fit.date else ''}, to {fit.data}{left}")
    return lines


def _margin_line(robot: Robot, found: DelayMargin) -> str:
    of = ", of the motors' mass alone" if found.plant == MOTORS else ""
    if found.margin_s == 0:
        return f"Delay margin: none, the loop is unstable on the linear plant{of}"
    if found.plant == SERVOS and math.isinf(found.margin_s):
        return "Delay margin: no loop is closed around the servos' own, so no delay makes one unstable"
    if math.isinf(found.margin_s):
        return f"Delay margin: no delay makes the loop unstable{of}"
    part = robot.part_names[found.coordinate * len(robot.part_names) // robot.coordinate_count]
    if found.plant == SERVOS:
        return (
            f"Delay margin: {found.margin_s * 1e3:.3g} ms more than a cycle of the bus and a period of the shape; the"
            f" integral then rings at {found.crossover_hz:.3g} Hz; phase margin "
            f"{math.degrees(found.phase_margin_rad):.3g}°, gain margin {found.gain_margin:.3g}"
        )
    beyond = "a cycle" if not bus_cycle_s(robot) else f"the {found.computing_delay_s * 1e3:.3g} ms of the servos' bus"
    return (
        f"Delay margin: {found.margin_s * 1e3:.3g} ms more than {beyond} between reading and command{of}; it then rings"
        f" at {found.crossover_hz:.3g} Hz in {part}; phase margin "
        f"{math.degrees(found.phase_margin_rad):.3g}°, gain margin {found.gain_margin:.3g}"
    )


def _law(robot: Robot, control: ControlSettings) -> str:
    if control.law == PID_LAW:
        return f"PID on {robot.coordinates_name}, {control.tendon_forces}, {_gains(robot)}"
    if control.law == STATICS_LAW:
        seen = "shape" if robot.sees_shape else "tip"
        integral = f"integral {control.integral_per_s:g}/s on the {seen}" if control.integral_per_s else "no integral"
        return f"statics on {robot.coordinates_name}, {control.tendon_forces}, {integral}"
    if control.law == INVERSE_DYNAMICS_LAW:
        return f"inverse dynamics on {robot.coordinates_name}, {control.tendon_forces}, {_gains(robot)}; no margins"
    return f"{control.law}, a controller of another package: its margins are not known"


def _gains(robot: Robot) -> str:
    if robot.control is None:
        return ""
    return "; ".join(f"p {gain.p:g} i {gain.i:g} d {gain.d:g}" for gain in robot.control.gains)
