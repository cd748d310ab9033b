# SPDX-License-Identifier: Apache-2.0
"""The command ``continuum-robot workspace``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pictures import shows_something

from continuum_robot.app.command_line import main


def test_two_designs_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot, numbers = tmp_path / "new" / "workspace.png", tmp_path / "workspace.json"
    command = ["workspace", "rucker", "--compare", "rucker_helical", "--tension", "5", "--samples", "40"]
    assert main([*command, "--plot", str(plot), "--json", str(numbers)]) == 0
    assert "largest_tilt_deg" in capsys.readouterr().out
    assert shows_something(plot)
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert found["rucker_without_equilibrium"] == found["rucker_helical_unstable"] == 0
    assert found["rucker_largest_tilt_deg"] > 5 * found["rucker_helical_largest_tilt_deg"]
    # Weight turns the rod at rest a little.
    assert found["rucker_tip_stiffness_1_at_rest_n_per_m"] > 1000 * found["rucker_tip_stiffness_3_at_rest_n_per_m"]


def test_a_robot_of_several_segments_without_gravity(tmp_path: Path) -> None:
    numbers = tmp_path / "workspace.json"
    assert main(["workspace", "two_segment", "--samples", "30", "--weightless", "--json", str(numbers)]) == 0
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert found["two_segment_tensions"] == 30
    # Without load parallel tendons give constant strain, which is what this robot's basis has.
    assert found["two_segment_not_represented_by_the_basis"] == 0


@pytest.mark.parametrize(
    ("words", "reported"),
    [(["nobody"], "nobody"), (["rucker", "--compare", "nobody"], "nobody"), (["rucker", "--samples", "0"], "samples")],
)
def test_wrong_words_are_refused(words: list[str], reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workspace", *words]) == 2
    assert reported in capsys.readouterr().err
