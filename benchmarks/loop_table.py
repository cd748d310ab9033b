# SPDX-License-Identifier: Apache-2.0
"""Prints the table of the loop in docs/explanation/benchmarks.md.

    python benchmarks/loop_table.py --idle FILES --loaded FILES

The files are of ``control_loop.py --json``. A cell has the median of its runs, and the range where there are more
than one.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROWS = (
    ("missed cycles, bare loop", "bare_loop_missed_cycles_percent", "%", 2),
    ("missed cycles, the stack in processes", "separate_processes_missed_cycles_percent", "%", 2),
    ("missed cycles, the stack in one process", "one_process_missed_cycles_percent", "%", 2),
    ("CPU of driver and controller together, a cycle", "separate_processes_loop_processor_us_a_cycle", "µs", 0),
    ("round trip of the bare loop, p50", "bare_loop_round_trip_p50_us", "µs", 0),
    ("round trip of the bare loop, p99", "bare_loop_round_trip_p99_us", "µs", 0),
    ("reading → its command written, p50", "separate_processes_round_trip_p50_us", "µs", 0),
    ("reading → its command written, p99", "separate_processes_round_trip_p99_us", "µs", 0),
    ("driver on three CAN channels, without ROS: rate", "driver_compiled_loop_rate_hz", "Hz", 1),
    ("… cost a cycle", "driver_compiled_cycle_us", "µs", 0),
    ("missed cycles, alone", "without_page_missed_cycles_percent", "%", 2),
    ("… and the page", "with_page_missed_cycles_percent", "%", 2),
    ("… and a client", "with_client_missed_cycles_percent", "%", 2),
    ("… and a recorder", "with_recorder_missed_cycles_percent", "%", 2),
)
"""What a row reports, the key of its number, unit and decimals."""
FAULTS = ("one_process", "separate_processes", "without_page", "with_page", "with_client", "with_recorder")


def cell(runs: Sequence[dict[str, Any]], key: str, unit: str, decimals: int) -> str:
    """Median and range of a number over runs."""
    values = [float(run[key]) for run in runs if run.get(key) is not None]
    if not values:
        return "not measured"
    text = f"{statistics.median(values):.{decimals}f} {unit}"
    if len(values) > 1:
        text += f" ({min(values):.{decimals}f} to {max(values):.{decimals}f})"
    return text


def faults(runs: Sequence[dict[str, Any]]) -> str:
    """Faults that latched in some run, and where."""
    found = {
        f"{name} ({place.replace('_', ' ')})"
        for run in runs
        for place in FAULTS
        for name in run.get(f"{place}_faults", [])
    }
    return ", ".join(sorted(found)) or "none"


def table(columns: dict[str, Sequence[dict[str, Any]]]) -> str:
    """The table, Markdown.

    Parameters
    ----------
    columns : runs by the heading of their column
    """
    lines = [f"| figure | {' | '.join(columns)} | key of the JSON |", "|---" * (len(columns) + 2) + "|"]
    for label, key, unit, decimals in ROWS:
        cells = " | ".join(cell(runs, key, unit, decimals) for runs in columns.values())
        lines.append(f"| {label} | {cells} | `{key}` |")
    lines.append(f"| faults | {' | '.join(faults(runs) for runs in columns.values())} | `…_faults` |")
    return "\n".join(lines)


def main() -> None:
    """Read the files that are named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("idle", "loaded"):
        parser.add_argument(
            f"--{name}", nargs="+", type=Path, default=[], metavar="FILE", help=f"runs on a machine {name}"
        )
    given = vars(parser.parse_args())
    if not any(given.values()):
        parser.error("no file: make some with benchmarks/control_loop.py --json FILE")
    read = {name: [json.loads(file.read_text(encoding="utf-8")) for file in files] for name, files in given.items()}
    print(table({name: runs for name, runs in read.items() if runs}))


if __name__ == "__main__":
    main()
