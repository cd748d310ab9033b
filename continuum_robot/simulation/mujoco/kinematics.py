# SPDX-License-Identifier: Apache-2.0
"""Where the chain is now: frames along it and Jacobians of its hinges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.mjcf import ChainModel

Vector = NDArray[np.float64]


class ChainKinematics:
    """The chain as contacts and pushes ask for it: where it is, whatever coordinates they name.

    Parameters
    ----------
    chain : of the robot
    made : its model
    data : mujoco.MjData, of which the newest positions count

    Attributes
    ----------
    robot : of the chain
    """

    def __init__(self, chain: Chain, made: ChainModel, data: Any) -> None:
        self.robot = chain.robot
        self._chain, self._model, self._bodies, self._data = chain, made.model, made.bodies, data
        self._jac = mujoco_library().mj_jac

    def prepare(self, s_m: float) -> None:
        """Nothing: all places of a chain are quick."""

    def poses(self, _coordinates: ArrayLike, s: ArrayLike) -> Vector:
        """Frames (k, 4, 4) at arc lengths ``s`` (k,), m; straight on every link."""
        places = np.atleast_1d(np.asarray(s, dtype=float))
        found = np.tile(np.eye(4), (len(places), 1, 1))
        for pose, place in zip(found, places, strict=True):
            link = self._chain.link_at(float(place))
            if link >= 0:
                body = self._bodies[link]
                pose[:3, :3] = self._data.xmat[body].reshape(3, 3)
                pose[:3, 3] = self._data.xpos[body]
            pose[:3, 3] += (place - self._chain.start_m(link)) * pose[:3, 2]
        return found

    def body_jacobian(self, _coordinates: ArrayLike, s: float) -> Vector:
        """Jacobian (6, dof) of the twist (linear, angular) at arc length ``s`` (m), in the frame's own axes."""
        link = self._chain.link_at(s)
        linear, angular = np.zeros((3, self._model.nv)), np.zeros((3, self._model.nv))
        if link >= 0:
            pose = self.poses((), [s])[0]
            self._jac(self._model, self._data, linear, angular, pose[:3, 3], int(self._bodies[link]))
            linear, angular = pose[:3, :3].T @ linear, pose[:3, :3].T @ angular
        return np.concatenate([linear, angular])
