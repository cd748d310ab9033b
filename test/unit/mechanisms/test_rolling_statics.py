# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_data import reference_file
from rolling import chain, five_links, potential, slopes
from scipy.optimize import root

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.experiments.ha import paper_newton
from continuum_robot.mechanisms.rolling_joint.statics import (
    Balance,
    Case,
    Load,
    RollingStatics,
    joint_moments,
    link_loads,
)
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError, OffSurfaceError

ratios = st.floats(-1.0, 1.0).map(lambda power: 10.0**power)
LOADS = (
    Load(5, (0.7, 0.2), 0.001, (0.003, 0.004)),
    Load(3, (-0.1, 0.3), 0.0, (0.001, -0.002)),
    Load(3, (0.2, 0.1), 0.0005, (0.0, 0.003)),
)
BODY_LOADS = (*LOADS, Load(4, (0.2, -0.3), 0.002, (0.002, 0.001), "body"))


def test_reference_equilibria():
    statics = five_links()
    for case in json.loads(reference_file("ha", "five_link.json").read_text())["cases"]:
        found = statics.solve_tension([case["tau_l"], case["tau_r"]])
        expected = np.array(case["link_pose_x_y_theta"])
        np.testing.assert_allclose(found.poses[:, :2] * 1e3, expected[:, :2], atol=0.05)
        np.testing.assert_allclose(found.poses[:, 2], expected[:, 2], atol=5e-4)
        np.testing.assert_allclose(found.contact_m * 1e3, case["s_contact"], atol=1e-3)
        np.testing.assert_allclose(found.contact_force_n, case["f_contact_xy"], atol=1e-3)
        np.testing.assert_allclose(found.tendon_length_m * 1e3, case["tendon_len_l_r"], atol=0.01)
        assert found.stable
        assert found.lifted_joints == ()
        assert found.residual < 1e-12


@given(ratios, st.floats(0.01, 1000.0))
def test_the_unloaded_pose_depends_on_the_ratio_of_the_tensions_alone(ratio, factor):
    statics = five_links()
    once = statics.solve_tension([ratio, 1.0])
    scaled = statics.solve_tension([factor * ratio, factor])
    np.testing.assert_allclose(scaled.poses, once.poses, atol=1e-10)
    np.testing.assert_allclose(scaled.contact_force_n, factor * once.contact_force_n, rtol=1e-9, atol=1e-9 * factor)


def balanced(statics, contact, tension, loads):
    return Balance(statics.linkage, contact, Case(np.array(tension)[:, None], link_loads(loads, 5)))


def dense_step(at):
    """Newton step of (s, f) from all 6 (n - 1) equations of ha (20) at once, shape (n - 1, 3)."""
    count = len(at.h)
    # Unknowns: the twists of links 2 ... n, then (s, f) of joints 1 ... n - 1.
    matrix, right = np.zeros((2, count, 3, 2, count, 3)), np.zeros((2, count, 3))
    for k in range(count):
        matrix[0, k, :, 0, k], matrix[0, k, :, 1, k] = np.eye(3), at.b[k]
        matrix[1, k, :, 0, k], matrix[1, k, :, 1, k] = at.c[k], at.e[k]
        if k > 0:
            matrix[0, k, :, 0, k - 1] = at.a[k]
        if k + 1 < count:
            matrix[1, k, :, 1, k + 1] = at.d[k]
    right[1] = -at.h
    return np.linalg.solve(matrix.reshape(6 * count, -1), right.ravel()).reshape(2, count, 3)[1]


@pytest.mark.parametrize("loads", [(), LOADS, BODY_LOADS], ids=["none", "world", "body"])
def test_the_step_is_that_of_the_paper_and_of_the_dense_equations(loads):
    statics = five_links()
    generator = np.random.default_rng(5)
    for _ in range(5):
        contact, tension = generator.uniform(-8e-3, 8e-3, 4), generator.uniform(1.0, 5.0, 2)
        balance = balanced(statics, contact, tension, loads)
        at = paper_newton.blocks(statics.linkage, contact, balance.contact_force_n, tension, link_loads(loads, 5))
        np.testing.assert_allclose(at.h[:, 0], balance.moment_nm, atol=1e-14)
        np.testing.assert_allclose(at.h[:, 1:], 0.0, atol=1e-12)
        dense, transfer = dense_step(at), paper_newton.transfer_step(at)
        np.testing.assert_allclose(transfer, dense, rtol=1e-9, atol=1e-13)
        step = balance.joints.rolled_m * balance.turned(balance.moment_nm)
        np.testing.assert_allclose(step, dense[:, 0], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("loads", [LOADS, BODY_LOADS], ids=["world", "body"])
def test_the_steps_are_those_of_the_moments_slopes(loads):
    """Newton step and response to the tensions, against differences of the moments about the contacts."""
    statics = five_links()
    contact, tension = np.array([2e-3, -3e-3, 1e-3, 4e-3]), np.array([3.0, 2.0])

    def moments(s):
        return balanced(statics, s, tension, loads).moment_nm

    balance = balanced(statics, contact, tension, loads)
    causes = np.column_stack([balance.moment_nm, np.eye(4)])
    steps = balance.joints.rolled_m[:, None] * balance.turned(causes)
    np.testing.assert_allclose(slopes(moments, contact, 1e-7).T @ steps, -causes, atol=1e-6)


def test_moments_are_the_slopes_of_the_potential():
    statics = five_links()
    tension, contact = np.array([4.0, 3.0]), np.array([2e-3, -3e-3, 1e-3, 4e-3])
    balance = balanced(statics, contact, tension, LOADS)
    force = slopes(lambda s: potential(statics.linkage, s, tension, LOADS), contact)
    np.testing.assert_allclose(-joint_moments(balance.moment_nm) / balance.joints.rolled_m, force, atol=1e-6)
    same = slopes(lambda s: balanced(statics, s, tension, LOADS).potential, contact)
    np.testing.assert_allclose(same, force, atol=1e-7)


@given(ratios, st.floats(-0.15, 0.15), st.floats(-0.15, 0.15))
def test_a_root_finder_of_another_kind_finds_the_same_pose(ratio, share_x, share_y):
    """Scipy's hybrid method on the slopes of the potential, which knows neither forces nor second derivatives."""
    statics = five_links()
    tension = np.array([ratio, 1.0])
    total = float(tension.sum())
    loads = (Load(5, (share_x * total, share_y * total), 0.0, (0.0, 0.005)),)
    try:
        found = statics.solve_tension(tension, loads)
    except NoEquilibriumError:
        return
    linkage = statics.linkage
    margin = np.minimum(found.contact_m - linkage.limits_m[:, 0], linkage.limits_m[:, 1] - found.contact_m)
    if margin.min() < 5e-4:
        return
    force = slopes(lambda s: potential(linkage, s, tension / total, loads_of(loads, total)), found.contact_m)
    np.testing.assert_allclose(force, 0.0, atol=1e-5)

    def residual(scaled):
        return balanced(statics, scaled * 1e-3, tension, loads).moment_nm / total * 1e2

    other = root(residual, found.contact_m * 1e3 + 0.05, tol=1e-12)
    np.testing.assert_allclose(other.x, found.contact_m * 1e3, atol=1e-6)


def loads_of(loads, total):
    return [Load(one.link, tuple(np.array(one.force_n) / total), one.moment_nm / total, one.point_m) for one in loads]


def test_a_load_in_the_world_and_the_same_load_in_the_body_frame_agree_at_the_pose():
    statics = five_links()
    world = statics.solve_tension([6, 3], [Load(5, (0.4, 0.1), 0.002, (0.001, 0.003))])
    angle = world.poses[-1, 2]
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    body = statics.solve_tension([6, 3], [Load(5, tuple(turn @ [0.4, 0.1]), 0.002, (0.001, 0.003), "body")])
    np.testing.assert_allclose(body.poses, world.poses, atol=1e-10)


def test_the_whole_mechanism_may_be_turned_with_its_load():
    statics = five_links()
    here = statics.solve_tension([6, 3], [Load(5, (0.5, 0.0))])
    turned = statics.solve_tension([6, 3], [Load(5, (0.0, 0.5))], base=(0.1, 0.2, np.pi / 2))
    np.testing.assert_allclose(turned.contact_m, here.contact_m, atol=1e-12)
    np.testing.assert_allclose(turned.poses[0], [0.1, 0.2, np.pi / 2])
    np.testing.assert_allclose(turned.poses[:, 0], 0.1 - here.poses[:, 1], atol=1e-12)


def test_where_two_tensions_balance_a_symmetric_mechanism_stands_straight():
    statics = RollingStatics(chain(6, -40.0, 40.0))
    found = statics.solve_tension([2.0, 2.0])
    np.testing.assert_allclose(found.poses[:, [0, 2]], 0.0, atol=1e-14)
    # Each contact carries both tendons, which run straight up beside it.
    np.testing.assert_allclose(found.contact_force_n, np.tile([0.0, 4.0], (5, 1)), atol=1e-12)
    left, right = statics.solve_tension([3.0, 1.0]), statics.solve_tension([1.0, 3.0])
    np.testing.assert_allclose(left.poses * [-1, 1, -1], right.poses, atol=1e-12)


def test_random_cases_are_solved_or_roll_to_the_end_of_a_surface():
    statics = five_links()
    generator = np.random.default_rng(7)
    outcomes = []
    for _ in range(25):
        tension = np.array([10.0 ** generator.uniform(-1, 1), 1.0])
        statics.solve_tension(tension)
        load = Load(5, (float(generator.uniform(-0.4, 0.4) * tension.sum()), 0.0))
        try:
            found = statics.solve_tension(tension, [load])
        except NoEquilibriumError as error:
            outcomes.append(("none", round(abs(error.arc_length_m), 9)))
            # An iteration from many places finds none either.
            for start in generator.uniform(-0.014, 0.014, (5, 4)):
                with pytest.raises(ConvergenceError):
                    statics.solve_tension(tension, [load], start_m=start, exhaustive=False)
        else:
            assert found.residual < 1e-12
            assert found.stable
            outcomes.append(("solved",))
    assert set(outcomes) == {("solved",), ("none", 0.015)}


def test_the_search_of_all_poses_finds_what_newton_finds():
    statics = five_links()
    for tension, pull in (((6, 3), 0.5), ((1, 3), -0.4), ((2, 2), 0.1)):
        loads = [Load(5, (pull, 0.0)), Load(3, (0.0, -0.2), frame="body")]
        every = statics.all_equilibria(tension, loads)
        found = statics.solve_tension(tension, loads)
        assert min(np.abs(one.contact_m - found.contact_m).max() for one in every) < 1e-9


def test_lift_off_and_slip_are_reported():
    statics = five_links()
    held = statics.solve_tension([2, 2])
    assert held.slipping_joints(0.5) == ()
    assert held.slipping_joints(0.01) != ()
    assert held.slipping_joints(1.001 * held.needed_friction) == ()
    assert len(held.slipping_joints(0.999 * held.needed_friction)) == 1
    # Symmetric links stand straight under any pull along them, but no contact can pull.
    straight = RollingStatics(chain(3, -40.0, 40.0))
    lifted = straight.solve_tension([1, 1], [Load(3, (0.0, 2.5))])
    assert lifted.lifted_joints == (1, 2)
    assert straight.solve_tension([1, 1], [Load(3, (0.0, -0.5))]).lifted_joints == ()
    assert lifted.slipping_joints(10.0) == lifted.lifted_joints
    assert np.isinf(lifted.needed_friction)


def test_the_published_solver_converges_to_the_same_poses():
    statics = five_links()
    contact, force, left = paper_newton.published_solver(statics.linkage, [3, 1], link_loads((), 5))
    found = statics.solve_tension([3, 1])
    assert left < 1e-10
    np.testing.assert_allclose(contact, found.contact_m, atol=1e-12)
    np.testing.assert_allclose(force, found.contact_force_n, atol=1e-10)


def test_a_single_joint_is_solved():
    """Two links: the moment about the contact vanishes, and with one tendon alone the contact lies at its hole."""
    statics = RollingStatics(chain(2))
    for load in ([], [Load(2, (0.1, 0.0), 0.0, (0.0, 0.005))], [Load(2, (0.1, 0.0), frame="body")]):
        found = statics.solve_tension([1.2, 1.0], load)
        assert found.residual < 1e-12
        assert found.stable
    alone = statics.solve_tension([1.0, 0.0])
    assert alone.contact_m == pytest.approx(-0.01)
    assert alone.stable


def test_long_chains_are_solved():
    statics = RollingStatics(chain(60))
    found = statics.solve_tension([1.05, 1.0], [Load(60, (0.0, -0.001))])
    assert found.residual < 1e-12
    assert found.poses.shape == (60, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.solve_tension([1.0]),
        lambda s: s.solve_tension([-1.0, 1.0]),
        lambda s: s.solve_tension([0.0, 0.0]),
        lambda s: s.solve_tension([np.nan, 1.0]),
        lambda s: s.solve_tension([1, 1], [Load(6)]),
        lambda s: s.solve_tension([1, 1], [Load(5, (np.inf, 0.0))]),
        lambda s: s.solve_tension([1, 1], [Load(5, frame="tip")]),
        lambda s: s.solve_tension([1, 1], base=(0.0, 0.0)),
        lambda s: s.solve_tension([1, 1], start_m=[0.0, 0.0]),
    ],
)
def test_inputs_that_cannot_be_used_are_refused(call):
    with pytest.raises(ParameterError):
        call(five_links())


def test_a_start_off_the_surface_is_refused():
    with pytest.raises(OffSurfaceError, match="joint 4"):
        five_links().solve_tension([1, 1], start_m=[0.0, 0.0, 0.0, -0.02])
