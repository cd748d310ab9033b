# SPDX-License-Identifier: Apache-2.0
"""Plants whose dry friction builds up over a travel and whose backbones lag: all bodies, at rest as the law says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from robot_files import changed_robot

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.tendons import tendon_matrix
from continuum_robot.simulation.benches import HungWeightBench
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plants import MUJOCO, PLANTS

CYCLE_S = 1e-3
TRAVEL_M = 2e-4
PRETENSION = np.full(5, 3.0)


def past(robot: Robot | None = None, *, moment_nm: float = 2e-3, travel_m: float = TRAVEL_M) -> Robot:
    """The prototype with a past, without gravity and cogging."""
    robot = robot or load_robot("opencr_five_tendon")
    actuators = dataclasses.replace(
        robot.actuators, coulomb_friction_nm=0.0015, friction_travel_m=travel_m, cogging_amplitude_nm=0.0
    )
    own = Hysteresis(moment_nm=moment_nm, curvature_per_m=1.0) if moment_nm else None
    segments = tuple(dataclasses.replace(segment, hysteresis=own) for segment in robot.segments)
    return robot.changed(
        actuators=actuators, segments=segments, gravity_m_per_s2=(0.0, 0.0, 0.0), hardware=None, assumed=()
    )


def slow_swing(k: int) -> np.ndarray:
    """Tensions there and back, N."""
    phase = 2 * np.pi * np.arange(5) / 5
    return PRETENSION + 2.0 * (1 - np.cos(2 * np.pi * 0.5 * k * CYCLE_S)) * np.maximum(np.cos(phase), 0)


def test_long_and_short_steps_go_the_same_way():
    plants = []
    for substep_s in (1e-3, 2e-4):
        robot = past()
        plants.append(Plant(robot.changed(simulation=dataclasses.replace(robot.simulation, substep_s=substep_s))))
    rows = []
    for k in range(2200):
        for plant in plants:
            plant.advance(slow_swing(k), CYCLE_S)
        rows.append([plant.displacement for plant in plants])
    long, short = np.array(rows).transpose(1, 0, 2)
    assert long == pytest.approx(short, abs=0.002 * np.ptp(short))


@pytest.mark.parametrize("name", ["rod", MUJOCO])
def test_a_lagging_backbone_stays_bent_by_what_its_moment_holds(name):
    """Ideal tendons, pulled and let go: at rest elasticity is held by the moment that is left, about the bend."""
    robot = past()
    plant = PLANTS[name](robot, actuation="ideal")
    hysteresis = RodHysteresis(robot)
    least = np.full(5, 0.2)  # MuJoCo's chain gives way between its disks under more
    for more_n in (0.0, 3.0, 0.0):
        for _ in range(1500):
            plant.advance(least + more_n * np.eye(5)[0], CYCLE_S)
            force = hysteresis.move(plant.c)
    balance = RodDescription.of_robot(robot).stiffness @ plant.c + force - tendon_matrix(robot).T @ least
    bent = np.abs(plant.c).max()
    assert bent > 0.05
    assert np.abs(balance).max() < 0.1 * np.abs(force).max()


@pytest.mark.parametrize("name", ["rod", MUJOCO])
def test_a_motor_gives_its_friction_on_the_way_in_and_takes_it_on_the_way_out(name):
    """Slow currents there and back: what the motor pulls differs from the tension by the law of the spooled length."""
    robot = past(moment_nm=0.0)
    plant = PLANTS[name](robot)
    dry_n = robot.actuators.coulomb_n
    slip, left = MaxwellSlip(np.full(5, dry_n), np.full(5, TRAVEL_M), np.zeros(5)), []
    for k in range(3000):
        pulled = plant.displacement
        given = PRETENSION + 0.5 * (1 - np.cos(2 * np.pi * 0.5 * k * CYCLE_S)) * 3.0
        plant.advance(given, CYCLE_S)
        friction = slip.move(plant.displacement)
        if k > 1000 and np.abs(plant.displacement - pulled).max() < 1e-4:
            left.append(given - plant.tension - friction)
    assert np.abs(slip.force).max() <= dry_n + 1e-9
    assert np.sqrt(np.mean(np.square(left))) < 0.05 * dry_n


def test_a_hung_weight_stays_where_friction_holds_it():
    """The bench's motor holds a weight with less than it weighs, by its friction, and does not creep."""
    robot = past(moment_nm=0.0)
    mass_kg, dry_n = 0.5, robot.actuators.coulomb_n
    bench = HungWeightBench(robot, tendon=0, mass_kg=mass_kg)
    bench.open()
    bench.enable()
    tension = np.zeros(5)
    heights = []
    for k in range(6000):
        tension[0] = mass_kg * 9.81 + (1.5 * dry_n if k < 3000 else -0.5 * dry_n)
        bench.write(tension, k * CYCLE_S)
        bench.read(k * CYCLE_S)
        heights.append(bench.height_m)
    assert heights[2990] > 0.1
    # It swings on the friction's springs.
    assert heights[-1] == pytest.approx(heights[-1000], abs=TRAVEL_M)


def test_a_file_says_it_and_a_bad_value_is_refused_with_its_range():
    travel, lag = "actuators.friction_travel_m", "segments[0].hysteresis"
    robot = changed_robot({travel: TRAVEL_M, lag: {"moment_nm": 2e-3, "curvature_per_m": 1.0}})
    assert robot.segments[0].hysteresis == Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    with pytest.raises(RobotFileError, match=r"hysteresis\.moment_nm: -1"):
        changed_robot({lag: {"moment_nm": -1.0, "curvature_per_m": 1.0}})
    with pytest.raises(RobotFileError, match="friction_travel_m: 1"):
        changed_robot({travel: 1.0})
