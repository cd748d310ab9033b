# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: the strict reader of YAML, and robot files."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from typing import Any

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.plain_yaml import BOUNDS, PlainReader
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import file_values, load_robot, parse_robot

BASES = ("opencr_five_tendon", "two_segment", "rolling_five_link", "crem_segment", "rucker")
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 1.5, 1e-300, 1e300, 10**40, float("nan"), float("inf"), -0.0, "", "x", "²", "9" * 300, [], {},
    [[]], [None], {"kind": None}, "segments[0].length_m", "2026-01-01", "\0",
)  # fmt: skip


def plain_yaml(data: bytes) -> None:
    """Any text: read within the bounds, or refused with the one declared error on one line."""
    reader = PlainReader()
    try:
        reader.read(_text(data))
    except RobotFileError as error:
        _check_message(error)
    assert reader.values <= BOUNDS.values + 1
    assert reader.depth <= BOUNDS.depth + 1
    assert reader.expanded_characters <= BOUNDS.expanded_characters + BOUNDS.characters


def robot_file(data: bytes) -> None:
    """A shipped robot with changes that the bytes say: a place, then what stands there, and so on."""
    if not data:
        return
    mapping = copy.deepcopy(_base(data[0] % len(_bases())))
    rest = data[1:]
    while len(rest) >= 3:
        places = list(_places(mapping))
        place = places[int.from_bytes(rest[:2], "little") % len(places)]
        kind, rest = rest[2], rest[3:]
        value: Any
        if kind < 96:
            value = ODD[kind % len(ODD)]
        elif kind < 128:  # a part of the file in another place
            value = functools.reduce(lambda part, name: part[name], places[kind * 7 % len(places)], mapping)
        elif kind < 192:
            length = kind - 128
            value, rest = rest[:length].decode("utf-8", "replace"), rest[length:]
        else:
            digits, rest = rest[:8], rest[8:]
            value = _number(digits.decode("latin-1"))
        parent = functools.reduce(lambda part, name: part[name], place[:-1], mapping)
        if kind & 1 and isinstance(parent, dict) and len(place) > 1:
            parent[str(value)[:40]] = parent.pop(place[-1])
        else:
            parent[place[-1]] = copy.deepcopy(value)
    _read_robot(json.dumps(mapping))  # JSON is YAML, and written twenty times as fast


def robot_text(data: bytes) -> None:
    """Any text as a robot file."""
    _read_robot(_text(data))


def _read_robot(text: str) -> None:
    try:
        parse_robot(text)
    except RobotFileError as error:
        _check_message(error)


def _check_message(error: RobotFileError) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 10_000


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


@functools.lru_cache(maxsize=1)
def _bases() -> tuple[str, ...]:
    known = shipped_robots()
    return tuple(name for name in BASES if name in known) or tuple(sorted(known))[:1]


@functools.lru_cache(maxsize=len(BASES))
def _base(index: int) -> Any:
    return file_values(load_robot(_bases()[index]))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from _places(item, (*path, name))
