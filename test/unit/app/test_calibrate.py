# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot calibrate``: what it refuses, before anything moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from continuum_robot.app.command_line import application, main
from continuum_robot.app.procedures import calibrate
from continuum_robot.app.procedures.identify_capstans import run_identify_capstans
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.robot.loading import load_robot

ROBOT = "three_segment_servo"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["opencr_five_tendon"], "continuum-robot identify"),
        (["vanderbilt_segment"], "continuum-robot identify"),
        ([ROBOT, "--load", "90"], "load_n"),
        ([ROBOT, "--load", "4"], "room to bend"),
        ([ROBOT, "--hardware"], "hardware.tracker"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.yaml"
    assert main(["calibrate", *arguments, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_on_hardware_it_asks_before_it_opens_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> None:
        raise AssertionError("opened before it asked")

    asked: list[str] = []

    def ask(sentence: str) -> None:
        asked.append(sentence)
        raise ParameterError("move", "no", "yes")

    monkeypatch.setattr(calibrate.backends, "tracker", lambda _robot: None)
    monkeypatch.setattr(calibrate, "opened", opened)
    with pytest.raises(ParameterError, match="move"):
        calibrate.run_calibrate(ROBOT, False, tmp_path / "out.yaml", ask=ask)
    assert len(asked) == 1


def test_a_recording_of_capstans_that_is_not_there_is_named(tmp_path: Path) -> None:
    robot = load_robot("vanderbilt_segment")
    with pytest.raises(RecordingError, match=r"none\.csv"):
        run_identify_capstans(robot, tmp_path / "none.csv", tmp_path / "out.yaml")
    bare = robot.changed(segments=tuple(replace(one, capstans=None) for one in robot.segments))
    with pytest.raises(ParameterError, match="capstans"):
        run_identify_capstans(bare, None, tmp_path / "out.yaml")


def test_the_command_explains_itself() -> None:
    answer = CliRunner().invoke(application, ["calibrate", "--help"])
    assert answer.exit_code == 0
    assert "tracker" in answer.output
