# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/how-to/mujoco.md: tables of what the experiments ``mujoco.*`` found.

Those of mujoco.plants are stored by ``continuum-robot experiment mujoco.plants --store``. The others are in
docs/numbers/NAME.json, which ``continuum-robot experiment NAME --json docs/numbers/NAME.json`` writes: mujoco.statics
with ``--data`` and SoRoSim's file, johnston.contact_sweep once for each plant.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.settings import METHODS
from continuum_robot.experiments.stored_numbers import read_stored
from pages.text import filled, table

_CHAIN = re.compile(r"chain_of_(\d+)_tip_x_mm")


def page(text: str, folder: Path) -> str:
    """The page with its generated parts written again, from a folder of the experiments' numbers."""
    parts = {"statics": _statics(folder), "plants": _plants(), "sweep": _sweep(folder)}
    return filled(text, "docs/how-to/mujoco.md", parts)


def _numbers(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _statics(folder: Path) -> list[str]:
    found = _numbers(folder, "mujoco.statics")
    links = [match[1] for match in map(_CHAIN.fullmatch, found) if match]
    header = ("links", "tip from our rod", "tip from our rod as beam-columns", "worst station from SoRoSim, median")
    keys = ("from_rod_mm", "from_beam_columns_mm", "median_worst_station_mm")
    rows = [(count, *(_mm(found.get(f"chain_of_{count}_{key}")) for key in keys)) for count in links]
    rows.append(("our rod", "", "", _mm(found.get("rod_median_worst_station_mm"))))
    return table(header, rows)


def _plants() -> list[str]:
    stored = read_stored("mujoco.plants")
    if stored is None:
        raise ParameterError("stored numbers", None, "docs/papers/numbers/mujoco.plants.json")
    found = stored.numbers
    rows = [
        ("tracking RMSE of q_Re, q_Im", *(_pair(found[f"{name}_tracking_rmse_m"]) for name in ("rod", "mujoco"))),
    ]
    for label, key in (
        ("tip from its targets, mean", "tip_error_mean_mm"),
        ("tip from its targets, largest", "tip_error_largest_mm"),
        ("estimated tip from its targets, mean", "estimated_tip_error_mean_mm"),
    ):
        rows.append((label, *(_mm(found[f"{name}_{key}"]) for name in ("rod", "mujoco"))))
    return table(("", "our rod", "MuJoCo's chain"), rows)


def _sweep(folder: Path) -> list[str]:
    plants = [_numbers(folder, f"johnston.contact_sweep.{name}") for name in ("rod", "mujoco")]
    rows = []
    for method in METHODS:
        for label, key, form in (
            ("detected", "detection_rate", "{:.0%}"),
            ("median delay", "median_detection_delay_ms", "{:.0f} ms"),
            ("force RMSE as reported", "force_rmse_n", "{:.2f} N"),
            ("location off, median", "arc_length_median_error_percent_of_length", "{:.1f} % of the length"),
            ("false alarms", "false_alarms", "{:d}"),
        ):
            values = [found[f"{method}_{key}"] for found in plants]
            rows.append((f"`{method}`: {label}", *("" if one is None else form.format(one) for one in values)))
    nothing = [(found["always_zero_mean_rmse_x_n"] + found["always_zero_mean_rmse_y_n"]) / 2 for found in plants]
    rows.append(("always 0 N: force RMSE", *(f"{value:.2f} N" for value in nothing)))
    return table(("", "our rod", "MuJoCo's chain"), rows)


def _mm(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} mm"


def _pair(values_m: list[float]) -> str:
    return ", ".join(f"{1e6 * value:.0f} µm" for value in values_m)
