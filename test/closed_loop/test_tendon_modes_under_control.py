# SPDX-License-Identifier: Apache-2.0
"""Robots whose tendons are not parallel, under the shipped cycle: tracking and tip control by tendon modes."""

import numpy as np
import pytest
from virtual_loop import VirtualLoop, rmse

from continuum_robot.control.references import RestToRest
from continuum_robot.control.tip.control import TipControl
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import controlled_manifold

ROBOTS = ("rucker_helical", "rucker", "mixed_routing")
SHAPE_EVERY = 10  # cycles


@pytest.fixture
def loop(request):
    loop = VirtualLoop(load_robot(request.param), seed=1)
    loop.activate(2 * loop.robot.limits.safe_n)
    yield loop
    loop.close()


@pytest.mark.parametrize("loop", ROBOTS, indirect=True)
def test_references_are_tracked_without_fault_and_without_slack(loop):
    record = loop.run(3.0)
    assert loop.faults == []
    assert rmse(record, after_s=1.0).max() < 120e-6
    settled = record["time_s"] > 1.0
    assert record["tension"][settled].min() > 0
    # The linear program leaves all but as many tendons as coordinates at the pretension; where the limit of the rate
    # acts, all tendons are still under way.
    pulled = record["command"][settled] > loop.robot.control.pretension_n + 1e-6
    assert np.mean(pulled.sum(axis=1) <= loop.robot.coordinate_count) > 0.65


class TipReference:
    """What the node reference_source does: the tip's error, estimated from the tendons, moves the reference."""

    def __init__(self, loop, target):
        self.loop, self.control = loop, TipControl(loop.robot)
        self.estimator = ShapeEstimator(loop.robot)
        self.control.reset(self._measured())
        self.solution = self.control.set_target(target)
        self.output, self.calls = None, 0

    def _measured(self):
        return controlled_manifold(self.loop.robot).clarke(self.loop.reading.displacement_m)

    def at(self, _time_s):
        if self.output is None or self.calls % SHAPE_EVERY == 0:
            reading = self.loop.reading
            shape = self.estimator.update(reading.displacement_m, reading.velocity_m_per_s)
            self.output = self.control.update(shape.tip[:3, 3], self._measured(), SHAPE_EVERY * 1e-3)
        self.calls += 1
        return self.output.reference


@pytest.mark.parametrize("loop", ["rucker", pytest.param("mixed_routing", marks=pytest.mark.long)], indirect=True)
def test_the_tip_is_brought_to_a_target_that_the_linear_shape_misses(loop):
    robot, rod = loop.robot, Rod(loop.robot)

    def tip():
        return rod.poses(loop.body.plant.c, robot.length_m)[0][:3, 3]

    def go(reference, duration_s):
        loop.reference, loop.reference_start_s = reference, loop.now_s
        loop.run(duration_s)

    there = np.zeros(robot.coordinate_count)
    there[:2] = 3e-3, 1.5e-3
    go(RestToRest(0 * there, there, 1.0), 2.0)
    target = tip()
    go(RestToRest(there, 0 * there, 1.0), 1.5)
    begun = np.linalg.norm(tip() - target)
    reference = TipReference(loop, target)
    missed = np.linalg.norm(reference.control.kinematics.place(there)[0] - target)
    go(reference, 5.0)
    # Cogging shakes the coordinates by 0.1 mm, and the tip by fifteen times as much: the mean place counts.
    places = []
    loop.run(2.0, lambda _loop: places.append(tip()) if loop.cycle % SHAPE_EVERY == 0 else None)
    assert loop.faults == []
    assert begun > 5e-3
    assert missed > 1e-3
    assert np.linalg.norm(np.mean(places, axis=0) - target) < 1e-3
