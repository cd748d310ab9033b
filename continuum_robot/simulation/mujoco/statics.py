# SPDX-License-Identifier: Apache-2.0
"""Static equilibria of a chain under tendon tensions and wrenches at places of the backbone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.rod.loads import PointWrench
from continuum_robot.simulation.mujoco.body import ChainBody
from continuum_robot.simulation.mujoco.equilibrium import at_rest

Vector = NDArray[np.float64]


def chain_equilibrium(body: ChainBody, tension_n: ArrayLike = (), wrenches: Sequence[PointWrench] = ()) -> Vector:
    """Hinge angles at rest, (dof,), rad; the chain is left there, so that ``body.kinematics`` gives its poses."""
    tension = np.zeros(body.tendon_count) if np.size(tension_n) == 0 else np.asarray(tension_n, dtype=float)

    def force(fraction: float) -> Vector:
        total = tension @ body.pull_directions()
        for wrench in wrenches:
            to_body = np.eye(3)
            if wrench.frame == "base":
                to_body = body.kinematics.poses((), [wrench.s_m])[0, :3, :3].T
            force_n, moment_nm = to_body @ wrench.force_n, to_body @ wrench.moment_nm
            jacobian = body.kinematics.body_jacobian((), wrench.s_m)
            total += jacobian[:3].T @ force_n + jacobian[3:].T @ (moment_nm + np.cross(wrench.offset_m, force_n))
        return np.asarray(fraction * total)

    return at_rest(body.mujoco_model, body.data, body.robot, force)
