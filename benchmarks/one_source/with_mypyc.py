# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, PLR1730 - comparisons that mean the same with NaN in both forms
"""The task of benchmarks/one_source.py for mypyc: type annotations of Python, vectors of its own run-time library."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import expm1

from librt.vecs import vec
from mypy_extensions import i64

UNKNOWN = float("nan")


def vector(values: Sequence[float]) -> vec[float]:
    """Floats that are not boxed where compiled."""
    return vec[float](values)


def sleep_until(due_ns: i64) -> i64:
    """Sleep, where it is not past, and give the time afterwards, ns."""
    wait_ns: i64 = due_ns - time.monotonic_ns()
    if wait_ns > 0:
        time.sleep(float(wait_ns) * 1e-9)
    return time.monotonic_ns()


class Cycle:
    """See one_source.py."""

    def __init__(self, settings: Sequence[float], matrix: Sequence[float]) -> None:
        self.p, self.i, self.d, self.filter_s, self.back_per_s, self.force_max = settings[:6]
        self.pretension, self.minimum, self.maximum, self.rate_max, self.total_max = settings[6:]
        self.matrix = vector(matrix)
        self.filtered, self.integral, self.force = vector([0.0] * 2), vector([0.0] * 2), vector([0.0] * 2)
        self.target, self.command = vector([0.0] * 5), vector([0.0] * 5)

    def control(self, given: vec[float], at: i64, dt: float) -> None:
        passed = -expm1(-dt / self.filter_s)
        back = dt * self.back_per_s
        if back > 1.0:
            back = 1.0
        k: i64
        j: i64
        for k in range(2):
            clarke = 0.0
            rate = 0.0
            for j in range(5):
                clarke += self.matrix[5 * k + j] * given[at + j]
                rate += self.matrix[5 * k + j] * given[at + 5 + j]
            error = given[at + 10 + k] - clarke
            if error - error != 0.0 or rate - rate != 0.0:
                self.force[k] = UNKNOWN
                continue
            self.filtered[k] += (rate - self.filtered[k]) * passed
            unbounded = self.p * error + self.integral[k] - self.d * self.filtered[k]
            output = unbounded
            if output > self.force_max or output < -self.force_max:
                output = self.force_max if output > 0.0 else -self.force_max
            self.integral[k] += dt * self.i * error + back * (output - unbounded)
            self.force[k] = output

    def limit(self, made: vec[float], at: i64, dt: float) -> None:
        limited: i64 = 0
        step = self.rate_max * dt
        total = 0.0
        least = self.force[0] * self.matrix[0] + self.force[1] * self.matrix[5]
        j: i64
        for j in range(5):
            self.target[j] = self.force[0] * self.matrix[j] + self.force[1] * self.matrix[5 + j]
            if self.target[j] < least:
                least = self.target[j]
        for j in range(5):
            desired = self.target[j] - least + self.pretension
            made[at + j] = desired
            if desired - desired != 0.0:
                desired = self.command[j]
                limited |= 1
            if desired < self.minimum or desired > self.maximum:
                desired = self.minimum if desired < self.minimum else self.maximum
                limited |= 2
            self.target[j] = desired
            total += desired
        weight = 1.0
        if total > self.total_max:
            weight = (self.total_max - 5.0 * self.minimum) / (total - 5.0 * self.minimum)
            limited |= 4
        for j in range(5):
            change = self.minimum + (self.target[j] - self.minimum) * weight - self.command[j]
            if change > step or change < -step:
                change = step if change > 0.0 else -step
                limited |= 8
            self.command[j] += change
            made[at + 5 + j] = self.command[j]
        made[at + 14] = float(limited)

    def step(self, given: vec[float], made: vec[float], row: i64) -> None:
        self.control(given, 13 * row, given[13 * row + 12])
        self.limit(made, 15 * row, given[13 * row + 12])
        k: i64
        for k in range(2):
            made[15 * row + 10 + k] = self.force[k]
            made[15 * row + 12 + k] = self.integral[k]

    def run(self, given: vec[float], made: vec[float], first: i64, last: i64) -> None:
        row: i64
        for row in range(first, last):
            self.step(given, made, row)

    def run_paced(self, given: vec[float], made: vec[float], end_ns: i64) -> i64:
        done: i64 = 0
        due_ns = sleep_until(0)
        while sleep_until(due_ns) < end_ns:
            self.step(given, made, done % 1000)
            done += 1
            due_ns += 1000000
            while due_ns < sleep_until(0):
                due_ns += 1000000
        return done
