# SPDX-License-Identifier: Apache-2.0
"""The delay margin of a robot file, on the simulated robot in virtual time: late commands ring up just beyond it."""

import dataclasses
from collections import deque

import numpy as np
import pytest

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.delay_margin import delay_margin_s
from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant

PERIOD_S = 1e-3
PUSHED_M = 2e-4


def without_dry_friction(robot):
    """Dry friction holds small motions, whatever the loop does; the margin is that of the loop without it."""
    actuators = dataclasses.replace(robot.actuators, coulomb_friction_nm=0.0, cogging_amplitude_nm=0.0)
    segments = tuple(
        segment
        if segment.capstans is None
        else dataclasses.replace(
            segment, capstans=dataclasses.replace(segment.capstans, friction_coefficients=(0.0, 0.0))
        )
        for segment in robot.segments
    )
    return dataclasses.replace(robot, actuators=actuators, segments=segments)


def amplitudes(robot, plant, delay_s, duration_s):
    """Largest error of the Clarke coordinates in each quarter of the time, with every command late by the same time.

    The usual delay of a cycle comes first: what answers a reading is written at the next one.
    """
    plant.reset()
    actuators = SimulatedTendonActuators(robot, plant)
    actuators.open()
    actuators.enable()
    controller = ClarkeController(robot, clarke_feedforward(robot))
    reading = actuators.read(0.0)
    target = ClarkeReference.at_rest(np.full(robot.coordinate_count, PUSHED_M))
    held = np.full(robot.tendon_count, robot.control.pretension_n)
    controller.reset(reading.displacement_m, held, velocity=reading.velocity_m_per_s)
    waiting = deque([held] * (1 + round(delay_s / PERIOD_S)))
    error = []
    for cycle in range(1, round(duration_s / PERIOD_S)):
        now_s = cycle * PERIOD_S
        reading = actuators.read(now_s)
        answer = controller.update(reading.displacement_m, reading.velocity_m_per_s, target, PERIOD_S)
        waiting.append(answer.command)
        actuators.write(waiting.popleft(), now_s)
        error.append(np.abs(target.position - answer.clarke).max())
    return [part.max() for part in np.array_split(np.array(error), 4)]


@pytest.mark.parametrize(("name", "duration_s"), [("opencr_five_tendon", 2.0), ("vanderbilt_segment", 6.0)])
def test_late_commands_ring_up_beyond_the_margin_and_settle_below_it(name, duration_s):
    robot = without_dry_friction(load_robot(name))
    margin_s = delay_margin_s(robot).margin_s
    plant = Plant(robot)
    below = amplitudes(robot, plant, 0.7 * margin_s, duration_s)
    beyond = amplitudes(robot, plant, 1.5 * margin_s, duration_s)
    assert below[-1] < 0.2 * PUSHED_M
    assert below[-1] < 0.2 * below[0]
    assert beyond[-1] > PUSHED_M
    assert beyond[-1] > 5 * below[-1]
