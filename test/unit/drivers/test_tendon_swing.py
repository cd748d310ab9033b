# SPDX-License-Identifier: Apache-2.0
"""What swings leave of the maximum, with a motor on an elastic tendon as the oracle, integrated finely."""

import dataclasses
import math

import numpy as np
import pytest

from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tension_rules import TendonSwing
from continuum_robot.robot.loading import load_robot
from continuum_robot.stepped.buffers import vector

ROBOT = load_robot("opencr_five_tendon")
SETTINGS = SafetySettings()
DT = 1e-3
MAXIMUM_N = ROBOT.limits.maximum_n
SOFT_N = SETTINGS.soft_fraction * MAXIMUM_N
W = math.sqrt(ROBOT.tendon_stiffness_n_per_m / ROBOT.actuators.reflected_mass_kg)


class Motor:
    """A motor with some damping on a tendon that ends at a wall, beside the ceilings of tendon 1."""

    def __init__(self, robot=ROBOT, at_n=3.0, damping=0.05):
        self.swing = TendonSwing(robot, robot.limits, SETTINGS)
        self.command_n = vector([at_n] * robot.tendon_count)
        self.ceiling_n = vector(robot.tendon_count)
        self.swing.step(self.command_n, 1e3)
        self.tension_n, self.rate_n_per_s, self.damping = at_n, 0.0, damping
        self.peak_n = at_n

    def cycle(self, wanted_n, dt=DT):
        """What is commanded of ``wanted_n``, after it acted for ``dt``."""
        self.swing.ceilings(self.command_n, dt, self.ceiling_n)
        self.command_n[0] = min(wanted_n, self.ceiling_n[0])
        fine = 50
        for _ in range(fine):
            away_n = self.command_n[0] - self.tension_n
            self.rate_n_per_s += (W**2 * away_n - 2 * self.damping * W * self.rate_n_per_s) * dt / fine
            self.tension_n += self.rate_n_per_s * dt / fine
            self.peak_n = max(self.peak_n, self.tension_n)
        self.swing.step(self.command_n, dt)
        return self.command_n[0]


@pytest.mark.parametrize("at_n", [1.5, 3.0, 9.0, 15.0])
def test_a_step_to_the_maximum_swings_no_tendon_above_it_and_arrives(at_n):
    motor = Motor(at_n=at_n)
    for _ in range(2000):
        motor.cycle(10 * MAXIMUM_N)
    assert motor.peak_n < MAXIMUM_N
    assert motor.command_n[0] == pytest.approx((1 - SETTINGS.headroom_fraction) * MAXIMUM_N, rel=1e-3)
    free = Motor(at_n=at_n)
    free.swing = TendonSwing(ROBOT, ROBOT.limits, dataclasses.replace(SETTINGS, soft_fraction=1.0))
    for _ in range(200):
        free.cycle(10 * MAXIMUM_N)
    assert free.peak_n > MAXIMUM_N


@pytest.mark.parametrize("period_s", [0.01, 0.03, 1 / (W / (2 * math.pi)), 0.1])
def test_commands_to_and_fro_swing_no_tendon_above_the_maximum(period_s):
    motor = Motor()
    for number in range(3000):
        motor.cycle(MAXIMUM_N if number * DT % period_s < period_s / 2 else SOFT_N)
    assert motor.peak_n < MAXIMUM_N


@pytest.mark.parametrize("frequency_hz", [0.3, 1.0, 3.0])
def test_motion_that_is_slow_beside_the_swing_is_free_up_to_the_room_for_two_swings(frequency_hz):
    motor = Motor()
    top_n = (1 - SETTINGS.headroom_fraction - 2 * SETTINGS.swing_fraction) * MAXIMUM_N
    for number in range(2000):
        wanted_n = 3.0 + (top_n - 3.0) * 0.5 * (1 - math.cos(2 * math.pi * frequency_hz * number * DT))
        assert motor.cycle(wanted_n) == wanted_n


def test_the_model_swings_as_a_motor_does():
    """Twice the decay in the model is the damping ratio 1 / (tau w) of the oracle."""
    motor = Motor(damping=1 / (SETTINGS.soft_time_s * W))
    rng = np.random.default_rng(0)
    for _ in range(300):
        motor.cycle(float(rng.uniform(1.0, SOFT_N)), 2e-4)
        assert motor.swing._tension_n[0] == pytest.approx(motor.tension_n, abs=0.2)


def test_without_inertia_nothing_swings():
    massless = ROBOT.changed(actuators=dataclasses.replace(ROBOT.actuators, rotor_inertia_kg_m2=0.0))
    motor = Motor(massless)
    seen = [motor.cycle(MAXIMUM_N) for _ in range(10)]
    assert seen[0] == SOFT_N
    assert np.all(np.diff(seen) <= SETTINGS.swing_fraction * MAXIMUM_N + 1e-9)
    assert seen[5] >= (1 - SETTINGS.headroom_fraction - 2 * SETTINGS.swing_fraction) * MAXIMUM_N - 1e-9


@pytest.mark.parametrize("dt", [0.0, 1e-3, 1.0, 1e12])
def test_any_time_leaves_finite_ceilings_between_soft_and_highest(dt):
    motor = Motor()
    for wanted_n in (MAXIMUM_N, 1.5, MAXIMUM_N):
        motor.swing.ceilings(motor.command_n, dt, motor.ceiling_n)
        assert SOFT_N <= motor.ceiling_n[0] <= MAXIMUM_N
        motor.command_n[0] = min(wanted_n, motor.ceiling_n[0])
        motor.swing.step(motor.command_n, dt)
