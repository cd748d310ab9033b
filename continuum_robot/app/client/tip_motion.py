# SPDX-License-Identifier: Apache-2.0
"""A motion of the tip: the stack's tip control is asked for a place, and watched until it is there."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.results import TipResult
from continuum_robot.app.client.stack_link import POLL_S, TIP_TARGET, StackLink
from continuum_robot.app.client.task import Task
from continuum_robot.errors import RobotFaultError, RobotTimeoutError
from continuum_robot.nodes.topics import conversions

_ENDS = ("reached", "refused", "stopped")


def move_tip(
    link: StackLink, task: Task, target_m: NDArray[np.float64], timeout_s: float, topic: str = TIP_TARGET
) -> TipResult:
    """Publish a target of the tip, and wait for the outcome, or ``task`` is cancelled.

    Parameters
    ----------
    link : to the stack
    target_m : base frame, shape (3,), m
    topic : of the target, ``tip_target`` or ``predictive_target``

    Raises
    ------
    RobotFaultError : refused, a fault, or cancelled
    RobotTimeoutError : the estimated tip did not settle at the goal, or the stack is not heard any more
    """
    begun_s = time.monotonic()
    link.messages.forget("tip_state")
    link.publish_tip_target(target_m, topic=topic)
    while True:
        message = link.messages["tip_state"]
        mine = message is not None and np.allclose(conversions.position(message.target), target_m, atol=1e-9)
        if mine and message.state in _ENDS:
            break
        task.check()
        link.check_up()
        link.check_heard()
        if time.monotonic() - begun_s > timeout_s:
            found = f"{1e3 * message.error:.2f} mm from it ({message.message})" if mine else "no answer"
            raise RobotTimeoutError(
                "tip", f"did not reach the goal within {timeout_s:g} s: {found}", "Allow more time or tolerance"
            )
        time.sleep(POLL_S)
    if message.state != "reached":
        raise RobotFaultError("tip_target", f"{message.state}: {message.message}", "See tip_state")
    return TipResult(
        conversions.position(message.tip),
        conversions.position(message.goal),
        message.distance,
        message.error,
        message.reachable,
        message.message,
        time.monotonic() - begun_s,
    )
