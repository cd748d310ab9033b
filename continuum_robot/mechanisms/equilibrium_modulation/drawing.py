# SPDX-License-Identifier: Apache-2.0
"""How a segment with equilibrium modulation looks: its backbones, disks, and how far the modulation is inserted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import ModulatedState, modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import backbone_poses, end_pose
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_moment_error, make_segment, modulation_of
from continuum_robot.robot.description import Robot

Array = NDArray[Any]

_STATIONS = 25
_DISKS = 6
_CIRCLE = 25
_RIM = 1.2  # of the pitch radius


class ModulationParts:
    """Frames at the end of the modulation backbone and at the tip, disks, and all backbones."""

    size = 3
    core: int | None = -2
    frame_names: tuple[str, ...] = ("modulation_end", "tip")

    def __init__(self, robot: Robot) -> None:
        mechanism = modulation_of(robot)
        self.segment, self._error = make_segment(mechanism), make_moment_error(mechanism)
        angles = self.segment.backbone_angles_rad(0.0)
        self._spread = np.stack([np.cos(angles), np.sin(angles)])
        around = np.linspace(0, 2 * np.pi, _CIRCLE)
        self._rim = _RIM * self.segment.pitch_radius_m * np.stack([np.cos(around), np.sin(around), 0 * around], -1)

    def state(self, coefficients: Array) -> ModulatedState:
        """Equilibrium at coordinates; an insertion a little outside of the segment counts as at its end.

        Parameters
        ----------
        coefficients : q_Re, q_Im, insertion, shape (3,), m
        """
        theta, delta = self.segment.configuration(coefficients[:2] @ self._spread)
        depth = np.clip(coefficients[2], 0.0, self.segment.length_m)
        return modulated_equilibrium(self.segment, theta, delta, depth, self._error)

    def frames(self, coefficients: Array) -> Array:
        """Frames under :attr:`frame_names`, shape (2, 4, 4).

        Parameters
        ----------
        coefficients : q_Re, q_Im, insertion, shape (3,), m
        """
        state = self.state(coefficients)
        return np.stack([backbone_poses(state, self.segment, state.insertion_m)[0], end_pose(state, self.segment)])

    def outlines(self, coefficients: Array) -> list[Array]:
        """Rim of every disk, shape (points, 3), m.

        Parameters
        ----------
        coefficients : q_Re, q_Im, insertion, shape (3,), m
        """
        s = np.linspace(0, self.segment.length_m, _DISKS)
        poses = backbone_poses(self.state(coefficients), self.segment, s)
        return [self._rim @ pose[:3, :3].T + pose[:3, 3] for pose in poses]

    def tendons(self, coefficients: Array) -> list[Array]:
        """Path of every secondary backbone, then the inserted and the empty part of the central one, (points, 3), m.

        Parameters
        ----------
        coefficients : q_Re, q_Im, insertion, shape (3,), m
        """
        state = self.state(coefficients)
        depth = float(state.insertion_m)
        below = np.linspace(0, depth, _STATIONS)
        above = np.linspace(depth, self.segment.length_m, _STATIONS)
        inserted, empty = (backbone_poses(state, self.segment, s) for s in (below, above))
        poses = np.concatenate([inserted, empty])
        around = self.segment.pitch_radius_m * self._spread
        paths = [poses[:, :3, 3] + poses[:, :3, 0] * x + poses[:, :3, 1] * y for x, y in around.T]
        return [*paths, inserted[:, :3, 3], empty[:, :3, 3]]
