# SPDX-License-Identifier: Apache-2.0
"""The fitted robot, and where it shows the marker, as a function of the fit's parameters; and the other way round.

What the shape depends on (``DisplacedStatics.parameters``) is linear in x, or its logarithm is, but for the direction
of gravity: one table says how, for the robot and for its derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.geometry import so3
from continuum_robot.identification.fit import Parameter, Parameters, by_differences
from continuum_robot.identification.recordings import TendonRecording, tendon_displacements
from continuum_robot.identification.replay import in_tracker, marker_in_tracker, rmse_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics

Array = NDArray[np.float64]

STEPS = ("constant_curvature", "statics", "friction", "tendons")

# Of each kind of parameter: the step that fits it first; the standard deviation of x before the data, what a robot may
# differ by from its file; what has one of its own, the robot, its segments, its tendons or axes; and its name there.
_KINDS: Mapping[str, tuple[str, float, str, str]] = {
    "angle_rad": ("constant_curvature", 0.3, "segment", "angle_offset_{}_rad"),
    "marker_m": ("constant_curvature", 0.01, "xyz", "marker_in_tip_{}_m"),
    "base_m": ("constant_curvature", 0.002, "xyz", "base_in_tracker_{}_m"),
    "tilt_rad": ("constant_curvature", 0.03, "xy", "base_rotation_in_tracker_{}_rad"),
    "spiral_rad_per_m": ("constant_curvature", 3.0, "robot", "tendon_spiral_rad_per_m"),
    "bending": ("statics", 2.0, "robot", "log_bending_stiffness_segment_1"),
    "tendon": ("statics", 1.5, "robot", "log_tendon_over_bending_stiffness"),
    "compliance": ("statics", 2.0, "robot", "log_compliance_over_rod"),
    "straight_over": ("statics", 0.5, "robot", "log_straight_over_disk_distance"),
    "zero_m": ("statics", 0.002, "segment", "tendon_zero_{}_m"),
    "gravity_turn_rad": ("statics", 1.5, "xy", "gravity_turn_{}_rad"),
    "load_gain": ("statics", 0.1, "tendon", "load_gain_{}"),
    "load_offset_n": ("statics", 1.0, "tendon", "load_offset_{}_n"),
    "load_friction_n": ("statics", 2.0, "tendon", "load_friction_{}_n"),
    "friction": ("friction", 2.0, "robot", "log_friction_fraction"),
    "tendon_of_segment": ("tendons", 0.3, "segment", "log_tendon_stiffness_{}"),
    "zero_of_tendon_m": ("tendons", 0.0005, "tendon", "tendon_zero_{}_m"),
    "gain": ("tendons", 0.05, "tendon", "gain_{}"),
    "friction_of_segment": ("tendons", 0.5, "segment", "log_friction_{}"),
}
_TENDON_OVER_ROD = 3.0  # first guess of tendon stiffness against that of a segment
_INEXTENSIBLE = 300.0  # times that: as good as no stretch
_FIRST_FRICTION = 0.05


class DisplacedModel:
    """A robot about the one that the fit starts from."""

    def __init__(
        self,
        start: Robot,
        steps: Sequence[str],
        deviations: Mapping[str, float] | None = None,
        *,
        loaded: bool = False,
    ) -> None:
        self.start, self.steps, known = start, tuple(steps), dict(deviations or {})
        place, segments, count = start.recording, start.segments, start.tendon_count
        assert place is not None
        self._elastic, self._rubs = "statics" in steps, "friction" in steps
        gravity, disks = np.array(start.gravity_m_per_s2), sum(segment.disks.disk_count for segment in segments)
        weight_n = sum(float(segment.disks.masses_kg.sum()) for segment in segments) * float(np.linalg.norm(gravity))
        listed = np.array([segment.backbone.bending_stiffness_nm2 for segment in segments])
        # A rod too soft to stand upright would start the fit in a buckled shape, unless its stiffness is known.
        buckling = weight_n * start.length_m**2 / 2 / float(listed.min())
        bending = listed * (1.0 if "bending" in known else max(1.0, buckling))
        radius_m = float(np.mean([segment.tendons.pitch_radius_m for segment in segments]))
        stretching = bending.mean() * len(segments) / (radius_m**2 * start.length_m)
        # What resists along a rod of one material: its bending stiffness times its area over its second moment.
        round_rod = np.mean([one.backbone.second_moment_m4 / one.backbone.area_m2 for one in segments]) / bending.mean()
        # Where the fit begins, and x is 0.
        begins: dict[str, ArrayLike] = {
            "angle_rad": [segment.tendons.angle_offset_rad for segment in segments],
            "marker_m": place.marker_in_tip_m,
            "base_m": place.base_in_tracker_m,
            "tilt_rad": place.base_rotation_in_tracker_rad[:2],
            "bending": bending[0],
            "tendon": _TENDON_OVER_ROD,
            "friction": _FIRST_FRICTION,
            "gain": 1.0,
            "load_gain": 1.0,
        }
        # What neither loads nor the robot's weight show, and straight runs without disks, are not sought.
        idle = set() if gravity.any() else {"gravity_turn_rad"}
        idle |= set() if loaded else {"load_gain", "load_offset_n", "load_friction_n"}
        idle |= set() if loaded or gravity.any() else {"bending"}
        idle |= set() if disks else {"straight_over"}
        idle |= set() if self._rubs else {"friction_of_segment"}
        each = {"segment": [segment.name for segment in segments], "tendon": start.tendon_names, "robot": [""]}
        kinds = {}
        for name, (step, deviation, of, title) in _KINDS.items():
            if step not in steps or name in idle:
                continue
            keys, log = tuple(title.format(one) for one in each.get(of, of)), title.startswith("log_")
            begin = begins.get(name, 1.0 if log else 0.0)
            scale, origin = (begin, 0.0) if log else (1.0, begin)
            kinds[name] = Parameter(keys, begin, known.get(name, deviation), scale=scale, origin=origin, log=log)
        self.parameters = Parameters(kinds)
        # Of each number of the statics, or its logarithm: where the fit begins, and its derivatives by x.
        owner = np.repeat(np.eye(len(segments)), [segment.tendons.count for segment in segments], axis=0)
        tendons = np.ones((count, 1))
        stiffest = stretching * _TENDON_OVER_ROD * (1.0 if self._elastic else _INEXTENSIBLE)
        self._table: dict[str, tuple[ArrayLike, dict[str, Array]]] = {
            "angle_rad": (begins["angle_rad"], {"angle_rad": np.eye(len(segments))}),
            "spiral_rad_per_m": (0.0, {"spiral_rad_per_m": np.eye(1)}),
            "log_straight_over": (math.log(start.length_m / (disks or 1)), {"straight_over": np.eye(1)}),
            "log_compliance": (math.log(round_rod), {"compliance": np.eye(1), "bending": -np.eye(1)}),
            "log_bending_stiffness": (np.log(bending), {"bending": np.ones((len(segments), 1))}),
            "log_tendon_stiffness": (
                math.log(stiffest),
                {"bending": tendons, "tendon": tendons, "tendon_of_segment": owner},
            ),
            "zero_m": (0.0, {"zero_m": owner, "zero_of_tendon_m": np.eye(count)}),
            "gain": (1.0, {"gain": np.eye(count)}),
            "friction_fraction": (math.log(_FIRST_FRICTION), {"friction": tendons, "friction_of_segment": owner}),
        }

    def _part(self, x: Array, name: str, size: int = 1) -> Array:
        return x[self.parameters.at[name]] if name in self.parameters.at else np.zeros(size)

    def _number(self, x: Array, name: str) -> Array:
        start, by = self._table[name]
        changes = sum(matrix @ self._part(x, of, matrix.shape[1]) for of, matrix in by.items())
        return np.asarray(np.asarray(start) + changes)

    def robot(self, x: Array) -> Robot:
        """The robot at x (p,), with ``recording`` and ``displaced_tendons``.

        A turn of the base about z is in the angles.
        """
        of = {name: self._number(x, name) for name in self._table}
        place, segments, values = self.start.recording, [], self.parameters.values(x)
        assert place is not None
        for segment, angle, log in zip(self.start.segments, of["angle_rad"], of["log_bending_stiffness"], strict=True):
            stiffness, basis = math.exp(log), segment.basis
            backbone = replace(segment.backbone, bending_stiffness_x_nm2=stiffness, bending_stiffness_y_nm2=stiffness)
            if self._elastic:
                axial_n = math.exp(-of["log_compliance"][0])
                backbone, basis = replace(backbone, axial_stiffness_n=axial_n), basis.extended
            tendons = replace(segment.tendons, angle_offset_rad=float((angle + math.pi) % (2 * math.pi) - math.pi))
            segments.append(replace(segment, tendons=tendons, backbone=backbone, basis=basis))
        straight = "straight_over" in self.parameters.at
        displaced = DisplacedTendons(
            stiffness_n_per_m=_floats(np.exp(of["log_tendon_stiffness"])),
            zero_m=_floats(of["zero_m"]),
            gain=_floats(np.broadcast_to(of["gain"], self.start.tendon_count)),
            friction_fraction=_floats(np.exp(of["friction_fraction"]) * self._rubs),
            spiral_rad_per_m=float(of["spiral_rad_per_m"][0]),
            straight_over_m=math.exp(of["log_straight_over"][0]) if straight else 0.0,
        )
        return self.start.changed(
            segments=tuple(segments),
            gravity_m_per_s2=_floats(self._gravity(self._part(x, "gravity_turn_rad", 2)) * self._elastic),
            recording=replace(
                place,
                marker_in_tip_m=_floats(values[self.parameters.at["marker_m"]]),
                base_in_tracker_m=_floats(values[self.parameters.at["base_m"]]),
                base_rotation_in_tracker_rad=_floats(
                    np.append(values[self.parameters.at["tilt_rad"]], place.base_rotation_in_tracker_rad[2])
                ),
            ),
            displaced_tendons=displaced,
        )

    def _gravity(self, turn_rad: Array) -> Array:
        return np.asarray(so3.exp(np.append(turn_rad, 0.0)) @ np.array(self.start.gravity_m_per_s2))

    def slope(self, name: str) -> Array:
        """Of the numbers of the statics of one name, or of what is linear in x of them, (numbers, p)."""
        start, by = self._table[name]
        size = max([np.size(start), *(len(matrix) for matrix in by.values())])
        slope = np.zeros((size, len(self.parameters)))
        for of, matrix in by.items():
            if of in self.parameters.at:
                slope[:, self.parameters.at[of]] = matrix
        return slope

    def shown(self, x: Array, displacement_m: Array, slid: Array) -> tuple[Array, Array, Array, Array]:
        """What is measured, and its derivatives by x."""
        robot, at = self.robot(x), self.parameters.at
        place, model = robot.recording, DisplacedStatics(robot)
        assert place is not None
        shown = model.replay(displacement_m, point_m=place.marker_in_tip_m, sensitivities=True)
        by = np.zeros((model.parameters["friction_fraction"].stop, len(x)))
        for name, rows in model.parameters.items():
            if name in self._table:
                by[rows] = self.slope(name)
        assert robot.displaced_tendons is not None
        by[model.parameters["friction_fraction"]] *= np.array(robot.displaced_tendons.friction_fraction)[:, None]
        if "gravity_turn_rad" in at:
            turn = x[at["gravity_turn_rad"]]
            by[model.parameters["gravity_m_per_s2"], at["gravity_turn_rad"]] = by_differences(self._gravity)(turn)[1]
        tilt = np.array(place.base_rotation_in_tracker_rad)
        base = so3.exp(tilt)
        slope = base @ (np.asarray(shown.sensitivity) @ by)
        slope[:, :, at["marker_m"]] += base @ shown.tip[:, :3, :3]
        slope[:, :, at["base_m"]] += np.eye(3)
        _, by_tilt = by_differences(lambda xy: so3.exp(np.append(xy, tilt[2])).ravel())(tilt[:2])
        slope[:, :, at["tilt_rad"]] += np.einsum("ijk,tj->tik", by_tilt.reshape(3, 3, 2), shown.point)
        load, load_slope = shown.tension, np.asarray(shown.tension_slope) @ by
        if "load_gain" in at:
            gain, own = 1.0 + x[at["load_gain"]], np.arange(load.shape[1])
            load_slope = gain[:, None] * load_slope
            values = {"load_gain": load, "load_offset_n": np.ones_like(load), "load_friction_n": slid}
            load = gain * load + x[at["load_offset_n"]] + slid * x[at["load_friction_n"]]
            for name, slopes in values.items():
                load_slope[:, own, at[name].start + own] = slopes
        return in_tracker(place, shown.point), slope, load, load_slope


def predicted_marker(robot: Robot, recording: TendonRecording, *, friction: bool = True) -> Array:
    """Marker that a fitted robot predicts for a recording, in the tracker's frame."""
    displacement = tendon_displacements(robot, recording)
    if robot.displaced_tendons is None:
        raise RobotFileError(robot.file_name or None, "displaced_tendons", None, "a robot file written by `identify`")
    return marker_of_pulls(robot, displacement, friction=friction)


def marker_of_pulls(robot: Robot, displacement_m: Array, *, friction: bool = True) -> Array:
    """The same for displacements of the tendons, pulled in positive, (T, N), m."""
    return marker_in_tracker(robot, DisplacedStatics(robot, friction=friction).replay(displacement_m).tip)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(map(float, values))


_ITERATIONS = 3
_HARDLY = 2.0  # m of the marker for one of pull; straight through a bent robot it is 30 and more


@dataclass(frozen=True)
class MissingPull:
    """Pulls that bring the predicted marker to the measured one."""

    pull_m: Array
    left_m: Array

    @property
    def rmse_m(self) -> float:
        """Root mean square over samples and tendons, m."""
        return float(np.sqrt(np.nanmean(self.pull_m**2)))

    @property
    def left_rmse_m(self) -> float:
        """Of the marker with these pulls, m."""
        return rmse_m(self.left_m[np.isfinite(self.left_m).all(axis=1)])


def together(parts: Sequence[MissingPull]) -> MissingPull:
    """Those of samples that each were asked for once, T samples each."""
    pull_m, left_m = parts[0].pull_m.copy(), parts[0].left_m.copy()
    for part in parts[1:]:
        asked = np.isfinite(part.pull_m).all(axis=1)
        pull_m[asked], left_m[asked] = part.pull_m[asked], part.left_m[asked]
    return MissingPull(pull_m, left_m)


def missing_pull(robot: Robot, displacement_m: Array, marker_m: Array, counted: NDArray[np.bool_]) -> MissingPull:
    """What the tendons should have been pulled by for the marker to be where it was seen.

    Derived here. Many pulls bring a marker to one place: of all, those nearest to what was pulled are taken (Gauss and
    Newton, least norm, damped along what the tendons hardly move). Their distance from what was pulled is the model's
    error as a feed-forward, and a lower bound of it: pulls that do not move the marker are not seen.
    """
    place, tendons = robot.recording, robot.displaced_tendons
    if place is None or tendons is None:
        raise RobotFileError(robot.file_name or None, "displaced_tendons", None, "a robot file written by `identify`")
    if not counted.any():
        raise ParameterError("counted", int(counted.sum()), "at least one sample")
    statics, gain = DisplacedStatics(robot), np.array(tendons.gain)
    turn = so3.exp(place.base_rotation_in_tracker_rad)
    pull, offset = np.zeros_like(displacement_m), np.zeros(3)
    for iteration in range(_ITERATIONS + 1):
        last = iteration == _ITERATIONS
        shown = statics.replay(displacement_m + pull, point_m=place.marker_in_tip_m, sensitivities=not last)
        error = in_tracker(place, shown.point) - marker_m
        if iteration == 0:
            offset = error[counted].mean(axis=0)
        error = error - offset
        if last:
            break
        by_zero = np.asarray(shown.sensitivity)[:, :, statics.parameters["zero_m"]]
        slope = turn @ (by_zero * gain)
        across = slope @ slope.transpose(0, 2, 1) + _HARDLY**2 * np.eye(3)
        step = -(slope.transpose(0, 2, 1) @ np.linalg.solve(across, error[..., None]))[..., 0]
        pull[counted] += step[counted]
    unseen = np.where(counted[:, None], 0.0, np.nan)
    return MissingPull(pull + unseen, error + unseen)
