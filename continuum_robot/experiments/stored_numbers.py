# SPDX-License-Identifier: Apache-2.0
"""Numbers that are kept in the repository, each with its tolerance, and their comparison with a new run."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import CHECKOUT, Experiment, Progress, Result, Tolerance

STORED = CHECKOUT / "docs" / "papers" / "numbers"
"""Folder of the repository; not part of an installed package."""


@dataclass(frozen=True)
class StoredNumbers:
    """Numbers of an experiment with its default options."""

    numbers: Mapping[str, Any]
    tolerances: Mapping[str, Tolerance]
    seconds: float

    def tolerance(self, key: str) -> Tolerance:
        """Tolerance of a number: that of the first pattern that matches its key."""
        return Tolerance.of(key, self.tolerances)

    def write(self, file: Path) -> None:
        """Write as JSON to a ``file``."""
        stored = {
            "seconds": round(self.seconds, 1),
            "tolerances": {name: dataclasses.asdict(one) for name, one in self.tolerances.items()},
            "numbers": self.numbers,
        }
        file.write_text(json.dumps(stored, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A number that did not come out again."""

    key: str
    stored: Any
    found: Any
    allowed: float

    def __str__(self) -> str:
        allowed = "" if math.isnan(self.allowed) else f", allowed {self.allowed:.2g}"
        return f"{self.key}: stored {self.stored}, found {self.found}{allowed}"


def read_stored(experiment: str, folder: Path = STORED) -> StoredNumbers | None:
    """Stored numbers of an experiment, None where none are kept."""
    if not folder.is_dir():
        raise ParameterError(
            "folder of stored numbers", str(folder), "docs/papers/numbers of a clone of the repository"
        )
    file = folder / f"{experiment}.json"
    if not file.exists():
        return None
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        tolerances = {name: Tolerance(**one) for name, one in read["tolerances"].items()}
        return StoredNumbers(read["numbers"], tolerances, float(read["seconds"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError(str(file), str(error), "written by continuum-robot experiment NAME --store") from error


def run_timed(experiment: Experiment, progress: Progress | None = None) -> tuple[Result, StoredNumbers]:
    """Run an experiment with its default options."""
    begin = _processor_time_s()
    result = experiment.run(progress=progress)
    return result, StoredNumbers(_plain(result), experiment.tolerances, _processor_time_s() - begin)


def deviations(stored: StoredNumbers, found: Mapping[str, Any]) -> list[Deviation]:
    """Stored numbers that a run did not give again within their tolerances, and keys of one alone."""
    before, now = dict(_flat(stored.numbers)), dict(_flat(_plain(found)))
    missing = [Deviation(key, value, "nothing", math.nan) for key, value in before.items() if key not in now]
    new = [Deviation(key, "nothing", value, math.nan) for key, value in now.items() if key not in before]
    changed = []
    for key, value in before.items():
        if key not in now:
            continue
        tolerance = stored.tolerance(key)
        allowed = tolerance.allowed(value)
        if not tolerance.holds(value, now[key]):
            changed.append(Deviation(key, value, now[key], allowed))
    return [*changed, *missing, *new]


def _plain(value: Any) -> Any:
    """What JSON has a word for: tuples as lists, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _flat(item, f"{key}[{index}]")
    else:
        yield key, value


def _processor_time_s() -> float:
    """Of this process and of those that it waited for, e.g. compilers."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
