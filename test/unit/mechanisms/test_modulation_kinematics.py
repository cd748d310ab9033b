# SPDX-License-Identifier: Apache-2.0
"""Equilibrium modulation against wang's own matrices, other solvers, and limits that need no model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import root

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.arcs import arc_pose as arc
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import (
    arc_pose,
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
ERROR = LinearMomentError(2e-4, 0.025, -3e-5)
TABLE = TabledMomentError((0.0, 0.5, 1.2, 2.0), (1e-4, 2e-4, 1e-4, 0.0), (0.006, 0.025, 0.01, 0.02))

angles = st.floats(0.05, 3.0)
planes = st.floats(-7, 7)
depths = st.floats(0.0, 0.044)


def error_of(parameters):
    """lambda with complex parameters."""

    class Complex:
        def value(self, theta, insertion):
            return parameters[0] + parameters[1] * insertion + parameters[2] * theta

    return Complex()


def locked_angle(state, insertion):
    """theta_epsilon with the empty lengths L_i - L_s,i of the nominal theta: as appendix A reads (6)."""
    left = SEGMENT.length_m - insertion
    lengths = (
        left[..., None] + SEGMENT.offsets_m(state.delta_rad) * (state.theta_rad - state.theta_s_rad)[..., None]
    )  # (6)
    stiffness = TUBE + (np.array(SEGMENT.secondary_stiffness_nm2) * left[..., None] / lengths).sum(axis=-1)
    return np.pi / 2 + left * state.moment_nm / stiffness  # (12)


def phi_by_complex_step(values, locked=False):
    """Derivatives of theta_s and theta_epsilon by all six variables."""
    columns = []
    for index in range(6):
        stepped = np.array(values, dtype=complex)
        stepped[index] += 1j * STEP
        state = modulated_equilibrium(SEGMENT, *stepped[:3], error_of(stepped[3:]))
        empty = locked_angle(state, stepped[2:3])[0] if locked else state.theta_epsilon_rad
        columns.append(np.imag([state.theta_s_rad, empty]) / STEP)
    return np.array(columns).T


def printed_parts(x, delta, length):
    """Twists of a part's end by its theta and delta, (64) and appendix B, and its chord over its length, (24)."""
    c, s, sinc, half = np.cos(delta), np.sin(delta), np.sinc(x / np.pi), np.sinc(x / 2 / np.pi)
    chi_a, chi_c = half**2 / 2 - sinc, x / 2 * half**2  # (B.3), (B.4)
    # (B.4) prints the cosine twice; the first must be the sine: ((theta - theta_0) sin + cos) / (...)^2.
    chi_b = (x * np.cos(x) - np.sin(x)) / x**2 if abs(x) > 1e-2 else -x / 3 + x**3 / 30
    by_theta = [length * c * chi_a, -length * s * chi_a, length * chi_b, -s, -c, 0.0]
    # (B.2) prints cos delta sin theta for the first entry of the rotation; it is cos delta cos theta.
    by_delta = [length * s * chi_c, length * c * chi_c, 0.0, -c * np.sin(x), s * np.sin(x), np.cos(x) - 1]
    return np.array(by_theta), np.array(by_delta), np.array([-c * chi_c, s * chi_c, sinc])


def close(found, desired, tolerance=1e-8):
    """Within 1e-8 of each column's largest entry; entries of 1e-5 and less of an angle in rad count as rounding."""
    assert (np.abs(found - desired) <= tolerance * (np.abs(desired).max(axis=0) + 1e-5)).all(), (found, desired)


@given(angles, planes, depths)
def test_the_jacobians_are_those_of_the_printed_matrices(theta, delta, insertion):
    found = jacobians(SEGMENT, theta, delta, insertion, ERROR)
    phi = phi_by_complex_step([theta, delta, insertion, *ERROR.parameters])
    left = SEGMENT.length_m - insertion
    first = arc_pose(found.state.theta_s_rad, delta, insertion)
    second = arc_pose(found.state.theta_epsilon_rad, delta, left)
    np.testing.assert_allclose(found.pose, first @ second, atol=1e-15)  # (26), (27)
    rotation = first[:3, :3]

    def at_end(twist):
        return np.concatenate([twist[:3] - np.cross(rotation @ second[:3, 3], twist[3:]), twist[3:]])

    def in_base(twist):
        return np.concatenate([rotation @ twist[:3], rotation @ twist[3:]])

    theta_1, delta_1, chord_1 = printed_parts(found.state.theta_s_rad - np.pi / 2, delta, insertion)
    theta_2, delta_2, chord_2 = printed_parts(found.state.theta_epsilon_rad - np.pi / 2, delta, left)
    through = np.column_stack([at_end(theta_1), in_base(theta_2)]) @ phi  # (67)
    through[:, 1] += at_end(delta_1) + in_base(delta_2)  # (55), (70), (71)
    through[:3, 2] += chord_1 - rotation @ chord_2  # (34), (61)
    close(np.column_stack([found.macro_psi, found.micro, found.identification]), through)  # (62)


@given(angles, planes, st.floats(0.001, 0.043))
def test_the_appendix_as_printed_gives_the_same_derivatives(theta, delta, insertion):
    """(37) to (41) with A, B, S_0, C_0, S_1; the partial derivatives of A and B by complex steps."""
    straight = np.pi / 2

    def matrices(theta, delta, insertion, theta_s):
        stiffness = np.array(SEGMENT.secondary_stiffness_nm2)
        offsets = SEGMENT.pitch_radius_m * np.cos(delta + 2 * np.pi / 3 * np.arange(3))
        length = SEGMENT.length_m
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

    state = modulated_equilibrium(SEGMENT, theta, delta, insertion, ERROR)
    theta_s, theta_epsilon = state.theta_s_rad, locked_angle(state, np.array([insertion]))[0]
    phi = phi_by_complex_step([theta, delta, insertion, *ERROR.parameters], locked=True)
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
    for index, tolerance in enumerate((1e-8, 1e-7, 1e-8)):
        close(phi[:, index], inverse @ gamma(index), tolerance)  # (37) to (39)
    for index, by in enumerate((1.0, insertion, theta)):
        close(phi[:, 3 + index], inverse @ [-by, 0])  # (40)


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


@given(angles, planes, st.floats(0, 0.0443))
def test_a_wire_without_stiffness_changes_nothing(theta, delta, insertion):
    idle = replace(SEGMENT, modulation_stiffness_nm2=0.0)
    pose = end_pose(modulated_equilibrium(idle, theta, delta, insertion, LinearMomentError()), idle)
    # One arc of the project's own kind: wang's delta is -phi, its bend pi / 2 - theta.
    np.testing.assert_allclose(pose, arc(-delta, np.pi / 2 - theta, 0.0443, 0.0443), atol=1e-14)


@pytest.mark.parametrize("insertion", [0.0, 1e-9, 0.02, 0.0442])
def test_the_straight_configuration_is_a_limit(insertion):
    segment, ideal = SEGMENT, LinearMomentError()
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


@given(angles.filter(lambda theta: abs(theta - np.pi / 2) > 1e-3), planes, depths)
def test_macro_jacobian_is_the_pseudo_inverse_that_is_printed(theta, delta, insertion):
    found = jacobians(SEGMENT, theta, delta, insertion, ERROR)
    sigma = SEGMENT.backbone_angles_rad(delta)
    lengths_by = SEGMENT.pitch_radius_m * np.stack(
        [np.cos(sigma), (np.pi / 2 - theta) * np.sin(sigma)], axis=-1
    )  # (57)
    printed = found.macro_psi @ np.linalg.pinv(lengths_by)  # (60)
    np.testing.assert_allclose(macro_jacobian(SEGMENT, found), printed, rtol=1e-8, atol=1e-8 * np.abs(printed).max())


@given(st.floats(0.05, np.pi / 2 - 1e-6), st.floats(-3, 3))
def test_displacements_and_configuration_are_inverse(theta, delta):
    pulled = SEGMENT.backbone_displacement_m(theta, delta)
    back = SEGMENT.configuration(pulled)
    np.testing.assert_allclose(back[0], theta, atol=1e-12)
    np.testing.assert_allclose(np.exp(1j * back[1]), np.exp(1j * delta), atol=1e-9)


def test_both_ends_of_the_stroke_are_limits():
    low = jacobians(SEGMENT, 0.6, 0.3, [0.0, 1e-9], ERROR)
    np.testing.assert_allclose(low.pose[0], low.pose[1], atol=1e-9)
    np.testing.assert_allclose(low.micro[0], low.micro[1], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(low.state.theta_end_rad[0], 0.6, atol=1e-15)
    high = jacobians(SEGMENT, 0.6, 0.3, [SEGMENT.length_m, SEGMENT.length_m - 1e-9], ERROR)
    np.testing.assert_allclose(high.micro[0], high.micro[1], rtol=1e-5, atol=1e-8)


def test_both_readings_of_the_empty_lengths_differ_by_less_than_a_tenth_of_a_micrometre():
    depth = np.linspace(0, 0.04, 30)
    state = modulated_equilibrium(SEGMENT, 0.6, 0.3, depth, ERROR)
    inserted, left = arc_pose(state.theta_s_rad, 0.3, depth), SEGMENT.length_m - depth
    locked = inserted @ arc_pose(locked_angle(state, depth), 0.3, left)
    assert np.abs(locked[:, :3, 3] - end_pose(state, SEGMENT)[:, :3, 3]).max() < 1e-7


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


@given(st.floats(0.05, 1.99), planes, depths)
def test_a_table_over_theta_has_continuous_jacobians(theta, delta, insertion):
    columns = []
    for step in np.eye(3) * [1e-6, 1e-6, 1e-7]:
        ends = [np.array([theta, delta, np.clip(insertion, 1e-6, 0.0439)]) + sign * step for sign in (1, -1)]
        ahead, behind = (end_pose(modulated_equilibrium(SEGMENT, *at, TABLE), SEGMENT)[:3, 3] for at in ends)
        columns.append((ahead - behind) / (2 * step.sum()))
    found = jacobians(SEGMENT, theta, delta, np.clip(insertion, 1e-6, 0.0439), TABLE)
    jacobian = np.column_stack([found.macro_psi, found.micro])[:3]
    np.testing.assert_allclose(jacobian, np.array(columns).T, atol=3e-7)


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
