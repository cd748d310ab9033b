# SPDX-License-Identifier: Apache-2.0
"""How a rolling-joint robot looks in space: the plane of the links is x, z of the base frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

_POINTS = 15


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
                surface.frame(np.linspace(*surface.limits_m, _POINTS)[::direction])[:, :2]
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
