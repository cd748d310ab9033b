# SPDX-License-Identifier: Apache-2.0
"""The simulated rolling-joint robot: links without mass between the motors' reflected mass and damped joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.rolling_joint.building import make_linkage, rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.loads import load_matrix
from continuum_robot.mechanisms.rolling_joint.statics import RollingStatics, Step, joint_moments
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

_PROBE_M = 1e-6
_AT_REST = np.zeros(3)


class RollingPlant:
    """Contacts roll under the tensions: m G^T G s'' + D s' = force(s, tension), by implicit Euler steps.

    G is the change of the tendon displacements with the contacts, m the motors' reflected mass. Tensions and currents
    follow commands at once, tendons are rigid. At the end of a surface a contact stops.

    Parameters
    ----------
    robot : a rolling-joint robot with actuators

    Attributes
    ----------
    current_limit_a : largest current of each motor, shape (2,), A; may be written
    contact_m : arc length of each contact, shape (n - 1,), m

    Raises
    ------
    ParameterError : no actuators, or no rolling joints
    """

    def __init__(self, robot: Robot) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        mechanism = rolling_joint_of(robot)
        self._statics = RollingStatics(make_linkage(mechanism))
        self._newton_per_ampere = robot.actuators.newton_per_ampere
        self._mass_kg = robot.actuators.reflected_mass_kg
        self._damping_nms = mechanism.joint_damping_nms
        self._unloaded = load_matrix((), len(mechanism.links))
        self._low, self._high = self._statics.linkage.limits_m.T
        self.current_limit_a = np.full(2, robot.actuators.maximum_current_a)
        home = self._statics.solve_tension([1.0, 1.0])
        self.contact_m, self._home_m = home.contact_m, home.tendon_length_m
        self._rate = np.zeros(self.contact_m.shape)
        self._tension = np.zeros(2)
        self._length_m = home.tendon_length_m

    def advance(self, tension_command: Vector, duration_s: float) -> None:
        """Move for ``duration_s`` (s) under constant tensions (2,), N.

        Parameters
        ----------
        tension_command : of both tendons, shape (2,), N
        """
        tension = np.clip(tension_command, 0.0, self.current_limit_a * self._newton_per_ampere)
        self._tension = tension
        step, bend, force = self._force(self.contact_m, tension)
        # Without loads, the moment about a contact depends on that contact alone: the stiffness is diagonal.
        _, _, after = self._force(self.contact_m + _PROBE_M, tension)
        stiffness = np.maximum((force - after) / _PROBE_M, 0.0)
        mass = self._mass_kg * step.gap_slopes.T @ step.gap_slopes
        h = duration_s
        system = mass + np.diag(h * self._damping_nms * bend**2 + h**2 * stiffness)
        rate = np.linalg.solve(system, mass @ self._rate + h * force)
        moved = self.contact_m + h * rate
        self.contact_m = np.clip(moved, self._low, self._high)
        self._rate = np.where(self.contact_m == moved, rate, 0.0)
        self._length_m = self._statics.linkage.channel_length_m + self._force(self.contact_m, tension)[0].gaps.sum(
            axis=1
        )

    def _force(self, contact_m: Vector, tension: Vector) -> tuple[Step, Vector, Vector]:
        """The recursion at a pose, the turning of each joint with its contact, and the force on each contact."""
        frames = self._statics.linkage.frames(contact_m)
        step = self._statics.evaluate_frames(frames, tension, 1.0, self._unloaded, _AT_REST)
        bend = frames[3] - frames[7]
        return step, bend, bend * joint_moments(step.moments)

    @property
    def displacement(self) -> Vector:
        """Displacement of the left and the right tendon from the pose of equal tensions, shape (2,), m."""
        return self._home_m - self._length_m

    @property
    def current(self) -> Vector:
        """Motor currents, shape (2,), A."""
        return self._tension / self._newton_per_ampere

    @property
    def string_extension(self) -> Vector:
        """No strings: shape (0,), m."""
        return np.zeros(0)

    @property
    def linked(self) -> Vector:
        """What sensors in other processes need: the strings' extensions, (strings,), m."""
        return self.string_extension
