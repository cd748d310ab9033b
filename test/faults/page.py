# SPDX-License-Identifier: Apache-2.0
"""docs/reference/faults.md: the text of page.md with the tables of the drivers and of faults.yaml in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from string import Template

from continuum_robot.drivers.named_faults import FAULT_TEXTS, device_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.robot.schema import quantity_of
from faults.judge import DEVIATION_M, HELD_M, SLACK_N, SLACK_S, TIME_TO_SAFE_S, TORQUE_MARGIN_N
from faults.kinds import INJECTION_TIMES, KINDS, KNOWN, MOVE_S, SERVO_FRACTION, SERVOS, TENSION_FRACTION, Kind
from faults.processes import ALLOWED_PER_H, MINIMUM_S, WARM_UP_S

_UNITS = {"rss_mib": "MiB of RSS", "handles": "handles", "threads": "thread"}


def page() -> str:
    """The whole page as Markdown."""
    devices = device_faults()
    elsewhere = {*FAULTS, *(name for texts in devices.values() for name in texts)}
    others = {name: texts[0].meaning for name, texts in FAULT_TEXTS.items() if name not in elsewhere}
    return Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8")).substitute(
        driver=_names(FAULTS.items()),
        devices="".join(
            f"\n| `{kind}` | meaning |\n|---|---|\n{_names((name, text.meaning) for name, text in texts.items())}\n"
            for kind, texts in devices.items()
        ).rstrip("\n"),
        others=_names(others.items()),
        thresholds=_rows(_threshold(field) for field in dataclasses.fields(SafetySettings)),
        known=_rows(KNOWN.items()),
        kinds="\n".join(_group(group, list(kinds)) for group, kinds in groupby(KINDS, key=lambda kind: kind.group)),
        servos=_rows(
            (
                f"`{kind.name}`{' *' * kind.up}",
                kind.cause,
                ", ".join(kind.times),
                kind.becomes + ", holds its place" * kind.holds,
                ", ".join(f"`{name}`" for name in kind.found_by),
                kind.cure,
            )
            for kind in SERVOS
        ),
        injection_times=", ".join(f"{name} (after {time_s:g} s)" for name, time_s in INJECTION_TIMES.items()),
        tension_percent=f"{100 * TENSION_FRACTION:.0f}",
        servo_percent=f"{100 * SERVO_FRACTION:.0f}",
        move_s=f"{MOVE_S:g}",
        safe_ms=f"{1e3 * TIME_TO_SAFE_S:.0f}",
        margin_n=f"{TORQUE_MARGIN_N:g}",
        slack_n=f"{SLACK_N:g}",
        slack_ms=f"{1e3 * SLACK_S:.0f}",
        deviation_mm=f"{1e3 * DEVIATION_M:g}",
        held_mm=f"{1e3 * HELD_M:g}",
        warm_up_s=f"{WARM_UP_S:g}",
        judged_min=f"{MINIMUM_S / 60:g}",
        allowed=", ".join(f"{value:g} {_UNITS[name]}" for name, value in ALLOWED_PER_H.items() if name in _UNITS),
    )


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _names(faults: Iterable[tuple[str, str]]) -> str:
    return _rows((f"[`{name}`](../faults/{name}.md)", meaning) for name, meaning in faults)


def _threshold(field: dataclasses.Field[object]) -> tuple[str, ...]:
    quantity = quantity_of(field)
    allowed = dataclasses.replace(quantity, unit="").expected().replace("a number in ", "")
    return f"`{field.name}`", quantity.unit, allowed, f"`{field.default}`", quantity.doc


def _group(group: str, kinds: list[Kind]) -> str:
    head = f"## {group}\n\n| fault | cause | becomes | known | what is seen | cure |\n|---|---|---|---|---|---|\n"
    rows = ((f"`{one.name}`", one.cause, one.becomes, one.known, one.seen, one.cure) for one in kinds)
    return f"{head}{_rows(rows)}\n"
