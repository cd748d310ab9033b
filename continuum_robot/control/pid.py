# SPDX-License-Identifier: Apache-2.0
"""PID on a vector of coordinates, with the names and the meaning of ros2_control's pid_controller.

A PD controller is a PID controller with i = 0. What a user of ros2_control knows holds here: a not finite error gives a
NaN output and leaves the state alone, a time step of 0 gives the last output, a negative one is an error, and the
integral is advanced after the output is computed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import PidGains

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]

START_FADE_TIME_S = 0.5  # time constant with which a start output that no integral can hold goes away


@dataclass(frozen=True, slots=True, kw_only=True)
class PidParameters:
    """Parameters of :class:`Pid`, each an array of shape (coordinates,); units for coordinates in m, outputs in N.

    Attributes
    ----------
    p, i, d : gains, N/m, N/(m.s), N.s/m
    u_clamp_min, u_clamp_max : bounds of the output, N
    i_clamp_min, i_clamp_max : bounds of the integral term, N
    back_calculation_rate : 1 / tracking time constant where back-calculation is the strategy, else 0; 1/s
    conditional_integration : where the integral rests while it would drive the output further into its bound
    error_deadband : error up to which the integral rests, m
    derivative_filter_time : time constant of the first-order low-pass on the measured rate, s; 0: none
    reference_velocity_weight : share of the reference's velocity in the derivative term
    """

    p: Vector
    i: Vector
    d: Vector
    u_clamp_min: Vector
    u_clamp_max: Vector
    i_clamp_min: Vector
    i_clamp_max: Vector
    back_calculation_rate: Vector
    conditional_integration: Flags
    error_deadband: Vector
    derivative_filter_time: Vector
    reference_velocity_weight: Vector

    @classmethod
    def from_gains(cls, gains: Sequence[PidGains], coordinates_per_entry: int = 2) -> PidParameters:
        """Parameters from the gains of a robot file.

        Parameters
        ----------
        gains : one entry a segment
        coordinates_per_entry : number of consecutive coordinates that share an entry
        """

        def spread(values: Sequence[float]) -> Vector:
            return np.repeat(np.array(values, dtype=float), coordinates_per_entry)

        conditional = [one.antiwindup_strategy == "conditional_integration" for one in gains]
        return cls(
            p=spread([one.p for one in gains]),
            i=spread([one.i for one in gains]),
            d=spread([one.d for one in gains]),
            u_clamp_min=spread([one.u_clamp_min for one in gains]),
            u_clamp_max=spread([one.u_clamp_max for one in gains]),
            i_clamp_min=spread([one.i_clamp_min for one in gains]),
            i_clamp_max=spread([one.i_clamp_max for one in gains]),
            back_calculation_rate=spread([_back_calculation_rate(one) for one in gains]),
            conditional_integration=np.repeat(np.array(conditional, dtype=bool), coordinates_per_entry),
            error_deadband=spread([one.error_deadband for one in gains]),
            derivative_filter_time=spread([one.derivative_filter_time for one in gains]),
            reference_velocity_weight=spread([one.reference_velocity_weight for one in gains]),
        )


@dataclass(frozen=True, slots=True)
class PidTerms:
    """What one cycle of :class:`Pid` computed; arrays of shape (coordinates,).

    Attributes
    ----------
    error : reference less measurement, m
    p_term, d_term : N
    i_term : the integral, and what is left of the output that the controller started from, N
    feedforward : as given, N
    output : sum of the four terms, within its bounds, N
    saturated : where a bound changed the output
    """

    error: Vector
    p_term: Vector
    i_term: Vector
    d_term: Vector
    feedforward: Vector
    output: Vector
    saturated: Flags


class Pid:
    """PID controllers on several coordinates, each with its own parameters.

    ``output = p error + integral + d (w reference_rate - filtered(measurement_rate)) + feedforward``, within
    u_clamp_min and u_clamp_max. The derivative acts on the measurement (w = 0 by default), so that a step of the
    reference does not kick. The filter is a first-order low-pass, discretised exactly: y += (1 - exp(-dt/T)) (x - y).
    The integral advances by forward Euler after the output:

    - ``back_calculation``: dt (i error + (output - unbounded output) / tracking_time_constant), the second part's share
      dt / tracking_time_constant at most 1,
    - ``conditional_integration``: dt i error, except while the output is bounded and the error would push it further,
    - ``none``: dt i error;

    then it is kept within i_clamp_min and i_clamp_max.

    Parameters
    ----------
    parameters : with arrays of shape (coordinates,)
    """

    def __init__(self, parameters: PidParameters) -> None:
        self._set_parameters(parameters)
        self.reset()

    def _set_parameters(self, parameters: PidParameters) -> None:
        self.parameters = parameters
        with np.errstate(divide="ignore"):
            self._filter_rate = 1 / parameters.derivative_filter_time
        self._back_calculation = bool(np.any(parameters.back_calculation_rate > 0))
        self._conditional = bool(np.any(parameters.conditional_integration))
        self._deadband = bool(np.any(parameters.error_deadband > 0))

    def reset(
        self,
        output: ArrayLike | None = None,
        *,
        reference: ArrayLike | None = None,
        measurement: ArrayLike | None = None,
        measurement_rate: ArrayLike | None = None,
        feedforward: ArrayLike | None = None,
        reference_rate: ArrayLike | None = None,
    ) -> None:
        """Start anew; with an ``output``, so that the next update with the same inputs gives just that output.

        The integral takes what the other terms leave of ``output``. What it cannot hold (beyond i_clamp, or with i = 0)
        starts as an offset that fades with a time constant of 0.5 s. Arrays of shape (coordinates,).

        Parameters
        ----------
        output : output to begin with, N; None: integral 0
        reference : m; None: as measured
        measurement : m; None: unknown
        measurement_rate : m/s; None: at rest
        feedforward : N; None: 0
        reference_rate : m/s; None: 0

        Raises
        ------
        ParameterError : a value that is not finite
        """
        zero = np.zeros_like(self.parameters.p)
        zero.setflags(write=False)  # shared by the state and the terms
        given = {
            "output": output,
            "reference": reference,
            "measurement": measurement,
            "measurement_rate": measurement_rate,
            "feedforward": feedforward,
            "reference_rate": reference_rate,
        }
        values = {name: None if value is None else np.array(value, dtype=float) for name, value in given.items()}
        for name, value in values.items():
            if value is not None and not (value.shape == zero.shape and np.all(np.isfinite(value))):
                raise ParameterError(name, value, f"{zero.size} finite values, one a coordinate")
        measured = values["measurement"]
        self._measurement: Vector = zero * np.nan if measured is None else measured
        self._rate: Vector = zero if values["measurement_rate"] is None else values["measurement_rate"]
        self._integral: Vector = zero
        self._start: Vector = zero
        error = zero
        if values["reference"] is not None and measured is not None:
            error = values["reference"] - measured
        wanted_rate = zero if values["reference_rate"] is None else values["reference_rate"]
        p_term = self.parameters.p * error
        d_term = self.parameters.d * (self.parameters.reference_velocity_weight * wanted_rate - self._rate)
        forward = zero if values["feedforward"] is None else values["feedforward"]
        if values["output"] is not None:
            self._start = values["output"] - p_term - d_term - forward
        self._settle_integral()
        i_term = self._integral + self._start
        unbounded = p_term + i_term + d_term + forward
        bounded = np.minimum(np.maximum(unbounded, self.parameters.u_clamp_min), self.parameters.u_clamp_max)
        self._last = PidTerms(error, p_term, i_term, d_term, forward, bounded, bounded != unbounded)

    def with_parameters(self, parameters: PidParameters) -> Pid:
        """The same controller in the same state with other parameters.

        The integral is kept in N, so a new i does not make the output jump. An integral that the new parameters cannot
        hold (i = 0, or narrower i_clamp) fades as in :meth:`reset`.

        Parameters
        ----------
        parameters : for the same number of coordinates

        Raises
        ------
        ParameterError : another number of coordinates
        """
        if parameters.p.shape != self.parameters.p.shape:
            raise ParameterError("parameters", parameters.p.size, f"gains for {self.parameters.p.size} coordinates")
        other = copy.copy(self)  # state arrays are replaced, never written into, so they may be shared
        other._set_parameters(parameters)
        other._settle_integral()
        return other

    def _settle_integral(self) -> None:
        """Let the integral take as much of integral and start offset as it can hold, and leave the rest to fade."""
        whole = self._integral + self._start
        held = np.minimum(np.maximum(whole, self.parameters.i_clamp_min), self.parameters.i_clamp_max)
        self._integral = np.where(self.parameters.i > 0, held, 0.0)
        self._start = whole - self._integral

    def update(
        self,
        reference: Vector,
        measurement: Vector,
        measurement_rate: Vector | None,
        dt: float,
        feedforward: Vector | None = None,
        *,
        reference_rate: Vector | None = None,
    ) -> PidTerms:
        """One cycle. Arrays of shape (coordinates,).

        Parameters
        ----------
        reference, measurement : m
        measurement_rate : m/s; None where nothing measures it: the difference quotient of the measurement is taken
        dt : time since the previous update, s
        feedforward : N, None for 0
        reference_rate : m/s, None for 0

        Returns
        -------
        all terms; NaN output, and a state left alone, for each coordinate where an input is not finite

        Raises
        ------
        ParameterError : dt negative or not finite
        """
        if not (0 <= dt < math.inf):
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        if dt == 0:
            return self._last
        k = self.parameters
        error = reference - measurement
        if measurement_rate is None:
            # After a gap nobody knows the time that the difference took: the rate stays as it was for one cycle.
            gap = np.isnan(self._measurement)
            measurement_rate = np.where(gap, self._rate, (measurement - self._measurement) / dt)
        if feedforward is None:
            feedforward = np.zeros_like(error)

        rate = self._rate + (measurement_rate - self._rate) * -np.expm1(-dt * self._filter_rate)
        p_term = k.p * error
        i_term = self._integral + self._start
        wanted_rate = 0.0 if reference_rate is None else k.reference_velocity_weight * reference_rate
        d_term = k.d * (wanted_rate - rate)
        unbounded = p_term + i_term + d_term + feedforward
        known = None
        if not math.isfinite(unbounded.sum()):
            known = np.isfinite(unbounded)
            error, unbounded = np.where(known, error, np.nan), np.where(known, unbounded, np.nan)
        output = np.minimum(np.maximum(unbounded, k.u_clamp_min), k.u_clamp_max)
        saturated = output != unbounded

        integrated = np.where(np.abs(error) <= k.error_deadband, 0.0, error) if self._deadband else error
        step = dt * k.i * integrated
        if self._conditional:
            step = np.where(k.conditional_integration & saturated & (error * unbounded > 0), 0.0, step)
        if self._back_calculation:
            step = step + np.minimum(dt * k.back_calculation_rate, 1.0) * (output - unbounded)
        integral = np.minimum(np.maximum(self._integral + step, k.i_clamp_min), k.i_clamp_max)
        start = self._start * math.exp(-dt / START_FADE_TIME_S)

        if known is not None:
            saturated = saturated & known
            integral, start = np.where(known, integral, self._integral), np.where(known, start, self._start)
            rate, measurement = np.where(known, rate, self._rate), np.where(known, measurement, np.nan)
        self._integral, self._start, self._rate, self._measurement = integral, start, rate, measurement
        self._last = PidTerms(error, p_term, i_term, d_term, feedforward, output, saturated)
        return self._last


def _back_calculation_rate(gains: PidGains) -> float:
    if gains.antiwindup_strategy != "back_calculation" or gains.i == 0:
        return 0.0
    time_constant = gains.tracking_time_constant
    if time_constant == 0:
        time_constant = math.sqrt(gains.d / gains.i) if gains.d > 0 else gains.p / gains.i
    # An integral controller alone has no time constant of its own: take back all of the excess at once.
    return math.inf if time_constant == 0 else 1 / time_constant
