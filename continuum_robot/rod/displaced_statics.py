# SPDX-License-Identifier: Apache-2.0
"""Shapes of a robot whose servos hold its tendons at displacements: elastic tendons that may be slack, dry friction.

The rod is the robot's, with the tendons' paths as ``displaced_tendons`` says. A tendon whose servo reads q has taken in
gain q + zero. On its way through the robot dry friction acts against the sliding of its path
(rod/friction/maxwell_slip.py), at most a fraction of the tension (Coulomb), that of the step before. Every
sample is an equilibrium with friction from the last sample's anchors; rod/kernel/held.hpp. Where a reading jumps, the
way between the samples is taken as straight. The first sample has no history: it is taken as free of friction.
Derivatives of the shape with respect to the parameters are exact, those of the friction's memory included.
"""

from __future__ import annotations

import ctypes as ct
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.holding_force import HeldTendons
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.slopes import length_slope
from continuum_robot.rod.statics import RESIDUAL_TOLERANCE, Balance, Held, Stops, at_rest

Array = NDArray[np.float64]

_LONGEST_STEP_M = 1e-3  # friction goes by the tension of the step before


@dataclass(frozen=True)
class DisplacedReplay:
    """Shapes for T samples of N tendons, m segments."""

    c: Array
    tip: Array
    path: Array
    tension: Array
    point: Array
    sensitivity: Array | None
    tension_slope: Array | None


class DisplacedStatics:
    """Quasi-static model of a robot with ``displaced_tendons``."""

    def __init__(self, robot: Robot, *, friction: bool = True) -> None:
        tendons = robot.displaced_tendons
        if tendons is None or robot.traits.without_statics:
            raise ParameterError("robot", robot.name, "segments and `displaced_tendons`, as `identify` writes them")
        self.rod = rod = Rod(robot)
        self._library, self._balance = rod.compiled(), Balance(rod)
        held = HeldTendons.of(robot)
        fraction = held.friction_fraction if friction else np.zeros(robot.tendon_count)
        self._tendon = np.array([held.stiffness_n_per_m, held.zero_m, held.gain, fraction, held.sticking_n_per_m])
        self._path_by, self._stiffness_by = _path_changes(rod, robot), _stiffness_changes(rod, robot)
        counts = {
            "angle_rad": len(robot.segments),
            "spiral_rad_per_m": 1,
            "log_straight_over": 1,
            "log_compliance": 1,
            "log_bending_stiffness": len(robot.segments),
            "gravity_m_per_s2": 3,
            **dict.fromkeys(("log_tendon_stiffness", "zero_m", "gain", "friction_fraction"), robot.tendon_count),
        }
        ends = np.cumsum(list(counts.values()))
        self.parameters = {
            name: slice(int(end) - count, int(end)) for (name, count), end in zip(counts.items(), ends, strict=True)
        }

    def replay(
        self, displacement: ArrayLike, *, point_m: ArrayLike = (0.0, 0.0, 0.0), sensitivities: bool = False
    ) -> DisplacedReplay:
        """Shapes for readings in their order in time.

        Returns
        -------
        shapes and tensions

        Raises
        ------
        ParameterError : wrong shape, or values that are not finite
        """
        readings, count = np.asarray(displacement, dtype=float), self._tendon.shape[1]
        if readings.ndim != 2 or readings.shape[1] != count or not np.isfinite(readings).all():
            raise ParameterError("displacement", np.shape(displacement), f"finite values, shape (T, {count})")
        samples, rod = len(readings), self.rod
        c, pose = np.zeros((samples, rod.n)), np.tile(np.eye(4), (samples, 1, 1))
        path, tension = np.zeros((2, samples, count))
        step = _Step(self, point_m, sensitivities=sensitivities)
        each = [np.zeros((samples, rows, step.point_by.shape[1])) for rows in (3, count)] if sensitivities else None
        last = readings[0] if samples else np.zeros(count)
        for t, reading in enumerate(readings):
            steps = max(1, int(np.ceil(np.abs(reading - last).max() / _LONGEST_STEP_M))) if self._tendon[3].any() else 1
            if t == 0:
                step.go(reading, first=True)
            for k in range(1, steps + 1):
                step.go(last + (reading - last) * (k / steps))
            last = reading
            rod.checked(step.c)
            pose[t, :3, :3], pose[t, :3, 3] = step.tip[:9].reshape(3, 3), step.tip[9:]
            c[t], path[t], tension[t] = step.c, step.shorter, step.tension
            if each is not None:
                each[0][t], each[1][t] = step.point_by, self._tension_slope(step, reading)
        at = pose[:, :3, 3] + pose[:, :3, :3] @ np.asarray(point_m, dtype=float)
        return DisplacedReplay(c, pose, path, tension, at, *(each or (None, None)))

    def _tension_slope(self, step: _Step, reading: Array) -> Array:
        """Of k (gain q + zero - path) where it is taut, (N, P)."""
        stiffness, own = self._tendon[0], np.diag_indices(len(reading))
        slope = -step.path_by
        slope[:, self.parameters["log_tendon_stiffness"]][own] += step.tension / stiffness
        slope[:, self.parameters["zero_m"]][own] += 1.0
        slope[:, self.parameters["gain"]][own] += reading
        return np.asarray(np.where(step.tension > 0, stiffness, 0.0)[:, None] * slope)


class _Step:
    """The kernel's step from one reading to the next, with what it keeps; see held.hpp."""

    def __init__(self, model: DisplacedStatics, point_m: ArrayLike, *, sensitivities: bool) -> None:
        self._model, rod, tendon = model, model.rod, model._tendon
        n, count, parameters = rod.n, tendon.shape[1], model.parameters["friction_fraction"].stop
        self.c, self._reading, self._given = np.zeros(n), np.zeros(count), np.zeros(count)
        self.shorter, self.tension, self.pull, self._anchor = np.zeros((4, count))
        self.tip, self.point_by = np.zeros(12), np.zeros((3, parameters))
        arrays, changes = rod.arrays, model._path_by
        kept: list[Array | None] = [tendon, rod.rest_m]
        if sensitivities:
            straight = np.array([length_slope(rod, np.zeros(n), {"path": change})[0] for change in changes])
            path = np.stack([np.broadcast_to(arrays.path, np.shape(changes)), changes], axis=-1)
            rest = np.stack([arrays.path_rest, 0 * arrays.path_rest], axis=-1)
            kept += [path, rest, straight]
        kept += [None] * (5 - len(kept))
        kept += [model._stiffness_by, np.array(point_m, dtype=float), self.c, self._reading, np.zeros((n, n))]
        kept += [np.zeros((count, n)), self.shorter, self.tension, self.pull, self._anchor]
        memory = np.zeros((3, count, parameters))
        self.path_by = memory[0]
        kept += [memory, self.tip, self.point_by]
        self._kept = kept
        held = kernel.Held(len(changes), len(model._stiffness_by), rod.conservative, *map(kernel.at, kept))
        given = (kernel.at(rod.scale), ct.addressof(held), kernel.at(self._given))
        self._held = held
        self._call = (ct.byref(rod.shape), ct.byref(rod.numbers), *map(ct.c_void_p, given))

    def go(self, reading: Array, *, first: bool = False) -> None:
        """To a reading; ConvergenceError where no equilibrium is found."""
        model, (stiffness, zero, gain, fraction, stick) = self._model, self._model._tendon
        self._given[:] = reading
        if model._library.rod_held(*self._call, int(first)):
            return
        stops = None if first else Stops(stick, self._anchor, fraction * self.tension)
        self.c[:] = at_rest(model._balance, self.c, Held(stiffness, gain * reading + zero, stops)).c
        if not model._library.rod_held(*self._call, int(first)):
            raise ConvergenceError("equilibrium of held tendons", math.nan, RESIDUAL_TOLERANCE, 0)


def _stiffness_changes(rod: Rod, robot: Robot) -> Array:
    """Changes of the stiffness matrix by the logarithms of the compliance along it and of each bending stiffness."""
    arrays = rod.arrays
    segment = np.concatenate([np.full(piece.count, piece.segment) for piece in arrays.pieces])
    parts = [(arrays.rows < 2) & (segment == k) for k in range(len(robot.segments))]
    factors = [-1.0] + [1.0] * len(parts)
    rows = [np.outer(part, part) for part in (arrays.rows == 5, *parts)]
    return np.array([factor * row * arrays.stiffness for factor, row in zip(factors, rows, strict=True)])


def _path_changes(rod: Rod, robot: Robot) -> Array:
    """Changes of the paths' numbers: by the angle of each segment's tendons, the spiral, log of the straight runs."""
    arrays, tendons = rod.arrays, robot.displaced_tendons
    assert tendons is not None
    places_m = np.repeat(arrays.path_m, arrays.path_node[:, 1])
    x, y, x_rate, y_rate = arrays.path[:, 1:5].T
    ahead = np.zeros_like(arrays.path)  # by a turn of the whole path
    ahead[:, 1:5] = np.stack([-y, x, -y_rate, x_rate], axis=1)
    found = [
        np.where(((rows.start <= arrays.path_index) & (arrays.path_index < rows.stop))[:, None], ahead, 0.0)
        for rows in robot.tendon_slices
    ]
    middles_m = np.array([(path.start_m + path.end_m) / 2 for path in robot.tendon_paths])
    for rows, start_m, segment in zip(robot.tendon_slices, robot.segment_starts_m, robot.segments, strict=True):
        middles_m[rows] = start_m + segment.length_m / 2
    spiral = (places_m - middles_m[arrays.path_index])[:, None] * ahead
    spiral[:, 3] -= y
    spiral[:, 4] += x
    straight = np.zeros_like(arrays.path)
    straight[:, 5] = 2 * arrays.path[:, 5]
    return np.array([*found, spiral, straight])
