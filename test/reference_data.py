# SPDX-License-Identifier: Apache-2.0
"""Results of other solvers and recordings of other people's robots, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CONTINUUM_ROBOT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def reference_file(*parts: str) -> Path:
    """A file of the reference data. Without the folder a test is skipped; a file missing from it is a failure."""
    if not FOLDER.is_dir():
        pytest.skip("no reference data: CONTINUUM_ROBOT_DATA names its folder")
    path = FOLDER.joinpath(*parts)
    assert path.is_file(), f"{path} is missing from the reference data"
    return path
