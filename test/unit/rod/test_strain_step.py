# SPDX-License-Identifier: Apache-2.0
"""A stage against the terms that it is made of, and its spools and surfaces against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from motion_oracle import mass_matrix, motion_terms
from strain_rods import basis, crooked_rod, path, strain_rod

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.strain.dynamics import HeldTendons, StrainDynamics
from continuum_robot.rod.strain.rod import RodSegment, StrainRod
from continuum_robot.rod.strain.stage_solver import Extrapolation, Spools, StageSolver
from continuum_robot.simulation.contact import contact_force

STAGE_S = 1e-3
PULL = np.array([1.0, 0.0, 3.0, 0.0])


@pytest.fixture(scope="module")
def dynamics() -> StrainDynamics:
    whole = strain_rod(crooked_rod())
    segments = [replace(segment, rotary_inertia_kg_m=(1e-5, 2e-5, 3e-5)) for segment in whole.segments]
    rod = StrainRod(segments, whole.tendon_paths, (), whole.masses, whole.gravity_m_per_s2)
    follower = PointWrench(s_m=0.5, force_n=(0.1, 0.2, 0.3), moment_nm=(0.01, 0.02, 0.03), frame="body")
    return StrainDynamics(rod, [follower], damping=1e-2)


@pytest.fixture
def start(dynamics) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    c = 0.5 * random.normal(size=dynamics.size) / dynamics.rod.strain_scale
    c[dynamics.rod.strain_scale == 1] *= 0.1
    return c, random.normal(size=dynamics.size)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("stage_s", [1e-4, STAGE_S])
def test_a_stage_solves_the_equation_of_the_terms(dynamics, start, held, stage_s):
    c, rate = start
    pull = PULL
    if held:
        spooled = dynamics.rod.tendon_displacement(c) + np.array([1e-3, -1e-3, 2e-3, 0])
        pull = HeldTendons(spooled, np.full(4, 2e3))
    extra = np.linspace(-1e-3, 1e-3, dynamics.size)
    momentum = dynamics.momentum(c, rate)
    solver = StageSolver(dynamics, compile="never")
    stage = solver.solve(stage_s, c, momentum, c + stage_s * rate, pull, force=extra, tolerance=1e-11)
    terms = motion_terms(dynamics, stage.c, stage.c_rate, pull, extra)
    assert stage.c == pytest.approx(c + stage_s * stage.c_rate, abs=1e-12)
    assert stage.momentum == pytest.approx(terms.momentum, rel=1e-10)
    change = stage_s * terms.force
    assert stage.momentum - momentum == pytest.approx(change, abs=1e-7 * np.abs(change).max())
    assert stage.tension == pytest.approx(terms.tension, abs=1e-9)


def test_newton_is_quadratic_where_the_rod_turns_fast(dynamics, start):
    """One matrix, made at the start, serves to rounding: it learns what it lacks."""
    c, rate = start
    solver = StageSolver(dynamics, compile="never")
    momentum = dynamics.momentum(c, 20 * rate)
    solver.solve(2e-4, c, momentum, c, PULL, tolerance=1e-9)
    assert solver.iterations <= 9
    assert solver.matrices == 1


def test_the_matrix_is_kept_until_it_is_forgotten(dynamics, start):
    c, rate = start
    momentum = dynamics.momentum(c, rate)
    solver = StageSolver(dynamics, compile="never")
    stage = solver.solve(STAGE_S, c, momentum, c, PULL)
    solver.solve(STAGE_S, c, momentum, stage.c + 1e-7, PULL)
    made = solver.matrices
    for _ in range(3):
        solver.solve(STAGE_S, c, momentum, stage.c + 1e-7, PULL)
    assert solver.matrices == made > 0
    solver.forget()
    solver.solve(STAGE_S, c, momentum, c, PULL)
    assert solver.matrices > made


def heavy_rod() -> StrainRod:
    segment = RodSegment(
        length_m=0.25, basis=basis(0), stiffness=(1e5, 1e5, 1e5, 1e9, 1e9, 1e9), linear_density_kg_per_m=1e3,
        rotary_inertia_kg_m=(1.0, 1.0, 2.0),
    )  # fmt: skip
    return StrainRod([segment], [path()])


class _Spool:
    size = 1

    def __init__(self, cogging: float) -> None:
        self.cogging = cogging

    def terms(self, stretch, stretch_rate, spooled, speed, parameters):
        tension = ca.fmax(2e3 * (stretch - 1e-4) + 5.0 * stretch_rate, 0)
        friction = 1.5 * speed + 0.4 * ca.tanh(speed / 5e-4) + self.cogging * ca.sin(900.0 * spooled + 0.3)
        return tension, (parameters - tension - friction) / 0.3


class _Surface:
    """One surface at the place of the coefficients ``c``."""

    def __init__(self, c, gradient, slip) -> None:
        self.size, self.c, self.gradient, self.slip = 1, ca.DM(c), ca.DM(gradient), ca.DM(slip)

    def expression(self, c, c_rate, parameters):
        gap, gap_rate = parameters + self.gradient.T @ (c - self.c), self.gradient.T @ c_rate
        normal, friction = contact_force(gap, gap_rate, self.slip @ c_rate, (5.0, 0.5, 0.3))
        return self.gradient @ normal + self.slip.T @ friction


@pytest.mark.parametrize("cogging", [0.0, 0.2])
def test_a_spool_obeys_its_own_equation(cogging):
    """On a rod that hardly gives the spool is a mass between motor, spring, damper, friction and cogging."""
    dynamics = StrainDynamics(heavy_rod())
    one = np.ones(1)
    zero = np.zeros(dynamics.size)
    solver = StageSolver(dynamics, _Spool(cogging), compile="never")
    for motor_n, spooled_m, speed in ((5.0, 1e-3, 0.02), (0.1, 0.0, 0.0), (-3.0, -1e-3, -0.5), (20.0, 0.0, 1.0)):
        spools = Spools(spooled_m * one, speed * one, motor_n * one)
        stage = solver.solve(STAGE_S, zero, zero, zero, spools)
        (new,) = stage.spool_speed_m_per_s
        angle = 900.0 * (spooled_m + STAGE_S * new) + 0.3
        friction = 1.5 * new + 0.4 * math.tanh(new / 5e-4) + cogging * math.sin(angle)
        assert 0.3 * (new - speed) == pytest.approx(STAGE_S * (motor_n - stage.tension[0] - friction), abs=1e-10)
        given = -dynamics.rod.tendon_displacement(stage.c)[0]
        lead = spooled_m + STAGE_S * new - 1e-4 + given
        assert stage.tension[0] == pytest.approx(max(2e3 * lead + 5.0 * (new + given / STAGE_S), 0.0), abs=1e-6)


def test_surfaces_push_and_brake(dynamics, start):
    c, rate = start
    n = dynamics.size
    gradient, slip = np.linspace(-1e-3, 1e-3, n), np.linspace(0, 5e-4, 2 * n)
    momentum = dynamics.momentum(c, rate)
    solver = StageSolver(dynamics, touching=_Surface(c, gradient, slip.reshape(2, n)), compile="never")
    stage = solver.solve(1e-4, c, momentum, c, contacts=np.array([-0.01]))
    gap, speed = -0.01 + gradient @ (stage.c - c), slip.reshape(2, n) @ stage.c_rate
    normal = 5.0 * max(-gap, 0) * max(1 - 0.5 * gradient @ stage.c_rate, 0)
    push = normal * gradient - 0.3 * normal / math.hypot(*speed, 0.01) * slip.reshape(2, n).T @ speed
    assert normal > 0
    force = motion_terms(dynamics, stage.c, stage.c_rate, force=push).force
    assert (stage.momentum - momentum) / 1e-4 == pytest.approx(force, abs=1e-5 * np.abs(force).max())


def test_what_cannot_be_is_refused(dynamics):
    zero, solver = np.zeros(dynamics.size), StageSolver(dynamics, compile="never")
    for pull in ([-1.0, 0, 0, 0], [1.0], HeldTendons(np.array([np.nan, 0, 0, 0]), np.ones(4))):
        with pytest.raises(ParameterError):
            solver.solve(STAGE_S, zero, zero, zero, pull)
    with pytest.raises(ConvergenceError):
        solver.solve(STAGE_S, zero, zero, zero, force=np.full(dynamics.size, np.nan))
    with pytest.raises(ParameterError, match="spools"):
        StageSolver(dynamics, _Spools(), compile="never").solve(STAGE_S, zero, zero, zero, PULL)


class _Spools:
    size = 0

    def terms(self, stretch, *_):
        return 0 * stretch, 0 * stretch


def test_rates_are_drawn_on_by_a_polynomial():
    known = Extrapolation(3)
    assert known.at(1.0) is None
    for t in (0.0, 0.3, 1.0, 1.3):
        known.add(t, np.array([t * t - 2 * t, 1.0]))
    assert known.at(2.0) == pytest.approx([0.0, 1.0])
    known.add(0.5, np.array([7.0, 7.0]))  # time that goes back restarts
    assert known.at(9.0) == pytest.approx([7.0, 7.0])


@pytest.mark.parametrize("principal", [True, False])
def test_the_root_of_the_mass_is_that_of_the_chain(dynamics, start, principal):
    """Against products of whole Jacobians; bodies beside the backbone have no principal axes there."""
    masses = () if principal else dynamics.rod.masses
    rod = StrainRod(dynamics.rod.segments, dynamics.rod.tendon_paths, (), masses)
    moving = StrainDynamics(rod)
    mass = mass_matrix(moving, start[0])
    assert moving.mass_matrix(start[0]) == pytest.approx(mass, abs=1e-12 * np.abs(mass).max())
