# SPDX-License-Identifier: Apache-2.0
"""Arguments, options and exit codes that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXIT_REFUSED = 2

RobotArgument = Annotated[
    str, typer.Argument(metavar="ROBOT", help="Robot file (YAML), or the name of a shipped one such as two_segment.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers as JSON here.")]
