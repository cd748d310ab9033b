# SPDX-License-Identifier: Apache-2.0
"""What is seen in the scene, how large it is, and what is detected, in words and numbers."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.state import ContactState, RobotState
from continuum_robot.app.view.gui import show
from continuum_robot.app.view.scene import force_words, pair_words
from continuum_robot.app.view.steering_range import Unit, reach_of, unit_of
from continuum_robot.estimation.contact.kind import in_words
from continuum_robot.models import colors
from continuum_robot.robot.description import Robot

_COLUMNS = 4


class Legend:
    """The legend, in the container that is open; of several robots with the numbers of each under its name."""

    def __init__(
        self, server: viser.ViserServer, robots: Sequence[Robot], names: Sequence[str], limit_n: float
    ) -> None:
        self._robots = [(reach_of(robot).short_names, unit_of(robot)) for robot in robots]
        self._names = names if len(robots) > 1 else [""]
        self._limit_n = limit_n
        self._text = server.gui.add_html("")

    def update(self, snapshots: Sequence[RobotState]) -> None:
        """Bring it up to date."""
        each = [
            _title(name, number) + numbers(snapshot, *robot)
            for number, (name, snapshot, robot) in enumerate(zip(self._names, snapshots, self._robots, strict=True))
        ]
        show(self._text, "content", legend("".join(each), self._limit_n))


def _title(name: str, number: int) -> str:
    """Name of a robot, and how its curves look."""
    how = "wide, pale" if number else "thin, dark"
    return f"<b>{html.escape(name)}</b> ({how} curves)" if name else ""


def legend(robots: str, limit_n: float) -> str:
    """What is seen and how large it is, as HTML; ``robots``: the numbers of each, HTML."""
    keys = (
        (colors.MEASURED, "robot as measured"),
        (colors.DESIRED, "desired shape"),
        (colors.TRAIL, "path of the tip"),
        (colors.CONTACT, "detected contact, its place"),
        (colors.PUSH, "true push (simulated)"),
    )
    rows = "".join(
        f'<div><span class="cr-key" style="background:{colors.css(color)}"></span>{text}</div>' for color, text in keys
    )
    return (
        f'<div class="cr-note"><div class="cr-keys">{rows}<div>axes x y z: red green blue</div></div>'
        "Tendons: lines by tension, dots as in the plots:"
        f'<div class="cr-scale" style="background:{colors.tension_scale_css()}"></div>'
        f'<div class="cr-ends"><span>0 N, slack</span><span>{limit_n / 4:g}</span>'
        f"<span>limit {limit_n:g} N</span></div>{robots}</div>"
    )


def numbers(snapshot: RobotState, names: tuple[str, ...], unit: Unit) -> str:
    """Where a robot is and what touches it, as HTML."""
    cells = _cells(names[:_COLUMNS], snapshot.clarke_m, unit)
    known = np.all(np.isfinite(snapshot.tip_position_m))
    tip = _cells(("tip x", "y", "z") if known else (), snapshot.tip_position_m, unit)
    contact = html.escape(contact_words(snapshot.contact))
    line = f"Contact: <b>{contact}</b>" if contact else ""
    return f'<div><table class="cr-table"><tr>{cells}</tr><tr>{tip}</tr></table>{line}</div>'


def _cells(names: Sequence[str], values_m: NDArray[np.float64], unit: Unit) -> str:
    pairs = zip(names, unit.per_m * values_m, strict=False)
    digits = unit.digits if len(names) < _COLUMNS else 1
    cells = "".join(f"<td>{html.escape(name)} <b>{value:.{digits}f}</b></td>" for name, value in pairs)
    return f"{cells}<td>{unit.name}</td>" if cells else ""


def contact_words(contact: ContactState) -> str:
    """What the contact monitor reports, in a few words."""
    moved = f"; by its motion on segment {contact.screw_segment + 1}" if contact.screw_segment >= 0 else ""
    if contact.in_contact and np.isfinite(contact.pair_arc_lengths_m).all():
        return pair_words(contact) + moved
    if contact.in_contact:
        force = np.nan_to_num(contact.force_there_n)
        return force_words(contact, float(np.sqrt(force @ force))) + moved
    words = (f"{contact.state}: {contact.reason}" if contact.reason else contact.state) + moved
    return f"{words}; the last was {in_words(contact.kind)}: {contact.kind_reason}" if contact.kind else words
