# SPDX-License-Identifier: Apache-2.0
"""Feed-forward of the motors' cogging: whether the driver adds it."""

from __future__ import annotations

import viser

from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.choice import Choice
from continuum_robot.app.view.controls.status import Status


class Drives(Choice):
    """Whether cogging is fed forward."""

    def __init__(self, server: viser.ViserServer, commander: Commander, status: Status) -> None:
        super().__init__(
            server,
            commander,
            status,
            folder="Motors",
            title="feed cogging forward",
            node="tendon_driver",
            parameter="cogging",
            words=("auto", "on", "off"),
        )
