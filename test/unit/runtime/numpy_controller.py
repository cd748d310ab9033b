# SPDX-License-Identifier: Apache-2.0
"""Oracle: PID, distribution, controller and reference on whole NumPy vectors, with state that is replaced.

Written before the stepped code and apart from it: array expressions instead of loops, masks instead of branches.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from continuum_robot.control.controller import ClarkeOutput
from continuum_robot.control.pid_parameters import PidParameters, PidTerms
from continuum_robot.control.references import ClarkeReference
from continuum_robot.robot.coordinates import clarke_manifold

START_FADE_TIME_S = 0.5
EXTRAPOLATION_S = 0.02
REST_S = 0.2
_NEAR_M = 5e-5


class Pid:
    def __init__(self, parameters):
        self._set_parameters(parameters)
        self.reset()

    def _set_parameters(self, parameters):
        self.parameters = parameters
        with np.errstate(divide="ignore"):
            self._filter_rate = 1 / parameters.derivative_filter_time
        self._back_calculation = bool(np.any(parameters.back_calculation_rate > 0))
        self._conditional = bool(np.any(parameters.conditional_integration))
        self._deadband = bool(np.any(parameters.error_deadband > 0))

    def reset(
        self,
        output=None,
        *,
        reference=None,
        measurement=None,
        measurement_rate=None,
        feedforward=None,
        reference_rate=None,
    ):
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
        measured = values["measurement"]
        self._measurement = zero * np.nan if measured is None else measured
        self._rate = zero if values["measurement_rate"] is None else values["measurement_rate"]
        self._integral = zero
        self._start = zero
        error = zero
        if values["reference"] is not None and measured is not None:
            error = values["reference"] - measured
        desired_rate = zero if values["reference_rate"] is None else values["reference_rate"]
        p_term = self.parameters.p * error
        d_term = self.parameters.d * (self.parameters.reference_velocity_weight * desired_rate - self._rate)
        forward = zero if values["feedforward"] is None else values["feedforward"]
        if values["output"] is not None:
            self._start = values["output"] - p_term - d_term - forward
        self._settle_integral()
        i_term = self._integral + self._start
        unbounded = p_term + i_term + d_term + forward
        bounded = np.minimum(np.maximum(unbounded, self.parameters.u_clamp_min), self.parameters.u_clamp_max)
        self._last = PidTerms(error, p_term, i_term, d_term, forward, bounded, bounded != unbounded)

    def with_parameters(self, parameters):
        other = copy.copy(self)  # state arrays are replaced, never written into, so they may be shared
        other._set_parameters(parameters)
        other._settle_integral()
        return other

    def _settle_integral(self):
        whole = self._integral + self._start
        held = np.minimum(np.maximum(whole, self.parameters.i_clamp_min), self.parameters.i_clamp_max)
        self._integral = np.where(self.parameters.i > 0, held, 0.0)
        self._start = whole - self._integral

    def update(
        self,
        reference,
        measurement,
        measurement_rate,
        dt,
        feedforward=None,
        *,
        reference_rate=None,
    ):
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
        desired_rate = 0.0 if reference_rate is None else k.reference_velocity_weight * reference_rate
        d_term = k.d * (desired_rate - rate)
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
        integral = self._integral + step
        if self._back_calculation:  # at most to 0, and never away from it
            back = integral + np.minimum(dt * k.back_calculation_rate, 1.0) * (output - unbounded)
            between = np.minimum(np.maximum(back, np.minimum(integral, 0.0)), np.maximum(integral, 0.0))
            integral = np.where(k.back_calculation_rate > 0, between, integral)
        integral = np.minimum(np.maximum(integral, k.i_clamp_min), k.i_clamp_max)
        start = self._start * math.exp(-dt / START_FADE_TIME_S)

        if known is not None:
            saturated = saturated & known
            integral, start = np.where(known, integral, self._integral), np.where(known, start, self._start)
            rate, measurement = np.where(known, rate, self._rate), np.where(known, measurement, np.nan)
        self._integral, self._start, self._rate, self._measurement = integral, start, rate, measurement
        self._last = PidTerms(error, p_term, i_term, d_term, feedforward, output, saturated)
        return self._last


def distribute(strategy, generalized_force, manifold, pretension_n=0.0):
    initial = initial_tension(generalized_force, manifold)
    if strategy == "clip":
        return np.maximum(initial, 0.0) + pretension_n  # muhmann III-A
    tension = np.empty_like(initial)
    if strategy == "shift":
        for rows in manifold.tendon_slices:
            own = initial[rows]
            # The paper prints + min(F); only - min(F) makes every tension >= 0.
            tension[rows] = (own - own.min()) + pretension_n  # muhmann (28)
    else:
        for rows, transform in zip(manifold.tendon_slices, manifold.transforms, strict=True):
            tension[rows] = _redistributed(initial[rows], transform) + pretension_n
    return tension


def initial_tension(generalized_force, manifold):
    return np.asarray(generalized_force @ manifold.clarke_matrix)  # muhmann (26), with (13)


def _redistributed(tension, transform):
    force_re, force_im = tension @ transform.inverse  # n / 2 M_P F, muhmann (27)
    size = math.hypot(force_re, force_im)
    result = np.zeros(transform.count)
    if not math.isfinite(size):
        return np.full(transform.count, np.nan)
    spacing = 2 * math.pi / transform.count
    angle = (math.atan2(force_im, force_re) - transform.angle_offset_rad) % (2 * math.pi)
    before = int(angle / spacing)
    past = angle - before * spacing
    # Two unit vectors a spacing apart that sum to the desired one: the law of sines. Rounding can put the angle a hair
    # outside of its sector; a tension is not negative for that.
    result[before % transform.count] = max(0.0, size * math.sin(spacing - past) / math.sin(spacing))
    result[(before + 1) % transform.count] = max(0.0, size * math.sin(past) / math.sin(spacing))
    return result


class ClarkeController:
    def __init__(self, robot, rod_feedforward=None):
        self._per_entry = robot.coordinate_count // len(robot.part_names)
        self.manifold = clarke_manifold(robot)
        self._robot, self._rod_feedforward = robot, rod_feedforward
        self.settings = robot.control
        self._pid = Pid(PidParameters.from_gains(robot.control.gains, self._per_entry))
        self._nothing = np.full(self.manifold.coordinate_count, np.nan)
        self._no_feedforward = np.zeros(self.manifold.coordinate_count)
        for shared in (self._nothing, self._no_feedforward):
            shared.setflags(write=False)

    def with_settings(self, settings):
        other = copy.copy(self)
        other.settings = settings
        other._pid = self._pid.with_parameters(PidParameters.from_gains(settings.gains, self._per_entry))
        return other

    def reset(
        self,
        displacement,
        tension=None,
        *,
        velocity=None,
        reference=None,
    ):
        clarke = self.manifold.clarke(displacement)
        rate = None if velocity is None else self.manifold.clarke(velocity)
        desired = ClarkeReference.at_rest(clarke) if reference is None else reference
        force = None if tension is None else self.manifold.generalized_force(tension)
        self._pid.reset(
            force,
            reference=desired.position,
            measurement=clarke,
            measurement_rate=rate,
            feedforward=self._feedforward(desired),
            reference_rate=desired.velocity,
        )

    def update(self, displacement, velocity, reference, dt):
        to_clarke = self.manifold.clarke_matrix
        clarke = to_clarke @ displacement
        rate = None if velocity is None else to_clarke @ velocity
        known = clarke.sum() + reference.position.sum() + reference.velocity.sum()
        if rate is not None:
            known = known + rate.sum()
        if not math.isfinite(known):
            # One unknown tendon leaves the force of every segment under it unknown: none gets a tension.
            terms = self._pid.update(self._nothing, self._nothing, None, dt)
            tension = np.full(self.manifold.tendon_count, np.nan)
            return ClarkeOutput(tension, clarke, self._nothing if rate is None else rate, self._nothing, terms)
        feedforward = self._feedforward(reference)
        terms = self._pid.update(reference.position, clarke, rate, dt, feedforward, reference_rate=reference.velocity)
        tension = distribute(self.settings.tendon_forces, terms.output, self.manifold, self.settings.pretension_n)
        return ClarkeOutput(tension, clarke, self._nothing if rate is None else rate, terms.output, terms)

    def _feedforward(self, reference):
        stiffness, gravity = self.settings.feedforward_stiffness, self.settings.feedforward_gravity
        friction = self._friction(reference.velocity)
        if self._rod_feedforward is None or not (stiffness or gravity):
            return self._no_feedforward + friction
        elastic_force, gravity_force = self._rod_feedforward(reference.position)
        return stiffness * elastic_force + gravity * gravity_force + friction  # K_M q and g_M of muhmann (25)

    def _friction(self, rate):
        """Viscous and dry friction of motors that have no past."""
        motors, tendon_rate = self._robot.actuators, self.manifold.displacement(rate)
        resisting = motors.viscous_ns_per_m * tendon_rate + motors.coulomb_n * np.tanh(tendon_rate / 1e-3)
        return self.settings.feedforward_friction * self.manifold.generalized_force(resisting)


class ReferenceInput:
    def __init__(self, coordinate_count, blend_s=1.0):
        self._count, self._blend_s = coordinate_count, blend_s
        self.refused = 0
        self.start(np.zeros(coordinate_count))

    def start(self, position):
        self._held = ClarkeReference.at_rest(np.array(position, dtype=float))
        self._newest = None
        self._stamp_s = -math.inf
        self._blend_start_s = None
        self._stopped = None

    def receive(self, reference, stamp_s):
        sizes = (reference.position.size, reference.velocity.size, reference.acceleration.size)
        total = reference.position.sum() + reference.velocity.sum() + reference.acceleration.sum()
        if sizes != (self._count,) * 3 or not math.isfinite(total):
            self.refused += 1
            return False
        if self._newest is None and np.max(np.abs(reference.position - self._held.position)) > _NEAR_M:
            self._blend_start_s = stamp_s
        self._newest, self._stamp_s, self._stopped = reference, stamp_s, None
        return True

    def at(self, time_s):
        reference = self._newest
        if reference is None:
            return self._held
        ahead_s = time_s - self._stamp_s
        if ahead_s >= EXTRAPOLATION_S:
            # Blended at the moment it stopped: a position that only stands must not go on moving.
            if self._stopped is None:
                last = _ahead(reference, EXTRAPOLATION_S)
                self._stopped = self._blended(last, self._stamp_s + EXTRAPOLATION_S)
            passed_s = min(ahead_s - EXTRAPOLATION_S, REST_S)
            left = 1 - passed_s / REST_S
            velocity = self._stopped.velocity
            return ClarkeReference(
                self._stopped.position + passed_s * (velocity * (1 + left) / 2),
                velocity * left,
                -velocity / REST_S if left > 0 else np.zeros(self._count),
            )
        # A stamp a little in the future (another process's clock tick) is extrapolated backwards just as well.
        return self._blended(_ahead(reference, max(ahead_s, -EXTRAPOLATION_S)), time_s)

    def age_s(self, time_s):
        return time_s - self._stamp_s

    def _blended(self, reference, time_s):
        if self._blend_start_s is None:
            return reference
        x = (time_s - self._blend_start_s) / self._blend_s if self._blend_s > 0 else 1.0
        if x >= 1:
            self._blend_start_s = None
            return reference
        return blend(self._held.position, reference, max(x, 0.0), self._blend_s)


def blend(start, reference, x, duration_s):
    weight = x**3 * (10 - 15 * x + 6 * x**2)
    rate = 30 * x**2 * (1 - x) ** 2 / duration_s
    acceleration = 60 * x * (1 - x) * (1 - 2 * x) / duration_s**2
    way = reference.position - start
    return ClarkeReference(
        start + weight * way,
        rate * way + weight * reference.velocity,
        acceleration * way + 2 * rate * reference.velocity + weight * reference.acceleration,
    )


def _ahead(reference, time_s):
    return ClarkeReference(
        reference.position + time_s * (reference.velocity + 0.5 * time_s * reference.acceleration),
        reference.velocity + time_s * reference.acceleration,
        reference.acceleration,
    )
