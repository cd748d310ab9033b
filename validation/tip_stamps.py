# SPDX-License-Identifier: Apache-2.0
"""A tracker of the tip whose stamps are late, uneven or come in bunches: what the fused tip is worth.

A segment of constant curvature moves its tip; the true one bends by a fraction more than the model, is turned about its
base and stands a little off, all scaled to a root mean square error that is asked for. The tracker sees the true tip
and stamps its poses in one of the ways of real chains. The error is that of the fused tip, after the time in which is
learned, against that of the model alone and against that with the stamps of the exposures.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.tracked_tip import TrackedTip
from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, legend_below
from continuum_robot.geometry import se3, so3
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

SHAPE_S = 0.01
LENGTH_M = 0.2
SCALE_M = 0.0105
EXPOSURE, LATE, JITTER, BATCHES, QUEUE, CLOCK = "exposure", "late", "jitter", "batches", "queue", "clock"
FIGURES = ("circle", "line", "eight")
STAMPS = (EXPOSURE, LATE, JITTER, BATCHES, QUEUE, CLOCK)
"""Stamps of the exposure; late by a constant; unevenly late, half to one and a half times as much; given to several
poses at once when the last of them is there; given on receipt behind a line that is blocked now and then; of a clock
that is behind."""


@dataclass(frozen=True, kw_only=True)
class StampSettings:
    """Options of the experiment."""

    stamps: str = quantity("how poses are stamped; empty: in all ways", default="", choices=("", *STAMPS))
    rate_hz: float = quantity("poses a second", "Hz", default=60.0, ge=5, le=500)
    delay_s: float = quantity("by which stamps are late, in the mean", "s", default=0.03, ge=0, le=0.3)
    batch: int = quantity("poses in a batch", default=6, ge=1, le=100)
    lost: float = quantity("fraction of the poses that are lost", default=0.02, ge=0, lt=1)
    noise_m: float = quantity("of a place in each axis", "m", default=2e-4, ge=0, le=0.1)
    motion_hz: float = quantity("frequency of the tip's circle; 0: it stands", "Hz", default=0.5, ge=0, le=10)
    figure: str = quantity("path of the tip; empty: all", default="", choices=("", *FIGURES))
    bend_rad: float = quantity("of the robot at the path's outside", "rad", default=0.6, gt=0, le=3)
    model_error_m: float = quantity("root mean square error of the model", "m", default=3e-3, ge=0, le=0.1)
    duration_s: float = quantity("of a run", "s", default=20.0, gt=1, le=1000)
    learning_s: float = quantity("before errors count", "s", default=10.0, ge=0, le=1000)
    seed: int = quantity("of noise and delays", default=1, ge=0, le=2**31)


def bent(coordinates: Array) -> Array:
    """Frame of the tip of a segment of constant curvature, shape (4, 4), m; of its coordinates, m."""
    turn = np.array([-coordinates[1], coordinates[0], 0.0]) / SCALE_M
    angle = max(float(np.linalg.norm(turn)), 1e-9)
    across, along = LENGTH_M * (1 - np.cos(angle)) / angle, LENGTH_M * np.sin(angle) / angle
    return se3.transform(so3.exp(turn), [across * turn[1] / angle, -across * turn[0] / angle, along])


class Motion:
    """The tip along its path, by the model and truly."""

    def __init__(self, settings: StampSettings) -> None:
        self._settings = settings
        self._gain, self._turn, self._shift = 1.0, np.eye(3), np.zeros(3)
        rng = np.random.default_rng([settings.seed, 3])
        signs = rng.choice([-1.0, 1.0], 3)
        period_s = 1 / settings.motion_hz if settings.motion_hz else 1.0
        times = np.linspace(0, period_s, 24, endpoint=False)
        size = settings.model_error_m
        for _ in range(8):  # the error is nearly proportional to its size
            self._gain = 1 + 14 * size * signs[0]
            self._turn = so3.exp([2 * size * signs[1], 0.0, 2.5 * size * signs[2]])
            self._shift = 0.3 * size * signs
            rms = np.sqrt(np.mean([np.sum((self.true(t) - self.model(t)[:3, 3]) ** 2) for t in times]))
            size *= settings.model_error_m / max(float(rms), 1e-12)

    def coordinates(self, time_s: float) -> Array:
        """Clarke coordinates, shape (2,), m."""
        settings = self._settings
        phase = 2 * np.pi * settings.motion_hz * time_s
        x, y = np.sin(phase), np.cos(phase)
        if settings.figure == "line":
            y = 0.6 * x
        elif settings.figure == "eight":
            y = 0.5 * np.sin(2 * phase)
        return settings.bend_rad * SCALE_M * np.array([x, y])

    def model(self, time_s: float) -> Array:
        """Frame of the tip by the model."""
        return bent(self.coordinates(time_s))

    def true(self, time_s: float) -> Array:
        """True place of the tip, shape (3,), m."""
        return self._turn @ bent(self._gain * self.coordinates(time_s))[:3, 3] + self._shift


def stamped(settings: StampSettings) -> tuple[Array, Array, Array]:
    """Times of exposure, stamp and arrival of poses, s, in the order of their arrival."""
    rng = np.random.default_rng([settings.seed, 1])
    exposed = np.arange(0.0, settings.duration_s, 1 / settings.rate_hz)
    exposed = exposed[rng.random(exposed.size) >= settings.lost]
    late = exposed + settings.delay_s
    kind = settings.stamps
    if kind == EXPOSURE:
        return exposed, exposed, late
    if kind == LATE:
        return exposed, late, late
    if kind == CLOCK:
        return exposed, exposed - settings.delay_s, late
    if kind == JITTER:
        late = exposed + settings.delay_s * rng.uniform(0.5, 1.5, exposed.size)
        late = np.maximum.accumulate(late)
    elif kind == BATCHES:
        number = np.arange(exposed.size) // settings.batch
        last = np.minimum((number + 1) * settings.batch, exposed.size) - 1
        late = late[last] + 3e-6 * (np.arange(exposed.size) % settings.batch)
    else:
        free_s = 0.0
        for k in range(exposed.size):
            if rng.random() < 6 / settings.rate_hz:
                free_s = max(free_s, late[k] + rng.uniform(0.03, 0.3))
            free_s = late[k] = max(late[k], free_s + 3e-6)
    return exposed, late, late


@dataclass(frozen=True)
class Errors:
    """Of a run: of the fused tip and of the model's over time, m, and what the fusion found."""

    time_s: Array
    fused_m: Array
    model_m: Array
    delay_s: float
    fault: str

    def rms_m(self, learning_s: float) -> tuple[float, float]:
        """Of the fused tip and of the model's, after the learning."""
        late = self.time_s > learning_s
        return tuple(float(np.sqrt(np.mean(one[late] ** 2))) for one in (self.fused_m, self.model_m))  # type: ignore[return-value]


def run(settings: StampSettings) -> Errors:
    """A tip on its path, and what is fused of it."""
    motion, tracked = Motion(settings), TrackedTip(load_robot("opencr_five_tendon"))
    rng = np.random.default_rng([settings.seed, 2])
    exposed, stamps, arrivals = stamped(settings)
    times = SHAPE_S * np.arange(1, round(settings.duration_s / SHAPE_S))
    fused, model, k = np.empty(times.size), np.empty(times.size), 0
    for i, now_s in enumerate(times):
        while k < exposed.size and arrivals[k] <= now_s:
            tracked.see_pose(stamps[k], motion.true(exposed[k]) + rng.normal(0, settings.noise_m, 3))
            k += 1
        tip, true = motion.model(now_s), motion.true(now_s)
        seen = tracked.see_shape(now_s, tip, motion.coordinates(now_s))
        fused[i], model[i] = np.linalg.norm(seen[:3, 3] - true), np.linalg.norm(tip[:3, 3] - true)
    return Errors(np.asarray(times), fused, model, tracked.delay.delay_s, tracked.fault)


@experiment(
    "tip.stamps",
    "no paper: estimation/tracked_tip.py",
    tolerances={"rms*": Tolerance(relative=0.02), "delay*": Tolerance(absolute=1e-4)},
)
def stamps(progress: Progress, settings: StampSettings) -> Any:
    """The tip by a tracker whose stamps are late, uneven or come in bunches, against the model alone."""
    numbers: dict[str, object] = {}
    runs: dict[tuple[str, str], Errors] = {}
    for path in (settings.figure,) if settings.figure else FIGURES:
        for kind in (settings.stamps,) if settings.stamps else STAMPS:
            progress(f"{path}: stamps {kind}")
            errors = run(dataclasses.replace(settings, stamps=kind, figure=path))
            runs[path, kind] = errors
            numbers[f"rms_{path}_{kind}_m"], numbers[f"rms_{path}_model_m"] = errors.rms_m(settings.learning_s)
            numbers[f"delay_{path}_{kind}_s"] = errors.delay_s
            numbers[f"fault_{path}_{kind}"] = errors.fault
    return numbers, partial(_draw, runs)


def _draw(runs: dict[tuple[str, str], Errors], figure: Figures) -> None:
    paths = list(dict.fromkeys(path for path, _ in runs))
    with figure("The tip by a tracker with uneven stamps", 1, len(paths)) as (drawing, axes):
        for path, axis in zip(paths, np.atleast_1d(axes), strict=True):
            kinds = [kind for one, kind in runs if one == path]
            for colour, kind in zip(COLOURS, kinds, strict=False):
                one = runs[path, kind]
                axis.semilogy(one.time_s[::5], 1e3 * one.fused_m[::5], color=colour, label=kind, linewidth=0.8)
            axis.semilogy(one.time_s[::5], 1e3 * one.model_m[::5], "--", color="0.4", label="model", linewidth=0.8)
            axis.set(title=path, xlabel="time in s", ylabel="error of the tip in mm")
        legend_below(drawing, np.atleast_1d(axes)[0])
