# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle from one configuration to its cleanup: power, slack, obeying, procedures, ramps. No ROS."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.cogging import strongest_harmonic
from continuum_robot.drivers.protocols import TendonActuators, TendonReading, interrupted
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.identification.procedures.procedure import ProcedureRun, TakeUp, TakeUpSettings
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import TORQUE_OFF
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.cycle.actuators import ActuatorsAround
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.cycle.loop_reports import DeviceReports, EnabledInSteps, LoopWatcher
from continuum_robot.runtime.cycle.row import CycleRow
from continuum_robot.runtime.hang_watch import HangWatch
from continuum_robot.runtime.pace import Pace

Vector = NDArray[np.float64]


Result = TypeVar("Result")


SETTLE_TIMEOUT_S = 1.0


REST_M_PER_S = 2e-3


REST_TIME_S = 0.05


TAKE_UP_TIMEOUT_S = 10.0


SERVICE_PERIOD_S = 0.1


ENABLE_TIMEOUT_S = 60.0
"""Longer than any board's own: the alignment of its rotors."""


HANG_S = 0.5
"""Without a cycle for so long, and for twice ``limits.command_timeout_s``, the loop hangs."""


ESTOP_S = 0.2
"""Within which a cycle has latched an e-stop, or the caller is not told that one has."""


PAST_S = 0.5
"""How long a device may take to switch its torque off, or to close, past a loop that hangs."""


LARGEST_COGGING = 0.25
"""Largest force against cogging, of ``limits.maximum_n``: it is added to tensions that are limited already."""


COGGING_BANDWIDTH = 0.25
"""Frequency of a motor's strongest cogging at which nothing of it is compensated any more, of the cycle's rate."""


TAKE_UP = TakeUpSettings(rest_time_s=0.1, timeout_s=4.0)


class DriverLoop:
    """Devices, safety logic, the controller in the cycle, and the pace at which the cycle runs.

    Configured, it reads with the power off. What other threads change, they change by :meth:`call`.
    """

    def __init__(
        self,
        robot: Robot,
        actuators: TendonActuators,
        safety: TendonSafety,
        cycle: DriverCycle,
        pace: Pace,
        watcher: LoopWatcher,
        around: ActuatorsAround | None = None,
    ) -> None:
        self.robot, self.actuators, self.safety, self.cycle, self.pace = robot, actuators, safety, cycle, pace
        self.tendon_count = robot.tendon_count
        self.row = CycleRow(robot.tendon_count, robot.coordinate_count)
        self.enabled = False
        self.procedure: ProcedureRun | None = None
        self.python_paced = False
        self.rows_lost = self._rows_lost_before = 0
        self._reporting = threading.Lock()
        self._service_s = -math.inf
        self._watcher, self._around = watcher, around
        self.devices: DeviceReports = around or actuators  # type: ignore[assignment]
        self._closed = False
        limit_s = max(HANG_S, 2 * safety.limits.command_timeout_s)
        self._hang_watch = HangWatch(lambda: cycle.cycles, limit_s, self._on_hang)
        self._log = cycle.rows()
        self._seen = self._log.count
        self._faults: tuple[str, ...] = safety.faults
        self._errors = (0, 0)
        self._take_up: TakeUp | None = None
        self._take_up_error: ContinuumRobotError | None = None
        self._enabling: EnabledInSteps | None = None
        self._enable_error: ContinuumRobotError | None = None

    # --- what is known

    @property
    def powered(self) -> bool:
        """Whether what the safety logic lets through is written."""
        return self.cycle.powered

    @property
    def reading(self) -> TendonReading | None:
        """The newest reading, displacements from home; None before the first, and where the devices fail."""
        return self.cycle.newest_reading(self.devices.device_faults)

    @property
    def period_s(self) -> float:
        """Time between cycles, s."""
        return self.pace.period_s

    @property
    def running(self) -> bool:
        """Whether the cycle runs."""
        return self.pace.running

    @property
    def hangs(self) -> bool:
        """Whether a cycle does not end: nothing is watched or written, and the devices' own timeouts act."""
        return self._hang_watch.hangs

    @property
    def standing_s(self) -> float:
        """For how long no cycle has begun, s."""
        return self._hang_watch.standing_s

    # --- the cycle

    def start(self) -> None:
        """Let the cycle run."""
        self.pace.start(self.run_cycle, on_failure=self._on_failure, free=self.runs_free, on_rows=self.report_rows)
        if isinstance(self.pace, ControlThread):
            self._hang_watch.start()

    def run_cycle(self, now_s: float, elapsed_s: float, missed: int = 0) -> None:
        """One cycle, and what follows from it; the pace calls this."""
        # Read once: other threads end them.
        procedure, enabling, take_up = self.procedure, self._enabling, self._take_up
        around = self._around
        if around is not None:
            around.read(now_s)
        if procedure is not None:
            self.cycle.step_for(procedure.desired, now_s, elapsed_s, missed, self.devices.device_faults)
        else:
            self.cycle.step_once(now_s, elapsed_s, missed)
        if around is not None and not around.write(now_s):
            self.cycle.write_failed()
        self.pace.wrote(self.cycle)
        if procedure is None and enabling is not None:
            self._go_on_enabling(enabling, now_s)
        if procedure is None and take_up is not None:
            self._pull(take_up, elapsed_s)
        self.report_rows()

    def report_rows(self) -> None:
        """Tell the watcher of the cycles that ended since the last call.

        Called in the loop's thread, or in that which reads the log while the cycle runs without Python code.
        """
        with self._reporting:
            count = self._log.count
            while self._seen < count:
                row = self._log.row(self._seen)
                self._seen += 1
                if row is None:
                    self.rows_lost += 1
                else:
                    self._report(row)
            if self.rows_lost != self._rows_lost_before:
                self._rows_lost_before = self.rows_lost
                self._tell_changes()  # one of them may have changed something
        # Not with the lock held: the loop's thread may wait for it.
        if self.devices.needs_service() and self.pace.now_s() >= self._service_s:
            self._service_s = self.pace.now_s() + SERVICE_PERIOD_S
            with contextlib.suppress(DeviceError):  # the loop ends just now
                self.call(lambda: self.devices.service(self.pace.now_s()))

    def report_newest(self, error: ContinuumRobotError | None) -> None:
        """Cycles have run elsewhere, see :class:`.VirtualRun`: tell the watcher of the newest, and of what the devices
        had.
        """
        self._seen = max(self._seen, self._log.count - 1)
        if self._around is not None:
            self._around.error = error
        self.report_rows()

    def _report(self, row: list[float]) -> None:
        watcher, failures = self._watcher, self.cycle.failures
        watcher.on_row(row)
        if failures != self._errors:
            self._errors = failures
            if self.devices.error is not None:
                watcher.on_bus_error(self.devices.error)
        if row[self.row.changed]:
            self._tell_changes()

    def _tell_changes(self) -> None:
        faults = self.safety.faults
        added = [name for name in faults if name not in self._faults]
        self._faults = faults
        self._watcher.on_change(added)

    def runs_free(self) -> bool:
        """Whether the cycle needs no Python code now."""
        return not (self.procedure or self._take_up or self._enabling or self.python_paced)

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:
        """Run ``function`` between two cycles, at once where none runs, and give its result."""
        return self.pace.call(function, timeout_s)

    def estop(self, reason: str, *, held: bool = False, release: bool = False) -> bool:
        """Latch the e-stop in the next cycle, which needs nothing of Python for it."""
        safety = self.safety
        if isinstance(self.pace, ControlThread) and self.running:
            safety.ask_estop(reason, held=held, release=release)
            if self.pace.wait(lambda: not safety.estop_asked, 0.0 if self.hangs else ESTOP_S):
                return True
            if self.running:
                return False
        self.call(lambda: safety.estop(reason, held=held, release=release))  # no cycle comes by itself
        return True

    def _on_hang(self) -> None:
        if self.hangs and (self.powered or self.enabled):
            self.safety.hang_seen = True  # the cycle latches it if it goes on
        self._watcher.on_hang()

    # --- power

    def switch_on(self) -> None:
        """Enable the devices, unless an e-stop comes meanwhile; the cycle goes on reading.

        What they latched while the torque was off, e.g. in a stall of this computer, is forgotten; what is wrong comes
        back.
        """
        actuators = self.actuators
        self.enabled = True
        self.call(actuators.clear_faults)
        if not isinstance(actuators, EnabledInSteps) or not self.running:
            actuators.enable(lambda: bool(self.safety.faults))
            return
        if self.safety.faults:
            raise interrupted("tendon actuators")

        def begin() -> None:
            actuators.begin_enable(self.pace.now_s())
            self._enable_error, self._enabling = None, actuators

        self.call(begin)
        ended = self.pace.wait(lambda: self._enabling is None or bool(self.safety.faults), ENABLE_TIMEOUT_S)
        if self._enable_error is not None:
            raise self._enable_error
        if not ended or self._enabling is not None:
            self._enabling = None
            self.call(actuators.disable)
            raise interrupted("tendon actuators")

    def _go_on_enabling(self, actuators: EnabledInSteps, now_s: float) -> None:
        try:
            if actuators.continue_enable(now_s):
                self._enabling = None
        except ContinuumRobotError as error:
            self._enable_error, self._enabling = error, None

    def take_up_slack(self, fraction: float, warn: Callable[[str], object]) -> None:
        """Pull all tendons in slowly until they rest, with a tension that falls to zero at a low speed.

        A tendon that is slack when the controller begins would be pulled in at full speed, and jerk when it is tight.
        More than the safe tension may be needed, since friction and cogging hold a motor against it. Whether it worked
        is checked by :meth:`obey`, which says what is wrong when it did not. Servos that take displacements hold their
        place instead: their controller pulls in, at the speed of the limits.
        """
        safety, limits, count = self.safety, self.safety.limits, self.tendon_count
        if safety.faults:
            return
        if not isinstance(limits, TensionLimits):
            self.pace.wait(lambda: self.reading is not None or bool(safety.faults), TAKE_UP_TIMEOUT_S)
            return
        even_n = min(limits.maximum_n, limits.total_n / count)
        level_n = max(limits.safe_n, limits.minimum_n, fraction * even_n)
        self._take_up_error = None

        def begin() -> None:
            self._take_up = TakeUp(np.full(count, level_n), self.robot.tendon_names, TAKE_UP)

        self.call(begin)
        self.pace.wait(lambda: self._take_up is None or bool(safety.faults), TAKE_UP_TIMEOUT_S)

        def end() -> None:
            self._take_up = None

        self.call(end)
        if self._take_up_error is not None:
            warn(str(self._take_up_error))

    def _pull(self, take_up: TakeUp, elapsed_s: float) -> None:
        if self.safety.faults:  # the cycle has switched the torque off
            self._take_up = None
            return
        reading = self.cycle.newest_reading()
        if reading is None or not np.isfinite(reading.velocity_m_per_s).all():
            return
        try:
            tension, tight = take_up.update(reading, elapsed_s)
        except ContinuumRobotError as error:
            self._take_up_error, tight = error, True
        else:
            self.cycle.take_up(tension.tolist())
        if tight:
            self._take_up = None

    def obey(self) -> None:
        """Obey commands from now on; the first ones are what is measured. Raises :class:`DeviceError`."""

        def begin() -> None:
            now_s = self.pace.now_s()
            self.safety.activate(self._newest(), now_s)
            self.cycle.power(on=True)
            self.cycle.take_up(None)

        self.call(begin)

    def ramp_down(self, warn: Callable[[str], object]) -> None:
        """Release the tendons and let the robot come to rest: a bounded time; nothing if ``stop`` has it so."""
        if self.robot.stop.deactivation == TORQUE_OFF:
            return
        safety, limits = self.safety, self.safety.limits
        self.call(safety.deactivate)
        if not self.pace.wait(lambda: safety.released, limits.longest_ramp_s + 0.5):
            warn("the tendons were not released in time; the torque goes off now")
            return
        quiet_s = [self.pace.now_s()]

        def rests() -> bool:
            if not _at_rest(self.cycle.newest_reading()):
                quiet_s[0] = self.pace.now_s()
            return self.pace.now_s() - quiet_s[0] > REST_TIME_S

        self.pace.wait(rests, SETTLE_TIMEOUT_S)

    def power_off(self) -> None:
        """Switch the torque off and forget what was commanded; by :meth:`call` while the cycle runs."""
        self.disable()
        self._take_up = self._enabling = None
        self.safety.torque_off()
        self.cycle.power(on=False)
        self.enabled = False

    def hold_tensions(self, *, on: bool) -> None:
        """Hold the commands as they are in place of the controller, or let it command again; without a jump."""
        self.call(lambda: self.cycle.hold_now(on=on, now_s=self.pace.now_s()))

    # --- cogging

    def feed_cogging_forward(self, force_n: Vector, m_per_turn: Vector) -> None:
        """Let the cycle know the cogging of the motors; it is compensated once it is switched on."""
        if self.robot.takes_displacements:
            raise ParameterError("cogging", "on", "off: servos that take displacements compensate it by their own loop")
        largest_n = float(np.abs(force_n).max(initial=0.0))
        allowed_n = LARGEST_COGGING * self.safety.limits.maximum_n
        if not largest_n <= allowed_n:
            expected = f"at most {allowed_n:g} N, {LARGEST_COGGING:g} of limits.maximum_n; calibrate again"
            raise ParameterError("force_n", largest_n, expected)
        lag_s = 0.0 if self.robot.actuators is None else self.robot.actuators.current_time_constant_s
        # A command is held for a period: its middle is half of it later, and the current follows with its lag.
        lead_s = 0.5 * self.period_s + lag_s
        fastest = [
            COGGING_BANDWIDTH / self.period_s * abs(float(length)) / strongest_harmonic(row)
            for row, length in zip(force_n, m_per_turn, strict=True)
        ]
        self.call(lambda: self.cycle.cogging.set_table(force_n.tolist(), m_per_turn.tolist(), lead_s, fastest))

    def compensate_cogging(self, *, on: bool) -> None:
        """Compensate the motors' cogging from now on or no longer, without a jump."""
        self.call(lambda: self.cycle.cogging.switch(on=on))

    def disable(self) -> None:
        """Switch the devices' torque off, past the loop where that hangs; nothing once they are closed."""
        if not self._closed:
            self.actuators.disable()

    def past(self, function: Callable[[], object]) -> bool:
        """Do something with the devices past a loop that hangs; False where they did not answer in time either."""
        done = threading.Event()

        def do() -> None:
            with contextlib.suppress(ContinuumRobotError):
                function()
                done.set()

        threading.Thread(target=do, name="past the loop", daemon=True).start()
        return done.wait(PAST_S)

    # --- procedures

    def begin_procedure(self, run: ProcedureRun) -> None:
        """Let a procedure drive the tendons, without a jump; displacements count from the devices' own zero."""

        def begin() -> None:
            zero = self.cycle.zero
            self.cycle.set_zero([0.0] * self.tendon_count)
            try:
                run.begin(self._newest(from_m=np.array(zero)), self.pace.now_s())
            except BaseException:
                self.cycle.set_zero(zero)
                raise
            self.cycle.power(on=True)
            self.procedure = run

        self.call(begin)

    def end_procedure(self, run: ProcedureRun, zero_m: Sequence[float]) -> None:
        """Switch the torque off after a procedure; what was read until now counts from another zero: no jump."""

        def end() -> None:
            self.power_off()
            self.procedure = None
            self.cycle.set_zero(zero_m)
            run.restore()
            self.safety.torque_off()

        self.call(end)

    # --- the end

    def stop(self) -> bool:
        """Let no further cycle run; False when the one under way hangs. Safe to call twice."""
        self._hang_watch.end()
        return self.pace.stop()

    def close(self) -> None:
        """Switch the torque off and close the devices, after :meth:`stop`."""
        self.power_off()
        self.actuators.close()
        self._closed = True

    # --- helpers

    def _newest(self, from_m: Vector | None = None) -> TendonReading:
        reading = self.reading
        if reading is None:
            raise DeviceError("tendon_driver", "the devices cannot be read", "Check their bus and supply")
        return reading if from_m is None else replace(reading, displacement_m=reading.displacement_m + from_m)

    def _on_failure(self, error: BaseException) -> None:
        """The loop died: without it nothing watches the tendons, so the torque goes off at once."""
        self._hang_watch.end()
        self.safety.estop("internal_error", release=True)
        try:
            self.power_off()
        finally:
            self._watcher.on_failure(error)


def _at_rest(reading: TendonReading | None) -> bool:
    return reading is not None and bool(np.all(np.abs(reading.velocity_m_per_s) < REST_M_PER_S))
