# SPDX-License-Identifier: Apache-2.0
"""What faults.yaml names as actions in virtual time: a function each, of the stand, the tendon and its arguments.

Where one gives a time, the run is judged from there on.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from continuum_robot.control.contact_reaction import ContactReaction, ContactSense
from continuum_robot.control.references import ClarkeReference, Reference, RestToRest
from continuum_robot.drivers.servo_emulation import REBOOT
from continuum_robot.errors import DeviceError, ParameterError, RobotFileError
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.control_settings import RETRACT, ReactionSettings
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import BRAKE, HOLD_PLACE, HOLD_TENSION, TORQUE_OFF, StopPolicy
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.cache import cached_library
from continuum_robot.runtime.cycle.driver_loop import HANG_S
from continuum_robot.simulation import faults
from faults.kinds import ALL, ONE, REST, Kind
from validation.tip_stamps import StampSettings, run

if TYPE_CHECKING:
    from faults.virtual import Command, VirtualStand

ASIDE_M, HELD_S = 2e-3, 0.3
KEPT_COSINE = 0.99999
"""Of the angle between the force that is asked for and the one that the limits leave."""
CREEP_M, STICK_S, STICKS_N = 2e-4, 0.4, 2.5
"""Dry friction of each motor, more than its cogging."""
SLOW_N_PER_S = 10.0
"""Of limits.safe_rate_n_per_s: not in time for an e-stop."""
SLOW_S, TOO_HOT_K, RETRACTS_S = 1.5, 5.0, 0.3
LEAST_N = 1.0
"""Of limits.slack_n, below which a snapped tendon is found."""

_ALIASES = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else '0'] * 9)}]\n" for i in range(9))
HOSTILE_FILES = (
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
DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "overwritten": lambda file: file.write_bytes(file.read_bytes()[:1000] + b"x" + file.read_bytes()[1001:]),
    "writable to others": lambda file: file.chmod(0o666),
    "a link": lambda file: file.symlink_to(file.rename(file.with_suffix(".other"))),
}
"""What happens to a file in the cache of compiled code."""


def happen(kind: Kind, stand: VirtualStand, tendon: int) -> float | None:
    """Let a fault happen; from when on the run is judged, None: from now on."""
    if kind.inject:
        stand.inject(**{"tendon": tendon, **kind.inject})
    elif kind.bus:
        on_bus(stand, tendon, **kind.bus)
    else:
        name, given = kind.call
        return globals()[name](stand, tendon, **given)
    return None


def on_bus(
    stand: Any, tendon: int, fault: str, magnitude: float = 0.0, who: str = ONE, *, swapped: bool = False
) -> None:
    """A fault of emulated servos: of one, it and those behind it, or all; ``swapped``: by another servo, which has
    just got its supply.
    """
    last = stand.robot.tendon_count if who == REST else tendon + 1
    for one in [-1] if who == ALL else range(tendon, last):
        stand.inject(f"servo.{fault}", one, magnitude)
        if swapped:
            stand.inject(f"servo.{REBOOT}", one)


def nothing(_stand: VirtualStand, _tendon: int) -> None:
    """Nothing happens: the robot itself is another one."""


# --- commands of another program


def one_command(stand: VirtualStand, tendon: int, value: float) -> None:
    def change(command: Command) -> Command:
        values = command.values.copy()
        values[tendon] = value
        return command._replace(values=values)

    stand.alter = change


def raised_command(stand: VirtualStand, tendon: int, by: float) -> None:
    start = stand.safety.commanded.copy()
    start[tendon] += by
    stand.alter = lambda command: command._replace(values=start)


def all_commands(stand: VirtualStand, _tendon: int, value: float) -> None:
    stand.alter = lambda command: command._replace(values=np.full(command.values.shape, value))


def high_command(stand: VirtualStand, tendon: int) -> None:
    one_command(stand, tendon, 1.5 * stand.limits.maximum_n)


def short_command(stand: VirtualStand, _tendon: int) -> None:
    stand.alter = lambda command: command._replace(values=command.values[:-1])


def old_commands(stand: VirtualStand, _tendon: int, age_s: float = 0.0) -> None:
    age_s = age_s or 2 * stand.limits.command_timeout_s
    stand.alter = lambda command: command._replace(born_s=command.born_s - age_s)


def repeated_command(stand: VirtualStand, _tendon: int) -> None:
    kept: list[Command] = []

    def alter(command: Command) -> Command:
        kept.append(command)
        return kept[0]

    stand.alter = alter


def no_command(stand: VirtualStand, _tendon: int) -> None:
    stand.alter = lambda _command: None


# --- e-stop and settings


def estop(stand: VirtualStand, _tendon: int, *, held: bool = False) -> float:
    stand.safety.ask_estop("topic" if held else "service", held=held)
    return stand.now_s


def estop_with(stand: VirtualStand, tendon: int, fault: str) -> float:
    stand.inject(fault, tendon)
    return estop(stand, tendon)


def estop_in_ramp(stand: VirtualStand, tendon: int) -> float:
    stand.loop.call(stand.safety.deactivate)
    stand.step()
    stand.forget_told()
    return estop(stand, tendon)


def estop_without_commands(stand: VirtualStand, tendon: int, further_s: float) -> float:
    stand.alter = lambda _command: None
    stand.run(stand.limits.command_timeout_s + further_s)
    stand.forget_told()
    return estop(stand, tendon)


def hold_motors(stand: VirtualStand, _tendon: int) -> None:
    """While the reference goes aside and comes back: the force may not turn where the limits cut it."""
    here = stand.rows["clarke_m"][-1]
    there = here + np.full(here.shape, ASIDE_M)
    stand.inject("stuck_motor", -1, 0.0, 2 * HELD_S)
    stand.begin(RestToRest(here, there, 0.5 * HELD_S))
    stand.run(HELD_S)
    asked_n = np.array(stand.control.generalized_force)
    realised_n = clarke_manifold(stand.robot).generalized_force(stand.safety.commanded)
    cosine = float(asked_n @ realised_n / np.linalg.norm(asked_n) / np.linalg.norm(realised_n))
    if stand.control.output().terms.saturated.all() and cosine > KEPT_COSINE:
        stand.tell("clarke_controller: saturated", "the controller is saturated")
    stand.begin(RestToRest(there, here, 0.5 * HELD_S))


def change_gains(stand: VirtualStand, _tendon: int) -> None:
    settings = stand.control.settings
    gains = tuple(dataclasses.replace(entry, p=1.5 * entry.p, d=1.2 * entry.d) for entry in settings.gains)
    stand.loop.call(lambda: stand.control.set_settings(dataclasses.replace(settings, gains=gains)))


# --- the robot


def creep(stand: VirtualStand, _tendon: int) -> None:
    """The simulated friction lets motors creep: they are held instead, until it would let go of them."""
    here = stand.rows["clarke_m"][-1]
    stand.inject("stuck_motor", -1, 0.0, STICK_S)
    stand.begin(RestToRest(here, here + np.full(here.shape, CREEP_M), STICK_S))


def push(stand: VirtualStand, _tendon: int, force_n: float) -> None:
    assert stand.plant is not None
    stand.plant.push(stand.robot.length_m, [force_n, 0.0, 0.0])


def overheat(stand: VirtualStand, tendon: int) -> None:
    actuators = _actuators(stand.robot)
    if actuators.heat is None:
        raise ParameterError("robot.actuators.heat", None, "a model of the motors' heat")
    stand.heat(actuators.temperature_error_c + TOO_HOT_K, tendon)


def unplug_adapter(stand: VirtualStand, tendon: int) -> None:
    stand.pluggable.unplug(tendon)


def delay_readings(stand: VirtualStand, tendon: int) -> None:
    stand.inject(faults.DELAY_READINGS, tendon, 2 * stand.limits.reading_timeout_s)


# --- the computer


def stall(stand: VirtualStand, _tendon: int, duration_s: float) -> None:
    stand.stall(duration_s)


def miss_every_second_cycle(stand: VirtualStand, _tendon: int) -> None:
    for _ in range(round(SLOW_S / (2 * stand.period_s))):
        stand.stall(stand.period_s)
        stand.step()


def hang(stand: VirtualStand, _tendon: int) -> None:
    stand.safety.hang_seen = True  # by the watch, whose thread is none of virtual time
    stand.stall(HANG_S)


def call_late(stand: VirtualStand, _tendon: int) -> None:
    """A deactivation asked of a loop that hangs, in a thread of its own: the one of virtual time cannot."""
    begun, goes_on = threading.Event(), threading.Event()

    def cycle(*_numbers: float) -> None:
        begun.set()
        goes_on.wait()

    failures: list[BaseException] = []
    loop = ControlThread("loop", 0.001, cycle, on_failure=failures.append)
    loop.start()
    begun.wait()
    try:
        loop.call(stand.safety.deactivate, 0.05)
    except DeviceError as error:
        stand.tell("loop: refused", str(error))
    goes_on.set()
    loop.call(lambda: None, 10.0)
    loop.stop()


def damage_cache(stand: VirtualStand, _tendon: int) -> None:
    code, made = bytes(4096), []

    def build(folder: Path) -> Path:
        made.append(Path(folder, "code"))
        made[-1].write_bytes(code)
        return made[-1]

    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, CONTINUUM_ROBOT_CACHE=name):
        file = Path(name, "code.so")
        whole = [cached_library(file.name, build, lambda path: Path(path).read_bytes().startswith(code))]
        for damage in DAMAGES.values():
            damage(file)
            whole.append(cached_library(file.name, build, lambda path: Path(path).read_bytes().startswith(code)))
    if all(whole) and len(made) == 1 + len(DAMAGES):
        stand.tell("cache: made again", f"what is {', '.join(DAMAGES)} is made again")


def load_hostile_files(stand: VirtualStand, _tendon: int) -> None:
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
        stand.tell("loader: refused", f"all {refused} robot files are refused")


# --- what the robot touches, and who sees its tip


def track(stand: VirtualStand, _tendon: int, stamps: str) -> None:
    """A tracker beside the robot: the simulated one has none."""
    settings = StampSettings(stamps=stamps, figure="circle", duration_s=8.0, learning_s=4.0)
    fused_m, model_m = run(settings).rms_m(settings.learning_s)
    if fused_m <= model_m:
        stand.tell("tracked_tip: not worse", f"the tip is {1e3 * fused_m:.1f} mm off, {1e3 * model_m:.1f} without")


class _Retracting(Reference):
    """Back the way that the robot came, from something that is felt all the time; ``forward_m``: towards it all the
    same.
    """

    def __init__(self, stand: VirtualStand) -> None:
        self._truth, self._now_s, self.forward_m = stand.rows, 0.0, -math.inf
        self._reaction = ContactReaction(stand.robot, ReactionSettings(strategy=RETRACT))
        self._touched_m = self._truth["clarke_m"][-1]
        sense = ContactSense(False, np.zeros_like(self._touched_m))
        for place, desired in zip(self._truth["clarke_m"], self._truth["reference_m"], strict=True):
            if np.isfinite(desired).all():
                self._answer = ClarkeReference.at_rest(desired)
                self._reaction.update(self._answer, sense, place, stand.period_s)
        self._sense = ContactSense(True, -self._touched_m / np.linalg.norm(self._touched_m))

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s, which does not go back."""
        if t_s > self._now_s:
            place = self._truth["clarke_m"][-1]
            if self._now_s == 0:
                self._touched_m = place
            self._answer = self._reaction.update(self._answer, self._sense, place, t_s - self._now_s).reference
            self._now_s = t_s
            ahead_m = float((self._touched_m - self._answer.position) @ self._sense.force)
            self.forward_m = max(self.forward_m, ahead_m)
        return self._answer


def retract(stand: VirtualStand, _tendon: int) -> None:
    reaction = _Retracting(stand)
    stand.begin(reaction)
    stand.run(RETRACTS_S)
    if reaction.forward_m <= 0:
        stand.tell("contact_reaction: retracts", "something touches: the robot goes back the way it came")


# --- robots whose files state something else


def _actuators(robot: Robot) -> Actuators:
    if robot.actuators is None:
        raise ParameterError("robot.actuators", None, "actuators")
    return robot.actuators


def _sticking(robot: Robot) -> Robot:
    friction_nm = STICKS_N / _actuators(robot).motor_rad_per_m
    return robot.changed(actuators=dataclasses.replace(_actuators(robot), coulomb_friction_nm=friction_nm))


def _braking(robot: Robot, **stop: Any) -> Robot:
    limits: Any = robot.limits
    actuators = dataclasses.replace(_actuators(robot), brake_holds_n=2 * limits.maximum_n)
    return robot.changed(actuators=actuators, stop=StopPolicy(operator=BRAKE, **stop))


def _limits(**values: float) -> Callable[[Robot], Robot]:
    def change(robot: Robot) -> Robot:
        limits: Any = robot.limits
        return robot.changed(limits=dataclasses.replace(limits, **values))

    return change


ROBOTS: dict[str, Callable[[Robot], Robot]] = {
    "sticking_motors": _sticking,
    "slow_ramp": _limits(safe_rate_n_per_s=SLOW_N_PER_S),
    "braking": _braking,
    "braking_after_hold": lambda robot: _braking(robot, commands=HOLD_TENSION, hold_s=0.1),
    "without_frozen_alarm": _limits(frozen_force_n=100.0),
    "with_slack_limit": _limits(slack_n=LEAST_N),
    "holding_place": lambda robot: robot.changed(stop=StopPolicy(operator=HOLD_PLACE, hold_s=0.5)),
    "torque_off": lambda robot: robot.changed(stop=StopPolicy(operator=TORQUE_OFF)),
}
"""What ``robot`` of a kind changes in the robot's file."""
