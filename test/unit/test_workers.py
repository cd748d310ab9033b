# SPDX-License-Identifier: Apache-2.0
"""Tasks give the same results here and on workers, in order; one worker that dies is no lost run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.kinds import KINDS, by_name
from faults.virtual import run_virtual, virtual_runs
from rich.console import Console

from continuum_robot.app.workspace import WorkspaceOptions, run_workspace
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.loading import load_robot
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


def always_dies(_number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def two_workers():
    with tasks(WorkerOptions(2)) as runner:
        yield runner


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


@needs_dask
def test_workers_give_the_same_in_order_and_their_errors_whole(two_workers):
    assert two_workers.run(drawn, range(20)) == [drawn(seed) for seed in range(20)]
    with pytest.raises(ParameterError) as caught:
        two_workers.run(refused, range(4))
    assert (caught.value.name, caught.value.value) == ("number", 2)


@needs_dask
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


@needs_dask
def test_workers_of_this_machine_listen_on_the_loopback_and_speak_encrypted(two_workers):
    import psutil  # noqa: PLC0415

    own = psutil.Process()
    heard = [
        connection.laddr.ip
        for process in (own, *own.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(heard) == {"127.0.0.1"}
    assert len(heard) >= 3
    assert two_workers._client.scheduler.address.startswith("tls://127.0.0.1:")


@needs_dask
def test_a_scheduler_of_the_user_is_used():
    from distributed import LocalCluster  # noqa: PLC0415

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        assert through(WorkerOptions(scheduler=cluster.scheduler_address), drawn, range(3)) == [
            drawn(seed) for seed in range(3)
        ]


@needs_dask
def test_workspace_and_campaign_do_not_depend_on_the_workers(two_workers, tmp_path):
    options = WorkspaceOptions(samples=8, tension_n=2.0)
    for name, where in (("here", WorkerOptions()), ("workers", WorkerOptions(2))):
        run_workspace(["rucker"], options, None, tmp_path / f"{name}.json", Console(quiet=True), where)
    assert (tmp_path / "here.json").read_text() == (tmp_path / "workers.json").read_text()
    runs = virtual_runs(load_robot("opencr_five_tendon"), by_name(KINDS, "estop_service"), 1, seed=3)
    here, there = through(WorkerOptions(), run_virtual, runs), two_workers.run(run_virtual, runs)
    assert [repr(record) for record in here] == [repr(record) for record in there]
