# SPDX-License-Identifier: Apache-2.0
"""Rods that taper and that are bent without load, against the Cosserat rod's differential equations and known cases."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import root

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Backbone, Disks, TaperPoint
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.robot.segments.tendons import Tendons
from continuum_robot.rod import Rod
from continuum_robot.rod.accuracy import rod_accuracy
from continuum_robot.rod.kernel import library as kernel
from continuum_robot.rod.kernel import reference
from continuum_robot.rod.statics import Stops

TAPER = (
    TaperPoint(at=0.0),
    TaperPoint(at=0.4, diameter=0.8, stiffness=1.2),
    TaperPoint(at=1.0, diameter=0.6, mass=1.5),
)
PRECURVED = (0.0, 6.0, 2.0)
needs_library = pytest.mark.skipif(kernel.load(kernel.NAME) is None, reason="the kernel's library was not built")


def soft(basis, gravity=(0.0, 0.0, 0.0), **backbone):
    segment = Segment(
        name="finger",
        length_m=0.2,
        backbone=Backbone(
            youngs_modulus_pa=2e6, poisson_ratio=0.4, density_kg_per_m3=1100, outer_diameter_m=0.02, **backbone
        ),
        disks=Disks(count=0, radius_m=0.012),
        tendons=Tendons(count=3, pitch_radius_m=0.009),
        basis=basis,
    )
    return Robot(name="finger", segments=(segment,), gravity_m_per_s2=gravity)


def hat(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def cosserat_tip(robot, tip_force, tension):
    """Tip of the Cosserat rod by shooting with its differential equations: rucker (5), parallel tendons by (16)."""
    (segment,) = robot.segments
    backbone, length = segment.backbone, segment.length_m
    gravity, rest = np.array(robot.gravity_m_per_s2), np.array(backbone.rest_strain)
    angles, radius = segment.tendons.angles_rad, segment.tendons.pitch_radius_m
    offsets = radius * np.column_stack([np.cos(angles), np.sin(angles), 0 * angles])

    def rates(s, y):  # n, m: of rod and tendons together
        R, n = y[3:12].reshape(3, 3), y[12:15]
        factors = backbone.factors(s / length)
        compliance = 1 / (factors.stiffness * backbone.section_stiffnesses)
        own, strain = np.concatenate([R.T @ y[15:18], R.T @ n]), rest
        for _ in range(30):
            pull = np.zeros(6)
            for tau, r in zip(tension, offsets, strict=True):
                t = strain[3:] + np.cross(strain[:3], r)
                t = tau * t / np.linalg.norm(t)
                pull += np.concatenate([np.cross(r, t), t])
            before, strain = strain, rest + compliance * (own - pull)  # what the tendons do not carry
            if np.abs(strain - before).max() < 1e-12:
                break
        along = R @ strain[3:]
        weight = factors.mass * backbone.linear_density_kg_per_m * gravity
        return np.concatenate([along, (R @ hat(strain[:3])).ravel(), -weight, -np.cross(along, n)])

    def end(wrench):
        y, h = np.concatenate([np.zeros(3), np.eye(3).ravel(), wrench]), length / STEPS
        for s in h * np.arange(STEPS):
            k1 = rates(s, y)
            k2 = rates(s + h / 2, y + h / 2 * k1)
            k3 = rates(s + h / 2, y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(s + h, y + h * k3))
        return y

    def missed(wrench):  # a tendon's end pulls at the tip what it carries: the outer force alone is left
        return end(wrench)[12:18] - np.concatenate([tip_force, np.zeros(3)])

    found = root(missed, np.concatenate([tip_force, np.zeros(3)]), tol=1e-10)
    assert np.abs(found.fun).max() < 1e-9
    return end(found.x)[:3]


STEPS = 50
FULL = Basis(kind="chebyshev", bending_order=9, torsion_order=7, shear_order=7, extension_order=7)


@needs_library
@pytest.mark.parametrize(
    "more",
    [{"taper": TAPER}, {"rest_curvature_per_m": (3.0, -5.0, 4.0)}, {"taper": TAPER, "rest_curvature_per_m": PRECURVED}],
    ids=["taper", "precurved", "both"],
)
@pytest.mark.parametrize("tension", [(0.0, 0.0, 0.0), pytest.param((1.5, 0.3, 0.0), marks=pytest.mark.long)])
def test_statics_are_those_of_the_cosserat_rod(more, tension):
    robot = soft(FULL, gravity=(1.0, 2.0, -9.0), **more)
    force = np.array([0.02, -0.03, 0.01])
    rod = Rod(robot)
    rod.arrays.body[-1, 13:16] = force
    tip = rod.poses(rod.equilibrium(tension).c, robot.length_m)[0, :3, 3]
    np.testing.assert_allclose(tip, cosserat_tip(robot, force, tension), atol=2e-6)


def test_a_cone_swings_as_kirchhoff_found():
    """Kirchhoff 1879: a cone clamped at its base has 8.719 sqrt(E I / rho A) / L^2; Naguleswaran 1992 has the same."""
    taper = (TaperPoint(at=0.0), TaperPoint(at=1.0, diameter=1e-4))
    basis = Basis(kind="legendre", bending_order=10)
    robot = soft(basis, taper=taper)
    segment = dataclasses.replace(robot.segments[0], length_m=3.0)  # slender, so that rotary inertia is small
    backbone = segment.backbone
    rod = Rod(robot.changed(segments=(segment,)), nodes=24)
    still = np.zeros(rod.n)
    mass = rod.terms(still, still).mass
    one = [k for k in range(rod.n) if rod.arrays.rows[k] == 0]
    square = eigh(rod.arrays.stiffness[np.ix_(one, one)], mass[np.ix_(one, one)], eigvals_only=True)[0]
    unit = np.sqrt(backbone.bending_stiffness_nm2 / backbone.linear_density_kg_per_m) / segment.length_m**2
    assert np.sqrt(square) / unit == pytest.approx(8.719, rel=2e-3)


def test_a_tapers_mass_is_that_of_its_body():
    robot = soft(Basis(), taper=TAPER)
    rod = Rod(robot)
    assert rod.masses_kg.sum() == pytest.approx(robot.segments[0].backbone.mass_kg(0.2), rel=1e-12)
    assert [piece.low for piece in rod.arrays.pieces] == [0.0, 0.4]
    assert rod_accuracy(robot).good


def test_a_precurved_rod_is_a_helix_without_load():
    bend, twist = 6.0, 4.0
    robot = soft(Basis(), rest_curvature_per_m=(0.0, bend, twist))
    assert robot.traits.nonlinear_lengths == "rest torsion of finger"
    total = np.hypot(bend, twist)
    s = np.linspace(0.0, 0.2, 9)
    axis = np.array([0.0, bend, twist]) / total
    expected = [
        np.outer(axis, axis) @ [0, 0, at]
        + np.sin(total * at) / total * (np.eye(3) - np.outer(axis, axis)) @ [0, 0, 1]
        + (1 - np.cos(total * at)) / total * np.cross(axis, [0, 0, 1])
        for at in s
    ]
    for rod in (Rod(robot), Rod(robot, nodes=12)):
        np.testing.assert_allclose(rod.poses(np.zeros(2), s)[:, :3, 3], expected, atol=1e-12)


@needs_library
def test_the_library_computes_what_numpy_does():
    basis = Basis(kind="b_spline", bending_order=4, torsion_order=1, shear_order=0, extension_order=2)
    rod = Rod(soft(basis, gravity=(1.0, 2.0, 9.0), taper=TAPER, rest_curvature_per_m=(3.0, 1.0, -2.0)))
    rng = np.random.default_rng(3)
    c, v, a = rng.normal(size=(3, rod.n)) / rod.scale * np.where(rod.arrays.rows < 3, 0.4, 0.02)
    found, expected = rod.terms(c, v, a), reference.terms(rod.arrays, c, v, a)
    for name in ("momentum", "force", "bias", "mass", "momentum_by_c", "force_by_c"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())
    lengths, (length_m, gradient) = rod.lengths(c), reference.lengths(rod.arrays, c, rod.tendon_count)
    np.testing.assert_allclose(lengths.length_m, length_m, rtol=1e-13)
    np.testing.assert_allclose(lengths.gradient, gradient, atol=1e-13 * np.abs(gradient).max())


@needs_library
@pytest.mark.parametrize("name", ["two_segment", "rucker_helical", "ftdcr_v4"])
def test_statics_in_numpy_are_those_of_the_library(name, monkeypatch):
    robot = load_robot(name)
    rod, count = Rod(robot), robot.tendon_count
    tension = np.random.default_rng(0).uniform(0.2, 2.0, count)
    springs = {"stiffness": 2e4, "spooled": np.where(np.arange(count) % 3 == 0, 1e-3, -1e-3)}
    stops = Stops(stiffness=np.full(count, 5e3), anchor_m=np.zeros(count), limit_n=np.full(count, 0.3))
    cases = ({"tension": tension}, springs, {"tension": tension, "stops": stops})
    expected = [rod.equilibrium(**case) for case in cases]
    monkeypatch.setattr(kernel, "library", lambda: None)
    plain = Rod(robot)
    for case, one in zip(cases, expected, strict=True):
        found = plain.equilibrium(**case)
        np.testing.assert_allclose(found.c * rod.scale, one.c * rod.scale, atol=1e-7)
        np.testing.assert_allclose(found.tension, one.tension, atol=1e-5)
        np.testing.assert_allclose(found.hessian, one.hessian, atol=1e-5 * np.abs(one.hessian).max())
        assert found.energy_j == pytest.approx(one.energy_j, rel=1e-7)
        for mine, theirs in zip(plain.pulled(one.c, one.tension), rod.pulled(one.c, one.tension), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max() + 1e-15)


def test_a_taper_counts_in_an_update():
    robot = soft(Basis(), taper=TAPER)
    rod = Rod(robot)
    points = (*TAPER[:2], dataclasses.replace(TAPER[2], stiffness=3.0))
    backbone = dataclasses.replace(robot.segments[0].backbone, taper=points)
    stiffer = robot.changed(segments=(dataclasses.replace(robot.segments[0], backbone=backbone),))
    rod.update(stiffer)
    assert rod.arrays.stiffness.tobytes() == Rod(stiffer).arrays.stiffness.tobytes()
