# SPDX-License-Identifier: Apache-2.0
"""Servos that hold displacements, with dry friction and loops that lag and droop, in the driver's cycle."""

from __future__ import annotations

import numpy as np
from virtual_loop import VirtualLoop

from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.loading import load_robot

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
    assert not loop.fault_log
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
    assert not loop.fault_log
