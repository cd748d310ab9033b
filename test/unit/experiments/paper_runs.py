# SPDX-License-Identifier: Apache-2.0
"""Experiments as tests run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pictures import shows_something

from continuum_robot.experiments.experiment import Result, experiments
from continuum_robot.experiments.stored_numbers import deviations, read_stored


def run(name: str, **options: Any) -> Result:
    """Run it; with its own options the stored numbers come out again."""
    result = experiments()[name].run(options)
    if not options and (stored := read_stored(name)) is not None:
        assert deviations(stored, result) == []
    return result


def drawn(name: str, result: Result, folder: Path) -> bool:
    """Whether it draws, and each picture shows something."""
    files = experiments()[name].draw(result, folder)
    return bool(files) and all(shows_something(file) for file in files)
