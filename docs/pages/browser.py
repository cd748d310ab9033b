# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools, for pictures of the page and for its tests."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from continuum_robot.errors import DeviceError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_ANSWER_S = 120.0
_START_S = 120.0
_SAID = 500


def find_browser() -> str | None:
    """The path of a Chromium, None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One page in a headless Chromium that draws in software. Use as a context manager."""

    def __init__(self, size: tuple[int, int] = (1280, 800), *, gives_way: bool = True) -> None:
        program = find_browser()
        if program is None:
            raise DeviceError("browser", "no Chromium is found", "Install the package chromium")
        self._folder = tempfile.TemporaryDirectory(prefix="continuum_robot_browser", ignore_cleanup_errors=True)
        chrt = shutil.which("chrt") if gives_way else None
        self._process = subprocess.Popen(
            [
                *([chrt, "--idle", "0"] if chrt else []), program,
                "--headless=new", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader", "--hide-scrollbars", "--mute-audio", "--no-first-run",
                "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
                # A computer that is busy draws late; Chromium would take that for a hang and end the drawing for good.
                "--disable-gpu-watchdog", "--disable-gpu-process-crash-limit", "--disable-renderer-backgrounding",
                f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0",
                f"--user-data-dir={self._folder.name}", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._number = 0
        try:
            self._socket = connect(self._page(), max_size=None, open_timeout=_ANSWER_S)
            self.call(
                "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
            )
        except BaseException:
            self._end()
            raise

    def open(self, address: str) -> None:
        """Load a page."""
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression on the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise DeviceError("browser", f"the script failed: {result['exceptionDetails']}", "Correct the script")
        return result["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = 60.0) -> Any:
        """Wait until a JavaScript expression is true, and give its value; while it fails it is not."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := self._try(f"(() => {{ try {{ return {script} }} catch {{ return false }} }})()")):
            if time.monotonic() > deadline_s:
                shown = " ".join(str(self.run("document.body.innerText")).split())
                raise DeviceError(
                    "browser", f"{script} is not true within {timeout_s:g} s; the page reports: {shown[:_SAID]}",
                    "Look at a screenshot",
                )  # fmt: skip
            time.sleep(0.2)
        return value

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a point, pixels."""
        self.drag([(x, y)])

    def drag(self, path: list[tuple[float, float]]) -> None:
        """Press the left button at the first point, move along the others, release it at the last."""
        for kind, (x, y) in (
            ("mouseMoved", path[0]), ("mousePressed", path[0]), *(("mouseMoved", point) for point in path[1:]),
            ("mouseReleased", path[-1]),
        ):  # fmt: skip
            button = "none" if kind == "mouseMoved" and len(path) == 1 else "left"
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1,
                buttons=0 if kind == "mouseReleased" else 1,
            )  # fmt: skip

    def screenshot(self) -> bytes:
        """A picture of the window, PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of DevTools and give its result."""
        self._number += 1
        deadline_s = time.monotonic() + _ANSWER_S
        try:
            self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
            return self._result(method, deadline_s)
        except TimeoutError:
            raise DeviceError("browser", f"does not answer {method}", "The computer may be too busy") from None
        except ConnectionClosed:
            raise DeviceError("browser", f"ended before it answered {method}", "See whether it was stopped") from None

    def _try(self, script: str) -> Any:
        """Value of an expression; None while one page makes way for the next and there is none to ask."""
        try:
            return self.run(script)
        except DeviceError as error:
            if not error.problem.startswith("refused"):
                raise
            return None

    def _result(self, method: str, deadline_s: float) -> Any:
        """What comes for the newest call."""
        while True:
            answer = json.loads(self._socket.recv(timeout=max(0.0, deadline_s - time.monotonic())))
            if answer.get("id") != self._number:
                continue  # an event
            if "error" in answer:
                raise DeviceError("browser", f"refused {method}: {answer['error']}", "Check the arguments")
            return answer["result"]

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(Exception):
            self._socket.close()
        self._end()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _page(self) -> str:
        """Address of the page's DevTools; the browser writes its port into its folder."""
        file = Path(self._folder.name) / "DevToolsActivePort"
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, LookupError, StopIteration):
                port = int(file.read_text().split()[0])
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5) as reply:
                    pages = json.loads(reply.read())
                return str(next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"])
            time.sleep(0.1)
        raise DeviceError("browser", "does not start", "Run chromium --headless by hand and see what it reports")

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()
