# SPDX-License-Identifier: Apache-2.0
"""Johnston table 7: twenty contacts, four directions on five disks at five speeds, in simulation.

The robot moves away from a force sensor, towards it until the sensor reads 20 N or the capstan has turned by 225
degrees, and away again. The simulated robot has stiffnesses, masses and friction that are 5 % off from the monitor's,
its strings have the errors of the paper's encoders; the force acts where the sensor touches the disk's rim, with
friction, while the monitor takes it for a force through the backbone. As much free motion is the same motion without
the sensor. All thresholds come from a third motion, free and at other speeds. Force errors are those of what is
reported: zero where no contact is. ``force_rmse_n`` is the average of table 8: over all runs, with their free parts, of
the RMSE in x and in y; ``force_rmse_in_contact_n`` is that of the error's size over the times of contact alone, which
is stricter.

GMO and JFD are as in the paper: rates by 30-point backward Gaussians, the paper's gains, 100 and 200 points on the
results, a threshold on each channel. The paper names no rate; theirs is the monitor's. "best" is the contact monitor as
the node runs it (estimation/contact_monitor.py), after it has learnt from the same free motion: the Kalman disturbance
observer, with what its force does in free motion as the covariance of the model's errors, which weighs the detection,
the wrench and the place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.estimation.contact_location import ContactLocator, LocationSettings
from continuum_robot.estimation.contact_monitor import ContactMonitor
from continuum_robot.estimation.contact_settings import MonitorSettings
from continuum_robot.estimation.contact_states import BLIND, ContactEstimate
from continuum_robot.estimation.joint_force_deviation import BackwardGaussian, SmoothedDifference
from continuum_robot.estimation.momentum_observer import MomentumObserver
from continuum_robot.experiments.experiment import Experiment, Progress, Result
from continuum_robot.experiments.johnston_segment import CapstanRobot, Stop, perturbed, point_force
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import string_matrix
from continuum_robot.simulation.string_encoders import StringEncoderModel, StringEncoderSettings

Array = NDArray[np.float64]

METHODS = ("gmo", "jfd", "best")
PLACES_M = (0.0585, 0.1100, 0.1618, 0.2133, 0.2650)
# Direction, and for each disk from the base the speed of the capstan, deg/s: table 7.
CASES = {
    "+x": (36, 72, 108, 144, 180),
    "+y": (36, 72, 108, 144, 180),
    "-x": (180, 144, 108, 72, 36),
    "-y": (180, 144, 108, 72, 36),
}
DIRECTIONS = {"+x": (1.0, 0.0, 0.0), "+y": (0.0, 1.0, 0.0), "-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0)}
PEAK_N, FARTHEST_DEG, RAMP_DEG_PER_S2, AWAY_DEG_PER_S = 20.0, 225.0, 1800.0, 180.0
CALIBRATION_DEG_PER_S = (60.0, 170.0)
_RATE_POINTS, _POINTS = 30, {"gmo": 100, "jfd": 200}
# K_o of the paper, there (x: constant, linear, quadratic; y: the same), here by order.
GAIN_PER_S = np.array([10.0, 10.0, 25.0, 25.0, 25.0, 0.02])
FIRST_FAR_DISK = 3  # below, johnston could not detect contacts
EXAMPLE_DISK = 4
SETTLE_S = 0.3  # that the observers take from their start
PLACE_EVERY = 5  # cycles
_RELEASE = 0.7
_FELT_N = 0.1
_CONFIRM = 3  # cycles above a threshold


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("of the monitor", "Hz", default=200, ge=200, le=1000)
    parameter_error: float = quantity("share by which the monitor's parameters are off", default=0.05, ge=0, le=0.5)
    withdrawal_deg: float = quantity(
        "how far the capstan turns away before it approaches; the paper: 180", "deg", default=60.0, ge=10, le=180
    )
    margin: float = quantity("thresholds over the largest value of the calibration", default=1.2, ge=1, le=10)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the best estimator expects within a second", "N/s^0.5", default=30.0, gt=0, le=1e4
    )
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    cases: int = quantity("number of contacts, spread over the table", default=20, ge=1, le=20)


@dataclass
class Recording:
    """One run, a row a cycle.

    Attributes
    ----------
    direction, disk, speed_deg, arc_length_m : of the contact
    truth : force in x and y of the backbone's frame at the contact, (k, 2), N
    forces : of each method at the true place, (k, 2), N
    statistic : of each method, as a share of its threshold, (k,)
    places : arc length by each method, (k,), m; NaN between the cycles in which it is looked for
    felt : what the contact monitor reports, (k,); empty: its statistic decides as for the others
    """

    direction: str
    disk: int
    speed_deg: float
    arc_length_m: float
    time_s: Array = field(default_factory=lambda: np.zeros(0))
    truth: Array = field(default_factory=lambda: np.zeros((0, 2)))
    forces: dict[str, Array] = field(default_factory=dict)
    statistic: dict[str, Array] = field(default_factory=dict)
    places: dict[str, Array] = field(default_factory=dict)
    felt: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def name(self) -> str:
        """Of the case."""
        return f"{self.direction}, disk {self.disk}, {self.speed_deg:g} deg/s"

    @property
    def touching(self) -> NDArray[np.bool_]:
        """Where there is contact, (k,)."""
        return (np.linalg.norm(self.truth, axis=1) > _FELT_N) & (self.time_s >= SETTLE_S)

    def raised(self, method: str) -> NDArray[np.bool_]:
        """Where a method reports contact: after some cycles above its threshold, until below 0.7 of it, (k,)."""
        if method == "best" and len(self.felt):
            return self.felt & (self.time_s >= SETTLE_S)
        found, state, above = np.zeros(len(self.time_s), dtype=bool), False, 0
        for index, value in enumerate(self.statistic[method]):
            above = above + 1 if value > 1 else 0
            state = value > _RELEASE if state else above >= _CONFIRM
            found[index] = state and self.time_s[index] >= SETTLE_S
        return found


@dataclass(frozen=True, slots=True)
class Sample:
    """What the robot's sensors and motors give in one cycle, and the truth.

    Attributes
    ----------
    readings_m : extensions of the strings, shape (strings,), m
    torque : of the capstans, shape (capstans,), N.m
    wrench : true (force, moment) at the contact in the backbone's frame, shape (6,), N and N.m
    """

    readings_m: Array
    torque: Array
    wrench: Array


class Rig:
    """The simulated robot, its encoders, and its motion on the bench."""

    def __init__(self, settings: SweepSettings, progress: Progress) -> None:
        rng = np.random.default_rng(settings.seed)
        robot = load_robot(settings.robot)
        self.dt = 1 / settings.rate_hz
        self.settings = settings
        self.plant = CapstanRobot(perturbed(robot, settings.parameter_error, rng), progress)
        self.strings = string_matrix(robot)
        self.encoders = StringEncoderModel(len(self.strings), StringEncoderSettings(), rng)

    def approach(self, case: Recording, *, present: bool) -> Iterator[Sample]:
        """Away from the sensor, towards it, and away again.

        Parameters
        ----------
        case : direction, disk and speed
        present : whether the sensor stands there; else it is out of reach
        """
        side = _side(case.direction)
        stop = Stop(
            arc_length_m=case.arc_length_m, direction=DIRECTIONS[case.direction], offset_m=0.08 if present else 10.0
        )
        motion = _Motion(self, stop)
        yield from motion.until(side, -AWAY_DEG_PER_S, -self.settings.withdrawal_deg)
        yield from motion.until(side, case.speed_deg, FARTHEST_DEG, PEAK_N)
        yield from motion.until(side, -case.speed_deg, 0.0)

    def free(self, direction: str) -> Iterator[Sample]:
        """Free motion in one plane for the thresholds.

        Parameters
        ----------
        direction : of the plane, by name
        """
        stop = Stop(arc_length_m=0.1, direction=(1.0, 0.0, 0.0), offset_m=10.0)
        motion, side = _Motion(self, stop), _side(direction)
        for speed in CALIBRATION_DEG_PER_S:
            yield from motion.until(side, speed, FARTHEST_DEG + 15)
            yield from motion.until(side, -speed, -FARTHEST_DEG - 15)
            yield from motion.until(side, speed, 0.0)


class _Motion:
    """Speed commands for one capstan, with ramps."""

    def __init__(self, rig: Rig, stop: Stop) -> None:
        self._rig, self._stop = rig, stop.parameters
        k = rig.plant.capstans
        self._x = np.zeros(2 * rig.plant.size + 1)
        self._angle, self._speed = np.zeros(k), np.zeros(k)

    def until(self, side: Array, speed_deg: float, end_deg: float, peak_n: float = math.inf) -> Iterator[Sample]:
        """Turn at a speed until an angle along ``side``, or until the stop pushes with a force."""
        rig, dt, n = self._rig, self._rig.dt, self._rig.plant.size
        target, ramp_limit = math.radians(speed_deg) * side, math.radians(RAMP_DEG_PER_S2)
        end = math.radians(end_deg)
        while True:
            passed = float(side @ self._angle)
            if (passed - end) * np.sign(speed_deg) >= 0:
                return
            ramp = np.clip((target - self._speed) / dt, -ramp_limit, ramp_limit)
            reference = np.concatenate([self._angle, self._speed, ramp])
            torque, wrench = rig.plant.drive_loads(self._x, reference, self._stop)
            extension = rig.strings @ self._x[:n]
            angles = rig.plant.capstan_jacobian @ self._x[:n]
            yield Sample(np.concatenate([angles, rig.encoders.read(extension)]), torque, wrench)
            if np.linalg.norm(wrench[:3]) >= peak_n:
                return
            self._x = rig.plant.drive(self._x, reference, self._stop, dt)
            self._angle = self._angle + self._speed * dt + ramp * dt**2 / 2
            self._speed = self._speed + ramp * dt


def _side(direction: str) -> Array:
    """Which way which capstan turns to bend the robot in a direction, (2,)."""
    sign = 1.0 if direction[0] == "+" else -1.0
    return np.array([sign, 0.0]) if direction[1] == "x" else np.array([0.0, sign])


class Monitors:
    """GMO, JFD and best on the same measurements, with the nominal parameters."""

    def __init__(self, settings: SweepSettings, rig: Rig, progress: Progress) -> None:
        self.dt = 1 / settings.rate_hz
        self.robot = CapstanRobot(load_robot(settings.robot), progress)
        matrix = np.vstack([self.robot.capstan_jacobian, rig.strings])
        self._shape = np.linalg.pinv(matrix)
        encoder = rig.encoders.settings
        noise_m = math.hypot(encoder.noise_m, encoder.resolution_m / math.sqrt(12))
        sigma = np.concatenate([np.full(self.robot.capstans, 1e-4), np.full(len(rig.strings), noise_m)])
        self._covariance = (self._shape * sigma**2) @ self._shape.T
        self.monitor = ContactMonitor(
            self.robot.robot,
            MonitorSettings(
                method="best",
                force_walk_n_per_sqrt_s=settings.force_walk_n_per_sqrt_s,
                contact_factor_accelerating=1.0,  # what is learnt is that of motion already
                hysteresis=_RELEASE,
                raise_after_s=_CONFIRM * self.dt,
                clear_after_s=0.0,
            ),
            progress=progress,
        )
        self._locators = {
            method: ContactLocator(self.monitor.functions, np.eye(6)[:, :2], LocationSettings())
            for method in ("gmo", "jfd")
        }
        n = self.robot.size
        self.thresholds = {method: np.full(n, np.inf) for method in ("gmo", "jfd")}
        self._even = np.eye(n)
        self._margin = settings.margin
        self.reset()

    def reset(self, known_arc_length_m: float = -1.0) -> None:
        """Before a run, in which the force is wanted at a place.

        Parameters
        ----------
        known_arc_length_m : place of the contact from the base, m; negative: to be found
        """
        n = self.robot.size
        self._difference = SmoothedDifference(_RATE_POINTS)
        self._observer = MomentumObserver(GAIN_PER_S if n == GAIN_PER_S.size else 25.0, 1000, n)
        self._smooth = {method: BackwardGaussian(points) for method, points in _POINTS.items()}
        self.monitor.with_settings(dataclasses.replace(self.monitor.settings, known_arc_length_m=known_arc_length_m))
        self.monitor.reset()
        for locator in self._locators.values():
            locator.reset()

    def update(self, sample: Sample) -> Cycle:
        """One cycle of all three.

        Raises
        ------
        ContinuumRobotError : the contact monitor went blind
        """
        measured = self._shape @ sample.readings_m
        c, rate, second = self._difference.update(measured, self.dt)
        seen = self.robot.observe(c, rate, second, sample.torque)
        found = {
            "gmo": self._smooth["gmo"].update(self._observer.update(seen.momentum, seen.known_force, self.dt)),
            "jfd": self._smooth["jfd"].update(seen.deviation),
        }
        best = self.monitor.update(measured, rate, self._covariance, self.dt, capstan_torque=sample.torque)
        if best.state == BLIND:
            raise ContinuumRobotError(f"the contact monitor is blind: {best.reason}")
        return Cycle(c, found, best)

    def calibrate(self, runs: Iterable[Iterable[Sample]]) -> None:
        """All thresholds from free motion.

        Parameters
        ----------
        runs : samples of each free motion
        """
        rows: dict[str, list[Array]] = {"gmo": [], "jfd": []}
        for run in runs:
            self.reset()
            for index, sample in enumerate(run):
                settled = index >= SETTLE_S / self.dt
                self.monitor.learn_floor(settled, self._margin)
                cycle = self.update(sample)
                if settled:
                    for method, values in rows.items():
                        values.append(cycle.found[method])
        self.monitor.learn_floor(False)
        for method, values in rows.items():
            self.thresholds[method] = self._margin * np.abs(values).max(axis=0)
        self._even = np.eye(self.robot.size) * float(np.mean(np.square([*rows["gmo"], *rows["jfd"]])))

    def statistics(self, cycle: Cycle) -> dict[str, float]:
        """How far each method is above its threshold; 1: on it."""
        found = {method: float(np.max(np.abs(r) / self.thresholds[method])) for method, r in cycle.found.items()}
        return {**found, "best": cycle.best.ratio}

    def forces(self, cycle: Cycle, place_m: float) -> dict[str, Array]:
        """Force in x and y at the place of the run, by method.

        Parameters
        ----------
        place_m : arc length from the base, m

        Returns
        -------
        by method, shape (2,), N
        """
        jacobian = self.robot.jacobian(cycle.c, place_m)
        simple = {method: point_force(r, jacobian) for method, r in cycle.found.items()}
        return {**simple, "best": cycle.best.wrench.wrench[:2]}

    def places(self, cycle: Cycle) -> dict[str, float]:
        """Most likely arc length by method; GMO and JFD by the same search, with all channels alike."""
        jacobians, dt = self.monitor.functions(cycle.c, np.zeros(self.robot.size)).jacobians, PLACE_EVERY * self.dt
        simple = {
            method: locator.update(jacobians, cycle.found[method], self._even, dt).best_m
            for method, locator in self._locators.items()
        }
        return {**simple, "best": math.nan if cycle.best.location is None else cycle.best.location.best_m}


@dataclass(frozen=True, slots=True)
class Cycle:
    """Smoothed coefficients (n,), the residuals of GMO and JFD (n,), and what the contact monitor says.

    Attributes
    ----------
    c : smoothed coefficients, shape (n,), 1/m
    found : residual by "gmo" and "jfd", shape (n,) each, N.m^2
    best : what the contact monitor says
    """

    c: Array
    found: dict[str, Array]
    best: ContactEstimate


def cases(count: int) -> list[Recording]:
    """The contacts of table 7, or some of them.

    Parameters
    ----------
    count : how many, evenly out of all
    """
    every = [
        Recording(direction, disk + 1, float(speeds[disk]), PLACES_M[disk])
        for direction, speeds in CASES.items()
        for disk in range(len(PLACES_M))
    ]
    return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, count).round().astype(int))]


@dataclass(frozen=True)
class Score:
    """What a method made of one contact.

    Attributes
    ----------
    delay_ms : from the first touch to the report; NaN where it is missed
    error_n : of the reported force (zero where no contact is reported), root mean square of the run in x and y, (2,)
    contact_error_n : the same of the error's size, over the time of contact
    place_m : median arc length while contact is reported; NaN where it is missed
    early : reports that began without contact
    """

    delay_ms: float
    error_n: Array
    contact_error_n: float
    place_m: float
    early: int


def score(run: Recording, method: str) -> Score:
    """Compare a method with the truth of a run."""
    raised, touching = run.raised(method), run.touching
    starts = np.flatnonzero(raised & ~np.roll(raised, 1))
    error = np.where(raised[:, None], run.forces[method], 0.0) - run.truth
    rmse = np.sqrt(np.mean(error**2, axis=0))
    early = int(np.sum(~touching[starts]))
    if not touching.any():
        return Score(math.nan, rmse, math.nan, math.nan, early)
    first = int(np.flatnonzero(touching)[0])
    reported = np.flatnonzero(raised & touching)
    within = math.sqrt(float(np.mean(np.sum(error[touching] ** 2, axis=1))))
    if len(reported) == 0:
        return Score(math.nan, rmse, within, math.nan, early)
    places = run.places[method][reported]
    places = places[np.isfinite(places)]
    place_m = float(np.median(places)) if len(places) else math.nan
    return Score(1e3 * float(run.time_s[reported[0]] - run.time_s[first]), rmse, within, place_m, early)


def _record(rig: Rig, monitors: Monitors, case: Recording, *, present: bool) -> Recording:
    monitors.reset(case.arc_length_m)
    felt: list[bool] = []
    rows: dict[str, list[Array]] = {"truth": [], **{method: [] for method in METHODS}}
    statistic: dict[str, list[float]] = {method: [] for method in METHODS}
    places: dict[str, list[float]] = {method: [] for method in METHODS}
    for index, sample in enumerate(rig.approach(case, present=present)):
        cycle = monitors.update(sample)
        ratios = monitors.statistics(cycle)
        felt.append(cycle.best.in_contact)
        rows["truth"].append(sample.wrench[:2])
        forces = monitors.forces(cycle, case.arc_length_m) if present else dict.fromkeys(METHODS, np.zeros(2))
        look = present and index % PLACE_EVERY == 0 and max(ratios.values()) > 1
        where = monitors.places(cycle) if look else dict.fromkeys(METHODS, math.nan)
        for method in METHODS:
            rows[method].append(forces[method])
            statistic[method].append(ratios[method])
            places[method].append(where[method])
    count = len(rows["truth"])
    return Recording(
        case.direction,
        case.disk,
        case.speed_deg,
        case.arc_length_m,
        np.arange(count, dtype=float) * monitors.dt,
        np.array(rows["truth"]),
        {method: np.array(rows[method]) for method in METHODS},
        {method: np.array(statistic[method]) for method in METHODS},
        {method: np.array(places[method]) for method in METHODS},
        np.array(felt),
    )


@dataclass(frozen=True)
class SweepSeries:
    """All runs and their scores.

    Attributes
    ----------
    length_m : of the robot, m
    """

    runs: list[Recording]
    scores: dict[str, list[Score]]
    length_m: float


def _run(settings: SweepSettings, progress: Progress) -> Result:
    rig = Rig(settings, progress)
    monitors = Monitors(settings, rig, progress)
    length_m = monitors.robot.robot.length_m
    progress("free motion for the thresholds")
    monitors.calibrate(rig.free(direction) for direction in ("+x", "+y"))
    runs: list[Recording] = []
    scores: dict[str, list[Score]] = {method: [] for method in METHODS}
    false_alarms, free_s = dict.fromkeys(METHODS, 0), 0.0
    for case in cases(settings.cases):
        run = _record(rig, monitors, case, present=True)
        free = _record(rig, monitors, case, present=False)
        free_s += float(free.time_s[-1])
        runs.append(run)
        for method in METHODS:
            scores[method].append(score(run, method))
            false_alarms[method] += scores[method][-1].early + score(free, method).early
        best = scores["best"][-1]
        progress(
            f"{run.name}: best after {best.delay_ms:.0f} ms, {best.contact_error_n:.1f} N off, at {best.place_m:.3f} m"
        )
    numbers: dict[str, object] = {}
    for method in METHODS:
        numbers.update(_numbers(method, runs, scores[method], length_m))
        numbers[f"{method}_false_alarms"] = false_alarms[method]
    numbers["contacts"] = len(runs)
    numbers["contact_runs_s"] = float(sum(run.time_s[-1] for run in runs))
    numbers["free_motion_s"] = free_s
    numbers["largest_force_n"] = float(max(np.linalg.norm(run.truth, axis=1).max() for run in runs))
    numbers["rate_hz"] = settings.rate_hz
    return Result(numbers, SweepSeries(runs, scores, length_m))


def _numbers(method: str, runs: list[Recording], scores: list[Score], length_m: float) -> dict[str, object]:
    disks = sorted({run.disk for run in runs})
    delay = np.array([one.delay_ms for one in scores])
    error = np.array([one.error_n for one in scores])
    inside = np.array([one.contact_error_n for one in scores])
    miss = np.array(
        [100 * abs(one.place_m - run.arc_length_m) / length_m for one, run in zip(scores, runs, strict=True)]
    )
    seen = np.isfinite(delay)
    at = {disk: np.array([run.disk == disk for run in runs]) for disk in disks}
    far = np.array([run.disk >= FIRST_FAR_DISK for run in runs])
    return {
        f"{method}_detection_rate": float(seen.mean()),
        f"{method}_detection_rate_disks_3_to_5": _number(seen[far].mean() if far.any() else math.nan),
        f"{method}_median_detection_delay_ms": _number(np.median(delay[seen]) if seen.any() else math.nan),
        f"{method}_force_rmse_n": float(error.mean()),
        f"{method}_force_rmse_in_contact_n": float(np.sqrt(np.mean(inside**2))),
        f"{method}_mean_rmse_x_n": float(error[:, 0].mean()),
        f"{method}_mean_rmse_y_n": float(error[:, 1].mean()),
        f"{method}_max_rmse_x_n": float(error[:, 0].max()),
        f"{method}_max_rmse_y_n": float(error[:, 1].max()),
        f"{method}_arc_length_median_error_percent_of_length": _median(miss),
        f"{method}_arc_length_median_error_disks_3_to_5_percent_of_length": _median(miss[far]),
        f"{method}_arc_length_largest_error_disks_3_to_5_percent_of_length": _number(
            np.nanmax(miss[far]) if np.isfinite(miss[far]).any() else math.nan
        ),
        f"{method}_detection_rate_by_disk": [float(seen[at[disk]].mean()) for disk in disks],
        f"{method}_median_detection_delay_by_disk_ms": [_median(delay[at[disk]]) for disk in disks],
        f"{method}_force_rmse_in_contact_by_disk_n": [float(np.sqrt(np.mean(inside[at[disk]] ** 2))) for disk in disks],
        f"{method}_mean_rmse_x_by_disk_n": [float(error[at[disk], 0].mean()) for disk in disks],
        f"{method}_mean_rmse_y_by_disk_n": [float(error[at[disk], 1].mean()) for disk in disks],
        f"{method}_arc_length_median_error_by_disk_percent_of_length": [_median(miss[at[disk]]) for disk in disks],
    }


def _number(value: float) -> float | None:
    """A number for JSON: None where there is none."""
    return float(value) if math.isfinite(value) else None


def _median(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def _draw(result: Result, folder: Path) -> list[Path]:
    series: SweepSeries = result.series
    picked = max(series.runs, key=lambda run: (run.disk == EXAMPLE_DISK, run.direction == "+x"))
    across = 0 if picked.direction[1] == "x" else 1
    example = folder / "johnston_contact_sweep_example.png"
    with figure(example, f"Contact {picked.name} (johnston, fig. 9)", 3, 1, sharex=True) as (drawing, axes):
        axes[0].plot(picked.time_s, picked.truth[:, across], color=REFERENCE, linestyle="--", label="true")
        for k, method in enumerate(METHODS):
            axes[0].plot(picked.time_s, picked.forces[method][:, across], color=COLOURS[k], label=method.upper())
            axes[1].semilogy(picked.time_s, picked.statistic[method], color=COLOURS[k])
            known = np.isfinite(picked.places[method]) & picked.raised(method)
            axes[2].plot(picked.time_s[known], picked.places[method][known], ".", color=COLOURS[k], markersize=3)
        peak = 1.6 * np.abs(picked.truth[:, across]).max()
        axes[0].set_ylim(-peak, peak)
        axes[0].set_ylabel("force in N")
        axes[1].axhline(1, color=REFERENCE, linewidth=0.8)
        axes[1].set_ylim(1e-2, None)
        axes[1].set_ylabel("over threshold")
        axes[2].axhline(picked.arc_length_m, color=REFERENCE, linestyle="--")
        axes[2].set_ylim(0, series.length_m)
        axes[2].set_ylabel("place in m")
        axes[2].set_xlabel("time in s")
        legend_below(drawing, axes[0])
    summary = folder / "johnston_contact_sweep.png"
    with figure(summary, "Contacts of table 7 in simulation (johnston)", 3, 1, sharex=True) as (drawing, axes):
        for k, method in enumerate(METHODS):
            shift = 0.08 * (k - 1)
            where = np.array([run.disk + shift for run in series.runs])
            scores = series.scores[method]
            axes[0].plot(where, [one.delay_ms for one in scores], ".", color=COLOURS[k], label=method.upper())
            axes[1].plot(where, [one.contact_error_n for one in scores], ".", color=COLOURS[k])
            axes[2].plot(where, [one.place_m for one in scores], ".", color=COLOURS[k])
        for disk, place in enumerate(PLACES_M, start=1):
            axes[2].plot([disk - 0.3, disk + 0.3], [place, place], color=REFERENCE, linewidth=0.8)
        axes[0].set_yscale("log")
        axes[0].set_ylabel("delay in ms")
        axes[1].set_yscale("log")
        axes[1].set_ylabel("force RMSE in N")
        axes[2].set_ylim(0, series.length_m)
        axes[2].set_ylabel("place in m")
        axes[2].set_xlabel("touched disk")
        legend_below(drawing, axes[0])
    return [summary, example]


CONTACT_SWEEP = Experiment(
    name="johnston.contact_sweep",
    summary="Twenty contacts on five disks with a model that is 5 % wrong: detection, force and place.",
    source="johnston, tables 7 and 8 (measured on the robot)",
    paper={
        "gmo_mean_rmse_x_n": 2.59,
        "gmo_mean_rmse_y_n": 5.59,
        "gmo_max_rmse_x_n": 6.63,
        "gmo_max_rmse_y_n": 14.81,
        "jfd_mean_rmse_x_n": 3.19,
        "jfd_mean_rmse_y_n": 5.57,
        "jfd_max_rmse_x_n": 12.89,
        "jfd_max_rmse_y_n": 14.80,
        "gmo_detection_rate_by_disk": "none on disks 1 and 2",
        "jfd_detection_rate_by_disk": "none on disks 1 and 2",
        "gmo_arc_length_median_error_percent_of_length": "cannot be told",
    },
    settings=SweepSettings,
    compute=_run,
    plot=_draw,
)
