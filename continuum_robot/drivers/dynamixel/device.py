# SPDX-License-Identifier: Apache-2.0
"""All tendon actuators of a robot behind one bus of Dynamixel servos with protocol 2: X, MX(2.0) and P.

The servo's own watchdog counts any packet, also those that only read: it guards against a dead host. A loop that stands
still is watched by the thread of the polled base. In velocity mode that thread closes the loop on the displacement.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from continuum_robot.drivers.dynamixel import models, protocol_2
from continuum_robot.drivers.dynamixel.models import CURRENT, CURRENT_BASED_POSITION, MODES, POSITION, VELOCITY, Model
from continuum_robot.drivers.dynamixel.protocol_1 import Protocol1Actuators
from continuum_robot.drivers.dynamixel.protocol_2 import Protocol2, place, sync_write
from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.polled import POSITION_JUMP, RECEIVE_TIMEOUT, Sample
from continuum_robot.drivers.servo_bus import BROADCAST, HARDWARE_ERROR, TORQUE_OFF, BusServos
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

REBOOT_S = 0.6
LONGEST_REBOOT_S = 2.0
LARGEST_SLIP_TURNS = 0.25
PROFILE_FACTOR = 4.0
"""The cycle bounds speed and acceleration of every command; the servo's own profile guards against a host that jumps.
At the same acceleration it would trail a moving goal by v^2/2a: it gets this many times as much."""
VELOCITY_GAIN_PER_S = 8.0
"""Speed for a distance from the goal, 1/s: an eighth of a second is long against a round on the bus and the servo's own
loop."""
LONGEST_STEP_S = 0.1
"""Between two commands that make a motion, s."""


@dataclass(slots=True)
class _Servo:
    id: int
    model: Model
    mode: str
    range_turns: tuple[float, float] = (-math.inf, math.inf)
    offset_turns: float = 0.0
    largest_speed_rev_per_s: float = math.inf
    current_counts: int = 0
    pwm_limit: int = 0
    restarts: int = 0
    restart_due_s: float = math.inf
    turns: float = field(default=math.nan)

    def at(self, register: int) -> int:
        """Address of a volatile register."""
        return register + self.model.ram

    @property
    def mark(self) -> int:
        """Where :data:`.KNOWN_MARK` is left: each loop would use the other's gain."""
        return self.at(protocol_2.POSITION_I_GAIN if self.mode == VELOCITY else protocol_2.VELOCITY_I_GAIN)


class DynamixelActuators(BusServos):
    """Tendon actuators on Dynamixel servos with protocol 2; arguments as of :class:`BusServos`.

    Tensions are held by current control; displacements by one of the position modes, or by velocity. There the servo's
    torque is limited to what ``limits.maximum_n`` takes: by the current where the mode has it, else by the pulse width.
    """

    watchdog = True

    def __init__(self, robot: Robot, settings: Dynamixel, **options: Any) -> None:
        super().__init__(robot, settings, Protocol2(), "Dynamixel servos", **options)
        self._table: list[_Servo] = []
        self._fast = False
        self._reboot_ends_s = -math.inf
        self._before: tuple[float, Sequence[float]] = (-math.inf, [0.0] * self.tendon_count)
        self._goal_rates: Sequence[float] = [0.0] * self.tendon_count

    # --- finding and setting up

    def identify(self, number: int) -> str:
        """Model and firmware."""
        found = self.bus.ask(number, protocol_2.PING, b"", 3, [number])
        return models.identity(found[number].data) if number in found else ""

    def set_up(self) -> bool:
        """Refuse servos that do not fit; set delays, drive and operating mode where they differ."""
        self._table = [self._servo(index) for index in range(self.tendon_count)]
        self.measures_current = np.array([servo.model.current_unit_a > 0 for servo in self._table])
        self._reboot_ends_s = -math.inf
        self._write_all(
            {one.id: (one.at(protocol_2.STATUS_RETURN), bytes([protocol_2.ANSWERS_ALL])) for one in self._table}
        )
        self.switch_off()
        aligned = True
        for servo in self._table:
            if servo.mode != POSITION:  # where a servo stands within its turn it knows always
                aligned &= self.get(servo, servo.mark, 2) == protocol_2.KNOWN_MARK
            self._keep(servo, protocol_2.RETURN_DELAY, 0, "return delay")
            drive = self.get(servo, protocol_2.DRIVE_MODE, 1)
            if drive & protocol_2.REVERSED:
                # Which way was meant nobody can tell, and the wrong one winds a tendon in.
                raise DeviceError(
                    self.device_of(self.servos.index(servo.id)),
                    f"turns the other way round: bit 0 of its Drive Mode ({drive}) is set",
                    "Clear the bit with the maker's wizard, then check polarity of this motor with check-tendons.",
                )
            self._keep(
                servo, protocol_2.DRIVE_MODE, drive & ~(protocol_2.TIME_PROFILE | protocol_2.ON_BY_GOAL), "drive"
            )
            self._keep(servo, protocol_2.OPERATING_MODE, MODES[servo.mode], "operating mode")
            self._limit(servo)
        self._fast = len(self._table) > 1 and bool(self._fast_read(protocol_2.MODEL_NUMBER, 2, self.servos))
        return aligned

    def _servo(self, index: int) -> _Servo:
        number, device, settings = self.servos[index], self.device_of(index), self.settings
        answer = self.bus.ask_one(number, protocol_2.PING, b"", 3)
        model_number = int.from_bytes(answer.data[:2], "little")
        model = models.known_model(model_number, models.PROTOCOL_2, settings.model, device)
        mode = models.mode_for(settings.mode, model, self.takes_displacements)
        if mode not in model.modes or (mode != CURRENT) != self.takes_displacements:
            able = ", ".join(one for one in model.modes if (one != CURRENT) == self.takes_displacements)
            takes = "displacements" if self.takes_displacements else "tensions"
            raise DeviceError(
                device,
                f"is an {model.name}, which for {takes} can do {able or 'nothing'}, not {mode}",
                "Mend hardware.tendon_actuators.mode, or actuators.command.",
            )
        return _Servo(number, model, mode)

    def _keep(self, servo: _Servo, address: int, value: int, name: str) -> None:
        """Set a lasting register of one byte where it differs: its memory wears out."""
        before = self.get(servo, address, 1)
        if before != value:
            self.put(servo, address, 1, value)
            self.written.append(f"servo {servo.id}: {name} {before} -> {value}")

    def _limit(self, servo: _Servo) -> None:
        """Find the ranges of current, torque and position."""
        index = self.servos.index(servo.id)
        largest_a = float(self.motors.largest_a[index])
        if servo.model.current_unit_a:
            unit_a = servo.model.current_unit_a
            allowed = self.get(servo, protocol_2.CURRENT_LIMIT, 2)
            # In whole counts, as goals are sent: a servo cannot be set to a part of one.
            servo.current_counts = int(largest_a / unit_a)
            if allowed < servo.current_counts:
                raise DeviceError(
                    self.device_of(index),
                    f"allows {allowed * unit_a:.3g} A ({allowed} counts), less than maximum_current_a = "
                    f"{largest_a:g} A ({servo.current_counts} counts)",
                    "Lower hardware.tendon_actuators.maximum_current_a, or raise the servo's Current Limit.",
                )
        if servo.mode == CURRENT:
            return
        if servo.model.current_unit_a:
            needed_a = self.motors.torque_fraction[index] * self.motors.strongest_a[index]
            servo.current_counts = min(servo.current_counts, math.ceil(needed_a / servo.model.current_unit_a))
        servo.pwm_limit = self.get(servo, protocol_2.PWM_LIMIT, 2)
        servo.range_turns = (-protocol_2.EXTENDED_TURNS, protocol_2.EXTENDED_TURNS)
        if servo.mode == VELOCITY:
            own = self.get(servo, protocol_2.VELOCITY_LIMIT, 4) * servo.model.velocity_unit_rev_per_s
            servo.largest_speed_rev_per_s = float(np.fmin(self.motors.speed_rev_per_s[index], own))
        if servo.mode == POSITION:
            bounds = (protocol_2.MINIMUM_POSITION, protocol_2.MAXIMUM_POSITION)
            low, high = (_signed(self.get(servo, address, 4)) / servo.model.counts_per_turn for address in bounds)
            # Within a turn its middle counts as 0: there a spool is put on.
            servo.range_turns, servo.offset_turns = (low, high), -(low + high) / 2

    # --- switching

    def switch_on(self, index: int) -> None:
        """Torque on: with no current, or with the present place as the goal."""
        servo, device = self._table[index], self.device_of(index)
        error = self.get(servo, servo.at(protocol_2.HARDWARE_ERROR), 1)
        if error:
            raise DeviceError(
                device,
                f"reports {', '.join(protocol_2.error_names(error))}",
                "Remove the cause, then clear the faults, which lets the servo restart.",
            )
        # A watchdog that struck refuses goals until it is set to 0.
        self.put(servo, servo.at(protocol_2.BUS_WATCHDOG), 1, 0)
        if servo.mode == CURRENT:
            self.put(servo, servo.at(protocol_2.GOAL_CURRENT), 2, 0)
        else:
            self._prepare_position(index, servo)
        self.put(servo, servo.mark, 2, protocol_2.KNOWN_MARK)
        self.put(servo, servo.at(protocol_2.TORQUE_ENABLE), 1, 1)
        watchdog = self._arm(servo)
        if self.get(servo, servo.at(protocol_2.BUS_WATCHDOG), 1) != watchdog:
            remedy = "Try again; firmware before version 38 has none: update it with the maker's wizard."
            raise DeviceError(device, "did not take its watchdog", remedy)

    def _prepare_position(self, index: int, servo: _Servo) -> None:
        model = servo.model
        speed = self.motors.speed_rev_per_s[index] / model.velocity_unit_rev_per_s
        rate = PROFILE_FACTOR * self.motors.acceleration_rev_per_s2[index] / model.acceleration_unit_rev_per_s2
        if math.isfinite(speed):
            self.put(servo, servo.at(protocol_2.PROFILE_ACCELERATION), 4, min(32767, math.ceil(rate)))
            self.put(servo, servo.at(protocol_2.PROFILE_VELOCITY), 4, min(32767, math.ceil(speed)))
        if servo.mode == CURRENT_BASED_POSITION:
            self.put(servo, servo.at(protocol_2.GOAL_CURRENT), 2, servo.current_counts)
        else:
            self.put(
                servo, servo.at(protocol_2.GOAL_PWM), 2, math.ceil(self.motors.torque_fraction[index] * servo.pwm_limit)
            )
        if servo.mode == VELOCITY:
            self.put(servo, servo.at(protocol_2.GOAL_VELOCITY), 4, 0)
            return
        present = self.get(servo, servo.at(protocol_2.PRESENT_POSITION), 4)
        self.put(servo, servo.at(protocol_2.GOAL_POSITION), 4, present)

    def switch_off(self) -> None:
        """Torque to zero on all, and goals that are no places, in packets without answers: twice, one may be lost."""
        for _ in range(2):
            self._write_all(self._still())
            self._write_all({servo.id: (servo.at(protocol_2.TORQUE_ENABLE), bytes(1)) for servo in self._table})

    def stand_still(self) -> None:
        if self.takes_displacements:
            self._write_all(self._still())
        super().stand_still()

    def _still(self) -> dict[int, tuple[int, bytes]]:
        """No current, no speed, for each servo in such a mode."""
        goals = {CURRENT: (protocol_2.GOAL_CURRENT, bytes(2)), VELOCITY: (protocol_2.GOAL_VELOCITY, bytes(4))}
        there = [(servo, *goals[servo.mode]) for servo in self._table if servo.mode in goals]
        return {servo.id: (servo.at(register), data) for servo, register, data in there}

    def restart(self) -> None:
        """Reboot the servos with a hardware error: all are off then, and those silent for 0.6 s."""
        broken = self.have(HARDWARE_ERROR)
        if not broken:
            return
        self.enabled = False
        self.switch_off()
        for index in broken:
            self._reboot(index)
            self._table[index].restarts = 0
        self.lose_zero(index for index in broken if self._table[index].mode != POSITION)
        self._reboot_ends_s = self.clock() + REBOOT_S

    def _reboot(self, index: int) -> None:
        servo = self.servos[index]
        self.bus.ask(servo, protocol_2.REBOOT, b"", 0, [servo])
        self.forget_values(index)

    def restarts(self, index: int) -> bool:
        """Whether a servo restarts after an overload."""
        return self._table[index].restart_due_s < math.inf

    def excused(self, index: int, now_s: float) -> bool:
        """Whether a servo restarts, or did when faults were cleared."""
        return now_s <= self._reboot_ends_s or self.restarts(index)

    # --- a round

    def send_goals(self, goals: Sequence[float]) -> None:
        """Currents, or places, to all in a packet."""
        data = {}
        rates = self._rates(goals)
        for index, (servo, goal) in enumerate(zip(self._table, goals, strict=True)):
            if servo.mode == CURRENT:
                # Towards zero: the servo refuses a goal above its limit.
                counts = int(goal / servo.model.current_unit_a)
                data[servo.id] = servo.at(protocol_2.GOAL_CURRENT), counts.to_bytes(2, "little", signed=True)
            elif servo.mode == VELOCITY:
                turns = self.within(index, goal - servo.offset_turns, *servo.range_turns) + servo.offset_turns
                counts = self._speed(index, servo, turns, rates[index])
                data[servo.id] = servo.at(protocol_2.GOAL_VELOCITY), counts.to_bytes(4, "little", signed=True)
            else:
                turns = self.within(index, goal - servo.offset_turns, *servo.range_turns)
                counts = round(turns * servo.model.counts_per_turn)
                data[servo.id] = servo.at(protocol_2.GOAL_POSITION), counts.to_bytes(4, "little", signed=True)
        self._write_all(data)

    def _rates(self, goals: Sequence[float]) -> Sequence[float]:
        """How fast the goals move, by the newest two commands, rev/s; 0 where none came for long."""
        before_s, before = self._before
        passed_s = self.written_s - before_s
        if passed_s > 0:
            known = passed_s < LONGEST_STEP_S
            rates = [(new - old) / passed_s if known else 0.0 for new, old in zip(goals, before, strict=True)]
            self._before, self._goal_rates = (self.written_s, goals), rates
        return self._goal_rates if self.clock() - self.written_s < LONGEST_STEP_S else [0.0] * self.tendon_count

    def _speed(self, index: int, servo: _Servo, goal_turns: float, rate: float) -> int:
        """Counts of speed towards a goal that moves; none for who was not heard just now, whose place is old."""
        if index not in self.heard() or math.isnan(servo.turns):
            return 0
        speed = rate + VELOCITY_GAIN_PER_S * (goal_turns - servo.turns)
        most = servo.largest_speed_rev_per_s
        return int(min(max(speed, -most), most) / servo.model.velocity_unit_rev_per_s)

    def ask_states(self, indices: Sequence[int]) -> Mapping[int, Sample]:
        """Current or load, speed, place and temperature."""
        self._resume()
        found = {}
        for index, data in self._read_all(protocol_2.PRESENT_CURRENT, protocol_2.STATE_SIZE, indices).items():
            servo, state = self._table[index], protocol_2.decode_state(data, self._table[index].model)
            unit_a = servo.model.current_unit_a or protocol_2.LOAD_UNIT * self.motors.strongest_a[index]
            servo.turns = state.position_rev + servo.offset_turns
            current_a = state.effort_counts * unit_a
            found[index] = Sample(servo.turns, state.velocity_rev_per_s, current_a, state.temperature_c)
        return found

    def inspect(self) -> None:
        """Hardware errors, and torque that went off."""
        for index, data in self._read_all(protocol_2.TORQUE_ENABLE, protocol_2.CONDITION_SIZE, self.heard()).items():
            servo = self._table[index]
            if data[-1] == 1 << protocol_2.OVERLOAD and self.may_restart(servo.restarts):
                servo.restarts += 1
                self.written.append(f"servo {servo.id}: restarted after overload")
                self._reboot(index)
                servo.restart_due_s = self.clock() + REBOOT_S
                continue
            for name in protocol_2.error_names(data[-1]):
                self.latch(index, f"{HARDWARE_ERROR} {name}")
            if self.enabled and data[0] == 0:
                self.latch(index, TORQUE_OFF)
                if servo.mode != POSITION:
                    self.lose_zero([index])
        if self.enabled:
            self._watch_watchdogs()

    def _watch_watchdogs(self) -> None:
        """Where a servo's own watchdog struck though the bus lives, have it take goals again: a stop needs them."""
        for index, data in self._read_all(protocol_2.BUS_WATCHDOG, 1, self.heard()).items():
            if data[0] == protocol_2.WATCHDOG_STRUCK:
                self.latch(index, RECEIVE_TIMEOUT)
                self._arm(self._table[index])

    def _arm(self, servo: _Servo) -> int:
        """Set a servo's watchdog by way of 0, since one that struck refuses goals until then; what it was set to."""
        counts = protocol_2.watchdog_counts(self.settings.receive_timeout_ms)
        for value in (0, counts):
            self.put(servo, servo.at(protocol_2.BUS_WATCHDOG), 1, value)
        return counts

    # --- overload

    def _resume(self) -> None:
        """Switch servos on that restarted. They count within a turn: it is the one nearest to where they were."""
        now_s = self.clock()
        for index, servo in enumerate(self._table):
            if not servo.restart_due_s <= now_s:
                continue
            try:
                raw = _signed(self.get(servo, servo.at(protocol_2.PRESENT_POSITION), 4)) / servo.model.counts_per_turn
                slip = servo.turns - raw
                if servo.mode != POSITION:
                    servo.offset_turns = float(round(slip))
                if abs(slip - servo.offset_turns) > LARGEST_SLIP_TURNS:
                    self.lose_zero([index])
                    self.latch(index, POSITION_JUMP)
                if self.enabled:
                    self.switch_on(index)
            except DeviceError:
                if now_s < servo.restart_due_s + LONGEST_REBOOT_S:
                    continue
                self.latch(index, self.silent)
            servo.restart_due_s = math.inf

    # --- packets

    def get(self, servo: _Servo, address: int, size: int) -> int:
        """An unsigned register. Raises :class:`DeviceError`."""
        return int.from_bytes(self.bus.ask_one(servo.id, protocol_2.READ, place(address, size), size).data, "little")

    def put(self, servo: _Servo, address: int, size: int, value: int) -> None:
        """Set a register. Raises :class:`DeviceError` where the servo is silent or refuses."""
        data = address.to_bytes(2, "little") + value.to_bytes(size, "little")
        error = self.bus.ask_one(servo.id, protocol_2.WRITE, data, 0).error
        if error & 0x7F:  # the highest bit only marks a hardware error, which is read elsewhere
            raise DeviceError(
                f"servo {servo.id} at {self.bus.port}",
                f"refuses register {address} = {value} (error {error & 0x7F})",
                "Look at its settings with the maker's wizard.",
            )

    def _write_all(self, values: Mapping[int, tuple[int, bytes]]) -> None:
        """Registers of many servos, those of one address in one packet, which nobody answers."""
        groups: dict[tuple[int, int], dict[int, bytes]] = defaultdict(dict)
        for servo, (address, data) in values.items():
            groups[address, len(data)][servo] = data
        for (address, _), members in groups.items():
            self.bus.send(BROADCAST, protocol_2.SYNC_WRITE, sync_write(address, members))

    def _read_all(self, register: int, size: int, indices: Sequence[int]) -> dict[int, bytes]:
        """A volatile register of many servos, by the index of the tendon."""
        groups: dict[int, list[int]] = defaultdict(list)
        for index in indices:
            groups[self._table[index].at(register)].append(self.servos[index])
        found: dict[int, bytes] = {}
        for address, servos in groups.items():
            found |= self.answers(servos, self._reader(address, size))
        return {index: found[self.servos[index]] for index in indices if self.servos[index] in found}

    def _reader(self, address: int, size: int) -> Callable[[Sequence[int]], Mapping[int, bytes]]:
        fast = self._fast

        def ask(servos: Sequence[int]) -> Mapping[int, bytes]:
            nonlocal fast
            if fast and len(servos) > 1 and (found := self._fast_read(address, size, servos)):
                return found
            fast = False  # a silent servo holds back the answer of all: not asked for again in this round
            parameters = place(address, size) + bytes(servos)
            answers = self.bus.ask(BROADCAST, protocol_2.SYNC_READ, parameters, size, servos)
            return {servo: answer.data for servo, answer in answers.items()}

        return ask

    def _fast_read(self, address: int, size: int, servos: Sequence[int]) -> Mapping[int, bytes]:
        """All answers in one packet; nothing where a servo is silent, or cannot do it."""
        wanted = protocol_2.fast_size(size, len(servos))
        parameters = place(address, size) + bytes(servos)
        found = self.bus.ask(BROADCAST, protocol_2.FAST_SYNC_READ, parameters, wanted, [BROADCAST])
        return protocol_2.fast_parts(found[BROADCAST].data, size, servos) if found else {}


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def make(robot: Robot, settings: Dynamixel, **options: Any) -> BusServos:
    """The driver, not open yet; options as of :class:`BusServos`."""
    old = settings.protocol == models.PROTOCOL_1
    return Protocol1Actuators(robot, settings, **options) if old else DynamixelActuators(robot, settings, **options)
