# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rolling import chain, five_links, slopes

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.ha.mechanism import capstan_weights, equilibrium_with_friction
from continuum_robot.mechanisms.rolling_joint.displacement import solve_displacement
from continuum_robot.mechanisms.rolling_joint.statics import Load, RollingStatics
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve

PULL = [Load(5, (0.8, 0.1))]


def test_the_jacobian_of_the_lengths_is_their_slope():
    statics = five_links()
    at = statics.solve_tension([6, 3], PULL)

    def lengths(tension):
        return statics.solve_tension(tension, PULL, start_m=at.contact_m).tendon_length_m

    np.testing.assert_allclose(statics.length_jacobian(at, PULL), slopes(lengths, at.tension_n, 1e-5).T, rtol=1e-4)


@settings(max_examples=8)
@given(st.floats(-0.8, 0.8))
def test_lengths_of_a_pose_lead_back_to_it(power):
    statics = five_links()
    pose = statics.solve_tension([10.0**power, 1.0])
    result = solve_displacement(statics, pose.tendon_length_m)
    assert result.converged
    assert result.residual_m < 1e-9
    np.testing.assert_allclose(result.equilibrium.poses, pose.poses, atol=2e-8)


def test_the_papers_gradient_steps_come_to_the_same_lengths():
    """Ha (36), (37), with a step that halves where it goes too far and grows where it does not."""
    statics, desired = five_links(), np.array([0.088, 0.104])
    now, alpha = statics.solve_tension([1.5, 1.0]), 1e4
    for _ in range(300):
        error = now.tendon_length_m - desired
        gradient = statics.length_jacobian(now).T @ error  # (36)
        ahead = statics.solve_tension(np.maximum(now.tension_n - alpha * gradient, 1e-3), start_m=now.contact_m)  # (37)
        closer = np.linalg.norm(ahead.tendon_length_m - desired) < np.linalg.norm(error)
        now, alpha = (ahead, 1.5 * alpha) if closer else (now, alpha / 2)
    np.testing.assert_allclose(solve_displacement(statics, desired).equilibrium.poses, now.poses, atol=1e-6)


def test_under_a_load_the_tensions_themselves_are_found():
    statics = five_links()
    pose = statics.solve_tension([6, 3], PULL)
    result = solve_displacement(statics, pose.tendon_length_m, PULL)
    np.testing.assert_allclose(result.equilibrium.tension_n, [6, 3], rtol=1e-4)
    assert result.iterations < 30


def test_lengths_out_of_reach_give_the_closest_pose_and_their_distance():
    """Both tendons cannot be pulled in: no other ratio of tensions comes closer."""
    statics = five_links()
    desired = np.array([0.085, 0.095])
    result = solve_displacement(statics, desired)
    assert result.converged
    assert result.residual_m > 1e-3
    assert np.all(result.equilibrium.tension_n >= 0)
    others = [statics.solve_tension([10.0**power, 1.0]).tendon_length_m for power in np.linspace(-1.5, 1.5, 61)]
    assert result.residual_m <= min(np.linalg.norm(other - desired) for other in others) + 1e-9


@pytest.mark.parametrize(("desired", "slack"), [([0.083, 0.13], 1), ([0.13, 0.09], 0)])
def test_a_tendon_that_is_in_the_way_is_let_go_altogether(desired, slack):
    """The lengths ask for more bend than one tendon alone makes: the other has no tension, exactly, and none is < 0."""
    statics = five_links()
    result = solve_displacement(statics, desired)
    assert result.converged
    assert result.equilibrium.tension_n[slack] == 0.0
    assert result.equilibrium.tension_n[1 - slack] > 0
    fractions = [statics.solve_tension([1.0, fraction][:: 1 if slack else -1]) for fraction in (1e-1, 1e-2, 1e-4)]
    others = [np.linalg.norm(other.tendon_length_m - desired) for other in fractions]
    assert result.residual_m < min(others)


@pytest.mark.parametrize("desired", [[0.09], [0.09, np.nan], [-0.09, 0.1]])
def test_impossible_lengths_are_refused(desired):
    with pytest.raises(ParameterError, match="desired_m"):
        solve_displacement(five_links(), desired)


# --- friction


def test_without_friction_nothing_changes():
    statics = five_links()
    still = statics.solve_tension([3, 1])
    for coefficient, direction in ((0.0, [1, -1]), (0.3, [0, 0])):
        found = equilibrium_with_friction(statics, [3, 1], coefficient, direction)
        np.testing.assert_allclose(found.poses, still.poses, atol=1e-12)


def test_friction_bends_less_when_pulling_and_holds_more_when_letting_go():
    statics = five_links()
    angle = statics.solve_tension([3, 1]).poses[-1, 2]
    pulled = equilibrium_with_friction(statics, [3, 1], 0.1, [1, -1])
    released = equilibrium_with_friction(statics, [3, 1], 0.1, [-1, 1])
    assert pulled.poses[-1, 2] < angle < released.poses[-1, 2]
    tension = np.array([[3.0, 1.0], *pulled.gap_tension_n])
    assert np.all(np.diff(tension[:, 0]) < 0)
    assert np.all(np.diff(tension[:, 1]) > 0)


def test_the_capstan_law_at_the_first_hole():
    """The left tendon turns there from the channel into the gap by an angle that is found here from the points."""
    statics = five_links()
    linkage = statics.linkage
    contact = statics.solve_tension([2, 1]).contact_m
    channel = linkage.links[0].child_entries_m[0] - linkage.links[0].parent_entries_m[0]
    gap = linkage.joints(contact).gaps_m[0, 0]
    gap = np.array([gap.real, gap.imag])
    turned = np.arccos(channel @ gap / np.linalg.norm(channel) / np.linalg.norm(gap))
    weights = capstan_weights(linkage, contact, 0.2, [1, 1])
    assert weights[0, 0] == pytest.approx(np.exp(-0.2 * turned))
    assert np.all(np.diff(weights, axis=1) <= 0)
    np.testing.assert_allclose(capstan_weights(linkage, contact, 0.2, [-1, -1]), 1 / weights)


@pytest.mark.parametrize(("coefficient", "direction"), [(-0.1, [1, 1]), (0.1, [2, 1]), (np.nan, [1, 1]), (0.1, [1])])
def test_impossible_friction_is_refused(coefficient, direction):
    with pytest.raises(ParameterError):
        capstan_weights(five_links().linkage, np.zeros(4), coefficient, direction)


# --- the curve of unloaded poses


def test_the_curve_gives_pose_and_force_back():
    statics = five_links()
    curve = UnloadedCurve(statics)
    for tension in ([3.0, 1.0], [1.0, 1.7], [1.0, 1.0]):
        found = statics.solve_tension(tension)
        displacement = curve.home_length_m - found.tendon_length_m
        contact, _, miss = curve.nearest(displacement)
        np.testing.assert_allclose(contact, found.contact_m, atol=2e-6)
        assert miss < 1e-6
        force = curve.force((displacement[0] - displacement[1]) / 2, 1.0)
        assert force == pytest.approx(tension[0] - tension[1] if tension[1] == 1.0 else 1.0 - tension[1], abs=2e-3)


def test_surfaces_that_end_before_the_curve_does_are_named():
    short = RollingStatics(chain(3, half=0.005))
    assert UnloadedCurve(short, 1.2).contact_m.shape == (301, 2)
    with pytest.raises(NoEquilibriumError, match=r"joint 1 rolls to the end of its surface, s = -?5 mm"):
        UnloadedCurve(short)
