# SPDX-License-Identifier: Apache-2.0
"""Arguments, options and exit codes that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from continuum_robot.workers import MOST_WORKERS

EXIT_REFUSED = 2

RobotArgument = Annotated[
    str, typer.Argument(metavar="ROBOT", help="Robot file (YAML), or the name of a shipped one such as two_segment.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers as JSON here.")]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        max=MOST_WORKERS,
        help="Share the work out to so many processes of this machine (extra cluster); the same numbers for any N. "
        "0: this process.",
    ),
]
SchedulerOption = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Share it out to the workers of a dask scheduler instead, tcp://host:port; they need this package, and "
        "who reaches that port can run programs on them.",
        show_default=False,
    ),
]
