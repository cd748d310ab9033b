# SPDX-License-Identifier: Apache-2.0
"""The campaign for robots whose actuators take displacements: every kind at each moment of a motion, in virtual time.

The cycle, the safety logic and the controller are the shipped ones; the devices are simulated in the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.safety.tendon_safety import ACTIVE
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.experiments.fault_campaign.campaign import (
    GOES_ON_S,
    INJECTION_TIMES,
    MOVE_S,
    FaultRecord,
    injection_times,
    record_of,
)
from continuum_robot.experiments.fault_campaign.judgement import (
    DEVIATION_M,
    REST_S,
    TIME_TO_SAFE_S,
    TORQUE_MARGIN_N,
    Judgement,
    passive_tension_n,
)
from continuum_robot.experiments.fault_campaign.kind import EITHER, HOME, RESET, SAFE, TOLERATED, VIRTUAL
from continuum_robot.experiments.virtual_stack import VirtualStack
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.reading_thresholds import servo_thresholds, spread
from continuum_robot.robot.stop_policy import HOLD_PLACE, TORQUE_OFF, StopPolicy
from continuum_robot.simulation import faults
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware

Vector = NDArray[np.float64]
DISPLACEMENT_FRACTION = 0.3
"""Amplitude of the move, as a fraction of limits.maximum_displacement_m."""
STALL_S = 0.3
PUSH_N = 2.0
SLACK_N = 1.0
WEAK_A = 0.02
COOL_C = 30.0
RESTART_S = 1.0
PULL_IN_M = 1e-7
"""By how much a command may grow in a cycle by rounding."""

Change = Callable[[Vector], Vector | None]


@dataclass
class Seen:
    """A row a cycle.

    Attributes
    ----------
    time_s : s
    tension_n : true tensions, (N,)
    commanded_m : (N,), NaN where nothing was commanded
    error_m : of the true coordinates, (2m,)
    """

    time_s: list[float] = field(default_factory=list)
    tension_n: list[Vector] = field(default_factory=list)
    commanded_m: list[Vector] = field(default_factory=list)
    error_m: list[Vector] = field(default_factory=list)


class VirtualServos(VirtualStack):
    """A servo robot under control, and what really happens to it.

    Parameters
    ----------
    robot : that takes displacements
    plant : of it, reset
    seed : of noise
    bus : the shipped driver talks to emulated servos by their bytes

    Attributes
    ----------
    seen : since :meth:`look`
    bus : simulated hardware on it; None: the devices are simulated in the process
    """

    def __init__(self, robot: Robot, plant: Plant, seed: int, *, bus: bool = False) -> None:
        plant.reset()
        self.seen, self._plant = Seen(), plant
        self._manifold, self._sequence = clarke_manifold(robot), 0
        self.bus = SimulatedHardware(robot, plant, np.random.default_rng(seed)) if bus else None
        driver = None
        if self.bus is not None:
            self.bus.open()
            driver = self.bus.tendon_actuators(clock=lambda: self.now_s)
        super().__init__(robot, plant, seed=seed, actuators=driver)
        self._control = self.loop.cycle.controller

    def run(self, duration_s: float) -> None:
        """Cycles, s."""
        self._pace.run(duration_s)

    def inject(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Have devices or robot fail, as of :meth:`SimulatedTendonActuators.inject`, on the bus by its names."""
        (self.bus or self.actuators).inject(fault, tendon, magnitude, duration_s)

    def close(self) -> None:
        """End, and the bus."""
        super().close()
        if self.bus is not None:
            self.bus.close()

    def stall(self, duration_s: float) -> None:
        """The host stands still for a time (s), its servos do not."""
        self._pace.pass_time(duration_s)

    def begin(self, way: RestToRest) -> None:
        """Begin a motion.

        Parameters
        ----------
        way : of the coordinates
        """
        self._way, self._way_from_s = way.at, self.now_s

    def command_instead(self, change: Change, *, late_s: float = 0.0, repeated: bool = False) -> None:
        """Another program commands from now on, in every cycle.

        Parameters
        ----------
        change : of the newest command, m; its None: nothing is sent
        late_s : how old its commands are, s
        repeated : it answers the same state again and again
        """
        start = self.loop.safety.commanded

        def send(_stack: VirtualStack) -> None:
            self._sequence += not repeated or not self._sequence
            command = change(start.copy())
            if command is not None:
                self.loop.cycle.command(command.tolist(), self.now_s - late_s, self._sequence)

        self.loop.cycle.attach(None)
        self._look = send

    def command_again(self) -> None:
        """The shipped controller commands, and holds where it is; until it is activated again, if the robot stopped."""
        self._look = self._way = None
        self.loop.cycle.attach(self._control)
        self.loop.cycle.control_now(on=self.loop.safety.state == ACTIVE)

    def on_row(self, row: list[float]) -> None:
        """Note the truth, then as :class:`VirtualStack`.

        Parameters
        ----------
        row : of the cycle's log
        """
        plant, seen, desired = self._plant, self.seen, self.desired
        seen.time_s.append(self.now_s)
        seen.tension_n.append(plant.tension)
        seen.commanded_m.append(self.loop.safety.commanded)
        here = self._manifold.clarke(plant.rod_displacement)
        seen.error_m.append(np.full(here.shape, np.nan) if desired is None else here - desired.position)
        super().on_row(row)


Action = Callable[[VirtualServos, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoFault:
    """A kind of fault of a servo robot.

    Attributes
    ----------
    name : of the record
    cause : what happens
    action : makes it happen, on a tendon (index from 0)
    found : names of the driver's faults, of which one must latch; empty: none has to
    reaction : "safe", "tolerated", or either, where it depends on the moment
    after_s : from when on it can be known, by the robot, s
    stop : of the robot file
    slack_n : of the robot file
    spared : its tendon may keep a load
    runs : in virtual time
    recovery : reset, or the driver says that the zero is lost: home too
    bus : on emulated servos, by their bytes
    """

    name: str
    cause: str
    action: Action
    found: tuple[str, ...] = ()
    reaction: str = SAFE
    after_s: Callable[[Robot], float] = lambda _robot: 0.0
    stop: StopPolicy = field(default_factory=StopPolicy)
    slack_n: float = 0.0
    spared: bool = False
    runs: str = VIRTUAL
    recovery: str = RESET
    bus: bool = False


def _injected(name: str, magnitude: float = 0.0, duration_s: float = 0.0) -> Action:
    return lambda stand, tendon: stand.inject(name, tendon, magnitude, duration_s)


def _commands(change: Callable[[Vector, int], Vector | None], **how: Any) -> Action:
    return lambda stand, tendon: stand.command_instead(lambda command: change(command, tendon), **how)


def _one(value: float) -> Callable[[Vector, int], Vector]:
    def change(command: Vector, tendon: int) -> Vector:
        command[tendon] = value
        return command

    return change


def _jumping(command: Vector, tendon: int) -> Vector:
    command[tendon] += 4e-3
    return command


def _estop(stand: VirtualServos, _tendon: int) -> None:
    stand.loop.safety.ask_estop("service")


def _pushed(stand: VirtualServos, _tendon: int) -> None:
    stand.plant.push(stand.robot.length_m, [PUSH_N, 0.0, 0.0])


def _readings(robot: Robot) -> float:
    return robot.displacement_limits.reading_timeout_s


def _timeout(robot: Robot) -> float:
    return robot.displacement_limits.command_timeout_s


def _evidence(_robot: Robot) -> float:
    return math.nan


_ON_BUS = ("device_fault", "reading_timeout")
# These servos hold many turns, and forget them where they restart.
_LOST_ZERO = ("reboot", "overload", "overheating", "input_voltage", "encoder", "position_jump")

KINDS: tuple[ServoFault, ...] = (
    ServoFault(
        name="command_nan", cause="a command holds NaN", action=_commands(_one(math.nan)), found=("command_not_finite",)
    ),
    ServoFault(
        name="command_too_large",
        cause="a command wants 1 m of a tendon",
        action=_commands(_one(1.0)),
        found=("command_out_of_range",),
    ),
    ServoFault(
        name="command_wrong_size",
        cause="a command has one displacement too few, as one of tensions has none",
        action=_commands(lambda command, _tendon: command[:-1]),
        found=("command_wrong_size",),
    ),
    ServoFault(
        name="command_jumps",
        cause="a command wants 4 mm more of a tendon at once",
        action=_commands(_jumping),
        reaction=EITHER,
        after_s=_evidence,
    ),
    ServoFault(
        name="command_missing",
        cause="no command comes any more",
        action=_commands(lambda _command, _tendon: None),
        found=("command_timeout",),
        after_s=_timeout,
    ),
    ServoFault(
        name="command_repeated",
        cause="the controller hangs, and the same command comes again and again",
        action=_commands(lambda command, _tendon: command, repeated=True),
        found=("command_timeout",),
        after_s=_timeout,
    ),
    ServoFault(
        name="command_too_old",
        cause="commands answer states of long ago",
        action=_commands(lambda command, _tendon: command, late_s=1.0),
        found=("command_timeout",),
        after_s=_timeout,
    ),
    ServoFault(name="estop", cause="the e-stop is asked for", action=_estop, found=("estop",)),
    ServoFault(
        name="estop_hold_place",
        cause="the e-stop is asked for, and the robot file states `stop.operator: hold_place`",
        action=_estop,
        found=("estop",),
        stop=StopPolicy(operator=HOLD_PLACE, hold_s=0.5),
    ),
    ServoFault(
        name="estop_torque_off",
        cause="the e-stop is asked for, and the robot file states `stop.operator: torque_off`",
        action=_estop,
        found=("estop",),
        stop=StopPolicy(operator=TORQUE_OFF),
    ),
    ServoFault(
        name="host_stalls",
        cause="the computer stands still for 0.3 s",
        # The servos hold meanwhile.
        action=lambda stand, _tendon: stand.stall(STALL_S),
        found=("command_timeout", "reading_timeout"),
        reaction=EITHER,
        after_s=_evidence,
    ),
    ServoFault(
        name="reading_nan",
        cause="a servo reports NaN",
        action=_injected(faults.NAN_READING),
        found=("reading_not_finite",),
    ),
    ServoFault(
        name="readings_lost",
        cause="a servo answers no more",
        action=_injected(faults.DROP_READINGS),
        found=("reading_timeout",),
        after_s=_readings,
    ),
    ServoFault(
        name="readings_late",
        cause="readings come late by twice limits.reading_timeout_s",
        action=lambda stand, tendon: stand.inject(faults.DELAY_READINGS, tendon, 2 * _readings(stand.robot)),
        found=("reading_timeout",),
        after_s=_readings,
    ),
    ServoFault(
        name="encoder_jumps",
        cause="an encoder jumps by 20 mm",
        action=_injected(faults.ENCODER_JUMP, 0.02),
        found=("displacement_jump", "displacement_out_of_range", "displacement_lag"),
    ),
    ServoFault(
        name="servo_stuck",
        cause="a servo's gear is stuck",
        action=_injected(faults.STUCK_MOTOR),
        found=("displacement_lag", "tension_out_of_range", "frozen_reading", "slack_tendon"),
        reaction=EITHER,
        after_s=_evidence,
        spared=True,
    ),
    ServoFault(
        name="servo_weak",
        cause=f"a servo gives {1e3 * WEAK_A:g} mA at most",
        action=_injected(faults.SATURATE_CURRENT, WEAK_A),
        found=("displacement_lag", "slack_tendon"),
        reaction=EITHER,
        after_s=_evidence,
    ),
    ServoFault(
        name="tendon_snaps",
        cause=f"a tendon snaps, and the robot file states `limits.slack_n: {SLACK_N:g}`",
        action=_injected(faults.SNAPPED_TENDON),
        slack_n=SLACK_N,
        found=("slack_tendon",),
        reaction=EITHER,
        after_s=_evidence,
    ),
    ServoFault(
        name="robot_pushed",
        cause=f"the tip is pushed aside with {PUSH_N:g} N",
        action=_pushed,
        found=("tension_out_of_range", "displacement_lag", "slack_tendon"),
        reaction=EITHER,
        after_s=_evidence,
    ),
    ServoFault(
        name="servo_fault",
        cause="a servo reports a fault of its own and switches its torque off",
        action=_injected(faults.DEVICE_FAULT),
        found=("device_fault",),
    ),
    ServoFault(
        name="servo_hot",
        cause="a servo reports 95 degC",
        action=_injected(faults.HOT_MOTOR, 95.0),
        found=("motor_hot",),
    ),
    *(
        ServoFault(
            name=f"bus_{name}",
            cause=cause,
            action=_injected(f"servo.{name}", magnitude),
            found=found,
            reaction=SAFE if found else TOLERATED,
            after_s=_evidence,
            recovery=HOME if name in _LOST_ZERO else RESET,
            bus=True,
        )
        for name, magnitude, found, cause in (
            ("silent", 0, _ON_BUS, "a servo falls silent"),
            ("corrupted_frames", 20, (), "each twentieth answer of a servo has a flipped bit"),
            ("noise", 20, (), "bytes that are no packet come before each twentieth answer of a servo"),
            ("reboot", 0, _ON_BUS, "a servo loses its supply for a moment"),
            ("overload", 0, _ON_BUS, "a servo switches off by overload"),
            ("overheating", 0, (*_ON_BUS, "motor_hot"), "a servo switches off by its heat"),
            ("input_voltage", 0, _ON_BUS, "a servo switches off since its supply is too low"),
            ("encoder", 0, _ON_BUS, "a servo switches off since its encoder fails"),
            ("position_jump", 1.0, (*_ON_BUS, "displacement_jump"), "a servo counts from one turn further"),
        )
    ),
)
"""Every kind."""


def kinds_by_name(names: str = "") -> tuple[ServoFault, ...]:
    """The kinds of these names, separated by commas; all where empty. Raises :class:`ParameterError` for another."""
    desired = [name.strip() for name in names.split(",") if name.strip()]
    known = [kind.name for kind in KINDS]
    for name in desired:
        if name not in known:
            raise ParameterError("kinds", name, "some of " + ", ".join(known))
    return tuple(kind for kind in KINDS if not desired or kind.name in desired)


def judge(
    robot: Robot, seen: Seen, *, period_s: float, knowable_s: float, stopped_s: float, powered: bool, spared: int
) -> Judgement:
    """Judge a run by the robot's truth.

    Safe is a robot whose servos pull nothing in any more, within :data:`TIME_TO_SAFE_S` and the time in which the
    fastest command comes to rest, whose tendons carry no more than the servos may measure, and are slack in the end.

    Parameters
    ----------
    robot : as in the run
    seen : from the fault on
    period_s : of the cycle, s
    knowable_s : when the fault could be known, s
    stopped_s : when the safe state began, s; NaN where the robot goes on
    powered : the servos still hold in the end
    spared : index of a tendon that may keep its load; -1: none
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
    if goes_on:
        if deviation_m > DEVIATION_M + float(thresholds.lag_m.max()):
            problems.append(f"the robot went on, {1e3 * deviation_m:.1f} mm away from its reference")
    else:
        commanded = np.array(seen.commanded_m)
        # A release may begin where a servo is, further out: that pulls nothing.
        pulls = (np.diff(commanded, axis=0) > PULL_IN_M).any(axis=1)
        last_s = float(time_s[1:][pulls][-1]) if pulls.any() else -math.inf
        safe_s = max(0.0, max(last_s, stopped_s) - knowable_s)
        braking_s = limits.each("speed_m_per_s", left.size) / limits.each("acceleration_m_per_s2", left.size)
        allowed_s = TIME_TO_SAFE_S + float(braking_s.max())
        if safe_s > allowed_s:
            problems.append(f"a servo still pulled in {1e3 * safe_s:.0f} ms after the fault could be known")
        # Torque that goes off leaves what the motors' friction holds; gears hold the more.
        allowed_n = TORQUE_MARGIN_N + passive_tension_n(robot)
        others = np.arange(left.size) != spared
        if left[others].max() > allowed_n:
            problems.append(f"{left.max():.1f} N are left on the tendons, more than {allowed_n:.1f} N")
        if powered and not np.isfinite(commanded[-1]).all():
            problems.append("the torque is on without a command")
    return Judgement(safe_s, peak_n, float(left.max()), 0.0, deviation_m, tuple(problems))


def run_one(robot: Robot, plant: Plant, kind: ServoFault, injection_time: str, seed: int) -> FaultRecord:
    """Move, inject, watch, judge, recover.

    Parameters
    ----------
    robot : that takes displacements, with control
    plant : of it
    kind : what happens
    injection_time : a key of :data:`INJECTION_TIMES`
    seed : of noise, and of the tendon that is hit
    """
    robot = robot.changed(stop=kind.stop, limits=replace(robot.displacement_limits, slack_n=kind.slack_n))
    limits, tendon = robot.displacement_limits, int(np.random.default_rng(seed).integers(robot.tendon_count))
    stand = VirtualServos(robot, plant, seed, bus=kind.bus)
    try:
        stand.activate()
        stand.run(0.5)
        end = np.zeros(robot.coordinate_count)
        end[0] = DISPLACEMENT_FRACTION * limits.smallest("maximum_displacement_m", robot.tendon_count)
        stand.begin(RestToRest(np.zeros_like(end), end, MOVE_S))
        stand.run(INJECTION_TIMES[injection_time])
        early = [name for _, name in stand.faults]
        stand.seen = Seen()
        begin_s = stand.now_s
        kind.action(stand, tendon)
        stand.run(limits.longest_ramp_s + kind.stop.hold_s * (kind.stop != StopPolicy()) + 2 * REST_S)
        safety = stand.loop.safety
        stopped, names = safety.state != ACTIVE, [name for _, name in stand.faults]
        first_s = stand.faults[0][0] if stand.faults else math.nan
        stopped_s = first_s if stopped else math.nan
        after_s = kind.after_s(robot)
        knowable_s = (stopped_s if stopped else begin_s) if math.isnan(after_s) else begin_s + after_s
        spared = tendon if kind.spared else -1
        judgement = judge(
            robot, stand.seen, period_s=stand.period_s, knowable_s=knowable_s, stopped_s=stopped_s,
            powered=stand.loop.powered, spared=spared,
        )  # fmt: skip
        problems = [*judgement.problems, *(f"{name} latched without a fault" for name in early)]
        reaction = SAFE if stopped else TOLERATED
        if kind.reaction not in (EITHER, reaction):
            problems.append(f"it was {reaction}, not {kind.reaction}")
        if stopped and kind.found and not set(names) & set(kind.found):
            problems.append(f"found as {', '.join(names)}")
        explained = tuple(safety.explain(name) for name in names)
        recovery = _recover(stand, kind, stopped=stopped)
    except ContinuumRobotError as error:
        return record_of(kind, injection_time, seed, None, problems=[str(error)])
    finally:
        stand.close()
    return record_of(
        kind, injection_time, seed, judgement,
        rate_hz=1 / stand.period_s, stopped=stopped, detected=[f"tendon_safety: {name}" for name in names],
        detected_after_s=first_s - begin_s, reported=explained, ended_safe=not problems, problems=problems,
        recovery=recovery,
    )  # fmt: skip


def _recover(stand: VirtualServos, kind: ServoFault, *, stopped: bool) -> str:
    """End the cause, and bring the robot up again in the same process; where it went on, it only has to go on."""
    stand.inject("")
    if stand.bus is None:
        stand.inject(faults.HOT_MOTOR, -1, COOL_C)
    stand.plant.release()
    stand.command_again()
    if not stopped:
        stand.run(GOES_ON_S)
        return "" if stand.loop.safety.state == ACTIVE else ", ".join(stand.loop.safety.faults)
    try:
        stand.deactivate()
        stand.actuators.clear_faults()
        stand.run(max(GOES_ON_S, RESTART_S))  # servos restart for it
        if kind.recovery == HOME:
            return "" if np.any(stand.actuators.zero_lost) else "it is not noticed that the zero is lost"
        blocking = stand.loop.safety.reset()
        if blocking:
            return "reset refused: " + ", ".join(blocking)
        stand.activate()
        stand.run(GOES_ON_S)
    except ContinuumRobotError as error:
        return str(error)
    return "" if stand.loop.safety.state == ACTIVE else "stopped again: " + ", ".join(stand.loop.safety.faults)


@dataclass(frozen=True, slots=True)
class ServoRun:
    """A task: one run.

    Attributes
    ----------
    robot : that takes displacements
    kind : name of the fault's kind
    injection_time : a key of :data:`INJECTION_TIMES`
    seed : of the run
    """

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
    """All runs.

    Parameters
    ----------
    robot : that takes displacements
    kinds : of :data:`KINDS`
    count : of :data:`INJECTION_TIMES`, the first ones
    seed : of the campaign
    """
    return [
        ServoRun(robot, kind.name, injection_time, seed + 1000 * KINDS.index(kind) + place)
        for kind in kinds
        for place, injection_time in enumerate(injection_times(count))
    ]
