# SPDX-License-Identifier: Apache-2.0
"""The error of the true tip in a report."""

import numpy as np
import pytest

from continuum_robot.app.recordings.reading import Series
from continuum_robot.app.report.numbers import track_tip
from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("ftdcr_v4")


def series(time_s, **fields):
    return Series(time_s, time_s, np.arange(len(time_s)), fields, {})


def test_the_true_tip_is_compared_with_that_of_the_reference_after_the_blend():
    reference_s, truth_s = np.arange(0.0, 4.0, 0.01), np.arange(0.5, 6.0, 0.03)
    clarke = np.sin(np.outer(reference_s, np.arange(1, 7))) * 1e-3
    drawing = robot_model(ROBOT).drawing()
    wanted = np.stack([np.interp(truth_s, reference_s, column) for column in clarke.T], axis=1)
    tip = np.zeros((len(truth_s), 7))
    tip[:, :3] = [drawing.pose(drawing.coefficients(row), ROBOT.length_m)[:3, 3] for row in wanted]
    tip[:, 0] += np.where(truth_s < 2.0, 0.5, 3e-3)  # far off in the blend
    tip[:, 1] += np.where(truth_s < 2.0, 0.0, 4e-3)
    found = track_tip(series(truth_s, tip=tip), series(reference_s, position=clarke), ROBOT, blend_s=2.0)
    assert found.time_s[-1] <= reference_s[-1]  # not where no reference came
    assert found.rmse_m == pytest.approx(5e-3, rel=1e-6)
    assert not found.evaluated[found.time_s < 2.0].any()
