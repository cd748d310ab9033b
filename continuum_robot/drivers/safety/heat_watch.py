# SPDX-License-Identifier: Apache-2.0
"""Watches how hot the motors are: as their boards measure, or by a model of two bodies where they do not.

Stepped code: see :mod:`continuum_robot.stepped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.robot.actuation import COPPER_AT_C, COPPER_PER_K, Actuators
from continuum_robot.stepped.buffers import UNKNOWN, indices, integers, stepped, vector

HOT_AS_MODELLED = cython.declare(cython.int, 1)
HOT_AS_MEASURED = cython.declare(cython.int, 2)


@cython.cclass
class HeatWatch:
    """Temperature of every motor, and whether one is too hot.

    The model has the winding, which the current heats, and the housing, which takes its heat and gives it to the air.
    Its step is backward Euler: stable for any time, and after a long one rather warmer than the exact course. It begins
    at the ambient temperature; what is known better is given to :meth:`take`.

    A motor counts as its measured or its modelled temperature, whichever is higher. Where both are unknown, so is its
    temperature: it is neither hot for that nor cool again. Too hot begins at the error temperature and ends below the
    warning temperature; what was measured as hot must be measured as cool.
    """

    modelled = cython.declare(cython.bint, visibility="readonly")
    hot = cython.declare(cython.bint, visibility="readonly")
    temperature_c = cython.declare(cython.double[::1], visibility="readonly")
    _count: cython.int
    _is_hot: cython.int[::1]
    _winding_c: cython.double[::1]
    _housing_c: cython.double[::1]
    _ampere_per_newton: cython.double[::1]
    _warn_c: cython.double
    _error_c: cython.double
    _ambient_c: cython.double
    _copper_per_k: cython.double
    _copper_at_c: cython.double
    _loss_w_per_a2: cython.double
    _winding_j_per_k: cython.double
    _housing_j_per_k: cython.double
    _inner_w_per_k: cython.double
    _outer_w_per_k: cython.double
    _stepped_s: cython.double

    def __init__(self, actuators: Actuators | None, ampere_per_newton: Sequence[float]) -> None:
        self._count = len(ampere_per_newton)
        self._ampere_per_newton = vector(ampere_per_newton)
        self.temperature_c, self._is_hot = vector([UNKNOWN] * self._count), integers(self._count)
        self.hot, self._stepped_s = False, UNKNOWN
        self._warn_c = self._error_c = UNKNOWN
        heat = None if actuators is None else actuators.heat
        if actuators is not None:
            self.set_limits(actuators.temperature_warn_c, actuators.temperature_error_c)
        self.modelled = heat is not None
        self._copper_per_k, self._copper_at_c = COPPER_PER_K, COPPER_AT_C
        self._ambient_c = self._loss_w_per_a2 = 0.0
        self._inner_w_per_k = self._outer_w_per_k = self._winding_j_per_k = self._housing_j_per_k = 1.0
        if heat is not None:
            self._ambient_c, self._loss_w_per_a2 = heat.ambient_c, heat.loss_w_per_a2
            self._inner_w_per_k = 1.0 / heat.winding_to_housing_k_per_w
            self._outer_w_per_k = 1.0 / heat.housing_to_ambient_k_per_w
            self._winding_j_per_k = heat.winding_time_constant_s * self._inner_w_per_k
            self._housing_j_per_k = heat.housing_time_constant_s * self._outer_w_per_k
        self._winding_c, self._housing_c = vector(self._count), vector(self._count)
        self.take([self._ambient_c] * self._count, [self._ambient_c] * self._count, 0.0)

    # --- between two cycles

    def set_limits(self, warn_c: float, error_c: float) -> None:
        """At what temperatures a motor is warm, and too hot."""
        self._warn_c, self._error_c = warn_c, error_c

    def take(self, winding_c: Sequence[float], housing_c: Sequence[float], cooled_s: float) -> None:
        """Go on from known temperatures of the model."""
        j: cython.int
        for j in range(self._count):
            self._winding_c[j], self._housing_c[j] = winding_c[j], housing_c[j]
            self._warm(j, 0.0, cooled_s)

    def take_over(self, before: HeatWatch) -> None:
        """Go on from the temperatures of the watch before: motors do not cool when a robot is configured again."""
        self.take(before.winding(), before.housing(), 0.0)
        self._stepped_s = before.known_s()
        self._is_hot = integers(before.hotness())
        self.hot = any(before.hot_motors())

    def known_s(self) -> float:
        """When it was stepped last, s; NaN: never."""
        return self._stepped_s

    def winding(self) -> list[float]:
        """The model's temperature of every winding, degC."""
        return [self._winding_c[j] for j in range(self._count)]

    def housing(self) -> list[float]:
        """The model's temperature of every housing, degC."""
        return [self._housing_c[j] for j in range(self._count)]

    def temperatures(self) -> list[float]:
        """Temperature of every motor, degC; NaN: unknown."""
        return [self.temperature_c[j] for j in range(self._count)]

    def hotness(self) -> list[int]:
        """0, HOT_AS_MODELLED or HOT_AS_MEASURED, of every motor."""
        return [self._is_hot[j] for j in range(self._count)]

    def hot_motors(self) -> list[bool]:
        """Which motors are too hot."""
        return [self._is_hot[j] != 0 for j in range(self._count)]

    # --- in the cycle

    @stepped
    def step(
        self, reading: ReadingBuffer, command_n: cython.double[::1], engaged: cython.bint, now_s: cython.double
    ) -> cython.bint:
        """Take a reading into account; whether a motor is too hot.

        A current that is unknown counts as that of the newest command ``command_n`` (N) where the motors are
        ``engaged``, else as none.
        """
        j: cython.int
        current_a: cython.double
        measured_c: cython.double
        value_c: cython.double
        passed_s: cython.double = now_s - self._stepped_s
        if not (passed_s > 0.0):
            passed_s = 0.0
        self._stepped_s = now_s
        self.hot = False
        for j in indices(self._count):
            measured_c = reading.temperature_c[j] if reading.valid else UNKNOWN
            value_c = measured_c
            if self.modelled:
                current_a = reading.current_a[j] if reading.valid else UNKNOWN
                if current_a - current_a != 0.0:  # unknown, or infinite
                    current_a = command_n[j] * self._ampere_per_newton[j] if engaged else 0.0
                self._warm(j, current_a, passed_s)
                if not (self._winding_c[j] <= value_c):
                    value_c = self._winding_c[j]
            if measured_c >= self._error_c:
                self._is_hot[j] = HOT_AS_MEASURED
            elif self._is_hot[j] == HOT_AS_MEASURED:
                # The model, which knew nothing of it, cannot say that it is over.
                if measured_c < self._warn_c and value_c < self._warn_c:
                    self._is_hot[j] = 0
                elif measured_c != measured_c:
                    value_c = UNKNOWN
            elif value_c >= self._error_c:
                self._is_hot[j] = HOT_AS_MODELLED
            elif value_c < self._warn_c:
                self._is_hot[j] = 0
            self.temperature_c[j] = value_c
            if self._is_hot[j] != 0:
                self.hot = True
        return self.hot

    @stepped
    def _warm(self, j: cython.int, current_a: cython.double, passed_s: cython.double) -> cython.void:
        """Go on by a time in which the motor had a current."""
        winding_c: cython.double = self._winding_c[j]
        fraction: cython.double = 1.0 + self._copper_per_k * (winding_c - self._copper_at_c)
        loss_w: cython.double = self._loss_w_per_a2 * current_a * current_a * (fraction if fraction > 0.0 else 0.0)
        a: cython.double = passed_s * self._inner_w_per_k / self._winding_j_per_k
        b: cython.double = passed_s * self._inner_w_per_k / self._housing_j_per_k
        c: cython.double = passed_s * self._outer_w_per_k / self._housing_j_per_k
        warmed_c: cython.double = winding_c + passed_s * loss_w / self._winding_j_per_k
        held_c: cython.double = self._housing_c[j] + c * self._ambient_c
        self._housing_c[j] = (held_c * (1.0 + a) + b * warmed_c) / ((1.0 + a) * (1.0 + b + c) - a * b)
        self._winding_c[j] = (warmed_c + a * self._housing_c[j]) / (1.0 + a)
