# SPDX-License-Identifier: Apache-2.0
"""Published results judged by two engines: every shipped file, and files that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pictures import shows_something

from continuum_robot.app.command_line import main
from continuum_robot.errors import RobotFileError
from continuum_robot.experiments import published
from continuum_robot.experiments.published import judge, load_published
from continuum_robot.robot.file.shipped_files import shipped_folders

FOLDER = shipped_folders("published")[0]
DO_NOT_HOLD = {"nouredeen_5mm", "tdcr_control_vcref"}


def changed(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "published.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_engines_agree_on_each_shipped_result_and_its_verdict_is_known(file: Path) -> None:
    found = judge(load_published(file))
    assert found.agree
    assert found.stable
    assert found.holds is (file.stem not in DO_NOT_HOLD)
    assert max(row.errors[2] for row in found.rows) < 1e-7


def test_the_command_says_whether_it_holds_and_draws_it(tmp_path: Path, capsys) -> None:
    picture = tmp_path / "shape.png"
    assert main(["compare", "till_straight", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "holds: within" in out
    assert "Till (2022)" in out
    assert shows_something(picture)
    assert main(["compare", str(FOLDER / "tdcr_control_vcref.yaml")]) == 1
    out = capsys.readouterr().out
    assert re.search(r"does not hold: both engines agree within \S+ mm and differ from the published by 121 mm", out)
    assert "Cause: The solver stops" in out


def test_engines_that_differ_judge_nothing(monkeypatch, capsys) -> None:
    monkeypatch.setattr(published, "ORDER", 1)  # too few functions for a helical tendon
    assert main(["compare", "till_helical"]) == 1
    assert "engines disagree: by" in capsys.readouterr().out


def test_deflection_tensions_and_a_robot_by_its_name_are_judged(tmp_path: Path) -> None:
    file = changed(
        tmp_path,
        "rucker_sag",
        ("tip_m: [-0.044, 0.0, null]", "tip_deflection_m: 0.0428\n  tensions_n: [0, 0, null, 0, 0, 0]"),
        ("tolerance_from", "tolerance_n: 1.0e-6\n  tolerance_from"),
    )  # fmt: skip
    found = judge(load_published(file))
    assert found.holds
    assert [row.name for row in found.rows] == ["tip deflection", "tensions"]


def test_tensions_of_held_tendons_are_each_engines_own(tmp_path: Path) -> None:
    tensions = "  tensions_n: [null, 0.0, 0.0, 0.0]\n  tolerance_n: 1.0e-6\n"
    file = changed(tmp_path, "till_displacement", ("  tolerance_m", f"{tensions}  tolerance_m"))
    found = judge(load_published(file))
    row = found.rows[-1]
    assert row.rod[0] == pytest.approx(row.cosserat[0], rel=1e-6)
    assert row.rod[0] > 1
    assert found.holds


@pytest.mark.parametrize(
    ("name", "old", "new", "key", "expected"),
    [
        ("till_straight", "  tip_m:", "  tip_mm:", "published.tip_mm", "did you mean 'tip_m'"),
        ("till_straight", "[15.0, 0.0, 0.0, 0.0]", "[15.0, 0.0, 0.0]", "load.tensions_n", "4 values"),
        ("till_straight", "  tolerance_rad: 5.0e-6\n", "", "published.tolerance_rad", "this key"),
        ("till_straight", "  tolerance_m", "  tolerance_n: 1.0\n  tolerance_m", "published.tolerance_n", "beside it"),
        ("till_straight", "length_m: 0.5", "length_m: -0.5", "robot.segments[0].length_m", "(0, 10] m"),
        ("till_straight", "tensions_n", "displacements_m: [0]\n  tensions_n", "load.displacements_m", "not both"),
        ("till_straight", "0.182212, 0.0, 0.453229", "null, null, null", "published.tip_m", "a number among them"),
        ("nouredeen_5mm", "[0.005, null, null]", "[null, null, null]", "load.displacements_m", "a number among them"),
        ("till_straight", "  authors: Till\n", "", "source.authors", "this key"),
        ("rucker_sag", "robot: rucker", "robot: ruker", "robot", "did you mean rucker?"),
        ("sorosim_steel", "s_m: 0.6,", "s_m: 0.7,", "load.wrenches[1].s_m", "at most the length"),
        ("rucker_sag", "robot: rucker", "robot: rolling_five_link", "robot", "a robot with a backbone"),
        ("rucker_sag", "robot: rucker\n", "", "robot", "this key"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_by_key(tmp_path: Path, name: str, old: str, new: str, key: str, expected: str) -> None:
    file = changed(tmp_path, name, (old, new))
    with pytest.raises(RobotFileError, match=re.escape(expected)) as caught:
        load_published(file)
    assert (caught.value.file, caught.value.key) == (file, key)
    assert main(["compare", str(file)]) == 2
