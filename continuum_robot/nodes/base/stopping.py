# SPDX-License-Identifier: Apache-2.0
"""Programs of a stack that are stopped at the same time end in its order.

Ctrl-C in a terminal, launch, systemd and the end of a parent signal all programs at once. A simulator or a controller
that ended before the driver's ramp would be a fault, so each program waits until the supervisor has brought its nodes
down.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics import qos

if TYPE_CHECKING:
    from continuum_robot.nodes.base.spinning import Spinner

TOPIC = "stack_status"
BRING_DOWN_S = 10.0
"""The supervisor may take this long to bring all nodes down, beside the ramp."""
PATIENCE_S = 2.0
"""The driver releases its tendons by itself where the supervisor has not begun to stop after this time; the others end
as long after its ramp.
"""
_INTERVAL_S = 0.02
_STOPPING = ("stopping", "down")
_DOWN = ("unconfigured", "finalized")


def longest_ramp_s(node: ManagedNode) -> float:
    """How long the driver's ramp to the safe tension may take, s.

    Parameters
    ----------
    node : any node of the stack
    """
    try:
        limits = node.load_robot().limits
    except ContinuumRobotError:  # the nodes say what is wrong with it
        limits = None
    return 0.0 if limits is None else limits.longest_ramp_s


def wait_until_brought_down(nodes: Sequence[ManagedNode], spinner: Spinner) -> None:
    """Wait until the supervisor has brought nodes down that it manages; return at once where there is none.

    Parameters
    ----------
    nodes : of this program
    spinner : that spins them
    """
    nodes = [one for one in nodes if one.managed]
    if all(one.state in _DOWN for one in nodes):
        return
    node = nodes[0]
    if not node.count_publishers(TOPIC):
        return
    heard: list[StackStatus] = []
    spinner.run(lambda: node.create_subscription(StackStatus, TOPIC, heard.append, qos.latched()))
    begun_s, ramp_s = time.monotonic(), longest_ramp_s(node)
    end_s = begun_s + BRING_DOWN_S + ramp_s
    alone_s = begun_s + (PATIENCE_S if any(one.ends_first for one in nodes) else 2 * PATIENCE_S + ramp_s)
    stopping = False
    while not all(one.state in _DOWN for one in nodes) and node.count_publishers(TOPIC):
        for status in heard:
            if not any(one.get_name() in status.node_names for one in nodes):
                return
            stopping = status.state in _STOPPING
        if time.monotonic() > (end_s if stopping else alone_s):
            return
        time.sleep(_INTERVAL_S)
