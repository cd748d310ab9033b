# SPDX-License-Identifier: Apache-2.0
"""The stored floor of a contact monitor: it comes back to the last digit, and only for what learnt it."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from continuum_robot.errors import DeviceError
from continuum_robot.estimation.contact.floor_learning import Learnt
from continuum_robot.estimation.contact.free_motion import Floor, FreeMotion
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings
from continuum_robot.identification.procedures.record import (
    floor_path,
    load_floor,
    make_floor_record,
)
from continuum_robot.robot.loading import load_robot

ROBOT = load_robot("vanderbilt_segment")  # without a hardware section
SETTINGS = MonitorSettings(method=KALMAN)
RNG = np.random.default_rng(1)
FACTOR = RNG.normal(size=(6, 6))
MOTION = FreeMotion(RNG.normal(size=9), FACTOR @ FACTOR.T, 17.25, RNG.uniform(1, 2, 6))
LEARNT = Learnt(Floor(RNG.uniform(1, 2, 6), MOTION), 20.0, RNG.uniform(0, 0.01, 4), 0.7, 3.1)


def stored(folder, learnt=LEARNT, settings=SETTINGS):
    path = floor_path(ROBOT, settings.method, folder)
    make_floor_record(ROBOT, settings, "dynamics", learnt).store(path)
    return path


def test_it_comes_back_to_the_last_digit(tmp_path):
    path = stored(tmp_path)
    assert path.name == "vanderbilt_segment.floor.kalman_disturbance_observer.yaml"
    record = load_floor(ROBOT, SETTINGS, "dynamics", path)
    found = record.floor
    np.testing.assert_array_equal(found.bound, LEARNT.floor.bound)
    for name in ("fractions", "covariance", "information", "evidence", "bound"):
        np.testing.assert_array_equal(getattr(found.motion, name), getattr(MOTION, name))
    assert (record.duration_s, record.least_tip_force_n) == (20.0, 0.7)
    assert "20 s" in LEARNT.sentence()


def test_a_method_without_a_covariance_has_its_bound_alone(tmp_path):
    settings = MonitorSettings(method="gmo")
    learnt = dataclasses.replace(LEARNT, floor=Floor(LEARNT.floor.bound, None), least_tip_force_n=float("inf"))
    record = load_floor(ROBOT, settings, "dynamics", stored(tmp_path, learnt, settings))
    assert record.floor.motion is None
    assert record.least_tip_force_n is None


@pytest.mark.parametrize(
    ("robot", "settings", "devices", "named"),
    [
        (load_robot("vanderbilt_two_segment"), SETTINGS, "dynamics", "robot"),
        (ROBOT, SETTINGS, "hardware", "devices"),
        (ROBOT, MonitorSettings(method="gmo"), "dynamics", "method"),
        (ROBOT, dataclasses.replace(SETTINGS, force_walk_n_per_sqrt_s=5.0), "dynamics", "settings"),
    ],
)
def test_that_of_something_else_is_refused_by_name(tmp_path, robot, settings, devices, named):
    path = stored(tmp_path)
    with pytest.raises(DeviceError, match=f"with another {named} "):
        load_floor(robot, settings, devices, path)


def test_that_of_another_robot_file_is_refused(tmp_path):
    path = stored(tmp_path)
    changed = tmp_path / "robot.yaml"
    changed.write_text(Path(ROBOT.file_name).read_text() + "# another\n")
    with pytest.raises(DeviceError, match="with another robot file "):
        load_floor(load_robot(changed), SETTINGS, "dynamics", path)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("evidence: 17.25", "evidence: -1.0", "motion.evidence"),
        ("schema_version: 1", "schema_version: 2", "schema_version"),
        ("motion:", "motions:", "motions"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(tmp_path, before, after, named):
    path = stored(tmp_path)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(DeviceError, match=named):
        load_floor(ROBOT, SETTINGS, "dynamics", path)


def test_a_covariance_that_is_none_is_refused(tmp_path):
    wrong = dataclasses.replace(
        LEARNT,
        floor=Floor(
            LEARNT.floor.bound, FreeMotion(MOTION.fractions, np.diag([1.0, 1, 1, 1, 1, -1]), 1.0, MOTION.bound)
        ),
    )
    with pytest.raises(ValueError, match="covariance"):
        stored(tmp_path, wrong)


def test_where_there_is_none_it_says_to_learn_it(tmp_path):
    with pytest.raises(DeviceError, match="continuum-robot learn-floor"):
        load_floor(ROBOT, SETTINGS, "dynamics", floor_path(ROBOT, KALMAN, tmp_path))
