# SPDX-License-Identifier: Apache-2.0
"""rucker (16) as CasADi functions: one integration step with its exact sensitivities, and the wrench across a cut.

State y = (p, q, n, m), 13 numbers: position and unit quaternion (w first) in the base frame, internal force and moment
of the rod in body axes, n = K_se (v - v*) and m = K_bt (u - u*), which stand for v and u by (4) without the rounding
that v - v* would suffer. The derivatives v', u' enter the load of a tendon linearly, (15); its matrices A, B, G, H are
the derivative of that load, taken automatically.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
from scipy.integrate import DOP853

from continuum_robot.rod.casadi_function import CasadiFunction

STATE = 13
SECTION = 12
ROUTING = 6
LOADS = 12
POINT_LOADS = LOADS + 9
STAGES = 12
STAGE_FRACTIONS = tuple(float(c) for c in DOP853.C[:STAGES])
"""Places of the stages in a step, as fractions of it; Dormand and Prince's method of eighth order."""


@dataclass(frozen=True, slots=True)
class CosseratFunctions:
    """Numeric functions for a number of tendons.

    Attributes
    ----------
    step : (y, step_m, section, tension, coupling, stages) -> y at the end, its Jacobian (13, 13), local errors (13, 2)
        of the embedded formulas of fifth and third order;
        ``stages`` of shape (12, 6 tendons + 12): for each stage the routing of every tendon and the loads per length
        (force and moment in base axes, then in body axes); ``coupling`` 0 leaves out the tendons' distributed load
    wrench : (y, section, tension_force, tension_moment, routing, load) -> force and moment in body axes that the part
        before a cut with state y bears, rod and tendons together, less point loads there, and its Jacobian (6, 13);
        ``load``: force and moment in base axes, then in body axes (12), and for forces in base axes that act off the
        backbone the sum of o F^T, row by row (9), o being the point of application in body axes
    """

    step: CasadiFunction
    wrench: CasadiFunction


@lru_cache(maxsize=16)
def cosserat_functions(tendons: int) -> CosseratFunctions:
    """The functions for a number of tendons.

    Parameters
    ----------
    tendons : how many

    Returns
    -------
    the functions
    """
    return CosseratFunctions(CasadiFunction(_step(tendons)), CasadiFunction(_wrench(tendons)))


def _rotation(q: Any) -> Any:
    """Rotation matrix of a quaternion, w first, of any norm."""
    w, x, y, z = ca.vertsplit(q)
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return ca.vertcat(*(ca.horzcat(*row) for row in rows)) / ca.sumsqr(q)


def _strains(n: Any, m: Any, section: Any) -> tuple[Any, Any]:
    v = section[6:9] + n / section[0:3]  # rucker (4)
    u = section[9:12] + m / section[3:6]  # rucker (4)
    return v, u


def _path(routing: Any) -> tuple[Any, Any, Any]:
    """r, r', r'' of a tendon as vectors of the body frame."""
    zero = ca.SX(1, 1)
    return tuple(ca.vertcat(routing[2 * k], routing[2 * k + 1], zero) for k in range(3))  # type: ignore[return-value]


def _tendon_loads(v: Any, u: Any, rates: Any, tension: Any, stage: Any) -> Any:
    """Force and moment per length of all tendons on the rod, in body axes, shape (6,)."""
    v_1, u_1 = rates[:3], rates[3:]
    force, moment = ca.SX(3, 1), ca.SX(3, 1)
    for j in range(tension.shape[0]):
        r, r_1, r_2 = _path(stage[ROUTING * j : ROUTING * (j + 1)])
        p_1 = ca.cross(u, r) + r_1 + v  # rucker (14)
        p_2 = ca.cross(u, p_1) + ca.cross(u_1, r) + ca.cross(u, r_1) + r_2 + v_1  # rucker (14)
        on_tendon = tension[j] * ca.cross(p_1, ca.cross(p_1, p_2)) / ca.norm_2(p_1) ** 3  # rucker (12)
        force -= on_tendon  # rucker (13)
        moment -= ca.cross(r, on_tendon)  # rucker (13)
    return ca.vertcat(force, moment)


def stage_function(tendons: int) -> ca.Function:
    """The rates of rucker (16), (y, section, tension, coupling, stage) -> y', and its Jacobian (13, 10) per
    (q, n, m).

    Arguments as of :attr:`CosseratFunctions.step`, ``stage`` being one row of its stages.

    Parameters
    ----------
    tendons : how many
    """
    y, section = ca.SX.sym("y", STATE), ca.SX.sym("section", SECTION)
    tension, coupling = ca.SX.sym("tension", tendons), ca.SX.sym("coupling")
    stage, rates = ca.SX.sym("stage", ROUTING * tendons + LOADS), ca.SX.sym("rates", 6)
    inner = y[3:]
    q, n, m = y[3:7], y[7:10], y[10:13]
    rotation, (v, u), loads = _rotation(q), _strains(n, m, section), stage[ROUTING * tendons :]
    tendon = coupling * _tendon_loads(v, u, rates, tension, stage)
    stiffness = section[:6]
    force = stiffness[:3] * rates[:3] + ca.cross(u, n) + rotation.T @ loads[0:3] + loads[6:9] + tendon[:3]
    moment = (
        stiffness[3:] * rates[3:] + ca.cross(u, m) + ca.cross(v, n) + rotation.T @ loads[3:6] + loads[9:12] + tendon[3:]
    )
    balance = ca.vertcat(force, moment)  # rucker (5) with (7); zero
    # Linear in the rates, with a symmetric positive definite matrix as long as no tendon pushes: rucker (16).
    matrix = ca.jacobian(balance, rates)
    root = ca.chol(matrix)
    inverse = ca.solve(root, ca.solve(root.T, ca.SX.eye(6)))
    solved = -inverse @ ca.substitute(balance, rates, ca.SX.zeros(6))
    derivative = ca.vertcat(
        rotation @ v,  # rucker (1)
        ca.vertcat(-ca.dot(q[1:], u), q[0] * u + ca.cross(q[1:], u)) / 2,  # rucker (1)
        stiffness * solved,
    )
    # The derivative of the implicit relation costs far less than that of its solution.
    jacobian = ca.vertcat(
        ca.jacobian(derivative[:7], inner),
        ca.diag(stiffness) @ (-inverse @ ca.substitute(ca.jacobian(balance, inner), rates, solved)),
    )
    return ca.Function(
        "cosserat_stage",
        [y, section, tension, coupling, stage],
        [ca.densify(derivative), ca.densify(jacobian)],
        {"cse": True, "never_inline": True},
    )


def _step(tendons: int) -> ca.Function:
    rate = stage_function(tendons)
    y, step_m, section = ca.MX.sym("y", STATE), ca.MX.sym("step_m"), ca.MX.sym("section", SECTION)
    tension, coupling = ca.MX.sym("tension", tendons), ca.MX.sym("coupling")
    stages = ca.MX.sym("stages", ROUTING * tendons + LOADS, STAGES)
    slopes: list[Any] = []
    sensitivities: list[Any] = []
    start = ca.vertcat(ca.DM(3, 10), ca.DM.eye(10))

    def combined(weights: Any, parts: list[Any]) -> Any:
        return sum(float(weight) * part for weight, part in zip(weights, parts, strict=True) if weight)

    for i in range(STAGES):
        place, sensitivity = y, start
        if i:
            place = y + step_m * combined(DOP853.A[i, :i], slopes)
            sensitivity = start + step_m * combined(DOP853.A[i, :i], sensitivities)
        slope, jacobian = rate(place, section, tension, coupling, stages[:, i])
        slopes.append(slope)
        sensitivities.append(jacobian @ sensitivity[3:, :])
    end = y + step_m * combined(DOP853.B, slopes)
    jacobian = ca.horzcat(ca.vertcat(ca.DM.eye(3), ca.DM(10, 3)), start + step_m * combined(DOP853.B, sensitivities))
    # The last stages of the embedded formulas are at the end of the step, where the last stage's routing holds.
    slopes.append(rate(end, section, tension, coupling, stages[:, STAGES - 1])[0])
    error = step_m * ca.horzcat(combined(DOP853.E5, slopes), combined(DOP853.E3, slopes))
    names = ["y", "step_m", "section", "tension", "coupling", "stages"]
    return ca.Function(
        f"cosserat_step_{tendons}",
        [y, step_m, section, tension, coupling, stages],
        [end, ca.densify(jacobian), error],
        names,
        ["y_end", "jacobian", "error"],
    )


def _wrench(tendons: int) -> ca.Function:
    y, section = ca.SX.sym("y", STATE), ca.SX.sym("section", SECTION)
    tension_force, tension_moment = ca.SX.sym("tension_force", tendons), ca.SX.sym("tension_moment", tendons)
    routing, load = ca.SX.sym("routing", ROUTING * tendons), ca.SX.sym("load", POINT_LOADS)
    rotation = _rotation(y[3:7])
    v, u = _strains(y[7:10], y[10:13], section)
    force = y[7:10] - rotation.T @ load[0:3] - load[6:9]
    moment = y[10:13] - rotation.T @ load[3:6] - load[9:12]
    arms = ca.reshape(load[12:21], 3, 3).T @ rotation  # sum of o (R^T F)^T
    moment -= ca.vertcat(arms[1, 2] - arms[2, 1], arms[2, 0] - arms[0, 2], arms[0, 1] - arms[1, 0])
    for j in range(tendons):
        r, r_1, _ = _path(routing[ROUTING * j : ROUTING * (j + 1)])
        p_1 = ca.cross(u, r) + r_1 + v
        tangent = p_1 / ca.norm_2(p_1)
        force += tension_force[j] * tangent  # rucker (18)
        moment += tension_moment[j] * ca.cross(r, tangent)  # rucker (19)
    wrench = ca.vertcat(force, moment)
    return ca.Function(
        f"cosserat_wrench_{tendons}",
        [y, section, tension_force, tension_moment, routing, load],
        [ca.densify(wrench), ca.densify(ca.jacobian(wrench, y))],
        {"cse": True},
    )
