# SPDX-License-Identifier: Apache-2.0
"""Obstacles on their way to the page: markers of the simulator, triangles of the page, drawn once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the messages need ROS 2")
pytest.importorskip("viser", reason="viser is not installed: the extra viz")
pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")

from continuum_robot.app.view.scene import ObstacleScene
from continuum_robot.errors import ParameterError
from continuum_robot.nodes.simulated.obstacles import obstacle_markers, obstacle_triangles
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.mujoco.world import parse_world
from continuum_robot.simulation.plant import Plant

ROBOT = load_robot("opencr_five_tendon")
WORLD = """
obstacles:
  - {name: block, kind: box, position_m: [0.1, 0, 0.1], size_m: [0.02, 0.04, 0.06]}
  - {name: ball, kind: sphere, position_m: [-0.1, 0, 0.1], radius_m: 0.03}
"""


class Mesh:
    """What the page's server would show."""

    def __init__(self, scene, name, vertices, faces):
        self.scene, self.name, self.vertices, self.faces = scene, name, vertices, faces

    def remove(self):
        del self.scene.shown[self.name]


class Server:
    """Counts what is drawn."""

    def __init__(self):
        self.scene, self.shown, self.calls = self, {}, 0

    def add_mesh_simple(self, name, vertices, faces, **_looks):
        self.calls += 1
        self.shown[name] = Mesh(self, name, vertices, faces)
        return self.shown[name]


@pytest.fixture(scope="module")
def triangles():
    plant = MujocoPlant(ROBOT, links=10, world=parse_world(WORLD))
    message = obstacle_markers(plant, "left_base")
    assert {marker.header.frame_id for marker in message.markers} == {"left_base"}
    return obstacle_triangles(message)


def test_the_markers_carry_the_shapes_to_whoever_hears_them(triangles):
    assert list(triangles) == ["block", "ball"]
    block = triangles["block"].reshape(-1, 3)
    np.testing.assert_allclose(block.min(axis=0), [0.09, -0.02, 0.07], atol=1e-12)
    np.testing.assert_allclose(block.max(axis=0), [0.11, 0.02, 0.13], atol=1e-12)
    radii = np.linalg.norm(triangles["ball"].reshape(-1, 3) - [-0.1, 0, 0.1], axis=1)
    np.testing.assert_allclose(radii, 0.03, rtol=1e-9)


@pytest.mark.parametrize("name", ["block", "ball"])
def test_faces_look_outwards(triangles, name):
    corners = triangles[name] - triangles[name].reshape(-1, 3).mean(axis=0)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.einsum("ij,ij->i", normals, corners.mean(axis=1)) >= -1e-15).all()


def test_the_page_draws_them_once_and_takes_away_what_is_gone(triangles):
    server = Server()
    scene = ObstacleScene(server, 5.0)
    for _ in range(3):
        scene.draw(triangles)
    assert server.calls == 2
    assert server.shown["/obstacles/block"].vertices.max() == pytest.approx(5 * 0.13)
    scene.draw({"ball": triangles["ball"]})
    assert list(server.shown) == ["/obstacles/ball"]
    scene.draw({})
    assert server.shown == {}


def test_another_plant_has_no_obstacles():
    with pytest.raises(ParameterError, match="MuJoCo"):
        obstacle_markers(Plant(ROBOT), "base")
