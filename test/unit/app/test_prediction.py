# SPDX-License-Identifier: Apache-2.0
"""``replay FILE.csv``: how well a robot file predicts the marker of a recording."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from continuum_robot.app.command_line import main
from continuum_robot.identification.replay import marker_in_tracker, tip_poses
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.loading import load_robot

BARE_ROD = Path(__file__).parents[2] / "robots/bare_rod.yaml"


def made_up_recording(folder: Path, samples: int) -> tuple[Path, Path, float]:
    """A robot file and a recording of it with a known error; the error's root mean square, mm."""
    text = BARE_ROD.read_text(encoding="utf-8")
    columns = [f"servo_{number}_mm" for number in range(1, 10)]
    robot_file = folder / "robot.yaml"
    robot_file.write_text(
        f"{text}\nrecording:\n  displacement_columns: {columns}\n  displacement_signs: {[1.0] * 9}\n".replace("'", "")
    )
    robot = load_robot(robot_file)
    generator = np.random.default_rng(3)
    clarke = generator.uniform(-0.002, 0.002, (samples, 6))
    displacement = clarke_manifold(robot).displacement(clarke)
    marker = marker_in_tracker(robot, tip_poses(robot, clarke))
    error = 0.003 * np.where(np.arange(samples) % 2, 1.0, -1.0)
    marker[:, 0] += error
    data = folder / "data.csv"
    with data.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["timestamp", "pattern_label", *columns, "tip_x", "tip_y", "tip_z"])
        for index in range(samples):
            writer.writerow([0.05 * index, "made_up", *(1e3 * displacement[index]), *(1e3 * marker[index])])
    return robot_file, data, 3.0


def test_the_error_of_the_marker_is_measured(tmp_path: Path) -> None:
    robot_file, data, rmse_mm = made_up_recording(tmp_path, 40)
    assert main(["replay", str(data), "--robot", str(robot_file), "--json", str(tmp_path / "numbers.json")]) == 0
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["n_samples"] == 40
    assert numbers["tip_rmse_mm"] == pytest.approx(rmse_mm, rel=1e-3)


def test_what_cannot_be_compared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot_file, data, _ = made_up_recording(tmp_path, 4)
    assert main(["replay", str(data), "--robot", "ftdcr_v4"]) == 2
    assert "recording" in capsys.readouterr().err
    assert main(["replay", str(data), "--robot", str(robot_file), "--realtime"]) == 2
    assert "--realtime" in capsys.readouterr().err
