# SPDX-License-Identifier: Apache-2.0
"""The runs in virtual time: each kind at each of its moments. The same seed gives the same records."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.backends import emulator_of, hardware_of
from continuum_robot.drivers.named_faults import HOME, faults_of
from continuum_robot.drivers.safety.tendon_safety import ACTIVE
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import RELEASE
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import wired
from continuum_robot.simulation.wire.ports import UNPLUGGED
from faults import kinds as table
from faults.actions import ROBOTS, happen
from faults.judge import REST_S, Truth
from faults.kinds import BEFORE, INJECTION_TIMES, MOVE_S, MOVING, STOPPING, VIRTUAL, Kind, known_after_s, moments
from faults.runner import LIMITS, Effect, FaultRecord, failed, run_one
from faults.virtual import GOES_ON_S, RESTART_S, VirtualStand

TENSION_FRACTION, SERVO_FRACTION = 0.7, 0.3
"""Amplitude of the move, as a fraction of limits.maximum_displacement_m."""
WATCH_S, SENSORS_READY_S, STOPS_FOR_S = 0.9, 1.2, 0.05


def move_of(robot: Robot) -> RestToRest:
    """The motion in which faults happen."""
    limits: Any = robot.limits
    fraction = SERVO_FRACTION if robot.takes_displacements else TENSION_FRACTION
    end = np.zeros(robot.coordinate_count)
    end[0] = fraction * limits.smallest("maximum_displacement_m", robot.tendon_count)
    return RestToRest(np.zeros_like(end), end, MOVE_S)


class VirtualTrial:
    """A :class:`.runner.Stand` in virtual time."""

    exact = True

    def __init__(self, stand: VirtualStand, tendon: int) -> None:
        self.stand, self.robot, self.tendon = stand, stand.robot, tendon
        self.limits, self.rate_hz = stand.limits, 1 / stand.period_s
        self.reported = stand.reported
        self.refused = ""
        self.problems: list[str] = []

    @property
    def notices(self) -> dict[str, float]:
        """Who found something, and when."""
        return self.stand.found

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self.stand.now_s

    @property
    def powered(self) -> bool:
        """Whether the torque of servos is on."""
        return self.robot.takes_displacements and self.stand.loop.powered

    def move(self, kind: Kind, moment: str) -> None:
        """As :class:`.runner.Stand`."""
        stand = self.stand
        stand.activate()
        if moment == BEFORE:
            stand.end()
        else:
            stand.run(SENSORS_READY_S if kind.sensors else 0.5 * self.robot.takes_displacements)
            stand.begin(move_of(self.robot))
            stand.run(INJECTION_TIMES[MOVING if moment == STOPPING else moment])
            if stand.faults:
                raise ContinuumRobotError(f"{stand.faults[0][1]} latched without a fault")
        stand.forget_told()

    def act(self, kind: Kind, moment: str) -> Effect:
        """As :class:`.runner.Stand`."""
        stand, problems, found = self.stand, list[str](), dict[str, str]()
        begin_s = stand.now_s
        if moment == STOPPING:
            stand.safety.ask_estop("service")
            stand.run(STOPS_FOR_S)
        given = happen(kind, stand, self.tendon)
        if moment == BEFORE:
            stand.stall(RESTART_S)
            self.refused = stand.refusal()
            if self.refused:
                found["tendon_driver: refused"] = self.refused
                named = " ".join((self.refused, *stand.device_faults))
                if not kind.refused_as or not re.search(kind.refused_as, named):
                    problems.append(f"refused for another reason: {self.refused}")
                if stand.loop.powered:
                    problems.append("it is on though its start was refused")
            else:
                if kind.lasts:
                    problems.append("the robot started with it")
                stand.run(0.5)
                stand.begin(move_of(self.robot))
                stand.run(MOVE_S)
        return Effect(tendon=self.tendon, begin_s=given or begin_s, found=found, problems=tuple(problems))

    def known_after_s(self, kind: Kind) -> float:
        """As :class:`.runner.Stand`."""
        return known_after_s(kind, self.robot if self.stand.hardware is None else self.stand.hardware.robot)

    def watch(self, kind: Kind, _effect: Effect, begin_s: float, _after_s: float) -> None:
        """As :class:`.runner.Stand`."""
        stand, stop = self.stand, self.robot.stop
        if self.robot.takes_displacements:
            stand.run(self.limits.longest_ramp_s + stop.hold_s * (stop.operator != RELEASE) + 2 * REST_S)
        else:
            stand.run(max(0.0, begin_s + WATCH_S - stand.now_s))
        if stand.limited and LIMITS in kind.found_by:
            stand.tell(LIMITS, "tendon_states.limited shows which limits changed the command")
        for fault in stand.device_faults if self.robot.takes_displacements else ():
            stand.reported.append(fault)

    def truth(self, begin_s: float) -> Truth:
        """As :class:`.runner.Stand`."""
        return self.stand.since(begin_s)

    def truth_time(self, at_s: float) -> float:
        """As :class:`.runner.Stand`."""
        return at_s

    def stopped(self, _truth: Truth) -> bool:
        """As :class:`.runner.Stand`."""
        return bool(self.refused) or self.stand.safety.state != ACTIVE

    def recover(self, kind: Kind, _effect: Effect, *, stopped: bool) -> str:
        """As :class:`.runner.Stand`: in the same process; where the robot went on, it only has to go on."""
        if self.robot.takes_displacements:
            return self._recover_servos(kind, stopped=stopped)
        stand = self.stand
        if not stopped:
            stand.repair(kind, self.tendon)
            stand.run(GOES_ON_S)
            if stand.safety.state == ACTIVE:
                return ""
        return stand.recover(kind, self.tendon)

    def _recover_servos(self, kind: Kind, *, stopped: bool) -> str:
        stand, says_home = self.stand, self._says_home(kind)
        try:
            if stopped and kind.lasts and not self.refused:
                # A start before the cure: nothing may hide what is still there.
                again = stand.refusal(clear=True)
                if not re.search(kind.refused_as, " ".join((again, *stand.device_faults))):
                    return f"before the cure a reset was answered with {again or 'a start'}"
            stand.repair(kind, self.tendon)
            if not stopped:
                stand._way = None
                stand.alter = None
                stand.run(GOES_ON_S)
                return "" if stand.safety.state == ACTIVE else ", ".join(stand.safety.faults)
            stand.end(clear=True)
            stand.open()
            if stand.is_lost:
                if not says_home:
                    return "its zero is lost, and no cure says to home it"
                if kind.times[0] != MOVING or self.refused:  # a homing takes a minute
                    return ""
                stand.home()
            stand.activate()
            stand.run(GOES_ON_S)
        except ContinuumRobotError as error:
            return str(error)
        return "" if stand.safety.state == ACTIVE else "stopped again: " + ", ".join(stand.safety.faults)

    def _says_home(self, kind: Kind) -> bool:
        texts = faults_of(hardware_of(self.robot).tendon_actuators.kind)
        words = {fault.rsplit(": ", 1)[-1].split()[0] for fault in self.stand.device_faults}
        return "home" in kind.cure or any(HOME in texts[word].cure for word in words if word in texts)


def _start_before_rollover(robot: Robot, moment: str) -> float:
    """What the boards must count at the start, so that tendon 1 (pulled in) passes 100 revolutions at the moment."""
    if robot.actuators is None:
        raise ParameterError("robot.actuators", None, "actuators")
    meter_per_rev = 2 * math.pi * robot.actuators.spool_radius_m / robot.actuators.gear_ratio
    return 100.0 - float(move_of(robot).at(INJECTION_TIMES[moment]).position[0]) / meter_per_rev


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """A task: one run in virtual time."""

    robot: Robot
    kind: str
    moment: str
    seed: int
    campaign_seed: int


@lru_cache(maxsize=1)
def _plant(robot: Robot, seed: int) -> Plant:
    """Making one takes a second, a run a fraction of it."""
    if robot.takes_displacements:
        return Plant(robot)
    return Plant(wired(robot), rng=np.random.default_rng(seed))


def run_virtual(run: VirtualRun) -> FaultRecord:
    """Do one run; the same for the same run, whatever was done before it."""
    kind = table.by_name(table.kinds_of(run.robot), run.kind)[0]
    robot = ROBOTS[kind.robot](run.robot) if kind.robot else run.robot
    servos = robot.takes_displacements
    tendon = 0 if kind.rollover else int(np.random.default_rng(run.seed).integers(robot.tendon_count))
    start_rev = _start_before_rollover(robot, run.moment) if kind.rollover else 0.0
    plant = _plant(run.robot if servos else robot, run.campaign_seed)
    try:
        with VirtualStand(
            robot, plant, run.seed, wire=bool(kind.bus) or not servos, start_rev=start_rev, sensors=kind.sensors
        ) as stand:
            return run_one(VirtualTrial(stand, tendon), kind, run.moment, run.seed)
    except ContinuumRobotError as error:
        return failed(kind, run.moment, run.seed, str(error))


def virtual_runs(robot: Robot, chosen: Sequence[Kind], count: int = 3, seed: int = 0) -> list[VirtualRun]:
    """All runs in virtual time; faults that the robot's servos cannot have are left out."""
    every, known = table.kinds_of(robot), _faults_of_servos(robot)
    return [
        VirtualRun(robot, kind.name, moment, seed + 1000 * every.index(kind) + place, seed)
        for kind in chosen
        if kind.runs == VIRTUAL and (not kind.bus or kind.bus["fault"] in known)
        for place, moment in enumerate(moments(kind, count))
    ]


def _faults_of_servos(robot: Robot) -> set[str]:
    settings = None if robot.hardware is None else robot.hardware.tendon_actuators
    emulator = None if settings is None else emulator_of(settings.kind)
    return set() if emulator is None else {UNPLUGGED, *emulator(robot, settings, {}).known_faults}
