# SPDX-License-Identifier: Apache-2.0
"""The kernel against other formulations: CasADi's Lagrangian, the Magnus chain, differences of dual numbers, NumPy."""

import ctypes as C
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rod_robots import uneven
from scipy.integrate import quad

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, RoutedPath
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.strain.rod import StrainRod

SHIPPED = ("opencr_five_tendon", "two_segment", "vanderbilt_two_segment", "mixed_routing", "rucker_helical", "ftdcr_v4")
FAMILIES = ("chebyshev", "legendre", "b_spline", "piecewise_constant")
MATRICES = ("momentum", "force", "bias", "mass", "momentum_by_c", "force_by_c", "rotation", "position", "jacobian")


def reach(robot):
    """By which a coefficient turns or stretches its whole segment."""
    return np.concatenate(
        [np.where(np.array(segment.basis.rows) < 3, segment.length_m, 1.0) for segment in robot.segments]
    )


def state(robot, seed=0):
    rng = np.random.default_rng(seed)
    turns = np.concatenate([np.where(np.array(s.basis.rows) < 3, 1.0, 0.05) for s in robot.segments])
    return tuple(size * turns * rng.normal(size=turns.size) / reach(robot) for size in (0.4, 2.0, 5.0))


def loaded(rod, seed=1):
    """Every body carries a load of each kind."""
    rod.arrays.body[:, 10:] = 0.05 * np.random.default_rng(seed).normal(size=(len(rod.arrays.body), 15))
    return rod


def close(found, expected, relative):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * scale + 1e-300)


def with_basis(robot, basis):
    return robot.changed(
        segments=tuple(dataclasses.replace(segment, basis=basis) for segment in robot.segments),
        control=None, reference=None, strings=(),
    )  # fmt: skip


needs_library = pytest.mark.skipif(kernel.load(kernel.NAME) is None, reason="the kernel's library was not built")


def test_the_library_is_built_where_the_messages_are():
    assert kernel.load(kernel.NAME) is not None


@pytest.mark.parametrize("name", ("opencr_five_tendon", "two_segment", "vanderbilt_two_segment"))
@pytest.mark.parametrize(("nodes", "relative"), [(24, 1e-10), (None, 1e-6)])
def test_terms_are_those_of_the_symbolic_lagrangian(name, nodes, relative):
    robot = load_robot(name)
    c, v, a = state(robot)
    model = RodModel(robot, rotational_energy=True, tendon_inertia=True, actuator_inertia=False, quadrature_nodes=24)
    sliding = model.axial_mass  # of the tendons along their paths: constant, no term of the rod
    found = Rod(robot, nodes=nodes).terms(c, v, a)
    mass = np.array(model.mass_matrix(c)) - sliding
    close(found.mass, mass, relative)
    close(found.momentum, np.ravel(model.momentum(c, v)) - sliding @ v, relative)
    close(found.force, np.ravel(model.lagrangian_gradient(c, v)) + model.stiffness @ c, relative)
    close(found.bias, np.ravel(model.inertial_dynamics(c, v, a)) - sliding @ a, relative)


@pytest.mark.parametrize("name", SHIPPED)
def test_poses_jacobians_and_masses_are_those_of_the_magnus_chain(name):
    robot = load_robot(name)
    c, v, _ = state(robot)
    chain, rod = StrainRod.from_robot(robot, magnus_steps=60), Rod(robot, nodes=24)
    found = rod.terms(c, v)
    close(found.mass, chain.mass_matrix(c), 1e-7)
    for k in range(0, len(rod.arrays.bodies_m), 7):
        pose = chain.poses(c, [rod.arrays.bodies_m[k]])[0]
        close(found.rotation[k], pose[:3, :3], 1e-9)
        close(found.position[k], pose[:3, 3], 1e-9)
        close(found.jacobian[k], chain.body_jacobian(c, rod.arrays.bodies_m[k]), 1e-8)


@needs_library
@pytest.mark.parametrize("robot", [*map(load_robot, SHIPPED), uneven()], ids=lambda robot: robot.name)
def test_the_library_computes_what_numpy_does(robot):
    rod = loaded(Rod(robot))
    c, v, a = state(robot)
    found, expected = rod.terms(c, v, a), reference.terms(rod.arrays, c, v, a)
    for name in MATRICES:
        close(getattr(found, name), getattr(expected, name), 1e-13)
    lengths, (length_m, gradient) = rod.lengths(c), reference.lengths(rod.arrays, c, rod.tendon_count)
    close(lengths.length_m, length_m, 1e-14)
    close(lengths.gradient, gradient, 1e-13)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(FAMILIES),
    st.integers(0, 5),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
    st.integers(0, 1000),
)
def test_derivatives_of_any_basis_are_those_of_dual_numbers(family, bending, torsion, shear, extension, seed):
    """dp/dc and dF/dc are analytic; with dual numbers each operation is differentiated by itself."""
    basis = Basis(
        kind=family, bending_order=bending, torsion_order=torsion, shear_order=shear, extension_order=extension
    )
    robot = with_basis(load_robot("two_segment"), basis)
    rod = loaded(Rod(robot, nodes=24))
    c, v, _ = state(robot, seed)
    found = rod.terms(c, v)
    momentum_by_c, force_by_c = slopes(rod, c, v)
    close(found.momentum_by_c, momentum_by_c, 1e-8)
    close(found.force_by_c, force_by_c, 1e-8)
    close(found.mass @ v, found.momentum, 1e-12)
    close(found.mass, found.mass.T, 1e-13)


def slopes(rod, c, v):
    """Derivatives of momentum and force by c with dual numbers in the library, or differences in NumPy."""
    n, arrays, library = rod.n, rod.arrays, kernel.library()
    momentum_by_c, force_by_c = np.empty((n, n)), np.empty((n, n))
    if library is None:
        for i, step in enumerate(1e-5 * np.eye(n)):
            high, low = (reference.terms(arrays, c + sign * step, v) for sign in (1, -1))
            momentum_by_c[:, i] = (high.momentum - low.momentum) / 2e-5
            force_by_c[:, i] = (high.force - low.force) / 2e-5
        return momentum_by_c, force_by_c

    def dual(values):
        return np.ascontiguousarray(np.stack([values, np.zeros_like(values)], axis=-1))

    held = [dual(x) for x in (arrays.gravity, arrays.body, arrays.rest)]
    numbers = kernel.Numbers()
    numbers.gravity, numbers.body, numbers.rest = (kernel.at(x) for x in held)
    at_c, at_v, momentum, force = dual(c), dual(v), np.empty((n, 2)), np.empty((n, 2))
    out = kernel.Terms(kernel.at(momentum), kernel.at(force))
    for i in range(n):
        at_c[:, 1] = 0.0
        at_c[i, 1] = 1.0
        library.rod_terms_along(
            C.byref(rod._shape), C.byref(numbers), C.c_void_p(kernel.at(at_c)), C.c_void_p(kernel.at(at_v)), None,
            C.byref(out),
        )  # fmt: skip
        momentum_by_c[:, i], force_by_c[:, i] = momentum[:, 1], force[:, 1]
    return momentum_by_c, force_by_c


@pytest.mark.parametrize("turns", [0.0, 1.0, 6.0, 30.0])
def test_lengths_of_a_helix_are_integrals_whatever_its_turns(turns):
    robot = load_robot("rucker_helical")
    end_m = sum(segment.length_m for segment in robot.segments)
    path = RoutedPath(
        name="helix", start_m=0.0, end_m=end_m, pitch_radius_m=0.008, angle_rad=0.3, routing=HelicalRouting(turns=turns)
    )
    rod, chain = Rod(robot, paths=[path]), StrainRod.from_robot(robot)
    c = state(robot)[0]

    def length(c):
        def rate(s):
            xi = chain.strain(c, [s])[0]
            x, y, x_rate, y_rate = (float(value[0]) for value in path.at(s))
            return np.linalg.norm(xi[3:] + np.cross(xi[:3], [x, y, 0.0]) + [x_rate, y_rate, 0.0])

        pieces = np.linspace(0.0, end_m, 1 + max(4, int(4 * turns)))
        return sum(quad(rate, low, high, epsabs=1e-15)[0] for low, high in zip(pieces, pieces[1:], strict=False))

    found = rod.lengths(c)
    assert found.length_m[0] == pytest.approx(length(c), rel=1e-11)
    for i in range(0, rod.n, 5):
        step = np.zeros(rod.n)
        step[i] = 1e-3 / reach(robot)[i]
        slope = (length(c + step) - length(c - step)) / (2 * step[i])
        assert found.gradient[0, i] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@needs_library
def test_each_build_and_each_lane_gives_the_same_bits():
    robot = load_robot("mixed_routing")
    rod = Rod(robot)
    c, v, _ = state(robot)
    states = [state(robot, seed)[:2] for seed in range(11)]
    cs, vs = (np.array(x) for x in zip(*states, strict=True))
    for name in (kernel.NAME, kernel.WIDE):
        library = kernel.load(name)
        if library is None or (name == kernel.WIDE and not kernel._has_wide()):
            continue
        library.rod_prepare(C.byref(rod._shape))
        rod._library = kernel.load(kernel.NAME)
        expected = [rod.terms(*pair) for pair in states]
        rod._library = library
        one = rod.terms(c, v)
        for field in MATRICES:
            assert getattr(one, field).tobytes() == getattr(expected[0], field).tobytes()
        momentum, force, mass = np.empty((11, rod.n)), np.empty((11, rod.n)), np.empty((11, rod.n, rod.n))
        library.rod_terms_of_many(
            C.byref(rod._shape), C.byref(rod._numbers), 11,
            *(C.c_void_p(kernel.at(x)) for x in (cs, vs, momentum, force, mass)),
        )  # fmt: skip
        for k in range(11):
            assert momentum[k].tobytes() == expected[k].momentum.tobytes()
            assert force[k].tobytes() == expected[k].force.tobytes()
            assert mass[k].tobytes() == expected[k].mass.tobytes()


def test_numbers_are_arguments():
    robot = load_robot("two_segment")
    c, v, _ = state(robot)
    rod, heavy = Rod(robot), Rod(dataclasses.replace(robot, payload_kg=0.02))
    tip = int(np.argmax(rod.arrays.bodies_m))
    rod.arrays.body[tip, 0] += 0.02
    for name in ("momentum", "force", "mass", "force_by_c"):
        close(getattr(rod.terms(c, v), name), getattr(heavy.terms(c, v), name), 1e-14)


def test_two_spellings_of_one_basis_are_one_rod():
    robot = load_robot("two_segment")
    c, v, a = state(robot)
    spelled = with_basis(robot, Basis(kind="chebyshev", bending_order=0))
    one, other = Rod(robot).terms(c, v, a), Rod(spelled).terms(c, v, a)
    for name in MATRICES:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_a_rod_is_pickled_and_goes_on_without_a_library(monkeypatch):
    robot = load_robot("two_segment")
    c, v, a = state(robot)
    rod = loaded(Rod(robot))
    monkeypatch.setattr(kernel, "library", lambda: None)
    again = pickle.loads(pickle.dumps(rod))
    assert again._library is None
    for name in MATRICES:
        close(getattr(again.terms(c, v, a), name), getattr(rod.terms(c, v, a), name), 1e-12)
    close(again.lengths(c).length_m, rod.lengths(c).length_m, 1e-14)


def test_stations_have_poses_and_no_mass():
    robot = load_robot("vanderbilt_two_segment")
    c, v, _ = state(robot)
    plain, stations = Rod(robot, nodes=24), Rod(robot, nodes=24, stations_m=(0.0, 0.03, 0.101))
    close(stations.terms(c, v).mass, plain.terms(c, v).mass, 1e-12)
    chain = StrainRod.from_robot(robot, magnus_steps=60)
    for s_m in (0.03, 0.101):
        k = int(np.argmin(np.abs(stations.arrays.bodies_m - s_m)))
        assert stations.arrays.bodies_m[k] == pytest.approx(s_m, abs=1e-12)
        close(stations.terms(c, v).position[k], chain.poses(c, [s_m])[0][:3, 3], 1e-7)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: Rod(load_robot("two_segment"), nodes=5), "nodes"),
        (lambda: Rod(load_robot("two_segment"), stations_m=(9.0,)), "stations_m"),
        (lambda: Rod(load_robot("rolling_five_link")), "robot"),
        (lambda: Rod(load_robot("two_segment")).terms([0.0, np.nan, 0.0, 0.0], np.zeros(4)), "c"),
        (lambda: Rod(load_robot("two_segment")).terms(np.zeros(4), np.zeros(3)), "v"),
    ],
)
def test_bad_arguments_are_refused_by_name(make, key):
    with pytest.raises(ParameterError, match=key):
        make()
