# SPDX-License-Identifier: Apache-2.0
"""The shape of a robot that is pushed, from its tendons alone and with the curvatures of a fibre.

The controller holds the tendons of one segment at three bends while an unknown force pushes it at three places
from two sides. The tendons' lengths hardly change: the rod bends between them, which a constant curvature cannot show.
The same readings go into two estimators: that of the robot's file, and one with more bending functions and a fibre with
noise and offsets. The error is the distance of the estimated backbone from the true one, at places along it.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.experiments.experiment import OF_COGGING, Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.coordinates import coordinate_scale_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.tendons import Fiber
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.bodies.mechanisms import linked_curvature
from continuum_robot.simulation.devices.sensors import FiberErrors, SimulatedFiber
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.testing.virtual_stack import VirtualStack

Array = NDArray[np.float64]

_PERIOD_S = 0.01
_MOVE_S, _PUSH_S, _MEASURED_S = 1.0, 1.0, 0.2
_PLACES = 21
TENDONS, FIBER = "tendons", "fiber"


@dataclass(frozen=True, kw_only=True)
class FiberSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with actuators and control", default="opencr_five_tendon")
    plant: str = quantity("what is simulated", default=ROD, choices=tuple(PLANTS))
    gratings: int = quantity("of the fibre, evenly along the backbone", default=7, ge=1, le=100)
    order: int = quantity("of the bending functions with the fibre", default=2, ge=0, le=6)
    true_order: int = quantity("of those of the simulated rod", default=3, ge=0, le=6)
    force_n: float = quantity("of the hand", "N", default=0.1, gt=0, le=10)
    noise_per_m: float = quantity("noise of the fibre", "1/m", default=0.01, ge=0, le=10)
    offset_per_m: float = quantity("constant errors of the fibre", "1/m", default=0.03, ge=0, le=10)
    seed: int = quantity("of the rotors' angles and the fibre", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class Shapes:
    """Of one push: the backbone at some places in the base frame."""

    true: Array
    estimated: dict[str, Array]

    def error_m(self, source: str) -> Array:
        """Distance from the true backbone at each place, (places,), m."""
        return np.linalg.norm(self.estimated[source] - self.true, axis=1)


def _bending(robot: Robot, order: int, fiber: Fiber | None) -> Robot:
    basis = Basis(kind="chebyshev_bending", order=order)
    segments = tuple(dataclasses.replace(segment, basis=basis) for segment in robot.segments)
    return robot.changed(segments=segments, fiber=fiber, strings=())


class _Watched:
    """The two estimators, fed from the same readings."""

    def __init__(self, plain: Robot, seeing: Robot, true: Robot, settings: FiberSettings) -> None:
        self._true, robots = true, {TENDONS: plain, FIBER: seeing}
        self._estimators = {name: ShapeEstimator(one, watch=WatchSettings()) for name, one in robots.items()}
        self._rods = {name: Rod(one) for name, one in robots.items()}
        errors = FiberErrors(noise_per_m=settings.noise_per_m, offset_per_m=settings.offset_per_m, delay_s=0.0)
        self._fiber = SimulatedFiber(errors, np.random.default_rng([settings.seed, 3]))
        self._next_s = 0.0
        self.coefficients: dict[str, list[Array]] = {name: [] for name in robots}

    def look(self, stack: VirtualStack) -> None:
        """Estimate, a hundred times a second."""
        reading = stack.loop.reading
        if reading is None or stack.plant is None or stack.now_s < self._next_s:
            return
        self._next_s = stack.now_s + _PERIOD_S
        truth = linked_curvature(self._true, stack.plant.linked)
        if truth is None:
            return
        self._fiber.look(stack.now_s, truth)
        seen = self._fiber.reported(stack.now_s)[-1].curvature
        for name, estimator in self._estimators.items():
            found = estimator.update(
                reading.displacement_m,
                reading.velocity_m_per_s,
                None,
                _PERIOD_S,
                reading.tension_n,
                seen if name == FIBER else None,
            )
            self.coefficients[name].append(found.coefficients)

    def forget(self) -> None:
        """What was estimated so far."""
        for values in self.coefficients.values():
            values.clear()

    def shapes(self, places_m: Array, true: Array) -> Shapes:
        """Of the mean of what was estimated since it was forgotten."""
        means = {name: np.mean(values, axis=0) for name, values in self.coefficients.items()}
        return Shapes(true, {name: self._rods[name].poses(c, places_m)[:, :3, 3] for name, c in means.items()})


@experiment(
    "shape.fiber",
    "no paper: estimation/length_fit.py with rod/fiber.py",
    tolerances={"*": OF_COGGING},
)
def shape_fiber(progress: Progress, settings: FiberSettings) -> Any:
    """The shape of a robot that is pushed, from its tendons alone and with the curvatures of a fibre."""
    plain = load_robot(settings.robot).changed(strings=())
    if len(plain.segments) != 1 or plain.traits.nonlinear_lengths:
        raise ParameterError("robot", plain.name, "a robot of one segment that only bends")
    length_m = plain.length_m
    fiber = Fiber(gratings_m=tuple((length_m * (np.arange(settings.gratings) + 0.5) / settings.gratings).tolist()))
    true, seeing = _bending(plain, settings.true_order, fiber), _bending(plain, settings.order, fiber)
    plant = PLANTS[settings.plant](true, actuation="motors", rng=np.random.default_rng(settings.seed))
    stack = VirtualStack(true, plant, believed=plain, seed=settings.seed)
    watched = _Watched(plain, seeing, true, settings)
    scale_m, places_m, found = coordinate_scale_m(plain), np.linspace(0, length_m, _PLACES), list[Shapes]()
    desired = np.zeros(plain.coordinate_count)

    def held(_time_s: float) -> ClarkeReference:
        return ClarkeReference.at_rest(desired)

    with stack:
        stack.activate()
        for bend_rad in (0.0, 0.6, 1.2):
            progress(f"{settings.plant}: bent by {bend_rad:g} rad")
            desired = scale_m * np.array([bend_rad, 0.0])
            stack.follow(held, _MOVE_S, watched.look)
            for fraction, direction in itertools.product((0.4, 0.7, 1.0), ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])):
                plant.push(fraction * length_m, settings.force_n * np.array(direction))
                stack.follow(held, _PUSH_S, watched.look)
                watched.forget()
                stack.follow(held, _MEASURED_S, watched.look)
                found.append(watched.shapes(places_m, np.array([plant.pose(s_m)[:3, 3] for s_m in places_m])))
                plant.release()
    errors_m = {name: np.array([shapes.error_m(name) for shapes in found]) for name in (TENDONS, FIBER)}
    numbers: dict[str, object] = {"plant": settings.plant, "pushes": len(found)}
    for name, values in errors_m.items():
        numbers[f"shape_rmse_{name}_m"] = float(np.sqrt(np.mean(values**2)))
        numbers[f"tip_rmse_{name}_m"] = float(np.sqrt(np.mean(values[:, -1] ** 2)))
    numbers["shape_rmse_ratio"] = float(np.sqrt(np.mean(errors_m[FIBER] ** 2) / np.mean(errors_m[TENDONS] ** 2)))
    return numbers, partial(_draw, found)


def _draw(found: list[Shapes], figure: Figures) -> None:
    with figure("A pushed robot, seen by its tendons and with a fibre", 1, 2) as (drawing, axes):
        in_plane = [shapes for shapes in found if np.ptp(shapes.true[:, 0]) > np.ptp(shapes.true[:, 1])]
        one = max(in_plane or found, key=lambda shapes: float(shapes.error_m(TENDONS)[-1]))
        axes[0].plot(1e3 * one.true[:, 0], 1e3 * one.true[:, 2], color="0.4", linestyle="--", label="true")
        for colour, name in zip(COLOURS, (TENDONS, FIBER), strict=False):
            label = "with the fibre" if name == FIBER else "tendons alone"
            axes[0].plot(1e3 * one.estimated[name][:, 0], 1e3 * one.estimated[name][:, 2], color=colour, label=label)
            along = np.sqrt(np.mean([shapes.error_m(name) ** 2 for shapes in found], axis=0))
            axes[1].plot(np.linspace(0, 1, len(along)), 1e3 * along, color=colour)
        axes[0].set(xlabel="x in mm", ylabel="z in mm", aspect="equal")
        axes[1].set(xlabel="arc length over the robot's length", ylabel="RMS error of the backbone in mm")
        legend_below(drawing, axes[0])
