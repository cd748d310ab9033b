# SPDX-License-Identifier: Apache-2.0
"""The stack under test as a program of its own, so that it can be stopped as a whole with its supervisor.

    python -m faults.up_program ROBOT FOLDER OPTIONS

It does what ``up --processes`` does, with a simulated robot that writes its truth to ``FOLDER/truth``, and writes the
process ids to ``FOLDER/pids.json`` at each change. ``OPTIONS`` are those of StackOptions as JSON. SIGTERM ends it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continuum_robot.app.running.demo import wait_until_up
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.file.whole_file import write_whole

TRUTH, PIDS = "truth", "pids.json"
SUPERVISOR, SERVER = "supervisor", "process_server"
RESPAWNS = 1_000_000
"""A soak kills more often than an operator would look on."""
_PERIOD_S = 0.2


def main(robot: str, folder: Path, given: Mapping[str, Any]) -> int:
    """Run the stack until a signal comes."""
    parameters = {**given.get("parameters", {}), "simulator": {"truth": str(folder / TRUTH)}}
    options = StackOptions(robot=robot, **{**given, "parameters": parameters})
    with ProcessStack.server() as server, claimed_domain(""), StopRequest(last=True) as stop:
        stack = ProcessStack(options, server, RESPAWNS)
        written: dict[str, int] = {}
        try:
            stack.start()
            problem = wait_until_up(stack, stop)
            if problem:
                sys.stderr.write(problem + "\n")
                return 1
            while not stop.wait(_PERIOD_S):
                stack.start_again()
                pids = {SUPERVISOR: os.getpid(), **({} if server is None else {SERVER: server.pid}), **stack.pids}
                if pids != written:
                    write_whole(folder / PIDS, json.dumps(pids))
                    written = pids
        finally:
            failed = stack.failed
            stack.shutdown()
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])))
    except ContinuumRobotError as error:
        sys.exit(str(error))
