# SPDX-License-Identifier: Apache-2.0
"""A figure of eight with the tip, with and without a tracker of it, by a robot that is not quite as its file states.

The simulated robot has tendons further from the backbone than driver, controller and estimator know, and so bends
less. It is led by :class:`~continuum_robot.control.tip.control.TipControl` along a figure of eight; without a tracker
by the model alone. The tracker sees the true tip at its rate, with noise, and reports it late; now and then a
pose is lost, and for a while in the middle of the run it sees nothing. What it reports is fused with the estimated
shape. The error is the distance of the true tip from the path at the same instant, after two rounds in which is
learned. The part along which no tendon moves the tip, since a segment reaches a surface only, is a number of its own
(``off``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.tracked_tip import TrackedTip, TrackerSettings
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.experiments.virtual_stack import SlowReference, VirtualStack
from continuum_robot.models.making import robot_model
from continuum_robot.robot.coordinates import clarke_manifold, coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.tip_tracker import SimulatedTracker, TrackerErrors
from continuum_robot.simulation.plants import PLANTS, ROD

Array = NDArray[np.float64]

_STEP_S = 0.01
_ENTRY_S = 3.0


@dataclass(frozen=True, kw_only=True)
class TrackingSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with actuators, limits and control", default="opencr_five_tendon")
    plant: str = quantity("what is simulated", default=ROD, choices=tuple(PLANTS))
    model_error: float = quantity(
        "by which the true tendons are further from the backbone than known", default=0.05, ge=-0.3, le=0.3
    )
    law: str = quantity("control law of the Clarke coordinates", default="inverse_dynamics")
    amplitude_rad: float = quantity("bend at the figure's ends", "rad", default=0.8, gt=0, le=3)
    centre_rad: float = quantity("bend at the figure's centre", "rad", default=0.3, ge=0, le=3)
    period_s: float = quantity("of the figure", "s", default=10.0, gt=0.5, le=1000)
    rounds: int = quantity("rounds that count", default=3, ge=1, le=1000)
    learning_rounds: int = quantity("rounds before those", default=2, ge=0, le=1000)
    rate_hz: float = quantity("poses a second of the tracker", "Hz", default=60.0, gt=0, le=1000)
    delay_s: float = quantity("age of a pose when it comes", "s", default=0.015, ge=0, le=0.4)
    noise_m: float = quantity("of the tracker in each axis", "m", default=1e-4, ge=0, le=0.1)
    lost: float = quantity("fraction of the poses that are lost", default=0.02, ge=0, lt=1)
    outage_s: float = quantity("time for which the tracker sees nothing", "s", default=2.0, ge=0, le=1000)
    compensate: bool = quantity("measure the motors' cogging first and feed it forward", default=True)
    seed: int = quantity("of the rotors' angles and the noise", default=1, ge=0, le=2**31)


class Eight:
    """A figure of eight on the surface that the tip reaches by the model.

    Parameters
    ----------
    control : of the tip, for its kinematics
    robot : whose tip it is
    settings : of the figure
    """

    def __init__(self, control: TipControl, robot: Robot, settings: TrackingSettings) -> None:
        self._control, self._settings, self._scale_m = control, settings, coordinate_scale_m(robot)

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Place and velocity of the path, shape (3,), m and m/s; it is entered from its centre."""
        clarke, rate = self._clarke(time_s)
        place, jacobian = self._control.kinematics.place(clarke)
        return place, jacobian @ rate

    def off(self, time_s: float, error_m: Array) -> Array:
        """The part of an error, ``error_m``, shape (3,), m, that no tendon moves the tip along."""
        jacobian = self._control.kinematics.place(self._clarke(time_s)[0])[1]
        return error_m - jacobian @ (np.linalg.pinv(jacobian) @ error_m)

    def _clarke(self, time_s: float) -> tuple[Array, Array]:
        settings, omega = self._settings, 2 * np.pi / self._settings.period_s
        entry = min(max(time_s / _ENTRY_S, 0.0), 1.0)
        blend, slope = entry**2 * (3 - 2 * entry), 6 * entry * (1 - entry) / _ENTRY_S
        phase = omega * time_s
        large, centre = settings.amplitude_rad, settings.centre_rad
        bend, rate = np.zeros((2, self._scale_m.size))
        bend[:2] = large * np.sin(phase), centre + large / 2 * np.sin(2 * phase)
        rate[:2] = large * omega * np.cos(phase), large * omega * np.cos(2 * phase)
        return blend * self._scale_m * bend, self._scale_m * (blend * rate + slope * bend)


class TipLoop:
    """What the stack does with the tip, a hundred times a second: shape, tracker, tip control.

    Attributes
    ----------
    path : that the tip is to follow
    resting : the straight robot
    """

    def __init__(
        self, robot: Robot, stack: VirtualStack, tracker: SimulatedTracker | None, settings: TrackingSettings
    ) -> None:
        self._stack, self._tracker = stack, tracker
        self._estimator = robot_model(robot).shape_estimator(WatchSettings())
        self._manifold = clarke_manifold(robot)
        self._fused = TrackedTip(robot, TrackerSettings())
        self._control = TipControl(robot)
        self.path = Eight(self._control, robot, settings)
        self.resting = ClarkeReference.at_rest(np.zeros(robot.coordinate_count))

    def step(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, since the path began."""
        reading, now_s = self._stack.loop.reading, self._stack.now_s
        if reading is None:
            return self.resting
        shape = self._estimator.update(
            reading.displacement_m, reading.velocity_m_per_s, None, _STEP_S, reading.tension_n
        )
        clarke = self._manifold.clarke_matrix @ reading.displacement_m
        tip = None
        if self._tracker is not None:
            for pose in self._tracker.reported(now_s):
                self._fused.see_pose(pose.time_s, pose.tip[:3, 3], pose.tip[:3, :3])
            tip = self._fused.see_shape(reading.stamp_s, shape.tip, clarke)[:3, 3]
            tip = tip if self._fused.accepted else None
        return self._control.follow(*self.path.at(time_s), tip, clarke, _STEP_S).reference


def believed_and_true(settings: TrackingSettings) -> tuple[Robot, Robot]:
    """The robot of the file under the law asked for, and the one that is simulated.

    Parameters
    ----------
    settings : of the experiment
    """
    robot = load_robot(settings.robot)
    if robot.control is not None:
        robot = dataclasses.replace(robot, control=dataclasses.replace(robot.control, law=settings.law))
    segments = tuple(
        dataclasses.replace(
            segment,
            tendons=dataclasses.replace(
                segment.tendons, pitch_radius_m=(1 + settings.model_error) * segment.tendons.pitch_radius_m
            ),
        )
        for segment in robot.segments
    )
    return robot, dataclasses.replace(robot, segments=segments)


@dataclass(frozen=True)
class Run:
    """A run over time.

    Attributes
    ----------
    time_s : shape (T,), s
    path_m, tip_m : places, shape (T, 3), m
    off_m : part of the error that no tendon moves the tip along, shape (T, 3), m
    """

    time_s: Array
    path_m: Array
    tip_m: Array
    off_m: Array

    @property
    def error_m(self) -> Array:
        """Distance of the tip from the path, shape (T,), m."""
        return np.linalg.norm(self.tip_m - self.path_m, axis=1)


def _run(settings: TrackingSettings, progress: Progress, *, tracked: bool) -> Run:
    believed, true = believed_and_true(settings)
    plant = PLANTS[settings.plant](true, actuation="motors", rng=np.random.default_rng(settings.seed))
    stack = VirtualStack(true, plant, believed=believed, seed=settings.seed)
    errors = TrackerErrors(noise_m=settings.noise_m, delay_s=settings.delay_s, lost=settings.lost)
    tracker = SimulatedTracker(errors, np.random.default_rng([settings.seed, 2])) if tracked else None
    loop = TipLoop(believed, stack, tracker, settings)
    path = loop.path
    learned_s = _ENTRY_S + settings.learning_rounds * settings.period_s
    outage_s = learned_s + settings.rounds * settings.period_s / 2
    rows: list[tuple[float, Array, Array, Array]] = []
    began_s = next_pose_s = 0.0

    def look(running: VirtualStack) -> None:
        nonlocal next_pose_s
        time_s, tip = running.now_s - began_s, plant.pose(true.length_m)
        if tracker is not None and time_s >= next_pose_s:
            next_pose_s += 1 / settings.rate_hz
            if not outage_s <= time_s < outage_s + settings.outage_s:
                tracker.look(running.now_s, tip)
        if time_s >= learned_s:
            place = path.at(time_s)[0]
            rows.append((time_s, place, tip[:3, 3], path.off(time_s, tip[:3, 3] - place)))

    try:
        if settings.compensate:
            stack.calibrate_cogging(progress)
        stack.activate()
        stack.follow(lambda _time_s: loop.resting, 1.0)
        began_s = stack.now_s
        slow = SlowReference(loop.step, _STEP_S, loop.resting)
        stack.follow(slow.at, learned_s + settings.rounds * settings.period_s, look)
    finally:
        stack.close()
    return Run(*(np.array(column) for column in zip(*rows, strict=True)))


@experiment(
    "tip.tracking",
    "no paper: tip control with estimation/tracked_tip.py",
    tolerances={"*": OF_COGGING},
)
def tracking(progress: Progress, settings: TrackingSettings) -> Any:
    """A figure of eight with the tip, with and without a tracker that is late, by a robot that is 5 % off."""
    runs = {}
    for tracked, text in ((False, "without a tracker"), (True, "with one")):
        progress(f"{settings.plant}: {text}")
        runs[tracked] = _run(settings, progress, tracked=tracked)
    rmse_m = {tracked: float(np.sqrt(np.mean(run.error_m**2))) for tracked, run in runs.items()}
    numbers: dict[str, object] = {
        "rmse_ratio": rmse_m[True] / rmse_m[False],
        "rmse_without_m": rmse_m[False],
        "rmse_with_m": rmse_m[True],
        "rmse_off_with_m": float(np.sqrt(np.mean(np.sum(runs[True].off_m ** 2, axis=1)))),
        "largest_without_m": float(runs[False].error_m.max()),
        "largest_with_m": float(runs[True].error_m.max()),
        "plant": settings.plant,
    }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[bool, Run], figure: Figures) -> None:
    with figure("A figure of eight by the tip", 1, 2) as (drawing, axes):
        for colour, (tracked, run) in zip(COLOURS, runs.items(), strict=False):
            label = "with tracker" if tracked else "without"
            axes[0].plot(*(1e3 * run.tip_m[::20, :2].T), color=colour, label=label, linewidth=0.8)
            axes[1].semilogy(run.time_s[::20], 1e3 * run.error_m[::20], color=colour, label=label, linewidth=0.8)
        axes[0].plot(*(1e3 * runs[True].path_m[::20, :2].T), "--", color="0.4", label="path", linewidth=0.8)
        axes[0].set(xlabel="x in mm", ylabel="y in mm", aspect="equal")
        axes[1].set(xlabel="time in s", ylabel="error of the tip in mm")
        legend_below(drawing, axes[0])
