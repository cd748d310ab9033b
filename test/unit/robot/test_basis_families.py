# SPDX-License-Identifier: Apache-2.0
"""Families of functions for strains: against other libraries, as a robot file names them, and those of others."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline as ScipyBSpline

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot import basis as basis_families
from continuum_robot.robot import doors
from continuum_robot.robot.basis import SHIPPED, Basis, BasisFamily, basis_family, register

RATIOS = np.linspace(0.0, 1.0, 41)
ORDERS = st.integers(0, 24)


def table(name: str, order: int, ratios=RATIOS) -> np.ndarray:
    return np.array([basis_family(name).values(float(ratio), order) for ratio in ratios])


@pytest.mark.parametrize("order", [0, 1, 2, 7, 24])
def test_polynomials_are_numpys(order):
    chebyshev = np.polynomial.chebyshev.chebvander(2 * RATIOS - 1, order)
    np.testing.assert_allclose(table("chebyshev", order), chebyshev, atol=1e-12)
    legendre = np.polynomial.legendre.legvander(2 * RATIOS - 1, order)
    np.testing.assert_allclose(table("legendre", order), legendre, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 9, 24])
def test_splines_are_scipys(order):
    family = basis_family("b_spline")
    degree = family.degree(order)
    knots = np.concatenate([np.zeros(degree + 1), family.breaks(order), np.ones(degree + 1)])
    theirs = ScipyBSpline.design_matrix(RATIOS, knots, degree).toarray()
    np.testing.assert_allclose(table("b_spline", order), theirs, atol=1e-14)


@given(order=ORDERS, ratio=st.floats(0.0, 1.0), name=st.sampled_from(["b_spline", "piecewise_constant"]))
def test_local_functions_are_not_negative_and_sum_up_to_one(order, ratio, name):
    values = np.array(basis_family(name).values(ratio, order))
    assert len(values) == order + 1
    assert np.all(values >= 0.0)
    assert values.sum() == pytest.approx(1.0)


@given(order=ORDERS, name=st.sampled_from(sorted(SHIPPED)))
def test_functions_are_polynomials_of_their_degree_between_the_breaks(order, name):
    family = basis_family(name)
    degree = family.degree(order)
    for low, high in pairwise((0.0, *family.breaks(order), 1.0)):
        nodes = low + (high - low) * (1 - np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))) / 2
        between = low + (high - low) * np.array([0.03, 0.4, 0.81])
        nodes_x, between_x = (2 * (ratios - low) / (high - low) - 1 for ratios in (nodes, between))
        coefficients = np.polynomial.chebyshev.chebfit(nodes_x, table(name, order, nodes), degree)
        fitted = np.polynomial.chebyshev.chebval(between_x, coefficients)
        np.testing.assert_allclose(fitted.T, table(name, order, between), atol=1e-9)


def test_a_robot_file_names_them():
    basis = Basis(kind="b_spline", bending_order=5, torsion_order=1)
    assert basis.rows == (0, 1) * 6 + (2, 2)
    assert basis.breaks == pytest.approx((1 / 3, 2 / 3))
    assert (basis.degree, basis.highest_order) == (3, 5)
    with pytest.raises(ContinuumRobotError, match="piecewise_constant") as caught:
        Basis(kind="wavelets", bending_order=1)
    assert "chebyshev_bending" in str(caught.value)
    with pytest.raises(ContinuumRobotError, match="bending_order"):
        Basis(kind="legendre", order=2)
    with pytest.raises(ContinuumRobotError, match="order for one strain"):
        Basis(kind="legendre")


class Sines:
    """A constant, and sines of growing frequency."""

    def values(self, ratio, order):
        return [1.0, *(np.sin(np.pi * k * ratio) for k in range(1, order + 1))]

    def breaks(self, _order):
        return ()

    def degree(self, order):
        return 6 + 4 * order


@pytest.fixture
def registered():
    yield
    basis_families._registered.clear()
    basis_family.cache_clear()


def test_a_program_adds_its_own(registered):
    register("sines", Sines)
    register("sines", Sines)  # the same again, as where a module is loaded twice
    assert isinstance(basis_family("sines"), BasisFamily)
    assert Basis(kind="sines", bending_order=3).coefficient_count == 8
    for taken in ("sines", "legendre"):
        with pytest.raises(ParameterError, match="no other basis family"):
            register(taken, type("Other", (Sines,), {}))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"values": lambda _self, _ratio, _order: [1.0]}, "3 finite functions"),
        ({"values": lambda _self, ratio, _order: [1.0, ratio, np.nan]}, "3 finite functions"),
        ({"values": lambda _self, ratio, _order: [1.0, ratio, 2 - 3 * ratio]}, "sum of others"),
        ({"breaks": lambda _self, _order: [0.5, 0.5]}, "ascending breaks"),
        ({"breaks": lambda _self, _order: [1.0]}, "ascending breaks"),
        ({"degree": lambda _self, _order: 99}, "degree from 0"),
    ],
)
def test_a_family_of_others_that_is_wrong_is_refused(registered, changed, named):
    register("wrong", type("Wrong", (Sines,), changed))
    with pytest.raises(ContinuumRobotError, match=named):
        Basis(kind="wrong", bending_order=2)


def test_what_is_no_family_is_refused(registered):
    register("nothing", object)
    with pytest.raises(ContinuumRobotError, match="methods values, breaks and degree"):
        Basis(kind="nothing", bending_order=2)


@dataclasses.dataclass
class Entry:
    name: str
    value: str
    made: object

    def load(self):
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


def test_an_installed_package_adds_its_own(registered, monkeypatch):
    entries = [Entry("sines", "their_package:Sines", Sines), Entry("gone", "gone:Gone", ImportError("No module"))]
    monkeypatch.setattr(doors, "entry_points", lambda *, group: entries if group.startswith("cont") else ())
    assert Basis(kind="sines", bending_order=1).coefficient_count == 4
    with pytest.raises(ContinuumRobotError, match=r"gone:Gone.*No module"):
        Basis(kind="gone", bending_order=1)
