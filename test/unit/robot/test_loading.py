# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
import re
import typing
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from robot_files import changed_robot, robot_values

from continuum_robot.errors import ContinuumRobotError, RobotFileError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import place_of
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import find_robot_file, load_robot, parse_robot
from continuum_robot.robot.schema import quantity_of, read

GOOD = """\
schema_version: 2
name: small
segments:
  - name: only
    length_m: 0.2
    backbone:
      youngs_modulus_pa: 58.0e+9
      density_kg_per_m3: 6400
      outer_diameter_m: 0.001
    disks:
      count: 10
      mass_kg: 0.001
      radius_m: 0.009
    tendons:
      count: 5
      pitch_radius_m: 0.007
limits:
  minimum_n: 0.2
  maximum_n: 20.0
  rate_n_per_s: 2000.0
  total_n: 60.0
  safe_n: 0.5
  safe_rate_n_per_s: 100.0
  maximum_displacement_m: 0.025
control:
  gains:
    - p: 3000.0
reference:
  kind: chirp
  amplitude_m: [0.01, 0.0]
  frequency_hz: [0.1]
strings:
  - {name: a, anchor_m: 0.2, pitch_radius_m: 0.008, angle_rad: 0.3}
  - {name: b, anchor_m: 0.1, pitch_radius_m: 0.008, angle_rad: 1.3}
"""


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


# What stands in the good file, what replaces it, the key of the error, the line's own text, what the message reports.
BAD = [
    # unknown keys, with the nearest known one
    ("length_m: 0.2", "lenght_m: 0.2", "segments[0].lenght_m", "lenght_m", "did you mean 'length_m'"),
    ("length_m: 0.2", "length_mm: 200", "segments[0].length_mm", "length_mm", "did you mean 'length_m'"),
    ("mass_kg: 0.001", "mass_g: 1", "segments[0].disks.mass_g", "mass_g", "did you mean 'mass_kg'"),
    ("    - p: 3000.0", "    - {p: 3000.0, ki: 3}", "control.gains[0].ki", "ki: 3", "one of the keys p, i, d"),
    ("name: small", "name: small\ngraviti: 1", "graviti", "graviti", "one of the keys schema_version"),
    # wrong units
    ("length_m: 0.2", "length_m: 200", "segments[0].length_m", "length_m: 200", "(0, 10] m"),
    ("length_m: 0.2", "length_m: 0.2 m", "segments[0].length_m", "0.2 m", "a number in (0, 10] m"),
    ("length_m: 0.2", "length_m: 200 mm", "segments[0].length_m", "200 mm", "a number in (0, 10] m"),
    ("58.0e+9", "58.0e+12", "segments[0].backbone.youngs_modulus_pa", "58.0e+12", "1e+12] Pa"),
    ("58.0e+9", "58", "segments[0].backbone.youngs_modulus_pa", "youngs", "[10000, 1e+12] Pa"),
    ("angle_rad: 0.3", "angle_rad: 72", "strings[0].angle_rad", "angle_rad: 72", "6.28319] rad"),
    # missing
    ("    length_m: 0.2\n", "", "segments[0].length_m", "- name: only", "this key (length of the backbone)"),
    ("      pitch_radius_m: 0.007\n", "", "segments[0].tendons.pitch_radius_m", "tendons:", "this key"),
    ("schema_version: 2\n", "", "schema_version", "name: small", "this key"),
    ("      count: 10\n", "", "segments[0].disks.count", "disks:", "either count or arc_lengths_m"),
    ("length_m: 0.2", "length_m:", "segments[0].length_m", "length_m:", "(0, 10] m"),
    # wrong type
    ("length_m: 0.2", "length_m: true", "segments[0].length_m", "length_m: true", "a number"),
    ("length_m: 0.2", "length_m: [0.2]", "segments[0].length_m", "length_m: [0.2]", "a number"),
    ("length_m: 0.2", "length_m: 1:30", "segments[0].length_m", "1:30", "a number"),
    ("count: 5", "count: 5.5", "segments[0].tendons.count", "count: 5.5", "a whole number"),
    ("count: 5", "count: .nan", "segments[0].tendons.count", "count: .nan", "a whole number"),
    ("count: 5", "count: .inf", "segments[0].tendons.count", "count: .inf", "a whole number"),
    ("name: small", "name: 5", "name", "name: 5", "text"),
    ("name: small", "name: ''", "name", "name: ''", "text that is not empty"),
    ("amplitude_m: [0.01, 0.0]", "amplitude_m: 0.01", "reference.amplitude_m", "amplitude_m", "a list, each entry"),
    ("kind: chirp", "kind: [chirp]", "reference.kind", "kind: [chirp]", "one of chirp, steps"),
    ("strings:", "actuators: 5\nstrings:", "actuators", "actuators: 5", "a mapping with the keys command"),
    # impossible
    ("count: 5", "count: 1 # few", "segments[0].tendons.count", "count: 1 # few", "at least 3"),
    ("minimum_n: 0.2", "minimum_n: 21", "limits.minimum_n", "minimum_n: 21", "less than maximum_n = 20 N"),
    ("safe_n: 0.5", "safe_n: 21", "limits.safe_n", "safe_n: 21", "at most maximum_n = 20 N"),
    ("total_n: 60.0", "total_n: 0.9", "limits.total_n", "total_n: 0.9", "at least 1 N"),
    ("total_n: 60.0", "total_n: 2", "limits.total_n", "total_n: 2", "at least 2.5 N"),
    ("anchor_m: 0.2", "anchor_m: 0.21", "strings[0].anchor_m", "anchor_m: 0.21", "the robot's length, 0.2 m"),
    ("name: b", "name: a", "strings", "strings:", "a different name for each string"),
    ("radius_m: 0.009", "radius_m: 0.006", "segments[0].tendons.pitch_radius_m", "pitch_radius", "disks' radius_m"),
    ("count: 10", "arc_lengths_m: [0.1, 0.3]", "segments[0].disks.arc_lengths_m", "arc_len", "length_m = 0.2 m"),
    ("count: 10", "arc_lengths_m: [0.2, 0.1]", "segments[0].disks.arc_lengths_m", "arc_len", "increasing"),
    ("count: 10", "count: 10\n      arc_lengths_m: [0.2]", "segments[0].disks.count", "count: 10", "either count or"),
    (
        "outer_diameter_m: 0.001",
        "outer_diameter_m: 0.001\n      inner_diameter_m: 0.001",
        "segments[0].backbone.inner_diameter_m",
        "inner_diameter_m",
        "less than outer_diameter_m",
    ),
    ("    - p: 3000.0", "    - p: 3000.0\n    - p: 1.0", "control.gains", "gains:", "1 entries, one a segment"),
    ("control:", "control:\n  pretension_n: 30", "control.pretension_n", "pretension_n", "limits.maximum_n = 20 N"),
    ("[0.01, 0.0]", "[0.01]", "reference.amplitude_m", "amplitude_m", "2 values, one a coordinate"),
    (
        "kind: chirp\n  amplitude_m: [0.01, 0.0]",
        "kind: hold\n  amplitude_m: [1]",
        "reference.amplitude_m",
        "amp",
        "2 va",
    ),
    ("frequency_hz: [0.1]", "frequency_hz: [0.1, 0.1, 0.1]", "reference.frequency_hz", "frequency_hz", "1 or 2 values"),
    ("  frequency_hz: [0.1]\n", "", "reference.frequency_hz", "reference:", "at least one value"),
    ("kind: chirp", "kind: csv", "reference.file", "reference:", "the path of a CSV file"),
    ("strings:", "assumed: ['segments[3].length_m']\nstrings:", "assumed[0]", "assumed", "the dotted key of a value"),
    # lists of a wrong length
    ("count: 5", "count: 5\n      stiffness_n_per_m: [1, 2]", "segments[0].tendons.stiffness_n_per_m", "stiff", "or 5"),
    ("strings:", "gravity_m_per_s2: [0, 9.81]\nstrings:", "gravity_m_per_s2", "gravity", "3 values"),
    # not numbers
    ("length_m: 0.2", "length_m: .nan", "segments[0].length_m", "length_m: .nan", "(0, 10] m"),
    ("p: 3000.0", "p: nan", "control.gains[0].p", "p: nan", "N/m"),
    ("[0.01, 0.0]", "[0.01, .inf]", "reference.amplitude_m[1]", "amplitude_m", "[-1, 1] m"),
    # the same key twice
    ("length_m: 0.2", "length_m: 0.2\n    length_m: 0.3", "segments[0].length_m", "length_m: 0.3", "each key once"),
    ("strings:", "name: again\nstrings:", "name", "name: again", "each key once"),
    # another version, odd YAML values
    ("schema_version: 2", "schema_version: 3", "schema_version", "schema_version", "2, or 1, which is read too"),
    ("name: small", "name: 2026-13-45", "name", "2026-13-45", "a value that YAML can read"),
    ("count: 5", "count: &x [*x]", "segments[0].tendons.count[0]", "count: &x", "no alias to what encloses it"),
    ("count: 5", "<<: 3", "segments[0].tendons", "<<: 3", "a mapping to merge"),
]


@pytest.mark.parametrize(("old", "new", "key", "at", "says"), BAD)
def test_a_bad_value_names_file_line_key_value_and_what_is_allowed(tmp_path, old, new, key, at, says):
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    file = tmp_path / "robot.yaml"
    file.write_text(text)
    with pytest.raises(RobotFileError) as caught:
        load_robot(file)
    error, message = caught.value, str(caught.value)
    assert error.file == file
    assert error.key == key
    assert error.line == line_of(text, at)
    assert says in error.expected
    assert message.startswith(f"{file}:{error.line}: {key}: ")
    assert "\n" not in message
    assert error.value is None or repr(error.value)[:20] in message


def test_the_good_file_is_good(tmp_path):
    (tmp_path / "robot.yaml").write_text(GOOD)
    robot = load_robot(tmp_path / "robot.yaml")
    assert (robot.name, robot.tendon_count, robot.length_m) == ("small", 5, 0.2)
    assert robot.file_name == str(tmp_path / "robot.yaml")
    assert parse_robot(GOOD) == robot


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: [1, 2", 1, "well-formed YAML"),
        ("name: a\n\tlength: 3", 2, "well-formed YAML"),
        ("name: a\n name: b: c", 2, "well-formed YAML"),
        ("name: !python/object:os.system x", 1, "well-formed YAML"),
        ("a: *nowhere", 1, "well-formed YAML"),
        ("--- 1\n--- 2\n", 2, "well-formed YAML"),
        ("\x01", None, "well-formed YAML"),
        ("[" * 5000, 1, "well-formed YAML"),
        ("", None, "a mapping with the keys schema_version, name, segments"),
        ("- 1\n- 2\n", 1, "a mapping with the keys schema_version, name, segments"),
        ("just words", 1, "a mapping with the keys schema_version, name, segments"),
    ],
)
def test_malformed_files_name_file_and_line(tmp_path, text, line, says):
    file = tmp_path / "robot.yaml"
    file.write_text(text)
    with pytest.raises(RobotFileError) as caught:
        load_robot(file)
    assert caught.value.file == file
    assert caught.value.line == line
    assert says in str(caught.value)


def test_a_missing_file_names_the_robots_there_are(tmp_path):
    for name in (tmp_path / "none.yaml", "no_such_robot", "~no_such_user/robot.yaml", tmp_path):
        with pytest.raises(RobotFileError, match="opencr_five_tendon") as caught:
            load_robot(name)
        assert isinstance(caught.value, ContinuumRobotError)
        assert "an existing robot file" in caught.value.expected


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "robot.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(RobotFileError, match="a readable robot file in UTF-8"):
        load_robot(tmp_path / "robot.yaml")


def test_home_folder_and_byte_order_mark_are_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "robot.yaml").write_text("\ufeff" + GOOD, encoding="utf-8")
    assert load_robot("~/robot.yaml").name == "small"


def test_exponents_without_a_point_are_numbers_although_yaml_says_text():
    assert parse_robot(GOOD.replace("58.0e+9", "58e9")).segments[0].backbone.youngs_modulus_pa == 58e9


def test_anchors_and_merge_keys_share_what_segments_have_in_common():
    text = GOOD.replace("  - name: only", "  - &first\n    name: only").replace(
        "limits:", "  - <<: *first\n    name: second\n    length_m: 0.1\nlimits:", 1
    )
    text = text.replace("    - p: 3000.0", "    - p: 3000.0\n    - p: 1.0").replace("[0.01, 0.0]", "[0.01, 0, 0, 0]")
    robot = parse_robot(text)
    assert [(one.name, one.length_m) for one in robot.segments] == [("only", 0.2), ("second", 0.1)]
    assert robot.segments[0].tendons == robot.segments[1].tendons
    with pytest.raises(RobotFileError) as caught:
        parse_robot(text.replace("length_m: 0.1\n", "length_m: -0.1\n"))
    assert caught.value.key == "segments[1].length_m"
    assert caught.value.line == line_of(text, "length_m: 0.1")


def test_segment_names_must_differ():
    text = GOOD.replace("  - name: only", "  - &first\n    name: only").replace("limits:", "  - *first\nlimits:", 1)
    with pytest.raises(RobotFileError, match="a different name for each segment"):
        parse_robot(text)


def test_limits_beyond_the_actuators_are_refused():
    with pytest.raises(RobotFileError, match=r"at most 47 N, which the actuators give") as caught:
        changed_robot({"limits.maximum_n": 50.0})
    assert caught.value.key == "limits.maximum_n"


def test_recorded_columns_must_be_one_a_tendon():
    recording = "recording:\n  displacement_signs: [1, 1, 1, 1, 1]\n  displacement_columns: [a, b, c, d, {last}]\n"
    parse_robot(GOOD + recording.format(last="e"))
    with pytest.raises(RobotFileError, match="a different column for each tendon"):
        parse_robot(GOOD + recording.format(last="d"))
    with pytest.raises(RobotFileError, match="5 values, one a tendon"):
        parse_robot(GOOD + recording.replace(", 1]", "]").format(last="e"))


def leaves(value, key=""):
    """Dotted keys of everything in a value, below what encloses it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        inner = f"{key}[{name}]" if isinstance(value, list) else f"{key}.{name}" if key else name
        yield inner, item
        yield from leaves(item, inner)


def every_place():
    """The values of each shipped robot with a key in it; of keys that differ in an index alone, the first."""
    seen = set()
    for name in shipped_robots():
        values = robot_values({}, name)
        for key, value in list(leaves(values)):
            kind = (re.sub(r"\d+", "", key), str(values.get("mechanism", {}).get("kind")))
            if kind not in seen:
                seen.add(kind)
                yield values, key, value


def test_a_misspelt_key_and_an_unknown_number_anywhere_in_a_shipped_file_are_found():
    counts = Counter()
    for values, key, value in every_place():
        place, name = place_of(values, key)
        if isinstance(place, dict):
            counts["misspelt"] += 1
            place["x" + name] = place.pop(name)
            with pytest.raises(RobotFileError) as caught:
                read(Robot, values)
            assert caught.value.key.endswith("x" + name)
            assert f"did you mean {name!r}" in str(caught.value) or len(name) == 1
            place[name] = place.pop("x" + name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            counts["unknown"] += 1
            place[name] = math.nan
            with pytest.raises(RobotFileError):
                read(Robot, values)
            place[name] = value
    assert min(counts.values()) > 100, counts


def test_shipped_robots_are_those_of_the_papers():
    assert {"opencr_five_tendon", "two_segment", "ftdcr_v4", "ftdcr_v6"} <= set(shipped_robots())
    for name in shipped_robots():
        assert load_robot(name).name == name
    one, two = load_robot("opencr_five_tendon"), load_robot("two_segment")
    # muhmann section IV-A, with the modulus in GPa
    for segment in (*one.segments, *two.segments):
        assert segment.length_m == 0.2
        assert (segment.tendons.count, segment.tendons.pitch_radius_m) == (5, 0.007)
        assert (segment.disks.count, segment.disks.mass_kg) == (10, 0.81e-3)
        assert segment.backbone.youngs_modulus_pa == 58e9
        assert segment.backbone.outer_diameter_m == 0.001
        assert segment.bending_damping_nms == 11.27e-4
    assert (len(one.segments), len(two.segments)) == (1, 2)
    assert two.reference.amplitude_m == (0.01, 0.005, 0.005, 0.025)
    assert two.reference.frequency_hz == (0.1, 0.05, 0.15, 0.2)


def dataclasses_below(kind):
    yield kind
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        for option in (hints[field.name], *typing.get_args(hints[field.name])):
            if dataclasses.is_dataclass(option):
                yield from dataclasses_below(option)


def test_every_field_of_the_format_is_documented_and_every_number_bounded():
    for kind in dataclasses_below(Robot):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if not field.init:
                continue
            rules = quantity_of(field)
            assert rules.doc, f"{kind.__name__}.{field.name}"
            if hints[field.name] in (int, float, tuple[float, ...]):
                bounded = (rules.ge, rules.gt) != (None, None) and (rules.le, rules.lt) != (None, None)
                assert bounded, f"{kind.__name__}.{field.name}"


def test_derived_quantities_against_closed_form():
    robot = load_robot("two_segment")
    rod = robot.segments[0].backbone
    assert rod.bending_stiffness_nm2 == pytest.approx(58e9 * math.pi * 0.001**4 / 64)
    assert rod.area_m2 == pytest.approx(math.pi * 0.0005**2)
    np.testing.assert_allclose(robot.segment_starts_m, [0, 0.2])
    np.testing.assert_allclose(robot.disk_arc_lengths_m, 0.02 * np.arange(1, 21))
    assert robot.tendon_slices == (slice(0, 5), slice(5, 10))
    assert robot.tendon_names[5] == "distal/tendon_1"
    np.testing.assert_allclose(robot.segments[0].tendons.angles_rad, np.arange(5) * 2 * math.pi / 5)
    disk = robot.segments[0].disks
    assert disk.inertia_axial_kg_m2 == pytest.approx(0.81e-3 * 0.009**2 / 2)
    assert disk.inertia_transverse_kg_m2 == pytest.approx(0.81e-3 * (3 * 0.009**2 + 0.003**2) / 12)


def test_descriptions_cannot_be_changed():
    robot = load_robot("two_segment")
    with pytest.raises(dataclasses.FrozenInstanceError):
        robot.segments[0].length_m = 3.0


def test_a_relative_path_counts_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_robot("mine.yaml").name == "small"
    assert find_robot_file(Path("mine.yaml")) == Path("mine.yaml")
