# SPDX-License-Identifier: Apache-2.0
"""PID gains by the gradient of a simulated run: rod on the kernel, motors, delay, filters and PID, and their adjoint.

The rod moves as it bends, with its weight, by the implicit steps of the kernel; its tendons do not stretch. The motors
are reflected masses with viscous friction and a current lag, the command waits for the cycles of computing, and the PID
is the difference equation of control/pid.py behind the velocity filter of the motor boards, without its bounds. What
bounds the gains are the margins of :mod:`.delay_margin`, whose linear loop has the tendons' elasticity: they are
constraints of the search, sequential quadratic programming over the logarithms of all parts' p, i and d.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, minimize

from continuum_robot.control.delay_margin import BOARD_VELOCITY_FILTER_S, SampledLoop, margins, sampled_loop
from continuum_robot.control.references import Reference, blend
from continuum_robot.control.tuning import GridResponse, Tuning, rounded_down
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import PidGains
from continuum_robot.robot.description import Robot
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import NotConvergedError
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.rod.trajectory import driven_rod

Vector = NDArray[np.float64]

ENTRY_S = 0.5
"""Into the reference, from rest."""
DURATION_S = 1.5
_LARGEST_FACTOR = 4.0
_MARGIN_STEP = 1e-4  # of the logarithm of a gain
_WIDE = 3.0  # a margin so much wider than wanted is not looked at
_RESERVE = 0.01  # of the margins, for rounding
_PARTS = 21  # of the last tenth of the way from the rule's gains
_TOLERANCE = 1e-12


class GainObjective:
    """Mean square error of a robot's coordinates in a simulated run, m^2, and its gradient by the gains.

    The robot follows a reference from rest, entered within :data:`ENTRY_S`; from the middle of the run on a force acts
    on each coordinate as large as all its motors' dry friction and cogging against it, or 0.05 of ``limits.maximum_n``
    where the motors have neither.

    Parameters
    ----------
    robot : a rod with actuators that take tensions, limits and control
    reference : of the Clarke coordinates
    duration_s : of the run, s
    period_s : of the driver's cycle, s
    computing_cycles : from a reading to its command

    Attributes
    ----------
    parts : how many parts of the robot have gains

    Raises
    ------
    ParameterError : another robot
    """

    def __init__(
        self, robot: Robot, reference: Reference, *, period_s: float, computing_cycles: int = 1,
        duration_s: float = DURATION_S,
    ) -> None:  # fmt: skip
        motor, settings = robot.tendon_actuators, robot.control
        if robot.traits.kind != ROD or motor is None or settings is None or not settings.gains:
            expected = "a rod whose motors take tensions, with gains: of others the rule alone is known"
            raise ParameterError("robot", robot.name, expected)
        self._T, self._cycles = period_s, computing_cycles
        self._rod, manifold, count = driven_rod(robot), controlled_manifold(robot), robot.tendon_count
        self._C, D = manifold.clarke_matrix, manifold.displacement_matrix
        coordinates = len(self._C)
        self.parts = len(settings.gains)
        self._entry = np.repeat(np.arange(self.parts), coordinates // self.parts)
        self._pretension = settings.pretension_n * np.asarray(manifold.shift_direction)
        self._start = self._rod.equilibrium(self._pretension).c
        start_m = self._C @ self._rod.displacement(self._start)
        steps = round(duration_s / period_s)
        desired = [reference.at(k * period_s) for k in range(steps)]
        desired = [blend(start_m, one, min(1.0, k * period_s / ENTRY_S), ENTRY_S) for k, one in enumerate(desired)]
        self._position = np.array([one.position for one in desired])
        self._velocity = np.array([one.velocity for one in desired])
        self._fed = np.zeros_like(self._position)
        if settings.feedforward_stiffness or settings.feedforward_gravity:
            holding = clarke_feedforward(robot)
            for row, at in zip(self._fed, self._position, strict=True):
                elastic, gravity = holding(at)
                row[:] = settings.feedforward_stiffness * elastic + settings.feedforward_gravity * gravity
        dry_n = motor.each("coulomb_n", count) + motor.each("cogging_n", count)
        if not dry_n.any():
            dry_n = np.full(count, 0.05 * robot.tension_limits.smallest("maximum_n", count))
        self._disturbance = np.zeros_like(self._position)
        self._disturbance[steps // 2 :] = np.abs(D).T @ dry_n
        filters_s = np.array([one.derivative_filter_time for one in settings.gains])[self._entry]
        with np.errstate(divide="ignore"):
            self._smooth = -np.expm1(-period_s / filters_s)
        self._weight = np.array([one.reference_velocity_weight for one in settings.gains])[self._entry]
        self._board = period_s / (BOARD_VELOCITY_FILTER_S + period_s)
        lag_s = motor.current_time_constant_s
        self._left = math.exp(-period_s / lag_s)  # of a current after a period, and of it in the mean
        self._mean = lag_s / period_s * (1 - self._left)

    def value(self, gains: Vector) -> float:
        """The mean square error with gains (parts, 3): p, i and d of each; inf where the run grows beyond bounds."""
        return self._run(gains)[0]

    def value_and_gradient(self, gains: Vector) -> tuple[float, Vector]:
        """:meth:`value` and its gradient by the gains, (parts, 3)."""
        cost, kept = self._run(gains)
        return cost, self._back(gains, kept) if math.isfinite(cost) else np.zeros_like(gains)

    def _run(self, gains: Vector) -> tuple[float, list[tuple[Any, ...]]]:
        p, i, d = gains[self._entry].T
        rod, T, C = self._rod, self._T, self._C
        lengths = rod.prepared_lengths()
        c, v = self._start, np.zeros(rod.n)
        q = C @ (rod.rest_m - lengths(c).length_m)
        velocity, rate, current = np.zeros_like(q), np.zeros_like(q), np.zeros_like(q)
        integral, sum_of_squares = -self._fed[0], 0.0
        queue = [np.zeros_like(q)] * self._cycles
        kept: list[tuple[Any, ...]] = []
        for k, (wanted, wanted_rate) in enumerate(zip(self._position, self._velocity, strict=True)):
            found = lengths(c)
            before, q = q, C @ (rod.rest_m - found.length_m)
            velocity = velocity + self._board * ((q - before) / T - velocity)
            rate = rate + self._smooth * (velocity - rate)
            error, slow = wanted - q, self._weight * wanted_rate - rate
            asked = p * error + integral + d * slow + self._fed[k]
            integral = integral + T * i * error
            queue = [asked, *queue]
            arriving = queue.pop()
            pull = (1 - self._mean) * arriving + self._mean * current
            current = (1 - self._left) * arriving + self._left * current
            tension = C.T @ (pull + self._disturbance[k]) + self._pretension
            kept.append((c, v, tension, -(C @ found.gradient), error, slow))
            sum_of_squares += float(error @ error)
            if not sum_of_squares < len(self._position):  # a metre off
                return math.inf, []
            try:
                ends = rod.motions(c[None], v[None], tension[None, None], T, tolerance=_TOLERANCE, threads=1)
            except NotConvergedError:
                return math.inf, []
            c, v = ends[0][0], ends[1][0]
        return sum_of_squares / len(kept), kept

    def _back(self, gains: Vector, kept: list[tuple[Any, ...]]) -> Vector:
        p, i, d = gains[self._entry].T
        T, C, board, smooth = self._T, self._C, self._board, self._smooth
        # Gradients by what passes from a cycle to the next.
        on_c, on_p = np.zeros(self._rod.n), np.zeros(self._rod.n)
        none = np.zeros(len(C))
        on_before, on_velocity, on_rate, on_integral, on_current = (none,) * 5
        on_queue = [none] * self._cycles
        found = np.zeros((3, len(C)))
        for c, v, tension, gradient, error, slow in reversed(kept):
            step = self._rod.gradient_of_end(c, v, tension[None], T, on_c, on_p)
            on_pull = C @ step.by_tension[0]
            on_arriving = (1 - self._mean) * on_pull + (1 - self._left) * on_current
            on_current = self._mean * on_pull + self._left * on_current
            on_queue = [*on_queue, on_arriving]
            on_asked = on_queue.pop(0)
            on_error = 2 * error / len(kept) + p * on_asked + T * i * on_integral
            found += on_asked * error, T * error * on_integral, on_asked * slow
            on_integral = on_integral + on_asked
            on_rate = on_rate - d * on_asked
            on_velocity = on_velocity + smooth * on_rate
            on_rate = (1 - smooth) * on_rate
            on_q = on_before - on_error + board / T * on_velocity
            on_before = -board / T * on_velocity
            on_velocity = (1 - board) * on_velocity
            on_c, on_p = step.by_c + gradient.T @ on_q, step.by_momentum
        return np.array([found[:, self._entry == part].sum(axis=1) for part in range(self.parts)])


@dataclass(frozen=True, slots=True)
class GradientTuning:
    """Gains found by gradient, beside those of the rule that they began at.

    Attributes
    ----------
    tuning : margins and settings; mass and stiffness as the rule's, its zeros unknown (NaN)
    rule_m, found_m : root mean square error of the coordinates in the simulated run, m
    evaluations : of the run with its gradient
    """

    tuning: Tuning
    rule_m: float
    found_m: float
    evaluations: int


def tune_by_gradient(
    robot: Robot, rule: Tuning, reference: Reference, *, duration_s: float = DURATION_S, iterations: int = 15
) -> GradientTuning:
    """Gains of least error in a simulated run among those that keep the margins which the rule was asked for.

    Parameters
    ----------
    robot : as of :class:`GainObjective`; its file may have no control
    rule : gains to begin at, with their margins, rate and delay
    reference, duration_s : as of :class:`GainObjective`
    iterations : of the search, at most

    Raises
    ------
    ParameterError : a robot that is no rod, or whose motors take displacements
    """
    settings, cycles = rule.control, round(rule.computing_s / rule.period_s)
    robot = robot.changed(control=settings)
    objective = GainObjective(robot, reference, period_s=rule.period_s, computing_cycles=cycles, duration_s=duration_s)
    loop = sampled_loop(robot, computing_cycles=cycles, period_s=rule.period_s)
    first = np.array([[one.p, one.i, one.d] for one in settings.gains])
    unit = objective.value(first)
    if not math.isfinite(unit):
        raise ParameterError("gains", "of the rule", "gains with which the simulated robot follows its reference")

    response, tried = GridResponse(loop), list[Vector]()

    def value(logarithms: Vector) -> tuple[float, Vector]:
        gains = first * np.exp(logarithms.reshape(first.shape))
        cost, gradient = objective.value_and_gradient(gains)
        return (cost / unit, (gradient * gains).ravel() / unit) if math.isfinite(cost) else (1e3, np.zeros(first.size))

    def room(logarithms: Vector) -> Vector:
        return _room(response, first * np.exp(logarithms.reshape(first.shape)), rule) - _RESERVE

    bound = math.log(_LARGEST_FACTOR)
    found = minimize(
        value, np.zeros(first.size), jac=True, method="SLSQP", bounds=[(-bound, bound)] * first.size,
        constraints=[{"type": "ineq", "fun": room, "jac": lambda x: approx_fprime(x, room, _MARGIN_STEP)}],
        callback=lambda x: tried.append(x.copy()), options={"maxiter": iterations, "ftol": 1e-3},
    )  # fmt: skip
    best, cost = first, unit
    # Where the search left a margin, on the way back to the rule's gains, which keep both.
    for logarithms in (found.x, *reversed(tried)):
        for part in np.linspace(1.0, 0.9, _PARTS):
            gains = _digits(first * np.exp(part * logarithms.reshape(first.shape)))
            if _keeps(loop, gains, rule):
                reached_m2 = objective.value(gains)
                best, cost = (gains, reached_m2) if reached_m2 < cost else (best, cost)
                break
        if cost < unit:
            break
    note = (
        f"Tuned by gradient from the rule's gains: {1e3 * math.sqrt(cost):.3g} mm of error, not"
        f" {1e3 * math.sqrt(unit):.3g}, in a run of {duration_s:g} s along the reference with a step of force."
        f" {settings.note}"
    )
    control = dataclasses.replace(settings, gains=_with(settings.gains, best), note=note)
    reached = margins(loop.with_gains(control.gains))
    tuning = dataclasses.replace(
        rule, control=control, margins=reached, zero_hz=math.nan,
        limited_by="phase" if reached.phase_margin_rad < 1.1 * rule.wanted_phase_rad else "gain",
    )  # fmt: skip
    return GradientTuning(tuning, math.sqrt(unit), math.sqrt(cost), int(found.nfev))


def _keeps(loop: SampledLoop, gains: Vector, rule: Tuning) -> bool:
    reached = margins(loop.with_gains([PidGains(p=p, i=i, d=d) for p, i, d in gains.tolist()]))
    wide = not reached.phase_margin_rad < rule.wanted_phase_rad  # NaN: no crossover
    return reached.margin_s > 0 and wide and reached.gain_margin >= rule.wanted_gain


def _room(response: GridResponse, gains: Vector, rule: Tuning) -> Vector:
    """Fractions by which phase and gain margin of each part are wider than those wanted, (2 parts,).

    Between two frequencies of the grid the logarithm of an eigenvalue is taken as linear. Those of the parts' planes
    come in pairs; one a part is enough.
    """
    values = response.eigenvalues(gains)
    size, angle = np.log(np.abs(values)), np.angle(-values)
    turned = angle[:-1] + np.angle(values[1:] / values[:-1])
    found = np.full((2, values.shape[1]), _WIDE)
    for rank in range(values.shape[1]):
        low, high, begin, end = size[:-1, rank], size[1:, rank], angle[:-1, rank], turned[:, rank]
        at = np.flatnonzero((low > 0) != (high > 0))
        if at.size:
            part = low[at] / (low[at] - high[at])
            lag = np.abs(begin[at] + part * (end[at] - begin[at]))
            found[0, rank] = min(_WIDE, lag.min() / rule.wanted_phase_rad - 1)
        at = np.flatnonzero((begin > 0) != (end > 0))
        if at.size:
            part = begin[at] / (begin[at] - end[at])
            factor = np.exp(-(low[at] + part * (high[at] - low[at])))
            found[1, rank] = min(_WIDE, factor[factor > 1].min(initial=np.inf) / rule.wanted_gain - 1)
    return np.asarray(found.reshape(2, len(gains), -1).min(axis=2).ravel())


def _digits(gains: Vector) -> Vector:
    return np.array([[rounded_down(value) for value in row] for row in gains.tolist()])


def _with(given: tuple[PidGains, ...], gains: Vector) -> tuple[PidGains, ...]:
    return tuple(dataclasses.replace(one, p=p, i=i, d=d) for one, (p, i, d) in zip(given, gains.tolist(), strict=True))
