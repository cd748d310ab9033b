# SPDX-License-Identifier: Apache-2.0
"""A program of several nodes in one process: ``python -m continuum_robot.nodes.stack.group JSON [--ros-args ...]``.

The JSON has ``controller`` (as in StackOptions) and ``nodes``: for each node's name its parameters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_nodes
from continuum_robot.nodes.stack.making import make_nodes
from continuum_robot.nodes.stack.options import CONTROL_LOOP, DISPLAY, GROUPS, PREDICTIVE, SIMULATOR

GROUP_MODULE = "continuum_robot.nodes.stack.group"
BACKGROUND = {*GROUPS[DISPLAY], *GROUPS[PREDICTIVE]}
"""Nodes whose work can wait."""
PROMPT = {*GROUPS[CONTROL_LOOP], *GROUPS[SIMULATOR]}
"""Nodes for which the cycle waits."""


def group_command(nodes: Mapping[str, Mapping[str, object]], controller: str, namespace: str = "") -> list[str]:
    """The command that runs nodes in one process."""
    text = json.dumps({"controller": controller, "nodes": nodes})
    command = [sys.executable, "-m", GROUP_MODULE, text]
    if namespace.strip("/"):
        command += ["--ros-args", "-r", f"__ns:=/{namespace.strip('/')}"]
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the nodes until SIGINT or SIGTERM."""
    given = list(sys.argv if arguments is None else arguments)
    options: dict[str, Any] = json.loads(given[1])
    parameters: dict[str, dict[str, Any]] = options["nodes"]

    def make() -> list[ManagedNode]:
        nodes = make_nodes(list(parameters), lambda name: {"overrides": parameters[name]}, options["controller"])
        return list(nodes.values())

    names = set(parameters)
    return run_nodes(make, [given[0], *given[2:]], background=names <= BACKGROUND, prompt=names <= PROMPT)


if __name__ == "__main__":
    sys.exit(main())
