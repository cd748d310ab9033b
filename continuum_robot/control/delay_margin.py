# SPDX-License-Identifier: Apache-2.0
"""Delay margin of a robot's Clarke loop: how much later a command may come before the loop rings up.

The open loop is PID x sampling x motors x rod, linear about the straight shape with all tendons tight. The rod is
muhmann (25) with M and the Hessian of V at c = 0, the tendons are springs and dampers between rod and spool, and the
motors are reflected masses with a current lag, all in Clarke coordinates by muhmann (27). A zero-order hold samples it
exactly, and the PID is the difference equation of control/pid.py behind the velocity filter of the motor boards. Dry
friction and cogging are left out: the former damps, the latter holds.

Margins are those of the eigenvalues of the loop's frequency response (generalised Nyquist criterion): where one has
the magnitude 1 at the frequency w and the phase f - pi, the delay f / w in all tendons brings it to -1. Derived here
for any number of coupled segments.

Servos that hold displacements have their loops inside. What is closed around them is the integral on a measured shape
alone, the same in every coordinate: r / s times the servo, taken as critically damped, w^2 / (s + w)^2, and the delay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import PidGains
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]

BOARD_VELOCITY_FILTER_S = 1e-3
"""Time constant of the low-pass on the velocity that a motor board measures, s."""
ROD, MOTORS, SERVOS = "rod", "motors", "servos"
SHAPE_PERIOD_S = 0.01
"""Of a measured shape, s."""

_MARGINAL = 1e-9  # an integral without gain and a mode that no tendon reaches stay on the unit circle
_POINTS = 1500
_LOWEST_RAD_PER_S = 0.05
_GREATEST_GAIN = 1000.0
_ROUGHLY_EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class DelayMargin:
    """How far a robot's loop is from instability."""

    margin_s: float
    crossover_hz: float
    phase_margin_rad: float
    gain_margin: float
    coordinate: int
    computing_delay_s: float
    plant: str


@dataclass(frozen=True, slots=True)
class SampledLoop:
    """The loop cut open between the controller and what delays its command: x(k+1) = A x + B u, u desired = -C x.

    Attributes
    ----------
    A : of plant, filters, integral and delay, shape (n, n)
    B : of the generalised force that arrives, shape (n, coordinates), 1/N
    terms : rows of the Clarke coordinates, their integrals and their filtered rates, on which the gains p, i and d act;
        shape (3, coordinates, n)
    C : of the generalised force that the controller takes away, shape (coordinates, n), N
    computing_s : from a reading to its command on the motors, s
    period_s : between two samples, s
    plant : as in :class:`DelayMargin`
    """

    A: Vector
    B: Vector
    terms: Vector
    C: Vector
    computing_s: float
    period_s: float
    plant: str

    def with_gains(self, gains: Sequence[PidGains]) -> SampledLoop:
        """The same loop with other gains p, i and d, one entry a part of the robot; filter times stay."""
        return replace(self, C=_force(self.terms, gains))

    def transition(self, gain: complex = 1.0) -> NDArray[np.complex128]:
        """The closed loop's transition matrix, (n, n), with a factor on the loop's gain; stable inside |z| = 1."""
        return np.asarray(self.A - gain * self.B @ self.C, dtype=np.complex128)

    def is_stable(self, gain: complex = 1.0) -> bool:
        """Whether no motion of the closed loop grows, with a factor on the loop's gain (a number)."""
        return bool(np.abs(np.linalg.eigvals(self.transition(gain))).max() <= 1 + _MARGINAL)

    def response(self, frequency_rad_per_s: Vector) -> NDArray[np.complex128]:
        """Frequency response of the open loop, shape (k, coordinates, coordinates)."""
        z = np.exp(1j * self.period_s * np.atleast_1d(frequency_rad_per_s))[:, None, None]
        return np.asarray(self.C @ np.linalg.solve(z * np.eye(len(self.A)) - self.A, self.B.astype(complex)[None]))


def delay_margin_s(
    robot: Robot,
    *,
    computing_cycles: int = 1,
    period_s: float | None = None,
    velocity_filter_s: float = BOARD_VELOCITY_FILTER_S,
) -> DelayMargin:
    """Additional delay between reading and command that the robot's Clarke PID loop stands, from its file alone.

    For a robot whose actuators take displacements that of the integral on its shape, at the rate of its bus.
    """
    if robot.takes_displacements:
        return _servo_margins(robot)
    loop = sampled_loop(
        robot, computing_cycles=computing_cycles, period_s=period_s, velocity_filter_s=velocity_filter_s
    )
    return margins(loop)


def _servo_margins(robot: Robot) -> DelayMargin:
    """Of the integral on shape or tip: with a bus cycle from reading to command and a period of the shape on the way.

    A tracker is late besides, by its latency.
    """
    actuators, control = robot.actuators, robot.control
    if actuators is None or actuators.servo is None or control is None:
        raise ParameterError("robot", robot.name, "a robot file with the sections actuators and control")
    delay_s, rate = 1 / actuators.cycle_hz + SHAPE_PERIOD_S, control.integral_per_s
    if robot.hardware is not None and robot.sees_tip and not robot.sees_shape:
        delay_s += getattr(robot.hardware.tracker, "latency_s", 0.0)
    if not rate:
        return DelayMargin(math.inf, math.nan, math.nan, math.inf, 0, delay_s, SERVOS)
    w = actuators.smallest("bandwidth_rad_per_s", robot.tendon_count)

    def gain(frequency: float) -> float:
        return rate / frequency / (1 + (frequency / w) ** 2)

    def lead(frequency: float) -> float:
        return math.pi / 2 - 2 * math.atan(frequency / w) - frequency * delay_s

    turns = _bisected(lambda frequency: lead(frequency) < 0, 1e-6 * w, w, rising=True)
    gain_margin = 1 / gain(turns)
    if gain_margin <= 1:
        return DelayMargin(0.0, math.nan, math.nan, math.nan, 0, delay_s, SERVOS)
    crossover = _bisected(lambda frequency: gain(frequency) < 1, 1e-6 * w, w, rising=True)
    phase = lead(crossover)
    return DelayMargin(phase / crossover, crossover / (2 * math.pi), phase, gain_margin, 0, delay_s, SERVOS)


def margins(loop: SampledLoop) -> DelayMargin:
    """Margins of a sampled loop with its gains."""
    if not loop.is_stable():
        return DelayMargin(0.0, math.nan, math.nan, math.nan, 0, loop.computing_s, loop.plant)
    crossings = _crossings(loop)
    gain_margin = _gain_margin(loop)
    if not crossings:
        return DelayMargin(math.inf, math.nan, math.nan, gain_margin, 0, loop.computing_s, loop.plant)
    frequency, lag, coordinate = min(crossings, key=lambda one: (round(one[1] / one[0], 9), one[2]))
    phase = min(min(lag, 2 * math.pi - lag) for _, lag, _ in crossings)
    return DelayMargin(
        lag / frequency, frequency / (2 * math.pi), phase, gain_margin, coordinate, loop.computing_s, loop.plant
    )


def sampled_loop(
    robot: Robot,
    *,
    computing_cycles: int = 1,
    period_s: float | None = None,
    velocity_filter_s: float = BOARD_VELOCITY_FILTER_S,
) -> SampledLoop:
    """Sampled open loop of a robot under its Clarke controller. Arguments as for :func:`delay_margin_s`."""
    if robot.actuators is None or robot.control is None or not robot.control.gains:
        raise ParameterError("robot", robot.name, "a robot file with the sections actuators and control, with gains")
    if computing_cycles < 0:
        raise ParameterError("computing_cycles", computing_cycles, "a number of cycles of at least 0")
    period_s = 1 / robot.actuators.cycle_hz if period_s is None else period_s
    for name, value, least in (("period_s", period_s, 1e-6), ("velocity_filter_s", velocity_filter_s, 0.0)):
        if not least <= value < math.inf:
            raise ParameterError(name, value, f"a time of at least {least:g} s")
    kind = MOTORS if robot.traits.without_statics else ROD
    A, B, C = linear_plant(robot)
    count = C.shape[0]
    per_entry = count // len(robot.control.gains)
    gains = robot.control.gains
    filters_s = np.repeat([one.derivative_filter_time for one in gains], per_entry)
    with np.errstate(divide="ignore"):
        smooth = np.diag(-np.expm1(-period_s / filters_s))  # as in control/pid.py
    board = period_s / (velocity_filter_s + period_s)
    # The plant over one period with the force held: exp of [[A, B], [0, 0]].
    size = len(A)
    held = scipy.linalg.expm(period_s * np.block([[A, B], [np.zeros((count, size + count))]]))[:size]
    # State: plant, position of the cycle before, board's velocity, filtered rate, integral (m.s), commands on the way.
    ends = np.cumsum([size, *[count] * (4 + computing_cycles)])
    total = int(ends[-1])
    x, before, velocity, rate, integral, *queue = np.split(np.eye(total), ends[:-1])
    position = C @ x
    new_velocity = velocity + board * ((position - before) / period_s - velocity)
    new_rate = rate + smooth @ (new_velocity - rate)
    terms = np.stack([position, integral, new_rate])
    arriving = np.zeros((total, count))
    if computing_cycles:
        moved = held[:, :size] @ x + held[:, size:] @ queue[-1]
        arriving[ends[4] : ends[5]] = np.eye(count)
    else:
        moved = held[:, :size] @ x
        arriving[:size] = held[:, size:]
    following = [np.zeros((count, total)), *queue[:-1]] if computing_cycles else []
    transition = np.vstack([moved, position, new_velocity, new_rate, integral + period_s * position, *following])
    computing_s = computing_cycles * period_s
    return SampledLoop(transition, arriving, terms, _force(terms, gains), computing_s, period_s, kind)


def _force(terms: Vector, gains: Sequence[PidGains]) -> Vector:
    """Rows of the generalised force that the PID takes away, (coordinates, n), of those that its gains act on."""
    per_entry = terms.shape[1] // len(gains)
    each = np.repeat([[one.p, one.i, one.d] for one in gains], per_entry, axis=0)
    return np.asarray(np.einsum("ct,tcn->cn", each, terms))


def linear_plant(robot: Robot) -> tuple[Vector, Vector, Vector]:
    """Rod and motors about the straight shape, tendons tight, in Clarke coordinates: x' = A x + B f, q = C x."""
    return _motors(robot) if robot.traits.without_statics else _rod_and_motors(robot)


def _rod_and_motors(robot: Robot) -> tuple[Vector, Vector, Vector]:
    """Rod, elastic tendons and motors.

    z are the Clarke coordinates at the spools, P c those of the rod, W = D^T D, k and b the tendons' springs, dampers:
    M c'' + D_r c' + K c = P^T s with s = D^T k D (z - P c) + W b (z' - P c'); D^T m D z'' = F - s - D^T v D z' with the
    motors' masses and friction on the diagonals of m and v; t F' = f - F.
    """
    rod = Rod(robot)  # the inertia of capstans is that of the rotors
    straight = np.zeros(rod.n)
    mass, damping = rod.terms(straight, straight).mass, rod.arrays.damping
    stiffness = Balance(rod).hessian(straight)
    manifold = controlled_manifold(robot)
    D = manifold.displacement_matrix
    P = manifold.clarke_matrix @ rod.displacement_gradient(straight)
    W, n, m = D.T @ D, rod.n, manifold.coordinate_count
    springs, b = D.T @ (robot.tendon_stiffnesses_n_per_m[:, None] * D), robot.simulation.tendon_damping_ns_per_m
    c, rate, z, speed, driven = np.split(np.eye(2 * n + 3 * m), np.cumsum([n, n, m, m]))
    pull = springs @ (z - P @ c) + b * W @ (speed - P @ rate)
    acceleration = np.linalg.solve(mass, P.T @ pull - stiffness @ c - damping @ rate)
    spool, lagged, B = _spools(robot, D, pull, speed, driven)
    return np.vstack([rate, acceleration, speed, spool, lagged]), B, z


def _motors(robot: Robot) -> tuple[Vector, Vector, Vector]:
    """The same without a body: the motors' reflected mass alone."""
    D = controlled_manifold(robot).displacement_matrix
    m = D.shape[1]
    z, speed, driven = np.split(np.eye(3 * m), 3)
    spool, lagged, B = _spools(robot, D, np.zeros((m, 3 * m)), speed, driven)
    return np.vstack([speed, spool, lagged]), B, z


def _spools(robot: Robot, D: Vector, pull: Vector, speed: Vector, driven: Vector) -> tuple[Vector, Vector, Vector]:
    """Rows of the spools' acceleration and of the motors' force, and the input's matrix B of the whole plant."""
    motor = robot.tendon_actuators
    if motor is None:
        raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
    keys = "reflected_mass_kg", "viscous_ns_per_m"
    mass, viscous = (D.T @ (motor.each(key, len(D))[:, None] * D) for key in keys)
    spool: Vector = np.asarray(np.linalg.solve(mass, driven - pull - viscous @ speed), dtype=np.float64)
    m, size = driven.shape
    B: Vector = np.zeros((size, m))
    B[size - m :] = np.eye(m) / motor.current_time_constant_s
    lagged: Vector = np.asarray(-driven / motor.current_time_constant_s, dtype=np.float64)
    return spool, lagged, B


def _frequencies(loop: SampledLoop) -> Vector:
    """Frequencies at which the loop is looked at: a dense grid, denser about its resonances; (k,), rad/s."""
    highest = math.pi / loop.period_s
    grid = np.geomspace(_LOWEST_RAD_PER_S, highest, _POINTS)
    poles = np.linalg.eigvals(loop.A)
    poles = np.log(poles[np.abs(poles) > 1e-3].astype(complex)) / loop.period_s
    sharp = poles[(poles.imag > _LOWEST_RAD_PER_S) & (-poles.real < 0.1 * poles.imag)]
    about = np.array([0.0, 0.3, 1.0, 3.0])
    near = [w.imag + sign * about * max(-w.real, 1e-4 * w.imag) for w in sharp for sign in (-1, 1)]
    whole = np.concatenate([grid, *near])
    return np.unique(whole[(whole > 0) & (whole <= highest)])


def _magnitudes(loop: SampledLoop, frequencies: Vector) -> Vector:
    """Magnitudes of the eigenvalues of the open loop's response in falling order, (k, coordinates)."""
    parts = np.array_split(frequencies, max(1, len(frequencies) // 200))  # so that memory stays small
    values = np.concatenate([np.linalg.eigvals(loop.response(part)) for part in parts])
    return np.asarray(-np.sort(-np.abs(values), axis=1))


def _exceeds_one(loop: SampledLoop, rank: int, frequency_rad_per_s: float) -> bool:
    return bool(_magnitudes(loop, np.array([frequency_rad_per_s]))[0, rank] > 1)


def _crossings(loop: SampledLoop) -> list[tuple[float, float, int]]:
    """Where an eigenvalue of the open loop has the magnitude 1: (frequency in rad/s, lag to -1 in rad, coordinate)."""
    frequencies = _frequencies(loop)
    magnitudes = _magnitudes(loop, frequencies)
    found = []
    for rank in range(magnitudes.shape[1]):
        above = magnitudes[:, rank] > 1
        for index in np.flatnonzero(above[1:] != above[:-1]):
            low, high = frequencies[index], frequencies[index + 1]
            rising = bool(above[index + 1])
            w = float(_bisected(partial(_exceeds_one, loop, rank), low, high, rising))
            values, vectors = np.linalg.eig(loop.response(np.array([w]))[0])
            one = np.argsort(-np.abs(values))[rank]
            size = np.abs(vectors[:, one])
            coordinate = int(np.flatnonzero(size > size.max() - _ROUGHLY_EQUAL)[0])
            found.append((w, float(np.angle(values[one]) + math.pi), coordinate))
    return found


def _bisected(is_above: Callable[[float], bool], low: float, high: float, rising: bool) -> float:
    """Where a condition changes between two numbers; ``rising``: it holds at ``high``."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) == rising else (middle, high)
    return (low + high) / 2


def _gain_margin(loop: SampledLoop) -> float:
    """Least factor above 1 on the loop's gain that makes it unstable."""
    factors = np.geomspace(1.0, _GREATEST_GAIN, 60)
    for low, high in pairwise(factors):
        if not loop.is_stable(high):
            return float(_bisected(lambda factor: not loop.is_stable(factor), low, high, rising=True))
    return math.inf


def late_latency_s(robot: Robot) -> float | None:
    """Age of a state above which the command that answers it comes too late, s; None: half of the command timeout.

    Half of the robot's delay margin, and at most half of its command timeout. The loops of servos do not wait for it.
    """
    if robot.limits is None or robot.actuators is None or robot.control is None or robot.takes_displacements:
        return None
    return min(0.5 * delay_margin_s(robot).margin_s, 0.5 * robot.limits.command_timeout_s) or None
