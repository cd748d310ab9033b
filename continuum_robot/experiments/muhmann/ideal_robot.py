# SPDX-License-Identifier: Apache-2.0
"""A robot with ideal tension sources under the Clarke controller, in virtual time.

The controller runs every millisecond and its tensions are held in between, as on the robot; the rod moves by the
midpoint rule.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import Reference
from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.experiments.experiment import Progress
from continuum_robot.robot.control_settings import ControlSettings, PidGains
from continuum_robot.robot.description import Robot
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold
from continuum_robot.simulation.moving_rod import MovingRod
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.plants import MUJOCO, ROD

Array = NDArray[np.float64]

PERIOD_S = 0.001
UNBOUNDED_N = 1e5  # ideal tension sources have no limit; the settings want a number


@dataclass(frozen=True)
class Series:
    """A simulated run of T control cycles; m segments, N tendons."""

    time_s: Array
    reference_m: Array
    clarke_m: Array
    clarke_rate_m_per_s: Array
    generalized_force_n: Array
    applied_force_n: Array
    tension_n: Array

    @property
    def rmse_m(self) -> Array:
        """Root mean square tracking error of each Clarke coordinate, shape (2m,), m."""
        return np.asarray(np.sqrt(np.mean((self.clarke_m - self.reference_m) ** 2, axis=0)))


@dataclass(frozen=True)
class GainRule:
    """PID gains from the model of the straight robot, on each segment's own stiffness K, mass M and damping D.

    p = stiffness_ratio K; d makes the damping of K + p and M that of ``damping_ratio``, D included; i =
    integral_fraction p w with w = sqrt((K + p) / M). Without an integral, p alone leaves a static error of
    1 / (1 + stiffness_ratio).
    """

    stiffness_ratio: float = 10.0
    damping_ratio: float = 1.0
    integral_fraction: float = 0.2

    def gains(self, stiffness: ArrayLike, mass: ArrayLike, damping: ArrayLike) -> tuple[PidGains, ...]:
        """Gains of each segment."""
        result = []
        for K, M, D in zip(*(np.atleast_1d(value) for value in (stiffness, mass, damping)), strict=True):
            p = self.stiffness_ratio * K
            frequency = np.sqrt((K + p) / M)
            result.append(
                PidGains(
                    p=float(p),
                    i=float(self.integral_fraction * p * frequency),
                    d=float(max(0.0, 2 * self.damping_ratio * frequency * M - D)),
                    u_clamp_max=UNBOUNDED_N,
                    u_clamp_min=-UNBOUNDED_N,
                    i_clamp_max=UNBOUNDED_N,
                    i_clamp_min=-UNBOUNDED_N,
                    antiwindup_strategy="none",
                    derivative_filter_time=0.0,
                    reference_velocity_weight=1.0,
                )
            )
        return tuple(result)


class IdealRobot:
    """A robot on ideal tension sources."""

    def __init__(
        self,
        robot: Robot,
        *,
        rotational_energy: bool = False,
        substeps: int = 4,
        plant: str = ROD,
        progress: Progress | None = None,
    ) -> None:
        for segment in robot.segments:
            if not segment.basis.bending_alone or segment.basis.highest_order:
                raise ParameterError(f"basis of {segment.name}", segment.basis.kind, "bending of order 0 alone")
        self.robot = robot
        self.manifold = controlled_manifold(robot)
        self.rod = Rod(robot, parts=Parts(rotational_energy=rotational_energy, capstan_inertia=True))
        self._substeps = substeps
        self.to_curvature = coefficients_from_clarke(robot)
        self.from_curvature = np.linalg.inv(self.to_curvature)
        self._chain = MujocoPlant(robot, actuation="ideal", progress=progress) if plant == MUJOCO else None

    def model_at(self, clarke_m: ArrayLike) -> tuple[Array, Array, Array]:
        """Stiffness (gravity's included), mass and damping at a pose, in Clarke coordinates."""
        S, arrays = self.to_curvature, self.rod.arrays
        c = S @ np.asarray(clarke_m, dtype=float)
        terms = self.rod.terms(c, np.zeros(self.rod.n))
        return S.T @ (arrays.stiffness - terms.force_by_c) @ S, S.T @ terms.mass @ S, S.T @ arrays.damping @ S

    def gains(self, rule: GainRule) -> tuple[PidGains, ...]:
        """Gains of a rule for this robot."""
        K, M, D = (np.diag(matrix)[::2] for matrix in self.model_at(np.zeros(self.rod.n)))
        return rule.gains(K, M, D)

    def spectral_radius(self, gains: Sequence[PidGains], poses_m: ArrayLike) -> float:
        """How fast the sampled loop, linearised at rest, grows in a control cycle; below 1 it is stable."""
        p, i, d = (np.diag(np.repeat([getattr(one, name) for one in gains], 2)) for name in ("p", "i", "d"))
        size = len(p)
        largest = 0.0
        for pose in np.atleast_2d(np.asarray(poses_m, dtype=float)):
            K, M, D = self.model_at(pose)
            inverse, nothing = np.linalg.inv(M), np.zeros((size, size))
            held = np.zeros((3 * size, 3 * size))  # [q, q', force], the force held over the cycle
            held[:size, size : 2 * size] = np.eye(size)
            held[size : 2 * size] = np.hstack([-inverse @ K, -inverse @ D, inverse])
            cycle = expm(PERIOD_S * held)[: 2 * size]
            force = np.hstack([-p, -d, np.eye(size)])
            loop = np.vstack(
                [
                    np.hstack([cycle[:, : 2 * size], np.zeros((2 * size, size))]) + cycle[:, 2 * size :] @ force,
                    np.hstack([-PERIOD_S * i, nothing, np.eye(size)]),
                ]
            )
            largest = max(largest, float(np.abs(np.linalg.eigvals(loop)).max()))
        return largest

    def ultimate_ratio(self, rule: GainRule, poses_m: ArrayLike, greatest: float = 1000.0) -> float:
        """The stiffness ratio from which on the sampled loop is unstable at one of the poses."""
        low, high = 0.0, greatest
        while high - low > 0.01 * high:
            ratio = math.sqrt(max(low, 1e-2) * high)
            radius = self.spectral_radius(self.gains(dataclasses.replace(rule, stiffness_ratio=ratio)), poses_m)
            low, high = (ratio, high) if radius <= 1 + 1e-9 else (low, ratio)
            if high < 0.02:
                break
        return low

    def run(
        self, settings: ControlSettings, reference: Reference, duration_s: float, progress: Progress | None = None
    ) -> Series:
        """Track a reference from the straight configuration at rest."""
        controller = ClarkeController(dataclasses.replace(self.robot, control=settings))
        size, count = self.rod.n, round(duration_s / PERIOD_S)
        time_s: Array = PERIOD_S * np.arange(count, dtype=np.float64)
        clarke, rate, desired, asked = (np.empty((count, size)) for _ in range(4))
        tension = np.empty((count, self.manifold.tendon_count))
        moving = MovingRod(self.rod, linear=True, method="midpoint")
        moving.reset(np.zeros(size))
        state = np.zeros(2 * size)
        to_tendons = self.manifold.displacement_matrix @ self.from_curvature
        controller.reset(np.zeros(self.manifold.tendon_count), reference=reference.at(0.0))
        chain = self._chain
        if chain is not None:
            chain.reset(np.zeros(size))
        for index in range(count):
            now = reference.at(time_s[index])
            c, c_rate = state[:size], state[size:]
            displacement, velocity = to_tendons @ c, to_tendons @ c_rate
            if chain is not None:
                displacement, velocity = chain.displacement, chain.velocity
            output = controller.update(displacement, velocity, now, PERIOD_S)
            clarke[index], rate[index], desired[index] = output.clarke, output.clarke_rate, now.position
            asked[index], tension[index] = output.generalized_force, output.command
            state = self._moved(moving, output.command) if chain is None else _moved(chain, output.command)
            if not np.isfinite(state).all():
                raise ConvergenceError(
                    f"the closed loop is unstable: it diverged at {time_s[index]:.3f} s with the gains "
                    f"{[(g.p, g.i, g.d) for g in settings.gains]} (p, i, d)",
                    np.inf,
                    0.0,
                    index,
                )
            if progress is not None and index % 2000 == 0:
                progress(f"{settings.tendon_forces}: {time_s[index]:.0f} of {duration_s:g} s")
        applied = self.manifold.generalized_force(tension)
        return Series(time_s, desired, clarke, rate, asked, applied, tension)

    def _moved(self, moving: MovingRod, tension_n: Array) -> Array:
        """State a control cycle later; NaN where it diverged."""
        moving.desired[:] = tension_n
        try:
            moving.step(PERIOD_S, self._substeps)
        except ConvergenceError:
            return np.full(2 * self.rod.n, np.nan)
        return np.concatenate([moving.c, moving.rate()])


def _moved(chain: MujocoPlant, tension_n: Array) -> Array:
    """State of the chain a control cycle later; NaN where it diverged."""
    try:
        chain.advance(np.maximum(tension_n, 0.0), PERIOD_S)
    except ContinuumRobotError:
        return np.full(2 * len(chain.c), np.nan)
    return np.concatenate([chain.c, chain.c_rate])
