# SPDX-License-Identifier: Apache-2.0
"""Rest of a chain under gravity and given generalised forces, by Newton's method with load steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.mujoco.library import mujoco_library

Vector = NDArray[np.float64]

_STEP_RAD = 1e-6
_TOLERANCE_RAD = 1e-10
_ITERATIONS, _LOAD_STEPS = 30, 8
_LARGEST_CHANGE_RAD = 0.2
_SLOPE_KEPT = 0.1
_STRAIGHT_NM = 1e-12


def at_rest(
    model: Any,
    data: Any,
    robot: Robot,
    force: Callable[[float], Vector] | None = None,
) -> Vector:
    """Hinge angles at which the chain rests without contacts, (dof,), rad.

    Straight where gravity allows it, standing or hanging. ``data`` is left at the rest.
    """
    mujoco = mujoco_library()
    gravity = np.array(model.opt.gravity)
    flags = int(model.opt.disableflags)
    model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_CONTACT)

    def residual(angles: Vector, fraction: float) -> Vector:
        model.opt.gravity[:] = fraction * gravity
        data.qpos[:], data.qvel[:] = angles, 0.0
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        given = 0.0 if force is None else force(fraction)
        return np.asarray(data.qfrc_passive - data.qfrc_bias + given)

    try:
        angles = np.zeros(model.nv)
        if np.abs(residual(angles, 1.0)).max() < _STRAIGHT_NM:
            return angles
        try:
            return _newton(partial(residual, fraction=1.0), angles, robot)
        except ConvergenceError:
            for step in range(1, _LOAD_STEPS + 1):
                angles = _newton(partial(residual, fraction=step / _LOAD_STEPS), angles, robot)
            return angles
    finally:
        model.opt.gravity[:] = gravity
        model.opt.disableflags = flags


def _newton(residual: Callable[[Vector], Vector], angles: Vector, robot: Robot) -> Vector:
    change, before, slope = np.zeros(0), 0.0, np.zeros((0, 0))
    for _ in range(_ITERATIONS):
        here = residual(angles)
        largest = float(np.abs(here).max())
        if not largest < _SLOPE_KEPT * before:  # the slope of an earlier iteration does not serve any more
            columns = [residual(angles + _STEP_RAD * unit) for unit in np.eye(angles.size)]
            slope = (np.array(columns).T - here[:, None]) / _STEP_RAD
        before = largest
        change = np.asarray(np.linalg.solve(slope, -here))
        largest = float(np.abs(change).max())
        if not np.isfinite(largest):
            break
        angles = angles + change * min(1.0, _LARGEST_CHANGE_RAD / max(largest, 1e-300))
        if largest < _TOLERANCE_RAD:
            return angles
    raise ConvergenceError(
        f"the rest of {robot.name} as a chain", float(np.abs(change).max()), _TOLERANCE_RAD, _ITERATIONS
    )
