# SPDX-License-Identifier: Apache-2.0
"""Follow the leader: a servo robot on a stage advances along a path, and its body lies where its tip has been.

Two planners bring the tip along the same path: one that wants the whole body on it, and tip control, which lets the
body lie where it will. Each plan is measured by itself, and as the controllers of tendons and stage execute it in
virtual time on the simulated robot of the file, or on one that was built otherwise. The error is the distance from the
path of all places of the body that are beyond the begin of the motion or on their way there, at all times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from continuum_robot.control.follow_the_leader import FollowTheLeader, Path
from continuum_robot.control.references import STAGE_COLUMNS, ClarkeReference, reference_columns
from continuum_robot.control.tip.control import TipControl
from continuum_robot.control.tip.staged import stage_of
from continuum_robot.csv_table import read_csv_table, write_csv_table
from continuum_robot.drivers.base_stage import SimulatedStage, StageAxes
from continuum_robot.drivers.safety.stage_motion import StageMotion
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.geometry import so3
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.truth import true_robot
from continuum_robot.testing.virtual_stack import VirtualStack, load_controlled_robot

Array = NDArray[np.float64]

PLANNED, TIP_ALONE = "follow_the_leader", "tip_alone"
_WAY_M = 0.005
_COLUMNS = ("x_m", "y_m", "z_m")
_REST_S, _SEEN_S, _STEP_S = 1.0, 0.1, 0.01


@dataclass(frozen=True, kw_only=True)
class LeaderSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with base_stage", default="three_segment_servo_stage")
    truth: str = quantity("robot file of what is simulated; none: the same robot", default="none")
    path: str = quantity("CSV file with x_m, y_m, z_m in the stage's frame; empty: two bends", default="")
    length_m: float = quantity("of the path of two bends", "m", default=0.25, gt=0.01, le=10)
    curvature_per_m: float = quantity("largest of both bends", "1/m", default=8.0, ge=0, le=1000)
    turn_rad: float = quantity(
        "from the plane of the first bend to that of the second", "rad", default=1.57, ge=-7, le=7
    )
    speed_m_per_s: float = quantity("largest of the tip along the path", "m/s", default=0.015, gt=0, le=1)
    plan: str = quantity("CSV file to write the plan to, as reference.kind csv plays it; empty: none", default="")


@dataclass(frozen=True)
class Lead:
    """What came of a plan."""

    way_m: Array
    planned_m: Array
    body_m: Array
    planned_error_m: Array
    error_m: Array


def two_bends(tip_m: Array, settings: LeaderSettings) -> Path:
    """A path from the tip of the straight robot on, along z first, with the curvature k sin^2 in each half."""
    ways, step = np.linspace(0.0, settings.length_m, 1001), settings.length_m / 1000
    place, turn, places = tip_m.copy(), np.eye(3), [tip_m]
    for way in ways[:-1] + step / 2:
        bend = settings.curvature_per_m * np.sin(2 * np.pi * way / settings.length_m) ** 2
        angle = 0.0 if way < settings.length_m / 2 else settings.turn_rad
        half = so3.exp(step / 2 * bend * np.array([-np.sin(angle), np.cos(angle), 0.0]))
        turn = turn @ half
        place = place + step * turn[:, 2]
        turn = turn @ half
        places.append(place)
    return Path(np.array(places)[::25])


def execute(
    robot: Robot, truth: Robot, stations_m: Array, curve: CubicSpline, end_m: float, speed: float
) -> list[Array]:
    """Have the controllers of tendons and stage execute a plan."""
    stage = stage_of(robot)
    device, motion, plant = StageAxes(SimulatedStage(int(stage.has.sum())), stage), StageMotion(stage), Plant(truth)
    device.motors.enable()
    stack, duration_s = VirtualStack(truth, plant, believed=robot), _duration_s(end_m, speed)
    begin_s, next_s, stage_s = 0.0, 0.0, 0.0
    rows: list[tuple[float, Array]] = []

    def reference(time_s: float) -> ClarkeReference:
        place, rate = _way(time_s, end_m, duration_s)
        slope = curve(place, 1)[:-2]
        return ClarkeReference(curve(place)[:-2], slope * rate, np.zeros_like(slope))

    def look(running: VirtualStack) -> None:
        nonlocal next_s, stage_s
        time_s = running.now_s - begin_s
        while stage_s <= time_s:
            motion.command(curve(_way(stage_s, end_m, duration_s)[0])[-2:], stage_s)
            device.write(motion.update(device.read(stage_s), stage_s, _STEP_S), stage_s)
            stage_s += _STEP_S
        if time_s >= next_s:
            next_s += _SEEN_S
            places = np.array([plant.pose(float(s_m))[:3, 3] for s_m in stations_m])
            pose = stage.pose(motion.goal)
            rows.append((_way(time_s, end_m, duration_s)[0], places @ pose[:3, :3].T + pose[:3, 3]))

    with stack:
        stack.activate()
        begin_s = stack.now_s
        stack.follow(reference, duration_s + _REST_S, look)
    if motion.faults:
        raise ContinuumRobotError(f"the stage is at fault: {', '.join(motion.faults)}")
    return [np.array(column) for column in zip(*rows, strict=True)]


def _duration_s(end_m: float, speed: float) -> float:
    """Time of a motion from rest to rest along a way, m, with a largest speed, m/s."""
    return 1.5 * end_m / speed


def _way(time_s: float, end_m: float, duration_s: float) -> tuple[float, float]:
    """Way, m, and speed, m/s, of that motion at a time, s."""
    part = min(max(time_s / duration_s, 0.0), 1.0)
    return end_m * part**2 * (3 - 2 * part), end_m * 6 * part * (1 - part) / duration_s


def write_plan(file: str, curve: CubicSpline, end_m: float, speed: float) -> None:
    """Write a plan as the reference that moves tendons and stage."""
    duration_s = _duration_s(end_m, speed)
    times_s = np.linspace(0.0, duration_s, 1 + int(np.ceil(duration_s / _SEEN_S)))
    places = np.array([curve(_way(time_s, end_m, duration_s)[0]) for time_s in times_s])
    columns = ("time_s", *reference_columns(places.shape[1] - len(STAGE_COLUMNS)), *STAGE_COLUMNS)
    write_csv_table(file, columns, np.column_stack([times_s, places]))


@experiment(
    "base_stage.follow_the_leader",
    "no paper: base stage, tip control and planning along a path",
    tolerances={"*": Tolerance(relative=0.02, absolute=0.02)},
)
def follow_the_leader(progress: Progress, settings: LeaderSettings) -> Any:
    """A servo robot on a stage advances along a path: the whole body on it, or the tip alone."""
    robot = load_controlled_robot(settings.robot)
    truth = true_robot(robot, settings.truth)
    control = TipControl(robot)
    tip_m = control.kinematics.place(np.zeros(robot.coordinate_count + 2))[0]
    if settings.path:
        path = Path(read_csv_table(settings.path, _COLUMNS).numbers(_COLUMNS))
    else:
        path = two_bends(tip_m, settings)
    leader = FollowTheLeader(robot, path)
    ways = np.linspace(0.0, path.length_m, 1 + int(np.ceil(path.length_m / _WAY_M)))
    leads: dict[str, Lead] = {}

    def tip_alone(way_m: float, before: Array) -> Array:
        return control.solve(path.at(way_m)[0], before, search=False).clarke

    for name, solve in ((PLANNED, None), (TIP_ALONE, tip_alone)):
        progress(f"{name}: planned")
        curve = CubicSpline(ways, leader.plan(ways, solve))
        if settings.plan and name == PLANNED:
            write_plan(settings.plan, curve, path.length_m, settings.speed_m_per_s)
        progress(f"{name}: executed")
        at_m, body = execute(robot, truth, leader.stations_m, curve, path.length_m, settings.speed_m_per_s)
        planned = np.array([leader.body(curve(way)) for way in at_m])
        errors = [np.array([path.distance_m(places) for places in bodies]) for bodies in (planned, body)]
        leads[name] = Lead(at_m, planned, body, *errors)
    numbers: dict[str, object] = {"path_mm": 1e3 * path.length_m, "robot_mm": 1e3 * robot.length_m}
    for name, lead in leads.items():
        for key, error in (("planned", lead.planned_error_m), ("simulated", lead.error_m)):
            rms_m = float(np.sqrt(np.mean(error**2)))
            numbers |= {
                f"{name}_{key}_rms_mm": 1e3 * rms_m,
                f"{name}_{key}_max_mm": 1e3 * float(error.max()),
                f"{name}_{key}_rms_percent": 100 * rms_m / robot.length_m,
                f"{name}_{key}_tip_rms_mm": 1e3 * float(np.sqrt(np.mean(error[:, -1] ** 2))),
            }
    return numbers, partial(_draw, path, leads)


def _draw(path: Path, leads: dict[str, Lead], figure: Figures) -> None:
    along = 1e3 * path.at(np.linspace(0.0, path.length_m, 200))
    with figure("A robot on a stage advances along a path", 1, 3) as (drawing, axes):
        for axis, (name, lead) in zip(axes, leads.items(), strict=False):
            for index in np.linspace(0, len(lead.way_m) - 1, 6).astype(int):
                axis.plot(*(1e3 * lead.body_m[index][:, [0, 2]].T), color=COLOURS[0], linewidth=0.8)
            axis.plot(along[:, 0], along[:, 2], "--", color=REFERENCE, linewidth=0.8)
            axis.set(xlabel="x in mm", ylabel="z in mm", title=name.replace("_", " "), aspect="equal")
        for colour, (name, lead) in zip(COLOURS, leads.items(), strict=False):
            shown = 1e3 * np.sqrt(np.mean(lead.error_m**2, axis=1))
            axes[2].plot(1e3 * lead.way_m, shown, color=colour, label=name.replace("_", " "))
        axes[2].set(xlabel="way of the tip in mm", ylabel="RMS error along the body in mm")
        legend_below(drawing, axes[2])
