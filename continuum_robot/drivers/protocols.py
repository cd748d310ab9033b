# SPDX-License-Identifier: Apache-2.0
"""What a device driver offers to the nodes. A protocol for each kind of device; simulators and hardware implement it.

The meaning of the calls follows the lifecycle of the nodes: ``open`` starts communication (configure), ``enable``
switches torque on (activate), ``disable`` switches it off (deactivate), ``close`` ends communication (cleanup).
Time is passed in: ``now_s`` is monotonic time, or virtual time in a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError, DeviceError

Vector = NDArray[np.float64]
Aborted = Callable[[], bool]


def never() -> bool:
    """What asks whether it shall stop, of who is never stopped."""
    return False


def interrupted(device: str) -> DeviceError:
    """The error of devices that were stopped while they were being switched on.

    Parameters
    ----------
    device : what they are
    """
    return DeviceError(
        device, "were stopped while they were being switched on", "Remove the cause, reset it, then activate again."
    )


@dataclass(frozen=True, slots=True)
class TendonReading:
    """One reading of all tendon actuators; arrays of shape (tendons,), NaN where unknown.

    Attributes
    ----------
    stamp_s : when it was acquired, on the clock of ``now_s``
    displacement_m : > 0 where the tendon is pulled in
    velocity_m_per_s : its rate
    tension_n : tension as the actuator knows it
    current_a : motor current
    temperature_c : motor temperature, degree Celsius
    age_s : age of each tendon's values at ``stamp_s``
    device_faults : names of faults that the devices report, empty when all is well
    """

    stamp_s: float
    displacement_m: Vector
    velocity_m_per_s: Vector
    tension_n: Vector
    current_a: Vector
    temperature_c: Vector
    age_s: Vector
    device_faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StringReading:
    """One reading of all string encoders; arrays of shape (strings,), NaN where unknown.

    Attributes
    ----------
    stamp_s : when it was acquired, on the clock of ``now_s``
    extension_m : 0 at the straight configuration, > 0: the string left the robot's body
    age_s : age of each value at ``stamp_s``
    device_faults : names of faults that the devices report, empty when all is well
    """

    stamp_s: float
    extension_m: Vector
    age_s: Vector
    device_faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForceReading:
    """One reading of a force-torque sensor.

    Attributes
    ----------
    stamp_s : when it was acquired, on the clock of ``now_s``
    wrench : force (N), then moment (N.m), in the sensor's frame; shape (6,), NaN where unknown
    age_s : its age when it was asked for
    temperature_c : of the sensor, degree Celsius, NaN where unknown
    device_faults : names of faults that the sensor reports, empty when all is well
    """

    stamp_s: float
    wrench: Vector
    age_s: float
    temperature_c: float
    device_faults: tuple[str, ...] = ()


@runtime_checkable
class TendonActuators(Protocol):
    """All tendon actuators of a robot behind one bus or several.

    They take tensions, or, where the robot file says ``actuators.command: displacement``, displacements:
    :class:`DisplacementActuators`. Everything else is the same.

    Attributes
    ----------
    simulated : whether they are
    tendon_count : N
    """

    simulated: bool
    tendon_count: int

    def open(self) -> None:
        """Start communication and shake hands. Raises :class:`DeviceError` naming every missing device."""

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on without a motion: the first tension is written before anything moves, or the servos hold
        the place where they are.

        Parameters
        ----------
        aborted : asked before anything is switched on and while devices are waited for; once it is true, nothing more
            is switched on and all that was is off

        Raises
        ------
        DeviceError : a device cannot be enabled, or it was aborted
        """

    def read(self, now_s: float) -> TendonReading:
        """The newest reading; never blocks longer than a cycle, never serves old values without their age."""

    def write(self, tension_n: Vector, now_s: float) -> None:
        """Send a tension (N) to every tendon; finite values only."""

    def disable(self) -> None:
        """Switch torque off. Safe to call at any time."""

    def close(self) -> None:
        """End communication. Safe to call at any time."""

    def clear_faults(self) -> None:
        """Clear faults that the devices latch."""


@runtime_checkable
class DisplacementActuators(TendonActuators, Protocol):
    """Tendon actuators that hold displacements by a loop of their own.

    Attributes
    ----------
    takes_displacements : True
    """

    takes_displacements: bool

    def write(self, displacement_m: Vector, now_s: float) -> None:
        """Send a displacement (m, counted as in :class:`TendonReading`) to every tendon; finite values only."""


@runtime_checkable
class SteppedWith(Protocol):
    """Simulated actuators that a form of the cycle can move."""

    def step_with(self, parts: Any) -> None:
        """Take the ``parts`` of a form that suit them."""


@runtime_checkable
class RunsInCycle(Protocol):
    """Tendon actuators that the control cycle reads and writes itself, in whichever form it runs: the fast path.

    The modules of its folder that the compiled form needs stand in ``CYCLE_MODULES`` of the folder's ``device``, each
    behind those that it imports.

    Attributes
    ----------
    cycle : a :class:`~continuum_robot.drivers.cycle_device.CycleDevice` of that form
    compiled : whether that is the compiled form
    error : why the newest reading or writing failed, None where both worked
    """

    cycle: Any
    compiled: bool
    error: ContinuumRobotError | None

    @property
    def device_faults(self) -> tuple[str, ...]:
        """Names of the faults that the devices report."""

    def needs_service(self) -> bool:
        """Whether something should be done for the devices between two cycles."""

    def service(self, now_s: float) -> None:
        """Do it; ``now_s``: on the clock of the cycle, s."""


@runtime_checkable
class CountsFromPowerOn(Protocol):
    """Tendon actuators that forget where they stood when they lose their power, and that know it."""

    @property
    def aligned(self) -> bool:
        """Whether all devices were in use since their power-on, so that an earlier homing may still hold."""

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """Which tendons' positions restarted or jumped since :meth:`TendonActuators.open`, shape (N,)."""

    def counters(self) -> dict[str, dict[str, Any]]:
        """Counters of every channel, by its name, for the diagnostics."""


@runtime_checkable
class StringEncoders(Protocol):
    """All string encoders of a robot."""

    simulated: bool
    string_count: int

    def open(self) -> None:
        """Start communication. Raises :class:`DeviceError`."""

    def read(self, now_s: float) -> StringReading:
        """The newest reading; never blocks longer than a cycle."""

    def close(self) -> None:
        """End communication. Safe to call at any time."""


@runtime_checkable
class SetsZero(Protocol):
    """String encoders that keep their zero themselves."""

    @property
    def zeroed(self) -> bool:
        """Whether it was set since their power-on."""

    def request_zero(self) -> None:
        """Have them count from here; :attr:`zeroed` is true once they do."""


@runtime_checkable
class CountsFrames(Protocol):
    """A sensor that counts what it received."""

    def statistics(self) -> dict[str, float]:
        """Counters by name, for the diagnostics."""


@dataclass(frozen=True, slots=True)
class TrackedPose:
    """When a tip was seen, s, and its frame in the base frame, shape (4, 4).

    Attributes
    ----------
    time_s : s
    tip : shape (4, 4), m
    """

    time_s: float
    tip: Vector


@runtime_checkable
class Tracker(Protocol):
    """A tracker of the tip."""

    simulated: bool

    def open(self) -> None:
        """Start communication and tracking. Raises :class:`DeviceError`."""

    def read(self, now_s: float) -> TrackedPose | None:
        """A pose that was not read before; None where there is none. Raises :class:`DeviceError`."""

    def close(self) -> None:
        """End communication. Safe to call at any time."""


@runtime_checkable
class ForceSensor(Protocol):
    """A force-torque sensor.

    Attributes
    ----------
    simulated : whether it is
    frame_id : name of the frame in which it measures
    """

    simulated: bool
    frame_id: str

    def open(self) -> None:
        """Start communication and set the sensor up. Raises :class:`DeviceError`."""

    def read(self, now_s: float) -> ForceReading:
        """The newest reading; never blocks longer than a cycle. Raises :class:`DeviceError`."""

    @property
    def taring(self) -> bool:
        """Whether a tare is on its way: it ends after as many readings as it was asked to average."""

    @property
    def tare_problem(self) -> str:
        """Why the last tare changed nothing; empty where it did."""

    def start_tare(self, samples: int = 200) -> None:
        """From now on measure from the mean of the next ``samples`` samples. Raises :class:`DeviceError`."""

    def close(self) -> None:
        """End communication. Safe to call at any time."""


@dataclass(frozen=True, slots=True)
class TensionReading:
    """Tensions that sensors at the tendons measured.

    Attributes
    ----------
    stamp_s : of the oldest value that is known, s
    tension_n : shape (N,), N; NaN for a tendon without a sensor, and where it is not known
    device_faults : what is wrong with sensors, each with its tendon
    """

    stamp_s: float
    tension_n: Vector
    device_faults: tuple[str, ...] = ()


@runtime_checkable
class TensionSensors(Protocol):
    """Sensors that measure tendons' tensions: load cells.

    Attributes
    ----------
    simulated : whether they are
    tendon_count : N, of the robot; some may have no sensor
    """

    simulated: bool
    tendon_count: int

    def open(self) -> None:
        """Start communication. Raises :class:`DeviceError` naming every missing sensor."""

    def read(self, now_s: float) -> TensionReading:
        """The newest tensions; never blocks longer than a cycle. A sensor that is gone is NaN and a fault."""

    def close(self) -> None:
        """End communication. Safe to call at any time."""
