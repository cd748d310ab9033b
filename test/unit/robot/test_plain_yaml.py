# SPDX-License-Identifier: Apache-2.0
"""Bounds of what YAML may become, counted and not timed; and a fuzzer of the robot-file loader."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from robot_files import robot_values

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.plain_yaml import BOUNDS, PlainReader, YamlBounds, plain_yaml
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import find_robot_file, load_robot, parse_robot

# Each line ten times the one before, in 284 bytes.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(f'*{before}' for _ in range(10))}]\n" for before, name in itertools.pairwise("abcdef")
)
KEYS_BOMB = "? &a [x,x,x,x,x,x,x,x,x]\n: 1\n" + "".join(
    f"? &{name} [{','.join(f'*{before}' for _ in range(9))}]\n: 1\n" for before, name in itertools.pairwise("abcdefg")
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{','.join(f'*{before}' for _ in range(10))}]}}\n"
    for before, name in itertools.pairwise("abcdefg")
)


def bounded(text: str, bounds: YamlBounds = BOUNDS) -> PlainReader:
    """Read a text as far as it goes; whatever happens, no more than the bounds was counted."""
    reader = PlainReader(None, bounds)
    with contextlib.suppress(RobotFileError):
        reader.read(text)
    assert reader.values <= bounds.values + 1
    assert reader.depth <= bounds.depth + 1
    assert reader.expanded_characters <= bounds.expanded_characters + bounds.characters
    return reader


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "every alias counted as all that it stands for"),
        (MERGE_BOMB, "every alias counted as all that it stands for"),
        (KEYS_BOMB, "keys that are text"),
        (f"a: &a '{'x' * 9000}'\nb: [{','.join(['*a'] * 100)}]", "characters of text, every alias counted"),
        ("[" * 5000, "at most 32 deep"),
        ("? " * 500, "at most 32 deep"),
        ("- " * 500, "at most 32 deep"),
        ("a: [" + "x," * 30000 + "]", "at most 5000 values"),
        ("x" * 200_000, "at most 131072 characters"),
        (f"{'k' * 300}: 1", "keys of at most 200 characters"),
        ("a: 0x" + "f" * 5000, "a value that YAML can read"),
        ("a: 1" + "0" * 400, "a value that YAML can read"),
        ("a: !!int ''", "a value that YAML can read"),
        ("a: !!bool maybe", "a value that YAML can read"),
        ("a: !!timestamp never", "a value that YAML can read"),
        ("a: !!binary aGVsbG8=", "put a date between quotes"),
        ("a: 2026-11-23", "put a date between quotes"),
        ("a: &a {b: *a}", "no alias to what encloses it"),
        ("? &a [*a]\n: 1", "keys that are text"),
    ],
)
def test_what_grows_beyond_its_bounds_is_refused_with_the_bound(text, says):
    reader = bounded(text)
    assert reader.values <= BOUNDS.values + 1
    with pytest.raises(RobotFileError, match=says):
        plain_yaml(text)


def test_the_few_bytes_that_took_ten_seconds_are_refused_after_the_allowed_values(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text(BOMB)
    assert file.stat().st_size < 300
    with pytest.raises(RobotFileError, match="more than 5000 values"):
        load_robot(file)
    assert bounded(BOMB).values == BOUNDS.values + 1


def test_sixty_to_the_hundred_thousandth_is_never_computed():
    text = ":".join(["1"] * 20_000)
    assert plain_yaml(f"a: {text}")[0] == {"a": text}
    assert plain_yaml(f"a: {text}.5")[0] == {"a": f"{text}.5"}


def test_aliases_and_merges_within_the_bounds_still_share():
    value, lines = plain_yaml("a: &a {x: 1, y: [2, 3]}\nb: *a\nc: {<<: [*a, {y: 5, z: 6}], x: 4}\n")
    assert value == {"a": {"x": 1, "y": [2, 3]}, "b": {"x": 1, "y": [2, 3]}, "c": {"x": 4, "y": [2, 3], "z": 6}}
    assert lines["c.x"] == 3


def test_files_that_are_no_files_and_names_that_are_no_names_are_refused(tmp_path):
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    long = tmp_path / "long.yaml"
    long.write_text("#" * 200_000)
    for name in (fifo, "x" * 5000, "a\0b", "/dev/zero", long):
        with pytest.raises(RobotFileError):
            load_robot(name)


@pytest.mark.parametrize("path", shipped_robots().values(), ids=lambda path: path.stem)
def test_shipped_files_are_far_within_the_bounds(path):
    reader = PlainReader(path)
    reader.read(path.read_text(encoding="utf-8"))
    assert reader.values * 10 <= BOUNDS.values
    assert reader.expanded_characters * 10 <= BOUNDS.expanded_characters
    assert reader.depth * 3 <= BOUNDS.depth


# The fuzzer. Whatever is handed in: read within the bounds, or the one declared error.

GOOD = robot_values()
ODD = [None, True, "", "x" * 5000, [], {}, float("nan"), float("inf"), 1e308, -1e308, 5e-324, 1e400, 10**30, -1, 0]
ODD += ["\0", "1e400", "²", "nan", "../../../../etc/passwd", "segments[²].name", "segments[" + "9" * 5000 + "].name"]
ODD += [10**400, 1.5, "😀", "\u2028", [[]], [None], {"kind": None}, {"kind": []}, "!!int", "&a", "*a", "<<"]
SCALARS = st.one_of(st.sampled_from(ODD), st.floats(), st.integers(), st.text(max_size=20), st.booleans())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FRAGMENTS = st.sampled_from(
    [
        *("a", "a: ", "- ", "? ", ": ", "[", "]", "{", "}", ",", "\n", "  ", "&a ", "*a", "<<: ", "!!int ", "!!float "),
        *(
            "!!bool ",
            "!!binary ",
            "!!timestamp ",
            "!!null ",
            "!!set ",
            "!!merge ",
            "!!str ",
            "!foo ",
            "|\n",
            ">\n",
            "'",
        ),
        *("\\", '"', "#", "---\n", "...\n", "%YAML 1.1\n", "1e400", "-.inf", ".nan", "0x", "0b_", "1:30", "_", "-"),
        *("schema_version: 1\n", "name: x\n", "segments:\n", "2026-13-45", "0001-01-01 00:00:00 +23:59", "\t"),
        *("\x85", "\ufeff"),
    ]
)


def refused_or_read(text: str) -> None:
    bounded(text)
    message = ""
    try:
        parse_robot(text)
    except RobotFileError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 10_000


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(FRAGMENTS | st.text(max_size=4), max_size=60))
@example(["!!float ", "1:1:1:1.0"])
@example(["- ", "!!int ", "''"])
@example(["a: ", "!!int ", "_"])
def test_any_text_is_read_or_refused(parts):
    refused_or_read("".join(parts))


@given(st.binary(max_size=200))
@example(b"\xff\xfea\x00")
@example("name: grün".encode("latin-1"))
@example("name: x".encode("utf-16"))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "bytes.yaml"
    file.write_bytes(data)
    with pytest.raises(RobotFileError):  # no such file is a robot
        load_robot(file)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


PLACES = [place for place in places(GOOD) if place]


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
@example([(("segments", 0, "length_m"), 10**400)])
@example([(("segments", 0, "basis", "kind"), {})])
@example([(("assumed",), ["segments[²].length_m"])])
@example([(("reference", "file"), "\0")])
@example([(("segments", 0, "tendons", "count"), 10**400)])
def test_a_good_file_with_odd_values_anywhere_is_read_or_refused(changes):
    robot = copy.deepcopy(GOOD)
    for place, value in changes:
        parent = robot
        for name in place[:-1]:
            if not isinstance(parent, (dict, list)) or (isinstance(parent, list) and name >= len(parent)):
                break
            parent = parent.get(name) if isinstance(parent, dict) else parent[name]
        with contextlib.suppress(IndexError, TypeError):  # an earlier change took it away
            parent[place[-1]] = value
    refused_or_read(yaml.dump(robot, allow_unicode=True))


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), min_size=1, max_size=3))
def test_a_good_file_with_parts_in_wrong_places_is_read_or_refused(swaps):
    robot = copy.deepcopy(GOOD)

    def at(place):
        value = robot
        for name in place:
            value = value[name]
        return value

    for here, there in swaps:
        try:
            parent, part = at(here[:-1]), at(there)
            # Not a copy: written as an anchor and an alias, also to what encloses it.
            parent[here[-1]] = part
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    refused_or_read(yaml.dump(robot, allow_unicode=True))


@given(st.integers(0, 2000), st.text(max_size=6))
def test_a_good_file_with_a_slip_of_the_hand_is_read_or_refused(position, typed):
    text = find_robot_file("two_segment").read_text(encoding="utf-8")
    refused_or_read(text[:position] + typed + text[position + len(typed) :])
    refused_or_read(text[:position])
