# SPDX-License-Identifier: Apache-2.0
"""Contacts of the simulated robot: laws, virtual work, the plant under them, and the reading of contact files."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.friction.capstans import capstan_jacobian, tension_from_torque
from continuum_robot.rod.places import RodPlaces
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.contact import Contact, PlantContacts, contact_force, load_contacts, parse_contacts
from continuum_robot.simulation.moving_rod import MovingRod
from continuum_robot.simulation.plant import Plant

C = np.array([0.4, 1.6, 0.2, -0.5, 0.1, 0.3])
RATE = np.array([0.2, 1.1, -0.3, 0.4, 0.2, -0.1])


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("vanderbilt_segment")


@pytest.fixture(scope="module")
def rod(robot: Robot) -> RodPlaces:
    return RodPlaces(robot)


def against(rod: RodPlaces, s_m: float, depth_m: float, normal=(-1.0, 0.2, 0.1), **options) -> Contact:
    """A wall into which the shape C reaches ``depth_m`` at an arc length."""
    n = np.array(normal) / np.linalg.norm(normal)
    radius = options.get("body_radius_m", 0.0)
    point = rod.poses(C, [s_m])[0][:3, 3] + (depth_m - radius) * n
    return Contact(name="wall", kind="wall", arc_length_m=s_m, point_m=tuple(point), normal=normal, **options)


@pytest.mark.parametrize("s_m", [0.05308, 0.13, 0.2537, 0.30065])
def test_a_wall_pushes_along_its_normal_by_its_stiffness(rod: RodPlaces, s_m: float) -> None:
    wall = against(rod, s_m, 0.002, stiffness_n_per_m=4000.0, dissipation_s_per_m=0.0)
    load = wall.load(rod, C, RATE, 0.0)
    n = np.array(wall.normal) / np.linalg.norm(wall.normal)
    np.testing.assert_allclose(load.force_in_base_n, 8.0 * n, rtol=1e-9)
    assert load.penetration_m == pytest.approx(0.002)
    rotation = rod.poses(C, [s_m])[0][:3, :3]
    np.testing.assert_allclose(load.wrench_in_disk, [*(rotation.T @ load.force_in_base_n), 0, 0, 0], atol=1e-12)
    assert load.arc_length_m == s_m
    free = against(rod, s_m, -0.002).load(rod, C, RATE, 0.0)
    assert not free.touching
    assert not free.wrench_in_disk.any()


def test_generalised_force_of_a_spring_is_the_gradient_of_its_energy(rod: RodPlaces) -> None:
    """By central differences of k depth^2 / 2, for a wall, a sphere, and the wall, rim and face of a hole."""
    place = rod.poses(C, [0.2])[0][:3, 3]
    apart = np.array([0.6, 0.0, 0.8])
    sphere = Contact(
        name="ball",
        kind="sphere",
        arc_length_m=0.2,
        center_m=tuple(place - 0.078 * apart),
        sphere_radius_m=0.03,
        body_radius_m=0.05,
        dissipation_s_per_m=0.0,
    )
    # With their walls 2 mm within the robot's surface of 10 mm: beside it in the hole, and a rim ahead of it.
    beside, ahead = np.array([0.8, 0.0, -0.6]), apart
    holes = [
        Contact(
            name="hole",
            kind="tube",
            arc_length_m=0.2,
            mouth_m=tuple(place - depth_m * ahead - off_axis_m * beside),
            inwards=tuple(2 * ahead),
            inner_radius_m=0.03,
            body_radius_m=0.01,
            dissipation_s_per_m=0.0,
        )
        for depth_m, off_axis_m in ((0.02, 0.022), (-0.0048, 0.0236), (-0.008, 0.04))
    ]
    for contact in (against(rod, 0.2, 0.003, body_radius_m=0.08, dissipation_s_per_m=0.0), sphere, *holes):
        force = contact.generalized_force(rod, C, RATE, 0.0)

        def energy(c: np.ndarray, contact: Contact = contact) -> float:
            return contact.stiffness_n_per_m / 2 * contact.load(rod, c, RATE, 0.0).penetration_m ** 2

        assert energy(C) > 0
        for k in range(6):
            step = 1e-5 * np.eye(6)[k]
            assert force[k] == pytest.approx(-(energy(C + step) - energy(C - step)) / 2e-5, rel=1e-5, abs=1e-8)


def test_a_rim_turns_with_its_disk_and_levers_on_the_backbone(rod: RodPlaces) -> None:
    rim, pose = (0.08, 0.01, 0.0), rod.poses(C, [0.2])[0]
    touched = pose[:3, :3] @ rim + pose[:3, 3]
    n = np.array([-1.0, 0.0, 0.0])
    wall = Contact(
        name="wall",
        kind="wall",
        arc_length_m=0.2,
        point_m=tuple(touched + 0.003 * n),
        normal=tuple(n),
        body_point_m=rim,
        dissipation_s_per_m=0.0,
        friction_coefficient=0.4,
    )
    load = wall.load(rod, C, RATE, 0.0)
    assert load.penetration_m == pytest.approx(0.003)
    np.testing.assert_allclose(load.wrench_in_disk[3:], np.cross(rim, load.wrench_in_disk[:3]), atol=1e-12)
    step = 1e-6 * RATE
    ahead, behind = (wall.load(rod, C + sign * step, 0 * RATE, 0.0).penetration_m for sign in (1, -1))
    still = wall.load(rod, C, 0 * RATE, 0.0)
    power = rod.body_jacobian(C, 0.2) @ RATE @ still.wrench_in_disk
    assert power == pytest.approx(-0.003 * wall.stiffness_n_per_m * (ahead - behind) / 2e-6, rel=1e-6)
    push = Contact(name="hand", kind="push", arc_length_m=0.2, force_n=(0.0, 3.0, 0.0), body_point_m=rim, ramp_s=0.0)
    load = push.load(rod, C, RATE, 0.0)
    np.testing.assert_allclose(load.wrench_in_disk[3:], np.cross(rim, load.wrench_in_disk[:3]), atol=1e-12)


def test_friction_opposes_sliding_within_the_cone_and_has_a_moment_at_the_surface(rod: RodPlaces) -> None:
    wall = against(rod, 0.2, 0.004, body_radius_m=0.08, friction_coefficient=0.4, dissipation_s_per_m=0.0)
    load = wall.load(rod, C, RATE, 0.0)
    n = np.array(wall.normal) / np.linalg.norm(wall.normal)
    pressure = load.force_in_base_n @ n
    along = load.force_in_base_n - pressure * n
    assert pressure == pytest.approx(0.004 * wall.stiffness_n_per_m)
    assert 0 < np.linalg.norm(along) <= 0.4 * pressure
    rotation = rod.poses(C, [0.2])[0][:3, :3]
    twist = rod.body_jacobian(C, 0.2) @ RATE
    surface = rotation @ twist[:3] + np.cross(rotation @ twist[3:], -0.08 * n)
    slip = surface - (surface @ n) * n
    np.testing.assert_allclose(along, -np.linalg.norm(along) * slip / np.linalg.norm(slip), rtol=1e-9)
    speed = np.linalg.norm(slip)
    assert np.linalg.norm(along) == pytest.approx(0.4 * pressure * speed / np.hypot(speed, 0.01))
    np.testing.assert_allclose(rotation @ load.wrench_in_disk[3:], np.cross(-0.08 * n, load.force_in_base_n))
    # Power of friction is negative: it only takes energy.
    assert wall.generalized_force(rod, C, RATE, 0.0) @ RATE - pressure * n @ (rotation @ twist[:3]) < 0


def test_the_normal_force_never_pulls_and_is_continuous_at_touch_down() -> None:
    for rate in (-0.5, 0.0, 0.5, 50.0):
        normal, friction = contact_force(-1e-12, rate, np.array([0.1, 0.0]), (5000.0, 2.0, 0.3))
        assert 0 <= float(normal) < 1e-7
        assert np.abs(np.asarray(friction, dtype=float)).max() < 1e-7
    assert float(contact_force(-1e-3, 50.0, np.zeros(2), (5000.0, 2.0, 0.3))[0]) == 0
    assert float(contact_force(1e-3, -1.0, np.zeros(2), (5000.0, 2.0, 0.3))[0]) == 0


def test_a_push_follows_its_schedule_in_either_frame(rod: RodPlaces) -> None:
    push = Contact(
        name="hand", kind="push", disk=4, force_n=(3.0, -2.0, 1.0), start_s=1.0, end_s=2.0, ramp_s=0.2, frame="disk"
    )
    desired = {0.99: 0.0, 1.0: 0.0, 1.1: 0.5, 1.2: 1.0, 1.5: 1.0, 1.9: 0.5, 2.0: 0.0, 5.0: 0.0}
    for time_s, fraction in desired.items():
        load = push.load(rod, C, RATE, time_s)
        np.testing.assert_allclose(load.wrench_in_disk, fraction * np.array([3.0, -2.0, 1.0, 0, 0, 0]), atol=1e-9)
    assert push.load(rod, C, RATE, 1.5).arc_length_m == pytest.approx(0.2037)
    base = Contact(name="hand", kind="push", arc_length_m=0.1, force_n=(3.0, -2.0, 1.0), ramp_s=0.0)
    np.testing.assert_allclose(base.load(rod, C, RATE, 0.0).force_in_base_n, [3.0, -2.0, 1.0])


def test_the_plant_feels_the_contacts_force(robot: Robot, rod: RodPlaces) -> None:
    """In a step so short that nothing moves the momentum changes by what the contacts' own law gives."""
    wall = against(rod, 0.2, 0.004, body_radius_m=0.08, friction_coefficient=0.4)
    late = Contact(name="late", kind="sphere", disk=2, center_m=(0, 0, 0.1), sphere_radius_m=0.05, start_s=9.0)
    push = Contact(name="hand", kind="push", disk=6, force_n=(0.0, 5.0, 0.0), ramp_s=0.0)
    contacts = PlantContacts(robot, [wall, late, push])
    values, pushed = contacts.parameters(rod, C, RATE, 1.0)
    assert values.shape == (contacts.size,)
    np.testing.assert_allclose(pushed, push.generalized_force(rod, C, RATE, 1.0))
    changes = []
    for touching in (np.zeros(contacts.size), values):
        moving = MovingRod(Rod(robot), surfaces=contacts.surface_count, tolerance=1e-14)
        moving.reset(C, RATE)
        moving.touching[:] = touching
        before = moving.momentum.copy()
        moving.step(1e-7)
        changes.append((moving.momentum - before) / 1e-7)
    expected = wall.generalized_force(rod, C, RATE, 1.0)
    np.testing.assert_allclose(changes[1] - changes[0], expected, atol=1e-3 * np.abs(expected).max())
    loads = contacts.loads(rod, C, RATE, 1.0)
    assert [load.name for load in loads if load.touching] == ["wall", "hand"]


@pytest.fixture(scope="module")
def pressed(robot: Robot) -> Plant:
    """The segment bent by its capstans against a stiff wall with friction at disk 4, nearly at rest after 2.5 s."""
    wall = Contact(
        name="wall",
        kind="wall",
        disk=4,
        point_m=(0.02, 0.0, 0.0),
        normal=(-1.0, 0.0, 0.0),
        stiffness_n_per_m=20000.0,
        friction_coefficient=0.3,
    )
    plant = Plant(robot, actuation="ideal", contacts=[wall])
    tension = 416.0 + tension_from_torque(robot) @ [0.6, 0.0]
    for _ in range(250):
        plant.advance(tension, 0.01)
    return plant


def test_the_plant_comes_to_rest_where_forces_balance(pressed: Plant, robot: Robot, rod: RodPlaces) -> None:
    (load,) = pressed.contact_loads
    assert load.touching
    assert load.force_in_base_n[0] < -3
    assert np.abs(pressed.c_rate).max() < 0.1
    # The wall's force is what the equilibrium without it lacks: M c'' is nearly 0.
    c, own = pressed.c, Rod(robot)
    contact = rod.body_jacobian(c, load.arc_length_m).T @ load.wrench_in_disk
    resisting = capstan_jacobian(robot).T @ pressed.friction_torque
    drive = -own.lengths(c).gradient.T @ pressed.tension
    left = own.arrays.stiffness @ c + own.arrays.damping @ pressed.c_rate + own.terms(c, pressed.c_rate).bias
    np.testing.assert_allclose(left, drive + contact - resisting, atol=0.02)


def test_contact_stops_the_motion_that_the_same_torque_makes_in_the_open(
    pressed: Plant, robot: Robot, rod: RodPlaces
) -> None:
    tension = 416.0 + tension_from_torque(robot) @ [0.6, 0.0]
    there = rod.poses(equilibrium(Rod(robot), tension).c, [0.2037])[0][0, 3]
    assert there > 0.03
    (load,) = pressed.contact_loads
    assert load.penetration_m < 0.003


def test_a_contact_file_is_read_and_knows_its_robot(robot: Robot, tmp_path) -> None:
    path = tmp_path / "contacts.yaml"
    path.write_text(
        "contacts:\n"
        "  - {name: hand, kind: push, disk: 4, force_n: [10, 0, 0], start_s: 5, end_s: 8}\n"
        "  - {name: wall, kind: wall, arc_length_m: 0.25, point_m: [0.05, 0, 0], normal: [-1, 0, 0]}\n"
        "  - {name: ball, kind: sphere, disk: 1, center_m: [0.1, 0, 0.05], sphere_radius_m: 0.02}\n",
        encoding="utf-8",
    )
    hand, wall, ball = load_contacts(path, robot)
    assert (hand.force_n, hand.start_s, hand.end_s, hand.location_m(robot)) == ((10, 0, 0), 5, 8, 0.2037)
    assert (wall.kind, wall.location_m(robot), ball.location_m(robot)) == ("wall", 0.25, 0.05308)
    with pytest.raises(RobotFileError, match="readable contact file"):
        load_contacts(tmp_path / "none.yaml", robot)


GOOD = "{name: a, kind: wall, disk: 1, point_m: [0, 0, 0], normal: [1, 0, 0]}"
BAD = {
    "unknown kind": (GOOD.replace("wall", "floor"), "kind", "wall, sphere, tube, push"),
    "misspelt": (GOOD.replace("normal", "normals"), "normals", "did you mean 'normal'"),
    "no normal": (GOOD.replace(", normal: [1, 0, 0]", ""), "normal", "kind is wall"),
    "zero normal": (GOOD.replace("[1, 0, 0]", "[0, 0, 0]"), "normal", "not zero"),
    "no place": (GOOD.replace("disk: 1, ", ""), "arc_length_m", "either arc_length_m or disk"),
    "two places": (GOOD.replace("disk: 1", "disk: 1, arc_length_m: 0.1"), "arc_length_m", "either"),
    "no such disk": (GOOD.replace("disk: 1", "disk: 7"), "disk", "1 to 6"),
    "beyond the tip": (GOOD.replace("disk: 1", "arc_length_m: 0.31"), "arc_length_m", "at most 0.30065 m"),
    "not a number": (GOOD.replace("disk: 1", "arc_length_m: .nan"), "arc_length_m", "[0, 100]"),
    "of another kind": (GOOD.replace("normal", "force_n: [1, 0, 0], normal"), "force_n", "nothing, as kind is wall"),
    "soft as nothing": (GOOD.replace("}", ", stiffness_n_per_m: 0}"), "stiffness_n_per_m", "(0, 100000]"),
    "over before it starts": (GOOD.replace("}", ", start_s: 3, end_s: 2}"), "end_s", "later than start_s"),
    "same name": (GOOD + "\n  - " + GOOD, "contacts", "a different name"),
}


@pytest.mark.parametrize(("text", "key", "says"), BAD.values(), ids=BAD.keys())
def test_impossible_contacts_are_refused_by_key_and_line(robot: Robot, text: str, key: str, says: str) -> None:
    with pytest.raises(RobotFileError) as caught:
        parse_contacts(f"contacts:\n  - {text}\n", robot, "contacts.yaml")
    assert caught.value.key.endswith(key)
    assert says in caught.value.expected
    assert "contacts.yaml:" in str(caught.value)


def test_a_plant_refuses_a_contact_that_is_not_on_its_robot(robot: Robot) -> None:
    beyond = Contact(name="far", kind="push", arc_length_m=0.4, force_n=(1.0, 0.0, 0.0))
    with pytest.raises(ParameterError, match="contact far"):
        Plant(robot, contacts=[beyond])
