# SPDX-License-Identifier: Apache-2.0
"""Gains by the gradient of a simulated run: against differences, and what they keep of what the rule was asked for."""

import math

import numpy as np
import pytest

from continuum_robot.control.delay_margin import delay_margin_s
from continuum_robot.control.gain_gradient import GainObjective, tune_by_gradient
from continuum_robot.control.references import make_reference
from continuum_robot.control.tuning import tune
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.kernel.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="the kernel is not built")


@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_the_gradient_by_gains_is_that_of_differences(cycles):
    robot = load_robot("two_segment")
    reference = make_reference(robot.reference, robot.coordinate_count)
    run = GainObjective(robot, reference, period_s=1e-3, computing_cycles=cycles, duration_s=0.06)
    gains = np.array([[one.p, one.i, one.d] for one in robot.control.gains])
    cost, found = run.value_and_gradient(gains)
    assert cost == run.value(gains) > 0
    for place in np.ndindex(gains.shape):
        step = np.zeros_like(gains)
        step[place] = 1e-3 * gains[place]
        slope = (run.value(gains + step) - run.value(gains - step)) / (2 * step[place])
        assert found[place] == pytest.approx(slope, rel=1e-5)


def test_gains_by_gradient_keep_the_margins_and_leave_less_error():
    robot = load_robot("opencr_five_tendon")
    reference = make_reference(robot.reference, robot.coordinate_count)
    rule = tune(robot, phase_margin_rad=math.radians(50), period_s=0.002, computing_cycles=2)
    found = tune_by_gradient(robot, rule, reference, duration_s=0.5, iterations=3)
    assert found.found_m < 0.9 * found.rule_m
    better = robot.changed(control=found.tuning.control)
    margins = delay_margin_s(better, computing_cycles=2, period_s=0.002)
    assert margins == found.tuning.margins
    assert margins.phase_margin_rad >= math.radians(50)
    assert margins.gain_margin >= 2.5


@pytest.mark.parametrize("name", ["rolling_five_link", "three_segment_servo"])
def test_what_has_no_rod_or_no_tensions_is_refused(name):
    robot = load_robot(name)
    with pytest.raises(ParameterError, match="the rule alone"):
        GainObjective(robot, make_reference(robot.reference, robot.coordinate_count), period_s=1e-3)
