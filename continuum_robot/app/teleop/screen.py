# SPDX-License-Identifier: Apache-2.0
"""What a person sees who steers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table
from rich.text import Text

from continuum_robot.app.running.status_line import STATE_STYLES
from continuum_robot.app.teleop.device import Command
from continuum_robot.app.teleop.teleoperator import Teleoperator
from continuum_robot.nodes.reference.motion_start import HOLDING


def screen(operator: Teleoperator) -> Group:
    """Help, state of the robot, what is asked for."""
    state, reading = operator.robot.state, operator.reading
    title = Text(state.stack or "no stack", style=STATE_STYLES.get(state.stack, ""))
    if state.faults:
        title.append(" " + ", ".join(state.faults), style="bold red")
    if state.holding:
        title.append(f" {HOLDING}")
    steers = Text("steering", style="green") if operator.steering else Text(f"{state.writer or 'nobody'} writes")
    rows: dict[str, Text | str] = {
        "robot": title,
        "turn": steers,
        "mode": f"{operator.mode} {operator.moved}, {100 * operator.speed:.0f} % speed",
        "switch": Text("held", style="green") if reading.held else Text("released", style="dim"),
        "axes": "  ".join(f"{value:+.2f}" for value in reading.axes),
        "desired": _millimetres(state.reference_m),
        "measured": _millimetres(state.clarke_m),
        "tip": _millimetres(state.tip_position_m),
        "tensions": _newtons(state.tension_n),
        "": Text(operator.message, style="yellow"),
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), value)
    keys = Table.grid(padding=(0, 2))
    for key, meaning in operator.device.help:
        words = meaning.value if isinstance(meaning, Command) else meaning
        keys.add_row(Text(key, style="bold red" if meaning is Command.ESTOP else "bold"), words)
    both = Table.grid(padding=(0, 4))
    both.add_row(keys, table)
    return Group(Text("continuum-robot teleop", style="bold"), both)


def _millimetres(values: NDArray[np.float64]) -> str:
    return "  ".join(f"{1e3 * value:+.2f}" for value in values) + " mm"


def _newtons(values: NDArray[np.float64]) -> str:
    tension = values[np.isfinite(values)]
    return f"{tension.min():.2f} to {tension.max():.2f} N" if tension.size else "–"
