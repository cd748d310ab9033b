# SPDX-License-Identifier: Apache-2.0
"""Any case of the five-link mechanism of ha, in the units and names of its figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.ha import mechanism as ha
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.mechanisms.rolling_joint.displacement import solve_displacement
from continuum_robot.mechanisms.rolling_joint.statics import Equilibrium, Load, RollingStatics
from continuum_robot.mechanisms.rolling_joint.surfaces import NoEquilibriumError
from continuum_robot.robot.schema import Quantity

_LOAD_KEY = re.compile(r"(f|m)_ext(?:_([xy]))?_on_link(\d+)(_body)?")
_KEYS = ("tau_l", "tau_r", "tendon_len_l_r", "friction", "direction_l_r")
_RESULTS = ("link_pose_x_y_theta", "s_contact", "f_contact_xy")
_CASE_KEYS = ", ".join(_KEYS) + (
    ", f_ext_x_on_link<i>, f_ext_y_on_link<i>, m_ext_on_link<i>; the latter with _body behind it where a load turns"
    " with its link"
)


def solve_case(
    statics: RollingStatics, case: Mapping[str, Any]
) -> tuple[dict[str, Any], Equilibrium | None, list[Load]]:
    """Solve one case."""
    loads = _loads(case)
    result: dict[str, Any] = {}
    error_mm = 0.0
    found: Equilibrium | None = None
    try:
        if "tau_l" in case or "tau_r" in case:
            tension = [_number(case, "tau_l"), _number(case, "tau_r")]
            mu = _number(case, "friction", 0.0)
            if mu:
                direction = case.get("direction_l_r", [0, 0])
                found = ha.equilibrium_with_friction(statics, tension, mu, direction, loads)
            else:
                found = statics.solve_tension(tension, loads)
            converged = True
        elif "tendon_len_l_r" in case:
            desired = np.asarray(case["tendon_len_l_r"], dtype=float) / ha.MM
            nearest = solve_displacement(statics, desired, loads)
            found, converged, error_mm = nearest.equilibrium, nearest.converged, nearest.residual_m * ha.MM
        else:
            raise ParameterError("case", sorted(case), "tensions tau_l and tau_r, or lengths tendon_len_l_r")
    except (NoEquilibriumError, ConvergenceError) as problem:
        result["problem"] = str(problem)
        converged = False
    if found is not None:
        result |= {
            "link_pose_x_y_theta": (found.poses * [ha.MM, ha.MM, 1.0]).tolist(),
            "s_contact": (found.contact_m * ha.MM).tolist(),
            "tendon_len_l_r": (found.tendon_length_m * ha.MM).tolist(),
            "f_contact_xy": found.contact_force_n.tolist(),
        }
        result["residual"] = found.residual
        result["tau_l_r"] = found.tension_n.tolist()
        result["tendon_length_error_mm"] = error_mm
        result["stable"] = found.stable
        result["lifted_joints"] = list(found.lifted_joints)
        result["needed_surface_friction"] = found.needed_friction
        result["iterations"] = found.iterations
    result["converged"] = converged
    return result, found, loads


def _loads(case: Mapping[str, Any]) -> list[Load]:
    loads = []
    for key in case:
        match = _LOAD_KEY.fullmatch(key)
        if match is None or (match[1] == "f") != (match[2] is not None):
            # A case with its results beside it may be given as it is.
            if key in (*_KEYS, *_RESULTS) or key.startswith(("residual", "ms_")):
                continue
            raise ParameterError("case", key, f"one of the keys {_CASE_KEYS}")
        value, link, frame = _number(case, key), int(match[3]), "body" if match[4] else "world"
        if match[1] == "m":
            loads.append(Load(link, moment_nm=value / ha.MM, frame=frame))
        else:
            loads.append(Load(link, (value, 0.0) if match[2] == "x" else (0.0, value), frame=frame))
    return loads


def _number(case: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = case.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ParameterError(f"case: {key}", value, "a finite number")
    return float(value)


@experiment(
    "ha.solve",
    "ha, sections IV and V",
    paper={"converged": True},
    not_stored="one case that is chosen by its options",
)
def solve(
    progress: Progress,
    case: Annotated[
        str,
        Quantity(
            'JSON: tensions {"tau_l":6,"tau_r":3}, or tendon lengths {"tendon_len_l_r":[90,100]}; loads'
            ' "f_ext_x_on_link5":1.0; tendon friction "friction":0.1,"direction_l_r":[1,-1]',
            filled=True,
        ),
    ] = '{"tau_l":3,"tau_r":1}',
    robot: Annotated[str, Quantity("robot file, or the name of a shipped rolling-joint robot", filled=True)] = ha.ROBOT,
) -> Any:
    """One case of the five-link mechanism: poses, contacts and tendon lengths for tensions or tendon lengths."""
    try:
        asked = json.loads(case)
    except json.JSONDecodeError as error:
        raise ParameterError("case", case, f"a JSON object ({error})") from error
    if not isinstance(asked, dict):
        raise ParameterError("case", case, "a JSON object")
    progress("solving")
    statics = ha.make_statics(robot)
    try:
        numbers, found, loads = solve_case(statics, asked)
    except (TypeError, ValueError) as error:
        if isinstance(error, ContinuumRobotError):
            raise
        raise ParameterError("case", case, f"numbers where numbers belong ({error})") from error

    def draw(figure: Figures) -> None:
        with figure(json.dumps(asked), size=(5.0, 5.5)) as (_, axis):
            if found is not None:
                ha.draw_mechanism(axis, statics, found, color=COLOURS[0], loads=loads)
            else:
                axis.set_title(str(numbers["problem"]), fontsize=7, wrap=True)
            axis.set(xlabel="x in mm", ylabel="y in mm")

    return numbers, draw
