# SPDX-License-Identifier: Apache-2.0
"""Faults of servos in the processes of ``up``: the shipped driver at the pseudo-terminal of emulated servos.

Time comes from the simulated robot: on a machine that is too busy for it nothing is late.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from continuum_robot.app.campaign.runner import NOTICE_S, WATCH_S, Notices, Rng, run_on_stacks
from continuum_robot.app.soak.stand import StackStand
from continuum_robot.experiments.fault_campaign import servos
from continuum_robot.experiments.fault_campaign.campaign import FaultRecord, record_of
from continuum_robot.experiments.fault_campaign.kind import SAFE, STACK, TOLERATED
from continuum_robot.experiments.fault_campaign.servo_kinds import ServoFault
from continuum_robot.experiments.fault_campaign.servo_stand import Seen
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.runtime.cycle.assembly import cycle_period_s
from continuum_robot.srv import InjectFault

MOVE_S = 2.0
LONGEST_WATCH_S = 600.0
"""On this machine, which may be busy."""


class ServoStack(StackStand):
    """The stack of a servo robot on its simulated bus, with what the kinds of faults and :func:`run_on_stacks` need."""

    def __init__(self, robot_file: str, folder: Path) -> None:
        super().__init__(robot_file, folder, {"simulation_level": "wire", "contact": False, "clock": "lockstep"})
        self.rate_hz = 1 / cycle_period_s(self.robot)

    def inject(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Have servos or their bus fail, by the service of the simulator."""
        request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
        self.link.ask("inject_fault", InjectFault, request, again_s=None)

    @property
    def now_s(self) -> float:
        """The simulated robot's time, s."""
        return float(self.truth(-math.inf)["time_s"][-1])

    def seen(self, begin_s: float) -> Seen:
        """The robot's truth since a time of its own."""
        truth = self.truth(begin_s)
        unknown = np.full(self.robot.tendon_count, np.nan)
        count = len(truth.get("time_s", ()))
        return Seen(
            list(truth.get("time_s", ())),
            list(truth.get("tension_n", ())),
            list(truth.get("displacement_m", ())),
            [unknown] * count,
            [np.full(self.robot.coordinate_count, np.nan)] * count,
        )


def run_one(stand: ServoStack, kind: ServoFault, injection_time: str, seed: int, rng: Rng) -> FaultRecord:
    """Move, let it happen, watch, judge the end, recover; arguments as of :func:`.runner.run_one`.

    How long the servos took is not judged, nor that a reset before the cure is refused, since it makes the simulated
    devices anew: that is the run's in virtual time.
    """
    robot, tendon = stand.robot, int(rng.integers(stand.robot.tendon_count))
    stand.link.restart()
    stand.lived(stand.now_s, MOVE_S, LONGEST_WATCH_S)
    with Notices(stand.link) as notices:
        begin_s = stand.now_s
        kind.action(stand, tendon)  # type: ignore[arg-type]  # kinds of a bus take its robot and inject
        if kind.reaction == SAFE:
            late_s = begin_s + NOTICE_S
            wait_for(lambda: bool(notices.first_s) or stand.now_s > late_s, LONGEST_WATCH_S, 0.1)
        noticed_s, stopped = stand.now_s, bool(notices.first_s)
        longest_s = robot.displacement_limits.longest_ramp_s if stopped else 0.0
        stand.lived(stand.now_s, WATCH_S + longest_s, LONGEST_WATCH_S)
    judgement = servos.judge(
        robot, stand.seen(begin_s), period_s=1 / stand.rate_hz, knowable_s=noticed_s,
        stopped_s=noticed_s if stopped else math.nan, powered=False,
        spared=tendon if kind.spared else -1, holds=kind.holds,
    )  # fmt: skip
    problems = list(judgement.problems)
    reaction = SAFE if stopped else TOLERATED
    if kind.reaction == SAFE and not stopped:
        problems.append("it was tolerated")
    stand.inject("")
    recovery = stand.recover()
    ended_safe = not problems
    if reaction != kind.reaction == TOLERATED:
        problems.append("it stopped all the same: " + ", ".join(notices.reported))
    return record_of(
        dataclasses.replace(kind, runs=STACK), injection_time, seed, judgement,
        rate_hz=stand.rate_hz, stopped=stopped, detected=list(notices.reported), detected_after_s=noticed_s - begin_s,
        reported=tuple(notices.reported.values()), ended_safe=ended_safe, problems=problems, recovery=recovery,
    )  # fmt: skip


def run_campaign(robot_file: str, kinds: Sequence[ServoFault], seed: int = 0) -> Iterator[FaultRecord]:
    """One run of each of the kinds that run in processes."""
    chosen = [kind for kind in kinds if kind.stack]
    yield from run_on_stacks(partial(_running, robot_file), chosen, run_one, 1, seed)


@contextlib.contextmanager
def _running(robot_file: str) -> Iterator[ServoStack]:
    with tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name:
        stand = ServoStack(robot_file, Path(name))
        try:
            stand.start()
            yield stand
        finally:
            stand.close()
