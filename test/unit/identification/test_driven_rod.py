# SPDX-License-Identifier: Apache-2.0
"""A rod under tendons that follow displacements: against another integrator, differences, and other equations."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError
from continuum_robot.experiments.drives.chirped_robot import UnlikeSettings, chirped_robot
from continuum_robot.identification.motion.driven_rod import DrivenRod
from continuum_robot.identification.motion.rod_parts import MASS, STIFFNESS, segment_parameters, with_factors
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.inertia import damping_matrix
from continuum_robot.rod.strain.dynamics import HeldTendons, StrainDynamics
from continuum_robot.rod.strain.motion import simulate
from continuum_robot.rod.strain.rod import StrainRod
from continuum_robot.rod.strain.statics import equilibrium
from continuum_robot.simulation.plants import ROD

ROBOT = load_robot("mixed_routing")
START_N = np.array([3.0, 2.5, 3.5, 3.0, 2.0, 2.5, 3.0, 2.0])
STIFFNESS_N_PER_M = 2e4
AT_REST = np.zeros((2, 5))


@pytest.fixture(scope="module")
def driven():
    return DrivenRod(ROBOT, 48.0)


def pulled(time_s):
    """Displacements (K, N) and their rates: some tendons pulled in and out."""
    amplitude_m = 1e-3 * np.array([1, -1, -1, 1, 0.5, 1, -0.5, -1])
    angle = 2 * np.pi * 2.0 * time_s[:, None]
    return amplitude_m * (1 - np.cos(angle)), amplitude_m * 4 * np.pi * np.sin(angle)


def run(driven, factors, spring=(STIFFNESS_N_PER_M, 20.0), start_n=START_N, swing=AT_REST, step_s=2e-3, count=150):
    time_s = step_s * (np.arange(count) + 0.5)
    return time_s, *driven.tensions(factors, spring, start_n, swing, *pulled(time_s), step_s)


def test_tensions_are_those_of_another_integrator_on_another_chain(driven):
    factors = np.array([1.3, 0.8, 0.9, 1.2, 1.5, 0.7])
    time_s, tension, _ = run(driven, factors, (STIFFNESS_N_PER_M, 0.0))
    changed = with_factors(ROBOT, factors)
    rod = StrainRod.from_robot(changed)
    c = equilibrium(rod, START_N).c
    before_m = START_N / STIFFNESS_N_PER_M + rod.tendon_displacement(c)
    stiff = np.full(8, STIFFNESS_N_PER_M)
    motion = simulate(
        StrainDynamics(rod, damping=damping_matrix(changed)),
        np.concatenate([[0.0], time_s]),
        c,
        pull=lambda t: HeldTendons(before_m + pulled(np.array([t]))[0][0], stiff),
        step_s=2e-3,
        compile="never",
    )
    stretched = before_m + pulled(time_s)[0] - [rod.tendon_displacement(c) for c in motion.c[1:]]
    expected = STIFFNESS_N_PER_M * stretched
    assert np.ptp(tension, axis=0).min() > 0.3
    assert np.sqrt(np.mean((tension - expected) ** 2)) < 0.02 * tension.std()


def test_slopes_are_those_of_differences(driven):
    factors = np.array([1.1, 0.9, 1.0, 1.1, 1.0, 0.9])
    _, _, slopes = run(driven, factors)

    def near(column, step):
        """A little further by one of the parameters."""
        changed, spring, start_n = factors.copy(), np.array([STIFFNESS_N_PER_M, 20.0]), START_N.copy()
        swing = AT_REST.copy()
        if column < 6:
            changed[column] += step
        elif column < 8:
            spring[column - 6] += step
        elif column < 16:
            start_n[column - 8] += step
        else:
            swing.flat[column - 16] += step
        return run(driven, changed, tuple(spring), start_n, swing)[1]

    assert slopes.shape[2] == 26
    for column in (*range(10), 16, 19, 21, 24):  # two constants, and a few of the swings, stand for the others
        step = 1e-3 if column < 6 else (20.0, 0.02)[column - 6] if column < 8 else 1e-2
        expected = (near(column, step) - near(column, -step)) / (2 * step)
        # The matrix of the steps leaves out how inertia changes with the shape.
        assert np.sqrt(np.mean((slopes[:, :, column] - expected) ** 2)) < 0.2 * np.sqrt(np.mean(expected**2))


def test_a_rod_that_nobody_pulls_stays_at_rest(driven):
    still = np.zeros((50, 8))
    tension, _ = driven.tensions(np.ones(6), (STIFFNESS_N_PER_M, 0.0), START_N, AT_REST, still, still, 4e-3)
    assert tension == pytest.approx(np.tile(START_N, (50, 1)), abs=1e-6)


def test_a_rod_that_is_torn_about_ends_with_a_clear_error(driven):
    torn = np.zeros((20, 8))
    torn[10:] = 0.5
    with pytest.raises(ConvergenceError, match="step of the rod's motion"):
        driven.tensions(np.ones(6), (STIFFNESS_N_PER_M, 0.0), START_N, AT_REST, torn, np.zeros((20, 8)), 4e-3)


@pytest.mark.long  # a minute and a half
def test_values_of_a_robot_with_routed_tendons_are_found():
    settings = UnlikeSettings(robot="mixed_routing", duration_s=10.0)
    case = chirped_robot(ROBOT, ROD, 2, settings, lambda _: None)
    assert np.abs(case.score).max() < 3.5
    names = case.fit.parameters.names
    for kind, percent in ((STIFFNESS, 2), (MASS, 15)):
        for place, (one, _) in enumerate(segment_parameters(ROBOT), case.fit.parameters.rod.start):
            if one == kind:
                assert case.fit.shown[place], names[place]
                assert abs(case.error[place]) < percent / 100, names[place]
    tendons = names.index("simulation.tendon_stiffness_n_per_m")
    assert abs(case.error[tendons]) < 0.01
