# SPDX-License-Identifier: Apache-2.0
"""The robot in three dimensions: made once, then only what changed is sent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.state import ContactState, RobotState
from continuum_robot.app.view import colors, meshes
from continuum_robot.estimation.contact.kind import in_words
from continuum_robot.geometry import se3
from continuum_robot.geometry.so3 import quaternion_from_matrix
from continuum_robot.models.drawing import Drawing, Geometry
from continuum_robot.robot.base_stage import BaseStage

Array = NDArray[np.float64]

# The scene is measured in lengths of the robot, so that every robot fills the screen.
_TRAIL_POINTS = 240
_TRAIL_STEP = 0.002
_BAND_STATIONS = 12
_ARROW = 0.3
_LABEL_PERIOD_S = 0.2
_TIP_AXES = 0.13
_FROM, _AT = (1.35, -1.2, 0.85), (0.0, 0.0, 0.45)
_FROM_UPRIGHT, _AT_UPRIGHT = (2.3, -2.05, 1.45), (0.0, 0.0, -0.9)
_AXES = np.array([[225, 40, 40], [60, 180, 60], [40, 80, 225]], dtype=np.uint8)


class Scene:
    """What is drawn of a robot."""

    def __init__(
        self, server: viser.ViserServer, drawing: Drawing, largest_force_n: float, stage: BaseStage | None = None
    ) -> None:
        self._stage = stage
        self._server, self._drawing, self._scale = server, drawing, 1.0 / drawing.length_m
        self._largest_force_n = largest_force_n
        self._skin_m = float(max([drawing.tube_radius_m, *drawing.disk_radii_m]))
        self._handles: dict[str, Any] = {}
        self._drawn: dict[str, NDArray[Any]] = {}
        self._trail: list[Array] = []
        self._label_s = -math.inf
        self._visible: dict[str, bool] = {}
        self._prepare_world()
        zero = np.zeros(drawing.size)
        self._prepare_robot(drawing.geometry(zero))
        self._prepare_contact()

    @property
    def scale(self) -> float:
        """Units of the scene a metre."""
        return self._scale

    def draw(
        self, snapshot: RobotState, desired: Array | None, scale_end_n: float, push: tuple[float, Array] | None
    ) -> None:
        """Bring the scene up to date; call it within ``server.atomic()``."""
        coefficients = snapshot.coefficients
        if coefficients.size != self._drawing.size or not np.all(np.isfinite(coefficients)):
            return
        geometry = self._drawing.geometry(coefficients)
        if self._changed("shape", coefficients):
            self._draw_robot(geometry)
        tension = snapshot.tension_n if snapshot.tension_n.size else np.full(len(geometry.tendons), np.nan)
        self._draw_tendons(geometry, colors.tension_colors(tension, scale_end_n))
        self._draw_desired(desired)
        tip = geometry.tip[:3, 3]
        if self._stage is not None and snapshot.stage.size:
            base = self._stage.pose(snapshot.stage)
            tip = se3.apply(base, tip)
            if self._changed("stage", base):
                self._root.position, self._root.wxyz = base[:3, 3] * self._scale, quaternion_from_matrix(base[:3, :3])
        self._extend_trail(tip * self._scale)
        self._draw_contact(coefficients, snapshot.contact, snapshot.time_s)
        self._draw_push(coefficients, snapshot.true_contact, push)

    def show(self, name: str, visible: bool) -> None:
        """Show or hide a part; only a change is sent."""
        if self._visible.get(name, True) != visible:
            self._visible[name] = visible
            self._handles[name].visible = visible

    # Made once

    def _prepare_world(self) -> None:
        scene = self._server.scene
        scene.set_up_direction("+z")
        self._server.initial_camera.position = _FROM
        self._server.initial_camera.look_at = _AT
        self._server.initial_camera.up = (0.0, 0.0, 1.0)
        self._server.on_client_connect(_watch_camera)
        scene.add_grid(
            "/ground", width=3.0, height=3.0, cell_size=0.1, section_size=0.5,
            cell_thickness=0.5, section_thickness=0.8,
            cell_color=(230, 233, 238), section_color=(208, 213, 222), shadow_opacity=0.12, position=(0.0, 0.0, -0.001),
        )  # fmt: skip
        # Above all that moves with a base stage; beside it is what stands still.
        self._root = scene.add_frame("/robot", show_axes=False)
        axes: dict[str, Any] = {"axes_length": 0.13, "axes_radius": 0.006, "origin_radius": 0.012}
        scene.add_frame("/robot/base", **axes)
        scene.add_label("/robot/base/name", "base", anchor="top-right", font_screen_scale=0.8)
        # Lines and not a frame: browsers move frames a little later than what is drawn from vertices.
        self._handles["tip"] = scene.add_line_segments(
            "/robot/tip",
            np.zeros((3, 2, 3)),
            np.repeat(_AXES[:, None, :], 2, axis=1),
            thickness=4.0,
            thickness_units="screen",
        )
        self._handles["tip_label"] = scene.add_label(
            "/robot/tip_label", "tip", anchor="bottom-left", font_screen_scale=0.8
        )

    def _prepare_robot(self, geometry: Geometry) -> None:
        scene, k = self._server.scene, self._scale
        if len(geometry.backbone):
            faces = meshes.tube_faces(len(geometry.backbone))
            vertices = meshes.tube(geometry.backbone, self._drawing.tube_radius_m) * k
            self._handles["backbone"] = scene.add_mesh_simple("/robot/backbone", vertices, faces, color=colors.ACTUAL)
            self._handles["desired"] = scene.add_mesh_simple(
                "/robot/desired",
                vertices,
                faces,
                color=colors.DESIRED,
                opacity=0.35,
                cast_shadow=False,
                receive_shadow=False,
            )
        if len(geometry.disks):
            vertices, faces = meshes.cylinder()
            scales = (
                np.stack([self._drawing.disk_radii_m, self._drawing.disk_radii_m, self._drawing.disk_thickness_m], -1)
                * k
            )
            self._handles["disks"] = scene.add_batched_meshes_simple(
                "/robot/disks", vertices, faces, batched_wxyzs=quaternion_from_matrix(geometry.disks[:, :3, :3]),
                batched_positions=geometry.disks[:, :3, 3] * k, batched_scales=scales.astype(np.float32),
                batched_colors=colors.DISK, opacity=0.5, lod="off", flat_shading=True,
            )  # fmt: skip
        if geometry.outlines:
            faces = meshes.plates_faces([len(outline) - 1 for outline in geometry.outlines])
            vertices = meshes.plates(geometry.outlines, self._drawing.plate_thickness_m) * k
            self._handles["links"] = scene.add_mesh_simple(
                "/robot/links", vertices, faces, color=colors.DISK, opacity=0.6, flat_shading=True, side="double"
            )
            self._handles["desired"] = scene.add_line_segments(
                "/robot/desired", self._edges(geometry), colors.DESIRED, thickness=2.0, thickness_units="screen"
            )
        if len(geometry.core):
            self._handles["core"] = scene.add_line_segments(
                "/robot/core", self._core(geometry), colors.ACTUAL, thickness=8.0, thickness_units="screen"
            )
        segments = self._tendon_segments(geometry)
        self._pieces = [len(path) - 1 for path in geometry.tendons]
        self._handles["tendons"] = scene.add_line_segments(
            "/robot/tendons", segments, np.broadcast_to(np.array(colors.UNKNOWN, dtype=np.uint8), segments.shape),
            thickness=3.0, thickness_units="screen",
        )  # fmt: skip
        nowhere = np.zeros((1, 2, 3))
        self._handles["trail"] = scene.add_line_segments(
            "/trail", nowhere, colors.TRAIL, thickness=2.0, thickness_units="screen"
        )

    def _prepare_contact(self) -> None:
        scene = self._server.scene
        look: dict[str, Any] = {"shaft_radius": 0.011, "head_radius": 0.028, "head_length": 0.06}
        arrow = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]]])
        self._handles["force"] = scene.add_arrows("/robot/force", arrow, colors.CONTACT, **look)
        self._handles["push"] = scene.add_arrows("/robot/push", arrow, colors.PUSH, **look)
        self._handles["pair"] = scene.add_arrows("/robot/pair", np.concatenate([arrow, arrow]), colors.CONTACT, **look)
        frames = np.tile(np.eye(4), (_BAND_STATIONS, 1, 1))
        self._handles["band"] = scene.add_mesh_simple(
            "/robot/band", meshes.tube(frames, 0.01), meshes.tube_faces(_BAND_STATIONS),
            color=colors.CONTACT, opacity=0.4, cast_shadow=False, receive_shadow=False,
        )  # fmt: skip
        self._handles["force_label"] = scene.add_label("/robot/force_label", "", anchor="bottom-left")
        self._handles["push_label"] = scene.add_label("/robot/push_label", "push", anchor="top-left")
        for name in ("force", "push", "pair", "band", "force_label", "push_label"):
            self.show(name, False)

    # Every frame

    def _changed(self, name: str, value: NDArray[Any]) -> bool:
        before = self._drawn.get(name)
        if before is not None and before.shape == value.shape and np.array_equal(before, value):
            return False
        self._drawn[name] = np.array(value)
        return True

    def _draw_robot(self, geometry: Geometry) -> None:
        k = self._scale
        if "backbone" in self._handles:
            self._handles["backbone"].vertices = (
                meshes.tube(geometry.backbone, self._drawing.tube_radius_m) * k
            ).astype(np.float32)
        if "disks" in self._handles:
            disks = self._handles["disks"]
            disks.batched_wxyzs = quaternion_from_matrix(geometry.disks[:, :3, :3]).astype(np.float32)
            disks.batched_positions = (geometry.disks[:, :3, 3] * k).astype(np.float32)
        if "links" in self._handles:
            vertices = meshes.plates(geometry.outlines, self._drawing.plate_thickness_m) * k
            self._handles["links"].vertices = vertices.astype(np.float32)
        if "core" in self._handles:
            self._handles["core"].points = self._core(geometry).astype(np.float32)
        origin = geometry.tip[:3, 3] * k
        ends = origin + _TIP_AXES * geometry.tip[:3, :3].T
        self._handles["tip"].points = np.stack([np.tile(origin, (3, 1)), ends], axis=1).astype(np.float32)
        self._handles["tip_label"].position = origin

    def _core(self, geometry: Geometry) -> Array:
        return np.stack([geometry.core[:-1], geometry.core[1:]], axis=1) * self._scale

    def _tendon_segments(self, geometry: Geometry) -> Array:
        pieces = [np.stack([path[:-1], path[1:]], axis=1) for path in geometry.tendons]
        return np.concatenate(pieces) * self._scale

    def _draw_tendons(self, geometry: Geometry, tints: NDArray[np.uint8]) -> None:
        points = self._tendon_segments(geometry)
        if self._changed("tendons", points):
            self._handles["tendons"].points = points.astype(np.float32)
        if len(tints) != len(self._pieces):
            return
        if self._changed("tints", tints):
            each = np.repeat(tints, self._pieces, axis=0)
            self._handles["tendons"].colors = np.repeat(each[:, None, :], 2, axis=1)

    def _draw_desired(self, desired: Array | None) -> None:
        self.show("desired", desired is not None)
        if desired is None or not self._changed("desired", desired):
            return
        geometry = self._drawing.geometry(desired)
        if len(geometry.backbone):
            # A little thicker, so that it is seen around the actual one where both agree.
            vertices = meshes.tube(geometry.backbone, 1.6 * self._drawing.tube_radius_m)
            self._handles["desired"].vertices = (vertices * self._scale).astype(np.float32)
        else:
            self._handles["desired"].points = self._edges(geometry).astype(np.float32)

    def _edges(self, geometry: Geometry) -> Array:
        """Edges of both sides of all plates, a little outside of them."""
        pieces = []
        for outline in geometry.outlines:
            for side in np.split(meshes.plate(outline, 1.02 * self._drawing.plate_thickness_m), 2):
                pieces.append(np.stack([side, np.roll(side, -1, axis=0)], axis=1))
        return np.concatenate(pieces) * self._scale

    def _extend_trail(self, tip: Array) -> None:
        if self._trail and np.linalg.norm(tip - self._trail[-1]) < _TRAIL_STEP:
            return
        self._trail.append(tip)
        del self._trail[:-_TRAIL_POINTS]
        self._draw_trail()

    def _draw_trail(self) -> None:
        if len(self._trail) < 2:
            return
        points = np.array(self._trail)
        self._handles["trail"].points = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)

    def _draw_contact(self, coefficients: Array, contact: ContactState, now_s: float) -> None:
        detected, place_m = contact.in_contact, contact.wrench_arc_length_m
        if self._draw_pair(coefficients, contact, now_s):
            self.show("force", False)
            self.show("band", False)
            return
        force = np.nan_to_num(contact.force_there_n)
        size_n = float(np.sqrt(force @ force))
        shown = detected and size_n > 0 and math.isfinite(place_m)
        self.show("force", shown)
        self.show("force_label", shown)
        known = detected and all(math.isfinite(end) for end in contact.interval_m)
        self.show("band", known)
        if not detected:
            return
        if known:
            stretch = self._stretch(coefficients, contact.interval_m)
            # Thick enough to be seen between the disks of a stout robot.
            radius_m = max(3.0 * self._drawing.tube_radius_m, 0.35 * self._skin_m)
            vertices = meshes.tube(stretch, radius_m) * self._scale
            if self._changed("band", vertices):
                self._handles["band"].vertices = vertices.astype(np.float32)
        if not shown:
            return
        pose = self._drawing.pose(coefficients, place_m)
        head = self._arrow("force", pose, pose[:3, :3] @ force)
        if now_s - self._label_s > _LABEL_PERIOD_S:
            self._label_s = now_s
            label = self._handles["force_label"]
            label.position = head
            label.text = force_words(contact, size_n)

    def _draw_pair(self, coefficients: Array, contact: ContactState, now_s: float) -> bool:
        """Two contacts in place of one; whether both are located."""
        known = contact.in_contact and bool(np.isfinite(contact.pair_arc_lengths_m).all())
        self.show("pair", known)
        if not known:
            return False
        arrows = []
        for place_m, force in zip(contact.pair_arc_lengths_m, np.nan_to_num(contact.pair_forces_n), strict=True):
            pose = self._drawing.pose(coefficients, float(place_m))
            arrows.append(self._arrow_points(pose, pose[:3, :3] @ force))
        points = np.array(arrows)
        if self._changed("pair", points):
            self._handles["pair"].points = points.astype(np.float32)
        self.show("force_label", True)
        if now_s - self._label_s > _LABEL_PERIOD_S:
            self._label_s = now_s
            label = self._handles["force_label"]
            label.position, label.text = points[1, 0], pair_words(contact)
        return True

    def _draw_push(self, coefficients: Array, truth: ContactState, push: tuple[float, Array] | None) -> None:
        pose, force = None, np.zeros(3)
        if push is not None:
            pose, force = self._drawing.pose(coefficients, push[0]), push[1]
        elif truth.in_contact:
            pose = self._drawing.pose(coefficients, truth.wrench_arc_length_m)
            force = pose[:3, :3] @ truth.force_there_n
        shown = pose is not None and bool(np.any(force))
        self.show("push", shown)
        self.show("push_label", shown)
        if pose is not None and shown:
            self._handles["push_label"].position = self._arrow("push", pose, force)

    def _arrow(self, name: str, pose: Array, force_in_base_n: Array) -> Array:
        """An arrow that presses on the robot's skin with its head; gives where its tail is."""
        points = self._arrow_points(pose, force_in_base_n)[None]
        if self._changed(name, points):
            self._handles[name].points = points.astype(np.float32)
        return np.asarray(points[0, 0])

    def _arrow_points(self, pose: Array, force_in_base_n: Array) -> Array:
        """Tail and head of that arrow, (2, 3); without a force both are the head."""
        size = max(float(np.sqrt(force_in_base_n @ force_in_base_n)), 1e-12)
        length = _ARROW * min(1.0, max(0.25, size / self._largest_force_n))
        direction = force_in_base_n / size
        head = (pose[:3, 3] - self._skin_m * direction) * self._scale
        tail = head - length * direction
        return np.array([tail, head])

    def _stretch(self, coefficients: Array, interval_m: tuple[float, float]) -> Array:
        low, high = (min(max(end, 0.0), self._drawing.length_m) for end in interval_m)
        least = 0.005 * self._drawing.length_m
        places = np.linspace(low, max(high, low + least), _BAND_STATIONS)
        return np.stack([self._drawing.pose(coefficients, float(place)) for place in places])


def _watch_camera(client: viser.ClientHandle) -> None:
    client.camera.on_update(_look_over_panel)


def _look_over_panel(camera: viser.CameraHandle) -> None:
    """On an upright screen, of a phone, the panel covers the lower half: the robot then stands in the upper one."""
    if camera.aspect < 1.0 and np.allclose(camera.position, _FROM) and np.allclose(camera.look_at, _AT, atol=1e-6):
        camera.position, camera.look_at = _FROM_UPRIGHT, _AT_UPRIGHT


def pair_words(contact: ContactState) -> str:
    """Two contacts in words: how strong each is, and where."""
    each = [
        f"{np.linalg.norm(np.nan_to_num(force)):.2g} N at {1e3 * place_m:.0f} ± {1e3 * deviation_m:.0f} mm"
        for place_m, deviation_m, force in zip(
            contact.pair_arc_lengths_m, contact.pair_deviations_m, contact.pair_forces_n, strict=True
        )
    ]
    return f"{contact.state}, two: {' and '.join(each)}"


def force_words(contact: ContactState, size_n: float) -> str:
    """A contact in words: how strong, and where."""
    error = f" ± {contact.force_deviation_n:.2g}" if math.isfinite(contact.force_deviation_n) else ""
    if math.isfinite(contact.arc_length_m):
        where = f"at {1e3 * contact.arc_length_m:.0f} mm"
    else:
        where = "if at the tip; its place is not observable"
    kind = f", {in_words(contact.kind)}" if contact.kind else ""
    return f"{contact.state}{kind}: {size_n:.2g}{error} N {where}"
