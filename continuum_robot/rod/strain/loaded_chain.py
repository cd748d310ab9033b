# SPDX-License-Identifier: Apache-2.0
"""Loads on the stations of a rod's chain: potential, generalised force and stiffness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench
from continuum_robot.rod.step import step_functions
from continuum_robot.rod.strain.kinematics import Frames
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """What loads do at given coefficients.

    Attributes
    ----------
    potential_j : of the forces in the base frame, J; the others have none
    force : (n,) generalised force
    stiffness : (n, n) minus its derivative; symmetric where all loads are conservative. None where not asked for
    wrench : (k, 6) wrench (moment about the base's origin, force) on every station in the base frame
    frames : of the chain
    """

    potential_j: float
    force: Vector
    stiffness: Any
    wrench: Vector
    frames: Frames


class LoadedChain:
    """Loads on the stations of a chain.

    Parameters
    ----------
    rod : what they act on
    loads : gravity is not among them by itself, see :attr:`StrainRod.weight`

    Attributes
    ----------
    conservative : whether all of them have a potential (forces in the base frame)
    station : index of the station of every load
    laws, law_station : (l, 15) of all points, see :func:`..step.load_wrench`, and the index of the station of each
    """

    def __init__(self, rod: StrainRod, loads: Sequence[Load]) -> None:
        points: list[tuple[float, Vector, Vector, Vector, bool]] = []
        for load in loads:
            if isinstance(load, PointWrench):
                points.append(
                    (
                        float(load.s_m),
                        np.array(load.force_n, dtype=float),
                        np.array(load.moment_nm, dtype=float),
                        np.array(load.offset_m, dtype=float),
                        load.frame == "body",
                    )
                )
            else:
                points += _lumped(rod, load)
        points.sort(key=lambda point: point[0])
        self.chain = rod.chain([point[0] for point in points])
        self.size = rod.size
        count = len(points)
        self.station = self.chain.indices([point[0] for point in points])
        force = np.array([point[1] for point in points]).reshape(count, 3)
        moment = np.array([point[2] for point in points]).reshape(count, 3)
        self.offset = np.array([point[3] for point in points]).reshape(count, 3)
        following = np.array([point[4] for point in points], dtype=bool).reshape(count, 1)
        self.force, self.moment = np.where(following, 0, force), np.where(following, 0, moment)
        self.body_force, self.body_moment = np.where(following, force, 0), np.where(following, moment, 0)
        self.conservative = not (self.moment.any() or self.body_force.any() or self.body_moment.any())
        self.empty = not (force.any() or moment.any())
        laws = np.concatenate([self.offset, self.force, self.moment, self.body_force, self.body_moment], axis=1)
        # Loads at the same point count as one.
        where = np.concatenate([self.station[:, None], self.offset], axis=1)
        _, first, which = np.unique(where, axis=0, return_index=True, return_inverse=True)
        self.laws = laws[first]
        np.add.at(self.laws[:, 3:], which.reshape(-1), laws[:, 3:])
        self.laws[:, 3:] -= laws[first, 3:]
        self.law_station = self.station[first]
        self._gathered = np.zeros((len(self.chain.s_m), len(first)))  # to the stations from the loads
        self._gathered[self.law_station, np.arange(len(first))] = 1
        self._load = step_functions()["rod_load"]

    def laws_at(self) -> Iterator[tuple[int, Vector]]:
        """Index of the station and law (15,) of every point."""
        return zip(self.law_station.tolist(), self.laws, strict=True)

    def terms(self, c: Vector, *, stiffness: bool = True) -> LoadTerms:
        """Potential, generalised force and stiffness of the loads at coefficients (n,)."""
        chain, frames = self.chain, self.chain.frames(c)
        potential, wrench, motion = self._load(frames.frame[self.law_station], self.laws)
        total = self._gathered @ wrench
        hessian = None
        if stiffness:
            by_twist = (self._gathered @ motion.swapaxes(1, 2).reshape(-1, 36)).reshape(-1, 6, 6)
            hessian = -chain.contraction(frames, total, by_twist.swapaxes(1, 2) @ frames.jacobian)
        return LoadTerms(float(potential.sum()), chain.generalized(frames, total), hessian, total, frames)


def _lumped(rod: StrainRod, load: DistributedLoad) -> list[tuple[float, Vector, Vector, Vector, bool]]:
    """Point loads at Gauss-Lobatto nodes that stand for a distributed load; at a segment's ends the chain's own."""
    end_m = rod.length_m if load.end_m is None else load.end_m
    if not 0 <= load.start_m < end_m <= rod.length_m * (1 + 1e-12):
        raise ParameterError("distributed load", (load.start_m, end_m), f"start < end in [0, {rod.length_m:g}] m")
    points = []
    for start_m, stretch in zip(rod.starts_m, rod.stretches, strict=True):
        low, high = max(load.start_m, float(start_m)), min(end_m, float(start_m) + stretch.length_m)
        if high - low <= 1e-12 * rod.length_m:
            continue
        for node, weight in zip(*stretch.lobatto, strict=True):
            force, moment = load.at(low + node * (high - low))
            fraction_m = weight * (high - low)
            points.append(
                (low + node * (high - low), fraction_m * force, fraction_m * moment, np.zeros(3), load.frame == "body")
            )
    return points
