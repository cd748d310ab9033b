# SPDX-License-Identifier: Apache-2.0
"""What the page shows, without a browser, a server or ROS: bodies, meshes, colours, curves, words, limits."""

from __future__ import annotations

import dataclasses
import math
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continuum_robot.drivers.named_faults import FAULT_TEXTS
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

pytest.importorskip("viser", reason="viser is not installed: the page needs the extra viz")

from pages.page_picture import picture_size

from continuum_robot.app.client.state import ContactState, RobotState, loop_timing
from continuum_robot.app.view import meshes, scene
from continuum_robot.app.view.controls.status import START, STATES, banner, explain
from continuum_robot.app.view.curves import History, drawn_range, marked_spans
from continuum_robot.app.view.legend import contact_words, legend, numbers
from continuum_robot.app.view.steering_range import reach_of, unit_of
from continuum_robot.errors import ParameterError
from continuum_robot.models import colors
from continuum_robot.models.making import robot_model
from continuum_robot.nodes.reference.lines import HOLDING
from continuum_robot.rod.rod import Rod

RODS = ("opencr_five_tendon", "two_segment", "vanderbilt_segment", "vanderbilt_two_segment")
MECHANISMS = ("rolling_five_link", "crem_segment")


@pytest.mark.parametrize("name", RODS)
def test_straight_rod(name: str) -> None:
    robot = load_robot(name)
    drawing = robot_model(robot).drawing()
    geometry = drawing.geometry(np.zeros(drawing.size))
    assert np.allclose(geometry.tip[:3, 3], [0, 0, robot.length_m])
    assert len(geometry.disks) == len(drawing.disk_radii_m) == len(drawing.disk_thickness_m)
    assert len(geometry.tendons) == robot.tendon_count
    for path in geometry.tendons:
        assert np.allclose(path[:, :2], path[0, :2])
        assert np.all(np.diff(path[:, 2]) > 0)


@pytest.mark.parametrize("name", RODS)
def test_desired_shape_has_the_desired_displacements(name: str) -> None:
    """Tendons are as much shorter, between disks, as the Clarke coordinates say."""
    robot = load_robot(name)
    drawing, manifold = robot_model(robot).drawing(), clarke_manifold(robot)
    clarke = 0.3 * reach_of(robot).high_m * np.resize([1.0, -0.5], robot.coordinate_count)
    straight = drawing.geometry(np.zeros(drawing.size)).tendons
    bent = drawing.geometry(drawing.coefficients(clarke)).tendons
    length = [sum(np.linalg.norm(np.diff(path, axis=0), axis=1)) for path in straight]
    shorter = np.array(length) - [sum(np.linalg.norm(np.diff(path, axis=0), axis=1)) for path in bent]
    desired = manifold.displacement(clarke)
    assert shorter == pytest.approx(desired, abs=0.03 * np.abs(desired).max())


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism_is_drawn_where_its_coordinates_say(name: str) -> None:
    robot = load_robot(name)
    drawing, reach = robot_model(robot).drawing(), reach_of(robot)
    tips = []
    for fraction in (0.1, 0.6):
        coefficients = drawing.coefficients(fraction * reach.high_m)
        geometry = drawing.geometry(coefficients)
        assert coefficients.shape == (drawing.size,)
        assert geometry.outlines
        assert len(geometry.tendons) == robot.tendon_count
        assert np.isfinite(geometry.tip).all()
        assert np.allclose(drawing.pose(coefficients, 0.0), geometry.tip)
        tips.append(geometry.tip[:3, 3])
    assert np.linalg.norm(tips[1] - tips[0]) > 0.01 * robot.length_m


@pytest.mark.parametrize("name", ["rucker", "rucker_helical"])
def test_general_rod_is_drawn_as_its_tendons_run(name: str) -> None:
    """Tendons are where their routing reports in the straight robot; bent, they shorten as the rod engine reports."""
    robot = load_robot(name)
    drawing = robot_model(robot).drawing()
    geometry = drawing.geometry(np.zeros(drawing.size))
    assert np.allclose(geometry.tip[:3, 3], [0, 0, robot.length_m])
    for path, drawn in zip(robot.tendon_paths, geometry.tendons, strict=True):
        x, y, _, _ = path.at(drawn[:, 2])
        assert drawn[:, :2] == pytest.approx(np.stack([x, y], axis=1), abs=1e-9)
    rod = Rod(robot)
    bent = 0.05 * rod.scale * np.cos(np.arange(drawing.size))
    displacement = rod.displacement(bent)
    lengths = [
        [sum(np.linalg.norm(np.diff(path, axis=0), axis=1)) for path in drawing.geometry(c).tendons]
        for c in (np.zeros(drawing.size), bent)
    ]
    assert -np.diff(lengths, axis=0)[0] == pytest.approx(displacement, abs=0.03 * np.abs(displacement).max())


def test_a_robot_with_general_tendons_is_steered_by_their_modes() -> None:
    robot = load_robot("rucker_helical")
    reach = reach_of(robot)
    assert reach.names == ("modes_1 q_Re", "modes_1 q_Im")
    np.testing.assert_allclose(reach.high_m, 1.25 * 0.004)
    drawing = robot_model(robot).drawing()
    straight, bent = (
        drawing.geometry(drawing.coefficients(clarke)).tip for clarke in (np.zeros(2), np.array([0.001, 0.0]))
    )
    # A pair is turned so that its first coordinate moves the tip towards +x.
    assert bent[0, 3] > straight[0, 3] + 0.5e-3
    assert bent[1, 3] == pytest.approx(straight[1, 3], abs=0.1e-3)


def closed(vertices: np.ndarray, faces: np.ndarray) -> float:
    """Volume of a closed, outward surface; every edge belongs to two faces, once in each direction."""
    edges = [(int(a), int(b)) for face in faces for a, b in zip(face, np.roll(face, -1), strict=True)]
    assert len(set(edges)) == len(edges)
    assert {(b, a) for a, b in edges} == set(edges)
    corners = vertices[faces]
    return float(np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6)


def test_tube_is_closed_and_as_thick_as_asked_for() -> None:
    frames = np.tile(np.eye(4), (9, 1, 1))
    frames[:, 2, 3] = np.linspace(0, 2.0, 9)
    volume = closed(meshes.tube(frames, 0.1), meshes.tube_faces(9))
    assert volume == pytest.approx(math.pi * 0.1**2 * 2.0, rel=0.04)


def test_plate_is_closed_and_as_thick_as_asked_for() -> None:
    angle = np.linspace(0, 2 * np.pi, 31)
    outline = np.stack([np.cos(angle), np.zeros(31), np.sin(angle)], -1)
    volume = closed(meshes.plate(outline, 0.2), meshes.plate_faces(30))
    assert abs(volume) == pytest.approx(math.pi * 0.2, rel=0.02)
    both = meshes.plates([outline, outline + 5.0], 0.2)
    assert len(both) == 2 * len(meshes.plate(outline, 0.2))
    assert meshes.plates_faces([30, 30]).max() == len(both) - 1


def test_cylinder_looks_outwards() -> None:
    vertices, faces = meshes.cylinder()
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all(np.einsum("ij,ij->i", normals, corners.mean(axis=1)) > 0)


def test_tensions_have_colours_up_to_the_limit() -> None:
    tints = colors.tension_colors([0.0, 10.0, math.nan, 99.0], 10.0)
    assert tints.shape == (4, 3)
    assert tuple(tints[2]) == colors.UNKNOWN
    assert tuple(tints[1]) == tuple(tints[3])
    assert tints[0][2] > tints[0][0]
    assert tints[1][0] > tints[1][2]
    assert colors.css(tints[2]) == "#96969b"


def test_every_tendon_has_one_colour_whose_lightness_tells_the_segment() -> None:
    robot = load_robot("two_segment")
    tints = colors.tendon_colors(robot)
    assert len(set(tints)) == len(tints) == robot.tendon_count
    proximal, distal = (np.array(tints[rows]).sum(axis=1) for rows in robot.tendon_slices)
    assert np.all(proximal < distal)
    assert len(set(colors.coordinate_colors(robot))) == robot.coordinate_count
    one = load_robot("opencr_five_tendon")
    assert colors.tendon_colors(one) == colors.SERIES[: one.tendon_count]


def test_marked_spans_end_with_the_samples() -> None:
    marked = np.array([1.0, 0.0, 1.0, 1.0, math.nan, 1.0])
    assert marked_spans(np.arange(-5.0, 1.0), marked) == [(-5.0, -5.0), (-3.0, -2.0), (0.0, 0.0)]
    assert marked_spans(np.zeros(0), np.zeros(0)) == []


def test_history_keeps_the_last_seconds_in_order() -> None:
    history = History(2, 10)
    for k in range(25):
        history.add(0.1 * k, [k, -k] if k % 2 else [k])
    times, values = history.last(2.4, 0.55)
    assert times == pytest.approx([-0.5, -0.4, -0.3, -0.2, -0.1, 0.0])
    assert values[:, 0].tolist() == [19, 20, 21, 22, 23, 24]
    assert math.isnan(values[-1, 1])
    assert values[-2, 1] == -23
    assert len(history.last(2.4, 100.0)[0]) == 10
    assert len(history.last(100.0, 1.0)[0]) == 0


@given(arrays(float, (20, 2), elements=st.floats(-1e6, 1e6) | st.just(math.nan)))
def test_the_range_of_an_axis_holds_all_that_is_known(values) -> None:
    low, high = drawn_range(values, (0.0, 1.0))
    known = values[np.isfinite(values)]
    assert low < high
    if known.size:
        assert low <= known.min()
        assert known.max() <= high
    else:
        assert (low, high) == (0.0, 1.0)


def test_the_range_of_an_axis_is_round_and_stands_still() -> None:
    swings = np.array([[math.nan, -9.7], [9.8, math.nan]])
    drawn = drawn_range(swings, (0.0, 1.0))
    assert drawn == (-10.0, 10.0)
    assert drawn_range(0.5 * swings, drawn) == drawn, "it narrows at half"
    assert drawn_range(0.1 * swings, drawn) == (-1.0, 1.0)
    assert drawn_range(np.array([[59.0, 60.0]]), (0.0, 1.0)) == pytest.approx((59.0, 60.2))
    assert drawn_range(np.full((1, 2), 3.0), (0.0, 1.0)) != (0.0, 1.0), "a line that stands still has room"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"loop_rate_hz": "999.5", "response_p99_us": "59"}, 59.0),
        ({"loop_rate_hz": "999.5", "round_trip_p99_us": "575"}, 575.0),
    ],
)
def test_the_loops_curve_is_the_way_from_reading_to_command(values, expected) -> None:
    loop = loop_timing(values)
    assert loop.response_p99_us == expected
    assert loop.rate_hz == 999.5
    assert math.isnan(loop.execution_p99_us)


@pytest.mark.parametrize("name", sorted(FAULT_TEXTS))
def test_browser_says_of_a_fault_what_its_page_says(name: str) -> None:
    said, text = explain(name), FAULT_TEXTS[name][0]
    assert said.cause == text.meaning.replace("`", "")
    assert said.remedy.endswith(".")
    assert "`" not in said.remedy
    assert said.remedy.count("Home the robot") == sum(step.startswith("Home the robot") for step in text.cure)


def test_words_of_a_fault_with_a_detail_and_of_an_unknown_one() -> None:
    assert all(explain(name).cause == meaning for name, meaning in FAULTS.items())
    lost = explain("node_lost: clarke_controller")
    assert "clarke_controller" in lost.cause
    assert explain("something new").remedy


def test_banner_says_state_fault_and_what_to_do() -> None:
    up = RobotState(silent_s=0.0, stack="up", simulated=True, driver="active")
    assert "UP" in banner(up)
    assert "simulated" in banner(up)
    assert HOLDING.upper() not in banner(up)
    holds = RobotState(silent_s=0.0, stack="up", driver="active", holding=True)
    assert HOLDING.upper() in banner(holds)
    assert START in banner(holds)
    stopped = RobotState(
        silent_s=0.0,
        stack="fault",
        estop=True,
        faults=("estop",),
        driver="safe",
        nodes={"recorder": "inactive", "a": "active"},
    )
    text = banner(stopped)
    for word in ("EMERGENCY STOP IS LATCHED", FAULTS["estop"], explain("estop").remedy, "recorder inactive"):
        assert word in text
    assert "a active" not in text
    assert STATES[""] in banner(RobotState())
    # What comes over the wire is text, not HTML.
    wild = RobotState(silent_s=0.0, stack="fault", faults=("<script>",))
    assert "<script>" not in banner(wild)


def test_legend_and_contact_in_words() -> None:
    snapshot = RobotState(clarke_m=np.array([0.001, -0.002]))
    text = legend(numbers(snapshot, ("q_Re", "q_Im"), unit_of(load_robot("opencr_five_tendon"))), 10.0)
    assert "10 N" in text
    assert "1.00" in text
    assert "-2.00" in text
    assert "-2000.0</b></td><td>µm" in numbers(snapshot, ("q_Re", "q_Im"), unit_of(load_robot("crem_segment")))
    detected = ContactState(
        state="contact",
        in_contact=True,
        arc_length_m=0.132,
        force_there_n=np.array([3.0, 4.0, math.nan]),
        force_deviation_n=0.2,
    )
    assert contact_words(detected) == "contact: 5 ± 0.2 N at 132 mm"
    assert "not observable" in contact_words(ContactState(state="contact", in_contact=True, force_there_n=np.ones(3)))
    assert contact_words(ContactState(state="invalid", reason="no shape")) == "invalid: no shape"
    moved = dataclasses.replace(detected, screw_segment=1)
    assert contact_words(moved) == "contact: 5 ± 0.2 N at 132 mm; by its motion on segment 2"
    assert contact_words(ContactState(state="clear", screw_segment=0)) == "clear; by its motion on segment 1"
    assert contact_words(dataclasses.replace(detected, kind="tip_blocked")).startswith("contact, tip blocked: 5")
    assert contact_words(dataclasses.replace(detected, kind="unknown")).startswith("contact, of unknown kind: 5")
    over = ContactState(state="clear", kind="accidental", kind_reason="it was over after 0.2 s")
    assert contact_words(over) == "clear; the last was accidental: it was over after 0.2 s"


@pytest.mark.parametrize("name", [*RODS, *MECHANISMS])
def test_reach_stays_within_the_robots_displacements(name: str) -> None:
    robot = load_robot(name)
    reach = reach_of(robot)
    assert robot.limits is not None
    assert len(reach.names) == len(reach.low_m) == len(reach.high_m) == robot.coordinate_count
    assert len(set(reach.names)) == len(reach.names)
    assert np.all(reach.low_m <= 0)
    assert np.all(reach.high_m > 0)
    for coordinate, value in enumerate(reach.high_m):
        clarke = np.zeros(robot.coordinate_count)
        clarke[coordinate] = value
        displacement = clarke_manifold(robot).displacement(clarke)
        assert np.abs(displacement).max() <= robot.limits.maximum_displacement_m * (1 + 1e-9)


def test_pushes_suit_the_robot() -> None:
    forces = {name: robot_model(load_robot(name)).largest_push_n for name in RODS}
    assert forces["opencr_five_tendon"] < forces["vanderbilt_segment"]
    for force in forces.values():
        digits = force / 10 ** math.floor(math.log10(force) + 1e-9)
        assert round(digits, 6) in (1.0, 2.0, 5.0)


def test_picture_size() -> None:
    assert picture_size("1280x800") == (1280, 800)
    for wrong in ("1280", "axb", "1280x", "1x1", "99999x800"):
        with pytest.raises(ParameterError, match="--size"):
            picture_size(wrong)


def test_on_an_upright_screen_the_robot_stands_above_the_panel() -> None:
    for aspect, moved in ((0.46, True), (1.6, False)):
        camera = types.SimpleNamespace(aspect=aspect, position=np.array(scene._FROM), look_at=np.array(scene._AT))
        scene._look_over_panel(camera)
        assert (tuple(camera.look_at) == scene._AT_UPRIGHT) is moved
    turned = types.SimpleNamespace(aspect=0.46, position=np.ones(3), look_at=np.zeros(3))
    scene._look_over_panel(turned)
    assert tuple(turned.position) == (1.0, 1.0, 1.0), "what a hand turned stays"
