# SPDX-License-Identifier: Apache-2.0
"""The benchmark's numbers as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from continuum_robot.app.bench.company import ALONE, CLIENT, PAGE, RECORDER
from continuum_robot.app.bench.loop import BARE, ONE, SEPARATE
from continuum_robot.nodes.stack.options import GROUPS

_Row = tuple[str, str, Callable[[Any], str]]
_STAGES = {ALONE: "alone", PAGE: "and the page", CLIENT: "and a client", RECORDER: "and a recorder"}
_HERTZ, _MICROSECONDS, _PERCENT = "{:.1f} Hz".format, "{:.0f} µs".format, "{:.2f} %".format


class Tables:
    """Prints what was measured so far."""

    def __init__(self, console: Console, numbers: Mapping[str, Any]) -> None:
        self._console, self._numbers = console, numbers

    def print_driver(self) -> None:
        """The driver's loop without ROS, in both forms."""
        numbers = self._numbers
        rows: list[_Row] = [
            ("rate", "loop_rate_hz", _HERTZ),
            ("cycles missed", "missed_cycles_percent", _PERCENT),
            ("begins late p99", "late_p99_us", _MICROSECONDS),
            ("reading to its command written p50", "response_p50_us", _MICROSECONDS),
            ("reading to its command written p99", "response_p99_us", _MICROSECONDS),
            ("processor a cycle", "cycle_us", _MICROSECONDS),
            ("processor, 100 % is a core", "processor_percent", lambda value: f"{value:.1f} %"),
            ("faults", "faults", _names),
        ]
        forms = [form for form in ("interpreted", "compiled") if f"driver_{form}_loop_rate_hz" in numbers]
        title = f"Driver on {numbers['driver_boards']} CAN channels, {numbers['driver_tendons']} tendons, without ROS"
        table = _table(title, "", *forms, words=1)
        for name, key, shown in rows:
            table.add_row(name, *(shown(numbers[f"driver_{form}_{key}"]) for form in forms))
        self._console.print(table)
        self._console.print(
            f"By default it runs {numbers['driver_form']}: {numbers['driver_form_reason']}. The simulated boards are "
            f"in another process: {numbers['simulated_boards_processor_percent']:.0f} % of a core.",
            highlight=False,
        )

    def print_loop(self) -> None:
        """The loop over DDS, in one process, in separate ones, and bare."""
        numbers = self._numbers
        rows: list[_Row] = [
            ("rate", "loop_rate_hz", _HERTZ),
            ("cycles missed", "missed_cycles_percent", _PERCENT),
            ("round trip p50", "round_trip_p50_us", _MICROSECONDS),
            ("round trip p99", "round_trip_p99_us", _MICROSECONDS),
            ("round trip max", "round_trip_max_us", _MICROSECONDS),
            ("processor, 100 % is a core", "processor_percent", lambda value: f"{value:.0f} %"),
            ("driver and controller, a cycle", "loop_processor_us_a_cycle", _MICROSECONDS),
            ("faults", "faults", _names),
        ]
        table = _table("1 kHz loop over DDS", "", "one process", "separate processes", "bare loop", words=1)
        for name, key, shown in rows:
            cells = (numbers.get(f"{place}_{key}") for place in (ONE, SEPARATE, BARE))
            table.add_row(name, *("" if cell is None else shown(cell) for cell in cells))
        for group in GROUPS:
            fraction = numbers.get(f"{SEPARATE}_{group}_processor_percent")
            if fraction is not None:
                table.add_row(f"  {group}", "", f"{fraction:.0f} %", style="dim")
        self._console.print(table)
        self._console.print(
            "Round trip: of the bare loop from a state to the command that answers it, two hops of DDS; of the stack"
            " from the beginning of a cycle, before it reads, to its command written. The bare loop: the same messages"
            " between two processes that compute nothing, measured just before. What it misses, this machine and the"
            " middleware miss.",
            highlight=False,
        )

    def print_company(self) -> None:
        """The loop of one run, with one program more each time."""
        numbers = self._numbers
        if "page_frames_hz" not in numbers:
            self._console.print("page in the browser: not measured, the extra viz is not installed", highlight=False)
            return
        table = _table("Programs that come to a running stack, one after the other", "", *_STAGES.values(), words=1)
        rows: tuple[_Row, ...] = (
            ("cycles missed", "missed_cycles_percent", _PERCENT),
            ("round trip p50", "round_trip_p50_us", _MICROSECONDS),
            ("round trip p99", "round_trip_p99_us", _MICROSECONDS),
            ("faults", "faults", _names),
        )
        for name, key, shown in rows:
            table.add_row(name, *(shown(numbers[f"{stage}_{key}"]) for stage in _STAGES))
        self._console.print(table)
        self._console.print(
            f"The page draws {numbers['page_frames_hz']:.1f} frames a second and takes "
            f"{numbers['page_processor_percent']:.0f} % of a core.",
            highlight=False,
        )


def _table(title: str, *headings: str, words: int = 0) -> Table:
    """A table whose first columns, ``words`` of them, are words and the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < words else "right")
    return table


def _names(values: list[str]) -> str:
    return ", ".join(values) or "none"
