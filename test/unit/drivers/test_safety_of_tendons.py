# SPDX-License-Identifier: Apache-2.0
"""Each tendon is limited and judged by its own limits: what one bears is too much for another, and only there."""

import numpy as np
import pytest
from changed_robots import with_own
from safety_steps import TendonSafety
from servo_stand import PERIOD_S, ServoLoop, Servos, servo_robot

from continuum_robot.control.displacement_limits import DisplacementLimiter
from continuum_robot.control.limits import LIMITED_MAXIMUM, LIMITED_MINIMUM, LIMITED_RATE, TensionLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.errors import DeviceError
from continuum_robot.geometry.clarke import UnrelatedTendons
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendons import limiting_manifold

FIVE = load_robot("opencr_five_tendon")
N, WEAK = 5, 2
MANIFOLD = limiting_manifold(FIVE)


def weak_robot(**values):
    """The five tendons with a weak one, number 3."""
    return FIVE.changed(limits=with_own(FIVE.limits, [WEAK + 1], **values))


def reading(stamp_s, tension):
    unknown, tension = np.full(N, np.nan), np.broadcast_to(np.asarray(tension, dtype=float), N)
    current = tension / FIVE.newton_per_ampere
    return TendonReading(stamp_s, np.zeros(N), np.zeros(N), tension, current, unknown, np.zeros(N))


def one(value, rest=3.0, tendon=WEAK):
    return np.where(np.arange(N) == tendon, value, rest)


# --- tensions


def limited(robot, tension):
    limiter = TensionLimiter(robot.limits, MANIFOLD)
    limiter.reset(np.full(N, 3.0))
    return limiter.update(tension, 10.0)


def test_a_command_above_its_own_maximum_is_limited_there_and_bends_the_robot_the_same():
    robot = weak_robot(maximum_n=10.0)
    found = limited(robot, one(11.0, tendon=0))
    assert found.tension.tolist() == one(11.0, tendon=0).tolist()
    assert not found.limited.any()
    found = limited(robot, one(11.0))
    assert found.tension[WEAK] == 10.0
    assert found.limited[WEAK] & LIMITED_MAXIMUM
    force = MANIFOLD.displacement_matrix.T
    np.testing.assert_allclose(force @ found.tension, force @ one(11.0), atol=1e-12)


def test_the_least_tension_of_one_tendon_raises_what_all_of_its_segment_have_in_common():
    found = limited(weak_robot(minimum_n=2.5), np.full(N, 2.0))
    np.testing.assert_allclose(found.tension, 2.5)
    assert (found.limited & LIMITED_MINIMUM).all()
    assert limited(weak_robot(minimum_n=2.5), one(2.5, 2.0)).tension.tolist() == one(2.5, 2.0).tolist()


def test_the_slowest_tendon_sets_the_pace_for_all_so_that_the_direction_stays():
    rate = FIVE.limits.rate_n_per_s
    limiter = TensionLimiter(weak_robot(rate_n_per_s=rate / 10).limits, UnrelatedTendons(N))
    limiter.reset(np.full(N, 3.0))
    found = limiter.update(np.full(N, 3.0) + rate * 1e-3, 1e-3)
    np.testing.assert_allclose(found.tension, 3.0 + rate * 1e-4)
    assert (found.limited & LIMITED_RATE).all()


@pytest.mark.parametrize(("tendon", "fault"), [(WEAK, ("command_out_of_range",)), (0, ())])
def test_a_command_far_above_one_tendons_maximum_latches_on_that_one(tendon, fault):
    safety = TendonSafety(weak_robot(maximum_n=5.0), SafetySettings())
    safety.activate(reading(10.0, 3.0), 10.0)
    safety.update(reading(10.001, 3.0), one(11.0, tendon=tendon), 0.0, 10.001, 1e-3, command_sequence=1)
    assert safety.faults == fault


@pytest.mark.parametrize(("tendon", "fault"), [(WEAK, ("tension_out_of_range",)), (0, ())])
def test_a_measured_tension_is_judged_by_its_tendons_own_maximum(tendon, fault):
    safety = TendonSafety(weak_robot(maximum_n=5.0, current_mismatch_a=9.0), SafetySettings())
    safety.activate(reading(10.0, 3.0), 10.0)
    safety.update(reading(10.001, one(8.0, tendon=tendon)), np.full(N, 3.0), 0.0, 10.001, 1e-3, command_sequence=1)
    assert safety.faults == fault
    safety = TendonSafety(weak_robot(maximum_n=5.0), SafetySettings())
    if fault:
        with pytest.raises(DeviceError, match="measured tension 6 N > maximum_n of tendon 3 = 5 N"):
            safety.activate(reading(10.0, one(6.0, tendon=tendon)), 10.0)
    else:
        safety.activate(reading(10.0, one(6.0, tendon=tendon)), 10.0)


def test_a_release_leaves_each_tendon_its_own_safe_tension():
    safety = TendonSafety(weak_robot(safe_n=0.2), SafetySettings())
    safety.activate(reading(10.0, 3.0), 10.0)
    safety.estop("test")
    now_s = 10.0
    while not safety.released and now_s < 12.0:
        now_s += 1e-3
        output = safety.update(reading(now_s, safety.commanded), None, 0.0, now_s, 1e-3)
    np.testing.assert_allclose(safety.commanded, one(0.2, FIVE.limits.safe_n))
    assert now_s - 10.0 < SafetySettings().safe_within_s + 0.01
    assert output.write


@pytest.mark.parametrize(("tendon", "fault"), [(WEAK, ("current_mismatch",)), (0, ())])
def test_currents_may_differ_by_what_their_own_motor_may(tendon, fault):
    safety = TendonSafety(weak_robot(current_mismatch_a=0.05), SafetySettings())
    safety.activate(reading(10.0, 3.0), 10.0)
    for k in range(1, 400):
        now_s, sent = 10.0 + 1e-3 * k, np.full(N, 3.0)
        measured = reading(now_s, sent)
        measured.current_a[tendon] += 0.1
        measured.displacement_m[:] = 1e-6 * (k % 2)
        safety.update(measured, sent, 0.0, now_s, 1e-3, command_sequence=k)
    assert safety.faults == fault


# --- displacements


def weak_servos(**values):
    robot = servo_robot()
    return robot.changed(limits=with_own(robot.limits, [WEAK + 1], **values))


def test_each_displacement_keeps_its_own_range_speed_and_acceleration():
    values = {"maximum_displacement_m": 0.005, "speed_m_per_s": 0.02, "acceleration_m_per_s2": 0.2, "pay_out_m": 0.001}
    limits = weak_servos(**values).limits
    most = {key: limits.each(key, N) for key in values}
    rng = np.random.default_rng(0)
    for _ in range(10):
        limiter, before, velocity = DisplacementLimiter(limits, N), np.zeros(N), np.zeros(N)
        for _ in range(20):
            target = rng.uniform(-0.03, 0.03, N)
            for _ in range(rng.integers(1, 40)):
                limiter.step(target, PERIOD_S)
                assert (np.abs(limiter.command) <= most["maximum_displacement_m"] * (1 + 1e-9)).all()
                moved = (limiter.command - before) / PERIOD_S
                assert (np.abs(moved) <= most["speed_m_per_s"] * (1 + 1e-6)).all()
                change = np.abs(moved - velocity) / PERIOD_S
                assert (change <= most["acceleration_m_per_s2"] * (1 + 1e-6)).all()
                before, velocity = limiter.command.copy(), moved
    limiter = DisplacementLimiter(limits, N)
    target = one(0.004, -0.004)
    for _ in range(400):
        limiter.step(target, PERIOD_S)
        np.testing.assert_allclose(limiter.command * target[0], limiter.command[0] * target, atol=1e-12)
    np.testing.assert_allclose(limiter.command, target)
    assert not limiter.limited.any()


def test_a_range_of_its_own_scales_the_bend_and_far_out_latches_there_only():
    loop = ServoLoop(weak_servos(maximum_displacement_m=0.005))
    loop.activate()
    loop.command(one(0.008, 0.004), 1.0)
    np.testing.assert_allclose(loop.servos.written[-1], one(0.005, 0.0025), atol=1e-6)
    assert loop.safety.faults == ()
    for tendon, faults in ((0, ()), (WEAK, ("command_out_of_range",))):
        loop = ServoLoop(weak_servos(maximum_displacement_m=0.005))
        loop.activate()
        loop.command(one(0.012, 0.001, tendon))
        assert loop.safety.faults == faults


@pytest.mark.parametrize(("tendon", "fault"), [(WEAK, ("tension_out_of_range",)), (0, ())])
def test_a_load_is_judged_by_its_tendons_own_maximum(tendon, fault):
    loop = ServoLoop(weak_servos(maximum_n=6.0))
    loop.activate()
    loop.servos.load_n[tendon] = 13.0
    loop.command(np.full(N, 1e-3), 0.5)
    assert loop.safety.faults == fault


@pytest.mark.parametrize(("tendon", "fault"), [(WEAK, ("displacement_lag",)), (0, ())])
def test_a_servo_lags_by_its_own_measure(tendon, fault):
    loop = ServoLoop(weak_servos(lag_m=1e-3), Servos(N, loads=False))
    loop.activate()
    loop.servos.stuck[tendon] = True
    loop.command(one(3e-3, 1e-3, tendon), 0.5)
    assert loop.safety.faults == fault


def test_a_release_pays_each_tendon_out_by_its_own_length_and_speed():
    loop = ServoLoop(weak_servos(pay_out_m=0.001, pay_out_speed_m_per_s=0.004), Servos(N, loads=False))
    loop.activate()
    loop.run(loop.robot.limits.command_timeout_s + 2 * PERIOD_S)
    begin = len(loop.servos.written)
    loop.run(3.0)
    written = np.array(loop.servos.written)
    np.testing.assert_allclose(written[-1], one(-0.001, -0.002), atol=1e-6)
    fastest = np.abs(np.diff(written[begin - 1 :], axis=0)).max(axis=0) / PERIOD_S
    assert fastest[WEAK] <= 0.004 * (1 + 1e-6)
    assert loop.safety.released
