# SPDX-License-Identifier: Apache-2.0
"""Estimators that are told a payload while they run estimate as those that are made with it."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod

PAYLOAD_KG = 0.002
STEP_S = 0.01


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_two_segment", "mixed_routing"])
def test_a_contact_monitor_expects_another_payload(name):
    robot = load_robot(name).changed(gravity_m_per_s2=(9.81, 0.0, 0.0))
    heavy = robot.carrying(PAYLOAD_KG)
    tension = np.full(robot.tendon_count, 5.0)
    c, still, noise = Rod(heavy).equilibrium(tension).c, np.zeros(robot.coefficient_count), 1e-6
    told, made, before = ContactMonitor(robot), ContactMonitor(heavy), ContactMonitor(robot)
    for k in range(60):
        if k == 20:
            told.tare()
            told.set_payload(PAYLOAD_KG)
            made.reset()
        residuals = [
            one.update(c, still, noise * np.eye(c.size), STEP_S, tension=tension).residual
            for one in (told, made, before)
        ]
    if told.modes is None:
        np.testing.assert_allclose(residuals[0], residuals[1], atol=1e-12)
    assert np.abs(residuals[0]).max() < 0.01 * np.abs(residuals[2]).max()
    assert told.robot.payload_kg == PAYLOAD_KG
    assert not told.tare_residual.any()
    with pytest.raises(ParameterError, match="payload_kg"):
        told.set_payload(-1.0)
    assert told.robot.payload_kg == PAYLOAD_KG


def test_a_shape_estimator_by_statics_carries_it():
    robot = load_robot("mixed_routing").changed(gravity_m_per_s2=(9.81, 0.0, 0.0))
    heavy = robot.carrying(PAYLOAD_KG)
    rod = Rod(heavy, paths=[*robot.tendon_paths, *(string.path for string in robot.strings)])
    tension = np.append(np.full(robot.tendon_count, 4.0), np.zeros(len(robot.strings)))
    c = rod.equilibrium(tension).c
    drawn = rod.displacement(c)
    stretch_m = tension[: robot.tendon_count] / robot.tendon_stiffness_n_per_m
    told, made, before = ShapeEstimator(robot), ShapeEstimator(heavy), ShapeEstimator(robot)
    told.set_payload(PAYLOAD_KG)
    tips = []
    for one in (told, made, before):
        for _ in range(5):
            found = one.update(
                drawn[: robot.tendon_count] + stretch_m,
                np.zeros(robot.tendon_count),
                drawn[robot.tendon_count :],
                STEP_S,
                tension[: robot.tendon_count],
            )
        tips.append(np.linalg.norm(found.tip[:3, 3] - rod.moved(c)[0][:3, 3]))
    assert tips[0] == pytest.approx(tips[1], abs=1e-6)
    assert tips[0] < 0.1 * tips[2]
