# SPDX-License-Identifier: Apache-2.0
"""Commands that no controller should send, the e-stop, and settings changed in the run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from continuum_robot.control.references import RestToRest
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.fault_campaign.kind import (
    AT_ONCE,
    COMMAND,
    EITHER,
    FOUND,
    SAFE,
    Action,
    FaultKind,
)
from continuum_robot.experiments.fault_campaign.virtual_robot import Command, VirtualRobot
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import BRAKE, HOLD_TENSION, StopPolicy

GROUP = "Commands, e-stop and settings"
ASIDE_M, HELD_S = 2e-3, 0.3
SLOW_N_PER_S = 10.0
"""Of limits.safe_rate_n_per_s: not in time for an e-stop."""
KEPT_COSINE = 0.99999
"""Of the angle between the force that is asked for and the one that the limits leave."""


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


def _deactivate(robot: VirtualRobot) -> None:
    robot.loop.call(robot.safety.deactivate)
    robot.cycle()


def _lose_commands(robot: VirtualRobot, further_s: float) -> None:
    robot.alter = lambda _command: None
    robot.run(robot.limits.command_timeout_s + further_s)


def _estop_after(before: Callable[[VirtualRobot], None]) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> float:
        before(robot)
        robot.forget_told()
        robot.safety.ask_estop("service")
        return robot.now_s

    return act


def _with_brakes(**stop: Any) -> Callable[[Robot], Robot]:
    def change(robot: Robot) -> Robot:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, "actuators")
        actuators = dataclasses.replace(robot.actuators, brake_holds_n=2 * robot.tension_limits.maximum_n)
        return robot.changed(actuators=actuators, stop=StopPolicy(operator=BRAKE, **stop))

    return change


def _slow_ramp(robot: Robot) -> Robot:
    return robot.changed(limits=dataclasses.replace(robot.tension_limits, safe_rate_n_per_s=SLOW_N_PER_S))


def _held_without_alarm(robot: Robot) -> Robot:
    return robot.changed(limits=dataclasses.replace(robot.tension_limits, frozen_force_n=100.0))


def _hold(robot: VirtualRobot, _tendon: int) -> None:
    """Its motors, while the reference goes aside and comes back: the force may not turn where the limits cut it."""
    here = robot.truth.clarke_m[-1]
    there = here + np.full(here.shape, ASIDE_M)
    robot.hardware.inject("stuck_motor", -1, 0.0, 2 * HELD_S)
    robot.follow(RestToRest(here, there, 0.5 * HELD_S))
    robot.run(HELD_S)
    asked_n = np.array(robot.control.generalized_force)
    realised_n = clarke_manifold(robot.robot).generalized_force(robot.safety.commanded)
    cosine = float(asked_n @ realised_n / np.linalg.norm(asked_n) / np.linalg.norm(realised_n))
    if robot.control.output().terms.saturated.all() and cosine > KEPT_COSINE:
        robot.tell("clarke_controller: saturated", "the controller is saturated")
    robot.follow(RestToRest(there, here, 0.5 * HELD_S))


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
        robot=_slow_ramp,
        action=_estop_after(_deactivate),
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (service)`; the ramp becomes as fast as after any e-stop",
        cure="`reset_estop`, or reset of the stack",
    ),
    *(
        FaultKind(
            name=f"estop_with_brake_{name}",
            group=GROUP,
            cause=f"the e-stop is asked for {when}, and the robot file states `stop.operator: brake`",
            robot=_with_brakes(**stop),
            action=_estop_after(before),
            detectors=("tendon_driver: torque off",),
            reaction=SAFE,
            seen="`estop (service)`; the torque goes off at once, which closes the brakes",
            cure="`reset_estop`, or reset of the stack",
        )
        for name, when, before, stop in (
            ("in_ramp", "in the slow ramp of a deactivation", _deactivate, {}),
            ("in_safe", "after a command timeout released the tendons", partial(_lose_commands, further_s=0.3), {}),
            (
                "after_hold",
                "after a command timeout and a hold, when the tensions ramp down slowly",
                partial(_lose_commands, further_s=0.12),
                {"commands": HOLD_TENSION, "hold_s": 0.1},
            ),
        )
    ),
    FaultKind(
        name="robot_held",
        group=GROUP,
        cause="something holds the robot, and the controller asks for more than the limits allow",
        robot=_held_without_alarm,
        action=_hold,
        detectors=("clarke_controller: saturated",),
        seen="`tendon_states.limited` and `saturated`; the force keeps its direction, and the integral stays bounded",
        cure="let go of it",
    ),
    FaultKind(
        name="gains_changed",
        group=GROUP,
        cause="the controller's gains are changed while the robot moves: p by 1.5, d by 1.2",
        action=_new_gains,
        seen="nothing: exchanged between two cycles, without a jump of the integral",
        cure="none",
    ),
)
