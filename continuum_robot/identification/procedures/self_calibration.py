# SPDX-License-Identifier: Apache-2.0
"""Motion of a robot of servos by which it calibrates itself, with a tracker of the tip, and the record of it.

The tendons are homed by their loads first. From the straight pose each is then pulled alone, then all pairs, then the
robot goes to places anywhere in its coordinates; at each it rests, and displacements, loads and the place of the tip
are averaged. Last it moves slowly in all coordinates at once, twice along one path, at two speeds: what friction and
errors of the model make of a place is the same both times, what the tracker's lateness makes is not. All of this is
what the file's statics make of coordinates, so no tendon goes slack, and loads and displacements are known to be within
the limits before anything moves. Whatever load is above the limit on the way ends it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from continuum_robot.control.displacement_controller import DisplacementController
from continuum_robot.drivers.protocols import TendonReading, TrackedPose
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.homing import Homed, LoadOnset
from continuum_robot.identification.procedures.procedure import HeldProcedure, ProcedureError, Step
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import spread
from continuum_robot.robot.schema import checked, quantity

Array = NDArray[np.float64]

SLOW = "slow"
_LOOKED = 0.5  # of a rest, the last part, in which is measured
_SHRUNK, _LEAST_PART = 0.85, 0.2
_LOAD_PART = 0.7  # of the load at which it stops, up to which it is planned
_SPEED_PART = 0.5  # of the limits' speed
_BLIND_PLACES = 5
_PIECES = 6  # of the way to a place, for the statics to follow
_KNOT_S, _BETWEEN = 0.5, 20
_SLOWEST_HZ, _FASTEST_HZ = 0.08, 0.16
_SECOND = 0.4  # speed of the second time over the first
_PEAK = 1.5  # of the speed of a blend 3 x^2 - 2 x^3 over its mean


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalibrationSettings:
    """How far and how long the robot moves."""

    bend_rad: float = quantity("bend of a segment at the largest coordinate", "rad", default=0.6, gt=0, le=3)
    places: int = quantity(
        "anywhere in the coordinates, behind the single tendons and pairs", default=60, ge=0, le=5000
    )
    rest_s: float = quantity("rest at each place", "s", default=0.8, ge=0.2, le=60)
    move_s: float = quantity("shortest time from one place to the next", "s", default=0.8, ge=0.1, le=60)
    slow_s: float = quantity("of the slow motion of all coordinates, the first time", "s", default=20.0, ge=10, le=1000)
    load_n: float = quantity(
        "load at which it stops, at most limits.maximum_n of each tendon; 0: that", "N", default=0.0, ge=0, le=1e4
    )
    seed: int = quantity("draws the places", default=1, ge=0, le=2**31)


@dataclass(frozen=True)
class CalibrationRecord:
    """What was recorded; T rests, K poses of the slow motion, N tendons."""

    homed: Homed
    time_s: Array
    labels: tuple[str, ...]
    displacement_m: Array
    load_n: Array
    measured: bool
    tip: Array
    slow_time_s: Array
    slow_way_s: Array
    slow_displacement_m: Array
    pose_time_s: Array
    pose_tip: Array


class SelfCalibration(HeldProcedure[CalibrationRecord]):
    """The procedure; see the module. Pure."""

    def __init__(self, robot: Robot, settings: SelfCalibrationSettings | None = None) -> None:
        super().__init__(robot)
        self.settings = settings = checked(SelfCalibrationSettings, asdict(settings or SelfCalibrationSettings()))
        limits = robot.limits
        assert limits is not None
        maximum_n = limits.each("maximum_n", robot.tendon_count)
        if settings.load_n > maximum_n.max():
            expected = f"at most limits.maximum_n = {maximum_n.max():g} N"
            raise ParameterError("load_n", settings.load_n, expected)
        self.stop_n: Array = np.minimum(settings.load_n or np.inf, maximum_n)
        self._homing = LoadOnset(robot)
        self._homed: Homed
        self._plan(robot, limits.each("maximum_displacement_m", robot.tendon_count))
        speed = _SPEED_PART * limits.smallest("speed_m_per_s", robot.tendon_count)
        before = np.vstack([self._straight_m, self._targets_m[:-1]])
        way_m = np.abs(self._targets_m - before).max(axis=1)
        self._move_s = np.maximum(settings.move_s, _PEAK * way_m / speed)
        fastest = np.abs(self._slow_way.derivative()(np.linspace(0, settings.slow_s, 500))).max()
        self._slow_rate = min(1.0, speed / float(fastest))
        self._first_s = settings.slow_s / self._slow_rate
        self.duration_s = float(self._move_s.sum()) + len(self._move_s) * settings.rest_s
        self.duration_s += self._first_s * (1 + 1 / _SECOND)
        self._zero_m = self._from_m = np.zeros(0)
        self._place, self._time_s, self._blind = 0, 0.0, 0
        self._looked: list[tuple[Array, Array]] = []
        self._seen: list[TrackedPose] = []
        self._rests: list[tuple[float, Array, Array, Array]] = []
        self._slow: list[tuple[float, float, Array]] = []
        self._poses: list[TrackedPose] = []
        self._measured = True

    def _plan(self, robot: Robot, most_m: Array) -> None:
        """Find the displacements of all places, as large as the limits let them be."""
        settings, rng = self.settings, np.random.default_rng(self.settings.seed)
        manifold, count = DisplacementController(robot.with_all_coordinates).manifold, robot.tendon_count
        one = np.eye(count)
        singles = [(f"{name}_alone", one[j]) for j, name in enumerate(robot.tendon_names)]
        pairs = [(f"pair_{i + 1}_{j + 1}", one[i] + one[j]) for i in range(count) for j in range(i + 1, count)]
        C = np.array(manifold.clarke_matrix)
        places = [(label, C @ pulled) for label, pulled in singles + pairs]
        places = [(label, place / np.abs(place).max()) for label, place in places if np.abs(place).max() > 1e-6]
        places += [("places", rng.uniform(-1, 1, len(C))) for _ in range(settings.places)]
        self._labels = tuple(label for label, _ in places)
        directions = np.array([place for _, place in places])
        time_s = np.append(np.arange(0, settings.slow_s, _KNOT_S), settings.slow_s)
        omega = 2 * np.pi * np.linspace(_SLOWEST_HZ, _FASTEST_HZ, len(C))
        ends = np.minimum(1.0, np.minimum(time_s, settings.slow_s - time_s) / (0.15 * settings.slow_s))
        slow = ends[:, None] * np.sin(np.outer(time_s, omega) + 2.4 * np.arange(len(C)))
        scale = np.array([one.tendons.pitch_radius_m for one in robot.segments])
        # As coordinates of segments where each has two; of other tendons all by the largest radius.
        each = np.repeat(scale, 2) if 2 * len(scale) == len(C) else np.full(len(C), scale.max())
        part = 1.0
        while part >= _LEAST_PART:
            amplitude = part * settings.bend_rad * each
            wanted = amplitude * np.vstack([np.zeros(len(C)), directions, slow])
            found = self._solved(robot, wanted, most_m, _LOAD_PART * self.stop_n)
            if found is not None:
                readings, loads = found
                self.most_m, self.most_load_n = float(np.abs(readings).max()), float(loads.max())
                if len(readings) == len(wanted):
                    slow_way = CubicSpline(time_s, readings[1 + len(places) :])
                    between = slow_way(np.linspace(0, settings.slow_s, _BETWEEN * len(time_s)))
                    self.most_m = max(self.most_m, float(np.abs(between).max()))
                    if (np.abs(np.vstack([readings, between])).max(axis=0) <= most_m).all():
                        self._straight_m = readings[0]
                        self._targets_m, self._slow_way = readings[1 : 1 + len(places)], slow_way
                        return
            part *= _SHRUNK
        raise ParameterError(
            "limits",
            f"maximum_n {spread(self.stop_n)} N, maximum_displacement_m {spread(most_m)} m",
            f"room to bend each segment by {_LEAST_PART * settings.bend_rad:.2g} rad; the model needs"
            f" {self.most_load_n:.3g} N and {1e3 * self.most_m:.3g} mm for that"
            if found is not None
            else "a robot whose statics hold its coordinates",
        )

    @staticmethod
    def _solved(robot: Robot, places: Array, most_m: Array, most_n: Array) -> tuple[Array, Array] | None:
        """Readings and loads, shape (T, N), that the file's statics have at places one after the other.

        The last is the first that needs more than ``most_m`` or ``most_n`` of some tendon, (N,).
        """
        controller, count = DisplacementController(robot), robot.tendon_count
        still, nothing = [0.0] * places.shape[1], [0.0] * count
        readings, loads, last = [], [], np.zeros(places.shape[1])
        if not controller.observe(nothing, nothing):
            return None
        for place in places:
            for k in range(1, _PIECES + 1):
                at = (last + (place - last) * (k / _PIECES)).tolist()
                controller.step(at, still, still, nothing, False, 1.0)
            last = place
            readings.append(np.array(controller.command))
            loads.append(np.maximum(controller.load, controller.tension))
            if (np.abs(readings[-1]) > most_m).any() or (loads[-1] > most_n).any():
                break
        return None if controller.unsolved else (np.array(readings), np.array(loads))

    def take_pose(self, pose: TrackedPose) -> None:
        if self._place < len(self._targets_m):
            self._seen.append(pose)
        else:
            self._poses.append(pose)

    def move(self, reading: TendonReading, dt: float) -> Step:
        load_n = self.bearable_load_n(reading, self.stop_n)
        if not self._homing.ended:
            step = self._homing.update(reading, dt)
            self.goal_m = step.command
            if not self._homing.ended:
                return replace(step, progress=0.25 * step.progress)
            self._homed = self._homing.found()
            self.straight_m = self._zero_m = self._homed.zero_m
            self._from_m = step.command - self._zero_m
            self._seen.clear()
        self._time_s += dt
        if self._place < len(self._targets_m):
            phase, part = self._rest(reading, load_n), self._place / (len(self._targets_m) + 1)
        else:
            way_s = self._slow_rate * min(self._time_s, self._first_s)
            if self._time_s > self._first_s:
                way_s = self._slow_rate * _SECOND * (self._time_s - self._first_s)
            self.goal_m = self._zero_m + self._way_from(way_s, first=self._time_s <= self._first_s)
            self._slow.append((reading.stamp_s, way_s, reading.displacement_m - self._zero_m))
            phase, part = "moving all coordinates slowly", 0.8 + 0.2 * min(1.0, _SECOND * self._time_s / self._first_s)
            if self._time_s > self._first_s and way_s >= self.settings.slow_s:
                self.ended = True
        return Step(self.goal_m.copy(), phase, 0.25 + 0.75 * part)

    def _way_from(self, way_s: float, *, first: bool) -> Array:
        """Displacements of the slow motion, which begins and ends straight; into the first those before are blended."""
        x = min(way_s / self.settings.move_s / 2, 1.0) if first else 1.0
        blend = x**2 * (3 - 2 * x)
        return np.asarray(self._from_m + blend * (self._slow_way(way_s) - self._from_m))

    def _rest(self, reading: TendonReading, load_n: Array) -> str:
        """On the way to a place, or at rest there."""
        settings, move_s = self.settings, self._move_s[self._place]
        target, label = self._targets_m[self._place], self._labels[self._place]
        x = min(self._time_s / move_s, 1.0)
        self.goal_m = self._zero_m + self._from_m + x**2 * (3 - 2 * x) * (target - self._from_m)
        if self._time_s < move_s + (1 - _LOOKED) * settings.rest_s:
            self._seen.clear()
            return label
        self._measured &= bool(np.isfinite(reading.tension_n).all())
        self._looked.append((reading.displacement_m - self._zero_m, load_n))
        if self._time_s >= move_s + settings.rest_s:
            self._blind = 0 if self._seen else self._blind + 1
            if self._blind >= _BLIND_PLACES:
                raise ProcedureError(
                    f"the tracker did not see the tip at {_BLIND_PLACES} places in a row",
                    "Look whether it runs, and what stands between it and the marker.",
                )
            tips = [pose.tip for pose in self._seen]
            displacement, load = np.mean(self._looked, axis=0)
            tip = np.mean(tips, axis=0) if tips else np.full((4, 4), np.nan)
            self._rests.append((reading.stamp_s, displacement, load, tip))
            self._place, self._time_s, self._from_m = self._place + 1, 0.0, target
            self._looked, self._seen = [], []
        return label

    def found(self) -> CalibrationRecord:
        """As of :class:`~.procedure.Procedure`: the tracker may not have seen the tip."""
        if len(self._poses) < 2 * _BLIND_PLACES:
            raise ProcedureError("the tracker did not see the tip in the slow motion", "See what stands between.")
        time_s, displacement, load, tip = (np.array(column) for column in zip(*self._rests, strict=True))
        slow_s, way_s, slow = (np.array(column) for column in zip(*self._slow, strict=True))
        return CalibrationRecord(
            self._homed,
            time_s,
            self._labels,
            displacement,
            load,
            self._measured,
            tip,
            slow_s,
            way_s,
            slow,
            np.array([pose.time_s for pose in self._poses]),
            np.array([pose.tip for pose in self._poses]),
        )
