# SPDX-License-Identifier: Apache-2.0
"""Runs test files in a process each, forked from one that has imported what all need: test/forked.py MARKS DOMAIN...

The files come on standard input. A process of its own keeps threads and DDS participants of one file from the next;
what takes seconds to import is imported once. As many run side by side as first DDS domains are given: each in those
that begin there. The exit code is 1 where a file failed.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile

import pytest

import continuum_robot.app.client.robot
import continuum_robot.nodes.composition  # noqa: F401


def forked(file: str, marks: str, domain: str, output: int | None) -> int:
    """The process that runs a file's tests."""
    if pid := os.fork():
        return pid
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    os.environ["CONTINUUM_ROBOT_TEST_DOMAIN"] = domain
    code = pytest.main(["-q", "--durations=5", "--durations-min=1", "-m", marks, file])
    atexit._run_exitfuncs()
    sys.stdout.flush()
    # As multiprocessing ends a forked process: what its parent imported is not taken down twice.
    os._exit(int(code))


def main() -> int:
    """Run all files."""
    marks, *free = sys.argv[1:]
    alone = len(free) == 1  # then it writes as it runs
    files, running, failed = sorted(sys.stdin.read().split(), reverse=True), {}, 0
    while files or running:
        while files and free:
            file, domain = files.pop(), free.pop()
            if alone:
                print(file, flush=True)
            output = None if alone else tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
            running[forked(file, marks, domain, output and output.fileno())] = file, domain, output
        pid, status, used = os.wait4(-1, 0)
        file, domain, output = running.pop(pid)
        free.append(domain)
        if output is not None:
            output.seek(0)
            print(f"{file}\n{output.read().decode(errors='replace')}", end="")
        # What a change of the tests costs: ten minutes of two cores are 1200 s.
        print(f"{file}: {used.ru_utime + used.ru_stime:.1f} s of a processor", flush=True)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            failed = 1
            print(f"FAILED {file} (exit code {code})", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
