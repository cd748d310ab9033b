# SPDX-License-Identifier: Apache-2.0
"""Processes forked by a server: exit codes, signals, variables, and none outlives who asked for them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from continuum_robot.app.running.process_server import ProcessServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and is tethered by the kernel of Linux")

MODULE = """
import os, signal, sys, time
def main(arguments):
    what = arguments[1]
    print(what, os.environ.get("SAID", ""), os.getsid(0) == os.getpid(), flush=True)
    if what == "wait":
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            return 7
    if what == "exit":
        sys.exit("a reason")
    if what == "raise":
        raise ValueError("a defect")
    return int(what)
"""
PROGRAM = """
import os, signal, sys, time
from continuum_robot.app.running.process_server import ProcessServer
def command(what): return [sys.executable, "-m", "to_be_forked", what]
def end(process):
    while process.poll() is None: time.sleep(0.01)
    return process.poll()
assert ProcessServer.possible()
print("before", end=" ")  # not yet written: no child reports it again
with ProcessServer(["to_be_forked", "no_such_module"]) as server:
    here = dict(os.environ)
    {body}
"""


def run(tmp_path: Path, body: str, **more) -> subprocess.Popen:
    (tmp_path / "to_be_forked.py").write_text(MODULE)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def text_of(tmp_path: Path, body: str) -> tuple[list[str], str]:
    program = run(tmp_path, body)
    out, errors = program.communicate(timeout=300)
    assert program.returncode == 0, errors
    return out.splitlines(), errors


def test_exit_codes_output_and_variables(tmp_path):
    lines, errors = text_of(tmp_path, 'print([end(server.start(command(w), {**here, "SAID": w})) for w in "03"])')
    assert lines == ["before 0 0 True", "3 3 True", "[0, 3]"]
    assert errors == ""


def test_a_defect_is_shown_and_ends_the_process_alone(tmp_path):
    body = 'print(*[end(server.start(command(w), here)) for w in ("raise", "exit", "0")])'
    lines, errors = text_of(tmp_path, body)
    assert lines[-1] == "1 1 0"
    assert "ValueError: a defect" in errors


def test_signals_reach_the_process(tmp_path):
    body = """
    processes = [server.start(command("wait"), here) for _ in range(3)]
    time.sleep(0.5)
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
    for process, number in zip(processes, numbers): process.send_signal(number)
    print(*[end(process) for process in processes])
    processes[0].send_signal(signal.SIGINT)  # it has ended: nobody gets it
"""
    lines, _ = text_of(tmp_path, body)
    assert lines[-1] == "7 -15 -9"


def gone(pid: int) -> bool:
    deadline_s = time.monotonic() + 20.0
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline_s or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        time.sleep(0.05)
    return True


def test_they_end_with_who_asked_for_them_even_if_that_is_killed(tmp_path):
    body = 'os.write(1, b"pid %d;\\n" % server.start(command("wait"), here).pid); time.sleep(60)'
    program = run(tmp_path, body)
    # In one piece, wherever it falls in what the other process reports meanwhile.
    pid = next(int(found[1]) for line in program.stdout if (found := re.search(r"pid (\d+);", line)))
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    program.stderr.close()
    assert gone(pid)


def test_a_process_with_threads_is_not_forked():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not ProcessServer.possible()
    finally:
        stop.set()
        thread.join()


def test_who_leaves_without_having_heard_the_last_word_is_no_defect(tmp_path):
    heard = "import select; server.start(command('0'), here); select.select([server._socket], [], [])"
    _, errors = text_of(tmp_path, heard)
    assert errors == ""
