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

from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation.devices.sensors import SimulatedTracker, TrackerErrors
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.testing.virtual_stack import VirtualStack
from validation.tip_loop import ENTRY_S, TipRun, Tracking, entry, lead_tip

Array = NDArray[np.float64]


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
    """A figure of eight on the surface that the tip reaches by the model."""

    def __init__(self, robot: Robot, settings: TrackingSettings) -> None:
        self._kinematics, self._settings, self._scale_m = TipKinematics(robot), settings, coordinate_scale_m(robot)

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Place and velocity of the path, shape (3,), m and m/s; it is entered from its centre."""
        clarke, rate = self._clarke(time_s)
        place, jacobian = self._kinematics.place(clarke)
        return place, jacobian @ rate

    def off(self, time_s: float, error_m: Array) -> Array:
        """The part of an error, ``error_m``, shape (3,), m, that no tendon moves the tip along."""
        jacobian = self._kinematics.place(self._clarke(time_s)[0])[1]
        return error_m - jacobian @ (np.linalg.pinv(jacobian) @ error_m)

    def _clarke(self, time_s: float) -> tuple[Array, Array]:
        settings, omega = self._settings, 2 * np.pi / self._settings.period_s
        blend, slope = entry(time_s)
        phase = omega * time_s
        large, centre = settings.amplitude_rad, settings.centre_rad
        bend, rate = np.zeros((2, self._scale_m.size))
        bend[:2] = large * np.sin(phase), centre + large / 2 * np.sin(2 * phase)
        rate[:2] = large * omega * np.cos(phase), large * omega * np.cos(2 * phase)
        return blend * self._scale_m * bend, self._scale_m * (blend * rate + slope * bend)


def believed_and_true(settings: TrackingSettings) -> tuple[Robot, Robot]:
    """The robot of the file under the law asked for, and the one that is simulated."""
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


def _run(settings: TrackingSettings, progress: Progress, *, tracked: bool) -> tuple[TipRun, Array]:
    """A run, and the part of its error that no tendon moves the tip along, shape (T, 3), m."""
    believed, true = believed_and_true(settings)
    path = Eight(believed, settings)
    plant = PLANTS[settings.plant](true, actuation="motors", rng=np.random.default_rng(settings.seed))
    stack = VirtualStack(true, plant, believed=believed, seed=settings.seed)
    learned_s, counted_s = ENTRY_S + settings.learning_rounds * settings.period_s, settings.rounds * settings.period_s
    outage_s = learned_s + counted_s / 2
    errors = TrackerErrors(noise_m=settings.noise_m, delay_s=settings.delay_s, lost=settings.lost)
    tracker = SimulatedTracker(errors, np.random.default_rng([settings.seed, 2]))
    tracking = Tracking(tracker, settings.rate_hz, (outage_s, outage_s + settings.outage_s)) if tracked else None
    with stack:
        if settings.compensate:
            stack.calibrate_cogging(progress)
        stack.activate()
        run = lead_tip(stack, plant, path, tracking, learned_s + counted_s, learned_s)
    missed = zip(run.time_s, run.tip_m - run.path_m, strict=True)
    return run, np.array([path.off(float(time_s), error_m) for time_s, error_m in missed])


@experiment(
    "tip.tracking",
    "no paper: tip control with estimation/tracked_tip.py",
    tolerances={"*": OF_COGGING},
)
def tracking(progress: Progress, settings: TrackingSettings) -> Any:
    """A figure of eight with the tip, with and without a tracker that is late, by a robot that is 5 % off."""
    runs: dict[bool, TipRun] = {}
    off_m: dict[bool, Array] = {}
    for tracked, text in ((False, "without a tracker"), (True, "with one")):
        progress(f"{settings.plant}: {text}")
        runs[tracked], off_m[tracked] = _run(settings, progress, tracked=tracked)
    numbers: dict[str, object] = {
        "rmse_ratio": runs[True].rmse_m / runs[False].rmse_m,
        "rmse_without_m": runs[False].rmse_m,
        "rmse_with_m": runs[True].rmse_m,
        "rmse_off_with_m": float(np.sqrt(np.mean(np.sum(off_m[True] ** 2, axis=1)))),
        "largest_without_m": float(runs[False].error_m.max()),
        "largest_with_m": float(runs[True].error_m.max()),
        "plant": settings.plant,
    }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[bool, TipRun], figure: Figures) -> None:
    with figure("A figure of eight by the tip", 1, 2) as (drawing, axes):
        for colour, (tracked, run) in zip(COLOURS, runs.items(), strict=False):
            label = "with tracker" if tracked else "without"
            axes[0].plot(*(1e3 * run.tip_m[::20, :2].T), color=colour, label=label, linewidth=0.8)
            axes[1].semilogy(run.time_s[::20], 1e3 * run.error_m[::20], color=colour, label=label, linewidth=0.8)
        axes[0].plot(*(1e3 * runs[True].path_m[::20, :2].T), "--", color="0.4", label="path", linewidth=0.8)
        axes[0].set(xlabel="x in mm", ylabel="y in mm", aspect="equal")
        axes[1].set(xlabel="time in s", ylabel="error of the tip in mm")
        legend_below(drawing, axes[0])
