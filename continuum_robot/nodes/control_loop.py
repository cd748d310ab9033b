# SPDX-License-Identifier: Apache-2.0
"""The program of driver and controller in one cycle, for launch files: parameters are those of both nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_nodes
from continuum_robot.nodes.stack.choices import CLARKE
from continuum_robot.nodes.stack.making import make_nodes
from continuum_robot.nodes.stack.options import CONTROL_LOOP, GROUPS


def make_control_loop() -> Sequence[ManagedNode]:
    """Driver and controller, which share the driver's cycle."""
    return list(make_nodes(GROUPS[CONTROL_LOOP], lambda _name: {}, CLARKE).values())


def main() -> int:
    """Run both nodes until SIGINT or SIGTERM."""
    return run_nodes(make_control_loop, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
