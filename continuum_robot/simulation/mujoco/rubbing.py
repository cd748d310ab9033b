# SPDX-License-Identifier: Apache-2.0
"""Dry friction of the chain's tendons in their guides and disks: Euler's capstan law at the chain's own angles.

Derived here. A tendon that slides towards its spool keeps exp(-mu t_k) of its tension T in piece k, after it has turned
by t_k; one that slides away has exp(mu t_k) of it. In between, with m in [-1, 1] for how much of the friction acts, it
is exp(-m mu t_k) T, and friction takes T m w_k off the pull of piece k, w_k = (1 - exp(-m mu t_k)) / m. Its power is
T m times the rate of sum w_k l_k, with the shortening l_k of piece k. Over w of the last piece that is how far the
tendon has slid, averaged over its guides by what rubs there. T m w is a spring on that way up to its limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.path_friction import PathFriction
from continuum_robot.rod.held_tendons import STICKING_OVER_TENDON
from continuum_robot.simulation.mujoco.compliant_rows import Rows

Vector = NDArray[np.float64]

_SMOOTH = 1e-6
"""Turn times coefficient below which a tendon does not rub."""


class ChainRubbing:
    """Friction of N tendons along their K pieces at most, one row of compliant_rows.py each.

    Parameters
    ----------
    robot : with tendons that rub
    friction : of its tendons
    model : mujoco.MjModel with the pieces of its tendons

    Attributes
    ----------
    acting : how much of the friction acts, 1 where a tendon slides towards its spool, -1 where away from it, (N,)
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
