# SPDX-License-Identifier: Apache-2.0
"""The three monitors of johnston's contact sweep side by side: momentum observer, joint-force deviation, the node's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.estimation.contact.floor_learning import FloorLearning
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.joint_force_deviation import SmoothedDifference
from continuum_robot.estimation.contact.location import ContactLocator, LocationSettings
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings
from continuum_robot.estimation.contact.states import INVALID, ContactEstimate
from continuum_robot.experiments.johnston.segment import OBSERVERS, CapstanModel, Observers, point_force
from continuum_robot.experiments.johnston.sweep_rig import Rig, Sample, SweepSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import string_matrix

Array = NDArray[np.float64]

RATE_POINTS, FILTER_POINTS = 30, (100, 200)  # of the rates, and on GMO and JFD: johnston section 12
# K_o of the paper, there (x: constant, linear, quadratic; y: the same), here by order.
GAIN_PER_S = np.array([10.0, 10.0, 25.0, 25.0, 25.0, 0.02])
PLACE_EVERY = 5  # cycles
SETTLE_S = 0.3  # that the observers take from their start
RELEASE = 0.7
CONFIRM = 3  # cycles above a threshold


@dataclass(frozen=True, slots=True)
class Cycle:
    """Smoothed coefficients (n,), the residuals of GMO and JFD (n,), and what the contact monitor reports."""

    c: Array
    found: dict[str, Array]
    estimate: ContactEstimate


@dataclass(frozen=True, slots=True)
class Calibration:
    """What free motion taught."""

    thresholds: dict[str, Array]
    even: Array
    floor: Floor | None


class Monitors:
    """GMO, JFD and the contact monitor on the same measurements, with the nominal parameters."""

    def __init__(self, settings: SweepSettings, rig: Rig) -> None:
        self.dt = 1 / settings.rate_hz
        robot = load_robot(settings.robot)
        self.model, strings = CapstanModel(robot), string_matrix(robot)
        self._shape = np.linalg.pinv(np.vstack([self.model.capstan_jacobian, strings]))
        encoder = rig.encoders.settings
        noise_m = math.hypot(encoder.noise_m, encoder.resolution_m / math.sqrt(12))
        sigma = np.concatenate([np.full(self.model.capstans, 1e-4), np.full(len(strings), noise_m)])
        self._covariance = (self._shape * sigma**2) @ self._shape.T
        self.monitor = ContactMonitor(
            robot,
            MonitorSettings(
                method=KALMAN,
                force_walk_n_per_sqrt_s=settings.force_walk_n_per_sqrt_s,
                hysteresis=RELEASE,
                raise_after_s=CONFIRM * self.dt,
                clear_after_s=0.0,
            ),
        )
        self._locators = {
            method: ContactLocator(self.monitor.functions, np.eye(6)[:, :2], LocationSettings()) for method in OBSERVERS
        }
        n = self.model.size
        self._margin = settings.margin
        self.calibration = Calibration({method: np.full(n, np.inf) for method in OBSERVERS}, np.eye(n), None)
        self.reset()

    def reset(self, known_arc_length_m: float = -1.0) -> None:
        """Before a run, in which the force is desired at a place."""
        gain_per_s = GAIN_PER_S if self.model.size == GAIN_PER_S.size else 25.0
        self._difference = SmoothedDifference(RATE_POINTS)
        self._observers = Observers(self.model, gain_per_s, points=FILTER_POINTS)
        self.monitor.with_settings(dataclasses.replace(self.monitor.settings, known_arc_length_m=known_arc_length_m))
        self.monitor.reset()
        for locator in self._locators.values():
            locator.reset()

    def update(self, sample: Sample) -> Cycle:
        """One cycle of all three."""
        measured = self._shape @ sample.readings_m
        c, rate, _ = motion = self._difference.update(measured, self.dt)
        found = dict(zip(OBSERVERS, self._observers.update(motion, sample.torque, self.dt).T, strict=True))
        estimate = self.monitor.update(measured, rate, self._covariance, self.dt, capstan_torque=sample.torque)
        if estimate.state == INVALID:
            raise ContinuumRobotError(f"the contact monitor is invalid: {estimate.reason}")
        return Cycle(c, found, estimate)

    def use(self, calibration: Calibration) -> None:
        """Use what :meth:`calibrate` found, here or in other monitors of the same settings."""
        self.calibration = calibration
        self.monitor.use_floor(calibration.floor)

    def calibrate(self, samples: Sequence[Sample]) -> None:
        """All thresholds from free motion; the contact monitor learns as in its node."""
        rows: dict[str, list[Array]] = {method: [] for method in OBSERVERS}
        settled = round(SETTLE_S / self.dt)
        learning: FloorLearning | None = None
        self.reset()
        for index, sample in enumerate(samples):
            if index == settled:
                # One update more: the first with what was learnt.
                learning = FloorLearning(self.monitor, (len(samples) - settled - 1) * self.dt, self._margin)
            cycle = self.update(sample)
            if learning is not None:
                learning.take(cycle.estimate, sample.readings_m[: self.model.capstans], self.dt)
                for method, values in rows.items():
                    values.append(cycle.found[method])
        if learning is None or learning.learnt is None:
            raise ContinuumRobotError(f"free motion: {'too short' if learning is None else learning.problem}")
        thresholds = {method: self._margin * np.abs(values).max(axis=0) for method, values in rows.items()}
        even = np.eye(self.model.size) * float(np.mean(np.square(list(rows.values()))))
        self.calibration = Calibration(thresholds, even, self.monitor.floor)

    def statistics(self, cycle: Cycle) -> dict[str, float]:
        """How far each method is above its threshold; 1: on it."""
        levels = self.calibration.thresholds
        found = {method: float(np.max(np.abs(r) / levels[method])) for method, r in cycle.found.items()}
        return {**found, KALMAN: cycle.estimate.ratio}

    def forces(self, cycle: Cycle, place_m: float) -> dict[str, Array]:
        """Force in x and y at the place of the run, by method."""
        jacobian = self.model.jacobian(cycle.c, place_m)
        simple = {method: point_force(r, jacobian) for method, r in cycle.found.items()}
        return {**simple, KALMAN: cycle.estimate.wrench.wrench[:2]}

    def places(self, cycle: Cycle) -> dict[str, float]:
        """Most likely arc length by method; GMO and JFD by the same search, with all channels alike."""
        jacobians, dt = self.monitor.functions(cycle.c, np.zeros(self.model.size)).jacobians, PLACE_EVERY * self.dt
        simple = {
            method: locator.update(jacobians, cycle.found[method], self.calibration.even, dt).best_m
            for method, locator in self._locators.items()
        }
        location = cycle.estimate.location
        return {**simple, KALMAN: math.nan if location is None else location.best_m}
