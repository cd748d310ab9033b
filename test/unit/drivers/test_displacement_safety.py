# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle and safety logic around servos that take displacements: activation, home, faults, stops."""

import numpy as np
import pytest
from servo_stand import PERIOD_S, ServoLoop, Servos, servo_robot

from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.robot.stop_policy import CLASSES

N = 5
HOME_M = np.array([0.3, -0.1, 2.0, 0.0, 0.05])


def started(**kwargs):
    loop = ServoLoop(**kwargs)
    loop.activate()
    loop.run(2 * PERIOD_S)
    return loop


def limits(loop):
    return loop.robot.limits


# --- activation and home


def test_activation_writes_the_measured_displacement_first():
    place_m = np.array([1e-3, 2e-3, -1e-3, 0.5e-3, 3e-3])
    servos = Servos(N, HOME_M, place_m, loads=False)
    loop = ServoLoop(servos=servos)
    loop.activate()
    assert not servos.written
    loop.run(20 * PERIOD_S)
    for written in servos.written:
        np.testing.assert_allclose(written, HOME_M + place_m, atol=5e-6)
    assert np.ptp(servos.written, axis=0).max() == 0.0
    assert loop.safety.state == "active"


def test_home_is_subtracted_from_readings_and_added_to_commands():
    servos = Servos(N, HOME_M, 0.0, loads=False)
    loop = started(servos=servos)
    desired = np.array([1e-3, -1e-3, 2e-3, 0.0, -2e-3])
    loop.command(desired, 1.0)
    np.testing.assert_allclose(servos.written[-1], HOME_M + desired, atol=1e-9)
    np.testing.assert_allclose(loop.loop.reading.displacement_m, desired, atol=1e-5)
    row, places = loop.rows[-1], loop.loop.row
    np.testing.assert_allclose(row[places.commanded], desired, atol=1e-9)
    np.testing.assert_allclose(row[places.desired], desired)


def test_activation_is_refused_under_an_overload_and_outside_of_the_range():
    servos = Servos(N)
    servos.load_n[2] = 25.0
    with pytest.raises(DeviceError, match="measured load 27 N > maximum_n = 20 N"):
        ServoLoop(servos=servos).activate()
    servos = Servos(N, pretension_m=0.05, loads=False)
    with pytest.raises(DeviceError, match="maximum_displacement_m"):
        ServoLoop(servos=servos).activate()


def test_a_procedure_may_begin_where_displacements_count_from_nowhere():
    loop = ServoLoop(servos=Servos(N, pretension_m=3.0, loads=False))
    loop.safety.positions_known = False
    loop.activate()
    loop.command(np.full(N, 3.001), 0.3)
    np.testing.assert_allclose(loop.place_m, 3.001, atol=1e-5)
    loop.command(np.full(N, 4.0), 2.0)
    assert loop.servos.written[-1].max() <= 3.0 + limits(loop).maximum_displacement_m + 1e-5
    assert not loop.safety.faults


# --- faults


def test_commands_of_the_wrong_size_and_not_finite_and_far_out_latch():
    for command, fault in (
        (np.zeros(3), "command_wrong_size"),
        (np.array([np.nan, 0, 0, 0, 0]), "command_not_finite"),
        (np.array([0.05, 0, 0, 0, 0]), "command_out_of_range"),
    ):
        loop = started()
        loop.command(command)
        assert loop.safety.faults == (fault,)
    assert loop.safety.explain("command_wrong_size").endswith("tension or displacement: 5 displacements")


def test_a_stale_command_latches_and_the_servos_pay_out_without_pulling_in():
    loop = started(servos=Servos(N, HOME_M, np.array([3e-3, 1e-3, -4e-3, 2e-3, 1e-3]), loads=False))
    loop.command(loop.place_m, 0.1)
    before = loop.servos.written[-1].copy()
    loop.run(limits(loop).command_timeout_s + 2 * PERIOD_S)
    assert loop.safety.faults == ("command_timeout",)
    loop.run(1.0)
    written = np.array(loop.servos.written)
    steps = np.diff(written, axis=0)
    assert steps.max() <= 1e-12
    assert np.abs(steps).max() <= limits(loop).pay_out_speed_m_per_s * PERIOD_S * (1 + 1e-9)
    ends = np.minimum(before - HOME_M, -limits(loop).pay_out_m)
    np.testing.assert_allclose(written[-1] - HOME_M, ends, atol=1e-6)
    assert loop.safety.released


def test_a_servo_that_does_not_follow_lags():
    loop = started(servos=Servos(N, loads=False))
    loop.servos.stuck[1] = True
    lag_m = loop.safety.rules._thresholds.lag_m
    loop.command(np.full(N, 1e-3 + 0.9 * lag_m), 0.5)
    assert loop.safety.faults == ()
    loop.command(np.full(N, 1e-3 + 1.2 * lag_m), 0.5)
    assert loop.safety.faults == ("displacement_lag",)
    assert "segment_1/tendon_2 is 8 mm from its command, at an unknown load" in loop.safety.explain("displacement_lag")
    # It does not go on pulling while it pays out: from where it stands.
    assert loop.servos.written[-1][1] <= 1e-3 + 1e-5


def test_the_fastest_motion_that_limits_allow_does_not_lag():
    loop = started(servos=Servos(N, loads=False))
    for target in (0.015, -0.015, 0.015):
        loop.command(np.full(N, target), 1.2)
        np.testing.assert_allclose(loop.place_m, target, atol=1e-4)
    assert loop.safety.faults == ()


def test_an_overload_latches_unless_it_is_short_and_one_that_is_unknown_is_none():
    loop = started()
    loop.servos.load_n[3] = 25.0
    loop.command(loop.place_m, 0.03)
    loop.servos.load_n[3] = 0.0
    loop.command(loop.place_m, 0.1)
    assert loop.safety.faults == ()
    loop.servos.load_n[3] = 25.0
    loop.command(loop.place_m, 0.1)
    assert loop.safety.faults == ("tension_out_of_range",)
    for unknown in (slice(None), slice(2, 4)):
        servos = Servos(N)
        loop = started(servos=servos)
        servos.load_n[unknown] = np.nan
        loop.command(loop.place_m, 0.5)
        assert loop.safety.faults == ()


def test_a_tendon_that_was_taut_and_goes_slack_latches_and_one_that_never_was_does_not():
    servos = Servos(N, pretension_m=-1e-3)
    loop = started(servos=servos)
    loop.command(np.full(N, -1e-3), 0.5)
    assert loop.safety.faults == ()
    loop.command(np.full(N, 1e-3), 0.5)
    servos.load_n[0] = -5.0
    loop.command(np.full(N, 1e-3), 0.5)
    assert loop.safety.faults == ("slack_tendon",)


def test_a_reading_that_stands_with_its_load_is_frozen_and_a_stalled_one_lags():
    for frozen, fault in ((True, "frozen_reading"), (False, "displacement_lag")):
        loop = started(servos=Servos(N, pretension_m=2e-3))
        (loop.servos.frozen if frozen else loop.servos.stuck)[2] = True
        loop.command(np.full(N, 2e-3) + np.array([0, 0, 7e-3, 0, 0]), 0.5)
        assert loop.safety.faults[:1] == (fault,)


def test_a_resting_servo_whose_readings_repeat_is_not_frozen():
    loop = started()
    loop.servos.frozen[:] = True
    loop.command(loop.place_m, 2.0)
    assert loop.safety.faults == ()


def test_readings_that_grow_old_time_out_and_are_not_frozen():
    loop = started(robot=servo_robot(reading_timeout_s=0.5, command_timeout_s=0.5))
    loop.servos.frozen[:] = loop.servos.silent = True
    loop.command(np.full(N, 3e-3), 0.45)
    assert loop.safety.faults == ()
    loop.command(np.full(N, 3e-3), 0.15)
    assert loop.safety.faults == ("reading_timeout",)


def test_a_jump_latches():
    loop = started(servos=Servos(N, loads=False))
    loop.servos.place_m = loop.servos.place_m + np.array([0.015, 0, 0, 0, 0])
    loop.servos.goal_m = loop.servos.place_m.copy()
    loop.command(np.full(N, 1e-3))
    assert loop.safety.faults[0] == "displacement_jump"


def test_displacements_that_are_off_the_manifold_are_no_fault():
    loop = started(servos=Servos(N, loads=False))
    loop.command([0.015, 0.015, -0.015, 0.015, -0.015], 1.0)
    assert loop.safety.faults == ()


def test_a_servo_that_gives_way_at_the_end_of_its_range_is_within_it():
    loop = started(servos=Servos(N, loads=False))
    loop.command(np.full(N, -0.02), 2.0)
    loop.servos.place_m = loop.servos.place_m - 1e-3
    loop.servos.stuck[:] = True
    loop.command(np.full(N, -0.02), 0.5)
    assert loop.safety.faults == ()


def test_commands_at_a_lower_rate_than_the_cycle_move_on():
    """One every fourth cycle: the servos do not count as resting in between."""
    loop = started(servos=Servos(N, loads=False))
    for target_m in np.arange(1e-3, 16e-3, 0.3e-3):
        loop.command(np.full(N, target_m))
        loop.run(3 * PERIOD_S)
        np.testing.assert_allclose(loop.servos.written[-1], target_m, atol=1e-3)
    assert loop.safety.faults == ()


# --- stops


def stopped(action, key="operator", **servo):
    loop = started(robot=servo_robot(stop={key: action, "hold_s": 0.5}), servos=Servos(N, pretension_m=3e-3, **servo))
    loop.command(loop.place_m, 0.1)
    return loop


def test_hold_place_keeps_the_servos_where_they_are_then_pays_out():
    loop = stopped("hold_place")
    place_m = loop.servos.written[-1]
    loop.safety.estop("test")
    loop.run(0.45)
    assert loop.safety.stop_action == "hold_place"
    np.testing.assert_array_equal(loop.servos.written[-1], place_m)
    loop.run(1.0)
    assert loop.safety.stop_action == "release"
    np.testing.assert_allclose(loop.place_m, -limits(loop).pay_out_m, atol=1e-5)


def test_hold_place_brakes_a_motion_within_the_acceleration():
    loop = stopped("hold_place", loads=False)
    loop.command(np.full(N, 0.015), 0.15)
    loop.safety.estop("test")
    loop.run(0.3)
    steps = np.diff(loop.servos.written[-90:], axis=0) / PERIOD_S
    assert np.abs(np.diff(steps, axis=0)).max() <= limits(loop).acceleration_m_per_s2 * PERIOD_S * (1 + 1e-9)
    assert np.abs(steps[-1]).max() == 0.0


def test_torque_off_switches_the_torque_off_at_once():
    loop = stopped("torque_off")
    loop.safety.estop("test")
    loop.run(PERIOD_S)
    assert not loop.servos.on
    assert loop.safety.stop_action == "torque_off"
    count = len(loop.servos.written)
    loop.run(0.2)
    assert len(loop.servos.written) == count


def test_brake_closes_by_torque_off():
    robot = servo_robot(stop={"operator": "brake"}, actuators={"brake_holds_n": 40.0})
    loop = started(robot=robot)
    loop.safety.estop("test")
    loop.run(PERIOD_S)
    assert not loop.servos.on
    assert loop.safety.stop_action == "brake"


def test_release_with_torque_off_ends_without_torque():
    loop = started(robot=servo_robot(stop={"torque_off": True}))
    loop.safety.estop("test")
    loop.run(0.1)
    assert loop.servos.on
    loop.run(0.5)
    assert not loop.servos.on


def test_deactivation_straightens_the_robot_while_it_pays_out():
    bent_m = np.array([4e-3, 1e-3, -3e-3, -3e-3, 1e-3])
    loop = started(servos=Servos(N, HOME_M, bent_m, loads=False))
    loop.command(bent_m, 0.1)
    first = len(loop.servos.written)
    loop.loop.ramp_down(pytest.fail)
    paid = np.array(loop.servos.written[first:]) - HOME_M + limits(loop).pay_out_m
    np.testing.assert_allclose(paid[-1], 0.0, atol=1e-6)
    # All on one line: the shape goes back as a whole.
    np.testing.assert_allclose(paid, np.outer(paid[:, 0] / paid[0, 0], paid[0]), atol=1e-9)
    loop.loop.call(loop.loop.power_off)
    assert not loop.servos.on


def test_a_deactivation_pays_nothing_out_where_the_file_has_it_so():
    bent_m = np.array([4e-3, 1e-3, -3e-3, -3e-3, 1e-3])
    robot = servo_robot(stop={"deactivation": "torque_off"})
    loop = started(robot=robot, servos=Servos(N, HOME_M, bent_m, loads=False))
    loop.command(bent_m, 0.1)
    loop.loop.ramp_down(pytest.fail)
    loop.loop.call(loop.loop.power_off)
    np.testing.assert_allclose(loop.servos.written[-1], HOME_M + bent_m, atol=1e-6)
    assert not loop.servos.on


def test_an_estop_in_a_deactivation_pulls_no_tendon_in_any_more():
    bent_m = np.array([4e-3, 1e-3, -6e-3, -6e-3, 1e-3])
    loop = started(servos=Servos(N, HOME_M, bent_m, loads=False))
    loop.command(bent_m, 0.1)
    loop.loop.call(loop.safety.deactivate)
    loop.run(0.05)
    assert loop.servos.written[-1][2] > loop.servos.written[-2][2]  # all go to the straight pose together
    loop.safety.estop("test")
    loop.run(PERIOD_S)
    first = len(loop.servos.written)
    loop.run(1.0)
    assert np.diff(loop.servos.written[first:], axis=0).max() <= 1e-12
    assert loop.safety.released


def test_a_stop_policy_refuses_what_servos_cannot_or_should_not_do():
    for key in CLASSES:
        with pytest.raises(RobotFileError, match="servos that take displacements hold no tension"):
            servo_robot(stop={key: "hold_tension"})
    for key, reason in (("mechanics", "overloaded"), ("motor_hot", "cool")):
        with pytest.raises(RobotFileError, match=f"stop.{key}.*{reason}"):
            servo_robot(stop={key: "hold_place"})
    for key, value in (("hold_authority_n", 2.0), ("hold_bandwidth_rad_per_s", 20.0)):
        with pytest.raises(RobotFileError, match=rf"stop\.{key}"):
            servo_robot(stop={key: value})
    for key in set(CLASSES) - {"mechanics", "motor_hot"}:
        assert getattr(servo_robot(stop={key: "hold_place"}).stop, key) == "hold_place"


def test_a_further_fault_ends_a_hold():
    loop = started(robot=servo_robot(stop={"commands": "hold_place", "operator": "torque_off", "hold_s": 5.0}))
    loop.command(np.zeros(2))
    loop.run(0.05)
    assert loop.safety.stop_action == "hold_place"
    assert loop.safety.fallback_holds
    loop.safety.estop("test")
    loop.run(0.05)
    assert loop.safety.stop_action == "torque_off"
    assert not loop.servos.on


# --- settings


def test_a_limit_that_the_servo_cannot_reach_is_refused():
    with pytest.raises(RobotFileError, match=r"limits\.speed_m_per_s.*maximum_speed_rad_per_s"):
        servo_robot(speed_m_per_s=2.0)


def test_actuators_that_take_something_else_are_refused():
    servos = Servos(N)
    servos.takes_displacements = False
    with pytest.raises(ParameterError, match=r"actuators\.command.*tension, which Servos take"):
        ServoLoop(servos=servos)


def test_a_cycle_that_is_too_slow_for_the_timeouts_is_refused():
    with pytest.raises(ParameterError, match="rate_hz"):
        TendonSafety(servo_robot(), period_s=0.08)
