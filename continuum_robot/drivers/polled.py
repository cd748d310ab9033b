# SPDX-License-Identifier: Apache-2.0
"""The base of tendon actuators on a bus where the host asks and the motors answer.

Such a bus gives some hundred readings a second, whatever the driver's cycle. A thread therefore asks as fast as the bus
goes, and the cycle takes the newest values with their ages. What all such drivers share is here; a driver adds how its
motors are found, switched on and off, and asked.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.drivers.motor_currents import MotorCurrents
from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import MotorsSection


class Urgency:
    """Gives a thread the priority of whoever needs its results, which may be a loop under SCHED_FIFO."""

    def __init__(self) -> None:
        self._whose: tuple[int, int | None] | None = None

    def as_of_caller(self, thread: threading.Thread | None) -> None:
        """Give a thread the calling thread's scheduler and priority, once for each pair; nothing where not allowed."""
        if thread is None or thread is threading.current_thread():
            return
        whose = threading.get_native_id(), thread.native_id
        if whose != self._whose and thread.native_id is not None:
            self._whose = whose
            with contextlib.suppress(OSError, AttributeError):  # no such thread any more, or not on Linux
                os.sched_setscheduler(thread.native_id, os.sched_getscheduler(0), os.sched_getparam(0))


Vector = NDArray[np.float64]

SHORTEST_CYCLE_S = 0.002
FIRST_VALUES_S = 1.0
RECONNECT_S = 0.5
JOIN_TIMEOUT_S = 2.0
JUMP_TURNS = 0.5
FASTEST_TURNS_PER_S = 5.0

SILENT = "silent_motor"
RECEIVE_TIMEOUT = "receive_timeout"
POSITION_JUMP = "position_jump"
_SILENT_AFTER_S, _SILENT_QUESTIONS = 0.15, 5
_QUIET_ROUNDS, _QUIET_EVERY = 3, 5
"""So many rounds without an answer, and a motor is asked in each fifth only: it costs the time of an answer."""
_STEPPED_MARGIN_S = 1.0
"""How long a simulated motor may take to answer where time is stepped: until its process gets a processor, s."""


class Sample(NamedTuple):
    """What a motor measured.

    Attributes
    ----------
    turns : in its positive direction, rev
    turns_per_s : their rate, rev/s
    current_a : its current, or the one that its load stands for, A; NaN where it tells neither
    temperature_c : degree Celsius, NaN where unknown
    """

    turns: float
    turns_per_s: float
    current_a: float
    temperature_c: float


class PolledActuators:
    """Tendon actuators that are asked and answer. A driver overrides the methods of the section "what a driver adds".

    A command is a tension, which becomes a current limited to ``maximum_current_a``, or a displacement, which becomes
    turns, as the robot's ``actuators.command`` says. Displacements count from the motors' own zero; the cycle counts
    from another.

    Parameters
    ----------
    robot : with ``actuators``, which have what the motors' entries do not state
    settings : section of the robot file
    name : what and where they are, for messages
    clock : monotonic time, s, the one of ``now_s``
    simulated : whether simulated motors are at the other end
    stepped : time stands between the calls: no thread, the bus is asked when :meth:`read` is called
    pass_time : called with the time before each reading, where that is what moves simulated motors

    Attributes
    ----------
    tendon_count : N, the number of the section's motors
    takes_displacements : whether commands are displacements, else tensions
    limited : where the newest command was beyond the largest current or the motor's range, shape (N,), bool
    commanded_current_a : newest currents, before polarity, shape (N,), A; NaN before the first
    written_s : when the newest goals that were sent had been written, s
    measures_current : of each motor, whether ``Sample.current_a`` is a current, else a load, shape (N,), bool
    questioned : indices of the tendons whose motors :meth:`exchange` asked in the newest round
    unanswered : questions in a row that each motor did not answer

    Raises
    ------
    ParameterError : as of :class:`MotorCurrents`
    """

    silent = SILENT
    """Name of the fault of a motor that does not answer."""
    watchdog = False
    """Whether the motors take no command any more after ``receive_timeout_ms`` without a packet, until switched on."""

    def __init__(
        self,
        robot: Robot,
        settings: MotorsSection,
        *,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        simulated: bool = False,
        stepped: bool = False,
        pass_time: Callable[[float], None] | None = None,
    ) -> None:
        self.name, self.simulated = name, simulated
        self.takes_displacements = robot.takes_displacements
        self.motors: MotorCurrents[Any] = MotorCurrents(robot, settings, settings.motors)
        self.tendon_count = len(self.motors.motors)
        self.measures_current = np.ones(self.tendon_count, dtype=bool)
        self.clock, self.stepped, self._pass_time = clock, stepped, pass_time
        self._timeout_s = settings.receive_timeout_ms / 1000
        self.lock = threading.RLock()  # one talks on the bus at a time
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._urgency = Urgency()
        self._is_open = self.enabled = self._aligned = False
        self._round = 0
        self._forget()

    def _forget(self) -> None:
        self.limited = np.zeros(self.tendon_count, dtype=bool)
        self.commanded_current_a = np.full(self.tendon_count, np.nan)
        self._samples: list[tuple[float, Sample] | None] = [None] * self.tendon_count
        self._sample_asked_s = [-math.inf] * self.tendon_count
        self._faults: dict[str, None] = {}
        self._command: tuple[float, list[float]] | None = None
        self._taken_s = self.written_s = self._asked_s = self._reconnect_s = -math.inf
        self._told_s = math.inf
        self.questioned: Sequence[int] = range(self.tendon_count)
        self.unanswered = [0] * self.tendon_count
        self._lost: set[int] = set()
        self.last_error = ""

    # --- what a driver adds. They talk on the bus, with the lock held, and raise DeviceError where that is gone.

    def connect(self) -> bool:
        """Open the bus, find every motor, switch all off and set them up."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close the bus. Safe to call at any time."""
        raise NotImplementedError

    def reconnect(self) -> None:
        """Open the bus again after it was gone: the motors kept their power. Raises :class:`DeviceError`."""
        raise NotImplementedError

    def switch_on(self, index: int) -> None:
        """Switch a motor on so that it does not move: with no current, or at its present place."""
        raise NotImplementedError

    def switch_off(self) -> None:
        """Switch all off, those that can be reached; raises nothing for those that cannot."""
        raise NotImplementedError

    def stand_still(self) -> None:
        """Where no command came in time: motors with a torque are switched off, those at a place hold it.

        What is to follow is the policy of the cycle, which stands still.
        """
        if not self.takes_displacements:
            self.switch_off()

    def exchange(self, goals: Sequence[float] | None) -> Mapping[int, Sample]:
        """Send goals, and ask all motors for their values."""
        raise NotImplementedError

    def inspect(self) -> None:
        """Ask for what changes rarely, every tenth round, and :meth:`latch` what is wrong."""

    def restart(self) -> None:
        """Bring motors that :meth:`have` a fault back, when faults are cleared; they are off then."""

    def name_of(self, index: int) -> str:
        """The motor in names of faults."""
        return f"{self.name} motor {self.motors.motors[index].number}"

    # --- the protocol

    def open(self) -> None:
        if self._is_open:
            return
        self._forget()
        if self._pass_time is not None:
            self._pass_time(self.clock())
        try:
            with self.lock:
                self._aligned = self.connect()
        except BaseException:
            self.disconnect()
            raise
        self._is_open = True
        if self.stepped:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        end_s = self.clock() + FIRST_VALUES_S
        while None in self._samples and self.clock() < end_s:
            time.sleep(SHORTEST_CYCLE_S)

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on without a motion: with zero current, or holding the present place."""
        self._require_open()
        with self.lock:
            if self.enabled:
                return
            self._command = None
            try:
                for index in range(self.tendon_count):
                    if aborted():
                        raise interrupted(self.name)
                    self.switch_on(index)
                    if not self.stepped:  # many motors take longer than a reading may be old
                        self._poll()
            except DeviceError:
                self._let_go()
                raise
            self.enabled = self._aligned = True

    def read(self, now_s: float) -> TendonReading:
        """The newest values; never waits for the bus, but where time is stepped. The bus's thread becomes as urgent."""
        self._require_open()
        self._urgency.as_of_caller(self._thread)
        if self._pass_time is not None:
            self._pass_time(now_s)
        if self.stepped and now_s - self._asked_s >= SHORTEST_CYCLE_S * (1 - 1e-9):
            self._asked_s = now_s
            self._poll()
        samples = list(self._samples)
        known = [sample[0] for sample in samples if sample is not None]
        stamp_s = min(max(known), now_s) if known else now_s
        rows = []
        for sample in samples:
            if sample is None:
                rows.append((math.nan, math.nan, math.nan, math.nan, math.inf))
                continue
            rows.append((*sample[1], max(0.0, stamp_s - sample[0])))
        turns, speed, current_a, temperature, age = np.array(rows).T.copy()
        current_a *= self.motors.polarity
        return TendonReading(
            stamp_s,
            turns * self.motors.signed_m_per_rev,
            speed * self.motors.signed_m_per_rev,
            current_a / self.motors.ampere_per_newton,
            current_a if self.measures_current.all() else np.where(self.measures_current, current_a, np.nan),
            temperature,
            age,
            tuple(self._faults),
        )

    def excused(self, index: int, now_s: float) -> bool:
        """Whether a motor is silent because it restarts. ``index`` of its tendon, from 0; ``now_s``: time, s."""
        del index, now_s
        return False

    def write(self, command: ArrayLike, now_s: float) -> None:
        """Hand a tension (N) or a displacement (m) for every tendon to the bus; nothing is sent while all are off."""
        self._require_open()
        if self.takes_displacements:
            goals = self.turns_of(command)
        else:
            current, self.limited = self.motors.currents(command)
            self.commanded_current_a, goals = current, current * self.motors.polarity
        if self.enabled:
            self._command = (now_s, goals.tolist())

    def turns_of(self, displacement_m: ArrayLike) -> Vector:
        """Turns of the motors for displacements, shape (N,), rev."""
        displacement = np.asarray(displacement_m, dtype=float)
        if displacement.shape != (self.tendon_count,) or not math.isfinite(displacement.sum()):
            raise ParameterError("displacement_m", displacement_m, f"{self.tendon_count} finite displacements in m")
        return displacement / self.motors.signed_m_per_rev

    def disable(self) -> None:
        with self.lock:
            self.enabled, self._command = False, None
            if self._is_open:
                self._let_go()

    def _let_go(self) -> None:
        """Switch off whom the bus still reaches: one that is gone is no reason not to end."""
        try:
            self.switch_off()
        except DeviceError as error:
            self.last_error = str(error)

    def close(self) -> None:
        self.disable()
        self._is_open = False
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT_S)
        self.disconnect()

    def clear_faults(self) -> None:
        """Forget what latched. A driver may let motors with a fault restart: all are off then."""
        if self._faults and self._is_open:
            with self.lock:
                self.restart()
        self._faults = {}

    # --- diagnostics

    @property
    def aligned(self) -> bool:
        """Whether all motors were known when the bus was opened: one that is not was without power since.

        A zero that was found before that is void. Asked after :meth:`open` and before :meth:`enable`.
        """
        return self._aligned

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        return np.array([index in self._lost for index in range(self.tendon_count)])

    @property
    def pending_s(self) -> float:
        """How long the newest command waits for the bus, s; 0 where it was sent, or there is none."""
        command = self._command
        return 0.0 if command is None or command[0] <= self._taken_s else max(0.0, self.clock() - command[0])

    def counters(self) -> dict[str, dict[str, Any]]:
        """Rounds on the bus, how long the newest command waits, and the newest error, by the bus's name."""
        return {self.name: {"rounds": self._round, "pending_s": self.pending_s, "last_error": self.last_error}}

    # --- what drivers use

    def latch(self, index: int | None, fault: str) -> None:
        """Latch a fault of a motor, or of the bus."""
        self._faults.setdefault(f"{self.name if index is None else self.name_of(index)}: {fault}")

    def have(self, fault: str) -> list[int]:
        """Indices of the tendons whose motors latched a fault; ``fault``: how its name begins."""
        return [
            index
            for index in range(self.tendon_count)
            if any(text.startswith(f"{self.name_of(index)}: {fault}") for text in self._faults)
        ]

    def lose_zero(self, indices: Iterable[int]) -> None:
        """Say that motors do not count from where they did; ``indices`` of their tendons, from 0."""
        self._lost.update(indices)

    def newest(self, index: int) -> tuple[float, Sample] | None:
        """When the newest values of a motor came, s, and they; None before the first; ``index`` of its tendon."""
        return self._samples[index]

    def forget_values(self, index: int) -> None:
        """Compare the next values of a motor with none of before. ``index`` of its tendon, from 0."""
        self._samples[index] = None

    # --- the bus's thread

    def _run(self) -> None:
        while not self._stop.is_set():
            begin_s = self.clock()
            self._poll()
            self._stop.wait(max(SHORTEST_CYCLE_S / 4, SHORTEST_CYCLE_S - (self.clock() - begin_s)))

    def _poll(self) -> None:
        try:
            with self.lock:
                self._poll_once()
        except DeviceError as error:  # the bus is gone: the ages grow
            self.last_error = str(error)
            self._count(range(self.tendon_count), {})
            self._try_again()
        self._find_silent()
        self._round += 1

    def _count(self, asked: Iterable[int], found: Mapping[int, Sample]) -> None:
        for index in {*asked, *found}:
            self.unanswered[index] = 0 if index in found else self.unanswered[index] + 1

    def _find_silent(self) -> None:
        """Age alone says nothing: while this computer stands still nobody is asked, and the answers wait."""
        now_s = self.clock()
        for index, sample in enumerate(self._samples):
            old = sample is not None and now_s - sample[0] > _SILENT_AFTER_S
            if old and self.unanswered[index] >= _SILENT_QUESTIONS and not self.excused(index, now_s):
                self.latch(index, self.silent)

    def _poll_once(self) -> None:
        goals, asked_s = None, self.clock()
        if self.enabled and self._command is not None:
            written_s, goals = self._command
            if asked_s - written_s > self._timeout_s:
                goals = None
                self._time_out()
            self.written_s = written_s
        found = self.exchange(goals)
        stamp_s = self.clock()
        if self.watchdog and self.enabled and stamp_s - self._told_s > self._timeout_s:
            self._time_out()
        self._told_s = stamp_s
        self._count(self.questioned, found)
        if goals is not None:
            self._taken_s = self.written_s
        for index, sample in found.items():
            self._accept(index, asked_s, stamp_s, sample)
        if self._round % 10 == 0:
            self.inspect()

    def _time_out(self) -> None:
        self.enabled, self._command = False, None
        self.latch(None, RECEIVE_TIMEOUT)
        self.stand_still()

    def _accept(self, index: int, asked_s: float, stamp_s: float, sample: Sample) -> None:
        before = self._samples[index]
        if before is not None:
            moved = abs(sample.turns - before[1].turns)
            # Since it was asked before: the host may have stood still between an answer and its stamp.
            if moved > JUMP_TURNS + FASTEST_TURNS_PER_S * (stamp_s - self._sample_asked_s[index]):
                self._lost.add(index)
                self.latch(index, POSITION_JUMP)
        self._samples[index], self._sample_asked_s[index] = (stamp_s, sample), asked_s

    def _try_again(self) -> None:
        now_s = self.clock()
        if self.stepped or self._stop.is_set() or now_s < self._reconnect_s:
            return
        self._reconnect_s = now_s + RECONNECT_S
        try:
            with self.lock:
                if self._is_open:
                    self.reconnect()
                    if not self.enabled:  # switched off while the bus was gone
                        self.switch_off()
        except DeviceError as error:
            self.last_error = str(error)

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError(self.name, "is not open", "Open it first.")


class BusActuators(PolledActuators):
    """The polled base on one port of the robot file. A driver sets ``bus``, which has ``port``, ``open`` and ``close``.

    Parameters
    ----------
    robot, settings : as of :class:`PolledActuators`; the settings have ``port``
    answer_margin_s : how long an answer may take beyond its bytes, s; None: ``usual_margin_s``, or as ``stepped`` needs
    find_port : finds the port when the bus is opened, instead of that of the settings
    ask : motors in this process, which answer bytes at once, with ``stepped``: no answer is late, however busy the
        machine
    options : ``clock``, ``simulated``, ``stepped`` and ``pass_time`` of :class:`PolledActuators`
    """

    bus: Any
    usual_margin_s: float
    motor = "servo"
    """What the maker calls a motor with its electronics."""

    def identify(self, number: int) -> str:
        """What a motor says of itself, for ``continuum-robot devices``; "" where it is silent."""
        raise NotImplementedError

    def __init__(
        self,
        robot: Robot,
        settings: Any,
        *,
        answer_margin_s: float | None = None,
        find_port: Callable[[], str] | None = None,
        ask: Callable[[bytes], bytes] | None = None,
        stepped: bool = False,
        **options: Any,
    ) -> None:
        if ask is not None:
            answer_margin_s = 0.0
        elif answer_margin_s is None:
            answer_margin_s = _STEPPED_MARGIN_S if stepped else self.usual_margin_s
        super().__init__(robot, settings, name=settings.port, stepped=stepped, **options)
        self.settings, self.answer_margin_s, self.ask, self._find_port = settings, answer_margin_s, ask, find_port
        self._rounds = 0

    def open_bus(self) -> None:
        """Open the port. Raises :class:`DeviceError`."""
        if self._find_port is not None:
            self.bus.port = self._find_port()
        self.bus.open()
        self.unanswered = [0] * self.tendon_count

    def disconnect(self) -> None:
        """Close the port."""
        self.bus.close()

    def reconnect(self) -> None:
        """Open the port again."""
        self.bus.close()
        self.open_bus()

    # --- whom to ask

    def restarts(self, index: int) -> bool:
        """Whether a motor restarts by itself, and is not asked meanwhile; ``index`` of its tendon, from 0."""
        del index
        return False

    def asked(self) -> list[int]:
        """Indices of the tendons whose motors are asked in this round; silent ones only now and then, one at a time."""
        self._rounds += 1
        present = [index for index in range(self.tendon_count) if not self.restarts(index)]
        asked = [index for index in present if self.unanswered[index] < _QUIET_ROUNDS]
        quiet = [index for index in present if self.unanswered[index] >= _QUIET_ROUNDS]
        if quiet and (not asked or self._rounds % _QUIET_EVERY == 0):
            asked.append(quiet[self._rounds // _QUIET_EVERY % len(quiet)])
        self.questioned = asked
        return asked

    def heard(self) -> list[int]:
        """Indices of the tendons whose motors answered in the newest round."""
        return [index for index, count in enumerate(self.unanswered) if count == 0 and not self.restarts(index)]
