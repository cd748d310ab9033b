# SPDX-License-Identifier: Apache-2.0
"""The file of a sweep: which runs it asks for, and the robots of each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError, ParameterError, RobotFileError
from continuum_robot.identification.robot_keys import file_keys
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.parts import self_contained
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.file.shipped_files import did_you_mean, shipped_file
from continuum_robot.robot.loading import find_robot_file, parse_robot
from continuum_robot.robot.schema import Source, quantity, read, refuse
from continuum_robot.simulation.truth import as_truth, truth_file
from continuum_robot.workers import Tasks

VERSION = 1
TRUTH = "truth"
_OF_TRUTH = f"{TRUTH}."
MOST_RUNS = 1_000_000
_ELSEWHERE = {
    "simulation.truth": f"the key {TRUTH}",
    "simulation.seed": "the sweep's seed and repeats: each run has a seed of its own",
}
"""Keys of a robot file that a sweep does not take, and what it takes instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """From where the values of a key are drawn."""

    low: float = quantity("least value")
    high: float = quantity("largest value")
    log: bool = quantity("whether their logarithms are spread evenly", default=False)
    size: int = quantity("how many values a list has; 0: the key has a single value", default=0, ge=0, le=1000)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise refuse("high", self.high, f"more than low = {self.low:g}")
        if self.log and self.low <= 0:
            raise refuse("low", self.low, "a positive value, since log is true")

    def value(self, fractions: NDArray[np.float64]) -> float | list[float]:
        """The value, or the list of them, at fractions of the range, shape (1,) or (size,)."""
        if self.log:
            found = self.low * (self.high / self.low) ** fractions
        else:
            found = self.low + (self.high - self.low) * fractions
        return [float(one) for one in found] if self.size else float(found[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What a sweep's file states. Keys are those of the robot file, with ``truth.`` in front those of the truth."""

    version: int = quantity("version of this file format", ge=VERSION, le=VERSION)
    robot: str = quantity("robot file, from this file's folder, or the name of a shipped robot", filled=True)
    truth: str = quantity(
        "robot file of what is simulated in place of this one, from this file's folder, or the name of a shipped truth;"
        " none: the robot itself; empty: as the robot file says",
        default="",
    )
    duration_s: float = quantity("how long each run follows the robot file's reference", gt=0, le=1e5)
    blend_s: float = quantity("time to blend into the reference, which the metrics leave out", default=1.0, ge=0, le=60)
    seed: int = quantity("of the draws, and of the noise of the first repeat", default=1, ge=0, le=2**31)
    repeats: int = quantity("runs with the same values, each with another noise", default=1, ge=1, le=MOST_RUNS)
    grid: dict = quantity("lists of values by key: all combinations are run", factory=dict)
    random: dict = quantity("low and high by key: all keys are drawn together", factory=dict)
    count: int = quantity("how many draws of the keys under random", default=0, ge=0, le=MOST_RUNS)
    metrics: tuple[str, ...] = quantity(
        "what the summary and the plot compare, the first one ranks; empty: errors of the tip and of the coordinates",
        default=(),
    )

    def __post_init__(self) -> None:
        if self.duration_s <= self.blend_s:
            raise refuse("duration_s", self.duration_s, f"more than blend_s = {self.blend_s:g} s")
        if not self.grid and not self.random:
            raise refuse("grid", None, "lists of values by key, here or ranges under random")
        if bool(self.random) != bool(self.count):
            raise refuse("count", self.count, "the number of draws of the keys under random, and only with them")
        for section, keys in (("grid", self.grid), ("random", self.random)):
            for key in keys:
                if key.removeprefix(_OF_TRUTH) in _ELSEWHERE:
                    raise refuse(f"{section}.{key}", keys[key], _ELSEWHERE[key.removeprefix(_OF_TRUTH)])
        if both := set(self.grid) & set(self.random):
            raise refuse(f"random.{min(both)}", self.random[min(both)], "another key: this one is under grid, too")
        if TRUTH in self.grid and self.truth:
            raise refuse(TRUTH, self.truth, f"no {TRUTH} here, since it is under grid")
        for key, values in self.grid.items():
            if not isinstance(values, list) or not values:
                raise refuse(f"grid.{key}", values, "a list of values")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the seed of its noise, and values by key."""

    index: int
    seed: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Material:
    """What runs are made of; whole, for machines without the files. ``truths``: path and text by name."""

    settings: SweepSettings
    robot_file: str
    robot: str
    truths: Mapping[str, tuple[str, str]]

    def robots(self, values: Mapping[str, Any]) -> tuple[Robot, Robot]:
        """The robot that driver and controller know, and the one that is simulated. Raises RobotFileError."""
        own = {key: value for key, value in values.items() if key != TRUTH and not key.startswith(_OF_TRUTH)}
        of_truth = {key.removeprefix(_OF_TRUTH): values[key] for key in values if key.startswith(_OF_TRUTH)}
        robot = _robot(self.robot, self.robot_file, own)
        file, text = self.truths[values.get(TRUTH, self.settings.truth)]
        if file:
            idle = next((key for key in own if key.startswith("simulation.")), None)
            if idle is not None:
                raise refuse(idle, own[idle], f"the key {_OF_TRUTH}{idle}: {file} is what is simulated")
            return robot, as_truth(_robot(text, file, of_truth), robot)
        if not of_truth:
            return robot, robot
        return robot, as_truth(_robot(self.robot, self.robot_file, own | of_truth | {"simulation.truth": ""}), robot)


def _robot(text: str, file: str, values: Mapping[str, Any]) -> Robot:
    found: dict[str, Any] = {}
    for key, value in values.items():
        try:
            found |= file_keys(_unchanged(text, file), {key: value})
        except (IndexError, TypeError):
            raise refuse(key, value, "a number, for a segment that the robot has") from None
    return parse_robot(text, file, found)


@lru_cache(maxsize=16)
def _unchanged(text: str, file: str) -> Robot:
    return parse_robot(text, file)


@dataclass(frozen=True, slots=True)
class Batch:
    """A task: some runs, in whatever process."""

    material: Material
    runs: tuple[Run, ...]

    def run(self) -> list[dict[str, Any]]:
        """What came of each run: its metrics, and what ended it early."""
        from continuum_robot.app.sweep.run import Follower  # noqa: PLC0415  # where it is run: it takes a second

        settings, found = self.material.settings, []
        with Follower(settings) as follower:
            for run in self.runs:
                robot, truth = self.material.robots(run.values)
                row: dict[str, Any] = {"run": run.index, "faults": "", "problem": ""}
                try:
                    row |= follower.follow(robot, truth, run.seed, settings.duration_s)
                except ContinuumRobotError as error:  # no equilibrium, no step of the plant: other runs have some
                    row["problem"] = str(error)
                found.append(row)
        return found

    def metric_names(self) -> list[str]:
        """What there is to know of runs; the first one is run for a moment. Raises what keeps it from running."""
        from continuum_robot.app.sweep.run import LOOK_S, Follower  # noqa: PLC0415

        run = self.runs[0]
        with Follower(self.material.settings) as follower:
            numbers = follower.follow(*self.material.robots(run.values), run.seed, 2 * LOOK_S)
        return [name for name in numbers if name not in ("faults", "fault_s")]


class Sweep:
    """A file of a sweep that was read, with the robot files that it names.

    Raises
    ------
    RobotFileError : whatever is wrong in it, or in a robot that it asks for; names file, line, key and value
    """

    def __init__(self, file: Path) -> None:
        text = read_yaml(file, "file of a sweep")
        values, lines = plain_yaml(text, file)
        self._source = Source(file, lines)
        self.settings: SweepSettings = read(SweepSettings, values, self._source)
        settings = self.settings
        self._draws: dict[str, Draw] = {
            key: read(Draw, value, self._source, f"random.{key}") for key, value in settings.random.items()
        }
        self._grid = {key: [_number(one) for one in values] for key, values in settings.grid.items()}
        self.keys = (*self._grid, *self._draws)
        self.material = self._material(file.parent)
        most = settings.repeats * max(1, settings.count) * math.prod(len(values) for values in self._grid.values())
        if most > MOST_RUNS:
            raise self._source.error("grid", f"{most} runs", f"at most {MOST_RUNS}")
        self.runs = list(self._all_runs())

    def _material(self, folder: Path) -> Material:
        settings = self.settings
        beside = folder / settings.robot
        try:
            path = find_robot_file(beside if beside.is_file() else settings.robot)
            text = self_contained(path)
            robot = parse_robot(text, path)
        except RobotFileError as error:
            raise self._source.error("robot", settings.robot, str(error) if error.key else error.expected) from error
        needed = ("actuators", "limits", "control", "reference")
        if missing := [section for section in needed if getattr(robot, section) is None]:
            expected = f"a robot file with the sections {', '.join(missing)}"
            raise self._source.error("robot", settings.robot, expected)
        truths = {}
        for name in self._grid.get(TRUTH, [settings.truth]):
            place = f"grid.{TRUTH}" if TRUTH in self._grid else TRUTH
            if not isinstance(name, str):
                raise self._source.error(place, name, "names of truths, or of robot files")
            beside = folder / name
            try:
                found = truth_file(robot, str(beside) if beside.is_file() else name)
                truths[name] = (found, self_contained(Path(found)) if found else "")
            except ParameterError as error:
                raise self._source.error(place, name, error.expected) from error
        return Material(settings, str(path), text, truths)

    def _all_runs(self) -> Iterator[Run]:
        settings, number = self.settings, itertools.count()
        drawn = [{}] if not self._draws else self._drawn(settings.count)
        for values in itertools.product(*self._grid.values()):
            for draw in drawn:
                for repeat in range(settings.repeats):
                    together = dict(zip(self._grid, values, strict=True)) | draw
                    yield Run(next(number), settings.seed + repeat, together)

    def _drawn(self, count: int) -> list[dict[str, Any]]:
        """A Latin hypercube: each range is cut into ``count`` parts, and each part is drawn from once."""
        rng = np.random.default_rng(self.settings.seed)
        sizes = [max(1, draw.size) for draw in self._draws.values()]
        parts = rng.permuted(np.tile(np.arange(count), (sum(sizes), 1)), axis=1)
        fractions = np.split((parts + rng.random(parts.shape)) / count, np.cumsum(sizes)[:-1])
        return [
            {key: draw.value(own[:, index]) for (key, draw), own in zip(self._draws.items(), fractions, strict=True)}
            for index in range(count)
        ]

    def check(self) -> None:
        """Make the robots of every run, so that what is wrong with one is known before any is run."""
        for run in self.runs[:: self.settings.repeats]:
            try:
                self.material.robots(run.values)
            except (ParameterError, RobotFileError) as error:
                raise self._refused(run, error) from error

    def try_out(self, runner: Tasks) -> list[str]:
        """Run the first run for a moment, and another one for each name of a law or the like; which metrics there are.

        So a name that means nothing is known before the first run, too.
        """
        tried: dict[tuple[str, str], Run] = {}
        for run in self.runs:
            for key, value in run.values.items():
                if isinstance(value, str):
                    tried.setdefault((key, value), run)
        runs = list({run.index: run for run in (self.runs[0], *tried.values())}.values())
        try:
            found = runner.run(Batch.metric_names, [Batch(self.material, (run,)) for run in runs])
        except (ParameterError, RobotFileError) as error:
            wrong = getattr(error, "value", None)
            raise self._refused(next((run for run in runs if wrong in run.values.values()), runs[0]), error) from error
        return list(dict.fromkeys(name for names in found for name in names))

    def _refused(self, run: Run, error: Exception) -> RobotFileError:
        """An error of a run's robot at the place of this file that asks for it."""
        stated = str(getattr(error, "key", getattr(error, "name", ""))).removeprefix("set.")
        for key, value in run.values.items():
            inner = key.removeprefix(_OF_TRUTH)
            if _within(stated, inner) or _within(inner, stated):
                listed = f"grid.{key}[{self._grid[key].index(value)}]" if key in self._grid else f"random.{key}"
                return self._source.error(listed, value, str(getattr(error, "expected", error)))
        return self._source.error("", dict(run.values), f"values that fit together: {error}")

    def refuse_metric(self, name: str, known: list[str]) -> RobotFileError:
        """The error for a metric that runs do not have."""
        index = self.settings.metrics.index(name)
        expected = f"one of {', '.join(known)}{did_you_mean(name, known)}"
        return self._source.error(f"metrics[{index}]", name, expected)


def _within(inner: str, outer: str) -> bool:
    """Whether a dotted key is another one, or is in it."""
    return inner == outer or (bool(outer) and inner.startswith((f"{outer}.", f"{outer}[")))


def _number(value: Any) -> Any:
    """YAML 1.1 reads 58e9 without a decimal point as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def sweep_file(given: str) -> Path:
    """A sweep's file by its path, or by the name of a shipped one."""
    path = Path(given).expanduser()
    return path if path.is_file() else shipped_file(f"sweeps/{path.name if path.suffix else path.name + '.yaml'}")
