# SPDX-License-Identifier: Apache-2.0
"""Independent tasks one after the other in this process, or over worker processes of dask.distributed.

A task is a function of one item; what is random in it comes from a seed in the item. So the results, in the order of
the items, are the same for any number of workers, and a task whose worker dies is done again by another.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from continuum_robot.errors import ContinuumRobotError, ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")
OnResult = Callable[[int, Any], None]

MOST_WORKERS = 256
_CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Where tasks are done.

    Attributes
    ----------
    workers : processes of this machine; 0: this one
    scheduler : address of a dask scheduler, ``tcp://host:port`` or ``tls://...``; empty: none. Its workers need the
        same package
    """

    workers: int = 0
    scheduler: str = ""


HERE = WorkerOptions()
"""In this process."""


class Tasks(Protocol):
    """Does tasks."""

    def run(
        self, function: Callable[[Item], Result], items: Sequence[Item], on_result: OnResult | None = None
    ) -> list[Result]:
        """The results in the order of the items.

        Parameters
        ----------
        function : of a module, so that another process finds it
        items : one for each task
        on_result : called here with index and result of each, in the order in which they end

        Raises
        ------
        ContinuumRobotError : workers died again and again on one task; besides, what a task raises
        """


class TasksHere:
    """One after the other, in this process."""

    def run(
        self, function: Callable[[Item], Result], items: Sequence[Item], on_result: OnResult | None = None
    ) -> list[Result]:
        """See :class:`Tasks`."""
        results = []
        for index, item in enumerate(items):
            results.append(function(item))
            if on_result is not None:
                on_result(index, results[-1])
        return results


IN_TURN: Tasks = TasksHere()
"""The default of functions that take somebody who does their tasks."""


class TasksOnWorkers:
    """Over the workers of a dask client.

    Parameters
    ----------
    client : of dask.distributed, connected
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(
        self, function: Callable[[Item], Result], items: Sequence[Item], on_result: OnResult | None = None
    ) -> list[Result]:
        """See :class:`Tasks`."""
        from distributed import KilledWorker, as_completed  # noqa: PLC0415

        # Not pure: two equal items are two tasks, and nothing is taken from an earlier run.
        futures = self._client.map(function, items, pure=False)
        places = {future.key: index for index, future in enumerate(futures)}
        results: dict[int, Result] = {}
        try:
            for future in as_completed(futures, loop=self._client.loop):
                index = places[future.key]
                results[index] = future.result()
                if on_result is not None:
                    on_result(index, results[index])
        except KilledWorker as error:
            raise ContinuumRobotError(
                f"task {index + 1} of {len(items)}: each worker that took it died, {error.allowed_failures + 1} of"
                " them. Look at their logs and memory, or do it without --workers"
            ) from error
        finally:
            self._client.cancel(futures)
        return [results[index] for index in range(len(items))]


def counted(say: Callable[[str], None], total: int, what: str) -> OnResult:
    """A callback for each result, which prints how many there are by now.

    Parameters
    ----------
    say : gets the line
    total : number of tasks
    what : they are, as a plural
    """
    done = itertools.count(1)
    return lambda _index, _result: say(f"{next(done)} of {total} {what}")


@contextmanager
def tasks(options: WorkerOptions) -> Iterator[Tasks]:
    """Workers for a while; those of this machine listen on the loopback, encrypted, for this process alone.

    Parameters
    ----------
    options : where

    Raises
    ------
    ParameterError : both or an impossible number of workers, no such scheduler, or the extra ``cluster`` is missing
    """
    if not 0 <= options.workers <= MOST_WORKERS:
        raise ParameterError("--workers", options.workers, f"0 to {MOST_WORKERS}")
    if options.workers and options.scheduler:
        raise ParameterError("--workers, --scheduler", (options.workers, options.scheduler), "one of the two")
    if not (options.workers or options.scheduler):
        yield TasksHere()
        return
    if importlib.util.find_spec("distributed") is None or importlib.util.find_spec("cryptography") is None:
        name = "--scheduler" if options.scheduler else "--workers"
        value = options.scheduler or options.workers
        raise ParameterError(name, value, "the extra cluster: pip install 'continuum_robot[cluster]'")
    from distributed import Client, LocalCluster  # noqa: PLC0415

    if options.scheduler:
        try:
            client = Client(options.scheduler, timeout=_CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ParameterError(
                "--scheduler", options.scheduler, "the address of a running dask scheduler, tcp://host:port"
            ) from error
        with client:
            yield TasksOnWorkers(client)
        return
    cluster = LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=True,  # who reaches a scheduler can run programs
        silence_logs=logging.CRITICAL,
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield TasksOnWorkers(client)
