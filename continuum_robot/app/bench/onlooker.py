# SPDX-License-Identifier: Apache-2.0
"""A client that joins a running stack and looks at its state 50 times a second, until it is ended.

``python -m continuum_robot.app.bench.onlooker``
"""

from __future__ import annotations

from continuum_robot.app.client.robot import Robot
from continuum_robot.nodes.base.spinning import StopRequest

PERIOD_S = 0.02


def look_on() -> None:
    """Join the stack of this DDS domain, and look until SIGINT or SIGTERM. Raises as ``Robot.connect``."""
    with StopRequest() as stop, Robot.connect() as robot:
        while not stop.wait(PERIOD_S):
            robot.state  # noqa: B018


if __name__ == "__main__":
    look_on()
