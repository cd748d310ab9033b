# SPDX-License-Identifier: Apache-2.0
"""All unloaded poses of a mechanism: without loads they form a curve over the ratio of the tensions.

Derived here from the balance of moments in ha (10).

Drawn in space, the plane of the links is x, z of the base frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.statics import TOLERANCE, RollingStatics
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

_LARGEST_RATIO = 30.0
_POINTS = 301
_ITERATIONS = 100


class UnloadedCurve:
    """The curve as a table: ratio of the tensions, contacts, tendon displacements.

    Displacements are counted from the pose of equal tensions, > 0 where a tendon is pulled in.

    Attributes
    ----------
    log_ratio : logarithm of left over right tension, increasing, shape (k,)
    contact_m : shape (k, n - 1), m
    displacement_m : left and right, shape (k, 2), m
    coordinate_m : half the difference of the displacements, increasing, shape (k,), m
    home_length_m : tendon lengths where the tensions are equal, shape (2,), m
    """

    def __init__(self, statics: RollingStatics, largest_ratio: float = _LARGEST_RATIO) -> None:
        linkage, end = statics.linkage, float(np.log(largest_ratio))
        self.log_ratio = np.linspace(-end, end, _POINTS)
        tension = np.exp(np.outer(self.log_ratio, [0.5, -0.5]))
        tolerance_nm = TOLERANCE * linkage.size_m * tension.sum(axis=1, keepdims=True)
        # Each joint is for itself, and its moment falls with its contact: Newton's method in a bracket.
        low, high = np.broadcast_to(linkage.limits_m.T[:, None], (2, _POINTS, linkage.joint_count))
        contact = np.clip(0.0, low, high)
        for _ in range(_ITERATIONS):
            joints = linkage.joints(contact)
            moment, stiffness = (np.einsum("kt,ktj->kj", tension, x) for x in (joints.levers_m, joints.lever_slopes_m))
            if (np.abs(moment) <= tolerance_nm).all():
                break
            low, high = np.where(moment > 0, contact, low), np.where(moment < 0, contact, high)
            ahead = contact - joints.rolled_m * moment / np.where(stiffness > 0, stiffness, np.inf)
            contact = np.where((low < ahead) & (ahead < high), ahead, (low + high) / 2)
        else:
            row, joint = np.unravel_index(np.argmax(np.abs(moment) / tolerance_nm), moment.shape)
            raise NoEquilibriumError(int(joint) + 1, float(contact[row, joint]), 1)
        self.contact_m = contact
        self.home_length_m = statics.solve_tension([1.0, 1.0]).tendon_length_m
        self.displacement_m = self.home_length_m - linkage.channel_length_m - joints.lengths_m.sum(axis=-1)
        self._steps = np.diff(self.displacement_m, axis=0)
        self._squares = np.sum(self._steps**2, axis=1)
        self.coordinate_m = (self.displacement_m[:, 0] - self.displacement_m[:, 1]) / 2

    def nearest(self, displacement_m: Array) -> tuple[Array, Array, float]:
        """The unloaded pose whose tendon displacements come closest to measured ones.

        Parameters
        ----------
        displacement_m : left and right, shape (2,), m

        Returns
        -------
        contacts, shape (n - 1,), m; their change with the displacements, shape (n - 1, 2); and the distance that is
        """
        away = displacement_m - self.displacement_m[:-1]
        fraction = np.clip(np.sum(away * self._steps, axis=1) / self._squares, 0.0, 1.0)
        miss = away - fraction[:, None] * self._steps
        best = int(np.argmin(np.sum(miss**2, axis=1)))
        change = self.contact_m[best + 1] - self.contact_m[best]
        slope = np.outer(change, self._steps[best] / self._squares[best])
        contact = self.contact_m[best] + fraction[best] * change
        return contact, slope, float(np.sqrt(np.mean(miss[best] ** 2)))

    def contacts(self, coordinate_m: float) -> Array:
        """Contacts where a coordinate is given, shape (n - 1,), m."""
        return np.array([np.interp(coordinate_m, self.coordinate_m, contact) for contact in self.contact_m.T])

    def force(self, coordinate_m: ArrayLike, least_tension_n: float) -> Array:
        """Left less right tension that holds a coordinate while the lesser tension is given.

        Parameters
        ----------
        coordinate_m : half the difference of the displacements, shape (...), m

        Returns
        -------
        shape (...), N; beyond the ends of the curve that of the end
        """
        ratio = np.interp(np.asarray(coordinate_m, dtype=float), self.coordinate_m, self.log_ratio)
        return np.asarray(np.sign(ratio) * least_tension_n * np.expm1(np.abs(ratio)))


_DRAWN_POINTS = 15


def pose_in_space(poses: Array) -> Array:
    """Poses of the plane as frames in space: z of a link's frame is its y in the plane.

    Parameters
    ----------
    poses : x (m), y (m), angle (rad), shape (n, 3)

    Returns
    -------
    shape (n, 4, 4)
    """
    result = np.zeros((len(poses), 4, 4))
    cosine, sine = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    result[:, 0, 0], result[:, 0, 2] = cosine, -sine
    result[:, 2, 0], result[:, 2, 2] = sine, cosine
    result[:, 1, 1] = result[:, 3, 3] = 1.0
    result[:, 0, 3], result[:, 2, 3] = poses[:, 0], poses[:, 1]
    return result


class RollingParts:
    """Frames of all links, their outlines, and both tendons.

    Attributes
    ----------
    link_shapes : closed outline of every link in its own plane, (points, 2), m
    """

    core: int | None = None

    def __init__(self, robot: Robot) -> None:
        self.linkage = make_linkage(rolling_joint_of(robot))
        self.size = self.linkage.joint_count
        self.frame_names = (*(f"link_{k + 2}" for k in range(self.size)), "tip")
        self.link_shapes: list[Array] = []
        for link in self.linkage.links:
            sides = [
                surface.frame(np.linspace(*surface.limits_m, _DRAWN_POINTS)[::direction])[:, :2]
                for surface, direction in ((link.child, 1), (link.parent, -1))
            ]
            self.link_shapes.append(np.concatenate([*sides, sides[0][:1]]))

    def poses(self, coefficients: Array) -> Array:
        """Poses of all links in the plane for contacts that may lie a little beyond the ends, shape (n, 3).

        Parameters
        ----------
        coefficients : arc length of each contact, shape (n - 1,), m
        """
        return self.linkage.poses(np.clip(coefficients, *self.linkage.limits_m.T))

    def frames(self, coefficients: Array) -> Array:
        """Frames under :attr:`frame_names`, shape (n, 4, 4).

        Parameters
        ----------
        coefficients : contacts, shape (n - 1,), m
        """
        poses = self.poses(coefficients)[1:]
        return pose_in_space(np.concatenate([poses, poses[-1:]]))

    def outlines(self, coefficients: Array) -> list[Array]:
        """Closed outline of every link, shape (points, 3), m.

        Parameters
        ----------
        coefficients : contacts, shape (n - 1,), m
        """
        poses = self.poses(coefficients)
        return [_in_space(_placed(shape, pose)) for shape, pose in zip(self.link_shapes, poses, strict=True)]

    def tendons(self, coefficients: Array) -> list[Array]:
        """Path of the left and the right tendon through all entry points, shape (2 n, 3), m.

        Parameters
        ----------
        coefficients : contacts, shape (n - 1,), m
        """
        poses = self.poses(coefficients)
        paths = []
        for tendon in range(2):
            points = [
                _placed(np.stack([link.parent_entries_m[tendon], link.child_entries_m[tendon]]), pose)
                for link, pose in zip(self.linkage.links, poses, strict=True)
            ]
            paths.append(_in_space(np.concatenate(points)))
        return paths


def _placed(points: Array, pose: Array) -> Array:
    cosine, sine = np.cos(pose[2]), np.sin(pose[2])
    return np.asarray(points @ [[cosine, sine], [-sine, cosine]] + pose[:2])


def _in_space(points: Array) -> Array:
    return np.stack([points[:, 0], np.zeros(len(points)), points[:, 1]], -1)
