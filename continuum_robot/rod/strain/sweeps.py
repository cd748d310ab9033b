# SPDX-License-Identifier: Apache-2.0
"""Sweeps along a rod's chain of steps in expressions of its coefficients, of the functions of rod/step.py.

One sweep out from the base and one back give momentum and forces without Jacobians; one out gives the root of the mass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.rod.code.shared import product_function, sparse
from continuum_robot.rod.step import (
    REACH_RAD,
    carry_functions,
    jacobian_step_function,
    local_load_function,
    own_motion_function,
    step_force_function,
    tangent_function,
)
from continuum_robot.rod.strain.kinematics import MagnusChain

Vector = NDArray[np.float64]


def momentum_and_force(
    chain: MagnusChain, inertia: Vector, loads: Iterable[tuple[int, Vector]], c: Any, rate: Any
) -> tuple[Any, Any]:
    """Momentum, and dT/dc with the force of the loads, expressions (n,).

    Parameters
    ----------
    inertia : (k, 6, 6) of the stations about themselves in their own axes, kg.m^2, kg.m and kg
    loads : index of a station, and law (15,) of :func:`..step.load_wrench`
    c, rate : (n,) coefficients and rates
    """
    steps = len(chain.step_m)
    pattern = chain.pattern
    nodal, rest, at_nodes = _picked_strains(chain)
    strain, strain_rate = at_nodes(c) + rest, at_nodes(rate)
    lengths = ca.DM(chain.step_m.reshape(1, -1))
    turns, shifts, own = own_motion_function(pattern).map(steps)(strain, strain_rate, lengths)
    turn, shift, own = (ca.horzsplit(value) for value in (turns, shifts, own))
    out, back = carry_functions()
    load = local_load_function()
    rotation, twist = [ca.MX(ca.vec(ca.DM.eye(3)))], [ca.MX.zeros(6)]
    for k in range(steps):
        turned, moved = out(rotation[-1], twist[-1], turn[k], shift[k], own[k])
        rotation.append(turned)
        twist.append(moved)
    acting: dict[int, list[Any]] = {}
    for station, law in loads:
        acting.setdefault(station, []).append(law)
    pressed, loaded = ca.MX.zeros(6), ca.MX.zeros(6)
    momenta, wrenches = [pressed] * steps, [loaded] * steps
    for k in reversed(range(steps)):
        pressed += ca.MX(sparse(inertia[k + 1])) @ twist[k + 1]
        for law in acting.get(k + 1, []):
            loaded += load(rotation[k + 1], ca.DM(law))
        momenta[k], wrenches[k] = pressed, loaded
        pressed, loaded = back(turn[k], shift[k], pressed), back(turn[k], shift[k], loaded)
    on_rate, on_strain = step_force_function(pattern).map(steps)(
        ca.horzcat(*twist[:-1]), strain, strain_rate, lengths, ca.horzcat(*momenta), ca.horzcat(*wrenches)
    )
    from_nodes = product_function("rod_from_nodes", nodal.reshape(-1, chain.size).T)
    return from_nodes(ca.vec(on_rate)), from_nodes(ca.vec(on_strain))


def mass_root_function(chain: MagnusChain, inertia: Vector) -> ca.Function:
    """Of c: Jacobians of all stations in their own axes, times the roots of their inertia, (n, 6 k): the root of M.

    Parameters
    ----------
    inertia : (k, 6, 6) of the stations about themselves in their own axes, kg.m^2, kg.m and kg
    """
    pattern, n = chain.pattern, chain.size
    steps, picked = len(chain.step_m), len(pattern.picked)
    c = ca.MX.sym("c", n)
    nodal, rest, at_nodes = _picked_strains(chain)
    found = tangent_function(pattern, REACH_RAD).map(steps)(at_nodes(c) + rest, ca.DM(chain.step_m.reshape(1, -1)))
    turns, shifts, own = (ca.horzsplit(value, width) for value, width in zip(found, (3, 1, picked), strict=True))
    jacobian, roots = ca.MX.zeros(6, n), []
    for k, own_inertia in enumerate(inertia[1:]):
        moved = np.flatnonzero(nodal[k].any(axis=0))
        before, end = int(moved[0]), int(moved[-1]) + 1
        principal = not (own_inertia - np.diag(np.diag(own_inertia))).any()
        if principal:
            root = np.sqrt(np.diag(own_inertia))
        else:
            values, vectors = np.linalg.eigh(own_inertia)
            root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        by_own = nodal[k][:, before:end]
        step = jacobian_step_function(n, before, tuple(map(tuple, by_own != 0)), principal)
        jacobian, weighed = step(ca.vec(turns[k]), shifts[k], jacobian, own[k], sparse(by_own), ca.DM(root))
        roots.append(weighed)
    return ca.Function("rod_mass_root", [c], [ca.horzcat(*roots)])


def _picked_strains(chain: MagnusChain) -> tuple[Vector, ca.DM, Callable[[Any], Any]]:
    """Strains picked at the nodes of every step: per coefficient (k, m, n), at rest (m, k), and of a vector (m, k)."""
    picked = list(chain.pattern.picked)
    nodal = chain.nodal[:, picked]
    product = product_function("rod_at_nodes", nodal.reshape(-1, chain.size))
    return nodal, ca.DM(chain.rest[:, picked].T), lambda values: ca.reshape(product(values), len(picked), len(nodal))
