# SPDX-License-Identifier: Apache-2.0
"""Simulated robots that are not what their drivers and controllers believe."""

import dataclasses
import math
from functools import lru_cache, partial

import numpy as np
import pytest
from changed_robots import pair, pair_values, tension_values
from robot_files import made

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.file.shipped_files import shipped_folders
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import SimulationSettings, WiringErrors
from continuum_robot.rod.friction.resistance import PathFriction
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.faults import DYNAMICS, LEVELS, MUJOCO, WIRE
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.simulator import Simulator
from continuum_robot.simulation.truth import true_robot, truth_file
from continuum_robot.simulation.wire.hardware import SimulatedHardware

SERVOS = load_robot("three_segment_servo")
MOTORS = load_robot("opencr_five_tendon")
TRUTHS = sorted(shipped_folders("robots/truths")[0].glob("*.yaml"))


def with_errors(robot, **errors):
    return with_settings(robot, wiring_errors=WiringErrors(**errors))


def with_settings(robot, **settings):
    return robot.changed(simulation=dataclasses.replace(robot.simulation, **settings))


def with_tendons(robot, **values):
    segments = [dataclasses.replace(one, tendons=dataclasses.replace(one.tendons, **values)) for one in robot.segments]
    return robot.changed(segments=tuple(segments))


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.stem)
def test_each_shipped_truth_is_that_of_a_shipped_robot(path):
    believed = load_robot(path.stem)
    truth = true_robot(believed, path.stem)
    assert truth_file(believed, path.stem) == str(path)
    assert believed.simulation.truth in ("", path.stem)
    assert (truth.name, truth.simulation.seed) == (believed.name, believed.simulation.seed)
    assert truth.tendon_count == believed.tendon_count
    assert true_robot(believed, "none") is believed
    Plant(truth).advance(np.full(truth.tendon_count, 1e-4 if truth.takes_displacements else 5.0), 0.01)


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
    mechanism = load_robot("rolling_five_link")
    for settings in ({"no_load_speed_rad_per_s": 5.0}, {"wiring_errors": WiringErrors(polarity=(-1, 1))}):
        with pytest.raises(ParameterError, match=next(iter(settings))):
            SimulatedTendonActuators(with_settings(mechanism, **settings))


TWO_MOTORS = [[1, 0], [0, 1], [-1, 0], [0, -1]]
"""Of two capstans, as johnston has them."""


def crossed():
    """Four tendons on two motors that take displacements."""
    values = pair_values(TWO_MOTORS)
    segment = values["segments"][0]
    segment["tendons"] = {"count": 4, "pitch_radius_m": segment["tendons"]["pitch_radius_m"]}
    segment["basis"] = {"kind": "constant_bending"}
    values["reference"] |= {"amplitude_m": [0.004, 0.0], "frequency_hz": [0.3, 0.3]}
    return made(values)


def moved(plant, motors_m):
    """Where the plant goes when its driver asks for what the motors wind, (2,), m; and its offset at their zero."""
    coupling = Coupling(plant.robot)
    for _ in range(80):
        plant.advance(coupling.tendons(np.array(motors_m)), 5e-3)
    return plant.rod_displacement, coupling.inverse @ (plant.displacement - coupling.offset_m)


def test_wiring_errors_act_on_the_motors_behind_a_transmission():
    """Swapped motors, one of them reversed, with wrong spools: read as believed, moved as they are."""
    robot, asked = crossed(), np.array([2e-3, -1e-3])
    wrong = with_errors(robot, pulls_tendon=(2, 1), polarity=(1, -1), spool_ratio=(1.2, 0.9))
    bent, shown = moved(Plant(wrong), asked)
    np.testing.assert_allclose(shown, asked, atol=2e-4)  # friction and load keep servos from their place
    expected, _ = moved(Plant(robot), [-0.9 * asked[1], 1.2 * asked[0]])
    np.testing.assert_allclose(bent, expected, atol=5e-5)
    with pytest.raises(RobotFileError, match="2 values, one a motor"):
        with_errors(robot, polarity=(1, 1, 1, -1))


def test_slack_and_currents_err_behind_a_transmission():
    robot = crossed()
    right, wrong = Plant(robot), Plant(with_errors(robot, current_gain=(1.1, 0.9), current_offset_a=(0.02, 0.0)))
    loose = Plant(with_errors(robot, slack_m=(3e-3, 3e-3, 3e-3, 3e-3)))
    for plant in (right, wrong, loose):
        moved(plant, [1e-3, 5e-4])
    np.testing.assert_allclose(wrong.tension, right.tension, rtol=1e-9)
    own = [Coupling(robot).each_motors(plant.current) for plant in (wrong, right)]
    np.testing.assert_allclose(own[0], np.array([1.1, 0.9]) * own[1] + np.array([0.02, 0.0]), atol=1e-9)
    assert loose.tension.max() < 0.5 * right.tension.max()


def test_a_motor_of_wrong_polarity_bends_a_robot_that_shares_motors_the_other_way():
    """With motors that take tensions."""
    robot = made(tension_values())
    right, wrong = Plant(robot), Plant(with_errors(robot, polarity=(-1,)))
    for plant in (right, wrong):
        for _ in range(200):
            plant.advance(np.array([10.0, 6.0]), 5e-3)
    assert right.displacement[0] > 5e-4
    np.testing.assert_allclose(wrong.rod_displacement, right.rod_displacement[::-1], atol=1e-4)
    np.testing.assert_allclose(
        wrong.displacement - wrong.displacement.mean(), right.displacement - right.displacement.mean(), atol=1e-4
    )


def test_a_servo_whose_torque_is_off_lets_the_tendons_go_that_it_really_pulls():
    robot = with_errors(crossed(), pulls_tendon=(2, 1))
    plant = Plant(robot)
    goal = Coupling(robot).tendons(np.array([2e-3, 1e-3]))
    for _ in range(100):
        plant.advance(goal, 5e-3)
    held = plant.displacement
    goal[[0, 2]] = np.nan  # of the motor that the driver takes for the first
    for _ in range(200):
        plant.advance(goal, 5e-3)
    assert abs(plant.displacement[0] - held[0]) > 2e-4
    np.testing.assert_allclose(plant.displacement[[1, 3]], held[[1, 3]], atol=1e-4)


def test_late_commands_keep_their_order():
    actuators = SimulatedTendonActuators(with_settings(SERVOS, command_jitter_s=0.02))
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


# --- what motors, gears and buses do otherwise


def test_a_motor_runs_up_to_where_its_voltage_ends():
    """Of a cut tendon: F (1 - v / v0) = c v + friction at the end, with the largest force F at rest."""
    fastest, robot = 60.0, with_settings(MOTORS, no_load_speed_rad_per_s=60.0)
    actuators, plant = robot.actuators, Plant(robot)
    plant.stiffness_fraction = np.zeros(5)
    for _ in range(400):
        plant.advance(np.full(5, actuators.maximum_tension_n), 1e-3)
    v0 = fastest / actuators.motor_rad_per_m
    force, friction = actuators.maximum_tension_n, actuators.coulomb_n
    ends = (force - friction) / (force / v0 + actuators.viscous_ns_per_m)
    np.testing.assert_allclose(plant.velocity, ends, rtol=0.02)  # cogging makes it swing
    assert plant.limited.all()
    plant.advance(np.full(5, -actuators.maximum_tension_n), 1e-3)
    assert not plant.limited.any()  # braking is not limited


@pytest.mark.long
def test_play_delays_a_motor_that_pulls_two_tendons_where_they_change_sides():
    """Beyond the play the robot is as without it, with the motor half a play back; within it, it does not move."""
    play_m = 1e-3
    loose, tight = Plant(with_settings(pair(), backlash_m=play_m)), Plant(pair())
    start = loose.displacement

    def shown(plant, wound_m):
        for _ in range(150):
            plant.advance(start + wound_m * np.array([1.0, -1.0]), 5e-3)
        np.testing.assert_allclose(plant.displacement - start, wound_m * np.array([1.0, -1.0]), atol=1e-4)
        return plant.rod_displacement[0] - plant.rod_displacement[1]

    for wound_m in (2e-3, -2e-3):
        beyond = shown(loose, wound_m), shown(tight, wound_m - math.copysign(play_m / 2, wound_m))
        assert beyond[0] == pytest.approx(beyond[1], abs=1e-4)
    within = [shown(loose, wound_m) for wound_m in (-2e-4, 2e-4)]
    assert abs(within[1] - within[0]) < 1e-4


def test_readings_come_late_by_another_time_each_and_in_order():
    settings = {"reading_delay_s": 0.004, "reading_jitter_s": 0.01}
    actuators = SimulatedTendonActuators(with_settings(SERVOS, **settings))
    actuators.open()
    age = np.array([0.001 * k - actuators.read(0.001 * k).stamp_s for k in range(400)][50:])
    assert age.min() == pytest.approx(0.004, abs=1.1e-3)
    assert age.max() == pytest.approx(0.014, abs=1.1e-3)
    assert np.diff(age).max() <= 0.001 + 1e-9  # never an older one than before


# --- nothing is ignored

CHANGED = {
    "seed": 2,
    "tendon_stiffening_per_n": 0.05,
    "tendon_damping_ns_per_m": 200.0,
    "method": "midpoint",
    "substep_s": 2e-4,
    "current_noise_a": 0.05,
    "string_noise_m": 2e-4,
    "string_resolution_m": 1e-3,
    "string_mean_error_m": 1e-4,
    "string_largest_error_m": 4e-4,
    "string_stroke_m": 0.008,
    "string_counts_per_turn": 1024,
    "no_load_speed_rad_per_s": 1.0,
    "backlash_m": 1e-3,
    "reading_delay_s": 0.01,
    "reading_jitter_s": 0.02,
    "command_delay_s": 0.01,
    "command_jitter_s": 0.02,
    "pulls_tendon": lambda motors: (2, 1, *range(3, motors + 1)),
    "polarity": lambda motors: (-1, *(1,) * (motors - 1)),
    "spool_ratio": lambda motors: (1.2,) * motors,
    "current_gain": lambda motors: (1.2,) * motors,
    "current_offset_a": lambda motors: (0.05,) * motors,
    "slack_m": lambda motors: (1e-4,) * motors,
}
OF_ENCODERS = ("string_largest_error_m", "string_stroke_m", "string_counts_per_turn")


def lived(robot, level):
    """All that drivers read of a simulated robot that is pulled for a while, as the level's devices give it."""
    Simulator(robot, level, namespace="refused")
    now_s, found = 0.0, []

    def sleep(duration_s):
        nonlocal now_s
        now_s += duration_s

    strings, hardware = None, None
    if level == DYNAMICS:
        actuators = SimulatedTendonActuators(robot)
        step = actuators.read
    else:
        maker = partial(MujocoPlant, links=2) if level == MUJOCO else Plant
        hardware = SimulatedHardware(robot, plant_maker=maker, strings=bool(robot.strings))
        hardware.open()
        actuators, step = hardware.tendon_actuators(clock=lambda: now_s, sleep=sleep), hardware.step
    try:
        actuators.open()
        if robot.strings and hardware is not None:
            strings = hardware.string_encoders(answer_timeout_s=0.0)
        elif robot.strings:
            strings = SimulatedStringEncoders(robot, actuators.string_source)
        if strings is not None:
            strings.open()
        actuators.read(now_s)
        actuators.enable()
        for k in range(15):
            sleep(0.005)
            step(now_s)
            reading = actuators.read(now_s)
            rows = [reading.displacement_m, reading.tension_n, reading.current_a]
            found.append(np.concatenate([*rows, [] if strings is None else strings.read(now_s).extension_m]))
            wave = 1 + 0.5 * np.sin(0.2 * k + np.arange(robot.tendon_count))
            actuators.write((5e-4 if robot.takes_displacements else 4.0) * wave, now_s)
    finally:
        for device in (strings, actuators, hardware):
            if device is not None:
                device.close()
    return np.array(found)


ERRING = {"string_mean_error_m": 1e-4, "string_stroke_m": 0.005}
"""With which the other settings of strings' encoders act, on the short way that they go here."""


@lru_cache
def lived_as_it_is(robot, level, *, encoders):
    return lived(with_settings(robot, **ERRING) if encoders else robot, level)


def test_each_key_of_the_simulation_is_known_here():
    stated = {one.name for one in dataclasses.fields(SimulationSettings)}
    assert set(CHANGED) == (stated - {"truth", "wiring_errors"}) | {
        one.name for one in dataclasses.fields(WiringErrors)
    }


@pytest.mark.parametrize("key", CHANGED)
@pytest.mark.parametrize(
    ("robot", "level"),
    [*((MOTORS, level) for level in LEVELS), (SERVOS, WIRE), (SERVOS, DYNAMICS)],
    ids=[*(f"tensions-{level}" for level in LEVELS), "displacements-wire", "displacements-dynamics"],
)
def test_each_key_of_a_truth_acts_or_is_refused_at_each_level(robot, key, level):
    if key == "seed" and robot is SERVOS:
        pytest.skip("its servos have no cogging, and it has no noise: nothing is drawn")
    encoders = key in OF_ENCODERS and bool(robot.strings)
    believed = robot.changed(simulation=dataclasses.replace(robot.simulation, truth=""))
    value = CHANGED[key]
    if callable(value):
        changed = with_errors(believed, **{key: value(robot.tendon_count)})
    else:
        changed = with_settings(believed, **{**(ERRING if encoders else {}), key: value})
    try:
        found = lived(changed, level)
    except ParameterError as error:
        assert error.name == f"simulation.{key}"  # noqa: PT017
        return
    assert not np.array_equal(found, lived_as_it_is(believed, level, encoders=encoders), equal_nan=True)


@pytest.mark.parametrize(
    ("robot", "settings"),
    [
        (SERVOS, {"no_load_speed_rad_per_s": 5.0}),
        (SERVOS, {"backlash_m": 1e-4}),
        (SERVOS, {"string_noise_m": 1e-3}),
        (MOTORS, {"string_stroke_m": 0.2}),
        (MOTORS, {"backlash_m": 1e-4}),
    ],
)
def test_what_would_have_no_effect_is_refused_by_its_key(robot, settings):
    with pytest.raises(ParameterError, match=next(iter(settings))):
        Simulator(with_settings(robot, **settings), DYNAMICS, namespace="refused").open()


@pytest.mark.parametrize("level", [WIRE, MUJOCO])
@pytest.mark.parametrize("key", ["reading_delay_s", "command_jitter_s"])
def test_devices_on_wires_refuse_what_late_readings_stand_for(key, level):
    with pytest.raises(ParameterError, match=key):
        Simulator(with_settings(MOTORS, **{key: 0.001}), level, namespace="refused")
