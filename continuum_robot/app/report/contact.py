# SPDX-License-Identifier: Apache-2.0
"""What a run shows about contacts: how many were detected, how soon, how strong and where, beside the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.recordings.reading import Recording, Series
from continuum_robot.app.report.plots import NOTHING, TIME, Events
from continuum_robot.estimation.contact.kind import UNKNOWN, in_words, kind_of
from continuum_robot.experiments.plotting import DETECTED, LIMIT, TRUE, figure, legend_above
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
Interval = tuple[float, float]

CONTACT, TRUTH = "contact", "simulated_contact"
_GAP_S = 0.1
_TRUTH_GAP_S = 0.3
_SENSED = 1
_OF_REPORTS = ("detected_at_s", "detected_force_n", "detected_at_m", "detected_deviation_m", "detected_kind")


def intervals(time_s: Vector, present: Vector, gap_s: float = _GAP_S) -> list[Interval]:
    """Spans in which a flag is set; those closer than ``gap_s`` count as one."""
    found: list[Interval] = []
    for at_s, on in zip(time_s, present, strict=True):
        if not on:
            continue
        if found and at_s - found[-1][1] <= gap_s:
            found[-1] = (found[-1][0], float(at_s))
        elif not found or at_s > found[-1][1]:
            found.append((float(at_s), float(at_s)))
    return found


def detected_intervals(contact: Series) -> list[Interval]:
    """Spans in which a contact was reported, s; a span ends where the next message reports that it is clear."""
    return intervals(contact.stamp_s, contact["in_contact"][:, 0])


def true_intervals(truth: Series) -> list[Interval]:
    """Spans in which something touched the simulated robot, s."""
    # A stall of the simulator leaves a gap that is no end of a contact.
    return intervals(truth.stamp_s, truth["in_contact"][:, 0], _TRUTH_GAP_S)


def contact_numbers(recording: Recording) -> dict[str, Any]:
    """Numbers about contacts, flat, units in the keys; empty where no contact monitor was recorded."""
    if CONTACT not in recording.topics or not len(recording.topics[CONTACT]):
        return {}
    contact = recording.series(CONTACT)
    state = contact.texts["state"]
    reported = detected_intervals(contact)
    ratio = contact["ratio"][:, 0]
    numbers: dict[str, Any] = {
        "contacts_reported": len(reported),
        **_detected(contact, reported),
        "contact_invalid_percent": 100.0 * sum(one == "invalid" for one in state) / len(state),
        "contact_invalid_reasons": sorted(
            {reason for one, reason in zip(state, contact.texts["invalid_reason"], strict=True) if one == "invalid"}
        ),
        "contact_settling_percent": 100.0 * sum(one == "settling" for one in state) / len(state),
        "contact_largest_ratio": float(np.nanmax(ratio)) if np.isfinite(ratio).any() else math.nan,
    }
    if TRUTH not in recording.topics or not len(recording.topics[TRUTH]):
        # On a simulated robot that nothing touches every report is false.
        if contact["simulated"].max():
            numbers |= {"contacts_true": 0, "contacts_detected": 0, "false_alarms": len(reported)}
        return numbers
    return numbers | _beside_truth(contact, recording.series(TRUTH), reported)


def _detected(contact: Series, reported: Sequence[Interval]) -> dict[str, list[Any]]:
    """For each report: when it began, median force, location and its deviation, kind; NaN where not observable."""
    detected: dict[str, list[Any]] = {name: [] for name in _OF_REPORTS}
    for start_s, end_s in reported:
        within = contact.between(start_s, end_s)
        known = np.where(within["wrench_sensed"][:, :3] == _SENSED, within["wrench"][:, :3], 0.0)
        found = within["location_observable"][:, 0] > 0
        detected["detected_at_s"].append(start_s)
        detected["detected_force_n"].append(float(np.median(np.linalg.norm(known, axis=1))))
        detected["detected_at_m"].append(float(np.median(within["arc_length"][found, 0])) if found.any() else math.nan)
        detected["detected_deviation_m"].append(
            float(np.median(within["arc_length_deviation"][found, 0])) if found.any() else math.nan
        )
        # An accidental contact is reported after its end.
        detected["detected_kind"].append(kind_of(contact.between(start_s, end_s + _GAP_S).texts.get("kind", ())))
    return detected


def _beside_truth(contact: Series, truth: Series, reported: Sequence[Interval]) -> dict[str, Any]:
    true = true_intervals(truth)
    delays_s, missed = [], []
    for start_s, end_s in true:
        begun = [first_s for first_s, last_s in reported if first_s <= end_s and last_s >= start_s]
        if begun:
            delays_s.append(max(0.0, min(begun) - start_s))
        else:
            missed.append(start_s)
    false = [one for one in reported if not any(one[0] <= end_s and one[1] >= start_s for start_s, end_s in true)]
    both, index = _paired(contact, truth)
    force = contact["wrench"][both, :3] - truth["wrench"][index, :3]
    sensed = contact["wrench_sensed"][both, :3] == _SENSED
    error = np.linalg.norm(np.where(sensed, force, 0.0), axis=1)
    found = contact["location_observable"][both, 0] > 0
    missed_m = np.abs(contact["arc_length"][both, 0] - truth["arc_length"][index, 0])[found]
    return {
        "contacts_true": len(true),
        "contacts_detected": len(delays_s),
        "false_alarms": len(false),
        "contact_detection_delay_ms": 1e3 * float(np.median(delays_s)) if delays_s else math.nan,
        "contact_detection_delays_ms": [1e3 * one for one in delays_s],
        "contacts_missed_at_s": missed,
        "contact_force_rmse_n": float(np.sqrt(np.mean(error**2))) if error.size else math.nan,
        "contact_arc_length_error_m": float(np.median(missed_m)) if missed_m.size else math.nan,
        "contact_located_percent": 100.0 * float(np.mean(found)) if found.size else 0.0,
    }


def _paired(contact: Series, truth: Series) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Samples in which a true contact was reported: indices in ``contact``, and of the nearest in ``truth``."""
    after = np.clip(np.searchsorted(truth.stamp_s, contact.stamp_s), 1, max(1, len(truth) - 1))
    if len(truth) < 2:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    before = after - 1
    nearer = contact.stamp_s - truth.stamp_s[before] < truth.stamp_s[after] - contact.stamp_s
    nearest = np.where(nearer, before, after)
    both = (contact["in_contact"][:, 0] > 0) & (truth["in_contact"][nearest, 0] > 0)
    return np.flatnonzero(both), nearest[both]


def draw_contact(recording: Recording, robot: Robot, folder: Path, events: Events = NOTHING) -> Path:
    """Plot residual against threshold, estimated beside true force, and the location, to ``contact.png``."""
    contact, truth, file = recording.series(CONTACT), recording.topics.get(TRUTH), folder / "contact.png"
    time_s = contact.stamp_s
    detected = contact["in_contact"][:, 0] > 0
    with figure(file, f"{robot.name}: contact (grey: truly touched)", 3, sharex=True, size=(9.0, 8.5)) as (_, axes):
        upper, middle, lower = axes
        for start_s, end_s in true_intervals(truth) if truth is not None else []:
            for axis in axes:
                axis.axvspan(start_s, end_s, color="0.9", lw=0)
        upper.semilogy(time_s, contact["ratio"][:, 0], **DETECTED)
        upper.axhline(1.0, **LIMIT, label="contact threshold")
        for number, (start_s, end_s) in enumerate(detected_intervals(contact)):
            label = None if number else "reported"
            upper.plot([start_s, end_s], [1.0, 1.0], **DETECTED | {"linewidth": 4}, label=label)
        upper.set_ylabel("largest residual / threshold")
        upper.set_ylim(bottom=1e-2)
        for column, style in enumerate(("-", "--")):
            name = "xy"[column]
            if truth is not None:
                value = np.where(truth["in_contact"][:, 0] > 0, truth["wrench"][:, column], np.nan)
                middle.plot(truth.stamp_s, value, **TRUE, ls=style, label=f"true {name}")
            value = np.where(detected, contact["wrench"][:, column], np.nan)
            middle.plot(time_s, value, **DETECTED, ls=style, label=f"estimated {name}")
        middle.set_ylabel("force at the contact in N")
        found = detected & (contact["location_observable"][:, 0] > 0)
        place = 1e3 * np.where(found, contact["arc_length"][:, 0], np.nan)
        spread = 1e3 * np.where(found, contact["arc_length_deviation"][:, 0], np.nan)
        lower.fill_between(time_s, place - spread, place + spread, color=DETECTED["color"], alpha=0.25, lw=0)
        lower.plot(time_s, place, **DETECTED, label="found, ± one standard deviation")
        if truth is not None:
            at = np.where(truth["in_contact"][:, 0] > 0, truth["arc_length"][:, 0], np.nan)
            lower.plot(truth.stamp_s, 1e3 * at, **TRUE, label="true")
        for disk_m in robot.disk_arc_lengths_m:
            lower.axhline(1e3 * disk_m, color="0.85", lw=0.6, zorder=0)
        lower.set_ylim(0, 1e3 * robot.length_m * 1.25)
        lower.set_ylabel("arc length of the contact in mm")
        lower.set_xlabel(f"{TIME}  (thin lines: disks)")
        for axis in axes:
            legend_above(axis)
        Events(events.faults).mark(axes)  # contacts are all that is drawn
    return file


def contact_lines(numbers: Mapping[str, Any]) -> list[str]:
    """What the demo prints of contacts; nothing where none was looked for."""
    if "contacts_reported" not in numbers:
        return []
    get = numbers.get
    lines = [
        f"contact   {get('contacts_detected', 0)} of {get('contacts_true', 0)} detected, "
        f"{get('false_alarms', get('contacts_reported'))} false alarms"
    ]
    if get("contacts_detected"):
        lines[0] += f"; delay {get('contact_detection_delay_ms', math.nan):.0f} ms in the median"
        where_mm = 1e3 * get("contact_arc_length_error_m", math.nan)
        location = (
            f"{where_mm:.1f} mm in the median, found in {get('contact_located_percent', 0.0):.0f} % of the time"
            if math.isfinite(where_mm)
            else "not observable"
        )
        lines.append(f"          force RMSE {get('contact_force_rmse_n', math.nan):.2f} N; arc length error {location}")
    events = zip(*(get(name, []) for name in _OF_REPORTS), strict=True)
    for at_s, force_n, at_m, deviation_m, kind in events:
        location = (
            f"at {1e3 * at_m:.0f} ± {1e3 * deviation_m:.0f} mm"
            if math.isfinite(at_m)
            else "at a location not observable"
        )
        named = f", {in_words(kind)}" if kind not in ("", UNKNOWN) else ""
        lines.append(f"          detected at {at_s:.2f} s: {force_n:.1f} N {location}{named}")
    for reason in get("contact_invalid_reasons", []):
        lines.append(f"          invalid: {reason}")
    return lines
