# SPDX-License-Identifier: Apache-2.0
"""A starter of several processes, for machines without launch_ros: starts, watches, stops them in order."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from continuum_robot.app.running.child_process import CHILD_MODULE
from continuum_robot.app.running.process_server import ForkedProcess, ProcessServer
from continuum_robot.errors import MISCONFIGURED, DeviceError, ParameterError

RESPAWN_DELAY_S = 2.0
"""From the end of a process to its next start: what it held, the system has freed then."""


def node_command(
    node: str, parameters: Mapping[str, object], namespace: str = "", extra: Sequence[str] = ()
) -> list[str]:
    """The command that runs a node's module as a program."""
    command = [sys.executable, "-m", f"continuum_robot.nodes.{node}", "--ros-args"]
    for name, value in parameters.items():
        command += ["-p", f"{name}:={parameter_text(value)}"]
    if namespace.strip("/"):
        command += ["-r", f"__ns:=/{namespace.strip('/')}"]
    return [*command, *extra]


def parameter_text(value: object) -> str:
    """A parameter's value as ROS's command line wants it (YAML); text is quoted, so that "1" stays text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(parameter_text(item) for item in value)}]"
    return str(value)


@dataclass
class ProcessGroup:
    """Several processes, started in order and stopped in reverse order."""

    commands: Mapping[str, Sequence[str]]
    grace_s: float = 5.0
    signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    output: int | None = None
    server: ProcessServer | None = None
    restarts: dict[str, int] = field(default_factory=dict, init=False)
    _running: dict[str, subprocess.Popen[bytes] | ForkedProcess] = field(default_factory=dict, init=False)
    _ended_s: dict[str, float] = field(default_factory=dict, init=False)

    def start(self) -> None:
        """Start all, in order."""
        if self._running:
            raise ParameterError("start", "started already", "one start of each group")
        for name in self.commands:
            try:
                self._start_one(name)
            except DeviceError:
                self.stop()
                raise

    def _start_one(self, name: str) -> None:
        command = self.commands[name]
        if self.server is not None and self.output is None:
            self._running[name] = self.server.start(command, os.environ)
            return
        with_parent = [sys.executable, "-m", CHILD_MODULE, str(os.getpid())]
        try:
            # A session of its own: the terminal's Ctrl-C reaches only this process, which stops them in order.
            self._running[name] = subprocess.Popen([*with_parent, *command], start_new_session=True, stdout=self.output)
        except OSError as error:
            raise DeviceError(name, f"cannot be started ({error})", f"Try: {' '.join(command)}") from error

    def ended_for_good(self, name: str, code: int, most: int) -> bool:
        """Whether a process that ended with ``code`` is not started again; ``most`` as of :meth:`start_again`."""
        return code == MISCONFIGURED or self.restarts.get(name, 0) >= most

    def start_again(self, most: int, delay_s: float = RESPAWN_DELAY_S) -> dict[str, int]:
        """Start processes again that have ended; called now and then, and never waits."""
        now_s, started = time.monotonic(), dict[str, int]()
        for name, code in self.ended().items():
            since_s = self._ended_s.setdefault(name, now_s)
            if not self.ended_for_good(name, code, most) and now_s - since_s >= delay_s:
                del self._ended_s[name]
                self.restarts[name] = self.restarts.get(name, 0) + 1
                self._start_one(name)
                started[name] = code
        return started

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each process."""
        return {name: process.pid for name, process in self._running.items()}

    def read(self, name: str) -> bytes:
        """What a process of a group with ``output=PIPE`` wrote since the last call; never waits."""
        stream = self._running[name].stdout
        if stream is None:
            raise ParameterError("output", self.output, "subprocess.PIPE to read what a process writes")
        os.set_blocking(stream.fileno(), False)
        return stream.read() or b""

    def exit_codes(self) -> dict[str, int | None]:
        """Exit code of each process, None while it runs; negative: the signal that ended it."""
        return {name: process.poll() for name, process in self._running.items()}

    def ended(self) -> dict[str, int]:
        """Exit codes of the processes that have ended."""
        return {name: code for name, code in self.exit_codes().items() if code is not None}

    def stop(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Stop processes in reverse order of starting by ``signals``, each ``grace_s`` after the one before."""
        for name, process in reversed(self._running.items()):
            if names is None or name in names:
                self._stop_one(process)
        return self.ended()

    def _stop_one(self, process: subprocess.Popen[bytes] | ForkedProcess) -> None:
        for number in self.signals:
            if process.poll() is not None:
                return
            process.send_signal(number)
            deadline = time.monotonic() + self.grace_s
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)


def processor_time_s(pid: int) -> float:
    """Processor time that a process has used so far, user and system, s; NaN where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
