# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot sweep``: do what is left of a sweep's runs, and write their table, picture and summary."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from continuum_robot import __version__
from continuum_robot.app.output import counting_bar, plain, print_table, say, shown, write_json
from continuum_robot.app.sweep.file import Batch, Run, Sweep, sweep_file
from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.robot.file.plain_yaml import plain_yaml
from continuum_robot.robot.file.whole_file import unwritten, whole
from continuum_robot.workers import HERE, Tasks, WorkerOptions, tasks

Row = dict[str, Any]

KEPT = ".runs.jsonl"
"""Behind the name of the table: what the runs gave that have ended, each as it ends."""
_LARGEST_BATCH = 4
_BATCHES_A_WORKER = 8
_SHOWN = 2
_MOST_DIFFERENCES = 5
_ERRORS = ("tip_rmse_m", "max_error_m")


def run_sweep(
    given: str, out: Path | None, json_file: Path | None, console: Console | None = None, where: WorkerOptions = HERE
) -> int:
    """Do the runs of a sweep that are not kept yet; 1 if a run had a fault, or failed."""
    console = console or Console()
    file = sweep_file(given)
    table = out or Path(f"{file.stem}.parquet")
    _check_format(table)
    sweep = Sweep(file)
    with console.status("checking the runs ..."):
        sweep.check()
    with tasks(where) as runner:
        with console.status("trying runs for a moment ..."):
            known = sweep.try_out(runner)
        for name in sweep.settings.metrics:
            if name not in known:
                raise sweep.refuse_metric(name, known)
        kept = KeptRuns(table.with_name(table.name + KEPT), sweep)
        left = [run for run in sweep.runs if run.index not in kept.rows]
        if kept.rows and left:
            say(console, f"{len(kept.rows)} of {len(sweep.runs)} runs are kept in {kept.file}; the others follow")
        try:
            with counting_bar(console) as bar, kept:
                _do(runner, sweep, left, kept, bar, where.workers)
        except KeyboardInterrupt:
            say(
                console, f"{len(kept.rows)} of {len(sweep.runs)} runs are kept in {kept.file}: the same command goes on"
            )
            raise
    rows = [{**_row(run), **kept.rows[run.index]} for run in sweep.runs]
    metrics = list(sweep.settings.metrics) or [name for name in known if name in _ERRORS]
    _write_table(table, rows, [*_row(sweep.runs[0]), *known])
    picture = table.with_suffix(".png")
    from continuum_robot.app.sweep.picture import draw  # noqa: PLC0415  # matplotlib, which the runs do not need

    draw(picture, file.stem, rows, sweep.keys, metrics, set(sweep.settings.grid))
    numbers = _summary(console, rows, sweep.keys, metrics)
    for key in _idle(rows, [*sweep.keys, "seed"], known):
        say(console, f"no effect {key}: runs that differ in it alone have the same metrics")
    say(console, f"table     {table}", f"picture   {picture}", f"runs      {kept.file}")
    write_json(json_file, numbers)
    return int(bool(numbers["runs_with_faults"] or numbers["failed_runs"]))


def _do(runner: Tasks, sweep: Sweep, left: Sequence[Run], kept: KeptRuns, bar: Any, workers: int) -> None:
    size = max(1, min(_LARGEST_BATCH, len(left) // (_BATCHES_A_WORKER * max(1, workers))))
    batches = [Batch(sweep.material, tuple(left[first : first + size])) for first in range(0, len(left), size)]
    line = bar.add_task("runs", total=len(sweep.runs), completed=len(kept.rows))

    def finished(_index: int, rows: list[Row]) -> None:
        kept.add(rows)
        bar.update(line, completed=len(kept.rows))

    runner.run(Batch.run, batches, finished)


class KeptRuns:
    """What the runs gave that have ended, in a file with a line for each behind a line that says of which sweep.

    Raises
    ------
    RecordingError : the file is that of another sweep
    """

    def __init__(self, file: Path, sweep: Sweep) -> None:
        self.file, self.rows = file, dict[int, Row]()
        self._head = plain(_facts(sweep))
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith(b"\n")]  # the last one may have been cut
        self._length = sum(len(line) for line in lines if line.endswith(b"\n"))
        if not whole:
            return
        if differences := list(_differences(whole[0], self._head)):
            shown_ones = "; ".join(differences[:_MOST_DIFFERENCES])
            more = f"; and {len(differences) - _MOST_DIFFERENCES} more" if len(differences) > _MOST_DIFFERENCES else ""
            remedy = "Choose another --out, or delete that file to begin anew"
            raise RecordingError(file, f"has runs of another sweep: {shown_ones}{more}", remedy)
        self.rows = {row["run"]: row for row in whole[1:]}

    def __enter__(self) -> None:
        try:
            self._stream = self.file.open("r+b" if self.file.exists() else "w+b")
            self._stream.truncate(self._length)
            self._stream.seek(self._length)
            if not self._length:
                self._write([self._head])
        except OSError as error:
            raise unwritten(self.file, error) from error

    def __exit__(self, *_error: object) -> None:
        self._stream.close()

    def add(self, rows: Sequence[Row]) -> None:
        """Keep what runs gave."""
        found = [plain(row) for row in rows]
        try:
            self._write(found)
        except OSError as error:
            raise unwritten(self.file, error) from error
        self.rows |= {row["run"]: row for row in found}

    def _write(self, values: Sequence[Any]) -> None:
        self._stream.write("".join(json.dumps(value, allow_nan=False) + "\n" for value in values).encode())
        self._stream.flush()


def _facts(sweep: Sweep) -> dict[str, Any]:
    """All that the runs depend on."""
    settings, material = dataclasses.asdict(sweep.settings), sweep.material
    del settings["metrics"]
    return {
        "continuum_robot": __version__,
        **settings,
        "robot_file": plain_yaml(material.robot)[0],
        "truth_files": {name: plain_yaml(text)[0] for name, (_, text) in material.truths.items() if text},
    }


def _differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield f"{key} was {shown(before)}, is {shown(now)}"


def _row(run: Run) -> Row:
    return {"run": run.index, "seed": run.seed, **run.values}


def _check_format(table: Path) -> None:
    if table.suffix not in (".parquet", ".csv"):
        raise ParameterError("--out", str(table), "a file that ends in .parquet or .csv")
    if table.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        expected = "a file that ends in .csv, or the extra learn: pip install 'continuum-robot[learn]'"
        raise ParameterError("--out", str(table), expected)


def _write_table(table: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    """Write a row for each run, and a column for each key and metric."""
    columns = {name: _column([row.get(name) for row in rows]) for name in (*names, "faults", "fault_s", "problem")}
    try:
        with whole(table) as partial:
            if table.suffix == ".parquet":
                import pyarrow  # noqa: PLC0415
                from pyarrow import parquet  # noqa: PLC0415

                unknown = [name for name, values in columns.items() if all(value is None for value in values)]
                nothing = dict.fromkeys(unknown, pyarrow.nulls(len(rows), pyarrow.float64()))
                parquet.write_table(pyarrow.table(columns | nothing), partial)
                return
            with partial.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
    except OSError as error:
        raise unwritten(table, error) from error


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: numbers, truth values, text or lists of numbers as they are, all else as JSON text."""
    known = [value for value in values if value is not None]
    for kind in (bool, int, float, str):
        if all(isinstance(value, kind if kind is not float else (int, float)) for value in known):
            return [None if value is None else kind(value) for value in values]
    if all(isinstance(value, list) and all(isinstance(one, (int, float)) for one in value) for value in known):
        return values
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def _summary(console: Console, rows: Sequence[Row], keys: Sequence[str], metrics: Sequence[str]) -> Row:
    """Print the best and the worst runs and what went wrong; all of it as numbers, too."""
    whole = [row for row in rows if not row["faults"] and not row["problem"]]
    faults = Counter(name for row in rows for name in filter(None, row["faults"].split(", ")))
    failed = [row for row in rows if row["problem"]]
    numbers: Row = {
        "runs": len(rows),
        "runs_with_faults": len(rows) - len(whole) - len(failed),
        "failed_runs": len(failed),
    }
    numbers |= {f"{name}_runs": count for name, count in faults.items()}
    for metric in metrics:
        ranked = sorted((row for row in whole if row.get(metric) is not None), key=lambda row: row[metric])
        if not ranked:
            continue
        for name, row in (("best", ranked[0]), ("worst", ranked[-1])):
            numbers |= {f"{name}_{metric}": row[metric], f"{name}_{metric}_run": row["run"]}
        if metric == metrics[0]:
            _print_ranked(console, ranked, keys, metrics)
    for name, count in faults.most_common():
        say(console, f"fault     {name} in {count} of {len(rows)} runs, the first of them run {_first(rows, name)}")
    for row in failed[:_SHOWN]:
        say(console, f"failed    run {row['run']}: {row['problem']}")
    if len(failed) > _SHOWN:
        say(console, f"failed    {len(failed) - _SHOWN} more, in the table's column problem")
    return numbers


def _idle(rows: Sequence[Row], keys: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Keys that make no difference to any metric."""
    found = []
    for key in keys:
        alike: dict[str, tuple[set[str], set[str]]] = {}
        for row in rows:
            others = json.dumps([row[other] for other in keys if other != key])
            values, numbers = alike.setdefault(others, (set(), set()))
            values.add(json.dumps(row[key]))
            numbers.add(json.dumps([row.get(name) for name in metrics]))
        if any(len(values) > 1 for values, _ in alike.values()) and all(len(one) == 1 for _, one in alike.values()):
            found.append(key)
    return found


def _print_ranked(console: Console, ranked: list[Row], keys: Sequence[str], metrics: Sequence[str]) -> None:
    """A column for each of the best and the worst runs."""
    columns = ranked[:_SHOWN] + ranked[max(_SHOWN, len(ranked) - _SHOWN) :]
    names = [f">run {row['run']}" for row in columns]
    rows = [[name, *(_cell(row[name]) for row in columns)] for name in (*metrics, *keys)]
    print_table(console, f"Best to worst {metrics[0]}", ["", *names], rows)


def _cell(value: Any) -> Any:
    return f"{len(value)} values" if isinstance(value, (list, dict)) else value


def _first(rows: Sequence[Row], fault: str) -> int:
    return int(next(row["run"] for row in rows if fault in row["faults"].split(", ")))
