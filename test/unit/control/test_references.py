# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.references import ClarkeReference, make_reference, reference_columns
from continuum_robot.errors import ParameterError, RecordingError, RobotFileError
from continuum_robot.robot import doors
from continuum_robot.robot.base_stage import BaseStage, Insertion, Rotation
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import read

AMPLITUDE = (0.01, 0.005, 0.005, 0.025)
FREQUENCY = (0.1, 0.05, 0.15, 0.2)


def write_samples(folder):
    file = folder / "path.csv"
    times = [0.5, 0.7, 1.1, 1.2, 2.0, 2.5]
    rows = [f"{t},{math.sin(t)},{t * t},{0.1 * t},{-t}" for t in times]
    file.write_text("\n".join([",".join(["time_s", *reference_columns(4)]), *rows]) + "\n")
    return file


@pytest.fixture(params=["chirp", "circle", "rest_to_rest", "hold", "csv"])
def smooth(request, tmp_path):
    settings = ReferenceSettings(
        kind=request.param,
        amplitude_m=() if request.param == "csv" else AMPLITUDE,
        frequency_hz=FREQUENCY,
        frequency_rate_hz_per_s=0.05,
        rise_s=2.5,
        period_s=2.0,
        file=write_samples(tmp_path).name,
    )
    return make_reference(settings, 4, tmp_path)


def test_velocity_and_acceleration_are_derivatives(smooth):
    h = 1e-5
    for t in [0.013, 0.31, 0.65, 1.0, 1.49, 1.9, 3.0, 7.77, 43.21]:
        before, here, after = smooth.at(t - h), smooth.at(t), smooth.at(t + h)
        np.testing.assert_allclose(here.velocity, (after.position - before.position) / (2 * h), atol=1e-8)
        np.testing.assert_allclose(here.acceleration, (after.velocity - before.velocity) / (2 * h), atol=1e-7)


def test_position_and_velocity_do_not_jump(smooth):
    times = np.linspace(-0.1, 3.0, 6201)
    positions = np.array([smooth.at(t).position for t in times])
    assert np.abs(np.diff(positions, axis=0)).max() < 5e-3
    later = np.array([smooth.at(t).velocity for t in times[300:]])  # a chirp starts with a velocity
    assert np.abs(np.diff(later, axis=0)).max() <= 1e-2 * np.abs(later).max()


def test_before_the_start_and_after_the_end_it_rests(smooth):
    np.testing.assert_array_equal(smooth.at(-1.0).position, smooth.at(0.0).position)
    np.testing.assert_array_equal(smooth.at(-1.0).velocity, 0)
    if math.isfinite(smooth.duration_s):
        end = smooth.at(smooth.duration_s + 5)
        np.testing.assert_allclose(end.position, smooth.at(smooth.duration_s).position, atol=1e-15)
        np.testing.assert_array_equal(end.velocity, 0)


def test_the_papers_chirp():
    robot = load_robot("two_segment")
    reference = make_reference(robot.reference, robot.coordinate_count)
    t = 7.3
    expected = np.array(AMPLITUDE) * np.sin(2 * np.pi * (np.array(FREQUENCY) * t + 0.5 * 0.005 * t**2))
    np.testing.assert_allclose(reference.at(t).position, expected, atol=1e-15)
    np.testing.assert_array_equal(reference.at(0.0).position, 0)
    # The frequency itself rises by 0.005 Hz/s: what turns per second at 7.3 s, not half of it.
    rate = reference.at(t).velocity / (np.array(AMPLITUDE) * np.sqrt(1 - (expected / AMPLITUDE) ** 2))
    np.testing.assert_allclose(np.abs(rate) / (2 * np.pi), np.array(FREQUENCY) + 0.005 * t, rtol=1e-9)
    assert reference.duration_s == math.inf


@pytest.mark.parametrize("kind", ["chirp", "circle"])
def test_a_frequency_does_not_rise_for_ever(kind):
    """A robot that is left alone is asked for no more after an hour than in its first minutes."""
    settings = dataclasses.replace(load_robot("two_segment").reference, kind=kind)
    reference = make_reference(settings, 4)
    fastest = 2 * np.pi * (np.array(FREQUENCY) + 0.005 * settings.rise_s) * AMPLITUDE
    for start_s in (0.0, settings.rise_s, 3600.0, 3600.0 + settings.rise_s):
        moving = [np.abs(reference.at(start_s + t).velocity) for t in np.linspace(5.0, settings.rise_s, 2000)]
        assert np.all(np.max(moving, axis=0) < 1.01 * fastest)
        assert np.all(np.max(moving, axis=0) > 0.9 * fastest)


def test_steps_dwell_and_have_no_velocity():
    reference = make_reference(ReferenceSettings(kind="steps", amplitude_m=(0.01, -0.02), period_s=0.5), 2)
    for t, sign in [(-1, 0), (0.0, 0), (0.49, 0), (0.51, 1), (1.01, 0), (1.51, -1), (2.01, 0), (2.51, 1)]:
        np.testing.assert_allclose(reference.at(t).position, [0.01 * sign, -0.02 * sign])
        np.testing.assert_array_equal(reference.at(t).velocity, 0)


@given(t=st.floats(2.0, 100.0))
def test_circle_keeps_its_radius_after_its_entry(t):
    reference = make_reference(
        ReferenceSettings(kind="circle", amplitude_m=(0.01, 0.01), frequency_hz=(0.3,), period_s=2.0), 2
    )
    here = reference.at(t)
    assert np.hypot(*here.position) == pytest.approx(0.01)
    assert np.hypot(*here.velocity) == pytest.approx(0.01 * 2 * np.pi * 0.3)
    assert here.position @ here.velocity == pytest.approx(0, abs=1e-15)
    assert np.cross([*here.position, 0], [*here.velocity, 0])[2] > 0  # counter-clockwise


def test_circle_starts_at_rest_at_zero():
    reference = make_reference(ReferenceSettings(kind="circle", amplitude_m=(0.01, 0.01), frequency_hz=(0.3,)), 2)
    start = reference.at(0.0)
    for value in (start.position, start.velocity, start.acceleration):
        np.testing.assert_array_equal(value, 0)


def test_rest_to_rest_meets_both_ends_at_rest():
    reference = make_reference(ReferenceSettings(kind="rest_to_rest", amplitude_m=(0.01, -0.02), period_s=3.0), 2)
    assert reference.duration_s == 3.0
    for t, fraction in [(0.0, 0.0), (1.5, 0.5), (3.0, 1.0)]:
        np.testing.assert_allclose(reference.at(t).position, np.array([0.01, -0.02]) * fraction, atol=1e-15)
    for t in (0.0, 3.0):
        np.testing.assert_allclose(reference.at(t).velocity, 0, atol=1e-15)
        np.testing.assert_allclose(reference.at(t).acceleration, 0, atol=1e-15)


def test_hold_stands_still_at_zero_unless_told_otherwise():
    np.testing.assert_array_equal(make_reference(ReferenceSettings(kind="hold"), 4).at(3.0).position, np.zeros(4))
    held = make_reference(ReferenceSettings(kind="hold", amplitude_m=(0.01, 0.02)), 2)
    np.testing.assert_array_equal(held.at(3.0).position, [0.01, 0.02])
    assert held.duration_s == 0.0


def test_csv_passes_its_samples_with_time_from_the_first_row(tmp_path):
    write_samples(tmp_path)
    reference = make_reference(ReferenceSettings(kind="csv", file="path.csv"), 4, tmp_path)
    assert reference.duration_s == 2.0
    for t in (0.5, 0.7, 1.1, 1.2, 2.0, 2.5):
        np.testing.assert_allclose(reference.at(t - 0.5).position, [math.sin(t), t * t, 0.1 * t, -t], atol=1e-14)
    np.testing.assert_array_equal(reference.at(0.0).velocity, 0)
    np.testing.assert_array_equal(reference.at(2.0).velocity, 0)


def test_csv_reproduces_a_parabola_between_inner_samples(tmp_path):
    write_samples(tmp_path)
    reference = make_reference(ReferenceSettings(kind="csv", file=str(tmp_path / "path.csv")), 4)
    for t in np.linspace(0.71, 1.99, 30):
        here = reference.at(t - 0.5)
        np.testing.assert_allclose([here.position[1], here.velocity[1]], [t * t, 2 * t], atol=1e-12)


def test_csv_columns_may_stand_in_any_order(tmp_path):
    (tmp_path / "swapped.csv").write_text("q_im_1_m, time_s, q_re_1_m\n1,0,2\n3,1,4\n")
    reference = make_reference(ReferenceSettings(kind="csv", file="swapped.csv"), 2, tmp_path)
    np.testing.assert_array_equal(reference.at(1.0).position, [4, 3])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time_s,q_re_1_m\n0,0\n1,1\n", "line 1: no column q_im_1_m"),
        ("time_s,q_re_1_m,q_im_1_m,q_re_1_m\n0,0,0,0\n", "line 1: column q_re_1_m appears more than once"),
        ("time_s,q_re_1_m,q_im_1_m,speed\n0,0,0,0\n1,0,0,0\n", "line 1: unknown column 'speed'"),
        ("time_s,q_re_1_m,q_im_1_m\n0,0,0\n1,nan,0\n", "line 3, column q_re_1_m: 'nan'"),
        ("time_s,q_re_1_m,q_im_1_m\n0,0,0\n\n1,0,1 mm\n", "line 4, column q_im_1_m: '1 mm'"),
        ("time_s,q_re_1_m,q_im_1_m\n0,0,0\n1,0\n", "line 3: 2 cells"),
        ("time_s,q_re_1_m,q_im_1_m\n0,0,0\n1,0,0\n1,0,0\n", "line 4, column time_s: 1 after 1"),
        ("time_s,q_re_1_m,q_im_1_m\n0,0,0\n", "at least 2 rows"),
        ("", "empty"),
    ],
)
def test_bad_csv_names_file_line_and_column(tmp_path, text, says):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(RecordingError, match=says) as caught:
        make_reference(ReferenceSettings(kind="csv", file="bad.csv"), 2, tmp_path)
    assert caught.value.file == file
    assert str(file) in str(caught.value)


def test_missing_and_binary_csv(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.csv", "binary.csv", "."):
        with pytest.raises(RecordingError, match="cannot be read"):
            make_reference(ReferenceSettings(kind="csv", file=name), 2, tmp_path)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (ReferenceSettings(kind="chirp", amplitude_m=(0.01,), frequency_hz=(0.1,)), "amplitude_m"),
        (ReferenceSettings(kind="chirp", amplitude_m=(0.01, 0.0), frequency_hz=(0.1, 0.2, 0.3)), "frequency_hz"),
        (ReferenceSettings(kind="hold", amplitude_m=(0.01, 0.0, 0.0)), "amplitude_m"),
        (ReferenceSettings(kind="dance", amplitude_m=(0.01, 0.0), frequency_hz=(0.1,)), "kind"),
    ],
)
def test_settings_that_do_not_fit_the_robot_are_refused(settings, name):
    with pytest.raises(ParameterError) as caught:
        make_reference(settings, 2)
    assert caught.value.name == name


class Saw:
    """Of another package: up in a period, and down again."""

    duration_s = math.inf

    def __init__(self, settings, coordinate_count):
        self.amplitude_m, self.period_s = np.full(coordinate_count, settings.amplitude_m[0]), settings.period_s

    def at(self, t_s):
        x = abs(t_s / self.period_s % 2 - 1)
        return ClarkeReference.at_rest((1 - x) * self.amplitude_m)


def test_a_reference_of_another_package_is_made_with_the_settings(monkeypatch):
    entry = SimpleNamespace(name="saw", value="somebody:Saw", load=lambda: Saw)
    monkeypatch.setattr(doors, "entry_points", lambda *, group: [entry] if group == doors.REFERENCES else [])
    settings = read(ReferenceSettings, {"kind": "saw", "amplitude_m": [0.01], "period_s": 4.0})
    reference = make_reference(settings, 4)
    np.testing.assert_allclose(reference.at(2.0).position, 0.005)
    with pytest.raises(RobotFileError, match="one of chirp, steps, circle, rest_to_rest, hold, csv, saw"):
        read(ReferenceSettings, {"kind": "sea"})
    with pytest.raises(ParameterError, match=r"one of chirp, .*, saw"):
        make_reference(dataclasses.replace(settings, kind="sea"), 4)


STAGED = "time_s,q_re_1_m,q_im_1_m,insertion_m,rotation_rad"
STAGE = BaseStage(
    insertion=Insertion(range_m=(0.0, 0.1), speed_m_per_s=0.02, acceleration_m_per_s2=0.1),
    rotation=Rotation(range_rad=(-1.0, 1.0), speed_rad_per_s=0.5, acceleration_rad_per_s2=2.0),
)


def staged(folder, rows, stage=STAGE, header=STAGED):
    file = folder / "staged.csv"
    file.write_text("\n".join([header, *rows]) + "\n")
    return make_reference(ReferenceSettings(kind="csv", file=str(file)), 2, stage=stage)


def test_a_file_may_move_the_stage_beside_the_tendons(tmp_path):
    reference = staged(tmp_path, ["0,0,0,0,0", "2,0.01,0,0.03,-0.5", "4,0.01,0.01,0.06,-1"])
    np.testing.assert_allclose(reference.at(2.0).position, [0.01, 0.0])
    np.testing.assert_allclose(reference.stage.at(2.0).position, [0.03, -0.5])
    np.testing.assert_allclose(reference.stage.at(9.0).position, [0.06, -1.0])
    alone = staged(tmp_path, ["0,0,0,0", "2,0.01,0,0.03"], header=STAGED.removesuffix(",rotation_rad"))
    np.testing.assert_allclose(alone.stage.at(2.0).position, [0.03, 0.0])
    assert staged(tmp_path, ["0,0,0", "2,0.01,0"], header="time_s,q_re_1_m,q_im_1_m").stage is None


@pytest.mark.parametrize(
    ("rows", "stage", "problem"),
    [
        (["0,0,0,0,0", "1,0,0,0.02,0"], None, "column insertion_m: there is no such axis"),
        (["0,0,0,0,0", "1,0,0,0.02,0"], dataclasses.replace(STAGE, rotation=None), "column rotation_rad: there is no"),
        (["0,0,0,0,0", "9,0,0,0.11,0"], STAGE, "line 3, column insertion_m: 0.11"),
        (["0,0,0,0,0", "1,0,0,0.03,0"], STAGE, "line 3, column insertion_m: 0.03 per second"),
        (["0,0,0,0,0", "1,0,0,0.01,0.6"], STAGE, "line 3, column rotation_rad: 0.6 per second"),
    ],
)
def test_places_and_speeds_that_the_stage_does_not_have_are_refused(tmp_path, rows, stage, problem):
    with pytest.raises(RecordingError, match=problem):
        staged(tmp_path, rows, stage)
