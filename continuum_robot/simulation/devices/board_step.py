# SPDX-License-Identifier: Apache-2.0
"""A step of a rod's motors, and a sample of them, where nothing is out of the ordinary. Stepped code.

What :class:`~continuum_robot.simulation.plant.Plant` and its board do with arrays, to the same bits, in a tenth of the
time. It is used compiled alone: interpreted, arrays are faster.
"""

from __future__ import annotations

from typing import Any

import cython

from continuum_robot.drivers.cycle_device import CycleDevice
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.rod.kernel.call import memory_of
from continuum_robot.stepped.buffers import UNKNOWN, copy_into, indices, stepped


@cython.cclass
class BoardStep(CycleDevice):
    """Works on the plant's own arrays, of N tendons each. Lent to the cycle itself, it is the device there."""

    now_s = cython.declare(cython.double, visibility="readonly")
    plant_s = cython.declare(cython.double, visibility="readonly")
    written_s = cython.declare(cython.double, visibility="readonly")
    solved = cython.declare(cython.bint, visibility="readonly")
    samples = cython.declare(cython.longlong, visibility="readonly")
    kept_count = cython.declare(cython.longlong, visibility="readonly")
    longest_step_s: cython.double
    draws_a: cython.double[::1]
    draw_count: cython.longlong
    kept: cython.double[::1]
    kept_most: cython.longlong
    tendon_count: cython.int
    size: cython.int
    command: cython.double[::1]
    newton_per_ampere: cython.double[::1]
    asked: cython.double[::1]
    allowed: cython.double[::1]
    motor: cython.longlong[::1]
    ratio: cython.double[::1]
    gain: cython.double[::1]
    zero_a: cython.double[::1]
    slack_m: cython.double[::1]
    wired: cython.bint
    desired: cython.double[::1]
    forces: cython.double[::1]
    given_force: cython.double[::1]
    share: cython.double[::1]
    offset_m: cython.double[::1]
    stiffness_fraction: cython.double[::1]
    motor_free: cython.double[::1]
    largest_a: cython.double[::1]
    plant_offset_m: cython.double[::1]
    plant_stiffness: cython.double[::1]
    plant_free: cython.double[::1]
    plant_largest_a: cython.double[::1]
    spooled_m: cython.double[::1]
    current_a: cython.double[::1]
    resolution_m: cython.double[::1]
    noise_a: cython.double[::1]
    previous_m: cython.double[::1]
    rate: cython.double[::1]
    found: cython.double[::1]
    filter_s: cython.double
    _run: cython.size_t
    _shape: cython.size_t
    _plant: cython.size_t
    _shortest: cython.size_t

    def __init__(self, arrays: Any, addresses: Any, filter_s: float, *, wired: bool) -> None:
        """``addresses``: of rod_plant_run, and of its first, second and last argument. ``wired``: motors and tendons
        are not what the driver believes, see :class:`.Wiring`.
        """
        self.command, self.newton_per_ampere = memory_of(arrays["command"]), memory_of(arrays["newton_per_ampere"])
        self.asked, self.desired = memory_of(arrays["asked"]), memory_of(arrays["desired"])
        self.forces, self.given_force = memory_of(arrays["forces"]), memory_of(arrays["given_force"])
        self.allowed, self.motor, self.wired = memory_of(arrays["allowed"]), memory_of(arrays["motor"]), wired
        self.ratio, self.gain = memory_of(arrays["ratio"]), memory_of(arrays["gain"])
        self.zero_a, self.slack_m = memory_of(arrays["zero_a"]), memory_of(arrays["slack_m"])
        self.share, self.offset_m = memory_of(arrays["share"]), memory_of(arrays["offset_m"])
        self.stiffness_fraction = memory_of(arrays["stiffness_fraction"])
        self.motor_free, self.largest_a = memory_of(arrays["motor_free"]), memory_of(arrays["largest_current_a"])
        self.spooled_m, self.current_a = memory_of(arrays["spooled_m"]), memory_of(arrays["current_a"])
        self.resolution_m, self.noise_a = memory_of(arrays["resolution_m"]), memory_of(arrays["noise_a"])
        self.previous_m, self.rate = memory_of(arrays["previous_m"]), memory_of(arrays["rate"])
        self.found = memory_of(arrays["found"])
        self.tendon_count, self.size = len(arrays["command"]), len(arrays["forces"])
        self.filter_s = filter_s
        self.now_s = self.plant_s = self.written_s = self.longest_step_s = UNKNOWN
        self.solved, self.samples, self.draw_count, self.kept_count, self.kept_most = True, 0, 0, 0, 0
        self._run, self._shape, self._plant, self._shortest = addresses

    def bind(self, offset_m: Any, stiffness_fraction: Any, motor_free: Any, largest_a: Any) -> None:
        """What the plant is given beside commands, from the next step on; read in place."""
        self.plant_offset_m, self.plant_stiffness = memory_of(offset_m), memory_of(stiffness_fraction)
        self.plant_free, self.plant_largest_a = memory_of(motor_free), memory_of(largest_a)

    def advance(self, duration_s: float, steps: int) -> bool:
        """Move for a time in equal steps under ``command``, N; False where the rod's equations have no solution."""
        return self.run(duration_s / steps, steps) >= 0

    def sample(self, step_s: float) -> None:
        """Put position, rate, tension and current of ``step_s`` after the sample before into ``found``, (4 N,)."""
        self.differentiate(step_s)

    def lend(self, now_s: float, plant_s: float, longest_step_s: float, draws_a: Any, kept: Any) -> None:
        """To a cycle, at its time and the plant's. Each sample takes the next row of ``draws_a``, (samples, N), as its
        noise, A, none where it is empty, and is noted in ``kept``, (rows, 4 N + 1), behind its time.
        """
        self.now_s, self.plant_s, self.longest_step_s = now_s, plant_s, longest_step_s
        self.written_s, self.solved, self.samples, self.draw_count = UNKNOWN, True, 0, len(draws_a)
        self.kept, self.kept_most = memory_of(kept.reshape(-1)), len(kept)
        if self.draw_count:
            self.draws_a = memory_of(draws_a.reshape(-1))

    @stepped
    def read_into(self, reading: ReadingBuffer, now_s: cython.double) -> cython.bint:
        """As :meth:`CycleDevice.read_into`: move until now, and sample."""
        j: cython.int
        n: cython.int = self.tendon_count
        steps: cython.int = 1
        passed_s: cython.double = now_s - self.now_s
        place: cython.longlong
        while steps * self.longest_step_s < passed_s * (1 - 1e-3):
            steps += 1
        if self.run(passed_s / steps, steps) < 0:
            self.solved = False
            return False
        self.now_s = now_s
        self.plant_s += passed_s
        if self.samples < self.draw_count:
            for j in indices(n):
                self.noise_a[j] = self.draws_a[self.samples * n + j]
        self.samples += 1
        self.differentiate(passed_s)
        place = self.kept_count % self.kept_most * (4 * n + 1)
        self.kept[place] = now_s
        for j in indices(4 * n):
            self.kept[place + 1 + j] = self.found[j]
        self.kept_count += 1
        for j in indices(n):
            reading.displacement_m[j] = self.found[j]
            reading.velocity_m_per_s[j] = self.found[n + j]
            reading.tension_n[j] = self.found[2 * n + j]
            reading.current_a[j] = self.found[3 * n + j]
            reading.temperature_c[j] = UNKNOWN
            reading.age_s[j] = 0.0
        reading.stamp_s, reading.valid, reading.device_faults = now_s, True, 0
        return True

    @stepped
    def write_commands(self, command: cython.double[::1], now_s: cython.double) -> cython.bint:
        """As :meth:`CycleDevice.write_commands`; it acts at once."""
        copy_into(self.command, command, self.tendon_count)
        self.written_s = now_s
        return True

    @stepped
    def run(self, step_s: cython.double, steps: cython.int) -> cython.long:
        """Limit the commands, and call the kernel."""
        j: cython.int
        k: cython.longlong
        current: cython.double
        most: cython.double
        for j in indices(self.tendon_count):
            current = self.command[j] / self.newton_per_ampere[j]
            most = self.plant_largest_a[j]
            self.asked[j] = current
            if not current > -most:
                current = -most
            if not current < most:
                current = most
            self.allowed[j] = current
            if self.wired:
                current = (current - self.zero_a[j]) / self.gain[j] / self.ratio[j]
            k = self.motor[j]
            self.desired[k] = current
            self.motor_free[k] = 1.0 if self.plant_free[j] > 0 else 0.0
            self.largest_a[k] = most
            self.offset_m[j] = self.plant_offset_m[j] + self.slack_m[j]
            self.stiffness_fraction[j] = self.plant_stiffness[j] * self.share[j]
        for j in indices(self.size):
            self.forces[j] = self.given_force[j] = 0.0
        # Types and functions are declared by runtime/cycle/compilation.py.
        return cython.cast(RodPlantRun, self._run)(  # type: ignore[name-defined]  # noqa: F821
            cython.cast(cython.p_void, self._shape),
            cython.cast(cython.p_void, self._plant),
            step_s,
            steps,
            cython.cast(cython.p_double, self._shortest),
        )

    @stepped
    def differentiate(self, step_s: cython.double) -> cython.void:
        """Encoders' counts, their rate behind a low-pass (FilteredDerivative), currents, and tensions by them."""
        j: cython.int
        k: cython.longlong
        n: cython.int = self.tendon_count
        wound: cython.double
        current: cython.double
        position: cython.double
        difference: cython.double
        rate: cython.double
        fraction: cython.double = step_s / (self.filter_s + step_s)
        for j in indices(n):
            k = self.motor[j]
            wound, current = self.spooled_m[k], self.current_a[k]
            if self.wired:
                wound, current = wound / self.ratio[j], self.gain[j] * (self.ratio[j] * current) + self.zero_a[j]
            position = self.resolution_m[j] * rint(wound / self.resolution_m[j])  # type: ignore[name-defined]  # noqa: F821
            rate = self.rate[j]
            difference = (position - self.previous_m[j]) / step_s
            # An unknown rate takes the first difference as it is.
            rate = rate + fraction * (difference - rate) if rate - rate == 0 else difference
            self.previous_m[j], self.rate[j] = position, rate
            self.found[j] = position
            self.found[n + j] = rate if rate == rate else 0.0
            self.found[3 * n + j] = current + self.noise_a[j]
            self.found[2 * n + j] = self.found[3 * n + j] * self.newton_per_ampere[j]
