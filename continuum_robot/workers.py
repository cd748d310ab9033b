# SPDX-License-Identifier: Apache-2.0
"""Independent tasks one after the other in this process, on this machine's cores, or on a dask scheduler's workers.

A task is a function of one item; what is random in it comes from a seed in the item. So the results, in the order of
the items, are the same for any number of workers, and a task whose worker dies is done again by another.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from continuum_robot.errors import ContinuumRobotError, ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")
OnResult = Callable[[int, Any], None]

MOST_WORKERS = 256
_CONNECT_TIMEOUT_S = 5.0
_MOST_DEATHS = 4
"""Workers that may die on one task, as many as dask allows."""


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


class TasksOnCores:
    """On processes of this machine, which end with this one however that ends.

    Parameters
    ----------
    workers : how many at once
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        theirs, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self._workers, context, initializer=_begin, initargs=(theirs,))

    def run(
        self, function: Callable[[Item], Result], items: Sequence[Item], on_result: OnResult | None = None
    ) -> list[Result]:
        """See :class:`Tasks`."""
        results: dict[int, Result] = {}

        def finished(index: int, result: Result) -> None:
            results[index] = result
            if on_result is not None:
                on_result(index, result)

        todo = deque(range(len(items)))
        while todo:
            # Alone among the workers it is known during which task one dies.
            for index in self._until_death(function, items, todo, finished):
                for _ in range(_MOST_DEATHS - 1):
                    if not self._until_death(function, items, deque([index]), finished):
                        break
                else:
                    raise _killed(index, len(items), _MOST_DEATHS)
        return [results[index] for index in range(len(items))]

    def _until_death(
        self, function: Callable[[Item], Result], items: Sequence[Item], todo: deque[int], finished: OnResult
    ) -> list[int]:
        """Do tasks until there are none left, or a worker dies; which tasks were under way then."""
        under_way: dict[Future[Result], int] = {}
        try:
            while todo or under_way:
                while todo and len(under_way) < self._workers:
                    under_way[self._pool.submit(function, items[todo[0]])] = todo[0]
                    todo.popleft()
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    finished(under_way.pop(future), result)
        except BrokenProcessPool:
            self.end()
            self._start()
            return sorted(under_way.values())
        return []

    def end(self) -> None:
        """End the processes, in the middle of a task too."""
        self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)


def _begin(lifeline: Connection) -> None:
    """In a worker: Ctrl-C is for the process that started it, and when that is gone, so is the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()  # nothing is ever sent
    os._exit(1)


def _killed(index: int, count: int, deaths: int) -> ContinuumRobotError:
    return ContinuumRobotError(
        f"task {index + 1} of {count}: each worker that took it died, {deaths} of them. Look at their logs and memory,"
        " or do it without --workers"
    )


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
            raise _killed(index, len(items), error.allowed_failures + 1) from error
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


@contextlib.contextmanager
def tasks(options: WorkerOptions) -> Iterator[Tasks]:
    """Workers for a while.

    Parameters
    ----------
    options : where

    Raises
    ------
    ParameterError : both or an impossible number of workers, no such scheduler, or the extra ``cluster``, which a
        scheduler needs, is missing
    """
    if not 0 <= options.workers <= MOST_WORKERS:
        raise ParameterError("--workers", options.workers, f"0 to {MOST_WORKERS}")
    if options.workers and options.scheduler:
        raise ParameterError("--workers, --scheduler", (options.workers, options.scheduler), "one of the two")
    if options.workers:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers are the threads
        on_cores = TasksOnCores(options.workers)
        try:
            yield on_cores
        finally:
            on_cores.end()
    elif options.scheduler:
        with _client(options.scheduler) as client:
            yield TasksOnWorkers(client)
    else:
        yield TasksHere()


def _client(scheduler: str) -> Any:
    if importlib.util.find_spec("distributed") is None:
        raise ParameterError("--scheduler", scheduler, "the extra cluster: pip install 'continuum-robot[cluster]'")
    from distributed import Client  # noqa: PLC0415

    try:
        return Client(scheduler, timeout=_CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ParameterError(
            "--scheduler", scheduler, "the address of a running dask scheduler, tcp://host:port"
        ) from error
