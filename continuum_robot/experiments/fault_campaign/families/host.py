# SPDX-License-Identifier: Apache-2.0
"""A computer that stands still, or is slow."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from continuum_robot.errors import DeviceError
from continuum_robot.experiments.fault_campaign.kind import BOARD, MISSED, SAFE, Action, FaultKind
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.assembly import PERIOD_S
from continuum_robot.runtime.cycle.cache import cached_library
from continuum_robot.runtime.cycle.driver_loop import HANG_S

GROUP = "The host"
SLOW_S = 1.5


def _stall(duration_s: float) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.stall(duration_s)

    return act


def _every_second_cycle(robot: VirtualRobot, _tendon: int) -> None:
    for _ in range(round(SLOW_S / (2 * PERIOD_S))):
        robot.stall(PERIOD_S)
        robot.cycle()


def _hang(robot: VirtualRobot, _tendon: int) -> None:
    robot.safety.hang_seen = True  # by the watch, whose thread is none of virtual time
    robot.stall(HANG_S)


def _call_late(robot: VirtualRobot, _tendon: int) -> None:
    """A deactivation asked of a loop that hangs, in a thread of its own: the one of virtual time cannot."""
    begun, goes_on = threading.Event(), threading.Event()

    def cycle(*_numbers: float) -> None:
        begun.set()
        goes_on.wait()

    failures: list[BaseException] = []
    loop = ControlThread("loop", PERIOD_S, cycle, on_failure=failures.append)
    loop.start()
    begun.wait()
    try:
        loop.call(robot.safety.deactivate, 0.05)
    except DeviceError as error:
        robot.tell("loop: refused", str(error))
    goes_on.set()
    loop.call(lambda: None, 10.0)
    loop.stop()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "overwritten": lambda file: file.write_bytes(file.read_bytes()[:1000] + b"x" + file.read_bytes()[1001:]),
    "writable to others": lambda file: file.chmod(0o666),
    "a link": lambda file: file.symlink_to(file.rename(file.with_suffix(".other"))),
}
"""What happens to a file in the cache of compiled code."""


def _damage_cache(robot: VirtualRobot, _tendon: int) -> None:
    code, made = bytes(4096), []

    def build(folder: Path) -> Path:
        made.append(Path(folder, "code"))
        made[-1].write_bytes(code)
        return made[-1]

    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, CONTINUUM_ROBOT_CACHE=name):
        file = Path(name, "code.so")
        whole = [cached_library(file.name, build, lambda path: Path(path).read_bytes().startswith(code))]
        for damage in DAMAGES.values():
            damage(file)
            whole.append(cached_library(file.name, build, lambda path: Path(path).read_bytes().startswith(code)))
    if all(whole) and len(made) == 1 + len(DAMAGES):
        robot.tell("cache: made again", f"what is {', '.join(DAMAGES)} is made again")


KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="stall_50ms",
        group=GROUP,
        cause="the whole computer stands still for 50 ms",
        action=_stall(0.050),
        duration_s=0.001,
        seen="an overrun of the loop in `/diagnostics`",
        cure="relieve the computer; docs/hardware.md has real-time settings",
    ),
    FaultKind(
        name="stall_500ms",
        group=GROUP,
        cause="the whole computer stands still for 500 ms",
        action=_stall(0.500),
        detectors=("motors: receive_timeout", "tendon_safety:"),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.001,
        seen="the boards switch off meanwhile; `device_fault` with `receive_timeout`",
        cure="find what stops the computer, then reset",
    ),
    FaultKind(
        name="cycle_hangs",
        group=GROUP,
        cause="a cycle hangs for 500 ms: a device call or the controller's update does not return",
        action=_hang,
        detectors=("tendon_safety: loop_hangs",),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.001,
        seen="`loop_hangs` while it hangs, and an e-stop answers that it is not confirmed; the boards switch off",
        cure="mend the controller or the device, then reset; restart the driver where the cycle never goes on",
    ),
    FaultKind(
        name="host_slow",
        group=GROUP,
        cause="the computer misses every second cycle of the driver for 1.5 s",
        action=_every_second_cycle,
        detectors=("tendon_safety: loop_too_slow",),
        reaction=SAFE,
        detectable=MISSED,
        duration_s=SLOW_S,
        seen="`loop_too_slow`, and before it a warning in `/diagnostics` with the missed cycles",
        cure="relieve the computer, docs/realtime.md has real-time settings; then reset",
    ),
    FaultKind(
        name="late_call",
        group=GROUP,
        cause="a deactivation is asked of a loop that hangs, and the loop goes on after it was refused",
        action=_call_late,
        detectors=("loop: refused",),
        seen="the call is answered: nothing was done; and it is never done later",
        cure="ask again",
    ),
    FaultKind(
        name="damaged_cache",
        group=GROUP,
        cause=f"a file in the cache of compiled code is {', '.join(DAMAGES)}",
        action=_damage_cache,
        detectors=("cache: made again",),
        seen="it is not loaded, and made again",
        cure="none",
    ),
)
