# SPDX-License-Identifier: Apache-2.0
"""Robot files in parts, and files of the version before."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from continuum_robot.app.command_line import main
from continuum_robot.control.delay_margin import DelayMargin
from continuum_robot.control.tuning import Tuning
from continuum_robot.errors import RobotFileError
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.file.parts import self_contained
from continuum_robot.robot.loading import file_values, find_robot_file, load_robot, parse_robot

SHIPPED = load_robot("two_segment")
SECTIONS = {
    "body": ("segments", "gravity_m_per_s2"),
    "drives": ("actuators", "limits"),
    "control": ("control", "reference"),
}


def write(path: Path, **values: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"schema_version": 2, **values}, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def in_parts(tmp_path: Path) -> Path:
    """two_segment with its sections in files of their own, in a folder beside it."""
    values = file_values(SHIPPED)
    for name, keys in SECTIONS.items():
        write(tmp_path / "parts" / f"{name}.yaml", **{key: values.pop(key) for key in keys})
    values.pop("schema_version")
    return write(tmp_path / "robot.yaml", include=[f"parts/{name}.yaml" for name in SECTIONS], **values)


def refused(path: Path) -> RobotFileError:
    with pytest.raises(RobotFileError) as caught:
        load_robot(path)
    return caught.value


def test_a_robot_in_parts_is_the_robot_in_one_file(in_parts):
    assert load_robot(in_parts) == SHIPPED


def test_a_second_robot_of_a_design_copies_nothing(tmp_path):
    second = write(
        tmp_path / "second.yaml",
        include=["two_segment"],
        name="second",
        limits={"maximum_n": 25.0},
        set={"segments[1].tendons.angle_offset_rad": 0.7, "control.gains[0].p": 5000.0},
    )
    robot = load_robot(second)
    assert (robot.name, robot.limits.maximum_n, robot.limits.minimum_n) == ("second", 25.0, SHIPPED.limits.minimum_n)
    assert robot.segments[1].tendons.angle_offset_rad == 0.7
    assert robot.control.gains[0].p == 5000.0
    assert robot.control.gains[1] == SHIPPED.control.gains[1]
    # Its angle is its own, and no longer what the part assumed.
    assert robot.assumed == SHIPPED.assumed[:-1]


def test_set_makes_sections_and_reaches_what_is_derived_and_a_section_without_kind_keeps_that_of_the_part(tmp_path):
    second = write(
        tmp_path / "second.yaml",
        include=["opencr_five_tendon"],
        name="second",
        reference={"amplitude_m": [0.0, 0.01]},
        set={"simulation.tendon_damping_ns_per_m": 5.0, "hardware.tendon_actuators.motors[4].polarity": -1},
    )
    robot = load_robot(second)
    assert (robot.reference.kind, robot.reference.amplitude_m) == ("chirp", (0.0, 0.01))
    assert robot.simulation.tendon_damping_ns_per_m == 5.0
    assert [motor.polarity for motor in robot.hardware.tendon_actuators.motors] == [1, 1, 1, 1, -1]


def test_what_a_part_assumed_and_this_file_states_is_not_assumed(tmp_path):
    changes = {"set": {"actuators.gear_ratio": 5.0}, "tendon_stiffness_n_per_m": 3.0e4, "actuators": {"heat": {}}}
    second = write(tmp_path / "second.yaml", include=["opencr_five_tendon"], name="second", **changes)
    left_out = {"actuators.gear_ratio", "tendon_stiffness_n_per_m"}
    assert set(load_robot("opencr_five_tendon").assumed) - set(load_robot(second).assumed) == left_out


def test_an_included_file_of_another_folder_names_its_own_parts_from_there(in_parts, tmp_path):
    deeper = write(tmp_path / "deep" / "er" / "robot.yaml", include=["../../robot.yaml"], name="deeper")
    assert load_robot(deeper).segments == SHIPPED.segments


def test_an_error_names_the_file_in_which_the_value_stands(in_parts, tmp_path):
    body = tmp_path / "parts" / "body.yaml"
    body.write_text(body.read_text().replace("length_m: 0.2", "length_m: 20", 1))
    error = refused(in_parts)
    assert (error.file, error.key) == (body, "segments[0].length_m")
    assert body.read_text().splitlines()[error.line - 1].strip().endswith("length_m: 20")


@pytest.mark.parametrize(
    ("values", "key", "says"),
    [
        ({"include": "two_segment"}, "include", "a list of robot files"),
        ({"include": ["two_segmnt"]}, "include[0]", "did you mean two_segment?"),
        ({"include": ["robot.yaml"]}, "include[0]", "does not include this one"),
        ({"include": ["two_segment", "opencr_five_tendon"]}, "include[1]", "the value of a file included before it"),
        ({"include": ["two_segment"], "set": {"segments[2].length_m": 0.1}}, "set.segments[2].length_m", "dotted key"),
        ({"include": ["two_segment"], "set": {"segments.0": 0.1}}, "set.segments.0", "dotted key"),
        ({"include": ["two_segment"], "set": {"segments[0].length": 0.1}}, "segments[0].length", "length_m"),
        ({"include": ["two_segment"], "set": {"limit.maximum_n": 3}}, "limit", "did you mean 'limits'"),
        ({"include": ["two_segment"], "set": [1]}, "set", "a mapping of dotted keys"),
    ],
)
def test_what_cannot_be_put_together_is_refused_with_its_key(values, key, says, tmp_path):
    error = refused(write(tmp_path / "robot.yaml", **values))
    assert (error.key, error.file) == (key, tmp_path / "robot.yaml")
    assert says in error.expected


def test_files_that_include_each_other_without_end_are_refused(tmp_path):
    write(tmp_path / "a.yaml", include=["b.yaml"])
    write(tmp_path / "b.yaml", include=["a.yaml"])
    assert "does not include this one" in refused(tmp_path / "a.yaml").expected
    for level in range(8):  # each includes the one before twice
        names = [f"{level - 1}.yaml"] * 2 if level else []
        write(tmp_path / f"{level}.yaml", include=names)
    assert "at most 32 included files" in refused(tmp_path / "7.yaml").expected


def test_what_was_found_goes_beside_the_parts(in_parts, tmp_path):
    robot = load_robot(in_parts)
    gains = tuple(replace(one, p=0.5 * one.p) for one in robot.control.gains)
    margin = DelayMargin(*[1.0] * len(fields(DelayMargin)))
    found = Tuning(replace(robot.control, gains=gains), margin, None, (), (), 1.0, 0.8, 2.5, 0.0, 1e-3, "phase")
    tuned = write_fitted_robot(robot, found, tmp_path / "other" / "tuned.yaml")
    assert tuned.control.gains == found.control.gains
    assert tuned.segments == robot.segments
    own = yaml.safe_load((tmp_path / "other" / "tuned.yaml").read_text())
    assert own["include"] == [f"../parts/{name}.yaml" for name in SECTIONS]
    assert not {"segments", "control"} & set(own)
    assert own["set"]["control.gains[0].p"] == found.control.gains[0].p


def test_a_recording_keeps_the_whole_robot(in_parts, tmp_path):
    assert parse_robot(self_contained(in_parts)) == SHIPPED
    alone = write(tmp_path / "alone.yaml", name="alone")
    assert self_contained(alone) == alone.read_text(encoding="utf-8")


OLD = """\
schema_version: 1
recording:
  displacement_columns: [a, b, c]
  displacement_signs: [1, 1, 1]
  fitted_from: pull.csv
  fitted_sha256: 6f
  fitted_rmse_mm: 2.5
displaced_tendons:
  stiffness_n_per_m: [1.0e+4, 1.0e+4, 1.0e+4]
  zero_m: [0, 0, 0]
  gain: [1, 1, 1]
  friction_fraction: [0, 0, 0]
  fitted_from: pull.csv
  fitted_sha256: 6f
  cross_validated_rmse_mm: 3.5
  fitted_values: [{name: log_friction_fraction, value: -2.0, deviation: 0.1, prior_deviation: 1.0}]
simulation: {seed: 3, tendon_stiffness_n_per_m: 1.2e+4}
assumed: [simulation.tendon_stiffness_n_per_m]
control: {pretension_n: 1.0, gains: [{p: 1.0}]}
hardware:
  serial_number: old
  tendon_actuators:
    kind: dynamixel
    port: /dev/servos
    maximum_current_a: 1.0
    current_unit_a: 0.00269
    motors: [{id: 4, tendon: 1}, {id: 5, tendon: 2}, {id: 6, tendon: 3}]
identified_motion:
  date: "2026-11-01"
  file: chirps.csv
  sha256: 7a
  fitted_values: [{name: actuators.rotor_inertia_kg_m2, value: 1.0e-6, deviation: 1.0e-8, prior_deviation: 1.0e-6}]
"""


def test_a_file_of_version_1_is_read_and_converted_by_a_command(tmp_path, capsys):
    described = file_values(load_robot("ftdcr_v4"))
    values = {key: described[key] for key in ("name", "actuators", "limits", "gravity_m_per_s2")}
    values["segments"] = described["segments"][:1]
    old, out = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump({**values, **yaml.safe_load(OLD)}), encoding="utf-8")
    robot = load_robot(old)
    commands = [(fit.command.split()[1], fit.data, fit.sha256, fit.date) for fit in robot.provenance]
    assert commands == [
        ("identify-geometry", "pull.csv", "6f", ""),
        ("identify", "pull.csv", "6f", ""),
        ("identify", "chirps.csv", "7a", "2026-11-01"),
    ]
    assert (robot.tendon_stiffness_n_per_m, robot.simulation.seed) == (1.2e4, 3)
    assert robot.assumed == ("tendon_stiffness_n_per_m",)
    assert [motor.id for motor in robot.hardware.tendon_actuators.motors] == [4, 5, 6]
    assert [fit.errors[0].rmse for fit in robot.provenance[:2]] == [0.0025, 0.0035]
    assert robot.provenance[2].values[0].key == "actuators.rotor_inertia_kg_m2"
    assert main(["convert", str(old), "--out", str(out)]) == 0
    assert load_robot(out) == robot
    assert yaml.safe_load(out.read_text())["schema_version"] == 2
    assert main(["convert", str(out), "--out", str(out)]) != 0
    assert "version 2 already" in capsys.readouterr().err


def test_a_conversion_keeps_comments_where_it_only_changes_the_version(tmp_path):
    shipped = find_robot_file("two_segment").read_text(encoding="utf-8")
    (tmp_path / "old.yaml").write_text(shipped.replace("schema_version: 2", "schema_version: 1"), encoding="utf-8")
    assert main(["convert", str(tmp_path / "old.yaml"), "--out", str(tmp_path / "new.yaml")]) == 0
    assert (tmp_path / "new.yaml").read_text(encoding="utf-8") == shipped
