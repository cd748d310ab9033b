# SPDX-License-Identifier: Apache-2.0
"""Imports what a command needs when it runs: ROS 2, CasADi and matplotlib take a second, and --help needs none."""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Iterator
from types import ModuleType

from continuum_robot.errors import missing_package


def part(name: str) -> ModuleType:
    """A module of app/, imported when its command runs.

    Parameters
    ----------
    name : below ``continuum_robot.app``

    Raises
    ------
    MissingPackageError : it needs ROS 2 or an extra that is not installed
    """
    try:
        with _interrupts_wait():
            return importlib.import_module(f"continuum_robot.app.{name}")
    except ModuleNotFoundError as error:
        raise missing_package(error) from None


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C comes when the block is left: CasADi swallows it while it is imported, and the command would go on."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
