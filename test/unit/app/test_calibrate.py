# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: what it refuses, before any fit."""

import pytest
from typer.testing import CliRunner

from continuum_robot.app.command_line import application
from continuum_robot.app.procedures.calibrate import run_calibrate
from continuum_robot.errors import ParameterError, RecordingError


def test_unknown_kinds_and_robots_without_capstans_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="dynamics"):
        run_calibrate("geometry", "vanderbilt_segment", None, tmp_path / "out.yaml")
    with pytest.raises(ParameterError, match="capstans"):
        run_calibrate("dynamics", "two_segment", None, tmp_path / "out.yaml")
    assert not (tmp_path / "out.yaml").exists()


def test_a_recording_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RecordingError, match=r"none\.csv"):
        run_calibrate("dynamics", "vanderbilt_segment", tmp_path / "none.csv", tmp_path / "out.yaml")


def test_the_command_explains_itself():
    answer = CliRunner().invoke(application, ["calibrate", "--help"])
    assert answer.exit_code == 0
    assert "chirp" in answer.output
