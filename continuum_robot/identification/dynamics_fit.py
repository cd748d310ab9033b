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

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.identification.capstan_motion import CapstanMotion, steps_of
from continuum_robot.identification.dynamics_recordings import DynamicsRecording
from continuum_robot.identification.motion.rod_parts import mass_kg, usual_damping_nms
from continuum_robot.identification.shooting_windows import STEP_S, ShootingWindows
from continuum_robot.identification.smoothed_record import SMOOTHING_S, SmoothedRecord
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.friction.capstans import driven_segments
from continuum_robot.rod.tendons import coefficient_slices

Array = NDArray[np.float64]

MASS_NAME, INERTIA_NAME, DAMPING_NAME = MASSES = "mass_kg", "capstan_inertia_kg_m2", "bending_damping_nms"
"""What johnston takes as known: all masses of a segment, inertia of each of its capstans, damping of its backbone."""
_LEAST_FACTOR = 0.02  # on the file's values, for one that has none
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsFitSettings:
    """Bounds of the parameters (johnston below (72)), and how the record is used."""

    largest_stiffness_nm2: float = quantity(
        "upper bound of the stiffnesses, or twice the file's where that is more", "N.m^2", default=2.5, gt=0, le=1e6
    )
    largest_friction: float = quantity("upper bound of the friction coefficients", "", default=0.99, gt=0, lt=1)
    window_s: float = quantity("length of a simulated window", "s", default=0.75, gt=0.02, le=600)
    tendon_sigma_m: float = quantity("standard deviation of a tendon's displacement", "m", default=2e-4, gt=0, le=1)
    string_sigma_m: float = quantity("standard deviation of a string's extension", "m", default=1.2e-4, gt=0, le=1)
    start_rate_sigma: float = quantity(
        "standard deviation of a window's first rates about the smoothed ones", "1/(m.s)", default=0.5, gt=0, le=1e6
    )
    masses: bool = quantity(
        "whether the masses, the capstans' inertia and the damping are found, too; johnston takes them as known",
        default=False,
    )
    prior: float = quantity("deviation of these before the record, relative to the file's", "", default=1.0, gt=0)
    iterations: int = quantity("largest number of evaluations of the second step", default=30, ge=1, le=10000)


@dataclass(frozen=True)
class DynamicsFit:
    """Result of :func:`fit_dynamics`; p parameters, T samples, n coefficients.

    Attributes
    ----------
    names : of the parameters, see :func:`parameter_names`
    values : of the parameters, in the units of their names, shape (p,)
    deviations : their standard deviations, in the same units, shape (p,)
    shown : whether the record shows them: masses, inertia and damping with half of the deviation that they had before
        it or less, shape (p,)
    covariance : shape (p, p), see :meth:`ShootingWindows.covariance`
    first_guess : of the first step, in the same units, shape (p,)
    limited : names of parameters that ended at their bounds: what was found of the others is wrong, too
    segments : indices of those with capstans
    coefficients : where those of each of them stand among the n
    rmse_coefficients : of the windows' simulation against the record, for each coefficient, shape (n,), 1/m
    rmse_tip_m : of the tip's x, y and z in the same, shape (3,)
    open_loop_rmse_coefficients, open_loop_rmse_tip_m : of the whole record simulated from its first pose, as the paper
        does it, shape (n,), 1/m, and (3,), m; NaN where that simulation ran away
    evaluations : of the second step
    file, sha256 : of the recording
    date : of the fit, ISO 8601
    time_s, measured_c, window_c, open_loop_c : for plots; shapes (T,), (T, n), (T, n), (T, n)
    measured_tip_m, open_loop_tip_m : shape (T, 3)
    """

    names: tuple[str, ...]
    values: Array
    deviations: Array
    shown: NDArray[np.bool_]
    covariance: Array
    first_guess: Array
    limited: tuple[str, ...]
    segments: tuple[int, ...]
    coefficients: tuple[slice, ...]
    rmse_coefficients: Array
    rmse_tip_m: Array
    open_loop_rmse_coefficients: Array
    open_loop_rmse_tip_m: Array
    evaluations: int
    file: Path
    sha256: str
    date: str
    time_s: Array
    measured_c: Array
    window_c: Array
    open_loop_c: Array
    measured_tip_m: Array
    open_loop_tip_m: Array

    def title(self, place: int) -> str:
        """What stands before the names of one segment's parameters, as ``segments[0]``; nothing on a robot with one.

        Parameters
        ----------
        place : of the segment among ``segments``
        """
        return self.names[2 * place].rpartition(".")[0]

    def of_segment(self, place: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Where the parameters of one segment stand: stiffnesses, friction coefficients, shape (2,), and MASSES, (3,)
        or none, (0,).

        Parameters
        ----------
        place : of the segment among ``segments``
        """
        count = len(self.segments)
        pair = 2 * place + np.arange(2)
        return pair, 2 * count + pair, np.arange(4 * count + place, len(self.names), count)

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


def parameter_names(robot: Robot, *, masses: bool) -> tuple[str, ...]:
    """Names of what is looked for, by the segment where there are several.

    Those are ``bending_stiffness_x_nm2`` and ``bending_stiffness_y_nm2`` of each segment with capstans, then
    ``friction_coefficient_1`` and ``..._2``, and with masses ``mass_kg``, ``capstan_inertia_kg_m2`` and
    ``bending_damping_nms``, each of all these segments.

    Parameters
    ----------
    robot : with capstans
    masses : whether these, the inertia of the capstans and the damping are among them
    """
    pairs = ("bending_stiffness_x_nm2", "bending_stiffness_y_nm2"), ("friction_coefficient_1", "friction_coefficient_2")
    kinds = (*pairs, *(((name,) for name in MASSES) if masses else ()))
    alone = len(robot.segments) == 1
    return tuple(
        name if alone else f"segments[{index}].{name}" for kind in kinds for index in _segments(robot) for name in kind
    )


def dynamics_in_file(robot: Robot) -> Array:
    """What a robot file says of all that is looked for, in the order and the units of their names, shape (7 S,).

    Parameters
    ----------
    robot : with capstans on S segments

    Raises
    ------
    ParameterError : no capstans
    """
    own = [robot.segments[index] for index in _segments(robot)]
    capstans = [one.capstans for one in own if one.capstans is not None]
    return np.array(
        [
            *(EI for one in own for EI in one.backbone.bending_stiffnesses_nm2),
            *(mu for one in capstans for mu in one.friction_coefficients),
            *(mass_kg(one) for one in own),
            *(one.inertia_kg_m2 for one in capstans),
            *(one.bending_damping_nms for one in own),
        ]
    )


def _segments(robot: Robot) -> list[int]:
    """Indices of the segments with capstans; an error where there are none."""
    if not (found := driven_segments(robot)):
        raise ParameterError("robot", robot.name, "a robot with capstans")
    return found


def fit_dynamics(
    robot: Robot,
    recording: DynamicsRecording,
    progress: Progress | None = None,
    *,
    settings: DynamicsFitSettings | None = None,
    compile: str = "auto",
) -> DynamicsFit:
    """Fit the stiffnesses of the backbone and the friction coefficients of the capstans, of all segments at once.

    Parameters
    ----------
    robot : with capstans; all but the fitted values is taken as it is
    recording : of that robot, moving in both planes
    progress : receives a line for each step
    settings : bounds and use of the record
    compile : as in rod/code/generation.py

    Returns
    -------
    the fit

    Raises
    ------
    ParameterError : a robot without capstans, or sensors that do not see the shape
    RecordingError : a record shorter than two windows, or without motion
    ConvergenceError : no fit was found
    """
    settings = settings or DynamicsFitSettings()
    say = progress or (lambda _: None)
    segments = _segments(robot)
    record = SmoothedRecord.of(
        robot,
        recording,
        tendon_sigma_m=settings.tendon_sigma_m,
        string_sigma_m=settings.string_sigma_m,
        least_s=2 * settings.window_s,
    )
    motion = CapstanMotion(robot, compile=compile, progress=progress)
    names = parameter_names(robot, masses=settings.masses)
    pairs = 2 * len(segments)
    stiffest = np.maximum(settings.largest_stiffness_nm2, 2 * dynamics_in_file(robot)[:pairs])
    upper = np.concatenate([stiffest, np.full(pairs, settings.largest_friction)])
    count, paper = len(names), len(upper)
    first = _fit_forces(motion, record, upper)
    say("from forces: " + _line(names[:paper], first))
    factors = motion.in_file if settings.masses else np.zeros(0)
    scales = np.concatenate([np.ones(paper), _usual(robot) if settings.masses else []])
    windows = ShootingWindows(
        motion,
        record,
        window_s=settings.window_s,
        rate_sigma=settings.start_rate_sigma,
        expected=np.concatenate([first, factors]),
        deviation=np.concatenate([np.full(paper, np.inf), np.full(len(factors), settings.prior)]),
        progress=say,
    )
    start = np.concatenate([np.clip(first, 0.01 * upper, 0.99 * upper), np.maximum(factors, _LEAST_FACTOR)])
    start = np.concatenate([start, windows.starts.ravel()])
    below, above = np.full(start.size, -np.inf), np.full(start.size, np.inf)
    below[:paper], above[:paper], below[paper:count] = 0.0, upper, 0.5 * _LEAST_FACTOR
    found = least_squares(
        windows.residuals,
        start,
        jac=windows.jacobian,
        bounds=(below, above),
        x_scale="jac",
        ftol=3e-3,
        xtol=1e-7,
        gtol=1e-10,
        max_nfev=settings.iterations,
    )
    window_c = windows.trajectory(found.x)
    if found.status < 0 or windows.ran_away:
        raise ConvergenceError("the fit of the dynamics", float(found.cost), 0.0, int(found.nfev))
    values = np.array(found.x[:count])
    spread = windows.covariance(found.x)[:count, :count]
    deviations = np.sqrt(np.diag(spread))
    shown = np.concatenate([np.ones(paper, dtype=bool), deviations[paper:] < 0.5 * settings.prior])
    rod = RodDynamics(robot, compile=compile, progress=progress)
    measured_tip = _tips(rod, record.c)
    say("simulating the whole record")
    open_loop = _open_loop(motion, record, values)
    open_loop_tip = _tips(rod, open_loop)
    covered = np.isfinite(window_c).all(axis=1)
    return DynamicsFit(
        names=names,
        values=scales * values,
        deviations=scales * deviations,
        shown=shown,
        covariance=scales[:, None] * spread * scales,
        first_guess=scales * np.concatenate([first, factors]),
        limited=tuple(name for name, active in zip(names, found.active_mask, strict=False) if active),
        segments=tuple(segments),
        coefficients=tuple(coefficient_slices(robot)[index] for index in segments),
        rmse_coefficients=_rms(window_c[covered] - record.c[covered]),
        rmse_tip_m=_rms(_tips(rod, window_c[covered]) - measured_tip[covered]),
        open_loop_rmse_coefficients=_rms(open_loop - record.c),
        open_loop_rmse_tip_m=_rms(open_loop_tip - measured_tip),
        evaluations=int(found.nfev),
        file=recording.file,
        sha256=recording.sha256,
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        time_s=record.time_s,
        measured_c=record.c,
        window_c=window_c,
        open_loop_c=open_loop,
        measured_tip_m=measured_tip,
        open_loop_tip_m=open_loop_tip,
    )


def _usual(robot: Robot) -> Array:
    """What the factors of :class:`CapstanMotion` multiply: masses (kg), inertia of a capstan, usual damping, (3 S,)."""
    segments = _segments(robot)
    damping = [usual_damping_nms(robot.segments[index]) for index in segments]
    return np.concatenate([dynamics_in_file(robot)[4 * len(segments) : 6 * len(segments)], damping])


def _fit_forces(motion: CapstanMotion, record: SmoothedRecord, upper: Array) -> Array:
    """First step: parameters for which the forces of the smoothed motion balance best."""
    # Accelerations at both ends of the smoothing window are extrapolated.
    inside = (record.time_s > SMOOTHING_S / 2) & (record.time_s < record.time_s[-1] - SMOOTHING_S / 2)
    places = np.flatnonzero(inside)
    places = places[:: max(1, len(places) // 600)]
    # The torque is held while the smoothed motion is that of the sample: the mean of before and after belongs to it.
    torque = (record.torque[places] + record.torque[places - 1]) / 2

    def forces(parameters: Array) -> tuple[Array, Array]:
        rows, slopes = [], []
        for k, tau in zip(places, torque, strict=True):
            force, slope = motion.residual(
                record.smooth_c[k], record.smooth_rate[k], record.smooth_acceleration[k], tau, parameters
            )
            rows.append(force)
            slopes.append(slope)
        return np.array(rows), np.array(slopes)

    middle = 0.4 * upper
    half = len(upper) // 2
    middle[half:] = np.minimum(middle[half:], 0.1)
    scale = np.sqrt(np.mean(forces(middle)[0] ** 2, axis=0)) + 1e-12
    found = least_squares(
        lambda p: (forces(p)[0] / scale).ravel(),
        middle,
        jac=lambda p: (forces(p)[1] / scale[:, None]).reshape(-1, len(upper)),
        bounds=(np.zeros(len(upper)), upper),
        x_scale=upper,
        loss="soft_l1",
        max_nfev=40,
    )
    return np.array(found.x)


def _open_loop(motion: CapstanMotion, record: SmoothedRecord, parameters: Array) -> Array:
    """The whole record in one piece, from its first pose and rates; NaN from where it ran away."""
    n = motion.size
    found = np.full(record.c.shape, np.nan)
    state = np.concatenate([record.smooth_c[0], record.smooth_rate[0]])
    found[0] = state[:n]
    try:
        for k, (count, h) in enumerate(steps_of(record.time_s, STEP_S)):
            for _ in range(count):
                state = motion.step(state, record.torque[k], parameters, h, derivatives=False).state
            found[k + 1] = state[:n]
    except ConvergenceError:
        return found
    return found


def _tips(rod: RodDynamics, c: Array) -> Array:
    length_m = rod.robot.length_m
    tips = [rod.poses(one, [length_m])[0, :3, 3] if np.isfinite(one).all() else np.full(3, np.nan) for one in c]
    return np.array(tips)


def _rms(values: Array) -> Array:
    return np.sqrt(np.mean(np.square(values), axis=0))


def _line(names: tuple[str, ...], values: Array) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, values, strict=True))
