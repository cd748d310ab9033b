# SPDX-License-Identifier: Apache-2.0
"""The actuators of one robot from motors of different kinds or ports, with a transmission or tension sensors."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import (
    Aborted,
    CountsFrames,
    TendonActuators,
    TendonReading,
    TensionSensors,
    interrupted,
    never,
)
from continuum_robot.drivers.reconnection import open_all
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.robot.coupling import Coupling

Vector = NDArray[np.float64]

WAIT_S = 0.002
LONGEST_END_S = 2.0
_NAME = "tendon actuators"


class JoinedActuators:
    """Several devices, each with some of the tendons, or of a transmission's motors.

    - All are opened, or none. Whatever ends something, of torque or communication, is done to all of them, also where
      one raises.
    - Torque is switched on in steps: in the thread of the caller for boards that can, else in one of each device. One
      that is on before the others stays without tension, or where it stands, and is told so: its own timeout runs.
    - A reading has the newest stamp of all, and each value its age then. A device that cannot be read is a fault with
      the reason, and its values are unknown; the others go on.
    """

    def __init__(
        self,
        devices: Sequence[TendonActuators],
        numbers: Sequence[Sequence[int]],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        stepped: bool = False,
    ) -> None:
        self.devices: Sequence[Any] = tuple(devices)
        self._places = [np.array(given) - 1 for given in numbers]
        for index, (device, places) in enumerate(zip(self.devices, self._places, strict=True)):
            if device.tendon_count != places.size:
                expected = f"{places.size} channels of its driver, one for each of its motors"
                raise ParameterError(f"hardware.tendon_actuators[{index}].motors", device.tendon_count, expected)
        self.simulated = all(device.simulated for device in devices)
        self.tendon_count = sum(device.tendon_count for device in devices)
        self.takes_displacements = bool(getattr(devices[0], "takes_displacements", False))
        self._clock, self._sleep, self._stepped = clock, sleep, stepped
        self._enabling: dict[int, Future[None] | None] = {}  # by index, of devices that are not on yet
        self._rest: dict[int, Vector] = {}  # by index, what those hold that are
        self._aborted = Event()
        self._all_on = self._was_on = False

    # --- the protocol

    def open(self) -> None:
        """Open all. Raises :class:`DeviceError` naming every one that cannot be opened; all are closed then."""
        try:
            open_all(self.devices, _NAME)
        except BaseException:
            self.close()
            raise

    def enable(self, aborted: Aborted = never) -> None:
        if aborted():
            raise interrupted(_NAME)
        self.begin_enable(self._clock())
        while not self.continue_enable(self._clock()):
            if aborted():
                self.disable()
                raise interrupted(_NAME)
            self._sleep(WAIT_S)
            self.read(self._clock())  # takes what boards sent, and lets simulated ones live

    def begin_enable(self, now_s: float) -> None:
        """Begin to switch torque on, without waiting; :meth:`continue_enable` goes on. Raises :class:`DeviceError`."""
        self._aborted, self._rest, self._was_on = Event(), {}, self._all_on
        self._enabling = dict.fromkeys(range(len(self.devices)))
        others = [index for index, device in enumerate(self.devices) if not hasattr(device, "begin_enable")]
        try:
            for index in set(self._enabling) - set(others):
                self.devices[index].begin_enable(now_s)
        except BaseException:
            self.disable()
            raise
        if others and not self._stepped:
            pool = ThreadPoolExecutor(len(others), "enable")
            for index in others:
                self._enabling[index] = pool.submit(self.devices[index].enable, self._aborted.is_set)
            pool.shutdown(wait=False)

    def continue_enable(self, now_s: float) -> bool:
        """Go on, every few milliseconds; whether all are on."""
        if self._aborted.is_set():
            raise interrupted(_NAME)
        try:
            for index, future in list(self._enabling.items()):
                if self._is_on(index, future, now_s):
                    del self._enabling[index]
                    zero = np.zeros(self._places[index].size)
                    held = self.devices[index].read(now_s).displacement_m if self.takes_displacements else zero
                    self._rest[index] = held
            for index, held in self._rest.items() if self._enabling and not self._was_on else ():
                if np.isfinite(held).all():
                    self.devices[index].write(held, now_s)
        except BaseException:
            self.disable()
            raise
        self._all_on = not self._enabling
        return self._all_on

    def _is_on(self, index: int, future: Future[None] | None, now_s: float) -> bool:
        device = self.devices[index]
        if hasattr(device, "begin_enable"):
            return bool(device.continue_enable(now_s))
        if future is not None:
            if future.done():
                future.result()
            return future.done()
        if any(hasattr(self.devices[other], "begin_enable") for other in self._enabling):
            return False  # they take time, and this device would wait
        device.enable(self._aborted.is_set)
        return True

    def read(self, now_s: float) -> TendonReading:
        """The newest reading of all, at ``now_s`` (s). Raises what the first raised where none can be read."""
        found: list[TendonReading] = []
        errors: list[ContinuumRobotError] = []
        for device in self.devices:
            try:
                found.append(device.read(now_s))
            except ContinuumRobotError as error:
                errors.append(error)
                found.append(_unknown(device.tendon_count, error))
        if len(errors) == len(found):
            raise errors[0]
        stamp_s = max(one.stamp_s for one in found)
        rows = np.empty((6, self.tendon_count))
        for places, one in zip(self._places, found, strict=True):
            rows[:, places] = (
                one.displacement_m,
                one.velocity_m_per_s,
                one.tension_n,
                one.current_a,
                one.temperature_c,
                one.age_s + (stamp_s - one.stamp_s),
            )
        displacement, velocity, tension, current, temperature, age = rows
        faults = tuple(fault for one in found for fault in one.device_faults)
        return TendonReading(stamp_s, displacement, velocity, tension, current, temperature, age, faults)

    def write(self, command: Vector, now_s: float) -> None:
        """Send tensions (N) or displacements (m) at ``now_s`` (s), to every device also where one raises."""
        given = np.asarray(command, dtype=float)
        if given.shape != (self.tendon_count,) or not np.isfinite(given).all():
            raise ParameterError("command", command, f"{self.tendon_count} finite values")
        with ExitStack() as all_of_them:
            for device, places in zip(self.devices, self._places, strict=True):
                all_of_them.callback(device.write, given[places], now_s)

    def disable(self) -> None:
        self._aborted.set()
        self._all_on = False
        begun = [future for future in self._enabling.values() if future is not None and not future.done()]
        try:
            self._on_all("disable")
        finally:
            if begun:
                wait(begun, LONGEST_END_S)
                self._on_all("disable")

    def close(self) -> None:
        self._aborted.set()
        self._all_on = False
        self._on_all("close")

    def clear_faults(self) -> None:
        self._on_all("clear_faults")

    def _on_all(self, method: str) -> None:
        with ExitStack() as all_of_them:
            for device in reversed(self.devices):
                all_of_them.callback(getattr(device, method))

    # --- what devices know that count from their power-on

    @property
    def aligned(self) -> bool:
        return all(getattr(device, "aligned", True) for device in self.devices)

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        lost = np.zeros(self.tendon_count, dtype=bool)
        for device, places in zip(self.devices, self._places, strict=True):
            lost[places] = getattr(device, "zero_lost", False)
        return lost

    def counters(self) -> dict[str, dict[str, Any]]:
        return {
            name: counts for one in self.devices if hasattr(one, "counters") for name, counts in one.counters().items()
        }


def _unknown(count: int, error: ContinuumRobotError) -> TendonReading:
    """Of a device that cannot be read."""
    nothing = np.full(count, math.nan)
    return TendonReading(
        -math.inf, nothing, nothing, nothing, nothing, nothing, np.full(count, math.inf), (str(error),)
    )


class Around:
    """Actuators around others, which pass on what they do not change."""

    def __init__(self, actuators: TendonActuators) -> None:
        self.actuators: Any = actuators
        self.simulated, self.tendon_count = actuators.simulated, actuators.tendon_count
        self.takes_displacements = bool(getattr(actuators, "takes_displacements", False))

    def open(self) -> None:
        self.actuators.open()

    def enable(self, aborted: Aborted = never) -> None:
        self.actuators.enable(aborted)

    def read(self, now_s: float) -> TendonReading:
        reading: TendonReading = self.actuators.read(now_s)
        return reading

    def write(self, command: Vector, now_s: float) -> None:
        self.actuators.write(command, now_s)

    def disable(self) -> None:
        self.actuators.disable()

    def close(self) -> None:
        self.actuators.close()

    def clear_faults(self) -> None:
        self.actuators.clear_faults()

    @property
    def aligned(self) -> bool:
        """As the actuators'; True of those that do not count from their power-on."""
        return bool(getattr(self.actuators, "aligned", True))

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        """As the actuators'; False of those that do not count from their power-on."""
        return np.broadcast_to(getattr(self.actuators, "zero_lost", False), (self.actuators.tendon_count,))

    def counters(self) -> dict[str, dict[str, Any]]:
        """As the actuators'."""
        return dict(self.actuators.counters()) if hasattr(self.actuators, "counters") else {}


class MeasuredTensions(Around):
    """Actuators and tension sensors as one: all but the tensions is the actuators'.

    A tendon with a sensor has its value, or NaN while that is not known: never the motor's guess in its place. Only a
    tendon without a sensor keeps what the motor reports.
    """

    def __init__(self, actuators: TendonActuators, sensors: TensionSensors) -> None:
        super().__init__(actuators)
        self.sensors = sensors
        self._measured = np.zeros(sensors.tendon_count, dtype=bool)

    def open(self) -> None:
        """Open the sensors, then the actuators. Raises :class:`DeviceError`; all are closed then."""
        self.sensors.open()
        try:
            self.actuators.open()
        except BaseException:
            self.sensors.close()
            raise

    def read(self, now_s: float) -> TendonReading:
        reading: TendonReading = self.actuators.read(now_s)
        try:
            found = self.sensors.read(now_s)
        except DeviceError as error:
            tension, faults = np.full_like(reading.tension_n, np.nan), tuple[str, ...]((str(error),))
        else:
            tension, faults = found.tension_n, found.device_faults
        self._measured |= np.isfinite(tension)
        return dataclasses.replace(
            reading,
            tension_n=np.where(self._measured, tension, reading.tension_n),
            device_faults=(*reading.device_faults, *faults),
        )

    def close(self) -> None:
        self.actuators.close()
        self.sensors.close()

    def counters(self) -> dict[str, dict[str, Any]]:
        found = super().counters()
        if isinstance(self.sensors, CountsFrames):
            found["tension_sensors"] = dict(self.sensors.statistics())
        return found


REFUSED = "transmission: command refused"
"""How the fault begins that a command latches which the motors cannot make."""


class Transmitted(Around):
    """N tendons behind M motors: q = T y + q0, tau = T^T F (:class:`~continuum_robot.robot.coupling.Coupling`).

    - A tendon's values are as old as the oldest of its motors, and as warm as the warmest. Its current is that of the
      motor that moves it most, positive where that pulls it in; each motor's is some tendon's.
    - Its tension follows from the motors' loads, and where these leave it open from the preload, or is NaN.
    - A command of displacements that no motion of the motors makes is refused, and latches a fault with the reason.
    """

    def __init__(self, actuators: TendonActuators, coupling: Coupling) -> None:
        super().__init__(actuators)
        self.coupling = coupling
        matrix = coupling.matrix
        if actuators.tendon_count != matrix.shape[1]:
            raise ParameterError("actuators", actuators.tendon_count, f"{matrix.shape[1]} motors of the transmission")
        self.tendon_count = len(matrix)
        self._turned_m = np.zeros(matrix.shape[1])
        self._refused: str = ""

    def read(self, now_s: float) -> TendonReading:
        found: TendonReading = self.actuators.read(now_s)
        coupling, turned = self.coupling, found.displacement_m
        self._turned_m = np.where(np.isfinite(turned), turned, self._turned_m)
        radius = coupling.radius(turned)
        return dataclasses.replace(
            found,
            displacement_m=coupling.tendons(coupling.wound(turned)),
            velocity_m_per_s=coupling.moved(radius * found.velocity_m_per_s),
            tension_n=coupling.loads(found.tension_n / radius),
            current_a=coupling.each_tendons(found.current_a),
            temperature_c=np.fmax.reduce(np.where(coupling.moves, found.temperature_c, np.nan), axis=1),
            age_s=np.where(coupling.moves, found.age_s, 0.0).max(axis=1),
            device_faults=(*found.device_faults, *filter(None, (self._refused,))),
        )

    def write(self, command: Vector, now_s: float) -> None:
        """Send displacements (m), or tensions (N) where the motors take these, of the tendons at ``now_s`` (s)."""
        given, coupling = np.asarray(command, dtype=float), self.coupling
        if given.shape != (self.tendon_count,) or not np.isfinite(given).all():
            raise ParameterError("command", command, f"{self.tendon_count} finite values")
        if not self.takes_displacements:
            self.actuators.write(coupling.forces(given) * coupling.radius(self._turned_m), now_s)
            return
        try:
            turned = coupling.turned(coupling.motors(given))
        except ParameterError as error:
            self._refused = f"{REFUSED}: {error}"
            raise
        self.actuators.write(turned, now_s)

    def clear_faults(self) -> None:
        self._refused = ""
        self.actuators.clear_faults()

    @property
    def zero_lost(self) -> NDArray[np.bool_]:
        return np.asarray((self.coupling.moves & super().zero_lost).any(axis=1))


class TransmittedBoards(Transmitted):
    """The same of motor boards, whose torque is switched on in many short steps."""

    def begin_enable(self, now_s: float) -> None:
        """As the actuators', at ``now_s`` (s)."""
        self.actuators.begin_enable(now_s)

    def continue_enable(self, now_s: float) -> bool:
        """As the actuators', at ``now_s`` (s)."""
        return bool(self.actuators.continue_enable(now_s))


def transmitted(actuators: TendonActuators, coupling: Coupling | None) -> TendonActuators:
    """Actuators of the tendons behind a transmission; the same actuators where there is none."""
    if coupling is None:
        return actuators
    kind = TransmittedBoards if hasattr(actuators, "begin_enable") else Transmitted
    return cast("TendonActuators", kind(actuators, coupling))
