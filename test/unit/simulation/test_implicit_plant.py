# SPDX-License-Identifier: Apache-2.0
"""The plant of a general rod: as that of a rod that only bends, at rest as the statics say, faults, contacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import equilibrium
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.plant import Plant

CYCLE_S = 1e-3
FORMER = Basis(kind="constant_bending")
SAME = Basis(kind="chebyshev", bending_order=0)
COMMAND = np.array([3.0, 0.5, 0.5, 0.5])


def with_basis(basis: Basis, **others):
    robot = load_robot("opencr_five_tendon")
    return replace(robot, segments=(replace(robot.segments[0], basis=basis, **others),), hardware=None)


@pytest.fixture(scope="module")
def helical():
    """With more damping than its file states, so that it comes to rest soon."""
    robot = load_robot("rucker_helical")
    (segment,) = robot.segments
    basis = Basis(kind="chebyshev", bending_order=3, torsion_order=2, shear_order=0, extension_order=0)
    return replace(robot, segments=(replace(segment, basis=basis, bending_damping_nms=2e-3),))


def at_rest(plant: Plant, seconds: float, command=COMMAND) -> Plant:
    for _ in range(round(seconds / CYCLE_S)):
        plant.advance(command, CYCLE_S)
    return plant


def goes_the_same_way(former, general):
    """Within 0.5 % of the way that the tendons go."""
    phase = 2 * np.pi * np.arange(5) / 5
    rows = []
    for k in range(400):
        command = 3 + (2 * np.sin(4 * np.pi * k * CYCLE_S + phase) if k > 50 else 0 * phase)
        for plant in (former, general):
            plant.advance(command, CYCLE_S)
        rows.append([former.displacement, general.displacement, former.string_extension, general.string_extension])
    for first, second in ((0, 1), (2, 3)):
        expected, found = (np.array([row[column] for row in rows]) for column in (first, second))
        assert found == pytest.approx(expected, abs=5e-3 * np.ptp(expected))


@pytest.mark.parametrize("actuation", ["motors", "ideal"])
def test_the_same_trajectory_as_the_plant_of_a_bending_rod(actuation):
    """The other rod may twist, by a degree, as the bend goes round."""
    robots = with_basis(FORMER), with_basis(replace(SAME, torsion_order=0))
    former, general = (Plant(robot, actuation=actuation) for robot in robots)
    assert former.c.size < general.c.size
    goes_the_same_way(former, general)
    assert abs(general.c[2]) * 0.2 < 0.03


def test_helical_tendons_bring_it_to_the_static_equilibrium(helical):
    """With ideal tendons to the tensions that are commanded, with motors to those that friction leaves."""
    for actuation in ("ideal", "motors"):
        plant = at_rest(Plant(helical, actuation=actuation), 4.0)
        assert np.abs(plant.c_rate).max() < 1e-2
        if actuation == "ideal":
            assert plant.tension == pytest.approx(COMMAND)
        rod = Rod(helical)
        tip = rod.poses(equilibrium(rod, plant.tension, start=plant.c).c, [helical.length_m])[0]
        assert plant.pose(helical.length_m) == pytest.approx(tip, abs=2e-4)
        bent = np.linalg.norm(plant.pose(helical.length_m)[:2, 3])
        assert bent > 0.02


def test_a_push_moves_it_to_the_equilibrium_with_that_load(helical):
    plant = at_rest(Plant(helical, actuation="ideal"), 1.0)
    plant.push(0.2, [0.0, 0.1, 0.0])
    at_rest(plant, 4.0)
    rod = Rod(helical)
    pushed = rod.loaded([PointWrench(s_m=0.2, force_n=(0.0, 0.1, 0.0))])
    state = equilibrium(pushed, COMMAND, start=plant.c)
    assert plant.pose(0.242)[:3, 3] == pytest.approx(rod.poses(state.c, [0.242])[0, :3, 3], abs=2e-4)
    plant.release()
    assert at_rest(plant, 0.05).pose(0.242)[1, 3] < rod.poses(state.c, [0.242])[0, 1, 3]


def test_a_wall_holds_it_back(helical):
    free = at_rest(Plant(helical, actuation="ideal"), 3.0)
    tip = free.pose(0.242)[:3, 3]
    way = tip[:2] / np.linalg.norm(tip[:2])
    wall = Contact(
        name="wall", kind="wall", arc_length_m=0.242, point_m=(*(tip[:2] - 5e-3 * way), 0.0), normal=(*-way, 0.0)
    )
    held = at_rest(Plant(helical, actuation="ideal", contacts=[wall]), 1.5)
    (load,) = held.contact_loads
    assert load.touching
    depth_m = way @ (held.pose(0.242)[:2, 3] - tip[:2]) + 5e-3
    assert depth_m == pytest.approx(load.penetration_m, abs=1e-9)
    assert 0 < depth_m < 1e-4
    assert -way @ load.force_in_base_n[:2] == pytest.approx(5000 * depth_m, rel=1e-2)


def test_cut_tendons_and_stuck_motors(helical):
    plant = at_rest(Plant(helical), 0.2)
    plant.stiffness_fraction = np.array([0.0, 1.0, 1.0, 1.0])
    plant.motor_free = np.array([1.0, 0.0, 1.0, 1.0])
    stood = plant.displacement[1]
    at_rest(plant, 0.1, command=np.array([3.0, 8.0, 0.5, 0.5]))
    assert plant.tension[0] == 0
    assert plant.displacement[1] == stood
    assert plant.displacement[0] > 0.01  # nothing holds its spool
    assert plant.current == pytest.approx(np.array([3.0, 8.0, 0.5, 0.5]) / plant.motor.newton_per_ampere)
    plant.advance([100.0, 0, 0, 0], CYCLE_S)
    assert plant.limited.tolist() == [True, False, False, False]
    plant.reset()
    assert plant.time_s == 0
    assert (plant.displacement == plant.rod_displacement).all()


def test_the_result_does_not_hang_on_how_a_time_is_cut(helical):
    whole, parts = Plant(helical), Plant(helical)
    for _ in range(100):
        whole.advance(COMMAND, 2e-3)
        for fraction in (0.3e-3, 1.05e-3, 0.65e-3):
            parts.advance(COMMAND, fraction)
    assert parts.time_s == pytest.approx(whole.time_s)
    assert parts.displacement == pytest.approx(whole.displacement, abs=2e-4)


def test_capstans_move_a_rod_that_twists_as_one_that_hardly_does():
    """Their friction is that of a rod that only bends, as long as it hardly twists; without it the way is longer."""
    robot = load_robot("vanderbilt_segment")
    basis = Basis(kind="chebyshev", bending_order=2, torsion_order=0)
    twisting = replace(robot, segments=(replace(robot.segments[0], basis=basis),))
    plants = [Plant(one, actuation=actuation) for actuation in ("ideal", "motors") for one in (robot, twisting)]
    for plant in plants:
        for k in range(400):
            plant.advance(208.0 + 80.0 * np.sin(2 * np.pi * k * CYCLE_S) * np.array([1.0, 0.5, -1.0, -0.5]), CYCLE_S)
    for bending, general in (plants[:2], plants[2:]):
        size_m = np.abs(bending.displacement).max()
        assert general.displacement == pytest.approx(bending.displacement, abs=0.01 * size_m)
        assert general.friction_torque == pytest.approx(bending.friction_torque, rel=0.05, abs=2e-3)
        assert np.abs(general.friction_torque).max() > 0.01


def test_what_it_cannot_do_is_refused(helical):
    with pytest.raises(ParameterError, match="actuation"):
        Plant(helical, actuation="magic")
    plant = Plant(helical)
    with pytest.raises(ParameterError, match="command"):
        plant.advance([1.0], CYCLE_S)
