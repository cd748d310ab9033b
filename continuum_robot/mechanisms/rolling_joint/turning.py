# SPDX-License-Identifier: Apache-2.0
"""What each joint's angle alone says, as tables: its contact, its tendons' lengths and their levers about the contact.

The links' angles are smooth in time where the curvature of a surface jumps and a contact goes on at another speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics

Array = NDArray[np.float64]

BALANCED = 0.55
"""Where in a step moments are balanced: at its end it would resist as friction does, in its middle links without mass
would ring."""

_PLACES, _FINER = 2001, 4


class TurnedJoints(NamedTuple):
    """Joints at some angles; n - 1 joints.

    Attributes
    ----------
    contact_m : arc length of each contact, shape (n - 1,), m
    gaps_m : length of the left and the right tendon between the links, shape (2, n - 1), m
    levers_m : change of these with the angle, shape (2, n - 1), m
    lever_slopes_m : change of the levers with the angle, shape (2, n - 1), m
    """

    contact_m: Array
    gaps_m: Array
    levers_m: Array
    lever_slopes_m: Array


class JointTurning:
    """Tables of the joints of a mechanism over even steps of their angles.

    A joint's angle is that of its upper link in its lower one, ha (9). Without loads the moment about a contact is that
    of the tendons' levers, and these depend on that joint's angle alone.

    Attributes
    ----------
    limits_rad : angles between which each joint can turn, shape (n - 1, 2), rad
    home_rad : angles where the tensions are equal, shape (n - 1,), rad
    """

    def __init__(self, statics: RollingStatics) -> None:
        linkage = statics.linkage
        near = np.linspace(linkage.limits_m[:, 0], linkage.limits_m[:, 1], _FINER * _PLACES)
        # The angle falls along the surfaces, as the upper one bends away from the lower one.
        angles = linkage.joints(near).angle_rad[::-1]
        even = np.linspace(angles[0], angles[-1], _PLACES)
        columns = zip(even.T, angles.T, near[::-1].T, strict=True)
        contacts = np.array([np.interp(*joint) for joint in columns]).T
        joints = linkage.joints(contacts)
        # Places, quantities, joints.
        known = np.concatenate([contacts[:, None], joints.lengths_m, joints.levers_m], axis=1)
        step_rad = even[1] - even[0]
        slopes = np.gradient(known[:, 3:], axis=0) / step_rad
        self._table = np.ascontiguousarray(np.concatenate([known, slopes], axis=1).transpose(2, 0, 1))
        self.limits_rad = even[[0, -1]].T.copy()
        self._low, self._per_rad = self.limits_rad[:, 0], 1 / step_rad
        self._joints = np.arange(linkage.joint_count)
        self.home_rad = self.angles(statics.solve_tension([1.0, 1.0]).contact_m)

    def at(self, angles_rad: Array) -> TurnedJoints:
        """The joints at angles, at the ends of the tables where they are beyond.

        Parameters
        ----------
        angles_rad : shape (n - 1,), or (T, n - 1) for T poses, which are the last axis of the results, rad
        """
        place = np.minimum(np.maximum((angles_rad - self._low) * self._per_rad, 0.0), _PLACES - 1.0)
        first = np.minimum(place.astype(np.intp), _PLACES - 2)
        before, after = self._table[self._joints, first], self._table[self._joints, first + 1]
        values = (before + (place - first)[..., None] * (after - before)).T
        return TurnedJoints(values[0], values[1:3], values[3:5], values[5:7])

    def angles(self, contact_m: Array) -> Array:
        """Angles of joints that touch at arc lengths, shape (n - 1,), rad.

        Parameters
        ----------
        contact_m : shape (n - 1,), m
        """
        found = [
            np.interp(-contact, -table[:, 0], np.arange(float(_PLACES)))
            for contact, table in zip(contact_m, self._table, strict=True)
        ]
        return np.asarray(self._low + np.array(found) / self._per_rad)
