# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories, as other programs plan them: points in time of the Clarke coordinates or of the tendons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.references import Interpolated, reference_columns
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]

START_TOLERANCE_FRACTION = 0.02
"""How far a trajectory may begin from the reference, as a fraction of the largest displacement."""
MANIFOLD_TOLERANCE_FRACTION = 0.005
"""By how much displacements of tendons may miss those of Clarke coordinates, as a fraction of the largest."""


@dataclass(frozen=True, slots=True)
class TrajectoryPoint:
    """Where the joints are at a time."""

    time_s: float
    positions_m: Sequence[float]
    velocities_m_per_s: Sequence[float] = ()


def clarke_joints(robot: Robot) -> tuple[str, ...]:
    """Names of the Clarke coordinates as joints: q_re_1, q_im_1, q_re_2, ..."""
    return tuple(column.removesuffix("_m") for column in reference_columns(robot.coordinate_count))


class JointTrajectory(Interpolated):
    """A joint trajectory as a reference of the Clarke coordinates."""

    def __init__(self, times_s: Vector, positions_m: Vector, velocities_m_per_s: Vector, to_joints: Vector) -> None:
        super().__init__(times_s, positions_m, velocities_m_per_s)
        self.to_joints = to_joints


def joint_trajectory(
    robot: Robot, joints: Sequence[str], points: Sequence[TrajectoryPoint], here_m: ArrayLike
) -> JointTrajectory:
    """A joint trajectory from where the reference is."""
    if robot.limits is None:
        raise ParameterError("robot.limits", None, f"limits in the file of robot {robot.name!r}")
    most_m = robot.limits.each("maximum_displacement_m", robot.tendon_count)
    largest_m = float(most_m.min())
    here = np.asarray(here_m, dtype=float)
    times_s, at_joints, velocities = _checked(points, len(joints))
    to_joints, from_joints = _joint_maps(robot, joints)
    positions, velocities = at_joints @ from_joints.T, velocities @ from_joints.T
    missed = np.abs(positions @ to_joints.T - at_joints).max(axis=1)
    worst = int(missed.argmax())
    if missed[worst] > MANIFOLD_TOLERANCE_FRACTION * largest_m:
        raise ParameterError(
            f"points[{worst}].positions",
            at_joints[worst],
            f"displacements that bend the robot: these are {1e3 * missed[worst]:.2g} mm off any Clarke coordinates",
        )
    if times_s[0] > 0:
        times_s, positions = np.concatenate([[0.0], times_s]), np.vstack([here, positions])
        velocities = np.vstack([np.zeros(len(here)), velocities])
    elif np.abs(positions[0] - here).max() > START_TOLERANCE_FRACTION * largest_m:
        raise ParameterError(
            "points[0].positions",
            positions[0],
            f"within {1e3 * START_TOLERANCE_FRACTION * largest_m:.2g} mm of the reference, {here.round(5).tolist()} m; "
            "a first point later than 0 s begins there",
        )
    pulled = np.abs(positions @ controlled_manifold(robot).displacement_matrix.T)
    point, tendon = np.unravel_index(int(np.argmax(pulled / most_m)), pulled.shape)
    if pulled[point, tendon] > most_m[tendon]:
        raise ParameterError(
            f"points[{point}].positions",
            positions[point],
            f"displacements of at most limits.maximum_displacement_m = {most_m[tendon]:g} m of tendon {tendon + 1}, not"
            f" {pulled[point, tendon]:.3g} m",
        )
    return JointTrajectory(times_s, positions, velocities, to_joints)


def _joint_maps(robot: Robot, joints: Sequence[str]) -> tuple[Vector, Vector]:
    """From Clarke coordinates to the joints in their order, (k, 2m), and back, (2m, k)."""
    manifold, clarke = controlled_manifold(robot), clarke_joints(robot)
    straight = np.eye(len(clarke))
    for names, there, back in (
        (clarke, straight, straight),
        (robot.tendon_names, manifold.displacement_matrix, manifold.clarke_matrix),
    ):
        if sorted(joints) == sorted(names):
            order = [names.index(name) for name in joints]
            return np.asarray(there)[order], np.asarray(back)[:, order]
    raise ParameterError(
        "joint_names", list(joints), f"all of {', '.join(clarke)}, or all of {', '.join(robot.tendon_names)}"
    )


def _checked(points: Sequence[TrajectoryPoint], count: int) -> tuple[Vector, Vector, Vector]:
    """Times (k,), positions and velocities (k, joints); NaN where a velocity is not given."""
    if not points or (len(points) == 1 and points[0].time_s <= 0):
        raise ParameterError("points", len(points), "a point later than 0 s")
    times_s = np.array([point.time_s for point in points], dtype=float)
    if not np.isfinite(times_s).all() or times_s[0] < 0 or (np.diff(times_s) <= 0).any():
        raise ParameterError("time_from_start", times_s.tolist(), "increasing times from 0 s on")
    velocities = np.full((len(points), count), np.nan)
    for index, point in enumerate(points):
        if len(point.positions_m) != count or not np.isfinite(point.positions_m).all():
            raise ParameterError(f"points[{index}].positions", list(point.positions_m), f"{count} finite values, m")
        if len(point.velocities_m_per_s):
            velocity = np.asarray(point.velocities_m_per_s, dtype=float)
            if velocity.shape != (count,) or not np.isfinite(velocity).all():
                raise ParameterError(f"points[{index}].velocities", velocity, f"{count} finite values, m/s, or none")
            velocities[index] = velocity
    return times_s, np.array([point.positions_m for point in points], dtype=float), velocities
