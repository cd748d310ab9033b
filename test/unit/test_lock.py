# SPDX-License-Identifier: Apache-2.0
"""The lock files name a version, with its hash, of everything that the project asks for."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

FOLDER = Path(__file__).resolve().parents[2] / "requirements"
LINE = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")


def lock_module():
    spec = importlib.util.spec_from_file_location("lock", FOLDER / "lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*-*-*.txt")), ids=lambda file: file.stem)
def test_everything_is_locked_to_a_version_that_is_asked_for(file):
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if not match]
    locked = {match["name"].replace(".", "-"): match["version"] for match in matches}
    assert len(locked) == len(lines)
    module = lock_module()
    assert set(module.FIRST) == {match["name"] for match in matches[: len(module.FIRST)]}
    python = file.stem.rpartition("-")[2]
    for requirement in map(Requirement, module.desired(*module.EXTRAS)):
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        name = requirement.name.lower().replace("_", "-").replace(".", "-")
        assert name in locked, f"{file.name} lacks {name}: make lock"
        assert requirement.specifier.contains(locked[name], prereleases=True), f"{name} {locked[name]}: make lock"
