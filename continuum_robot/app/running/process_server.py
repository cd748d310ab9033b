# SPDX-License-Identifier: Apache-2.0
"""A process from which those of a stack are forked: what all of them import is imported once.

Four programs that import rclpy, NumPy and CasADi for themselves take five seconds of a processor before the first node
is there.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from continuum_robot.app.running.child_process import tether
from continuum_robot.errors import DeviceError

_LONGEST = 1 << 18
_NAME = "process server"


class ForkedProcess:
    """A process that the server forked; the part of ``subprocess.Popen`` that :class:`ProcessGroup` needs."""

    stdout = None

    def __init__(self, server: ProcessServer, pid: int) -> None:
        self.pid = pid
        self._server = server

    def poll(self) -> int | None:
        """Exit code, None while it runs; negative: the signal that ended it."""
        return self._server.exit_code(self.pid)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ProcessServer:
    """Forks programs of this package. Made by a process without further threads; use as a context manager.

    Ending it ends what it forked.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent_pid = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            _leave(_serve, parent_pid, there, modules)
        there.close()
        self._exit_codes: dict[int, int] = {}
        self._started: list[int] = []

    @staticmethod
    def possible() -> bool:
        """Whether this process can be forked: Linux, and no thread that could hold a lock meanwhile."""
        return sys.platform == "linux" and threading.active_count() == 1

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> ForkedProcess:
        """Fork a process that runs a module's ``main``."""
        request = json.dumps({"module": command[2], "arguments": command[3:], "environment": dict(environment)})
        try:
            self._socket.send(request.encode())
        except OSError as error:
            raise DeviceError(_NAME, f"has ended ({error})", "Start the command again") from error
        before = len(self._started)
        while len(self._started) == before:
            self._receive(wait=True)
        return ForkedProcess(self, self._started[-1])

    def exit_code(self, pid: int) -> int | None:
        """Exit code of a process that was forked, None while it runs."""
        with contextlib.suppress(DeviceError):
            while self._receive(wait=False):
                pass
        return self._exit_codes.get(pid)

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def __enter__(self) -> ProcessServer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _receive(self, *, wait: bool) -> bool:
        try:
            message = self._socket.recv(_LONGEST, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            message = b""
        if not message:
            # Its processes end with it.
            self._exit_codes |= {pid: -signal.SIGTERM for pid in self._started if pid not in self._exit_codes}
            raise DeviceError(_NAME, "has ended", "Start the command again")
        reply = json.loads(message)
        if "started" in reply:
            self._started.append(reply["started"])
            self._exit_codes.pop(reply["started"], None)  # of an earlier process with this id
        else:
            self._exit_codes[reply["ended"]] = reply["code"]
        return True


def _leave(function: Callable[..., int], *arguments: object) -> None:
    """Call a function in a forked process, and end the process with its result: nothing of the caller's goes on."""
    code = 1
    try:
        code = function(*arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _serve(parent_pid: int, asked: socket.socket, modules: Sequence[str]) -> int:
    # The terminal's Ctrl-C is the business of who asked; it stops the processes in order.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tether(parent_pid)
    for module in modules:
        # A process that needs it says what is wrong with it.
        with contextlib.suppress(Exception):
            import_module(module)
    gc.freeze()  # shared pages stay shared
    ended, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # Who asked has gone, before it heard of everything: its processes end with this one.
    with contextlib.suppress(ConnectionError):
        _answer(asked, ended, woken)
    return 0


def _answer(asked: socket.socket, ended: int, woken: int) -> None:
    while True:
        readable, _, _ = select.select([asked.fileno(), ended], [], [])
        if ended in readable:
            os.read(ended, 64)
            _report_ended(asked)
        if asked.fileno() in readable:
            message = asked.recv(_LONGEST)
            if not message:
                return
            server_pid, pid = os.getpid(), os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for descriptor in (ended, woken):
                    os.close(descriptor)
                asked.close()
                _leave(_run, server_pid, json.loads(message))
            asked.send(json.dumps({"started": pid}).encode())


def _report_ended(asked: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        asked.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _run(server_pid: int, asked: Mapping[str, Any]) -> int:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tether(server_pid)
    os.environ.clear()
    os.environ.update(asked["environment"])
    module = import_module(asked["module"])
    gc.unfreeze()
    sys.argv = [str(module.__file__), *asked["arguments"]]
    return int(module.main(sys.argv))
