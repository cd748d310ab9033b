# SPDX-License-Identifier: Apache-2.0
"""A blocked robot asks for more than its tendons may carry: direction of the force, integral, reported saturation."""

import dataclasses

import numpy as np
import pytest

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

DT = 1e-3


class BlockedRobot:
    """Controller and driver's safety logic on a robot whose disks an obstacle holds: its tendons stretch, no more."""

    def __init__(self, name):
        robot = load_robot(name)
        control = dataclasses.replace(
            robot.control, law="pid", feedforward_stiffness=0.0, feedforward_gravity=0.0, feedforward_friction=0.0
        )
        self.robot = robot = robot.changed(control=control)
        self.count, self.now_s, self.number = robot.tendon_count, 0.0, 0
        self.safety = TendonSafety(robot)
        self.controller = ClarkeController(robot)
        self.manifold = self.controller.manifold
        self.input = ReferenceInput(robot.coordinate_count, blend_s=0.0)
        self.cycle = ControllerCycle(self.controller, self.input, 1.0, DT)
        self.buffer = ReadingBuffer(self.count)
        self.tension = np.full(self.count, robot.control.pretension_n)
        self.safety.activate(self.reading(), 0.0)

    def reading(self):
        stretch_m = (self.tension - self.robot.control.pretension_n) / self.robot.tendon_stiffness_n_per_m
        nothing = np.full(self.count, np.nan)
        current_a = self.tension / self.robot.newton_per_ampere
        return TendonReading(
            self.now_s, stretch_m, np.zeros(self.count), self.tension, current_a, nothing, np.zeros(self.count)
        )

    def run(self, position, duration_s):
        position = np.asarray(position, dtype=float)
        for _ in range(round(duration_s / DT)):
            self.now_s += DT
            self.number += 1
            self.buffer.set(self.reading())
            self.input.receive(ClarkeReference.at_rest(position), self.now_s)
            self.cycle.limited = bool(self.safety.is_limited())
            assert self.cycle.answer_state(
                self.buffer, self.safety.commanded.tolist(), True, self.now_s, self.number
            )
            self.safety.step_once(
                self.buffer, list(self.cycle.command), self.count, 0.0, self.number, self.now_s, DT
            )
            assert self.safety.faults == ()
            self.tension = self.safety.commanded

    @property
    def realised(self):
        return self.manifold.generalized_force(self.tension)


@pytest.mark.parametrize("name", ["two_segment", "mixed_routing"])
def test_a_blocked_robot_keeps_its_direction_and_does_not_wind_up(name):
    blocked = BlockedRobot(name)
    gains = blocked.robot.control.gains[0]
    ahead = np.full(blocked.robot.coordinate_count, 0.5 * gains.u_clamp_max / gains.p)
    blocked.run(ahead, 3.0)
    asked, realised, terms = np.array(blocked.cycle.generalized_force), blocked.realised, blocked.controller.terms()
    assert np.linalg.norm(realised) < 0.98 * np.linalg.norm(asked)
    np.testing.assert_allclose(realised / np.linalg.norm(realised), asked / np.linalg.norm(asked), atol=0.01)
    assert terms.saturated.all()
    # Back-calculation ends where it takes away what integration adds: i e = (asked - realised) / T_t.
    parameters = blocked.controller.pid.parameters
    added = parameters.i * np.abs(terms.error) / parameters.back_calculation_rate
    assert np.all(np.abs(asked - realised) < 1.1 * added + 0.1)


def test_what_the_limits_do_not_touch_is_not_saturated():
    blocked = BlockedRobot("two_segment")
    blocked.run(np.full(4, 1e-4), 1.0)
    assert not blocked.controller.terms().saturated.any()
