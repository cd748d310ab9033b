# SPDX-License-Identifier: Apache-2.0
"""Compiled code is loaded from the cache only if it is whole and ours; otherwise it is made anew, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from continuum_robot.runtime.cycle.cache import cached_library

CODE = bytes(range(256)) * 2000


class Builder:
    """Makes the same library each time and counts how often."""

    def __init__(self):
        self.times = 0

    def __call__(self, folder):
        self.times += 1
        library = folder / "functions.so"
        library.write_bytes(CODE)
        return library


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(path):
    return Path(path).read_bytes()[: len(CODE)]


def test_it_is_built_once_in_a_folder_that_nobody_else_can_write_to(folder):
    build = Builder()
    for _ in range(2):
        assert cached_library("a.so", build, load) == CODE
    assert build.times == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["a.so"]


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: len(CODE) // 2])


def overwritten(path):
    content = bytearray(path.read_bytes())
    content[1000:201_000] = bytes(200_000)
    path.write_bytes(content)


def without_digest(path):
    path.write_bytes(CODE)


def renamed(path):
    cached_library("b.so", Builder(), load)
    path.with_name("b.so").replace(path)


def a_link(path):
    path.replace(path.with_name("c.so"))
    path.symlink_to("c.so")


def writable_by_others(path):
    path.chmod(0o620)


DAMAGES = (empty, cut, overwritten, without_digest, renamed, a_link, writable_by_others)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_what_is_not_whole_and_ours_is_made_anew(folder, damage):
    build = Builder()
    cached_library("a.so", build, load)
    damage(folder / "a.so")
    for _ in range(2):
        assert cached_library("a.so", build, load) == CODE
    assert build.times == 2


def owned_by_a_stranger(monkeypatch, kind):
    real = os.fstat

    def fstat(file):
        status = real(file)
        if not kind(status.st_mode):
            return status
        return os.stat_result([*status[:4], status.st_uid + 4711, *status[5:]])

    monkeypatch.setattr(os, "fstat", fstat)


def test_the_library_of_a_stranger_is_made_anew(folder, monkeypatch):
    build = Builder()
    cached_library("a.so", build, load)
    owned_by_a_stranger(monkeypatch, stat.S_ISREG)
    assert cached_library("a.so", build, load) == CODE
    assert build.times == 2


def refused(build):
    with pytest.raises(PermissionError, match="belongs to another user or others may write to it"):
        cached_library("a.so", build, load)
    assert build.times == 0


def test_the_folder_of_a_stranger_is_refused(folder, monkeypatch):
    owned_by_a_stranger(monkeypatch, stat.S_ISDIR)
    refused(Builder())


def test_a_folder_that_others_may_write_to_is_refused_unless_it_is_sticky(folder):
    folder.mkdir()
    for mode in (0o777, 0o775):
        folder.chmod(mode)
        refused(Builder())
    folder.chmod(0o1777)
    assert cached_library("a.so", Builder(), load) == CODE


def test_a_lock_that_is_a_link_does_not_touch_what_it_points_to(folder, tmp_path):
    folder.mkdir()
    (tmp_path / "precious").write_text("kept", encoding="utf-8")
    (folder / "a.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        cached_library("a.so", Builder(), load)
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "kept"


def test_a_build_that_fails_leaves_nothing_behind(folder):
    def build(_folder):
        raise OSError("no compiler today")

    with pytest.raises(OSError, match="no compiler today"):
        cached_library("a.so", build, load)
    assert not list(folder.iterdir())


def test_without_a_home_there_is_no_cache(monkeypatch):
    for key in ("CONTINUUM_ROBOT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(key, raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FileNotFoundError, match="CONTINUUM_ROBOT_CACHE"):
        cached_library("a.so", Builder(), load)
