# SPDX-License-Identifier: Apache-2.0
"""Figures 5 and 6 of wang: the Jacobians as tangents of the paths that direct kinematics gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.experiment import Figures, Progress, Tolerance, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.experiments.wang.segment import IDEAL, LINEAR, MM, UM, in_plane, load_segment
from continuum_robot.mechanisms.equilibrium_modulation.equilibrium import modulated_equilibrium
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import (
    ModulatedJacobians,
    backbone_poses,
    end_pose,
    jacobians,
    macro_jacobian,
)
from continuum_robot.mechanisms.equilibrium_modulation.moment_error import MomentError
from continuum_robot.mechanisms.equilibrium_modulation.segment import ModulatedSegment
from continuum_robot.robot.schema import Quantity

Array = NDArray[Any]

_ANGLES = 12
_DEPTHS = 12
_CURVE = 200
_STEP_RAD, _STEP_M = 1e-5, 1e-6
_PARAMETER_STEPS = {"k_lambda0": 1e-6, "k_lambdaq": 1e-4, "k_lambda_theta": 1e-6}
_BACKBONE_STEP_M = 1e-7
_SPREAD = 0.1  # of a parameter, in the perturbed paths


@experiment(
    "wang.jacobians",
    "wang, figs 5 and 6",
    paper={
        "micro_lambda0_error": "checked by eye and by finite differences",
        "identification_from_tangent_median_deg": "both columns almost aligned with the tangent (section 6.3)",
    },
    tolerances={"*_error": Tolerance(absolute=1e-7)},
)
def tangents(
    progress: Progress,
    theta_deg: Annotated[float, Quantity("nominal bending angle of the micro motion", "deg", ge=1, le=89)] = 30.0,
    depth_mm: Annotated[float, Quantity("insertion during the macro motion", "mm", ge=0, le=44)] = 20.0,
) -> Any:
    """Macro, micro and identification Jacobian as tangents of direct kinematics, and how exact they are."""
    segment, _, _ = load_segment()
    theta, depth = float(np.deg2rad(theta_deg)), depth_mm / MM
    angles = np.deg2rad(np.linspace(15, 85, _ANGLES))
    depths = np.linspace(0.0, segment.length_m * 0.98, _DEPTHS)
    numbers: dict[str, object] = {}
    progress("macro motion")
    macro = jacobians(segment, angles, 0.0, depth, LINEAR)
    numbers["macro_configuration_error"] = _error(
        macro.macro_psi[:, :3, 0], _slope(lambda step: (angles + step, 0.0, depth, LINEAR), segment, _STEP_RAD)
    )
    numbers["macro_backbones_error"] = _backbones_error(segment, angles, depth, macro)
    for name, moment_error in (("lambda0", IDEAL), ("lambda_linear", LINEAR)):
        progress(f"micro motion, {name}")
        micro = jacobians(segment, theta, 0.0, depths, moment_error)
        slope = _slope(lambda step, error=moment_error: (theta, 0.0, depths + step, error), segment, _STEP_M)
        numbers[f"micro_{name}_error"] = _error(micro.micro[:, :3], slope)
        numbers[f"micro_{name}_speed_um_per_mm"] = (np.linalg.norm(micro.micro[:, :3], axis=1) * 1e3).tolist()
    linear = jacobians(segment, theta, 0.0, depths, LINEAR)
    worst, angle = 0.0, []
    for column, (name, step) in enumerate(_PARAMETER_STEPS.items()):

        def moved(change: float, name: str = name) -> tuple[Any, ...]:
            return theta, 0.0, depths, replace(LINEAR, **{name: getattr(LINEAR, name) + change})

        worst = max(worst, _error(linear.identification[:, :3, column], _slope(moved, segment, step)))
    numbers["identification_error"] = worst
    # Where the wire is in, and away from the turn, where the path has no direction.
    for row in range(2, _DEPTHS):
        tangent = linear.micro[row, :3]
        for column in range(2):
            one = linear.identification[row, :3, column]
            cosine = float(abs(one @ tangent) / (np.linalg.norm(one) * np.linalg.norm(tangent)))
            angle.append(float(np.rad2deg(np.arccos(min(cosine, 1.0)))))
    numbers["identification_from_tangent_median_deg"] = float(np.median(angle))
    numbers["macro_speed_m_per_m"] = np.linalg.norm(macro_jacobian(segment, macro)[:, :3, 0], axis=1).tolist()

    def draw(figure: Figures) -> None:
        _draw_macro(figure, segment, angles, depth)
        _draw_micro(figure, segment, theta, depths)

    return numbers, draw


def _slope(arguments: Any, segment: ModulatedSegment, step: float) -> Array:
    """Derivative of the tip's position in direct kinematics, by differences of second order on one side.

    On one side, as the insertion cannot be less than nothing.
    """
    tips = [
        end_pose(modulated_equilibrium(segment, *arguments(index * step)), segment)[..., :3, 3] for index in range(3)
    ]
    return np.asarray((4 * tips[1] - 3 * tips[0] - tips[2]) / (2 * step))


def _backbones_error(segment: ModulatedSegment, angles: Array, depth: float, macro: ModulatedJacobians) -> float:
    """J_M against central differences over displacements of the backbones, taken through the inverse mapping."""
    J = macro_jacobian(segment, macro)
    worst = 0.0
    pulled = segment.backbone_displacement_m(angles, 0.0 * angles)
    for axis in (np.array([1.0, -0.5, -0.5]), np.array([0.0, 1.0, -1.0])):
        ends = []
        for sign in (1, -1):
            theta, delta = segment.configuration(pulled + sign * _BACKBONE_STEP_M * axis)
            ends.append(jacobians(segment, theta, delta, depth, LINEAR).pose[:, :3, 3])
        # Pulled in by q makes a backbone's length in the segment L - q.
        worst = max(worst, _error(-J[:, :3] @ axis, (ends[0] - ends[1]) / (2 * _BACKBONE_STEP_M)))
    return worst


def _error(found: Array, desired: Array) -> float:
    """Largest difference, of the largest entry."""
    return float(np.abs(found - desired).max() / np.abs(desired).max())


def _draw_macro(figure: Figures, segment: ModulatedSegment, angles: Array, depth_m: float) -> None:
    title = f"Macro motion at an insertion of {depth_m * MM:.3g} mm, J_M as arrows (wang, fig. 5)"
    with figure(title, name="wang_fig5", size=(5.2, 4.2)) as (_, axis):
        s = np.linspace(0, segment.length_m, 80)
        for theta in angles:
            state = modulated_equilibrium(segment, theta, 0.0, depth_m, LINEAR)
            points = in_plane(backbone_poses(state, segment, s)[:, :3, 3]) * MM
            inserted = s <= depth_m
            axis.plot(*points[~inserted].T, color=COLOURS[0], linewidth=0.8)
            axis.plot(*points[inserted].T, color=COLOURS[1], linewidth=0.8)
        theta = np.linspace(angles[0], angles[-1], _CURVE)
        path = in_plane(jacobians(segment, theta, 0.0, depth_m, LINEAR).pose[:, :3, 3]) * MM
        axis.plot(*path.T, color=REFERENCE, linewidth=0.8, label="tip, direct kinematics")
        found = jacobians(segment, angles, 0.0, depth_m, LINEAR)
        arrow = in_plane(-macro_jacobian(segment, found)[:, :3] @ np.array([1.0, -0.5, -0.5]))
        tip = in_plane(found.pose[:, :3, 3]) * MM
        axis.quiver(*tip.T, *arrow.T, angles="xy", scale_units="xy", scale=1.5, color=COLOURS[2], width=0.004)
        axis.set_xlim(-3, 34)
        axis.set_xlabel("x in mm")
        axis.set_ylabel("z in mm, up to down")
        axis.invert_yaxis()
        axis.set_aspect("equal")
        axis.legend(loc="upper right")


def _draw_micro(figure: Figures, segment: ModulatedSegment, theta: float, depths: Array) -> None:
    depth = np.linspace(0.0, depths[-1], _CURVE)

    def path(error: MomentError) -> Array:
        points = in_plane(jacobians(segment, theta, 0.0, depth, error).pose[:, :3, 3])
        return (points - start) * UM

    start = in_plane(jacobians(segment, theta, 0.0, 0.0, IDEAL).pose[:3, 3])
    title = f"Micro motion at theta = {np.rad2deg(theta):.4g} deg (wang, fig. 6)"
    with figure(title, 1, 3, name="wang_fig6", size=(9.6, 3.4)) as (_, axes):
        for axis, error, label in ((axes[0], IDEAL, "lambda = 0"), (axes[1], LINEAR, "lambda linear")):
            axis.plot(*path(error).T, color=REFERENCE, linewidth=0.8)
            found = jacobians(segment, theta, 0.0, depths, error)
            tip = (in_plane(found.pose[:, :3, 3]) - start) * UM
            arrow = in_plane(found.micro[:, :3]) * 2e3  # um for 2 mm of insertion
            axis.quiver(*tip.T, *arrow.T, angles="xy", scale_units="xy", scale=1, color=COLOURS[1], width=0.006)
            axis.set_title(f"J_mu, {label}")
        axis = axes[2]
        axis.plot(*path(LINEAR).T, color=REFERENCE, linewidth=0.8, label="lambda linear")
        for number, name in enumerate(("k_lambda0", "k_lambdaq")):
            color = COLOURS[number]
            value = getattr(LINEAR, name)
            for sign in (-1, 1):
                changed = replace(LINEAR, **{name: value * (1 + sign * _SPREAD)})
                style = {"label": f"{name} by {_SPREAD:.0%}"} if sign > 0 else {}
                axis.plot(*path(changed).T, ":", color=color, linewidth=1.0, **style)
            found = jacobians(segment, theta, 0.0, depths, LINEAR)
            tip = (in_plane(found.pose[:, :3, 3]) - start) * UM
            arrow = in_plane(found.identification[:, :3, number]) * UM * value * _SPREAD
            axis.quiver(*tip.T, *arrow.T, angles="xy", scale_units="xy", scale=1, color=color, width=0.006)
        axis.set_title("J_k")
        axis.legend(loc="best")
        for one in axes:
            one.set_xlabel("x in um")
            one.set_ylabel("z in um")
            one.margins(0.12)
            one.invert_yaxis()
