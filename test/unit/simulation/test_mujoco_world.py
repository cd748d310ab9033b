# SPDX-License-Identifier: Apache-2.0
"""Worlds with obstacles: reading their files, the balance of contact forces, friction, and what is drawn of them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.file.shipped_files import shipped_folders
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.mujoco.world import load_world, parse_world
from continuum_robot.simulation.simulator import Simulator

pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")

ROBOT = load_robot("opencr_five_tendon")
LENGTH_M = ROBOT.length_m
NOTHING = np.zeros(5)

BALL = """
obstacles:
  - {name: ball, kind: sphere, position_m: [0.04, 0.0, 0.195], radius_m: 0.02, friction_coefficient: 0.0}
"""


def block(friction: float, **keys: str) -> str:
    """A block whose surface, along the robot, is 12 mm from the backbone and 3 mm from the disks."""
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return (
        "obstacles: [{name: block, kind: box, position_m: [0.032, 0, 0.19], size_m: [0.04, 0.2, 0.06],"
        f" friction_coefficient: {friction}{more}}}]"
    )


def pressed(text: str, force_n: tuple[float, float, float], duration_s: float = 1.5) -> MujocoPlant:
    """The robot without tensions, pushed by a hand at its tip until it rests."""
    plant = MujocoPlant(ROBOT, links=10, actuation="ideal", world=parse_world(text))
    plant.push(LENGTH_M, force_n)
    plant.advance(NOTHING, duration_s)
    return plant


@pytest.mark.parametrize("text", [BALL, block(0.0)], ids=["ball", "block"])
def test_contact_forces_balance_hand_springs_and_weight(text):
    """At rest the generalised forces of all contacts, as they are reported, are what is missing to the balance."""
    plant = pressed(text, (0.3, 0.0, 0.0))
    chain = plant.chain
    assert plant.contact_loads
    total = chain.data.qfrc_passive - chain.data.qfrc_bias + chain.data.qfrc_applied
    assert np.abs(total).max() > 1e-3
    for load in plant.contact_loads:
        jacobian = chain.kinematics.body_jacobian((), load.arc_length_m)
        rotation = plant.pose(load.arc_length_m)[:3, :3]
        np.testing.assert_allclose(rotation @ load.wrench_in_disk[:3], load.force_in_base_n, atol=1e-9)
        total = total + jacobian.T @ load.wrench_in_disk
        assert load.force_in_base_n[0] < 0, "an obstacle at +x presses the robot towards -x"
        assert load.touching
        assert load.penetration_m < 1e-3
        assert np.linalg.norm(load.point_m - plant.pose(load.arc_length_m)[:3, 3]) < 0.011
    assert np.abs(total).max() < 2e-5


def test_a_ball_presses_along_the_line_to_its_centre():
    plant = pressed(BALL, (0.3, 0.0, 0.0))
    (load,) = plant.contact_loads
    out = load.point_m - np.array([0.04, 0.0, 0.195])
    direction = load.force_in_base_n / np.linalg.norm(load.force_in_base_n)
    np.testing.assert_allclose(direction, out / np.linalg.norm(out), atol=1e-3)
    assert load.name == "ball"


def test_friction_holds_up_to_its_coefficient():
    """Pressed with 1 N to the block and pulled along y: it slides without friction, and sticks with much of it."""
    force = (0.5, 0.12, 0.0)
    free, stuck = pressed(block(0.0), force), pressed(block(0.8), force)
    along_m = [plant.pose(LENGTH_M)[1, 3] for plant in (free, stuck)]
    assert along_m[0] > 0.02
    assert abs(along_m[1]) < 0.6 * along_m[0]
    normal_n = -sum(load.force_in_base_n[0] for load in stuck.contact_loads)
    friction_n = np.linalg.norm(sum(load.force_in_base_n[1:] for load in stuck.contact_loads))
    assert 0.02 < friction_n <= 0.8 * normal_n * 1.01


def test_softness_lets_the_robot_sink_deeper():
    hard, soft = (pressed(block(0.0, contact_time_constant_s=str(value)), (0.5, 0.0, 0.0)) for value in (0.002, 0.03))
    depth = [max(load.penetration_m for load in plant.contact_loads) for plant in (hard, soft)]
    assert depth[1] > 3 * depth[0]


def test_every_shape_stops_the_robot(tmp_path):
    """A wall 12 mm beside the backbone, of each kind; the mesh is a box of 12 triangles."""
    corners = np.array([[x, y, z] for x in (0.012, 0.05) for y in (-0.1, 0.1) for z in (0.16, 0.22)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    triangles = [corners[[a, b, c]] for q in quads for a, b, c in (q[:3], (q[0], q[2], q[3]))]
    mesh = b"\0" * 80 + struct.pack("<I", 12)
    mesh += b"".join(struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0) for triangle in triangles)
    (tmp_path / "wall.stl").write_bytes(mesh)
    lines = [f"v {' '.join(map(str, 1e3 * corner))}" for corner in corners]
    lines += ["f " + " ".join(str(index + 1) for index in quad) for quad in quads]
    (tmp_path / "wall.obj").write_text("\n".join(lines))
    across = "rotation_rad: [1.5707963, 0, 0]"
    kinds = [
        f"kind: cylinder, position_m: [0.052, 0, 0.19], radius_m: 0.04, length_m: 0.1, {across}",
        f"kind: capsule, position_m: [0.052, 0, 0.19], radius_m: 0.04, length_m: 0.1, {across}",
        "kind: mesh, position_m: [0, 0, 0], file: wall.stl",
        "kind: mesh, position_m: [0, 0, 0], file: wall.obj, scale: 0.001",
        "kind: tube, inner_radius_m: 0.012, path: [{point_m: [0, 0, 0.15]}, {point_m: [0, 0, 0.22]}]",
    ]
    for kind in kinds:
        file = tmp_path / "world.yaml"
        file.write_text(f"obstacles: [{{name: wall, {kind}}}]")
        plant = MujocoPlant(ROBOT, links=10, actuation="ideal", world=load_world(file))
        plant.push(LENGTH_M, (0.3, 0.0, 0.0))
        plant.advance(NOTHING, 0.6)
        assert plant.pose(LENGTH_M)[0, 3] < 0.0045, kind
        ((name, triangles),) = plant.obstacle_triangles()
        assert name == "wall"
        assert triangles[..., 0].max() > 0.012
        assert triangles.shape[1:] == (3, 3)


def test_the_tube_is_closed_around_its_bend():
    """From points of the centre line every direction meets a wall of the tube."""
    world = load_world(shipped_folders("worlds")[0] / "tube.yaml")
    tube = world.obstacles[0]
    parts = [part for _, part in world.parts()]
    for along in np.linspace(0.05, 0.95, 12):
        points = np.array([one.point_m for one in tube.path])
        place = along * (len(points) - 1)
        k = int(place)
        center = points[k] + (place - k) * (points[k + 1] - points[k])
        for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False):
            out = center + (tube.inner_radius_m + 0.6 * tube.wall_m) * np.array([np.cos(angle), np.sin(angle), 0.0])
            inside = [np.all(np.abs(part.rotation.T @ (out - part.position_m)) <= part.sizes_m) for part in parts]
            assert any(inside), (along, angle)


@pytest.mark.parametrize("file", sorted(shipped_folders("worlds")[0].glob("*.yaml")), ids=lambda file: file.stem)
def test_shipped_worlds_fit_the_robot_they_are_for(file):
    plant = MujocoPlant(ROBOT, links=10, world=load_world(file))
    assert plant.contact_loads == ()


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("obstacles: []", "obstacles", "at least one"),
        ("walls: []", "walls", "obstacles"),
        ("obstacles: [{name: a, kind: cone}]", "obstacles[0].kind", "box, sphere"),
        ("obstacles: [{name: a, kind: box, position_m: [0, 0, 1]}]", "obstacles[0].size_m", "edge lengths"),
        ("obstacles: [{name: a, kind: box, position_m: [0, 0], size_m: [1, 1, 1]}]", "obstacles[0].position_m", "3"),
        (
            "obstacles: [{name: a, kind: sphere, position_m: [0, 0, 1], radius_m: -1}]",
            "obstacles[0].radius_m",
            "(0, 100]",
        ),
        (
            "obstacles: [{name: a, kind: sphere, position_m: [0, 0, 1], radius_m: 1, friction: 1}]",
            "obstacles[0].friction",
            "friction_coefficient",
        ),
        (
            "obstacles: [{name: a, kind: tube, inner_radius_m: 1, path: [{point_m: [0, 0, 0]}]}]",
            "obstacles[0].path",
            "two or more",
        ),
        (
            "obstacles: [{name: a, kind: mesh, position_m: [0, 0, 0], file: none.stl}]",
            "obstacles[0].file",
            "existing file",
        ),
        (
            "obstacles: [{name: a, kind: sphere, position_m: [0, 0, 1], radius_m: 0.1},"
            " {name: a, kind: sphere, position_m: [0, 0, 2], radius_m: 0.1}]",
            "obstacles",
            "different name",
        ),
    ],
)
def test_errors_of_world_files_name_the_key(text, key, said):
    with pytest.raises(RobotFileError) as caught:
        parse_world(text, "world.yaml")
    assert caught.value.key == key
    assert said in str(caught.value)


def test_an_obstacle_in_the_robot_is_refused():
    inside = parse_world("obstacles: [{name: ball, kind: sphere, position_m: [0, 0, 0.1], radius_m: 0.02}]")
    with pytest.raises(ParameterError, match=r"ball.*inside the straight robot at \d+ mm"):
        MujocoPlant(ROBOT, links=10, world=inside)


def test_only_mujoco_has_a_world():
    with pytest.raises(ParameterError, match="world"):
        Simulator(ROBOT, "wire", world=parse_world(BALL))
