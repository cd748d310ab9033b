# SPDX-License-Identifier: Apache-2.0
"""Watching tendons and strings: which readings cannot be true, and what is unobservable without them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.observability import unseen_coefficients
from continuum_robot.robot.schema import quantity

Array = NDArray[np.float64]

UNKNOWN = "unknown"
FROZEN = "frozen"
JUMPED = "jumped"

_SHORTEST_STEP_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What a healthy robot does, and from when on a sensor is called broken."""

    bending_rate_rad_per_s: float = quantity(
        "standard deviation of a segment's bending rate in fast motion", "rad/s", default=3.0, gt=0, le=1000
    )
    higher_mode_fraction: float = quantity(
        "motion of each basis function as a fraction of the one before", "", default=0.4, gt=0, le=1
    )
    noise_m: float = quantity("standard deviation of a reading's noise", "m", default=3e-5, gt=0, le=0.1)
    jump_sigmas: float = quantity(
        "deviations from what the other sensors say at which a reading has jumped", "", default=7.0, ge=3, le=100
    )
    frozen_motion_m: float = quantity(
        "motion that the other sensors say a reading missed while it stood still to the last bit",
        "m",
        default=1e-3,
        gt=0,
        le=1,
    )
    # A sound reading repeats to the last bit only where it turns around; that the others meanwhile moved against its
    # standing still is rare enough at 2.5 deviations: no false one in 1000 s of random motion of 250 seeds.
    frozen_sigmas: float = quantity("and the same in deviations of that prediction", "", default=2.5, ge=2, le=100)
    unknown_s: float = quantity(
        "how long a reading may be missing before its sensor is called broken", "s", default=0.1, ge=0, le=60
    )


STACK_WATCH = WatchSettings(unknown_s=0.5, noise_m=1e-4)
"""In a stack: processes stall for longer than sensors do, and a contact stretches tendons: pushes of 40 N on
vanderbilt_segment reach a quarter of the limit. Jumps are found from 2 mm on at rest; a snapped string is pulled in by
centimetres."""


class StandstillWatch:
    """Which readings repeat themselves to the last bit while others move: frozen, or sound where they turn around.

    The first sign of a freeze, long before it is proved: until the reading changes, what was concluded from it is open.
    """

    def __init__(self, names: Sequence[str], moved_m: float) -> None:
        self._names, self.moved_m = tuple(names), moved_m
        self.reset()

    def reset(self) -> None:
        """Forget earlier readings."""
        self._references: list[list[float]] = []

    def update(self, readings: ArrayLike, others: ArrayLike) -> tuple[str, ...]:
        """Names of the suspects."""
        watched = np.asarray(readings, dtype=float)
        count = len(self._names)
        if watched.shape != (count,):
            raise ParameterError("readings", readings, f"{count} readings in m")
        # In plain numbers: they are few, and nearly all readings change.
        values = [*watched.tolist(), *np.asarray(others, dtype=float).tolist()]
        if not self._references or len(self._references[0]) != len(values):
            self._references = [values] * count
        suspects = []
        for index, (name, reference) in enumerate(zip(self._names, self._references, strict=True)):
            if values[index] != reference[index]:
                self._references[index] = values
            elif any(abs(now - then) > self.moved_m for now, then in zip(values, reference, strict=True)):
                suspects.append(name)
        return tuple(suspects)


@dataclass(frozen=True, slots=True)
class SensorHealth:
    """What can be trusted; k sensors, n coefficients."""

    readings: Array
    trusted: NDArray[np.bool_]
    unseen: NDArray[np.bool_]
    reasons: tuple[str, ...]
    unobservable: tuple[str, ...]


class SensorWatch:
    """Finds readings that are missing, frozen or have jumped; latches and names what is wrong.

    A robot moves by a few strain coefficients, of which the high orders move least, so each sensor's change is
    predicted by the others' even where their number leaves no redundancy: the change of all readings is Gaussian with
    covariance S = J C J^T + noise, C being what the robot can do in that time. In a square set that is a prior rather
    than a proof, so the limits are wide.

    - jumped: from one update to the next the reading moved by ``jump_sigmas`` more than the others allow; of several
      candidates the likeliest, argmax of |S^-1 d|_i / sqrt(S^-1_ii). A string that snapped does that.
    - frozen: the reading is the same to the last bit while the others say that it moved by ``frozen_motion_m``.
    - unknown: NaN for longer than ``unknown_s``; not used from the first NaN on.

    Until a freeze or a jump is found the reading is used, so a wrong value stays below what finds it: for a jump
    ``jump_sigmas + 3`` deviations; for a freeze ``frozen_motion_m`` in most motions, and more where the others leave
    open whether it had to move: in 400 random motions 1.0 mm in the median, 2.1 mm in 99 of 100, 2.9 mm at most.
    """

    def __init__(
        self,
        matrix: ArrayLike,
        sensor_names: Sequence[str],
        coefficient_names: Sequence[str],
        *,
        coefficient_scale: ArrayLike,
        coefficient_orders: ArrayLike,
        settings: WatchSettings | None = None,
    ) -> None:
        self.settings = settings or WatchSettings()
        self._matrix = np.array(matrix, dtype=float)
        if self._matrix.shape != (len(sensor_names), len(coefficient_names)):
            raise ParameterError("matrix", self._matrix.shape, f"shape ({len(sensor_names)}, {len(coefficient_names)})")
        self._sensors, self._coefficients = tuple(sensor_names), tuple(coefficient_names)
        unseen = unseen_coefficients(self._matrix)
        if unseen.any():
            raise ParameterError(
                "sensors", list(self._sensors), f"sensors that see all coefficients, also {self._named(unseen)}"
            )
        fraction = self.settings.higher_mode_fraction ** np.asarray(coefficient_orders, dtype=float)
        rates = self.settings.bending_rate_rad_per_s * np.asarray(coefficient_scale, dtype=float) * fraction
        self._motion = (self._matrix * rates**2) @ self._matrix.T  # per s^2
        self._unseen_by: dict[bytes, NDArray[np.bool_]] = {}
        self.reset()

    def reset(self) -> None:
        """Trust every sensor again."""
        count = len(self._sensors)
        self._broken = np.zeros(count, dtype=bool)
        self._reasons: tuple[str, ...] = ()
        self._causes = [""] * count
        self._previous: Array | None = None
        self._unknown_s = np.zeros(count)
        self._references = np.full((count, count), np.nan)
        self._precision_by: dict[tuple[bytes, float], tuple[Array, Array]] = {}
        self._all, self._none = np.ones(count, dtype=bool), np.zeros(len(self._coefficients), dtype=bool)

    def update(self, readings: ArrayLike, dt: float) -> SensorHealth:
        """Judge one set of readings."""
        values = np.array(readings, dtype=float)
        if values.shape != (len(self._sensors),):
            raise ParameterError("readings", readings, f"{len(self._sensors)} readings in m")
        if not 0 <= dt < math.inf:
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        if self._is_plainly_sound(values, dt):
            return SensorHealth(values, self._all, self._none, (), ())
        missing = ~np.isfinite(values)
        values[missing] = np.nan
        self._note_missing(missing, dt)
        values[self._broken] = np.nan
        if self._previous is None:
            self._references[:] = values
        else:
            self._find_jumps(values, self._previous, dt)
            self._find_returned(values, self._previous)
            self._find_frozen(values, self._previous)
            self._references[np.isfinite(values) & (values != self._previous)] = values
        self._previous = values.copy()
        known = np.isfinite(values)
        unseen = self._unseen(known)
        return SensorHealth(values, known, unseen, self._reasons, self._unobservable_without(unseen, known))

    def _is_plainly_sound(self, values: Array, dt: float) -> bool:
        """Whether all sensors are, and moved a little: the usual case, and the quick way through."""
        if self._previous is None or self._reasons:
            return False
        change = values - self._previous
        if not math.isfinite(float(change.sum())) or not change.all():
            return False
        precision, deviations = self._precision(self._all, self._step(dt))
        if float(np.abs(precision @ change / deviations).max()) > self.settings.jump_sigmas:
            return False
        self._unknown_s[:] = 0.0
        self._references[:] = values
        self._previous = values.copy()
        return True

    # --- missing

    def _note_missing(self, missing: NDArray[np.bool_], dt: float) -> None:
        self._unknown_s = np.where(missing, self._unknown_s + dt, 0.0)
        for sensor in np.flatnonzero(missing & ~self._broken & (self._unknown_s > self.settings.unknown_s)):
            self._break(int(sensor), UNKNOWN, f"no reading for {self._unknown_s[sensor]:.2f} s")

    # --- jumped

    def _step(self, dt: float) -> float:
        """``dt``, rounded up by a tenth at most so that what depends on it can be kept."""
        return 1.1 ** math.ceil(math.log(max(dt, _SHORTEST_STEP_S), 1.1) - 1e-6)

    def _precision(self, used: NDArray[np.bool_], dt: float) -> tuple[Array, Array]:
        """Inverse covariance of the change of the used readings in ``dt`` s, and the roots of its diagonal."""
        key = (used.tobytes(), dt)
        if key not in self._precision_by:
            if len(self._precision_by) >= 64:
                self._precision_by.clear()
            S = self._motion[np.ix_(used, used)] * dt**2 + 2 * self.settings.noise_m**2 * np.eye(int(used.sum()))
            inverse = np.linalg.inv(S)
            self._precision_by[key] = inverse, np.sqrt(np.diag(inverse))
        return self._precision_by[key]

    def _find_jumps(self, values: Array, previous: Array, dt: float) -> None:
        step_s = self._step(dt)
        change = values - previous
        used = np.isfinite(change)
        while used.sum() > 1:
            precision, deviations = self._precision(used, step_s)
            scores = np.abs(precision @ change[used]) / deviations
            worst = int(np.argmax(scores))
            if scores[worst] <= self.settings.jump_sigmas:
                return
            sensor = int(np.flatnonzero(used)[worst])
            self._break(sensor, JUMPED, f"it moved by {1e3 * change[sensor]:.2f} mm in {1e3 * dt:.1f} ms")
            values[sensor] = np.nan
            used[sensor] = False

    # --- missed or made up while nobody looked

    def _find_returned(self, values: Array, previous: Array) -> None:
        """Readings that come back after a gap have to fit the motion of the others meanwhile."""
        for sensor in np.flatnonzero(np.isfinite(values) & np.isnan(previous)):
            moved = values - self._references[sensor]
            if not math.isfinite(moved[sensor]):
                continue
            expected, sigma = self._expected(int(sensor), moved)
            if abs(moved[sensor] - expected) > self.settings.jump_sigmas * sigma:
                other = f"it came back {1e3 * moved[sensor]:.2f} mm on, where the others say {1e3 * expected:.2f} mm"
                self._break(int(sensor), JUMPED, other)
                values[sensor] = np.nan

    def _find_frozen(self, values: Array, previous: Array) -> None:
        for sensor in np.flatnonzero(values == previous):
            moved = values - self._references[sensor]
            if not np.nanmax(np.abs(moved)) > self.settings.frozen_motion_m / 4:
                continue
            expected, sigma = self._expected(int(sensor), moved)
            if abs(expected) > max(self.settings.frozen_motion_m, self.settings.frozen_sigmas * sigma):
                missed = f"it stood still while the others say {1e3 * expected:.2f} mm"
                self._break(int(sensor), FROZEN, missed)
                values[sensor] = np.nan

    def _expected(self, sensor: int, moved: Array) -> tuple[float, float]:
        """Change of a reading that those of the others predict, and its standard deviation, m.

        The prior is as large as the others' motion rather than as the fastest.
        """
        others = np.isfinite(moved)
        others[sensor] = False
        seen, among = moved[others], self._motion[np.ix_(others, others)]
        if seen.size == 0:
            return 0.0, math.inf
        noise = 2 * self.settings.noise_m**2
        scale = float(seen @ seen) / float(np.trace(among))
        toward = self._motion[sensor, others] * scale
        weights = np.linalg.solve(among * scale + noise * np.eye(seen.size), toward)
        variance = self._motion[sensor, sensor] * scale + noise - float(weights @ toward)
        return float(weights @ seen), math.sqrt(max(variance, noise))

    # --- latching and naming

    def _break(self, sensor: int, cause: str, what: str) -> None:
        self._broken[sensor] = True
        self._causes[sensor] = cause
        self._reasons = (*self._reasons, f"{self._sensors[sensor]} {cause}: {what}")

    def _unseen(self, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        key = known.tobytes()
        if key not in self._unseen_by:
            self._unseen_by[key] = unseen_coefficients(self._matrix[known])
        return self._unseen_by[key]

    def _unobservable_without(self, unseen: NDArray[np.bool_], known: NDArray[np.bool_]) -> tuple[str, ...]:
        if not unseen.any():
            return ()
        absent = [
            f"{name} ({self._causes[index] or 'no reading now'})"
            for index, name in enumerate(self._sensors)
            if not known[index]
        ]
        return (f"{self._named(unseen)} unobservable without {', '.join(absent)}",)

    def _named(self, which: NDArray[np.bool_]) -> str:
        return ", ".join(name for name, one in zip(self._coefficients, which, strict=True) if one)
