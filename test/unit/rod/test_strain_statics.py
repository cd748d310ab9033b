# SPDX-License-Identifier: Apache-2.0
"""Equilibria of the general rod against closed forms; stability, buckling, and loads that a basis cannot bear."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from reference_data import reference_file
from scipy.optimize import brentq
from scipy.special import ellipe, ellipk
from strain_rods import (
    BENDING_NM2,
    EXTENSION_N,
    LENGTH_M,
    SHEAR_N,
    TORSION_NM2,
    basis,
    cantilever,
    crooked_rod,
    path,
    rest,
)

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.routing import HelicalRouting, RoutedPath
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.rod import Rod

BUCKLING_N = math.pi**2 * BENDING_NM2 / (4 * LENGTH_M**2)
KIRCHHOFF = Basis(kind="chebyshev", bending_order=6, torsion_order=6)


def at_tip(**load):
    return [PointWrench(s_m=LENGTH_M, **load)]


def tip_of(state):
    return state.rod.poses(state.c, state.rod.length_m)[0]


def test_axial_force_torsion_and_shear_of_a_straight_rod():
    rod = cantilever(basis(1))
    np.testing.assert_allclose(
        tip_of(rest(rod, loads=at_tip(force_n=(0, 0, 50.0))))[2, 3], LENGTH_M * (1 + 50.0 / EXTENSION_N)
    )
    turned = tip_of(rest(rod, loads=at_tip(moment_nm=(0, 0, 0.004))))
    angle = 0.004 * LENGTH_M / TORSION_NM2
    np.testing.assert_allclose(turned[0], [math.cos(angle), -math.sin(angle), 0, 0], atol=1e-12)
    sheared = cantilever(Basis(kind="chebyshev", shear_order=0))
    np.testing.assert_allclose(
        tip_of(rest(sheared, loads=at_tip(force_n=(40.0, 0, 0))))[0, 3], 40.0 * LENGTH_M / SHEAR_N
    )


def test_small_deflection_of_a_cantilever():
    force = 1e-6
    tip = tip_of(rest(cantilever(basis(1)), loads=at_tip(force_n=(force, 0, 0))))[0, 3]
    np.testing.assert_allclose(tip, force * (LENGTH_M**3 / (3 * BENDING_NM2) + LENGTH_M / SHEAR_N), rtol=1e-6)
    load = [DistributedLoad(force_n_per_m=(force, 0, 0))]
    tip = tip_of(rest(cantilever(basis(2)), loads=load))[0, 3]
    np.testing.assert_allclose(tip, force * (LENGTH_M**4 / (8 * BENDING_NM2) + LENGTH_M**2 / (2 * SHEAR_N)), rtol=1e-6)


@pytest.mark.parametrize("turn", [0.5, math.pi, 2 * math.pi])
def test_a_moment_bends_to_a_circle(turn):
    state = rest(cantilever(basis(0)), loads=at_tip(moment_nm=(0, turn * BENDING_NM2 / LENGTH_M, 0)))
    radius = LENGTH_M / turn
    expected = [radius * (1 - math.cos(turn)), 0, radius * math.sin(turn)]
    np.testing.assert_allclose(tip_of(state)[:3, 3], expected, atol=1e-12)
    assert not state.conservative
    assert state.energy_j is None


def test_a_moment_askew_bends_to_a_helix():
    """The tangent goes around the moment at |m| / EI, whatever the torsional stiffness."""
    moment = np.array([0.0, 0.03, 0.02])
    size = np.linalg.norm(moment)
    axis, rate = moment / size, size / BENDING_NM2
    along, across = axis[2] * axis, np.array([0, 0, 1.0]) - axis[2] * axis
    turn = rate * LENGTH_M
    expected = LENGTH_M * along + (math.sin(turn) * across + (1 - math.cos(turn)) * np.cross(axis, across)) / rate
    rod = cantilever(Basis(kind="chebyshev", bending_order=9, torsion_order=0), nodes=40)
    state = rest(rod, loads=at_tip(moment_nm=tuple(moment)))
    np.testing.assert_allclose(tip_of(state)[:3, 3], expected, atol=2e-7)


def test_a_tendon_bends_to_a_circle_that_is_shorter():
    """Bending moment tau r, compression tau: constant strain is exact without side load."""
    tension = 3.0
    state = rest(cantilever(basis(0), (path(),)), [tension])
    kappa, stretch = state.c[1], state.c[5]
    np.testing.assert_allclose(kappa, tension * 0.008 / BENDING_NM2, rtol=1e-12)
    np.testing.assert_allclose(stretch, -tension / EXTENSION_N, rtol=1e-12)
    finer = rest(cantilever(basis(4), (path(),)), [tension])
    np.testing.assert_allclose(tip_of(finer), tip_of(state), atol=1e-12)


@pytest.mark.parametrize("fraction", [0.5, 0.99, 1.01, 2.0])
def test_the_column_buckles_at_eulers_load(fraction):
    state = rest(cantilever(KIRCHHOFF), loads=at_tip(force_n=(0, 0, -fraction * BUCKLING_N)), settle=False)
    np.testing.assert_allclose(state.stability, 1 - fraction, atol=1e-5)
    assert state.stable == (fraction < 1)
    assert not state.snapped
    np.testing.assert_allclose(tip_of(state)[:3, 3], [0, 0, LENGTH_M], atol=1e-12)


@pytest.mark.parametrize("continuation", ["auto", "always"])
@pytest.mark.parametrize("fraction", [1.05, 1.5, 3.0])
def test_beyond_it_the_column_is_the_elastica(fraction, continuation):
    load = at_tip(force_n=(0, 0, -fraction * BUCKLING_N))
    state = rest(cantilever(KIRCHHOFF), loads=load, continuation=continuation)
    k = brentq(lambda k: float(ellipk(k * k)) - math.pi / 2 * math.sqrt(fraction), 1e-9, 1 - 1e-12)
    across = 2 * k * LENGTH_M / ellipk(k * k)
    along = LENGTH_M * (2 * ellipe(k * k) / ellipk(k * k) - 1)
    tip = tip_of(state)[:3, 3]
    np.testing.assert_allclose([math.hypot(tip[0], tip[1]), tip[2]], [across, along], atol=2e-6)
    assert state.snapped
    assert state.stable
    assert state.neutral  # it can go around the load
    if continuation == "always":
        assert 1.0 <= state.snapped_at[0] * fraction <= 1.2


def test_a_snap_on_the_way_from_one_equilibrium_to_another_is_told():
    """A column, buckled towards +x in its weak plane, pushed towards -x until it springs over."""
    segment = RodSegment(
        length_m=LENGTH_M,
        basis=KIRCHHOFF,
        stiffness=(50 * BENDING_NM2, BENDING_NM2, 50 * TORSION_NM2, SHEAR_N, SHEAR_N, EXTENSION_N),
    )
    flat = Rod(RodDescription(segments=(segment,)))

    def pushed(side_n):
        return flat.loaded(at_tip(force_n=(side_n, 0, -1.3 * BUCKLING_N)))

    state = rest(pushed(0.02))
    assert tip_of(state)[0, 3] > 0.1
    sides, snaps, tips = np.linspace(0.0, -0.06, 13), [], []
    for side_n in sides:
        state = rest(pushed(side_n), start=state)
        assert state.stable
        snaps.append(state.snapped)
        tips.append(tip_of(state)[0, 3])
    assert sum(snaps) == 1
    at = snaps.index(True)
    assert 0 < at < len(sides) - 1
    assert min(tips[:at]) > 0 > max(tips[at:])
    # In one stroke it is the same, and reported too; and back again there is hysteresis.
    once = rest(pushed(sides[-1]), start=rest(pushed(0.02)))
    assert once.snapped
    np.testing.assert_allclose(once.c, state.c, atol=1e-6)
    back = rest(pushed(sides[at - 1]), start=once)
    assert not back.snapped
    assert tip_of(back)[0, 3] < 0


def test_tendons_along_the_rod_do_not_buckle_it():
    """They press it together, and hold it straight as much: only a chord from end to end would buckle it."""
    rod = cantilever(basis(4), tuple(path(angle_rad=k * math.pi / 2, name=str(k)) for k in range(4)))
    state = rest(rod, np.full(4, 10 * BUCKLING_N))
    assert state.stability > 0.99
    np.testing.assert_allclose(state.c[-5], -40 * BUCKLING_N / EXTENSION_N, rtol=1e-9)


def test_a_follower_force_is_solved_exactly_though_it_has_no_potential():
    load = at_tip(force_n=(1.0, 0.3, 0), frame="body")
    state = rest(cantilever(basis(6)), loads=load)
    assert not state.conservative
    assert state.residual < 1e-9
    pose = tip_of(state)
    same = at_tip(force_n=tuple(pose[:3, :3] @ [1.0, 0.3, 0.0]))
    dead = rest(cantilever(basis(6)), loads=same, start=state.c, settle=False)
    np.testing.assert_allclose(dead.c, state.c, atol=1e-8)


def test_base_reaction_balances_loads_and_tendons():
    """At the base, rod and tendons together carry all loads; a tendon that ends or bends puts nothing on the whole."""
    rod = crooked_rod()
    whole = rod.description
    fine = Rod(
        RodDescription(
            segments=tuple(
                RodSegment(length_m=s.length_m, basis=basis(9), stiffness=s.stiffness) for s in whole.segments
            ),
            tendon_paths=whole.tendon_paths[:3],  # at the kinks of the last one the strain jumps, as no polynomial does
        ),
        nodes=40,
    )
    tension, force = np.array([1.0, 2.0, 0.5]), np.array([0.05, 0.02, -0.03])
    state = rest(fine, tension, [PointWrench(s_m=0.5, force_n=tuple(force))])
    strain = fine.stations([1e-9]).strains(state.c)[0]
    own = np.array(fine.description.segments[0].stiffness) * (strain - [0, 0, 0, 0, 0, 1])
    total_force, total_moment = own[3:].copy(), own[:3].copy()
    for one, pull in zip(fine.description.tendon_paths, tension, strict=True):
        x, y, x_slope, y_slope = (float(value[0]) for value in one.at(1e-9))
        arm = np.array([x, y, 0.0])
        tangent = strain[3:] + np.cross(strain[:3], arm) + [x_slope, y_slope, 0.0]
        unit = pull * tangent / np.linalg.norm(tangent)
        total_force, total_moment = total_force + unit, total_moment + np.cross(arm, unit)
    np.testing.assert_allclose(total_force, force, atol=2e-3)
    np.testing.assert_allclose(total_moment, np.cross(tip_of(state)[:3, 3], force), atol=2e-4)
    assert state.defect_m < 1e-4


@pytest.mark.parametrize(("order", "tolerance_mm"), [(2, 5e-3), (4, 1e-4)])
def test_two_segments_with_tendons_that_pass_the_junction(order, tolerance_mm):
    data = json.loads(reference_file("cosserat", "two_segment.json").read_text())
    for case in data["cases"]:
        robot = data["robots"][case["robot"]]
        modulus, radius = robot["E"], robot["backbone_radius"]
        shear = modulus / (2 * (1 + robot["nu"]))
        area, moment = math.pi * radius**2, math.pi / 4 * radius**4
        stiffness = (modulus * moment, modulus * moment, 2 * shear * moment, shear * area, shear * area, modulus * area)
        lengths = robot["L"]
        tendons = [
            RoutedPath(
                name=f"{k}_{angle}",
                start_m=0.0,
                end_m=sum(lengths[: k + 1]),
                pitch_radius_m=robot["pitch_radius"][k],
                angle_rad=math.radians(angle),
            )
            for k in range(2)
            for angle in (90, -30, 210)
        ]
        segments = tuple(RodSegment(length_m=length, basis=basis(order), stiffness=stiffness) for length in lengths)
        rod = Rod(RodDescription(segments=segments, tendon_paths=tuple(tendons)))
        load = PointWrench(
            s_m=sum(lengths), force_n=case["tip_force_base_frame_N"], moment_nm=case["tip_moment_base_frame_Nm"]
        )
        pose = tip_of(rest(rod, case["tension_N"], [load]))
        assert 1e3 * np.linalg.norm(pose[:3, 3] - case["tip_m"]) < tolerance_mm
        np.testing.assert_allclose(pose[:3, :3], case["R_tip"], atol=tolerance_mm)


# --- what a basis cannot bear, and what is no problem at all


def test_a_moment_that_the_basis_does_not_have_is_told():
    load = at_tip(moment_nm=(0, 0, 0.01))
    rigid = rest(cantilever(Basis(kind="chebyshev", bending_order=2)), loads=load)
    assert not rigid.represented
    np.testing.assert_allclose(rigid.defect_rad, 0.01 * LENGTH_M / TORSION_NM2)
    turning = rest(cantilever(Basis(kind="chebyshev", bending_order=2, torsion_order=0)), loads=load)
    assert turning.represented
    assert turning.defect_rad < 1e-9


def test_bending_on_a_rod_that_only_stretches_is_told():
    state = rest(cantilever(Basis(kind="chebyshev", extension_order=0)), loads=at_tip(force_n=(0.02, 0, 0)))
    assert not state.represented
    np.testing.assert_allclose(state.defect_m, 0.02 * (LENGTH_M**3 / 3 / BENDING_NM2 + LENGTH_M / SHEAR_N), rtol=1e-3)


def test_a_load_beyond_what_basis_and_steps_resolve_is_told():
    state = rest(cantilever(KIRCHHOFF), loads=at_tip(force_n=(200.0, 3.0, 0)))
    assert not state.represented


def test_the_defect_falls_with_the_order():
    load = at_tip(force_n=(0.3, 0.1, 0.0))
    defects = [rest(cantilever(basis(k), nodes=30), loads=load).defect_m for k in (0, 1, 2, 4)]
    assert defects[0] > 1e-3
    assert all(later < 0.5 * earlier for earlier, later in pairwise(defects))


@pytest.mark.parametrize(("turns", "end_m"), [(1.0, LENGTH_M - 0.013), (20.0, LENGTH_M)])
def test_the_defect_under_a_helical_tendon_is_that_of_a_fine_quadrature(turns, end_m):
    """By the steps of the chain alone, a tendon that ended between two had 33 mm instead of 15 um."""
    tendon = path(HelicalRouting(turns=turns), 0.5, end_m)
    state = rest(cantilever(basis(2), [tendon]), [3.0])
    rod = state.rod
    places = (np.arange(4_000) + 0.5) / 4_000 * LENGTH_M
    strain, poses = rod.stations(places).strains(state.c), rod.poses(state.c, places)
    x, y, x_slope, y_slope = tendon.at(places)
    arm = np.stack([x, y, 0 * x], axis=1)
    tangent = strain[:, 3:] + np.cross(strain[:, :3], arm) + np.stack([x_slope, y_slope, 0 * x], axis=1)
    pull = 3.0 * tangent / np.linalg.norm(tangent, axis=1)[:, None]
    pull[(places < tendon.start_m) | (places > tendon.end_m)] = 0.0
    asked = -np.concatenate([np.cross(arm, pull), pull], axis=1) / rod.description.segments[0].stiffness
    missing = asked - strain + [0, 0, 0, 0, 0, 1]
    turn, move = ((poses[:, :3, :3] @ missing[:, part, None])[..., 0] for part in (slice(3), slice(3, 6)))
    move = move + np.cross(turn, tip_of(state)[:3, 3] - poses[:, :3, 3])
    np.testing.assert_allclose(state.defect_rad, np.linalg.norm(turn.mean(axis=0)) * LENGTH_M, rtol=5e-3, atol=1e-6)
    np.testing.assert_allclose(state.defect_m, np.linalg.norm(move.mean(axis=0)) * LENGTH_M, rtol=5e-3, atol=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tension": [-1.0]},
        {"tension": [math.nan]},
        {"tension": [1.0, 2.0]},
        {"stiffness": [-1.0]},
        {"spooled": [math.inf]},
        {"start": [0.0]},
        {"start": np.full(14, math.inf)},
        {"continuation": "never"},
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ParameterError):
        rest(cantilever(KIRCHHOFF, (path(),)), **wrong)


def test_where_no_equilibrium_is_found_it_says_so():
    """A tip force that grows without bound along with the deflection: nothing balances it."""
    rod = cantilever(basis(0, shear_order=None, torsion_order=None))
    with pytest.raises((ConvergenceError, ParameterError)):
        rest(rod, loads=at_tip(force_n=(1e12, 0, 0)))


def test_a_problem_may_be_solved_again_from_the_last_shape():
    rod = cantilever(basis(3), (path(HelicalRouting(turns=1.0)),))
    pushed = rod.loaded(at_tip(force_n=(0.1, 0, 0)))
    first = rest(pushed, [2.0])
    again = rest(pushed, [2.1], start=first.c)
    assert again.iterations < first.iterations
    np.testing.assert_allclose(again.c, rest(pushed, [2.1]).c, atol=1e-8)
    other = rod.with_gravity((0.0, 0.0, -9.81))
    assert not rod.arrays.gravity.any()
    assert other.arrays.gravity[2] == -9.81
