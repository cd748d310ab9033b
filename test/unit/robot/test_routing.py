# SPDX-License-Identifier: Apache-2.0
"""Bases and routed paths in robot files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from robot_files import changed_robot

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot import doors
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.routing import (
    HelicalRouting,
    HolesRouting,
    RoutedPath,
    StraightRouting,
    TendonRouting,
)
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.cosserat.description import tendon_path
from continuum_robot.rod.cosserat.paths import DifferencedPath
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import tendon_matrix

HELICAL = "routed_tendons[0]"


def test_the_prototype_has_the_paths_of_table_one():
    robot = load_robot("rucker")
    s = np.linspace(0, 0.242, 7)
    paths = robot.tendon_paths
    for path, (x, y) in zip(paths[:4], [(8, 0), (0, 8), (-8, 0), (0, -8)], strict=True):
        np.testing.assert_allclose(path.at(s)[:2], [[x * 1e-3] * 7, [y * 1e-3] * 7], atol=1e-15)
    turn = 2 * np.pi * s / 0.242
    np.testing.assert_allclose(paths[4].at(s)[:2], [0.008 * np.cos(turn), 0.008 * np.sin(turn)], atol=1e-15)
    assert robot.tendon_count == Rod(robot).tendon_count == 6
    assert robot.tendon_names[3:] == ("backbone/tendon_4", "helical", "polynomial")


def holes(**more):
    return {"kind": "holes", "arc_lengths_m": [0.1, 0.2], "angles_rad": [0, 1], **more}


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("segments[0].basis.order", 4, "basis.order"),
        ("segments[0].basis", {"kind": "chebyshev"}, "basis.bending_order"),
        ("segments[0].basis", {"kind": "chebyshev_bending", "torsion_order": 4}, "basis.torsion_order"),
        (f"{HELICAL}.routing.radius", 3, "routing.radius"),
        (f"{HELICAL}.routing.kind", "spiral", "routing.kind"),
        ("routed_tendons[1].name", "helical", "routed_tendons"),
        (f"{HELICAL}.end_m", 0.25, "routed_tendons[0].end_m"),
        (f"{HELICAL}.start_m", 0.3, "start_m"),
        ("routed_tendons[1].routing.radius_coefficients", [0.02], "routed_tendons[1]"),
        (f"{HELICAL}.routing", holes(radii_m=[0.008, 0.012]), "routed_tendons[0]"),
        (f"{HELICAL}.routing", holes(arc_lengths_m=[0.2, 0.1]), "arc_lengths_m"),
        (f"{HELICAL}.routing", holes(angles_rad=[0]), "angles_rad"),
        (
            "segments[0].tendons.routing",
            {"kind": "polynomial", "radius_coefficients": [0.05]},
            "segments[0].tendons.routing",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_key(key, value, named):
    with pytest.raises(RobotFileError) as caught:
        changed_robot({key: value}, "rucker")
    assert named in caught.value.key
    assert caught.value.line is not None


def test_a_string_may_be_routed_and_is_checked_too():
    robot = changed_robot({"strings[4].routing.turns": 0.5}, "rucker")
    lengths = Rod(robot).strings.displacement_gradient(np.zeros(robot.coefficient_count))
    assert lengths.shape[0] == len(robot.strings) == 5
    with pytest.raises(RobotFileError, match="strings"):
        changed_robot({"strings[4].routing": {"kind": "polynomial", "radius_coefficients": [0.1]}}, "rucker")


@pytest.mark.parametrize("name", ["rucker", "rucker_helical"])
def test_displacements_that_are_not_linear_have_no_matrix(name):
    with pytest.raises(ParameterError, match="bending alone"):
        tendon_matrix(load_robot(name))


def test_a_basis_lists_its_functions():
    basis = Basis(kind="chebyshev", bending_order=1, torsion_order=0, extension_order=1)
    assert basis.rows == (0, 1, 0, 1, 2, 5, 5)
    assert basis.groups == (((0, 1), 1), ((2,), 0), ((5,), 1))
    assert (basis.coefficient_count, basis.highest_order, basis.bending_alone) == (7, 1, False)
    old = Basis(kind="chebyshev_bending", order=2)
    assert old.groups == (((0, 1), 2),)
    assert old.rows == (0, 1) * 3
    assert old.bending_alone


def test_holes_without_radii_stay_at_the_pitch_radius():
    holes = HolesRouting(arc_lengths_m=(0.0, 0.1), angles_rad=(0.0, 1.0))
    assert holes.radii_m == ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BentHelix(TendonRouting):
    """A helix of other people, with a kink in the middle from which on it runs parallel."""

    kind: str = quantity("a helix to the middle", default="bent_helix", choices=("bent_helix",))
    turns: float = quantity("if it went on", ge=-5, le=5)

    def kinks_m(self, length_m):
        return (length_m / 2,)

    def at(self, s_m, length_m, pitch_radius_m, angle_rad):
        rate = 2 * np.pi * self.turns / length_m
        going = s_m < length_m / 2
        angle = angle_rad + rate * np.minimum(s_m, length_m / 2)
        x, y = pitch_radius_m * np.cos(angle), pitch_radius_m * np.sin(angle)
        return x, y, np.where(going, -y * rate, 0.0), np.where(going, x * rate, 0.0)


class Entry:
    name, value = "bent_helix", "theirs:BentHelix"

    def __init__(self, made):
        self.load = lambda: made


@pytest.fixture
def bent_helix(monkeypatch):
    monkeypatch.setattr(
        doors, "entry_points", lambda *, group: [Entry(BentHelix)] if group == doors.TENDON_ROUTINGS else []
    )
    return {f"{HELICAL}.routing": {"kind": "bent_helix", "turns": 1.0}}


def test_a_routing_of_another_package_is_read_checked_and_followed(bent_helix):
    robot = changed_robot(bent_helix, "rucker")
    tendon = robot.routed_tendons[0]
    assert tendon.routing == BentHelix(turns=1.0)
    rod, c = Rod(robot), np.linspace(-1.0, 1.0, robot.coefficient_count)
    rows = rod.displacement_gradient(c)
    step = np.linspace(-1.0, 0.5, rod.n) * 1e-6
    difference = (rod.displacement(c + step) - rod.displacement(c - step)) / 2
    np.testing.assert_allclose(difference, rows @ step, rtol=1e-6, atol=1e-14)
    with pytest.raises(RobotFileError, match=r"\[-5, 5\]"):
        changed_robot({**bent_helix, f"{HELICAL}.routing.turns": 9.0}, "rucker")
    with pytest.raises(RobotFileError, match="straight, helical, polynomial, holes, bent_helix"):
        changed_robot({f"{HELICAL}.routing.kind": "spiral"}, "rucker")


@pytest.mark.parametrize("made", [object(), dict])
def test_what_is_no_routing_is_refused(monkeypatch, made):
    monkeypatch.setattr(doors, "entry_points", lambda *, group: [Entry(made)] if group == doors.TENDON_ROUTINGS else [])
    with pytest.raises(RobotFileError, match="a dataclass"):
        changed_robot({f"{HELICAL}.routing.kind": "bent_helix"}, "rucker")
    with pytest.raises(ParameterError, match="TendonRouting"):
        RoutedPath(name="theirs", start_m=0, end_m=0.1, pitch_radius_m=0.01, routing=made)


def test_the_judge_follows_any_routing_by_differences():
    """On a helix, whose second derivatives it has in closed form; at the ends of smooth pieces too."""
    path = RoutedPath(name="one", start_m=0.02, end_m=0.22, pitch_radius_m=0.008, routing=HelicalRouting(turns=1.5))
    s_m = np.linspace(0.02, 0.22, 9)
    close, exact = DifferencedPath(path).at(s_m, 0.1), tendon_path(path).at(s_m, 0.1)
    np.testing.assert_allclose(close[:, :4], exact[:, :4], atol=1e-9)
    np.testing.assert_allclose(close[:, 4:], exact[:, 4:], rtol=1e-6, atol=1e-8 * np.abs(exact[:, 4:]).max())
    bent = RoutedPath(name="two", start_m=0.02, end_m=0.22, pitch_radius_m=0.008, routing=BentHelix(turns=1.0))
    judge = tendon_path(bent)
    assert judge.kinks_m == pytest.approx((0.12,))
    before, after = (judge.at(np.array([0.12]), inside_m)[0] for inside_m in (0.11, 0.13))
    np.testing.assert_allclose(before[:2], after[:2], atol=1e-9)
    np.testing.assert_allclose(after[2:], 0, atol=1e-9)
    np.testing.assert_allclose(np.hypot(*before[2:4]), 0.008 * 2 * np.pi / 0.2, rtol=1e-6)


@pytest.mark.parametrize(
    "routing",
    [StraightRouting(), HelicalRouting(turns=0.5), HolesRouting(arc_lengths_m=(0.05, 0.15), angles_rad=(0, 1))],
)
def test_the_judge_follows_the_spiral_of_held_tendons(routing):
    whole = RoutedPath(name="one", start_m=0.02, end_m=0.22, pitch_radius_m=0.008, angle_rad=0.3, routing=routing)
    one = {"stiffness_n_per_m": (1e4,), "zero_m": (0.0,), "gain": (1.0,), "friction_fraction": (0.0,)}
    held = DisplacedTendons(**one, spiral_rad_per_m=-4.0, straight_over_m=0.02)
    (path,) = held.paths([whole], [0.1])
    s_m = np.linspace(0.08, 0.16, 9)  # between the holes
    np.testing.assert_allclose(tendon_path(path).at(s_m, 0.1)[:, :4], np.transpose(path.at(s_m)), atol=1e-9)
    turned = tendon_path(whole).at(s_m, 0.1)[:, :2] @ np.array([1, 1j]) * np.exp(-4j * (s_m - 0.1))
    np.testing.assert_allclose(np.array([1, 1j]) @ path.at(s_m)[:2], turned, atol=1e-9)
