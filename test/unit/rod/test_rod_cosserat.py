# SPDX-License-Identifier: Apache-2.0
"""The Cosserat boundary-value problem against closed forms, rucker's printed matrices, balances and reference data."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_data import reference_file
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipe, ellipeinc, ellipk, ellipkinc

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.geometry import se3, so3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.lumped_masses import LumpedMass
from continuum_robot.robot.segments.routing import (
    HelicalRouting,
    HolesRouting,
    PolynomialRouting,
    RoutedPath,
    StraightRouting,
)
from continuum_robot.rod.cosserat import equations
from continuum_robot.rod.cosserat.description import (
    CosseratRod,
    CosseratTendon,
    Section,
    cosserat_rod,
    round_section,
    tendon_path,
)
from continuum_robot.rod.cosserat.paths import HolePath, PolarPath
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import DistributedLoad, PointWrench
from continuum_robot.rod.rod import Rod

LENGTH = 0.242
STEEL = round_section(LENGTH, youngs_modulus_pa=229.6e9, poisson_ratio=0.3125, radius_m=0.4e-3)
BENDING = STEEL.bending_torsion_nm2[0]
# As good as inextensible and shear-free, for the elastica.
ELASTICA = Section(length_m=1.0, shear_extension_n=(1e8, 1e8, 1e8), bending_torsion_nm2=(1.0, 1.0, 0.8))
STRAIGHT = PolarPath((0.008,), (-math.pi / 2,))
HELIX = PolarPath((0.008,), (0.0, 2 * math.pi / LENGTH))
POLYNOMIAL = PolarPath((0.008,), (0.0, 6.0, 320.0, -2849.0, 5887.0))  # rucker (28)
WEIGHT = DistributedLoad(force_n_per_m=(-0.47, 0.0, 0.0))


def rod_of(*paths: object, section: Section = STEEL, **options: object) -> CosseratRod:
    tendons = tuple(CosseratTendon(path=path, end_m=section.length_m) for path in paths)
    return CosseratRod(sections=(section,), tendons=tendons, **options)


def at_tip(rod: CosseratRod, force=(0.0, 0.0, 0.0), moment=(0.0, 0.0, 0.0), frame="base") -> tuple[PointWrench, ...]:
    return (PointWrench(s_m=rod.length_m, force_n=tuple(force), moment_nm=tuple(moment), frame=frame),)


def two_sections() -> CosseratRod:
    """Sections that differ, tendons that end, go on, wind, kink at holes and begin half-way."""
    thick = round_section(0.12, youngs_modulus_pa=60e9, poisson_ratio=0.3, radius_m=0.6e-3)
    thin = round_section(0.1, youngs_modulus_pa=60e9, poisson_ratio=0.3, radius_m=0.5e-3)
    holes = HolePath(
        (0.0, 0.05, 0.1, 0.16, 0.22), (0.0, 0.004, 0.006, 0.002, -0.004), (0.007, 0.006, 0.0, 0.003, 0.006)
    )
    return CosseratRod(
        sections=(thick, thin),
        tendons=(
            CosseratTendon(path=PolarPath((0.008,), (0.4,)), end_m=0.12),
            CosseratTendon(path=PolarPath((0.008,), (2.0, 20.0)), end_m=0.22),
            CosseratTendon(path=holes, end_m=0.22),
            CosseratTendon(path=PolarPath((0.006,), (4.0,)), begin_m=0.07, end_m=0.2),
        ),
    )


TENSIONS = np.array([2.5, 1.5, 1.0, 2.0])


def unevenness(solution: CosseratSolution) -> float:
    compliance = solution.stability.tip_compliance
    return float(np.abs(compliance - compliance.T).max() / np.abs(compliance).max())


# ---------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("turn_rad", [0.3, math.pi, 4 * math.pi])
def test_an_end_moment_bends_to_a_circle(turn_rad):
    rod = rod_of()
    solution = solve(rod, loads=at_tip(rod, moment=(0.0, BENDING * turn_rad / LENGTH, 0.0)))
    radius = LENGTH / turn_rad
    expected = [radius * (1 - math.cos(turn_rad)), 0.0, radius * math.sin(turn_rad)]
    assert solution.tip_m == pytest.approx(expected, abs=1e-9)
    # Beyond half a turn the constant moment, which has no potential, leaves the question open.
    assert solution.stable is (True if turn_rad < 1 else None)


def test_small_loads_give_the_beam_formula_with_shear():
    rod, force = rod_of(), 1e-6
    solution = solve(rod, loads=at_tip(rod, (force, 0.0, 0.0)), accuracy_m=1e-13)
    expected = force * LENGTH**3 / (3 * BENDING) + force * LENGTH / STEEL.shear_extension_n[0]
    assert solution.tip_m[0] == pytest.approx(expected, rel=1e-8)


def test_axial_loads_stretch_and_twist():
    rod = rod_of()
    solution = solve(rod, loads=at_tip(rod, (0.0, 0.0, 12.0), (0.0, 0.0, 3e-3)))
    assert solution.tip_m[2] == pytest.approx(LENGTH * (1 + 12.0 / STEEL.shear_extension_n[2]), abs=1e-13)
    twist = 3e-3 * LENGTH / STEEL.bending_torsion_nm2[2]
    assert so3.log(solution.tip_rotation) == pytest.approx([0, 0, twist], abs=1e-10)


@pytest.mark.parametrize("force_n", [0.5, 3.0, 10.0, 60.0])
def test_a_transverse_force_gives_the_elastica(force_n):
    solution = solve(rod_of(section=ELASTICA), loads=at_tip(rod_of(section=ELASTICA), (force_n, 0.0, 0.0)))
    alpha = math.sqrt(force_n)  # length and stiffness are 1

    def begin(modulus: float) -> float:
        return math.asin(1 / (math.sqrt(2) * modulus))

    modulus = brentq(
        lambda k: ellipk(k * k) - ellipkinc(begin(k), k * k) - alpha, math.sqrt(0.5) + 1e-12, 1 - 1e-12, xtol=1e-15
    )
    m = modulus**2
    down = 1 - 2 / alpha * (ellipe(m) - ellipeinc(begin(modulus), m))
    along = math.sqrt(2 * (2 * m - 1)) / alpha
    assert solution.tip_m == pytest.approx([down, 0.0, along], abs=1e-6)


def test_beyond_the_euler_load_straight_is_unstable_and_the_bent_branch_is_the_elastica():
    rod = rod_of(section=ELASTICA)
    critical_n = math.pi**2 / 4
    assert solve(rod, loads=at_tip(rod, (0.0, 0.0, -0.98 * critical_n))).stable
    straight = solve(rod, loads=at_tip(rod, (0.0, 0.0, -1.3 * critical_n)))
    assert straight.stable is False
    assert straight.stability.unstable_directions == 2  # every direction of the plane alike
    pushed = solve(rod, loads=at_tip(rod, (1e-3, 0.0, -1.3 * critical_n)))
    bent = solve(rod, loads=at_tip(rod, (0.0, 0.0, -1.3 * critical_n)), start=pushed)
    modulus = brentq(lambda k: ellipk(k * k) - math.sqrt(1.3 * critical_n), 1e-6, 1 - 1e-9)
    whole, part = ellipk(modulus**2), ellipe(modulus**2)
    assert bent.tip_m == pytest.approx([2 * modulus / whole, 0.0, 2 * part / whole - 1], abs=1e-6)
    assert bent.stability.unstable_directions == 0


def test_a_parallel_tendon_alone_bends_to_constant_strain():
    tension, radius = 3.0, 0.008
    solution = solve(rod_of(STRAIGHT), [tension])
    rod = solution.at(np.linspace(0, LENGTH, 13))
    curvature = tension * radius / BENDING  # towards the tendon, which stands at -y
    assert rod.curvature_per_m == pytest.approx(np.tile([curvature, 0, 0], (13, 1)), abs=1e-9)
    assert rod.strain == pytest.approx(np.tile([0, 0, 1 - tension / STEEL.shear_extension_n[2]], (13, 1)), abs=1e-12)
    assert solution.tip_m[1] < 0
    expected = LENGTH * (1 - tension / STEEL.shear_extension_n[2] - radius * curvature)
    assert solution.tendon_lengths_m == pytest.approx([expected], abs=1e-12)


def test_a_rod_bent_at_rest_stays_so():
    section = Section(
        length_m=0.2,
        shear_extension_n=STEEL.shear_extension_n,
        bending_torsion_nm2=STEEL.bending_torsion_nm2,
        rest_curvature_per_m=(0.0, 5.0, 0.0),
    )
    solution = solve(rod_of(section=section))
    assert solution.tip_m == pytest.approx([0.2 * (1 - math.cos(1.0)), 0.0, 0.2 * math.sin(1.0)], abs=1e-12)


# ---------------------------------------------------------------------------------------------- rucker's own matrices


def printed_rates(y, section, tension, stage):
    """rucker (16) as printed: v', u' from A, B, G, H, a, b, c, d."""
    stiff_se, stiff_bt = np.diag(section[:3]), np.diag(section[3:6])
    rotation = so3.matrix_from_quaternion(y[3:7])
    v, u = section[6:9] + y[7:10] / section[:3], section[9:12] + y[10:13] / section[3:6]
    A, B, G, H, a, b = (np.zeros(shape) for shape in ((3, 3),) * 4 + ((3,),) * 2)
    for j, tau in enumerate(tension):
        x = stage[6 * j : 6 * j + 6]
        r, r_1, r_2 = (np.array([x[2 * k], x[2 * k + 1], 0.0]) for k in range(3))
        p_1 = so3.hat(u) @ r + r_1 + v
        A_i = -tau * so3.hat(p_1) @ so3.hat(p_1) / np.linalg.norm(p_1) ** 3
        B_i = so3.hat(r) @ A_i
        a_i = A_i @ (so3.hat(u) @ p_1 + so3.hat(u) @ r_1 + r_2)
        A, B, G, H = A + A_i, B + B_i, G - A_i @ so3.hat(r), H - B_i @ so3.hat(r)
        a, b = a + a_i, b + so3.hat(r) @ a_i
    loads = stage[6 * len(tension) :]
    f_e, l_e = rotation.T @ loads[:3] + loads[6:9], rotation.T @ loads[3:6] + loads[9:12]
    c = -so3.hat(u) @ y[10:13] - so3.hat(v) @ y[7:10] - l_e - b
    d = -so3.hat(u) @ y[7:10] - f_e - a
    return np.linalg.solve(np.block([[stiff_se + A, G], [B, stiff_bt + H]]), np.concatenate([d, c]))


@pytest.mark.parametrize("seed", range(5))
def test_the_rates_are_those_of_the_printed_matrices(seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate(
        [rng.normal(size=3), so3.quaternion_from_matrix(so3.exp(rng.normal(size=3))), rng.normal(size=6)]
    )
    section = np.concatenate([rng.uniform(20, 60, 3), rng.uniform(0.5, 2, 3), [0.1, -0.2, 1.0], rng.normal(size=3)])
    tension, stage = rng.uniform(0, 5, 3), rng.normal(size=30)
    fixed = (y[:, None, None] + 0j, section[None], tension[None], stage[None, :18], stage[None, 18:])
    derivative = equations.rates(*fixed).real.ravel()
    rates = printed_rates(y, section, tension, stage)
    assert derivative[7:] / section[:6] == pytest.approx(rates, rel=1e-10, abs=1e-10)
    # Without the tendons the classical rod (5) is left.
    classical = equations.rates(*fixed[:2], 0 * tension[None], *fixed[3:]).real.ravel()
    assert classical[7:] / section[:6] == pytest.approx(printed_rates(y, section, 0 * tension, stage), rel=1e-10)


def test_the_sensitivities_of_a_step_are_its_derivative():
    rng = np.random.default_rng(3)
    y = np.concatenate([np.zeros(3), [1.0, 0, 0, 0], 0.1 * rng.normal(size=6)])
    section = np.concatenate([rng.uniform(20, 60, 3), rng.uniform(0.5, 2, 3), [0, 0, 1, 0, 0.3, 0]])
    tension, stages = rng.uniform(0, 2, 2), rng.normal(size=(12, 24))
    moved = np.concatenate([y[None], y + 1e-6 * np.eye(13), y - 1e-6 * np.eye(13)])
    alike = [np.array([one] * len(moved)) for one in (0.1, section, tension, stages[:, :12], stages[:, 12:])]
    ends, jacobians, _ = equations.step(moved, *alike)
    np.testing.assert_allclose(jacobians[0].T, (ends[1:14] - ends[14:]) / 2e-6, atol=1e-8)
    np.testing.assert_array_equal(equations.step(moved, *alike, sensitive=False)[0], ends)


@pytest.mark.parametrize("path", [STRAIGHT, HELIX, POLYNOMIAL])
def test_the_solution_integrates_the_printed_equations_and_meets_the_tip(path):
    """An adaptive integration of (16) from the clamped end must arrive at (18) to (20)."""
    rod = rod_of(path)
    force, tension = np.array([-0.196, 0.0, 0.0]), 4.91
    solution = solve(rod, [tension], (*at_tip(rod, force), WEIGHT))

    def derivative(s, y):
        routing = path.at(np.array([s]), s)[0]
        stage = np.concatenate([routing, [-0.47, 0, 0], np.zeros(9)])
        parameters = rod.sections[0].parameters
        rates = printed_rates(y, parameters, [tension], stage)
        v, u = parameters[6:9] + y[7:10] / parameters[:3], parameters[9:12] + y[10:13] / parameters[3:6]
        w, vector = y[3], y[4:7]
        spin = np.concatenate([[-vector @ u], w * u + np.cross(vector, u)]) / 2
        return np.concatenate([so3.matrix_from_quaternion(y[3:7]) @ v, spin, parameters[:6] * rates])

    end = solve_ivp(derivative, (0, LENGTH), solution.states[0], method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    assert end[:3] == pytest.approx(solution.tip_m, abs=1e-8)
    tip = solution.at([LENGTH])
    routing = path.at(np.array([LENGTH]), LENGTH)[0]
    r, r_1 = np.array([*routing[:2], 0.0]), np.array([*routing[2:4], 0.0])
    p_1 = tip.rotation[0] @ (np.cross(tip.curvature_per_m[0], r) + r_1 + tip.strain[0])
    pull = -tension * p_1 / np.linalg.norm(p_1)  # rucker (18)
    assert tip.force_n[0] == pytest.approx(pull + force, abs=1e-9)
    assert tip.moment_nm[0] == pytest.approx(np.cross(tip.rotation[0] @ r, pull), abs=1e-11)  # rucker (19)


# ---------------------------------------------------------------------------------------------- balances, invariances


def test_rod_and_tendons_together_bear_what_lies_beyond():
    """Across ends, kinks, beginnings and a change of section: total force and moment are those of the loads beyond."""
    rod = two_sections()
    points = (
        PointWrench(s_m=0.22, force_n=(0.1, 0.2, -0.1), moment_nm=(1e-3, 0.0, 2e-3)),
        PointWrench(s_m=0.09, force_n=(-0.3, 0.1, 0.0)),
    )
    solution = solve(rod, TENSIONS, points)
    places = np.linspace(0.001, 0.2199, 41)
    there = solution.at(places)
    ends = solution.at([point.s_m for point in points]).position_m
    for k, s in enumerate(places):
        beyond = [(point, end) for point, end in zip(points, ends, strict=True) if point.s_m > s]
        force = sum(np.array(point.force_n) for point, _ in beyond)
        moment = sum(
            np.array(point.moment_nm) + np.cross(end - there.position_m[k], point.force_n) for point, end in beyond
        )
        assert there.total_force_n[k] == pytest.approx(force, abs=1e-9)
        assert there.total_moment_nm[k] == pytest.approx(moment, abs=1e-10)
    assert np.linalg.norm(there.force_n, axis=1).max() > 3  # while the rod itself is pressed by the tendons


def test_weight_is_borne_towards_the_base():
    solution = solve(rod_of(HELIX), [3.0], [WEIGHT])
    places = np.linspace(0, LENGTH, 20)
    expected = np.outer(LENGTH - places, [-0.47, 0, 0])
    assert solution.at(places).total_force_n == pytest.approx(expected, abs=1e-9)


def test_a_force_off_the_backbone_has_a_moment_that_turns_with_it():
    """Against a rigid arm: the end of a stiff section that sticks out sideways cannot be identified from an offset."""
    rod, offset = rod_of(HELIX), (0.01, -0.02, 0.005)
    force = (0.1, 0.05, -0.2)
    solution = solve(rod, [3.0], [PointWrench(s_m=LENGTH, force_n=force, offset_m=offset), WEIGHT])
    arm = solution.tip_rotation @ offset
    same = solve(rod, [3.0], [PointWrench(s_m=LENGTH, force_n=force, moment_nm=tuple(np.cross(arm, force))), WEIGHT])
    assert same.tip_m == pytest.approx(solution.tip_m, abs=1e-9)
    # It has a potential, a constant moment has not.
    assert unevenness(solution) < 1e-9
    assert unevenness(same) > 1e-3
    follower = PointWrench(s_m=LENGTH, force_n=tuple(solution.tip_rotation.T @ force), offset_m=offset, frame="body")
    assert solve(rod, [3.0], [follower, WEIGHT]).tip_m == pytest.approx(solution.tip_m, abs=1e-9)


def test_a_distributed_load_may_act_on_a_stretch_and_vary():
    """Its beam formula: force density f on [a, L] deflects the tip by the integral of f(s) s^2 (3 L - s) / (6 E I)."""
    load = DistributedLoad(force_n_per_m=lambda s: (1e-6 * s, 0.0, 0.0), start_m=0.1)
    tip = solve(rod_of(), loads=[load], accuracy_m=1e-14).tip_m[0]
    s = np.linspace(0.1, LENGTH, 20001)
    bending = np.trapezoid(1e-6 * s * s**2 * (3 * LENGTH - s) / (6 * BENDING), s)
    shear = np.trapezoid(1e-6 * s * s / STEEL.shear_extension_n[0], s)
    assert tip == pytest.approx(bending + shear, rel=1e-7)


def test_loads_of_the_body_turn_with_it():
    """A force along the tip's own x axis, of the closed form of its balance: the base bears it turned."""
    rod = rod_of()
    solution = solve(rod, loads=at_tip(rod, (0.3, 0.0, 0.0), frame="body"))
    assert solution.at([0.0]).force_n[0] == pytest.approx(solution.tip_rotation @ [0.3, 0, 0], abs=1e-11)
    assert solution.stable is None  # no potential, so no claim
    spread = solve(rod, loads=[DistributedLoad(force_n_per_m=(1.0, 0, 0), frame="body")])
    places, weights = np.polynomial.legendre.leggauss(40)
    rotations = spread.at((places + 1) / 2 * LENGTH).rotation
    expected = np.einsum("k,kij,j->i", weights * LENGTH / 2, rotations, [1.0, 0, 0])
    assert spread.at([0.0]).force_n[0] == pytest.approx(expected, abs=1e-10)


def turned_by(pose: np.ndarray, loads: tuple[PointWrench, ...]) -> list[PointWrench]:
    turn = pose[:3, :3]
    return [
        PointWrench(s_m=load.s_m, force_n=tuple(turn @ load.force_n), moment_nm=tuple(turn @ load.moment_nm))
        for load in loads
    ]


small = st.floats(-1, 1)


@settings(max_examples=5)
@given(st.tuples(*[small] * 6), st.tuples(*[small] * 3), st.tuples(*[st.floats(0, 3)] * 4))
@example((1.0, -2.0, 0.5, 0.1, 0.2, 0.3), (1.0, -0.5, 0.2), (2.5, 1.5, 1.0, 2.0))
def test_shape_does_not_hang_on_the_frame(twist, force, tension):
    rod = two_sections()
    loads = at_tip(rod, 0.2 * np.array(force), (1e-3, 0.0, -1e-3))
    pose = se3.exp(2 * np.array(twist))
    moved = CosseratRod(sections=rod.sections, tendons=rod.tendons, base_pose=tuple(map(tuple, pose.tolist())))
    here, there = solve(rod, tension, loads), solve(moved, tension, turned_by(pose, loads))
    assert there.tip_m == pytest.approx(se3.apply(pose, here.tip_m), abs=1e-9)
    assert there.tip_rotation == pytest.approx(pose[:3, :3] @ here.tip_rotation, abs=1e-8)


def test_shape_does_not_hang_on_the_order_of_tendons():
    rod = two_sections()
    order = [2, 0, 3, 1]
    other = CosseratRod(sections=rod.sections, tendons=tuple(rod.tendons[j] for j in order))
    loads = at_tip(rod, (0.1, 0.2, -0.1))
    here, there = solve(rod, TENSIONS, loads), solve(other, TENSIONS[order], loads)
    assert there.tip_m == pytest.approx(here.tip_m, abs=1e-12)
    assert there.tendon_lengths_m == pytest.approx(here.tendon_lengths_m[order], abs=1e-12)


@settings(max_examples=5)
@given(st.floats(-3, 3), st.tuples(small, small, small))
def test_a_round_rod_may_be_turned_about_itself(angle, force):
    rod = CosseratRod(sections=(STEEL,), tendons=(CosseratTendon(path=HELIX, end_m=LENGTH),))
    turned = PolarPath((0.008,), (angle, 2 * math.pi / LENGTH))
    other = CosseratRod(sections=(STEEL,), tendons=(CosseratTendon(path=turned, end_m=LENGTH),))
    turn = so3.exp([0.0, 0.0, angle])
    force = 0.2 * np.array(force)
    here, there = solve(rod, [3.0], at_tip(rod, force)), solve(other, [3.0], at_tip(other, turn @ force))
    assert there.tip_m == pytest.approx(turn @ here.tip_m, abs=1e-9)


def test_energy_is_behind_it():
    """Maxwell: d tip / d tension = - d length / d force, with junctions; without the junction load it fails."""

    def slopes(junction_load: bool) -> tuple[np.ndarray, np.ndarray]:
        """Along one direction that is none of the axes."""
        rod, force, h, along = two_sections(), np.array([0.1, 0.2, -0.1]), 1e-4, np.array([0.6, -0.48, 0.64])
        moves, shortens = np.zeros(4), np.zeros(4)
        for sign in (1, -1):
            for j in range(4):
                tension = TENSIONS + sign * h * np.eye(4)[j]
                moves[j] += sign * along @ solve(rod, tension, at_tip(rod, force), junction_load=junction_load).tip_m
            loads = at_tip(rod, force + sign * h * along)
            shortens -= sign * solve(rod, TENSIONS, loads, junction_load=junction_load).tendon_lengths_m
        return moves / (2 * h), shortens / (2 * h)

    moves, shortens = slopes(True)
    assert np.abs(moves).max() > 5e-3
    assert moves == pytest.approx(shortens, abs=1e-8)
    moves, shortens = slopes(False)
    assert np.abs(moves - shortens).max() > 1e-4


def test_compliance_of_the_tip_is_its_derivative_and_symmetric():
    rod, force, h = two_sections(), np.array([0.1, 0.2, -0.1]), 1e-4
    solution = solve(rod, TENSIONS, at_tip(rod, force))
    compliance = solution.stability.tip_compliance
    assert unevenness(solution) < 1e-9
    for axis in range(3):
        ends = [solve(rod, TENSIONS, at_tip(rod, force + sign * h * np.eye(3)[axis])).tip_m for sign in (1, -1)]
        assert compliance[:3, axis] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-7)


def test_holes_close_together_approach_the_smooth_path():
    smooth = solve(rod_of(HELIX), [4.0], [WEIGHT]).tip_m
    errors = []
    for count in (10, 20, 40):
        s = np.linspace(0, LENGTH, count + 1)
        x, y = HELIX.at(s, 0.0)[:, :2].T
        holes = HolePath(tuple(s), tuple(x), tuple(y))
        errors.append(np.linalg.norm(solve(rod_of(holes), [4.0], [WEIGHT]).tip_m - smooth))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)


def test_derivatives_of_a_path_are_its_own():
    path = PolarPath((0.008, -0.02, 0.05), (0.3, 6.0, 320.0))
    s, h = np.linspace(0.02, 0.2, 7), 1e-6
    middle, before, after = (path.at(s + shift, 0.1) for shift in (0, -h, h))
    assert middle[:, 2:] == pytest.approx((after - before)[:, :4] / (2 * h), rel=1e-6, abs=1e-7)
    holes = HolePath((0.0, 0.1, 0.2), (0.0, 0.01, 0.0), (0.005, 0.005, 0.002))
    assert holes.at(np.array([0.1]), 0.05)[0] == pytest.approx([0.01, 0.005, 0.1, 0, 0, 0])
    assert holes.at(np.array([0.1]), 0.15)[0] == pytest.approx([0.01, 0.005, -0.1, -0.03, 0, 0])
    assert holes.at(np.array([0.25]), 0.25)[0] == pytest.approx([0.0, 0.002, 0, 0, 0, 0])


# ---------------------------------------------------------------------------------------------- models, accuracy, data


def rucker(tendon: PolarPath, tension: float, force: float, **options) -> CosseratSolution:
    rod = rod_of(tendon)
    points = at_tip(rod, (-force, 0.0, 0.0)) if force else ()
    return solve(rod, [tension], (*points, WEIGHT), **options)


def test_the_point_moment_model_holds_in_plane_and_fails_out_of_it():
    top = PolarPath((0.008,), (0.0,))
    in_plane = [rucker(top, 2.94, 0.196, model=model).tip_m for model in ("coupled", "point_moment")]
    assert np.linalg.norm(in_plane[0] - in_plane[1]) < 1e-4 * LENGTH
    out_of_plane = [rucker(STRAIGHT, 6.38, 0.196, model=model).tip_m for model in ("coupled", "point_moment")]
    assert 0.15 * LENGTH < np.linalg.norm(out_of_plane[0] - out_of_plane[1]) < 0.3 * LENGTH


@pytest.mark.parametrize("case", [(HELIX, 4.91, 0.196), (STRAIGHT, 6.38, 0.196), (POLYNOMIAL, 4.91, 0.196)])
def test_grids_agree_and_the_error_is_estimated(case):
    coarse = rucker(*case, intervals=6, accuracy_m=1e-5)
    fine = rucker(*case, intervals=64, accuracy_m=1e-12)
    assert fine.residual < 1e-10
    assert np.linalg.norm(coarse.tip_m - fine.tip_m) <= max(coarse.integration_error_m, 1e-9) < 1e-5
    default = rucker(*case)
    assert np.linalg.norm(default.tip_m - fine.tip_m) < 1e-9
    # Any arc length, not nodes alone.
    places = np.linspace(0, LENGTH, 17)
    assert default.at(places).position_m == pytest.approx(fine.at(places).position_m, abs=1e-9)


def test_a_warm_start_arrives_at_the_same_shape():
    near = rucker(HELIX, 4.91, 0.1)
    warm = rucker(HELIX, 4.91, 0.196, start=near)
    assert warm.tip_m == pytest.approx(rucker(HELIX, 4.91, 0.196).tip_m, abs=1e-9)
    assert warm.newton_iterations < 12


def test_reference_data_is_met():
    data = json.loads(reference_file("cosserat", "two_segment.json").read_text())
    for case in data["cases"]:
        robot = data["robots"][case["robot"]]
        ends = np.cumsum(robot["L"])
        material = {"youngs_modulus_pa": robot["E"], "poisson_ratio": robot["nu"], "radius_m": robot["backbone_radius"]}
        rod = CosseratRod(
            sections=tuple(round_section(length, **material) for length in robot["L"]),
            tendons=tuple(
                CosseratTendon(path=PolarPath((radius,), (math.radians(angle),)), end_m=float(end))
                for radius, end in zip(robot["pitch_radius"], ends, strict=True)
                for angle in (90, -30, 210)
            ),
        )
        loads = at_tip(rod, case["tip_force_base_frame_N"], case["tip_moment_base_frame_Nm"])
        solution = solve(rod, case["tension_N"], loads)
        assert solution.tip_m == pytest.approx(case["tip_m"], abs=2e-9)
        assert solution.tip_rotation == pytest.approx(np.array(case["R_tip"]), abs=2e-8)
        if "tip_m_without_junction_load" in case:
            bare = solve(rod, case["tension_N"], loads, junction_load=False)
            assert bare.tip_m == pytest.approx(case["tip_m_without_junction_load"], abs=2e-9)


# ---------------------------------------------------------------------------------------------- the energy engine

ROUTINGS = {
    "straight": StraightRouting(),
    "helical": HelicalRouting(turns=-0.7),
    "polynomial": PolynomialRouting(angle_coefficients=(6.0, -30.0), radius_coefficients=(-0.02, 0.05)),
    "holes": HolesRouting(arc_lengths_m=(0.02, 0.06, 0.11), angles_rad=(0.0, 0.5, -0.4), radii_m=(0.008, 0.007, 0.008)),
    "one_hole": HolesRouting(arc_lengths_m=(0.05,), angles_rad=(0.3,)),
}


@pytest.mark.parametrize("name", ROUTINGS)
def test_a_path_keeps_its_course(name):
    routed = RoutedPath(name=name, start_m=0.04, end_m=0.2, pitch_radius_m=0.008, angle_rad=1.1, routing=ROUTINGS[name])
    path = tendon_path(routed)
    bounds = [routed.start_m, *routed.kinks_m, routed.end_m]
    assert [kink for kink in path.kinks_m if routed.start_m < kink < routed.end_m] == pytest.approx(routed.kinks_m)
    for low, high in pairwise(bounds):
        s = np.linspace(low, high, 9)[1:-1]
        assert path.at(s, (low + high) / 2)[:, :4] == pytest.approx(np.array(routed.at(s)).T, abs=1e-12)


def test_both_engines_agree_on_a_rod_with_everything():
    """Two bent sections, four routings, a weight off the backbone, loads in both frames, moments."""
    area, second = math.pi * 0.6e-3**2, math.pi / 4 * 0.6e-3**4
    basis = Basis(kind="chebyshev", bending_order=9, torsion_order=9, shear_order=9, extension_order=9)
    thick = RodSegment(
        length_m=0.12,
        basis=basis,
        stiffness=tuple(60e9 * k for k in (second, 1.2 * second, 0.8 * second, 0.4 * area, 0.4 * area, area)),
        linear_density_kg_per_m=0.02,
        rest_strain=(1.0, -0.5, 0.3, 0.0, 0.0, 1.0),
    )
    thin = RodSegment(length_m=0.1, basis=basis, stiffness=tuple(0.5 * k for k in thick.stiffness))
    ends = {"straight": 0.12, "helical": 0.22, "polynomial": 0.22, "one_hole": 0.22}
    paths = [
        RoutedPath(
            name=name,
            start_m=0.0,
            end_m=end_m,
            pitch_radius_m=0.008,
            angle_rad=1.7 * k,
            # Every kink of a tendon is one of the strain, which polynomials meet at the ends of segments alone.
            routing=HolesRouting(arc_lengths_m=(0.12, 0.22), angles_rad=(0.0, 0.6))
            if name == "one_hole"
            else ROUTINGS[name],
        )
        for k, (name, end_m) in enumerate(ends.items())
    ]
    hung = LumpedMass(s_m=0.12, mass_kg=0.02, center_of_mass_m=(0.01, 0.0, 0.005))
    described = RodDescription(
        segments=(thick, thin),
        tendon_paths=tuple(paths),
        masses=(hung, LumpedMass(s_m=0, mass_kg=1)),
        gravity_m_per_s2=(-9.81, 0.0, 0.0),
    )
    loads = [
        PointWrench(s_m=0.22, force_n=(0.1, 0.2, -0.1), moment_nm=(1e-3, 0.0, 2e-3), offset_m=(0.0, 0.01, 0.0)),
        PointWrench(s_m=0.22, force_n=(0.0, 0.1, 0.1), frame="body", offset_m=(0.0, 0.01, 0.0)),
        DistributedLoad(force_n_per_m=(0.5, 0.0, 0.0), start_m=0.12, frame="body"),
        DistributedLoad(force_n_per_m=lambda s: (0.0, 3 * s, 0.0), moment_n=(0.0, 0.0, 2e-3), end_m=0.12),
    ]
    tension = np.array([2.5, 1.5, 1.0, 2.0])
    rod = Rod(described, loads=loads)
    energy = rod.equilibrium(tension)
    solution = solve(cosserat_rod(described), tension, loads)
    places = np.linspace(0.0, 0.22, 12)
    poses, there = rod.poses(energy.c, places), solution.at(places)
    assert np.linalg.norm(there.position_m[-1] - [0, 0, 0.22]) > 0.03
    assert poses[:, :3, 3] == pytest.approx(there.position_m, abs=1e-4 * 0.22 * 0.1)
    assert poses[:, :3, :3] == pytest.approx(there.rotation, abs=1e-4)
    assert energy.length_m == pytest.approx(solution.tendon_lengths_m, abs=1e-6)


def test_a_rod_with_weight_sags_without_being_asked():
    rod, tension = cosserat_rod(RodDescription.of_robot(load_robot("rucker"))), np.zeros(6)
    assert rod.weight
    sagging = solve(rod, tension, []).tip_m
    np.testing.assert_allclose(sagging, solve(rod.weightless(), tension, rod.weight).tip_m, atol=1e-9)
    assert np.linalg.norm(sagging - solve(rod.weightless(), tension).tip_m) > 0.01


# ---------------------------------------------------------------------------------------------- faults


def test_a_tendon_on_the_axis_does_not_buckle_the_rod_it_runs_in():
    axis = PolarPath((0.0,))
    euler_n = math.pi**2 * BENDING / (4 * LENGTH**2)
    inside = solve(rod_of(axis), [5 * euler_n])
    assert inside.stable
    assert inside.tip_m == pytest.approx([0, 0, LENGTH * (1 - 5 * euler_n / STEEL.shear_extension_n[2])], abs=1e-12)
    rod = rod_of()
    assert solve(rod, loads=at_tip(rod, (0, 0, -5 * euler_n))).stable is False


def test_a_radius_may_pass_through_zero():
    crossing = PolarPath((0.008, -0.016 / LENGTH), (-math.pi / 2,))
    solution = solve(rod_of(crossing), [3.0])
    assert solution.stable
    middle = solution.at([0.0, LENGTH / 2, LENGTH])
    assert middle.total_moment_nm == pytest.approx(np.zeros((3, 3)), abs=1e-11)
    assert middle.curvature_per_m[1] == pytest.approx(np.zeros(3), abs=1e-3)  # bends one way, then the other
    assert middle.curvature_per_m[0, 0] * middle.curvature_per_m[2, 0] < 0


def test_bad_input_is_named():
    rod = rod_of(STRAIGHT, HELIX)
    for tension in ([-1.0, 0.0], [math.nan, 0.0], [math.inf, 1.0], [1.0]):
        with pytest.raises(ParameterError, match="tension_n"):
            solve(rod, tension)
    with pytest.raises(ParameterError, match="model"):
        solve(rod, [0, 0], model="exact")
    for options in ({"intervals": 0}, {"accuracy_m": 0.0}, {"accuracy_m": math.nan}):
        with pytest.raises(ParameterError, match="intervals, accuracy_m"):
            solve(rod, [0, 0], **options)
    for place in (0.0, -0.1, 0.3):
        with pytest.raises(ParameterError, match="s_m of a point load"):
            solve(rod, [0, 0], [PointWrench(s_m=place)])
    with pytest.raises(ParameterError, match="arc lengths of loads"):
        solve(rod, [0, 0], [DistributedLoad(end_m=1.0)])
    with pytest.raises(ParameterError, match="end_m"):
        CosseratRod(sections=(STEEL,), tendons=(CosseratTendon(path=STRAIGHT, end_m=0.5),))
    with pytest.raises(ParameterError, match="begin_m"):
        CosseratTendon(path=STRAIGHT, begin_m=0.1, end_m=0.1)
    with pytest.raises(ParameterError, match="s_m"):
        solve(rod, [0, 0]).at([LENGTH + 0.01])
    with pytest.raises(ParameterError, match="bending_torsion_nm2"):
        Section(length_m=1, shear_extension_n=(1, 1, 1), bending_torsion_nm2=(1, 0, 1))


def test_a_path_or_load_that_is_not_finite_is_refused():
    with pytest.raises(ParameterError, match="radius_m"):
        PolarPath((math.nan,))
    load = DistributedLoad(force_n_per_m=lambda _: (math.nan, 0.0, 0.0))
    with pytest.raises(ParameterError, match="distributed load"):
        solve(rod_of(), loads=[load])


def test_a_rod_compressed_to_nothing_is_refused():
    section = Section(length_m=0.1, shear_extension_n=(10.0, 10.0, 10.0), bending_torsion_nm2=(1.0, 1.0, 1.0))
    rod = rod_of(section=section)
    with pytest.raises(ParameterError, match="compress"):
        solve(rod, loads=at_tip(rod, (0, 0, -11.0)))


def test_no_convergence_comes_with_its_data():
    with pytest.raises(ConvergenceError, match="integration") as caught:
        rucker(HELIX, 4.0, 0.0, accuracy_m=1e-30)
    assert caught.value.residual > 1e-30
    near = rucker(HELIX, 1.0, 0.0)
    with pytest.raises(ConvergenceError, match="boundary-value") as caught:
        rucker(POLYNOMIAL, 4000.0, 100.0, start=near)
    assert caught.value.iterations > 0
    with pytest.raises(ParameterError, match="start"):
        solve(two_sections(), TENSIONS, start=near)
