# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot check``: what a robot file describes, in one page."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.control.delay_margin import MOTORS, delay_margin_s
from continuum_robot.errors import ConvergenceError
from continuum_robot.mechanisms.equilibrium_modulation.building import make_moment_error, make_segment
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.segment import STRAIGHT_RAD
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.mechanisms.rolling_joint.building import make_linkage
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.rolling_joint import RollingJoint
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.strain_rod import StrainRod
from continuum_robot.rod.strain_statics import equilibrium
from continuum_robot.rod.tendons import beyond_bending

Vector = NDArray[np.float64]

_SHOWN_BEND_RAD = math.pi / 4  # a bend at which the micro motion is told
_SHOWN_DEPTHS = 200


def run_check(robot: str, json_file: Path | None, console: Console | None = None) -> None:
    """Check a robot file and print its summary.

    Parameters
    ----------
    robot : path of a robot file, or the name of a shipped one
    json_file : where to write the numbers too, None for nowhere
    console : where to print

    Raises
    ------
    RobotFileError : the file cannot be used
    """
    console = console or Console()
    loaded = load_robot(robot)
    if loaded.mechanism is not None:
        _check_mechanism(loaded, loaded.mechanism, json_file, console)
        return
    with console.status(f"{loaded.name}: deriving the model ..."):
        frequencies = natural_frequencies_hz(loaded)
    _print(console, loaded, frequencies)
    if json_file is not None:
        write_json(json_file, summary(loaded, frequencies))


def _check_mechanism(
    robot: Robot, mechanism: RollingJoint | EquilibriumModulation, json_file: Path | None, console: Console
) -> None:
    if isinstance(mechanism, EquilibriumModulation):
        numbers = _check_modulation(robot, mechanism, console)
    else:
        numbers = _check_rolling_joint(robot, mechanism, console)
    _print_settings(console, robot)
    if json_file is not None:
        write_json(json_file, numbers)


def _check_modulation(robot: Robot, mechanism: EquilibriumModulation, console: Console) -> dict[str, object]:
    segment, error = make_segment(mechanism), make_moment_error(mechanism)
    _print_heading(console, robot, f"{segment.count} backbones around a central one, and equilibrium modulation")
    theta = STRAIGHT_RAD - _SHOWN_BEND_RAD
    turn = turning_point(segment, theta, error, stroke_m=mechanism.stroke_m)
    tips = jacobians(segment, theta, 0.0, np.linspace(0.0, mechanism.stroke_m, _SHOWN_DEPTHS), error).pose[:, :3, 3]
    way_um = 1e6 * float(np.linalg.norm(np.diff(tips, axis=0), axis=1).sum())
    console.print(
        f"Bending stiffness {segment.bending_stiffness_nm2:.4g} N.m^2, to which insertion adds "
        f"{segment.modulation_stiffness_nm2 / segment.bending_stiffness_nm2:.2%}",
        highlight=False,
    )
    where = "does not turn back" if turn is None else f"turns back at {1e3 * turn:.3g} mm"
    console.print(
        f"Bent by {math.degrees(_SHOWN_BEND_RAD):.3g} degrees, {1e3 * mechanism.stroke_m:.4g} mm of insertion move the "
        f"tip over {way_um:.3g} um; it {where}",
        highlight=False,
    )
    return {
        "robot": robot.name,
        "backbones": segment.count,
        "tendons": robot.tendon_count,
        "length_m": robot.length_m,
        "bending_stiffness_nm2": segment.bending_stiffness_nm2,
        "modulation_stiffness_nm2": segment.modulation_stiffness_nm2,
        "stroke_m": mechanism.stroke_m,
        "micro_motion_um": way_um,
        "turning_point_m": math.nan if turn is None else turn,
        "assumed": list(robot.assumed),
        **_margins(robot),
    }


def _check_rolling_joint(robot: Robot, mechanism: RollingJoint, console: Console) -> dict[str, object]:
    linkage = make_linkage(mechanism)
    _print_heading(console, robot, f"{len(linkage.links)} links that roll on each other")
    low, high = linkage.limits_m.T * 1e3
    for number, (left, right) in enumerate(zip(low, high, strict=True), start=1):
        console.print(f"Joint {number}: contacts from {left:.4g} to {right:.4g} mm", highlight=False)
    return {
        "robot": robot.name,
        "links": len(linkage.links),
        "tendons": robot.tendon_count,
        "length_m": robot.length_m,
        "contact_low_m": [float(value) for value in linkage.limits_m[:, 0]],
        "contact_high_m": [float(value) for value in linkage.limits_m[:, 1]],
        "assumed": list(robot.assumed),
        **_margins(robot),
    }


def natural_frequencies_hz(robot: Robot) -> Vector:
    """Undamped natural frequencies about the equilibrium without tension.

    Parameters
    ----------
    robot : any robot

    Returns
    -------
    frequencies in increasing order, shape (coefficients,), Hz; NaN where the equilibrium is not stable in a mode
    """
    try:
        mass, stiffness = _at_rest(robot)
    except ConvergenceError:
        return np.full(robot.coefficient_count, np.nan)
    root = np.linalg.cholesky(mass)
    # M v'' = -K v; with M = L L' the squares of the angular frequencies are the eigenvalues of L^-1 K L^-T.
    half = np.linalg.solve(root, stiffness)
    squares = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
    return np.array([math.sqrt(square) / (2 * math.pi) if square >= 0 else math.nan for square in squares])


def _at_rest(robot: Robot) -> tuple[Vector, Vector]:
    """Mass and stiffness matrix at rest; actuators of a rod that does more than bend have no inertia there."""
    rod = StrainRod.from_robot(robot)
    state = equilibrium(rod, settle=False)
    if beyond_bending(robot):
        return rod.mass_matrix(state.c), state.problem.terms(state.c, state.tension)[2]
    dynamics = RodDynamics(robot, compile="never")
    return dynamics.mass_matrix(state.c), dynamics.potential(state.c)[2]


def masses_kg(segment: Segment) -> tuple[float, float, float]:
    """Mass of a segment's backbone, disks and own tendons along it, kg."""
    backbone = segment.backbone.linear_density_kg_per_m * segment.length_m
    disks = float(segment.disks.masses_kg.sum())
    tendons = segment.tendons.mass_per_length_kg_per_m * segment.length_m * segment.tendons.count
    return backbone, disks, tendons


def abilities(robot: Robot) -> dict[str, str]:
    """What can be run with a robot file: command -> "" where it can, else the missing sections."""
    needed = {
        "demo, up": ("actuators", "limits", "control", "reference"),
        "replay": ("recording",),
    }
    return {
        command: ", ".join(section for section in sections if getattr(robot, section) is None)
        for command, sections in needed.items()
    }


def summary(robot: Robot, frequencies_hz: Vector) -> dict[str, object]:
    """The numbers of the page as a flat mapping with units in the keys; ``frequencies_hz`` as from above.

    Parameters
    ----------
    frequencies_hz : of the first modes, shape (k,), Hz
    """
    masses = np.array([masses_kg(segment) for segment in robot.segments])
    return {
        "robot": robot.name,
        "segments": len(robot.segments),
        "tendons": robot.tendon_count,
        "strings": len(robot.strings),
        "length_m": robot.length_m,
        "mass_kg": float(masses.sum()),
        "backbone_mass_kg": float(masses[:, 0].sum()),
        "disk_mass_kg": float(masses[:, 1].sum()),
        "tendon_mass_kg": float(masses[:, 2].sum()),
        "bending_stiffness_nm2": [segment.backbone.bending_stiffnesses_nm2[0] for segment in robot.segments],
        "bending_stiffness_y_nm2": [segment.backbone.bending_stiffnesses_nm2[1] for segment in robot.segments],
        "natural_frequencies_hz": [float(value) for value in frequencies_hz],
        "assumed": list(robot.assumed),
        **_margins(robot),
    }


def _print(console: Console, robot: Robot, frequencies_hz: Vector) -> None:
    _print_heading(console, robot, f"{len(robot.segments)} segments")
    console.print(_segment_table(robot))
    console.print(_frequency_lines(frequencies_hz), highlight=False)
    _print_settings(console, robot)


def _print_heading(console: Console, robot: Robot, parts: str) -> None:
    console.print(f"[bold]{robot.name}[/bold]  {robot.description}", highlight=False)
    console.print(f"{robot.file_name}: a valid robot file", highlight=False, soft_wrap=True)
    gravity = ", ".join(f"{value:g}" for value in robot.gravity_m_per_s2)
    console.print(
        f"{parts}, {robot.tendon_count} tendons, {len(robot.strings)} strings, "
        f"{robot.length_m * 1e3:.4g} mm long, gravity ({gravity}) m/s² in the base frame\n",
        highlight=False,
    )


def _print_settings(console: Console, robot: Robot) -> None:
    for line in _setting_lines(robot):
        console.print(line, highlight=False)
    for command, missing in abilities(robot).items():
        text = "[green]ready[/green]" if not missing else f"[yellow]not possible[/yellow]: no section {missing}"
        console.print(f"{command}: {text}", highlight=False)
    if robot.assumed:
        console.print("\nAssumed, that is, stated by no source:", highlight=False)
        for key in robot.assumed:
            console.print(f"  {key}", highlight=False, markup=False)


def _segment_table(robot: Robot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("segment")
    columns = []
    for segment in robot.segments:
        table.add_column(segment.name, justify="right")
        backbone, disks, tendons = masses_kg(segment)
        columns.append(
            {
                "length": f"{segment.length_m * 1e3:.4g} mm",
                "bending stiffness E I": _stiffness(segment),
                "bending damping": f"{segment.bending_damping_nms:.4g} N·m·s",
                "disks": f"{len(segment.disks.positions_m(segment.length_m))}",
                "mass of the backbone": f"{backbone * 1e3:.3g} g",
                "mass of the disks": f"{disks * 1e3:.3g} g",
                "mass of the tendons": f"{tendons * 1e3:.3g} g",
                "tendons": str(segment.tendons.count),
                "pitch radius": f"{segment.tendons.pitch_radius_m * 1e3:.4g} mm",
                "angle of tendon 1": f"{math.degrees(segment.tendons.angle_offset_rad):.4g}°",
                "strain basis": segment.basis.kind,
                "coefficients": str(segment.basis.coefficient_count),
            }
        )
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    return table


def _stiffness(segment: Segment) -> str:
    x, y = segment.backbone.bending_stiffnesses_nm2
    return f"{x:.4g} N·m²" if x == y else f"{x:.4g}, {y:.4g} N·m²"


def _frequency_lines(frequencies_hz: Vector) -> str:
    if np.isnan(frequencies_hz).any():
        return (
            "[yellow]Natural frequencies: the robot does not stand by itself without tension "
            "(buckles or finds no equilibrium)[/yellow]\n"
        )
    values = ", ".join(f"{value:.3g}" for value in frequencies_hz)
    return f"Natural frequencies without tension: {values} Hz\n"


def _heat_line(actuators: Actuators) -> str:
    warn_c, error_c = actuators.temperature_warn_c, actuators.temperature_error_c
    line = f"Motors: warning at {warn_c:g} °C, fault at {error_c:g} °C; "
    if actuators.heat is None:
        return line + "without actuators.heat only where their boards measure it"
    current_a = actuators.heat.steady_current_a(error_c)
    return line + (
        f"{current_a:.3g} A, {current_a * actuators.newton_per_ampere:.3g} N, for good bring a motor to it in air of"
        f" {actuators.heat.ambient_c:g} °C"
    )


def _setting_lines(robot: Robot) -> list[str]:
    lines = []
    if robot.actuators is not None:
        actuators = robot.actuators
        resolution_um = (
            2e6 * math.pi * actuators.spool_radius_m / actuators.gear_ratio / actuators.encoder_counts_per_turn
        )
        lines.append(
            f"Actuators: {actuators.newton_per_ampere:.4g} N/A, up to {actuators.maximum_tension_n:.4g} N, "
            f"{resolution_um:.3g} µm of tendon an encoder count, {actuators.reflected_mass_kg:.3g} kg reflected"
        )
        lines.append(_heat_line(actuators))
    if robot.limits is not None:
        limits = robot.limits
        lines.append(
            f"Limits: tension {limits.minimum_n:g} to {limits.maximum_n:g} N, sum {limits.total_n:g} N, "
            f"{limits.rate_n_per_s:g} N/s, displacement ±{limits.maximum_displacement_m * 1e3:g} mm; "
            f"safe state {limits.safe_n:g} N; commands time out after {limits.command_timeout_s * 1e3:g} ms"
        )
    if robot.control is not None:
        lines.append(f"Control: PID on Clarke coordinates, {robot.control.tendon_forces}, {_gains(robot)}")
        if robot.actuators is not None:
            lines.append(_margin_line(robot))
    if robot.reference is not None:
        amplitudes = ", ".join(f"{value * 1e3:g}" for value in robot.reference.amplitude_m)
        lines.append(f"Reference: {robot.reference.kind}, amplitudes {amplitudes or 'none'} mm")
    for string in robot.strings:
        lines.append(
            f"String {string.name}: anchored at {string.anchor_m * 1e3:.4g} mm, "
            f"{string.pitch_radius_m * 1e3:.3g} mm from the backbone at {math.degrees(string.angle_rad):.4g}°"
        )
    if robot.recording is not None:
        lines.append(
            f"Recording: columns {', '.join(robot.recording.displacement_columns)}; "
            f"fitted from {robot.recording.fitted_from or 'nothing'}, {robot.recording.fitted_rmse_mm:.3g} mm RMSE"
        )
    return lines


def _margins(robot: Robot) -> dict[str, object]:
    """Margins of the Clarke loop; empty for a robot without actuators or control."""
    if robot.actuators is None or robot.control is None:
        return {}
    found = delay_margin_s(robot)
    return {
        "delay_margin_s": found.margin_s,
        "delay_margin_crossover_hz": found.crossover_hz,
        "phase_margin_rad": found.phase_margin_rad,
        "gain_margin": found.gain_margin,
        "delay_margin_plant": found.plant,
    }


def _margin_line(robot: Robot) -> str:
    found = delay_margin_s(robot)
    of = ", of the motors' mass alone" if found.plant == MOTORS else ""
    if found.margin_s == 0:
        return f"[red]Delay margin: none, the loop is unstable on the linear plant{of}: reduce the gains[/red]"
    if math.isinf(found.margin_s):
        return f"Delay margin: no delay makes the loop unstable{of}"
    part = robot.part_names[found.coordinate * len(robot.part_names) // robot.coordinate_count]
    return (
        f"Delay margin: {found.margin_s * 1e3:.3g} ms more than a cycle between reading and command{of}; it then rings "
        f"at {found.crossover_hz:.3g} Hz in {part}; phase margin "
        f"{math.degrees(found.phase_margin_rad):.3g}°, gain margin {found.gain_margin:.3g}"
    )


def _gains(robot: Robot) -> str:
    if robot.control is None:
        return ""
    return "; ".join(f"p {gain.p:g} i {gain.i:g} d {gain.d:g}" for gain in robot.control.gains)
