# SPDX-License-Identifier: Apache-2.0
"""A robot of servos that take displacements, and the servos: each follows its command with the lag of a first order."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.robot.actuation import DisplacementLimits, PositionServo
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import StopPolicy
from continuum_robot.runtime.cycle.assembly import QuietWatcher, make_loop, make_safety
from continuum_robot.runtime.cycle.forms import interpreted_form
from continuum_robot.runtime.pace import VirtualPace

PERIOD_S = 0.005
BANDWIDTH_HZ = 8.0
STIFFNESS_N_PER_M = 2000.0
STEP_M = 5e-6
MASS_KG = 4.0


def servo_robot(stop=None, actuators=None, **limits):
    """opencr_five_tendon with servos; ``limits`` are those of the file, changed."""
    five = load_robot("opencr_five_tendon")
    servo = PositionServo(bandwidth_hz=BANDWIDTH_HZ, maximum_speed_rad_per_s=600.0)
    inertia_kg_m2 = MASS_KG / five.actuators.motor_rad_per_m**2
    motor = {"command": "displacement", "servo": servo, "rotor_inertia_kg_m2": inertia_kg_m2}
    values = {
        "maximum_n": 20.0,
        "maximum_displacement_m": 0.02,
        "speed_m_per_s": 0.05,
        "acceleration_m_per_s2": 1.0,
        "slack_n": 0.5,
        "pay_out_m": 0.002,
        "pay_out_speed_m_per_s": 0.02,
    }
    return dataclasses.replace(
        five,
        actuators=dataclasses.replace(five.actuators, **(motor | (actuators or {}))),
        limits=DisplacementLimits(**(values | limits)),
        stop=StopPolicy(**(stop or {})),
        hardware=None,
        control=None,
        reference=None,
    )


class Servos:
    """Displacement actuators whose encoders read ``zero_m`` where the robot is straight, on tendons of one stiffness.

    Attributes
    ----------
    written : all commands, as the device counts, m
    stuck, frozen : servos that do not move, or repeat their readings
    silent : readings that repeat grow old
    load_n : added to what the tendons' stretch makes, N; ``loads`` False: the servos report none
    """

    simulated, takes_displacements, silent = True, True, False

    def __init__(self, count, zero_m=None, pretension_m=1e-3, *, loads=True):
        self.tendon_count, self.loads = count, loads
        self.zero_m = np.zeros(count) if zero_m is None else np.array(zero_m)
        self.place_m = self.zero_m + pretension_m
        self.velocity = np.zeros(count)
        self.goal_m, self.on = None, False
        self.written, self.load_n = [], np.zeros(count)
        self.stuck, self.frozen = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.faults, self.read_s, self._last = (), math.nan, None
        self.silent_s = None
        self.flicker = 0

    def open(self):
        pass

    close = clear_faults = open

    def enable(self, aborted=None):
        self.on, self.goal_m = True, self.place_m.copy()

    def disable(self):
        self.on, self.goal_m = False, None

    def read(self, now_s):
        dt = 0.0 if math.isnan(self.read_s) else now_s - self.read_s
        self.read_s = now_s
        before = self.place_m
        if self.on and self.goal_m is not None:
            follow = 1.0 - math.exp(-2.0 * math.pi * BANDWIDTH_HZ * dt)
            self.place_m = np.where(self.stuck, before, before + follow * (self.goal_m - before))
        self.velocity = (self.place_m - before) / dt if dt else np.zeros(self.tendon_count)
        self.flicker += 1
        # Its own tendon is as long as it is: a robot that keeps still.
        load = STIFFNESS_N_PER_M * (self.place_m - self.zero_m) + self.load_n
        load = np.maximum(load, 0.0) + 0.01 * (self.flicker % 2)
        load = load if self.loads else np.full(self.tendon_count, np.nan)
        place = np.round(self.place_m / STEP_M) * STEP_M
        if self._last is not None:
            place, load = np.where(self.frozen, self._last, [place, load])
        self._last = np.array([place, load])
        nothing = np.full(self.tendon_count, np.nan)
        warm = np.full(self.tendon_count, 30.0)
        self.silent_s = None if not self.silent else now_s if self.silent_s is None else self.silent_s
        age_s = np.full(self.tendon_count, 0.0 if self.silent_s is None else now_s - self.silent_s)
        return TendonReading(now_s, place, self.velocity, load, nothing, warm, age_s, self.faults)

    def write(self, displacement_m, now_s):
        assert np.isfinite(displacement_m).all()
        self.written.append(displacement_m.copy())
        self.goal_m = displacement_m.copy()


class ServoLoop(QuietWatcher):
    """The shipped loop around :class:`Servos`, in virtual time."""

    def __init__(self, robot=None, servos=None, settings=None):
        self.robot = robot or servo_robot()
        self.servos = servos or Servos(self.robot.tendon_count)
        self.pace = VirtualPace(PERIOD_S, 1.0)
        self.rows, self.sequence = [], 0
        self.safety = make_safety(self.robot, interpreted_form("test"), settings or SafetySettings(), period_s=PERIOD_S)
        self.loop = make_loop(self.robot, self.servos, self, self.pace, safety=self.safety)
        self.loop.cycle.set_zero(self.servos.zero_m.tolist())
        self.loop.start()
        self.run(2 * PERIOD_S)

    def on_row(self, row):
        self.rows.append(row)

    def run(self, duration_s):
        self.pace.run(duration_s)

    def activate(self):
        self.loop.switch_on()
        self.loop.take_up_slack(0.25, lambda sentence: None)
        self.loop.obey()

    def command(self, displacement_m, duration_s=PERIOD_S):
        """The same command, from home, in every cycle."""
        for _ in range(max(1, round(duration_s / PERIOD_S))):
            self.sequence += 1
            self.loop.cycle.command(np.asarray(displacement_m).tolist(), self.pace.now_s(), self.sequence)
            self.pace.run_one()

    @property
    def place_m(self):
        """Of the servos, from home."""
        return self.servos.place_m - self.servos.zero_m
