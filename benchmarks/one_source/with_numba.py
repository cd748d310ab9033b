# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D103, PLR1730 - comparisons that mean the same with NaN in both forms
"""The task of benchmarks/one_source.py for numba: functions on records of NumPy, or on objects where interpreted."""

from __future__ import annotations

import ctypes
import os
from math import expm1
from types import SimpleNamespace

import numba
import numpy as np

UNKNOWN = float("nan")
NUMBERS = ("p", "i", "d", "filter_s", "back_per_s", "force_max")
NUMBERS += ("pretension", "minimum", "maximum", "rate_max", "total_max")
VECTORS = {"matrix": 10, "filtered": 2, "integral": 2, "force": 2, "target": 5, "command": 5}
RECORDS = not numba.config.DISABLE_JIT or os.environ.get("ONE_SOURCE_RECORDS") == "1"
STATE = np.dtype([(name, float) for name in NUMBERS] + [(name, float, size) for name, size in VECTORS.items()])
stepped = numba.njit(nogil=True, cache=True)

_nanosleep = ctypes.CDLL(None).clock_nanosleep
_nanosleep.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_gettime = ctypes.CDLL(None).clock_gettime
_gettime.argtypes = [ctypes.c_int, ctypes.c_void_p]


def vector(values):
    """An array of NumPy; a list where interpreted on objects."""
    return np.array(values, dtype=float) if RECORDS else list(values)


def make(settings, matrix):
    """The state: attributes of a record cannot be methods."""
    state = np.zeros(1, dtype=STATE).view(np.recarray)[0] if RECORDS else SimpleNamespace()
    for name, value in zip(NUMBERS, settings, strict=True):
        setattr(state, name, value)
    for name, size in VECTORS.items():
        setattr(state, name, vector(matrix if name == "matrix" else [0.0] * size))
    return state


@stepped
def control(s, given, at, dt):
    passed = -expm1(-dt / s.filter_s)
    back = dt * s.back_per_s
    if back > 1.0:
        back = 1.0
    for k in range(2):
        clarke = 0.0
        rate = 0.0
        for j in range(5):
            clarke += s.matrix[5 * k + j] * given[at + j]
            rate += s.matrix[5 * k + j] * given[at + 5 + j]
        error = given[at + 10 + k] - clarke
        if error - error != 0.0 or rate - rate != 0.0:
            s.force[k] = UNKNOWN
            continue
        s.filtered[k] += (rate - s.filtered[k]) * passed
        unbounded = s.p * error + s.integral[k] - s.d * s.filtered[k]
        output = unbounded
        if output > s.force_max or output < -s.force_max:
            output = s.force_max if output > 0.0 else -s.force_max
        s.integral[k] += dt * s.i * error + back * (output - unbounded)
        s.force[k] = output


@stepped
def limit(s, made, at, dt):
    limited = 0
    step = s.rate_max * dt
    total = 0.0
    least = s.force[0] * s.matrix[0] + s.force[1] * s.matrix[5]
    for j in range(5):
        s.target[j] = s.force[0] * s.matrix[j] + s.force[1] * s.matrix[5 + j]
        if s.target[j] < least:
            least = s.target[j]
    for j in range(5):
        desired = s.target[j] - least + s.pretension
        made[at + j] = desired
        if desired - desired != 0.0:
            desired = s.command[j]
            limited |= 1
        if desired < s.minimum or desired > s.maximum:
            desired = s.minimum if desired < s.minimum else s.maximum
            limited |= 2
        s.target[j] = desired
        total += desired
    weight = 1.0
    if total > s.total_max:
        weight = (s.total_max - 5.0 * s.minimum) / (total - 5.0 * s.minimum)
        limited |= 4
    for j in range(5):
        change = s.minimum + (s.target[j] - s.minimum) * weight - s.command[j]
        if change > step or change < -step:
            change = step if change > 0.0 else -step
            limited |= 8
        s.command[j] += change
        made[at + 5 + j] = s.command[j]
    made[at + 14] = limited


@stepped
def one(s, given, made, row):
    control(s, given, 13 * row, given[13 * row + 12])
    limit(s, made, 15 * row, given[13 * row + 12])
    for k in range(2):
        made[15 * row + 10 + k] = s.force[k]
        made[15 * row + 12 + k] = s.integral[k]


@stepped
def run(s, given, made, first, last):
    for row in range(first, last):
        one(s, given, made, row)


@numba.njit(nogil=True)  # what calls the C library is not cached
def sleep_until(due_ns, at):
    at[0], at[1] = due_ns // 1000000000, due_ns % 1000000000
    _nanosleep(1, 1, at.ctypes.data, 0)
    _gettime(1, at.ctypes.data)
    return at[0] * 1000000000 + at[1]


@numba.njit(nogil=True)
def run_paced(s, given, made, end_ns):
    at = np.zeros(2, dtype=np.int64)
    done = 0
    due_ns = sleep_until(0, at)
    while sleep_until(due_ns, at) < end_ns:
        one(s, given, made, done % 1000)
        done += 1
        due_ns += 1000000
        while due_ns < sleep_until(0, at):
            due_ns += 1000000
    return done
