# SPDX-License-Identifier: Apache-2.0
"""Commands that no controller should send, the e-stop, and settings changed in the run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from continuum_robot.experiments.fault_campaign.kind import (
    AT_ONCE,
    COMMAND,
    EITHER,
    FOUND,
    SAFE,
    TOLERATED,
    Action,
    FaultKind,
)
from continuum_robot.experiments.fault_campaign.virtual_robot import Command, VirtualRobot

GROUP = "Commands, e-stop and settings"


def _commands(change: Callable[[Command, int], Command | None]) -> Action:
    def act(robot: VirtualRobot, tendon: int) -> None:
        robot.alter = lambda command: change(command, tendon)

    return act


def _one(value: float) -> Callable[[Command, int], Command]:
    def change(command: Command, tendon: int) -> Command:
        tension = command.tension.copy()
        tension[tendon] = value
        return command._replace(tension=tension)

    return change


def _high(robot: VirtualRobot, tendon: int) -> None:
    change = _one(1.5 * robot.limits.maximum_n)
    robot.alter = lambda command: change(command, tendon)


def _replayed(robot: VirtualRobot, _tendon: int) -> None:
    kept: list[Command] = []

    def alter(command: Command) -> Command:
        kept.append(command)
        return kept[0]

    robot.alter = alter


def _old(robot: VirtualRobot, _tendon: int) -> None:
    age_s = 2 * robot.limits.command_timeout_s
    robot.alter = lambda command: command._replace(born_s=command.born_s - age_s)


def _estop(*, held: bool) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.safety.ask_estop("topic" if held else "service", held=held)

    return act


def _estop_in_ramp(robot: VirtualRobot, _tendon: int) -> None:
    robot.loop.call(robot.safety.deactivate)
    robot.cycle()
    robot.safety.ask_estop("service")


def _new_gains(robot: VirtualRobot, _tendon: int) -> None:
    settings = robot.control.settings
    gains = tuple(dataclasses.replace(entry, p=1.5 * entry.p, d=1.2 * entry.d) for entry in settings.gains)
    robot.set_settings(dataclasses.replace(settings, gains=gains))


def _refused(
    name: str,
    cause: str,
    action: Action,
    fault: str,
    *,
    detectable: str = AT_ONCE,
    cure: str = "mend the controller, then reset",
) -> FaultKind:
    """A command that the safety logic answers with the fault of that name."""
    return FaultKind(
        name=name,
        group=GROUP,
        cause=cause,
        action=action,
        detectors=(f"tendon_safety: {fault}",),
        reaction=SAFE,
        detectable=detectable,
        seen=f"`{fault}`",
        cure=cure,
    )


KINDS: tuple[FaultKind, ...] = (
    _refused("command_nan", "a command holds NaN", _commands(_one(math.nan)), "command_not_finite"),
    _refused("command_infinite", "a command holds infinity", _commands(_one(math.inf)), "command_not_finite"),
    _refused("command_negative", "a command wants -50 N of a tendon", _commands(_one(-50.0)), "command_out_of_range"),
    _refused(
        "command_too_large", "a command wants 1000 N of a tendon", _commands(_one(1000.0)), "command_out_of_range"
    ),
    _refused(
        "command_all_too_large",
        "a command wants 1000 N of every tendon",
        _commands(lambda command, _tendon: command._replace(tension=np.full(command.tension.shape, 1000.0))),
        "command_out_of_range",
    ),
    FaultKind(
        name="command_slack",
        group=GROUP,
        cause="a command wants -5 N of a tendon",
        action=_commands(_one(-5.0)),
        detectors=("limits", "tendon_safety:"),
        reaction=EITHER,
        detectable=FOUND,
        astray=True,
        seen="the flag of the minimum in `tendon_states.limited`: the tendon keeps `limits.minimum_n`",
        cure="mend the controller",
    ),
    FaultKind(
        name="command_high",
        group=GROUP,
        cause="a command wants 1.5 times its maximum of a tendon",
        action=_high,
        detectors=("limits", "tendon_safety:"),
        reaction=EITHER,
        detectable=FOUND,
        astray=True,
        seen="the flags of maximum and rate in `tendon_states.limited`: the tension rises slowly to its maximum",
        cure="mend the controller",
    ),
    _refused(
        "command_wrong_size",
        "a command has one tension too few",
        _commands(lambda command, _tendon: command._replace(tension=command.tension[:-1])),
        "command_wrong_size",
        cure="start controller and driver with the same robot file, then reset",
    ),
    _refused(
        "command_too_old",
        "commands answer states of long ago",
        _old,
        "command_timeout",
        detectable=COMMAND,
        cure="relieve the computer or the network, then reset",
    ),
    _refused(
        "command_repeated",
        "the controller hangs, and the same command comes again and again",
        _replayed,
        "command_timeout",
        detectable=COMMAND,
        cure="start the controller again, then reset",
    ),
    _refused(
        "command_missing",
        "no command comes any more",
        _commands(lambda _command, _tendon: None),
        "command_timeout",
        detectable=COMMAND,
        cure="start the controller again, then reset",
    ),
    FaultKind(
        name="estop_service",
        group=GROUP,
        cause="the e-stop is asked for by its service",
        action=_estop(held=False),
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (service)`",
        cure="`reset_estop`, or reset of the stack",
    ),
    FaultKind(
        name="estop_topic",
        group=GROUP,
        cause="the e-stop is asked for by its topic, and held",
        action=_estop(held=True),
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (topic)`; a reset is refused while the topic reports true",
        cure="release the button, then reset",
    ),
    FaultKind(
        name="estop_in_ramp",
        group=GROUP,
        cause="the e-stop is asked for in the slow ramp of a deactivation",
        action=_estop_in_ramp,
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (service)`; the ramp becomes as fast as after any e-stop",
        cure="`reset_estop`, or reset of the stack",
    ),
    FaultKind(
        name="gains_changed",
        group=GROUP,
        cause="the controller's gains are changed while the robot moves: p by 1.5, d by 1.2",
        action=_new_gains,
        detectors=(),
        reaction=TOLERATED,
        seen="nothing: exchanged between two cycles, without a jump of the integral",
        cure="none",
    ),
)
