# SPDX-License-Identifier: Apache-2.0
"""All tendon actuators of a robot behind one bus of Dynamixel servos in current control.

Why this is the second backend, and not moteus: it is what laboratories with such robots own, and its library talks
over a serial port, which a pseudo-terminal replaces byte for byte, so that here the library itself is what is tested,
across processes. moteus needs CAN-FD, of which only python-can's bus within one process would be there.

A serial bus asks and answers, so a thread does that as fast as it goes, some hundred times a second, and the driver's
cycle takes the newest values with their age. The servo's own watchdog counts any packet, also those that only read:
it guards against a dead host. A loop that stands still is watched by the thread, which then lets go.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.dynamixel import registers
from continuum_robot.drivers.dynamixel.bus import ANSWER_MARGIN_S, DynamixelBus
from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Dynamixel

Vector = NDArray[np.float64]

SHORTEST_CYCLE_S = 0.002
CONDITION_EVERY = 10
SILENT_AFTER_S = 0.1
SILENT_ANSWERS = 5
_STEPPED_MARGIN_S = 1.0
"""How long a simulated servo may take to answer where time is stepped: until its process gets a processor, s."""
FIRST_VALUES_S = 1.0
REBOOT_S = 0.6
JOIN_TIMEOUT_S = 2.0
JUMP_TURNS = 0.5
FASTEST_TURNS_PER_S = 5.0

SILENT = "silent_servo"
RECEIVE_TIMEOUT = "receive_timeout"
TORQUE_OFF = "torque_off"
POSITION_JUMP = "position_jump"
HARDWARE_ERROR = "hardware_error"

FAULTS: dict[str, str] = {
    SILENT: "a servo does not answer: check its supply and cable",
    RECEIVE_TIMEOUT: "no command came in time, so the torque went off: enable again",
    TORQUE_OFF: "a servo is off that was switched on, perhaps it restarted: home again, enable again",
    POSITION_JUMP: "a position jumped farther than a servo can turn: home again",
    HARDWARE_ERROR: "a servo reports input_voltage, overheating, motor_encoder, electrical_shock or overload: remove"
    " the cause; clearing the faults lets it restart, then home again",
}
"""Name and meaning of every fault."""


class _Sample(NamedTuple):
    stamp_s: float
    state: registers.ServoState


class DynamixelTendonActuators:
    """Tendon actuators on Dynamixel X servos.

    A tension becomes a current, limited to ``maximum_current_a``; the result names the tendons that were limited.
    Displacements count from the servos' own zero, within their turn at power-on; the cycle counts from another.

    Parameters
    ----------
    robot : with ``hardware`` and ``actuators``, which have what the motors' entries do not state
    settings : instead of the robot's own
    clock : monotonic time, s, the one of ``now_s``
    answer_margin_s : how long a servo's answer may take beyond its bytes, s; None: as its bus or ``stepped`` needs
    simulated : whether simulated servos are at the other end
    find_port : finds the port when the bus is opened, instead of that of the settings
    stepped : time stands between the calls: no thread, the bus is asked when :meth:`read` is called
    ask : as of :class:`DynamixelBus`, with ``stepped``: no answer is late, however busy the machine

    Attributes
    ----------
    simulated : as given
    tendon_count : N
    limited : where the newest tensions were beyond the largest current, shape (N,), bool
    commanded_current_a : newest currents, before polarity, shape (N,), A; NaN before the first
    bus : with its counters

    Raises
    ------
    ParameterError : a robot without this hardware, or a tendon without a servo or with two
    """

    def __init__(
        self,
        robot: Robot,
        settings: Dynamixel | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        answer_margin_s: float | None = None,
        simulated: bool = False,
        find_port: Callable[[], str] | None = None,
        stepped: bool = False,
        ask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        if settings is None and robot.hardware is not None and isinstance(robot.hardware.tendon_actuators, Dynamixel):
            settings = robot.hardware.tendon_actuators
        if settings is None:
            raise ParameterError("robot.hardware", None, f"Dynamixel servos in the file of robot {robot.name!r}")
        self.simulated, self.tendon_count, self.settings = simulated, robot.tendon_count, settings
        self._motors = MotorCurrents(robot, settings, settings.motors)
        self._servos = [entry.id for entry in self._motors.motors]
        self._clock = clock
        if ask is not None:
            answer_margin_s = 0.0
        elif answer_margin_s is None:
            answer_margin_s = _STEPPED_MARGIN_S if stepped else ANSWER_MARGIN_S
        # Where time is stepped none passes while a servo is waited for.
        self._silent_after_s = SILENT_AFTER_S if stepped else max(SILENT_AFTER_S, SILENT_ANSWERS * answer_margin_s)
        self.bus = DynamixelBus(settings.port, settings.baud_bps, answer_margin_s, ask)
        self._lock = threading.RLock()  # one talks on the bus at a time
        self._stop = threading.Event()
        self._find_port, self._stepped, self._open = find_port, stepped, False
        self._cycles, self._asked_s = 0, -math.inf
        self._thread: threading.Thread | None = None
        self._enabled = self._aligned = False
        self._forget()

    def _forget(self) -> None:
        self.limited = np.zeros(self.tendon_count, dtype=bool)
        self.commanded_current_a = np.full(self.tendon_count, np.nan)
        self._samples: dict[int, _Sample] = {}
        self._faults: dict[str, None] = {}
        self._desired: tuple[float, list[int]] | None = None
        self._lost: set[int] = set()
        self._reboot_ends_s = -math.inf
        self._last_error = ""

    # --- the protocol

    def open(self) -> None:
        """Open the port, find all servos, switch their torque off, and wait for first values.

        Raises
        ------
        DeviceError : why the port cannot be opened, or names every servo that does not answer
        """
        if self._open:
            return
        self._forget()
        try:
            if self._find_port is not None:
                self.bus.port = self._find_port()
            self.bus.open()
            missing = self.bus.missing(self._servos)
            if missing:
                raise DeviceError(
                    self.bus.name,
                    f"servo {', '.join(map(str, missing))} does not answer",
                    f"Check supply and cables, the servos' numbers, and that they run at {self.bus.baud_bps} bit/s.",
                )
            self._torque_off()
            self._check_current_limits()
            marks = [self.bus.read(servo, registers.PROFILE_VELOCITY, 4) for servo in self._servos]
            self._aligned = all(mark == registers.KNOWN_MARK for mark in marks)
        except BaseException:
            self.bus.close()
            raise
        self._open = True
        if self._stepped:
            self._asked_s = -math.inf
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=f"dynamixel {self.settings.port}", daemon=True)
        self._thread.start()
        end_s = self._clock() + FIRST_VALUES_S
        while len(self._samples) < len(self._servos) and self._clock() < end_s:
            time.sleep(SHORTEST_CYCLE_S)

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on with zero current, in current control, with the servos' own watchdog set; some 50 ms.

        Parameters
        ----------
        aborted : asked before each servo

        Raises
        ------
        DeviceError : not open, a servo does not answer, refuses, or reports a hardware error, or it was aborted; all
            are off then
        """
        self._require_open()
        with self._lock:
            if self._enabled:
                return
            self._desired = None
            try:
                for servo in self._servos:
                    if aborted():
                        raise interrupted(f"servos at {self.settings.port}")
                    self._enable_one(servo)
            except DeviceError:
                self._torque_off()
                raise
            self._enabled = self._aligned = True

    def _enable_one(self, servo: int) -> None:
        error = self.bus.read(servo, registers.HARDWARE_ERROR, 1)
        if error:
            raise DeviceError(
                f"servo {servo} at {self.settings.port}",
                f"reports {', '.join(registers.error_names(error))}",
                "Remove the cause, then clear the faults, which lets the servo restart.",
            )
        if self.bus.read(servo, registers.OPERATING_MODE, 1) != registers.CURRENT_CONTROL:
            self.bus.write(servo, registers.TORQUE_ENABLE, 1, 0)
            self.bus.write(servo, registers.OPERATING_MODE, 1, registers.CURRENT_CONTROL)
        # A watchdog that struck refuses goals until it is set to 0.
        self.bus.write(servo, registers.BUS_WATCHDOG, 1, 0)
        self.bus.write(servo, registers.GOAL_CURRENT, 2, 0)
        self.bus.write(servo, registers.PROFILE_VELOCITY, 4, registers.KNOWN_MARK)
        self.bus.write(servo, registers.TORQUE_ENABLE, 1, 1)
        watchdog = registers.watchdog_counts(self.settings.receive_timeout_ms)
        self.bus.write(servo, registers.BUS_WATCHDOG, 1, watchdog)
        if self.bus.read(servo, registers.BUS_WATCHDOG, 1) != watchdog:
            raise DeviceError(f"servo {servo} at {self.settings.port}", "did not take its watchdog", "Try again.")

    def read(self, now_s: float) -> TendonReading:
        """The newest values; never waits for the bus, but where time is stepped.

        Raises
        ------
        DeviceError : not open
        """
        self._require_open()
        if self._stepped and now_s - self._asked_s >= SHORTEST_CYCLE_S * (1 - 1e-9):
            self._asked_s = now_s
            self._ask()
        samples = [self._samples.get(servo) for servo in self._servos]
        known = [sample.stamp_s for sample in samples if sample is not None]
        stamp_s = min(max(known), now_s) if known else now_s
        rows = []
        for servo, sample in zip(self._servos, samples, strict=True):
            if sample is None:
                rows.append((math.nan, math.nan, math.nan, math.nan, math.inf))
                continue
            if now_s - sample.stamp_s > self._silent_after_s and now_s > self._reboot_ends_s:
                self._latch(servo, SILENT)
            state = sample.state
            current = state.current_counts * self.settings.current_unit_a
            age_s = max(0.0, stamp_s - sample.stamp_s)
            rows.append((state.position_rev, state.velocity_rev_per_s, current, state.temperature_c, age_s))
        turns, speed, current_a, temperature, age = np.array(rows).T.copy()
        current_a *= self._motors.polarity
        return TendonReading(
            stamp_s,
            turns * self._motors.signed_m_per_rev,
            speed * self._motors.signed_m_per_rev,
            current_a / self._motors.ampere_per_newton,
            current_a,
            temperature,
            age,
            tuple(self._faults),
        )

    def write(self, tension_n: ArrayLike, now_s: float) -> None:
        """Hand a tension (N) for every tendon to the bus's thread; nothing is sent where the torque is off.

        Raises
        ------
        ParameterError : wrong shape or not finite
        DeviceError : not open
        """
        self._require_open()
        current, self.limited = self._motors.currents(tension_n)
        self.commanded_current_a = current
        # Towards zero: the servo refuses a goal above its limit.
        counts = np.trunc(current * self._motors.polarity / self.settings.current_unit_a).astype(int)
        if self._enabled:
            self._desired = (now_s, counts.tolist())

    def disable(self) -> None:
        """Torque off. Safe to call at any time."""
        with self._lock:
            self._enabled = False
            self._desired = None
            if self._open:
                self._torque_off()

    def close(self) -> None:
        """Torque off, and end. Safe to call at any time."""
        self.disable()
        self._open = False
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT_S)
        self.bus.close()

    def clear_faults(self) -> None:
        """Forget what latched. Servos with a hardware error restart: all are off then, and some silent for 0.6 s."""
        latched = " ".join(self._faults)
        broken = [servo for servo in self._servos if f"{self._name(servo)}: {HARDWARE_ERROR}" in latched]
        if broken and self._open:
            with self._lock:
                self._enabled = False
                self._torque_off()
                for servo in broken:
                    self.bus.reboot(servo)
                    self._samples.pop(servo, None)
                self._lost.update(broken)
                self._reboot_ends_s = self._clock() + REBOOT_S
        self._faults = {}

    # --- diagnostics

    @property
    def aligned(self) -> bool:
        """Whether all servos were known when the bus was opened: one that is not was without power since.

        A zero that was found before that is void. Asked after :meth:`open` and before :meth:`enable`.
        """
        return self._aligned

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """Which servos' positions restarted or jumped since :meth:`open`, shape (N,)."""
        return np.array([servo in self._lost for servo in self._servos])

    def counters(self) -> dict[str, dict[str, Any]]:
        """Packets, failed packets and the newest error, by the port's name."""
        counts = {"packets": self.bus.packets, "failures": self.bus.failures, "last_error": self._last_error}
        return {self.settings.port: counts}

    # --- the bus's thread

    def _run(self) -> None:
        while not self._stop.is_set():
            begin_s = self._clock()
            self._ask()
            self._stop.wait(max(SHORTEST_CYCLE_S / 4, SHORTEST_CYCLE_S - (self._clock() - begin_s)))

    def _ask(self) -> None:
        try:
            with self._lock:
                self._cycle(self._cycles)
        except DeviceError as error:  # the adapter is gone: the ages grow, and read() shows it
            self._last_error = str(error)
        self._cycles += 1

    def _cycle(self, number: int) -> None:
        if self._enabled and self._desired is not None:
            written_s, counts = self._desired
            if self._clock() - written_s > self.settings.receive_timeout_ms / 1000:
                self._enabled = False
                self._torque_off()
                self._faults.setdefault(f"{self.settings.port}: {RECEIVE_TIMEOUT}")
            else:
                goals = {
                    servo: registers.encode_goal_current(value)
                    for servo, value in zip(self._servos, counts, strict=True)
                }
                self.bus.write_all(registers.GOAL_CURRENT, goals)
        found = self.bus.read_all(registers.PRESENT_CURRENT, registers.STATE_SIZE, self._servos)
        stamp_s = self._clock()
        for servo, data in found.items():
            self._take(servo, _Sample(stamp_s, registers.decode_state(data)))
        if number % CONDITION_EVERY == 0:
            self._look_at_condition()

    def _take(self, servo: int, sample: _Sample) -> None:
        before = self._samples.get(servo)
        if before is not None:
            moved = abs(sample.state.position_rev - before.state.position_rev)
            if moved > JUMP_TURNS + FASTEST_TURNS_PER_S * (sample.stamp_s - before.stamp_s):
                self._lost.add(servo)
                self._latch(servo, POSITION_JUMP)
        self._samples[servo] = sample

    def _look_at_condition(self) -> None:
        found = self.bus.read_all(registers.TORQUE_ENABLE, registers.CONDITION_SIZE, self._servos)
        for servo, data in found.items():
            for name in registers.error_names(data[-1]):
                self._latch(servo, f"{HARDWARE_ERROR} {name}")
            if self._enabled and data[0] == 0:
                self._lost.add(servo)
                self._latch(servo, TORQUE_OFF)

    # --- helpers

    def _torque_off(self) -> None:
        """Goal and torque to zero on all, in packets that nobody answers: twice, since one may be lost."""
        for _ in range(2):
            self.bus.write_all(registers.GOAL_CURRENT, dict.fromkeys(self._servos, registers.encode_goal_current(0)))
            self.bus.write_all(registers.TORQUE_ENABLE, dict.fromkeys(self._servos, b"\x00"))

    def _check_current_limits(self) -> None:
        unit_a = self.settings.current_unit_a
        for servo in self._servos:
            limit_counts = self.bus.read(servo, registers.CURRENT_LIMIT, 2)
            # In whole counts, as goals are sent: a servo cannot be set to a part of one.
            needed_counts = int(self.settings.maximum_current_a / unit_a)
            if limit_counts < needed_counts:
                raise DeviceError(
                    f"servo {servo} at {self.settings.port}",
                    f"allows {limit_counts * unit_a:.3g} A ({limit_counts} counts), less than maximum_current_a = "
                    f"{self.settings.maximum_current_a:g} A ({needed_counts} counts)",
                    "Lower hardware.tendon_actuators.maximum_current_a, or raise the servo's Current Limit.",
                )

    def _name(self, servo: int) -> str:
        return f"{self.settings.port} servo {servo}"

    def _latch(self, servo: int, fault: str) -> None:
        self._faults.setdefault(f"{self._name(servo)}: {fault}")

    def _require_open(self) -> None:
        if not self._open:
            raise DeviceError(self.bus.name, "is not open", "Open it first.")
