# SPDX-License-Identifier: Apache-2.0
"""Tasks give the same results here and on workers, in order; one worker that dies is no lost run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from continuum_robot.app.workspace import WorkspaceOptions, run_workspace
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.workers import MOST_WORKERS, WorkerOptions, tasks

needs_dask = pytest.mark.skipif("not __import__('importlib').util.find_spec('distributed')", reason="extra cluster")


def drawn(seed: int) -> float:
    return float(np.random.default_rng(seed).normal())


def refused(number: int) -> int:
    if number == 2:
        raise ParameterError("number", number, "another one")
    return number


def dies(folder: Path, number: int) -> int:
    """Kills its worker at the first attempt; shows the process of each attempt."""
    (folder / f"{number}.{os.getpid()}.{time.monotonic_ns()}").touch()
    if number == 3 and len(list(folder.glob("3.*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def shows_its_process(_number: int) -> None:
    print(os.getpid(), flush=True)  # noqa: T201
    time.sleep(60)


def lives(process: int) -> bool:
    """Not where it has ended and nobody has asked how yet, either."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False


def always_dies(_number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module", params=["cores", pytest.param("dask", marks=needs_dask)])
def two_workers(request):
    with contextlib.ExitStack() as stack:
        options = WorkerOptions(2)
        if request.param == "dask":
            from distributed import LocalCluster  # noqa: PLC0415

            cluster = LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
            )
            options = WorkerOptions(scheduler=stack.enter_context(cluster).scheduler_address)
        yield stack.enter_context(tasks(options))


def through(options: WorkerOptions, function: Any, items: Sequence[Any]) -> list[Any]:
    reported: dict[int, Any] = {}
    with tasks(options) as runner:
        found = runner.run(function, items, reported.__setitem__)
    assert [reported[index] for index in range(len(items))] == found
    return found


def test_tasks_are_done_in_this_process_in_order():
    assert through(WorkerOptions(), drawn, range(4)) == [drawn(seed) for seed in range(4)]


@pytest.mark.parametrize("options", [WorkerOptions(-1), WorkerOptions(MOST_WORKERS + 1), WorkerOptions(2, "tcp://a:1")])
def test_impossible_workers_are_refused(options):
    with pytest.raises(ParameterError, match="--workers"), tasks(options):
        pass


def test_workers_give_the_same_in_order_and_their_errors_whole(two_workers):
    assert two_workers.run(drawn, range(20)) == [drawn(seed) for seed in range(20)]
    with pytest.raises(ParameterError) as caught:
        two_workers.run(refused, range(4))
    assert (caught.value.name, caught.value.value) == ("number", 2)


def test_a_worker_that_is_killed_is_no_lost_run_and_a_task_that_kills_them_all_ends(two_workers, tmp_path):
    assert two_workers.run(partial(dies, tmp_path), range(8)) == [number**2 for number in range(8)]
    assert len(list(tmp_path.glob("3.*"))) == 2
    with pytest.raises(ContinuumRobotError, match="each worker that took it died"):
        two_workers.run(always_dies, [1])


@needs_dask
def test_a_scheduler_that_is_not_there_is_named():
    absent = WorkerOptions(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ParameterError, match="the address of a running dask scheduler") as caught, tasks(absent):
        pass
    assert (caught.value.name, caught.value.value) == ("--scheduler", absent.scheduler)


def test_workers_of_this_machine_listen_nowhere_and_end_with_what_started_them():
    program = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_workers
if __name__ == "__main__":
    with test_workers.tasks(test_workers.WorkerOptions(1)) as runner:
        runner.run(test_workers.shows_its_process, [0])
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        worker = int(starter.stdout.readline())
        connections = Path(f"/proc/{worker}/fd").iterdir()
        assert not [one for one in connections if os.readlink(one).startswith("socket:")]
        starter.kill()
    deadline_s = time.monotonic() + 20
    while lives(worker) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not lives(worker)


def test_a_workspace_does_not_depend_on_the_workers(tmp_path):
    options = WorkspaceOptions(samples=8, tension_n=2.0)
    for name, where in (("here", WorkerOptions()), ("workers", WorkerOptions(2))):
        run_workspace(["rucker"], options, None, tmp_path / f"{name}.json", Console(quiet=True), where)
    assert (tmp_path / "here.json").read_text() == (tmp_path / "workers.json").read_text()
