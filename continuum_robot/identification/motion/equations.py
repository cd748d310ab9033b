# SPDX-License-Identifier: Apache-2.0
"""The motors' forces in measured samples against what models ask for, and how the difference is weighed.

:class:`CoordinateEquations`: a rod that bends under parallel tendons. Derived here, from muhmann (22) to (25) with
motors and elastic tendons. On coordinates that the
tendons control, P^T T is the force of the rod at what the tendons' stretch leaves of the displacements, with its
hysteresis. Across them the rod feels nothing: Z^T T = k Z^T q + d Z^T q'. Between disks tendons run straight, which
shortens those through segment i by beta_i |q_i|^2 beyond what the coordinates say: that counts as displacement across,
and bends with 2 beta_i q_i times the sum of their tensions (virtual work).

Mechanisms, rolling joints and equilibrium modulation: links have no mass, drives do not stretch. The motors' viscous
friction is that of the file: joints and guides resist as it does.

A rod of any strains under tendons on any path, :class:`TensionEquations`. Where such a rod stretches, twists and swings
in shapes that its tendons do not hold, its shape does not follow from their displacements at once. It is simulated
under them, with all parameters that are looked for: muhmann (22) to (25) in the strain coefficients with the tensions
on the paths of rucker (14),

    T = T_0 + k (l(c) - l(c_0) + q - q_0) + d (J c' + q'),   J = dl/dc,

and these tensions are compared with the forces less what the motors take. The motion begins near
rest, where T_0 holds the rod at c_0, with a swing that what was before has left, which is looked for with the rest. A
constant of a motor is a tension here: it bends the rod before the motion. Nothing is said of chords between disks. The
filter of what is measured has passed on the displacements, so that it is in T, too.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, null_space, solve_banded
from scipy.signal import butter, sosfiltfilt

from continuum_robot.errors import ConvergenceError
from continuum_robot.identification.fit import Parameter, Parameters, by_differences
from continuum_robot.identification.motion.parameters import (
    LAG_S,
    MotionFitSettings,
    beside,
    chord_per_m,
    kinds_in_file,
    looked_for,
    stiffness_at_rest,
)
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.identification.recorded_motion import RecordedMotion
from continuum_robot.identification.simulated_motion import Forces, RodParts, SimulatedMotion
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.turning import JointTurning
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.maxwell_slip import MaxwellSlip
from continuum_robot.rod.kernel.reference import Terms
from continuum_robot.rod.rod import NotConvergedError, Rod
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

Vector = NDArray[np.float64]

TRIM_S = 1.0
"""What is left out at both ends, where filters begin, s."""

_DRY_M_PER_S = 5e-4  # below this speed dry friction is rounded off
_SPEED_HZ = 120.0
_STEP, _PAST_STEP = 1e-4, 0.02  # of differences; forces by the past have knots


class Motors:
    """Samples of N motors at even times, filtered.

    F_j(t + l) = T_j + m q_j'' + b q_j' + F_c h(q_j) + a_j sin(w q_j) + b_j cos(w q_j) + o_j,

    derived here for motor j with displacement q_j, and a lag l between current and encoder; h is dry friction over its
    limit: tanh(q_j' / v_0), or by the motion's past where the file says that it builds up over a travel.
    """

    def __init__(
        self, robot: Robot, samples: RecordedMotion, parameters: Parameters, settings: MotionFitSettings
    ) -> None:
        self._actuators, _ = driven_parts(robot)
        self._settings, self._parameters = settings, parameters
        self.period_s = float(samples.time_s[1] - samples.time_s[0])
        self.moved_m = samples.displacement_m - samples.displacement_m[0]
        self._speed = self.low_pass(self.slope(self.moved_m), _SPEED_HZ, 2)
        self.place_m = self.low_pass(self.moved_m)
        self.rate_m_per_s = self.slope(self.place_m)
        self._acceleration = self.slope(self.rate_m_per_s)
        self.force_n = self.low_pass(samples.effort)
        self._late = -LAG_S * self.slope(self.force_n)
        count = robot.tendon_count
        self._turns = self._actuators.each("motor_rad_per_m", count)
        turned = self._actuators.each("cogging_rad_per_m", count) * samples.displacement_m
        self._sine, self._cosine = (self.low_pass(wave(turned)) for wave in (np.sin, np.cos))
        self._rubbed: dict[float, Vector] = {}
        self.steps = np.full(len(parameters), _STEP)
        for name, place in parameters.at.items():
            if name == "travel" or name.startswith("hysteresis"):
                self.steps[place] = _PAST_STEP

    def resisting(self, x: Vector, *, late: bool = True, constant: bool = True) -> Vector:
        """What is added to the tensions, shape (T, N), N."""
        at, values, turns = self._parameters.at, self._parameters.values(x), self._turns
        viscous = values[at["viscous"]] if "viscous" in at else self._actuators.viscous_friction_nms
        dry = self._dry(float(x[at["travel"]][0]) if "travel" in at else 1.0)
        added = turns**2 * (values[at["inertia"]] * self._acceleration + viscous * self.rate_m_per_s)
        added = added + turns * values[at["dry"]] * dry + x[at["sine"]] * self._sine + x[at["cosine"]] * self._cosine
        return np.asarray(added + constant * x[at["constant"]] + late * x[at["lag"]] * self._late)

    def kept(self, period_s: float) -> slice:
        """The samples that count: none at the ends, where filters begin, and not all of the others."""
        trim = round(TRIM_S / period_s)
        count = len(self.place_m[:: round(period_s / self.period_s)])
        return slice(trim, count - trim, max(1, round(1 / (period_s * self._settings.samples_hz))))

    def low_pass(self, values: Vector, cut_hz: float | None = None, order: int = 4) -> Vector:
        """Values without what is faster, and without delay, shape (T, ...)."""
        cut = 2 * (cut_hz or self._settings.stretching_hz) * self.period_s
        return np.asarray(sosfiltfilt(butter(order, cut, output="sos"), values, axis=0))

    def slope(self, values: Vector) -> Vector:
        """Derivative by time, shape (T, ...)."""
        return np.asarray(np.gradient(values, self.period_s, axis=0))

    def _dry(self, factor: float) -> Vector:
        """Dry friction over its limit, filtered, shape (T, N), for a factor on the travel over which it builds up."""
        if factor not in self._rubbed:
            if "travel" in self._parameters.at:
                count = self.moved_m.shape[1]
                reach_m = np.full(count, factor * self._actuators.friction_travel_m)
                rubbed = MaxwellSlip(np.ones(count), reach_m, self.moved_m[0]).along(self.moved_m)
            else:
                rubbed = np.tanh(self._speed / _DRY_M_PER_S)
            self._rubbed[factor] = self.low_pass(rubbed)
        return self._rubbed[factor]


class ForceEquations(ABC):
    """The forces of the samples, filtered, and what a model makes of them."""

    forces: Vector
    pulled: Vector
    time_s: Vector

    def __init__(
        self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, **further: Parameter
    ) -> None:
        self.samples = samples
        self.parameters = looked_for(robot, float(np.abs(samples.effort).mean()), settings.prior, **further)
        self.motors = Motors(robot, samples, self.parameters, settings)

    @abstractmethod
    def left(self, x: Vector) -> Vector:
        """What is left of the forces, (T, N), N."""

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        """The same, and its slopes, (T, N, P)."""
        shape = self.forces.shape
        rows, slopes = by_differences(lambda at: self.left(at).ravel(), self.motors.steps)(x)
        return rows.reshape(shape), slopes.reshape(*shape, -1)


@dataclass(frozen=True)
class _Near:
    """Coordinates with their slopes (3, T, 2m), and the forces by each parameter of the rod (P + 1, T, 2m), N."""

    place: Vector
    forces: Vector


def _lagging_alone(robot: Robot, index: int, factor: float) -> Robot:
    """The robot with the hysteresis of one segment alone, with a unit of moment and its curvature times a factor."""
    segments = [dataclasses.replace(segment, hysteresis=None) for segment in robot.segments]
    own = robot.segments[index].hysteresis
    if own is not None:
        unit = Hysteresis(moment_nm=1.0, curvature_per_m=factor * own.curvature_per_m)
        segments[index] = dataclasses.replace(segments[index], hysteresis=unit)
    return robot.changed(segments=tuple(segments))


class CoordinateEquations(ForceEquations):
    """Forces on and across the coordinates."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        betas = [chord_per_m(robot, k) for k in range(len(robot.segments))]
        super().__init__(robot, samples, settings, chords=beside("chords", len(betas), betas))
        self._bandwidth_hz, motors, at = settings.bandwidth_hz, self.motors, self.parameters.at
        self._kept = motors.kept(motors.period_s)
        self._pull = np.asarray(controlled_manifold(robot).displacement_matrix)
        # Not the manifold's own: what stretches across the coordinates must not count on them.
        self._onto = np.linalg.pinv(self._pull)
        self._across = null_space(self._pull.T)
        self._shape = coefficients_from_clarke(robot)
        self._parts = RodParts(robot, self.parameters.keys[at["rod"]], self.parameters.scale[at["rod"]])
        rest, arrays = np.zeros(len(self._shape)), self._parts.rod.arrays
        straight = self._parts.rod.terms(rest, rest)
        self._straight = [
            self._shape.T @ matrix @ self._shape
            for matrix in (arrays.stiffness - straight.force_by_c, arrays.damping, straight.mass)
        ]
        # Where the rod is, for what the chords do; the stretch by the file's stiffness is near enough for that.
        stretched = motors.low_pass(motors.force_n @ self._pull, self._bandwidth_hz) @ (self._onto @ self._onto.T)
        self._place_m = motors.place_m @ self._onto.T
        self._bent_m = self._place_m - stretched / robot.tendon_stiffness_n_per_m
        self._coordinates = self._with_slopes(motors.low_pass(self._place_m, self._bandwidth_hz))
        self._through = np.zeros((robot.tendon_count, len(robot.segments)))
        for k, rows in enumerate(robot.tendon_slices):
            self._through[rows, : k if robot.segments[k].tendons.from_base else 0] = 1.0
            self._through[rows, k] = 1.0

        def lagging(segment: int, factor: float) -> Vector:
            """Force on the coordinates of a segment's hysteresis for a unit of its moment, (T, 2m)."""
            bent = RodHysteresis(_lagging_alone(robot, segment, factor))
            force = np.array([bent.move(c) for c in self._bent_m @ self._shape.T]) @ self._shape
            return motors.low_pass(force, self._bandwidth_hz)[self._kept]

        self._lagging = lru_cache(lagging)
        self.pulled = self._with_slopes(motors.low_pass(motors.force_n @ self._pull, self._bandwidth_hz))[0]
        whole = np.concatenate([self.pulled, motors.force_n[self._kept] @ self._across], axis=1)
        self.forces = whole - whole.mean(axis=0)
        self.time_s = samples.time_s[self._kept]

    def _with_slopes(self, values: Vector) -> Vector:
        first = self.motors.slope(values)
        return np.stack([one[self._kept] for one in (values, first, self.motors.slope(first))])

    def left(self, x: Vector, near: _Near | None = None) -> Vector:
        """What is left of the forces, on the coordinates, then across them, (T, N), N."""
        motors, at, values = self.motors, self.parameters.at, self.parameters.values(x)
        stiffness, damping = float(values[at["stiffness"]][0]), float(values[at["damping"]][0])
        tension = motors.force_n - motors.resisting(x)
        pulled = self._with_slopes(motors.low_pass(tension @ self._pull, self._bandwidth_hz))
        # A spring with a damper: T = k s + d s', so that s = (T - d/k T') / k but for higher orders.
        eased = pulled - damping / stiffness * np.concatenate([pulled[1:], np.zeros_like(pulled[:1])])
        place = self._coordinates - eased @ (self._onto @ self._onto.T) / stiffness
        if near is None:
            near = _Near(place, self._parts.forces(*(place @ self._shape.T)) @ self._shape)
            self._latest = near
        modelled = np.tensordot(np.append(x[at["rod"]], 1.0), near.forces, 1)
        modelled = modelled + sum(one @ by for one, by in zip(place - near.place, self._straight, strict=True))
        for name in at:
            if name.startswith("hysteresis"):
                moment, _ = values[at[name]]
                modelled = modelled + moment * self._lagging(int(name.rpartition("_")[2]), float(x[at[name]][1]))
        # The constants stand for where displacements count from, not for tension.
        beta, squeezing = x[at["chords"]], motors.force_n - motors.resisting(x, constant=False)
        bending = 2 * self._bent_m * np.repeat(beta * (squeezing @ self._through), 2, axis=1)
        shorter = (beta * (self._bent_m**2).reshape(len(tension), -1, 2).sum(axis=2)) @ self._through.T
        on = pulled[0] + motors.low_pass(bending, self._bandwidth_hz)[self._kept] - modelled
        stretch = stiffness * (motors.place_m - motors.low_pass(shorter)) + damping * motors.rate_m_per_s
        return np.concatenate([on, (tension - stretch)[self._kept] @ self._across], axis=1)

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        rows = self.left(x)
        near = self._latest
        _, slopes = by_differences(lambda other: self.left(other, near).ravel(), self.motors.steps)(x)
        return rows, slopes.reshape(*rows.shape, -1)


_PLACE_HZ = 50.0
_LEAST_N = 1e-3
_ITERATIONS, _TOLERANCE_N = 30, 1e-6
_LEAST_STIFFNESS_NM = 1e-5


class MechanismEquations(ForceEquations):
    """Forces of the motors on the M coordinates of a mechanism."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, onto: Vector) -> None:
        super().__init__(robot, samples, settings)
        self._onto, self._kept = onto, self.motors.kept(self.motors.period_s)
        self.time_s, self._pulled = samples.time_s[self._kept], self.motors.force_n @ onto
        self.pulled = self._pulled[self._kept]
        self.forces = self.pulled - self.pulled.mean(axis=0)

    @abstractmethod
    def asked(self, x: Vector, tension_n: Vector) -> Vector:
        """Force on the coordinates that the mechanism asks for under its motion, shape (T, M), N."""

    def left(self, x: Vector) -> Vector:
        """As of :class:`~.equations.ForceEquations`, (T, M)."""
        resisting = self.motors.resisting(x, late=False)
        asked = resisting @ self._onto + self.asked(x, self.motors.force_n - resisting)
        # Late by a lag is what the model asks for: of the measured forces' slope the noise would count as well.
        late = LAG_S * x[self.parameters.at["lag"]] * self.motors.slope(asked)
        return np.asarray((self._pulled - asked + late)[self._kept])


class ModulationEquations(MechanismEquations):
    """D^T T = D^T d D x' + E K x, q = D x, of a segment with equilibrium modulation."""

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings, np.asarray(clarke_manifold(robot).displacement_matrix))
        self._bent = self.motors.place_m @ np.linalg.pinv(self._onto).T @ stiffness_at_rest(robot, 0.0)

    def asked(self, x: Vector, _tension_n: Vector) -> Vector:
        at, values = self.parameters.at, self.parameters.values(x)
        return np.asarray(values[at["damping"]] * self.motors.rate_m_per_s @ self._onto + x[at["modulus"]] * self._bent)


class RollingEquations(MechanismEquations):
    """Difference of the tensions that rolling joints ask for.

    Given are the coordinate, half the difference of the displacements, and the sum of the tensions: both displacements
    would say little of the tensions, which squeeze the joints against the edge of what can be reached.
    """

    def __init__(self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings) -> None:
        super().__init__(robot, samples, settings, np.array([[1.0], [-1.0]]))
        self._joints = DrivenJoints(robot)
        self._coordinate_m = (self.motors.low_pass(self.motors.moved_m, _PLACE_HZ) @ self._onto)[:, 0] / 2

    def asked(self, x: Vector, tension_n: Vector) -> Vector:
        damping_nms = float(self.parameters.values(x)[self.parameters.at["damping"]][0])
        total_n = np.maximum(tension_n.sum(axis=1), _LEAST_N)
        asked = self._joints.difference(self._coordinate_m, total_n, damping_nms, self.motors.period_s)
        return self.motors.low_pass(asked[:, None])


class DrivenJoints:
    """The joints of a robot under a given motion: all times at once, by Newton's method.

    The joints' angles a and the difference d of the tensions solve, derived here as in simulation/bodies/mechanisms.py,

        D a' + s (l + r) / 2 - d (r - l) / 2 = 0,    q(a) = q,

    with the sum s and the levers l and r of left and right tendons, ha (10). a' is that of second order by the two
    times before (BDF2): joints of little damping D do not ring, as they would where the middle of a step balances.
    """

    def __init__(self, robot: Robot) -> None:
        statics = statics_of(robot)
        self._turning, self._curve = JointTurning(statics), UnloadedCurve(statics)
        self._home_m = self._half(self._turning.at(self._turning.home_rad).gaps_m)
        self._latest: tuple[Vector, Vector] | None = None

    def difference(self, coordinate_m: Vector, total_n: Vector, damping_nms: float, period_s: float) -> Vector:
        """Left less right tension, from rest, shape (T,), N."""
        turning, known = self._turning, self._curve.coordinate_m
        low, high = turning.limits_rad.T
        slow = np.array([turning.angles(contact) for contact in self._curve.contact_m])
        angles = np.array([np.interp(coordinate_m, known, one) for one in slow.T])  # joints, times
        rest, joints, damped = np.repeat(angles[:, :1], 2, axis=1), len(angles), damping_nms / period_s
        if self._latest is not None and self._latest[0].shape == angles.shape:
            angles, difference = self._latest  # as a fit asks again and again
        else:  # the unloaded pose of each coordinate
            difference = total_n * np.tanh(np.interp(coordinate_m, known, self._curve.log_ratio) / 2)
        self._latest = None
        # For the angles, then the difference of each time: entries of column j in row i are at [joints + i - j, j].
        bands = np.zeros((3 * joints + 3, len(difference), joints + 1))
        for k, weight in enumerate((1.5, -2.0, 0.5)):
            bands[joints + k * (joints + 1), :, :-1] = weight * damped
        held = bands[joints, :, :-1].copy()
        for _ in range(_ITERATIONS):
            at, past = turning.at(angles.T), np.hstack([rest, angles])
            (left, right), (left_slope, right_slope) = at.levers_m, at.lever_slopes_m
            along, mean = (right - left) / 2, (right + left) / 2
            turned = 1.5 * angles - 2.0 * past[:, 1:-1] + 0.5 * past[:, :-2]
            moments = damped * turned + total_n * mean - difference * along
            missing = self._home_m - self._half(at.gaps_m) - coordinate_m
            stiffness = (total_n * (left_slope + right_slope) - difference * (right_slope - left_slope)) / 2
            bands[joints, :, :-1] = held + np.maximum(stiffness, _LEAST_STIFFNESS_NM).T
            for i in range(joints):
                bands[2 * joints - i, :, i], bands[i, :, joints] = along[i], -along[i]
            wrong = np.vstack([moments, missing]).T.ravel()
            shape = 2 * joints + 2, joints
            step = solve_banded(shape, bands.reshape(len(bands), -1), wrong).reshape(-1, joints + 1).T
            angles = np.clip((angles - step[:-1]).T, low, high).T
            difference = difference - step[-1]
            if np.abs(step[-1]).max() < _TOLERANCE_N:
                self._latest = angles, difference
                return difference
        raise ConvergenceError(
            "rolling joints under a given motion", float(np.abs(step[-1]).max()), _TOLERANCE_N, _ITERATIONS
        )

    @staticmethod
    def _half(gaps_m: Vector) -> Vector:
        """Half the difference of the tendons' lengths, m."""
        left, right = gaps_m.sum(axis=1)
        return np.asarray((left - right) / 2)


_SWING_J = 2e-4  # energy with which a rod may swing in each shape at the start: of a thin one bent by 0.1 rad
_NONE = 1e-6  # deviation of swings that are known not to be there
_START_S = 0.2  # of rest before the motion
# Last correction within a step, bending angle (rad) or relative stretch: a hundredth of a newton of a stiff tendon.
_TOLERANCE = 3e-6


class DrivenRod:
    """The rod of a robot under tendons that follow given displacements."""

    def __init__(self, robot: Robot, swings_hz: float) -> None:
        rod = Parameters({"rod": kinds_in_file(robot)["rod"]})
        self._parts = RodParts(robot, rod.keys, rod.scale)
        straight = np.zeros(self._parts.rod.n)
        pulls = self._parts.rod.lengths(straight).gradient
        held = self._parts.rod.arrays.stiffness + pulls.T @ (robot.tendon_stiffnesses_n_per_m[:, None] * pulls)
        squares, modes = eigh(held, self._parts.rod.terms(straight, straight).mass)
        slow = squares < (2 * np.pi * swings_hz) ** 2
        self.swings: Vector = math.sqrt(_SWING_J) * np.array([modes[:, slow] / np.sqrt(squares[slow]), modes[:, slow]])

    def tensions(
        self,
        factors: Vector,
        spring: tuple[float, float],
        start_n: Vector,
        swing: Vector,
        place_m: Vector,
        rate_m_per_s: Vector,
        step_s: float,
    ) -> tuple[Vector, Vector]:
        """Tensions of N tendons in the middle of K steps, (K, N), N, and their derivative, (K, N, R + 2 + N + 2 W).

        That is by the factors, the tendons' stiffness and damping, the tensions at the start, and the swing there.
        """
        parts, rod, (stiffness, damping) = self._parts, self._parts.rod, spring
        parts.take(factors)
        motion = SimulatedMotion(parts, _TOLERANCE)
        count, tendons, modes = len(factors), len(start_n), swing.shape[1]
        own = slice(count + 2, count + 2 + tendons)
        none = np.zeros((tendons, own.stop + 2 * modes))
        given = none.copy()
        given[:, own] = np.eye(tendons)
        try:
            rest = rod.equilibrium(start_n)
        except NotConvergedError as error:
            raise ConvergenceError("the rod at rest before the motion", math.nan, 0.0, 0) from error
        c, still = rest.c, np.zeros(rod.n)
        lengths_m, pulls, _ = rod.pulled(c, start_n)
        by_rest = -pulls.T @ given
        by_rest[:, :count] -= parts.forces(c[None], still[None], still[None])[:-1, 0].T
        c_by = np.asarray(np.linalg.solve(rest.hessian, by_rest), dtype=float)
        lengths_by, rate_by = pulls @ c_by, np.zeros_like(c_by)
        c_by[:, own.stop : own.stop + modes], rate_by[:, own.stop + modes :] = self.swings
        rate = self.swings[1] @ swing[1]
        state = motion.begin(c + self.swings[0] @ swing[0], rate, c_by, rate_by)
        springs = _Springs(rod, spring, start_n, lengths_m, given - stiffness * lengths_by, count)
        found, slopes, before = np.empty_like(place_m), np.empty((*place_m.shape, none.shape[1])), rate
        for step, (place, pulling) in enumerate(zip(place_m - place_m[0], rate_m_per_s, strict=True)):
            springs.place_m, springs.rate_m_per_s = place, pulling
            guess, before = 2 * rate - before, rate
            state, _, rate, by = motion.step(state, guess, step_s, springs)
            c_by, rate_by = np.split(by, 2, axis=1)
            found[step] = springs.tension
            slopes[step] = springs.by + springs.pulls @ (stiffness * c_by + damping * rate_by)
        return found, slopes


class _Springs:
    """Tendons between the rod and given displacements, which may be written: what they pull with."""

    def __init__(
        self, rod: Rod, spring: tuple[float, float], start_n: Vector, lengths_m: Vector, by: Vector, at: int
    ) -> None:
        self._rod, self._spring, self._start_n, self._lengths_m, self._at = rod, spring, start_n, lengths_m, at
        self.place_m = self.rate_m_per_s = np.zeros(len(start_n))
        self.tension, self.by, self.pulls = start_n, by, np.zeros((len(start_n), rod.n))

    def __call__(self, c: Vector, rate: Vector, _terms: Terms) -> Forces:
        """The force -J^T T on the coefficients."""
        stiffness, damping = self._spring
        lengths_m, J, _ = self._rod.pulled(c, self.tension)
        stretch, stretching = lengths_m - self._lengths_m + self.place_m, J @ rate + self.rate_m_per_s
        self.tension = self._start_n + stiffness * stretch + damping * stretching
        _, self.pulls, bent = self._rod.pulled(c, self.tension)
        self.by[:, self._at], self.by[:, self._at + 1] = stretch, stretching
        square = J.T @ J
        return Forces(-J.T @ self.tension, bent - stiffness * square, -damping * square, -J.T @ self.by)


class TensionEquations(ForceEquations):
    """Forces of all motors."""

    def __init__(
        self, robot: Robot, samples: RecordedMotion, settings: MotionFitSettings, rod: DrivenRod, *, swings: bool = True
    ) -> None:
        swing = beside("swing", 2 * rod.swings.shape[2], 1.0 if swings else _NONE)
        super().__init__(robot, samples, settings, swing=swing)
        self._rod, motors = rod, self.motors
        pull = np.asarray(controlled_manifold(robot).displacement_matrix)
        self._onto = np.concatenate([pull, null_space(pull.T)], axis=1)
        # Even, so that the middle of a step is a sample.
        every = 2 * max(1, round(settings.step_s / (2 * motors.period_s)))
        self._middle, self._step_s = slice(every // 2, None, every), every * motors.period_s
        self._kept = motors.kept(self._step_s)
        self.time_s = samples.time_s[self._middle][self._kept]
        self._start_n = motors.force_n[: max(1, round(_START_S / motors.period_s))].mean(axis=0)
        whole = self._used(motors.force_n)
        self.pulled, self.forces = whole[:, : pull.shape[1]], whole - whole.mean(axis=0)

    def _used(self, values: Vector) -> Vector:
        """Those of values at the samples, (T, N), that count, on the coordinates and across them."""
        return np.asarray(values[self._middle][self._kept] @ self._onto)

    def left(self, x: Vector, tension: Vector | None = None) -> Vector:
        """What is left of the forces, (T, N), N; raises ConvergenceError where the rod cannot be simulated."""
        tension = self._simulated(x)[0] if tension is None else tension
        return self._used(self.motors.force_n - self.motors.resisting(x, constant=False)) - tension

    def linearised(self, x: Vector) -> tuple[Vector, Vector]:
        at, (tension, by) = self.parameters.at, self._simulated(x)
        rows, slopes = self._by_motors(x, tension)
        scale = self.parameters.scale
        places = [*range(*at["rod"].indices(len(x)))]
        for name in ("stiffness", "damping", "constant", "swing"):
            places += range(*at[name].indices(len(x)))
        factor = np.where(np.isin(places, [at["stiffness"].start, at["damping"].start]), scale[places], 1.0)
        slopes[:, :, places] -= by * factor
        return rows, slopes

    def _by_motors(self, x: Vector, tension: Vector) -> tuple[Vector, Vector]:
        rows = self.left(x, tension)
        slopes = np.zeros((*rows.shape, len(x)))
        for name in ("inertia", "viscous", "dry", "travel", "sine", "cosine", "lag"):
            for k in range(*self.parameters.at.get(name, slice(0, 0)).indices(len(x))):
                further = x.copy()
                further[k] += self.motors.steps[k]
                slopes[:, :, k] = (self.left(further, tension) - rows) / self.motors.steps[k]
        return rows, slopes

    def _simulated(self, x: Vector) -> tuple[Vector, Vector]:
        """Tensions on the coordinates and across them (T, N), and their derivative, (T, N, R + 2 + N + 2 W)."""
        at, values, motors = self.parameters.at, self.parameters.values(x), self.motors
        tension, by = self._rod.tensions(
            x[at["rod"]],
            (float(values[at["stiffness"]][0]), float(values[at["damping"]][0])),
            self._start_n + x[at["constant"]],
            x[at["swing"]].reshape(2, -1),
            motors.place_m[self._middle],
            motors.rate_m_per_s[self._middle],
            self._step_s,
        )
        return tension[self._kept] @ self._onto, np.einsum("tju,jk->tku", by[self._kept], self._onto)
