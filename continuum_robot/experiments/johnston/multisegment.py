# SPDX-License-Identifier: Apache-2.0
"""Johnston section 13: contact with the fourth disk of the distal of two horizontal segments.

The motion is the paper's: both second capstans turn away from the sensor at 180 deg/s to -180 deg, towards it at 36
deg/s until 225 deg or 30 N, and away again; before, the robot sags to rest. Gains and filter windows are those of
section 12. The coefficients come from strings and capstans (6), with the encoders' errors; the torque comes from the
commanded current; stiffnesses, masses and friction of the observers are off by 5 %. The monitor runs at 100 Hz, at
which the paper's robot was recorded: windows that are counted in points are as long then as there.

Without coupling, as in the paper, each segment has observers of its own: the proximal one takes the straight distal
segment for a rigid body on its end disk that carries the torques of the distal motors (74), (75); the distal one takes
its base for fixed and level. The force is estimated at the fourth disk of each; nothing touches the proximal segment,
so what is estimated there is wrong in full. With coupling, one observer has the model of the whole robot; forces on
both fourth disks are fitted to all coefficients at once, so that the data decides which segment is touched. The range
of the curvature, beta of (73), measures how far either segment is from an arc.

The paper's errors in x, across the plane of motion, have no cause that it names. The sweep changes one thing at a time:
the encoders' errors, the torque's, the model's, and a tilt of the whole robot about its own axis, by which its weight
and the contact no longer lie in the plane of the capstans that move.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.observers import SmoothedDifference
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.johnston.bench import RIM_M, Bench, CommandedCurrent, force_sensor
from continuum_robot.experiments.johnston.distal_segment import distal_reaction, lumped_distal
from continuum_robot.experiments.johnston.segment import (
    OBSERVERS,
    CapstanModel,
    Observers,
    curvature_range,
    perturbed,
    point_force,
)
from continuum_robot.experiments.johnston.sweep_rig import FILTER_POINTS, GAIN_PER_S, RATE_POINTS
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import string_matrix
from continuum_robot.simulation.devices.sensors import StringEncoderModel, StringEncoderSettings

Array = NDArray[np.float64]

DISK_M = 0.213293
SEGMENTS = ("proximal", "distal")
SETTLE_S, SCORED_FROM_S = 1.5, 1.0  # at rest before the motion; from when errors count
CLEARANCE_M, PEAK_N, RAMP_RAD_PER_S2 = 0.02, 30.0, 20.0
AWAY_DEG_PER_S = 180.0
MONITOR_HZ = 100
# What the sweep changes, one at a time.
VARIANTS: dict[str, dict[str, Any]] = {
    "as_described": {},
    "encoder_errors_x10": {"encoder_error_ratio": 10.0},
    "torque_exact": {"torque_error": 0.0, "gear_efficiency": 1.0},
    "parameters_exact": {"parameter_error": 0.0},
    "tilt_10_deg": {"tilt_deg": 10.0},
}


@dataclass(frozen=True, kw_only=True)
class MultisegmentSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, two segments with capstans", default="vanderbilt_two_segment")
    speed_deg_per_s: float = quantity("of the capstans on the way to the sensor", "deg/s", default=36.0, gt=1, le=180)
    withdrawal_deg: float = quantity("how far they turn away before", "deg", default=180.0, ge=0, le=180)
    farthest_deg: float = quantity("how far they turn towards it", "deg", default=225.0, gt=1, le=225)
    parameter_error: float = quantity("fraction by which the observers' parameters are off", default=0.05, ge=0, le=0.5)
    encoder_error_ratio: float = quantity("errors of the string encoders over the paper's", default=1.0, ge=0, le=100)
    torque_error: float = quantity(
        "fraction by which the torque that a current stands for is off, for each capstan", default=0.05, ge=0, le=0.5
    )
    gear_efficiency: float = quantity(
        "of motor and gearhead; the paper takes the rated one and does not name it", default=0.8, gt=0, le=1
    )
    tilt_deg: float = quantity("of the robot about its own axis, unknown to the observers", "deg", default=0.0)
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    sweep: bool = quantity("repeat with other errors", default=True)


@dataclass(frozen=True)
class MultisegmentSeries:
    """Forces in x and y at the fourth disk of each segment; keys (coupling, method, segment)."""

    time_s: Array
    truth: Array
    curvature_per_m: Array
    beta_per_m: Array
    forces: dict[tuple[str, str, str], Array]


def distal_alone(robot: Robot) -> Robot:
    """The distal segment on a fixed base, as the uncoupled observer takes it."""
    segment = dataclasses.replace(
        robot.segments[1], tendons=dataclasses.replace(robot.segments[1].tendons, from_base=True)
    )
    control = None if robot.control is None else dataclasses.replace(robot.control, gains=robot.control.gains[:1])
    return dataclasses.replace(
        robot,
        name=f"{robot.name}_distal",
        segments=(segment,),
        control=control,
        reference=None,
        recording=None,
        strings=(),
        assumed=(),
    )


def _tilted(robot: Robot, angle_deg: float) -> Robot:
    """The robot turned about the axis of its straight backbone: the weight turns the other way in its base frame."""
    x, y, z = robot.gravity_m_per_s2
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    return dataclasses.replace(robot, gravity_m_per_s2=(cos * x + sin * y, cos * y - sin * x, z))


_PAPER = {
    "uncoupled_gmo_proximal_rmse_x_n": 16.07,
    "uncoupled_gmo_proximal_rmse_y_n": 10.51,
    "uncoupled_jfd_proximal_rmse_x_n": 68.01,
    "uncoupled_jfd_proximal_rmse_y_n": 10.74,
    "uncoupled_gmo_distal_rmse_x_n": 10.45,
    "uncoupled_gmo_distal_rmse_y_n": 4.65,
    "uncoupled_jfd_distal_rmse_x_n": 15.96,
    "uncoupled_jfd_distal_rmse_y_n": 6.55,
}


@experiment(
    "johnston.multisegment",
    "johnston, table 10 and section 13 (measured on the robot)",
    paper=_PAPER,
    # Friction and contact switch at other samples where rounding differs.
    tolerances={"*": Tolerance(relative=0.02, absolute=1e-3)},
)
def multisegment(progress: Progress, settings: MultisegmentSettings) -> Any:
    """Contact on the distal of two segments, with an observer for each and with one for the whole robot."""
    robot = load_robot(settings.robot)
    series = _simulated(robot, settings, progress)
    numbers = _numbers(series)
    numbers["largest_force_n"] = float(np.linalg.norm(series.truth, axis=1).max())
    for segment, curvature, beta in zip(SEGMENTS, series.curvature_per_m, series.beta_per_m, strict=True):
        for axis, letter in enumerate("xy"):
            numbers[f"{segment}_largest_curvature_{letter}_per_m"] = float(curvature[:, axis].max())
            numbers[f"{segment}_largest_beta_{letter}_per_m"] = float(beta[:, axis].max())
    numbers["duration_s"] = float(series.time_s[-1])
    numbers["monitor_hz"] = MONITOR_HZ
    if settings.sweep:
        rows = {}
        for name, changed in VARIANTS.items():
            progress(f"sweep: {name}")
            other = series if not changed else _simulated(robot, dataclasses.replace(settings, **changed), progress)
            rows[name] = _numbers(other)
        numbers["sweep_variant"] = list(rows)
        for key in _PAPER:
            numbers[f"sweep_{key}"] = [row[key] for row in rows.values()]
    return numbers, partial(_draw, series)


def _numbers(series: MultisegmentSeries) -> dict[str, object]:
    scored = series.time_s >= SCORED_FROM_S
    numbers: dict[str, object] = {}
    for (coupling, method, segment), values in series.forces.items():
        error = (values - series.truth * (segment == "distal"))[scored]
        for axis, letter in enumerate("xy"):
            numbers[f"{coupling}_{method}_{segment}_rmse_{letter}_n"] = float(np.sqrt(np.mean(error[:, axis] ** 2)))
    return numbers


def _simulated(robot: Robot, settings: MultisegmentSettings, progress: Progress) -> MultisegmentSeries:
    rng = np.random.default_rng(settings.seed)
    true = perturbed(_tilted(robot, settings.tilt_deg), settings.parameter_error, rng)
    whole, proximal, distal = (CapstanModel(one) for one in (robot, lumped_distal(robot), distal_alone(robot)))
    observers, lower, upper = (
        Observers(model, np.tile(GAIN_PER_S, model.size // GAIN_PER_S.size), points=FILTER_POINTS)
        for model in (whole, proximal, distal)
    )
    strings = string_matrix(robot)
    shape = np.linalg.pinv(np.vstack([whole.capstan_jacobian, strings]))
    encoders = StringEncoderModel(len(strings), StringEncoderSettings(), rng)
    current = CommandedCurrent(whole.capstans, settings.torque_error, settings.gear_efficiency, rng)
    contact_m = robot.segments[0].length_m + DISK_M
    dt, difference = 1 / MONITOR_HZ, SmoothedDifference(RATE_POINTS)
    first = proximal.size
    times, truth, coefficients = [], [], []
    forces: dict[tuple[str, str, str], list[Array]] = {}
    for bench, torque_there in _motion(true, contact_m, settings):
        time_s, wrench, (angle, speed) = bench.plant.time_s, bench.wrench, bench.turned
        extension = bench.plant.string_extension
        read = extension + settings.encoder_error_ratio * (encoders.read(extension) - extension)
        torque = current.read(torque_there, speed)
        motion = difference.update(shape @ np.concatenate([angle, read]), dt)
        (c, near), (rate, near_rate), (second, near_second) = ((one[first:], one[:first]) for one in motion)
        times.append(time_s)
        coefficients.append(bench.plant.c)
        truth.append(wrench[:2])
        found = observers.update(motion, torque, dt)
        here = np.vstack([whole.jacobian(motion[0], DISK_M)[:2], whole.jacobian(motion[0], contact_m)[:2]])
        both = np.linalg.lstsq(here.T, found, rcond=None)[0]
        reaction = distal_reaction(robot, 0.0, torque[2:])
        loaded: Array = proximal.jacobian(near, robot.segments[0].length_m).T @ reaction
        below = lower.update((near, near_rate, near_second), torque[:2], dt, loaded)
        above = upper.update((c, rate, second), torque[2:], dt)
        estimates = {
            ("coupled", "proximal"): both[:2],
            ("coupled", "distal"): both[2:],
            ("uncoupled", "proximal"): point_force(below, proximal.jacobian(near, DISK_M)),
            ("uncoupled", "distal"): point_force(above, distal.jacobian(c, DISK_M)),
        }
        for (coupling, segment), values in estimates.items():
            for k, method in enumerate(OBSERVERS):
                forces.setdefault((coupling, method, segment), []).append(np.asarray(values[:, k], dtype=float))
        if len(times) % MONITOR_HZ == 0:
            progress(f"{time_s:.0f} s, contact force {np.linalg.norm(wrench[:3]):.1f} N")
    parts = np.split(np.array(coefficients), [first], axis=1)
    bent = [curvature_range(one, part) for one, part in zip(robot.segments, parts, strict=True)]
    return MultisegmentSeries(
        np.array(times),
        np.array(truth),
        np.array([curvature for curvature, _ in bent]),
        np.array([beta for _, beta in bent]),
        {key: np.array(rows) for key, rows in forces.items()},
    )


def _motion(robot: Robot, contact_m: float, settings: MultisegmentSettings) -> Iterator[tuple[Bench, Array]]:
    """Both second capstans turn away from a sensor in +y, towards it until it feels 30 N, and back; with torques."""
    side = np.tile([0.0, 1.0], len(robot.segments))
    free = Bench(robot, None, RAMP_RAD_PER_S2)
    free.hang()
    pose = free.plant.pose(contact_m)
    offset_m = float(pose[1, 3] + RIM_M * pose[1, 1]) + CLEARANCE_M
    bench = Bench(robot, force_sensor(contact_m, (0.0, 1.0, 0.0), offset_m), RAMP_RAD_PER_S2)
    bench.hang()
    for _ in range(round(SETTLE_S * MONITOR_HZ)):
        yield bench, bench.torque(0 * side)
        bench.move(0 * side, 1 / MONITOR_HZ)
    for speed_deg, end_deg, peak_n in (
        (-AWAY_DEG_PER_S, -settings.withdrawal_deg, math.inf),
        (settings.speed_deg_per_s, settings.farthest_deg, PEAK_N),
        (-settings.speed_deg_per_s, 0.0, math.inf),
    ):
        for torque in bench.turn(side, math.radians(speed_deg), math.radians(end_deg), 1 / MONITOR_HZ, peak_n):
            yield bench, torque


def _draw(series: MultisegmentSeries, figure: Figures) -> None:
    scored = series.time_s >= SCORED_FROM_S
    reach = 1.1 * max(float(np.abs(values[scored, 1]).max()) for values in series.forces.values())
    title = "Contact on the distal of two segments (johnston, figs 12 and 13)"
    with figure(title, 4, 2, sharex=True, size=(7.6, 8.0)) as (drawing, axes):
        for column, coupling in enumerate(("uncoupled", "coupled")):
            for row, segment in enumerate(SEGMENTS):
                axis = axes[row, column]
                for k, method in enumerate(OBSERVERS):
                    values = series.forces[coupling, method, segment][:, 1]
                    axis.plot(series.time_s, values, color=COLOURS[k], label=method.upper())
                true = series.truth[:, 1] * (segment == "distal")
                axis.plot(series.time_s, true, color=REFERENCE, linestyle="--", label="true")
                axis.set_title(f"{segment} segment, {coupling}", loc="left")
                axis.set_ylabel("force in y in N")
                axis.set_ylim(-reach, reach)
        for column, segment in enumerate(SEGMENTS):
            for axis, values, label in (
                (axes[2, column], series.curvature_per_m, "largest curvature in 1/m"),
                (axes[3, column], series.beta_per_m, "beta (73) in 1/m"),
            ):
                for k, letter in enumerate("xy"):
                    axis.plot(series.time_s, values[column, :, k], color=COLOURS[2 + k], label=f"about {letter}")
                axis.set_title(f"{segment} segment", loc="left")
                axis.set_ylabel(label)
                axis.legend()
        for axis in axes[-1]:
            axis.set_xlabel("time in s")
        legend_below(drawing, axes[0, 0])
