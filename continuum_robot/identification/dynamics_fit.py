# SPDX-License-Identifier: Apache-2.0
"""Stiffnesses of the backbone and friction of the tendons from a recorded motion: johnston section 10, (72).

johnston simulates the whole record from its first pose under the recorded torques. Where friction is several times
what bends the robot, that is touchy: a little too little friction and the capstans run away, a little too much and they
never start, so that far from the solution the simulation is uninformative. Here the fit goes in two steps:

1. forces: with coefficients, rates and accelerations of the smoothed record the equations of motion leave a residual
   in which the stiffnesses are linear; its minimum starts
2. motion: (72) over windows of the record, each simulated from a start of its own that is fitted too (multiple
   shooting without ties), by nonlinear least squares within bounds, with exact derivatives of each simulated step.

Afterwards the whole record is simulated in one piece from its first pose, for the figures that the paper gives.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.identification.fit import ROBUST, Fit, FoundValues, Parameter, Parameters, by_differences, fit
from continuum_robot.identification.recorded_motion import SMOOTHING_S, RecordedMotion, SmoothedRecord
from continuum_robot.identification.robot_keys import DAMPING, MASS, mass_kg, usual_damping_nms, value_of, with_values
from continuum_robot.identification.simulated_motion import Forces, RodParts, SimulatedMotion
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.description import WITH_CAPSTANS
from continuum_robot.rod.friction.capstan_friction import TANH_PER_RADIAN, CapstanFriction
from continuum_robot.rod.friction.capstans import driven_segments, drives
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.tendons import coefficient_slices

Array = NDArray[np.float64]

STEP_S = 0.01
_TOLERANCE = 1e-8
_FRICTION_STEP = 1e-6


class CapstanRod:
    """The rod under recorded torques, with friction of its capstans: johnston (41).

    M c'' + C c' + g + K c + D c' = J_qc^T (tau - tau_F). The implicit midpoint rule stays stable where friction holds a
    capstan, which an explicit method would follow in steps of a millisecond.
    """

    def __init__(self, robot: Robot, parameters: Parameters) -> None:
        own = [robot.segments[index] for index in driven_segments(robot)]
        stiffnesses = [EI for one in own for EI in one.backbone.bending_stiffnesses_nm2]
        stated = with_values(robot, dict(zip(parameters.keys[parameters.at["stiffness"]], stiffnesses, strict=True)))
        self._friction, self._drives = CapstanFriction(robot), drives(robot)
        rubs = np.zeros(len(parameters), dtype=bool)
        rubs[parameters.at["friction"]] = True
        self._linear, self._rubbing = np.flatnonzero(~rubs), np.flatnonzero(rubs)
        self._order = np.argsort(np.concatenate([self._linear, self._rubbing]))
        self._parts = RodParts(
            stated, [parameters.keys[k] for k in self._linear], parameters.scale[self._linear], parts=WITH_CAPSTANS,
            stations_m=self._friction.stations_m.tolist(),
        )  # fmt: skip
        self.size, self._x = self._parts.rod.n, parameters.expected.copy()
        self._motion = SimulatedMotion(self._parts, _TOLERANCE)

    def take(self, x: Array) -> None:
        """Give the rod other values."""
        self._x[: len(x)] = x
        self._parts.take(self._x[self._linear])
        self._friction.coefficients[:] = self._x[self._rubbing]

    def missing_forces(self, c: Array, rate: Array, acceleration: Array, torque: Array) -> Callable[[], Array]:
        """A function that says what does not balance in T states with the values taken last, (T, n), N.m^2."""
        parts, still = self._parts.forces(c, rate, acceleration), np.zeros(self.size)

        def missing() -> Array:
            asked = np.tensordot(np.append(self._x[self._linear], 1.0), parts, 1)
            states = zip(c, rate, torque, strict=True)
            driven = [
                self._driven(self._motion.terms(one, still), *state, slopes=False).force for one, *state in states
            ]
            return np.asarray(asked - driven)

        return missing

    def simulate(
        self, start: Array, torque: Array, steps: Sequence[tuple[int, float]], span: range, *, slopes: bool = True
    ) -> tuple[Array, Array]:
        """Coefficients from sample to sample, (K + 1, n), and their derivative by the parameters, then the start."""
        n, count = self.size, self._x.size
        first = np.zeros((2 * n, count + 2 * n))
        first[:, count:] = np.eye(2 * n)
        rate = start[n:]
        state = self._motion.begin(start[:n], rate, first[:n], first[n:])
        states, by = [state.c], [state.c_by]
        for k in span:
            number, step_s = steps[k]

            def drive(_c: Array, v: Array, at: Terms, torque: Array = torque[k]) -> Forces:
                return self._driven(at, v, torque, slopes=True)

            try:
                for _ in range(number):
                    state, _, rate, _ = self._motion.step(state, rate, step_s, drive, slopes)
            except ConvergenceError:
                if slopes:
                    raise
                break
            states.append(state.c)
            by.append(state.c_by)
        order = np.append(self._order, np.arange(count, count + 2 * n))
        return np.array(states), np.array(by)[:, :, order]

    def tips(self, c: Array) -> Array:
        """Tip at coefficients (T, n), (T, 3), m; NaN where they are."""
        rod = self._parts.rod
        return np.array(
            [
                rod.poses(one, [rod.arrays.bodies_m[-1]])[0, :3, 3] if np.isfinite(one).all() else np.full(3, np.nan)
                for one in c
            ]
        )

    def _driven(self, at: Terms, rate: Array, torque: Array, *, slopes: bool) -> Forces:
        """What torques do against friction, J_qc^T (tau - tau_F), with derivatives."""
        friction, J, rod = self._friction, self._friction.jacobian, self._parts.rod
        wires, none = friction.wires_of_torque(torque), np.zeros((0, 0))
        kept = friction.kept(at, rod, slopes=slopes)
        lost, by_c, by_rate = friction.force(kept, rate, wires)
        fractions = kept[0].copy()
        if not slopes:
            return Forces(J.T @ torque - lost, none, none, none)
        by = np.zeros((self.size, self._x.size + 2 * self.size))
        friction.coefficients += _FRICTION_STEP
        more, _ = friction.kept(at, rod, slopes=False)
        friction.coefficients -= _FRICTION_STEP
        sense = np.tanh(TANH_PER_RADIAN * (J @ rate))
        radii_m = np.array([drive.capstans.radius_m for drive in self._drives])
        less = np.einsum("ki,ik->k", (fractions - more) / _FRICTION_STEP, wires.reshape(2, -1))
        by[:, len(self._linear) : self._x.size] = -J.T * (sense * radii_m * less)
        return Forces(J.T @ torque - lost, -by_c, -by_rate, by)


def steps_of(time_s: Array, longest_s: float) -> list[tuple[int, float]]:
    """For each interval between samples, the number of equal steps and their length, none above ``longest_s``."""
    counts = [max(1, math.ceil(interval / longest_s - 1e-9)) for interval in np.diff(time_s)]
    return [(count, float(interval) / count) for count, interval in zip(counts, np.diff(time_s), strict=True)]


MASSES = "mass_kg", "capstan_inertia_kg_m2", "bending_damping_nms"
"""What johnston takes as known: all masses of a segment, inertia of each of its capstans, damping of its backbone."""
_LEAST_FACTOR = 0.02  # on the file's values, for one that has none
# Upper bounds, johnston below (72); of stiffnesses, N.m^2, or twice the file's where that is more.
_LARGEST_STIFFNESS_NM2, _LARGEST_FRICTION = 2.5, 0.99
_WINDOW_S = 0.75
_START_RATE_SIGMA = 0.5  # standard deviation of a window's first rates about the smoothed ones, 1/(m.s)
_PRIOR = 1.0  # of masses, inertia and damping, relative to the file's
_EVALUATIONS = 30
Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DynamicsFit(FoundValues):
    """Result of :func:`fit_dynamics`; p parameters, T samples, n coefficients."""

    covariance: Array
    limited: tuple[str, ...]
    segments: tuple[int, ...]
    coefficients: tuple[slice, ...]
    rmse_coefficients: Array
    rmse_tip_m: Array
    open_loop_rmse_coefficients: Array
    open_loop_rmse_tip_m: Array
    evaluations: int
    time_s: Array
    measured_c: Array
    window_c: Array
    open_loop_c: Array
    measured_tip_m: Array
    open_loop_tip_m: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters, for people: see :func:`names_of`."""
        return names_of(self.keys)

    def of_segment(self, index: int, deviations: bool = False) -> tuple[list[float], list[float], dict[str, float]]:
        """Stiffnesses, friction coefficients, and those of MASSES by name, of one segment."""
        named = zip(self.keys, (self.deviations if deviations else self.values).tolist(), strict=True)
        own = {key: value for key, value in named if key.startswith(f"segments[{index}].")}
        both = [[value for key, value in own.items() if word in key] for word in ("stiffness", "friction")]
        rest = [value for key, value in own.items() if "stiffness" not in key and "friction" not in key]
        return both[0], both[1], dict(zip(MASSES, rest, strict=True))

    def numbers(self) -> dict[str, object]:
        """The result as plain numbers for a file of results."""
        return {
            **{name: float(value) for name, value in zip(self.names, self.values, strict=True)},
            **{f"{name}_deviation": float(value) for name, value in zip(self.names, self.deviations, strict=True)},
            "limited": list(self.limited),
            "rmse_tip_mm": [1e3 * float(value) for value in self.rmse_tip_m],
            "open_loop_rmse_tip_mm": [1e3 * float(value) for value in self.open_loop_rmse_tip_m],
            "rmse_coefficients_per_m": [float(value) for value in self.rmse_coefficients],
            "evaluations": self.evaluations,
        }


def kinds_in_file(robot: Robot) -> dict[str, Parameter]:
    """What is looked for, of each segment with capstans: what the paper looks for first."""
    if not (segments := driven_segments(robot)):
        raise ParameterError("robot", robot.name, "a robot with capstans")

    def of(*keys: str, **others: Any) -> Parameter:
        each = tuple(f"segments[{index}].{key}" for index in segments for key in keys)
        return Parameter(each, [value_of(robot, key) for key in each], **others)

    def known(key: str, usual: Callable[[Segment], float]) -> Parameter:
        sizes = [usual(robot.segments[index]) for index in segments]
        return of(key, deviation=_PRIOR, scale=sizes, low=0.5 * _LEAST_FACTOR)

    stiffnesses = np.array([robot.segments[index].backbone.bending_stiffnesses_nm2 for index in segments]).ravel()
    friction = (f"capstans.friction_coefficients[{k}]" for k in range(2))
    return {
        "stiffness": dataclasses.replace(
            of(*(f"backbone.bending_stiffness_{axis}_nm2" for axis in "xy"), low=0.0),
            expected=stiffnesses,
            high=np.maximum(_LARGEST_STIFFNESS_NM2, 2 * stiffnesses),
        ),
        "friction": of(*friction, low=0.0, high=_LARGEST_FRICTION),
        "mass": known(MASS, mass_kg),
        "inertia": known("capstans.inertia_kg_m2", lambda one: one.capstans.inertia_kg_m2 if one.capstans else 1.0),
        "damping": known(DAMPING, usual_damping_nms),
    }


def names_of(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Names for keys, by the segment where there are several."""
    found = []
    for key in keys:
        name = key.replace("backbone.", "").replace("capstans.inertia", "capstan_inertia").replace("capstans.", "")
        found.append(re.sub(r"coefficients\[(\d)\]", lambda match: f"coefficient_{int(match[1]) + 1}", name))
    alone = len({name.partition(".")[0] for name in found}) == 1
    return tuple(name.partition(".")[2] if alone else name for name in found)


def dynamics_in_file(robot: Robot) -> Array:
    """What a robot file says of all that may be looked for, in the order and the units of the keys, shape (7 S,)."""
    parameters = Parameters(kinds_in_file(robot))
    return parameters.values(parameters.expected)


def fit_dynamics(robot: Robot, recording: RecordedMotion, progress: Progress | None = None) -> DynamicsFit:
    """Fit the stiffnesses of the backbone and the friction coefficients of the capstans, of all segments at once.

    johnston takes masses, the capstans' inertia and the damping as known; they are found, too.

    A string encoder's drum is off its axis, a tendon stretches under its tension: what is wrong with a reading stays so
    wherever the robot comes by, and a longer record does not average it out. For the deviations each sensor's error is
    taken as constant in the lower and in the upper half of its range, independent of each other and as large as its
    deviation, or as the residuals where those are larger.
    """
    say = progress or (lambda _: None)
    kinds = kinds_in_file(robot)
    paper = {kind: kinds[kind] for kind in ("stiffness", "friction")}
    record = SmoothedRecord.of(robot, recording, 2 * _WINDOW_S)
    rod = CapstanRod(robot, Parameters(kinds))
    first = _fit_forces(rod, record, Parameters(paper))
    say("from forces: " + _line(names_of(first.parameters.keys), first.values))
    windows = Windows(rod, record, kinds, say)
    parameters, count = windows.parameters, len(windows.parameters) - windows.starts.size
    start, high = parameters.expected.copy(), first.parameters.high
    start[:count] = np.maximum(start[:count], _LEAST_FACTOR)
    start[: len(high)] = np.clip(first.x, 0.01 * high, 0.99 * high)
    found = fit(parameters, windows, start=start, tolerance=3e-3, evaluations=_EVALUATIONS)
    rows, _ = windows(found.x)
    window_c = windows.trajectory
    errors = max(1.0, math.sqrt(float(np.mean(rows**2)))) * record.reading_errors[windows.samples]
    spread = found.covariance(errors.reshape(len(rows), -1))[:count, :count]
    scale = parameters.scale[:count]
    measured_tip = rod.tips(record.c)
    say("simulating the whole record")
    open_loop = _open_loop(rod, record)
    open_loop_tip = rod.tips(open_loop)
    covered = np.isfinite(window_c).all(axis=1)
    keys = parameters.keys[:count]
    return DynamicsFit(
        keys=keys,
        before=parameters.values(parameters.expected)[:count],
        values=found.values[:count],
        priors=scale * parameters.deviation[:count],
        deviations=scale * np.sqrt(np.diag(spread)),
        covariance=scale[:, None] * spread * scale,
        limited=tuple(name for name, at in zip(names_of(keys), found.limited, strict=False) if at),
        segments=tuple(driven_segments(robot)),
        coefficients=tuple(coefficient_slices(robot)[index] for index in driven_segments(robot)),
        rmse_coefficients=_rms(window_c[covered] - record.c[covered]),
        rmse_tip_m=_rms(rod.tips(window_c[covered]) - measured_tip[covered]),
        open_loop_rmse_coefficients=_rms(open_loop - record.c),
        open_loop_rmse_tip_m=_rms(open_loop_tip - measured_tip),
        evaluations=found.evaluations,
        file=recording.file,
        sha256=recording.sha256,
        time_s=record.time_s,
        measured_c=record.c,
        window_c=window_c,
        open_loop_c=open_loop,
        measured_tip_m=measured_tip,
        open_loop_tip_m=open_loop_tip,
    )


class Windows:
    """The record in windows, each simulated from a start of its own: whitened differences of the coefficients."""

    def __init__(
        self, rod: CapstanRod, record: SmoothedRecord, kinds: dict[str, Parameter], progress: Progress
    ) -> None:
        self._rod, self._record, self._say = rod, record, progress
        self._steps = steps_of(record.time_s, STEP_S)
        count = max(1, int(record.time_s[-1] / _WINDOW_S))
        edges = np.searchsorted(record.time_s, np.linspace(0, record.time_s[-1], count + 1) - 1e-9)
        edges[-1] = len(record.time_s) - 1
        self._edges = edges
        # A window ends with the sample that the next one begins with.
        self.samples = np.concatenate([np.arange(first, last + 1) for first, last in pairwise(edges)])
        self.starts = np.hstack([record.smooth_c[edges[:-1]], record.smooth_rate[edges[:-1]]])
        n = rod.size
        deviation = np.tile(np.repeat([np.inf, _START_RATE_SIGMA], n), len(self.starts))
        keys = tuple(f"start {k + 1}" for k in range(self.starts.size))
        self.parameters = Parameters({**kinds, "start": Parameter(keys, self.starts.ravel(), deviation)})
        self._evaluations = 0

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Rows and slopes at ``x``; raises ConvergenceError where the motion runs away."""
        n, whiten, first = self._rod.size, self._record.whiten, len(x) - self.starts.size
        self._rod.take(x[:first])
        trajectory = np.full(self._record.c.shape, np.nan)
        rows, jacobian = [], []
        for index, start in enumerate(x[first:].reshape(-1, 2 * n)):
            span = range(self._edges[index], self._edges[index + 1])
            states, slopes = self._rod.simulate(start, self._record.torque, self._steps, span)
            trajectory[span.start : span.stop + 1] = states
            rows.append((states - self._record.c[span.start : span.stop + 1]) @ whiten.T)
            own = np.zeros((*states.shape, len(x)))
            own[:, :, :first] = slopes[:, :, :first]
            own[:, :, first + index * 2 * n : first + (index + 1) * 2 * n] = slopes[:, :, -2 * n :]
            jacobian.append(np.einsum("ij,tjk->tik", whiten, own))
        self.trajectory, self._evaluations = trajectory, self._evaluations + 1
        whole = np.concatenate(rows).ravel()
        self._say(
            f"motion, evaluation {self._evaluations}: rms of {math.sqrt(float(np.mean(whole**2))):.3f} deviations, "
            + ", ".join(f"{value:.4g}" for value in x[:first])
        )
        return whole, np.concatenate(jacobian).reshape(whole.size, -1)


def _fit_forces(rod: CapstanRod, record: SmoothedRecord, parameters: Parameters) -> Fit:
    """First step: parameters for which the forces of the smoothed motion balance best."""
    # Accelerations at both ends of the smoothing window are extrapolated.
    inside = (record.time_s > SMOOTHING_S / 2) & (record.time_s < record.time_s[-1] - SMOOTHING_S / 2)
    places = np.flatnonzero(inside)
    places = places[:: max(1, len(places) // 600)]
    # The torque is held while the smoothed motion is that of the sample: the mean of before and after belongs to it.
    torque = (record.torque[places] + record.torque[places - 1]) / 2
    state = record.smooth_c[places], record.smooth_rate[places], record.smooth_acceleration[places]
    missing = rod.missing_forces(*state, torque)

    def forces(x: Array) -> Array:
        rod.take(x)
        return missing()

    start = 0.4 * parameters.high
    start[parameters.at["friction"]] = np.minimum(start[parameters.at["friction"]], 0.1)
    scale = np.sqrt(np.mean(forces(start) ** 2, axis=0)) + 1e-12
    residuals = by_differences(lambda x: (forces(x) / scale).ravel())
    return fit(parameters, residuals, start=start, loss=ROBUST, evaluations=40)


def _open_loop(rod: CapstanRod, record: SmoothedRecord) -> Array:
    """The whole record in one piece, from its first pose and rates; NaN from where it ran away."""
    found = np.full(record.c.shape, np.nan)
    start, steps = np.concatenate([record.smooth_c[0], record.smooth_rate[0]]), steps_of(record.time_s, STEP_S)
    states, _ = rod.simulate(start, record.torque, steps, range(len(steps)), slopes=False)
    found[: len(states)] = states
    return found


def _rms(values: Array) -> Array:
    return np.sqrt(np.mean(np.square(values), axis=0))


def _line(names: tuple[str, ...], values: Array) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, values, strict=True))
