# SPDX-License-Identifier: Apache-2.0
"""One run of the fault campaign on a stack in processes: move, break something, watch, judge, recover.

Names
-----
stand : the stack under test, or what is needed of it
process : name of a part of the stack
begin_s : from when on, of the monotonic clock, s
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import StackLink
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.experiments.fault_campaign import kind as table
from continuum_robot.experiments.fault_campaign.campaign import INJECTION_TIMES, FaultRecord, injection_times, record_of
from continuum_robot.experiments.fault_campaign.judgement import TORQUE_MARGIN_N, judge
from continuum_robot.experiments.fault_campaign.kind import FaultKind, NamedKind
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
Rng = np.random.Generator

WATCH_S = 1.5
NOTICE_S = 15.0
"""Until the supervisor notices that a node is gone; the tendons are safe long before."""
NOTICE_PERIOD_S = 0.005
RESPAWN_TIMEOUT_S = 60.0


def _nothing() -> None:
    """Nothing is to be repaired."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What was done, and found by the way."""

    detail: str = ""
    begin_s: float = math.nan
    known_s: float = math.nan
    resumed_s: float = math.nan
    reaction: str = ""
    repair: Callable[[], object] = _nothing
    slack_m: float = 0.0
    found: Mapping[str, str] | None = None
    problems: tuple[str, ...] = ()
    limits: TensionLimits | None = None


class Stand(Protocol):
    """What faults need of the stack under test."""

    robot: Robot
    link: StackLink

    @property
    def limits(self) -> TensionLimits:
        """Of the robot."""

    def pid(self, process: str) -> int:
        """Process id of a part of the stack."""


class CampaignStand(Stand, Protocol):
    """What the campaign needs beside that; the stack is up, straight and holds before each run."""

    rate_hz: float
    """Of the driver."""

    def move(self) -> None:
        """Start the move to a fraction of the largest displacement."""

    def knowable_after_s(self, kind: FaultKind) -> float:
        """How long after its beginning a fault can be known, s; NaN: from its detection."""

    def watch(self, begin_s: float, after_s: float) -> None:
        """Wait until enough of the robot's life since ``begin_s`` is known, where ``after_s`` is as above."""

    def judged_truth(self, begin_s: float) -> dict[str, Vector]:
        """What happened to the robot since a time, as :func:`judge` takes it; an unknown reference is NaN."""

    def recover(self) -> str:
        """What an operator does; why the stack is not up then, "" where it is."""


StandT = TypeVar("StandT")
KindT = TypeVar("KindT", bound=NamedKind)
CampaignStandT = TypeVar("CampaignStandT", bound=CampaignStand)


def killed(stand: Stand, process: str) -> Callable[[], None]:
    """Kill a process; gives what waits until it was started again, and raises :class:`DeviceError` where it is not."""
    pid = stand.pid(process)
    os.kill(pid, signal.SIGKILL)

    def wait() -> None:
        if not wait_for(lambda: stand.pid(process) != pid, RESPAWN_TIMEOUT_S, 0.1):
            raise DeviceError(process, f"was not started again within {RESPAWN_TIMEOUT_S:g} s", "See the log")

    return wait


def stopped_for(stand: Stand, processes: Sequence[str], duration_s: float) -> float:
    """Stop processes for a time; gives when they went on, monotonic, s."""
    pids = [stand.pid(process) for process in processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(duration_s)
    finally:
        resumed_s = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    return resumed_s


class Notices:
    """Who named which fault first, and when, while a block runs."""

    def __init__(self, link: StackLink) -> None:
        self.first_s: dict[str, float] = {}
        self.reported: dict[str, str] = {}
        self._link, self._ended = link, threading.Event()
        self._thread = threading.Thread(target=self._look, name="notices", daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(NOTICE_PERIOD_S):
            state = self._link.state()
            for name in state.driver_faults:
                self._note(f"tendon_driver: {name}", f"{state.driver_message}: {FAULTS.get(name, name)}")
            for name in state.faults:
                self._note(f"supervisor: {name}", name)

    def _note(self, who: str, sentence: str) -> None:
        if who not in self.first_s:
            self.reported[who], self.first_s[who] = sentence, time.monotonic()

    def __enter__(self) -> Notices:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()


def run_one(
    actions: Mapping[str, Callable[[CampaignStandT, Rng], Effect]],
    stand: CampaignStandT,
    kind: FaultKind,
    injection_time: str,
    seed: int,
    rng: Rng,
) -> FaultRecord:
    """Move, let it happen, watch, judge, recover."""
    stand.move()
    time.sleep(INJECTION_TIMES[injection_time])
    after_s = stand.knowable_after_s(kind)
    with Notices(stand.link) as notices:
        begin_s = time.monotonic()
        effect = actions[kind.name](stand, rng)
        begin_s = next((one for one in (effect.begin_s, effect.known_s) if math.isfinite(one)), begin_s)
        stand.watch(begin_s, after_s)
        truth = stand.judged_truth(begin_s)
        if kind.detectors and not effect.found:
            wait_for(lambda: any(who.startswith(kind.detectors) for who in list(notices.first_s)), NOTICE_S, 0.05)
    reported = {**(effect.found or {}), **notices.reported}
    first_s = min(notices.first_s.values(), default=begin_s if effect.found else math.nan)
    limits = effect.limits or stand.limits
    stopped = bool((truth["motor_n"][-1] <= limits.safe_n + TORQUE_MARGIN_N).all())
    knowable_s = begin_s + (after_s if math.isfinite(after_s) else 0.0)
    if math.isnan(after_s) and notices.first_s:
        knowable_s = first_s
    if kind.reaction != table.SAFE and stopped:
        # Stopped by a fault that follows, or by a busy computer: when that could be known is not known here.
        knowable_s = _last_pull_s(truth, limits.safe_n)
    judgement = judge(stand.robot, limits, truth, knowable_s=knowable_s, stopped_s=knowable_s if stopped else math.nan)
    problems = [*judgement.problems, *effect.problems]
    detected = [who for who in reported if who.startswith(kind.detectors)] if kind.detectors else []
    if kind.reaction == table.SAFE and not stopped:
        problems.append("it was tolerated")
    if kind.detectors and not detected:
        problems.append("nobody noticed it")
    ended_safe = not problems
    if kind.reaction == table.TOLERATED and stopped:
        # Safe as well: a busy computer that stops the nodes too long is a fault of its own.
        problems.append("it stopped all the same: " + ", ".join(reported))
    recovery = _recovery(stand, effect)
    return record_of(
        kind, injection_time, seed, judgement,
        rate_hz=stand.rate_hz,
        stopped=stopped, detected=[*detected, *reported], detected_after_s=first_s - begin_s,
        reported=tuple(reported.values()), ended_safe=ended_safe, problems=problems, recovery=recovery,
    )  # fmt: skip


def _last_pull_s(truth: dict[str, Vector], safe_n: float) -> float:
    pulling = np.flatnonzero((truth["motor_n"] > safe_n + TORQUE_MARGIN_N).any(axis=1))
    return float(truth["time_s"][pulling[-1] if pulling.size else 0])


def _recovery(stand: CampaignStand, effect: Effect) -> str:
    try:
        effect.repair()
    except ContinuumRobotError as error:
        return str(error)
    return stand.recover()  # also where nothing stopped: the next motion begins from a straight robot


def run_on_stacks(
    running: Callable[[], AbstractContextManager[StandT]],
    kinds: Sequence[KindT],
    run: Callable[[StandT, KindT, str, int, Rng], FaultRecord],
    injection_time_count: int,
    seed: int,
) -> Iterator[FaultRecord]:
    """All runs on one stack that is started once, and again where a run left it broken."""
    rng = np.random.default_rng(seed)
    waiting = [(kind, injection_time) for kind in kinds for injection_time in injection_times(injection_time_count)]
    while waiting:
        try:
            with running() as stand:
                recovered = True
                while waiting and recovered:
                    kind, injection_time = waiting.pop(0)
                    try:
                        record = run(stand, kind, injection_time, seed, rng)
                    except ContinuumRobotError as error:
                        record = record_of(kind, injection_time, seed, None, problems=[str(error)])
                    recovered = record.recovered_without_restart
                    yield record
        except DeviceError as error:  # it did not come up: that run has failed, and the others are to be judged
            if not waiting:
                raise
            kind, injection_time = waiting.pop(0)
            yield record_of(kind, injection_time, seed, None, problems=[str(error)])
