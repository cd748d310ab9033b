# SPDX-License-Identifier: Apache-2.0
"""The five-link mechanism of ha in the units of its figures: mm, rad, and a force unit that is the same for all.

Friction of the tendons at the entry points, which ha leaves out, follows the capstan law of Euler and Eytelwein,
exp(mu angle).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.experiments.plotting import REFERENCE
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.linkage import Linkage
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, Load, RollingStatics
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


_TOLERANCE = 1e-10
_ROUNDS = 200


def capstan_weights(linkage: Linkage, contact_m: ArrayLike, coefficient: float, direction: ArrayLike) -> Array:
    """Tension between the links relative to that at the base.

    At every entry point the tendon turns by an angle a, and over it the tension changes by exp(-mu a) away from the
    actuator where the tendon is being pulled in, by exp(mu a) where it is paid out.
    """
    sign = np.asarray(direction, dtype=float)
    if not (np.isfinite(coefficient) and coefficient >= 0):
        raise ParameterError("coefficient", coefficient, "a number, 0 or more")
    if sign.shape != (2,) or not np.all(np.isin(sign, (-1.0, 0.0, 1.0))):
        raise ParameterError("direction", direction, "for the left and the right tendon 1, -1 or 0")
    joints = linkage.joints(linkage.check_contacts(contact_m))
    channels = np.array([link.child_entries_m - link.parent_entries_m for link in linkage.links]) @ [1, 1j]
    turned = np.abs(np.angle(joints.gaps_m / channels[:-1].T))
    turned[:, 1:] += np.abs(np.angle(joints.turn * channels[1:].T / joints.gaps_m))[:, :-1]
    return np.asarray(np.exp(-coefficient * sign[:, None] * np.cumsum(turned, axis=1)))


def equilibrium_with_friction(
    statics: RollingStatics,
    tension_n: ArrayLike,
    coefficient: float,
    direction: ArrayLike,
    loads: Sequence[Load] = (),
    *,
    start_m: ArrayLike | None = None,
) -> Equilibrium:
    """The equilibrium with sliding friction of both tendons at all entry points."""
    found = statics.solve_tension(tension_n, loads, start_m=start_m)
    weights = np.ones((2, statics.linkage.joint_count))
    iterations, change = found.iterations, np.inf
    for _ in range(_ROUNDS):
        desired = capstan_weights(statics.linkage, found.contact_m, coefficient, direction)
        change = float(np.abs(desired - weights).max())
        if change < _TOLERANCE:
            return replace(found, iterations=iterations)
        weights = desired
        found = statics.solve_tension(tension_n, loads, start_m=found.contact_m, weights=weights)
        iterations += found.iterations
    raise ConvergenceError("tensions with friction", change, _TOLERANCE, _ROUNDS)
