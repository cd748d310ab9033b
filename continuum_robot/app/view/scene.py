# SPDX-License-Identifier: Apache-2.0
"""The robot in three dimensions: made once, then only what changed is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.state import ContactState, RobotState
from continuum_robot.app.view import meshes
from continuum_robot.estimation.contact.kind import in_words
from continuum_robot.geometry import se3
from continuum_robot.geometry.so3 import quaternion_from_matrix
from continuum_robot.models import colors
from continuum_robot.models.drawing import Drawing, Geometry
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

# The scene is measured in lengths of the robot, so that every robot fills the screen.
_TRAIL_POINTS = 240
_TRAIL_STEP = 0.002
_BAND_STATIONS = 12
_ARROW = 0.3
_LABEL_PERIOD_S = 0.2
_TIP_AXES = 0.13
_WITHOUT_SHADOW: dict[str, Any] = {"cast_shadow": False, "receive_shadow": False}
_FROM, _AT = (1.35, -1.2, 0.85), (0.0, 0.0, 0.45)
_FROM_UPRIGHT, _AT_UPRIGHT = (2.3, -2.05, 1.45), (0.0, 0.0, -0.9)
SIDEWAYS = np.array([-_FROM[1], _FROM[0], 0.0]) / math.hypot(*_FROM[:2])
"""To the right for the camera."""
_AXES = np.array(colors.AXES, dtype=np.uint8)
_ANCHORS = (0.01, 0.022)


def prepare_world(server: viser.ViserServer, robots: int) -> None:
    """Camera and ground, for so many robots beside each other."""
    scene = server.scene
    scene.set_up_direction("+z")
    distance = 1.0 + 0.45 * (robots - 1)
    server.initial_camera.position = tuple(distance * np.subtract(_FROM, _AT) + _AT)
    server.initial_camera.look_at = _AT
    server.initial_camera.up = (0.0, 0.0, 1.0)
    server.on_client_connect(_watch_camera)
    size = 3.0 + robots - 1
    scene.add_grid(
        "/ground", width=size, height=size, cell_size=0.1, section_size=0.5,
        cell_thickness=0.5, section_thickness=0.8,
        cell_color=(230, 233, 238), section_color=(208, 213, 222), shadow_opacity=0.12, position=(0.0, 0.0, -0.001),
    )  # fmt: skip


class Scene:
    """What is drawn of a robot: in a folder of the scene, in parts of a length; ``name`` stands at its base."""

    def __init__(
        self,
        server: viser.ViserServer,
        robot: Robot,
        drawing: Drawing,
        largest_force_n: float,
        *,
        length_m: float | None = None,
        name: str = "base",
        folder: str = "",
    ) -> None:
        self._stage, self._folder = robot.base_stage, folder
        self._server, self._drawing, self._scale = server, drawing, 1.0 / (length_m or drawing.length_m)
        self._largest_force_n = largest_force_n
        self._skin_m = float(max([drawing.tube_radius_m, *drawing.disk_radii_m]))
        self._handles: dict[str, Any] = {}
        self._sent: dict[tuple[str, str], NDArray[Any]] = {}
        self._tints: NDArray[np.uint8] = np.zeros((0, 3), dtype=np.uint8)
        self._trail: list[Array] = []
        self._label_s = -math.inf
        self._visible: dict[str, bool] = {}
        self._prepare_base(name)
        zero = np.zeros(drawing.size)
        self._prepare_robot(drawing.geometry(zero), colors.tendon_colors(robot))
        self._prepare_contact()

    @property
    def scale(self) -> float:
        """Units of the scene a metre."""
        return self._scale

    def draw(
        self, snapshot: RobotState, desired: Array | None, limit_n: float, push: tuple[float, Array] | None
    ) -> None:
        """Bring the scene up to date; call it within ``server.atomic()``."""
        coefficients = snapshot.coefficients
        if coefficients.size != self._drawing.size or not np.all(np.isfinite(coefficients)):
            return
        geometry = self._drawing.geometry(coefficients)
        tension = snapshot.tension_n if snapshot.tension_n.size else np.full(len(geometry.tendons), np.nan)
        self._draw_robot(geometry, colors.tension_colors(tension, limit_n))
        self._draw_desired(desired)
        if self._stage is not None and snapshot.stage.size:
            base = self._stage.pose(snapshot.stage)
            self._send("root", position=base[:3, 3] * self._scale, wxyz=quaternion_from_matrix(base[:3, :3]))
        self._extend_trail(self._placed(snapshot, geometry.tip))
        self._draw_contact(coefficients, snapshot.contact, snapshot.time_s)
        self._draw_push(coefficients, snapshot.true_contact, push)

    def retrace(self, snapshots: Sequence[RobotState]) -> None:
        """Let the path of the tip be that of these states, the last of them the newest."""
        self._trail = []
        for snapshot in snapshots:
            coefficients = snapshot.coefficients
            if coefficients.size == self._drawing.size and np.all(np.isfinite(coefficients)):
                self._extend_trail(self._placed(snapshot, self._drawing.pose(coefficients, self._drawing.length_m)))
        if len(self._trail) < 2:
            self._send("trail", points=np.zeros((1, 2, 3)))

    def show(self, visible: bool, *names: str) -> None:
        """Show or hide parts; only a change is sent."""
        for name in names:
            if self._visible.get(name, True) != visible:
                self._visible[name] = visible
                self._handles[name].visible = visible

    def _send(self, name: str, **values: Any) -> None:
        """Set attributes of a part where they change; nothing is sent otherwise."""
        for key, value in values.items():
            new, before = np.array(value, dtype=np.float32), self._sent.get((name, key))
            if before is None or not np.array_equal(before, new):
                self._sent[name, key] = new
                setattr(self._handles[name], key, new)

    # Made once

    def _prepare_base(self, name: str) -> None:
        scene, robot = self._server.scene, f"{self._folder}/robot"
        # Above all that moves with a base stage; beside it is what stands still.
        self._handles["root"] = scene.add_frame(robot, show_axes=False)
        axes: dict[str, Any] = {"axes_length": 0.13, "axes_radius": 0.006, "origin_radius": 0.012}
        scene.add_frame(f"{robot}/base", **axes)
        scene.add_label(f"{robot}/base/name", name, anchor="top-right", font_screen_scale=0.8)
        # Lines and not a frame: browsers move frames a little later than what is drawn from vertices.
        self._lines("tip", np.zeros((3, 2, 3)), np.repeat(_AXES[:, None, :], 2, axis=1), 4.0)

    def _lines(self, name: str, points: Array, color: Any, thickness: float, folder: str = "/robot") -> None:
        self._handles[name] = self._server.scene.add_line_segments(
            f"{self._folder}{folder}/{name}", points, color, thickness=thickness, thickness_units="screen"
        )

    def _mesh(self, name: str, vertices: Array, faces: Any, color: Any, **look: Any) -> None:
        self._handles[name] = self._server.scene.add_mesh_simple(
            f"{self._folder}/robot/{name}", vertices, faces, color=color, **look
        )

    def _prepare_robot(self, geometry: Geometry, tendon_colors: Sequence[colors.Color]) -> None:
        k, drawing = self._scale, self._drawing
        if len(geometry.backbone):
            faces = meshes.tube_faces(len(geometry.backbone))
            vertices = meshes.tube(geometry.backbone, drawing.tube_radius_m) * k
            self._mesh("backbone", vertices, faces, colors.MEASURED)
            self._mesh("desired", vertices, faces, colors.DESIRED, opacity=0.35, **_WITHOUT_SHADOW)
        if len(geometry.disks):
            vertices, faces = meshes.cylinder()
            scales = np.stack([drawing.disk_radii_m, drawing.disk_radii_m, drawing.disk_thickness_m], -1) * k
            self._handles["disks"] = self._server.scene.add_batched_meshes_simple(
                f"{self._folder}/robot/disks", vertices, faces,
                batched_wxyzs=quaternion_from_matrix(geometry.disks[:, :3, :3]),
                batched_positions=geometry.disks[:, :3, 3] * k, batched_scales=scales.astype(np.float32),
                batched_colors=colors.DISK, opacity=0.5, lod="off", flat_shading=True,
            )  # fmt: skip
        if geometry.outlines:
            faces = meshes.plates_faces([len(outline) - 1 for outline in geometry.outlines])
            vertices = meshes.plates(geometry.outlines, drawing.plate_thickness_m) * k
            self._mesh("links", vertices, faces, colors.DISK, opacity=0.6, flat_shading=True, side="double")
            self._lines("desired", self._edges(geometry), colors.DESIRED, 2.0)
        if len(geometry.core):
            self._lines("core", _pieces(geometry.core) * k, colors.MEASURED, 8.0)
        segments = np.concatenate([_pieces(path) for path in geometry.tendons]) * k
        grey = np.broadcast_to(np.array(colors.UNKNOWN, dtype=np.uint8), segments.shape)
        self._lines("tendons", segments, grey, 3.0)
        self._handles["anchors"] = self._server.scene.add_point_cloud(
            f"{self._folder}/robot/anchors", _anchors(geometry) * k, np.array(tendon_colors, dtype=np.uint8),
            point_size=min(max(0.6 * k * self._skin_m, _ANCHORS[0]), _ANCHORS[1]), point_shape="circle",
        )  # fmt: skip
        self._lines("trail", np.zeros((1, 2, 3)), colors.TRAIL, 2.0, folder="")

    def _prepare_contact(self) -> None:
        scene, robot = self._server.scene, f"{self._folder}/robot"
        look: dict[str, Any] = {"shaft_radius": 0.011, "head_radius": 0.028, "head_length": 0.06}
        arrow = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]]])
        self._handles["force"] = scene.add_arrows(f"{robot}/force", arrow, colors.CONTACT, **look)
        self._handles["push"] = scene.add_arrows(f"{robot}/push", arrow, colors.PUSH, **look)
        both = np.concatenate([arrow, arrow])
        self._handles["pair"] = scene.add_arrows(f"{robot}/pair", both, colors.CONTACT, **look)
        tube = meshes.tube(np.tile(np.eye(4), (_BAND_STATIONS, 1, 1)), 0.01)
        self._mesh("band", tube, meshes.tube_faces(_BAND_STATIONS), colors.CONTACT, opacity=0.4, **_WITHOUT_SHADOW)
        self._handles["force_label"] = scene.add_label(f"{robot}/force_label", "", anchor="bottom-left")
        self._handles["push_label"] = scene.add_label(f"{robot}/push_label", "push", anchor="top-left")
        self.show(False, "force", "push", "pair", "band", "force_label", "push_label")

    # Every frame

    def _draw_robot(self, geometry: Geometry, tints: NDArray[np.uint8]) -> None:
        k = self._scale
        if "backbone" in self._handles:
            self._send("backbone", vertices=meshes.tube(geometry.backbone, self._drawing.tube_radius_m) * k)
        if "disks" in self._handles:
            poses = geometry.disks
            self._send(
                "disks", batched_wxyzs=quaternion_from_matrix(poses[:, :3, :3]), batched_positions=poses[:, :3, 3] * k
            )
        if "links" in self._handles:
            self._send("links", vertices=meshes.plates(geometry.outlines, self._drawing.plate_thickness_m) * k)
        if "core" in self._handles:
            self._send("core", points=_pieces(geometry.core) * k)
        origin = geometry.tip[:3, 3] * k
        ends = origin + _TIP_AXES * geometry.tip[:3, :3].T
        self._send("tip", points=np.stack([np.tile(origin, (3, 1)), ends], axis=1))
        self._send("tendons", points=np.concatenate([_pieces(path) for path in geometry.tendons]) * k)
        self._send("anchors", points=_anchors(geometry) * k)
        if len(tints) == len(geometry.tendons) and not np.array_equal(tints, self._tints):
            self._tints = tints
            each = np.repeat(tints, [len(path) - 1 for path in geometry.tendons], axis=0)
            self._handles["tendons"].colors = np.repeat(each[:, None, :], 2, axis=1)

    def _draw_desired(self, desired: Array | None) -> None:
        self.show(desired is not None, "desired")
        if desired is None:
            return
        geometry = self._drawing.geometry(desired)
        if len(geometry.backbone):
            # A little thicker, so that it is seen around the actual one where both agree.
            tube = meshes.tube(geometry.backbone, 1.6 * self._drawing.tube_radius_m)
            self._send("desired", vertices=tube * self._scale)
        else:
            self._send("desired", points=self._edges(geometry))

    def _edges(self, geometry: Geometry) -> Array:
        """Edges of both sides of all plates, a little outside of them."""
        pieces = []
        for outline in geometry.outlines:
            for side in np.split(meshes.plate(outline, 1.02 * self._drawing.plate_thickness_m), 2):
                pieces.append(np.stack([side, np.roll(side, -1, axis=0)], axis=1))
        return np.concatenate(pieces) * self._scale

    def _placed(self, snapshot: RobotState, tip: Array) -> Array:
        """Where a tip is in the scene, also on a base that moves."""
        place: Array = tip[:3, 3]
        if self._stage is not None and snapshot.stage.size:
            place = se3.apply(self._stage.pose(snapshot.stage), place)
        return place * self._scale

    def _extend_trail(self, tip: Array) -> None:
        if self._trail and np.linalg.norm(tip - self._trail[-1]) < _TRAIL_STEP:
            return
        self._trail = [*self._trail[1 - _TRAIL_POINTS :], tip]
        if len(self._trail) > 1:
            self._send("trail", points=_pieces(np.array(self._trail)))

    def _draw_contact(self, coefficients: Array, contact: ContactState, now_s: float) -> None:
        """One contact as an arrow on the stretch of backbone that holds it, or two as an arrow each."""
        force, touched = np.nan_to_num(contact.force_there_n), contact.in_contact
        size_n = float(np.sqrt(force @ force))
        pair = touched and bool(np.isfinite(contact.pair_arc_lengths_m).all())
        single = touched and not pair and size_n > 0 and math.isfinite(contact.wrench_arc_length_m)
        band = touched and not pair and all(math.isfinite(end) for end in contact.interval_m)
        self.show(pair, "pair")
        self.show(single, "force")
        self.show(pair or single, "force_label")
        self.show(band, "band")
        if band:
            # Thick enough to be seen between the disks of a stout robot.
            radius_m = max(3.0 * self._drawing.tube_radius_m, 0.35 * self._skin_m)
            tube = meshes.tube(self._stretch(coefficients, contact.interval_m), radius_m)
            self._send("band", vertices=tube * self._scale)
        if pair:
            forces = np.nan_to_num(contact.pair_forces_n)
            poses = [self._drawing.pose(coefficients, float(at_m)) for at_m in contact.pair_arc_lengths_m]
            arrows = [self._arrow(pose, pose[:3, :3] @ one) for pose, one in zip(poses, forces, strict=True)]
            self._send("pair", points=np.array(arrows))
            self._label(now_s, arrows[1][0], pair_words(contact))
        elif single:
            pose = self._drawing.pose(coefficients, contact.wrench_arc_length_m)
            arrow = self._arrow(pose, pose[:3, :3] @ force)
            self._send("force", points=arrow[None])
            self._label(now_s, arrow[0], _amount(contact, size_n))

    def _label(self, now_s: float, place: Array, words: str) -> None:
        """The contact in words, now and then: what changes with every frame cannot be read."""
        if abs(now_s - self._label_s) > _LABEL_PERIOD_S:  # a recording is also played from an earlier time on
            self._label_s = now_s
            label = self._handles["force_label"]
            label.position, label.text = place, words

    def _draw_push(self, coefficients: Array, truth: ContactState, push: tuple[float, Array] | None) -> None:
        pose, force = None, np.zeros(3)
        if push is not None:
            pose, force = self._drawing.pose(coefficients, push[0]), push[1]
        elif truth.in_contact:
            pose = self._drawing.pose(coefficients, truth.wrench_arc_length_m)
            force = pose[:3, :3] @ truth.force_there_n
        self.show(pose is not None and bool(np.any(force)), "push", "push_label")
        if pose is not None and np.any(force):
            arrow = self._arrow(pose, force)
            self._send("push", points=arrow[None])
            self._send("push_label", position=arrow[0])

    def _arrow(self, pose: Array, force_in_base_n: Array) -> Array:
        """Tail and head, (2, 3), of an arrow that presses on the robot's skin; without a force both are the head."""
        size = max(float(np.sqrt(force_in_base_n @ force_in_base_n)), 1e-12)
        length = _ARROW * min(1.0, max(0.25, size / self._largest_force_n))
        direction = force_in_base_n / size
        head = (pose[:3, 3] - self._skin_m * direction) * self._scale
        return np.array([head - length * direction, head])

    def _stretch(self, coefficients: Array, interval_m: tuple[float, float]) -> Array:
        low, high = (min(max(end, 0.0), self._drawing.length_m) for end in interval_m)
        least = 0.005 * self._drawing.length_m
        places = np.linspace(low, max(high, low + least), _BAND_STATIONS)
        return np.stack([self._drawing.pose(coefficients, float(place)) for place in places])


class ObstacleScene:
    """Obstacles of a simulated world: each is drawn once, and again only when the world is another one."""

    def __init__(self, server: viser.ViserServer, scale: float, folder: str = "") -> None:
        self._server, self._scale, self._folder = server, scale, folder
        self._handles: dict[str, Any] = {}
        self._drawn: dict[str, bytes] = {}

    def draw(self, obstacles: Mapping[str, Array]) -> None:
        """Show these obstacles and no others."""
        for name in self._handles.keys() - obstacles.keys():
            self._handles.pop(name).remove()
            del self._drawn[name]
        for name, triangles in obstacles.items():
            looks = np.asarray(triangles).tobytes()
            if self._drawn.get(name) == looks:
                continue
            vertices = (np.reshape(triangles, (-1, 3)) * self._scale).astype(np.float32)
            faces = np.arange(len(vertices)).reshape(-1, 3)
            self._drawn[name] = looks
            self._handles[name] = self._server.scene.add_mesh_simple(
                f"{self._folder}/obstacles/{name}", vertices, faces, color=colors.OBSTACLE, opacity=0.3,
                flat_shading=True, side="double", cast_shadow=False, receive_shadow=False,
            )  # fmt: skip


def _pieces(path: Array) -> Array:
    """The straight pieces of a path, (n - 1, 2, 3)."""
    return np.stack([path[:-1], path[1:]], axis=1)


def _anchors(geometry: Geometry) -> Array:
    """Where the tendons end, (tendons, 3)."""
    return np.array([path[-1] for path in geometry.tendons])


def _watch_camera(client: viser.ClientHandle) -> None:
    client.camera.on_update(_look_over_panel)


def _look_over_panel(camera: viser.CameraHandle) -> None:
    """On an upright screen, of a phone, the panel covers the lower half: the robot then stands in the upper one."""
    if camera.aspect < 0.6 and np.allclose(camera.position, _FROM) and np.allclose(camera.look_at, _AT, atol=1e-6):
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
    kind = f", {in_words(contact.kind)}" if contact.kind else ""
    where = "" if math.isfinite(contact.arc_length_m) else " if at the tip; its place is not observable"
    return f"{contact.state}{kind}: {_amount(contact, size_n)}{where}"


def _amount(contact: ContactState, size_n: float) -> str:
    error = f" ± {contact.force_deviation_n:.2g}" if math.isfinite(contact.force_deviation_n) else ""
    where = f" at {1e3 * contact.arc_length_m:.0f} mm" if math.isfinite(contact.arc_length_m) else ""
    return f"{size_n:.2g}{error} N{where}"
