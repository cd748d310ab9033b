# SPDX-License-Identifier: Apache-2.0
"""Trajectories of the Clarke coordinates, each with its exact velocity and acceleration."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.blending import blend_from, quintic, quintic_curvature, quintic_slope
from continuum_robot.csv_table import CsvTable, read_csv_table
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.robot.base_stage import BaseStage
from continuum_robot.robot.control_settings import REFERENCE_KINDS, ReferenceSettings
from continuum_robot.robot.doors import REFERENCES, made

Vector = NDArray[np.float64]

STAGE_COLUMNS = ("insertion_m", "rotation_rad")
"""Of a reference CSV, in the order of the stage's axes."""
_ROUNDING = 1e-6  # of a speed in a file's digits


@dataclass(frozen=True, slots=True)
class ClarkeReference:
    """Where the Clarke coordinates [q_Re,1, q_Im,1, ...] should be at one time.

    Attributes
    ----------
    position : shape (2m,), m
    velocity : shape (2m,), m/s
    acceleration : shape (2m,), m/s^2
    """

    position: Vector
    velocity: Vector
    acceleration: Vector

    @classmethod
    def at_rest(cls, position: Vector) -> ClarkeReference:
        """A reference that stands still at a position, shape (2m,), m."""
        return cls(position, np.zeros_like(position), np.zeros_like(position))


class Reference(Protocol):
    """A trajectory of the Clarke coordinates from time 0 on."""

    @property
    def duration_s(self) -> float:
        """Time from which on it stands still, s; inf for one without end, as most are."""
        return math.inf

    def at(self, t_s: float, /) -> ClarkeReference:
        """The reference at a time, s; before 0 it rests where it starts, after the end where it ends."""


def make_reference(
    settings: ReferenceSettings,
    coordinate_count: int,
    base_folder: Path | str | None = None,
    stage: BaseStage | None = None,
) -> Reference:
    """The trajectory that a robot file, or a user, asks for.

    Parameters
    ----------
    settings : kind and numbers; another kind than those of this package is a class that another one offers under the
        entry points ``continuum_robot.references``, made with these settings and the number of coordinates
    coordinate_count : 2m
    base_folder : folder from which a relative ``file`` counts; None: the working directory
    stage : of the robot, which a CSV file may move too; None: none

    Returns
    -------
    the trajectory

    Raises
    ------
    ParameterError : lists whose length does not fit the number of coordinates, or an unknown kind
    RecordingError : a CSV file that cannot be used
    """
    if settings.kind not in REFERENCE_KINDS:
        own: Reference = made(REFERENCES, settings.kind, "kind", settings, coordinate_count, known=REFERENCE_KINDS)
        return own
    if settings.kind == "csv":
        return read_csv_reference(Path(base_folder or ".") / Path(settings.file).expanduser(), coordinate_count, stage)
    amplitude = settings.amplitude_m
    if settings.kind == "hold" and not amplitude:
        amplitude = (0.0,) * coordinate_count
    if len(amplitude) != coordinate_count:
        raise ParameterError("amplitude_m", amplitude, f"{coordinate_count} values, one a coordinate")
    amplitude_m = np.array(amplitude, dtype=float)
    if settings.kind == "hold":
        return Hold(amplitude_m)
    if settings.kind == "steps":
        return Steps(amplitude_m, settings.period_s)
    if settings.kind == "rest_to_rest":
        return RestToRest(np.zeros(coordinate_count), amplitude_m, settings.period_s)
    if len(settings.frequency_hz) not in (1, coordinate_count):
        raise ParameterError("frequency_hz", settings.frequency_hz, f"1 or {coordinate_count} values")
    frequency_hz = np.broadcast_to(np.array(settings.frequency_hz, dtype=float), (coordinate_count,))
    if settings.kind == "chirp":
        return Chirp(amplitude_m, frequency_hz, settings.frequency_rate_hz_per_s, settings.rise_s)
    return Circle(amplitude_m, frequency_hz, settings.frequency_rate_hz_per_s, settings.rise_s, settings.period_s)


def blend(start: Vector, reference: ClarkeReference, x: float, duration_s: float) -> ClarkeReference:
    """From a standing position into a moving reference: ``start + w (reference - start)``, w a quintic polynomial."""
    position, velocity, acceleration = (
        [float(value) for value in part] for part in (reference.position, reference.velocity, reference.acceleration)
    )
    blend_from([float(value) for value in start], position, velocity, acceleration, len(position), x, duration_s)
    return ClarkeReference(np.array(position), np.array(velocity), np.array(acceleration))


@dataclass(frozen=True)
class Hold(Reference):
    """Stand still at ``position_m``, shape (2m,)."""

    position_m: Vector

    @property
    def duration_s(self) -> float:
        """0: it stands still from the start."""
        return 0.0

    def at(self, _t_s: float, /) -> ClarkeReference:
        """The reference at a time, s."""
        return ClarkeReference.at_rest(self.position_m)


@dataclass(frozen=True)
class Steps(Reference):
    """All coordinates step through 0, +amplitude, 0, -amplitude, each for ``dwell_s``, without end.

    Attributes
    ----------
    amplitude_m : shape (2m,), m
    dwell_s : s
    """

    amplitude_m: Vector
    dwell_s: float

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s; its velocity is 0, also where it steps."""
        sign = (0.0, 1.0, 0.0, -1.0)[int(max(t_s, 0.0) / self.dwell_s) % 4]
        return ClarkeReference.at_rest(sign * self.amplitude_m)


@dataclass(frozen=True)
class _Sweep(Reference):
    """Frequencies that rise linearly for a while, then fall back, and so on: no robot follows a rise without end."""

    amplitude_m: Vector
    frequency_hz: Vector
    frequency_rate_hz_per_s: float
    rise_s: float

    def _phase(self, t_s: float) -> tuple[Vector, Vector, float]:
        """2 pi (f t + rate t^2 / 2) within the first rise, rad, and its first two derivatives."""
        start, rate, rise_s = self.frequency_hz, self.frequency_rate_hz_per_s, self.rise_s
        rounds, t_s = divmod(t_s, 2 * rise_s)
        turns = rounds * rise_s * (2 * start + rate * rise_s)
        if t_s > rise_s:
            turns = turns + rise_s * (start + rate * rise_s / 2)
            start, rate, t_s = start + rate * rise_s, -rate, t_s - rise_s
        turns = turns + (start * t_s + rate * t_s**2 / 2)
        return 2 * np.pi * turns, 2 * np.pi * (start + rate * t_s), 2 * np.pi * rate


@dataclass(frozen=True)
class Chirp(_Sweep):
    """Sines whose frequencies rise linearly: amplitude sin(2 pi (f t + rate t^2 / 2)), muhmann sections IV-C, D."""

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        if t_s < 0:
            return ClarkeReference.at_rest(np.zeros_like(self.amplitude_m))
        phase, phase_rate, phase_acceleration = self._phase(t_s)
        sine, cosine = np.sin(phase), np.cos(phase)
        return ClarkeReference(
            self.amplitude_m * sine,
            self.amplitude_m * phase_rate * cosine,
            self.amplitude_m * (phase_acceleration * cosine - phase_rate**2 * sine),
        )


@dataclass(frozen=True)
class Circle(_Sweep):
    """Each segment's coordinates turn on a circle: q_Re by the cosine, q_Im by the sine, entered smoothly from 0.

    The radius grows from 0 to ``amplitude_m`` within ``entry_s`` by a quintic polynomial. With two amplitudes of a
    segment that differ it is an ellipse, with two frequencies a Lissajous figure.
    """

    entry_s: float

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        t_s = max(t_s, 0.0)
        fraction, fraction_rate, fraction_acceleration = rest_to_rest_fraction(t_s, self.entry_s)
        phase, phase_rate, phase_acceleration = self._phase(t_s)
        phase = phase.copy()
        phase[1::2] -= np.pi / 2  # the sine of the second coordinate as a cosine
        sine, cosine = np.sin(phase), np.cos(phase)
        turn_rate = -phase_rate * sine
        turn_acceleration = -phase_acceleration * sine - phase_rate**2 * cosine
        return ClarkeReference(
            self.amplitude_m * fraction * cosine,
            self.amplitude_m * (fraction_rate * cosine + fraction * turn_rate),
            self.amplitude_m
            * (fraction_acceleration * cosine + 2 * fraction_rate * turn_rate + fraction * turn_acceleration),
        )


@dataclass(frozen=True)
class RestToRest(Reference):
    """Move between two positions by a quintic polynomial: velocity and acceleration are 0 at both ends.

    Attributes
    ----------
    start_m, end_m : shape (2m,), m
    move_s : s
    """

    start_m: Vector
    end_m: Vector
    move_s: float

    @property
    def duration_s(self) -> float:
        """Time of the move, s."""
        return self.move_s

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        fraction, rate, acceleration = rest_to_rest_fraction(t_s, self.move_s)
        way = self.end_m - self.start_m
        return ClarkeReference(self.start_m + fraction * way, rate * way, acceleration * way)


class Interpolated(Reference):
    """Cubic Hermite curve through samples: it passes every sample, and its velocity is continuous.

    Where the velocity at a sample is not given, it is that of the parabola through it and its two neighbours, and 0 at
    both ends. The velocity that :meth:`at` gives is the derivative of the position that it gives.
    """

    stage: Interpolated | None = None

    def __init__(self, times_s: Vector, positions_m: Vector, velocities_m_per_s: Vector | None = None) -> None:
        steps = np.diff(times_s)[:, None]
        slopes = np.diff(positions_m, axis=0) / steps
        self._knots: list[float] = times_s.tolist()
        self._positions = positions_m
        self._velocities = np.zeros_like(positions_m)
        self._velocities[1:-1] = (steps[1:] * slopes[:-1] + steps[:-1] * slopes[1:]) / (steps[1:] + steps[:-1])
        if velocities_m_per_s is not None:
            given = np.isfinite(velocities_m_per_s)
            self._velocities[given] = velocities_m_per_s[given]

    @property
    def duration_s(self) -> float:
        """Time of the last sample, s."""
        return self._knots[-1]

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s."""
        knots, positions, velocities = self._knots, self._positions, self._velocities
        if t_s <= 0 or t_s >= knots[-1]:
            return ClarkeReference.at_rest(positions[0 if t_s <= 0 else -1])
        index = bisect.bisect_right(knots, t_s) - 1
        step = knots[index + 1] - knots[index]
        x = (t_s - knots[index]) / step
        way = positions[index + 1] - positions[index]
        before, after = velocities[index] * step, velocities[index + 1] * step
        # p(x) = p_0 + before x + b x^2 + c x^3 with the end's position and velocity met.
        b, c = 3 * way - 2 * before - after, before + after - 2 * way
        return ClarkeReference(
            positions[index] + x * (before + x * (b + x * c)),
            (before + x * (2 * b + 3 * x * c)) / step,
            (2 * b + 6 * x * c) / step**2,
        )


def reference_columns(coordinate_count: int) -> tuple[str, ...]:
    """Column names of a reference CSV: q_re_1_m, q_im_1_m, q_re_2_m, ..."""
    parts = range((coordinate_count + 1) // 2)
    return tuple(f"q_{part}_{index + 1}_m" for index in parts for part in ("re", "im"))[:coordinate_count]


def read_csv_reference(file: Path, coordinate_count: int, stage: BaseStage | None = None) -> Interpolated:
    """Read a trajectory from a CSV file with a header line."""
    columns = reference_columns(coordinate_count)
    table = read_csv_table(file, ("time_s", *columns), further=STAGE_COLUMNS.__contains__)
    table.check_length(2)
    table.check_increasing("time_s")
    times = table.numbers(["time_s"])[:, 0]
    reference = Interpolated(times - times[0], table.numbers(columns))
    if any(name in table.header for name in STAGE_COLUMNS):
        reference.stage = _stage_way(table, times - times[0], stage)
    return reference


def _stage_way(table: CsvTable, times_s: Vector, stage: BaseStage | None) -> Interpolated:
    """Where the stage is; RecordingError where it cannot be there, or not so fast."""
    places = np.zeros((len(times_s), len(STAGE_COLUMNS)))
    for index, name in enumerate(STAGE_COLUMNS):
        if name not in table.header:
            continue
        if stage is None or not stage.has[index]:
            remedy = "Leave it out; a client moves no stage, the stack does: reference.kind csv"
            raise RecordingError(table.file, f"column {name}: there is no such axis of a stage to move", remedy)
        places[:, index] = table.numbers([name])[:, 0]
        low, high = stage.ranges[index]
        for row in np.flatnonzero((places[:, index] < low) | (places[:, index] > high))[:1]:
            problem = f"line {table.lines[row]}, column {name}: {places[row, index]:g}"
            raise RecordingError(table.file, problem, f"The stage goes from {low:g} to {high:g}")
        speed = np.abs(np.diff(places[:, index]) / np.diff(times_s))
        for row in np.flatnonzero(speed > stage.speed[index] * (1 + _ROUNDING))[:1]:
            problem = f"line {table.lines[row + 1]}, column {name}: {speed[row]:.3g} per second since the line before"
            raise RecordingError(table.file, problem, f"The stage moves at {stage.speed[index]:g} at most: go slower")
    return Interpolated(times_s, places)


def rest_to_rest_fraction(t_s: float, duration_s: float) -> tuple[float, float, float]:
    """10 x^3 - 15 x^4 + 6 x^5 of x = t / duration within [0, 1], and its first two derivatives in time."""
    x = min(max(t_s / duration_s, 0.0), 1.0)
    return quintic(x), quintic_slope(x) / duration_s, quintic_curvature(x) / duration_s**2
