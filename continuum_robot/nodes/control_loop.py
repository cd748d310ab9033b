# SPDX-License-Identifier: Apache-2.0
"""The program of driver and controller in one cycle, for launch files: parameters are those of both nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from continuum_robot.nodes.clarke_controller import ClarkeControllerNode
from continuum_robot.nodes.driver.slot import ControllerSlot
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.spinning import run_nodes
from continuum_robot.nodes.tendon_driver import TendonDriver


def make_control_loop() -> Sequence[ManagedNode]:
    """Driver and controller, which share the driver's cycle."""
    slot = ControllerSlot()
    return [TendonDriver(slot=slot, own_process=True), ClarkeControllerNode(slot=slot)]


def main() -> int:
    """Run both nodes until SIGINT or SIGTERM."""
    return run_nodes(make_control_loop, prompt=True)


if __name__ == "__main__":
    sys.exit(main())
