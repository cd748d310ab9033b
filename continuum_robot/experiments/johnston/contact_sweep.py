# SPDX-License-Identifier: Apache-2.0
"""Johnston table 7: twenty contacts, four directions on five disks at five speeds, in simulation.

The robot moves away from a force sensor, towards it until the sensor reads 20 N or the capstan has turned by 225
degrees, and away again. The simulated robot has stiffnesses, masses and friction that are 5 % off from the monitor's,
its strings have the errors of the paper's encoders, and the torque of a capstan is what its commanded current gives,
with a constant error and the loss of a gear (bench.py); the force acts where the sensor touches the
disk's rim, with friction, while the monitor takes it for a force through the backbone. As much free motion is the same
motion without the sensor. All thresholds come from a third motion, free and at other speeds. Force errors are those of
what is reported: zero where no contact is. ``force_rmse_n`` is the average of table 8: over all runs, with their free
parts, of the RMSE in x and in y; ``force_rmse_in_contact_n`` is that of the error's size over the times of contact
alone, which is stricter.

GMO and JFD are as in the paper: rates by 30-point backward Gaussians, the paper's gains, 100 and 200 points on the
results, a threshold on each channel. The paper names no rate; theirs is the monitor's. The third method is the contact
monitor as the node runs it (estimation/contact/monitor.py) with the Kalman disturbance observer, after it has learned
from the same free motion: what its force does in free motion is the covariance of the model's errors, which weighs the
detection, the wrench and the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.settings import KALMAN, METHODS
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.johnston.segment import METHOD_NAMES, curvature_range
from continuum_robot.experiments.johnston.sweep_rig import (
    CONFIRM,
    PLACE_EVERY,
    PLACES_M,
    RELEASE,
    SETTLE_S,
    Calibration,
    Case,
    Monitors,
    Rig,
    SweepSettings,
    cases,
)
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, legend_below
from continuum_robot.workers import WorkerOptions, counted, tasks

Array = NDArray[np.float64]

FIRST_FAR_DISK = 3  # below, johnston could not detect contacts
EXAMPLE_DISK = 4
_FELT_N = 0.1


@dataclass(frozen=True, slots=True)
class Recording:
    """One run, a row a cycle: true force, and by method force, statistic over its threshold, and place."""

    case: Case
    time_s: Array
    truth: Array
    forces: dict[str, Array]
    statistic: dict[str, Array]
    places: dict[str, Array]
    detected: NDArray[np.bool_]
    c: Array

    @property
    def touching(self) -> NDArray[np.bool_]:
        """Where there is contact, (k,)."""
        return (np.linalg.norm(self.truth, axis=1) > _FELT_N) & (self.time_s >= SETTLE_S)

    def raised(self, method: str) -> NDArray[np.bool_]:
        """Where a method reports contact: after some cycles above its threshold, until below 0.7 of it, (k,)."""
        if method == KALMAN and len(self.detected):
            return self.detected & (self.time_s >= SETTLE_S)
        found, state, above = np.zeros(len(self.time_s), dtype=bool), False, 0
        for index, value in enumerate(self.statistic[method]):
            above = above + 1 if value > 1 else 0
            state = value > RELEASE if state else above >= CONFIRM
            found[index] = state and self.time_s[index] >= SETTLE_S
        return found


@dataclass(frozen=True, slots=True)
class Score:
    """What a method made of one contact; NaN where it did not detect it."""

    error_n: Array
    ungated_error_n: Array
    early: int
    delay_ms: float = math.nan
    contact_error_n: float = math.nan
    place_m: float = math.nan


def score(run: Recording, method: str) -> Score:
    """Compare a method with the truth of a run."""
    raised, touching = run.raised(method), run.touching
    starts = np.flatnonzero(raised & ~np.roll(raised, 1))
    error = np.where(raised[:, None], run.forces[method], 0.0) - run.truth
    ungated = run.forces[method] - run.truth
    rmse, ungated_rmse = (np.sqrt(np.mean(one**2, axis=0)) for one in (error, ungated))
    found = Score(rmse, ungated_rmse, int(np.sum(~touching[starts])))
    if not touching.any():
        return found
    found = replace(found, contact_error_n=math.sqrt(float(np.mean(np.sum(error[touching] ** 2, axis=1)))))
    reported = np.flatnonzero(raised & touching)
    if len(reported) == 0:
        return found
    places = run.places[method][reported]
    delay_ms = 1e3 * float(run.time_s[reported[0]] - run.time_s[np.flatnonzero(touching)[0]])
    return replace(found, delay_ms=delay_ms, place_m=_over(np.median, places, math.nan))


@dataclass(frozen=True, slots=True)
class _Contact:
    """A task: one contact, and the same motion without it."""

    settings: SweepSettings
    number: int
    case: Case
    calibration: Calibration


@lru_cache(maxsize=1)
def _bench(settings: SweepSettings) -> tuple[Rig, Monitors]:
    rig = Rig(settings)
    return rig, Monitors(settings, rig)


def _contact(contact: _Contact) -> tuple[Recording, Recording]:
    rig, monitors = _bench(contact.settings)
    monitors.use(contact.calibration)
    rig.begin(contact.number)
    run = _record(rig, monitors, contact.case, present=True)
    return run, _record(rig, monitors, contact.case, present=False)


def _record(rig: Rig, monitors: Monitors, case: Case, *, present: bool) -> Recording:
    monitors.reset(case.arc_length_m)
    rows = []
    for index, sample in enumerate(rig.approach(case, present=present)):
        cycle = monitors.update(sample)
        ratios = monitors.statistics(cycle)
        forces = monitors.forces(cycle, case.arc_length_m) if present else dict.fromkeys(METHODS, np.zeros(2))
        look = present and index % PLACE_EVERY == 0 and max(ratios.values()) > 1
        places = monitors.places(cycle) if look else dict.fromkeys(METHODS, math.nan)
        rows.append((sample, cycle.estimate.in_contact, forces, ratios, places))
    samples, detected, *by_method = zip(*rows, strict=True)
    forces_n, statistic, places_m = (
        {one: np.array([row[one] for row in rows]) for one in METHODS} for rows in by_method
    )
    return Recording(
        case,
        time_s=np.arange(len(samples), dtype=np.float64) * monitors.dt,
        truth=np.array([one.wrench[:2] for one in samples]),
        forces=forces_n,
        statistic=statistic,
        places=places_m,
        detected=np.array(detected),
        c=np.array([one.c for one in samples]),
    )


@experiment(
    "johnston.contact_sweep",
    "johnston, tables 7 and 8 (measured on the robot)",
    paper={
        "gmo_ungated_mean_rmse_x_n": 2.59,
        "gmo_ungated_mean_rmse_y_n": 5.59,
        "gmo_ungated_max_rmse_x_n": 6.63,
        "gmo_ungated_max_rmse_y_n": 14.81,
        "jfd_ungated_mean_rmse_x_n": 3.19,
        "jfd_ungated_mean_rmse_y_n": 5.57,
        "jfd_ungated_max_rmse_x_n": 12.89,
        "jfd_ungated_max_rmse_y_n": 14.80,
        "gmo_detection_rate_by_disk": "none on disks 1 and 2",
        "jfd_detection_rate_by_disk": "none on disks 1 and 2",
        "gmo_arc_length_median_error_percent_of_length": "cannot be identified",
    },
    # Friction and contact switch at other samples where rounding differs.
    tolerances={"*": Tolerance(relative=0.02, absolute=1e-3)},
)
def contact_sweep(progress: Progress, settings: SweepSettings) -> Any:
    """Twenty contacts on five disks with a model that is 5 % wrong: detection, force and place."""
    where = WorkerOptions(settings.workers, settings.scheduler)
    settings = replace(settings, workers=0, scheduler="")
    progress("the robot's model")
    rig, monitors = _bench(settings)
    robot = monitors.model.robot
    progress("free motion for the thresholds")
    rig.begin(0)
    monitors.calibrate(list(rig.free(("+x", "+y"))))
    calibration = monitors.calibration
    items = [_Contact(settings, number, case, calibration) for number, case in enumerate(cases(settings.cases), 1)]
    with tasks(where) as runner:
        recorded = runner.run(_contact, items, counted(progress, len(items), "contacts"))
    runs, free = zip(*recorded, strict=True)
    scores = {method: [score(run, method) for run in runs] for method in METHODS}
    numbers: dict[str, object] = {}
    for method in METHODS:
        numbers |= _numbers(method, runs, scores[method], robot.length_m)
        alarms = [one.early for one in scores[method]] + [score(run, method).early for run in free]
        numbers[f"{method}_false_alarms"] = sum(alarms)
    # What it is worth: the error of a method that reports no force at all.
    nothing = np.array([np.sqrt(np.mean(run.truth**2, axis=0)) for run in runs])
    for k, axis in enumerate("xy"):
        numbers[f"always_zero_mean_rmse_{axis}_n"] = float(nothing[:, k].mean())
        numbers[f"always_zero_max_rmse_{axis}_n"] = float(nothing[:, k].max())
    numbers["contacts"] = len(runs)
    numbers["contact_runs_s"] = float(sum(run.time_s[-1] for run in runs))
    numbers["free_motion_s"] = float(sum(float(run.time_s[-1]) for run in free))
    numbers["largest_force_n"] = float(max(np.linalg.norm(run.truth, axis=1).max() for run in runs))
    numbers["rate_hz"] = settings.rate_hz
    # The run that is drawn in full, as the paper's figs 9 and 10.
    picked = max(runs, key=lambda run: (run.case.disk == EXAMPLE_DISK, run.case.direction == "+x"))
    bending = curvature_range(robot.segments[0], picked.c)
    for k, axis in enumerate("xy"):
        numbers[f"example_largest_curvature_{axis}_per_m"] = float(bending[0][:, k].max())
        numbers[f"example_largest_beta_{axis}_per_m"] = float(bending[1][:, k].max())

    def draw(figure: Figures) -> None:
        across = 0 if picked.case.direction[1] == "x" else 1
        title = f"Contact {picked.case.name} (johnston, figs 9 and 10)"
        with figure(title, 5, 1, name="johnston_contact_sweep_example", sharex=True) as (drawing, axes):
            axes[0].plot(picked.time_s, picked.truth[:, across], color=REFERENCE, linestyle="--", label="true")
            for k, method in enumerate(METHODS):
                axes[0].plot(
                    picked.time_s, picked.forces[method][:, across], color=COLOURS[k], label=METHOD_NAMES[method]
                )
                axes[1].semilogy(picked.time_s, picked.statistic[method], color=COLOURS[k])
                known = np.isfinite(picked.places[method]) & picked.raised(method)
                axes[2].plot(picked.time_s[known], picked.places[method][known], ".", color=COLOURS[k], markersize=3)
            peak = 1.6 * np.abs(picked.truth[:, across]).max()
            axes[0].set_ylim(-peak, peak)
            axes[0].set_ylabel("force in N")
            axes[1].axhline(1, color=REFERENCE, linewidth=0.8)
            axes[1].set_ylim(1e-2, None)
            axes[1].set_ylabel("over threshold")
            axes[2].axhline(picked.case.arc_length_m, color=REFERENCE, linestyle="--")
            axes[2].set_ylim(0, robot.length_m)
            axes[2].set_ylabel("place in m")
            for axis, values, label in zip(axes[3:], bending, ("curvature in 1/m", "beta in 1/m"), strict=True):
                for k, name in enumerate("xy"):
                    axis.plot(picked.time_s, values[:, k], color=COLOURS[3 + k], label=f"about {name}")
                axis.set_ylabel(label)
            axes[3].legend()
            axes[4].set_xlabel("time in s")
            legend_below(drawing, axes[0])
        with figure("Contacts of table 7 in simulation (johnston)", 3, 1, sharex=True) as (drawing, axes):
            for k, method in enumerate(METHODS):
                shift = 0.08 * (k - 1)
                where = np.array([run.case.disk + shift for run in runs])
                axes[0].plot(
                    where, [one.delay_ms for one in scores[method]], ".", color=COLOURS[k], label=METHOD_NAMES[method]
                )
                axes[1].plot(where, [one.contact_error_n for one in scores[method]], ".", color=COLOURS[k])
                axes[2].plot(where, [one.place_m for one in scores[method]], ".", color=COLOURS[k])
            for disk, place in enumerate(PLACES_M, start=1):
                axes[2].plot([disk - 0.3, disk + 0.3], [place, place], color=REFERENCE, linewidth=0.8)
            axes[0].set_yscale("log")
            axes[0].set_ylabel("delay in ms")
            axes[1].set_yscale("log")
            axes[1].set_ylabel("force RMSE in N")
            axes[2].set_ylim(0, robot.length_m)
            axes[2].set_ylabel("place in m")
            axes[2].set_xlabel("touched disk")
            legend_below(drawing, axes[0])

    return numbers, draw


def _numbers(method: str, runs: Sequence[Recording], scores: list[Score], length_m: float) -> dict[str, object]:
    disk = np.array([run.case.disk for run in runs])
    delay, inside = (np.array([getattr(one, name) for one in scores]) for name in ("delay_ms", "contact_error_n"))
    error, ungated = (np.array([getattr(one, name) for one in scores]) for name in ("error_n", "ungated_error_n"))
    place = np.array([[one.place_m, run.case.arc_length_m] for one, run in zip(scores, runs, strict=True)])
    miss = 100 * np.abs(place[:, 0] - place[:, 1]) / length_m
    seen, far = np.isfinite(delay), disk >= FIRST_FAR_DISK
    at = [disk == one for one in sorted(set(disk))]
    numbers = {
        "detection_rate": float(seen.mean()),
        "detection_rate_disks_3_to_5": _over(np.mean, seen[far].astype(float)),
        "median_detection_delay_ms": _over(np.median, delay),
        "force_rmse_n": float(error.mean()),
        "force_rmse_in_contact_n": float(np.sqrt(np.mean(inside**2))),
    }
    for kind, values in (("", error), ("ungated_", ungated)):
        for name, over in (("mean", np.mean), ("max", np.max)):
            numbers |= {f"{kind}{name}_rmse_{axis}_n": float(over(values[:, k])) for k, axis in enumerate("xy")}
    place_error = "arc_length_{}_percent_of_length"
    numbers |= {
        place_error.format("median_error"): _over(np.median, miss),
        place_error.format("median_error_disks_3_to_5"): _over(np.median, miss[far]),
        place_error.format("largest_error_disks_3_to_5"): _over(np.max, miss[far]),
        "detection_rate_by_disk": [float(seen[one].mean()) for one in at],
        "median_detection_delay_by_disk_ms": [_over(np.median, delay[one]) for one in at],
        "force_rmse_in_contact_by_disk_n": [float(np.sqrt(np.mean(inside[one] ** 2))) for one in at],
        "mean_rmse_x_by_disk_n": [float(error[one, 0].mean()) for one in at],
        "mean_rmse_y_by_disk_n": [float(error[one, 1].mean()) for one in at],
        place_error.format("median_error_by_disk"): [_over(np.median, miss[one]) for one in at],
    }
    return {f"{method}_{key}": value for key, value in numbers.items()}


def _over(function: Callable[[Array], Any], values: Array, nothing: Any = None) -> Any:
    """A function of the values that are known; ``nothing`` if none is."""
    known = values[np.isfinite(values)]
    return float(function(known)) if len(known) else nothing
