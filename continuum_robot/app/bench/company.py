# SPDX-License-Identifier: Apache-2.0
"""The 1 kHz loop of one running stack while a page, a client and a recorder come to it, one after the other."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from continuum_robot.app.bench.loop import STARTUP_TIMEOUT_S, loop_numbers, running_stack, wait_or_stop
from continuum_robot.app.client.stack_link import DIAGNOSTICS, StackLink
from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.app.running.processes import ProcessGroup, node_command, processor_time_s
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.diagnostics import values_of
from continuum_robot.nodes.base.spinning import StopRequest
from continuum_robot.nodes.stack.options import StackOptions

ALONE, PAGE, CLIENT, RECORDER = "without_page", "with_page", "with_client", "with_recorder"
_PAGE_S = 10.0


def has_viewer() -> bool:
    """Whether the extra with the page in the browser is installed."""
    return importlib.util.find_spec("viser") is not None


def loop_in_company(options: StackOptions, seconds: float, stop: StopRequest) -> dict[str, Any]:
    """One run of the loop, in processes: alone, then with the page, a client and a recorder, each of which stays.

    A stage begins when its program is started: what the start costs the loop is in the numbers. Somebody takes what the
    page sends and draws nothing: what a browser costs is a matter of its graphics.
    """
    python = [sys.executable, "-m"]
    with (
        running_stack(ProcessStack(options), stop) as stack,
        tempfile.TemporaryDirectory(prefix="continuum_robot_bench_") as folder,
        contextlib.ExitStack() as company,
    ):

        def start(name: str, *command: str, output: int | None = None) -> ProcessGroup:
            group = ProcessGroup({name: command}, signals=(signal.SIGTERM, signal.SIGKILL), output=output)
            group.start()
            company.callback(group.stop)
            return group

        def start_page() -> None:
            view = "continuum_robot.app.command_line", "view", options.robot
            page = start("view", *python, *view, output=subprocess.PIPE)
            address = Path(folder) / "address"
            address.write_text(_address_of(page, stop), encoding="utf-8")
            start("audience", *python, "continuum_robot.app.view.headless_browser", str(address))
            pids.append(page.pids["view"])

        def start_recorder() -> None:
            own = {"robot": options.robot, "use_fake_hardware": True, "activate": True, "directory": folder}
            start("recorder", *node_command("recorder", own, options.namespace, ("-r", "__node:=bench_recorder")))

        pids: list[int] = []
        link = StackLink(name="bench", topics=(DIAGNOSTICS,), context=stack.context, listens_only=True)
        company.callback(link.close)
        begins = {
            ALONE: lambda: None,
            PAGE: start_page,
            CLIENT: lambda: start("client", *python, "continuum_robot.app.bench.onlooker"),
            RECORDER: start_recorder,
        }
        numbers: dict[str, Any] = {}
        for stage, begin in begins.items():
            measured = loop_numbers(stack, seconds, stop, begin)
            numbers |= {f"{stage}_{key}": value for key, value in measured.items()}
            numbers[f"{stage}_faults"] = list(stack.status().faults)
        frames_hz = _frames_hz(link)
        if not frames_hz > 0:
            raise DeviceError("view", "draws nothing", "See the log above")
        before_s, used_s = time.monotonic(), processor_time_s(pids[0])
        wait_or_stop(stop, min(seconds, _PAGE_S))
        fraction = 100.0 * (processor_time_s(pids[0]) - used_s) / (time.monotonic() - before_s)
        return numbers | {"page_frames_hz": frames_hz, "page_processor_percent": fraction}


def _address_of(page: ProcessGroup, stop: StopRequest) -> str:
    text, deadline_s = b"", time.monotonic() + STARTUP_TIMEOUT_S
    while b"\n" not in text:
        if page.ended() or time.monotonic() > deadline_s:
            raise DeviceError("view", "does not come up", "See the log above")
        wait_or_stop(stop, 0.1)
        text += page.read("view")
    return text.split()[0].decode()


def _frames_hz(link: StackLink) -> float:
    """How often the page draws, by /diagnostics; 0 without a message."""
    newest = 0.0
    for message in link.messages.drain(DIAGNOSTICS):
        for status in message.status:
            if status.name.startswith("/view_") and status.name.endswith(": page"):
                newest = float(values_of(status)["frames_hz"])
    return newest
