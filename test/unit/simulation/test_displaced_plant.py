# SPDX-License-Identifier: Apache-2.0
"""A tension-driven robot whose file states what a fit finds: yielding backbone, straight runs, tendons that rub."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.rod.displaced_statics import DisplacedStatics
from continuum_robot.rod.holding_force import STICKING_OVER_TENDON, clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.moving_rod import MovingRod, Springs
from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.plant import Plant

COMMAND = np.array([3.0, 1.0, 1.0, 1.5, 1.0, 2.0, 1.0, 1.2, 1.0, 1.0])


def fitted(*, friction: float = 0.0, straight_over_m: float = 0.01, compliance_per_n: float = 1e-4) -> Robot:
    """Two segments, much damped so that they come to rest soon."""
    robot = load_robot("two_segment")
    segments = tuple(
        replace(
            one,
            basis=one.basis.extended,
            backbone=replace(one.backbone, axial_stiffness_n=1 / compliance_per_n),
            bending_damping_nms=5 * one.bending_damping_nms,
        )
        for one in robot.segments
    )
    count = robot.tendon_count
    tendons = DisplacedTendons(
        stiffness_n_per_m=tuple(1.5e4 + 1e3 * k for k in range(count)),
        zero_m=(0.0,) * count,
        gain=(1.0,) * count,
        friction_fraction=(friction,) * count,
        straight_over_m=straight_over_m,
    )
    return robot.changed(segments=segments, displaced_tendons=tendons)


def rest(plant: Plant, seconds: float, command: np.ndarray) -> Plant:
    for _ in range(round(seconds / 2e-3)):
        plant.advance(command, 2e-3)
    return plant


@pytest.mark.parametrize("actuation", ["ideal", "motors"])
def test_the_plant_at_rest_is_the_statics_of_its_file(actuation: str):
    robot = fitted()
    command = COMMAND[: robot.tendon_count]
    plant = rest(Plant(robot, actuation=actuation), 6.0, command)
    state = Rod(robot).equilibrium(plant.tension)
    assert np.abs(plant.c_rate).max() < 1e-4
    assert plant.c * Rod(robot).scale == pytest.approx(state.c * Rod(robot).scale, abs=1e-6)
    assert plant.c[Rod(robot).arrays.rows == 5].max() < -1e-4
    if actuation == "motors":
        stretch = plant.tension / np.array(robot.displaced_tendons.stiffness_n_per_m)
        taut = plant.tension > 0
        assert taut.sum() > 5
        assert (plant.displacement - state.displacement)[taut] == pytest.approx(stretch[taut], abs=2e-8)


def test_tendons_of_the_plant_rub_as_those_of_the_statics():
    """Spools that are moved slowly there and back, against the statics with the memory of friction."""
    robot = fitted(friction=0.15)
    stiffness = np.full(robot.tendon_count, 2e4)
    robot = robot.changed(displaced_tendons=replace(robot.displaced_tendons, stiffness_n_per_m=tuple(stiffness)))
    rod = Rod(robot)
    rubbing = np.array([robot.displaced_tendons.friction_fraction, STICKING_OVER_TENDON * stiffness])
    bend = controlled_manifold(robot).displacement(np.array([1.5e-3, 0.5e-3, 0.0, 1e-3]))
    apart = []
    for part in (1, 4):
        way = np.concatenate([np.linspace(0, 1, 10 * part + 1), np.linspace(1, 0.2, 8 * part + 1)[1:]])
        readings = 3e-4 + np.outer(way, bend)
        shown, free = (DisplacedStatics(robot, friction=rubs).replay(readings).c for rubs in (True, False))
        moving = MovingRod(rod, springs=Springs(2e4), rubbing=rubbing)
        moving.reset(shown[0], spooled_m=readings[0])
        moving.step(0.5, 50)
        found = []
        for before, after in zip([readings[0], *readings[:-1]], readings, strict=True):
            for fraction in np.linspace(1 / 60, 1, 60):
                moving.spooled_m[:] = before + fraction * (after - before)
                moving.step(4e-3)
            found.append(moving.c.copy())
        turns = [(rod.scale * one)[:, rod.arrays.rows < 2] for one in (found - shown, free - shown)]
        # On the first step back friction sticks: what a long and many short steps make of that differs.
        apart.append([np.abs(np.delete(one, 10 * part + 1, axis=0)).max() for one in turns])
    # Of the statics the friction's limit is that of the step before, so they agree as the steps become short.
    (coarse, _), (fine, rubbed) = apart
    assert fine < 0.5 * coarse
    assert fine < 0.05 * rubbed


def test_the_feedforward_holds_the_plant_at_the_reference():
    """Tensions by the feed-forward alone, on tendons that pull a bent rod on where they run straight between disks."""
    robot = fitted(straight_over_m=0.02)
    manifold = controlled_manifold(robot)
    goal = np.array([2e-3, 1e-3, -1e-3, 1e-3])
    missed = []
    for believed in (robot.changed(displaced_tendons=None), robot):
        elastic, gravity = clarke_feedforward(believed)(goal)
        tension = robot.control.pretension_n + np.linalg.pinv(manifold.displacement_matrix.T) @ (elastic + gravity)
        assert tension.min() > 0
        state = Rod(robot).equilibrium(tension)
        missed.append(np.linalg.norm(manifold.clarke(state.displacement) - goal) / np.linalg.norm(goal))
    assert missed[1] < 0.1 * missed[0]
    assert missed[1] < 0.01
    plant = rest(Plant(robot, actuation="ideal"), 8.0, tension)
    assert plant.c * Rod(robot).scale == pytest.approx(state.c * Rod(robot).scale, abs=1e-6)


def test_the_tip_of_a_straight_robot_is_where_the_pretension_presses_it():
    robot = fitted(compliance_per_n=1e-3).changed(gravity_m_per_s2=(0.0, 0.0, 0.0))
    tension = np.full(robot.tendon_count, robot.control.pretension_n)
    tip = Rod(robot).moved(Rod(robot).equilibrium(tension).c)[0]
    assert TipKinematics(robot).pose(np.zeros(4)) == pytest.approx(tip, abs=1e-9)
    assert robot.length_m - tip[2, 3] > 1e-4


def test_mujoco_and_the_contact_monitor_say_what_they_do_not_know():
    with pytest.raises(ParameterError, match=r"displaced_tendons.*none in MuJoCo"):
        Chain(fitted())
    with pytest.raises(ParameterError, match=r"friction_fraction.*take friction of tendons in the robot for contact"):
        ContactMonitor(fitted(friction=0.1))


def test_the_contact_monitor_sees_the_plant_of_the_same_file_without_contact():
    """Straight runs and a yielding backbone that it did not know would be a contact of the size of their force."""
    robot = fitted()
    command = COMMAND[: robot.tendon_count]
    plant = rest(Plant(robot, actuation="ideal"), 6.0, command)
    residuals = []
    for believed in (robot, robot.changed(displaced_tendons=None)):
        monitor = ContactMonitor(believed)
        for _ in range(400):
            found = monitor.update(plant.c, 0 * plant.c, 1e-10 * np.eye(plant.c.size), 0.01, tension=command)
        residuals.append(float(np.linalg.norm(found.residual)))
    assert residuals[0] < 1e-3 * residuals[1]
