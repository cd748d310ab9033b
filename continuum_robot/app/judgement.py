# SPDX-License-Identifier: Apache-2.0
"""What keeps a robot from working as its file describes it, each with its cause and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.delay_margin import (
    BOARD_VELOCITY_FILTER_S,
    SERVOS,
    DelayMargin,
    delay_margin_s,
)
from continuum_robot.control.policy import load_policy
from continuum_robot.control.references import make_reference
from continuum_robot.control.tendon_forces import distribute
from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.models.robot_model import RobotModel
from continuum_robot.robot.actuation import Actuators, Limits, TensionLimits
from continuum_robot.robot.control_settings import LAWS, PID_LAW, STATICS_LAW, ControlSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTROLLERS, added, offered
from continuum_robot.robot.reading_thresholds import spread
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.policy_controller import PolicyController

Array = NDArray[np.float64]

ERROR, WARNING = "error", "warning"

UNUSABLE_PHASE_RAD, POOR_PHASE_RAD = math.radians(10.0), math.radians(30.0)
UNUSABLE_GAIN, POOR_GAIN = 1.2, 2.0
COARSE_FRACTION = 0.1
"""Of the pretension, from which on a step of current or encoder is felt."""
DEFECT_FRACTION = 0.001
"""Of the length, from which on the error of the strain basis is named."""

_HORIZON_S = 60.0
_SAMPLES = 240
_STEP_S = 1e-3


@dataclass(frozen=True, slots=True)
class Judgement:
    """A reason why a robot does not work (``error``), or works poorly (``warning``)."""

    level: str
    key: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Use:
    """What the robot's reference asks of its tendons."""

    displacement_m: Array
    tension_n: Array
    total_n: float
    rate_n_per_s: Array
    speed_m_per_s: Array
    force_fraction: float
    tensions_n: Array


@dataclass(frozen=True)
class Judged:
    """All that was found of a robot."""

    judgements: tuple[Judgement, ...]
    margins: DelayMargin | None
    use: Use | None
    defects_m: dict[str, float]

    @property
    def works(self) -> bool:
        """Whether nothing keeps the robot from working."""
        return all(one.level != ERROR for one in self.judgements)

    def numbers(self) -> dict[str, Any]:
        """As ``check --json`` writes them."""
        found: dict[str, Any] = {"works": self.works, "judgements": [asdict(one) for one in self.judgements]}
        if self.margins is not None:
            found |= {
                "delay_margin_s": self.margins.margin_s,
                "delay_margin_crossover_hz": self.margins.crossover_hz,
                "phase_margin_rad": self.margins.phase_margin_rad,
                "gain_margin": self.margins.gain_margin,
                "delay_margin_plant": self.margins.plant,
            }
        if self.use is not None:
            found |= {
                "reference_displacement_m": float(self.use.displacement_m.max()),
                "reference_tension_n": float(self.use.tension_n.max()),
                "reference_total_n": self.use.total_n,
                "reference_rate_n_per_s": float(self.use.rate_n_per_s.max()),
                "reference_speed_m_per_s": float(self.use.speed_m_per_s.max()),
            }
        return found | {"defects_m": self.defects_m}


def bus_cycle_s(robot: Robot) -> float:
    """How long all servos of the slowest bus take to get a command and answer with their state, s; 0 without servos."""
    sections = () if robot.hardware is None else robot.hardware.motor_sections.values()
    return max((float(getattr(one, "cycle_s", 0.0)) for one in sections), default=0.0)


def judge(robot: Robot, model: RobotModel) -> Judged:
    """Judge a robot by its file."""
    found = [*_law(robot), *_policy(robot), *_tracker(robot)]
    margins = use = None
    with_margins = robot.control is not None and robot.control.law in (PID_LAW, STATICS_LAW)
    if with_margins and robot.actuators is not None:
        cycles = math.ceil(bus_cycle_s(robot) * robot.actuators.cycle_hz - 1e-9)
        margins = delay_margin_s(robot, computing_cycles=max(1, cycles))
        found += _margins(robot, margins)
    if robot.actuators is not None and robot.control is not None and not robot.takes_displacements:
        found += [
            *_friction(robot, robot.actuators, robot.control),
            *_resolution(robot, robot.actuators, robot.control),
        ]
    if robot.reference is not None:
        try:
            use = _use(robot, model)
        except ContinuumRobotError as error:
            found.append(Judgement(ERROR, "reference", str(error), "Mend the section reference"))
    if use is not None:
        found += _reference(robot, use)
    defects_m = dict(_defects(robot, use)) if robot.traits.kind == ROD else {}
    found += _basis(robot, defects_m)
    return Judged(tuple(sorted(found, key=lambda one: one.level != ERROR)), margins, use, defects_m)


def _law(robot: Robot) -> Iterator[Judgement]:
    if robot.control is None or robot.control.law in LAWS:
        return
    law = robot.control.law
    try:
        if added(CONTROLLERS, law, "control.law") is not None:
            return
        names = ", ".join([*LAWS, *offered(CONTROLLERS)])
        cause, remedy = f"no installed package offers the controller {law!r}", f"Use one of {names}, or install it"
    except ParameterError as error:
        cause, remedy = f"the controller {law!r} cannot be imported: {error.expected}", "Mend or reinstall its package"
    yield Judgement(ERROR, "control.law", cause, remedy)


def _policy(robot: Robot) -> Iterator[Judgement]:
    if robot.control is None or robot.control.policy is None:
        return
    try:
        PolicyController(robot, None, load_policy(robot))
    except ContinuumRobotError as error:
        yield Judgement(ERROR, "control.policy", str(error), "Mend the section control.policy, or leave it out")


def _tracker(robot: Robot) -> Iterator[Judgement]:
    tracker = None if robot.hardware is None else robot.hardware.tracker
    name = getattr(tracker, "tool_file", "")
    if name and not Path(name).is_file():
        yield Judgement(
            ERROR,
            "hardware.tracker.tool_file",
            f"the tool's definition file {name!r} is not there",
            "Copy the .rom file of the tool to that place, or correct the path (relative ones count from the folder in"
            " which the command runs)",
        )


def _margins(robot: Robot, found: DelayMargin) -> Iterator[Judgement]:
    key, remedy = "control.gains", f"Find gains with `continuum-robot tune {robot.file_name or robot.name}`"
    if found.plant == SERVOS:
        key, remedy = "control.integral_per_s", "Lower it: servos, bus and sensors allow no more"
    if found.margin_s == 0:
        yield Judgement(ERROR, key, "the loop is unstable on the linear model", remedy)
        return
    phase, gain = found.phase_margin_rad, found.gain_margin
    unusable = phase < UNUSABLE_PHASE_RAD or gain < UNUSABLE_GAIN
    if unusable or phase < POOR_PHASE_RAD or gain < POOR_GAIN:
        yield Judgement(
            ERROR if unusable else WARNING,
            key,
            f"phase margin {math.degrees(phase):.3g}°, gain margin {gain:.3g}: the loop "
            f"{'rings' if unusable else 'is poorly damped'} at {found.crossover_hz:.3g} Hz; it needs at least "
            f"{math.degrees(POOR_PHASE_RAD):.0f}° and {POOR_GAIN:g}",
            remedy,
        )


def _friction(robot: Robot, motor: Actuators, control: ControlSettings) -> Iterator[Judgement]:
    held_n = motor.each("coulomb_n", robot.tendon_count) + motor.each("cogging_n", robot.tendon_count)
    friction_n, pretension_n = float(held_n.max()), control.pretension_n
    if friction_n >= pretension_n:
        yield Judgement(
            ERROR,
            "control.pretension_n",
            f"dry friction and cogging of the motors hold {friction_n:.3g} N of tendon tension, the pretension is"
            f" {pretension_n:.3g} N: tendons go slack when they are let out",
            f"Raise control.pretension_n to {1.5 * friction_n:.2g} N or more, or lower the friction (larger"
            " spool, smaller gear ratio)",
        )


def _speed_step(section: Any, motor: Actuators, usual_m_per_s: float) -> float:
    """Tendon speed of one step of what a section's motors tell, m/s."""
    if not hasattr(section, "velocity_unit_rev_per_s"):
        return usual_m_per_s
    turns_m = [one.meter_per_turn(motor.of(one.number)) for one in section.motors]
    return float(section.velocity_unit_rev_per_s * max(turns_m))


def _resolution(robot: Robot, motor: Actuators, control: ControlSettings) -> Iterator[Judgement]:
    pretension_n = control.pretension_n
    sections = {} if robot.hardware is None else robot.hardware.motor_sections
    count_m = motor.largest("meter_per_count", robot.tendon_count)
    usual_m_per_s = count_m / (1 / motor.cycle_hz + BOARD_VELOCITY_FILTER_S)
    speed_m_per_s = max((_speed_step(one, motor, usual_m_per_s) for one in sections.values()), default=usual_m_per_s)
    for key, section in sections.items():
        unit_a = 0.0 if robot.takes_displacements else getattr(section, "current_unit_a", 0.0)
        current_n = unit_a * max(one.newton_per_ampere(motor.of(one.number)) for one in section.motors)
        if current_n > COARSE_FRACTION * pretension_n:
            yield Judgement(
                ERROR if current_n >= pretension_n else WARNING,
                f"{key}.model",
                f"one step of the servos' current is {current_n:.3g} N of tendon tension, beside a pretension of"
                f" {pretension_n:.3g} N",
                "Take a larger spool or a smaller gear ratio, or raise control.pretension_n",
            )
    if control.law != PID_LAW:
        return
    gain = max(control.gains, key=lambda one: one.p * count_m + one.d * speed_m_per_s)
    smooth = -math.expm1(-1 / (motor.cycle_hz * gain.derivative_filter_time)) if gain.derivative_filter_time else 1.0
    step_n = gain.p * count_m + gain.d * speed_m_per_s * smooth
    if step_n > 2 * COARSE_FRACTION * pretension_n:
        yield Judgement(
            ERROR if step_n >= 4 * pretension_n else WARNING,
            "control.gains",
            f"one step of the encoders ({1e6 * count_m:.3g} µm, {1e3 * speed_m_per_s:.3g} mm/s) changes the force by"
            f" {step_n:.3g} N, beside a pretension of {pretension_n:.3g} N: the motors chatter",
            "Lower d or raise derivative_filter_time, use finer encoders, or raise control.pretension_n",
        )


def _use(robot: Robot, model: RobotModel) -> Use | None:
    settings, control = robot.reference, robot.control
    if settings is None or control is None:
        return None
    folder = Path(robot.file_name).parent if robot.file_name else None
    reference = make_reference(settings, robot.coordinate_count, folder, robot.base_stage)
    holding, manifold = model.feedforward(), controlled_manifold(robot)
    bounds = np.full(robot.coordinate_count, np.inf)
    if control.gains:
        bounds = np.repeat([min(one.u_clamp_max, -one.u_clamp_min) for one in control.gains],
                           robot.coordinate_count // len(control.gains))  # fmt: skip
    feeds = (control.feedforward_stiffness, control.feedforward_gravity)
    # What servos wind besides, since the tendons stretch.
    stretch_m_per_n = 1 / robot.tendon_stiffnesses_n_per_m if robot.takes_displacements else 0.0

    def at(time_s: float) -> tuple[Array, Array, Array]:
        position = np.asarray(reference.at(time_s).position, dtype=float)
        elastic, gravity = (np.asarray(one, dtype=float) for one in holding(position))
        tension = distribute(control.tendon_forces, elastic + gravity, manifold, control.pretension_n)
        left = (1 - feeds[0]) * elastic + (1 - feeds[1]) * gravity
        wound = manifold.displacement_matrix @ position + stretch_m_per_n * tension
        return wound, tension, np.abs(left) / bounds

    rises_s = settings.rise_s if settings.frequency_rate_hz_per_s > 0 else 0.0
    end_s = min(reference.duration_s, max(rises_s, _HORIZON_S))
    if settings.kind == "steps":  # each dwells; the set-points repeat
        end_s = min(end_s, _SAMPLES * settings.period_s / 4)
    samples = [at(time_s) for time_s in np.linspace(0.0, end_s, _SAMPLES)]
    displacement, tension, force = (np.array(one) for one in zip(*samples, strict=True))
    speed = rate = np.full(robot.tendon_count, math.nan)
    if settings.kind != "steps":
        steps = np.linspace(0.0, end_s, _SAMPLES // 4).tolist()
        changes = [(at(t), at(t + _STEP_S)) for t in steps]
        speed, rate = (
            np.max([np.abs(after[i] - before[i]) for before, after in changes], axis=0) / _STEP_S for i in (0, 1)
        )
    return Use(
        np.abs(displacement).max(axis=0),
        tension.max(axis=0),
        float(tension.sum(axis=1).max()),
        rate,
        speed,
        float(force.max()),
        tension[int(np.argmax(tension.max(axis=1)))],
    )


def _reference(robot: Robot, use: Use) -> Iterator[Judgement]:
    if robot.limits is not None:
        yield from _beyond(robot.limits, use)
    if use.force_fraction > 1:
        yield Judgement(
            ERROR,
            "control.gains",
            f"the reference needs {use.force_fraction:.3g} times the largest generalised force of the PID",
            "Raise u_clamp_max and lower u_clamp_min, or lower reference.amplitude_m",
        )


def _beyond(limits: Limits, use: Use) -> Iterator[Judgement]:
    rows = [
        ("maximum_displacement_m", "displaces a tendon by", use.displacement_m, "mm", 1e3),
        ("maximum_n", "needs a tension of", use.tension_n, "N", 1.0),
    ]
    if isinstance(limits, TensionLimits):
        rows += [
            ("total_n", "needs tensions whose sum is", np.array([use.total_n]), "N", 1.0),
            ("rate_n_per_s", "changes tensions by", use.rate_n_per_s, "N/s", 1.0),
        ]
    else:
        rows.append(("speed_m_per_s", "winds tendons by", use.speed_m_per_s, "mm/s", 1e3))
    for name, verb, values, unit, factor in rows:
        each = limits.each(name, len(values))
        worst = int(np.argmax(values / each))
        key, value, limit = f"limits.{limits.key_of(name, worst + 1)}", float(values[worst]), float(each[worst])
        if value > limit * (1 + 1e-9):
            yield Judgement(
                ERROR,
                "reference",
                f"it {verb} {value * factor:.3g} {unit}, more than {key} = {limit * factor:.3g} {unit}",
                f"Lower reference.amplitude_m or its frequencies, or raise {key} if the robot bears it",
            )


def _defects(robot: Robot, use: Use | None) -> Iterator[tuple[str, float]]:
    """Error at the tip at the reference's tensions, and with a tendon alone at the limit, by words for them."""
    rod = Rod(robot)

    def defect_m(tension: Array) -> float:
        try:
            return rod.equilibrium(tension).defect_m
        except ConvergenceError:
            return math.nan

    if use is not None:
        yield f"the reference's tensions, up to {use.tension_n.max():.3g} N", defect_m(use.tensions_n)
    if robot.limits is not None:
        found = []
        for rows in robot.tendon_groups.values():
            tension = np.zeros(robot.tendon_count)
            tension[rows.start] = robot.limits.of(rows.start + 1).maximum_n
            found.append(defect_m(tension))
        limit = spread(robot.limits.each("maximum_n", robot.tendon_count))
        yield f"one tendon alone at its limit, {limit} N", float(np.max(found))


def _basis(robot: Robot, defects_m: dict[str, float]) -> Iterator[Judgement]:
    allowed_m = DEFECT_FRACTION * robot.length_m
    found = {words: value for words, value in defects_m.items() if value > allowed_m}
    if found:
        listed = ", ".join(f"{1e3 * value:.3g} mm at {words}" for words, value in found.items())
        yield Judgement(
            WARNING,
            "segments.basis",
            f"the strain basis misses the tip of the statics by {listed}",
            "Give the basis a higher bending_order (and torsion), or expect that error of the tip on the real robot:"
            " the controller sees tendons, not the tip",
        )
