# SPDX-License-Identifier: Apache-2.0
"""Simulated sensors: string encoders, a fibre, a force sensor and a tracker of the tip.

String encoders are drums on magnetic rotary encoders whose turns are counted. johnston (section 4.1) gives 12 bits, 0.1
mm mean and 0.27 mm largest error over the stroke. Most of that cannot be noise: with 12 bits on a small drum a count is
about 0.01 mm. It is taken as what such encoders have: eccentricity of the magnet and of the drum (one and two periods a
turn) and a drum on which the string does not lie evenly (growing along the stroke), with random phases, scaled so that
mean and maximum over the stroke are as stated.

A fibre and a tracker report late, and lose some reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.protocols import ForceReading, StringReading, TrackedPose
from continuum_robot.drivers.tare import Tare
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.geometry import so3
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import end_pose
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment, modulation_of
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.schema import quantity
from continuum_robot.simulation import faults
from continuum_robot.simulation.bodies.mechanisms import linked_count, linked_tip
from continuum_robot.simulation.devices.channel import (
    Channel,
    Corruption,
    FaultyReadings,
    LateReports,
    gaussian,
    in_sequence,
    quantised,
)
from continuum_robot.simulation.devices.plant_link import StringSource

Array = NDArray[np.float64]


_GRID = 2001
_DRAWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StringEncoderSettings:
    """An encoder and how wrong it is; the defaults are johnston's, with an assumed drum."""

    counts_per_turn: int = quantity("positions of a turn; 12 bits: 4096", default=4096, ge=4, le=2**24)
    drum_radius_m: float = quantity("radius at which the string winds", "m", default=0.008, gt=0, le=1)
    mean_error_m: float = quantity("mean size of the error over the stroke", "m", default=1.0e-4, ge=0, le=0.1)
    largest_error_m: float = quantity("largest size of the error over the stroke", "m", default=2.7e-4, ge=0, le=0.1)
    noise_m: float = quantity("standard deviation of the white part of the error", "m", default=5e-6, ge=0, le=0.1)
    stroke_m: float = quantity("stroke, of which home is the middle", "m", default=0.12, gt=0, le=10)

    @property
    def resolution_m(self) -> float:
        """Length of a count, m."""
        return 2 * math.pi * self.drum_radius_m / self.counts_per_turn


class StringEncoderModel:
    """Encoders of several strings, each with a fixed systematic error of its own, drawn once, and white noise."""

    def __init__(self, count: int, settings: StringEncoderSettings, rng: np.random.Generator) -> None:
        if count < 1:
            raise ParameterError("count", count, "at least one encoder")
        self.settings, self._rng = settings, rng
        self._first, self._second, self._fraction = np.zeros(count), np.zeros(count), np.zeros(count)
        self._sides, self._sizes = np.ones(count), np.zeros((count, 2))
        if settings.mean_error_m > 0:
            for index in range(count):
                self._draw(index)

    def _draw(self, index: int) -> None:
        """Draw shapes of the error until one can have the desired mean and maximum."""
        settings = self.settings
        # Noise and resolution add to the largest error; three deviations of both are kept free.
        spare_m = 3 * math.hypot(settings.noise_m, settings.resolution_m / math.sqrt(12))
        largest_m = settings.largest_error_m - spare_m
        grid = np.linspace(-settings.stroke_m / 2, settings.stroke_m / 2, _GRID)[:, None]
        for _ in range(_DRAWS):
            self._first[index], self._second[index] = self._rng.uniform(0, 2 * math.pi, 2)
            self._fraction[index] = self._rng.uniform(0.1, 0.5)
            self._sides[index] = self._rng.choice([-1.0, 1.0])
            waves, bows = self._waves(grid)[:, index], self._bows(grid)[:, index]
            sizes = _sizes(waves, bows, settings.mean_error_m, largest_m)
            if sizes is not None:
                self._sizes[index] = sizes
                return
        raise ParameterError(
            "largest_error_m",
            settings.largest_error_m,
            f"about 2 to 6 times the mean error of {settings.mean_error_m:g} m, noise and resolution added",
        )

    def systematic_error(self, extension_m: ArrayLike) -> Array:
        """Systematic error, a smooth function of the extension that is 0 at home."""
        extension = np.asarray(extension_m, dtype=float)
        return self._sizes[:, 0] * self._waves(extension) + self._sizes[:, 1] * self._bows(extension)

    def counts(self, extension_m: ArrayLike) -> NDArray[np.int64]:
        """What the counters of the turns say at true extensions (shape (k,), m): 0 at home; draws the noise."""
        extension = np.asarray(extension_m, dtype=float)
        wrong = extension + self.systematic_error(extension)
        if self.settings.noise_m > 0:
            wrong = wrong + self.settings.noise_m * self._rng.standard_normal(wrong.shape)
        return np.floor(wrong / self.settings.resolution_m + 0.5).astype(np.int64)

    def read(self, extension_m: Array) -> Array:
        """Measured extensions (k,) in m for true ones; draws the noise."""
        return np.asarray(self.counts(extension_m) * self.settings.resolution_m, dtype=float)

    def _waves(self, extension: Array) -> Array:
        turn = extension / self.settings.drum_radius_m
        value = np.sin(turn + self._first) + self._fraction * np.sin(2 * turn + self._second)
        return value - np.sin(self._first) - self._fraction * np.sin(self._second)

    def _bows(self, extension: Array) -> Array:
        fraction = 2 * extension / self.settings.stroke_m
        return self._sides * np.maximum(fraction * self._sides, 0.0) ** 3


def _sizes(wave: Array, bow: Array, mean_m: float, largest_m: float) -> Array | None:
    """Sizes of the periodic and the growing part whose sum has this mean and maximum; None where there are none."""

    def mix(angle: float) -> Array:
        return math.cos(angle) * wave + math.sin(angle) * bow

    def miss(angle: float) -> float:
        error = np.abs(mix(angle))
        return float(error.max() / error.mean()) - largest_m / mean_m

    # From the periodic part alone, about twice its mean at most, to the growing part alone, eight times.
    angles = np.linspace(0, math.pi / 2, 46)
    misses = np.array([miss(angle) for angle in angles])
    change = np.flatnonzero(misses[:-1] * misses[1:] <= 0)
    if change.size == 0:
        return None
    angle = float(scipy.optimize.brentq(miss, angles[change[0]], angles[change[0] + 1], xtol=1e-12))
    return np.array([math.cos(angle), math.sin(angle)]) * mean_m / np.abs(mix(angle)).mean()


STRINGS_STALE_AFTER_S = 0.05


class SimulatedStringEncoders:
    """All string encoders of a robot, simulated, with noise, resolution and systematic error of the robot file.

    The true extensions come from the plant, in this process or through a link from another. Where the source is silent
    for longer than ``stale_after_s`` the readings are NaN with a growing age.
    """

    simulated = True

    def __init__(
        self,
        robot: Robot,
        source: StringSource,
        rng: np.random.Generator | None = None,
        *,
        stale_after_s: float = STRINGS_STALE_AFTER_S,
    ) -> None:
        if not robot.strings:
            raise ParameterError("robot.strings", robot.strings, f"strings in the file of robot {robot.name!r}")
        self.string_count = len(robot.strings)
        self._sizes = self.string_count, linked_count(robot)  # in this process, and from another
        self._source, self._stale_after_s = source, stale_after_s
        # The actuators draw from the seed itself.
        rng = np.random.default_rng([robot.simulation.seed, 1]) if rng is None else rng
        self._channel = Channel(corrupt=string_error(robot, rng), memory_s=faults.LONGEST_DELAY_S)
        known = tuple(name for name, kind in faults.FAULTS.items() if kind.sensor)
        self._faults = faults.FaultBoard(self.string_count, "string", known)
        self._is_open = False
        self._readings = FaultyReadings(self._faults, self._channel, rng)
        self._now_s: float | None = None

    def open(self) -> None:
        """Start; the plant need not run yet."""
        self._source.open()
        self._readings.forget()
        self._is_open = True

    def read(self, now_s: float) -> StringReading:
        """The newest reading."""
        if not self._is_open:
            raise DeviceError("simulated string encoders", "are not open", "Open them first.")
        self._now_s = now_s
        truth = self._source.read()
        if truth is not None:
            if truth.extension_m.size not in self._sizes:
                raise DeviceError(
                    "simulated string encoders",
                    f"the plant has {truth.extension_m.size} values, strings and tip, the robot file {self._sizes[1]}",
                    "Start both with the same robot file.",
                )
            self._channel.push(truth.extension_m[: self.string_count], truth.time_s)
        sample = self._channel.read(math.inf)
        if sample is None or now_s - sample.stamp_s > self._stale_after_s:
            age_s = math.inf if sample is None else now_s - sample.stamp_s
            return StringReading(now_s, np.full(self.string_count, np.nan), np.full(self.string_count, age_s))
        values, age = self._readings.served(sample, now_s)
        return StringReading(sample.stamp_s, values, age)

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._source.close()

    def inject(
        self,
        fault: str,
        string: int = -1,
        magnitude: float = 0.0,
        duration_s: float = 0.0,
        *,
        start_s: float | None = None,
    ) -> None:
        """Inject or schedule a fault of readings; as those of the tendon actuators, for strings."""
        self._faults.inject(fault, string, magnitude, duration_s, now_s=self._now_s, start_s=start_s)


def string_error(robot: Robot, rng: np.random.Generator) -> Corruption:
    """What the encoders make of true extensions: noise and resolution, and systematic errors where the file has any."""
    settings = robot.simulation
    if settings.string_mean_error_m == 0:
        return in_sequence(gaussian(settings.string_noise_m, rng), quantised(settings.string_resolution_m))
    encoder = StringEncoderSettings(
        counts_per_turn=settings.string_counts_per_turn,
        drum_radius_m=settings.string_resolution_m * settings.string_counts_per_turn / (2 * math.pi),
        mean_error_m=settings.string_mean_error_m,
        largest_error_m=settings.string_largest_error_m,
        noise_m=settings.string_noise_m,
        stroke_m=settings.string_stroke_m,
    )
    return StringEncoderModel(len(robot.strings), encoder, rng).read


@dataclass(frozen=True, slots=True, kw_only=True)
class FiberErrors:
    """What a simulated fibre and its interrogator do wrong."""

    noise_per_m: float = quantity(
        "standard deviation of each curvature's noise", "1/m", default=0.01, ge=0, le=10, live=True
    )
    offset_per_m: float = quantity(
        "standard deviation of each curvature's constant error, drawn once", "1/m", default=0.03, ge=0, le=10, live=True
    )
    delay_s: float = quantity(
        "age of the curvatures when they are reported; their stamp is when they were read",
        "s",
        default=0.005,
        ge=0,
        le=0.4,
        live=True,
    )
    lost: float = quantity("fraction of the readings that are lost; 1: an outage", default=0.0, ge=0, le=1, live=True)


@dataclass(frozen=True, slots=True)
class MeasuredCurvature:
    """Curvatures about x and y at every grating."""

    time_s: float
    curvature: Array


class SimulatedFiber:
    """Reads curvatures, and reports them later."""

    def __init__(self, errors: FiberErrors, rng: np.random.Generator) -> None:
        self.errors, self._rng = errors, rng
        self._offset: Array | None = None  # of standard deviation 1
        self._late: LateReports[MeasuredCurvature] = LateReports()

    def look(self, time_s: float, curvature: Array) -> None:
        """Read the gratings at a time, s."""
        if self._offset is None:
            self._offset = self._rng.standard_normal(len(curvature))
        noise = self.errors.noise_per_m * self._rng.standard_normal(len(curvature))
        if self._rng.random() >= self.errors.lost:
            self._late.add(MeasuredCurvature(time_s, curvature + self.errors.offset_per_m * self._offset + noise))

    def reported(self, now_s: float) -> list[MeasuredCurvature]:
        """What comes until now, s, and has not come before."""
        return self._late.until(now_s, self.errors.delay_s)


ROOM_TEMPERATURE_C = 25.0


class SimulatedForceSensor:
    """A sensor that measures a given wrench, a new sample a period."""

    simulated = True

    def __init__(
        self,
        wrench: Callable[[], Array],
        frame_id: str = "force_sensor",
        *,
        rate_hz: float = 200.0,
        force_noise_n: float = 0.0,
        moment_noise_nm: float = 0.0,
        offset: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not 0 < rate_hz < math.inf:
            raise ParameterError("rate_hz", rate_hz, "a positive rate in Hz")
        if not (force_noise_n >= 0 and moment_noise_nm >= 0):
            raise ParameterError("noise", (force_noise_n, moment_noise_nm), "two standard deviations of at least 0")
        self.frame_id = frame_id
        self._wrench, self._rate_hz = wrench, rate_hz
        self._noise = np.repeat([force_noise_n, moment_noise_nm], 3)
        self._offset = np.zeros(6) if offset is None else np.asarray(offset, dtype=float)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._tare = Tare()
        self._is_open = False
        self._sample: Array = np.full(6, math.nan)
        self._stamp_s = -math.inf
        self._start_s: float | None = None
        self._samples = -1

    def open(self) -> None:
        """Start."""
        self._is_open, self._start_s, self._samples = True, None, -1

    def read(self, now_s: float) -> ForceReading:
        """The newest sample."""
        self._require_open()
        if self._start_s is None:
            self._start_s = now_s
        due = math.floor((now_s - self._start_s) * self._rate_hz + 1e-6)
        if due > self._samples:
            self._samples, self._stamp_s = due, now_s
            true = np.asarray(self._wrench(), dtype=float)
            self._sample = true + self._offset + self._noise * self._rng.standard_normal(6)
            self._tare.update(self._sample)
        return ForceReading(self._stamp_s, self._sample - self._tare.bias, now_s - self._stamp_s, ROOM_TEMPERATURE_C)

    @property
    def taring(self) -> bool:
        """Whether a tare is on its way."""
        return self._tare.active

    @property
    def tare_problem(self) -> str:
        """Why the last tare changed nothing; empty where it did."""
        return self._tare.problem

    def start_tare(self, samples: int = 200) -> None:
        """From now on measure from the mean of the next samples."""
        self._require_open()
        self._tare.start(samples)

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._tare.stop("the sensor was closed meanwhile")

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError("simulated force sensor", "is not open", "Open it first.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerErrors:
    """What a simulated tracker does wrong."""

    noise_m: float = quantity("standard deviation of the place in each axis", "m", default=1e-4, ge=0, le=1e-2)
    noise_rad: float = quantity("standard deviation of the turn about each axis", "rad", default=2e-3, ge=0, le=1)
    delay_s: float = quantity("age of a pose when it is reported", "s", default=0.015, ge=0, le=0.4)
    lost: float = quantity("fraction of the poses that are lost", default=0.0, ge=0, le=1)


class SimulatedTracker:
    """Sees poses, and reports them later."""

    def __init__(self, errors: TrackerErrors, rng: np.random.Generator) -> None:
        self.errors, self._rng = errors, rng
        self._late: LateReports[TrackedPose] = LateReports()

    def look(self, time_s: float, tip: Array) -> None:
        """See the true tip, shape (4, 4), at a time, s."""
        errors, rng = self.errors, self._rng
        seen = np.array(tip)
        seen[:3, 3] += errors.noise_m * rng.standard_normal(3)
        seen[:3, :3] = so3.exp(errors.noise_rad * rng.standard_normal(3)) @ seen[:3, :3]
        if rng.random() >= errors.lost:
            self._late.add(TrackedPose(time_s, seen))

    def reported(self, now_s: float) -> list[TrackedPose]:
        """What comes until now, s, and has not come before."""
        return self._late.until(now_s, self.errors.delay_s)


class PlantTracker:
    """A tracker without a clock that sees a plant's tip: it stamps a pose when it comes."""

    simulated = True

    def __init__(
        self,
        plant: Callable[[], Array],
        place: Recording | None,
        errors: TrackerErrors,
        rng: np.random.Generator,
        rate_hz: float,
    ) -> None:
        self._plant, self._tracker, self._period_s = plant, SimulatedTracker(errors, rng), 1 / rate_hz
        self._base, self._marker = np.eye(4), np.eye(4)
        if place is not None:
            self._base[:3, :3] = so3.exp(np.array(place.base_rotation_in_tracker_rad))
            self._base[:3, 3], self._marker[:3, 3] = place.base_in_tracker_m, place.marker_in_tip_m
        self._next_s = -math.inf
        self._waiting: list[TrackedPose] = []

    def open(self) -> None:
        """Nothing to begin."""

    def read(self, now_s: float) -> TrackedPose | None:
        """See the tip where it is due, and report what comes now; as of :class:`~.protocols.Tracker`."""
        if now_s >= self._next_s:
            self._next_s = max(self._next_s, now_s - self._period_s) + self._period_s
            self._tracker.look(now_s, self._base @ self._plant() @ self._marker)
        self._waiting += self._tracker.reported(now_s)
        if not self._waiting:
            return None
        seen = self._waiting.pop(0)
        return TrackedPose(seen.time_s + self._tracker.errors.delay_s, seen.tip)

    def close(self) -> None:
        """Nothing to end."""


def true_tip(robot: Robot, model_error: float = 0.0) -> Callable[[Array], Array | None]:
    """How the true tip follows from what a simulated robot links to sensors in other processes."""
    if not robot.traits.tip_nodes:
        return lambda values: linked_tip(robot, values)
    mechanism = modulation_of(robot)
    segment = make_segment(mechanism)
    error = LinearMomentError(*(make_moment_error(mechanism).parameters * (1 + model_error)))
    spread = clarke_manifold(robot).displacement_matrix[: mechanism.backbone_count, :2]

    def of_modulation(values: Array) -> Array | None:
        if values.size < 3 or not math.isfinite(values.sum()):
            return None
        theta, delta = segment.configuration(spread @ values[:2])
        return np.asarray(end_pose(modulated_equilibrium(segment, theta, delta, values[2], error), segment))

    return of_modulation
