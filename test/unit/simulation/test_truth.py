# SPDX-License-Identifier: Apache-2.0
"""Simulated robots that are not what their drivers and controllers believe."""

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.file.shipped_files import shipped_folders
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.rod.friction.path_friction import PathFriction
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.simulator import Simulator
from continuum_robot.simulation.truth import true_robot, truth_file

SERVOS = load_robot("three_segment_servo")
MOTORS = load_robot("opencr_five_tendon")
TRUTHS = sorted(shipped_folders("robots/truths")[0].glob("*.yaml"))


def with_errors(robot, **errors):
    return robot.changed(simulation=dataclasses.replace(robot.simulation, wiring_errors=WiringErrors(**errors)))


def with_tendons(robot, **values):
    segments = [dataclasses.replace(one, tendons=dataclasses.replace(one.tendons, **values)) for one in robot.segments]
    return robot.changed(segments=tuple(segments))


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.stem)
def test_each_shipped_truth_is_that_of_a_shipped_robot(path):
    believed = load_robot(path.stem)
    truth = true_robot(believed)
    assert truth_file(believed) == str(path)
    assert (truth.name, truth.simulation.seed) == (believed.name, believed.simulation.seed)
    assert truth.tendon_count == believed.tendon_count
    assert true_robot(believed, "none") is believed
    Plant(truth).advance(np.full(truth.tendon_count, 1e-4), 0.01)


def test_a_robot_without_a_truth_is_its_own():
    assert true_robot(MOTORS) is MOTORS
    with pytest.raises(ParameterError, match="shipped truth"):
        true_robot(MOTORS, "nothing_like_this")


@pytest.mark.parametrize(
    ("given", "key"),
    [("two_segment", "segments"), ("opencr_five_tendon", "segments"), ("rucker", "segments")],
)
def test_a_truth_that_cannot_stand_in_is_refused_by_key(given, key, tmp_path):
    with pytest.raises(RobotFileError) as caught:
        true_robot(SERVOS, str(load_robot(given).file_name))
    assert caught.value.key == key
    text = (shipped_folders("robots/truths")[0] / "three_segment_servo.yaml").read_text(encoding="utf-8")
    file = tmp_path / "truth.yaml"
    file.write_text(text.replace("simulation:\n", "simulation:\n  truth: another.yaml\n"), encoding="utf-8")
    with pytest.raises(RobotFileError, match="truth of another"):
        true_robot(SERVOS, str(file))


@pytest.mark.parametrize(
    "errors",
    [{"pulls_tendon": (1, 1, 2, 3, 4)}, {"polarity": (1, 0, 1, 1, 1)}, {"spool_ratio": (1.0, 1.0)}],
)
def test_impossible_wiring_is_refused(errors):
    with pytest.raises(RobotFileError):
        with_errors(MOTORS, **errors)


def test_swapped_motors_pull_each_others_tendon():
    right, swapped = Plant(MOTORS), Plant(with_errors(MOTORS, pulls_tendon=(2, 1, 3, 4, 5)))
    tension = np.array([8.0, 3.0, 3.0, 3.0, 3.0])
    for _ in range(500):
        right.advance(tension, 1e-3)
        swapped.advance(tension[[1, 0, 2, 3, 4]], 1e-3)
    np.testing.assert_allclose(swapped.tension, right.tension, atol=0.3)  # each motor keeps its own cogging
    np.testing.assert_allclose(swapped.displacement[[1, 0, 2, 3, 4]], right.displacement, atol=3e-4)


def test_a_motor_of_wrong_polarity_pays_out_where_it_is_told_to_pull():
    plant = Plant(with_errors(MOTORS, polarity=(-1, 1, 1, 1, 1)))
    for _ in range(200):
        plant.advance(np.full(5, 5.0), 1e-3)
    assert plant.tension[0] == 0
    assert plant.tension[1:].min() > 1.0
    assert plant.displacement[0] > 1e-3  # as the driver counts: it believes to have pulled
    assert plant.current[0] > 0


@pytest.mark.parametrize("ratio", [0.5, 1.3])
def test_a_spool_of_another_size_winds_and_pulls_otherwise(ratio):
    plant = Plant(with_errors(SERVOS, spool_ratio=(ratio,) * 9))
    goal = np.full(9, 5e-4)
    for _ in range(400):
        plant.advance(goal, 0.01)
    seen, true = plant.displacement, plant.rod_displacement + plant.tension / SERVOS.tendon_stiffness_n_per_m
    np.testing.assert_allclose(seen * ratio, true, atol=2e-6)
    # The torque that makes the believed tension makes another one.
    believed_n = plant.current * SERVOS.actuators.newton_per_ampere
    friction_n = SERVOS.actuators.coulomb_n
    np.testing.assert_allclose(believed_n / ratio, plant.tension, atol=1.1 * friction_n / min(1.0, ratio))


def test_currents_are_measured_with_their_errors():
    right = Plant(SERVOS)
    wrong = Plant(with_errors(SERVOS, current_gain=(1.1,) * 9, current_offset_a=(0.02,) * 9))
    for plant in (right, wrong):
        for _ in range(100):
            plant.advance(np.full(9, 5e-4), 0.01)
    np.testing.assert_array_equal(wrong.tension, right.tension)
    np.testing.assert_allclose(wrong.current, 1.1 * right.current + 0.02, atol=1e-12)


def test_slack_at_the_start_is_wound_up_first():
    slack = Plant(with_errors(SERVOS, slack_m=(1e-3,) * 9))
    for _ in range(100):
        slack.advance(np.full(9, 9e-4), 0.01)
    assert slack.tension.max() == 0
    for _ in range(100):
        slack.advance(np.full(9, 1.6e-3), 0.01)
    assert slack.tension.min() > 1.0


def test_what_has_no_wiring_refuses_its_errors():
    with pytest.raises(ParameterError, match="wiring_errors"):
        SimulatedTendonActuators(with_errors(MOTORS, polarity=(-1, 1, 1, 1, 1)), level="mirror")


def test_late_commands_keep_their_order():
    settings = dataclasses.replace(SERVOS.simulation, command_jitter_s=0.02)
    actuators = SimulatedTendonActuators(SERVOS.changed(simulation=settings))
    actuators.open()
    actuators.read(0.0)
    actuators.enable()
    arrived = []
    for k in range(200):
        actuators.write(np.full(9, 1e-6 * k), 0.005 * k)
        actuators.read(0.005 * (k + 1))
        arrived.append(actuators._command[0])
    assert np.all(np.diff(arrived) >= 0)
    late = 1e-6 * np.arange(200) - np.array(arrived)
    assert late.max() > 1.5e-6  # some by two cycles


# --- friction on the way


def test_a_tendon_turns_by_the_bends_of_the_rod_and_of_its_guide():
    robot = with_tendons(SERVOS, guide_turn_rad=0.5)
    friction, curvature = PathFriction(robot), 6.0
    c = np.zeros(robot.coefficient_count)
    np.testing.assert_allclose(friction.turn_rad(c), 0.5, atol=1e-9)
    c[0::2] = curvature  # every segment by the same about x
    # It is anchored in the last disk, and does not turn over the second half of its last piece.
    expected = 0.5 + curvature * (np.repeat([0.1, 0.2, 0.3], 3) - 0.1 / 8 / 2)
    np.testing.assert_allclose(friction.turn_rad(c), expected, rtol=1e-6)


def test_the_capstan_law_holds_between_spool_and_rod():
    robot = with_tendons(SERVOS, friction_coefficient=0.2, guide_turn_rad=1.5)
    friction = PathFriction(robot)
    straight = np.zeros(robot.coefficient_count)
    np.testing.assert_allclose(friction.fraction(straight), 1 - math.exp(-0.3), atol=1e-9)
    assert not PathFriction(SERVOS).acts


def test_friction_makes_the_robot_remember_the_way():
    """Held displacements bend the robot otherwise on the way out and back, as on real ones."""

    def bend(robot):
        plant, found = Plant(robot), []
        goal = np.full(9, 1e-3)
        for target in (2e-3, 4e-3, 2e-3):
            aim = goal + target * np.cos(2 * np.pi * np.arange(9) / 3) * (np.arange(9) < 3)
            for _ in range(300):
                plant.advance(aim, 0.01)
            found.append(plant.pose(robot.length_m)[0, 3])
        return found

    out, _, back = bend(with_tendons(SERVOS, friction_coefficient=0.1, guide_turn_rad=1.0))
    assert back - out > 5e-4
    smooth = dataclasses.replace(SERVOS.actuators, coulomb_friction_nm=0.0, friction_travel_m=0.0)
    out, _, back = bend(SERVOS.changed(actuators=smooth))
    assert abs(back - out) < 1e-5


def test_wires_refuse_a_jitter_that_they_do_not_have():
    settings = dataclasses.replace(MOTORS.simulation, command_jitter_s=0.001)
    with pytest.raises(ParameterError, match="command_jitter_s"):
        Simulator(MOTORS.changed(simulation=settings), "wire", namespace="jitter")
