# SPDX-License-Identifier: Apache-2.0
"""Two spellings of one basis are one robot: what follows from it has the same bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.rod import Rod
from continuum_robot.simulation.plant import Plant

FAMILIES = ("chebyshev", "legendre", "piecewise_constant", "b_spline")


@st.composite
def spellings(draw):
    """A basis in two spellings: polynomials of order 0 are the same in all families, those of order 1 in two."""
    bending = draw(st.integers(0, 4))
    others = {
        key: draw(st.sampled_from([None, 0, 1])) for key in ("torsion_order", "shear_order", "extension_order")
    }
    highest = max(bending, *(order or 0 for order in others.values()))
    families = [Basis(kind=kind, bending_order=bending, **others) for kind in FAMILIES[: {0: 4, 1: 2}.get(highest, 1)]]
    if all(order is None for order in others.values()):
        families.append(Basis(kind="chebyshev_bending", order=bending))
        if bending == 0:
            families.append(Basis(kind="constant_bending"))
    return draw(st.sampled_from(families)), draw(st.sampled_from(families))


def same(one, other):
    if isinstance(one, Basis):
        assert one.groups == other.groups
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, (list, tuple)):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert one == other or (one != one and other != other)


def robots(name, bases):
    robot = load_robot(name)
    return [
        robot.changed(segments=tuple(dataclasses.replace(one, basis=basis) for one in robot.segments))
        for basis in bases
    ]


@given(bases=spellings(), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize("name", ["opencr_five_tendon", "mixed_routing"])
def test_the_rod(name, bases, seed):
    one, other = robots(name, bases)
    same(one.traits, other.traits)
    rods = Rod(one), Rod(other)
    same(rods[0].arrays, rods[1].arrays)
    c, v = np.random.default_rng(seed).normal(0, 0.3, (2, rods[0].n))
    same(*(rod.terms(c, v) for rod in rods))
    same(*(rod.lengths(c) for rod in rods))
    tension = np.full(one.tendon_count, 3.0)
    same(*(rod.equilibrium(tension).c for rod in rods))


@given(bases=spellings())
@settings(deadline=None, max_examples=6)
def test_the_contact_monitor_and_the_plant(bases):
    found = []
    for robot in robots("mixed_routing", bases):
        plant, monitor = Plant(robot), ContactMonitor(robot, motors=True)
        for _ in range(20):
            plant.advance(np.linspace(2.0, 4.0, robot.tendon_count), 1e-3)
            noise = 1e-6 * np.eye(plant.c.size)
            estimate = monitor.update(plant.c, plant.c_rate, noise, 1e-3, tension=plant.tension)
        found.append([plant.c, plant.c_rate, plant.tension, estimate.residual, estimate.contact_threshold])
    same(*found)
