# SPDX-License-Identifier: Apache-2.0
"""A rod under tendons that follow displacements: against another integrator, differences, and other equations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.motion.equations import DrivenRod
from continuum_robot.identification.motion.parameters import in_file
from continuum_robot.identification.robot_keys import MASS, STIFFNESS, with_values
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.plants import ROD
from validation.drives.chirped_robot import UnlikeSettings, chirped_robot

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


def test_tensions_are_those_of_the_kernels_own_motion(driven):
    factors = np.array([1.3, 0.8, 0.9, 1.2, 1.5, 0.7])
    time_s, tension, _ = run(driven, factors, (STIFFNESS_N_PER_M, 0.0))
    parameters = in_file(ROBOT)
    values = factors * parameters.scale[parameters.at["rod"]]
    rod = Rod(with_values(ROBOT, dict(zip(parameters.keys[parameters.at["rod"]], values.tolist(), strict=True))))
    c, v = rod.equilibrium(START_N).c, np.zeros(rod.n)
    rest_m = rod.lengths(c).length_m - START_N / STIFFNESS_N_PER_M
    expected, none, finer = [], np.zeros((1, 4, 8)), 4
    ends_s = 2e-3 * np.arange(len(time_s) + 1)
    for begin, end in pairwise(ends_s):
        at = begin + (end - begin) * (np.arange(finer) + 0.5) / finer
        spooled = pulled(at)[0] + rod.rest_m - rest_m
        before = c
        c, v = (
            one[0]
            for one in rod.motions(
                c[None], v[None], none, 2e-3 / finer, stiffness=STIFFNESS_N_PER_M, spooled=spooled[None], threads=1
            )
        )
        middle = rod.lengths((before + c) / 2).length_m
        expected.append(STIFFNESS_N_PER_M * (middle - rest_m + pulled(np.array([(begin + end) / 2]))[0][0]))
    assert np.ptp(tension, axis=0).min() > 0.3
    assert np.sqrt(np.mean((tension - expected) ** 2)) < 0.02 * tension.std()


def test_slopes_are_those_of_differences(driven):
    factors = np.array([1.1, 0.9, 1.0, 1.1, 1.0, 0.9])
    _, _, slopes = run(driven, factors)

    step = np.repeat([1e-3, 20.0, 0.02, 1e-2], [6, 1, 1, 18])  # factors, spring, first tensions and swings

    def near(way):
        """A little further by all parameters at once."""
        swing = AT_REST + way[16:].reshape(AT_REST.shape)
        spring = np.array([STIFFNESS_N_PER_M, 20.0]) + way[6:8]
        return run(driven, factors + way[:6], tuple(spring), START_N + way[8:16], swing)[1]

    assert slopes.shape[2] == len(step)
    for part in (slice(6), slice(6, 8), slice(8, 16), slice(16, 26)):
        way = np.zeros(26)
        way[part] = (step * np.random.default_rng(7).uniform(-1, 1, 26))[part]
        expected = (near(way) - near(-way)) / 2
        assert np.sqrt(np.mean((slopes @ way - expected) ** 2)) < 1e-3 * np.sqrt(np.mean(expected**2))


def test_a_rod_that_nobody_pulls_stays_at_rest(driven):
    still = np.zeros((50, 8))
    tension, _ = driven.tensions(np.ones(6), (STIFFNESS_N_PER_M, 0.0), START_N, AT_REST, still, still, 4e-3)
    assert tension == pytest.approx(np.tile(START_N, (50, 1)), abs=1e-6)


def test_a_rod_that_is_torn_about_ends_with_a_clear_error(driven):
    torn = np.zeros((20, 8))
    torn[10:] = 0.5
    with pytest.raises(ConvergenceError, match="simulated motion"):
        driven.tensions(np.ones(6), (STIFFNESS_N_PER_M, 0.0), START_N, AT_REST, torn, np.zeros((20, 8)), 4e-3)


@pytest.mark.long  # a minute and a half
def test_values_of_a_robot_with_routed_tendons_are_found():
    settings = UnlikeSettings(robot="mixed_routing", duration_s=10.0)
    case = chirped_robot(ROBOT, ROD, 2, settings, lambda _: None)
    assert np.abs(case.score).max() < 3.5
    names = case.fit.names
    for kind, percent in ((STIFFNESS, 2), (MASS, 15)):
        for place, name in enumerate(names):
            if name.endswith(kind) and name.startswith("segments"):
                assert case.fit.shown[place], name
                assert abs(case.error[place]) < percent / 100, name
    tendons = names.index("tendon_stiffness_n_per_m")
    assert abs(case.error[tendons]) < 0.01
