# SPDX-License-Identifier: Apache-2.0
"""Tendon robots of two segments, or more, against converged static poses from elsewhere.

The file is JSON: ``robots`` by name, each with ``L`` (m, one a segment), ``E`` (Pa), ``nu``, ``backbone_radius`` (m)
and ``pitch_radius`` (m, one a segment); ``cases``, each with ``robot``, ``tension_N`` (three a segment, at 90, -30 and
210 degrees from +x; all run from the base), ``tip_force_base_frame_N``, ``tip_moment_base_frame_Nm`` and the expected
``tip_m``, and if known ``R_tip`` and ``tip_m_without_junction_load``, which leaves out the load of tendons that go on
past the end of a segment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError, ParameterError, RecordingError
from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS
from continuum_robot.experiments.rucker.two_solvers import Answers, solve_both
from continuum_robot.geometry import so3
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import solve
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import Load, PointWrench

Array = NDArray[np.float64]

_ANGLES_DEG = (90.0, -30.0, 210.0)
_REMEDY = "See continuum-robot experiment --list for what the file has to hold"


@dataclass(frozen=True, kw_only=True)
class TwoSegmentSettings:
    """Options of the experiment."""

    data: str = quantity("file of cases, JSON")
    order: int = quantity("order of all strains of the energy engine", default=8, ge=0, le=24)


@dataclass(frozen=True)
class PoseCase:
    """One case of the file, with what is expected of it; None where the file does not say."""

    rod: RodDescription
    tension_n: Array
    loads: tuple[Load, ...]
    tip_m: Array
    rotation: Array | None
    bare_tip_m: Array | None


def read_cases(file: Path, order: int) -> list[PoseCase]:
    """Read a file of cases."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        rods = {name: _rod(robot, name, order) for name, robot in content["robots"].items()}
        return [_case(rods[case["robot"]], case) for case in content["cases"]]
    except OSError as error:
        raise RecordingError(file, f"cannot be read ({error.strerror})", "Check the path") from error
    except KeyError as error:
        raise RecordingError(file, f"has no {error}", _REMEDY) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordingError(file, f"is not in the format of two_segment.json ({error})", _REMEDY) from error


def _rod(robot: Mapping[str, Any], name: str, order: int) -> RodDescription:
    lengths_m, pitch_radii_m = np.array(robot["L"], dtype=float), np.array(robot["pitch_radius"], dtype=float)
    if lengths_m.shape != pitch_radii_m.shape or lengths_m.ndim != 1:
        raise ParameterError(f"pitch_radius of {name}", robot["pitch_radius"], f"{lengths_m.size} radii, one a segment")
    radius_m, modulus_pa = float(robot["backbone_radius"]), float(robot["E"])
    if not (radius_m > 0 and modulus_pa > 0 and float(robot["nu"]) > -1):
        raise ParameterError(name, dict(robot), "backbone_radius and E above 0 and nu above -1")
    area, second_moment = math.pi * radius_m**2, math.pi / 4 * radius_m**4
    shear_modulus_pa = modulus_pa / (2 * (1 + float(robot["nu"])))
    bending, shear = modulus_pa * second_moment, shear_modulus_pa * area
    stiffness = (bending, bending, 2 * shear_modulus_pa * second_moment, shear, shear, modulus_pa * area)
    basis = Basis(kind="chebyshev", bending_order=order, torsion_order=order, shear_order=order, extension_order=order)
    ends_m = np.cumsum(lengths_m)
    paths = [
        RoutedPath(
            name=f"tendon {k + 1} of segment {i + 1}",
            start_m=0.0,
            end_m=float(end_m),
            pitch_radius_m=float(pitch_radius_m),
            angle_rad=math.radians(angle_deg),
        )
        for i, (end_m, pitch_radius_m) in enumerate(zip(ends_m, pitch_radii_m, strict=True))
        for k, angle_deg in enumerate(_ANGLES_DEG)
    ]
    segments = [RodSegment(length_m=float(length_m), basis=basis, stiffness=stiffness) for length_m in lengths_m]
    return RodDescription(segments=tuple(segments), tendon_paths=tuple(paths), name=name)


def _case(rod: RodDescription, case: Mapping[str, Any]) -> PoseCase:
    def vector(key: str, size: int) -> Array:
        value = np.array(case[key], dtype=float)
        if value.shape != (size,) or not np.all(np.isfinite(value)):
            raise ParameterError(key, case[key], f"{size} finite numbers")
        return value

    force, moment = vector("tip_force_base_frame_N", 3), vector("tip_moment_base_frame_Nm", 3)
    loads: tuple[Load, ...] = ()
    if np.any(force) or np.any(moment):
        loads = (PointWrench(s_m=rod.length_m, force_n=tuple(force.tolist()), moment_nm=tuple(moment.tolist())),)
    rotation = np.array(case["R_tip"], dtype=float).reshape(3, 3) if case.get("R_tip") is not None else None
    bare = "tip_m_without_junction_load"
    return PoseCase(
        rod,
        vector("tension_N", len(rod.tendon_paths)),
        loads,
        vector("tip_m", 3),
        rotation,
        vector(bare, 3) if case.get(bare) is not None else None,
    )


@experiment(
    "cosserat.two_segment",
    "converged poses of the robots of tdcr-modeling, in the reference data",
    paper={
        "max_tip_error_mm": "below 0.001, to which the reference is checked",
        "max_tip_error_mm_energy": "below 0.001",
    },
)
def two_segment(progress: Progress, settings: TwoSegmentSettings) -> Any:
    """Static tips of tendon robots of two segments, by boundary-value problem and by energy, against reference."""
    cases = read_cases(Path(settings.data), settings.order)
    answers: list[Answers] = []
    bare_tips = []
    for index, case in enumerate(cases):
        progress(f"case {index + 1} of {len(cases)}")
        answers.append(solve_both(case.rod, case.tension_n, case.loads))
        bare_tips.append(_bare_tip(case))
    expected = np.array([case.tip_m for case in cases]).reshape(-1, 3)
    tips = {
        "": np.array([answer.cosserat_tip_m for answer in answers]).reshape(-1, 3),
        "_energy": np.array([answer.energy_tip_m for answer in answers]).reshape(-1, 3),
    }
    numbers: dict[str, Any] = {
        "n_cases": len(cases),
        "n_converged": sum(answer.cosserat is not None for answer in answers),
        "n_converged_energy": sum(answer.energy is not None for answer in answers),
        "n_stable": sum(answer.stable for answer in answers),
    }
    errors = {key: 1e3 * np.linalg.norm(tip - expected, axis=1) for key, tip in tips.items()}
    for key, error in errors.items():
        numbers[f"max_tip_error_mm{key}"] = _largest(error)
    turned = [
        math.degrees(float(np.linalg.norm(so3.log(case.rotation.T @ answer.cosserat.tip_rotation))))
        for case, answer in zip(cases, answers, strict=True)
        if case.rotation is not None and answer.cosserat is not None
    ]
    if turned:
        numbers["max_tip_rotation_error_deg"] = max(turned)
    bare = [
        1e3 * float(np.linalg.norm(tip - case.bare_tip_m))
        for case, tip in zip(cases, bare_tips, strict=True)
        if case.bare_tip_m is not None
    ]
    if bare:
        numbers["max_tip_error_mm_without_junction_load"] = _largest(np.array(bare))
    for key, error in errors.items():
        numbers[f"tip_error_mm{key}"] = error.tolist()
        numbers[f"tip_m{key}"] = tips[key].tolist()
    numbers["tip_m_without_junction_load"] = [tip.tolist() for tip in bare_tips]
    numbers["problems"] = [problem for answer in answers for problem in answer.problems]
    return numbers, partial(_draw, errors, answers)


def _bare_tip(case: PoseCase) -> Array:
    try:
        return solve(cosserat_rod(case.rod), case.tension_n, case.loads, junction_load=False).tip_m
    except ConvergenceError:
        return np.full(3, np.nan)


def _largest(values: Array) -> float:
    """NaN where one is missing: a maximum over the rest would hide it."""
    return float(values.max()) if values.size else math.nan


def _draw(errors: Any, answers: Any, figure: Figures) -> None:
    with figure("Robots of two segments: backbones, and tips against reference", 1, 3, size=(9.0, 3.4)) as (
        _,
        axes,
    ):
        for k, answer in enumerate(answers):
            if answer.cosserat is None:
                continue
            backbone = answer.cosserat.at(np.linspace(0, answer.rod.length_m, 60)).position_m
            for axis, column in zip(axes, (0, 1), strict=False):
                axis.plot(backbone[:, column], backbone[:, 2], color=COLOURS[k % len(COLOURS)])
        for axis, name in zip(axes, "xy", strict=False):
            axis.set(xlabel=f"{name} in m", ylabel="z in m", aspect="equal")
        for (key, error), label in zip(errors.items(), ("boundary-value problem", "energy"), strict=True):
            axes[2].semilogy(np.arange(1, len(error) + 1), np.maximum(error, 1e-9), "o" if key else "x", label=label)
        axes[2].axhline(1e-3, color="0.5", linestyle="--", linewidth=0.8)
        axes[2].set(xlabel="case", ylabel="error of the tip in mm")
        axes[2].legend()
