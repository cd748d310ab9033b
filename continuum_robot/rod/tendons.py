# SPDX-License-Identifier: Apache-2.0
"""The coordinates that the tendons of a rod control: Clarke coordinates, or the modes of its tendons' compliance.

Tendons and strings parallel to a rod that only bends are linear in its strain coefficients. Derived here: what stands
for muhmann (13) where tendons are not parallel or fewer modes are controlled than there are, and its shape of least
elastic energy. All these coordinates are q = D rho, tensions of a force u are pinv(D)^T u and what shifts them lies in
the null space of D^T; Clarke's D is the closed form for tendons that stand evenly, muhmann (4), (13), (26) and (28).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.geometry.tendon_modes import TendonModes
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix, gauss_legendre
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]


def coefficient_slices(robot: Robot) -> tuple[slice, ...]:
    """For each segment, where its coefficients stand in the coefficients of the whole robot."""
    ends = np.cumsum([segment.basis.coefficient_count for segment in robot.segments])
    return tuple(
        slice(int(end) - segment.basis.coefficient_count, int(end))
        for end, segment in zip(ends, robot.segments, strict=True)
    )


def check_parallel(robot: Robot) -> None:
    """Refuse a robot whose displacements are not linear in its coefficients; raises ParameterError."""
    reason = robot.traits.nonlinear_lengths
    if reason:
        raise ParameterError(
            "robot",
            f"{robot.name}: {reason}",
            "here bending alone, with tendons and strings parallel to the backbone; rod.rod.Rod has all others",
        )


def tendon_matrix(robot: Robot) -> Vector:
    """Displacement of every tendon per strain coefficient, shape (tendons, coefficients), m per (1/m).

    It is q = r theta cos(psi - phi), pulled in positive, for constant curvature: muhmann (4), (8), (13).
    """
    return _shortening(robot, robot.tendon_paths)


def string_matrix(robot: Robot) -> Vector:
    """Extension of every string per strain coefficient, shape (strings, coefficients), m per (1/m).

    Positive when the string leaves the robot's body, as a tendon's displacement.
    """
    return _shortening(robot, [string.path for string in robot.strings])


def _shortening(robot: Robot, paths: Sequence[RoutedPath]) -> Vector:
    """A tendon at (x, y) is shorter by y per curvature about x, and longer by x per curvature about y: rucker (11)."""
    check_parallel(robot)
    matrix = np.zeros((len(paths), robot.coefficient_count))
    starts = zip(robot.segment_starts_m, robot.segments, coefficient_slices(robot), strict=True)
    for start_m, segment, own in starts:
        length_m, cuts = segment.length_m, segment.basis.breaks
        for row, path in zip(matrix, paths, strict=True):
            ends = (float(np.clip((end_m - start_m) / length_m, 0.0, 1.0)) for end_m in (path.start_m, path.end_m))
            begin, end = ends
            x, y, _, _ = (float(value[0]) for value in path.at(start_m + length_m * (begin + end) / 2))
            for low, high in pairwise((begin, *(cut for cut in cuts if begin < cut < end), end)):
                at, weights = gauss_legendre(segment.basis.degree + 1, high - low)
                for ratio, weight in zip(low + at, weights, strict=True):
                    bent = basis_matrix(segment.basis, ratio)[list(BENDING_ROWS)]
                    row[own] += weight * length_m * (x * bent[1] - y * bent[0])
    return matrix


EXTENSION = 5
"""Row of the strain."""
_ROUNDING = 1e-9  # of the largest: a direction of displacement below it is none


def limiting_manifold(robot: Robot) -> ClarkeManifold:
    """The manifold on which a robot's tensions are limited: the controlled one, else every tendon by itself."""
    try:
        return controlled_manifold(robot)
    except ParameterError:
        return UnrelatedTendons(robot.tendon_count)


@lru_cache(maxsize=16)
def controlled_manifold(robot: Robot) -> ClarkeManifold:
    """Maps between all tendons and the coordinates that a controller has.

    Those of a robot with parallel tendons follow from geometry alone. Others are those displacements to which the rod
    is most compliant, see :class:`~continuum_robot.geometry.tendon_modes.TendonModes`; of servos that share tendons the
    softest of those that they can make.
    """
    clarke = None if robot.traits.without_clarke else clarke_manifold(robot)
    if clarke is not None and not _some_of_clarke(robot):
        return clarke
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    gradient = rod.displacement_gradient(straight)
    compliant = np.linalg.solve(rod.arrays.stiffness, gradient.T)
    tip = rod.moved(straight)[1][:2]
    compliance = gradient @ compliant
    if robot.shares_motors:
        made = _made_by_motors(robot, compliance)
        compliance = made @ compliance @ made
    try:
        asked = robot.control is not None and robot.control.modes > 0
        return TendonModes(compliance, tip @ compliant, robot.coordinate_count, in_pairs=not asked, within=clarke)
    except ParameterError as error:
        raise ParameterError(f"tendons of {robot.name}", error.value, error.expected) from error


def _made_by_motors(robot: Robot, compliance: Vector) -> Vector:
    """Projector onto the displacements that the rod can have and motors that share tendons can make, (N, N)."""
    assert robot.transmission is not None
    matrix = robot.transmission.coupling(robot.tendon_count)
    left, size, _ = np.linalg.svd(compliance, hermitian=True)
    paths = left[:, size > _ROUNDING * size[0]]
    missed = paths - matrix @ np.linalg.lstsq(matrix, paths, rcond=None)[0]
    _, size, right = np.linalg.svd(missed)
    made = paths @ right[np.count_nonzero(size > _ROUNDING) :].T
    return np.asarray(made @ made.T)


def held_manifold(robot: Robot) -> ClarkeManifold:
    """The manifold that servos hold: all Clarke coordinates, of which controlled modes may be fewer.

    Coordinates that no reference asks for are held at zero. Where servos share tendons, those that they cannot make are
    held by the tendons themselves, and only the controlled ones are in the manifold.
    """
    if robot.traits.without_clarke or robot.shares_motors:
        return controlled_manifold(robot)
    return clarke_manifold(robot)


def clarke_from_modes(robot: Robot) -> Vector:
    """Matrix from the controlled coordinates to all of the tendons', (2m, k); the identity where they are the same."""
    manifold = controlled_manifold(robot)
    if not _some_of_clarke(robot):
        return np.eye(manifold.coordinate_count)
    return np.asarray(clarke_manifold(robot).clarke_matrix @ manifold.displacement_matrix)


def _some_of_clarke(robot: Robot) -> bool:
    """Whether the controlled coordinates are fewer than the Clarke coordinates that there are."""
    return bool(not robot.traits.without_clarke and robot.control is not None and robot.control.modes)


def coefficients_from_clarke(robot: Robot) -> Vector:
    """Matrix from the coordinates of the tendons to the coefficients of least elastic energy, (n, 2m), 1/m per m.

    For a constant basis that is the only shape with these coordinates. Parallel tendons alone bend a segment by a
    constant curvature, so other bases give the same shape. For general tendons it holds near the straight rod. Where
    fewer modes are controlled than there are Clarke coordinates, the others are zero.
    """
    rod = Rod(robot)
    some = _some_of_clarke(robot)
    onto = (clarke_manifold(robot) if some else controlled_manifold(robot)).clarke_matrix @ rod.displacement_gradient(
        np.zeros(rod.n)
    )
    compliant = np.linalg.solve(rod.arrays.stiffness, onto.T)
    shape = np.asarray(np.linalg.solve(onto @ compliant, compliant.T).T)
    return shape @ clarke_from_modes(robot) if some else shape


def pressed_by_pretension(robot: Robot) -> Vector:
    """Coefficients by which a straight rod that can shorten is shorter under the robot's pretension, (n,)."""
    rod, pretension_n = Rod(robot), 0.0 if robot.control is None else robot.control.pretension_n
    along = np.flatnonzero(rod.arrays.rows == EXTENSION)
    pull = rod.displacement_gradient(np.zeros(rod.n)).sum(axis=0)[along] * pretension_n
    found = np.zeros(rod.n)
    found[along] = np.linalg.solve(rod.arrays.stiffness[np.ix_(along, along)], pull)
    return found
