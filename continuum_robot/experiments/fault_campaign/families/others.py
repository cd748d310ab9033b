# SPDX-License-Identifier: Apache-2.0
"""What others do to a robot: web pages, programs, operators and files that are wrong; and what follows a fault."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.experiments.fault_campaign.kind import (
    AT_ONCE,
    BOARD,
    COMMAND,
    EITHER,
    FOUND,
    SAFE,
    STACK,
    FaultKind,
)
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.robot.loading import load_robot

GROUP = "Other programs, pages, files and operators"

TOO_HOT_K = 5.0
_ALIASES = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else '0'] * 9)}]\n" for i in range(9))
HOSTILE_FILES: Sequence[str] = (
    _ALIASES,
    "[" * 5000,
    "name: 1e400\nsegments: []\n",
    "name: a\nname: b\n",
    "limits: {maximum_n: .nan, minimum_n: .inf}\n",
    "? [a, b]\n: c\n",
    "\0\ufeff\x1b[2J",
    "name: !!python/object/apply:os.system ['false']\n",
)
"""Robot files that are none, each of which must be refused with a sentence."""


def _heat(robot: VirtualRobot, tendon: int) -> None:
    actuators = robot.robot.actuators
    if actuators is None or actuators.heat is None:
        raise ParameterError("robot.actuators.heat", None, "a model of the motors' heat")
    robot.heat(tendon, actuators.temperature_error_c + TOO_HOT_K)


def _load_hostile_files(robot: VirtualRobot, _tendon: int) -> None:
    refused = 0
    with tempfile.TemporaryDirectory(prefix="continuum_robot_faults_") as name:
        file = Path(name, "robot.yaml")
        for text in HOSTILE_FILES:
            file.write_text(text, encoding="utf-8")
            try:
                load_robot(str(file))
            except RobotFileError:
                refused += 1
    if refused == len(HOSTILE_FILES):
        robot.tell("loader: refused", f"all {refused} robot files are refused")


KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="motor_overheated",
        group=GROUP,
        cause="a motor of which the board measures no temperature reaches its error temperature in the model",
        action=_heat,
        detectors=("tendon_safety: motor_hot",),
        reaction=SAFE,
        seen="`motor_hot`; a reset is refused until the motor is below its warning temperature",
        cure="let it cool, find what loads it, then reset",
    ),
    FaultKind(
        name="hostile_robot_file",
        group=GROUP,
        cause="robot files of aliases in aliases, brackets in brackets, NaN, 1e400, keys that repeat and objects of"
        " Python are loaded by a program beside the loop",
        action=_load_hostile_files,
        detectors=("loader: refused",),
        seen="each is refused in one sentence that names the bound or the key",
        cure="none",
    ),
    FaultKind(
        name="unsequenced_writer",
        group=GROUP,
        cause="a second program writes `tendon_commands` without sequence numbers, beside a controller in a process of"
        " its own",
        detectors=("tendon_driver: two_writers",),
        reaction=SAFE,
        detectable=FOUND,
        runs=STACK,
        seen="`two_writers`, with the name of the writer that is refused; none of its commands is taken",
        cure="stop one of them, then reset",
    ),
    FaultKind(
        name="cross_origin",
        group=GROUP,
        cause="a web page of another origin, one under a foreign host name, one without token and one with an old token"
        " join the page in the browser",
        detectors=("view: refused",),
        runs=STACK,
        seen="each is refused with 403, the page's log reports why; who writes the references stays the same",
        cure="none; `--allow-origin` allows further addresses",
    ),
    FaultKind(
        name="stale_file",
        group=GROUP,
        cause="`limits.maximum_n` is lowered in the robot file while the robot moves, then the stack is shut down and"
        " started up",
        detectors=("supervisor: up",),
        reaction=EITHER,
        runs=STACK,
        seen="no motor pulls with more than the new limit, by which the same motion is judged; where the controller"
        " asks for far more, `command_out_of_range`",
        cure="none",
    ),
    FaultKind(
        name="reset_moves_nothing",
        group=GROUP,
        cause="the e-stop is pressed and the stack is reset, while a trajectory was played",
        detectors=("supervisor: holding",),
        runs=STACK,
        seen="after the reset `stack_status.holding` is true, and no tendon moves until a motion is started",
        cure="start a motion when the robot is free",
    ),
    FaultKind(
        name="estop_by_two",
        group=GROUP,
        cause="two publishers hold the topic `estop`, and one of them releases it",
        detectors=("tendon_driver: estop",),
        reaction=SAFE,
        detectable=AT_ONCE,
        runs=STACK,
        seen="`estop` stays latched, `reset_estop` is refused and names the holders",
        cure="release the other one, then reset",
    ),
    FaultKind(
        name="hostile_request",
        group=GROUP,
        cause="services are asked with NaN, indices and commands that do not exist, and limits above the file's",
        detectors=("services: refused",),
        runs=STACK,
        seen="each is refused with the field, its value and the range",
        cure="none",
    ),
    FaultKind(
        name="forged_owner",
        group=GROUP,
        cause="a program publishes on `reference_writer`, `reference_holding`, `driver_status` and `stack_status`, then"
        " references",
        runs=STACK,
        seen="each node refuses what its owner did not publish, and names the program in its log; no reference is"
        " followed",
        cure="stop the program",
    ),
    FaultKind(
        name="wrong_shapes",
        group=GROUP,
        cause="a program publishes on `shape` messages whose arrays have other sizes than the robot's",
        runs=STACK,
        seen="each node takes the shape estimator's alone, and names the program in its log",
        cure="stop the program",
    ),
    FaultKind(
        name="parameter_flood",
        group=GROUP,
        cause="a program sets a parameter of the controller as often as it gets an answer",
        runs=STACK,
        seen="what comes more often than 100 times a second is refused; no node is declared lost",
        cure="set parameters together, or less often",
    ),
    FaultKind(
        name="own_controller_refuses",
        group=GROUP,
        cause="a pretension is asked, by topic and as a parameter, of an own controller that raises an exception at it",
        detectors=("clarke_controller: refused",),
        runs=STACK,
        seen="that request is refused with the exception; the controller goes on",
        cure="give the controller the method, or ask for what it takes",
    ),
    FaultKind(
        name="own_observer_fails",
        group=GROUP,
        cause="a contact observer of another package raises an exception",
        detectors=("supervisor: node_failed",),
        reaction=EITHER,
        detectable=FOUND,
        runs=STACK,
        seen="`node_failed: contact_monitor`; contacts are invalid, all other nodes go on",
        cure="mend it, then reset",
    ),
    FaultKind(
        name="two_procedures",
        group=GROUP,
        cause="two procedures are started at once",
        detectors=("tendon_driver: under way",),
        reaction=SAFE,
        runs=STACK,
        seen="one is refused and names the other, which runs to its end",
        cure="start it again later",
    ),
    FaultKind(
        name="page_connections",
        group=GROUP,
        cause="a program without the token opens 300 connections to the page and sends nothing",
        runs=STACK,
        seen="the oldest are ended, a line in the page's log; browsers still get in",
        cure="find the program",
    ),
    FaultKind(
        name="page_message",
        group=GROUP,
        cause="a browser with the token sends a message of 45 MiB",
        runs=STACK,
        seen="its connection is ended with the first bytes; other browsers are not delayed",
        cure="none",
    ),
    FaultKind(
        name="supervisor_stalled",
        group=GROUP,
        cause="the supervisor stands still for 4 s",
        runs=STACK,
        seen="a warning that the supervisor stood still; no node is declared lost",
        cure="find what stopped it",
    ),
    FaultKind(
        name="driver_respawned",
        group=GROUP,
        cause="the driver, with the controller in another process, is killed by SIGKILL and started again by `up`",
        detectors=("supervisor: node_lost",),
        reaction=SAFE,
        detectable=BOARD,
        runs=STACK,
        seen="the boards switch off by themselves; `node_lost: tendon_driver`; it comes back configured, and off",
        cure="reset",
    ),
    FaultKind(
        name="controller_respawned",
        group=GROUP,
        cause="the controller, in a process of its own, is killed by SIGKILL and started again by `up`",
        detectors=("tendon_driver: command_timeout", "supervisor: node_lost"),
        reaction=SAFE,
        detectable=COMMAND,
        runs=STACK,
        seen="`command_timeout`, `node_lost: clarke_controller`; it comes back configured, and silent",
        cure="reset",
    ),
)
