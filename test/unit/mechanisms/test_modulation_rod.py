# SPDX-License-Identifier: Apache-2.0
"""Modulation backbones at different depths by the rod engine."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import jacobians
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import LinearMomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import make_segment, modulation_of
from continuum_robot.robot.loading import load_robot
from validation.wang_rod_model import ModulatedRod

SEGMENT = make_segment(modulation_of(load_robot("crem_segment")))
DEPTHS = np.array([0.01, 0.03, 0.02])


def test_without_insertion_the_tip_is_nominal():
    for delta in (0.0, 0.7, -2.0):
        tip = jacobians(SEGMENT, 0.6, delta, 0.0, LinearMomentError()).pose[:3, 3]
        rod = ModulatedRod(SEGMENT, 0.6, delta)
        np.testing.assert_allclose(rod.tip(np.zeros(3)), tip, atol=1e-12)
        np.testing.assert_allclose(rod.tip_held(np.zeros(3)), tip, atol=1e-9)


def test_curvatures_minimise_an_energy_of_each_wire():
    """Piece by piece, the energy written out for each wire, without the rod engine and not linear in the curvature."""
    rod = ModulatedRod(SEGMENT, 0.6, 0.4)
    wire, whole = SEGMENT.modulation_stiffness_nm2, SEGMENT.bending_stiffness_nm2
    angles = 2 * np.pi / 3 * np.arange(3)
    x, y = 0.003 * np.cos(angles), 0.003 * np.sin(angles)
    moment = whole * rod.nominal
    phi, theta, lengths = [], [], []
    start = 0.0
    for end in (*np.sort(DEPTHS), SEGMENT.length_m):
        inserted = end <= DEPTHS

        def energy(k, inserted=inserted):
            fractions = 1 + y * k[0] - x * k[1]
            return whole / 2 * (k @ k) + wire / 2 * np.sum((k @ k) / fractions * inserted) - moment @ k

        k = minimize(energy, rod.nominal, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-16}).x
        phi.append(np.arctan2(-k[0], k[1]))
        theta.append(np.linalg.norm(k) * (end - start))
        lengths.append(end - start)
        start = end
    # The arcs bend in the body frame of their starts, which turn with the parts before, without torsion.
    tip = backbone_poses(phi, theta, lengths, [SEGMENT.length_m])[0, :3, 3]
    np.testing.assert_allclose(rod.tip(DEPTHS), tip, atol=1e-7)


def test_mirrored_depths_mirror_the_tip_and_turned_ones_turn_it():
    rod = ModulatedRod(SEGMENT, 0.6)
    mirrored = rod.tip(DEPTHS[[0, 2, 1]])
    np.testing.assert_allclose(mirrored, rod.tip(DEPTHS) * [1, -1, 1], atol=1e-12)
    turned = ModulatedRod(SEGMENT, 0.6, -2 * np.pi / 3).tip(DEPTHS[[2, 0, 1]])
    c, s = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
    np.testing.assert_allclose(turned, np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ rod.tip(DEPTHS), atol=1e-10)


def test_locked_backbones_keep_the_angle_of_the_end():
    """Lengths of parallel backbones depend on the end's angle alone: inserted to the end, the tip is back."""
    rod = ModulatedRod(SEGMENT, 0.6, 0.4)
    full = np.full(3, SEGMENT.length_m)
    np.testing.assert_allclose(rod.tip_held(full), rod.tip_held(np.zeros(3)), atol=1e-9)
    half = rod.tip_held(full / 2)
    assert np.linalg.norm(half - rod.tip_held(np.zeros(3))) > 5e-5


def test_impossible_depths_and_bends_are_refused():
    rod = ModulatedRod(SEGMENT, 0.6)
    for wrong in ([0.0, 0.0], [0.0, 0.05, 0.0], [np.nan, 0, 0]):
        with pytest.raises(ParameterError, match="depths_m"):
            rod.tip(wrong)
    with pytest.raises(ParameterError, match="theta_rad"):
        ModulatedRod(replace(SEGMENT, pitch_radius_m=0.002), np.pi / 2)
