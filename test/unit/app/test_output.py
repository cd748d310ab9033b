# SPDX-License-Identifier: Apache-2.0
"""Files that commands leave."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from continuum_robot.app.output import run_folder, write_json
from continuum_robot.errors import DeviceError


def test_json_holds_numbers_and_null_for_what_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "new" / "numbers.json"
    write_json(file, {"a_m": np.float64(1.5), "b": np.array([1.0, np.nan]), "c": [np.inf], "d": "text", "e": True})
    assert json.loads(file.read_text()) == {"a_m": 1.5, "b": [1.0, None], "c": [None], "d": "text", "e": True}
    assert [path.name for path in file.parent.iterdir()] == ["numbers.json"]


def test_json_to_an_impossible_place_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match=r"numbers\.json: cannot be written"):
        write_json(tmp_path / "file" / "numbers.json", {})


def test_folders_of_the_same_second_do_not_collide(tmp_path: Path) -> None:
    now = datetime(2030, 1, 2, 3, 4, 5)
    first, second = run_folder(tmp_path / "runs", now), run_folder(tmp_path / "runs", now)
    assert (first.name, second.name) == ("2030-01-02_03-04-05", "2030-01-02_03-04-05_2")


def test_a_folder_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(DeviceError, match="runs"):
        run_folder(tmp_path / "runs")
