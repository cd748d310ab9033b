# SPDX-License-Identifier: Apache-2.0
"""A motion of the base stage: it is told where to go until it is there."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import STAGE_STATE, StackLink
from continuum_robot.app.client.task import Task
from continuum_robot.errors import RobotFaultError, RobotTimeoutError

Vector = NDArray[np.float64]

PERIOD_S = 0.05
THERE = np.array([1e-4, 1e-3])
"""How near a stage counts as arrived, m and rad."""


def move_stage(link: StackLink, task: Task, goal: Vector, timeout_s: float) -> Vector:
    """Bring the stage to a place, or until ``task`` is cancelled; where it stands then, (2,), m and rad.

    Parameters
    ----------
    link : to the stack
    goal : insertion and rotation, (2,), m and rad
    timeout_s : s

    Raises
    ------
    RobotFaultError : the stage or the stack is at fault, or cancelled
    RobotTimeoutError : it did not arrive, or is not heard
    """
    end_s = time.monotonic() + timeout_s
    link.messages.forget(STAGE_STATE)
    while True:
        state = link.state()
        if state.stage_problem:
            raise RobotFaultError("base_stage", state.stage_problem, "Remove the cause, then call reset()")
        if state.stage.size == goal.size and (np.abs(state.stage - goal) < THERE).all():
            return state.stage
        task.check()
        link.check_up()
        link.check_heard()
        if time.monotonic() > end_s:
            found = f"stands at {state.stage.tolist()}" if state.stage.size else "is not heard"
            raise RobotTimeoutError("base_stage", f"{found} after {timeout_s:g} s", "Allow more time; see its log")
        link.publish_stage(goal)
        time.sleep(PERIOD_S)
