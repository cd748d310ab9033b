# SPDX-License-Identifier: Apache-2.0
"""Nodes as programs of their own, started and signalled as a user would."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys


class Processes:
    """Node programs, started as a user would; all are gone at the end."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str, *parameters: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"continuum_robot.nodes.{node}", "--ros-args"]
        for parameter in parameters:
            command += ["-p", parameter]
        log = (self.folder / f"{node}.log").open("ab")
        self.running[node] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        return self.running[node]

    def log(self, node: str) -> str:
        return (self.folder / f"{node}.log").read_text(errors="replace")

    def stop(self, node: str, number: int = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        process = self.running.pop(node)
        process.send_signal(number)
        return process.wait(timeout_s)

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
            process.kill()
            process.wait(5.0)
