# SPDX-License-Identifier: Apache-2.0
"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from continuum_robot.robot.file.whole_file import write_whole


def test_folders_are_made_and_an_old_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new" / "robot.yaml"
    for text in ("once: 1\n", "again: µ\n"):
        write_whole(file, text)
        assert file.read_text(encoding="utf-8") == text
    assert [path.name for path in file.parent.iterdir()] == ["robot.yaml"]


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "robot.yaml"
    write_whole(file, "old: 1\n")

    def half(path: Path, text: str, **_options: str) -> int:
        path.write_bytes(text.encode()[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, "new: 2\n")
    assert file.read_text(encoding="utf-8") == "old: 1\n"
    assert list(tmp_path.iterdir()) == [file]
