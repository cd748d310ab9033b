# SPDX-License-Identifier: Apache-2.0
"""Stored numbers come out again, each within its tolerance; what is documented of them holds."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from pages import paper_figures, paper_results
from pictures import difference, shows_something
from rich.console import Console

from continuum_robot.app.experiment import run_stored
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import EXACT, Experiment, Result, Tolerance, experiments
from continuum_robot.experiments.stored_numbers import STORED, StoredNumbers, deviations, read_stored, run_timed
from continuum_robot.robot.schema import quantity

# Run again here by every `make test`, as others are by the tests of their papers (paper_runs.py); all by `make test
# LONG=1`, some of them for a quarter of an hour.
IN_EVERY_RUN = {"muhmann.coriolis", "muhmann.energies"}
STORED_EXPERIMENTS = sorted(name for name in experiments() if read_stored(name) is not None)
LONG = [pytest.param(name, marks=pytest.mark.long) for name in STORED_EXPERIMENTS if name not in IN_EVERY_RUN]


@pytest.mark.parametrize("name", [*sorted(IN_EVERY_RUN), *LONG])
def test_stored_numbers_come_out_again(name: str) -> None:
    stored = read_stored(name)
    assert stored is not None
    _, found = run_timed(experiments()[name])
    assert deviations(stored, found.numbers) == []


def test_what_every_run_repeats_is_stored() -> None:
    assert set(STORED_EXPERIMENTS) >= IN_EVERY_RUN


@pytest.mark.parametrize("name", experiments())
def test_numbers_are_stored_or_it_is_said_why_not(name: str) -> None:
    experiment, stored = experiments()[name], read_stored(name)
    assert (stored is not None) != bool(experiment.required or experiment.not_stored)
    if stored is not None:
        assert stored.tolerances == experiment.tolerances, "run: continuum-robot experiment NAME --store"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of an experiment of this test."""

    size: float = quantity("of it", "m", default=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileSettings:
    """Options of one that needs a file."""

    data: str = quantity("file")


def made(value: object, settings: type = Settings, name: str = "made.up") -> Experiment:
    return Experiment(
        name=name,
        summary="s",
        source="t",
        paper={"length_m": 2.0, "width_m": 0.1},
        settings=settings,
        compute=lambda _, progress: Result({"length_m": value, "width_m": 0.1, "list": [1.0, math.nan], "word": "yes"}),
        tolerances={"len*": Tolerance(relative=0.1)},
    )


def test_numbers_within_their_tolerance_are_the_same(tmp_path: Path) -> None:
    _, found = run_timed(made(2.0))
    found.write(tmp_path / "made.up.json")
    stored = read_stored("made.up", tmp_path)
    assert stored is not None
    assert stored.numbers["list"] == [1.0, None]
    assert stored.tolerance("length_m") == Tolerance(relative=0.1)
    assert stored.tolerance("list[0]") == EXACT
    assert deviations(stored, made(2.19).run()) == []
    (different,) = deviations(stored, made(2.21).run())
    assert (different.key, different.found) == ("length_m", 2.21)
    assert "allowed 0.2" in str(different)
    assert [one.key for one in deviations(stored, made(None).run())] == ["length_m"]
    assert [one.key for one in deviations(stored, {**found.numbers, "word": "no"})] == ["word"]
    assert [one.key for one in deviations(stored, {**found.numbers, "more": 1})] == ["more"]
    assert [one.key for one in deviations(stored, {"length_m": 2.0})] == ["width_m", "list[0]", "list[1]", "word"]
    assert read_stored("nothing", tmp_path) is None


def test_files_that_are_no_stored_numbers_are_named(tmp_path: Path) -> None:
    (tmp_path / "made.up.json").write_text(json.dumps({"length_m": 2.0}), encoding="utf-8")
    with pytest.raises(ParameterError, match="--store"):
        read_stored("made.up", tmp_path)
    with pytest.raises(ParameterError, match="clone"):
        read_stored("made.up", tmp_path / "missing")


def test_check_of_all_names_what_differs_and_what_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {one.name: one for one in (made(2.0), made(1.0, FileSettings, "with.file"))}
    monkeypatch.setattr("continuum_robot.app.experiment.experiments", lambda: known)

    def checked(**options: bool) -> tuple[int, str]:
        console = Console(record=True, width=200)
        return run_stored([], tmp_path, console=console, **options), console.export_text()

    failed, text = checked()
    assert failed == 1
    assert "not stored" in text
    assert checked(store=True)[0] == 0
    failed, text = checked()
    assert failed == 0
    assert text.startswith("1 experiments, about 1 min of processor time")
    assert re.search(r"same +made.up", text)
    assert "skipped with.file: needs files: --data" in text
    known["made.up"] = dataclasses.replace(made(3.0), package="no_such_package")
    failed, text = checked()
    assert failed == 0
    assert "skipped made.up: needs the package no_such_package" in text
    known["made.up"] = made(3.0)
    failed, text = checked()
    assert failed == 1
    assert "length_m: stored 2.0, found 3.0" in text


@pytest.mark.parametrize("paper", paper_results.VERDICTS)
def test_verdicts_hold(paper: str) -> None:
    for one in paper_results.VERDICTS[paper]:
        assert one.status in paper_results.STATUSES
        assert "{" not in paper_results.reason(one, STORED)
        if not one.experiment:
            assert one.status == paper_results.UNKNOWN
            continue
        experiment = experiments()[one.experiment]
        stored = read_stored(one.experiment)
        if stored is None:
            continue
        pairs = [(experiment.paper[key], stored.numbers.get(key)) for key in paper_results.matching(one, experiment)]
        if one.keys:
            assert pairs
        numbers = [(a, b) for a, b in pairs if paper_figures.is_number(a) and paper_figures.is_number(b)]
        close = [abs(a - b) <= one.within * abs(a) for a, b in numbers]
        if one.status == paper_results.REPRODUCED:
            assert all(close)
        elif one.status in (paper_results.NOT, paper_results.PARTLY):
            assert not all(close) or (not numbers and "{" in one.why), f"{one.result}: what differs?"


@pytest.mark.parametrize("name", [name for name in experiments() if name.split(".")[0] in paper_results.VERDICTS])
def test_experiments_of_papers_have_a_verdict_or_nothing_to_compare(name: str) -> None:
    experiment = experiments()[name]
    if any(paper_figures.is_number(value) for value in experiment.paper.values()):
        assert paper_results.verdicts_of(name.split(".", maxsplit=1)[0], name) or name == "wang.approach"


def test_keys_become_words_and_units() -> None:
    assert paper_results.label_and_unit("gmo_noiseless_rmse_x_n") == ("GMO noiseless RMSE x", "N")
    assert paper_results.label_and_unit("table3_k_lambdaq_1e-3_n") == ("table3 k lambdaq", "10⁻³ N")
    assert paper_results.label_and_unit("n_cases") == ("n cases", "")


@pytest.mark.parametrize("name", ["johnston.noise", "wang.calibration"])
def test_picture_of_a_table_is_drawn_and_kept(name: str, tmp_path: Path) -> None:
    file = paper_figures.draw(experiments()[name], tmp_path)
    assert file is not None
    assert shows_something(file)
    kept = paper_figures.IMAGES / file.name
    assert difference(file, kept) < 0.02, "run: python -m pages.paper_figures"


def test_no_picture_without_numbers_to_compare(tmp_path: Path) -> None:
    assert paper_figures.draw(experiments()["ha.loaded"], tmp_path) is None
    StoredNumbers({}, {}, 1.0).write(tmp_path / "ha.loaded.json")
    assert paper_figures.draw(experiments()["ha.loaded"], tmp_path, tmp_path) is None


def test_all_numbers_are_on_the_pages() -> None:
    stored = read_stored("wang.micro_motion")
    assert stored is not None
    text = (STORED.parent / "wang.md").read_text(encoding="utf-8")
    for key in stored.numbers:
        assert f"\n{key}: " in text
    # Lists in full.
    assert f"{stored.numbers['insertion_mm'][-1]:.4g}]" in text
