# SPDX-License-Identifier: Apache-2.0
"""Motors of different kinds, or at different ports, as the actuators of one robot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonActuators, TendonReading, interrupted, never
from continuum_robot.drivers.reconnection import open_all
from continuum_robot.errors import ContinuumRobotError, ParameterError

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
