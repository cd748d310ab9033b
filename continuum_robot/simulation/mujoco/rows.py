# SPDX-License-Identifier: Apache-2.0
"""Stiff springs and dampers on light links, solved at the end of a step: tendons that only pull, walls, friction.

A row r acts with the magnitude T_r along a generalised direction J_r and answers the rate y = J v at the end of a step:
T_r = max(low_r, e_r - d_r (y_r + g_r T_r)), y = y_free + G T, with G = h J M^-1 J^T and a compliance g_r of its own, of
the spool behind a tendon. As G + diag(g) has no negative eigenvalue and d_r >= 0, there is one solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.resistance import PathFriction
from continuum_robot.rod.holding_force import STICKING_OVER_TENDON
from continuum_robot.simulation.motors import MotorModel

Vector = NDArray[np.float64]

_MOST_CHANGES = 50


@dataclass
class Rows:
    """Groups of rows in the order in which they were added."""

    directions: list[Vector] = field(default_factory=list)
    levels: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)
    compliances: list[Vector] = field(default_factory=list)
    one_sided: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(
        self,
        directions: Vector,
        levels: Vector,
        slopes: Vector,
        compliances: Vector | None = None,
        one_sided: bool = True,
    ) -> None:
        """Append a group of k rows."""
        count = len(directions)
        self.directions.append(directions)
        self.levels.append(levels)
        self.slopes.append(slopes)
        self.compliances.append(np.zeros(count) if compliances is None else compliances)
        self.one_sided.append(np.ones(count, dtype=bool) if one_sided else np.zeros(count, dtype=bool))


def joined(groups: list[NDArray[Any]]) -> NDArray[Any]:
    """All rows of groups in one array, (rows, ...)."""
    return groups[0] if len(groups) == 1 else np.concatenate(groups)


def solve_rows(
    level: Vector, slope: Vector, compliance: Vector, one_sided: NDArray[np.bool_], free_rate: Vector, coupling: Vector
) -> Vector:
    """Magnitudes T of all rows, (k,), by a Newton method on the set of rows that act."""
    desired = level - slope * free_rate
    matrix = slope[:, None] * coupling
    matrix.flat[:: len(level) + 1] += slope * compliance + 1.0
    acting = before = ~one_sided | (desired > 0)
    for _ in range(_MOST_CHANGES):
        if acting.all():
            found = np.linalg.solve(matrix, desired)
        else:
            # Rows that do not act have an equation of their own: T = 0.
            reduced = matrix * acting[:, None]
            reduced.flat[:: len(level) + 1] += ~acting
            found = np.linalg.solve(reduced, desired * acting)
        # What acts with the wrong sign, and what a row that does not act would give.
        following = ~one_sided | (np.where(acting, found, desired - matrix @ found) > 0)
        if (following == acting).all():
            return np.asarray(found)
        before, acting = acting, following
    changed = float(np.count_nonzero(before != acting))
    raise ConvergenceError("forces of tendons and contacts in a step", changed, 0.0, _MOST_CHANGES)


_SMOOTH = 1e-6
"""Turn times coefficient below which a tendon does not rub."""


class ChainRubbing:
    """Dry friction of N tendons along K pieces at most, a row each: Euler's capstan law at the chain's own angles.

    Derived here. A tendon that slides towards its spool keeps exp(-mu t_k) of its tension T in piece k, after it has
    turned by t_k; one that slides away has exp(mu t_k) of it. In between, with m in [-1, 1] for how much of the
    friction acts, it is exp(-m mu t_k) T, and friction takes T m w_k off the pull of piece k, w_k = (1 - exp(-m mu
    t_k)) / m. Its power is T m times the rate of sum w_k l_k, with the shortening l_k of piece k. Over w of the last
    piece that is how far the tendon has slid, averaged over its guides by what rubs there. T m w is a spring on that
    way up to its limit.
    """

    def __init__(self, robot: Robot, friction: PathFriction, model: Any) -> None:
        count = robot.tendon_count
        self._friction, self._sticking = friction, STICKING_OVER_TENDON * robot.tendon_stiffnesses_n_per_m
        counts = model.tendon_num[:count]
        self._sites = np.empty((count, int(counts.max())), dtype=np.intp)
        for j, (begin, number) in enumerate(zip(model.tendon_adr, counts, strict=False)):
            sites = model.wrap_objid[begin : begin + number]
            self._sites[j] = np.append(sites, np.repeat(sites[-1:], self._sites.shape[1] - number))
        self._real = np.arange(self._sites.shape[1] - 1) < counts[:, None] - 1
        self._last = np.arange(count), counts - 2
        self.reset()

    def reset(self) -> None:
        """No tendon has slid."""
        self.acting = np.zeros(len(self._sites))
        self._slid_m, self._weight = np.zeros_like(self.acting), np.zeros_like(self.acting)
        self._directions = np.zeros((len(self.acting), 0))

    def turns_rad(self, data: Any) -> Vector:
        """Angle through which each tendon has turned before each of its pieces, (N, K), rad, its guide included."""
        ways = np.diff(data.site_xpos[self._sites], axis=1)
        length = np.linalg.norm(ways, axis=2, keepdims=True)
        ways = ways / np.where(self._real[:, :, None], length, 1.0)
        comes = data.site_xmat[self._sites[:, 0]].reshape(-1, 3, 3)[:, :, 2]  # along the backbone
        before = np.concatenate([comes[:, None], ways[:, :-1]], axis=1)
        angle = np.arctan2(np.linalg.norm(np.cross(before, ways), axis=2), np.einsum("jki,jki->jk", before, ways))
        return np.asarray(self._friction.guide_rad[:, None] + np.cumsum(np.where(self._real, angle, 0.0), axis=1))

    def add(self, rows: Rows, data: Any, pulls: Vector, tension_n: Vector, h: float) -> None:
        """Friction in the next step, as rows that act both ways."""
        rubs = self._friction.coefficient[:, None] * self.turns_rad(data)
        most, rubbing = rubs[self._last], (rubs[self._last] > _SMOOTH) & (tension_n > 0)
        least_n, most_n = -tension_n * np.expm1(most), -tension_n * np.expm1(-most)
        if self._directions.size:
            way = np.divide(self._directions @ data.qvel, self._weight, out=np.zeros_like(most), where=self._weight > 0)
            self._slid_m += h * way
        self._slid_m = np.clip(self._slid_m, least_n / self._sticking, most_n / self._sticking)
        force_n = self._sticking * self._slid_m
        lost = np.divide(force_n, tension_n, out=np.zeros_like(most), where=rubbing)
        self.acting = np.divide(-np.log1p(-lost), most, out=np.zeros_like(most), where=rubbing)
        acting = self.acting[:, None]
        some = np.abs(acting) > _SMOOTH
        weights = np.where(some, -np.expm1(-acting * rubs) / np.where(some, acting, 1.0), rubs)
        directions = np.zeros((len(rubs), pulls.shape[1]))
        np.add.at(directions, np.nonzero(self._real)[0], weights[self._real][:, None] * pulls)
        self._directions, self._weight = directions, np.where(rubbing, weights[self._last], 0.0)
        sliding = ((force_n <= least_n) | (force_n >= most_n)) & (force_n * (directions @ data.qvel) >= 0)
        slope = np.divide(self._sticking * h, self._weight**2, out=np.zeros_like(most), where=rubbing & ~sliding)
        level = tension_n * self.acting
        rows.add(directions, -level, slope, one_sided=False)


def spool_step(
    robot: Robot, motor: MotorModel, state: Sequence[Vector], given: Sequence[Vector], anchors: Vector, h: float
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """What spools and their tendons contribute to a step, as rows.

    The motor's friction is linear about the speed at the end of the step.
    """
    spooled, speed, current, desired, displacement, load, tension = state
    offset, fraction, free, largest_a = given
    servo, mean_current = motor.servo, current
    if servo is None:
        # The lag of the current is integrated exactly; what accelerates the rotor is its mean over the step.
        lag = h / motor.current_time_constant_s
        mean_current = desired + (current - desired) * (1 - np.exp(-lag)) / lag
        current = desired + (current - desired) * np.exp(-lag)
    cogging = motor.cogging_n * np.sin(motor.cogging_rad_per_m * spooled + motor.cogging_phase_rad)
    largest_n = motor.newton_per_ampere * largest_a

    def driving(about: Vector) -> tuple[Vector, Vector | float]:
        """Force of the motor at the end of the step, and how fast it falls with the speed there."""
        if servo is None:
            return motor.newton_per_ampere * mean_current, 0.0
        return servo.force(desired, spooled + h * about, about, largest_n, h)

    def linear(about: Vector, pull: Vector | float) -> tuple[Vector, Vector]:
        """Speed at the end of the step with the friction's tangent at a speed, and how much the tangent slows it."""
        dry, dry_slope = motor.dry_friction(about, spooled + h * about, anchors, h)
        force, falls = driving(about)
        value = (force - load - cogging - pull - motor.viscous_ns_per_m * about - dry) / motor.mass_kg
        tangent = -(falls + motor.viscous_ns_per_m + dry_slope) / motor.mass_kg
        return (speed + h * (value - tangent * about)) / (1 - h * tangent), 1 - h * tangent

    # Three Newton steps to the end speed under the tension of before: dry friction turns within one step.
    end = speed
    for _ in range(3):
        end, _ = linear(end, tension)
    if servo is not None:
        current = driving(end)[0] / motor.newton_per_ampere
    loose, slower = linear(end, 0.0)
    loose = free * loose
    yielding = free * h / (motor.mass_kg * slower)
    # Tension at the end of the step, where the stretch is greater by h times its rate.
    stiffness, damping = robot.tendon_stiffnesses_n_per_m, robot.simulation.tendon_damping_ns_per_m
    slope = fraction * (stiffness * h + damping)
    level = fraction * stiffness * (spooled - displacement - offset) + slope * loose
    return current, level, slope, yielding, loose
