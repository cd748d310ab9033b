# SPDX-License-Identifier: Apache-2.0
"""The Clarke transform of tendon displacements, for any number of tendons and segments (muhmann, section II-A).

Tendon j of a segment stands at psi_j = psi_0 + 2 pi (j - 1) / n from +x, or at any other angle. A displacement
q_j > 0 is pulled in, and q_j = r_d theta cos(psi_j - phi). The Clarke coordinates [q_Re, q_Im] of a segment are the two
numbers that all its displacements depend on. With an offset psi_0 the coordinates stay those of the segment's x and y
axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError

Array = NDArray[np.float64]


class ClarkeTransform:
    """The Clarke transform of one segment's n tendons.

    Attributes
    ----------
    matrix : M_P of muhmann (3), shape (2, n), of uneven tendons the pseudo-inverse of ``inverse``; read-only
    inverse : right inverse of M_P, muhmann (5), shape (n, 2); read-only
    angles_rad : psi_j, shape (n,), rad; read-only
    """

    def __init__(
        self, count: int, angle_offset_rad: float = 0.0, uneven_angles_rad: Sequence[float] | None = None
    ) -> None:
        if count < 3:
            raise ParameterError("count", count, "at least 3 tendons: fewer cannot bend a segment in every direction")
        if not np.isfinite(angle_offset_rad):
            raise ParameterError("angle_offset_rad", angle_offset_rad, "a finite angle in rad")
        self.count = int(count)
        self.angle_offset_rad = float(angle_offset_rad)
        self.even = uneven_angles_rad is None
        self.angles_rad = _frozen(angle_offset_rad + 2 * np.pi * np.arange(count) / count)
        if uneven_angles_rad is not None:
            self.angles_rad = _frozen(np.array(uneven_angles_rad, dtype=float))
            if self.angles_rad.shape != (count,) or not np.isfinite(self.angles_rad).all():
                raise ParameterError("uneven_angles_rad", uneven_angles_rad, f"{count} finite angles in rad")
        self.inverse = _frozen(np.column_stack([np.cos(self.angles_rad), np.sin(self.angles_rad)]))  # muhmann (5)
        self.matrix = _frozen(2 / count * self.inverse.T)  # muhmann (3)
        self.shift_direction = _frozen(np.ones(count))
        if not self.even:
            self._uneven()

    def _uneven(self) -> None:
        from continuum_robot.geometry.tendon_modes import positive_null_vector  # noqa: PLC0415  # SciPy, for these alone

        self.matrix = _frozen(np.asarray(np.linalg.pinv(self.inverse), dtype=np.float64))
        direction = positive_null_vector(self.inverse)
        if direction is None:
            angles = np.round(np.degrees(self.angles_rad), 2).tolist()
            expected = "tendons on all sides, with less than 180 degrees between neighbours"
            raise ParameterError("uneven_angles_rad", f"{angles} degrees", expected)
        self.shift_direction = _frozen(direction)

    def forward(self, displacement: ArrayLike) -> Array:
        """Clarke coordinates of displacements; what violates the tendon constraint is projected out.

        Parameters
        ----------
        displacement : shape (..., n), m

        Returns
        -------
        [q_Re, q_Im], shape (..., 2), m; muhmann (2)
        """
        return np.asarray(np.asarray(displacement, dtype=float) @ self.matrix.T)  # muhmann (2)

    def backward(self, clarke: ArrayLike) -> Array:
        """Displacements of Clarke coordinates; they obey the tendon constraint, muhmann (1).

        Parameters
        ----------
        clarke : [q_Re, q_Im], shape (..., 2), m

        Returns
        -------
        shape (..., n), m; muhmann (4)
        """
        return np.asarray(np.asarray(clarke, dtype=float) @ self.inverse.T)  # muhmann (4)


def arc_from_clarke(clarke: ArrayLike, pitch_radius_m: ArrayLike) -> tuple[Array, Array]:
    """Arc parameters of Clarke coordinates.

    Parameters
    ----------
    clarke : [q_Re, q_Im], shape (..., 2), m
    pitch_radius_m : r_d, scalar or shape (...), m

    Returns
    -------
    phi : direction towards which the tip moves, shape (...), rad in [-pi, pi]; 0 at the straight configuration
    theta : bending angle, shape (...), rad, >= 0, not limited to pi
    """
    clarke = np.asarray(clarke, dtype=float)
    phi = np.arctan2(clarke[..., 1], clarke[..., 0])  # muhmann (6)
    theta = np.hypot(clarke[..., 0], clarke[..., 1]) / np.asarray(pitch_radius_m, dtype=float)  # muhmann (7)
    return np.asarray(phi), np.asarray(theta)


def clarke_from_arc(phi: ArrayLike, theta: ArrayLike, pitch_radius_m: ArrayLike) -> Array:
    """Clarke coordinates of arc parameters.

    Parameters
    ----------
    phi : bending direction, shape (...), rad
    theta : bending angle, shape (...), rad; a negative one bends the other way
    pitch_radius_m : r_d, scalar or shape (...), m

    Returns
    -------
    [q_Re, q_Im], shape (..., 2), m; muhmann (8)
    """
    phi, theta = np.asarray(phi, dtype=float), np.asarray(theta, dtype=float)
    length = theta * np.asarray(pitch_radius_m, dtype=float)
    return np.stack([length * np.cos(phi), length * np.sin(phi)], axis=-1)  # muhmann (8)


class ClarkeManifold:
    """Displacements of all tendons of a robot with m segments, and the 2m Clarke coordinates they depend on.

    The tendons of segment i run through the segments 1 to i, so that
    q_ij = sum over k <= i of (r_i / r_k) [cos psi_ij, sin psi_ij] q_M,k: muhmann (13), with a pitch radius of each
    segment's own. Tendons are numbered segment by segment from the base, then by angle.

    Parameters
    ----------
    counts : number of tendons that end at each segment, m values, each at least 3
    pitch_radii_m : distance of a segment's tendons from the backbone, m values, m
    angle_offsets_rad : angle of each segment's first tendon from +x, m values, rad; None: all 0

    from_base : whether a segment's tendons run from the base through all segments before, m values; None: all do. Else
        from the segment's own start
    uneven_angles_rad : angles of each segment's tendons from +x where they do not stand evenly, else None, m values;
        None: all stand evenly

    Attributes
    ----------
    transforms : the :class:`ClarkeTransform` of each segment
    displacement_matrix : D, shape (N, 2m), displacement = D clarke; read-only
    clarke_matrix : shape (2m, N), clarke = matrix displacement; the pseudo-inverse of D; read-only
    tendon_count, coordinate_count, segment_count : N, 2m, m
    tendon_slices : for each segment, where its tendons stand in an array over all tendons
    shift_direction : tensions that, scaled alike within each slice, force nothing, (N,): equal ones of tendons that
        stand evenly; read-only

    Raises
    ------
    ParameterError : no segment, lists of different lengths, fewer than 3 tendons, or a radius that is not positive
    """

    def __init__(
        self,
        counts: Sequence[int],
        pitch_radii_m: Sequence[float],
        angle_offsets_rad: Sequence[float] | None = None,
        from_base: Sequence[bool] | None = None,
        uneven_angles_rad: Sequence[Sequence[float] | None] | None = None,
    ) -> None:
        uneven = [None] * len(counts) if uneven_angles_rad is None else list(uneven_angles_rad)
        through = [True] * len(counts) if from_base is None else [bool(one) for one in from_base]
        offsets = [0.0] * len(counts) if angle_offsets_rad is None else list(angle_offsets_rad)
        if not len(counts) or len(pitch_radii_m) != len(counts) or len(offsets) != len(counts):
            raise ParameterError(
                "counts, pitch_radii_m, angle_offsets_rad",
                (len(counts), len(pitch_radii_m), len(offsets)),
                "one value a segment in each, for at least one segment",
            )
        for radius in pitch_radii_m:
            if not (np.isfinite(radius) and radius > 0):
                raise ParameterError("pitch_radii_m", radius, "a positive length in m")
        transforms = tuple(ClarkeTransform(*one) for one in zip(counts, offsets, uneven, strict=True))
        radius_m, slices = np.array(pitch_radii_m, dtype=float), _slices(counts)
        D = np.zeros((sum(counts), 2 * len(counts)))
        C: Array = np.zeros((2 * len(counts), sum(counts)))
        for i, (rows, own) in enumerate(zip(slices, transforms, strict=True)):
            for k in range(i + 1) if through[i] else (i,):
                D[rows, 2 * k : 2 * k + 2] = radius_m[i] / radius_m[k] * own.inverse  # muhmann (13)
            # M_P q_i sums the bending of the segments 1 to i; the previous segment's sum leaves the own share.
            C[2 * i : 2 * i + 2, rows] = own.matrix  # muhmann (2)
            if i:
                before = transforms[i - 1].matrix
                C[2 * i : 2 * i + 2, slices[i - 1]] = -radius_m[i] / radius_m[i - 1] * before
        if not (all(through) and all(one.even for one in transforms)):
            # The segment before may have no tendon that sums the bending from the base, and M_P of uneven tendons is no
            # multiple of their angles' matrix: take the least squares.
            C = np.asarray(np.linalg.pinv(D), dtype=np.float64).reshape(C.shape)
        direction = np.concatenate([one.shift_direction for one in transforms])
        self._set(D, C, counts, segments=len(counts), radii_m=radius_m, transforms=transforms, direction=direction)

    def _set(
        self,
        D: Array,
        C: Array,
        counts: Sequence[int],
        *,
        segments: int = 1,
        radii_m: Sequence[float] | Array = (),
        transforms: tuple[ClarkeTransform, ...] = (),
        direction: Array | None = None,
    ) -> None:
        """Take D, its pseudo-inverse C, and how many tendons each slice has; without ``direction`` all shift alike."""
        self.transforms, self.pitch_radii_m = transforms, _frozen(np.array(radii_m, dtype=float))
        self.displacement_matrix, self.clarke_matrix = _frozen(D), _frozen(C)
        self.tendon_count, self.coordinate_count = D.shape
        self.segment_count, self.tendon_slices = segments, _slices(counts)
        self.shift_direction = _frozen(np.ones(len(D)) if direction is None else direction)
        self._off_manifold = _frozen(np.eye(len(D)) - D @ C)

    @property
    def pairs_together(self) -> Array:
        """Displacements for a unit of all first and of all second coordinates of the pairs, (N, 2)."""
        moved = self.displacement_matrix
        return np.stack([moved[:, ::2].sum(axis=1), moved[:, 1::2].sum(axis=1)], axis=1)

    def displacement(self, clarke: ArrayLike) -> Array:
        """Displacements of all tendons.

        Parameters
        ----------
        clarke : [q_Re,1, q_Im,1, ...], shape (..., 2m), m (or m/s, for rates)

        Returns
        -------
        shape (..., N), m (or m/s)
        """
        return np.asarray(np.asarray(clarke, dtype=float) @ self.displacement_matrix.T)

    def clarke(self, displacement: ArrayLike) -> Array:
        """Clarke coordinates of all segments: the least-squares fit where displacements miss the manifold.

        Parameters
        ----------
        displacement : of all tendons, shape (..., N), m (or m/s, for rates)

        Returns
        -------
        [q_Re,1, q_Im,1, ...], shape (..., 2m), m (or m/s)
        """
        return np.asarray(np.asarray(displacement, dtype=float) @ self.clarke_matrix.T)

    def generalized_force(self, tension: ArrayLike) -> Array:
        """Generalised force of tendon tensions on the Clarke coordinates, by virtual work: D^T tension.

        For one segment this is muhmann (27), n / 2 M_P F.

        Parameters
        ----------
        tension : of all tendons, shape (..., N), N

        Returns
        -------
        shape (..., 2m), N
        """
        return np.asarray(np.asarray(tension, dtype=float) @ self.displacement_matrix)

    def inconsistency_m(self, displacement: ArrayLike) -> Array:
        """How far displacements miss the manifold: slack, stretched or slipped tendons show here.

        Parameters
        ----------
        displacement : of all tendons, shape (..., N), m

        Returns
        -------
        root mean square over the tendons of each segment, shape (..., m), m
        """
        miss = np.asarray(displacement, dtype=float) @ self._off_manifold.T
        return np.stack([np.sqrt(np.mean(miss[..., rows] ** 2, axis=-1)) for rows in self.tendon_slices], axis=-1)


class UnrelatedTendons(ClarkeManifold):
    """Every displacement is a coordinate of its own: no tendon shows anything about another.

    So it is for helical tendons, which only the rod's mechanics ties to each other; derived here: the identity in place
    of muhmann (13). :attr:`transforms` is empty.
    """

    def __init__(self, count: int) -> None:
        self._set(np.eye(count), np.eye(count), [count])


def _slices(counts: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum(counts)
    return tuple(slice(int(end) - int(n), int(end)) for end, n in zip(ends, counts, strict=True))


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
