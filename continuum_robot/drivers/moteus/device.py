# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators on moteus controllers. Source: docs/reference.md of mjbots/moteus.

Each is asked for its state and sent its command in one frame. Both torques and positions are its position mode: with
gains of 0 only the torque is left. A command goes with the controller's own watchdog.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from continuum_robot.drivers.moteus import frames
from continuum_robot.drivers.moteus.frames import FdcanusbFraming, FdLine
from continuum_robot.drivers.moteus.settings import Moteus
from continuum_robot.drivers.polled import Sample
from continuum_robot.drivers.servo_bus import HARDWARE_ERROR, TORQUE_OFF, BusServos
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

ERRORS = {
    32: "calibration_fault",
    33: "motor_driver_fault",
    34: "over_voltage",
    35: "encoder_fault",
    36: "motor_not_configured",
    37: "pwm_cycle_overrun",
    38: "over_temperature",
    39: "outside_limit",
    40: "under_voltage",
    41: "configuration_changed",
    42: "theta_invalid",
    43: "position_invalid",
}
_NAN = math.nan


class MoteusActuators(BusServos):
    """Tendon actuators on moteus controllers; arguments as of :class:`BusServos`.

    After power-on a controller counts from within one turn, and does not say so: each opening voids an earlier zero.
    """

    def __init__(self, robot: Robot, settings: Moteus, **options: Any) -> None:
        super().__init__(robot, settings, FdcanusbFraming(), "moteus controllers", **options)
        self.bus.remedy = "Check supply, cables and termination, and the controllers' numbers."
        if not settings.port.startswith("/") and self.bus.in_process is None:
            self.bus.make_line = lambda: FdLine(self.bus.port)
        self._off: set[int] = set()
        self._goals: list[float] | None = None

    def identify(self, number: int) -> str:
        """Its mode."""
        found = self.bus.ask(number, frames.REPLY, frames.QUERY, frames.STATE_SIZE, [number])
        return f"mode {frames.STATE.unpack_from(found[number].data)[0]}" if number in found else ""

    def set_up(self) -> bool:
        """All off; where they counted before is not known."""
        self.switch_off()
        return False

    def switch_on(self, index: int) -> None:
        """Position mode without torque, or at the present place; the watchdog is read back."""
        servo, device = self.servos[index], self.device_of(index)
        self._off.discard(index)
        payload = self._payload(index, _NAN if self.takes_displacements else 0.0)
        answer = self.bus.ask_one(servo, frames.REPLY, payload + frames.QUERY, frames.STATE_SIZE)
        mode, *_, fault = frames.STATE.unpack_from(answer.data)
        if mode != frames.POSITION_MODE:
            reason = f"reports {ERRORS.get(fault, fault)}" if fault else f"stays in mode {mode}"
            raise DeviceError(device, reason, "Remove the cause, then clear the faults.")
        answer = self.bus.ask_one(servo, frames.REPLY, frames.WATCHDOG_QUERY, frames.WATCHDOG_SIZE)
        watchdog_s = struct.unpack_from("<f", answer.data, 2)[0]
        if abs(watchdog_s - self.settings.receive_timeout_ms / 1000) > 1e-3:
            raise DeviceError(device, "did not take its watchdog", "Try again.")

    def switch_off(self) -> None:
        """Stop all: twice, since a frame may be lost."""
        for _ in range(2):
            for servo in self.servos:
                self.bus.send(servo, 0, frames.STOP)

    def restart(self) -> None:
        """Stopping clears a fault."""
        if self.have(HARDWARE_ERROR):
            self.enabled = False
            self.switch_off()

    def send_goals(self, goals: Sequence[float]) -> None:
        """Kept for :meth:`ask_states`: a frame has both."""
        self._goals = list(goals)

    def ask_states(self, indices: Sequence[int]) -> Mapping[int, Sample]:
        """Command and question to each, one after the other."""
        goals, self._goals = self._goals if self.enabled else None, None
        found = {}
        for index in indices:
            servo = self.servos[index]
            payload = b"" if goals is None or index in self._off else self._payload(index, goals[index])
            # The question comes first: a controller that restarted is off, which the command would end.
            answers = self.bus.ask(servo, frames.REPLY, frames.QUERY + payload, frames.STATE_SIZE, [servo])
            if servo in answers:
                found[index] = self._sample(index, answers[servo].data)
        return found

    def _payload(self, index: int, goal: float) -> bytes:
        """A torque of a current, A, or a place, rev."""
        watchdog_s, largest = self.settings.receive_timeout_ms / 1000, self.motors.largest_nm[index]
        if self.takes_displacements:
            limits = (self.motors.speed_rev_per_s[index], self.motors.acceleration_rev_per_s2[index])
            return frames.command((goal, 0.0, 0.0, 1.0, 1.0, largest, _NAN, watchdog_s, *limits))
        torque = goal * self.motors.nm_per_a[index]
        return frames.command((_NAN, 0.0, torque, 0.0, 0.0, largest, _NAN, watchdog_s, _NAN, _NAN))

    def _sample(self, index: int, data: bytes) -> Sample:
        mode, turns, speed, torque, temperature, fault = frames.STATE.unpack_from(data)
        if mode == frames.FAULTED:
            self.latch(index, f"{HARDWARE_ERROR} {ERRORS.get(fault, f'code_{fault}')}")
        elif self.enabled and mode != frames.POSITION_MODE and index not in self._off:
            self._off.add(index)
            self.bus.send(self.servos[index], 0, frames.STOP)
            self.lose_zero([index])
            self.latch(index, TORQUE_OFF)
        return Sample(turns, speed, torque / self.motors.nm_per_a[index], float(temperature))


make = MoteusActuators
