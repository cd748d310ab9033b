# SPDX-License-Identifier: Apache-2.0
"""A path of the tip by servos that hold displacements, on a robot that is not as its file states.

The simulated robot has another bending stiffness, tendons that are slack at the start, each by another length, and
friction of the tendons in guides and disks. Three controllers follow the same path in space: by the file alone; by what
``identify`` fits to a recording of another motion under the first controller, of servos and a marker at the tip; and by
the same fit with a tracker of the tip. Tip control leads all of them. The path is not in the recording, and nothing is
chosen by it. The error is the distance of the true tip from the path at the same instant, once the motion has begun.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.identification.displaced.fit import DisplacedFit, identify_displaced
from continuum_robot.identification.recordings import TendonRecording
from continuum_robot.identification.self_calibration import columns_of, in_order, with_forces
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.simulation.devices.sensors import SimulatedTracker, TrackerErrors
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import VirtualStack, load_controlled_robot
from validation.tip_loop import ENTRY_S, TipRun, Tracking, entry, lead_tip

Array = NDArray[np.float64]

MODEL, IDENTIFIED, TRACKED = "model", "identified", "tracked"
_MOVE_S, _REST_S = 0.8, 0.7
"""Of the recorded motion: from one place to the next, and at rest there until a sample is taken."""


@dataclass(frozen=True, kw_only=True)
class TruthSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with servos", default="three_segment_servo")
    stiffness_error: float = quantity("by which the true backbone is stiffer", default=0.1, ge=-0.5, le=2)
    slack_m: float = quantity("largest slack of a tendon at the start", "m", default=1e-3, ge=0, le=0.01)
    friction_coefficient: float = quantity("of the tendons in guides and disks", default=0.1, ge=0, lt=1)
    guide_turn_rad: float = quantity("turn of the guide of each tendon", "rad", default=1.0, ge=0, le=20)
    samples: int = quantity("of the recorded motion", default=150, ge=60, le=5000)
    amplitude_m: float = quantity("largest Clarke coordinate of that motion", "m", default=5e-3, gt=0, le=1)
    marker_noise_m: float = quantity("of marker and tracker in each axis", "m", default=1e-4, ge=0, le=0.1)
    rate_hz: float = quantity("poses a second of the tracker", "Hz", default=60.0, gt=0, le=1000)
    delay_s: float = quantity("age of a pose when it comes", "s", default=0.015, ge=0, le=0.4)
    duration_s: float = quantity("of the path", "s", default=20.0, gt=1, le=1000)
    seeds: int = quantity("robots that are drawn", default=2, ge=1, le=100)


class Sines:
    """The path: what the file's model makes of sines of the Clarke coordinates, entered from the straight robot."""

    def __init__(self, robot: Robot, amplitude_m: float) -> None:
        self._kinematics = TipKinematics(robot)
        count = robot.coordinate_count
        self._amplitude = amplitude_m * np.linspace(0.8, 0.3, count)
        self._omega = 2 * np.pi * np.linspace(0.08, 0.15, count)
        self._phase = np.arange(count) * 2.4

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Place and velocity of the path at a time, s, in the base frame, shape (3,), m and m/s."""
        blend, slope = entry(time_s)
        phase = self._omega * time_s + self._phase
        clarke = self._amplitude * np.sin(phase)
        rate = self._amplitude * self._omega * np.cos(phase)
        place, jacobian = self._kinematics.place(blend * clarke)
        return place, jacobian @ (blend * rate + slope * clarke)


def true_robot_of(robot: Robot, settings: TruthSettings, rng: np.random.Generator) -> Robot:
    """The robot that is simulated."""

    def other(segment: Segment) -> Segment:
        stiff = (1 + settings.stiffness_error) * segment.backbone.youngs_modulus_pa
        return dataclasses.replace(
            segment,
            backbone=dataclasses.replace(segment.backbone, youngs_modulus_pa=stiff),
            tendons=dataclasses.replace(
                segment.tendons,
                friction_coefficient=settings.friction_coefficient,
                guide_turn_rad=settings.guide_turn_rad,
            ),
        )

    slack = tuple(rng.uniform(0.0, settings.slack_m, robot.tendon_count).tolist())
    simulation = dataclasses.replace(robot.simulation, wiring_errors=WiringErrors(slack_m=slack))
    return robot.changed(segments=tuple(other(one) for one in robot.segments), simulation=simulation)


def record(believed: Robot, truth: Robot, settings: TruthSettings, rng: np.random.Generator) -> TendonRecording:
    """Servos and a marker at the tip, at rest in places all over the workspace, as the file's controller
    reaches them.
    """
    count = believed.coordinate_count
    places = settings.amplitude_m * rng.uniform(-1.0, 1.0, (settings.samples, count))
    places = np.concatenate([np.zeros((1, count)), places])
    plant = Plant(truth)
    stack = VirtualStack(truth, plant, believed=believed)
    rows: list[tuple[float, Array, Array]] = []

    def way(time_s: float) -> ClarkeReference:
        index = min(int(time_s / (_MOVE_S + _REST_S)), settings.samples - 1)
        x = min((time_s - index * (_MOVE_S + _REST_S)) / _MOVE_S, 1.0)
        step = places[index + 1] - places[index]
        blend, slope, bend = x**2 * (3 - 2 * x), 6 * x * (1 - x) / _MOVE_S, (6 - 12 * x) / _MOVE_S**2
        return ClarkeReference(places[index] + blend * step, slope * step, (bend if x < 1 else 0.0) * step)

    with stack:
        stack.activate()
        for _ in range(settings.samples):
            begin_s = len(rows) * (_MOVE_S + _REST_S)
            stack.follow(lambda time_s, begin_s=begin_s: way(begin_s + time_s), _MOVE_S + _REST_S)  # type: ignore[misc]
            reading = stack.loop.reading
            if reading is None:
                raise ParameterError("reading", None, "servos that can be read")
            marker = plant.pose(truth.length_m)[:3, 3] + settings.marker_noise_m * rng.standard_normal(3)
            rows.append((stack.now_s, reading.displacement_m.copy(), marker))
    time_s, displacement, marker = (np.array(column) for column in zip(*rows, strict=True))
    labels = tuple(f"places_{10 * k // len(rows)}" for k in range(len(rows)))
    columns = columns_of(believed)
    return TendonRecording(Path("simulated"), "", time_s, labels, columns, displacement, marker)


def with_forces_of(robot: Robot, fit: DisplacedFit) -> Robot:
    """The fitted robot; where the recording did not show how stiff it is, with the bending stiffness of its file.

    A recording shows forces by their ratios alone, but for the weight, which a light robot hides.
    """
    fitted = fit.robot
    if "log_bending_stiffness_segment_1" not in fit.unidentified:
        return fitted
    stiffest = robot.segments[0].backbone.bending_stiffness_nm2
    return with_forces(fitted, stiffest / fitted.segments[0].backbone.bending_stiffness_nm2)


def follow(believed: Robot, truth: Robot, path: Sines, settings: TruthSettings, seed: int, *, tracked: bool) -> TipRun:
    """One run along the path."""
    plant = Plant(truth)
    stack = VirtualStack(truth, plant, believed=believed)
    errors = TrackerErrors(noise_m=settings.marker_noise_m, noise_rad=0.0, delay_s=settings.delay_s, lost=0.0)
    tracker = SimulatedTracker(errors, np.random.default_rng([seed, 2]))
    with stack:
        stack.activate()
        tracking = Tracking(tracker, settings.rate_hz) if tracked else None
        return lead_tip(stack, plant, path, tracking, settings.duration_s, ENTRY_S)


@experiment(
    "displacement.truth",
    "no paper: control of displacements, identification and tip control",
    tolerances={"*": OF_COGGING},
)
def displacement_truth(progress: Progress, settings: TruthSettings) -> Any:
    """A path of the tip by servos on a robot that is not as its file states: by the file, identified, tracked."""
    believed = load_controlled_robot(settings.robot)
    if not believed.takes_displacements:
        raise ParameterError("robot", settings.robot, "a robot whose actuators take displacements")
    path = Sines(believed, settings.amplitude_m)
    rmse_m: dict[str, list[float]] = {MODEL: [], IDENTIFIED: [], TRACKED: []}
    left_m: list[float] = []
    runs: dict[str, TipRun] = {}
    for seed in range(1, settings.seeds + 1):
        rng = np.random.default_rng(seed)
        truth = true_robot_of(believed, settings, rng)
        progress(f"robot {seed}: recording")
        recording = record(believed, truth, settings, rng)
        fit = identify_displaced(
            in_order(believed),
            recording,
            lambda text, seed=seed: progress(f"robot {seed}: {text}"),  # type: ignore[misc]
        )
        left_m.append(fit.numbers()["tip_rmse_held_out_mm"] * 1e-3)  # type: ignore[operator]
        fitted = with_forces_of(believed, fit)
        for name, robot, tracked in ((MODEL, believed, False), (IDENTIFIED, fitted, False), (TRACKED, fitted, True)):
            progress(f"robot {seed}: {name}")
            runs[name] = follow(robot, truth, path, settings, seed, tracked=tracked)
            rmse_m[name].append(runs[name].rmse_m)
    numbers: dict[str, object] = {
        f"tip_rmse_{name}_mm": 1e3 * float(np.sqrt(np.mean(np.square(found)))) for name, found in rmse_m.items()
    }
    for name, found in rmse_m.items():
        numbers |= {f"tip_rmse_{name}_largest_mm": 1e3 * max(found)}
    numbers |= {
        "identified_over_model": float(np.mean(rmse_m[IDENTIFIED]) / np.mean(rmse_m[MODEL])),
        "tracked_over_model": float(np.mean(rmse_m[TRACKED]) / np.mean(rmse_m[MODEL])),
        "fit_left_out_mm": 1e3 * float(np.mean(left_m)),
        "seeds": settings.seeds,
    }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[str, TipRun], figure: Figures) -> None:
    with figure("A path of the tip by servos, on a robot that is not as its file states", 1, 2) as (
        drawing,
        axes,
    ):
        for colour, (name, run) in zip(COLOURS, runs.items(), strict=False):
            axes[0].plot(*(1e3 * run.tip_m[::4, :2].T), color=colour, label=name, linewidth=0.8)
            axes[1].semilogy(run.time_s[::4], 1e3 * run.error_m[::4], color=colour, linewidth=0.8)
        axes[0].plot(*(1e3 * runs[MODEL].path_m[::4, :2].T), "--", color=REFERENCE, label="path", linewidth=0.8)
        axes[0].set(xlabel="x in mm", ylabel="y in mm", aspect="equal")
        axes[1].set(xlabel="time in s", ylabel="error of the tip in mm")
        legend_below(drawing, axes[0])
