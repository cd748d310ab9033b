# SPDX-License-Identifier: Apache-2.0
"""PID gains of a robot from the model of its loop: rod, tendons, motors, rate, delay, and the margins that are wanted.

Each part of the robot has d = g m, p = 2 z d and i = z^2 d: both zeros of the PID lie at z, and m is the mass that the
part's coordinates show about the crossover, from the frequency response of the plant. Among all pairs of g and z whose
loop keeps the margins, the one with the largest z^2 g has the largest integral gain, that is, the least error under a
slow disturbance (the criterion of Astrom and Hagglund, Advanced PID Control, 2006, section 6.7). The margins of the
result are those of :mod:`.delay_margin`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.delay_margin import (
    DelayMargin,
    SampledLoop,
    delay_margin_s,
    linear_plant,
    margins,
    sampled_loop,
)
from continuum_robot.errors import ParameterError
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.control_settings import (
    FASTEST_INTEGRAL_PER_S,
    PID_LAW,
    STATICS_LAW,
    ControlSettings,
    PidGains,
)
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

PHASE_MARGIN_RAD = math.radians(45.0)
GAIN_MARGIN = 2.5
LEAST_PHASE_MARGIN_RAD, LARGEST_PHASE_MARGIN_RAD = math.radians(20.0), math.radians(75.0)

_FILTER_S = 0.001
_MASS_ROUNDS = 3
_DAMPINGS, _DAMPING_RANGE = 12, 8.0
_BISECTIONS = 12
_DIGITS = 3
_SHRINK = 0.97
_SHRINKS = 60
_POINTS = 900
_RESONANCE_POINTS = (0.0, 0.3, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Gains that were found for a robot, and why these."""

    control: ControlSettings
    margins: DelayMargin
    before: DelayMargin | None
    mass_kg: tuple[float, ...]
    stiffness_n_per_m: tuple[float, ...]
    zero_hz: float
    wanted_phase_rad: float
    wanted_gain: float
    computing_s: float
    period_s: float
    limited_by: str


def tune(
    robot: Robot,
    *,
    phase_margin_rad: float = PHASE_MARGIN_RAD,
    gain_margin: float = GAIN_MARGIN,
    period_s: float | None = None,
    computing_cycles: int = 1,
) -> Tuning:
    """PID gains for a robot from its model alone; for servos that hold displacements the integral on shape or tip."""
    if robot.actuators is None or robot.limits is None:
        raise ParameterError("robot", robot.name, "a robot file with the sections actuators and limits")
    period_s = 1 / robot.actuators.cycle_hz if period_s is None else period_s
    if not LEAST_PHASE_MARGIN_RAD - 1e-9 <= phase_margin_rad <= LARGEST_PHASE_MARGIN_RAD + 1e-9:
        allowed = f"{math.degrees(LEAST_PHASE_MARGIN_RAD):.0f} to {math.degrees(LARGEST_PHASE_MARGIN_RAD):.0f} degrees"
        raise ParameterError("phase_margin", f"{math.degrees(phase_margin_rad):g} degrees", allowed)
    if not 1.2 <= gain_margin <= 20:
        raise ParameterError("gain_margin", gain_margin, "a factor from 1.2 to 20")
    if robot.takes_displacements:
        return _tuned_servos(robot, robot.actuators, phase_margin_rad, gain_margin, period_s)
    if robot.control is not None and robot.control.law != PID_LAW:
        raise ParameterError("control.law", robot.control.law, f"{PID_LAW}: no other law has these gains")
    given = robot.control
    settings = _first_settings(robot) if given is None else given
    loop = sampled_loop(robot.changed(control=settings), computing_cycles=computing_cycles, period_s=period_s)
    search = _Search(loop, phase_margin_rad, gain_margin, len(settings.gains))
    found = search.best()
    gains = search.gains(settings.gains, *found)
    for _ in range(_SHRINKS):
        reached = margins(loop.with_gains(gains))
        if reached.phase_margin_rad >= phase_margin_rad and reached.gain_margin >= gain_margin:
            break
        # The grid of the search lies beside the crossover, and gains are rounded.
        found = (_SHRINK * found[0], _SHRINK * found[1])
        gains = search.gains(settings.gains, *found)
    else:
        raise search.failed()
    note = (
        f"Tuned on the linear model for a phase margin of {math.degrees(phase_margin_rad):.3g} degrees and a gain"
        f" margin of {gain_margin:.3g} at {1 / period_s:.4g} Hz with {1e3 * loop.computing_s:.3g} ms from a reading to"
        f" its command: d = g m, p = 2 z d, i = z^2 d with g = {found[0]:.3g} 1/s, z = {found[1]:.3g} rad/s and"
        f" m = {', '.join(f'{mass:.3g}' for mass in search.mass_kg)} kg."
    )
    return Tuning(
        control=dataclasses.replace(settings, gains=gains, note=note),
        margins=reached,
        before=None if given is None else margins(loop),
        mass_kg=tuple(search.mass_kg.tolist()),
        stiffness_n_per_m=_stiffness(robot, len(gains)),
        zero_hz=found[1] / (2 * math.pi),
        wanted_phase_rad=phase_margin_rad,
        wanted_gain=gain_margin,
        computing_s=loop.computing_s,
        period_s=period_s,
        limited_by="phase" if reached.phase_margin_rad < 1.1 * phase_margin_rad else "gain",
    )


def _tuned_servos(
    robot: Robot, actuators: Actuators, phase_margin_rad: float, gain_margin: float, period_s: float
) -> Tuning:
    """The largest integral on shape or tip that keeps the margins."""
    given = robot.control_settings
    if given.law != STATICS_LAW:
        raise ParameterError("control.law", given.law, f"{STATICS_LAW}: no other law has this integral")
    if not robot.sees_shape and not robot.sees_tip:
        expected = "strings, a fibre or hardware.tracker: servos have loops of their own, and nothing else to tune"
        raise ParameterError("robot", robot.name, expected)
    robot = robot.changed(actuators=dataclasses.replace(actuators, rate_hz=1 / period_s))

    def at(rate: float) -> tuple[ControlSettings, DelayMargin]:
        settings = dataclasses.replace(given, integral_per_s=rate)
        return settings, delay_margin_s(robot.changed(control=settings))

    low, high = 0.0, FASTEST_INTEGRAL_PER_S
    while high - low > 1e-2 * high:
        middle = (low + high) / 2
        reached = at(middle)[1]
        kept = reached.phase_margin_rad >= phase_margin_rad and reached.gain_margin >= gain_margin
        low, high = (middle, high) if kept else (low, middle)
    rate = math.floor(1e2 * low) / 1e2
    settings, reached = at(rate)
    limited_by = "phase" if reached.phase_margin_rad < 1.1 * phase_margin_rad else "gain"
    before = at(given.integral_per_s)[1] if given.integral_per_s else None
    wanted = {"wanted_phase_rad": phase_margin_rad, "wanted_gain": gain_margin}
    loop = {"computing_s": reached.computing_delay_s, "period_s": period_s, "zero_hz": math.nan}
    return Tuning(settings, reached, before, (), (), limited_by=limited_by, **wanted, **loop)


class GridResponse:
    """Frequency response of a loop with many gains: that of all that the gains act on is computed once.

    Attributes
    ----------
    w : frequencies, denser about the plant's resonances, (k,), rad/s
    terms : response of positions, integrals and rates, (k, 3, coordinates, coordinates)
    """

    def __init__(self, loop: SampledLoop) -> None:
        self.w = _grid(loop)
        z = np.exp(1j * loop.period_s * self.w)[:, None, None]
        solved = np.linalg.solve(z * np.eye(len(loop.A)) - loop.A, loop.B.astype(complex)[None])
        self.terms = np.einsum("tcn,wnm->wtcm", loop.terms, solved)

    def eigenvalues(self, gains: Vector) -> NDArray[np.complex128]:
        """Of the open loop with gains (parts, 3), p, i and d of each: by falling magnitude, (k, coordinates)."""
        each = np.repeat(gains, self.terms.shape[2] // len(gains), axis=0)
        values = np.linalg.eigvals(np.einsum("ct,wtcm->wcm", each, self.terms))
        return np.take_along_axis(values, np.argsort(-np.abs(values), axis=1), axis=1)


class _Search:
    """Looks at one loop with many gains."""

    def __init__(self, loop: SampledLoop, phase_rad: float, gain: float, parts: int) -> None:
        self._loop, self._phase_rad, self._gain, self._parts = loop, phase_rad, gain, parts
        self._response = GridResponse(loop)
        self.mass_kg: Vector = np.ones(parts)

    def failed(self) -> ParameterError:
        return ParameterError(
            "phase_margin",
            f"{math.degrees(self._phase_rad):.3g} degrees",
            "less: no gains reach it with this plant, rate and delay",
        )

    def best(self) -> tuple[float, float]:
        """Find g and z, 1/s; the masses are those about the crossover."""
        crossover = 0.3 / (self._loop.computing_s + 2 * self._loop.period_s)
        found = (0.0, 0.0)
        for _ in range(_MASS_ROUNDS):
            self.mass_kg = self._masses(crossover)
            found = self._best()
            crossover = self._crossover(*found)
        return found

    def gains(self, given: tuple[PidGains, ...], rate: float, zero: float) -> tuple[PidGains, ...]:
        """The gains of g and z, rounded down; all else as ``given``."""
        return tuple(
            dataclasses.replace(one, p=rounded_down(2 * zero * d), i=rounded_down(zero**2 * d), d=rounded_down(d))
            for one, d in zip(given, (rate * self.mass_kg).tolist(), strict=True)
        )

    def _masses(self, crossover: float) -> Vector:
        w = self._response.w
        near = (w > crossover / 2) & (w < crossover * 2)
        response = np.abs(np.diagonal(self._response.terms[near, 0], axis1=1, axis2=2))
        shown = np.exp(-np.mean(np.log(response * w[near, None] ** 2), axis=0))
        return np.asarray(shown.reshape(self._parts, -1).max(axis=1))

    def _eigenvalues(self, rate: float, zero: float) -> NDArray[np.complex128]:
        d = rate * self.mass_kg
        return self._response.eigenvalues(np.column_stack([2 * zero * d, zero**2 * d, d]))

    def _crossover(self, rate: float, zero: float) -> float:
        above = np.flatnonzero(np.abs(self._eigenvalues(rate, zero)[:, 0]) > 1)
        return float(self._response.w[above[-1] if len(above) else 0])

    def _keeps(self, rate: float, zero: float) -> bool:
        """Whether the loop keeps both margins with these g and z."""
        values = self._eigenvalues(rate, zero)
        above = np.abs(values) > 1
        rows, ranks = np.nonzero(above[1:] != above[:-1])
        near = np.concatenate([values[rows, ranks], values[rows + 1, ranks]])
        if len(near) and np.abs(np.angle(-near)).min() < self._phase_rad:
            return False
        gains = [PidGains(p=2 * zero * d, i=zero**2 * d, d=d) for d in rate * self.mass_kg]
        loop = self._loop.with_gains(gains)
        return all(loop.is_stable(factor) for factor in np.geomspace(1.0, self._gain, 4))

    def _best(self) -> tuple[float, float]:
        slowest = 1e-3 / self._loop.period_s
        low, high = slowest, 1e3 * slowest
        for _ in range(_BISECTIONS):  # the largest g that keeps the margins without p and i
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._keeps(middle, 1e-3 * slowest) else (low, middle)
        found, best = (0.0, 0.0), 0.0
        for rate in np.geomspace(low / _DAMPING_RANGE, low, _DAMPINGS).tolist():
            zero = self._largest_zero(rate)
            if zero**2 * rate > best:
                found, best = (rate, zero), zero**2 * rate
        if best == 0:
            raise self.failed()
        return found

    def _largest_zero(self, rate: float) -> float:
        low, high = rate / 200, rate
        if not self._keeps(rate, low):
            return 0.0
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._keeps(rate, middle) else (low, middle)
        return low


def _grid(loop: SampledLoop) -> Vector:
    """Frequencies, denser about the plant's resonances, (k,), rad/s."""
    highest = math.pi / loop.period_s
    grid = np.geomspace(1e-3 * highest, highest, _POINTS)
    poles = np.linalg.eigvals(loop.A)
    poles = np.log(poles[np.abs(poles) > 1e-3].astype(complex)) / loop.period_s
    sharp = poles[(poles.imag > grid[0]) & (-poles.real < 0.3 * poles.imag)]
    about = np.array(_RESONANCE_POINTS)
    near = [pole.imag + sign * about * max(-pole.real, 1e-4 * pole.imag) for pole in sharp for sign in (-1, 1)]
    whole = np.concatenate([grid, *near])
    return np.unique(whole[(whole > 0) & (whole <= highest)])


def rounded_down(value: float) -> float:
    """To so many digits that a person reads them, downwards."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.{_DIGITS}g}")


def _stiffness(robot: Robot, parts: int) -> tuple[float, ...]:
    """At rest, N/m; 0 where nothing holds the tendons."""
    A, B, C = linear_plant(robot)
    if robot.traits.without_statics:
        return (0.0,) * parts
    compliance = -np.diag(C @ np.linalg.solve(A, B))
    return tuple((1 / compliance.reshape(parts, -1).max(axis=1)).tolist())


def _first_settings(robot: Robot) -> ControlSettings:
    """Settings for a robot whose file has none; p, i and d are of no meaning."""
    motor, limits = robot.actuators, robot.tension_limits
    if motor is None:
        raise ParameterError("robot", robot.name, "a robot file with the sections actuators and limits")
    count = robot.tendon_count
    friction_n = float((motor.each("coulomb_n", count) + motor.each("cogging_n", count)).max())
    most_n = limits.smallest("maximum_n", count)
    pretension_n = min(max(limits.largest("minimum_n", count), 1.5 * friction_n, 0.1 * most_n), 0.5 * most_n)
    bound = 2 * most_n
    gains = PidGains(
        p=1.0,
        d=1.0,
        u_clamp_max=bound,
        u_clamp_min=-bound,
        i_clamp_max=bound / 2,
        i_clamp_min=-bound / 2,
        derivative_filter_time=_FILTER_S,
        reference_velocity_weight=1.0,
    )
    shift = "least_sum" if robot.traits.without_clarke else "shift"
    return ControlSettings(gains=(gains,) * len(robot.part_names), pretension_n=pretension_n, tendon_forces=shift)
