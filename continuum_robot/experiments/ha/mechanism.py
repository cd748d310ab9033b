# SPDX-License-Identifier: Apache-2.0
"""The five-link mechanism of ha in the units of its figures: mm, rad, and a force unit that is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.plotting import REFERENCE
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.loads import Load
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, RollingStatics
from continuum_robot.robot.loading import load_robot

Array = NDArray[np.float64]

ROBOT = "rolling_five_link"
MM = 1e3
MEASURED = {
    (1.0, 1.0): (90.52, 100.88),
    (1.0, 2.0): (98.06, 95.92),
    (1.0, 3.0): (102.65, 94.34),
    (2.0, 1.0): (87.94, 104.17),
    (3.0, 1.0): (86.02, 107.82),
}
"""Tendon lengths that the paper prints under fig. 8 for the tensions of fig. 6 in units of 300 g, mm."""
LOADED_TENSION = (6.0, 3.0)
PULLS = (0.5, 1.0, 1.5)
"""Figs 4, 10, 12: in units of 100 g."""


def make_statics(robot: str = ROBOT) -> RollingStatics:
    """The statics of a rolling-joint robot, by name or robot file."""
    return statics_of(load_robot(robot))


def pull_to_the_right(force: float, link: int = 5) -> list[Load]:
    """A load of the paper: a force in +x of the world at the origin of a link."""
    return [Load(link, (force, 0.0))]


def last_link_mm(found: Equilibrium) -> Array:
    """Position of the last link, shape (2,), mm."""
    return np.asarray(found.poses[-1, :2] * MM)


def draw_mechanism(
    axis: Any, statics: RollingStatics, found: Equilibrium, *, color: str, loads: Sequence[Load] = (), label: str = ""
) -> None:
    """Draw the surfaces, tendons and loads of a pose into axes in mm."""
    linkage = statics.linkage
    tracks: list[list[Array]] = [[], []]
    for index, (link, (x, y, angle)) in enumerate(zip(linkage.links, found.poses, strict=True)):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        outline = []
        for surface, direction in ((link.child, 1), (link.parent, -1)):
            low, high = surface.limits_m
            s = np.linspace(low, high, 60)[::direction]
            outline.append(surface.frame(s)[:, :2])
        points = np.concatenate([*outline, outline[0][:1]]) @ turn.T + [x, y]
        axis.fill(*(points.T * MM), facecolor=color, alpha=0.15)
        axis.plot(*(points.T * MM), color=color, linewidth=0.9, label=label if index == 0 else None)
        for tendon in range(2):
            for entry in (link.parent_entries_m[tendon], link.child_entries_m[tendon]):
                tracks[tendon].append(turn @ entry + [x, y])
    for track in tracks:
        axis.plot(*(np.array(track).T * MM), color=color, linewidth=0.7, linestyle=":")
    for load in loads:
        x, y = found.poses[load.link - 1, :2] * MM
        axis.annotate("", (x + 10 * load.force_n[0], y + 10 * load.force_n[1]), (x, y), arrowprops=_arrow())
    axis.set_aspect("equal")


def _arrow() -> Mapping[str, Any]:
    return {"arrowstyle": "->", "color": REFERENCE, "linewidth": 1.0}
