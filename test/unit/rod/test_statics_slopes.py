# SPDX-License-Identifier: Apache-2.0
"""What small changes of any number do to an equilibrium, and tensions for a target of the tip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from strain_rods import crooked_rod

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Stops

LOADS = (PointWrench(s_m=0.35, force_n=(0.1, -0.2, 0.05), offset_m=(0.0, 0.01, 0.0)),)
STIFFNESS = np.array([800.0, 500.0, 0.0, 900.0])
SPOOLED = np.array([1e-2, 2e-2, np.nan, -0.05])
TENSION = np.array([0.1, 0.1, 0.6, 0.0])
STOPS = Stops(np.full(4, 2e4), np.array([1e-3, 0.0, 2e-3, 0.0]), np.array([0.2, 0.3, 1e3, 0.0]))


def rest(rod, stops=None, **changed):
    given = {"tension": TENSION, "stiffness": STIFFNESS, "spooled": SPOOLED, **changed}
    return rod.equilibrium(stops=stops, **given)


@pytest.mark.parametrize("stops", [None, STOPS], ids=["free", "rubbing"])
@pytest.mark.parametrize("name", ["gravity", "body", "stiffness", "rest", "path_rest", "path"])
def test_slopes_along_any_number_are_differences(name, stops):
    rod = crooked_rod(loads=LOADS, nodes=14)
    change = np.random.default_rng(1).normal(size=getattr(rod.arrays, name).shape)
    if name == "body":
        change = change * np.array([*[1e-2] * 4, *[0.0] * 6, *[1e-3] * 3, *[0.1] * 3, *[0.0] * 9])
    elif name == "stiffness":
        change = 1e-5 * (change + change.T)
    elif name == "path":
        change = change * np.array([0.0, 1e-3, 1e-3, 1e-3, 1e-3, 1e-5])
    else:
        change = change * (1.0 if name == "gravity" else 1e-2)
    state, ends = rest(rod, stops), []
    for step in (1e-3, -1e-3):
        other = crooked_rod(loads=LOADS, nodes=14)
        getattr(other.arrays, name)[...] += step * change
        other.rest_m = other.lengths(np.zeros(other.n)).length_m
        ends.append(rest(other, stops, start=state.c).c)
    numeric = (ends[0] - ends[1]) / 2e-3
    np.testing.assert_allclose(state.along(**{name: change}), numeric, atol=2e-4 * np.abs(numeric).max())


def test_slopes_along_tendons_are_differences():
    rod = crooked_rod(nodes=14)
    state, step = rest(rod), 1e-4
    assert state.taut.tolist() == [True, True, False, False]
    for name, given in (("tension", TENSION), ("spooled", SPOOLED), ("tendon_stiffness", STIFFNESS)):
        scale = 1e-3 if name == "spooled" else 1e2 if name == "tendon_stiffness" else 1.0
        key = "stiffness" if name == "tendon_stiffness" else name
        for j in (0, 1):
            change = scale * np.eye(4)[j]
            ends = [rest(rod, **{key: given + sign * step * change}, start=state.c).c for sign in (1, -1)]
            numeric = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(state.along(**{name: change}), numeric, atol=1e-5 * np.abs(numeric).max())
    np.testing.assert_allclose(state.by_tension[:, 0], state.along(tension=np.eye(4)[0]))
    np.testing.assert_allclose(state.by_spooled[:, 1], state.along(spooled=np.eye(4)[1]))
    with pytest.raises(ParameterError, match="changes"):
        state.along(colour=np.ones(3))
    with pytest.raises(ParameterError, match="gravity"):
        state.along(gravity=np.ones(4))


def test_friction_of_the_paths_holds_up_to_its_limit():
    rod = crooked_rod()
    free, rubbing = rest(rod), rest(rod, STOPS)
    assert np.abs(rubbing.friction[[0, 1]]).max() <= 0.3 + 1e-9
    assert rubbing.friction[3] == 0.0
    # The third tendon sticks: its path moves a tenth of what it does freely, and less.
    more = 1.5 * TENSION
    freely = rest(rod, tension=more).displacement[2] - free.displacement[2]
    sticking = rest(rod, STOPS, tension=more).displacement[2] - rubbing.displacement[2]
    assert abs(sticking) < 0.1 * abs(freely)


@pytest.mark.parametrize("name", ["two_segment", "mixed_routing"])
def test_tensions_bring_the_tip_to_a_target(name):
    rod = Rod(load_robot(name))
    tension = np.random.default_rng(2).uniform(0.5, 3.0, rod.tendon_count)
    pose = rod.moved(rod.equilibrium(tension).c)[0]
    found = rod.inverse_kinematics(pose[:3, 3], least_n=0.1, most_n=20.0)
    np.testing.assert_allclose(rod.moved(found.c)[0][:3, 3], pose[:3, 3], atol=1e-6)
    assert (found.tension >= 0.1).all()
    posed = rod.inverse_kinematics(pose, start_n=0.9 * tension)
    np.testing.assert_allclose(rod.moved(posed.c)[0], pose, atol=1e-5)
    with pytest.raises(ConvergenceError, match="target"):
        rod.inverse_kinematics([0.0, 0.0, 2 * rod.length_m])
    with pytest.raises(ParameterError, match="target"):
        rod.inverse_kinematics([0.0, 0.0])
    with pytest.raises(ParameterError, match="start_n"):
        rod.inverse_kinematics(pose[:3, 3], start_n=30.0, most_n=20.0)


def test_gravity_and_loads_of_a_copy_are_its_own():
    rod = Rod(load_robot("rucker"))
    other = rod.with_gravity((0.0, 0.0, -9.81))
    other.arrays.body[-1, 13] = 1.0
    assert rod.arrays.body[-1, 13] == 0.0
    assert rod.arrays.gravity[0] == -9.81
    light = replace(rod.description, gravity_m_per_s2=(0.0, 0.0, -9.81))
    np.testing.assert_allclose(
        rod.with_gravity((0.0, 0.0, -9.81)).equilibrium(1.0).c, Rod(light).equilibrium(1.0).c, atol=1e-12
    )
