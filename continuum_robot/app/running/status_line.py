# SPDX-License-Identifier: Apache-2.0
"""The live status of a composed stack: state, rate, tracking error, tensions, round trip."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.app.client.state import RobotState, loop_timing
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.reference.lines import HOLDING

STATE_STYLES = {"up": "green", "fault": "bold red", "starting": "yellow", "stopping": "yellow", "down": "yellow"}


class StackMonitor:
    """Looks at a running stack now and then, without costing its executor a callback."""

    def __init__(self, stack: ComposedStack, hardware: str = "") -> None:
        self._stack = stack
        options = stack.options
        self.hardware = hardware or (f"simulated: {options.simulation_level}" if options.simulated else "hardware")
        topics = ("tendon_states_decimated", "clarke_state", "clarke_reference")
        self._link = StackLink(
            options.namespace, "status_line", topics=topics, context=stack.context, numbered=False, listens_only=True
        )

    def state(self) -> RobotState:
        """How the stack stands now."""
        status = self._stack.status()
        return dataclasses.replace(
            self._link.state(),
            stack=status.state,
            faults=tuple(status.faults),
            holding=status.holding,
            loop=loop_timing(self._stack.timing_numbers()),
        )

    def close(self) -> None:
        """Leave the topics; before the stack is shut down."""
        self._link.close()


def render(state: RobotState, hardware: str, elapsed_s: float, duration_s: float | None) -> Group:
    """The line, and under it a bar of the time where it will end."""
    words = Text(state.stack, style=STATE_STYLES.get(state.stack, ""))
    if state.faults:
        words.append(" " + ", ".join(state.faults))
    if state.holding:
        words.append(f" {HOLDING}")
    comparable = state.reference_m.size == state.clarke_m.size
    error_um = 1e6 * np.abs(state.reference_m - state.clarke_m) if comparable else np.zeros(0)
    tension = state.tension_n[np.isfinite(state.tension_n)]
    loop = state.loop
    cells: dict[str, Any] = {"state": words, "devices": hardware}
    if math.isfinite(loop.rate_hz):  # in lock-step there is none
        cells["loop"] = f"{loop.rate_hz:.1f} Hz, {_number(loop.missed_percent, '.2f')} % missed"
        cells["response"] = f"{_number(loop.response_p50_us, '.0f')} µs, p99 {_number(loop.response_p99_us, '.0f')}"
    cells |= {
        "error": f"{_number(float(error_um.max()) if error_um.size else math.nan, '.0f')} µm",
        "tensions": f"{tension.min():.2f} to {tension.max():.2f} N" if tension.size else "–",
    }
    table = Table.grid(padding=(0, 3))
    table.add_row(*(Text(name, style="dim") for name in cells))
    table.add_row(*cells.values())
    if duration_s is None:
        return Group(table)
    bar = Table.grid(padding=(0, 3))
    shown_s = min(elapsed_s, duration_s)
    bar.add_row(ProgressBar(total=duration_s, completed=shown_s, width=50), f"{shown_s:.0f} of {duration_s:g} s")
    return Group(table, bar)


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"
