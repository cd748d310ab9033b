# SPDX-License-Identifier: Apache-2.0
"""The shipped controller with the gains of the robot's file on both plants: tracking, and the tip brought to targets.

Nothing is set on MuJoCo's chain: gains, feed-forward, shape estimator and tip control come from the robot file and our
rod model. Motors and sensors are the simulated ones, in virtual time without delays. Tip targets are places that our
rod model gives for Clarke coordinates drawn by the seed; how far the true tip is from them, and the estimated one, is
taken over the last second of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.limits import TensionLimiter
from continuum_robot.control.references import ClarkeReference, make_reference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import STACK_WATCH
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.simulation.devices.string_encoder_device import SimulatedStringEncoders
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.mujoco.plant import MujocoPlant
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plants import PLANTS

Vector = NDArray[np.float64]

_PERIOD_S, _SHAPE_EVERY = 1e-3, 10
_BLEND_S = 1.0  # in which the robot comes from rest to the reference; left out of the errors
_JUDGED_S = 1.0
_AMPLITUDE = 0.7  # of the robot's own reference, for targets of the tip


@dataclass(frozen=True, kw_only=True)
class PlantsSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, a rod with control and reference", default="opencr_five_tendon")
    duration_s: float = quantity("of the tracked reference", "s", default=12.0, gt=1.5, le=1000)
    targets: int = quantity("places that the tip is brought to", default=4, ge=1, le=100)
    target_s: float = quantity("time for each", "s", default=4.0, gt=1.5, le=100)
    seed: int = quantity("of targets, noise and rotors", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Run:
    """One plant's run."""

    time_s: Vector
    clarke_m: Vector
    reference_m: Vector
    tip_error_m: Vector
    estimated_error_m: Vector

    @property
    def rmse_m(self) -> Vector:
        """Root mean square tracking error of each coordinate after the start, (2m,)."""
        kept = self.time_s > _BLEND_S
        return np.asarray(np.sqrt(np.mean((self.clarke_m - self.reference_m)[kept] ** 2, axis=0)))


class _Loop:
    """A plant with its devices under the controller; cycles follow one another over all that is asked of it."""

    def __init__(self, robot: Robot, plant: Plant, seed: int) -> None:
        if robot.limits is None:
            raise ParameterError("robot", robot.name, "a robot file with limits")
        self.robot, self.plant, self.cycle = robot, plant, 0
        self.manifold = controlled_manifold(robot)
        self.actuators = SimulatedTendonActuators(robot, plant, rng=np.random.default_rng(seed))
        self.actuators.open()
        self.strings: SimulatedStringEncoders | None = None
        if robot.strings:
            rng = np.random.default_rng([seed, 1])
            self.strings = SimulatedStringEncoders(robot, self.actuators.string_source, rng=rng)
            self.strings.open()
        self.controller = ClarkeController(robot, robot_model(robot).feedforward())
        self.limiter = TensionLimiter(robot.limits, self.manifold)
        self.limiter.reset(np.zeros(robot.tendon_count))
        self.estimator = ShapeEstimator(robot, watch=STACK_WATCH)
        self.actuators.read(0.0)
        self.actuators.enable()
        self.tip = np.full(3, np.nan)

    def run(
        self, desired: Callable[[float, Vector], ClarkeReference], duration_s: float
    ) -> Iterator[tuple[float, Vector, Vector]]:
        """Time since the call (s), measured and desired Clarke coordinates (m) of every cycle."""
        begun = self.cycle
        while self.cycle - begun < round(duration_s / _PERIOD_S):
            self.cycle += 1
            now_s, since_s = self.cycle * _PERIOD_S, (self.cycle - begun) * _PERIOD_S
            reading = self.actuators.read(now_s)
            clarke = self.manifold.clarke(reading.displacement_m)
            reference = desired(since_s, clarke)
            if self.cycle == 1:
                self.controller.reset(reading.displacement_m, reference=reference)
            output = self.controller.update(reading.displacement_m, reading.velocity_m_per_s, reference, _PERIOD_S)
            self.actuators.write(self.limiter.update(output.command, _PERIOD_S).tension, now_s)
            if self.cycle % _SHAPE_EVERY == 0:
                extension = None if self.strings is None else self.strings.read(now_s).extension_m
                dt = _SHAPE_EVERY * _PERIOD_S
                shape = self.estimator.update(reading.displacement_m, reading.velocity_m_per_s, extension, dt)
                self.tip = np.array(shape.tip[:3, 3])
            yield since_s, clarke, reference.position


def _track(loop: _Loop, settings: PlantsSettings) -> tuple[Vector, Vector, Vector]:
    robot = loop.robot
    if robot.reference is None:
        raise ParameterError("robot", settings.robot, "a robot whose file has a reference")
    folder = Path(robot.file_name).parent if robot.file_name else None
    given = make_reference(robot.reference, robot.coordinate_count, folder)

    def desired(time_s: float, _clarke: Vector) -> ClarkeReference:
        now, fraction = given.at(time_s), min(1.0, time_s / _BLEND_S)
        return ClarkeReference(fraction * now.position, fraction * now.velocity, fraction * now.acceleration)

    rows = list(loop.run(desired, settings.duration_s))
    time_s, clarke, reference = (np.array(column) for column in zip(*rows, strict=True))
    return time_s, clarke, reference


def _approach(loop: _Loop, settings: PlantsSettings, progress: Progress, name: str) -> tuple[Vector, Vector]:
    """Mean distance of the true and of the estimated tip from each target at the end, (targets,), m."""
    robot, control = loop.robot, TipControl(loop.robot)
    rng = np.random.default_rng([settings.seed, 2])
    size = _AMPLITUDE * (float(np.abs(robot.reference.amplitude_m).max()) if robot.reference else 5e-3)
    true, estimated = [], []
    control.reset(loop.manifold.clarke(loop.actuators.read(loop.cycle * _PERIOD_S).displacement_m))
    for index in range(settings.targets):
        progress(f"{name}: target {index + 1} of {settings.targets}")
        coordinates = rng.uniform(-size, size, robot.coordinate_count)
        target = np.array(control.kinematics.place(coordinates)[0])
        control.set_target(target)
        current: list[ClarkeReference] = []

        def desired(time_s: float, clarke: Vector, current: list[ClarkeReference] = current) -> ClarkeReference:
            if not current or round(time_s / _PERIOD_S) % _SHAPE_EVERY == 0:
                current[:] = [control.update(loop.tip, clarke, _SHAPE_EVERY * _PERIOD_S).reference]
            return current[0]

        distance: list[tuple[float, float]] = []
        for since_s, _, _ in loop.run(desired, settings.target_s):
            if since_s > settings.target_s - _JUDGED_S and loop.cycle % _SHAPE_EVERY == 0:
                place = loop.plant.pose(robot.length_m)[:3, 3] if isinstance(loop.plant, MujocoPlant) else _place(loop)
                distance.append((np.linalg.norm(place - target), np.linalg.norm(loop.tip - target)))
        mean = np.mean(distance, axis=0)
        true.append(float(mean[0]))
        estimated.append(float(mean[1]))
    return np.array(true), np.array(estimated)


def _place(loop: _Loop) -> Vector:
    """The rod's tip by its coefficients, (3,), m."""
    return np.asarray(robot_model(loop.robot).drawing().pose(loop.plant.c, loop.robot.length_m)[:3, 3])


@experiment(
    "mujoco.plants",
    "no paper: the same controller and estimator on two plants",
    package="mujoco",
    # The resting place beside the target depends on stiction: a minimal change of the start moves the mean by a third.
    tolerances={"*_tip_error_*": Tolerance(relative=0.5, absolute=1e-3), "*": OF_COGGING},
)
def plants(progress: Progress, settings: PlantsSettings) -> Any:
    """Tracks a reference and brings the tip to targets on our rod and on MuJoCo's chain, a column each."""
    robot, numbers, runs = load_robot(settings.robot), dict[str, object](), dict[str, Run]()
    for name, make in PLANTS.items():
        progress(f"{name}: tracking")
        plant = make(robot, rng=np.random.default_rng([settings.seed, 3]), progress=progress)
        loop = _Loop(robot, plant, settings.seed)
        tracked = _track(loop, settings)
        runs[name] = run = Run(*tracked, *_approach(loop, settings, progress, name))
        numbers |= {
            f"{name}_tracking_rmse_m": run.rmse_m.tolist(),
            f"{name}_tip_error_mean_mm": 1e3 * float(run.tip_error_m.mean()),
            f"{name}_tip_error_largest_mm": 1e3 * float(run.tip_error_m.max()),
            f"{name}_estimated_tip_error_mean_mm": 1e3 * float(run.estimated_error_m.mean()),
        }
    return numbers, partial(_draw, runs)


def _draw(runs: dict[str, Run], figure: Figures) -> None:
    with figure("The shipped controller on both plants", 2, 1) as (drawing, axes):
        for colour, (name, run) in zip(COLOURS, runs.items(), strict=False):
            error = run.clarke_m - run.reference_m
            axes[0].plot(run.time_s, error[:, 0], color=colour, label=name, linewidth=0.7)
            axes[1].plot(1 + np.arange(len(run.tip_error_m)), run.tip_error_m, "o", color=colour)
            axes[1].plot(1 + np.arange(len(run.tip_error_m)), run.estimated_error_m, "x", color=colour)
        axes[0].axvspan(0, _BLEND_S, color=REFERENCE, alpha=0.08)
        axes[0].set(xlabel="time in s", ylabel="tracking error of $q_{Re}$ in m")
        axes[1].set(xlabel="target (o: true tip, x: estimated)", ylabel="distance in m")
        axes[1].set_ylim(0, None)
        legend_below(drawing, axes[0])
