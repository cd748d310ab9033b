# SPDX-License-Identifier: Apache-2.0
"""Shapes of a robot whose tendons are held at displacements: elastic tendons that may be slack, weight, dry friction.

Interface (stays; the inside becomes rod/statics.py with tendon paths displaced in the kernel's numbers):
``DisplacedStatics(robot, friction=)``, ``.replay(displacement, point_m=, sensitivities=)``, ``.parameters``: readings
of servos in, shapes out, with the derivative of a point of the tip by each parameter. For any other parameter and any
robot rod/statics.py has ``Equilibrium.slope``: dc/d(parameter) from the force's derivative by it.

The rod is the engine's with a constant basis: curvatures c, and of each segment by how much it is shorter. What both
take from the tendons' paths, d, is :mod:`continuum_robot.rod.displaced_paths`.

A tendon whose servo reads q has the stretch e = gain q + zero - d, the tension T = k max(e, 0), and on its way through
the robot dry friction against the sliding of its path (:mod:`continuum_robot.rod.friction.dry`), of which the most is a
fraction of the tension (Coulomb), that of the step before. Every sample is the minimum over the shape x of

    x K x / 2 + V_gravity(c) + sum k max(e, 0)^2 / 2 + friction from the last sample's anchors

by Newton's method with the exact Hessian. Where a reading jumps, the way between the samples is taken as straight. The
first sample has no history: it is taken as free of friction. That a shorter backbone moves its tip is left out, that it
slackens the tendons is not. Derivatives of the shape with respect to the parameters are exact, those of the friction's
memory included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag
from scipy.linalg.lapack import dposv

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.rod.displaced_paths import DisplacedPaths
from continuum_robot.rod.friction.dry import moved_anchor, stop_force
from continuum_robot.rod.strain.loaded_chain import LoadedChain
from continuum_robot.rod.strain.rod import StrainRod

Array = NDArray[np.float64]

# Friction springs are this much stiffer than their tendon: what they hide is F / (5 k), a fifth of the tendon's own
# stretch under the friction.
STICKING_OVER_TENDON = 5.0
_LONGEST_STEP_M = 2e-3
_LARGEST_TURN_RAD = 0.8
_TURN_TOLERANCE_RAD = 1e-7
_NEWTON_IS_SQUARE_RAD = 3e-4  # below this a full step leaves about its square
_ARMIJO = 1e-4
_ROUNDING_J = 1e-14
_SMALLEST_FRACTION = 1e-4
_ITERATIONS = 80
_MAGNUS_STEPS = 3


@dataclass(frozen=True)
class DisplacedReplay:
    """Shapes for T samples of N tendons, m segments.

    Attributes
    ----------
    curvature : [kappa_x, kappa_y] of every segment, (T, 2m), 1/m
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
    robot : rod, weight and ``displaced_tendons``; its basis is taken as constant
    friction : False leaves the friction out

    Attributes
    ----------
    parameters : slice of every parameter in the sensitivities: ``angle_rad`` (m), ``log_bending_stiffness`` (m),
        ``gravity_m_per_s2`` (3), ``spiral_rad_per_m``, ``log_compliance``, ``log_straight_over`` (1 each),
        ``log_tendon_stiffness``, ``zero_m``, ``gain``, ``friction_fraction`` (N each)

    Raises
    ------
    ParameterError : a robot without ``displaced_tendons``, or with tendons that are not straight
    """

    def __init__(self, robot: Robot, *, friction: bool = True) -> None:
        tendons = robot.displaced_tendons
        if tendons is None or robot.traits.without_statics:
            raise ParameterError("robot", robot.name, "segments and `displaced_tendons`, as `identify` writes them")
        if robot.routed_tendons or not all(segment.tendons.routing.parallel for segment in robot.segments):
            raise ParameterError("robot", robot.name, "straight tendons alone")
        constant = Basis(kind="constant_bending")
        reduced = robot.changed(segments=tuple(replace(segment, basis=constant) for segment in robot.segments))
        self.rod = StrainRod.from_robot(reduced, magnus_steps=_MAGNUS_STEPS)
        self._loaded = LoadedChain(self.rod, self.rod.weight)
        self._gravity = np.array(robot.gravity_m_per_s2)
        size = float(self._gravity @ self._gravity)
        self._masses = self._loaded.force @ self._gravity / size if size else np.zeros(0)
        self._paths = DisplacedPaths(reduced, tendons)
        self._elastic = block_diag(self.rod.stiffness, np.eye(len(robot.segments)))
        self._stiffness = np.array(tendons.stiffness_n_per_m)
        self._zero, self._gain = np.array(tendons.zero_m), np.array(tendons.gain)
        self._fraction = np.array(tendons.friction_fraction) if friction else np.zeros(len(self._gain))
        nothing = np.zeros(len(self._gain))
        self._smooth = stop_force(nothing, nothing, nothing, self._stiffness)
        counts = (
            # Those of the paths come first, in the order of DisplacedPaths.
            ("angle_rad", len(robot.segments)),
            ("spiral_rad_per_m", 1),
            ("log_compliance", 1),
            ("log_straight_over", 1),
            ("log_bending_stiffness", len(robot.segments)),
            ("gravity_m_per_s2", 3),
            *((name, robot.tendon_count) for name in ("log_tendon_stiffness", "zero_m", "gain", "friction_fraction")),
        )
        ends = np.cumsum([count for _, count in counts])
        self.parameters = {
            name: slice(int(end) - count, int(end)) for (name, count), end in zip(counts, ends, strict=True)
        }
        self._parameter_count = int(ends[-1])

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
        readings = np.asarray(displacement, dtype=float)
        count, size = len(self._gain), len(self._elastic)
        if readings.ndim != 2 or readings.shape[1] != count or not np.isfinite(readings).all():
            raise ParameterError("displacement", np.shape(displacement), f"finite values, shape (T, {count})")
        samples = len(readings)
        curvature, pose = np.zeros((samples, self.rod.size)), np.tile(np.eye(4), (samples, 1, 1))
        path, tension, friction = (np.zeros((samples, count)) for _ in range(3))
        sensitivity = np.zeros((samples, 3, self._parameter_count)) if sensitivities else None
        point = np.asarray(point_m, dtype=float)
        state = _Solution(self, np.zeros(size))
        memory, limit_slope = np.zeros((2, count, self._parameter_count))  # derivatives of anchors and limits
        anchor, last = np.zeros(count), readings[0] if samples else np.zeros(count)
        slope = np.zeros((size, self._parameter_count))
        for t, reading in enumerate(readings):
            if t == 0:
                state.solve(reading, anchor, np.zeros(count))
                if sensitivities:
                    slope = state.slope(reading, memory, limit_slope)
                    memory = self._path_slope(slope, state)
                    limit_slope = self._limit_slope(memory, state, reading)
                anchor = state.path
            steps = max(1, int(np.ceil(np.abs(reading - last).max() / _LONGEST_STEP_M))) if self._fraction.any() else 1
            for step in range(1, steps + 1):
                target = last + (reading - last) * (step / steps)
                limit = self._fraction * state.tension
                state.solve(target, anchor, limit)
                if sensitivities:
                    slope = state.slope(target, memory, limit_slope)
                    moved = self._path_slope(slope, state)
                    memory = self._memory(moved, state, memory, limit_slope)
                    limit_slope = self._limit_slope(moved, state, target)
                anchor = moved_anchor(state.path, anchor, limit, STICKING_OVER_TENDON * self._stiffness)
            last = reading
            frames = state.weight.frames
            rotation, end = frames.rotation[-1], frames.position[-1]
            pose[t, :3, :3], pose[t, :3, 3] = rotation, end
            curvature[t], path[t], tension[t], friction[t] = state.c, state.path, state.tension, state.stop.force
            if sensitivity is not None:
                twist, arm = frames.jacobian[-1], end + rotation @ point
                sensitivity[t] = (twist[3:] + np.cross(twist[:3].T, arm).T) @ slope[: self.rod.size]
        at = pose[:, :3, 3] + pose[:, :3, :3] @ point
        return DisplacedReplay(curvature, pose, path, tension, friction, at, sensitivity)

    def _path_slope(self, slope: Array, state: _Solution) -> Array:
        """Derivative of the paths with respect to the parameters, (N, P), from that of the shape."""
        moved = state.lever @ slope
        moved[:, : self._paths.parameters] += self._paths.by_parameter(state.x)[0]
        return moved

    def _memory(self, moved: Array, state: _Solution, before: Array, limit_slope: Array) -> Array:
        """Derivative of the anchors after a step, (N, P): those that slid follow the path at F / (5 k)."""
        stick = STICKING_OVER_TENDON * self._stiffness
        reach = np.sign(state.path - state.anchor) / stick
        after = moved - reach[:, None] * limit_slope
        own = np.arange(len(stick))
        after[own, self.parameters["log_tendon_stiffness"].start + own] += reach * state.limit
        return np.where(state.stop.sticking[:, None], before, after)

    def _limit_slope(self, moved: Array, state: _Solution, reading: Array) -> Array:
        """Derivative of the fraction of the tension that friction may take up in the next step, (N, P)."""
        at, own, taut = self.parameters, np.arange(len(self._fraction)), self._stiffness * state.taut
        slope = -taut[:, None] * moved
        slope[own, at["zero_m"].start + own] += taut
        slope[own, at["gain"].start + own] += taut * reading
        slope[own, at["log_tendon_stiffness"].start + own] += state.tension
        slope *= self._fraction[:, None]
        slope[own, at["friction_fraction"].start + own] += state.tension
        return slope


class _Solution:
    """The equilibrium at one step, and the way to the next."""

    def __init__(self, model: DisplacedStatics, x: Array) -> None:
        self.model, self.x = model, x
        self.weight = model._loaded.terms(self.c)

    @property
    def c(self) -> Array:
        """Curvatures, (2m,), 1/m."""
        return self.x[: self.model.rod.size]

    def solve(self, reading: Array, anchor: Array, limit: Array) -> None:
        """Newton's method from the last shape. Raises ConvergenceError."""
        self.anchor, self.limit = anchor, limit
        energy, gradient, hessian = self._terms(reading)
        turn = np.inf
        for _ in range(_ITERATIONS):
            step = self._downhill(hessian, gradient)
            turn = float(np.abs(self.model._paths.turn_rad * step).max())
            fraction = min(1.0, _LARGEST_TURN_RAD / turn) if turn > 0 else 1.0
            start, descent = self.x, float(gradient @ step)
            before = (self.taut, self.stop.sticking)
            while True:
                self.x = start + fraction * step
                self.weight = self.model._loaded.terms(self.c)
                trial = self._terms(reading)
                if trial[0] <= energy + _ARMIJO * fraction * descent + _ROUNDING_J or fraction < _SMALLEST_FRACTION:
                    break
                fraction /= 2
            energy, gradient, hessian = trial
            same = bool((before[0] == self.taut).all() and (before[1] == self.stop.sticking).all())
            if turn < (_NEWTON_IS_SQUARE_RAD if same and fraction == 1.0 else _TURN_TOLERANCE_RAD):
                return
        raise ConvergenceError("equilibrium of held tendons", turn, _TURN_TOLERANCE_RAD, _ITERATIONS)

    def _terms(self, reading: Array) -> tuple[float, Array, Array]:
        """Energy, gradient and Hessian at ``self.x``; ``self.weight`` has to be that of its curvatures."""
        model, x, n = self.model, self.x, self.model.rod.size
        self.path = model._paths.at(x)
        stretch = model._gain * reading + model._zero - self.path
        self.taut = stretch > 0
        self.stretch = np.maximum(stretch, 0.0)
        self.tension = model._stiffness * self.stretch
        stick = STICKING_OVER_TENDON * model._stiffness
        self.stop = stop_force(self.path, self.anchor, self.limit, stick) if model._fraction.any() else model._smooth
        bent = model._elastic @ x
        energy = float(x @ bent + self.tension @ self.stretch) / 2 + self.stop.energy + float(self.weight.potential_j)
        self.pull = self.tension - self.stop.force
        self.lever = model._paths.lever(x)
        gradient = bent - self.pull @ self.lever
        gradient[:n] -= self.weight.force
        self.along = model._stiffness * self.taut + stick * self.stop.sticking
        self.hessian = model._elastic + self.lever.T @ (self.along[:, None] * self.lever)
        self.hessian[:n, :n] += self.weight.stiffness
        self.hessian[np.diag_indices(len(x))] -= model._paths.bent_work(self.pull)
        return energy, gradient, self.hessian

    def _downhill(self, hessian: Array, gradient: Array) -> Array:
        """Newton's step; where the energy is not convex, one with as much stiffness more as it needs."""
        _, step, problem = dposv(hessian, -gradient)
        extra = 1e-3 * float(np.trace(self.model.rod.stiffness)) / len(gradient)
        while problem:
            _, step, problem = dposv(hessian + extra * np.eye(len(gradient)), -gradient)
            extra *= 4
        return np.asarray(step)

    def slope(self, reading: Array, memory: Array, limit_slope: Array) -> Array:
        """dx/d(parameters), (3m, P), by the implicit function theorem, from those of anchors and limits, (N, P)."""
        model, D, x = self.model, self.lever, self.x
        at, n = model.parameters, self.model.rod.size
        right = np.zeros((len(x), model._parameter_count))
        paths, levers = model._paths.by_parameter(x)
        right[:, : model._paths.parameters] = D.T @ (self.along[:, None] * paths) - (self.pull @ levers).T
        bent = model._elastic @ x
        for index, own in enumerate(model.rod.columns):
            right[own, at["log_bending_stiffness"].start + index] = bent[own]
        if len(model._masses):
            frames, station = self.weight.frames, model._loaded.station
            turning, place = frames.jacobian[station, :3], frames.position[station]
            velocity = frames.jacobian[station, 3:] - np.cross(place[:, :, None], turning, axis=1)
            right[:n, at["gravity_m_per_s2"]] = -np.tensordot(model._masses, velocity, 1).T
        stick = STICKING_OVER_TENDON * model._stiffness * self.stop.sticking
        held = stick * (self.path - self.anchor)
        right[:, at["log_tendon_stiffness"]] = D.T * (held - self.tension)
        pulled = D.T * (model._stiffness * self.taut)
        right[:, at["zero_m"]] = -pulled
        right[:, at["gain"]] = -pulled * reading
        sliding = np.where(self.stop.sticking, 0.0, np.sign(self.path - self.anchor))
        right += D.T @ (sliding[:, None] * limit_slope - stick[:, None] * memory)
        return np.asarray(-np.linalg.solve(self.hessian, right))
