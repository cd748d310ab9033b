# SPDX-License-Identifier: Apache-2.0
"""Johnston's contact sweep in simulation: the contacts of table 7, and the robot with its encoders on the bench.

Three monitors run side by side: momentum observer, joint-force deviation, the node's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.estimation.contact.floor_learning import FloorLearning
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.location import ContactLocator, LocationSettings
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.observers import SmoothedDifference
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings
from continuum_robot.estimation.contact.states import INVALID, ContactEstimate
from continuum_robot.experiments.johnston.bench import RIM_M, Bench, CommandedCurrent, force_sensor
from continuum_robot.experiments.johnston.segment import OBSERVERS, CapstanModel, Observers, perturbed, point_force
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.tendons import string_matrix
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.sensors import StringEncoderModel, StringEncoderSettings
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.workers import MOST_WORKERS

Array = NDArray[np.float64]

PEAK_N, FARTHEST_DEG, RAMP_DEG_PER_S2, AWAY_DEG_PER_S = 20.0, 225.0, 1800.0, 180.0
CALIBRATION_DEG_PER_S = (60.0, 170.0)
PLACES_M = (0.0585, 0.1100, 0.1618, 0.2133, 0.2650)  # of the disks, from the base
# Direction, and for each disk from the base the speed of the capstan, deg/s: table 7.
CASES = {
    "+x": (36, 72, 108, 144, 180),
    "+y": (36, 72, 108, 144, 180),
    "-x": (180, 144, 108, 72, 36),
    "-y": (180, 144, 108, 72, 36),
}


class Case(NamedTuple):
    """A contact of table 7; disks count from 1, at the base."""

    direction: str
    disk: int
    speed_deg: float

    @property
    def name(self) -> str:
        return f"{self.direction}, disk {self.disk}, {self.speed_deg:g} deg/s"

    @property
    def arc_length_m(self) -> float:
        return PLACES_M[self.disk - 1]


def cases(count: int) -> list[Case]:
    """The contacts of table 7, or some of them, spread over it."""
    every = [Case(way, disk, float(speed)) for way, speeds in CASES.items() for disk, speed in enumerate(speeds, 1)]
    return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, count).round().astype(int))]


def towards(direction: str) -> Array:
    """A direction, +x, -x, +y or -y, as a vector (2,); also which way which capstan turns to bend the robot there."""
    sign = 1.0 if direction[0] == "+" else -1.0
    return np.array([sign, 0.0]) if direction[1] == "x" else np.array([0.0, sign])


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("of the monitor", "Hz", default=200, ge=200, le=1000)
    parameter_error: float = quantity("fraction by which the monitor's parameters are off", default=0.05, ge=0, le=0.5)
    withdrawal_deg: float = quantity(
        "how far the capstan turns away before it approaches; the paper: 180", "deg", default=60.0, ge=10, le=180
    )
    margin: float = quantity("thresholds over the largest value of the calibration", default=1.2, ge=1, le=10)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the Kalman disturbance observer expects within a second",
        "N/s^0.5",
        default=30.0,
        gt=0,
        le=1e4,
    )
    torque_error: float = quantity(
        "fraction by which the torque that a current stands for is off, for each capstan", default=0.05, ge=0, le=0.5
    )
    gear_efficiency: float = quantity(
        "of motor and gearhead; the paper takes the rated one and does not name it", default=0.8, gt=0, le=1
    )
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    plant: str = quantity("what moves: our rod, or MuJoCo's chain of links", default=ROD, choices=tuple(PLANTS))
    cases: int = quantity("number of contacts, spread over the table", default=20, ge=1, le=20)
    workers: int = quantity("processes to which the contacts are shared out", default=0, ge=0, le=MOST_WORKERS)
    scheduler: str = quantity("address of a dask scheduler to whose workers they are shared out", default="")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the robot's sensors and motors give in one cycle, and the truth."""

    readings_m: Array
    torque: Array
    c: Array
    wrench: Array


class Rig:
    """The simulated robot, its encoders, and its motion on the bench."""

    def __init__(self, settings: SweepSettings) -> None:
        rng = self._rng = np.random.default_rng(settings.seed)
        robot = load_robot(settings.robot)
        self.dt = 1 / settings.rate_hz
        self.settings = settings
        self._robot = perturbed(robot, settings.parameter_error, rng)
        self.encoders = StringEncoderModel(len(robot.strings), StringEncoderSettings(), rng)
        self.current = CommandedCurrent(len(drives(robot)), settings.torque_error, settings.gear_efficiency, rng)

    def begin(self, number: int) -> None:
        """Noise from here on depends on nothing that was done before."""
        seed = (self.settings.seed, number)
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def _bench(self, sensor: Contact | None) -> Bench:
        return Bench(self._robot, sensor, math.radians(RAMP_DEG_PER_S2), plant=self.settings.plant)

    def _turn(
        self, bench: Bench, side: Array, speed_deg: float, end_deg: float, peak_n: float = math.inf
    ) -> Iterator[Sample]:
        for torque in bench.turn(side, math.radians(speed_deg), math.radians(end_deg), self.dt, peak_n):
            angle, speed = bench.turned
            readings = np.concatenate([angle, self.encoders.read(bench.plant.string_extension)])
            yield Sample(readings, self.current.read(torque, speed), bench.plant.c, bench.wrench)

    def approach(self, case: Case, *, present: bool) -> Iterator[Sample]:
        """Away from the sensor, towards it, and away again."""
        side = towards(case.direction)
        bench = self._bench(force_sensor(case.arc_length_m, (*side, 0.0), RIM_M) if present else None)
        yield from self._turn(bench, side, -AWAY_DEG_PER_S, -self.settings.withdrawal_deg)
        yield from self._turn(bench, side, case.speed_deg, FARTHEST_DEG, PEAK_N)
        yield from self._turn(bench, side, -case.speed_deg, 0.0)

    def free(self, directions: Sequence[str]) -> Iterator[Sample]:
        """Free motion for the thresholds, in one plane after the other."""
        bench = self._bench(None)
        for side in map(towards, directions):
            for speed in CALIBRATION_DEG_PER_S:
                yield from self._turn(bench, side, speed, FARTHEST_DEG + 15)
                yield from self._turn(bench, side, -speed, -FARTHEST_DEG - 15)
                yield from self._turn(bench, side, speed, 0.0)


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
