# SPDX-License-Identifier: Apache-2.0
"""Pushes on a simulated robot, and the contact monitor that has lost it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import viser

from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.gui import note, show
from continuum_robot.app.view.steering_range import on_step, slider_step
from continuum_robot.models.robot_model import RobotModel


class Pushing:
    """Where, how hard and how long to push, in the container that is open."""

    def __init__(self, server: viser.ViserServer, commander: Commander, model: RobotModel, status: Status) -> None:
        self._commander = commander
        self.push: Any = None
        self.place: Any = None
        self.force: Any = None
        self.direction: Any = None
        self.duration: Any = None
        gui = server.gui
        largest = model.largest_push_n
        if not largest:
            gui.add_html(note("Pushes are simulated on rods only; this robot is a mechanism."))
            return
        gui.add_html(
            note(
                "Push on the simulated robot and see how the controller answers. The violet arrow is your push. The"
                " orange one is what the contact monitor detects: the force, its place, and the stretch of backbone"
                " that holds the place with 90 % probability."
            )
        )
        length_mm = 1e3 * model.robot.length_m
        step = slider_step(length_mm)
        self.place = gui.add_slider("place, mm", min=0.0, max=on_step(length_mm, step), step=step,
                                    initial_value=on_step(length_mm, step), hint="From the base.")  # fmt: skip
        step = slider_step(largest)
        self.force = gui.add_slider("force, N", min=0.0, max=largest, step=step, initial_value=0.4 * largest)
        self.direction = gui.add_slider("direction, °", min=0, max=360, step=5, initial_value=180, hint="From +x.")
        self.duration = gui.add_slider("for, s", min=0.5, max=10.0, step=0.5, initial_value=2.0)
        self.push = gui.add_button("Push", color="violet", disabled=True)
        self.push.on_click(lambda _event: self._push())
        gui.add_html(
            note("A contact monitor that is invalid has lost track of the robot. It stays so until it is reset:")
        )
        look = gui.add_button("Reset contact monitor", color="gray")
        look.on_click(lambda _event: commander.reset_contact_monitor(status.show_if_refused))

    def update(self) -> None:
        """The button works while a simulated robot listens."""
        if self.push is not None:
            show(self.push, "disabled", not self._commander.can_push)

    def _push(self) -> None:
        angle = math.radians(self.direction.value)
        force = self.force.value * np.array([math.cos(angle), math.sin(angle), 0.0])
        self._commander.push(1e-3 * self.place.value, force, float(self.duration.value))
