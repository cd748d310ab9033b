# SPDX-License-Identifier: Apache-2.0
"""Command line, recorder, reports."""

import sys

import continuum_robot.nodes  # noqa: F401 - how many threads linear algebra has is decided there
from continuum_robot.errors import missing_package


def main() -> int:
    """The program ``continuum-robot``, which says what to install where that is missing."""
    try:
        from continuum_robot.app import command_line  # noqa: PLC0415
    except ModuleNotFoundError as error:
        print(f"continuum-robot: {missing_package(error)}", file=sys.stderr)  # noqa: T201
        return 1
    return command_line.main()
