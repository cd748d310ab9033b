# SPDX-License-Identifier: Apache-2.0
"""Targets that are dragged in the scene: the tip, and a point of the Clarke plane."""

from __future__ import annotations

import math
import time

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.controls.steering import PLANE, TIP, Steering
from continuum_robot.app.view.gui import note, show
from continuum_robot.geometry import se3
from continuum_robot.models import colors
from continuum_robot.models.drawing import Drawing
from continuum_robot.robot.base_stage import BaseStage

Array = NDArray[np.float64]

_TABLE = 121
_PLANE_RADIUS = 0.26


class TipTarget:
    """Axes at the tip, and how far the tip is on its way to them, in the container that is open."""

    def __init__(
        self,
        server: viser.ViserServer,
        commander: Commander,
        steering: Steering,
        status: Status,
        *,
        drawing: Drawing,
        scene_scale: float,
        stage: BaseStage | None = None,
    ) -> None:
        self._commander, self._steering, self._status = commander, steering, status
        self._drawing, self._scale, self._stage = drawing, scene_scale, stage
        self._dragged_s = -math.inf
        self._tips = None if steering.tip_by_stack else self._tip_table()
        self._planned = server.gui.add_checkbox(
            "round obstacles", initial_value=False, visible=False, hint="Plan to the target when the axes are let go"
        )
        self._note = server.gui.add_html("")
        self._gizmo = server.scene.add_transform_controls(
            "/target", scale=0.22, disable_rotations=True, depth_test=False, visible=False
        )
        self._gizmo.on_update(lambda _event: self._drag())
        self._gizmo.on_drag_end(lambda _event: self._let_go())

    def update(self, snapshot: RobotState) -> None:
        """Show the axes where the mode wants them, at the tip of the reference until they are dragged."""
        steering = self._steering
        chosen, reference = steering.mode.value == TIP, snapshot.reference_m
        if chosen and self._dragged_s <= steering.chosen_s and reference.size == len(steering.reach.names):
            tip = self._tip_at(reference)
            if self._stage is not None and snapshot.stage.size:
                tip = se3.apply(self._stage.pose(snapshot.stage), tip)
            self._gizmo.position = tip * self._scale
        show(self._gizmo, "visible", chosen)  # once it is in its place: a hand may be quick
        show(self._planned, "visible", chosen and self._commander.plans_tip)
        show(self._note, "content", note(self._commander.tip_words if chosen and self._tips is None else ""))

    def aim(self, place_m: Array) -> None:
        """Bring the tip to a place, while it is dragged."""
        if self._tips is None:
            if not self._plans:
                self._commander.aim_tip(place_m, self._answer)
            return
        clarke, tips = self._tips
        self._steering.aim(clarke[np.argmin(np.sum((tips - place_m) ** 2, axis=1))])

    @property
    def _plans(self) -> bool:
        return bool(self._planned.value and self._commander.plans_tip)

    def _answer(self, _success: bool, sentence: str) -> None:
        self._status.show(sentence)

    def _drag(self) -> None:
        if self._steering.mode.value == TIP:
            self._dragged_s = time.monotonic()
            self.aim(np.asarray(self._gizmo.position) / self._scale)

    def _let_go(self) -> None:
        """Planning takes a second or two: it begins where the axes are left."""
        if self._steering.mode.value == TIP and self._plans:
            self._commander.aim_tip(np.asarray(self._gizmo.position) / self._scale, self._answer, planned=True)

    def _tip_at(self, clarke: Array) -> Array:
        return np.asarray(self._drawing.geometry(self._drawing.coefficients(clarke)).tip[:3, 3])

    def _tip_table(self) -> tuple[Array, Array]:
        """Where the tip goes with the only coordinate of a robot."""
        reach = self._steering.reach
        clarke = np.linspace(reach.low_m, reach.high_m, _TABLE)
        return clarke, np.array([self._tip_at(values) for values in clarke])


class PlaneTarget:
    """A disk beside the robot: its point is the bend of the last segment that bends in two directions."""

    def __init__(self, server: viser.ViserServer, steering: Steering) -> None:
        self._steering = steering
        size = len(steering.reach.names)
        first = 2 * (size // 2) - 2
        self._pair = slice(first, first + 2)
        self._size = size
        scene = server.scene
        self._plane = scene.add_frame("/plane", show_axes=False, position=(0.3, 0.5, 0.004), visible=False)
        scene.add_cylinder(
            "/plane/disk", radius=_PLANE_RADIUS, height=0.004, color=(214, 226, 245), opacity=0.8, cast_shadow=False
        )
        name = "Clarke plane"
        axes: tuple[str, ...] = ("q_Re", "q_Im")
        if steering.reach.modes and size > 1:
            name, axes = "Plane", steering.reach.names[self._pair]
        scene.add_label(
            "/plane/name", f"{name}: x {axes[0]}, y {axes[1]}",
            position=(0.0, -1.15 * _PLANE_RADIUS, 0.0), anchor="top-center", font_screen_scale=0.8,
        )  # fmt: skip
        self._dot = scene.add_icosphere("/plane/measured", radius=0.014, color=colors.MEASURED)
        reach = _PLANE_RADIUS
        self._gizmo = scene.add_transform_controls(
            "/plane/target", scale=0.16, active_axes=(True, True, False), disable_rotations=True, depth_test=False,
            translation_limits=((-reach, reach), (-reach, reach), (0.0, 0.0)),
        )  # fmt: skip
        self._gizmo.on_update(lambda _event: self._drag())

    def update(self, snapshot: RobotState) -> None:
        """Show the plane where the mode wants it, with the measured bend as a dot."""
        chosen = self._steering.mode.value == PLANE and self._size > 1
        if chosen and not self._plane.visible and snapshot.reference_m.size == self._size:
            self._gizmo.position = self._place(snapshot.reference_m)
        show(self._plane, "visible", chosen)
        if chosen and snapshot.clarke_m.size == self._size:
            self._dot.position = self._place(snapshot.clarke_m)

    def _place(self, clarke: Array) -> tuple[float, float, float]:
        x, y = _PLANE_RADIUS * clarke[self._pair] / self._steering.reach.high_m[self._pair]
        return float(x), float(y), 0.0

    def _drag(self) -> None:
        steering = self._steering
        desired = np.array(steering.target)
        if steering.mode.value != PLANE or desired.size != self._size:
            return
        point = np.asarray(self._gizmo.position)[:2] / _PLANE_RADIUS
        desired[self._pair] = point * steering.reach.high_m[self._pair]
        steering.aim(desired)
