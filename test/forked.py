# SPDX-License-Identifier: Apache-2.0
"""Runs test files in a process each, forked from one that has imported what all of them need: test/forked.py MARKS.

The files come on standard input. A process of its own keeps threads and DDS participants of one file from the next;
what takes seconds to import is imported once. The exit code is 1 where a file failed.
"""

from __future__ import annotations

import atexit
import os
import sys

import pytest

import continuum_robot.app.client.robot
import continuum_robot.nodes.composition  # noqa: F401


def ended(file: str, marks: str) -> int:
    """The exit code of a file's tests."""
    pid = os.fork()
    if pid == 0:
        code = pytest.main(["-q", "--durations=5", "--durations-min=1", "-m", marks, file])
        atexit._run_exitfuncs()
        sys.stdout.flush()
        # As multiprocessing ends a forked process: what its parent imported is not taken down twice.
        os._exit(int(code))
    _, status, used = os.wait4(pid, 0)
    # Two cores bear 1200 s of it in ten minutes: what a change of the tests costs or saves is seen here.
    sys.stdout.write(f"{file}: {used.ru_utime + used.ru_stime:.1f} s of a processor\n")
    return os.waitstatus_to_exitcode(status)


def main() -> int:
    """Run all files."""
    (marks,), failed = sys.argv[1:], 0
    for file in sorted(sys.stdin.read().split()):
        sys.stdout.write(f"{file}\n")
        sys.stdout.flush()
        code = ended(file, marks)
        if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            failed = 1
            sys.stdout.write(f"FAILED {file} (exit code {code})\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
