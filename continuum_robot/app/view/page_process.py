# SPDX-License-Identifier: Apache-2.0
"""The page as a child of the command that brings a stack up: started with it, ended with it."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console

from continuum_robot.app.output import say
from continuum_robot.app.running.processes import ProcessGroup

_NAME = "view"


class PageProcess:
    """Starts the page, shows its address when it is there, ends it. Use as a context manager.

    A missing extra or a page that fails are reported in a line; the robot runs on without it.
    """

    def __init__(
        self,
        robot: str,
        console: Console,
        *,
        namespace: str = "",
        desired: bool = True,
        folder: Path,
        view_only: bool = False,
        allow_origins: Sequence[str] = (),
    ) -> None:
        self._robot, self._console, self._namespace, self._folder = robot, console, namespace, folder
        self._desired, self._view_only, self._allow_origins = desired, view_only, allow_origins
        self._group: ProcessGroup | None = None
        self._text = b""
        self._told = False

    def __enter__(self) -> PageProcess:
        if not self._desired:
            return self
        if importlib.util.find_spec("viser") is None:
            say(self._console, "no page in the browser: install the extra, pip install 'continuum-robot[viz]'")
            return self
        command = [sys.executable, "-m", "continuum_robot.app.command_line", "view", self._robot]
        command += ["--folder", str(self._folder), *(["--namespace", self._namespace] if self._namespace else [])]
        command += ["--view-only"] if self._view_only else []
        command += [word for origin in self._allow_origins for word in ("--allow-origin", origin)]
        # Not SIGINT, of which a page that is still being loaded would complain.
        signals = (signal.SIGTERM, signal.SIGKILL)
        self._group = ProcessGroup({_NAME: command}, signals=signals, output=subprocess.PIPE)
        self._group.start()
        return self

    def tell(self) -> None:
        """Tell the address once it is known, or that the page failed; call it now and then."""
        group = self._group
        if group is None or self._told:
            return
        self._text += group.read(_NAME)
        line, newline, _ = self._text.partition(b"\n")
        if newline:
            self._told = True
            kind = " (view only)" if self._view_only else ""
            say(self._console, f"page in the browser{kind}: {line.decode().strip()}")
        elif group.ended():
            self._told = True
            say(self._console, "no page in the browser: it failed, see the log above; continuum-robot view tries again")

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.stop()
