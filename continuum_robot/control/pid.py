# SPDX-License-Identifier: Apache-2.0
"""PID on a vector of coordinates, with the names and the meaning of ros2_control's pid_controller.

A PD controller is a PID controller with i = 0. What a user of ros2_control knows holds here: a not finite error gives a
NaN output and leaves the state alone, a time step of 0 gives the last output, a negative one is an error, and the
integral is advanced after the output is computed.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, expm1, isfinite
from numpy.typing import NDArray

from continuum_robot.control.pid_parameters import PidParameters, PidTerms
from continuum_robot.errors import ParameterError
from continuum_robot.stepped.buffers import UNKNOWN, indices, integers, stepped, vector

Vector = NDArray[np.float64]

ROUNDED = cython.declare(cython.double, 1e-6)
START_FADE_TIME_S = cython.declare(cython.double, 0.5)
"""Time constant with which a start output that no integral can hold goes away, s."""


@cython.cclass
class Pid:
    """PID controllers on several coordinates, each with its own parameters.

    ``output = p error + integral + d (w reference_rate - filtered(measurement_rate)) + feedforward``, within
    u_clamp_min and u_clamp_max. The derivative acts on the measurement (w = 0 by default), so that a step of the
    reference does not kick. The filter is a first-order low-pass, discretised exactly: y += (1 - exp(-dt/T)) (x - y).
    The integral advances by forward Euler after the output:

    - ``back_calculation``: dt (i error + (output - unbounded output) / tracking_time_constant), where the factor
      dt / tracking_time_constant is at most 1, and the second part takes the integral no further back than to 0: where
      the other terms alone are beyond the bound, it would wind up the other way,
    - ``conditional_integration``: dt i error, except while the output is bounded and the error would push it further,
    - ``none``: dt i error;

    then it is kept within i_clamp_min and i_clamp_max. What is realised of an output (:meth:`realise`) counts as a
    bound of it, from the next step on.
    """

    parameters = cython.declare(object, visibility="readonly")
    size: cython.int
    p: cython.double[::1]
    i: cython.double[::1]
    d: cython.double[::1]
    output_min: cython.double[::1]
    output_max: cython.double[::1]
    integral_min: cython.double[::1]
    integral_max: cython.double[::1]
    back_calculation_rate: cython.double[::1]
    conditional: cython.int[::1]
    deadband: cython.double[::1]
    filter_rate: cython.double[::1]
    velocity_weight: cython.double[::1]
    # State
    measurement: cython.double[::1]
    rate: cython.double[::1]
    integral: cython.double[::1]
    advanced: cython.double[::1]
    realised: cython.double[::1]
    is_limited: cython.bint
    start: cython.double[::1]
    # Terms of the last step
    error: cython.double[::1]
    p_term: cython.double[::1]
    i_term: cython.double[::1]
    d_term: cython.double[::1]
    feedforward: cython.double[::1]
    output: cython.double[::1]
    saturated: cython.int[::1]

    def __init__(self, parameters: PidParameters) -> None:
        size = int(parameters.p.size)
        self.size = size
        self.measurement, self.rate = vector(size), vector(size)
        self.integral, self.start = vector(size), vector(size)
        self.advanced, self.realised, self.is_limited = vector(size), vector(size), False
        self.error, self.p_term, self.i_term, self.d_term = vector(size), vector(size), vector(size), vector(size)
        self.feedforward, self.output, self.saturated = vector(size), vector(size), integers(size)
        self._take_parameters(parameters)
        unknown, zero = vector([UNKNOWN] * size), vector(size)
        self.begin(unknown, unknown, unknown, zero, zero, zero)

    def _take_parameters(self, parameters: PidParameters) -> None:
        k = parameters
        with np.errstate(divide="ignore"):
            filter_rate = 1 / k.derivative_filter_time
        self.parameters = parameters
        self.p, self.i, self.d = vector(k.p), vector(k.i), vector(k.d)
        self.output_min, self.output_max = vector(k.u_clamp_min), vector(k.u_clamp_max)
        self.integral_min, self.integral_max = vector(k.i_clamp_min), vector(k.i_clamp_max)
        self.back_calculation_rate, self.conditional = (
            vector(k.back_calculation_rate),
            integers(k.conditional_integration),
        )
        self.deadband, self.filter_rate = vector(k.error_deadband), vector(filter_rate)
        self.velocity_weight = vector(k.reference_velocity_weight)

    @stepped
    def begin(
        self,
        output: cython.double[::1],
        reference: cython.double[::1],
        measurement: cython.double[::1],
        measurement_rate: cython.double[::1],
        feedforward: cython.double[::1],
        reference_rate: cython.double[::1],
    ) -> cython.void:
        """Restart; with an ``output``, N, so that the next step with the same inputs gives just that output.

        The integral takes what the other terms leave of ``output``. What it cannot hold (beyond i_clamp, or with i = 0)
        starts as an offset that fades with a time constant of 0.5 s. An ``output``, ``reference`` or ``measurement``
        (m) that is not known is NaN, a ``measurement_rate``, ``reference_rate`` (m/s) or ``feedforward`` (N) 0.
        """
        k: cython.int
        self.is_limited = False
        for k in indices(self.size):
            self.measurement[k] = measurement[k]
            self.rate[k] = measurement_rate[k]
            self.error[k] = reference[k] - measurement[k]
            if not isfinite(self.error[k]):
                self.error[k] = 0.0
            self.p_term[k] = self.p[k] * self.error[k]
            self.d_term[k] = self.d[k] * (self.velocity_weight[k] * reference_rate[k] - self.rate[k])
            self.feedforward[k] = feedforward[k]
            self.integral[k] = self.start[k] = 0.0
            if isfinite(output[k]):
                self.start[k] = output[k] - self.p_term[k] - self.d_term[k] - feedforward[k]
        self.settle()
        for k in indices(self.size):
            self.i_term[k] = self.integral[k] + self.start[k]
            self.bound(k, self.p_term[k] + self.i_term[k] + self.d_term[k] + self.feedforward[k])

    @stepped
    def settle(self) -> cython.void:
        """Let the integral take as much of integral and start offset as it can hold, and leave the rest to fade."""
        k: cython.int
        for k in indices(self.size):
            whole: cython.double = self.integral[k] + self.start[k]
            held: cython.double = 0.0
            if self.i[k] > 0.0:
                held = whole
                if held < self.integral_min[k]:
                    held = self.integral_min[k]
                if held > self.integral_max[k]:
                    held = self.integral_max[k]
            self.integral[k] = held
            self.start[k] = whole - held

    @stepped
    def bound(self, k: cython.int, unbounded: cython.double) -> cython.void:
        """Output of coordinate ``k`` (an index) from the sum ``unbounded`` of its terms, N."""
        output: cython.double = unbounded
        if output < self.output_min[k]:
            output = self.output_min[k]
        if output > self.output_max[k]:
            output = self.output_max[k]
        self.output[k] = output
        self.saturated[k] = 1 if output != unbounded else 0

    @stepped
    def realise(self, output: cython.double[::1]) -> cython.void:
        """The actuators' limits left this of the last ``output``, N: known before the next step, once."""
        k: cython.int
        self.is_limited = True
        for k in indices(self.size):
            self.realised[k] = output[k]

    @stepped
    def missed(self, k: cython.int, dt: cython.double) -> cython.bint:
        """Whether limits changed the output of coordinate ``k`` (an index); its integral is corrected for ``dt``, s.

        Rounding of the tensions is no limit.
        """
        short: cython.double = self.realised[k] - self.output[k]
        size: cython.double = self.output[k] if self.output[k] > 0.0 else -self.output[k]
        if not (short > ROUNDED * (1.0 + size) or short < -ROUNDED * (1.0 + size)):
            return False
        if self.conditional[k] and self.advanced[k] * short < 0.0:
            self.integral[k] -= self.advanced[k]
        self.take_back(k, short, dt)
        return True

    @stepped
    def take_back(self, k: cython.int, excess: cython.double, dt: cython.double) -> cython.void:
        """Back-calculation of coordinate ``k`` (an index), for ``dt`` in s: it only takes away what the integral holds.

        ``excess`` is the output less what was desired, N.
        """
        fraction: cython.double = dt * self.back_calculation_rate[k]
        integral: cython.double = self.integral[k]
        if not (fraction > 0.0 and integral * excess < 0.0):
            return
        if fraction > 1.0:
            fraction = 1.0
        integral = integral + fraction * excess
        self.integral[k] = 0.0 if integral * excess > 0.0 else integral

    def set_parameters(self, parameters: PidParameters) -> None:
        """Go on in the same state with other parameters.

        The integral is kept in N, so a new i does not make the output jump. An integral that the new parameters cannot
        hold (i = 0, or narrower i_clamp) fades as in :meth:`begin`.
        """
        if parameters.p.shape != self.parameters.p.shape:
            raise ParameterError("parameters", parameters.p.size, f"gains for {self.size} coordinates")
        self._take_parameters(parameters)
        self.settle()

    @stepped
    def step(
        self,
        reference: cython.double[::1],
        measurement: cython.double[::1],
        measurement_rate: cython.double[::1],
        rate_measured: cython.bint,
        feedforward: cython.double[::1],
        reference_rate: cython.double[::1],
        dt: cython.double,
    ) -> cython.void:
        """One cycle as :meth:`update`; without ``rate_measured``, the measurement is differentiated.

        ``reference``, ``measurement``, ``measurement_rate``, ``feedforward``, ``reference_rate`` and ``dt`` as there.
        """
        k: cython.int
        if dt <= 0.0:
            return
        fade: cython.double = exp(-dt / START_FADE_TIME_S)
        for k in indices(self.size):
            is_short: cython.bint = False
            if self.is_limited:
                is_short = self.missed(k, dt)
            error: cython.double = reference[k] - measurement[k]
            now: cython.double = self.rate[k]
            if rate_measured:
                now = measurement_rate[k]
            elif self.measurement[k] == self.measurement[k]:
                now = (measurement[k] - self.measurement[k]) / dt
            # else: after a gap the time that the difference took is unknown, and the rate stays for one cycle.
            rate: cython.double = self.rate[k] + (now - self.rate[k]) * -expm1(-dt * self.filter_rate[k])
            p_term: cython.double = self.p[k] * error
            i_term: cython.double = self.integral[k] + self.start[k]
            d_term: cython.double = self.d[k] * (self.velocity_weight[k] * reference_rate[k] - rate)
            unbounded: cython.double = p_term + i_term + d_term + feedforward[k]
            self.p_term[k], self.i_term[k], self.d_term[k] = p_term, i_term, d_term
            self.feedforward[k] = feedforward[k]
            if not isfinite(unbounded):
                self.error[k] = self.output[k] = UNKNOWN
                self.saturated[k] = 0
                self.measurement[k] = UNKNOWN
                self.advanced[k] = 0.0
                continue
            self.error[k] = error
            self.bound(k, unbounded)
            integrated: cython.double = error
            if -self.deadband[k] <= error <= self.deadband[k]:
                integrated = 0.0
            advance: cython.double = dt * self.i[k] * integrated
            if self.conditional[k] and self.saturated[k] and error * unbounded > 0.0:
                advance = 0.0
            self.advanced[k] = advance
            self.integral[k] += advance
            self.take_back(k, self.output[k] - unbounded, dt)
            if is_short:
                self.saturated[k] = 1
            integral: cython.double = self.integral[k]
            if integral < self.integral_min[k]:
                integral = self.integral_min[k]
            if integral > self.integral_max[k]:
                integral = self.integral_max[k]
            self.integral[k] = integral
            self.start[k] = self.start[k] * fade
            self.rate[k] = rate
            self.measurement[k] = measurement[k]
        self.is_limited = False

    def terms(self) -> PidTerms:
        """What the last step computed, as arrays of its own."""
        return PidTerms(
            np.array(self.error),
            np.array(self.p_term),
            np.array(self.i_term),
            np.array(self.d_term),
            np.array(self.feedforward),
            np.array(self.output),
            np.array(self.saturated, dtype=bool),
        )
