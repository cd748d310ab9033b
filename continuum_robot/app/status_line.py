# SPDX-License-Identifier: Apache-2.0
"""The live status of a composed stack: state, rate, tracking error, tensions, round trip."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from continuum_robot.app.newest_messages import NewestMessages
from continuum_robot.msg import ClarkeState, TendonStates
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.conversions import vector
from continuum_robot.nodes.reference.motion_start import HOLDING

Vector = NDArray[np.float64]

STATE_STYLES = {"up": "green", "fault": "bold red", "starting": "yellow", "stopping": "yellow", "down": "yellow"}


@dataclass(frozen=True)
class Snapshot:
    """What the line shows at one moment; NaN and empty arrays where nothing is known yet.

    Attributes
    ----------
    state : of the stack
    faults : latched now
    holding : the robot holds, and nobody has started a motion
    rate_hz, missed_percent : of the driver's loop
    round_trip_p50_us, round_trip_p99_us : from a cycle's beginning to its command written
    hardware : what the wires end in
    error_m : wanted less measured Clarke coordinates, shape (2m,), m
    tension_n : measured, shape (N,), N
    """

    state: str
    faults: tuple[str, ...] = ()
    holding: bool = False
    rate_hz: float = math.nan
    missed_percent: float = math.nan
    round_trip_p50_us: float = math.nan
    round_trip_p99_us: float = math.nan
    hardware: str = ""
    error_m: Vector = field(default_factory=lambda: np.zeros(0))
    tension_n: Vector = field(default_factory=lambda: np.zeros(0))


class StackMonitor:
    """Looks at a running stack now and then, without costing its executor a callback.

    Parameters
    ----------
    stack : started
    hardware : what the wires end in, for the line; "" for what the stack's options say
    """

    def __init__(self, stack: ComposedStack, hardware: str = "") -> None:
        self._stack = stack
        options = stack.options
        self._hardware = hardware or (f"simulated: {options.fake_level}" if options.simulated else "hardware")
        topics = {"tendon_states": TendonStates, "clarke_state": ClarkeState, "clarke_reference": ClarkeState}
        self._newest = NewestMessages(stack.context, options.namespace, "status_line", topics)

    def snapshot(self) -> Snapshot:
        """How the stack stands now."""
        stack = self._stack
        status, timing = stack.status(), stack.timing_numbers()
        wanted, measured = self._newest["clarke_reference"], self._newest["clarke_state"]
        states = self._newest["tendon_states"]
        return Snapshot(
            state=status.state,
            hardware=self._hardware,
            faults=tuple(status.faults),
            holding=status.holding,
            rate_hz=timing.get("loop_rate_hz", math.nan),
            missed_percent=timing.get("missed_cycles_percent", math.nan),
            round_trip_p50_us=timing.get("round_trip_p50_us", math.nan),
            round_trip_p99_us=timing.get("round_trip_p99_us", math.nan),
            error_m=_error(wanted, measured),
            tension_n=np.zeros(0) if states is None else np.array(vector(states.tension)),
        )

    def close(self) -> None:
        """Leave the topics; before the stack is shut down."""
        self._newest.close()


def render(snapshot: Snapshot, elapsed_s: float, duration_s: float | None) -> Group:
    """The line, and under it a bar of the time where it will end.

    Parameters
    ----------
    snapshot : what to show
    elapsed_s : since the stack is up, s
    duration_s : when it will end, s; None for never
    """
    state = Text(snapshot.state, style=STATE_STYLES.get(snapshot.state, ""))
    if snapshot.faults:
        state.append(" " + ", ".join(snapshot.faults))
    if snapshot.holding:
        state.append(f" {HOLDING}")
    error_um = 1e6 * np.abs(snapshot.error_m)
    tension = snapshot.tension_n[np.isfinite(snapshot.tension_n)]
    cells = {
        "state": state,
        "devices": snapshot.hardware,
        "loop": f"{_number(snapshot.rate_hz, '.1f')} Hz, {_number(snapshot.missed_percent, '.2f')} % missed",
        "response": f"{_number(snapshot.round_trip_p50_us, '.0f')} µs, "
        f"p99 {_number(snapshot.round_trip_p99_us, '.0f')}",
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


def _error(wanted: Any, measured: Any) -> Vector:
    if wanted is None or measured is None or len(wanted.position) != len(measured.position):
        return np.zeros(0)
    return np.array(vector(wanted.position)) - np.array(vector(measured.position))
