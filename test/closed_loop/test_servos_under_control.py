# SPDX-License-Identifier: Apache-2.0
"""Servos that hold displacements, with dry friction and loops that lag and droop, in the driver's cycle."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
from changed_robots import stiffer, with_tendons
from virtual_loop import VirtualLoop

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.drivers.ndi_serial.settings import NdiSerial
from continuum_robot.robot.control_settings import BY_LOAD
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.simulation_settings import WiringErrors
from continuum_robot.simulation.plant import Plant
from continuum_robot.testing.virtual_stack import VirtualStack

ROBOT = load_robot("three_segment_servo")


class Rising:
    """The robot's reference, begun from rest."""

    def __init__(self, reference):
        self._reference = reference

    def at(self, time_s):
        desired, part = self._reference.at(time_s), min(1.0, time_s / 2)
        return ClarkeReference(part * desired.position, part * desired.velocity, part * desired.acceleration)


def test_the_rod_follows_and_no_tendon_goes_slack():
    loop = VirtualLoop(ROBOT)
    loop.activate()
    loop.reference = Rising(loop.reference)
    rows = []

    def look(running):
        plant = running.body.plant
        if running.now_s > 2.5:
            true = running.controller.manifold.clarke(plant.rod_displacement)
            rows.append((true - running.desired.position, plant.tension, running.controller.clarke))

    loop.run(5.5, look)
    assert not loop.faults
    assert loop.controller.unsolved == 0
    error, tension, _ = (np.array(column) for column in zip(*rows, strict=True))
    assert np.sqrt(np.mean(error**2, axis=0)).max() < 5e-5
    assert tension.min() > 0


def test_it_holds_still_where_it_was_activated():
    loop = VirtualLoop(ROBOT)
    loop.activate()
    loop.reference = type("Rest", (), {"at": lambda _self, _time_s: ClarkeReference.at_rest(np.zeros(6))})()
    commands = []
    loop.run(2.0, lambda running: commands.append(np.array(running.safety.commanded)))
    moved = np.array(commands[2:])
    fastest = np.abs(np.diff(moved, axis=0)).max() / loop.period_s
    assert fastest < 3 * np.abs(moved[-1] - moved[0]).max() + 1e-9, "the pretension comes within a second, evenly"
    assert np.ptp(moved[-40:], axis=0).max() < 1e-6, "dry friction and encoder steps leave no limit cycle"
    assert not loop.faults


def test_tip_and_loads_that_are_measured_correct_a_robot_that_is_not_as_its_file():
    """Stiffer by a tenth, other tendons, slack: the integrals bring the tip there and leave no tendon loose."""
    settings = replace(ROBOT.control, integral_per_s=3.0, pretension_by=BY_LOAD)
    tracker = NdiSerial(kind="ndi_serial", port="/dev/tracker")
    believed = ROBOT.changed(hardware=replace(ROBOT.hardware, tracker=tracker))
    slack = WiringErrors(slack_m=tuple(np.linspace(0.0, 6e-4, ROBOT.tendon_count)))
    truth = with_tendons(stiffer(ROBOT, 1.1), 1.3e4)
    truth = truth.changed(simulation=replace(truth.simulation, truth="", wiring_errors=slack))
    plant = Plant(truth)
    stack = VirtualStack(truth, plant, believed=believed)
    place = np.array([4e-3, 1e-3, -2e-3, 2e-3, 1e-3, 1e-3])
    desired, late, missed_m, least_n = TipKinematics(believed).place(place)[0], deque(maxlen=6), [], []

    def look(running):
        tip = plant.pose(truth.length_m)[:3, 3]
        late.append((tip, running.now_s))
        running.controller.see_tip(*late[0])  # 25 ms ago
        missed_m.append(float(np.linalg.norm(tip - desired)))
        least_n.append(float(plant.tension.min()))

    stack.activate()
    stack.follow(lambda time_s: ClarkeReference.at_rest(min(time_s, 1.0) * place), 1.5, look)
    stack.controller.set_settings(settings)
    stack.follow(lambda _time_s: ClarkeReference.at_rest(place), 3.0, look)
    stack.close()
    half = len(missed_m) // 3
    assert missed_m[half - 1] > 2e-3
    assert np.mean(missed_m[-40:]) < 2e-4
    friction_n = ROBOT.actuators.coulomb_n
    assert least_n[half - 1] < ROBOT.control.pretension_n - friction_n < min(least_n[-40:])
