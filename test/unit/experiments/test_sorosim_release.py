# SPDX-License-Identifier: Apache-2.0
"""Releases: a file written by other time stepping, bad files, and the recordings where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pictures import shows_something
from reference_data import reference_file

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.experiments.experiment import experiments
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.moving_rod import MovingRod
from validation.sorosim.release import read_release
from validation.sorosim.statics import OURS, StaticsSettings, round_rod, wrenches

SOFT = {"length": 0.3, "radius": 0.01, "youngs_modulus": 1e6, "poisson_ratio": 0.45, "density": 1000.0}
GRAVITY = np.array([1.0, -2.0, -6.0])
WRENCH = np.array([0.03, 0.02, 0.0, 0.0, 0.001, 0.002])


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    """A soft rod's release by another method in short steps, in the file's axes."""
    settings = StaticsSettings(data="", **SOFT)
    rod = Rod(round_rod(settings, 1)).with_gravity(GRAVITY)
    rod.arrays.damping[:] = 0.02 * rod.arrays.stiffness
    held = rod.loaded(wrenches(settings, 0 * WRENCH, WRENCH)).equilibrium()
    times = np.linspace(0, 0.1, 21)
    moving = MovingRod(rod, method="midpoint")
    moving.reset(held.c)
    motion = moving.follow(times, 2e-4)
    places = np.array([rod.poses(c, [0.15, 0.3])[:, :3, 3] for c in motion.c]) @ OURS
    rows = np.zeros((len(times) + 2, 13))
    rows[0, 0], rows[0, 10:] = 0.02, OURS.T @ GRAVITY
    rows[1, 7:10], rows[1, 10:] = OURS.T @ WRENCH[3:], OURS.T @ WRENCH[:3]
    rows[2:, 0], rows[2:, 4:7], rows[2:, 10:] = times, places[:, 0], places[:, 1]
    file = tmp_path_factory.mktemp("release") / "release.txt"
    np.savetxt(file, rows, delimiter="\t")
    return file


def test_a_release_is_met_and_drawn(recording, tmp_path):
    experiment = experiments()["sorosim.release"]
    result = experiment.run({"data": str(recording), "order": 1, "step_ms": 1.0, **SOFT})
    assert result["n_samples"] == 21
    assert result["tip_rmse_percent_of_length"] < 0.02
    assert result["held_tip_error_percent_of_length"] < 1e-6
    assert all(shows_something(file) for file in experiment.draw(result, tmp_path))
    undamped = recording.with_name("undamped.txt")
    lines = recording.read_text(encoding="utf-8").splitlines()
    lines[0] = "\t".join(["0", *lines[0].split("\t")[1:]])
    undamped.write_text("\n".join(lines), encoding="utf-8")
    other = experiment.run({"data": str(undamped), "order": 1, "step_ms": 1.0, **SOFT})
    assert other["tip_rmse_percent_of_length"] > 10 * result["tip_rmse_percent_of_length"]


@pytest.mark.parametrize("change", ["words", "short", "order", "damping"])
def test_bad_files_are_refused(recording, tmp_path, change):
    lines = recording.read_text(encoding="utf-8").splitlines()
    if change == "words":
        lines[3] = lines[3].replace("e", "x")
    elif change == "short":
        lines[3] = lines[3].rsplit("\t", 1)[0]
    elif change == "order":
        lines[3], lines[4] = lines[4], lines[3]
    else:
        lines[0] = "-" + lines[0]
    file = tmp_path / "bad.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(RecordingError, match=r"bad\.txt"):
        read_release(file)


def test_options_are_checked(recording):
    with pytest.raises(ParameterError, match="method"):
        experiments()["sorosim.release"].run({"data": str(recording), "method": "euler"})
    with pytest.raises(RecordingError, match="nowhere"):
        experiments()["sorosim.release"].run({"data": "nowhere.txt"})


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_steel_rod_moves_as_recorded(number):
    file = reference_file("sorosim", f"steel_release_{number}.txt")
    result = experiments()["sorosim.release"].run({"data": str(file), "duration_s": 1.0})
    assert result["tip_rmse_percent_of_length"] < 0.25
