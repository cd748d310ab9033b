# SPDX-License-Identifier: Apache-2.0
"""Sweeps: what a file may ask for, the same numbers however they are computed, and going on after an interruption."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import shows_something
from rich.console import Console

from continuum_robot.app.command_line import main
from continuum_robot.app.sweep.command import KEPT, run_sweep
from continuum_robot.app.sweep.file import Batch, Sweep
from continuum_robot.app.sweep.run import Follower
from continuum_robot.errors import ParameterError, RecordingError, RobotFileError
from continuum_robot.robot.file.plain_yaml import yaml_text
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.truth import true_robot
from continuum_robot.workers import IN_TURN, WorkerOptions

QUIET = Console(quiet=True)
P, STIFFNESS = "control.gains[0].p", "segments[0].bending_stiffness_nm2"
BASE: dict[str, Any] = {"version": 1, "robot": "opencr_five_tendon", "duration_s": 0.2, "blend_s": 0.1}
SMALL = BASE | {
    "grid": {P: [10000.0, 20000.0]},
    "random": {f"truth.{STIFFNESS}": {"low": 2.5e-3, "high": 3.5e-3}},
    "count": 2,
}


def written(folder: Path, values: dict[str, Any]) -> Path:
    file = folder / "small.yaml"
    file.write_text(yaml_text(values), encoding="utf-8")
    return file


def table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Table, numbers and what is printed of a small sweep, made as users make them."""
    folder = tmp_path_factory.mktemp("sweep")
    out, numbers = folder / "small.csv", folder / "small.json"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["sweep", str(written(folder, SMALL)), "--out", str(out), "--json", str(numbers)]) == 0
    return out, json.loads(numbers.read_text(encoding="utf-8")), said.getvalue()


def test_a_sweep_runs_every_combination_and_compares_them(done):
    out, numbers, said = done
    rows = table(out)
    assert [float(row[P]) for row in rows] == [10000.0, 10000.0, 20000.0, 20000.0]
    drawn = [float(row[f"truth.{STIFFNESS}"]) for row in rows]
    assert drawn[:2] == drawn[2:]
    assert 2.5e-3 <= min(drawn) < 3.0e-3 <= max(drawn) <= 3.5e-3  # one in each half of the range
    errors = [float(row["tip_rmse_m"]) for row in rows]
    assert numbers["best_tip_rmse_m"] == min(errors) == errors[numbers["best_tip_rmse_m_run"]]
    assert "no effect" not in said
    assert (numbers["runs"], numbers["runs_with_faults"], numbers["failed_runs"]) == (4, 0, 0)
    assert shows_something(out.with_suffix(".png"))


def test_a_run_is_the_robot_with_its_values_on_a_truth_that_differs(tmp_path):
    sweep = Sweep(written(tmp_path, SMALL))
    run = sweep.runs[2]
    robot, truth = sweep.material.robots(run.values)
    plain = load_robot("opencr_five_tendon")
    assert robot.control.gains[0].p == truth.control.gains[0].p == 20000.0
    assert robot.segments == plain.segments
    assert truth.segments[0].backbone.bending_stiffness_nm2 == pytest.approx(run.values[f"truth.{STIFFNESS}"])


def test_named_truths_and_what_follows_from_values(tmp_path):
    grid = {"truth": ["none", "opencr_five_tendon"], "limits.maximum_n": [10.0]}
    sweep = Sweep(written(tmp_path, BASE | {"grid": grid}))
    (robot, truth), (other, shipped) = (sweep.material.robots(run.values) for run in sweep.runs)
    assert truth is robot
    assert robot == other
    assert shipped == true_robot(robot, "opencr_five_tendon")
    assert robot.limits.total_n == pytest.approx(0.6 * 10.0 * 5)  # derived anew


def test_a_run_does_not_depend_on_the_runs_before_it(tmp_path):
    sweep = Sweep(written(tmp_path, SMALL | {"repeats": 2}))
    together = Batch(sweep.material, tuple(sweep.runs[:4])).run()
    assert [Batch(sweep.material, (run,)).run()[0] for run in sweep.runs[:4]] == together


def test_a_worker_makes_the_same_table(done, tmp_path):
    out = tmp_path / "small.csv"
    assert run_sweep(str(written(tmp_path, SMALL)), out, None, QUIET, WorkerOptions(1)) == 0
    assert out.read_bytes() == done[0].read_bytes()


def test_an_interrupted_sweep_goes_on_and_a_changed_one_is_refused(done, tmp_path):
    file, out = written(tmp_path, SMALL), tmp_path / "small.csv"
    kept = tmp_path / f"small.csv{KEPT}"
    program = [sys.executable, "-m", "continuum_robot.app.command_line", "sweep", str(file), "--out", str(out)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while process.poll() is None and not (kept.exists() and kept.read_bytes().count(b"\n") > 1):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        said = process.stdout.read()
    if process.returncode:  # else it was done before the signal came
        assert process.returncode == 130
        assert "the same command goes on" in said
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:2]) + lines[1][:20])  # as if it had been cut in the middle of the second run
    assert run_sweep(str(file), out, None, QUIET) == 0
    assert out.read_bytes() == done[0].read_bytes()
    assert kept.read_bytes().splitlines(keepends=True)[:2] == lines[:2]
    written(tmp_path, SMALL | {"duration_s": 0.3})
    with pytest.raises(RecordingError, match=r"duration_s was 0\.2, is 0\.3"):
        run_sweep(str(file), out, None, QUIET)


def test_a_fault_ends_a_run_and_other_runs_go_on(tmp_path, capsys):
    wrong: list[Any] = [{}, {"pulls_tendon": [3, 2, 1, 4, 5]}, {"polarity": [-1, 1, 1, 1, 1]}]
    values = BASE | {"duration_s": 0.5, "grid": {"truth.simulation.wiring_errors": wrong}}
    out = tmp_path / "small.csv"
    assert main(["sweep", str(written(tmp_path, values)), "--out", str(out)]) == 1
    good, swapped, turned = table(out)
    assert (good["faults"], good["problem"], float(good["followed_s"])) == ("", "", 0.5)
    assert swapped["faults"] == "inconsistent_displacement"
    assert float(swapped["fault_s"]) <= float(swapped["followed_s"]) < 0.5
    assert "cannot be activated" in turned["problem"]
    said = capsys.readouterr().out
    assert "inconsistent_displacement in 1 of 3 runs, the first of them run 1" in said
    assert "run 2: tendon driver: cannot be activated" in said


def test_parquet_has_a_column_for_each_key_and_metric(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="extra learn")
    slack = "truth.simulation.wiring_errors.slack_m"
    values = BASE | {"random": {slack: {"low": 0.0, "high": 1e-4, "size": 5}}, "count": 2}
    out = tmp_path / "small.parquet"
    assert run_sweep(str(written(tmp_path, values)), out, None, QUIET) == 0
    read = parquet.read_table(out)
    columns = read.to_pydict()
    assert str(read.schema.field("fault_s").type) == "double"  # though there is none
    assert np.shape(columns[slack]) == (2, 5)
    assert all(isinstance(value, float) for value in columns["tip_rmse_m"])


def test_a_parquet_table_needs_its_package_before_the_first_run(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ParameterError, match="extra learn"):
        run_sweep(str(written(tmp_path, SMALL)), tmp_path / "small.parquet", None, QUIET)
    assert not (tmp_path / f"small.parquet{KEPT}").exists()


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"grid": {"control.gains[0].pp": [1.0]}}, "grid.control.gains[0].pp[0]", "one of the keys p, i, d"),
        ({"grid": {"contrl.law": ["pid"]}}, "grid.contrl.law[0]", "did you mean 'control'"),
        ({"grid": {"segmets[0].length_m": [0.2]}}, "grid.segmets[0].length_m[0]", "did you mean segments"),
        ({"grid": {"segments[0].length_m": [0.2, 200]}}, "grid.segments[0].length_m[1]", r"\(0, 10\] m"),
        ({"grid": {"segments[4].mass_kg": [0.2]}}, "grid.segments[4].mass_kg[0]", "a segment that the robot has"),
        ({"grid": {P: 20000.0}}, f"grid.{P}", "a list of values"),
        ({"grid": {"control.law": ["pid", "own"]}}, "grid.control.law[1]", "one of pid"),
        ({"grid": {"truth": ["another"]}}, "grid.truth", "a shipped truth"),
        ({"grid": {"simulation.seed": [3]}}, "grid.simulation.seed", "seed and repeats"),
        ({"truth": "opencr_five_tendon", "grid": {"simulation.substep_s": [1e-3]}}, "grid.simulation.substep_s[0]",
         "the key truth.simulation"),
        ({"grid": {"limits.maximum_n": [10.0], "limits.minimum_n": [15.0]}}, "grid.limits.minimum_n[0]", "maximum_n"),
        ({"random": {"truth.payload_kg": {"low": 2.0, "high": 1.0}}}, "random.truth.payload_kg.high", "more than low"),
        ({"count": 0}, "count", "the number of draws"),
        ({"random": {P: {"low": 1.0, "high": 2.0}}}, f"random.{P}", "under grid, too"),
        ({"metrics": ["tip_rms_m"]}, "metrics[0]", "did you mean tip_rmse_m"),
        ({"duration_s": 0.1}, "duration_s", "more than blend_s"),
        ({"robot": "opencr_five"}, "robot", "did you mean opencr_five_tendon"),
        ({"grids": {}}, "grids", "did you mean 'grid'"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_is(changes, key, expected, tmp_path):
    file, out = written(tmp_path, SMALL | changes), tmp_path / "small.csv"
    with pytest.raises(RobotFileError, match=expected) as caught:
        run_sweep(str(file), out, None, QUIET)
    assert (caught.value.file, caught.value.key) == (file, key)
    assert not Path(f"{out}{KEPT}").exists()


def test_what_makes_no_difference_is_named(tmp_path, capsys):
    values = BASE | {"grid": {"control.state_timeout_s": [0.02, 0.03]}, "metrics": ["max_error_m"]}
    assert main(["sweep", str(written(tmp_path, values)), "--out", str(tmp_path / "small.csv")]) == 0
    assert "control.state_timeout_s: runs that differ in it alone" in capsys.readouterr().out


def test_the_shipped_sweep_can_be_run():
    file = shipped_file("sweeps/gains_and_friction.yaml")
    shown = file.read_text(encoding="utf-8").partition("\n")[2].strip()
    assert shown in (Path(__file__).parents[3] / "docs/how-to/sweeps.md").read_text(encoding="utf-8")
    sweep = Sweep(file)
    sweep.check()
    assert len(sweep.runs) == 54
    assert sweep.try_out(IN_TURN)


@pytest.mark.parametrize("robot", ["three_segment_servo", "rolling_five_link"])
def test_servos_and_mechanisms_follow_too(robot, tmp_path):
    sweep = Sweep(written(tmp_path, BASE | {"robot": robot, "grid": {"control.pretension_n": [3.0]}}))
    with Follower(sweep.settings) as follower:
        numbers = follower.follow(*sweep.material.robots(sweep.runs[0].values), 1, 0.2)
    assert numbers["faults"] == ""
    assert 0 < numbers["max_error_m"] < 1e-3
    assert ("tip_rmse_m" in numbers) == (robot == "three_segment_servo")
