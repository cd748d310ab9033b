# SPDX-License-Identifier: Apache-2.0
"""Generated functions of one element and one node of a moving Cosserat rod."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import casadi as ca

from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.code.library import Progress
from continuum_robot.rod.cosserat.equations import SECTION

_PLACE = 4


_ELEMENT = 2 + SECTION


@lru_cache(maxsize=8)
def motion_functions(
    tendons: int, elements: int, compile: str, progress: Progress | None
) -> tuple[FastFunction, FastFunction, FastFunction]:
    """Forces of all elements, inertial forces of all cross-sections, stored energy of all elements.

    Parameters
    ----------
    tendons, elements : their numbers
    compile, progress : as in :func:`continuum_robot.rod.code.generation.compile_functions`
    """
    functions = [
        _over_all(_element_function(tendons), elements),
        _over_all(_node_function(), elements + 1),
        _over_all(_energy_function(tendons), elements),
    ]
    fast = compile_functions(functions, f"the moving rod of {elements} elements", compile=compile, progress=progress)
    element, node, energy = (fast[function.name()] for function in functions)
    return element, node, energy


def _over_all(function: ca.Function, count: int) -> ca.Function:
    """The function on ``count`` columns of each argument; one named ``step_s`` is the same for all."""
    symbols, arguments = [], []
    for k in range(function.n_in()):
        shared = function.name_in(k) == "step_s"
        symbols.append(ca.MX.sym(function.name_in(k), function.size1_in(k), 1 if shared else count))
        arguments.append(ca.repmat(symbols[-1], 1, count) if shared else symbols[-1])
    return ca.Function(f"{function.name()}_{count}", symbols, function.map(count).call(arguments))


def _multiplied(a: Any, b: Any) -> Any:
    """Product of quaternions, w first."""
    return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))


def _conjugate(q: Any) -> Any:
    return ca.vertcat(q[0], -q[1:])


def _rotated(q: Any, vector: Any) -> Any:
    """A vector turned by a quaternion of any norm."""
    across = ca.cross(q[1:], vector)
    return vector + 2 * (q[0] * across + ca.cross(q[1:], across)) / ca.sumsqr(q)


def _turning(q: Any) -> Any:
    """Change of a quaternion per turn in body axes, (4, 3)."""
    w, x, y, z = ca.vertsplit(q)
    rows = ([-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w])
    return ca.vertcat(*(ca.horzcat(*row) for row in rows)) / 2


def _moved(pose: Any, z: Any, fraction: float) -> tuple[Any, Any]:
    """Pose after a fraction of the step z: displacement in base axes, turn in body axes."""
    q = _multiplied(pose[3:7], ca.vertcat(1, fraction * z[3:6] / 2))
    return pose[:3] + fraction * z[:3], q / ca.norm_2(q)


def _strain(p_0: Any, q_0: Any, p_1: Any, q_1: Any, length_m: Any) -> Any:
    """(u, v) between two cross-sections, in the axes half-way between them; rucker (23)."""
    between = _multiplied(_conjugate(q_0), q_1)
    return ca.vertcat(2 * between[1:] / between[0], _rotated(_conjugate(q_0 + q_1), p_1 - p_0)) / length_m


def _material(element: Any) -> tuple[Any, Any, Any, Any]:
    """Length, damping time, stiffness and rest strain, angular parts first."""
    section = element[2:]
    return element[0], element[1], ca.vertcat(section[3:6], section[:3]), ca.vertcat(section[9:12], section[6:9])


def _tangent(strain: Any, routing: Any, j: int) -> tuple[Any, Any]:
    """Place of a tendon in the cross-section and its tangent per length at rest, rucker (14)."""
    start, zero = _PLACE * j, ca.SX(1, 1)
    r = ca.vertcat(routing[start : start + 2], zero)
    r_1 = ca.vertcat(routing[start + 2 : start + 4], zero)
    return r, ca.cross(strain[:3], r) + r_1 + strain[3:]


def _element_function(tendons: int) -> ca.Function:
    """(z_0, z_1, pose_0, pose_1, element, tension, routing, step_s) -> internal force (12), its Jacobian (12, 12)."""
    z_0, z_1 = ca.SX.sym("z_0", 6), ca.SX.sym("z_1", 6)
    pose_0, pose_1 = ca.SX.sym("pose_0", 7), ca.SX.sym("pose_1", 7)
    element, tension = ca.SX.sym("element", _ELEMENT), ca.SX.sym("tension", tendons)
    routing, step_s = ca.SX.sym("routing", _PLACE * tendons), ca.SX.sym("step_s")
    length_m, damping_s, stiffness, rest = _material(element)
    names = (("p_0", 3), ("q_0", 4), ("p_1", 3), ("q_1", 4))
    place = tuple(ca.SX.sym(name, size) for name, size in names)
    strain = _strain(place[0], place[1], place[2], place[3], length_m)
    lever = ca.horzcat(
        *(ca.horzcat(ca.jacobian(strain, p), ca.jacobian(strain, q) @ _turning(q)) for p, q in (place[:2], place[2:]))
    )
    at_place = ca.Function("strain", [*place, length_m], [strain, lever])

    def after(fraction: float) -> tuple[Any, Any]:
        result: tuple[Any, Any] = at_place(*_moved(pose_0, z_0, fraction), *_moved(pose_1, z_1, fraction), length_m)
        return result

    before, end = after(0.0)[0], after(1.0)[0]
    # The strain half-way in pose would be that of a chord: wrong by the stiffest strain times the turn squared.
    middle, lever = (before + end) / 2, after(0.5)[1]
    stress = stiffness * (middle - rest + damping_s * (end - before) / step_s)
    for j in range(tendons):
        r, p_j = _tangent(middle, routing, j)
        pull = tension[j] * p_j / ca.norm_2(p_j)
        stress += ca.vertcat(ca.cross(r, pull), pull)
    force = length_m * lever.T @ stress
    return ca.Function(
        f"cosserat_element_{tendons}",
        [z_0, z_1, pose_0, pose_1, element, tension, routing, step_s],
        [ca.densify(force), ca.densify(ca.jacobian(force, ca.vertcat(z_0, z_1)))],
        ["z_0", "z_1", "pose_0", "pose_1", "element", "tension", "routing", "step_s"],
        ["force", "jacobian"],
        {"cse": True},
    )


def _node_function() -> ca.Function:
    """Inertia, rucker (25), (26): (z, pose, rates, inertia, load, step_s) -> force less loads (6), its Jacobian."""
    z, pose, rates = ca.SX.sym("z", 6), ca.SX.sym("pose", 7), ca.SX.sym("rates", 6)
    inertia, load, step_s = ca.SX.sym("inertia", 4), ca.SX.sym("load", 12), ca.SX.sym("step_s")
    _, q = _moved(pose, z, 0.5)
    mean, change = z / step_s, 2 * (z / step_s - rates) / step_s
    force = inertia[0] * change[:3] - load[:3] - _rotated(q, load[6:9])
    spin = inertia[1:] * mean[3:]
    moment = inertia[1:] * change[3:] + ca.cross(mean[3:], spin) - _rotated(_conjugate(q), load[3:6]) - load[9:12]
    balance = ca.vertcat(force, moment)
    return ca.Function(
        "cosserat_node",
        [z, pose, rates, inertia, load, step_s],
        [balance, ca.densify(ca.jacobian(balance, z))],
        ["z", "pose", "rates", "inertia", "load", "step_s"],
        ["force", "jacobian"],
        {"cse": True},
    )


def _energy_function(tendons: int) -> ca.Function:
    """(pose_0, pose_1, element, tension, routing) -> elastic energy and tension times length of tendons."""
    pose_0, pose_1 = ca.SX.sym("pose_0", 7), ca.SX.sym("pose_1", 7)
    element, tension = ca.SX.sym("element", _ELEMENT), ca.SX.sym("tension", tendons)
    routing = ca.SX.sym("routing", _PLACE * tendons)
    length_m, _, stiffness, rest = _material(element)
    strain = _strain(pose_0[:3], pose_0[3:], pose_1[:3], pose_1[3:], length_m)
    density = ca.dot(stiffness * (strain - rest), strain - rest) / 2
    for j in range(tendons):
        density += tension[j] * ca.norm_2(_tangent(strain, routing, j)[1])
    return ca.Function(
        f"cosserat_energy_{tendons}",
        [pose_0, pose_1, element, tension, routing],
        [ca.densify(length_m * density)],
        ["pose_0", "pose_1", "element", "tension", "routing"],
        ["energy"],
    )
