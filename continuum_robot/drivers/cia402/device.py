# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators on CiA 402 drives. Each round is one SYNC: goals go out before it, all drives answer after it.

The drives watch this computer's heartbeat, which the thread of the polled base sends, and stop by themselves.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from continuum_robot.drivers.can_bus import Frame
from continuum_robot.drivers.cia402 import codec
from continuum_robot.drivers.cia402.bus import CanOpenBus
from continuum_robot.drivers.cia402.codec import state_of, wrapped
from continuum_robot.drivers.cia402.settings import AUTO, HOLD, Cia402
from continuum_robot.drivers.polled import BusActuators, Sample
from continuum_robot.drivers.servo_bus import HARDWARE_ERROR, TORQUE_OFF
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

SILENT_DRIVE = "silent_drive"
HEARTBEAT_LOST = "heartbeat_lost"
NOT_OPERATIONAL = "not_operational"
RESTARTED = "restarted"
QUICK_STOP = "quick_stop"
FOLLOWING_ERROR = "following_error"
ANSWER_MARGIN_S = 0.004
_CHANGE_S, _LOOK_S = 1.0, 0.005
_CHANGES = 20
"""How long a drive may take to operation, s, and how often it is asked at least."""
_BEATS, _STALL_S = 4, 0.1
_MOST_UNITS = 0x7FFF
"""Of a torque."""
_MODES = {codec.CSP: "CSP (8)", codec.CST: "CST (10)"}


class Cia402Actuators(BusActuators):
    """Tendon actuators on CiA 402 drives."""

    silent, motor = SILENT_DRIVE, "drive"
    usual_margin_s = ANSWER_MARGIN_S

    def __init__(self, robot: Robot, settings: Cia402, **options: Any) -> None:
        super().__init__(robot, settings, **options)
        self.bus = CanOpenBus(
            settings.port,
            settings.bitrate_bps,
            settings.host_id,
            settings.receive_timeout_ms,
            clock=self.clock,
            margin_s=self.answer_margin_s,
            ask=self.ask,
        )
        self.nodes = [entry.id for entry in self.motors.motors]
        self.mode = codec.CSP if self.takes_displacements else codec.CST
        self._target = codec.TARGET_POSITION if self.takes_displacements else codec.TARGET_TORQUE
        hold = self.takes_displacements if settings.quick_stop == AUTO else settings.quick_stop == HOLD
        self._stop_option = codec.STOP_AND_HOLD if hold else codec.STOP_AND_SWITCH_OFF
        assert robot.actuators is not None  # MotorCurrents refuses a robot without
        self._command_s = max(settings.cycle_s, 1 / robot.actuators.cycle_hz)
        count = self.tendon_count
        self._rated_nm, self._counts = [math.nan] * count, [0] * count
        self._unheard_s, self._watched_s = [0.0] * count, math.inf
        self._off: set[int] = set()

    # --- what the polled base asks for

    def connect(self) -> bool:
        """Find all drives, switch all off and set them up."""
        self.open_bus()
        self.bus.forget()
        self._off = set()
        if missing := [node for node in self.nodes if not self._present(node)]:
            raise self.bus.silent(missing)
        known = all(self._in_use(index) for index in range(self.tendon_count))
        self.bus.beats = True
        for index in range(self.tendon_count):
            self._set_up(index)
        return known

    def disconnect(self) -> None:
        """Tell the drives that no heartbeat will follow, and close the bus."""
        self.bus.beats = False
        with contextlib.suppress(DeviceError):
            for node in self.nodes:
                if self.bus.states.get(node) == codec.OPERATIONAL:
                    self.bus.transfer(node, codec.write_request(node, codec.CONSUMER_HEARTBEAT, self._watched(0)))
        self.bus.close()

    def switch_on(self, index: int) -> None:
        """To the state "operation enabled", at the present place or without torque."""
        node, bus = self.nodes[index], self.bus
        if index in self._left():
            raise self._refused(index, "is not operational", "Clear the faults.")
        if (mode := bus.read(node, codec.MODE_DISPLAY)) != self.mode:
            raise self._refused(index, f"is in mode {mode} and not in {_MODES[self.mode]}", "Open the driver again.")
        if (watched := bus.read(node, codec.CONSUMER_HEARTBEAT)) != self._watched():
            raise self._refused(index, f"watches 0x{watched:08x} and not our heartbeat", "Open the driver again.")
        end_s, looks, state = self.clock() + _CHANGE_S, 0, ""
        while looks < _CHANGES or (self.clock() < end_s and not self.stepped):
            looks += 1
            state = state_of(bus.read(node, codec.STATUSWORD))
            if state == codec.ENABLED:
                self._off.discard(index)
                return
            if state == codec.FAULT:
                text = codec.error_text(bus.read(node, codec.ERROR_CODE))
                raise self._refused(index, f"reports {text}", "Remove the cause, then clear the faults.")
            word = codec.TOWARDS_ENABLED.get(state)
            if word is not None:
                place = bus.read(node, codec.POSITION) if self.takes_displacements else 0
                bus.write(node, self._target, place)
                bus.write(node, codec.CONTROLWORD, word)
            elif not self.stepped:
                time.sleep(_LOOK_S)
        raise self._refused(index, f"stays in state {state!r}", "Check its supply and its enable input.")

    def switch_off(self) -> None:
        """Voltage off at all: twice, since a frame may be lost."""
        with contextlib.suppress(DeviceError):
            for _ in range(2):
                # The target of a drive that takes it before the controlword is where it is.
                targets = self._counts if self.takes_displacements else [0] * self.tendon_count
                frames = [self._goal(index, codec.DISABLE_VOLTAGE, target) for index, target in enumerate(targets)]
                self.bus.exchange([*frames, _SYNC], (), 0.0)

    def restart(self) -> None:
        """Reset drives with a fault, and take those up again that left the network's operation."""
        stopped = self._off | set(self.have(HARDWARE_ERROR))
        if not (stopped or any(self.unanswered) or self._left()):
            return
        self.enabled = False
        self.switch_off()
        self._off = set()
        for index in stopped:
            with contextlib.suppress(DeviceError):
                for word in (codec.DISABLE_VOLTAGE, codec.RESET_FAULT, codec.DISABLE_VOLTAGE):
                    self.bus.write(self.nodes[index], codec.CONTROLWORD, word)
        self._take_up()

    def exchange(self, goals: Sequence[float] | None) -> Mapping[int, Sample]:
        """Goals, SYNC, and what all drives send; those that are silent are not waited for."""
        frames = []
        for index, goal in enumerate(goals or ()):
            if self.enabled and index not in self._off:
                frames.append(self._goal(index, codec.ENABLE_OPERATION, self._units(index, goal)))
        asked = self.asked()
        wanted = [function + self.nodes[index] for index in asked for function in (codec.TPDO1, codec.TPDO2)]
        came = self.bus.exchange([*frames, _SYNC], wanted, self.settings.cycle_s)
        found = {}
        for index, node in enumerate(self.nodes):
            state, speed = came.get(codec.TPDO1 + node, b""), came.get(codec.TPDO2 + node, b"")
            ours = len(state) == codec.STATE_PDO.size and len(speed) == codec.SPEED_PDO.size
            if ours and self.bus.states.get(node) != codec.BOOT_UP:
                found[index] = self._sample(index, state, speed)
        self._watch()
        return found

    def name_of(self, index: int) -> str:
        """Port and node id."""
        return f"{self.name} drive {self.nodes[index]}"

    def counters(self) -> dict[str, dict[str, Any]]:
        (name, counts), *_ = super().counters().items()
        return {name: {"frames": self.bus.sent, "failures": self.bus.lost} | counts}

    # --- a drive

    def identify(self, number: int) -> str:
        """Its profile and state."""
        if (profile := self.bus.transfer(number, codec.read_request(number, codec.DEVICE_TYPE))) is None:
            return ""
        return f"profile {profile & 0xFFFF}, {state_of(self.bus.read(number, codec.STATUSWORD))}"

    def _present(self, node: int) -> bool:
        request = codec.read_request(node, codec.DEVICE_TYPE)
        if self.bus.transfer(node, request) is None:
            self.bus.command(codec.PRE_OPERATE, [node])  # one that was stopped answers nothing
        return self.bus.transfer(node, request) is not None

    def _watched(self, timeout_ms: int | None = None) -> int:
        """Value of the drives' consumer heartbeat."""
        return self.settings.host_id << 16 | (self.settings.receive_timeout_ms if timeout_ms is None else timeout_ms)

    def _in_use(self, index: int) -> bool:
        """Whether a drive was set up here since its power-on: it is operational, with our process data."""
        node = self.nodes[index]
        if self.bus.read(node, codec.CONSUMER_HEARTBEAT) >> 16 != self.settings.host_id:
            return False
        wanted = [codec.TPDO1 + node, codec.TPDO2 + node]
        came = self.bus.exchange([_SYNC], wanted, self.settings.cycle_s)
        return [len(came.get(one, b"")) for one in wanted] == [codec.STATE_PDO.size, codec.SPEED_PDO.size]

    def _set_up(self, index: int) -> None:
        """Off, in its mode, with its limits, watches and process data; operational."""
        node, bus = self.nodes[index], self.bus
        bus.command(codec.PRE_OPERATE, [node])
        bus.write(node, codec.CONTROLWORD, codec.DISABLE_VOLTAGE)
        if (profile := bus.read(node, codec.DEVICE_TYPE) & 0xFFFF) != codec.PROFILE_402:
            raise self._refused(index, f"has the device profile {profile} and not 402", "Check its node id.")
        modes = bus.read(node, codec.SUPPORTED_MODES)
        if not modes >> (self.mode - 1) & 1:
            raise self._refused(index, f"has no mode {_MODES[self.mode]}", "Take another drive or actuators.command.")
        rated = self.motors.motors[index].rated_torque_nm or bus.read(node, codec.RATED_TORQUE) / 1000
        if rated <= 0:
            raise self._refused(index, "states no rated torque (0x6076)", "Enter rated_torque_nm in the robot file.")
        self._rated_nm[index] = rated
        largest_nm = self.motors.largest_nm[index]
        largest = int(1000 * largest_nm / rated)
        if not 0 < largest < _MOST_UNITS:
            words = f"counts torques in {rated / 1000:.3g} N.m, which does not fit {largest_nm:.3g} N.m"
            raise self._refused(index, words, "Check rated_torque_nm and the motor's torque constant.")
        timeout_ms = self.settings.receive_timeout_ms
        values = [
            (codec.MODE, self.mode),
            (codec.LARGEST_TORQUE, largest),
            (codec.CYCLE_EXPONENT, -3),
            (codec.CYCLE, min(255, math.ceil(1000 * self._command_s))),
            (codec.QUICK_STOP_OPTION, self._stop_option),
            (codec.ABORT_CONNECTION, codec.STOP_QUICKLY),
            (codec.PRODUCER_HEARTBEAT, timeout_ms // _BEATS),
            (codec.CONSUMER_HEARTBEAT, self._watched()),
        ]
        for key, value in values:
            bus.write(node, key, value)
            if (taken := bus.read(node, key)) != value:
                words = f"has 0x{key >> 8:04X}:{key & 0xFF:02X} = {taken} where {value} was written"
                raise self._refused(index, words, "Check its model, firmware and commissioning.")
        for pdo in (codec.goals_received(self._target), codec.STATES_SENT, codec.SPEEDS_SENT):
            for key, value in codec.pdo_set_up(pdo, node):
                bus.write(node, key, value)
        if (mode := bus.read(node, codec.MODE_DISPLAY)) != self.mode:
            raise self._refused(index, f"stays in mode {mode}, not {_MODES[self.mode]}", "Check its commissioning.")
        bus.boot_ups.discard(node)
        bus.beat()  # the watch begins with the first that comes
        bus.command(codec.START, [node])
        self._counts[index] = bus.read(node, codec.POSITION)
        # A heartbeat from before the start came before that answer.
        bus.states[node], self._unheard_s[index] = codec.OPERATIONAL, 0.0

    def _take_up(self) -> None:
        """Bring drives that restarted, or left the network's operation, back to it; they are off."""
        for index, node in enumerate(self.nodes):
            with contextlib.suppress(DeviceError):
                if self.unanswered[index] or self.bus.states.get(node) != codec.OPERATIONAL:
                    self.bus.command(codec.PRE_OPERATE, [node])
                    counts = self._counts[index]
                    if self.bus.read(node, codec.CONSUMER_HEARTBEAT) != self._watched():
                        self.lose_zero([index])  # it was without power
                        self.forget_values(index)
                    self._set_up(index)
                    if index not in self._lost:
                        self._counts[index] = counts + wrapped(self._counts[index] - counts)

    def _refused(self, index: int, problem: str, remedy: str) -> DeviceError:
        return DeviceError(self.bus.device(self.nodes[index]), problem, remedy)

    # --- process data

    def _units(self, index: int, goal: float) -> int:
        """A current, A, as thousandths of the rated torque; turns as counts."""
        if self.takes_displacements:
            return round(goal * self.motors.motors[index].counts_per_turn)
        return round(1000 * goal * self.motors.nm_per_a[index] / self._rated_nm[index])

    def _goal(self, index: int, controlword: int, value: int) -> Frame:
        return codec.goal_frame(self.nodes[index], self._target, controlword, wrapped(value))

    def _sample(self, index: int, state_pdo: bytes, speed_pdo: bytes) -> Sample:
        statusword, counts, torque = codec.STATE_PDO.unpack(state_pdo)
        (speed,) = codec.SPEED_PDO.unpack(speed_pdo)
        state = state_of(statusword)
        if state in (codec.FAULT, codec.FAULT_REACTION):
            if index not in self._off:
                self._off.add(index)
                code = self.bus.transfer(self.nodes[index], codec.read_request(self.nodes[index], codec.ERROR_CODE))
                self.latch(index, f"{HARDWARE_ERROR} {codec.error_text(code or 0)}")
        elif self.enabled and state != codec.ENABLED and index not in self._off:
            self._off.add(index)
            self.latch(index, QUICK_STOP if state == codec.QUICK_STOP_ACTIVE else TORQUE_OFF)
        elif self.enabled and self.takes_displacements and statusword & codec.FOLLOWING_ERROR:
            self.latch(index, FOLLOWING_ERROR)
        self._counts[index] += wrapped(counts - self._counts[index])
        return Sample(
            self._counts[index] / self.motors.motors[index].counts_per_turn,
            speed * self.settings.velocity_unit_rev_per_s,
            torque / 1000 * self._rated_nm[index] / self.motors.nm_per_a[index],
            math.nan,
        )

    def _left(self) -> list[int]:
        """Indices of the tendons whose drives say that they are not operational."""
        states = [self.bus.states.get(node) for node in self.nodes]
        return [index for index, state in enumerate(states) if state not in (None, codec.OPERATIONAL)]

    def _watch(self) -> None:
        """Latch what the drives' heartbeats show."""
        for index, node in enumerate(self.nodes):
            if node in self.bus.boot_ups:
                self.bus.boot_ups.discard(node)
                self.lose_zero([index])
                self.latch(index, RESTARTED)
        for index in self._left():
            node = self.nodes[index]
            self.latch(index, NOT_OPERATIONAL)
            self._off.add(index)
            asked = codec.read_request(node, codec.CONSUMER_HEARTBEAT)
            if node in self.bus.heard and self.bus.transfer(node, asked) == self._watched():
                self.bus.command(codec.START, [node])  # to be read, stopped as it is
        now_s = self.clock()
        # This computer may have stood still meanwhile, and a simulated drive with it.
        passed_s, self._watched_s = max(0.0, min(now_s - self._watched_s, _STALL_S)), now_s
        for index, node in enumerate(self.nodes):
            self._unheard_s[index] = 0.0 if node in self.bus.heard else self._unheard_s[index] + passed_s
            if self._unheard_s[index] > self._timeout_s:
                self.latch(index, HEARTBEAT_LOST)
        self.bus.heard.clear()


make = Cia402Actuators
_SYNC = Frame(codec.SYNC, b"")
