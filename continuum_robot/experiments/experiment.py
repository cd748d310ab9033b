# SPDX-License-Identifier: Apache-2.0
"""What an experiment is: options in, flat numbers out, figures from the series behind the numbers; and which there are.

Experiments are found by themselves: every :func:`experiment` in the papers' folders, and in a checkout of the
repository in the folder validation/, which is not installed.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import inspect
import math
import pkgutil
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.experiments.plotting import figure
from continuum_robot.robot.schema import Source, quantity_of, read

Progress = Callable[[str], None]

PAPERS = ("muhmann", "johnston", "rucker", "ha", "wang")
CHECKOUT = Path(__file__).resolve().parents[2]
"""Folder of the repository; of an installed package another one, which has no validation/."""
VALIDATED_HERE = (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "validation" / "__init__.py").is_file()


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a stored number may differ when it is computed again, elsewhere."""

    relative: float = 0.0
    absolute: float = 0.0

    @staticmethod
    def of(key: str, tolerances: Mapping[str, Tolerance]) -> Tolerance:
        """The tolerance of a number."""
        name = key.split("[", maxsplit=1)[0]
        return next((one for pattern, one in tolerances.items() if fnmatch.fnmatchcase(name, pattern)), EXACT)

    def allowed(self, value: Any) -> float:
        """Largest difference from a value; NaN where it is no number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return math.nan
        return max(self.absolute, self.relative * abs(value))

    def holds(self, stored: Any, found: Any) -> bool:
        """Whether a ``found`` value counts as the ``stored`` one. What is no number has to be the same."""
        allowed = self.allowed(stored)
        if math.isnan(allowed) or math.isnan(self.allowed(found)):
            return bool(stored == found)
        return bool(abs(found - stored) <= allowed)


EXACT = Tolerance(relative=1e-4, absolute=1e-8)
"""Of solutions whose iterations end below 1e-8, and of motions in which rounding does not grow."""
OF_COGGING = Tolerance(relative=0.25, absolute=1e-3)
"""Of motors with cogging, where rounding grows: see muhmann/pid_pd.py."""


class Figures:
    """Makes the figures of one result in a folder; what an experiment's drawing function is called with."""

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder, self._stem = folder, stem
        self.files: list[Path] = []

    def __call__(
        self, title: str, rows: int = 1, columns: int = 1, *, name: str = "", **options: Any
    ) -> AbstractContextManager[tuple[Any, Any]]:
        """A figure as :func:`.plotting.figure` makes it, in ``NAME.png``; by default named as the experiment is."""
        self.files.append(self._folder / f"{name or self._stem}.png")
        return figure(self.files[-1], title, rows, columns, **options)


Drawing = Callable[[Figures], None]


class Result(dict[str, Any]):
    """Flat numbers of an experiment, ready for JSON, units in the keys."""

    def __init__(self, numbers: Mapping[str, Any], drawing: Drawing | None = None) -> None:
        super().__init__(numbers)
        self.drawing = drawing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure of a paper; made by :func:`experiment`."""

    name: str
    summary: str
    source: str
    paper: Mapping[str, Any]
    settings: type[Any]
    compute: Callable[[Any, Progress], Result]
    tolerances: Mapping[str, Tolerance] = dataclasses.field(default_factory=dict)
    package: str = ""
    not_stored: str = ""

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the options without a default, e.g. files of data."""
        fields = dataclasses.fields(self.settings)
        return tuple(one.name for one in fields if one.default is dataclasses.MISSING)

    @property
    def options(self) -> dict[str, str]:
        """Name of each option, and its meaning, allowed values, and default as text."""
        texts = {}
        for field in dataclasses.fields(self.settings):
            rules = quantity_of(field)
            unit = f", {rules.unit}" if rules.unit else ""
            choices = f" ({', '.join(rules.choices)})" if rules.choices else ""
            required = field.default is dataclasses.MISSING
            default = "required" if required else f"default {_shown(field.default)}"
            texts[field.name] = f"{rules.doc}{choices}{unit}; {default}"
        return texts

    def run(self, options: Mapping[str, Any] | None = None, progress: Progress | None = None) -> Result:
        """Run it."""
        try:
            settings = read(self.settings, self._typed(options or {}), Source())
        except RobotFileError as error:
            raise ParameterError(f"{self.name}: {error.key}", error.value, error.expected) from None
        return self.compute(settings, progress or (lambda _: None))

    def _typed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options as typed: words for switches, lists by commas; ``read`` itself takes numbers as text."""
        defaults = {field.name: field.default for field in dataclasses.fields(self.settings)}
        words = {"true": True, "yes": True, "false": False, "no": False}

        def typed(name: str, value: Any) -> Any:
            default = defaults.get(name)
            if isinstance(value, str) and isinstance(default, bool):
                return words.get(value.lower(), value)
            if isinstance(value, str) and isinstance(default, tuple):
                return [part.strip() for part in value.split(",")]
            return value

        return {name: typed(name, value) for name, value in options.items()}

    def draw(self, result: Result, folder: Path | str) -> list[Path]:
        """Draw the figures of a result."""
        drawing = getattr(result, "drawing", None)
        if drawing is None:
            raise ParameterError("result", type(result).__name__, f"a result of {self.name}.run, which can draw itself")
        path = Path(folder).expanduser()
        figures = Figures(path, self.name.replace(".", "_"))
        try:
            path.mkdir(parents=True, exist_ok=True)
            drawing(figures)
        except OSError as error:
            raise ParameterError("folder", str(path), f"a folder that can be written ({error})") from error
        return figures.files


def experiment(name: str, source: str, **record: Any) -> Callable[[Callable[..., Any]], Experiment]:
    """Make an :class:`Experiment` of a function.

    Its first argument is called with a line of text now and then. All others are the options, each
    ``Annotated[TYPE, Quantity(...)]`` with its default; or one alone, a frozen dataclass of them, where several
    functions need them. The first line of its docstring is the summary. It returns the numbers, and a function that
    draws them on :class:`Figures`.
    """

    def made(function: Callable[..., Any]) -> Experiment:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        together = dataclasses.is_dataclass(hints[parameters[0].name])
        settings = hints[parameters[0].name] if together else _settings(function.__name__, parameters, hints)

        def compute(options: Any, progress: Progress) -> Result:
            return Result(*(function(progress, options) if together else function(progress, **vars(options))))

        return Experiment(
            name=name,
            summary=inspect.getdoc(function).partition("\n")[0],  # type: ignore[union-attr]
            source=source,
            settings=settings,
            compute=compute,
            **{"paper": {}, **record},
        )

    return made


def _settings(name: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[Any]:
    fields = []
    for one in parameters:
        kind, rules = typing.get_args(hints[one.name])
        default = {} if one.default is one.empty else {"default": one.default}
        fields.append((one.name, kind, dataclasses.field(metadata={"quantity": rules}, **default)))
    return dataclasses.make_dataclass(f"{name}_options", fields, frozen=True, kw_only=True)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


@lru_cache(maxsize=1)
def experiments() -> dict[str, Experiment]:
    """Every experiment by its name: of the papers, of learning, then in a checkout those of validation/."""
    if VALIDATED_HERE and str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    packages = [f"continuum_robot.experiments.{folder}" for folder in (*PAPERS, "learn")]
    found: dict[str, Experiment] = {}
    for package in [*packages, "validation"] if VALIDATED_HERE else packages:
        folder = importlib.import_module(package).__path__
        modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(folder, f"{package}.")]
        own = [one for module in modules for one in vars(module).values() if isinstance(one, Experiment)]
        found |= {one.name: one for one in sorted(own, key=lambda one: one.name)}
    return found
