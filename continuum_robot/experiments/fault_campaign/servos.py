# SPDX-License-Identifier: Apache-2.0
"""The campaign for robots whose actuators take displacements: every kind at each of its moments, in virtual time.

Kinds of a bus run on emulated servos by their bytes; for the others the devices are simulated in the process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.backends import device_faults, device_of
from continuum_robot.drivers.fault_text import HOME
from continuum_robot.drivers.safety.tendon_safety import ACTIVE
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.experiments.fault_campaign.campaign import (
    GOES_ON_S,
    INJECTION_TIMES,
    MOVE_S,
    FaultRecord,
    record_of,
)
from continuum_robot.experiments.fault_campaign.judgement import (
    DEVIATION_M,
    REST_S,
    SLACK_N,
    TIME_TO_SAFE_S,
    TORQUE_MARGIN_N,
    Judgement,
    passive_tension_n,
)
from continuum_robot.experiments.fault_campaign.kind import EITHER, SAFE, TOLERATED
from continuum_robot.experiments.fault_campaign.servo_kinds import (
    BEFORE,
    KINDS,
    MOVING,
    STOPPING,
    ServoFault,
    kinds_by_name,
)
from continuum_robot.experiments.fault_campaign.servo_stand import RESTART_S, Seen, VirtualServos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import servo_thresholds, spread
from continuum_robot.robot.stop_policy import RELEASE
from continuum_robot.simulation import faults
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.servo_line import UNPLUGGED

Vector = NDArray[np.float64]
DISPLACEMENT_FRACTION = 0.3
"""Amplitude of the move, as a fraction of limits.maximum_displacement_m."""
COOL_C = 30.0
STOPS_FOR_S = 0.05
"""How long the robot stops already where a fault comes in its stop."""
PULL_IN_M = 1e-7
"""By how much a command may grow in a cycle by rounding."""
HELD_M = 1e-3
"""How far a spool may wind in that is held where it is."""


def judge(
    robot: Robot,
    seen: Seen,
    *,
    period_s: float,
    knowable_s: float,
    stopped_s: float,
    powered: bool,
    spared: int,
    holds: bool = False,
) -> Judgement:
    """Judge a run by the robot's truth.

    Safe is a robot whose servos pull nothing in any more, within :data:`TIME_TO_SAFE_S` and the time in which the
    fastest command comes to rest, whose tendons carry no more than the servos may measure, and are slack in the end.
    """
    limits, thresholds = robot.displacement_limits, servo_thresholds(robot, period_s)
    time_s, tension = np.array(seen.time_s), np.array(seen.tension_n)
    problems = []
    peak_n = float(tension.max())
    if (tension.max(axis=0) > thresholds.highest_n).any():
        problems.append(f"a tendon had {peak_n:.1f} N, more than {spread(thresholds.highest_n)} N")
    rest = time_s > time_s[-1] - REST_S
    left = tension[rest].mean(axis=0)
    goes_on = math.isnan(stopped_s)
    error_m = np.abs(np.array(seen.error_m))[time_s < (math.inf if goes_on else stopped_s)]
    deviation_m = float(np.nanmax(error_m)) if np.isfinite(error_m).any() else math.nan
    safe_s = math.nan
    others = np.arange(left.size) != spared
    if goes_on:
        if deviation_m > DEVIATION_M + float(thresholds.lag_m.max()):
            problems.append(f"the robot went on, {1e3 * deviation_m:.1f} mm away from its reference")
    else:
        commanded = np.array(seen.commanded_m)
        # A release may begin where a servo is, further out: that pulls nothing, nor does what winds in slack.
        pulls = ((np.diff(commanded, axis=0) > PULL_IN_M) & (tension[1:] > SLACK_N)).any(axis=1)
        last_s = float(time_s[1:][pulls][-1]) if pulls.any() else -math.inf
        safe_s = max(0.0, max(last_s, stopped_s) - knowable_s)
        braking_s = limits.each("speed_m_per_s", left.size) / limits.each("acceleration_m_per_s2", left.size)
        allowed_s = TIME_TO_SAFE_S + float(braking_s.max())
        if safe_s > allowed_s:
            problems.append(f"a servo still pulled in {1e3 * safe_s:.0f} ms after the fault could be known")
        if holds:
            spools = np.array(seen.spool_m)[time_s >= knowable_s + allowed_s][:, others]
            if spools.size and float(way := (spools - spools[0]).max()) > HELD_M:
                problems.append(f"a spool that is to be held wound in {1e3 * way:.1f} mm")
        # Torque that goes off leaves what the motors' friction holds; gears hold the more.
        allowed_n = math.inf if holds else TORQUE_MARGIN_N + passive_tension_n(robot)
        if left[others].max() > allowed_n:
            problems.append(f"{left.max():.1f} N are left on the tendons, more than {allowed_n:.1f} N")
        if powered and not np.isfinite(commanded[-1]).all():
            problems.append("the torque is on without a command")
    return Judgement(safe_s, peak_n, float(left.max()), 0.0, deviation_m, tuple(problems))


def run_one(robot: Robot, plant: Plant, kind: ServoFault, moment: str, seed: int) -> FaultRecord:
    """Move, inject, watch, judge, recover."""
    robot = kind.robot(robot)
    tendon = int(np.random.default_rng(seed).integers(robot.tendon_count))
    stand = VirtualServos(robot, plant, seed, bus=bool(kind.fault))
    try:
        run = _Run(stand, kind, moment, tendon)
        begin_s = run.begin()
        judgement = run.judge(begin_s)
        recovery = run.recover()
    except ContinuumRobotError as error:
        return record_of(kind, moment, seed, None, problems=[str(error)])
    finally:
        stand.close()
    return record_of(
        kind, moment, seed, judgement,
        rate_hz=1 / stand.period_s, stopped=run.stopped, detected=run.detected,
        detected_after_s=run.first_s - begin_s, reported=run.reported, ended_safe=not run.problems,
        problems=run.problems, recovery=recovery,
    )  # fmt: skip


class _Run:
    """A run on a stand that is off."""

    def __init__(self, stand: VirtualServos, kind: ServoFault, moment: str, tendon: int) -> None:
        self.stand, self.robot, self.kind, self.moment, self.tendon = stand, stand.robot, kind, moment, tendon
        self.problems: list[str] = []
        self.detected: list[str] = []
        self.reported: list[str] = []
        self.refusal, self.stopped, self.first_s = "", False, math.nan

    def begin(self) -> float:
        """Move, and have the fault happen; from when on the run is judged, s."""
        stand, kind = self.stand, self.kind
        stand.activate()
        if self.moment == BEFORE:
            stand.end()
            stand.seen, begin_s = Seen(), stand.now_s
            kind.action(stand, self.tendon)
            stand.stall(RESTART_S)
            self.refusal = _refusal(stand)
            if self.refusal:
                return begin_s
        stand.run(0.5)
        end = np.zeros(self.robot.coordinate_count)
        limits, count = self.robot.displacement_limits, self.robot.tendon_count
        end[0] = DISPLACEMENT_FRACTION * limits.smallest("maximum_displacement_m", count)
        stand.begin(RestToRest(np.zeros_like(end), end, MOVE_S))
        if self.moment == BEFORE:
            stand.run(MOVE_S)
            return begin_s
        stand.run(INJECTION_TIMES[MOVING if self.moment == STOPPING else self.moment])
        self.problems += [f"{name} latched without a fault" for _, name in stand.faults]
        stand.seen, begin_s = Seen(), stand.now_s
        if self.moment == STOPPING:
            stand.loop.safety.ask_estop("service")
            stand.run(STOPS_FOR_S)
        kind.action(stand, self.tendon)
        return begin_s

    def judge(self, begin_s: float) -> Judgement:
        """Wait, and judge what happened since then."""
        stand, kind, safety = self.stand, self.kind, self.stand.loop.safety
        stop = self.robot.stop
        stand.run(self.robot.displacement_limits.longest_ramp_s + stop.hold_s * (stop.operator != RELEASE) + 2 * REST_S)
        self.stopped = bool(self.refusal) or safety.state != ACTIVE
        names = [name for _, name in stand.faults]
        self.first_s = stand.faults[0][0] if stand.faults else begin_s if self.refusal else math.nan
        stopped_s = self.first_s if self.stopped else math.nan
        after_s = 0.0 if self.moment == STOPPING else kind.after_s(self.robot)
        knowable_s = (stopped_s if self.stopped else begin_s) if math.isnan(after_s) else begin_s + after_s
        judgement = judge(
            self.robot, stand.seen, period_s=stand.period_s, knowable_s=knowable_s, stopped_s=stopped_s,
            powered=stand.loop.powered, spared=self.tendon if kind.spared else -1, holds=kind.holds,
        )  # fmt: skip
        self.problems += judgement.problems
        reaction = SAFE if self.stopped else TOLERATED
        if kind.reaction not in (EITHER, reaction) and self.moment not in (BEFORE, STOPPING):
            self.problems.append(f"it was {reaction}, not {kind.reaction}")
        if self.moment == BEFORE:
            self._judge_start()
        elif self.moment != STOPPING and self.stopped and kind.found and not set(names) & set(kind.found):
            self.problems.append(f"found as {', '.join(names)}")
        self.detected += [f"tendon_safety: {name}" for name in names]
        self.reported += [safety.explain(name) for name in names] + list(stand.device_faults)
        return judgement

    def _judge_start(self) -> None:
        if self.kind.lasts and not self.refusal:
            self.problems.append("the robot started with it")
        if self.refusal:
            self.detected.append("tendon_driver: refused")
            self.reported.append(self.refusal)
            named = " ".join((self.refusal, *self.stand.device_faults))
            if not self.kind.before or not re.search(self.kind.before, named):
                self.problems.append(f"refused for another reason: {self.refusal}")
            if self.stand.loop.powered:
                self.problems.append("it is on though its start was refused")

    def recover(self) -> str:
        """End the cause, and bring the robot up again in the same process; where it went on, it only has to go on."""
        stand, kind, safety, says_home = self.stand, self.kind, self.stand.loop.safety, self._says_home()
        try:
            if self.stopped and kind.lasts and not self.refusal:
                # A start before the cure: nothing may hide what is still there.
                again = _refusal(stand, clear=True)
                if not re.search(kind.before, " ".join((again, *stand.device_faults))):
                    return f"before the cure a reset was answered with {again or 'a start'}"
            self._cure()
            if not self.stopped:
                stand.command_again()
                stand.run(GOES_ON_S)
                return "" if safety.state == ACTIVE else ", ".join(safety.faults)
            stand.end(clear=True)
            stand.open()
            if stand.is_lost:
                if not says_home:
                    return "its zero is lost, and no cure says to home it"
                if self.moment != MOVING:  # a homing takes a minute
                    return ""
                stand.home()
            stand.activate()
            stand.run(GOES_ON_S)
        except ContinuumRobotError as error:
            return str(error)
        return "" if safety.state == ACTIVE else "stopped again: " + ", ".join(safety.faults)

    def _cure(self) -> None:
        stand = self.stand
        stand.inject("")
        if stand.bus is None:
            stand.inject(faults.HOT_MOTOR, -1, COOL_C)
        stand.plant.release()

    def _says_home(self) -> bool:
        hardware = self.robot.hardware
        assert hardware is not None
        _, texts = device_faults()[hardware.tendon_actuators.kind]
        words = {fault.rsplit(": ", 1)[-1].split()[0] for fault in self.stand.device_faults}
        return "home" in self.kind.cure or any(HOME in texts[word].cure for word in words if word in texts)


def _refusal(stand: VirtualServos, *, clear: bool = False) -> str:
    """Why a start is refused, "" where it is not."""
    try:
        if clear:
            stand.end(clear=True)
        stand.open()
        stand.require_zero()
        stand.activate()
    except DeviceError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class ServoRun:
    """A task: one run."""

    robot: Robot
    kind: str
    injection_time: str
    seed: int


@lru_cache(maxsize=1)
def _plant(robot: Robot) -> Plant:
    return Plant(robot)


def run_virtual(run: ServoRun) -> FaultRecord:
    """Do one run; the same for the same run, whatever was done before it."""
    return run_one(run.robot, _plant(run.robot), kinds_by_name(run.kind)[0], run.injection_time, run.seed)


def virtual_runs(
    robot: Robot, kinds: Sequence[ServoFault] = KINDS, count: int = len(INJECTION_TIMES), seed: int = 0
) -> list[ServoRun]:
    """All runs; faults that the robot's servos cannot have are left out."""
    known = {"", *_faults_of(robot)}
    return [
        ServoRun(robot, kind.name, moment, seed + 1000 * KINDS.index(kind) + place)
        for kind in kinds
        if kind.fault in known
        for place, moment in enumerate(kind.moments[:count])
    ]


def _faults_of(robot: Robot) -> set[str]:
    settings = None if robot.hardware is None else robot.hardware.tendon_actuators
    if settings is None or not hasattr(device := device_of(settings.kind), "emulator"):
        return set()
    return {UNPLUGGED, *device.emulator(robot, settings, {}).known_faults}
