# SPDX-License-Identifier: Apache-2.0
"""Runs a command that ends with its parent: ``python -m continuum_robot.app.running.child_process PARENT_PID COMMAND``.

Should the starter of several processes be killed, the kernel ends its children: no node may go on driving a robot that
nobody watches.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

CHILD_MODULE = "continuum_robot.app.running.child_process"
PR_SET_PDEATHSIG = 1


def tether(parent_pid: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent ends; kept through exec. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit(128 + signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> None:
    """Tether this process, then become the command. ``arguments``: parent's pid and the command."""
    parent_pid, *command = sys.argv[1:] if arguments is None else arguments
    tether(int(parent_pid))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
