# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault of robots whose actuators take displacements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers import servo_emulation as emulated
from continuum_robot.experiments.fault_campaign.campaign import INJECTION_TIMES
from continuum_robot.experiments.fault_campaign.kind import EITHER, SAFE, TOLERATED, VIRTUAL, by_name
from continuum_robot.experiments.fault_campaign.servo_stand import VirtualServos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import BRAKE, HOLD_PLACE, TORQUE_OFF, StopPolicy
from continuum_robot.simulation import faults
from continuum_robot.simulation.wire.servo_line import UNPLUGGED

Vector = NDArray[np.float64]
STALL_S = 0.3
PUSH_N = 2.0
SLACK_N = 1.0
WEAK_A = 0.02
MOVING, BEFORE, STOPPING = "at speed", "before the start", "in the stop"
BUS_MOMENTS = (MOVING, BEFORE, STOPPING)
ONE, REST, ALL = "a servo", "it and those behind it", "all"

Action = Callable[[VirtualServos, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoFault:
    """A kind of fault of a servo robot."""

    name: str
    cause: str
    action: Action
    cure: str = "remove the cause, reset"
    found: tuple[str, ...] = ()
    reaction: str = SAFE
    after_s: Callable[[Robot], float] = lambda _robot: 0.0
    robot: Callable[[Robot], Robot] = lambda robot: robot
    spared: bool = False
    holds: bool = False
    moments: tuple[str, ...] = tuple(INJECTION_TIMES)
    fault: str = ""
    before: str = ""
    lasts: bool = False
    stack: bool = False
    runs: str = VIRTUAL


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


def _estop_with(fault: str) -> Action:
    def act(stand: VirtualServos, tendon: int) -> None:
        stand.inject(fault, tendon)
        _estop(stand, tendon)

    return act


def _stopping(**stop: Any) -> Callable[[Robot], Robot]:
    return lambda robot: robot.changed(stop=StopPolicy(**stop))


def _braking(robot: Robot) -> Robot:
    assert robot.actuators is not None
    actuators = replace(robot.actuators, brake_holds_n=2 * robot.displacement_limits.maximum_n)
    return robot.changed(actuators=actuators, stop=StopPolicy(operator=BRAKE))


def _pushed(stand: VirtualServos, _tendon: int) -> None:
    stand.plant.push(stand.robot.length_m, [PUSH_N, 0.0, 0.0])


def _readings(robot: Robot) -> float:
    return robot.displacement_limits.reading_timeout_s


def _timeout(robot: Robot) -> float:
    return robot.displacement_limits.command_timeout_s


def _evidence(_robot: Robot) -> float:
    return math.nan


_ON_BUS = ("device_fault", "reading_timeout", "displacement_jump", "displacement_lag")
SILENCE = "does not answer"
LOST = "lost its power"


def _on_bus(
    name: str,
    fault: str,
    cause: str,
    cure: str,
    *,
    magnitude: float = 0.0,
    who: str = ONE,
    swapped: bool = False,
    found: tuple[str, ...] = _ON_BUS,
    **options: Any,
) -> ServoFault:
    """A fault of emulated servos: of ``who``; ``swapped``: by another servo, which has just got its supply."""

    def act(stand: VirtualServos, tendon: int) -> None:
        last = stand.robot.tendon_count if who == REST else tendon + 1
        for one in [-1] if who == ALL else range(tendon, last):
            stand.inject(f"servo.{fault}", one, magnitude)
            if swapped:
                stand.inject(f"servo.{emulated.REBOOT}", one)

    values = {"reaction": SAFE if found else TOLERATED, "after_s": _evidence, "moments": BUS_MOMENTS} | options
    return ServoFault(name=f"bus_{name}", cause=cause, cure=cure, action=act, found=found, fault=fault, **values)


_WHILE_ON = {"moments": (MOVING, STOPPING)}
_SILENT = {"before": SILENCE, "lasts": True, "spared": True}
_BUS = (
    _on_bus("silent", emulated.SILENT, "the data wire of a servo is loose", "fasten it, reset", stack=True, **_SILENT),
    _on_bus("mute", emulated.MUTE, "a servo obeys, and its answers do not arrive", "replace it, reset", **_SILENT),
    _on_bus(
        "other_baud",
        emulated.OTHER_BAUD,
        "a servo is at another baud rate, as the one before left it",
        "set it to the baud rate of the robot file with the maker's program, reset",
        magnitude=57600.0,
        stack=True,
        **_SILENT,
    ),
    _on_bus(
        "chain_broken",
        emulated.NO_SUPPLY,
        "a plug of the chain is out: the servos behind it have no supply",
        "plug it in, home, reset",
        who=REST,
        before=SILENCE,
        lasts=True,
    ),
    _on_bus(
        "hears_nothing",
        emulated.SILENT,
        "half-dead bus: nothing that the host sends arrives",
        "mend the adapter, reset",
        who=ALL,
        before=SILENCE,
        lasts=True,
        holds=True,
    ),
    _on_bus(
        "says_nothing",
        emulated.MUTE,
        "half-dead bus: the servos obey, and nothing that they answer arrives",
        "mend the adapter, reset",
        who=ALL,
        before=SILENCE,
        lasts=True,
        stack=True,
    ),
    _on_bus(
        "unplugged",
        UNPLUGGED,
        "the adapter of the bus is pulled out",
        "plug it in, reset",
        before="unplugged",
        lasts=True,
        holds=True,
        stack=True,
    ),
    _on_bus(
        "corrupted_frames",
        emulated.CORRUPTED_FRAMES,
        "each twentieth answer of a servo has a flipped bit",
        "check cables and termination",
        magnitude=20.0,
        found=(),
        stack=True,
    ),
    _on_bus(
        "noise",
        emulated.NOISE,
        "bytes that are no packet come before each twentieth answer of a servo",
        "check cables and termination",
        magnitude=20.0,
        found=(),
    ),
    _on_bus(
        "garbage",
        emulated.GARBAGE,
        "random bytes come instead of a servo's answers",
        "replace the servo, reset",
        before=SILENCE,
        lasts=True,
    ),
    _on_bus(
        "reboot",
        emulated.REBOOT,
        "a servo loses its supply for a moment",
        "check the supply, home, reset",
        before=LOST,
    ),
    _on_bus(
        "overload",
        emulated.OVERLOAD,
        "a servo switches off by overload",
        "remove what loads it, reset, home",
        before="overload",
    ),
    _on_bus(
        "overheating",
        emulated.OVERHEATING,
        "a servo switches off by its heat",
        "let it cool, reset, home",
        found=(*_ON_BUS, "motor_hot"),
        before="overheating",
        lasts=True,
    ),
    _on_bus(
        "input_voltage",
        emulated.INPUT_VOLTAGE,
        "a servo switches off since its supply is out of range",
        "mend the supply, reset, home",
        before="input_voltage",
    ),
    _on_bus(
        "encoder",
        emulated.ENCODER,
        "a servo switches off since its encoder fails",
        "replace the servo, reset, home",
        before="(motor_encoder|angle_sensor)",
    ),
    _on_bus(
        "electrical_shock",
        emulated.ELECTRICAL_SHOCK,
        "a servo switches off by a short circuit of its motor",
        "replace the servo, reset, home",
        before="(electrical_shock|overcurrent)",
    ),
    _on_bus(
        "watchdog",
        emulated.WATCHDOG,
        "the own watchdog of one servo strikes",
        "check its cable, reset",
        stack=True,
        **_WHILE_ON,
    ),
    _on_bus(
        "position_jump",
        emulated.POSITION_JUMP,
        "a servo counts from one turn further",
        "home, reset",
        magnitude=1.0,
        **_WHILE_ON,
    ),
    _on_bus(
        "wrong_model",
        emulated.WRONG_MODEL,
        "another model has the number of a servo",
        "mend `model` in the robot file or the servo's number, home, reset",
        swapped=True,
        before="of model|an XL320|high byte first",
        lasts=True,
    ),
    _on_bus(
        "drive_reversed",
        emulated.DRIVE_REVERSED,
        "a servo whose Drive Mode an earlier use left reversed",
        "clear bit 0 of its Drive Mode, home, reset",
        swapped=True,
        before="turns the other way round",
        lasts=True,
    ),
    _on_bus(
        "narrow_limits",
        emulated.NARROW_LIMITS,
        "a servo in which an earlier use left narrow limits of its position, or of its torque",
        "set its limits with the maker's program, home, reset",
        swapped=True,
        before=LOST,
        reaction=EITHER,
        spared=True,
    ),
)


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
        robot=_stopping(operator=HOLD_PLACE, hold_s=0.5),
    ),
    ServoFault(
        name="estop_torque_off",
        cause="the e-stop is asked for, and the robot file states `stop.operator: torque_off`",
        action=_estop,
        found=("estop",),
        robot=_stopping(operator=TORQUE_OFF),
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
        robot=lambda robot: robot.changed(limits=replace(robot.displacement_limits, slack_n=SLACK_N)),
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
    ServoFault(
        name="estop_brakes",
        cause=f"the e-stop is asked for, and the robot file states brakes and `stop.operator: {BRAKE}`",
        action=_estop,
        found=("estop",),
        robot=_braking,
        holds=True,
        cure="reset",
    ),
    ServoFault(
        name="brake_stays_open",
        cause="as `estop_brakes`, and the brake of a servo does not close",
        action=_estop_with(faults.BRAKE_OPEN),
        found=("estop",),
        robot=_braking,
        holds=True,
        spared=True,
        cure="mend the brake, then reset",
    ),
    ServoFault(
        name="brake_stays_shut",
        cause="a brake closes while its servo is on, or does not open",
        action=_injected(faults.BRAKE_SHUT),
        found=("displacement_lag", "tension_out_of_range", "frozen_reading", "slack_tendon"),
        reaction=EITHER,
        after_s=_evidence,
        robot=_braking,
        spared=True,
        cure="mend the brake or its supply, then reset",
    ),
    *_BUS,
)
"""Every kind."""


def kinds_by_name(names: str = "") -> tuple[ServoFault, ...]:
    """As :func:`.kind.by_name`."""
    return by_name(KINDS, names)
