# SPDX-License-Identifier: Apache-2.0
"""Equilibrium modulation against complex steps, wang's own matrices, and limits that need no model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import root

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.arcs import arc_pose as arc
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import (
    arc_pose,
    backbone_jacobian,
    backbone_poses,
    end_pose,
    jacobians,
    macro_jacobian,
)
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError, TabledMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment, round_stiffness_nm2

STEP = 1e-30
E = 41e9
TUBE, WIRE = round_stiffness_nm2(E, 0.9e-3, 0.38e-3), round_stiffness_nm2(E, 0.38e-3)
SEGMENT = ModulatedSegment(
    length_m=0.0443,
    pitch_radius_m=0.003,
    central_stiffness_nm2=TUBE,
    secondary_stiffness_nm2=(TUBE, 0.9 * TUBE, 1.2 * TUBE),
    modulation_stiffness_nm2=WIRE,
)
LOCKED = replace(SEGMENT, empty_lengths="locked")
ERROR = LinearMomentError(2e-4, 0.025, -3e-5)
TABLE = TabledMomentError((0.0, 0.5, 1.2, 2.0), (1e-4, 2e-4, 1e-4, 0.0), (0.006, 0.025, 0.01, 0.02))
ARGUMENTS = ("theta", "delta", "insertion", "k0", "kq", "kt")

angles = st.floats(0.05, 3.0)
planes = st.floats(-7, 7)
depths = st.floats(0.0, 0.044)
forms = st.sampled_from([SEGMENT, LOCKED])


def error_of(parameters):
    """lambda with complex parameters."""

    class Complex:
        def value(self, theta, insertion):
            return parameters[0] + parameters[1] * insertion + parameters[2] * theta

        def by_theta(self, theta, insertion):
            return parameters[2]

        def by_insertion(self, theta, insertion):
            return parameters[1]

    return Complex()


def twist(pose, step_pose):
    """Complex-step derivative of a pose as a twist (linear, angular) in the base frame."""
    slope = np.imag(step_pose) / STEP
    spin = slope[:3, :3] @ np.real(pose[:3, :3]).T
    return np.array([*slope[:3, 3], spin[2, 1], spin[0, 2], spin[1, 0]])


def by_complex_step(segment, values):
    """Derivatives of phi and of the pose by all six variables."""
    phi, xi = [], []
    for index in range(6):
        stepped = np.array(values, dtype=complex)
        stepped[index] += 1j * STEP
        state = modulated_equilibrium(segment, *stepped[:3], error_of(stepped[3:]))
        phi.append(np.imag([state.theta_s_rad, state.theta_epsilon_rad]) / STEP)
        pose = end_pose(state, segment)
        xi.append(twist(pose, pose))
    return np.array(phi).T, np.array(xi).T


def close(found, desired, tolerance=1e-8):
    """Within 1e-8 of each column's largest entry; entries of 1e-5 and less of an angle in rad count as rounding."""
    assert (np.abs(found - desired) <= tolerance * (np.abs(desired).max(axis=0) + 1e-5)).all(), (found, desired)


@settings(deadline=None, max_examples=60)
@given(forms, angles, planes, depths)
def test_all_jacobians_are_those_of_complex_steps(segment, theta, delta, insertion):
    found = jacobians(segment, theta, delta, insertion, ERROR)
    phi, xi = by_complex_step(segment, [theta, delta, insertion, *ERROR.parameters])
    close(np.column_stack([found.phi_theta, found.phi_delta, found.phi_insertion, found.phi_k]), phi)
    close(np.column_stack([found.macro_psi, found.micro, found.identification]), xi)


@settings(deadline=None, max_examples=40)
@given(forms, angles, planes, depths)
def test_the_parts_of_the_jacobians_are_those_of_complex_steps(segment, theta, delta, insertion):
    """J_xi_phi, J_xi_delta and J_xi_qs at fixed phi, of the poses (26) and (27)."""
    found = jacobians(segment, theta, delta, insertion, ERROR)
    phi = [float(found.state.theta_s_rad), float(found.state.theta_epsilon_rad)]
    columns = []
    for index in range(4):
        stepped = np.array([*phi, delta, insertion], dtype=complex)
        stepped[index] += 1j * STEP
        pose = arc_pose(stepped[0], stepped[2], stepped[3]) @ arc_pose(
            stepped[1], stepped[2], segment.length_m - stepped[3]
        )
        columns.append(twist(pose, pose))
    close(np.column_stack([found.xi_phi, found.xi_delta, found.xi_insertion]), np.array(columns).T)


@settings(deadline=None, max_examples=40)
@given(angles, planes, st.floats(0.001, 0.043))
def test_the_appendix_as_printed_gives_the_same_derivatives(theta, delta, insertion):
    """(37) to (41) with A, B, S_0, C_0, S_1; the partial derivatives of A and B by complex steps."""
    straight = np.pi / 2

    def matrices(theta, delta, insertion, theta_s):
        stiffness = np.array(LOCKED.secondary_stiffness_nm2)
        offsets = LOCKED.pitch_radius_m * np.cos(delta + 2 * np.pi / 3 * np.arange(3))
        length = LOCKED.length_m
        whole = length + offsets * (theta - straight)  # (4)
        inserted = insertion + offsets * (theta_s - straight)  # (5)
        k0 = TUBE / length + (stiffness / whole).sum()
        k1 = TUBE / (length - insertion) + (stiffness / (whole - inserted)).sum()
        k2 = TUBE / insertion + (stiffness / inserted).sum()
        ks = WIRE / insertion
        error = error_of(ERROR.parameters).value(theta, insertion)
        A = np.array([[k1 + k2 + ks, -k1], [k1, -k1]])
        B = np.array([(k2 + ks) * straight - error, k0 * (straight - theta)])
        return A, B

    found = jacobians(LOCKED, theta, delta, insertion, ERROR)
    theta_s, theta_epsilon = found.state.theta_s_rad, found.state.theta_epsilon_rad
    values = np.array([theta, delta, insertion, theta_s])
    A, B = matrices(*values)
    S0, C0, S1 = np.array([[1.0, 0], [1, 1]]), np.array([0, straight]), np.array([[1.0, 0]])
    C = S0 @ [theta_s, theta_epsilon] - C0  # (41): theta_s and theta'
    np.testing.assert_allclose(A @ C, B, rtol=1e-9)  # (A.1) holds: the equations are solved as printed

    def gamma(index):
        stepped = values.astype(complex)
        stepped[index] += 1j * STEP
        dA, dB = matrices(*stepped)
        return np.imag(dB) / STEP - np.imag(dA) / STEP @ C

    inverse = np.linalg.inv(A @ S0 - np.outer(gamma(3), S1))
    close(found.phi_theta, inverse @ gamma(0))
    close(found.phi_delta, inverse @ gamma(1), 1e-7)
    close(found.phi_insertion, inverse @ gamma(2))
    for index, by in enumerate((1.0, insertion, theta)):
        close(found.phi_k[:, index], inverse @ [-by, 0])


@settings(deadline=None, max_examples=30)
@given(angles, planes, st.floats(0.001, 0.0435))
def test_moments_balance_as_a_root_of_the_printed_equations(theta, delta, insertion):
    """scipy's root of (7) and (17) with the lengths (4) to (6), in theta_s and theta'."""
    state = modulated_equilibrium(SEGMENT, theta, delta, insertion, ERROR)
    stiffness = np.array(SEGMENT.secondary_stiffness_nm2)
    offsets = SEGMENT.offsets_m(delta)
    straight, length = np.pi / 2, SEGMENT.length_m

    def excess(angles):
        theta_s, theta_end = angles
        whole = length + offsets * (theta - straight)
        inserted = insertion + offsets * (theta_s - straight)
        empty = length - insertion + offsets * (theta_end - theta_s)
        m1 = (TUBE / length + (stiffness / whole).sum()) * (theta - straight)
        m1_empty = (TUBE / (length - insertion) + (stiffness / empty).sum()) * (theta_end - theta_s)
        m2 = -(TUBE / insertion + (stiffness / inserted).sum()) * (theta_s - straight)
        ms = -WIRE / insertion * (theta_s - straight)
        error = ERROR.value(theta, insertion)
        return np.array([m1 - m1_empty, m1_empty + m2 + ms - error])

    found = np.array([state.theta_s_rad, state.theta_end_rad])
    np.testing.assert_allclose(excess(found), 0, atol=1e-12)
    linear = straight + (theta - straight) * np.array([insertion / length, 1.0])
    solved = root(excess, linear, tol=1e-14)
    np.testing.assert_allclose(found, solved.x, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(angles, planes, st.floats(0, 0.0443))
def test_a_wire_without_stiffness_changes_nothing(theta, delta, insertion):
    idle = replace(SEGMENT, modulation_stiffness_nm2=0.0)
    pose = end_pose(modulated_equilibrium(idle, theta, delta, insertion, LinearMomentError()), idle)
    # One arc of the project's own kind: wang's delta is -phi, its bend pi / 2 - theta.
    np.testing.assert_allclose(pose, arc(-delta, np.pi / 2 - theta, 0.0443, 0.0443), atol=1e-14)


@pytest.mark.parametrize("segment", [SEGMENT, LOCKED])
@pytest.mark.parametrize("insertion", [0.0, 1e-9, 0.02, 0.0442])
def test_the_straight_configuration_is_a_limit(segment, insertion):
    ideal = LinearMomentError()
    at = jacobians(segment, np.pi / 2, 0.4, insertion, ideal)
    macro = macro_jacobian(segment, at)
    assert np.isfinite(macro).all()
    np.testing.assert_allclose(at.pose[:3, 3], [0, 0, segment.length_m], atol=1e-15)
    for bend in (1e-5, 1e-8, -1e-8, 1e-12):
        near = jacobians(segment, np.pi / 2 - bend, 0.4, insertion, ideal)
        np.testing.assert_allclose(macro_jacobian(segment, near), macro, atol=1e3 * abs(bend) + 1e-9)
    # Neither does the limit depend on the plane from which it is taken.
    other = jacobians(segment, np.pi / 2, -2.0, insertion, ideal)
    np.testing.assert_allclose(macro_jacobian(segment, other), macro, atol=1e-11)


def test_a_straight_segment_with_a_moment_error_has_no_macro_jacobian():
    with pytest.raises(ParameterError, match="lambda is not 0"):
        macro_jacobian(SEGMENT, jacobians(SEGMENT, np.pi / 2, 0.0, 0.01, LinearMomentError(1e-4)))
    # A moment error that vanishes with the bend leaves it.
    vanishing = LinearMomentError(1e-4 * np.pi / 2, 0.0, -1e-4)
    assert np.isfinite(macro_jacobian(SEGMENT, jacobians(SEGMENT, np.pi / 2, 0.0, 0.01, vanishing))).all()


@settings(deadline=None, max_examples=30)
@given(angles.filter(lambda theta: abs(theta - np.pi / 2) > 1e-3), planes, depths)
def test_macro_jacobian_is_the_pseudo_inverse_that_is_printed(theta, delta, insertion):
    found = jacobians(SEGMENT, theta, delta, insertion, ERROR)
    printed = found.macro_psi @ np.linalg.pinv(backbone_jacobian(SEGMENT, theta, delta))
    np.testing.assert_allclose(macro_jacobian(SEGMENT, found), printed, rtol=1e-8, atol=1e-8 * np.abs(printed).max())


@settings(deadline=None, max_examples=30)
@given(st.floats(0.05, np.pi / 2 - 1e-6), st.floats(-3, 3))
def test_displacements_and_configuration_are_inverse(theta, delta):
    pulled = SEGMENT.backbone_displacement_m(theta, delta)
    back = SEGMENT.configuration(pulled)
    np.testing.assert_allclose(back[0], theta, atol=1e-12)
    np.testing.assert_allclose(np.exp(1j * back[1]), np.exp(1j * delta), atol=1e-9)
    lengths_by = backbone_jacobian(SEGMENT, theta, delta)
    stepped = SEGMENT.backbone_displacement_m(theta + 1j * STEP, delta + 0j).imag / STEP
    np.testing.assert_allclose(lengths_by[:, 0], -stepped, atol=1e-15)


@pytest.mark.parametrize("segment", [SEGMENT, LOCKED])
def test_both_ends_of_the_stroke_are_limits(segment):
    low = jacobians(segment, 0.6, 0.3, [0.0, 1e-9], ERROR)
    np.testing.assert_allclose(low.pose[0], low.pose[1], atol=1e-9)
    np.testing.assert_allclose(low.micro[0], low.micro[1], rtol=1e-5)
    np.testing.assert_allclose(low.state.theta_end_rad[0], 0.6, atol=1e-15)
    if segment is SEGMENT:
        high = jacobians(segment, 0.6, 0.3, [segment.length_m, segment.length_m - 1e-9], ERROR)
        np.testing.assert_allclose(high.micro[0], high.micro[1], rtol=1e-5, atol=1e-8)
    else:
        with pytest.raises(ParameterError, match="insertion_m"):
            jacobians(segment, 0.6, 0.3, segment.length_m, ERROR)


def test_both_forms_of_the_empty_lengths_differ_by_less_than_a_tenth_of_a_micrometre():
    depth = np.linspace(0, 0.04, 30)
    positions = [jacobians(one, 0.6, 0.3, depth, ERROR).pose[:, :3, 3] for one in (SEGMENT, LOCKED)]
    assert np.abs(positions[0] - positions[1]).max() < 1e-7


def test_backbone_poses_run_from_base_to_end():
    state = modulated_equilibrium(SEGMENT, 0.6, 0.3, 0.02, ERROR)
    poses = backbone_poses(state, SEGMENT, [0.0, 0.02, SEGMENT.length_m])
    np.testing.assert_allclose(poses[0], np.eye(4), atol=1e-15)
    np.testing.assert_allclose(poses[2], end_pose(state, SEGMENT), atol=1e-15)
    np.testing.assert_allclose(poses[1], arc_pose(state.theta_s_rad, 0.3, 0.02), atol=1e-15)
    with pytest.raises(ParameterError, match="s_m"):
        backbone_poses(state, SEGMENT, 0.05)


def test_arrays_give_what_single_values_give():
    theta, depth = np.array([0.4, 1.0, 2.0]), np.linspace(0, 0.0443, 4)[:, None]
    together = jacobians(SEGMENT, theta, 0.3, depth, TABLE)
    for row, column in np.ndindex(4, 3):
        alone = jacobians(SEGMENT, theta[column], 0.3, depth[row, 0], TABLE)
        np.testing.assert_allclose(together.micro[row, column], alone.micro, atol=1e-15)
        np.testing.assert_allclose(together.identification[row, column], alone.identification, rtol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.05, 1.99), planes, depths)
def test_a_table_over_theta_has_continuous_jacobians(theta, delta, insertion):
    found = jacobians(SEGMENT, theta, delta, insertion, TABLE)
    columns = []
    for step in (np.array([1j * STEP, 0, 0]), np.array([0, 1j * STEP, 0]), np.array([0, 0, 1j * STEP])):
        pose = end_pose(modulated_equilibrium(SEGMENT, *(np.array([theta, delta, insertion]) + step), TABLE), SEGMENT)
        columns.append(twist(pose, pose))
    close(np.column_stack([found.macro_psi, found.micro]), np.array(columns).T)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"insertion": -1e-9}, "insertion_m"),
        ({"insertion": 0.0444}, "insertion_m"),
        ({"insertion": np.nan}, "insertion_m"),
        ({"theta": np.nan}, "theta_rad"),
        ({"theta": -15.0}, "theta_rad"),
        ({"delta": np.inf}, "delta_rad"),
    ],
)
def test_impossible_configurations_are_refused_by_name(change, name):
    with pytest.raises(ParameterError) as caught:
        jacobians(SEGMENT, change.get("theta", 0.5), change.get("delta", 0.0), change.get("insertion", 0.01), ERROR)
    assert caught.value.name == name


def test_impossible_segments_and_tables_are_refused():
    for change in (
        {"length_m": 0.0},
        {"pitch_radius_m": np.nan},
        {"secondary_stiffness_nm2": (1.0, 1.0)},
        {"secondary_stiffness_nm2": (1.0, -1.0, 1.0)},
        {"modulation_stiffness_nm2": -1.0},
        {"empty_lengths": "free"},
    ):
        with pytest.raises(ParameterError, match=next(iter(change))):
            replace(SEGMENT, **change)
    with pytest.raises(ParameterError, match="theta_rad"):
        TabledMomentError((0.5, 0.5), (0, 0), (0, 0))
    with pytest.raises(ParameterError, match="k_lambda"):
        TabledMomentError((0.4, 0.5), (0, np.nan), (0, 0))
    with pytest.raises(ParameterError, match="table of lambda"):
        modulated_equilibrium(SEGMENT, 2.1, 0.0, 0.01, TABLE)
    with pytest.raises(ParameterError, match="k_lambda"):
        LinearMomentError(np.nan)
    with pytest.raises(ParameterError, match="displacement_m"):
        SEGMENT.configuration([0.0, 0.0])
