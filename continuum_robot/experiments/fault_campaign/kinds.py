# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault of the campaign: what breaks, who must notice it, what must happen, what a user does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from continuum_robot.errors import ParameterError
from continuum_robot.experiments.fault_campaign.virtual_robot import Command, VirtualRobot
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.hardware import OdriCan

SAFE, TOLERATED, EITHER = "safe", "tolerated", "safe or tolerated"
AT_ONCE, READING, COMMAND, BOARD, MISMATCH, FOUND = (
    "at once",
    "reading timeout",
    "command timeout",
    "board timeout",
    "current mismatch time",
    "evidence",
)
VIRTUAL, PROCESSES = "virtual time", "processes"
RESET, HOME, POWER = "reset", "home", "power cycle"

DETECTABLE: dict[str, str] = {
    AT_ONCE: "when it begins",
    READING: "when the newest reading is older than `limits.reading_timeout_s`",
    COMMAND: "when the newest command is older than `limits.command_timeout_s`",
    BOARD: "when the board's own `receive_timeout_ms` has passed",
    MISMATCH: "when currents have disagreed for `current_mismatch_time_s`",
    FOUND: "when the robot's motion gives it away: the time counts from its detection, and the truth bounds the harm",
}
"""From when on a fault can be known at all; the time to the safe state counts from there."""

Action = Callable[[VirtualRobot, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """A kind of fault.

    Attributes
    ----------
    name : of the record
    group : heading in the documentation
    cause : what happens
    action : makes it happen to a robot, on a tendon (index from 0); None: in processes, by its name
    detectors : beginnings of ``who: name``, of which one must have found it; empty: nobody has to
    reaction : "safe", "tolerated", or either, where it depends on the moment
    detectable : from when on it can be known, a key of :data:`DETECTABLE`
    recovery : "reset" once the cause is gone; "home" too; "power cycle" of the boards and home
    seen : what a user sees
    cure : what a user does
    duration_s : the cause ends by itself after this time; 0: it stays until the recovery
    spared : the tendon itself may be slack, or keep the tension that a blocked motor holds
    refastened : in the repair the tendon is fastened anew where its spool then stands
    astray : commands are not the controller's: where the robot goes is not judged
    sensors : it needs string encoders and the force sensor
    runs : "virtual time" or "processes"
    rollover : the boards' position rolls over at the moment
    """

    name: str
    group: str
    cause: str
    detectors: tuple[str, ...]
    reaction: str
    seen: str
    cure: str
    action: Action | None = None
    detectable: str = AT_ONCE
    recovery: str = RESET
    duration_s: float = 0.0
    spared: bool = False
    refastened: bool = False
    astray: bool = False
    sensors: bool = False
    runs: str = VIRTUAL
    rollover: bool = False


def knowable_after_s(kind: FaultKind, limits: TensionLimits, boards: OdriCan) -> float:
    """How long after its beginning a fault can be known, s; NaN: from its detection.

    Parameters
    ----------
    kind : of fault
    limits, boards : with the times
    """
    return {
        AT_ONCE: 0.0,
        READING: limits.reading_timeout_s,
        COMMAND: limits.command_timeout_s,
        BOARD: boards.receive_timeout_ms / 1000,
        MISMATCH: boards.current_mismatch_time_s,
        FOUND: math.nan,
    }[kind.detectable]


def _device(fault: str, magnitude: float = 0.0, duration_s: float = 0.0, *, every: bool = False) -> Action:
    def act(robot: VirtualRobot, tendon: int) -> None:
        robot.hardware.inject(fault, -1 if every else tendon, magnitude, duration_s)

    return act


def _counter(fault: str, magnitude: float = 0.0, duration_s: float = 0.0) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.hardware.inject(fault, 0, magnitude, duration_s)

    return act


def _both(*actions: Action) -> Action:
    def act(robot: VirtualRobot, tendon: int) -> None:
        for action in actions:
            action(robot, tendon)

    return act


def _unplug(robot: VirtualRobot, tendon: int) -> None:
    channel = next(name for name, board in robot.hardware.boards.items() if board is robot.hardware.board_of(tendon)[0])
    robot.hardware.unplug(channel)


def _stall(duration_s: float) -> Action:
    def act(robot: VirtualRobot, _tendon: int) -> None:
        robot.stall(duration_s)

    return act


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


SILENT_BOARD_SEEN = (
    "`/diagnostics` of the driver names the channel; the fault `device_fault` or `reading_timeout` latches"
)

_CAN = "CAN frames and channels"
_BOARDS = "Motor boards"
_TENDONS = "Tendons and motors"
_COMMANDS = "Commands, e-stop and settings"
_HOST = "The host"
_PROCESSES = "Between processes"
_STRINGS = "String encoders"
_FORCE = "Force sensor"

KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="frame_lost",
        group=_CAN,
        cause="all frames of one tick of a board are lost",
        action=_device("board.lost_frames", 1.0, 0.001),
        detectors=(),
        reaction=TOLERATED,
        duration_s=0.001,
        seen="the reading is a millisecond older, `age_s` says so",
        cure="none",
    ),
    FaultKind(
        name="frames_lost",
        group=_CAN,
        cause="a fifth of a board's frames is lost",
        action=_device("board.lost_frames", 0.2),
        detectors=(),
        reaction=TOLERATED,
        seen="`incomplete_ticks` of the channel rises in `/diagnostics`",
        cure="check wiring and termination of the channel, and the load of the bus",
    ),
    FaultKind(
        name="frames_all_lost",
        group=_CAN,
        cause="nothing of a board arrives, though it hears the host",
        action=_device("board.lost_frames", 1.0),
        detectors=("odri_can: silent_board", "tendon_safety: reading_timeout"),
        reaction=SAFE,
        detectable=READING,
        seen=SILENT_BOARD_SEEN,
        cure="check the wire from the board, then reset",
    ),
    FaultKind(
        name="frames_late",
        group=_CAN,
        cause="frames of a board come 3 ms late",
        action=_device("board.late_frames", 0.003),
        detectors=(),
        reaction=EITHER,
        seen="the robot may tremble: the loop has less phase margin",
        cure="set the adapter's latency to 1 ms (udev rule in hardware/), relieve the computer",
    ),
    FaultKind(
        name="frames_very_late",
        group=_CAN,
        cause="frames of a board come 30 ms late",
        action=_device("board.late_frames", 0.030),
        detectors=("tendon_safety:", "odri_can:", "clarke_controller:"),
        reaction=EITHER,
        detectable=FOUND,
        seen="the robot trembles, then a fault of the tendons or currents latches",
        cure="set the adapter's latency to 1 ms (udev rule in hardware/), relieve the computer",
    ),
    FaultKind(
        name="frames_duplicated",
        group=_CAN,
        cause="half of a board's frames come twice",
        action=_device("board.duplicated_frames", 0.5),
        detectors=(),
        reaction=TOLERATED,
        seen="more frames a second than a board sends, in `/diagnostics`",
        cure="check adapter and its firmware",
    ),
    FaultKind(
        name="frames_corrupted",
        group=_CAN,
        cause="a bit is wrong in every twentieth frame of a board, past the CRC of the bus",
        action=_device("board.corrupted_frames", 0.05),
        detectors=(),
        reaction=EITHER,
        detectable=FOUND,
        seen="`bad_frames` and `refused_positions` rise; the robot may tremble, or a fault of the readings latches",
        cure="replace the adapter: on a sound bus the CRC refuses such frames",
    ),
    FaultKind(
        name="frames_reordered",
        group=_CAN,
        cause="every fifth frame of a board changes places with the next",
        action=_device("board.reordered_frames", 0.2),
        detectors=(),
        reaction=TOLERATED,
        seen="`incomplete_ticks` rises in `/diagnostics`",
        cure="none; a multi-queue adapter may be the cause",
    ),
    FaultKind(
        name="noise",
        group=_CAN,
        cause="every second millisecond something that is no frame is on the wire",
        action=_device("board.noise", 0.5),
        detectors=(),
        reaction=TOLERATED,
        seen="`refused_frames` and `error_frames` rise in `/diagnostics`",
        cure="check shield and termination",
    ),
    FaultKind(
        name="commands_lost",
        group=_CAN,
        cause="every third frame of the host is lost on its way to a board",
        action=_device("board.lost_commands", 0.33),
        detectors=(),
        reaction=TOLERATED,
        seen="nothing: the next current comes a millisecond later",
        cure="check wiring and termination of the channel",
    ),
    FaultKind(
        name="receive_timeout",
        group=_CAN,
        cause="no frame of the host reaches a board",
        action=_device("board.lost_commands", 1.0),
        detectors=("odri_can: current_mismatch", "odri_can: receive_timeout", "tendon_safety:"),
        reaction=SAFE,
        detectable=BOARD,
        seen="the board switches its motors off; its status, or the missing current, latches `device_fault`",
        cure="check the wire to the board, then reset",
    ),
    FaultKind(
        name="board_silent",
        group=_CAN,
        cause="a board sends nothing and hears nothing",
        action=_device("board.silent"),
        detectors=("odri_can: silent_board", "tendon_safety: reading_timeout"),
        reaction=SAFE,
        detectable=BOARD,
        seen=SILENT_BOARD_SEEN,
        cure="check the board's supply and the CAN wiring, then reset",
    ),
    FaultKind(
        name="wrong_board",
        group=_CAN,
        cause="another device is on the channel, with other identifiers",
        action=_device("board.wrong_board"),
        detectors=("odri_can: silent_board", "tendon_safety: reading_timeout"),
        reaction=SAFE,
        detectable=BOARD,
        seen="`unknown_identifiers` rises; " + SILENT_BOARD_SEEN,
        cure="`continuum-robot devices` lists what is on each channel",
    ),
    FaultKind(
        name="second_board",
        group=_CAN,
        cause="a second board sends on the same channel",
        action=_device("board.second_board"),
        detectors=("tendon_safety:", "odri_can:"),
        reaction=SAFE,
        detectable=FOUND,
        recovery=HOME,
        seen="a displacement or current that cannot be latches a fault; the channel then says `two_boards`",
        cure="one board a channel: they have no addresses",
    ),
    FaultKind(
        name="other_host",
        group=_CAN,
        cause="another program sends currents of zero to a board",
        action=_device("board.other_host"),
        detectors=("odri_can: other_host",),
        reaction=SAFE,
        seen="`device_fault`, and the channel says `other_host`",
        cure="stop the other program, then reset",
    ),
    FaultKind(
        name="bus_off",
        group=_CAN,
        cause="the host's CAN controller goes bus-off",
        action=_device("board.bus_off"),
        detectors=("odri_can: bus_off", "odri_can: silent_board"),
        reaction=SAFE,
        detectable=BOARD,
        seen="`device_fault`, and the channel says `bus_off`",
        cure="check wiring, termination and bit rate; `ip link set canN down`, then `up`; then reset",
    ),
    FaultKind(
        name="bus_off_everywhere",
        group=_CAN,
        cause="all channels go bus-off at once",
        action=_device("board.bus_off", every=True),
        detectors=("odri_can: bus_off", "odri_can: silent_board"),
        reaction=SAFE,
        detectable=BOARD,
        seen="`device_fault`, and every channel says `bus_off`",
        cure="as for one channel; look for what they share",
    ),
    FaultKind(
        name="adapter_unplugged",
        group=_CAN,
        cause="a CAN adapter is pulled out, and later plugged in again",
        action=_unplug,
        detectors=("odri_can: bus_error", "odri_can: silent_board", "tendon_safety: reading_timeout"),
        reaction=SAFE,
        detectable=BOARD,
        seen="`device_fault`, and the channel says `bus_error`",
        cure="plug it in, then reset: it is opened again by itself",
    ),
    FaultKind(
        name="board_rebooted",
        group=_BOARDS,
        cause="a board loses its supply for a moment",
        action=_device("board.reboot"),
        detectors=("odri_can:", "tendon_safety:"),
        reaction=SAFE,
        detectable=FOUND,
        recovery=HOME,
        seen="`silent_board`, `position_jump` or `rebooted` of the channel, `device_fault`",
        cure="slacken the tendons (the rotors align), home again, then reset",
    ),
    FaultKind(
        name="board_estop",
        group=_BOARDS,
        cause="the stop input of a board is closed",
        action=_device("board.estop"),
        detectors=("odri_can: estop", "odri_can: current_mismatch", "tendon_safety:"),
        reaction=SAFE,
        detectable=MISMATCH,
        seen="`device_fault`, and the channel says `current_mismatch` or `estop`",
        cure="open the input, then reset",
    ),
    FaultKind(
        name="all_boards_estop",
        group=_BOARDS,
        cause="the stop inputs of all boards are closed, by one button",
        action=_device("board.estop", every=True),
        detectors=("odri_can: estop", "odri_can: current_mismatch", "tendon_safety:"),
        reaction=SAFE,
        detectable=MISMATCH,
        seen="`device_fault`, and the channels say `current_mismatch` or `estop`",
        cure="open the inputs, then reset",
    ),
    FaultKind(
        name="encoder_error",
        group=_BOARDS,
        cause="a motor's encoder loses counts between two index marks",
        action=_device("board.encoder_error"),
        detectors=("odri_can: encoder_error", "odri_can: current_mismatch", "tendon_safety:"),
        reaction=SAFE,
        detectable=MISMATCH,
        recovery=POWER,
        seen="`device_fault`, and the channel says `current_mismatch`, within a second `encoder_error`",
        cure="switch the board's power off and on, home again, then reset",
    ),
    FaultKind(
        name="encoder_frozen",
        group=_BOARDS,
        cause="a board repeats its positions",
        action=_device("board.frozen_position"),
        detectors=("tendon_safety: frozen_reading", "tendon_safety: inconsistent_displacement"),
        reaction=EITHER,
        detectable=FOUND,
        seen="`frozen_reading`, as soon as the robot moves",
        cure="check the encoder's cable; home again if in doubt, then reset",
    ),
    FaultKind(
        name="encoder_jump",
        group=_BOARDS,
        cause="a position jumps by two revolutions of the motor",
        action=_device("board.position_jump", 2.0),
        detectors=("odri_can: position_jump", "tendon_safety: displacement_jump"),
        reaction=SAFE,
        recovery=HOME,
        seen="`device_fault`, and the channel says `position_jump`",
        cure="home again, then reset",
    ),
    FaultKind(
        name="encoder_small_jump",
        group=_BOARDS,
        cause="a position jumps by 0.4 revolutions of the motor",
        action=_device("board.position_jump", 0.4),
        detectors=("tendon_safety: displacement_jump", "tendon_safety: inconsistent_displacement"),
        reaction=SAFE,
        recovery=HOME,
        seen="`displacement_jump`",
        cure="home again, then reset",
    ),
    FaultKind(
        name="position_rollover",
        group=_BOARDS,
        cause="the position of the wire rolls over from 100 to -100 revolutions",
        action=lambda _robot, _tendon: None,
        detectors=(),
        reaction=TOLERATED,
        rollover=True,
        seen="nothing",
        cure="none",
    ),
    FaultKind(
        name="phase_open",
        group=_BOARDS,
        cause="a motor gets no current",
        action=_device("board.open_phase"),
        detectors=("odri_can: current_mismatch", "tendon_safety: current_mismatch"),
        reaction=SAFE,
        detectable=MISMATCH,
        spared=True,
        seen="`device_fault`, and the channel says `current_mismatch` of the motor",
        cure="check the motor's cable, then reset",
    ),
    FaultKind(
        name="current_mismatch",
        group=_BOARDS,
        cause="a motor gives a tenth of an ampere at most",
        action=_device("saturate_current", 0.1),
        detectors=("odri_can: current_mismatch", "tendon_safety:"),
        reaction=SAFE,
        detectable=MISMATCH,
        spared=True,
        seen="`device_fault`, and the channel says `current_mismatch` of the motor",
        cure="check the motors' supply, then reset",
    ),
    FaultKind(
        name="mailbox_latched",
        group=_BOARDS,
        cause="a board falls into its receive timeout with a current in its mailbox, and is enabled again",
        action=_device("board.lost_commands", 1.0, 0.3),
        detectors=("odri_can:", "tendon_safety:"),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.3,
        seen="`device_fault`; at the next activation the motor begins with zero, not with the old current",
        cure="reset",
    ),
    FaultKind(
        name="tendon_slack",
        group=_TENDONS,
        cause="a tendon is suddenly longer by 10 mm: it slipped off its spool or its clamp",
        action=_device("slack_tendon", 0.010),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`, when the motor has wound up 2 mm more than the shape allows",
        cure="look at the tendon, home again, then reset",
    ),
    FaultKind(
        name="tendon_snapped",
        group=_TENDONS,
        cause="a tendon breaks",
        action=_device("snapped_tendon"),
        detectors=("tendon_safety:",),
        reaction=SAFE,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`: the motor winds up what nothing holds",
        cure="replace the tendon, home, then reset",
    ),
    FaultKind(
        name="motor_stuck",
        group=_TENDONS,
        cause="a motor does not turn any more",
        action=_device("stuck_motor"),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        seen="`frozen_reading` or `inconsistent_displacement`, as soon as the robot should move",
        cure="free the gear, then reset",
    ),
    FaultKind(
        name="command_nan",
        group=_COMMANDS,
        cause="a command holds NaN",
        action=_commands(_one(math.nan)),
        detectors=("tendon_safety: command_not_finite",),
        reaction=SAFE,
        seen="`command_not_finite`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_infinite",
        group=_COMMANDS,
        cause="a command holds infinity",
        action=_commands(_one(math.inf)),
        detectors=("tendon_safety: command_not_finite",),
        reaction=SAFE,
        seen="`command_not_finite`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_negative",
        group=_COMMANDS,
        cause="a command wants -50 N of a tendon",
        action=_commands(_one(-50.0)),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_too_large",
        group=_COMMANDS,
        cause="a command wants 1000 N of a tendon",
        action=_commands(_one(1000.0)),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_all_too_large",
        group=_COMMANDS,
        cause="a command wants 1000 N of every tendon",
        action=_commands(lambda command, _tendon: command._replace(tension=np.full(command.tension.shape, 1000.0))),
        detectors=("tendon_safety: command_out_of_range",),
        reaction=SAFE,
        seen="`command_out_of_range`",
        cure="mend the controller, then reset",
    ),
    FaultKind(
        name="command_slack",
        group=_COMMANDS,
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
        group=_COMMANDS,
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
        group=_COMMANDS,
        cause="a command has one tension too few",
        action=_commands(lambda command, _tendon: command._replace(tension=command.tension[:-1])),
        detectors=("tendon_safety: command_wrong_size",),
        reaction=SAFE,
        seen="`command_wrong_size`",
        cure="start controller and driver with the same robot file, then reset",
    ),
    FaultKind(
        name="command_too_old",
        group=_COMMANDS,
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
        group=_COMMANDS,
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
        group=_COMMANDS,
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
        group=_COMMANDS,
        cause="the e-stop is asked for by its service",
        action=_estop(held=False),
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (service)`",
        cure="`reset_estop`, or reset of the stack",
    ),
    FaultKind(
        name="estop_topic",
        group=_COMMANDS,
        cause="the e-stop is asked for by its topic, and held",
        action=_estop(held=True),
        detectors=("tendon_safety: estop",),
        reaction=SAFE,
        seen="`estop (topic)`; a reset is refused while the topic says true",
        cure="release the button, then reset",
    ),
    FaultKind(
        name="gains_changed",
        group=_COMMANDS,
        cause="the controller's gains are changed while the robot moves: p by 1.5, d by 1.2",
        action=_new_gains,
        detectors=(),
        reaction=TOLERATED,
        seen="nothing: exchanged between two cycles, without a jump of the integral",
        cure="none",
    ),
    FaultKind(
        name="stall_50ms",
        group=_HOST,
        cause="the whole computer stands still for 50 ms",
        action=_stall(0.050),
        detectors=(),
        reaction=TOLERATED,
        duration_s=0.001,
        seen="an overrun of the loop in `/diagnostics`",
        cure="relieve the computer; docs/hardware.md has real-time settings",
    ),
    FaultKind(
        name="stall_500ms",
        group=_HOST,
        cause="the whole computer stands still for 500 ms",
        action=_stall(0.500),
        detectors=("odri_can: receive_timeout", "tendon_safety:"),
        reaction=SAFE,
        detectable=BOARD,
        duration_s=0.001,
        seen="the boards switch off meanwhile; `device_fault` with `receive_timeout`",
        cure="find what stops the computer, then reset",
    ),
    *(
        FaultKind(
            name=name,
            group=_PROCESSES,
            cause=cause,
            detectors=detectors,
            reaction=reaction,
            detectable=detectable,
            runs=PROCESSES,
            seen=seen,
            cure=cure,
        )
        for name, reaction, detectable, detectors, cause, seen, cure in (
            (
                "controller_killed",
                SAFE,
                COMMAND,
                ("tendon_driver: command_timeout",),
                "the controller's process is killed",
                "`command_timeout`, then `node_lost: clarke_controller`",
                "start the node again, then reset",
            ),
            (
                "estimator_killed",
                EITHER,
                FOUND,
                ("supervisor: node_lost",),
                "the shape estimator's process is killed",
                "`node_lost: shape_estimator`; the supervisor pauses the stack",
                "start the node again, then reset",
            ),
            (
                "driver_killed",
                SAFE,
                BOARD,
                ("supervisor: node_lost",),
                "the driver's process is killed by SIGKILL",
                "`node_lost: tendon_driver`; the boards switch off by themselves",
                "start the node again, then reset",
            ),
            (
                "driver_stopped_50ms",
                EITHER,
                READING,
                (),
                "the driver's process stands still for 50 ms",
                "an overrun of the loop in `/diagnostics`; `reading_timeout` where it took longer than that",
                "docs/hardware.md has real-time settings",
            ),
            (
                "driver_stopped_500ms",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "the driver's process stands still for 500 ms",
                "`device_fault` with `receive_timeout`: the boards have switched off",
                "find what stops it, then reset",
            ),
            (
                "controller_stopped_500ms",
                SAFE,
                COMMAND,
                ("tendon_driver: command_timeout",),
                "the controller's process stands still for 500 ms",
                "`command_timeout`",
                "find what stops it, then reset",
            ),
            (
                "all_nodes_stopped_500ms",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "all nodes stand still for 500 ms",
                "`device_fault` with `receive_timeout`, `command_timeout`",
                "find what stops them, then reset",
            ),
            (
                "limit_set",
                TOLERATED,
                AT_ONCE,
                ("tendon_driver: parameter refused",),
                "somebody sets `limits.maximum_n` while the robot moves",
                "the call is refused: read-only while active",
                "deactivate, set it, activate",
            ),
            (
                "two_writers",
                SAFE,
                FOUND,
                ("tendon_driver: two_writers",),
                "a second program writes `tendon_commands`",
                "`two_writers`, within the half second in which the graph is looked at",
                "stop one of them, then reset",
            ),
            (
                "command_storm",
                SAFE,
                FOUND,
                ("tendon_driver:",),
                "a program sends `tendon_commands` ten thousand times a second",
                "`two_writers`",
                "stop it, then reset",
            ),
            (
                "disk_full",
                TOLERATED,
                AT_ONCE,
                (),
                "the disk is full while a recording runs",
                "the recorder says so once, and the robot goes on",
                "make room, record anew",
            ),
            (
                "clock_stepped",
                TOLERATED,
                AT_ONCE,
                (),
                "the clock of the reference's computer jumps by an hour",
                "nothing: ages count on the monotonic clock, references of a foreign clock from their arrival",
                "none",
            ),
            (
                "port_unplugged",
                SAFE,
                BOARD,
                ("tendon_driver:",),
                "the serial port of a CAN adapter is pulled out",
                "`device_fault`, and the channel says `bus_error`",
                "plug it in, then reset: it is opened again by itself",
            ),
        )
    ),
    *(
        FaultKind(
            name=f"strings_{name}",
            group=_STRINGS,
            cause=cause,
            action=_counter(f"strings.{fault}", magnitude, duration_s),
            detectors=detectors,
            reaction=TOLERATED,
            sensors=True,
            duration_s=duration_s,
            seen=seen,
            cure=cure,
        )
        for name, fault, magnitude, duration_s, detectors, cause, seen, cure in (
            (
                "jump",
                "jump",
                2000.0,
                0.0,
                ("string_encoder_serial:",),
                "a counter jumps by half a turn",
                "the board's fault of the channel; the string is NaN until it is zeroed",
                "home again, which zeroes strings too",
            ),
            (
                "frozen",
                "freeze",
                0.0,
                0.0,
                (),
                "a counter stands still",
                "the estimator's residual rises as the robot moves, and warns at 1 mm",
                "check the magnet and the pulley, home again",
            ),
            (
                "magnet",
                "magnet_fault",
                0.0,
                0.0,
                ("string_encoder_serial:",),
                "a magnet is out of reach of its encoder",
                "the board's fault of the channel; the string is NaN",
                "put the magnet back, home again",
            ),
            (
                "silent",
                "silence",
                0.0,
                10.0,
                ("string_encoder_serial:",),
                "the board sends nothing",
                "strings are NaN, `board silent`",
                "check the board's supply and firmware",
            ),
            (
                "flipped",
                "flip",
                0.1,
                10.0,
                (),
                "a bit is wrong in every tenth frame",
                "`frames_rejected` rises in `/diagnostics`: the CRC refuses them",
                "check cable and shield",
            ),
            (
                "garbage",
                "garbage",
                0.3,
                10.0,
                (),
                "random bytes between the frames",
                "`frames_rejected` rises in `/diagnostics`",
                "check cable and shield",
            ),
            (
                "babble",
                "babble",
                0.0,
                10.0,
                ("string_encoder_serial:",),
                "nothing but random bytes, as with a wrong baud rate",
                "strings are NaN, `board silent`",
                "correct the baud rate, or the port",
            ),
            (
                "stalled",
                "stall",
                0.0,
                0.2,
                (),
                "frames are held back for 200 ms and come all at once",
                "strings are NaN meanwhile; the burst is stamped by the board's clock",
                "set the adapter's latency to 1 ms",
            ),
            (
                "rebooted",
                "reboot",
                0.0,
                0.0,
                ("string_encoder_serial:",),
                "the board starts again",
                "strings are NaN: their zero is gone",
                "home again",
            ),
            (
                "unplugged",
                "hang_up",
                0.0,
                0.0,
                ("string_encoder_serial:",),
                "the plug is pulled out, and later put in again",
                "strings are NaN, the port is named",
                "plug it in: it is opened again by itself",
            ),
        )
    ),
    *(
        FaultKind(
            name=f"force_{name}",
            group=_FORCE,
            cause=cause,
            action=_counter(f"force.{fault}", magnitude, duration_s),
            detectors=detectors,
            reaction=TOLERATED,
            sensors=True,
            duration_s=duration_s,
            seen=seen,
            cure=cure,
        )
        for name, fault, magnitude, duration_s, detectors, cause, seen, cure in (
            (
                "silent",
                "silence",
                0.0,
                10.0,
                ("rokubi_serial:",),
                "the sensor sends nothing",
                "the wrench is NaN, `sensor silent`",
                "check its supply",
            ),
            (
                "overrange",
                "overrange",
                0.0,
                0.0,
                ("rokubi_serial:",),
                "the load is beyond its range",
                "`overrange` in the fault of the reading",
                "unload it",
            ),
            (
                "invalid",
                "invalid",
                0.0,
                0.0,
                ("rokubi_serial:",),
                "a gauge is open",
                "the measurement is invalid, and said so",
                "have it repaired",
            ),
            (
                "corrupted",
                "flip",
                0.1,
                10.0,
                (),
                "a bit is wrong in every tenth frame",
                "frames that the CRC refuses, in `/diagnostics`",
                "check cable and shield",
            ),
            (
                "rebooted",
                "reboot",
                0.0,
                0.0,
                ("rokubi_serial:",),
                "the sensor starts again",
                "the wrench is NaN until it is set up anew, by itself",
                "tare again",
            ),
            (
                "unplugged",
                "hang_up",
                0.0,
                0.0,
                ("rokubi_serial:",),
                "the plug is pulled out, and later put in again",
                "the wrench is NaN, the port is named",
                "plug it in: it is opened again by itself",
            ),
        )
    ),
)
"""Every kind, in the order of the documentation."""


def kinds_by_name(names: str = "") -> tuple[FaultKind, ...]:
    """The kinds of that name, or of that group, separated by commas; all where empty.

    Parameters
    ----------
    names : of kinds or groups

    Raises
    ------
    ParameterError : an unknown name; lists the known ones
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {kind.name for kind in KINDS}
    for name in wanted:
        if name not in known:
            raise ParameterError("kinds", name, "some of " + ", ".join(sorted(known)))
    return tuple(kind for kind in KINDS if not wanted or kind.name in wanted)
