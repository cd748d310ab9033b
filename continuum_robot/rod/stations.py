# SPDX-License-Identifier: Apache-2.0
"""Places along a rod that are no bodies of its arrays: their strain, pose and Jacobian, many at once."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError, ReachError
from continuum_robot.geometry.so3 import hat
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.kernel.arrays import GAUSS, RodArrays, integrals

Vector = NDArray[np.float64]

_Parts: TypeAlias = tuple[int, NDArray[np.intp], slice, NDArray[np.int32], Vector]

REACH_RAD = 2.5
"""Turn of a step up to which the kernel's series hold."""

_UNTURNED = np.eye(4)


class Frames(NamedTuple):
    """Where a rod's bodies are."""

    rotation: Vector
    position: Vector
    jacobian: Vector


class Strains:
    """The strains at which a rod's frames are computed, linear in its coefficients."""

    def __init__(self, arrays: RodArrays) -> None:
        self._arrays, phi = arrays, iter(arrays.phi)
        self.rest, self.step_m = arrays.rest.reshape(-1, 3, 6), arrays.step_m
        self.basis = np.zeros((len(arrays.node), 3, 6, arrays.n))
        place = 0
        for first, count, places, _, _ in arrays.piece:
            own = np.arange(first, first + count)
            for k in range(place, place + places):
                for g in range(3):
                    self.basis[k, g, arrays.rows[own], own] = [next(phi) for _ in own]
            place += places

    @cached_property
    def _turns(self) -> tuple[float, Vector]:
        """The longest step, m, and the most that each coefficient of 1 turns a step by, (n,), rad."""
        step_m = self._arrays.step_m
        turning = np.linalg.norm(self.basis[:, :, :3], axis=2).max(axis=1)
        return float(step_m.max()), (turning * step_m[:, None]).max(axis=0)

    def at(self, c: Vector) -> Vector:
        """At the three Gauss points of each place's step, (places, 3, 6)."""
        return np.asarray(self._arrays.rest + self.basis @ c)

    def check_reach(self, c: Vector) -> None:
        """Refuse coefficients that turn a step further than the kernel's series hold."""
        arrays = self._arrays
        longest_m, of_each_rad = self._turns
        if math.sqrt(3) * np.abs(arrays.rest[..., :3]).max() * longest_m + of_each_rad.dot(np.abs(c)) <= REACH_RAD:
            return  # whatever their signs
        turn_rad = np.linalg.norm(self.at(c)[..., :3], axis=2).max(axis=1) * arrays.step_m
        worst = int(turn_rad.argmax())
        if turn_rad[worst] <= REACH_RAD:
            return
        piece = arrays.pieces[int(np.searchsorted(np.cumsum(arrays.piece[:, 2]), worst, side="right"))]
        longest = piece.length_m / (piece.high - piece.low) / arrays.step_m[worst]
        raise ReachError(
            f"bending and torsion of segment {piece.segment + 1}",
            float(turn_rad[worst] * longest),
            f"at most {REACH_RAD * longest:.3g} rad, to which the rod's frames hold: unload it, or describe it by more"
            " segments or nodes",
        )


class TipSteps(NamedTuple):
    """The way to the tip of a rod, or of many with as many steps: strains at three Gauss points of each step.

    Attributes
    ----------
    rest : at c = 0, (..., steps, 3, 6)
    basis : by c, (..., steps, 3, 6, n)
    step_m : lengths, (..., steps), m
    """

    rest: Vector
    basis: Vector
    step_m: Vector

    @classmethod
    def of(cls, strains: Strains) -> TipSteps:
        """Of one rod; where the strain is constant from one step to the next these are one."""
        rest, basis, step_m = strains.rest, strains.basis, strains.step_m
        both = np.concatenate([rest[..., None], basis], axis=-1)
        constant = (both == both[:, :1]).all(axis=(1, 2, 3))
        goes_on = constant[1:] & constant[:-1] & (both[1:] == both[:-1]).all(axis=(1, 2, 3))
        first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
        return cls(rest[first], basis[first], np.add.reduceat(step_m, first))

    def tips(self, c: Vector) -> Vector:
        """Places of the tips at coefficients (robots, n), of one rod or as many as there are; (robots, 3), m."""
        strains = self.rest + (self.basis * c[:, None, None, None, :]).sum(axis=-1)
        robots, count = strains.shape[:2]
        step_m = np.broadcast_to(self.step_m, (robots, count))
        steps = reference.steps(strains.reshape(-1, 3, 6), step_m.reshape(-1)).reshape(robots, count, 4, 4)
        place = steps[:, -1, :3, 3]
        for k in range(count - 2, -1, -1):
            place = steps[:, k, :3, 3] + (steps[:, k, :3, :3] * place[:, None, :]).sum(axis=-1)
        return place


class Stations:
    """Some places of a rod."""

    def __init__(self, arrays: RodArrays, places_m: Vector) -> None:
        end_m = arrays.bodies_m[-1]
        if not np.all((places_m >= 0) & (places_m <= end_m * (1 + 1e-9))):
            raise ParameterError("arc_lengths_m", places_m.tolist(), f"arc lengths in [0, {end_m:g}] m")
        self._arrays, count = arrays, len(places_m)
        ends_m = np.array([piece.start_m + piece.length_m for piece in arrays.pieces])
        self._piece = np.minimum(np.searchsorted(ends_m * (1 + 1e-12), places_m), len(ends_m) - 1)
        self._before = np.searchsorted(arrays.bodies_m, places_m * (1 + 1e-12), side="right") - 1
        from_m = np.where(self._before >= 0, arrays.bodies_m[self._before], 0.0)
        self._step_m = np.maximum(places_m - from_m, 0.0)
        self._rest, self._basis = np.zeros((count, 3, 6)), np.zeros((count, 3, 6, arrays.n))
        self._own_basis, self.rest_strains = np.zeros((count, 6, arrays.n)), np.zeros((count, 6))
        place_of = np.searchsorted(np.cumsum(arrays.step_m), places_m * (1 - 1e-12))
        for k, (s_m, number) in enumerate(zip(places_m, self._piece, strict=True)):
            piece = arrays.pieces[number]
            own = np.arange(piece.first, piece.first + piece.count)
            place = min(int(place_of[k]), len(arrays.node) - 1)
            start_m = float(np.sum(arrays.step_m[:place]))
            for g, at_m in enumerate((*(from_m[k] + part * self._step_m[k] for part in GAUSS), float(s_m))):
                ratio = min(max((at_m - piece.start_m) / piece.length_m, 0.0), 1.0)
                into = (at_m - start_m) / arrays.step_m[place] if arrays.step_m[place] > 0 else 0.5
                rest = _through(arrays.rest[place], into)
                basis, to = (self._basis[k, g], self._rest[k]) if g < 3 else (self._own_basis[k], self.rest_strains)
                basis[arrays.rows[own], own] = piece.values(ratio)
                to[g if g < 3 else k] = rest
        self._known, self._moved = np.flatnonzero(self._before >= 0), np.flatnonzero(self._step_m > 0)
        self._places_m = places_m

    def strains(self, c: Vector) -> Vector:
        """Strain (u, v) at each, 1/m and dimensionless, (k, 6)."""
        return np.asarray(self.rest_strains + self._own_basis @ c)

    def poses(self, at: Frames, c: Vector) -> Vector:
        """Poses, (k, 4, 4), of the frames at ``c``."""
        poses = np.zeros((len(self._before), 4, 4))
        poses[:] = _UNTURNED
        known, moved = self._known, self._moved
        poses[known, :3, :3] = at.rotation[self._before[known]]
        poses[known, :3, 3] = at.position[self._before[known]]
        if moved.size:
            strains = self._rest[moved] + self._basis[moved] @ c
            poses[moved] = poses[moved] @ reference.steps(strains, self._step_m[moved])
        return poses

    def jacobians(self, at: Frames, poses: Vector) -> Vector:
        """Body Jacobians (linear, angular), (k, 6, n), of the frames and poses at the same coefficients."""
        found = np.zeros((len(poses), 6, self._arrays.n))
        for k, (body, parts) in enumerate(zip(self._before, self._parts, strict=True)):
            if parts is None:  # at a body, or the base, which stands still
                found[k] = at.jacobian[body] if body >= 0 else 0.0
                continue
            before, nodes, own, rows, values = parts
            spatial = np.zeros((6, self._arrays.n))  # angular part first, about the base's origin
            if before >= 0:
                spatial += _spatial(at, before)
            axes, turns = at.rotation[nodes][:, :, rows % 3].transpose(0, 2, 1), (rows < 3)[:, None]
            moving = np.where(turns, reference.cross(at.position[nodes][:, None], axes), axes)
            columns = np.concatenate([np.where(turns, axes, 0.0), moving], axis=2)  # (nodes, columns, 6)
            spatial[:, own] += (values[:, :, None] * columns).sum(axis=0).T
            R, x = poses[k, :3, :3], poses[k, :3, 3]
            found[k, :3] = R.T @ (spatial[3:] - hat(x) @ spatial[:3])
            found[k, 3:] = R.T @ spatial[:3]
        return found

    @cached_property
    def _parts(self) -> list[_Parts | None]:
        """Of each that is no body: the body before its piece, the bodies at the piece's nodes, its coefficients and
        their rows, and of each node its weight times the basis there.
        """
        arrays, parts = self._arrays, list[_Parts | None]()
        begins = np.concatenate([[0], np.cumsum(arrays.piece[:, 2])])
        for s_m, number, step_m in zip(self._places_m, self._piece, self._step_m, strict=True):
            piece, begin = arrays.pieces[number], int(begins[number])
            weights = integrals(len(piece.nodes), (s_m - piece.start_m) / piece.length_m) * piece.length_m
            nodes = begin + np.flatnonzero(arrays.node[begin : begins[number + 1]] >= 0)
            own = slice(piece.first, piece.first + piece.count)
            values = weights[:, None] * np.array([piece.values(node) for node in piece.nodes])
            parts.append((begin - 1, nodes, own, arrays.rows[own], values) if step_m > 0 else None)
        return parts


def _through(values: Vector, at: float) -> Vector:
    """The quadratic function through values at the Gauss points of a step, at a fraction of it."""
    return np.asarray(
        sum(
            value * math.prod((at - other) / (one - other) for other in GAUSS if other != one)
            for one, value in zip(GAUSS, values, strict=True)
        )
    )


def _spatial(at: Frames, body: int) -> Vector:
    """Jacobian of a body as spatial twists, angular part first."""
    turning = at.rotation[body] @ at.jacobian[body, 3:]
    return np.vstack([turning, at.rotation[body] @ at.jacobian[body, :3] + hat(at.position[body]) @ turning])
