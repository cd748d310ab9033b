# SPDX-License-Identifier: Apache-2.0
"""Runs test files in a process each, forked from one that has imported what all of them need: test/forked.py MARKS.

The files come on standard input. A process of its own keeps threads and DDS participants of one file from the next;
what takes seconds to import is imported once. The exit code is 1 where a file failed.
"""

from __future__ import annotations

import os
import sys

sys.path[0] = os.getcwd()  # as python -m pytest has it

import pytest

import continuum_robot.app.client.robot
import continuum_robot.nodes.composition  # noqa: F401


def ended(file: str, marks: str) -> int:
    """The exit code of a file's tests."""
    pid = os.fork()
    if pid == 0:
        sys.exit(pytest.main(["-q", "--durations=5", "--durations-min=1", "-m", marks, file]))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


(MARKS,), failed = sys.argv[1:], False
for name in sorted(sys.stdin.read().split()):
    print(name, flush=True)
    code = ended(name, MARKS)
    if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(f"FAILED {name} (exit code {code})", flush=True)
        failed = True
sys.exit(failed)
