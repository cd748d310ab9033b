# SPDX-License-Identifier: Apache-2.0
"""Numbers about contacts from made-up messages whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pictures import shows_something

from continuum_robot.app.command_line import main
from continuum_robot.app.recordings.reading import Recording, Series
from continuum_robot.app.report.contact import contact_lines, contact_numbers, draw_contact, intervals
from continuum_robot.app.running.demo import contact_file
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.contact import load_contacts

ROBOT = load_robot("vanderbilt_segment")
PERIOD_S = 0.005


def series(detected: list[tuple[float, float]], force_n: float, at_m: float, state: str = "contact") -> Series:
    """Ten seconds of messages with contacts in the given spans."""
    time_s = np.arange(0.0, 10.0, PERIOD_S)
    on = (
        np.any([(time_s >= a) & (time_s < b) for a, b in detected], axis=0) if detected else np.zeros(time_s.size, bool)
    )
    column = on[:, None].astype(float)
    wrench = np.zeros((time_s.size, 6))
    wrench[:, 0], wrench[:, 2] = force_n, np.nan
    fields = {
        "in_contact": column,
        "ratio": np.where(on, 2.0, 0.1)[:, None],
        "simulated": np.ones_like(column),
        "wrench": wrench,
        "wrench_sensed": np.tile([1.0, 1.0, 0.0, 2.0, 2.0, 2.0], (time_s.size, 1)),
        "location_observable": column,
        "arc_length": np.full_like(column, at_m),
        "arc_length_deviation": np.full_like(column, 0.01),
    }
    texts = {"state": [state if one else "clear" for one in on], "invalid_reason": [""] * time_s.size}
    return Series(time_s, time_s, np.arange(time_s.size), fields, texts)


def test_detections_delays_and_false_alarms_are_counted(tmp_path: Path) -> None:
    truth = series([(2.0, 3.0), (5.0, 6.0), (7.0, 7.5)], 10.0, 0.25)
    truth.fields["wrench"][:, 2] = 0.0
    detected = series([(2.05, 3.1), (4.0, 4.2), (5.15, 6.05)], 12.0, 0.26)
    recording = Recording(tmp_path, "/", {"contact": detected, "simulated_contact": truth}, 0)
    numbers = contact_numbers(recording)
    assert numbers["contacts_true"] == 3
    assert numbers["contacts_detected"] == 2
    assert numbers["false_alarms"] == 1
    assert numbers["contact_detection_delay_ms"] == pytest.approx(100.0, abs=6.0)
    assert numbers["contact_force_rmse_n"] == pytest.approx(2.0)
    assert numbers["contact_arc_length_error_m"] == pytest.approx(0.01)
    assert numbers["contacts_missed_at_s"] == pytest.approx([7.0])
    assert "2 of 3 detected, 1 false alarms" in contact_lines(numbers)[0]
    picture = draw_contact(recording, ROBOT, tmp_path)
    assert picture.name == "contact.png"
    assert shows_something(picture)


def test_each_report_has_the_kind_that_was_told_of_it_or_after_it(tmp_path: Path) -> None:
    detected = series([(1.0, 3.0), (5.0, 5.2)], 12.0, 0.26)
    numbers = contact_numbers(Recording(tmp_path, "/", {"contact": detected}, 0))
    assert numbers["detected_kind"] == ["", ""]  # a recording of before there were kinds
    kinds = np.full(len(detected), "", dtype=object)
    kinds[(detected.stamp_s >= 1.0) & (detected.stamp_s < 1.4)] = "unknown"
    kinds[(detected.stamp_s >= 1.4) & (detected.stamp_s < 3.0)] = "sliding"
    kinds[(detected.stamp_s >= 5.0) & (detected.stamp_s < 5.2)] = "unknown"
    kinds[(detected.stamp_s >= 5.2) & (detected.stamp_s < 6.2)] = "accidental"
    detected.texts["kind"] = kinds.tolist()
    numbers = contact_numbers(Recording(tmp_path, "/", {"contact": detected}, 0))
    assert numbers["detected_kind"] == ["sliding", "accidental"]
    assert contact_lines(numbers)[1].endswith("sliding")


def test_without_truth_every_report_on_a_simulated_robot_is_false(tmp_path: Path) -> None:
    numbers = contact_numbers(Recording(tmp_path, "/", {"contact": series([(1.0, 2.0)], 5.0, 0.2)}, 0))
    assert numbers["false_alarms"] == 1
    assert contact_numbers(Recording(tmp_path, "/", {}, 0)) == {}


def test_spans_that_nearly_meet_are_one() -> None:
    time_s = np.arange(0, 1.0, 0.1)
    found = intervals(time_s, np.array([1, 1, 0, 1, 0, 0, 0, 0, 1, 1]), 0.25)
    np.testing.assert_allclose(found, [(0.0, 0.3), (0.8, 0.9)])


def test_the_shipped_contacts_are_for_their_robot() -> None:
    file = contact_file("", ROBOT)
    assert len(load_contacts(file, ROBOT)) == 3
    with pytest.raises(ParameterError, match="opencr_five_tendon"):
        contact_file("", load_robot("opencr_five_tendon"))


def test_contacts_that_cannot_be_used_are_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contacts.yaml"
    file.write_text("contacts:\n  - {name: a, kind: push, disk: 60, force_n: [1, 0, 0]}\n")
    assert main(["demo", "--contact", str(file), "--duration", "1", "--folder", str(tmp_path)]) == 2
    assert "disk" in capsys.readouterr().err
    assert main(["demo", "--contact", "--robot", "opencr_five_tendon", "--folder", str(tmp_path)]) == 2
    assert "no shipped one" in capsys.readouterr().err
