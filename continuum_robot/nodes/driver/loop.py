# SPDX-License-Identifier: Apache-2.0
"""The driver's loop while it is configured: one thread reads, publishes, checks and writes at a fixed rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.tendon_safety import SafetyOutput, TendonSafety
from continuum_robot.drivers.zeroed import ZeroedActuators
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.nodes.driver.states import StatePublisher
from continuum_robot.runtime.periodic import PeriodicThread, RealtimeSettings
from continuum_robot.runtime.reports import LoopReport
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]
Result = TypeVar("Result")


class LoopWatcher(Protocol):
    """Who is told what happens in the loop; called in its thread."""

    def on_change(self, output: SafetyOutput) -> None:
        """The safety logic changed its state or its faults."""

    def on_bus_error(self, error: ContinuumRobotError) -> None:
        """The devices could not be read or written; ``error`` says why."""

    def on_failure(self, error: BaseException) -> None:
        """The loop ended by a defect, ``error``; the torque is off."""

    def on_refused(self, sentences: Sequence[str]) -> None:
        """The system refused real-time settings, one of ``sentences`` for each."""


class DriverLoop:
    """Devices, safety logic and the thread that ties them, from one configuration to its cleanup.

    Configured, it reads and publishes with the power off. It never sends an old command again to keep a device content:
    a command's age counts from the state that it answers. What other threads change, they change by :meth:`call`;
    ``command`` and ``take_up`` are replaced as a whole.

    Parameters
    ----------
    robot : as configured
    actuators : open
    safety : of the robot
    states : prepared
    watcher : told what happens
    period_s : of a cycle, s
    realtime : what to ask of the operating system

    Attributes
    ----------
    robot, actuators, safety : as given
    tendon_count : number N of tendons
    powered : what the safety logic lets through is written
    enabled : the devices were asked to switch their torque on
    command : the newest one: tensions, shape (N,), N; when the state that it answers left, s; sequence; None for none
    take_up : tensions, shape (N,), N, written while nothing else is, None for none
    procedure : drives the tendons instead of commands, None for none
    reading : the newest one, None before the first
    publish_decimated : of the states
    """

    def __init__(
        self,
        robot: Robot,
        actuators: ZeroedActuators,
        safety: TendonSafety,
        states: StatePublisher,
        watcher: LoopWatcher,
        *,
        period_s: float,
        realtime: RealtimeSettings,
    ) -> None:
        self.robot, self.actuators, self.safety = robot, actuators, safety
        self.tendon_count = robot.tendon_count
        self.powered = self.enabled = False
        self.command: tuple[Vector, float, int] | None = None
        self.take_up: Vector | None = None
        self.procedure: ProcedureRun | None = None
        self.reading: TendonReading | None = None
        self.publish_decimated = states.publish_decimated
        self._publish, self._note_commanded = states.publish, states.note_commanded
        self._note_nothing_commanded = states.note_nothing_commanded
        self._watcher = watcher
        self._output: SafetyOutput | None = None
        self._closed = False
        self._thread = PeriodicThread(
            "tendon_driver",
            period_s,
            self._cycle,
            on_failure=self._on_failure,
            on_refused=watcher.on_refused,
            realtime=realtime,
        )

    @property
    def period_s(self) -> float:
        """Time between cycles, s."""
        return self._thread.period_s

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.running

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[[], Result], timeout_s: float = 0.5) -> Result:
        """Run ``function`` as :meth:`PeriodicThread.call`: between two cycles, at once where no thread runs."""
        return self._thread.call(function, timeout_s)

    def report(self) -> LoopReport:
        """Timing since the last :meth:`reset_statistics`."""
        return self._thread.statistics.report()

    def reset_statistics(self) -> None:
        """Start the statistics over."""
        self._thread.statistics.reset()

    def switch_on(self) -> None:
        """Enable the devices, unless an e-stop comes meanwhile; not in the thread, which goes on reading.

        What they latched while the torque was off, e.g. in a stall of this computer, is forgotten; what is wrong comes
        back.

        Raises
        ------
        DeviceError : a device cannot be enabled
        """
        # Not in the loop: a board may take a second to say that it is on, and the readings go on meanwhile.
        self.enabled = True
        self.call(self.actuators.clear_faults)
        self.actuators.enable(lambda: bool(self.safety.faults))

    def power_off(self) -> None:
        """Switch the torque off and forget what was commanded."""
        self.disable()
        self.safety.torque_off()
        self.powered = self.enabled = False
        self.command = self.take_up = None
        self._note_nothing_commanded()

    def disable(self) -> None:
        """Switch the devices' torque off, past the thread where that hangs; nothing once they are closed."""
        if not self._closed:
            self.actuators.disable()

    def stop(self) -> bool:
        """End the thread; False when it hangs."""
        return self._thread.stop()

    def close(self) -> None:
        """Switch the torque off and close the devices, after :meth:`stop`."""
        self.power_off()
        self.actuators.close()
        self._closed = True

    # In the thread

    def _cycle(self, now_s: float, elapsed_s: float) -> None:
        actuators, safety = self.actuators, self.safety
        self.publish_decimated()
        try:
            reading: TendonReading | None = actuators.read(now_s)
        except ContinuumRobotError as error:
            self._watcher.on_bus_error(error)
            reading = None
        if reading is not None:
            self.reading = reading
        state = self._publish(reading if reading is not None else self._unknown_reading(now_s))
        command, procedure = self.command, self.procedure
        if procedure is not None:
            # The procedure is the commander: what it wants was born from this reading.
            tensions = procedure.wanted(reading, elapsed_s)
            output = safety.update(reading, tensions, 0.0, now_s, elapsed_s, command_sequence=state)
        elif command is None:
            output = safety.update(reading, None, 0.0, now_s, elapsed_s)
        else:
            wanted, born_s, sequence = command
            output = safety.update(reading, wanted, now_s - born_s, now_s, elapsed_s, command_sequence=sequence)
        tension = output.tension if self.powered and output.write else self.take_up
        if tension is not None:
            try:
                actuators.write(tension, now_s)
            except ContinuumRobotError as error:
                self._watcher.on_bus_error(error)
            self._note_commanded(tension.tolist(), output.limited.tolist())
        before, self._output = self._output, output
        if output.new_faults or before is None or before.state != output.state or before.faults != output.faults:
            self._watcher.on_change(output)

    def _unknown_reading(self, now_s: float) -> TendonReading:
        """What is published when a reading fails: unknown values, as old as the last good ones."""
        unknown = np.full(self.tendon_count, np.nan)
        last = self.reading
        age = np.full(self.tendon_count, math.inf) if last is None else last.age_s + (now_s - last.stamp_s)
        return TendonReading(now_s, unknown, unknown, unknown, unknown, unknown, age, ("bus_error",))

    def _on_failure(self, error: BaseException) -> None:
        """The thread died: without it nothing watches the tendons, so the torque goes off at once."""
        self.safety.estop("internal_error")
        self.power_off()
        self._watcher.on_failure(error)


def configured(loop: DriverLoop | None) -> DriverLoop:
    """The loop, where there is one.

    Parameters
    ----------
    loop : of the driver, None while not configured

    Raises
    ------
    DeviceError : it is not configured
    """
    if loop is None:
        raise DeviceError("tendon_driver", "is not configured", "Configure it first")
    return loop
