# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, F821, PLR1730, RET505 - C declarations, and comparisons that mean the same with NaN in both forms
"""The task of benchmarks/one_source.py in Cython's pure mode; ``@stepped`` is spelt out before it is compiled."""

from __future__ import annotations

import time
from array import array

import cython

if cython.compiled:
    from cython.cimports.libc.math import expm1
    from cython.cimports.posix.time import CLOCK_MONOTONIC, TIMER_ABSTIME, clock_gettime, clock_nanosleep, timespec
else:
    from math import expm1

UNKNOWN = cython.declare(cython.double, float("nan"))


def vector(values):
    """A list where interpreted, C memory where compiled."""
    return array("d", values) if cython.compiled else list(values)


def stepped(function):
    """Marks what needs no interpreter."""
    return function


@stepped
def sleep_until(due_ns: cython.longlong) -> cython.longlong:
    """Sleep, where it is not past, and give the time afterwards, ns."""
    if cython.compiled:
        at: timespec
        at.tv_sec, at.tv_nsec = due_ns // 1000000000, due_ns % 1000000000
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, cython.address(at), cython.NULL)
        clock_gettime(CLOCK_MONOTONIC, cython.address(at))
        return cython.cast(cython.longlong, at.tv_sec) * 1000000000 + at.tv_nsec
    else:
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns * 1e-9)
        return time.monotonic_ns()


@cython.cclass
class Cycle:
    """See one_source.py."""

    p: cython.double
    i: cython.double
    d: cython.double
    filter_s: cython.double
    back_per_s: cython.double
    force_max: cython.double
    pretension: cython.double
    minimum: cython.double
    maximum: cython.double
    rate_max: cython.double
    total_max: cython.double
    matrix: cython.double[::1]
    filtered: cython.double[::1]
    integral: cython.double[::1]
    force: cython.double[::1]
    target: cython.double[::1]
    command: cython.double[::1]

    def __init__(self, settings, matrix):
        self.p, self.i, self.d, self.filter_s, self.back_per_s, self.force_max = settings[:6]
        self.pretension, self.minimum, self.maximum, self.rate_max, self.total_max = settings[6:]
        self.matrix = vector(matrix)
        self.filtered, self.integral, self.force = vector([0.0] * 2), vector([0.0] * 2), vector([0.0] * 2)
        self.target, self.command = vector([0.0] * 5), vector([0.0] * 5)

    @stepped
    def control(self, given: cython.double[::1], at: cython.int, dt: cython.double) -> cython.void:
        j: cython.int
        k: cython.int
        passed: cython.double = -expm1(-dt / self.filter_s)
        back: cython.double = dt * self.back_per_s
        if back > 1.0:
            back = 1.0
        for k in range(2):
            clarke: cython.double = 0.0
            rate: cython.double = 0.0
            for j in range(5):
                clarke += self.matrix[5 * k + j] * given[at + j]
                rate += self.matrix[5 * k + j] * given[at + 5 + j]
            error: cython.double = given[at + 10 + k] - clarke
            if error - error != 0.0 or rate - rate != 0.0:
                self.force[k] = UNKNOWN
                continue
            self.filtered[k] += (rate - self.filtered[k]) * passed
            unbounded: cython.double = self.p * error + self.integral[k] - self.d * self.filtered[k]
            output: cython.double = unbounded
            if output > self.force_max or output < -self.force_max:
                output = self.force_max if output > 0.0 else -self.force_max
            self.integral[k] += dt * self.i * error + back * (output - unbounded)
            self.force[k] = output

    @stepped
    def limit(self, made: cython.double[::1], at: cython.int, dt: cython.double) -> cython.void:
        j: cython.int
        limited: cython.int = 0
        step: cython.double = self.rate_max * dt
        total: cython.double = 0.0
        least: cython.double = self.force[0] * self.matrix[0] + self.force[1] * self.matrix[5]
        for j in range(5):
            self.target[j] = self.force[0] * self.matrix[j] + self.force[1] * self.matrix[5 + j]
            if self.target[j] < least:
                least = self.target[j]
        for j in range(5):
            desired: cython.double = self.target[j] - least + self.pretension
            made[at + j] = desired
            if desired - desired != 0.0:
                desired = self.command[j]
                limited |= 1
            if desired < self.minimum or desired > self.maximum:
                desired = self.minimum if desired < self.minimum else self.maximum
                limited |= 2
            self.target[j] = desired
            total += desired
        weight: cython.double = 1.0
        if total > self.total_max:
            weight = (self.total_max - 5.0 * self.minimum) / (total - 5.0 * self.minimum)
            limited |= 4
        for j in range(5):
            change: cython.double = self.minimum + (self.target[j] - self.minimum) * weight - self.command[j]
            if change > step or change < -step:
                change = step if change > 0.0 else -step
                limited |= 8
            self.command[j] += change
            made[at + 5 + j] = self.command[j]
        made[at + 14] = limited

    @stepped
    def step(self, given: cython.double[::1], made: cython.double[::1], row: cython.int) -> cython.void:
        k: cython.int
        self.control(given, 13 * row, given[13 * row + 12])
        self.limit(made, 15 * row, given[13 * row + 12])
        for k in range(2):
            made[15 * row + 10 + k], made[15 * row + 12 + k] = self.force[k], self.integral[k]

    def run(self, given: cython.double[::1], made: cython.double[::1], first: cython.int, last: cython.int):
        row: cython.int
        with cython.nogil:
            for row in range(first, last):
                self.step(given, made, row)

    def run_paced(self, given: cython.double[::1], made: cython.double[::1], end_ns: cython.longlong):
        done: cython.int = 0
        due_ns: cython.longlong = sleep_until(0)
        with cython.nogil:
            while sleep_until(due_ns) < end_ns:
                self.step(given, made, done % 1000)
                done += 1
                due_ns += 1000000
                while due_ns < sleep_until(0):
                    due_ns += 1000000
        return done
