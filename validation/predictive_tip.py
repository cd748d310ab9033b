# SPDX-License-Identifier: Apache-2.0
"""The tip from one side of a post to the other: predictive control against inverse kinematics.

:class:`~continuum_robot.control.tip.control.TipControl` goes straight in the Clarke coordinates to what the inverse
kinematics found, at 100 Hz. :class:`~continuum_robot.control.tip.predictive.PredictiveTip` plans round the post, at
50 Hz. Both have the shipped driver and controller below them, the same limits of motion and the tip of the shape
estimator. MuJoCo's chain meets the post; the rod goes through it, and how deep is measured. At the higher speeds the
tensions that a motion needs reach their limits, and tendons go slack.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.motion import motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.control.tip.predictive import PredictiveSettings, PredictiveTip
from continuum_robot.control.tip.predictive_problem import SOLVERS
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.geometry.obstacles import ConvexObstacle, least_distance
from continuum_robot.models.making import robot_model
from continuum_robot.robot.coordinates import clarke_manifold, coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.mujoco.world import PlacedWorld, load_world
from continuum_robot.simulation.plants import MUJOCO, PLANTS
from continuum_robot.testing.virtual_stack import SlowReference, VirtualStack, load_controlled_robot

Array = NDArray[np.float64]

INVERSE, PREDICTIVE = "inverse_kinematics", "predictive"
_SETTLE_S = 1.0
_SLACK_N = 0.1


@dataclass(frozen=True, kw_only=True)
class PredictiveTipSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="opencr_five_tendon")
    world: str = quantity("file of obstacles; empty: the shipped post", default="")
    bend_rad: float = quantity("bend at the beginning and at the end", "rad", default=0.8, gt=0, le=3)
    side_rad: float = quantity("direction of both bends from +x, to either side", "rad", default=0.785, gt=0, le=3)
    speeds: tuple[float, ...] = quantity(
        "of the motion, times that of the robot file; accelerations by its square", default=(1.0, 8.0), gt=0, le=100
    )
    law: str = quantity("control law of the Clarke coordinates", default="inverse_dynamics")
    solver: str = quantity("of the quadratic program", default="piqp", choices=tuple(SOLVERS))
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Run:
    """A motion over time."""

    time_s: Array
    tip_m: Array
    depth_m: Array
    force_n: Array
    tension_n: Array
    end_error_m: float
    estimate_error_m: float
    arrived_s: float
    cycle_ms: float
    ended: str


class Motion:
    """The two ends of the motion, and its robot at a speed."""

    def __init__(self, settings: PredictiveTipSettings, speed: float) -> None:
        robot = load_controlled_robot(settings.robot)
        if robot.control is not None:
            robot = dataclasses.replace(robot, control=dataclasses.replace(robot.control, law=settings.law))
        limits, reference = motion_limits(robot), robot.reference
        if reference is not None:
            faster = dataclasses.replace(
                reference,
                speed_m_per_s=speed * limits.speed_m_per_s,
                acceleration_m_per_s2=speed**2 * limits.acceleration_m_per_s2,
            )
            robot = dataclasses.replace(robot, reference=faster)
        self.robot: Robot = robot
        self.speed = speed
        ends = []
        for side in (-1, 1):
            bend = np.zeros((robot.coordinate_count // 2, 2))
            bend[0] = np.cos(settings.side_rad), side * np.sin(settings.side_rad)
            bend[1:] = bend[0] if len(bend) > 1 else bend[1:]
            ends.append(settings.bend_rad * bend.reshape(-1) * coordinate_scale_m(robot))
        self.start, self.end = ends
        self.target = TipKinematics(robot).place(self.end)[0]
        self.duration_s = 6.0 / speed + _SETTLE_S


def _controller(
    name: str, motion: Motion, obstacles: list[ConvexObstacle], settings: PredictiveTipSettings
) -> tuple[Callable[[Array | None, Array, float], ClarkeReference], float]:
    """What gives the reference for a tip and coordinates after a time, s, and its period, s."""
    if name == INVERSE:
        control = TipControl(motion.robot)
        control.reset(motion.start)
        control.set_target(motion.target)
        return lambda tip, clarke, dt: control.update(tip, clarke, dt).reference, 0.01
    planned = PredictiveSettings(solver=settings.solver, horizon_s=PredictiveSettings().horizon_s / motion.speed)
    predictive = PredictiveTip(motion.robot, obstacles, planned)
    predictive.reset(motion.start)
    predictive.set_target(motion.target)
    return lambda tip, clarke, dt: predictive.update(tip, clarke, dt).reference, 0.02


def _run(plant_name: str, name: str, motion: Motion, world: PlacedWorld, settings: PredictiveTipSettings) -> Run:
    robot, obstacles = motion.robot, world.convex()
    more: dict[str, Any] = {"world": world} if plant_name == MUJOCO else {}
    plant = PLANTS[plant_name](robot, actuation="motors", rng=np.random.default_rng(settings.seed), **more)
    stack = VirtualStack(robot, plant, seed=settings.seed)
    estimator, manifold = robot_model(robot).shape_estimator(WatchSettings()), clarke_manifold(robot)
    control, period_s = _controller(name, motion, obstacles, settings)
    resting = ClarkeReference.at_rest(motion.start)
    rows: list[tuple[float, Array, float, float, Array]] = []
    spent: list[float] = []
    off: list[float] = []
    points_m = robot.length_m * np.arange(1, 21) / 20
    ends_m = np.cumsum([segment.length_m for segment in robot.segments])
    radii = np.array([robot.segments[int(np.searchsorted(ends_m, s - 1e-9))].disks.radius_m for s in points_m])

    def step(_time_s: float) -> ClarkeReference:
        reading = stack.loop.reading
        if reading is None:
            return resting
        shape = estimator.update(reading.displacement_m, reading.velocity_m_per_s, None, period_s, reading.tension_n)
        off.append(float(np.linalg.norm(shape.tip[:3, 3] - plant.pose(robot.length_m)[:3, 3])))
        began_s = time.perf_counter()
        reference = control(shape.tip[:3, 3], manifold.clarke(reading.displacement_m), period_s)
        spent.append(time.perf_counter() - began_s)
        return reference

    def look(running: VirtualStack) -> None:
        if len(rows) and running.now_s - began_s < rows[-1][0] + 0.002:
            return
        poses = np.array([plant.pose(float(s)) for s in points_m])
        distance = least_distance(obstacles, poses[:, :3, 3])[0] - radii
        force_n = sum(float(np.linalg.norm(load.force_in_base_n)) for load in plant.contact_loads)
        tension = np.array(plant.tension)
        rows.append((running.now_s - began_s, poses[-1, :3, 3], max(0.0, -float(distance.min())), force_n, tension))

    ended = ""
    with stack:
        stack.activate()
        entry = SlowReference(lambda time_s: _entry(motion, time_s), 0.01, ClarkeReference.at_rest(0 * motion.start))
        stack.follow(entry.at, 3.5)
        began_s = stack.now_s
        slow = SlowReference(step, period_s, resting)
        try:
            stack.follow(slow.at, motion.duration_s, look)
        except ContinuumRobotError as error:
            ended = str(error)
    time_s, tip, depth, force, tension = (np.array(column) for column in zip(*rows, strict=True))
    away = np.linalg.norm(tip - motion.target, axis=1)
    outside = np.flatnonzero(away > 3e-3)
    arrived = outside.size == 0 or outside[-1] < len(away) - 1
    arrived_s = (time_s[outside[-1] + 1] if outside.size else 0.0) if arrived else np.nan
    late = time_s > time_s[-1] - 0.5
    error_m = float(away[late].mean())
    spent_ms, off_m = 1e3 * float(np.median(spent)), float(np.mean(off[-round(0.5 / period_s) :]))
    return Run(time_s, tip, depth, force, tension, error_m, off_m, float(arrived_s), spent_ms, ended)


def _entry(motion: Motion, time_s: float) -> ClarkeReference:
    """From straight to where the motion begins, beside the post, in 2.5 s."""
    x = min(max(time_s / 2.5, 0.0), 1.0)
    blend, slope = x**2 * (3 - 2 * x), 6 * x * (1 - x) / 2.5
    return ClarkeReference(blend * motion.start, slope * motion.start, np.zeros_like(motion.start))


@experiment(
    "control.predictive",
    "no paper: control/tip/predictive.py",
    package="mujoco",
    tolerances={"*": OF_COGGING},
)
def predictive(progress: Progress, settings: PredictiveTipSettings) -> Any:
    """To a tip target round a post, within the tendons' limits: predictive control against inverse kinematics."""
    world = load_world(settings.world or shipped_file("worlds/post.yaml"))
    runs: dict[tuple[str, float, str], Run] = {}
    numbers: dict[str, object] = {}
    for plant in PLANTS:
        for speed in settings.speeds:
            motion = Motion(settings, speed)
            for name in (INVERSE, PREDICTIVE):
                progress(f"{plant}, speed {speed:g}: {name}")
                run = runs[plant, speed, name] = _run(plant, name, motion, world, settings)
                suffix = f"_{name}_{plant}_{speed:g}"
                numbers |= {
                    f"largest_depth_m{suffix}": float(run.depth_m.max()),
                    f"peak_force_n{suffix}": float(run.force_n.max()),
                    f"end_error_m{suffix}": run.end_error_m,
                    f"estimate_error_m{suffix}": run.estimate_error_m,
                    f"arrived_s{suffix}": run.arrived_s,
                    f"slack_fraction{suffix}": float(np.mean(run.tension_n.min(axis=1) < _SLACK_N)),
                    f"largest_tension_n{suffix}": float(run.tension_n.max()),
                    f"fault{suffix}": run.ended,
                }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[tuple[str, float, str], Run], figure: Figures) -> None:
    speeds = list(dict.fromkeys(speed for _, speed, _ in runs))
    for plant in PLANTS:
        with figure(f"Round a post, {plant}", len(speeds), 3, name=f"control_predictive_{plant}") as (drawing, axes):
            for row, speed in zip(np.atleast_2d(axes), speeds, strict=True):
                for colour, name in zip(COLOURS, (INVERSE, PREDICTIVE), strict=False):
                    run, label = runs[plant, speed, name], name.replace("_", " ")
                    row[0].plot(*(1e3 * run.tip_m[:, :2].T), color=colour, label=label, linewidth=0.9)
                    row[1].plot(run.time_s, 1e3 * run.depth_m, color=colour, label=label, linewidth=0.9)
                    row[2].plot(run.time_s, run.tension_n.min(axis=1), color=colour, linewidth=0.7)
                    row[2].plot(run.time_s, run.tension_n.max(axis=1), "--", color=colour, linewidth=0.7)
                row[0].set(xlabel="x in mm", ylabel="y in mm", aspect="equal", title=f"tip, {speed:g} times the speed")
                row[1].set(xlabel="time in s", ylabel="depth in the post in mm")
                row[2].set(xlabel="time in s", ylabel="least and largest tension in N")
            legend_below(drawing, np.atleast_2d(axes)[0][0])
