# SPDX-License-Identifier: Apache-2.0
"""The general rod in motion: derivatives, closed forms of vibration, energy, order, rest, and two other engines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from continuum_robot.rod.strain.inverse import hold
from motion_oracle import motion_terms, simulate_explicitly
from rod_robots import undamped, with_basis
from scipy.linalg import eigh
from strain_rods import basis, crooked_rod, path, strain_rod

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod import integration
from continuum_robot.rod.dynamics import RodDynamics
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.strain.dynamics import HeldTendons, StrainDynamics, damping_matrix
from continuum_robot.rod.strain.motion import METHODS, Stepper, simulate
from continuum_robot.rod.strain.rod import RodSegment, StrainRod
from continuum_robot.rod.strain.statics import equilibrium

pytestmark = pytest.mark.usefixtures("virtual_machine")

LENGTH, RADIUS, MODULUS, SHEAR_MODULUS, DENSITY = 0.25, 2e-3, 5e7, 2e7, 1100.0
AREA, SECOND_MOMENT = math.pi * RADIUS**2, math.pi / 4 * RADIUS**4
PULL = np.array([1.0, 0.0, 3.0, 0.0])


def rubber(chosen: Basis, tendons=(), gravity=(0.0, 0.0, 0.0)) -> StrainRod:
    bending, shear = MODULUS * SECOND_MOMENT, SHEAR_MODULUS * AREA
    rotary = DENSITY * SECOND_MOMENT
    stiffness = (bending, bending, 2 * SHEAR_MODULUS * SECOND_MOMENT, shear, shear, MODULUS * AREA)
    segment = RodSegment(
        length_m=LENGTH,
        basis=chosen,
        stiffness=stiffness,
        linear_density_kg_per_m=DENSITY * AREA,
        rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
    )
    return StrainRod([segment], tendons, gravity_m_per_s2=gravity)


@pytest.fixture(scope="module")
def rod() -> StrainRod:
    whole = strain_rod(crooked_rod())
    segments = [replace(segment, rotary_inertia_kg_m=(1e-5, 2e-5, 3e-5)) for segment in whole.segments]
    return StrainRod(segments, whole.tendon_paths, (), whole.masses, whole.gravity_m_per_s2)


@pytest.fixture
def moment(rod) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    c = 0.5 * random.normal(size=rod.size) / rod.strain_scale
    c[rod.strain_scale == 1] *= 0.1
    return c, random.normal(size=rod.size)


def slope(function, c, step=1e-6):
    return np.array([(function(c + step * e) - function(c - step * e)) / (2 * step) for e in np.eye(len(c))]).T


def test_terms_are_the_derivatives_of_the_energies(rod, moment):
    c, rate = moment
    dynamics = StrainDynamics(rod, [PointWrench(s_m=0.5, force_n=(0.1, 0.2, 0.3), frame="body")])
    terms = motion_terms(dynamics, c, rate, PULL)
    at_rest = motion_terms(dynamics, c, 0 * rate, PULL)
    mass = rod.mass_matrix(c)
    assert dynamics.mass_matrix(c) == pytest.approx(mass, abs=1e-14)
    assert terms.mass == pytest.approx(mass, abs=1e-14)
    assert terms.momentum == pytest.approx(mass @ rate, abs=1e-14)
    assert terms.force - at_rest.force == pytest.approx(
        slope(lambda x: rate @ rod.mass_matrix(x) @ rate / 2, c), abs=1e-9
    )
    stiffness = -slope(lambda x: motion_terms(dynamics, x, 0 * rate, PULL).force, c)
    assert terms.stiffness == pytest.approx(stiffness, abs=1e-7)
    assert dynamics.rate(c, terms.momentum) == pytest.approx(rate, rel=1e-8)


def lowest(rod: StrainRod, pick) -> float:
    """Lowest angular frequency of the unstrained rod among the coefficients of some rows."""
    places = [k for k, row in enumerate(rod.segments[0].basis.rows) if pick(row)]
    mass = StrainDynamics(rod).mass_matrix(np.zeros(rod.size))
    return float(np.sqrt(eigh(rod.stiffness[np.ix_(places, places)], mass[np.ix_(places, places)])[0][0]))


def test_frequencies_of_a_clamped_rod():
    rod = rubber(basis(6))
    bending = 3.51602 * math.sqrt(MODULUS * SECOND_MOMENT / (DENSITY * AREA * LENGTH**4))
    assert lowest(rod, lambda row: row in (0, 1, 3, 4)) == pytest.approx(bending, rel=1e-3)  # shear slows it
    quarter = math.pi / (2 * LENGTH)
    assert lowest(rod, lambda row: row == 2) == pytest.approx(quarter * math.sqrt(SHEAR_MODULUS / DENSITY), rel=1e-6)
    assert lowest(rod, lambda row: row == 5) == pytest.approx(quarter * math.sqrt(MODULUS / DENSITY), rel=1e-6)


def test_a_stretched_rod_swings_along_itself_at_that_frequency():
    rod = rubber(Basis(kind="chebyshev", bending_order=0, extension_order=6))
    dynamics = StrainDynamics(rod)
    values, modes = eigh(rod.stiffness, dynamics.mass_matrix(np.zeros(rod.size)))
    along = next(k for k, mode in enumerate(modes.T) if np.abs(mode[:2]).max() < 1e-6 * np.abs(mode).max())
    start = 1e-4 * modes[:, along] / np.abs(modes[:, along]).max()
    period = 2 * math.pi / math.sqrt(values[along])
    times = [0, period / 4, period / 2, period]
    motion = simulate(dynamics, times, start, method="midpoint", step_s=period / 400, tolerance=1e-12)
    size = np.abs(start).max()
    assert motion.c == pytest.approx(np.outer([1, 0, -1, 1], start), abs=1e-3 * size)


def test_errors_and_energy_are_of_second_order(rod):
    dynamics = StrainDynamics(rod)
    times = np.linspace(0, 0.02, 3)
    exact, rates = simulate_explicitly(dynamics, times, PULL)
    total = [_total(dynamics, *pair) for pair in zip(exact, rates, strict=True)]
    assert np.ptp(total) < 1e-7 * dynamics.energy(exact[-1], rates[-1]).kinetic_j
    tip = rod.poses(exact[-1], [0.5])[0, :3, 3]
    for method in METHODS:
        errors = []
        for step_s in (1e-3, 5e-4, 2.5e-4):
            motion = simulate(dynamics, times, pull=lambda _: PULL, method=method, step_s=step_s, tolerance=1e-12)
            errors.append(float(np.linalg.norm(rod.poses(motion.c[-1], [0.5])[0, :3, 3] - tip)))
        assert errors[2] < 0.12 * errors[0], method
        assert errors[2] < 1e-5


def _total(dynamics, c, rate, tension=PULL):
    energy = dynamics.energy(c, rate)
    return energy.kinetic_j + energy.potential_j + tension @ dynamics.rod.tendon_lengths(c)


def test_energy_stays_without_damping_and_falls_with_it():
    helix = path(HelicalRouting(turns=1.0))
    rod = rubber(Basis(kind="chebyshev", bending_order=3, torsion_order=3), [helix], (1.0, 2.0, -9.0))
    times = np.linspace(0, 0.2, 41)
    spans = []
    for step_s in (2e-3, 1e-3):
        motion = simulate(StrainDynamics(rod), times, pull=lambda _: [0.05], method="midpoint", step_s=step_s)
        dynamics = StrainDynamics(rod)
        moving = [dynamics.energy(c, rate).kinetic_j for c, rate in zip(motion.c, motion.c_rate, strict=True)]
        total = [_total(dynamics, c, rate, np.array([0.05])) for c, rate in zip(motion.c, motion.c_rate, strict=True)]
        spans.append(float(np.ptp(total)) / max(moving))
    assert spans[1] < 0.01
    assert spans[1] < 0.5 * spans[0]
    damped = StrainDynamics(rod, damping=0.02)
    motion = simulate(damped, times, pull=lambda _: [0.05], step_s=2e-3)
    total = [_total(damped, c, rate, np.array([0.05])) for c, rate in zip(motion.c, motion.c_rate, strict=True)]
    assert (np.diff(total) < 1e-12).all()


def test_it_comes_to_rest_at_the_static_equilibrium(rod):
    motion = simulate(StrainDynamics(rod, damping=0.2), [0, 20.0], pull=lambda _: PULL, step_s=0.02)
    assert motion.c[-1] == pytest.approx(equilibrium(rod, PULL).c, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step_s", [1e-3, 5e-3])
def test_stiff_shear_and_extension_do_not_ask_for_short_steps(method, step_s):
    """Vibration along a steel rod has a period of 0.2 ms; the tip goes where the inextensible rod's does."""
    steel = (0.01, 0.01, 0.008, 2e4, 2e4, 5e4)
    tips = []
    for chosen in (basis(2), Basis(kind="chebyshev", bending_order=2, torsion_order=2)):
        segment = RodSegment(
            length_m=LENGTH,
            basis=chosen,
            stiffness=steel,
            linear_density_kg_per_m=0.02,
            rotary_inertia_kg_m=(1e-7, 1e-7, 2e-7),
        )
        rod = StrainRod([segment], [path()])
        motion = simulate(
            StrainDynamics(rod, damping=5e-3),
            np.linspace(0, 0.5, 6),
            pull=lambda t: [0.5 * math.sin(20 * t) ** 2],
            method=method,
            step_s=step_s,
        )
        assert motion.shortest_step_s == pytest.approx(step_s)
        tips.append([rod.poses(c, [LENGTH])[0, :3, 3] for c in motion.c])
    assert np.array(tips[0]) == pytest.approx(np.array(tips[1]), abs=1e-4)


def test_bending_alone_is_the_other_engine():
    robot = undamped(with_basis(load_robot("opencr_five_tendon"), 1))
    other = RodDynamics(robot, rotational_energy=True, compile="never")
    dynamics = StrainDynamics(StrainRod.from_robot(robot))
    tension = np.linspace(1.0, 3.0, robot.tendon_count)
    times = np.linspace(0, 0.1, 5)
    c = np.linspace(1.0, -1.0, other.size)
    expected = integration.simulate(
        other, c, 0 * c, times, tension=lambda *_: tension, relative_tolerance=1e-8, absolute_tolerance=1e-8
    )
    assert dynamics.mass_matrix(c) == pytest.approx(other.mass_matrix(c), rel=1e-3, abs=1e-9)
    found = simulate(dynamics, times, c, pull=lambda _: tension, step_s=2e-4, method="midpoint")
    assert found.c == pytest.approx(expected.c, abs=2e-2 * np.abs(expected.c).max())


def test_held_tendons_pull_and_never_push():
    tendons = [path(angle_rad=0.0), path(angle_rad=math.pi, name="u")]
    rod = rubber(Basis(kind="chebyshev", bending_order=2), tendons)
    spooled, stiffness = np.array([4e-3, -8e-3]), np.full(2, 2e3)
    held = HeldTendons(spooled, stiffness)
    dynamics = StrainDynamics(rod, damping=0.05)
    motion = simulate(dynamics, [0, 5.0], pull=lambda _: held, step_s=5e-3)
    terms = motion_terms(dynamics, motion.c[-1], np.zeros(rod.size), held)
    assert terms.tension[0] > 0
    assert terms.tension[1] == 0
    state = hold(rod, np.array([4e-3, np.nan]), tendon_stiffness_n_per_m=2e3).state
    assert motion.c[-1] == pytest.approx(state.c, abs=1e-5 * np.abs(state.c).max())


def test_damping_has_three_forms(rod):
    stiffness = rod.segments[0].stiffness
    same = StrainRod([replace(part, stiffness=stiffness) for part in rod.segments])
    by_time = damping_matrix(same, 0.1)
    assert damping_matrix(same, 0.1 * np.array(stiffness)) == pytest.approx(by_time)
    assert damping_matrix(same, by_time) == pytest.approx(by_time)


@pytest.mark.parametrize("damping", [-0.1, math.nan, [1.0, 2.0], -np.eye(2), [-1.0, 0, 0, 0, 0, 0]])
def test_damping_is_checked(damping):
    with pytest.raises(ParameterError, match="damping"):
        StrainDynamics(rubber(Basis(kind="chebyshev", bending_order=0)), damping=damping)


def test_what_cannot_be_is_refused():
    rod = rubber(Basis(kind="chebyshev", bending_order=0), [path()])
    dynamics = StrainDynamics(rod)
    weightless = StrainRod([replace(rod.segments[0], linear_density_kg_per_m=0.0, rotary_inertia_kg_m=(0, 0, 0))])
    with pytest.raises(ParameterError, match="mass"):
        StrainDynamics(weightless)
    for pull in ([-1.0], [math.nan], [1.0, 2.0]):
        with pytest.raises(ParameterError, match="tension"):
            simulate(dynamics, [0, 0.01], pull=lambda _, pull=pull: pull)
    for times in ([0.0], [0.0, 0.0], [0.0, math.nan]):
        with pytest.raises(ParameterError, match="time_s"):
            simulate(dynamics, times)
    for options in ({"step_s": 0.0}, {"method": "euler"}, {"tolerance": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            simulate(dynamics, [0, 0.01], **options)
    with pytest.raises(ParameterError, match="step_s"):
        Stepper(dynamics).advance(Stepper(dynamics).start(), -1e-3)
    with pytest.raises(ParameterError, match="stiffness"):
        HeldTendons(np.zeros(1), np.zeros(1))


def test_a_step_that_does_not_converge_says_so():
    dynamics = StrainDynamics(rubber(Basis(kind="chebyshev", bending_order=0)))
    with pytest.raises(ConvergenceError, match="time step") as caught:
        simulate(dynamics, [0, 0.01], force=lambda *_: np.full(2, np.nan))
    assert math.isnan(caught.value.residual)
