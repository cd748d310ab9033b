# SPDX-License-Identifier: Apache-2.0
"""The kernel against other formulations: integrated frames, differences of dual numbers, NumPy."""

import copy
import ctypes as ct
import dataclasses
import os
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rod_oracle import rod_poses, strain_at
from rod_robots import uneven
from scipy.integrate import quad, solve_ivp

from continuum_robot.errors import ParameterError
from continuum_robot.robot.basis import Basis, register
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.routing import HelicalRouting, RoutedPath
from continuum_robot.rod.accuracy import rod_accuracy
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.rod import NotConvergedError, Rod

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


def one_segment(**changes):
    """A robot made in Python, without a file, with these values of its segment."""
    segment = dataclasses.replace(uneven().segments[0], **changes)
    return Robot(name="one", segments=(segment,))


def with_backbone(**changes):
    return one_segment(backbone=dataclasses.replace(uneven().segments[0].backbone, **changes))


needs_library = pytest.mark.skipif(kernel.load(kernel.NAME) is None, reason="the kernel's library was not built")


def test_the_library_is_built_where_the_messages_are():
    assert kernel.load(kernel.NAME) is not None


@pytest.mark.parametrize("name", SHIPPED)
def test_poses_and_jacobians_are_those_of_the_integrated_rod(name):
    robot = load_robot(name)
    c, v, _ = state(robot)
    rod = Rod(robot, nodes=24)
    found, places = rod.terms(c, v), range(0, len(rod.arrays.bodies_m), 7)
    ends = [rod_poses(robot, c + step * v, rod.arrays.bodies_m[places]) for step in (0.0, 1e-5, -1e-5)]
    for k, pose, ahead, behind in zip(places, *ends, strict=True):
        close(found.rotation[k], pose[:3, :3], 1e-8)
        close(found.position[k], pose[:3, 3], 1e-8)
        moved = np.linalg.inv(pose) @ (ahead - behind) / 2e-5
        twist = [*moved[:3, 3], moved[2, 1], moved[0, 2], moved[1, 0]]
        close(found.jacobian[k] @ v, twist, 1e-6)


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
            ct.byref(rod.shape), ct.byref(numbers), ct.c_void_p(kernel.at(at_c)), ct.c_void_p(kernel.at(at_v)), None,
            ct.byref(out),
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
    rod = Rod(robot, paths=[path])
    c = state(robot)[0]

    def length(c):
        def rate(s):
            xi = strain_at(robot, c, s)
            x, y, x_rate, y_rate = (float(value[0]) for value in path.at(s))
            return np.linalg.norm(xi[3:] + np.cross(xi[:3], [x, y, 0.0]) + [x_rate, y_rate, 0.0])

        pieces = np.linspace(0.0, end_m, 1 + max(4, int(4 * turns)))
        return sum(quad(rate, low, high, epsabs=1e-15)[0] for low, high in pairwise(pieces))

    found = rod.lengths(c)
    assert found.length_m[0] == pytest.approx(length(c), rel=1e-11)
    for i in range(0, rod.n, 5):
        step = np.zeros(rod.n)
        step[i] = 1e-3 / reach(robot)[i]
        slope = (length(c + step) - length(c - step)) / (2 * step[i])
        assert found.gradient[0, i] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@needs_library
@pytest.mark.parametrize("name", ["opencr_five_tendon", "vanderbilt_two_segment", "mixed_routing"])
def test_each_build_and_each_lane_gives_the_same_bits(name):
    """Of 2, of 6 and of other numbers of coefficients on a piece."""
    robot = load_robot(name)
    rod = Rod(robot)
    c, v, _ = state(robot)
    cs, vs = (np.array(x) for x in zip(*(state(robot, seed)[:2] for seed in range(11)), strict=True))
    tension = np.full((11, 3, rod.tendon_count), 2.0)
    found = []
    for build in (kernel.NAME, kernel.WIDE):
        rod.library = kernel.load(build)
        if rod.library is None or (build == kernel.WIDE and not kernel._has_wide()):
            continue
        rod.library.rod_prepare(ct.byref(rod.shape))
        one = rod.terms(c, v)
        moved = [rod.motions(0.1 * cs, vs, tension, 1e-4, threads=threads) for threads in (1, 2)]
        found.append([*(getattr(one, field).tobytes() for field in MATRICES), *(x.tobytes() for x in moved[0])])
        assert [x.tobytes() for x in moved[1]] == [x.tobytes() for x in moved[0]]
    assert all(one == found[0] for one in found)


def test_numbers_are_arguments():
    robot = load_robot("two_segment")
    c, v, _ = state(robot)
    rod, heavy = Rod(robot), Rod(dataclasses.replace(robot, payload_kg=0.02))
    tip = int(np.argmax(rod.arrays.bodies_m))
    rod.arrays.body[tip, 0] += 0.02
    for name in ("momentum", "force", "mass", "force_by_c"):
        close(getattr(rod.terms(c, v), name), getattr(heavy.terms(c, v), name), 1e-14)


def test_a_payload_and_a_changed_description_count_in_the_next_call():
    robot = load_robot("vanderbilt_two_segment")
    c, v, _ = state(robot)
    rod, bare = Rod(robot), Rod(robot).terms(c, v)
    evaluate = rod.prepared()
    segments = tuple(
        dataclasses.replace(
            one, backbone=dataclasses.replace(one.backbone, youngs_modulus_pa=4e10), bending_damping_nms=0.1
        )
        for one in robot.segments
    )
    softer = robot.changed(payload_kg=0.3, gravity_m_per_s2=(0.0, 3.0, 9.0), segments=segments)
    rod.payload_kg = 0.3
    for name in MATRICES:
        close(getattr(evaluate(c, v), name), getattr(Rod(robot.changed(payload_kg=0.3)).terms(c, v), name), 1e-12)
    rod.update(softer)
    for name in MATRICES:
        close(getattr(evaluate(c, v), name), getattr(Rod(softer).terms(c, v), name), 1e-12)
    assert rod.arrays.stiffness.tobytes() == Rod(softer).arrays.stiffness.tobytes()
    assert rod.payload_kg == 0.3
    again = pickle.loads(pickle.dumps(rod))
    again.payload_kg = 0.0  # a copy has its own numbers
    assert rod.masses_kg[-1] == pytest.approx(again.masses_kg[-1] + 0.3, rel=1e-14)
    rod.update(robot)
    assert rod.terms(c, v).mass.tobytes() == bare.mass.tobytes()
    for wrong in (-1.0, np.nan, [0.1]):
        with pytest.raises(ParameterError, match="payload_kg"):
            rod.payload_kg = wrong
    longer = dataclasses.replace(robot.segments[0], length_m=2 * robot.segments[0].length_m)
    with pytest.raises(ParameterError, match="make a new Rod"):
        rod.update(robot.changed(segments=(longer, *robot.segments[1:])))


def test_a_tool_that_stands_out_weighs_at_its_centre_of_mass():
    robot = load_robot("vanderbilt_two_segment").changed(gravity_m_per_s2=(2.0, -3.0, 9.0), strings=())
    offset_m, mass_kg = (0.02, -0.03, 0.1), 0.4
    bare, tool = Rod(robot), Rod(robot.changed(payload_kg=mass_kg, payload_offset_m=offset_m))
    c, v, _ = state(robot)

    def lost(c):  # of the tool's potential energy
        pose = bare.poses(c, [robot.length_m])[0]
        return mass_kg * np.array(robot.gravity_m_per_s2) @ (pose[:3, 3] + pose[:3, :3] @ offset_m)

    still = np.zeros(bare.n)
    weight = tool.terms(c, still).force - bare.terms(c, still).force
    for i, step in enumerate(np.diag(1e-5 / bare.scale)):
        assert weight[i] == pytest.approx((lost(c + step) - lost(c - step)) / (2 * step[i]), rel=1e-4, abs=1e-7)
    hung = Rod(robot.changed(payload_offset_m=offset_m))
    hung.payload_kg = mass_kg
    for name in MATRICES:
        close(getattr(hung.terms(c, v), name), getattr(tool.terms(c, v), name), 1e-12)


def test_stiffnesses_that_are_stated_count():
    robot = with_backbone(shear_stiffness_n=11.0, axial_stiffness_n=13.0, torsional_stiffness_nm2=0.7)
    bent = robot.segments[0].backbone.section_stiffnesses
    assert bent[2:] == (0.7, 11.0, 11.0, 13.0)
    basis = Basis(kind="chebyshev", torsion_order=0, shear_order=0, extension_order=0)
    stiffness = Rod(with_basis(robot, basis)).arrays.stiffness
    np.testing.assert_allclose(np.diag(stiffness) / robot.length_m, bent[2:])


def test_robots_are_copied_and_pickled():
    robot = load_robot("two_segment")
    for other in (pickle.loads(pickle.dumps(robot)), copy.deepcopy(robot), copy.copy(robot)):
        assert other == robot
        assert other.file_name == robot.file_name
    rod = Rod(robot)
    other = copy.deepcopy(rod)
    other.masses_kg[:] = 0.0
    assert rod.masses_kg.sum() > 0


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
    assert again.library is None
    for name in MATRICES:
        close(getattr(again.terms(c, v, a), name), getattr(rod.terms(c, v, a), name), 1e-12)
    close(again.lengths(c).length_m, rod.lengths(c).length_m, 1e-14)


def test_without_a_library_one_line_says_so_once_and_numpy_serves():
    code = (
        "from continuum_robot import Rod, load_robot\n"
        "rods = [Rod(load_robot('two_segment')) for _ in range(2)]\n"
        "print(rods[1].terms([1, 2, 3, 4], [0, 0, 0, 0]).mass[0, 0])\n"
        "try:\n    rods[0].equilibria([[1.0] * 10])\nexcept ImportError as error:\n    print(error)\n"
    )
    environment = os.environ | {"CONTINUUM_ROBOT_KERNEL": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.splitlines() == [kernel.NOT_BUILT]
    mass, refused = done.stdout.splitlines()
    still = np.zeros(4)
    assert float(mass) == pytest.approx(Rod(load_robot("two_segment")).terms([1, 2, 3, 4], still).mass[0, 0], rel=1e-12)
    assert kernel.NOT_BUILT in refused
    assert "compiler" in refused


class Steps:
    """Functions that no polynomial follows, of a family that claims to be smooth."""

    def values(self, ratio, order):
        return [float(np.tanh(60 * (ratio - (k + 0.5) / (order + 1)))) for k in range(order + 1)]

    def breaks(self, _order):
        return []

    def degree(self, order):
        return order


def test_the_error_of_the_quadrature_is_estimated_and_falls_with_the_nodes():
    for name in SHIPPED:
        assert rod_accuracy(load_robot(name)).largest < 1e-6
    register("steps", Steps)
    basis = Basis(kind="steps", bending_order=3)
    rough = with_basis(load_robot("two_segment"), basis)
    found = rod_accuracy(rough)
    assert not found.good
    assert found.nodes == (9, 9)
    finer = rod_accuracy(with_basis(rough, dataclasses.replace(basis, nodes=60)))
    assert finer.nodes == (60, 60)
    assert finer.largest < found.largest / 30
    with pytest.raises(ParameterError, match="robot"):
        rod_accuracy(load_robot("rolling_five_link"))


def test_stations_have_poses_and_no_mass():
    robot = load_robot("vanderbilt_two_segment")
    c, v, _ = state(robot)
    plain, stations = Rod(robot, nodes=24), Rod(robot, nodes=24, stations_m=(0.0, 0.03, 0.101))
    close(stations.terms(c, v).mass, plain.terms(c, v).mass, 1e-12)
    for s_m in (0.03, 0.101):
        k = int(np.argmin(np.abs(stations.arrays.bodies_m - s_m)))
        assert stations.arrays.bodies_m[k] == pytest.approx(s_m, abs=1e-12)
        close(stations.terms(c, v).position[k], rod_poses(robot, c, [s_m])[0][:3, 3], 1e-7)


@pytest.mark.parametrize("name", ["vanderbilt_two_segment", "mixed_routing"])
def test_poses_anywhere_are_those_of_the_integrated_rod(name):
    robot = load_robot(name)
    c = state(robot)[0]
    places = np.linspace(0.0, robot.length_m, 23)
    expected = rod_poses(robot, c, places)
    np.testing.assert_allclose(Rod(robot, nodes=16).poses(c, places), expected, atol=1e-8)
    with pytest.raises(ParameterError, match="arc_lengths_m"):
        Rod(robot).poses(c, [robot.length_m + 1e-3])


def test_what_is_prepared_gives_the_same_and_keeps_one_result():
    robot = load_robot("two_segment")
    c, v, _ = state(robot)
    rod = Rod(robot)
    evaluate = rod.prepared()
    found, expected = evaluate(c, v), rod.terms(c, v)
    for name in MATRICES:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    del rod
    again = evaluate(2 * c, v)
    assert kernel.library() is None or again is found
    assert not np.array_equal(again.mass, expected.mass)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: Rod(load_robot("two_segment"), nodes=5), "nodes"),
        (lambda: Rod(load_robot("two_segment"), stations_m=(9.0,)), "stations_m"),
        (lambda: Rod(load_robot("rolling_five_link")), "robot"),
        (lambda: Rod(with_backbone(youngs_modulus_pa=np.nan)), r"segments\[0\].backbone.youngs_modulus_pa"),
        (lambda: Rod(with_backbone(density_kg_per_m3="heavy")), r"segments\[0\].backbone.density_kg_per_m3"),
        (lambda: Rod(one_segment(backbone={"outer_diameter_m": 1e-3})), r"segments\[0\].backbone .*expected Backbone"),
        (lambda: Rod(one_segment(length_m=0.0)), r"segments\[0\].length_m"),
        (lambda: Rod(load_robot("two_segment")).terms([0.0, np.nan, 0.0, 0.0], np.zeros(4)), "c"),
        (lambda: Rod(load_robot("two_segment")).terms(np.zeros(4), np.zeros(3)), "v"),
    ],
)
def test_bad_arguments_are_refused_by_name(make, key):
    with pytest.raises(ParameterError, match=key):
        make()


# --- statics, motion, gradients


def pulled(robot, seed=0):
    """Tensions that bend the rod by a few tenths of a radian."""
    largest = 40.0 if "vanderbilt" in robot.name else 4.0
    return np.random.default_rng(seed).uniform(0.2 * largest, largest, robot.tendon_count)


@needs_library
@pytest.mark.parametrize("name", ["opencr_five_tendon", "two_segment", "vanderbilt_two_segment", "mixed_routing"])
def test_at_an_equilibrium_stiffness_weight_and_tendons_balance(name):
    robot = load_robot(name)
    rod, tension = Rod(robot), pulled(load_robot(name))
    found = rod.equilibrium(tension)
    assert found.stable
    still = rod.terms(found.c, np.zeros(rod.n))
    tendons = tension @ rod.lengths(found.c).gradient
    left = still.force - rod.arrays.stiffness @ found.c - tendons
    np.testing.assert_allclose(left, 0.0, atol=1e-9 * np.abs(tendons).max())
    step = 1e-5 / rod.scale
    slopes = []
    for i in range(rod.n):
        ends = []
        for sign in (1, -1):
            c = found.c.copy()
            c[i] += sign * step[i]
            ends.append(
                rod.terms(c, np.zeros(rod.n)).force - rod.arrays.stiffness @ c - tension @ rod.lengths(c).gradient
            )
        slopes.append((ends[1] - ends[0]) / (2 * step[i]))
    close(found.hessian, np.array(slopes).T, 1e-5)


@needs_library
@pytest.mark.parametrize("name", ["two_segment", "mixed_routing"])
def test_equilibria_of_many_are_those_of_each_for_any_number_of_threads(name):
    robot = load_robot(name)
    rod, rng = Rod(robot), np.random.default_rng(1)
    tension = pulled(robot) * rng.uniform(0.3, 1.3, (21, 1))
    one, three = (rod.equilibria(tension, threads=threads) for threads in (1, 3))
    for field in ("c", "hessian", "iterations"):
        assert getattr(one, field).tobytes() == getattr(three, field).tobytes()
    assert one.converged.all()
    assert one.stable.all()
    body = np.tile(rod.arrays.body, (21, 1, 1))
    payloads = np.linspace(0.0, 4e-3, 21)
    body[:, -1, 0] += payloads
    stiffness = rod.arrays.stiffness * np.linspace(0.8, 1.2, 21)[:, None, None]
    own = rod.equilibria(tension, start=one.c, numbers={"body": body, "stiffness": stiffness})
    for k in (0, 7, 20):
        close(one.c[k], rod.equilibrium(tension[k]).c, 1e-8)
        rod.payload_kg = payloads[k]
        kept, rod.arrays.stiffness[:] = rod.arrays.stiffness.copy(), stiffness[k]
        found = rod.equilibrium(tension[k])
        close(own.c[k], found.c, 1e-8)
        close(own.hessian[k], found.hessian, 1e-7)
        rod.arrays.stiffness[:], rod.payload_kg = kept, 0.0


@needs_library
def test_springs_of_many_have_the_lengths_of_their_own_routing():
    robot = load_robot("two_segment")
    segments = tuple(
        dataclasses.replace(one, tendons=dataclasses.replace(one.tendons, pitch_radius_m=4e-3))
        for one in robot.segments
    )
    other = Rod(robot.changed(segments=segments))
    rod, spooled = Rod(robot), np.zeros(10)
    other.arrays.path_rest[:, 5] = 1.02  # and its rod is longer
    spooled[0] = 2e-3
    found = rod.equilibria(np.zeros((2, 10)), stiffness=2e4, spooled=spooled, numbers=[rod.arrays, other.arrays])
    for c, one in zip(found.c, (rod, other), strict=True):
        one.rest_m[:] = one.lengths(np.zeros(4)).length_m
        close(c, one.equilibrium(np.zeros(10), stiffness=2e4, spooled=spooled).c, 1e-7)


@needs_library
def test_equilibria_that_are_not_found_are_nan_and_hide_no_other():
    rod = Rod(load_robot("opencr_five_tendon"))
    tension = np.zeros((9, 5))
    tension[3, 0] = 1e9
    found = rod.equilibria(tension)
    assert found.converged.tolist() == [k != 3 for k in range(9)]
    assert np.isnan(found.c[3]).all()
    assert not found.stable[3]
    close(found.c[8], rod.equilibrium(np.zeros(5)).c, 1e-9)
    fractions = []
    rod.equilibria(np.zeros((100, 5)), progress=fractions.append)
    assert fractions[-1] == 1.0
    for wrong, key in (({"tension": np.zeros(5)}, "tension"), ({"tension": np.full((2, 5), np.nan)}, "tension"),
                       ({"tension": tension, "start": np.zeros(3)}, "start"),
                       ({"tension": tension, "numbers": {"weight": 0.0}}, "numbers"),
                       ({"tension": tension, "numbers": {"gravity": [np.nan, 0, 0]}}, "numbers.gravity"),
                       ({"tension": tension, "numbers": [rod.arrays]}, "numbers")):  # fmt: skip
        with pytest.raises(ParameterError, match=key):
            rod.equilibria(**wrong)


@needs_library
def test_springs_pull_as_far_as_they_are_stretched_and_never_push():
    robot = load_robot("two_segment")
    rod = Rod(robot)
    spooled, stiffness = np.zeros(10), 2e4
    spooled[[0, 6]] = 2e-3, -5e-3
    found = rod.equilibrium(np.zeros(10), stiffness=stiffness, spooled=spooled)
    stretch_m = rod.lengths(found.c).length_m - rod.rest_m + spooled
    tension = stiffness * np.maximum(stretch_m, 0.0)
    assert tension[0] > 0
    assert tension[6] == 0
    again = rod.equilibrium(tension, found.c)
    np.testing.assert_allclose(again.c, found.c, atol=1e-8)


@needs_library
@pytest.mark.parametrize(("method", "step_s", "relative"), [("sdirk", 2e-4, 3e-3), ("midpoint", 2e-4, 3e-3)])
def test_motions_are_those_of_an_ordinary_differential_equation(method, step_s, relative):
    """Oracle: scipy's Radau on c'' of the NumPy form."""
    robot = load_robot("opencr_five_tendon")
    rod, tension = Rod(robot), np.array([3.0, 0.5, 0.5, 1.0, 2.0])

    def rates(_t, y):
        c, v = y[: rod.n], y[rod.n :]
        terms = rod.terms(c, v)
        force = -terms.bias - rod.arrays.stiffness @ c - rod.arrays.damping @ v - tension @ rod.lengths(c).gradient
        return np.concatenate([v, np.linalg.solve(terms.mass, force)])

    steps = 300
    exact = solve_ivp(rates, (0, steps * step_s), np.zeros(2 * rod.n), method="Radau", rtol=1e-9, atol=1e-12).y[:, -1]
    c, v = rod.motions(np.zeros((1, 2)), np.zeros((1, 2)), np.tile(tension, (1, steps, 1)), step_s, method=method)
    close(c[0], exact[: rod.n], relative)
    close(v[0], exact[rod.n :], 10 * relative)


@needs_library
def test_midpoint_keeps_energy_and_sdirk_loses_a_little():
    robot = load_robot("two_segment")
    rod = Rod(robot)
    rod.arrays.damping[:] = 0.0
    rod.arrays.gravity[:] = 0.0
    start = rod.equilibrium(pulled(robot)).c

    def energy(c, v):
        return v @ rod.terms(c, v).momentum / 2 + c @ rod.arrays.stiffness @ c / 2

    before = energy(start, np.zeros(4))
    after = {}
    for method in ("midpoint", "sdirk"):
        c, v = rod.motions(start[None], np.zeros((1, 4)), np.zeros((1, 100, 10)), 1e-2, method=method)
        after[method] = energy(c[0], v[0])
    assert after["midpoint"] == pytest.approx(before, rel=0.1)
    assert 0.9 * before < after["sdirk"] < 0.999 * before


@needs_library
def test_robots_move_alike_for_any_number_of_threads_and_each_with_its_own_numbers():
    robot = load_robot("two_segment")
    rod, rng = Rod(robot), np.random.default_rng(0)
    tension = np.tile(pulled(robot), (11, 20, 1)) * rng.uniform(0.5, 1.5, (11, 20, 1))
    still = np.zeros((11, 4))
    one, three = (rod.motions(still, still, tension, 1e-3, threads=threads) for threads in (1, 3))
    assert one[0].tobytes() == three[0].tobytes()
    assert one[1].tobytes() == three[1].tobytes()
    heavier = []
    for k in range(11):
        other = Rod(dataclasses.replace(robot, payload_kg=2e-3 * k))
        heavier.append(other)
    own = rod.motions(still, still, tension, 1e-3, numbers=[other.arrays for other in heavier], tolerance=1e-10)
    for k in (0, 7, 10):
        alone = heavier[k].motions(still[:1], still[:1], tension[k : k + 1], 1e-3, tolerance=1e-10)
        np.testing.assert_allclose(own[0][k], alone[0][0], atol=1e-7)
    assert np.abs(own[0][10] - one[0][10]).max() > 1e-3


@needs_library
@pytest.mark.parametrize("method", ["sdirk", "midpoint"])
def test_the_gradient_of_an_end_is_that_of_differences(method):
    robot = load_robot("two_segment")
    rod, rng = Rod(robot), np.random.default_rng(0)
    tension, start = np.tile(pulled(robot), (40, 1)) * rng.uniform(0.5, 1.5, (40, 1)), rng.normal(size=4)
    by_c, by_p = rng.normal(size=4), 100 * rng.normal(size=4)

    def end(c, tension):
        c, v = rod.motions(c[None], np.zeros((1, 4)), tension[None], 1e-3, method=method, tolerance=1e-12)
        return by_c @ c[0] + by_p @ rod.terms(c[0], v[0]).momentum

    zero = np.zeros_like(rod.arrays.stiffness)
    masses = rod.arrays.body * np.r_[np.ones(10), np.zeros(15)]
    directions = [(masses, zero, zero), (0 * masses, rod.arrays.stiffness, rod.arrays.damping)]
    found = rod.gradient_of_end(start, np.zeros(4), tension, 1e-3, by_c, by_p, method=method, directions=directions)
    for k, j in ((0, 0), (20, 6), (39, 9)):
        steps = np.zeros_like(tension)
        steps[k, j] = 1e-3
        slope = (end(start, tension + steps) - end(start, tension - steps)) / 2e-3
        assert found.by_tension[k, j] == pytest.approx(slope, rel=1e-3, abs=1e-7)
    kept = {name: getattr(rod.arrays, name).copy() for name in ("body", "stiffness", "damping")}
    for along, change in zip(found.along, directions, strict=True):
        ends = []
        for sign in (1, -1):
            for name, one in zip(kept, change, strict=True):
                getattr(rod.arrays, name)[:] = kept[name] + sign * 1e-4 * one
            ends.append(end(start, tension))
        for name, values in kept.items():
            getattr(rod.arrays, name)[:] = values
        assert along == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3)


@needs_library
def test_what_does_not_converge_is_said():
    robot = load_robot("opencr_five_tendon")
    rod = Rod(robot)
    with pytest.raises(NotConvergedError, match="1 of 1 motions"):
        rod.motions(np.zeros((1, 2)), np.zeros((1, 2)), np.full((1, 3, 5), 1e9) * [1, 0, 0, 0, 0], 0.1)
    with pytest.raises(ParameterError, match="tension"):
        rod.motions(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 3, 4)), 1e-3)


@needs_library
def test_ctrl_c_ends_motions_between_robots():
    robot = load_robot("mixed_routing")
    rod, seen = Rod(robot), []

    def stop(fraction):
        seen.append(fraction)
        raise KeyboardInterrupt

    still = np.zeros((4000, rod.n))
    with pytest.raises(KeyboardInterrupt):
        rod.motions(still, still, np.zeros((4000, 50, robot.tendon_count)), 1e-3, threads=1, progress=stop)
    assert 0 <= seen[0] < 1
