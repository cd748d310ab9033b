# SPDX-License-Identifier: Apache-2.0
"""What the nodes that simulate devices answer to ``inject_fault``."""

from __future__ import annotations

from collections.abc import Callable

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.srv import InjectFault


def answer_injection(
    inject: Callable[[str, int, float, float], None], request: InjectFault.Request, response: InjectFault.Response
) -> InjectFault.Response:
    """Fill the ``response``: what was injected, or why it was refused."""
    try:
        asked = check_request("InjectFault", request)
        inject(asked.fault, asked.tendon, asked.magnitude, asked.duration_s)
    except ContinuumRobotError as error:
        response.message = f"refused: {error}"
        return response
    response.success = True
    response.message = f"injected {request.fault}" if request.fault else "injected faults cleared"
    return response
