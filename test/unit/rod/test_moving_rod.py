# SPDX-License-Identifier: Apache-2.0
"""The rod in motion: equations of its steps, closed forms of vibration, energy, order, rest, spools and capstans."""

from __future__ import annotations

import ctypes as ct
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
from scipy.linalg import eigh
from strain_rods import basis, crooked_rod, path

from continuum_robot.errors import ConvergenceError, ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.friction.capstan_friction import TANH_PER_RADIAN, CapstanFriction
from continuum_robot.rod.friction.capstans import drives, tension_from_torque
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import METHODS, Rod
from continuum_robot.simulation.motors import FRICTION_SPEED_M_PER_S, MotorModel
from continuum_robot.simulation.moving_rod import MovingRod, Springs

LENGTH, RADIUS, MODULUS, SHEAR_MODULUS, DENSITY = 0.25, 2e-3, 5e7, 2e7, 1100.0
AREA, SECOND_MOMENT = math.pi * RADIUS**2, math.pi / 4 * RADIUS**4
PULL = np.array([1.0, 0.0, 3.0, 0.0])
STEP_S = 1e-3


def rubber(chosen: Basis, tendons=(), gravity=(0.0, 0.0, 0.0), **options) -> Rod:
    bending, shear = MODULUS * SECOND_MOMENT, SHEAR_MODULUS * AREA
    rotary = DENSITY * SECOND_MOMENT
    segment = RodSegment(
        length_m=LENGTH,
        basis=chosen,
        stiffness=(bending, bending, 2 * SHEAR_MODULUS * SECOND_MOMENT, shear, shear, MODULUS * AREA),
        linear_density_kg_per_m=DENSITY * AREA,
        rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
    )
    return Rod(RodDescription(segments=(segment,), tendon_paths=tuple(tendons), gravity_m_per_s2=gravity), **options)


@pytest.fixture(scope="module")
def rod() -> Rod:
    whole = crooked_rod().description
    segments = tuple(replace(segment, rotary_inertia_kg_m=(1e-5, 2e-5, 3e-5)) for segment in whole.segments)
    return Rod(replace(whole, segments=segments))


@pytest.fixture
def moment(rod) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    c = 0.5 * random.normal(size=rod.n) / rod.scale
    c[rod.scale == 1] *= 0.1
    return c, random.normal(size=rod.n)


def force_of(rod: Rod, c, rate, tension):
    """All that changes the momentum."""
    held = rod.arrays.stiffness @ c + rod.arrays.damping @ rate
    return rod.terms(c, rate).force - held - rod.lengths(c).gradient.T @ tension


def middle(moving: MovingRod, before: np.ndarray, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and rate in the middle of a step of the midpoint rule."""
    return (before + moving.c) / 2, (moving.c - before) / step_s


# --- equations of a step


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("step_s", [2e-4, 2e-3])
def test_a_step_solves_the_equation_of_the_terms(moment, held, step_s):
    c, rate = moment
    follower = PointWrench(s_m=0.5, force_n=(0.1, 0.2, 0.3), moment_nm=(0.01, 0.02, 0.03), frame="body")
    rod = crooked_rod(loads=[follower])
    rod.arrays.damping[:] = 1e-2 * rod.arrays.stiffness
    moving = MovingRod(rod, springs=Springs(2e3) if held else None, method="midpoint", tolerance=1e-11)
    moving.reset(c, rate)
    moving.force[:] = np.linspace(-1e-3, 1e-3, rod.n)
    moving.desired[:] = 0.0 if held else PULL
    moving.spooled_m += 0.0 if not held else np.array([1e-3, -1e-3, 2e-3, 0])
    momentum, spooled = moving.momentum.copy(), moving.spooled_m.copy()
    assert momentum == pytest.approx(rod.terms(c, rate).momentum)
    moving.step(step_s)
    at, by = middle(moving, c, step_s)
    tension = np.maximum(2e3 * (rod.lengths(at).length_m - rod.rest_m + spooled), 0) if held else PULL
    assert moving.tension_n == pytest.approx(tension, abs=1e-6)
    assert (moving.momentum + momentum) / 2 == pytest.approx(rod.terms(at, by).momentum, rel=1e-6, abs=1e-9)
    change = step_s * (force_of(rod, at, by, tension) + moving.force)
    assert moving.momentum - momentum == pytest.approx(change, abs=1e-6 * np.abs(change).max())
    if held:
        assert (moving.spooled_m == spooled).all()


def heavy_rod() -> Rod:
    """It hardly gives."""
    segment = RodSegment(
        length_m=0.25, basis=basis(0), stiffness=(1e5, 1e5, 1e5, 1e9, 1e9, 1e9), linear_density_kg_per_m=1e3,
        rotary_inertia_kg_m=(1.0, 1.0, 2.0),
    )  # fmt: skip
    return Rod(RodDescription(segments=(segment,), tendon_paths=(path(),)))


def motor_of(tendons: int, **numbers) -> MotorModel:
    values = {
        "newton_per_ampere": 2.0, "mass_kg": 0.3, "viscous_ns_per_m": 1.5, "coulomb_n": 0.4, "friction_travel_m": 0.0,
        "cogging_n": 0.0, "cogging_rad_per_m": 900.0, "current_time_constant_s": 1e-3, "cogging_phase_rad": 0.3,
    }  # fmt: skip
    common = "friction_travel_m", "current_time_constant_s", "servo"
    values = {**values, **numbers}
    return MotorModel(**{key: one if key in common else np.full(tendons, one) for key, one in values.items()})


@pytest.mark.parametrize(
    ("cogging", "stiffening", "travel_m"), [(0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (0.2, 0.05, 0.0), (0.0, 0.0, 1e-4)]
)
def test_a_spool_obeys_its_own_equation(cogging, stiffening, travel_m):
    """Its mass stands between motor, spring, damper, friction and cogging; all at the middle of the step."""
    motor = motor_of(1, cogging_n=cogging, friction_travel_m=travel_m)
    moving = MovingRod(
        heavy_rod(), springs=Springs(2e3, stiffening, 5.0), motor=motor, method="midpoint", tolerance=1e-14
    )
    for current, spooled_m, speed in ((2.5, 1e-3, 0.02), (0.05, 0.0, 0.0), (-1.5, -1e-3, -0.5), (10.0, 0.0, 1.0)):
        moving.reset(np.zeros(moving.rod.n), spooled_m=[spooled_m])
        moving.speed_m_per_s[:], moving.current_a[:], moving.desired[:] = speed, current, current
        moving.offset_m[:] = 1e-4
        slip = motor.slip(moving.spooled_m)
        moving.step(STEP_S)
        mean_m, mean = (spooled_m + moving.spooled_m[0]) / 2, (speed + moving.speed_m_per_s[0]) / 2
        assert moving.spooled_m[0] - spooled_m == pytest.approx(STEP_S * mean, rel=1e-9, abs=1e-15)
        dry = 0.4 * math.tanh(mean / FRICTION_SPEED_M_PER_S) if slip is None else float(slip.move([mean_m])[0])
        friction = 1.5 * mean + dry + cogging * math.sin(900.0 * mean_m + 0.3)
        pulls = 2.0 * current - moving.tension_n[0] - friction
        assert 0.3 * (moving.speed_m_per_s[0] - speed) == pytest.approx(STEP_S * pulls, abs=1e-9)
        given = -moving.displacement_m[0] / 2
        pull = 2e3 * (mean_m - 1e-4 + given)
        pull = (math.exp(stiffening * pull) - 1) / stiffening if stiffening else pull
        expected = max(pull + 5.0 * (mean + 2 * given / STEP_S), 0.0)
        assert moving.tension_n[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("turning", [0.0, 0.002, 0.3])
def test_both_spools_of_a_capstan_feel_its_friction(turning):
    """johnston (32)-(37): what resists the capstan comes on both of its tendons."""
    robot = load_robot("vanderbilt_segment")
    friction = CapstanFriction(robot)
    rod = Rod(robot, stations_m=friction.stations_m.tolist())
    motor = MotorModel.from_actuators(robot.actuators, 4, np.random.default_rng(1))
    moving = MovingRod(rod, springs=Springs(2e5, 0.0, 500.0), motor=motor, friction=friction, method="midpoint")
    c = np.array([0.4, 1.6, 0.2, -0.5, 0.1, 0.3])
    moving.reset(c)
    moving.spooled_m += 1e-3
    before = turning * np.array([1.0, 0.3, -0.8, -0.3])
    moving.speed_m_per_s[:] = before
    moving.current_a[:] = moving.desired[:] = 250.0 / motor.newton_per_ampere
    moving.step(STEP_S)
    speed, own = (before + moving.speed_m_per_s) / 2, drives(robot)
    torque = friction.torque(friction.fractions(c), friction.speeds(speed), friction.wires_of_tension(moving.tension_n))
    drag = motor.viscous_ns_per_m * speed + motor.coulomb_n * np.tanh(speed / FRICTION_SPEED_M_PER_S)
    cogging = motor.cogging_n * np.sin(
        motor.cogging_rad_per_m * (moving.spooled_m - STEP_S / 2 * speed) + motor.cogging_phase_rad
    )
    left = 250.0 - moving.tension_n - tension_from_torque(robot) @ torque - drag - cogging
    assert motor.mass_kg * (moving.speed_m_per_s - before) == pytest.approx(STEP_S * left, abs=1e-6)
    assert len(own) == 2
    assert (np.abs(torque).max() > 0.1) == (turning > 0)
    assert TANH_PER_RADIAN == 10.0


# --- motions


def lowest(rod: Rod, pick) -> float:
    """Lowest angular frequency of the unstrained rod among the coefficients of some rows."""
    places = [k for k, row in enumerate(rod.arrays.rows) if pick(row)]
    mass = rod.terms(np.zeros(rod.n), np.zeros(rod.n)).mass
    return float(np.sqrt(eigh(rod.arrays.stiffness[np.ix_(places, places)], mass[np.ix_(places, places)])[0][0]))


def test_frequencies_of_a_clamped_rod():
    rod = rubber(basis(6))
    bending = 3.51602 * math.sqrt(MODULUS * SECOND_MOMENT / (DENSITY * AREA * LENGTH**4))
    assert lowest(rod, lambda row: row in (0, 1, 3, 4)) == pytest.approx(bending, rel=1e-3)  # shear slows it
    quarter = math.pi / (2 * LENGTH)
    assert lowest(rod, lambda row: row == 2) == pytest.approx(quarter * math.sqrt(SHEAR_MODULUS / DENSITY), rel=1e-6)
    assert lowest(rod, lambda row: row == 5) == pytest.approx(quarter * math.sqrt(MODULUS / DENSITY), rel=1e-6)


def test_a_stretched_rod_swings_along_itself_at_that_frequency():
    rod = rubber(Basis(kind="chebyshev", bending_order=0, extension_order=6))
    values, modes = eigh(rod.arrays.stiffness, rod.terms(np.zeros(rod.n), np.zeros(rod.n)).mass)
    along = next(k for k, mode in enumerate(modes.T) if np.abs(mode[:2]).max() < 1e-6 * np.abs(mode).max())
    start = 1e-4 * modes[:, along] / np.abs(modes[:, along]).max()
    period = 2 * math.pi / math.sqrt(values[along])
    moving = MovingRod(rod, method="midpoint", tolerance=1e-12)
    moving.reset(start)
    motion = moving.follow([0, period / 4, period / 2, period], period / 400)
    size = np.abs(start).max()
    assert motion.c == pytest.approx(np.outer([1, 0, -1, 1], start), abs=1e-3 * size)


def test_errors_are_of_second_order(rod):
    """Against adaptive explicit steps of eighth order."""
    times, n = np.linspace(0, 0.02, 3), rod.n

    def derivative(_, y):
        return np.concatenate([y[n:], rod.acceleration(y[:n], y[n:], -rod.lengths(y[:n]).gradient.T @ PULL)])

    near = 1e-9 / rod.scale
    exact = scipy.integrate.solve_ivp(
        derivative, (0, times[-1]), np.zeros(2 * n), "DOP853", rtol=1e-9, atol=np.concatenate([near, 1e3 * near])
    ).y[:n, -1]
    tip = rod.poses(exact, [0.5])[0, :3, 3]
    for method in METHODS:
        errors = []
        for step_s in (1e-3, 5e-4, 2.5e-4):
            moving = MovingRod(rod, method=method, tolerance=1e-12)
            moving.reset(np.zeros(n))
            moving.desired[:] = PULL
            motion = moving.follow(times, step_s)
            errors.append(float(np.linalg.norm(rod.poses(motion.c[-1], [0.5])[0, :3, 3] - tip)))
        assert errors[2] < 0.12 * errors[0], method
        assert errors[2] < 1e-5


def total_j(rod: Rod, c, rate, tension) -> float:
    return rod.energies(c, rate).total_j + float(tension @ rod.lengths(c).length_m)


def test_energy_stays_without_damping_and_falls_with_it():
    rod = rubber(
        Basis(kind="chebyshev", bending_order=3, torsion_order=3), [path(HelicalRouting(turns=1.0))], (1.0, 2.0, -9.0),
        nodes=14,
    )  # fmt: skip
    times, tension = np.linspace(0, 0.2, 41), np.array([0.05])

    def motion(method, step_s):
        moving = MovingRod(rod, method=method, tolerance=1e-10)
        moving.reset(np.zeros(rod.n))
        moving.desired[:] = tension
        found = moving.follow(times, step_s)
        pairs = list(zip(found.c, found.c_rate, strict=True))
        total = [total_j(rod, *pair, tension) for pair in pairs]
        return np.array(total), max(rod.energies(*pair).kinetic_j for pair in pairs)

    spans = [np.ptp(total) / moving for total, moving in (motion("midpoint", step_s) for step_s in (2e-3, 1e-3))]
    assert spans[1] < 0.01
    assert spans[1] < 0.5 * spans[0]
    rod.arrays.damping[:] = 0.02 * rod.arrays.stiffness
    total, _ = motion("sdirk", 2e-3)
    assert (np.diff(total) < 1e-12).all()


def test_it_comes_to_rest_at_the_static_equilibrium(rod):
    rod = rod.with_gravity(rod.arrays.gravity)
    rod.arrays.damping[:] = 0.2 * rod.arrays.stiffness
    moving = MovingRod(rod)
    moving.reset(np.zeros(rod.n))
    moving.desired[:] = PULL
    moving.step(20.0, 1000)
    assert moving.c == pytest.approx(rod.equilibrium(PULL).c, rel=1e-5, abs=1e-5)


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
            damping=tuple(5e-3 * value for value in steel),
            linear_density_kg_per_m=0.02,
            rotary_inertia_kg_m=(1e-7, 1e-7, 2e-7),
        )
        rod = Rod(RodDescription(segments=(segment,), tendon_paths=(path(),)))
        moving = MovingRod(rod, method=method, tolerance=1e-10)
        moving.reset(np.zeros(rod.n))

        def pull(t, desired=moving.desired):
            desired[:] = 0.5 * math.sin(20 * t) ** 2

        motion = moving.follow(np.linspace(0, 0.5, 6), step_s, pull)
        assert motion.shortest_step_s == pytest.approx(step_s)
        tips.append([rod.poses(c, [LENGTH])[0, :3, 3] for c in motion.c])
    assert np.array(tips[0]) == pytest.approx(np.array(tips[1]), abs=1e-4)


def test_held_tendons_pull_and_never_push():
    tendons = [path(angle_rad=0.0), path(angle_rad=math.pi, name="u")]
    rod = rubber(Basis(kind="chebyshev", bending_order=2), tendons)
    rod.arrays.damping[:] = 0.05 * rod.arrays.stiffness
    moving = MovingRod(rod, springs=Springs(2e3))
    moving.reset(np.zeros(rod.n), spooled_m=[4e-3, -8e-3])
    moving.step(5.0, 1000)
    assert moving.tension_n[0] > 0
    assert moving.tension_n[1] == 0
    state = rod.equilibrium(stiffness=[2e3, 2e3], spooled=[4e-3, np.nan])
    assert moving.c == pytest.approx(state.c, abs=1e-5 * np.abs(state.c).max())


def test_numbers_may_change_between_two_steps():
    """A payload hung on the tip in motion: from then on it moves as a rod that had it from the beginning."""
    robot = load_robot("two_segment")
    moving, other = (MovingRod(Rod(robot)) for _ in range(2))
    body = -1
    for one in (moving, other):
        one.reset(np.zeros(one.rod.n))
        one.desired[:] = 1.0
    moving.desired[0] = other.desired[0] = 3.0
    other.rod.arrays.body[body, 0] += 0.02
    moving.step(0.1, 100)
    other.step(0.1, 100)
    assert np.abs(moving.c - other.c).max() > 1e-2
    other.reset(moving.c, moving.c_rate)
    moving.rod.arrays.body[body, 0] += 0.02
    moving.reset(moving.c.copy(), moving.c_rate.copy())
    moving.step(0.1, 100)
    other.step(0.1, 100)
    assert moving.c == pytest.approx(other.c, abs=1e-6)


# --- what it is made of


def library_or_skip() -> ct.CDLL:
    found = kernel.library()
    if found is None:
        pytest.skip("the kernel's library is not built")
    return found


def test_functions_without_libm_are_right():
    library, values = library_or_skip(), np.zeros(4)
    grid = np.concatenate([np.linspace(-690, 690, 4001), np.linspace(-3, 3, 4001), np.linspace(-1e6, 1e6, 4001)])
    for x in grid:
        library.rod_functions(ct.c_double(x), ct.c_void_p(values.ctypes.data))
        if abs(x) < 700:
            assert values[0] == pytest.approx(math.exp(x), rel=2e-15)
        assert values[1:] == pytest.approx([math.tanh(x), math.sin(x), math.cos(x)], rel=0, abs=4e-16)


@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_segment", "mixed_routing"])
def test_both_libraries_move_a_robot_to_the_same_bits(name, monkeypatch):
    ends = []
    for file in (kernel.NAME, kernel.WIDE):
        found = kernel.load(file)
        if found is None:
            pytest.skip(f"{file} is not built")
        monkeypatch.setattr(kernel, "library", lambda found=found: found)
        robot = load_robot(name)
        moving = motor_robot(robot)
        for k in range(100):
            phase = 2 * np.pi * np.arange(robot.tendon_count) / robot.tendon_count
            moving.desired[:] = robot.actuators.maximum_current_a * (0.1 + 0.05 * np.sin(0.02 * k + phase))
            moving.step(STEP_S)
        ends.append((moving.c.tobytes(), moving.momentum.tobytes(), moving.spooled_m.tobytes()))
    assert ends[0] == ends[1]


def motor_robot(robot) -> MovingRod:
    friction, settings = CapstanFriction(robot), robot.simulation
    motor = MotorModel.from_actuators(robot.actuators, robot.tendon_count, np.random.default_rng(1))
    springs = Springs(robot.tendon_stiffness_n_per_m, damping_ns_per_m=settings.tendon_damping_ns_per_m)
    rod = Rod(robot, stations_m=friction.stations_m.tolist())
    moving = MovingRod(rod, springs=springs, motor=motor, friction=friction)
    moving.reset(np.zeros(rod.n))
    return moving


def test_a_step_allocates_nothing():
    """By the C library's own count of what is in use."""
    try:
        mallinfo = ct.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("mallinfo2 is of glibc 2.33 and newer")

    class Info(ct.Structure):
        _fields_ = [(name, ct.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")] + [
            (name, ct.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")
        ]

    mallinfo.restype = Info
    moving = motor_robot(load_robot("two_segment"))
    moving.desired[:] = 0.1
    moving.step(0.01, 10)
    before = mallinfo().uordblks
    evaluations = moving.step(0.5, 500)
    assert evaluations > 1000
    assert mallinfo().uordblks - before < 1000  # Python's own numbers


def test_what_cannot_be_is_refused():
    rod = rubber(Basis(kind="chebyshev", bending_order=0), [path()])
    for options in ({"method": "euler"}, {"tolerance": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            MovingRod(rod, **options)
    moving = MovingRod(rod)
    moving.reset(np.zeros(rod.n))
    for times in ([0.0], [0.0, 0.0], [0.0, math.nan]):
        with pytest.raises(ParameterError, match="time_s"):
            moving.follow(times, 1e-3)
    with pytest.raises(ParameterError, match="step_s"):
        moving.follow([0, 0.01], 0.0)
    moving.force[:] = math.nan
    with pytest.raises(ConvergenceError, match="time step"):
        moving.follow([0, 0.01], 1e-3)
    assert (moving.c == 0).all()
