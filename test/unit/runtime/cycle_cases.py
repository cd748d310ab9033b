# SPDX-License-Identifier: Apache-2.0
"""Robots, settings and states for the tests of the controller's cycle."""

from __future__ import annotations

import dataclasses

import numpy as np

from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.robot.control_settings import ControlSettings, InverseDynamicsSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.forms import INTERPRETED

PERIOD_S = 1e-3
TIMEOUT_S = 0.02
PLACE_M = np.array([2e-3, -1e-3])
TENSION_N = np.array([1.0, 3.0, 2.0, 0.7, 1.5])


def robot_with(name="opencr_five_tendon", gains=None, **control):
    """A robot of the repository with other gains and control settings."""
    robot = load_robot(name)
    entries = tuple(dataclasses.replace(one, **(gains or {})) for one in robot.control.gains)
    return dataclasses.replace(robot, control=dataclasses.replace(robot.control, gains=entries, **control))


def random_settings(robot, rng, antiwindup, strategy):
    """Gains, bounds and feed-forward of any size, zero among them."""
    gains = tuple(
        dataclasses.replace(
            one,
            p=rng.choice([0.0, 3e3 * rng.random()]),
            i=rng.choice([0.0, 5e4 * rng.random()]),
            d=rng.choice([0.0, 200 * rng.random()]),
            u_clamp_max=rng.uniform(1, 30),
            u_clamp_min=-rng.uniform(1, 30),
            i_clamp_max=rng.uniform(0.5, 20),
            i_clamp_min=-rng.uniform(0.5, 20),
            antiwindup_strategy=antiwindup,
            tracking_time_constant=rng.choice([0.0, 0.0005, 0.2]),
            error_deadband=rng.choice([0.0, 1e-3]),
            derivative_filter_time=rng.choice([0.0, 5e-3]),
            reference_velocity_weight=rng.choice([0.0, 0.4, 1.0]),
        )
        for one in robot.control.gains
    )
    return ControlSettings(
        gains=gains,
        tendon_forces=strategy,
        pretension_n=rng.uniform(0, 2),
        feedforward_stiffness=rng.choice([0.0, 0.6]),
        feedforward_gravity=rng.choice([0.0, 1.0]),
        feedforward_friction=rng.choice([0.0, 0.8]),
        inverse_dynamics=InverseDynamicsSettings(
            observer_rate_per_s=rng.choice([0.0, 60 * rng.random()]), friction=rng.random()
        ),
        state_timeout_s=robot.control.state_timeout_s,
    )


class Loop:
    """A driver that reads every period and hands everything to the cycle."""

    def __init__(self, robot=None, controller=None, forms=None, feedforward=None, blend_s=1.0):
        forms = forms or INTERPRETED
        self.robot = robot or robot_with()
        self.controller = controller or forms.ClarkeController(self.robot, feedforward)
        self.manifold = self.controller.manifold
        self.reference = forms.ReferenceInput(self.robot.coordinate_count, blend_s)
        self.cycle = forms.ControllerCycle(self.controller, self.reference, TIMEOUT_S, PERIOD_S)
        self.buffer = forms.ReadingBuffer(self.robot.tendon_count)
        self.now_s, self.sequence = 100.0, 5000

    def state(self, place=PLACE_M, *, following=True, commanded=TENSION_N, after_s=PERIOD_S, steps=1, **changes):
        """The next state, with what ``changes`` replaces in its reading: whether it was answered."""
        self.now_s += after_s
        self.sequence += steps
        count = self.robot.tendon_count
        values = {
            "stamp_s": self.now_s,
            "displacement_m": self.manifold.displacement(place),
            "velocity_m_per_s": np.zeros(count),
            "tension_n": np.full(count, 2.0),
            "current_a": np.zeros(count),
            "temperature_c": np.full(count, 30.0),
            "age_s": np.zeros(count),
            "device_faults": (),
        }
        self.buffer.set(TendonReading(**(values | changes)))
        return self.cycle.answer_state(self.buffer, commanded, following, self.now_s, self.sequence)

    def follow(self, position, velocity=(0.0, 0.0)):
        """A reference for now."""
        given = ClarkeReference(np.array(position), np.array(velocity), np.zeros(2))
        assert self.reference.receive(given, self.now_s)

    def force(self):
        return np.array(self.cycle.generalized_force)

    def counters(self):
        names = ("received", "answered", "stale", "not_finite", "lost", "restarts")
        return tuple(getattr(self.cycle, name) for name in names)
