# SPDX-License-Identifier: Apache-2.0
"""Shapes of a robot whose servos hold its tendons at displacements: elastic tendons that may be slack, dry friction.

The rod is the robot's, with the tendons' paths as ``displaced_tendons`` says, and a backbone that gives way along
itself. A tendon whose servo reads q has taken in gain q + zero. On its way through the robot dry friction acts against
the sliding of its path (:mod:`continuum_robot.rod.friction.dry`), at most a fraction of the tension (Coulomb), that of
the step before. Every sample is an equilibrium with friction from the last sample's anchors. Where a reading jumps, the
way between the samples is taken as straight. The first sample has no history: it is taken as free of friction.
Derivatives of the shape with respect to the parameters are exact, those of the friction's memory included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.dry import moved_anchor
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.slopes import length_slope, terms_slope
from continuum_robot.rod.statics import Balance, Held, RestState, Stops, at_rest

Array = NDArray[np.float64]

# Friction springs are this much stiffer than their tendon: what they hide is F / (5 k), a fifth of the tendon's own
# stretch under the friction.
STICKING_OVER_TENDON = 5.0
_LONGEST_STEP_M = 2e-3


@dataclass(frozen=True)
class DisplacedReplay:
    """Shapes for T samples of N tendons, m segments.

    Attributes
    ----------
    curvature : coefficients of the robot, (T, n); [kappa_x, kappa_y] of every segment with a constant basis, 1/m
    tip : pose of the tip in the base frame, (T, 4, 4)
    path : what the tendons' paths shorten by, (T, N), m
    tension : at the servos, (T, N), N
    friction : tension that friction takes up on the way, positive where the tendon was pulled in last, (T, N), N
    point : of the tip's frame, in the base frame, (T, 3), m
    sensitivity : derivative of ``point`` with respect to the parameters, (T, 3, P), in the order of
        :attr:`DisplacedStatics.parameters`; None where not asked for
    """

    curvature: Array
    tip: Array
    path: Array
    tension: Array
    friction: Array
    point: Array
    sensitivity: Array | None


class DisplacedStatics:
    """Quasi-static model of a robot with ``displaced_tendons``.

    Parameters
    ----------
    robot : rod, weight and ``displaced_tendons``
    friction : False leaves the friction out

    Attributes
    ----------
    rod : of the robot, with the compliance of its backbone
    parameters : slice of every parameter in the sensitivities: ``angle_rad`` (m), ``log_bending_stiffness`` (m),
        ``gravity_m_per_s2`` (3), ``spiral_rad_per_m``, ``log_compliance``, ``log_straight_over`` (1 each),
        ``log_tendon_stiffness``, ``zero_m``, ``gain``, ``friction_fraction`` (N each)

    Raises
    ------
    ParameterError : a robot without ``displaced_tendons``
    """

    def __init__(self, robot: Robot, *, friction: bool = True) -> None:
        tendons = robot.displaced_tendons
        if tendons is None or robot.traits.without_statics:
            raise ParameterError("robot", robot.name, "segments and `displaced_tendons`, as `identify` writes them")
        self.rod = Rod(robot, compliant=True)
        self._robot, self._balance = robot, Balance(self.rod)
        self._own = np.flatnonzero((self.rod.arrays.rows != 5) | (not tendons.compliance_per_n))
        self._stiffness = np.array(tendons.stiffness_n_per_m)
        self._stick = STICKING_OVER_TENDON * self._stiffness
        self._zero, self._gain = np.array(tendons.zero_m), np.array(tendons.gain)
        self._fraction = np.array(tendons.friction_fraction) if friction else np.zeros(len(self._gain))
        counts = (
            ("angle_rad", len(robot.segments)),
            ("spiral_rad_per_m", 1),
            ("log_straight_over", 1),
            ("log_compliance", 1),
            ("log_bending_stiffness", len(robot.segments)),
            ("gravity_m_per_s2", 3),
            *((name, robot.tendon_count) for name in ("log_tendon_stiffness", "zero_m", "gain", "friction_fraction")),
        )
        ends = np.cumsum([count for _, count in counts])
        self.parameters = {
            name: slice(int(end) - count, int(end)) for (name, count), end in zip(counts, ends, strict=True)
        }
        self._parameter_count = int(ends[-1])
        self._path_changes = _path_changes(self.rod, robot)
        straight = np.zeros(self.rod.n)
        self._straight = [length_slope(self.rod, straight, {"path": change})[0] for change in self._path_changes]
        self._stiffness_changes = self._of_stiffness()

    def replay(
        self, displacement: ArrayLike, *, point_m: ArrayLike = (0.0, 0.0, 0.0), sensitivities: bool = False
    ) -> DisplacedReplay:
        """Shapes for readings in their order in time.

        Parameters
        ----------
        displacement : what the servos read, pulled in positive, (T, N), m; finite
        point_m : point of the tip's frame that ``point`` follows, (3,), m
        sensitivities : compute the derivatives too

        Returns
        -------
        shapes, tensions, friction

        Raises
        ------
        ParameterError : wrong shape, or values that are not finite
        ConvergenceError : no equilibrium found
        """
        readings, count = np.asarray(displacement, dtype=float), len(self._gain)
        if readings.ndim != 2 or readings.shape[1] != count or not np.isfinite(readings).all():
            raise ParameterError("displacement", np.shape(displacement), f"finite values, shape (T, {count})")
        samples, rod = len(readings), self.rod
        curvature, pose = np.zeros((samples, len(self._own))), np.tile(np.eye(4), (samples, 1, 1))
        path, tension, friction = (np.zeros((samples, count)) for _ in range(3))
        sensitivity = np.zeros((samples, 3, self._parameter_count)) if sensitivities else None
        point = np.asarray(point_m, dtype=float)
        c, way = np.zeros(rod.n), _Way(self, sensitivities)
        last = readings[0] if samples else np.zeros(count)
        for t, reading in enumerate(readings):
            if t == 0:
                c = way.begin(c, reading)
            steps = max(1, int(np.ceil(np.abs(reading - last).max() / _LONGEST_STEP_M))) if self._fraction.any() else 1
            for step in range(1, steps + 1):
                c = way.go_on(c, last + (reading - last) * (step / steps))
            last = reading
            pose[t], jacobian = rod.moved(c)
            curvature[t], path[t], tension[t], friction[t] = c[self._own], way.path, way.tension, way.friction
            if sensitivity is not None:
                turned = jacobian[:3] + np.cross(jacobian[3:].T, point).T
                sensitivity[t] = pose[t, :3, :3] @ turned @ way.slope
        at = pose[:, :3, 3] + pose[:, :3, :3] @ point
        return DisplacedReplay(curvature, pose, path, tension, friction, at, sensitivity)

    def _of_stiffness(self) -> dict[str, list[Array]]:
        """Changes of the stiffness matrix by each parameter that it has."""
        arrays, bends = self.rod.arrays, self.rod.arrays.rows < 2
        segment = np.zeros(self.rod.n, dtype=int)
        for piece in arrays.pieces:
            segment[piece.first : piece.first + piece.count] = piece.segment
        soft = np.setdiff1d(np.arange(self.rod.n), self._own)
        along = np.zeros(self.rod.n)
        along[soft] = 1.0
        parts = [(bends & (segment == k)).astype(float) for k in range(len(self._robot.segments))]
        return {
            "log_bending_stiffness": [part[:, None] * arrays.stiffness * part for part in parts],
            "log_compliance": [-along[:, None] * arrays.stiffness * along],
        }

    def force_slope(self, state: RestState, path_tension: Array, slope: Array) -> tuple[Array, Array]:
        """Derivatives at fixed coefficients: of the force, (n, P), and of the paths, (N, P), by the robot's parameters.

        Parameters
        ----------
        state : an equilibrium
        path_tension, slope : tension on each path, N, and its derivative by the path's length, N/m, (N,)
        """
        rod, gradient, at = self.rod, state.gradient, self.parameters
        force = np.zeros((rod.n, self._parameter_count))
        moved = np.zeros((len(slope), self._parameter_count))
        for k, (change, straight) in enumerate(zip(self._path_changes, self._straight, strict=True)):
            length, by_c = length_slope(rod, state.c, {"path": change})
            moved[:, k] = straight - length
            force[:, k] = -path_tension @ by_c + (slope * moved[:, k]) @ gradient
        for name, changes in self._stiffness_changes.items():
            for k, matrix in enumerate(changes):
                force[:, at[name].start + k] = -matrix @ state.c
        if rod.arrays.body[:, 0].any():
            for k, unit in enumerate(np.eye(3)):
                force[:, at["gravity_m_per_s2"].start + k] = terms_slope(rod, state.c, {"gravity": unit})
        return force, moved


class _Way:
    """Equilibria one after another, with the friction's memory."""

    def __init__(self, model: DisplacedStatics, sensitivities: bool) -> None:
        self.model, self.sensitivities, count = model, sensitivities, len(model._gain)
        self.anchor, self.limit = np.zeros(count), np.zeros(count)
        # Derivatives of anchors and limits.
        self.memory, self.limit_slope = np.zeros((2, count, model._parameter_count))
        self.slope = np.zeros((model.rod.n, model._parameter_count))

    def begin(self, c: Array, reading: Array) -> Array:
        """Without friction; the anchors are there."""
        state = self._solve(c, reading, None)
        if self.sensitivities:
            moved, _ = self._slopes(state, reading, np.zeros(len(self.anchor), dtype=bool))
            self.memory = moved
            self.limit_slope = self._limit_slope(moved, reading)
        self.anchor = self.path
        return state.c

    def go_on(self, c: Array, reading: Array) -> Array:
        """To the next reading."""
        model = self.model
        self.limit = model._fraction * self.tension
        rubs = bool(model._fraction.any())
        state = self._solve(c, reading, Stops(model._stick, self.anchor, self.limit) if rubs else None)
        elastic = model._stick * (self.path - self.anchor)
        sticking = np.abs(elastic) < self.limit
        if self.sensitivities:
            moved, _ = self._slopes(state, reading, sticking)
            reach = np.sign(elastic) / model._stick  # anchors that slid follow the path at F / (5 k)
            after = moved - reach[:, None] * self.limit_slope
            own = np.arange(len(reach))
            after[own, model.parameters["log_tendon_stiffness"].start + own] += reach * self.limit
            self.memory = np.where(sticking[:, None], self.memory, after)
            self.limit_slope = self._limit_slope(moved, reading)
        self.anchor = moved_anchor(self.path, self.anchor, self.limit, model._stick)
        return state.c

    def _solve(self, c: Array, reading: Array, stops: Stops | None) -> RestState:
        model = self.model
        wound = model._gain * reading + model._zero
        state = at_rest(model._balance, c, Held(model._stiffness, wound, stops))
        self.path = model.rod.rest_m - state.length_m
        self.stretch = np.maximum(wound - self.path, 0.0)
        self.tension = model._stiffness * self.stretch
        self.friction = self.tension - state.tension
        return state

    def _slopes(self, state: RestState, reading: Array, sticking: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Derivative of the paths, (N, P), and of the coefficients, (n, P), by the implicit function theorem."""
        model, at, G = self.model, self.model.parameters, state.gradient
        taut, stick = model._stiffness * (self.stretch > 0), model._stick * sticking
        force, moved = model.force_slope(state, state.tension, taut + stick)
        held = stick * (self.path - self.anchor)
        force[:, at["log_tendon_stiffness"]] -= G.T * (self.tension - held)
        force[:, at["zero_m"]] -= G.T * taut
        force[:, at["gain"]] -= G.T * (taut * reading)
        sliding = np.where(sticking, 0.0, np.sign(self.path - self.anchor)) * (self.limit > 0)
        force += G.T @ (sliding[:, None] * self.limit_slope - stick[:, None] * self.memory)
        self.slope = np.asarray(np.linalg.solve(state.own_hessian, force))
        return moved - G @ self.slope, self.slope

    def _limit_slope(self, moved: Array, reading: Array) -> Array:
        """Derivative of the fraction of the tension that friction may take up in the next step, (N, P)."""
        model, at, own = self.model, self.model.parameters, np.arange(len(self.anchor))
        taut = model._stiffness * (self.stretch > 0)
        slope = -taut[:, None] * moved
        slope[own, at["zero_m"].start + own] += taut
        slope[own, at["gain"].start + own] += taut * reading
        slope[own, at["log_tendon_stiffness"].start + own] += self.tension
        slope *= model._fraction[:, None]
        slope[own, at["friction_fraction"].start + own] += self.tension
        return slope


def _path_changes(rod: Rod, robot: Robot) -> list[Array]:
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
    return [*found, spiral, straight]
