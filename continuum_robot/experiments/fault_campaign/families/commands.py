# SPDX-License-Identifier: Apache-2.0
"""Commands that no controller should send, the e-stop, and settings changed in the run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from continuum_robot.experiments.fault_campaign.kind import COMMAND, EITHER, FOUND, SAFE, TOLERATED, Action, FaultKind
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
        robot.safety.estop("topic" if held else "service", held=held)

    return act


def _new_gains(robot: VirtualRobot, _tendon: int) -> None:
    settings = robot.controller.settings
    gains = tuple(dataclasses.replace(entry, p=1.5 * entry.p, d=1.2 * entry.d) for entry in settings.gains)
    robot.controller = robot.controller.with_settings(dataclasses.replace(settings, gains=gains))


KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="command_nan",
        group=GROUP,
        cause="a command holds NaN",
        action=_commands(_one(math.nan)),
        detectors=("tendon_safety: command_not_finite",),
        reaction=SAFE,
        seen="`command_not_finite`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_infinite",
        group=GROUP,
        cause="a command holds infinity",
        action=_commands(_one(math.inf)),
        detectors=("tendon_safety: command_not_finite",),
        reaction=SAFE,
        seen="`command_not_finite`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_negative",
        group=GROUP,
        cause="a command wants -50 N of a tendon",
        action=_commands(_one(-50.0)),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_too_large",
        group=GROUP,
        cause="a command wants 1000 N of a tendon",
        action=_commands(_one(1000.0)),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_all_too_large",
        group=GROUP,
        cause="a command wants 1000 N of every tendon",
        action=_commands(lambda command, _tendon: command._replace(tension=np.full(command.tension.shape, 1000.0))),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
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
    FaultKind(
        name="command_wrong_size",
        group=GROUP,
        cause="a command has one tension too few",
        action=_commands(lambda command, _tendon: command._replace(tension=command.tension[:-1])),
        detectors=("tendon_safety: command_wrong_size",),
        reaction=SAFE,
        seen="`command_wrong_size`",
        cure="start controller and driver with the same robot file, then reset",
    ),
    FaultKind(
        name="command_too_old",
        group=GROUP,
        cause="commands answer states of long ago",
        action=_old,
        detectors=("tendon_safety: command_timeout",),
        reaction=SAFE,
        detectable=COMMAND,
        seen="`command_timeout`",
        cure="relieve the computer or the network, then reset",
    ),
    FaultKind(
        name="command_repeated",
        group=GROUP,
        cause="the controller hangs, and the same command comes again and again",
        action=_replayed,
        detectors=("tendon_safety: command_timeout",),
        reaction=SAFE,
        detectable=COMMAND,
        seen="`command_timeout`",
        cure="start the controller again, then reset",
    ),
    FaultKind(
        name="command_missing",
        group=GROUP,
        cause="no command comes any more",
        action=_commands(lambda _command, _tendon: None),
        detectors=("tendon_safety: command_timeout",),
        reaction=SAFE,
        detectable=COMMAND,
        seen="`command_timeout`",
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
        seen="`estop (topic)`; a reset is refused while the topic says true",
        cure="release the button, then reset",
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
