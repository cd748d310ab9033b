# SPDX-License-Identifier: Apache-2.0
"""Frames of a rod with general strains, in NumPy: a chain of fourth-order Magnus steps with exact derivatives.

The chain is g_i = g_(i-1) exp(Omega_i(c)), and everything here is the exact derivative of that product, not of the
continuous rod that it approaches: the load's energy has this gradient and this Hessian to rounding. Twists and strains
have the angular part first; a wrench is (moment, force), its moment about the base's origin if in the base frame.

Of a step, with ad the matrix of the twist Omega, x = |omega|^2 and a_k(x) entire functions (se(3) satisfies
ad^5 = -2 x ad^3 - x^2 ad):

    exp(Omega)' exp(Omega)^-1 = T Omega',   T = 1 + a_1 ad + a_2 ad^2 + a_3 ad^3 + a_4 ad^4.

Everything also works on complex coefficients, so that a complex step may check it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.rod.bases import REFERENCE_STRAIN, basis_values
from continuum_robot.rod.strain_kernel import Record, address, doubles, kernel, whole

Vector = NDArray[np.float64]

_TERMS = 20  # of the power series in x: double precision up to a turn of 6 rad in one step
GAUSS_SHARES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)
"""Places in a step at which its strain is taken."""


def _series() -> Vector:
    """Coefficients in powers of x, one column each: c_1, c_2, c_3 of the exponential, a_1 .. a_4, a_1' .. a_4'."""
    table = np.zeros((_TERMS, 11))
    for m in range(_TERMS + 1):
        sign = (-1.0) ** m
        if m < _TERMS:
            table[m, :3] = [sign / math.factorial(2 * m + k) for k in (1, 2, 3)]
            table[m, 3] = (1 - m) * sign / math.factorial(2 * m + 2)
            table[m, 4] = (1 - m) * sign / math.factorial(2 * m + 3)
        if m > 0:
            table[m - 1, 5] = -m * sign / math.factorial(2 * m + 2)
            table[m - 1, 6] = -m * sign / math.factorial(2 * m + 3)
    table[:-1, 7:] = np.arange(1, _TERMS)[:, None] * table[1:, 3:7]
    return table


_SERIES = _series()


@dataclass(frozen=True)
class Stretch:
    """A length of rod with one basis, as the chain sees it.

    Attributes
    ----------
    length_m : m
    basis : its strains
    rest_strain : xi* = (u*, v*), (6,), angular part first, 1/m and dimensionless
    steps : least number of Magnus steps
    """

    length_m: float
    basis: Basis
    rest_strain: tuple[float, ...] = REFERENCE_STRAIN
    steps: int = 8


@dataclass(frozen=True, slots=True)
class Frames:
    """The chain at given coefficients.

    Attributes
    ----------
    rotation, position : (k, 3, 3), (k, 3) of every station in the base frame
    omega : (k - 1, 6) twist of every step, angular part first, rad and m
    own : (k - 1, 6, n) derivative of ``omega``
    tangent : (k - 1, 6, 6) T, the derivative of the exponential map, of every step
    powers : (k - 1, 4, 6, 6) ad, ad^2, ad^3, ad^4; None from the compiled kernel, which does without
    series : (k - 1, 11) coefficients of the series in ``omega`` and its angle that the maps of a step are made of
    step : (k - 1, 6, n) twist of a step's end against its start in the base frame, per coefficient
    jacobian : (k, 6, n) twist of every station in the base frame: velocity of what passes the base's origin
    """

    rotation: Vector
    position: Vector
    omega: Vector
    own: Vector
    tangent: Vector
    powers: Vector | None
    series: Vector
    step: Vector
    jacobian: Vector


class FrameBuffers:
    """Arrays that the compiled kernel fills with the frames of a chain.

    Parameters
    ----------
    steps, size : of the chain

    Attributes
    ----------
    frames : views of them
    record : what the kernel takes
    """

    def __init__(self, steps: int, size: int) -> None:
        self.frames = Frames(
            rotation=np.empty((steps + 1, 3, 3)),
            position=np.empty((steps + 1, 3)),
            omega=np.empty((steps, 6)),
            own=np.empty((steps, 6, size)),
            tangent=np.empty((steps, 6, 6)),
            powers=None,
            series=np.empty((steps, 11)),
            step=np.empty((steps, 6, size)),
            jacobian=np.empty((steps + 1, 6, size)),
        )
        self.record = frames_record(self.frames)


def frames_record(frames: Frames) -> Record:
    """Frames as the kernel takes them."""
    return Record(
        (),
        (
            frames.rotation,
            frames.position,
            frames.omega,
            frames.own,
            frames.tangent,
            frames.series,
            frames.step,
            frames.jacobian,
        ),
    )


class MagnusChain:
    """Stations along a rod, and the frames there with their derivatives.

    Parameters
    ----------
    stretches : from the base to the tip
    stations_m : arc lengths at which frames are wanted besides the chain's own

    Attributes
    ----------
    s_m : (k,) arc lengths of all stations, m; the first is 0, the last the rod's end
    size : number n of coefficients
    """

    def __init__(self, stretches: Sequence[Stretch], stations_m: Sequence[float] = ()) -> None:
        self.size = sum(stretch.basis.coefficient_count for stretch in stretches)
        self._row = whole([row for stretch in stretches for row, _ in stretch.basis.functions])
        wanted = np.unique(np.asarray(stations_m, dtype=float))
        stations: list[Vector] = [np.zeros(1)]
        values: tuple[list[Vector], list[Vector]] = ([], [])
        rest: list[Vector] = []
        columns: list[NDArray[np.int_]] = []
        start_m, column = 0.0, 0
        for stretch in stretches:
            nodes = _merged(start_m + stretch.length_m * lobatto(stretch.steps)[0], wanted)
            end = column + stretch.basis.coefficient_count
            for share, found in zip(GAUSS_SHARES, values, strict=True):
                ratios = (nodes[:-1] + share * np.diff(nodes) - start_m) / stretch.length_m
                phi = np.zeros((len(ratios), self.size))
                phi[:, column:end] = basis_values(stretch.basis, ratios)
                found.append(phi)
            rest.append(np.tile(stretch.rest_strain, (len(nodes) - 1, 1)))
            columns.append(np.tile([column, end], (len(nodes) - 1, 1)))
            stations.append(nodes[1:])
            start_m, column = start_m + stretch.length_m, end
        self.s_m = np.concatenate(stations)
        self.length_m = start_m
        self._phi_1, self._phi_2 = (np.concatenate(found) for found in values)
        self.rest = np.concatenate(rest).astype(float)
        self.step_m = np.diff(self.s_m)
        self.bracket = math.sqrt(3) / 12 * self.step_m**2
        low, high = np.concatenate(columns).T
        self.record = Record(
            (len(self.step_m), self.size),
            (
                doubles(_SERIES),
                doubles(self.step_m),
                doubles(self.rest),
                doubles(self._phi_1),
                doubles(self._phi_2),
                whole(low),
                whole(high),
                self._row,
            ),
        )

    @cached_property
    def first(self) -> Vector:
        """B at the first Gauss node of every step, (k - 1, 6, n)."""
        return spread(self._phi_1, self._row)

    @cached_property
    def second(self) -> Vector:
        """B at the second Gauss node of every step, (k - 1, 6, n)."""
        return spread(self._phi_2, self._row)

    @cached_property
    def _mean(self) -> Vector:
        return self.step_m[:, None, None] / 2 * (self.first + self.second)

    def indices(self, s_m: Sequence[float]) -> NDArray[np.int_]:
        """Stations at arc lengths that the chain was made with.

        Returns
        -------
        shape (k,)
        """
        places = np.asarray(s_m, dtype=float)
        after = np.clip(np.searchsorted(self.s_m, places), 1, len(self.s_m) - 1)
        return np.asarray(np.where(places - self.s_m[after - 1] <= self.s_m[after] - places, after - 1, after))

    def frames(self, c: Any) -> Frames:
        """Frames at all stations, and their Jacobians, at coefficients (n,)."""
        library = kernel()
        if library is None or np.iscomplexobj(c):
            return self._frames(c)
        buffers = FrameBuffers(len(self.step_m), self.size)
        coefficients = doubles(c)
        library.chain_frames(self.record.pointer, address(coefficients), buffers.record.pointer)
        return buffers.frames

    def _frames(self, c: Any) -> Frames:
        count = len(self.step_m)
        xi_1 = self.rest + self.first @ c
        xi_2 = self.rest + self.second @ c
        ad_1, ad_2 = ad(xi_1), ad(xi_2)
        bracket = self.bracket[:, None]
        omega = self.step_m[:, None] / 2 * (xi_1 + xi_2) + bracket * (ad_1 @ xi_2[..., None])[..., 0]
        own = self._mean + bracket[..., None] * (ad_1 @ self.second - ad_2 @ self.first)
        x = np.sum(omega[:, :3] ** 2, axis=1)
        series = x[:, None] ** np.arange(_TERMS) @ _SERIES
        one = ad(omega)
        powers = np.empty((count, 4, 6, 6), dtype=omega.dtype)
        powers[:, 0] = one
        powers[:, 1] = one @ one
        powers[:, 2:] = powers[:, 1:2] @ powers[:, :2]
        tangent = np.eye(6) + (series[:, None, 3:7] @ powers.reshape(count, 4, 36)).reshape(count, 6, 6)
        # The blocks of ad and ad^2 are hat(omega) and its square: Rodrigues' formula needs nothing else.
        hat_1, hat_2 = one[:, :3, :3], powers[:, 1, :3, :3]
        c_1, c_2, c_3 = (series[:, k, None, None] for k in range(3))
        pose = np.zeros((count + 1, 4, 4), dtype=omega.dtype)
        pose[:, 3, 3] = 1
        pose[0] = np.eye(4)
        pose[1:, :3, :3] = np.eye(3) + c_1 * hat_1 + c_2 * hat_2
        pose[1:, :3, 3:] = (np.eye(3) + c_2 * hat_1 + c_3 * hat_2) @ omega[:, 3:, None]
        reach = 1
        while reach <= count:  # products of all prefixes in log2(count) batches
            pose[reach:] = pose[:-reach] @ pose[reach:]
            reach *= 2
        rotation, position = pose[:, :3, :3], pose[:, :3, 3]
        step = adjoint(rotation[:-1], position[:-1]) @ (tangent @ own)
        jacobian = np.zeros((count + 1, 6, self.size), dtype=omega.dtype)
        np.cumsum(step, axis=0, out=jacobian[1:])
        return Frames(rotation, position, omega, own, tangent, powers, series, step, jacobian)

    def contraction(self, frames: Frames, wrench: Any) -> Any:
        """Sum over the stations of d(J^T W)/dc at constant W.

        Parameters
        ----------
        frames : at the coefficients
        wrench : (k, 6) wrench W on every station in the base frame

        Returns
        -------
        (n, n), row a and column b: derivative of the a-th generalised force by the b-th coefficient
        """
        library = kernel()
        if frames.powers is not None or library is None:
            return self._contraction(frames, wrench)
        hessian, work, loads = np.zeros((self.size, self.size)), np.empty((6, self.size)), doubles(wrench)
        record = frames_record(frames)
        library.chain_contraction(self.record.pointer, record.pointer, address(loads), address(hessian), address(work))
        return hessian

    def _contraction(self, frames: Frames, wrench: Any) -> Any:
        if frames.powers is None:
            raise ParameterError("frames", "compiled", "frames of the same kind as the chain computes")
        beyond = np.cumsum(wrench[::-1], axis=0)[::-1][1:]  # what is carried through each step
        turned = adjoint(frames.rotation[:-1], frames.position[:-1]).swapaxes(1, 2)
        local = (turned @ beyond[..., None])[..., 0]
        transposed = frames.powers[:, :3].swapaxes(2, 3)
        moved = np.concatenate([local[:, None], (transposed @ local[:, None, :, None])[..., 0]], axis=1)
        a, slope = frames.series[:, 3:7], frames.series[:, 7:11]
        sums = np.zeros((len(local), 4, 6), dtype=local.dtype)
        for m in range(4):
            sums[:, m] = (a[:, None, m:] @ moved[:, : 4 - m])[:, 0]
        coupling = co_ad(sums)
        one = frames.powers[:, 0]
        curve = coupling[:, 0] + (coupling[:, 1] + (coupling[:, 2] + coupling[:, 3] @ one) @ one) @ one
        last = (frames.powers[:, 3].swapaxes(1, 2) @ local[..., None])[..., 0]
        gradient = (slope[:, None] @ np.concatenate([moved[:, 1:], last[:, None]], axis=1))[:, 0]
        curve[:, :3] += 2 * frames.omega[:, :3, None] * gradient[:, None]
        pulled = (frames.tangent.swapaxes(1, 2) @ local[..., None])[..., 0]
        bracket = self.bracket[:, None, None] * co_ad(pulled)
        left = np.concatenate([frames.step, frames.own, self.second, self.first])
        right = np.concatenate(
            [
                co_ad(beyond).swapaxes(1, 2) @ frames.jacobian[:-1],
                curve.swapaxes(1, 2) @ frames.own,
                bracket.swapaxes(1, 2) @ self.first,
                bracket @ self.second,
            ]
        )
        return left.reshape(-1, self.size).T @ right.reshape(-1, self.size)


def spread(values: Vector, row: NDArray[np.intc]) -> Vector:
    """B (k, 6, n) from the entry of each of its columns (k, n) and the row (n,) where it stands.

    Parameters
    ----------
    values : entry of each column of B, which has but one, at k places, (k, n)
    row : index of the row where that entry stands, (n,)
    """
    matrix = np.zeros((len(values), 6, len(row)))
    matrix[:, row, np.arange(len(row))] = values
    return matrix


def hat(vector: Any) -> Any:
    """Cross-product matrices of vectors (..., 3), real or complex.

    Parameters
    ----------
    vector : shape (..., 3), any unit
    """
    vector = np.asarray(vector)
    matrix = np.zeros((*vector.shape[:-1], 3, 3), dtype=vector.dtype)
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    matrix[..., 2, 1], matrix[..., 0, 2], matrix[..., 1, 0] = x, y, z
    matrix[..., 1, 2], matrix[..., 2, 0], matrix[..., 0, 1] = -x, -y, -z
    return matrix


def ad(twist: Any) -> Any:
    """Matrices of the bracket with twists (..., 6), angular part first: ad(x) y = [x, y].

    Parameters
    ----------
    twist : shape (..., 6), angular part first
    """
    matrix = np.zeros((*twist.shape[:-1], 6, 6), dtype=twist.dtype)
    matrix[..., :3, :3] = matrix[..., 3:, 3:] = hat(twist[..., :3])
    matrix[..., 3:, :3] = hat(twist[..., 3:])
    return matrix


def co_ad(wrench: Any) -> Any:
    """Matrices P of wrenches W (..., 6), moment first, with W . [x, y] = x^T P y.

    Parameters
    ----------
    wrench : shape (..., 6), moment first
    """
    matrix = np.zeros((*wrench.shape[:-1], 6, 6), dtype=wrench.dtype)
    matrix[..., :3, :3] = -hat(wrench[..., :3])
    matrix[..., :3, 3:] = matrix[..., 3:, :3] = -hat(wrench[..., 3:])
    return matrix


def adjoint(rotation: Any, position: Any) -> Any:
    """Matrices that take twists, angular part first, from frames (..., 3, 3), (..., 3) to the base frame.

    Parameters
    ----------
    rotation, position : of the frames in the base frame, shape (..., 3, 3) and (..., 3), m
    """
    matrix = np.zeros((*position.shape[:-1], 6, 6), dtype=position.dtype)
    matrix[..., :3, :3] = matrix[..., 3:, 3:] = rotation
    matrix[..., 3:, :3] = hat(position) @ rotation
    return matrix


@lru_cache(maxsize=64)
def lobatto(intervals: int) -> tuple[Vector, Vector]:
    """Gauss-Lobatto nodes and weights on [0, 1]: (intervals + 1,) each, the ends among the nodes."""
    inner = np.polynomial.Legendre.basis(intervals).deriv().roots()
    nodes = np.concatenate([[-1.0], np.sort(inner.real), [1.0]])
    values = np.polynomial.Legendre.basis(intervals)(nodes)
    return (nodes + 1) / 2, 1 / (intervals * (intervals + 1) * values**2)


def _merged(nodes: Vector, wanted: Vector) -> Vector:
    """Nodes with the wanted places that lie between them and on none of them."""
    near = 1e-9 * (nodes[-1] - nodes[0])
    inside = wanted[(wanted > nodes[0]) & (wanted < nodes[-1])]
    inside = inside[np.abs(inside[:, None] - nodes).min(axis=1, initial=np.inf) > near]
    return np.sort(np.concatenate([nodes, inside]))
