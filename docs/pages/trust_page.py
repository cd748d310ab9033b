# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/trust.md, and its pictures: in docs/, ``python -m pages.trust_page`` draws them.

The numbers are in docs/numbers/NAME.json, where the option ``--json`` of the command in the table put them, or in
docs/papers/numbers, where ``continuum-robot experiment NAME --store`` does.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from faults.kinds import KINDS

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import experiments
from continuum_robot.experiments.plotting import COLOURS, REFERENCE, figure, legend_below
from continuum_robot.experiments.stored_numbers import read_stored
from continuum_robot.robot.loading import load_robot
from pages.figures import IMAGES
from pages.paper_results import STATUSES, VERDICTS, reason
from pages.text import filled, table

NUMBERS = IMAGES.parent / "numbers"
STORED = IMAGES.parent / "papers" / "numbers"
ROBOTS = ("ftdcr_v4", "ftdcr_v6")
"""The two robots of the recordings."""
STEPS = {
    "constant_curvature": "constant curvature",
    "statics": "+ statics",
    "friction": "+ friction",
    "tendons": "+ tendons",
}
_LEAST = 1e-6  # mm or mrad: below, differences are rounding
_STATUS_COLOURS = dict(zip(STATUSES, (COLOURS[0], COLOURS[5], COLOURS[1], "#BBBBBB"), strict=True))


def page(text: str) -> str:
    """The page with its generated parts written again."""
    parts = {
        "models": _models(), "robots": _robots(), "papers": _papers(), "published": _published(), "stack": _stack()
    }  # fmt: skip
    return filled(text, "docs/trust.md", parts)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((NUMBERS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _of(name: str) -> Mapping[str, Any]:
    stored = read_stored(name)
    if stored is None:
        raise ParameterError("stored numbers", name, f"continuum-robot experiment {name} --store")
    return stored.numbers


def _rows(*rows: tuple[str, str, str, str]) -> list[str]:
    return table(("claim", "compared with", "result", "command"), [(*row[:3], f"`{row[3]}`") for row in rows])


def _models() -> list[str]:
    rods, releases = (
        {name: _read(f"sorosim.{kind}.{name}") for name in ("steel", "tpu")} for kind in ("statics", "releases")
    )
    column, chain, plants, table2, judged = (
        _read("soft_column"), _read("mujoco.statics"), _of("mujoco.plants"), _of("rucker.table2"), _read("compare")
    )  # fmt: skip
    till = [one["off_by"] for name, one in judged.items() if name.startswith("till_") and one["unit"] == "m"]
    names = {"steel": "steel rod, 0.6 m", "tpu": "polyurethane rod, 0.4 m"}
    return _rows(
        *(
            (
                f"static shapes, {names[name]}",
                f"SoRoSim, {one['shapes']} shapes under gravity and wrenches",
                f"{one['mean_percent_of_length']:.3f} % of the length on average, "
                f"{one['largest_percent_of_length']:.2f} % at most",
                "continuum-robot experiment sorosim.statics --data FILE",
            )
            for name, one in rods.items()
        ),
        *(
            (
                f"motion after release, {names[name]}",
                f"SoRoSim, {one['releases']} releases, the first second",
                f"tip {one['mean_rms_mm']:.2f} mm RMS on average, {one['largest_rms_mm']:.2f} mm at most",
                "continuum-robot experiment sorosim.releases --data FILES",
            )
            for name, one in releases.items()
        ),
        (
            "motion of a soft column that two tendons pull down",
            "SoRoSim's published curve, 3 s",
            f"tip {column['from_sorosim_at_most_mm']:.3f} mm at most (SoRoMoX's published curve: "
            f"{column['soromox_from_sorosim_at_most_mm']:.1f} mm)",
            "python benchmarks/soft_column.py --data FOLDER",
        ),
        (
            "statics with straight, helical and displaced tendons",
            f"Till's C++ programs, {len(till)} cases",
            f"tip {1e6 * max(till):.1f} µm at most: the digits they print",
            "continuum-robot compare till_straight till_helical till_displacement",
        ),
        (
            f"statics of Rucker's {table2['n_cases']} experiments",
            "the Cosserat boundary-value problem, solved here without any of the rod's mechanics",
            f"tip {table2['max_difference_percent_of_length']:.1g} % of the length at most",
            "continuum-robot experiment rucker.table2",
        ),
        (
            "statics of a robot with disks",
            "a chain of 80 links in MuJoCo",
            f"tip {chain['chain_of_80_from_rod_mm']:.1f} mm apart: between disks the backbone bends as a column; "
            f"with that in the rod {chain['chain_of_80_from_beam_columns_mm']:.2f} mm",
            "continuum-robot experiment mujoco.statics",
        ),
        (
            "a controller tuned on the rod, on another plant",
            "the same chain under motors",
            "tracking "
            + " and ".join(f"{1e6 * plants[f'{name}_tracking_rmse_m'][0]:.0f} µm" for name in ("rod", "mujoco"))
            + " RMS on rod and chain; tip off its targets by "
            + " and ".join(f"{plants[f'{name}_tip_error_mean_mm']:.1f} mm" for name in ("rod", "mujoco")),
            "continuum-robot experiment mujoco.plants",
        ),
    )


def _robots() -> list[str]:
    rows = []
    for name in ROBOTS:
        found = _read(f"identify.{name}")
        kept = found["tip_rmse_held_out_mm"]
        rows.append(
            (
                f"tip of `{name}`, {_length_mm(name)} mm",
                f"motion capture, {found['n_samples']} samples, in five blocks left out one by one",
                f"{kept:.1f} mm RMS; no model of the readings alone is better than "
                f"{found['repeatability_floor_mm']:.1f} mm; constant curvature "
                f"{found['tip_rmse_constant_curvature_held_out_mm']:.1f} mm",
                f"continuum-robot identify {name} --data FILE --out fitted.yaml",
            )
        )
    return _rows(*rows)


def _length_mm(name: str) -> str:
    return f"{1e3 * load_robot(name).length_m:g}"


def _papers() -> list[str]:
    counts = Counter(one.status for verdicts in VERDICTS.values() for one in verdicts)
    lines = [f"Of {counts.total()} results, {', '.join(f'{counts[status]} {status}' for status in STATUSES)}:", ""]
    rows = [
        (paper, f"[{one.result}]({_place(paper, one.experiment)})", f"**{status}**", _short(reason(one, STORED)))
        for status in STATUSES
        for paper, verdicts in VERDICTS.items()
        for one in verdicts
        if one.status == status
    ]
    return [*lines, *table(("paper", "result", "status", "why"), rows)]


def _place(paper: str, experiment: str) -> str:
    return f"papers/{paper}.md#{experiment.replace('.', '') or 'without-an-experiment'}"


def _short(text: str) -> str:
    """A verdict's reason up to its first stop."""
    ends = [place for mark in ("; ", ". ", ": ") if (place := text.find(mark)) > 0]
    return text[: min(ends, default=len(text))].rstrip(".")


def _published() -> list[str]:
    rows = []
    for name, one in _read("compare").items():
        factor, unit = (1e3, "mm") if one["unit"] == "m" else (1e3, "mrad")
        verdict = "holds" if one["holds"] else "**does not hold**" if one["engines_agree"] else "engines disagree"
        off, tolerance, apart = (factor * one[key] for key in ("off_by", "tolerance", "engines_apart"))
        numbers = (f"{off:.3g} {unit}", f"{tolerance:g} {unit}", f"{max(apart, _LEAST):.0e} {unit}")
        rows.append((f"`{name}`", one["publication"], *numbers, verdict))
    return table(("file", "publication", "off by", "tolerance", "engines apart, at most", "verdict"), rows)


def _stack() -> list[str]:
    speed, column = _read("learn.speed"), _read("soft_column")
    others = experiments()["learn.speed"].paper
    robot, count = next(iter(speed["num_envs"].items()))
    return _rows(
        (
            f"speed of {count:.0f} `{robot}` with driver, safety logic and controller",
            "SoRoMoX 0.4.0, its published plant alone on an RTX 5090: another robot and integrator",
            f"{speed['times_real_time']:.0f} times real time on {speed['threads']} cores; SoRoMoX "
            f"{others['times_real_time_256_robots']:.1f} times with 256 robots, "
            f"{others['times_real_time_1024_robots']:.1f} times with 1,024",
            "continuum-robot experiment learn.speed",
        ),
        (
            "speed of the soft column alone",
            "real time",
            f"{column['simulated_per_processor_second_1_robots']:.0f} simulated seconds in a second of one core",
            "python benchmarks/soft_column.py",
        ),
        (
            f"each of {len(KINDS)} kinds of faults ends safe or is tolerated",
            "the limits that [faults](reference/faults.md) states",
            "the command fails if a run does not end safe",
            "make faults",
        ),
        (
            "a lock-step run is the same again",
            "itself, with the same seed",
            "the same bytes in every message",
            "make test ARGS=test/nodes/test_nodes_lockstep.py",
        ),
    )


def draw_sorosim(folder: Path) -> Path:
    """Errors of all shapes beside SoRoSim's."""
    file = folder / "trust_sorosim.png"
    with figure(
        file, "Worst station of each static shape, distance from SoRoSim's", 1, 2, size=(6.4, 2.6), sharey=True
    ) as (
        _,
        axes,
    ):
        for axis, (name, title, colour) in zip(
            axes, (("steel", "steel, 600 mm", COLOURS[0]), ("tpu", "polyurethane, 400 mm", COLOURS[2])), strict=True
        ):
            found = _read(f"sorosim.statics.{name}")
            axis.hist(found["worst_station_mm"], bins=np.arange(0.0, 0.64, 0.02), color=colour)
            median = found["median_worst_station_mm"]
            axis.axvline(median, color=REFERENCE, linestyle="--")
            axis.annotate(f"median {median:.2f} mm", (median, 1), xytext=(4, -3), textcoords="offset points",
                          xycoords=("data", "axes fraction"), va="top", fontsize=8)  # fmt: skip
            axis.set(xlabel="distance / mm", title=f"{title}, {found['shapes']} shapes")
        axes[0].set_ylabel("shapes")
    return file


def draw_papers(folder: Path) -> Path:
    """A bar for each paper, divided by status."""
    file = folder / "trust_papers.png"
    with figure(file, "Results of the five papers", size=(6.4, 2.6)) as (drawing, axis):
        left = np.zeros(len(VERDICTS))
        for status in STATUSES:
            counts = np.array([sum(one.status == status for one in verdicts) for verdicts in VERDICTS.values()])
            bars = axis.barh(list(VERDICTS), counts, left=left, color=_STATUS_COLOURS[status], label=status, height=0.7)
            dark = status in ("reproduced", "not")
            axis.bar_label(bars, [str(count) if count else "" for count in counts], label_type="center",
                           color="white" if dark else "black", fontsize=8)  # fmt: skip
            left += counts
        axis.invert_yaxis()
        axis.grid(visible=False)
        axis.set_xlabel("results")
        legend_below(drawing, axis)
    return file


def draw_robots(folder: Path) -> Path:
    """Error of the tip of both real robots, by what the model has."""
    file = folder / "trust_robots.png"
    with figure(file, "Tip error on blocks that the fit has not seen, RMS", 1, 2, size=(6.4, 2.8)) as (drawing, axes):
        for axis, name in zip(axes, ROBOTS, strict=True):
            found = _read(f"identify.{name}")
            errors = [found[f"tip_rmse_{step}_held_out_mm"] for step in STEPS]
            bars = axis.barh(list(STEPS.values()), errors, color=COLOURS[0], height=0.65)
            axis.bar_label(bars, [f"{error:.1f}" for error in errors], padding=3, fontsize=8)
            floor = found["repeatability_floor_mm"]
            axis.axvline(floor, color=COLOURS[1], linestyle="--", label="floor of models without memory")
            axis.set_xlim(0, 18)
            axis.invert_yaxis()
            axis.grid(visible=False, axis="y")
            axis.set(xlabel="RMS / mm", title=f"{name}, {_length_mm(name)} mm long, floor {floor:.1f} mm")
        axes[1].set_yticklabels([])
        legend_below(drawing, axes[0])
    return file


def draw_published(folder: Path) -> Path:
    """How far each published result is off, beside its tolerance."""
    file, judged = folder / "trust_published.png", _read("compare")
    order = sorted(judged, key=lambda name: judged[name]["off_by"] / judged[name]["tolerance"])
    with figure(file, "Published results, judged by two engines", size=(6.4, 3.6)) as (drawing, axis):
        for holds, colour, marker, label in (
            (True, COLOURS[0], "o", "holds"),
            (False, COLOURS[1], "X", "does not hold"),
        ):
            chosen = [name for name in order if judged[name]["holds"] is holds]
            ratios = [judged[name]["off_by"] / judged[name]["tolerance"] for name in chosen]
            axis.plot(ratios, [order.index(name) for name in chosen], marker, color=colour, markersize=8, label=label)
        apart = [judged[name]["engines_apart"] / judged[name]["tolerance"] for name in order]
        axis.plot(apart, range(len(order)), "|", color="#777777", markersize=9, label="the engines from each other")
        axis.axvline(1, color=REFERENCE, linestyle="--", label="tolerance")
        axis.set_xscale("log")
        axis.set_xlim(1e-15, 1e3)
        axis.set_yticks(range(len(order)), order)
        axis.set_xlabel("difference over tolerance")
        legend_below(drawing, axis)
    return file


FIGURES: tuple[Callable[[Path], Path], ...] = (draw_sorosim, draw_papers, draw_robots, draw_published)

if __name__ == "__main__":
    for one in FIGURES:
        sys.stdout.write(f"{one(IMAGES)}\n")
